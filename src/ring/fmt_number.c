/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_number.c: numbers and texts as the kernel's printf shows them, which prints 0x0 for %#x of 0.
 *
 * Only what kernel print formats use: d u x X o c s with flags # 0 - +, width and precision.
 */
#include "fmt_plan.h"

static void add_repeat(struct pout *out, char c, size_t n)
{
	memset(out->p, c, n);
	out->p += n;
}

void plan_text(struct pout *out, const struct pspec *spec, const char *s, size_t n)
{
	size_t pad;

	if (spec->has_prec && n > spec->prec)
		n = spec->prec;
	pad = spec->width > n ? spec->width - n : 0;
	if (pad && !spec->left)
		add_repeat(out, ' ', pad);
	pout_mem(out, s, n);
	if (pad && spec->left)
		add_repeat(out, ' ', pad);
}

static bool plain_ascii(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return true;
}

void plan_foreign(struct pout *out, const struct pspec *spec, const char *s, size_t n)
{
	char *copy;

	if (plain_ascii(s, n)) {
		plan_text(out, spec, s, n);
		return;
	}
	copy = strndup(s, n); /* rare: names with control or UTF-8 characters */
	if (!copy) {
		out->to->error = -ENOMEM;
		return;
	}
	str_printable(copy);
	plan_text(out, spec, copy, strlen(copy));
	free(copy);
}

/* Digits of v, none for 0. */
static char *digits(char *p, uint64_t v, char conv)
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

void plan_hex(struct pout *out, uint64_t v)
{
	pout_mem(out, "0x", 2);
	out->p = put_hex(out->p, v);
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

/* Sign or base in front of the digits. */
static size_t number_prefix(const struct pspec *spec, bool neg, char prefix[3])
{
	size_t n = 0;

	if (neg)
		prefix[n++] = '-';
	else if (spec->plus && spec->conv == 'd')
		prefix[n++] = '+';
	if (spec->alt && (spec->conv == 'x' || spec->conv == 'X')) {
		prefix[n++] = '0';
		prefix[n++] = spec->conv;
	}
	return n;
}

void plan_number(struct pout *out, const struct pspec *spec, uint64_t v)
{
	char buf[24 + PUT_SLACK], *end, prefix[3];
	size_t n, body, zeros = 0, pad, npre;
	bool neg;

	v = truncated(v, spec->bytes, spec->conv == 'd', &neg);
	end = digits(buf, v, spec->conv);
	if (end == buf && !(spec->has_prec && !spec->prec))
		*end++ = '0';
	n = (size_t)(end - buf);
	npre = number_prefix(spec, neg, prefix);
	if (spec->has_prec && spec->prec > n)
		zeros = spec->prec - n;
	if (spec->alt && spec->conv == 'o' && !zeros && (!n || buf[0] != '0'))
		zeros = 1;
	body = npre + zeros + n;
	pad = spec->width > body ? spec->width - body : 0;
	if (pad && spec->zero && !spec->left && !spec->has_prec) {
		zeros += pad;
		pad = 0;
	}
	if (pad && !spec->left)
		add_repeat(out, ' ', pad);
	pout_mem(out, prefix, npre);
	add_repeat(out, '0', zeros);
	pout_mem(out, buf, n);
	if (pad && spec->left)
		add_repeat(out, ' ', pad);
}
