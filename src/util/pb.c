/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pb.c: protocol buffers, written. */
#include "kvmft/pb.h"

char *pb_put_long(char *p, uint64_t v)
{
	uint64_t x = v & 0x00ffffffffffffff;
	size_t n = pb_varint_len(v);

	/* Each group of 7 bits to its byte: halves, quarters, eighths. */
	x = (x & 0x00fffffff0000000) << 4 | (x & 0x000000000fffffff);
	x = (x & 0x0fffc0000fffc000) << 2 | (x & 0x00003fff00003fff);
	x = (x & 0x3f803f803f803f80) << 1 | (x & 0x007f007f007f007f);
	x |= 0x8080808080808080;
	if (n <= 8)
		x &= ~(0x80ull << 8 * (n - 1));
	memcpy(p, &x, sizeof(x));
	if (n > 8)
		p[8] = (char)(v >> 56 | (n > 9 ? 0x80 : 0));
	if (n > 9)
		p[9] = (char)(v >> 63);
	return p + n;
}

void pb_varint(struct sbuf *b, uint64_t v)
{
	char out[PB_VARINT_MAX];

	sbuf_add_mem(b, out, (size_t)(pb_put_varint(out, v) - out));
}

static void put_tag(struct sbuf *b, uint32_t field, enum pb_wire wire)
{
	pb_varint(b, (uint64_t)field << 3 | wire);
}

void pb_u64(struct sbuf *b, uint32_t field, uint64_t v)
{
	put_tag(b, field, PB_VARINT);
	pb_varint(b, v);
}

void pb_s64(struct sbuf *b, uint32_t field, int64_t v)
{
	pb_u64(b, field, (uint64_t)v);
}

void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n)
{
	put_tag(b, field, PB_BYTES);
	pb_varint(b, n);
	sbuf_add_mem(b, p, n);
}

void pb_fix_text(char *p, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = str_utf8_len(p + i, len - i);

		if (!n)
			p[i] = '?'; /* takes the place of one byte: the length stays */
		i += n ?: 1;
	}
}

void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n)
{
	pb_bytes(b, field, p, n);
	if (!b->error)
		pb_fix_text(b->s + b->len - n, n);
}

void pb_str(struct sbuf *b, uint32_t field, const char *text)
{
	pb_str_mem(b, field, text, strlen(text));
}

size_t pb_begin(struct sbuf *b, uint32_t field)
{
	put_tag(b, field, PB_BYTES);
	sbuf_addc(b, 0);
	return b->len;
}

void pb_end(struct sbuf *b, size_t mark)
{
	if (!b->error && sbuf_room(b, PB_VARINT_MAX))
		b->len = (size_t)(pb_put_len(b->s + mark - 1, b->s + b->len) - b->s);
}
