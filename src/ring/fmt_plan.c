/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_plan.c: printing events through a compiled plan.
 *
 * The text is the one that the kernel prints into its trace file, with the arithmetic of C on the
 * types of the fields. If a record lacks what the kernel had (memory behind pointers), it is the
 * one that libtraceevent prints.
 */
#include "fmt_plan.h"

/* put_text() of bytes from a record. */
static char *put_foreign(char *p, const struct spec *spec, const char *s, size_t n)
{
	const uint64_t ones = 0x0101010101010101, high = ones << 7;
	size_t plain = 0;
	char *copy;

	for (uint64_t v; n - plain >= sizeof(v); plain += sizeof(v)) {
		v = load_u64(s + plain);
		if ((v | (v - ones * ' ') | (v + ones)) & high)
			break;
	}
	while (plain < n && s[plain] >= ' ' && s[plain] <= '~')
		plain++;
	if (plain == n)
		return put_text(p, spec, s, n);
	copy = xstrndup(s, n); /* rare: names with control or UTF-8 characters */
	str_printable(copy);
	p = put_text(p, spec, copy, strlen(copy));
	free(copy);
	return p;
}

/* 0x and hex digits */
static char *put_0x(char *p, uint64_t v)
{
	return put_hex(put_mem(p, "0x", 2), v);
}

/* The quotient rounds to zero; no division is left undefined as in C. */
static uint64_t divide(enum pop op, bool is_signed, uint64_t a, uint64_t b)
{
	bool neg_a = is_signed && (int64_t)a < 0, neg_b = is_signed && (int64_t)b < 0;
	uint64_t x = neg_a ? 0 - a : a, y = neg_b ? 0 - b : b;

	if (!y)
		return 0;
	if (op == OP_MOD)
		return neg_a ? 0 - x % y : x % y;
	return neg_a != neg_b ? 0 - x / y : x / y;
}

uint64_t plan_apply(enum pop op, struct ptype t, uint64_t a, uint64_t b)
{
	bool less, more;

	a = plan_fit(a, t.bytes, t.is_signed);
	if (op == OP_SHL || op == OP_SHR) {
		b &= t.bytes == 8 ? 63 : 31; /* as on the machine */
		a = op == OP_SHL ? a << b : t.is_signed ? (uint64_t)((int64_t)a >> b) : a >> b;
		return plan_fit(a, t.bytes, t.is_signed);
	}
	b = plan_fit(b, t.bytes, t.is_signed);
	less = t.is_signed ? (int64_t)a < (int64_t)b : a < b;
	more = t.is_signed ? (int64_t)a > (int64_t)b : a > b;
	switch (op) {
	case OP_LT: return less;
	case OP_LE: return !more;
	case OP_GT: return more;
	case OP_GE: return !less;
	case OP_EQ: return a == b;
	case OP_NE: return a != b;
	case OP_NOT: return !b;
	case OP_LOR: return a || b;
	case OP_LAND: return a && b;
	case OP_OR: return a | b;
	case OP_AND: return a & b;
	case OP_INV: return plan_fit(~b, t.bytes, t.is_signed);
	case OP_ADD: return plan_fit(a + b, t.bytes, t.is_signed);
	case OP_SUB: return plan_fit(a - b, t.bytes, t.is_signed);
	case OP_MUL: return plan_fit(a * b, t.bytes, t.is_signed);
	case OP_DIV:
	case OP_MOD: return plan_fit(divide(op, t.is_signed, a, b), t.bytes, t.is_signed);
	default: return 0;
	}
}

/* The value of a P_FIELD; fmt_print() has checked the record against all fixed fields. */
static inline uint64_t field_value(const struct pnode *n, const struct rec *rec)
{
	uint64_t v = fmt_get(rec->data + n->off, n->size);

	return n->is_signed ? plan_fit(v, n->size, true) : v;
}

/* Value of a number expression. */
static uint64_t plan_eval(const struct pnode *n, const struct rec *rec)
{
	const uint8_t *p;
	uint32_t len, elem;
	uint64_t i;

	switch (n->kind) {
	case P_CONST: return n->val;
	case P_FIELD: return field_value(n, rec);
	case P_CAST: return plan_fit(plan_eval(n->a, rec), n->size, n->is_signed);
	case P_BINARY: return plan_apply(n->op, n->in, plan_eval(n->a, rec), plan_eval(n->b, rec));
	case P_COND:
		return plan_fit(plan_eval(plan_eval(n->a, rec) ? n->b : n->c, rec), n->type.bytes,
				n->type.is_signed);
	case P_DYNLEN: return fmt_bytes(&n->fld, rec, &p, &len) ? len : 0;
	case P_ELEMENT:
		i = plan_eval(n->a, rec);
		elem = n->fld.elem; /* a possible size of a number */
		if (!fmt_bytes(&n->fld, rec, &p, &len) || i >= len / elem)
			return 0;
		return plan_fit(fmt_get(p + i * elem, elem), elem, n->fld.is_signed);
	default: return 0;
	}
}

const struct psym *plan_symbol(const struct pnode *n, int64_t v)
{
	size_t at = COUNT_BEFORE(i, n->nsym, n->sym[i].val < v);

	return at < n->nsym && n->sym[at].val == v ? &n->sym[at] : NULL;
}

/* A mask of several bits needs all of them; unnamed bits are left for the end, in hex. */
static char *print_flags(const struct pnode *n, const struct spec *spec, uint64_t v, char *p)
{
	bool any = false;
	size_t i;

	for (i = 0; i < n->nsym && v; i++) {
		const struct psym *s = &n->sym[i];

		if ((v & (uint64_t)s->val) != (uint64_t)s->val)
			continue;
		if (any)
			p = put_mem(p, n->text, n->len);
		p = put_text(p, spec, s->str, s->len);
		any = true;
		v &= ~(uint64_t)s->val;
	}
	if (v && any)
		p = put_mem(p, n->text, n->len);
	return v ? put_0x(p, v) : p;
}

/* a bytes in hex; never more than the field has. */
static char *print_hex(const struct pnode *n, const struct rec *rec, char *to)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t want = plan_eval(n->a, rec);
	const uint8_t *p;
	uint32_t len, i;

	if (!fmt_bytes(&n->fld, rec, &p, &len))
		return to;
	for (i = 0; i < len && i < want; i++) {
		if (i && !n->val)
			*to++ = ' ';
		*to++ = hex[p[i] >> 4];
		*to++ = hex[p[i] & 15];
	}
	return to;
}

static char *print_array(const struct pnode *n, const struct rec *rec, char *to)
{
	uint64_t want = plan_eval(n->a, rec), elem = plan_eval(n->b, rec), i;
	const uint8_t *p;
	uint32_t len;

	if (elem > 8 || !fmt_is_number((uint32_t)elem) || !fmt_bytes(&n->fld, rec, &p, &len))
		len = 0;
	*to++ = '{';
	for (i = 0; len && i < len / elem && i < want; i++) {
		if (i)
			*to++ = ',';
		to = put_0x(to, fmt_get(p + i * elem, (uint32_t)elem));
	}
	*to++ = '}';
	return to;
}

static char *print_string(const struct pnode *n, const struct spec *spec, const struct rec *rec,
			  char *to)
{
	const struct psym *sym;
	const uint8_t *p;
	uint32_t len;
	uint64_t v;

	switch (n->kind) {
	case P_TEXT: return put_text(to, spec, n->text, n->len);
	case P_CHARS:
		/* An empty dynamic array is not a string at all: not even padding. */
		if (!fmt_bytes(&n->fld, rec, &p, &len) || (!len && n->fld.is_dynamic))
			return to;
		return put_foreign(to, spec, (const char *)p, strnlen((const char *)p, len));
	case P_POINTER: /* libtraceevent prints it without 0x */
		return put_hex(to, fmt_get(rec->data + n->off, n->size));
	case P_SYMBOL:
		v = plan_eval(n->a, rec);
		sym = plan_symbol(n, (int64_t)v);
		return sym ? put_text(to, spec, sym->str, sym->len) : put_0x(to, v);
	case P_FLAGS: return print_flags(n, spec, plan_eval(n->a, rec), to);
	case P_HEX: return print_hex(n, rec, to);
	case P_ARRAY: return print_array(n, rec, to);
	case P_COND: return print_string(plan_eval(n->a, rec) ? n->b : n->c, spec, rec, to);
	default: return to; /* a number where a text belongs: nothing, like libtraceevent */
	}
}

char *plan_segment(const struct pseg *s, const struct rec *rec, char *p)
{
	struct spec spec = s->spec;
	uint64_t v;
	int32_t n;
	char c;

	if (!spec.conv)
		return put_padded(p, s->text, s->len);
	if (s->star) {
		/* Width or precision from an argument; a negative one counts as none. */
		n = (int32_t)plan_eval(s->star, rec);
		spec.has_prec |= n >= 0 && spec.star != STAR_WIDTH;
		if (n >= 0)
			*(spec.star == STAR_WIDTH ? &spec.width : &spec.prec) =
				(uint16_t)MIN(n, PLAN_MAX_WIDTH);
	}
	if (spec.conv == 's')
		return print_string(s->arg, &spec, rec, p);
	v = plan_eval(s->arg, rec);
	c = (char)v;
	/* '#' marks a function address, which has no "(nil)" */
	if (spec.conv == 'p')
		return v || spec.alt ? put_0x(p, v) : put_mem(p, "(nil)", 5);
	if (spec.conv == 'c')
		return c ? put_foreign(p, &spec, &c, 1) : p;
	return put_number(p, &spec, v);
}

void fmt_plan_free(struct fmt_plan *p)
{
	struct pnode *n, *next;
	struct pmemo *m;
	size_t i;

	if (!p)
		return;
	for (n = p->nodes; n; n = next) {
		next = n->owned;
		free(n->sym);
		free(n);
	}
	for (i = 0; i < p->nseg; i++)
		free(p->seg[i].text);
	while ((m = p->memos)) {
		p->memos = m->next;
		free(m);
	}
	free(p->step);
	free(p->lead);
	free(p->seg);
	free(p->dyn);
	free(p);
}
