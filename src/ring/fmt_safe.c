/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_safe.c: a print format, from any file, rewritten so that libtraceevent can be given it.
 *
 * Its parser was written for formats of the running kernel. On others it may crash or lose memory
 * (1.7.1: "1 / 0", an array element after a ':', a field that process_entry() does not find), and
 * its tree is not always what C means: process_op() groups a - b - c from the right, takes a || b
 * == c ? d : e for a || (...), forgets the parentheses of a right operand, and applies the operator
 * of !a == b to all that follows. So the text is parsed here first, by the grammar of kernels:
 *
 *   print   := STRING+ { "," cond } end of line
 *   cond    := binary [ "?" cond ":" cond ]
 *   binary  := unary { OPERATOR unary }, grouped as in C
 *   unary   := ( "!" | "~" | "-" | CAST ) unary | primary
 *   primary := NUMBER | STRING+ | "REC->" FIELD [ "[" cond "]" ] | "(" cond ")" | call
 *   call    := __print_symbolic(cond, { cond, STRING } ...), and so on, see calls[] below
 *
 * and rewritten with every operand in parentheses. Recursion is bounded, every FIELD must exist,
 * and must be declared by names, stars and perhaps one pair of brackets. What does not match prints
 * as name=value.
 */
#include "fmt_plan.h"

#include <ctype.h>

#define MAX_DEPTH 48
#define MAX_OPS	  1500 /* libtraceevent recurses for each operator of a chain */

struct reader {
	const struct fmt_event *e;
	const char *p;
	struct sbuf *out;
	unsigned int depth, ops;
};

static bool cond(struct reader *r);
static bool primary(struct reader *r);

/* n bytes are copied unchanged. */
static bool keep(struct reader *r, size_t n)
{
	sbuf_add_mem(r->out, r->p, n);
	r->p += n;
	return n;
}

static char next(struct reader *r)
{
	r->p += strspn(r->p, " \t");
	return *r->p;
}

static bool take(struct reader *r, char want)
{
	return next(r) == want && keep(r, 1);
}

/* Puts what was written since at into parentheses. */
static void group(struct reader *r, size_t at)
{
	struct sbuf *b = r->out;

	sbuf_add(b, "()");
	if (b->error)
		return;
	memmove(b->s + at + 1, b->s + at, b->len - 2 - at);
	b->s[at] = '(';
}

static bool grouped(struct reader *r, bool (*part)(struct reader *r))
{
	bool ok;

	sbuf_addc(r->out, '(');
	ok = part(r);
	sbuf_addc(r->out, ')');
	return ok;
}

static size_t name_len(const char *p)
{
	size_t n = 0;

	if (isdigit((unsigned char)*p))
		return 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static bool strings(struct reader *r)
{
	const char *end = r->p + strcspn(r->p, "\n"), *close;
	unsigned int n;

	for (n = 0; next(r) == '"' && n < 64; n++) {
		close = str_quoted_end(r->p, end + 1);
		if (close > end)
			return false;
		keep(r, (size_t)(close - r->p));
	}
	return n && n < 64;
}

static bool number(struct reader *r)
{
	bool hex = next(r) == '0' && (r->p[1] == 'x' || r->p[1] == 'X');
	size_t n = strspn(r->p + 2 * hex, hex ? "0123456789abcdefABCDEF" : "0123456789");

	if (!n || n > 20)
		return false;
	n += 2 * hex;
	n += strspn(r->p + n, "uUlL");
	return !isalnum((unsigned char)r->p[n]) && r->p[n] != '_' && keep(r, n);
}

static bool field(struct reader *r)
{
	size_t n;

	next(r);
	n = name_len(r->p);
	return n && fmt_find_fld(r->e, r->p, n) && keep(r, n);
}

/* VALUE, "NAME" of a table: an expression, or one name that the kernel did not resolve. */
static bool entry(struct reader *r)
{
	size_t n;

	next(r);
	n = name_len(r->p);
	if (!n || r->p[n + strspn(r->p + n, " \t")] != ',' || !keep(r, n))
		if (!grouped(r, cond))
			return false;
	return take(r, ',') && strings(r);
}

/* { VALUE, "NAME" }, ...: "{ }" ends the table, whatever follows. */
static bool table(struct reader *r)
{
	size_t end = 0;

	for (unsigned int n = 0; n <= FMT_MAX_SYMS && take(r, '{'); n++) {
		bool last = next(r) == '}';

		if (last)
			sbuf_add(r->out, FMT_NO_VALUE ",\"\"");
		if ((!last && !entry(r)) || !take(r, '}'))
			return false;
		if (last && !end)
			end = r->out->len;
		if (next(r) == ',') {
			keep(r, 1);
			continue;
		}
		if (end && !r->out->error)
			r->out->len = end;
		return true;
	}
	return false;
}

static const struct {
	const char *name, *args; /* c: cond, n: number, s: strings, f: field, a: array, t: table */
} calls[] = {
	{ "__print_symbolic", "(c,t)" },
	{ "__print_flags", "(c,s,t)" },
	{ "__get_dynamic_array", "(f)" }, /* allowed only for the next ones */
	{ "__print_hex", "(a,c)" },
	{ "__print_hex_str", "(a,c)" },
	{ "__print_array", "(a,c,c)" },
	{ "__get_str", "(f)" },
	{ "__get_rel_str", "(f)" },
	{ "__get_dynamic_array_len", "(f)" },
	{ "__get_rel_dynamic_array_len", "(f)" },
	{ "__builtin_expect", "(c,n)" },
};

/* A text that ends after the last argument is taken as closed. */
static bool end_of_text(struct reader *r)
{
	bool end = !*r->p || *r->p == '\n';

	sbuf_add(r->out, end ? ")" : "");
	return end;
}

static bool arguments(struct reader *r, const char *args)
{
	bool ok = true;

	for (; *args && ok; args++) {
		switch (*args) {
		case 'c': ok = grouped(r, cond); break;
		case 'n': ok = number(r); break;
		case 's': ok = strings(r); break;
		case 'f': ok = field(r); break;
		case 'a': ok = primary(r); break;
		case 't': ok = table(r); break;
		default: ok = take(r, *args) || (*args == ')' && end_of_text(r));
		}
	}
	return ok;
}

/* A bare name is a constant known only to the kernel: not printable. */
static bool call(struct reader *r)
{
	size_t n = name_len(r->p), i;

	for (i = 0; n && i < ARRAY_SIZE(calls); i++)
		if (strlen(calls[i].name) == n && !memcmp(calls[i].name, r->p, n))
			return keep(r, n) && arguments(r, calls[i].args);
	return false;
}

/* "(unsigned long long)": names, blanks and trailing stars, and something after it. */
static bool cast(struct reader *r)
{
	const char *p = r->p;
	size_t n, names = 0;

	if (*p != '(')
		return false;
	for (p++; p += strspn(p, " "), (n = name_len(p)); p += n)
		names++;
	p += strspn(p, " *");
	if (*p != ')' || !names || names > 6)
		return false;
	n = (size_t)(p + 1 - r->p);
	p += 1 + strspn(p + 1, " ");
	return (*p == '(' || *p == '"' || isalnum((unsigned char)*p) || *p == '_') && keep(r, n);
}

static bool primary(struct reader *r)
{
	static const char rec[] = "REC->";

	if (isdigit((unsigned char)next(r)))
		return number(r);
	if (*r->p == '"')
		return strings(r);
	if (*r->p == '(')
		return keep(r, 1) && cond(r) && take(r, ')');
	if (!str_starts(r->p, rec))
		return call(r);
	return keep(r, strlen(rec)) && field(r) &&
	       (!take(r, '[') || (grouped(r, cond) && take(r, ']')));
}

static bool unary(struct reader *r)
{
	bool ok, prefix = next(r) && strchr("!~-", *r->p);

	if (r->depth > MAX_DEPTH || ++r->ops > MAX_OPS)
		return false;
	if (!prefix && !cast(r))
		return primary(r);
	r->depth++;
	ok = prefix ? keep(r, 1) && grouped(r, unary) : unary(r);
	r->depth--;
	return ok;
}

/* The length of an operator that binds at least as tightly as *binds, which is set; or 0. */
static size_t operator_at(const char *p, unsigned int *binds)
{
	static const struct {
		char text[3];
		unsigned int binds;
	} list[] = { /* longer ones first */
		{ "<<", 8 }, { ">>", 8 }, { "<=", 7 }, { ">=", 7 }, { "==", 6 }, { "!=", 6 },
		{ "&&", 2 }, { "||", 1 }, { "<", 7 },  { ">", 7 },  { "*", 10 }, { "/", 10 },
		{ "%", 10 }, { "+", 9 },  { "-", 9 },  { "&", 5 },  { "|", 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (!str_starts(p, list[i].text))
			continue;
		if (list[i].binds < *binds)
			return 0;
		*binds = list[i].binds;
		return strlen(list[i].text);
	}
	return 0;
}

/* The cast, to no type, keeps libtraceevent from regrouping the right operand. */
static bool binary(struct reader *r, unsigned int min)
{
	size_t at = r->out->len, n;
	unsigned int binds;
	bool ok = unary(r);

	while (ok && next(r) && (binds = min, n = operator_at(r->p, &binds))) {
		group(r, at);
		keep(r, n);
		sbuf_add(r->out, "(kvmft_same)(");
		ok = binary(r, binds + 1);
		sbuf_addc(r->out, ')');
	}
	return ok;
}

static bool cond(struct reader *r)
{
	size_t at = r->out->len;
	bool ok;

	if (r->depth >= MAX_DEPTH)
		return false;
	r->depth++;
	ok = binary(r, 1);
	if (ok && next(r) == '?') {
		group(r, at);
		ok = keep(r, 1) && grouped(r, cond) && take(r, ':') && grouped(r, cond);
	}
	r->depth--;
	return ok;
}

/* "unsigned long args[6]", "__data_loc char[] name" */
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

bool fmt_safe(const struct fmt_event *e, const char *table_at, struct sbuf *out)
{
	struct reader r = { .e = e, .p = table_at ?: e->print, .out = out };

	for (size_t i = 0; i < e->nfld; i++)
		if (!declaration(&e->fld[i]))
			return false;
	if (table_at) {
		sbuf_add(out, "\"%s\",");
		return call(&r);
	}
	if (!r.p || !strings(&r))
		return false;
	while (take(&r, ','))
		if (!grouped(&r, cond))
			return false;
	return !next(&r) || *r.p == '\n';
}
