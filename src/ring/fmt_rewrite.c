/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_rewrite.c: a print format in words that libtraceevent reads as C does.
 *
 * Left alone it groups a - b - c from the right, takes "a || b == c ? d : e" for "a || (...)", takes
 * a conditional behind a ':' for one about everything before it, crashes on an element of an array
 * there, forgets the parentheses of a right operand as in "a & (b | c)", and knows no "{ }" at the end
 * of a table. So operands are grouped here, by parentheses; those of a right operand hide behind a
 * cast that changes nothing.
 *
 * The text has passed fmt_check.c: brackets and quotes match, nesting is bounded.
 */
#include "fmt_check.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

struct span {
	const char *p, *end;
};

/* operand { op operand }; op[i] stands behind operand[i] */
struct link {
	struct span operand, op;
	unsigned int binds;
};

static void rewrite_cond(struct sbuf *b, struct span s);

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

/* Behind the bracket that closes the one at *p. */
static const char *bracket_end(const char *p, const char *end)
{
	unsigned int depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = str_quoted_end(p, end);
			continue;
		}
		if (strchr("([{", *p))
			depth++;
		else if (strchr(")]}", *p) && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Behind one primary: a name with what belongs to it, a number, strings, something in brackets. */
static const char *primary_end(const char *p, const char *end)
{
	const char *q;

	while (p < end) {
		if (*p == '"')
			p = str_quoted_end(p, end);
		else if (strchr("([{", *p))
			p = bracket_end(p, end);
		else if (is_word(*p))
			p++;
		else if (*p == '-' && p + 1 < end && p[1] == '>')
			p += 2;
		else
			break;
		q = skip_blanks(p, end);
		if (q < end && (strchr("([\"", *q) || is_word(*q)))
			p = q; /* the next string, the arguments, what a cast is about */
	}
	return p;
}

static const char *operand_end(const char *p, const char *end)
{
	const char *q;

	for (;;) {
		p = skip_blanks(p, end);
		if (p < end && strchr("!~-", *p)) {
			p++;
			continue;
		}
		if (p == end || *p != '(')
			return primary_end(p, end);
		p = bracket_end(p, end);
		q = skip_blanks(p, end);
		if (q == end || !(strchr("(\"", *q) || is_word(*q)))
			return p;
	}
}

/* How tight an operator at p binds, as in C; 0 when there is none. */
static unsigned int operator_at(const char *p, const char *end, size_t *len)
{
	static const struct {
		const char *op;
		unsigned int binds;
	} list[] = { /* longer ones first */
		{ "<<", 8 }, { ">>", 8 }, { "<=", 7 }, { ">=", 7 }, { "==", 6 }, { "!=", 6 },
		{ "&&", 2 }, { "||", 1 }, { "<", 7 },  { ">", 7 },  { "*", 10 }, { "/", 10 },
		{ "%", 10 }, { "+", 9 },  { "-", 9 },  { "&", 5 },  { "|", 3 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(list); i++) {
		*len = strlen(list[i].op);
		if (*len <= (size_t)(end - p) && !memcmp(p, list[i].op, *len))
			return list[i].binds;
	}
	return 0;
}

/* A list in brackets or on the whole line: its elements are between commas. */
static void rewrite_list(struct sbuf *b, struct span s)
{
	const char *p = s.p, *from = s.p;

	while (p < s.end) {
		if (*p == '"') {
			p = str_quoted_end(p, s.end);
		} else if (strchr("([{", *p)) {
			p = bracket_end(p, s.end);
		} else if (*p == ',') {
			rewrite_cond(b, (struct span){ from, p });
			sbuf_addc(b, ',');
			from = ++p;
		} else {
			p++;
		}
	}
	rewrite_cond(b, (struct span){ from, s.end });
}

/* Names, blanks and stars: a type, or a name in parentheses. */
static bool is_type(const char *p, const char *end)
{
	while (p < end && (is_word(*p) || *p == ' '))
		p++;
	while (p < end && (*p == '*' || *p == ' '))
		p++;
	return p == end;
}

/* Everything but what is in brackets stays. */
static void rewrite_operand(struct sbuf *b, struct span s)
{
	const char *p = s.p, *q;

	while (p < s.end) {
		if (*p == '"') {
			q = str_quoted_end(p, s.end);
			sbuf_add_mem(b, p, (size_t)(q - p));
		} else if (strchr("([{", *p)) {
			q = bracket_end(p, s.end);
			sbuf_addc(b, *p);
			if (*p == '{' && skip_blanks(p + 1, s.end) == q - 1)
				sbuf_add(b, FMT_TABLE_END ", \"\"");
			else if (is_type(p + 1, q - 1))
				sbuf_add_mem(b, p + 1, (size_t)(q - p) - 2);
			else
				rewrite_list(b, (struct span){ p + 1, q - 1 });
			sbuf_addc(b, q[-1]);
		} else {
			q = p + 1;
			sbuf_addc(b, *p);
		}
		p = q;
	}
}

/* Links lo..hi with the operators between them: the last of the loosest is done last. */
static void rewrite_links(struct sbuf *b, const struct link *l, size_t lo, size_t hi)
{
	size_t i, at = lo;
	bool group;

	if (lo == hi) {
		rewrite_operand(b, l[lo].operand);
		return;
	}
	for (i = lo; i < hi; i++)
		if (l[i].binds <= l[at].binds)
			at = i;
	group = at > lo;
	sbuf_add(b, group ? "(" : "");
	rewrite_links(b, l, lo, at);
	sbuf_add(b, group ? ") " : " ");
	sbuf_add_mem(b, l[at].op.p, (size_t)(l[at].op.end - l[at].op.p));
	group = at + 1 < hi || *l[hi].operand.p == '(';
	sbuf_add(b, group ? " (kvmft_same)(" : " ");
	rewrite_links(b, l, at + 1, hi);
	sbuf_add(b, group ? ")" : "");
}

/* operand { op operand }; returns its end: that of s, or at a '?'. */
static const char *rewrite_chain(struct sbuf *b, struct span s)
{
	_cleanup_free_ struct link *l = NULL;
	size_t n = 0, cap = 0, len;
	const char *p = s.p;
	struct link *last;

	for (;;) {
		last = array_grow(&l, n, &cap, sizeof(*l));
		if (!last) {
			b->error = -ENOMEM;
			return s.end;
		}
		n++;
		last->operand.p = skip_blanks(p, s.end);
		last->operand.end = p = operand_end(p, s.end);
		p = skip_blanks(p, s.end);
		last->binds = p < s.end ? operator_at(p, s.end, &len) : 0;
		if (!last->binds)
			break;
		last->op = (struct span){ p, p + len };
		p += len;
	}
	rewrite_links(b, l, 0, n - 1);
	return p;
}

/* The ':' that belongs to the '?' before s, and whether a conditional stands before it. */
static const char *find_colon(struct span s, bool *nested)
{
	unsigned int open = 0;
	const char *p = s.p;

	*nested = false;
	while (p < s.end) {
		if (*p == '"') {
			p = str_quoted_end(p, s.end);
		} else if (strchr("([{", *p)) {
			p = bracket_end(p, s.end);
		} else {
			if (*p == ':' && !open--)
				return p;
			open += *p == '?';
			*nested |= *p == '?';
			p++;
		}
	}
	return s.end;
}

static bool has_element(struct span s)
{
	for (const char *p = s.p; p < s.end; p = *p == '"' ? str_quoted_end(p, s.end) : p + 1)
		if (*p == '[')
			return true;
	return false;
}

static void rewrite_branch(struct sbuf *b, struct span s, bool group)
{
	sbuf_add(b, group ? " (" : " ");
	rewrite_cond(b, s);
	sbuf_add(b, group ? ") " : " ");
}

static void rewrite_cond(struct sbuf *b, struct span s)
{
	const char *p, *colon;
	struct span rest;
	bool nested;

	s.p = skip_blanks(s.p, s.end);
	if (s.p == s.end)
		return;
	p = rewrite_chain(b, s);
	if (p == s.end || *p != '?') {
		sbuf_add_mem(b, p, (size_t)(s.end - p));
		return;
	}
	colon = find_colon((struct span){ p + 1, s.end }, &nested);
	sbuf_add(b, " ?");
	rewrite_branch(b, (struct span){ p + 1, colon }, nested);
	if (colon == s.end)
		return;
	sbuf_addc(b, ':');
	rest = (struct span){ colon + 1, s.end };
	find_colon(rest, &nested);
	rewrite_branch(b, rest, nested || has_element(rest));
}

void fmt_rewrite(struct sbuf *b, const char *print)
{
	const char *eol = strchr(print, '\n');

	rewrite_list(b, (struct span){ print, eol ? eol : print + strlen(print) });
}
