/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_sym.c: the __print_symbolic() tables of a print format, for names of exit reasons.
 *
 *   (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, ...)
 *                   : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, ...)
 *
 * Found in the raw text, so that the names survive a print format newer than libtraceevent. An
 * entry whose value is no number (an enum the kernel did not resolve) is skipped.
 */
#include "fmt_priv.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define CALL "__print_symbolic("

static const char *skip_space(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\n')
		p++;
	return p;
}

/* Behind a string that starts at p[0] == '"'; the end of the text when it is not closed. */
static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

/* The next ',' or unmatched ')' behind p. */
static const char *arg_end(const char *p)
{
	int depth = 0;

	while (*p) {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (!depth && (*p == ',' || *p == ')'))
			return p;
		if (*p == '(' || *p == '{')
			depth++;
		if (*p == ')' || *p == '}')
			depth--;
		p++;
	}
	return p;
}

/* The first field named in the first argument. */
static const struct fmt_fld *arg_field(const struct fmt_event *e, const char *p, const char *end)
{
	const char *rec = memmem(p, (size_t)(end - p), "REC->", 5);
	size_t n = 0;

	if (!rec)
		return NULL;
	rec += 5;
	while (rec + n < end && (isalnum((unsigned char)rec[n]) || rec[n] == '_'))
		n++;
	return fmt_find_fld(e, rec, n);
}

static bool parse_or(const char **p, uint64_t *v, int depth);

static bool parse_primary(const char **p, uint64_t *v, int depth)
{
	const char *s = skip_space(*p);
	bool neg = false, ok = true;
	char *end;

	if (*s == '-') {
		neg = true;
		s = skip_space(s + 1);
	}
	if (*s == '(') {
		s++;
		ok = depth < 16 && parse_or(&s, v, depth + 1);
		s = skip_space(s);
		ok = ok && *s == ')';
		s += ok;
	} else if (isdigit((unsigned char)*s)) {
		errno = 0;
		*v = strtoull(s, &end, 0);
		ok = !errno;
		s = end + strspn(end, "uUlL");
	} else {
		ok = false;
	}
	if (neg)
		*v = 0 - *v;
	*p = s;
	return ok;
}

/* "0x040 + 14": exceptions of SVM */
static bool parse_sum(const char **p, uint64_t *v, int depth)
{
	uint64_t right;

	if (!parse_primary(p, v, depth))
		return false;
	while (*p = skip_space(*p), **p == '+') {
		(*p)++;
		if (!parse_primary(p, &right, depth))
			return false;
		*v += right;
	}
	return true;
}

static bool parse_shift(const char **p, uint64_t *v, int depth)
{
	uint64_t right;

	if (!parse_sum(p, v, depth))
		return false;
	while (*p = skip_space(*p), (*p)[0] == '<' && (*p)[1] == '<') {
		*p += 2;
		if (!parse_sum(p, &right, depth) || right > 63)
			return false;
		*v <<= right;
	}
	return true;
}

static bool parse_or(const char **p, uint64_t *v, int depth)
{
	uint64_t right;

	if (!parse_shift(p, v, depth))
		return false;
	while (*p = skip_space(*p), **p == '|') {
		(*p)++;
		if (!parse_shift(p, &right, depth))
			return false;
		*v |= right;
	}
	return true;
}

/* "{ VALUE, "NAME" }" at *p, moved behind it. 1, 0 when it is not of that form, -ENOMEM. */
static int parse_entry(struct fmt_symtab *t, const char **p)
{
	const char *s = skip_space(*p), *name, *close;
	struct fmt_sym *sym;
	uint64_t value;

	if (*s != '{')
		return 0;
	*p = arg_end(s);
	s++;
	if (!parse_or(&s, &value, 0) || *(s = skip_space(s)) != ',' ||
	    *(name = skip_space(s + 1)) != '"')
		return 1; /* skipped */
	close = skip_string(name);
	if (t->n >= FMT_MAX_SYMS || close - name < 2)
		return 1;
	sym = array_grow(&t->sym, t->n, &t->cap, sizeof(*sym));
	if (!sym)
		return -ENOMEM;
	sym->name = strndup(name + 1, (size_t)(close - name) - 2);
	if (!sym->name)
		return -ENOMEM;
	sym->value = t->field->f.size == 4 ? (uint32_t)value : value;
	sym->order = (uint32_t)t->n;
	t->n++;
	return 1;
}

static int by_value(const void *a, const void *b)
{
	const struct fmt_sym *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int parse_table(const struct fmt_event *e, const char *p)
{
	const char *end = arg_end(p);
	const struct fmt_fld *field = arg_field(e, p, end);
	struct fmt_lazy *lazy = e->lazy;
	struct fmt_symtab *t;
	int ret;

	if (!field || lazy->ntab >= 256)
		return 0;
	t = array_grow(&lazy->tab, lazy->ntab, &lazy->tab_cap, sizeof(*t));
	if (!t)
		return -ENOMEM;
	lazy->ntab++;
	t->field = field;
	for (p = end; *p == ','; ) {
		p++;
		ret = parse_entry(t, &p);
		if (ret < 0)
			return ret;
		if (!ret)
			break;
	}
	if (t->n)
		qsort(t->sym, t->n, sizeof(*t->sym), by_value);
	return 0;
}

/* Collects the __print_symbolic() tables of e->print; without memory, those that there was memory for. */
static void parse_symbols(const struct fmt_event *e)
{
	const char *p = e->print;
	int ret = 0;

	e->lazy->tab_tried = true;
	while (p && *p && !ret) {
		if (*p == '"') {
			p = skip_string(p);
		} else if (*p == CALL[0] && str_starts(p, CALL)) {
			p += strlen(CALL);
			ret = parse_table(e, p);
		} else {
			p++;
		}
	}
}

const char *fmt_symbol(const struct fmt_event *e, const char *field, unsigned int nth,
		       uint64_t value)
{
	const struct fmt_symtab *t = NULL;
	size_t i, lo, hi;

	if (!e->lazy->tab_tried)
		parse_symbols(e);
	for (i = 0; i < e->lazy->ntab; i++) {
		if (strcmp(e->lazy->tab[i].field->name, field))
			continue;
		if (!nth--) {
			t = &e->lazy->tab[i];
			break;
		}
	}
	if (!t)
		return NULL;
	if (t->field->f.size == 4)
		value = (uint32_t)value;
	for (lo = 0, hi = t->n; lo < hi; ) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->sym[mid].value < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->n && t->sym[lo].value == value ? t->sym[lo].name : NULL;
}

void fmt_free_symbols(struct fmt_lazy *lazy)
{
	size_t i, k;

	for (i = 0; i < lazy->ntab; i++) {
		for (k = 0; k < lazy->tab[i].n; k++)
			free(lazy->tab[i].sym[k].name);
		free(lazy->tab[i].sym);
	}
	free(lazy->tab);
}
