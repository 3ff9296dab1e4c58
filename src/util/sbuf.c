/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sbuf.c: growable text.
 *
 * Code that builds text calls these dozens of times in a row; checking each call would drown it. So
 * a failed allocation sticks in b->error, later calls do nothing, and the result is checked once.
 */
#include "kvmft/put.h"

static const char hex_digit[] = "0123456789abcdef";

const uint64_t put_power[20] = {
	0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
	100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000,
	10000000000000000, 100000000000000000, 1000000000000000000, 10000000000000000000u,
};

bool sbuf_grow(struct sbuf *b, size_t n)
{
	size_t need, cap;
	char *s;

	if (b->error)
		return false;
	if (__builtin_add_overflow(b->len, n, &need) || __builtin_add_overflow(need, 1, &need))
		goto nomem;
	if (need <= b->cap)
		return true;
	if (need > SIZE_MAX / 2)
		goto nomem;
	cap = MAX(need, MAX(b->cap * 2, (size_t)64));
	s = realloc(b->s, cap);
	if (!s)
		goto nomem;
	b->s = s;
	b->cap = cap;
	return true;
nomem:
	b->error = -ENOMEM;
	return false;
}

void sbuf_add_slow(struct sbuf *b, const void *p, size_t n)
{
	if (!sbuf_room(b, n))
		return;
	if (n)
		memcpy(b->s + b->len, p, n);
	b->len += n;
	b->s[b->len] = '\0';
}

void sbuf_addf(struct sbuf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->error = -ENOMEM;
		return;
	}
	if (!sbuf_room(b, (size_t)n))
		return;
	va_start(ap, fmt);
	vsnprintf(b->s + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void sbuf_add_u64(struct sbuf *b, uint64_t v)
{
	char text[20]; /* 18446744073709551615 */
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	sbuf_add_mem(b, text + at, sizeof(text) - at);
}

void sbuf_add_s64(struct sbuf *b, int64_t v)
{
	if (v < 0)
		sbuf_addc(b, '-');
	/* Negated as unsigned: INT64_MIN has no positive counterpart. */
	sbuf_add_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void sbuf_add_hex(struct sbuf *b, uint64_t v)
{
	char text[16];
	size_t at = sizeof(text);

	do {
		text[--at] = hex_digit[v & 15];
		v >>= 4;
	} while (v);
	sbuf_add_mem(b, text + at, sizeof(text) - at);
}

const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sbuf_add_base64(struct sbuf *b, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? p[i + 1] : 0u) << 8 |
			     (i + 2 < n ? p[i + 2] : 0u);
		char s[4] = { base64_digits[v >> 18], base64_digits[v >> 12 & 63],
			      i + 1 < n ? base64_digits[v >> 6 & 63] : '=',
			      i + 2 < n ? base64_digits[v & 63] : '=' };

		sbuf_add_mem(b, s, sizeof(s));
	}
}

void sbuf_add_escaped(struct sbuf *b, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x21 || c > 0x7e || c == '%' || c == '=') {
			const char esc[3] = { '%', hex_digit[c >> 4], hex_digit[c & 15] };

			sbuf_add_mem(b, esc, sizeof(esc));
		} else {
			sbuf_addc(b, *text);
		}
	}
}

static bool is_formula(const char *text)
{
	return text && *text && strchr("=+-@\t\r", *text);
}

void sbuf_add_csv_quoted(struct sbuf *b, const char *text)
{
	sbuf_addc(b, '"');
	if (is_formula(text))
		sbuf_addc(b, '\'');
	for (; text && *text; text++) {
		if (*text == '"')
			sbuf_addc(b, '"');
		sbuf_addc(b, *text);
	}
	sbuf_addc(b, '"');
}

void sbuf_add_csv(struct sbuf *b, const char *text)
{
	if (text && strpbrk(text, ",\"\r\n")) {
		sbuf_add_csv_quoted(b, text);
		return;
	}
	if (is_formula(text))
		sbuf_addc(b, '\'');
	if (text)
		sbuf_add(b, text);
}

void sbuf_add_word(struct sbuf *b, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_./:@%+=,-";

	if (*text && !text[strspn(text, plain)]) {
		sbuf_add(b, text);
		return;
	}
	sbuf_addc(b, '\'');
	for (; *text; text++)
		if (*text == '\'')
			sbuf_add(b, "'\\''");
		else
			sbuf_addc(b, *text);
	sbuf_addc(b, '\'');
}

void sbuf_reset(struct sbuf *b)
{
	b->len = 0;
	if (b->s)
		b->s[0] = '\0';
}

void sbuf_free(struct sbuf *b)
{
	if (!b)
		return;
	free(b->s);
	*b = (struct sbuf){ 0 };
}

int sbuf_write(struct sbuf *b, FILE *f)
{
	int ret = b->error;

	if (!ret && b->len) {
		errno = 0;
		if (fwrite(b->s, 1, b->len, f) != b->len)
			ret = errno ? -errno : -EIO;
	}
	sbuf_reset(b);
	return ret;
}

char *sbuf_take(struct sbuf *b)
{
	char *s;

	sbuf_add_mem(b, NULL, 0); /* an empty one gets its NUL */
	if (b->error) {
		sbuf_free(b);
		return NULL;
	}
	s = b->s;
	*b = (struct sbuf){ 0 };
	return s;
}
