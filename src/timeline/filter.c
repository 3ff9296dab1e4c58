/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter.c: ftrace's filter syntax, for records in a file.
 *
 * Parsed into terms and a program in postfix order, so that nesting costs nothing at run time and
 * hostile depth no stack. Fields are looked up by name per record: filters see only the few events
 * whose names matched.
 */
#include "kvmft/pick.h"

#include <fnmatch.h>

#define MAX_DEPTH 64
#define MAX_STEPS 256
#define MAX_TEXT  256

enum op { OP_EQ, OP_NE, OP_LE, OP_LT, OP_GE, OP_GT, OP_AND, OP_GLOB, OP_COUNT };

/* In this order: none begins with an earlier one. */
static const char *const op_text[OP_COUNT] = {
	[OP_EQ] = "==", [OP_NE] = "!=", [OP_LE] = "<=", [OP_LT] = "<",
	[OP_GE] = ">=", [OP_GT] = ">",  [OP_AND] = "&", [OP_GLOB] = "~",
};

enum step_kind { STEP_TERM, STEP_NOT, STEP_AND, STEP_OR };

struct step {
	enum step_kind kind;
	char *field;
	enum op op;
	char *text;  /* the value as written, without quotes */
	bool number; /* it is a number, too: */
	uint64_t value;
	bool negative;
};

struct filter {
	struct step *s;
	size_t n, cap;
};

struct parser {
	struct filter *f;
	const char *p, *end, *begin;
	unsigned int depth;
	struct kvmft_err *err;
};

static int bad(const struct parser *q, const char *what)
{
	return err_set(q->err, EINVAL, "filter '%.*s': %s at '%.*s'", (int)(q->end - q->begin),
		       q->begin, what, (int)(q->end - q->p), q->p);
}

static void skip_blanks(struct parser *q)
{
	while (q->p < q->end && (*q->p == ' ' || *q->p == '\t'))
		q->p++;
}

static bool take(struct parser *q, const char *text)
{
	size_t n = strlen(text);

	skip_blanks(q);
	if ((size_t)(q->end - q->p) < n || memcmp(q->p, text, n))
		return false;
	q->p += n;
	return true;
}

static int add_step(struct parser *q, struct step **out, enum step_kind kind)
{
	struct step *s;

	if (q->f->n >= MAX_STEPS)
		return bad(q, "too long");
	s = array_grow(&q->f->s, q->f->n, &q->f->cap, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->kind = kind;
	q->f->n++;
	if (out)
		*out = s;
	return 0;
}

static bool word_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '-';
}

/* A word, or the text between quotes. */
static char *take_word(struct parser *q, bool value)
{
	const char *from;
	char quote;

	skip_blanks(q);
	from = q->p;
	if (value && q->p < q->end && (*q->p == '"' || *q->p == '\'')) {
		quote = *q->p++;
		from = q->p;
		while (q->p < q->end && *q->p != quote)
			q->p++;
		return q->p == q->end ? NULL : strndup(from, (size_t)(q->p++ - from));
	}
	while (q->p < q->end && (word_byte(*q->p) || (value && strchr("*?[]:/%+<>", *q->p))))
		q->p++;
	return q->p == from ? NULL : strndup(from, (size_t)(q->p - from));
}

static int parse_term(struct parser *q)
{
	struct step *s;
	int64_t v;
	int ret = add_step(q, &s, STEP_TERM), op;

	if (ret)
		return ret;
	s->field = take_word(q, false);
	if (!s->field)
		return bad(q, "a field is missing");
	for (op = 0; op < OP_COUNT; op++)
		if (take(q, op_text[op]))
			break;
	if (op == OP_COUNT)
		return bad(q, "one of == != < <= > >= & ~ is missing");
	s->op = (enum op)op;
	s->text = take_word(q, true);
	if (!s->text)
		return bad(q, "a value is missing");
	s->number = !parse_u64(s->text, &s->value);
	if (!s->number && !parse_s64(s->text, &v)) {
		s->number = s->negative = true;
		s->value = (uint64_t)v;
	}
	if (!s->number && s->op != OP_EQ && s->op != OP_NE && s->op != OP_GLOB)
		return bad(q, "text can be compared with == != ~ only");
	return 0;
}

static int parse_or(struct parser *q);

static int parse_primary(struct parser *q)
{
	int ret;

	if (q->depth >= MAX_DEPTH)
		return bad(q, "nested too deeply");
	if (take(q, "!")) {
		q->depth++;
		ret = parse_primary(q);
		q->depth--;
		return ret ?: add_step(q, NULL, STEP_NOT);
	}
	if (!take(q, "("))
		return parse_term(q);
	q->depth++;
	ret = parse_or(q);
	q->depth--;
	if (ret)
		return ret;
	return take(q, ")") ? 0 : bad(q, "a ')' is missing");
}

static int parse_and(struct parser *q)
{
	int ret = parse_primary(q);

	while (!ret && take(q, "&&")) {
		ret = parse_primary(q);
		ret = ret ?: add_step(q, NULL, STEP_AND);
	}
	return ret;
}

static int parse_or(struct parser *q)
{
	int ret = parse_and(q);

	while (!ret && take(q, "||")) {
		ret = parse_and(q);
		ret = ret ?: add_step(q, NULL, STEP_OR);
	}
	return ret;
}

int filter_parse(const char *text, size_t n, struct filter **out, struct kvmft_err *err)
{
	struct filter *f = calloc(1, sizeof(*f));
	struct parser q = { .f = f, .p = text, .begin = text, .end = text + n, .err = err };
	int ret;

	*out = NULL;
	if (!f)
		return -ENOMEM;
	ret = parse_or(&q);
	skip_blanks(&q);
	if (!ret && q.p != q.end)
		ret = bad(&q, "not understood");
	if (ret) {
		filter_free(f);
		return ret;
	}
	*out = f;
	return 0;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free(f->s[i].field);
		free(f->s[i].text);
	}
	free(f->s);
	free(f);
}

static bool is_text(const struct fmt_field *f)
{
	return f->is_string || f->is_array || f->is_dynamic || f->is_relative || f->is_pointer;
}

const char *filter_lacks(const struct filter *f, const struct fmt_event *ev, const char **value)
{
	struct fmt_field fld;

	*value = NULL;
	for (size_t i = 0; i < f->n; i++) {
		const struct step *s = &f->s[i];

		if (s->kind != STEP_TERM)
			continue;
		if (!fmt_field(ev, s->field, &fld))
			return s->field;
		if (!s->number && !is_text(&fld)) {
			*value = s->text;
			return s->field;
		}
	}
	return NULL;
}

/* ---- run time ---- */

static bool text_match(const struct step *s, const char *text)
{
	switch (s->op) {
	case OP_EQ: return !strcmp(text, s->text);
	case OP_NE: return strcmp(text, s->text) != 0;
	case OP_GLOB: return !fnmatch(s->text, text, 0);
	default: return false;
	}
}

static bool number_match(const struct step *s, uint64_t v, bool is_signed)
{
	int64_t a = (int64_t)v, b = (int64_t)s->value;
	bool less = is_signed || s->negative ? a < b : v < s->value;

	switch (s->op) {
	case OP_EQ: return v == s->value;
	case OP_NE: return v != s->value;
	case OP_LT: return less;
	case OP_LE: return less || v == s->value;
	case OP_GT: return !less && v != s->value;
	case OP_GE: return !less;
	case OP_AND: return (v & s->value) != 0;
	default: return false;
	}
}

/* A term with a field that the event lacks is false, and so is its negation. */
enum truth { FALSE, UNKNOWN, TRUE };

static enum truth term_match(const struct step *s, const struct fmt_event *ev,
			     const struct rec *rec)
{
	char text[MAX_TEXT];
	struct fmt_field fld;
	uint64_t v;

	if (!fmt_field(ev, s->field, &fld))
		return UNKNOWN;
	if (fmt_str(&fld, rec, text, sizeof(text)))
		return text_match(s, text) ? TRUE : FALSE;
	if (!s->number || !fmt_u64(&fld, rec, &v))
		return UNKNOWN;
	return number_match(s, v, fld.is_signed) ? TRUE : FALSE;
}

bool filter_match(const struct filter *f, const struct fmt_event *ev, const struct rec *rec)
{
	enum truth stack[MAX_STEPS];
	size_t n = 0;

	/* The parser made a program that never pops more than it pushed. */
	for (size_t i = 0; i < f->n; i++) {
		switch (f->s[i].kind) {
		case STEP_TERM: stack[n++] = term_match(&f->s[i], ev, rec); break;
		case STEP_NOT: stack[n - 1] = TRUE - stack[n - 1]; break;
		case STEP_AND:
			n--;
			stack[n - 1] = MIN(stack[n - 1], stack[n]);
			break;
		case STEP_OR:
			n--;
			stack[n - 1] = MAX(stack[n - 1], stack[n]);
			break;
		}
	}
	return n && stack[0] == TRUE;
}
