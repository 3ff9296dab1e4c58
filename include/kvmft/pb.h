/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pb.h: the wire format of protocol buffers onto an sbuf, as far as a writer needs it: a message is
 * a sequence of fields, a field its number and kind and then a varint, 8 bytes, or a length and
 * bytes. Nothing is built in memory, and an sbuf that ran out of memory takes no more.
 */
#ifndef KVMFT_PB_H
#define KVMFT_PB_H

#include "kvmft/util.h"

/* Field numbers are 1 to 2^29 - 1. */
void pb_varint(struct sbuf *b, uint64_t v); /* without a field: at most 10 bytes */
void pb_u64(struct sbuf *b, uint32_t field, uint64_t v); /* also uint32, bool, enum */
void pb_s64(struct sbuf *b, uint32_t field, int64_t v);	 /* int64, int32: not zigzag */
void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n);
/* A string; bytes that are no UTF-8 become '?', which parsers would refuse. */
void pb_str(struct sbuf *b, uint32_t field, const char *text);
void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n);
/*
 * A message within: fields up to pb_end(), which gets what pb_begin() returned. One that is longer
 * than 127 bytes is moved there, to make room for its length.
 */
size_t pb_begin(struct sbuf *b, uint32_t field);
void pb_end(struct sbuf *b, size_t mark);

/*
 * The same for what is written by the million: at p, where the caller has made room; returned is
 * the end of what was written.
 */
enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2 };

#define PB_VARINT_MAX 10 /* bytes */
/* The tag of a field below 16: one byte. */
#define PB_TAG(field, wire) ((char)((field) << 3 | (wire)))

static inline char *pb_put_varint(char *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (char)(v | 0x80);
	*p++ = (char)v;
	return p;
}

static inline size_t pb_varint_len(uint64_t v)
{
	return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

/*
 * The length of what stands behind the byte at `at`, up to end, goes there: all of it moves on
 * where one byte is not enough (PB_VARINT_MAX bytes behind end are there). The new end.
 */
static inline char *pb_put_len(char *at, char *end)
{
	size_t n = (size_t)(end - at) - 1, more = pb_varint_len(n) - 1;

	if (more)
		__builtin_memmove(at + 1 + more, at + 1, n);
	pb_put_varint(at, n);
	return end + more;
}

/* len bytes at p that are to be a string: those that are no UTF-8 become '?'. */
void pb_fix_text(char *p, size_t len);

#endif
