/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_check.c: whether a print format is one that libtraceevent may be given.
 *
 * Its parser was written for the running kernel and crashes on some damaged texts; formats of a
 * capture may come from anywhere. So the text must first match the grammar that kernels use:
 *
 *   print   := STRING+ { "," cond } end of line
 *   cond    := binary [ "?" cond ":" cond ]
 *   binary  := unary { OPERATOR unary }
 *   unary   := { "!" | "~" | "-" | CAST } primary
 *   primary := NUMBER | STRING+ | "REC->" FIELD [ "[" cond "]" ] | "(" cond ")" | call
 *   call    := __print_symbolic(cond, { cond, STRING } ...), and so on, see call[] below
 *
 * and each field be declared by names, stars and perhaps one pair of brackets. Recursion is bounded, every
 * FIELD must exist. Whatever does not match prints as name=value.
 */
#include "fmt_check.h"

#include <ctype.h>
#include <string.h>

#define MAX_DEPTH 48
#define MAX_OPS	  1500 /* libtraceevent recurses for each operator of a chain */

struct check {
	const struct fmt_event *e;
	const char *p;
	unsigned int depth, ops;
};

static bool cond(struct check *c);

static void blank(struct check *c)
{
	while (*c->p == ' ' || *c->p == '\t')
		c->p++;
}

static bool take(struct check *c, char want)
{
	blank(c);
	if (*c->p != want)
		return false;
	c->p++;
	return true;
}

static size_t name_len(const char *p)
{
	size_t n = 0;

	if (!isalpha((unsigned char)*p) && *p != '_')
		return 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static bool strings(struct check *c)
{
	unsigned int n = 0;

	for (blank(c); *c->p == '"'; blank(c), n++) {
		for (c->p++; *c->p != '"'; c->p++) {
			if (*c->p == '\\')
				c->p++;
			if (!*c->p || *c->p == '\n')
				return false;
		}
		c->p++;
	}
	return n && n < 64;
}

static bool number(struct check *c)
{
	size_t n = 0;

	if (c->p[0] == '0' && (c->p[1] == 'x' || c->p[1] == 'X')) {
		for (c->p += 2; isxdigit((unsigned char)c->p[n]); n++)
			;
	} else {
		while (isdigit((unsigned char)c->p[n]))
			n++;
	}
	c->p += n;
	c->p += strspn(c->p, "uUlL");
	return n && n <= 20 && !isalnum((unsigned char)*c->p) && *c->p != '_';
}

static bool field_name(struct check *c)
{
	size_t n;

	blank(c);
	n = name_len(c->p);
	if (!n || !fmt_find_fld(c->e, c->p, n))
		return false;
	c->p += n;
	return true;
}

/* VALUE of a table entry: an expression, or one name that the kernel did not resolve. */
static bool table_value(struct check *c)
{
	const char *from;
	size_t n;

	blank(c);
	from = c->p;
	n = name_len(from);
	c->p += n;
	blank(c);
	if (n && *c->p == ',')
		return true;
	c->p = from;
	return cond(c);
}

/* ", { VALUE, "NAME" } ...": at least one; "{ }" ends the table. */
static bool table(struct check *c)
{
	unsigned int n = 0;

	while (take(c, ',')) {
		if (!take(c, '{'))
			return false;
		if (!take(c, '}') && (!table_value(c) || !take(c, ',') || !strings(c) || !take(c, '}')))
			return false;
		if (n++ > FMT_MAX_SYMS)
			return false;
	}
	return n;
}

/* The array an array printer works on: a field, or dynamic data. */
static bool array(struct check *c)
{
	size_t n;

	blank(c);
	if (str_starts(c->p, "REC->")) {
		c->p += 5;
		return field_name(c);
	}
	n = name_len(c->p);
	if (n != strlen("__get_dynamic_array") || memcmp(c->p, "__get_dynamic_array", n))
		return false;
	c->p += n;
	return take(c, '(') && field_name(c) && take(c, ')');
}

static bool args_symbolic(struct check *c)
{
	return cond(c) && table(c);
}

static bool args_flags(struct check *c)
{
	return cond(c) && take(c, ',') && strings(c) && table(c);
}

static bool args_hex(struct check *c)
{
	return array(c) && take(c, ',') && cond(c);
}

static bool args_array(struct check *c)
{
	return array(c) && take(c, ',') && cond(c) && take(c, ',') && cond(c);
}

static bool args_expect(struct check *c)
{
	return cond(c) && take(c, ',') && cond(c);
}

static const struct {
	const char *name;
	bool (*args)(struct check *c);
} call[] = {
	{ "__print_symbolic", args_symbolic },
	{ "__print_flags", args_flags },
	{ "__print_hex", args_hex },
	{ "__print_hex_str", args_hex },
	{ "__print_array", args_array },
	{ "__get_str", field_name },
	{ "__get_rel_str", field_name },
	{ "__get_dynamic_array_len", field_name },
	{ "__get_rel_dynamic_array_len", field_name },
	{ "__builtin_expect", args_expect },
};

/* One of the calls above. A bare name is a constant that only the kernel knows: not printable. */
static bool known_call(struct check *c)
{
	size_t n = name_len(c->p), i;
	const char *name = c->p;

	if (!n)
		return false;
	c->p += n;
	blank(c);
	if (*c->p != '(')
		return false;
	for (i = 0; i < ARRAY_SIZE(call); i++) {
		if (strlen(call[i].name) != n || memcmp(call[i].name, name, n))
			continue;
		c->p++;
		return call[i].args(c) && take(c, ')');
	}
	return false;
}

/* "(unsigned long long)": names, blanks and trailing stars, and something behind it. */
static bool cast(struct check *c)
{
	const char *p = c->p;
	size_t n, names = 0;

	if (*p != '(')
		return false;
	for (p++; ; p += n, names++) {
		p += strspn(p, " ");
		n = name_len(p);
		if (!n)
			break;
	}
	p += strspn(p, " *");
	if (*p != ')' || !names || names > 6)
		return false;
	p++;
	p += strspn(p, " ");
	if (*p != '(' && *p != '"' && !isalnum((unsigned char)*p) && *p != '_')
		return false;
	c->p = p;
	return true;
}

static bool primary(struct check *c)
{
	if (isdigit((unsigned char)*c->p))
		return number(c);
	if (*c->p == '"')
		return strings(c);
	if (*c->p == '(') {
		c->p++;
		return cond(c) && take(c, ')');
	}
	if (str_starts(c->p, "REC->")) {
		c->p += 5;
		if (!field_name(c))
			return false;
		return !take(c, '[') || (cond(c) && take(c, ']'));
	}
	return known_call(c);
}

static bool unary(struct check *c)
{
	unsigned int n;

	for (n = 0; n < 8; n++) {
		blank(c);
		if (strchr("!~-", *c->p) && *c->p)
			c->p++;
		else if (!cast(c))
			break;
	}
	return n < 8 && ++c->ops <= MAX_OPS && primary(c);
}

static bool operator(struct check *c)
{
	static const char *const op[] = {
		"<<", ">>", "<=", ">=", "==", "!=", "&&", "||", /* longer ones first */
		"|", "&", "<", ">", "+", "-", "*", "/", "%",
	};
	size_t i;

	blank(c);
	for (i = 0; i < ARRAY_SIZE(op); i++) {
		if (str_starts(c->p, op[i])) {
			c->p += strlen(op[i]);
			return true;
		}
	}
	return false;
}

static bool cond(struct check *c)
{
	bool ok;

	if (c->depth >= MAX_DEPTH)
		return false;
	c->depth++;
	ok = unary(c);
	while (ok && operator(c))
		ok = unary(c);
	if (ok && take(c, '?'))
		ok = cond(c) && take(c, ':') && cond(c);
	c->depth--;
	return ok;
}

/* "unsigned long args[6]", "__data_loc char[] name": anything else makes libtraceevent lose memory. */
static bool declaration(const struct fmt_fld *f)
{
	static const char in_brackets[] = "+-*/() ";
	bool open = false, closed = false;

	for (size_t i = 0; i < f->decl_len; i++) {
		char c = f->decl[i];

		if (c == '[' && !open && !closed)
			open = true;
		else if (c == ']' && open && !closed)
			closed = true;
		else if (isalnum((unsigned char)c) || c == '_' || c == ' ' || c == '*')
			continue;
		else if (!open || closed || !strchr(in_brackets, c))
			return false;
	}
	return open == closed;
}

bool fmt_print_ok(const struct fmt_event *e)
{
	struct check c = { .e = e, .p = e->print };

	for (size_t i = 0; i < e->nfld; i++)
		if (!declaration(&e->fld[i]))
			return false;
	if (!e->print || !strings(&c))
		return false;
	while (take(&c, ','))
		if (!cond(&c))
			return false;
	blank(&c);
	return !*c.p || *c.p == '\n';
}
