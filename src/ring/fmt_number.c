/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_number.c: numbers and texts as printf shows them, without printf.
 *
 * Only what kernel print formats use: d u x X o c s with flags # 0 - +, width and precision.
 */
#include "fmt_plan.h"

static void add_repeat(struct sbuf *out, char c, size_t n)
{
	static const char blanks[] = "                                ";
	static const char zeros[] = "00000000000000000000000000000000";
	const char *from = c == '0' ? zeros : blanks;

	while (n) {
		size_t k = MIN(n, sizeof(blanks) - 1);

		sbuf_add_mem(out, from, k);
		n -= k;
	}
}

void plan_text(struct sbuf *out, const struct pspec *spec, const char *s, size_t n)
{
	size_t pad;

	if (spec->has_prec && n > spec->prec)
		n = spec->prec;
	pad = spec->width > n ? spec->width - n : 0;
	if (pad && !spec->left)
		add_repeat(out, ' ', pad);
	sbuf_add_mem(out, s, n);
	if (pad && spec->left)
		add_repeat(out, ' ', pad);
}

/* Digits of v, most significant first, ending at end; returns where they begin. */
static char *digits(char *end, uint64_t v, char conv)
{
	const char *set = conv == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";

	if (conv == 'x' || conv == 'X') {
		for (; v; v >>= 4)
			*--end = set[v & 15];
	} else if (conv == 'o') {
		for (; v; v >>= 3)
			*--end = (char)('0' + (v & 7));
	} else {
		for (; v; v /= 10)
			*--end = (char)('0' + v % 10);
	}
	return end;
}

static uint64_t truncated(uint64_t v, unsigned int bytes, bool is_signed, bool *neg)
{
	unsigned int shift = 64 - 8 * bytes;
	int64_t s;

	*neg = false;
	if (!is_signed)
		return v << shift >> shift;
	s = (int64_t)(v << shift) >> shift;
	*neg = s < 0;
	return s < 0 ? 0 - (uint64_t)s : (uint64_t)s;
}

void plan_number(struct sbuf *out, const struct pspec *spec, uint64_t v)
{
	char buf[32], *end = buf + sizeof(buf), *p;
	size_t n, body, zeros = 0, pad, npre = 0;
	char prefix[3];
	bool neg;

	v = truncated(v, spec->bytes, spec->conv == 'd', &neg);
	p = digits(end, v, spec->conv);
	n = (size_t)(end - p);
	if (!n && !(spec->has_prec && !spec->prec)) {
		*--p = '0';
		n = 1;
	}
	if (neg)
		prefix[npre++] = '-';
	else if (spec->plus && spec->conv == 'd')
		prefix[npre++] = '+';
	if (spec->alt && v && (spec->conv == 'x' || spec->conv == 'X')) {
		prefix[npre++] = '0';
		prefix[npre++] = spec->conv;
	}
	if (spec->has_prec && spec->prec > n)
		zeros = spec->prec - n;
	if (spec->alt && spec->conv == 'o' && !zeros && (!n || *p != '0'))
		zeros = 1;
	body = npre + zeros + n;
	pad = spec->width > body ? spec->width - body : 0;
	if (pad && spec->zero && !spec->left && !spec->has_prec) {
		zeros += pad;
		pad = 0;
	}
	if (pad && !spec->left)
		add_repeat(out, ' ', pad);
	if (npre)
		sbuf_add_mem(out, prefix, npre);
	add_repeat(out, '0', zeros);
	sbuf_add_mem(out, p, n);
	if (pad && spec->left)
		add_repeat(out, ' ', pad);
}
