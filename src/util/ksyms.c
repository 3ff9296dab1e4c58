/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms.c: lines of kallsyms, "ADDRESS TYPE NAME [MODULE]", sorted by address.
 */
#include "kvmft/ksyms.h"

#include <errno.h>
#include <string.h>

#define HEX_DIGITS 16

/* The word at *p, its end cut off; moves behind it. */
static char *take_word(char **p)
{
	char *word = *p + strspn(*p, " \t");

	*p = word + strcspn(word, " \t");
	if (**p)
		*(*p)++ = '\0';
	return word;
}

static bool take_address(char **p, uint64_t *addr)
{
	const char *word = take_word(p);
	size_t n = strlen(word);

	*addr = 0;
	if (!n || n > HEX_DIGITS)
		return false;
	for (; *word; word++) {
		int digit = str_hex_value(*word);

		if (digit < 0)
			return false;
		*addr = *addr << 4 | (unsigned int)digit;
	}
	return true;
}

/* "[kvm]" without its brackets. */
static const char *take_module(char *p)
{
	char *word = take_word(&p);
	size_t n = strlen(word);

	if (n < 3 || word[0] != '[' || word[n - 1] != ']')
		return "";
	word[n - 1] = '\0';
	str_printable(word + 1);
	return word + 1;
}

/* False: not a line of kallsyms, or not of a function. */
static bool parse_line(char *line, struct ksym *s)
{
	char *type, *name, *p = line;

	if (!take_address(&p, &s->addr) || !s->addr)
		return false;
	type = take_word(&p);
	if (strlen(type) != 1 || !strchr("tTwW", *type))
		return false;
	name = take_word(&p);
	if (!*name)
		return false;
	str_printable(name);
	s->type = *type;
	s->name = name;
	s->module = take_module(p);
	return true;
}

/* Names stand in the text in the order of its lines. */
static int by_address(const void *a, const void *b)
{
	const struct ksym *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void drop_aliases(struct ksyms *k)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++)
		if (!kept || k->v[kept - 1].addr != k->v[i].addr)
			k->v[kept++] = k->v[i];
	k->n = kept;
}

int ksyms_parse(struct ksyms *k, const char *text, size_t len)
{
	char *line, *next, *end;

	*k = (struct ksyms){ .text = malloc(len + 1) };
	if (!k->text)
		return -ENOMEM;
	memcpy(k->text, text, len);
	end = k->text + len;
	*end = '\0';
	for (line = k->text; line < end; line = next) {
		char *eol = memchr(line, '\n', (size_t)(end - line));
		struct ksym s = { 0 };

		next = eol ? eol + 1 : end;
		if (eol)
			*eol = '\0';
		if (parse_line(line, &s) && array_add(&k->v, &k->n, &k->cap, &s, sizeof(s))) {
			ksyms_free(k);
			return -ENOMEM;
		}
	}
	if (k->n)
		qsort(k->v, k->n, sizeof(*k->v), by_address);
	drop_aliases(k);
	return 0;
}

struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr)
{
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->v[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr - k->v[lo - 1].addr < KSYM_REACH ? &k->v[lo - 1] : NULL;
}

void ksyms_free(struct ksyms *k)
{
	free(k->text);
	free(k->v);
	*k = (struct ksyms){ 0 };
}
