/* SPDX-License-Identifier: GPL-2.0-or-later */
/* columns.c: columns as wide as their contents. */
#include "kvmft/columns.h"

#include <ctype.h>
#include <stdarg.h>

/* Each is taken to be one column wide, as screen_cut() does. */
static int characters(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

void columns_put(struct columns *c, struct sbuf *b, const char *fmt, ...)
{
	unsigned int at = c->at++;
	char text[512];
	va_list ap;
	int n;

	if (at >= COLUMNS_MAX || c->hide >> at & 1)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = characters(text);
	if (!c->print) {
		c->width[at] = MAX(c->width[at], (unsigned int)n);
		return;
	}
	n = MAX((int)c->width[at] - n, 0);
	sbuf_addf(b, "%s%*s%s%*s", ((1u << at) - 1) & ~c->hide ? " " : "",
		  c->left >> at & 1 ? 0 : n, "", text, c->left >> at & 1 ? n : 0, "");
}

unsigned int columns_width(const struct columns *c)
{
	unsigned int sum = 0, n = 0;

	for (unsigned int i = 0; i < COLUMNS_MAX; i++) {
		if (!c->width[i] || c->hide >> i & 1)
			continue;
		sum += c->width[i];
		n++;
	}
	return sum + (n ? n - 1 : 0);
}

void columns_end(struct columns *c, struct sbuf *b)
{
	c->at = 0;
	if (!c->print)
		return;
	while (b->len && b->s[b->len - 1] == ' ')
		b->s[--b->len] = '\0';
	sbuf_addc(b, '\n');
}

/* Up to the next blank at which a line may be broken: not between a number and its unit. */
static size_t word_len(const char *s)
{
	size_t n = strcspn(s, " \n");

	while (n && s[n] == ' ' && isdigit((unsigned char)s[n - 1]) &&
	       (isalpha((unsigned char)s[n + 1]) || s[n + 1] == '%'))
		n += 1 + strcspn(s + n + 1, " \n");
	return n;
}

void text_wrap(struct sbuf *b, size_t from, const char *indent, unsigned int width)
{
	_cleanup_free_ char *text = width && from < b->len ? strdup(b->s + from) : NULL;
	const char *word = text;
	size_t column = 0;

	if (!text) {
		if (width && from < b->len)
			b->error = -ENOMEM;
		return;
	}
	b->len = from;
	while (*word) {
		size_t gap = strspn(word, " "), n = word_len(word + gap);

		if (column && column + gap + n > width) {
			sbuf_addf(b, "\n%s", indent);
			column = strlen(indent);
			word += gap;
			gap = 0;
		}
		sbuf_add_mem(b, word, gap + n);
		column += gap + n;
		word += gap + n;
		if (*word == '\n') {
			sbuf_addc(b, '\n');
			column = 0;
			word++;
		}
	}
}

void text_remarks(struct sbuf *b, const char *const *remark, size_t n, unsigned int width)
{
	size_t from = b->len;

	for (size_t i = 0; i < n; i++)
		sbuf_addf(b, "# %s\n", remark[i]);
	text_wrap(b, from, "#   ", width);
}
