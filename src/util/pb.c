/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pb.c: protocol buffers, written. */
#include "kvmft/pb.h"

static size_t varint_len(uint64_t v)
{
	return ((size_t)(63 - __builtin_clzll(v | 1)) * 9 + 73) / 64;
}

char *pb_put_long(char *p, uint64_t v)
{
	uint64_t x = v & 0x00ffffffffffffff;
	size_t n = varint_len(v);

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
	if (sbuf_room(b, PB_VARINT_MAX))
		b->len = (size_t)(pb_put_varint(b->s + b->len, v) - b->s);
}

void pb_fixed64(struct sbuf *b, uint32_t field, uint64_t v)
{
	pb_varint(b, (uint64_t)field << 3 | PB_FIXED64);
	for (unsigned int k = 0; k < 64; k += 8)
		sbuf_addc(b, (char)(v >> k));
}

void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n)
{
	pb_field(b, field, PB_BYTES, n);
	sbuf_add_mem(b, p, n);
}

/* Makes the len bytes at p a string: bytes that are not UTF-8 become '?'. */
static void pb_fix_text(char *p, size_t len)
{
	uint64_t all = 0;
	size_t ascii = 0;

	for (; ascii + sizeof(all) <= len; ascii += sizeof(all))
		all |= load_u64(p + ascii);
	for (; ascii < len; ascii++)
		all |= (uint8_t)p[ascii];
	for (size_t i = 0; i < len && all & 0x8080808080808080;) {
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

void pb_end_long(struct sbuf *b, size_t mark)
{
	size_t n = b->len - mark, more = varint_len(n) - 1;

	if (b->error || !sbuf_room(b, PB_VARINT_MAX))
		return;
	memmove(b->s + mark + more, b->s + mark, n);
	pb_put_varint(b->s + mark - 1, n);
	b->len += more;
}
