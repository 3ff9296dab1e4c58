/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pb.c: protocol buffers, written.
 */
#include "kvmft/pb.h"

#include <errno.h>
#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

#define LENGTH_BYTES 4 /* of a message: varints may have leading zero groups */

void pb_varint(struct sbuf *b, uint64_t v)
{
	uint8_t out[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	sbuf_add_mem(b, out, n);
}

static void put_tag(struct sbuf *b, uint32_t field, enum wire wire)
{
	pb_varint(b, (uint64_t)field << 3 | wire);
}

void pb_u64(struct sbuf *b, uint32_t field, uint64_t v)
{
	put_tag(b, field, WIRE_VARINT);
	pb_varint(b, v);
}

void pb_s64(struct sbuf *b, uint32_t field, int64_t v)
{
	pb_u64(b, field, (uint64_t)v);
}

void pb_fixed64(struct sbuf *b, uint32_t field, uint64_t v)
{
	uint8_t out[8];

	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(v >> 8 * i);
	put_tag(b, field, WIRE_FIXED64);
	sbuf_add_mem(b, out, sizeof(out));
}

void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n)
{
	put_tag(b, field, WIRE_BYTES);
	pb_varint(b, n);
	sbuf_add_mem(b, p, n);
}

void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n)
{
	const char *s = p;
	size_t at;

	pb_bytes(b, field, p, n); /* a '?' takes the place of one byte: the length stays */
	if (b->error)
		return;
	at = b->len - n;
	for (size_t i = 0; i < n;) {
		size_t len = str_utf8_len(s + i, n - i);

		if (!len)
			b->s[at + i] = '?';
		i += len ? len : 1;
	}
}

void pb_str(struct sbuf *b, uint32_t field, const char *text)
{
	pb_str_mem(b, field, text, strlen(text));
}

size_t pb_begin(struct sbuf *b, uint32_t field)
{
	static const uint8_t room[LENGTH_BYTES];

	put_tag(b, field, WIRE_BYTES);
	sbuf_add_mem(b, room, sizeof(room));
	return b->len;
}

void pb_end(struct sbuf *b, size_t mark)
{
	size_t n = b->len - mark;

	if (!b->error && n >> 7 * LENGTH_BYTES)
		b->error = -EFBIG;
	if (b->error)
		return;
	for (size_t i = 0; i < LENGTH_BYTES; i++, n >>= 7)
		b->s[mark - LENGTH_BYTES + i] =
			(char)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}
