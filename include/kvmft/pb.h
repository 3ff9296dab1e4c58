/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pb.h: the wire format of protocol buffers onto an sbuf, as far as a writer needs it: a message is
 * a sequence of fields; a field is its number and kind, then a varint, 8 bytes, or a length and
 * bytes. Nothing is built in memory, and an sbuf that ran out of memory takes no more.
 */
#pragma once

#include "kvmft/util.h"

#define PB_VARINT_MAX 10 /* bytes */
enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2 };

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

/* A field's number, 1 to 2^29 - 1, then its value or length. */
static inline void pb_field(struct sbuf *b, uint32_t field, enum pb_wire wire, uint64_t v)
{
	char *p;

	if (!sbuf_room(b, 2 * PB_VARINT_MAX))
		return;
	p = pb_put_varint(b->s + b->len, (uint64_t)field << 3 | wire);
	b->len = (size_t)(pb_put_varint(p, v) - b->s);
}

/* Also uint32, bool, enum. */
static inline void pb_u64(struct sbuf *b, uint32_t field, uint64_t v)
{
	pb_field(b, field, PB_VARINT, v);
}

/* int64, int32: not zigzag */
static inline void pb_s64(struct sbuf *b, uint32_t field, int64_t v)
{
	pb_field(b, field, PB_VARINT, (uint64_t)v);
}

void pb_varint(struct sbuf *b, uint64_t v); /* without a field */
void pb_fixed64(struct sbuf *b, uint32_t field, uint64_t v);
void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n);
/* A string; bytes that are not UTF-8, which parsers would refuse, become '?'. */
void pb_str(struct sbuf *b, uint32_t field, const char *text);
void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n);
/*
 * A nested message: fields up to pb_end(), which gets what pb_begin() returned. One longer than 127
 * bytes is moved there, to make room for its length.
 */
static inline size_t pb_begin(struct sbuf *b, uint32_t field)
{
	pb_field(b, field, PB_BYTES, 0);
	return b->len;
}

void pb_end_long(struct sbuf *b, size_t mark);

static inline void pb_end(struct sbuf *b, size_t mark)
{
	size_t n = b->len - mark;

	if (n < 0x80 && !b->error)
		b->s[mark - 1] = (char)n;
	else
		pb_end_long(b, mark);
}
