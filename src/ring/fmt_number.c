/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_number.c: numbers and texts as the kernel's printf shows them, which has 0x0 for %#x of 0.
 *
 * Only what kernel print formats use: d u x X o c s with flags # 0 - +, width and precision.
 */
#include "fmt_plan.h"

#include <errno.h>
#include <string.h>

void pout_flush(struct pout *o)
{
	sbuf_add_mem(o->to, o->buf, o->n);
	o->n = 0;
}

static void add_repeat(struct pout *out, char c, size_t n)
{
	if (n > sizeof(out->buf) - out->n) /* n is at most PLAN_MAX_WIDTH */
		pout_flush(out);
	memset(out->buf + out->n, c, n);
	out->n += n;
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

/* Digits of v, most significant first, ending at end; returns where they begin. */
static char *digits(char *end, uint64_t v, char conv)
{
	static const char pair[] =
		"0001020304050607080910111213141516171819202122232425262728293031323334353637383940"
		"4142434445464748495051525354555657585960616263646566676869707172737475767778798081"
		"828384858687888990919293949596979899";
	const char *set = conv == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";

	if (conv == 'x' || conv == 'X') {
		for (; v; v >>= 4)
			*--end = set[v & 15];
		return end;
	}
	if (conv == 'o') {
		for (; v; v >>= 3)
			*--end = (char)('0' + (v & 7));
		return end;
	}
	for (; v >= 100; v /= 100) {
		end -= 2;
		memcpy(end, pair + 2 * (v % 100), 2);
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, pair + 2 * v, 2);
	} else if (v) {
		*--end = (char)('0' + v);
	}
	return end;
}

void plan_hex(struct pout *out, uint64_t v)
{
	char buf[18], *end = buf + sizeof(buf), *p = digits(end, v, 'x');

	if (p == end)
		*--p = '0';
	*--p = 'x';
	*--p = '0';
	pout_mem(out, p, (size_t)(end - p));
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

static size_t count_digits(uint64_t v, bool hex)
{
	uint64_t limit = 10;
	size_t n = 1;

	if (hex)
		return v ? (67u - (unsigned int)__builtin_clzll(v)) / 4 : 1;
	for (; n < 19 && v >= limit; n++)
		limit *= 10;
	return v >= limit ? n + 1 : n;
}

/* Straight into the output: most numbers of most events. */
static void simple_number(struct pout *out, const struct pspec *spec, uint64_t v)
{
	size_t n = count_digits(v, spec->conv == 'x' || spec->conv == 'X');
	char *to;

	n = MAX(n, (size_t)spec->width);
	if (sizeof(out->buf) - out->n < PLAN_SIMPLE_WIDTH)
		pout_flush(out);
	to = out->buf + out->n;
	if (spec->width)
		memset(to, '0', PLAN_SIMPLE_WIDTH);
	else if (!v)
		*to = '0';
	digits(to + n, v, spec->conv);
	out->n += n;
}

void plan_number(struct pout *out, const struct pspec *spec, uint64_t v)
{
	char buf[24], *end = buf + sizeof(buf), *p, prefix[3];
	size_t n, body, zeros = 0, pad, npre;
	bool neg;

	v = truncated(v, spec->bytes, spec->conv == 'd', &neg);
	if (spec->simple && !neg) {
		simple_number(out, spec, v);
		return;
	}
	p = digits(end, v, spec->conv);
	if (p == end && !(spec->has_prec && !spec->prec))
		*--p = '0';
	n = (size_t)(end - p);
	npre = number_prefix(spec, neg, prefix);
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
	pout_mem(out, prefix, npre);
	add_repeat(out, '0', zeros);
	pout_mem(out, p, n);
	if (pad && spec->left)
		add_repeat(out, ' ', pad);
}
