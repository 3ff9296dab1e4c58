/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spec.c: conversions of printf formats: read, and applied to a number or a text. */
#include "kvmft/put.h"

static uint16_t spec_width(const char **p)
{
	unsigned int v = 0;

	for (; **p >= '0' && **p <= '9'; ++*p)
		v = MIN(v * 10 + (unsigned int)(**p - '0'), (unsigned int)SPEC_MOST);
	return (uint16_t)v;
}

bool spec_parse(const char **p, struct spec *s)
{
	int longs = 0;

	*s = (struct spec){ 0 };
	for (; **p && strchr("-+ #0", **p); ++*p) {
		s->left |= **p == '-';
		s->plus |= **p == '+';
		s->blank |= **p == ' ';
		s->alt |= **p == '#';
		s->zero |= **p == '0';
	}
	if (**p == '*') {
		s->star |= STAR_WIDTH;
		++*p;
	} else {
		s->width = spec_width(p);
	}
	if (**p == '.' && (*p)[1] == '*') {
		s->star |= STAR_PREC;
		*p += 2;
	} else if (**p == '.') {
		++*p;
		s->has_prec = true;
		s->prec = spec_width(p);
	}
	for (; **p && strchr("hlLzZjt", **p) && longs > -3 && longs < 3; ++*p)
		longs += **p == 'h' ? -1 : **p == 'L' ? 2 : 1;
	s->longs = (int8_t)longs;
	if (!**p || !strchr("cdiuoxXsp%", **p))
		return false;
	s->conv = **p == 'i' ? 'd' : **p;
	++*p;
	return true;
}

static char *put_repeat(char *p, char c, size_t n)
{
	memset(p, c, n);
	return p + n;
}

char *put_text(char *p, const struct spec *s, const char *text, size_t n)
{
	size_t pad;

	if (s->has_prec && n > s->prec)
		n = s->prec;
	pad = s->width > n ? s->width - n : 0;
	p = put_repeat(p, ' ', s->left ? 0 : pad);
	return put_repeat(put_mem(p, text, n), ' ', s->left ? pad : 0);
}

/* Digits of v, none for 0. */
static char *put_digits(char *p, uint64_t v, char conv)
{
	char *end;

	if (!v)
		return p;
	if (conv == 'x' || conv == 'X') {
		end = put_hex(p, v);
		for (; conv == 'X' && p < end; p++)
			*p = (char)(*p >= 'a' ? *p - 'a' + 'A' : *p);
		return end;
	}
	if (conv != 'o')
		return put_dec(p, v);
	end = p + (66 - __builtin_clzll(v)) / 3;
	for (p = end; v; v >>= 3)
		*--p = (char)('0' + (v & 7));
	return end;
}

char *put_number(char *p, const struct spec *s, uint64_t v)
{
	char buf[24 + PUT_SLACK], *end, prefix[3];
	size_t n, body, zeros = 0, pad, npre = 0;
	unsigned int shift = 64 - 8u * s->bytes;
	bool neg = s->conv == 'd' && (int64_t)(v << shift) < 0;

	if (s->conv == 'd')
		v = (uint64_t)((int64_t)(v << shift) >> shift);
	else
		v = v << shift >> shift;
	v = neg ? 0 - v : v;
	end = put_digits(buf, v, s->conv);
	if (end == buf && !(s->has_prec && !s->prec))
		*end++ = '0';
	n = (size_t)(end - buf);
	/* Sign or base in front of the digits. */
	if (neg || ((s->plus || s->blank) && s->conv == 'd'))
		prefix[npre++] = neg ? '-' : s->plus ? '+' : ' ';
	if (s->alt && (s->conv == 'x' || s->conv == 'X') && (v || !s->bare_zero)) {
		prefix[npre++] = '0';
		prefix[npre++] = s->conv;
	}
	if (s->has_prec && s->prec > n)
		zeros = s->prec - n;
	if (s->alt && s->conv == 'o' && !zeros && (!n || buf[0] != '0'))
		zeros = 1;
	body = npre + zeros + n;
	pad = s->width > body ? s->width - body : 0;
	if (pad && s->zero && !s->left && !s->has_prec) {
		zeros += pad;
		pad = 0;
	}
	p = put_repeat(p, ' ', s->left ? 0 : pad);
	p = put_mem(p, prefix, npre);
	p = put_repeat(p, '0', zeros);
	return put_repeat(put_mem(p, buf, n), ' ', s->left ? pad : 0);
}

/* What was put behind the text of b. */
static void spec_end(struct sbuf *b, char *end)
{
	*end = '\0';
	b->len = (size_t)(end - b->s);
}

void sbuf_add_number(struct sbuf *b, const struct spec *s, uint64_t v)
{
	if (sbuf_room(b, SPEC_ROOM + (size_t)s->width + s->prec))
		spec_end(b, put_number(b->s + b->len, s, v));
}

void sbuf_add_text(struct sbuf *b, const struct spec *s, const char *text, size_t n)
{
	if (sbuf_room(b, SPEC_ROOM + s->width + n))
		spec_end(b, put_text(b->s + b->len, s, text, n));
}
