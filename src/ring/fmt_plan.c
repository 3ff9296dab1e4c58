/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_plan.c: printing events through a compiled plan.
 *
 * The text is the one that the kernel prints into its trace file, with the arithmetic of C on the
 * types of the fields. If a record lacks what the kernel had (memory behind pointers), it is the
 * one that libtraceevent prints.
 */
#include "fmt_plan.h"

static void plan_text(struct pout *out, const struct spec *spec, const char *s, size_t n)
{
	out->p = put_text(out->p, spec, s, n);
}

/* The same for bytes from a record. */
static void plan_foreign(struct pout *out, const struct spec *spec, const char *s, size_t n)
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
	if (plain == n) {
		plan_text(out, spec, s, n);
		return;
	}
	copy = xstrndup(s, n); /* rare: names with control or UTF-8 characters */
	str_printable(copy);
	plan_text(out, spec, copy, strlen(copy));
	free(copy);
}

/* 0x and hex digits */
static void plan_hex(struct pout *out, uint64_t v)
{
	pout_mem(out, "0x", 2);
	out->p = put_hex(out->p, v);
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
static void print_flags(const struct pnode *n, const struct spec *spec, uint64_t v,
			struct pout *out)
{
	bool any = false;
	size_t i;

	for (i = 0; i < n->nsym && v; i++) {
		const struct psym *s = &n->sym[i];

		if ((v & (uint64_t)s->val) != (uint64_t)s->val)
			continue;
		if (any)
			pout_mem(out, n->text, n->len);
		plan_text(out, spec, s->str, s->len);
		any = true;
		v &= ~(uint64_t)s->val;
	}
	if (v) {
		if (any)
			pout_mem(out, n->text, n->len);
		plan_hex(out, v);
	}
}

/* a bytes in hex; never more than the field has. */
static void print_hex(const struct pnode *n, const struct rec *rec, struct pout *out)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t want = plan_eval(n->a, rec);
	const uint8_t *p;
	uint32_t len, i;

	if (!fmt_bytes(&n->fld, rec, &p, &len))
		return;
	for (i = 0; i < len && i < want; i++) {
		if (i && !n->val)
			pout_char(out, ' ');
		pout_char(out, hex[p[i] >> 4]);
		pout_char(out, hex[p[i] & 15]);
	}
}

static void print_array(const struct pnode *n, const struct rec *rec, struct pout *out)
{
	uint64_t want = plan_eval(n->a, rec), elem = plan_eval(n->b, rec), i;
	const uint8_t *p;
	uint32_t len;

	if (elem > 8 || !fmt_is_number((uint32_t)elem) || !fmt_bytes(&n->fld, rec, &p, &len))
		len = 0;
	pout_char(out, '{');
	for (i = 0; len && i < len / elem && i < want; i++) {
		if (i)
			pout_char(out, ',');
		plan_hex(out, fmt_get(p + i * elem, (uint32_t)elem));
	}
	pout_char(out, '}');
}

static void print_string(const struct pnode *n, const struct spec *spec, const struct rec *rec,
			 struct pout *out)
{
	const struct psym *sym;
	const uint8_t *p;
	uint32_t len;
	uint64_t v;

	switch (n->kind) {
	case P_TEXT: plan_text(out, spec, n->text, n->len); break;
	case P_CHARS:
		/* An empty dynamic array is not a string at all: not even padding. */
		if (fmt_bytes(&n->fld, rec, &p, &len) && (len || !n->fld.is_dynamic))
			plan_foreign(out, spec, (const char *)p, strnlen((const char *)p, len));
		break;
	case P_POINTER: /* libtraceevent prints it without 0x */
		out->p = put_hex(out->p, fmt_get(rec->data + n->off, n->size));
		break;
	case P_SYMBOL:
		v = plan_eval(n->a, rec);
		sym = plan_symbol(n, (int64_t)v);
		if (sym)
			plan_text(out, spec, sym->str, sym->len);
		else
			plan_hex(out, v);
		break;
	case P_FLAGS: print_flags(n, spec, plan_eval(n->a, rec), out); break;
	case P_HEX: print_hex(n, rec, out); break;
	case P_ARRAY: print_array(n, rec, out); break;
	case P_COND: print_string(plan_eval(n->a, rec) ? n->b : n->c, spec, rec, out); break;
	default: /* a number where a text belongs: nothing, like libtraceevent */ break;
	}
}

static void print_arg(const struct pseg *s, const struct spec *spec, const struct rec *rec,
		      struct pout *out)
{
	uint64_t v;
	char c;

	if (spec->conv == 's') {
		print_string(s->arg, spec, rec, out);
		return;
	}
	if (s->arg->kind == P_FIELD)
		v = field_value(s->arg, rec);
	else
		v = plan_eval(s->arg, rec);
	if (spec->conv == 'p') { /* '#' marks a function address, which has no "(nil)" */
		if (!v && !spec->alt)
			pout_mem(out, "(nil)", 5);
		else
			plan_hex(out, v);
	} else if (spec->conv == 'c') {
		c = (char)v;
		if (c)
			plan_foreign(out, spec, &c, 1);
	} else {
		out->p = put_number(out->p, spec, v);
	}
}

void plan_segment(const struct pseg *s, const struct rec *rec, struct pout *out)
{
	if (!s->spec.conv) {
		out->p = put_padded(out->p, s->text, s->len);
	} else if (s->star) {
		/* Width or precision from an argument; a negative one counts as none. */
		int32_t n = (int32_t)plan_eval(s->star, rec);
		struct spec spec = s->spec;

		if (n >= 0 && spec.star == STAR_WIDTH) {
			spec.width = (uint16_t)MIN(n, PLAN_MAX_WIDTH);
		} else if (n >= 0) {
			spec.has_prec = true;
			spec.prec = (uint16_t)MIN(n, PLAN_MAX_WIDTH);
		}
		print_arg(s, &spec, rec, out);
	} else {
		print_arg(s, &s->spec, rec, out);
	}
}

void fmt_plan_free(struct fmt_plan *p)
{
	struct pnode *n, *next;
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
	for (i = 0; i < p->nstep; i++)
		if (plan_is_memo(&p->step[i]))
			free(p->step[i].memo);
	free(p->step);
	free(p->lead);
	free(p->seg);
	free(p->dyn);
	free(p);
}
