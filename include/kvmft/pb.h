/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pb.h: the wire format of protocol buffers onto an sbuf, as far as a writer needs it: a message is
 * a sequence of fields; a field is its number and kind, then a varint, 8 bytes, or a length and
 * bytes. Nothing is built in memory, and an sbuf that ran out of memory takes no more.
 */
#pragma once

#include "kvmft/util.h"

/* Field numbers are 1 to 2^29 - 1. */
void pb_varint(struct sbuf *b, uint64_t v);		 /* without a field: at most 10 bytes */
void pb_u64(struct sbuf *b, uint32_t field, uint64_t v); /* also uint32, bool, enum */
void pb_s64(struct sbuf *b, uint32_t field, int64_t v);	 /* int64, int32: not zigzag */
void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n);
/* A string; bytes that are not UTF-8, which parsers would refuse, become '?'. */
void pb_str(struct sbuf *b, uint32_t field, const char *text);
void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n);
/*
 * A nested message: fields up to pb_end(), which gets what pb_begin() returned. One longer than 127
 * bytes is moved there, to make room for its length.
 */
size_t pb_begin(struct sbuf *b, uint32_t field);
void pb_end(struct sbuf *b, size_t mark);

/*
 * The same for what is written by the million: at p, where the caller has made room; returns the
 * end of what was written.
 */
enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2 };

#define PB_VARINT_MAX 10 /* bytes */
/* The tag of a field below 16: one byte. */
#define PB_TAG(field, wire) ((char)((field) << 3 | (wire)))

static inline size_t pb_varint_len(uint64_t v)
{
	return ((size_t)(63 - __builtin_clzll(v | 1)) * 9 + 73) / 64;
}

/* One of more than 4 bytes, without a branch for each of them. */
char *pb_put_long(char *p, uint64_t v);

/* PB_VARINT_MAX bytes of room. */
static inline char *pb_put_varint(char *p, uint64_t v)
{
	if (v >> 28)
		return pb_put_long(p, v);
	for (; v >= 0x80; v >>= 7)
		*p++ = (char)(v | 0x80);
	*p++ = (char)v;
	return p;
}

/*
 * Writes the length of what follows the byte at `at`, up to end, there; if one byte is not enough,
 * everything is moved (PB_VARINT_MAX bytes after end must be available). The new end.
 */
static inline char *pb_put_len(char *at, char *end)
{
	size_t n = (size_t)(end - at) - 1, more;

	if (n < 0x80) {
		*at = (char)n;
		return end;
	}
	more = pb_varint_len(n) - 1;
	__builtin_memmove(at + 1 + more, at + 1, n);
	pb_put_varint(at, n);
	return end + more;
}

/* Makes the len bytes at p a string: bytes that are not UTF-8 become '?'. */
void pb_fix_text(char *p, size_t len);
