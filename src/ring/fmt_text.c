/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_text.c: what %s prints in a print format, as nodes of a plan: fields, names, arrays.
 */
#include "fmt_build.h"

#include "fmt_check.h"

#include <ctype.h>
#include <string.h>

static const struct {
	const char *name;
	int64_t value;
} enum_name[] = { /* names that old kernels left in their formats; libtraceevent knows them too */
	{ "HI_SOFTIRQ", 0 },	   { "TIMER_SOFTIRQ", 1 },   { "NET_TX_SOFTIRQ", 2 },
	{ "NET_RX_SOFTIRQ", 3 },   { "BLOCK_SOFTIRQ", 4 },   { "IRQ_POLL_SOFTIRQ", 5 },
	{ "TASKLET_SOFTIRQ", 6 },  { "SCHED_SOFTIRQ", 7 },   { "HRTIMER_SOFTIRQ", 8 },
	{ "RCU_SOFTIRQ", 9 },	   { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
};

/* False for a name that only the kernel can resolve: no value is known to match it. */
static bool symbol_value(const char *text, int64_t *v)
{
	size_t i;

	if (isdigit((unsigned char)text[text[0] == '-'])) {
		*v = text[0] == '-' ? strtoll(text, NULL, 0) : (int64_t)strtoull(text, NULL, 0);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(enum_name); i++) {
		if (!strcmp(enum_name[i].name, text)) {
			*v = enum_name[i].value;
			return true;
		}
	}
	return false;
}

static int by_value(const void *a, const void *b)
{
	const struct psym *x = a, *y = b;

	if (x->val != y->val)
		return x->val < y->val ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool add_symbols(struct build *b, struct pnode *n, const struct tep_print_flag_sym *from)
{
	size_t cap = 0;

	for (; from; from = from->next) {
		struct psym *s = NULL;
		int64_t v = 0;

		if (from->value && !strcmp(from->value, FMT_TABLE_END))
			break;
		if (from->value && !symbol_value(from->value, &v))
			continue;

		if (n->nsym < FMT_MAX_SYMS && from->value && from->str)
			s = array_grow(&n->sym, n->nsym, &cap, sizeof(*s));
		if (!s || !(s->str = strdup(from->str)))
			return !(b->failed = true);
		s->len = (uint32_t)strlen(s->str);
		s->val = v;
		s->order = (uint32_t)n->nsym++;
	}
	if (n->kind == P_SYMBOL && n->nsym > 8) {
		qsort(n->sym, n->nsym, sizeof(*n->sym), by_value);
		n->sorted = true;
	}
	return true;
}

static struct pnode *text_table(struct build *b, const struct tep_print_arg *arg)
{
	bool flags = arg->type == TEP_PRINT_FLAGS;
	const char *delim = flags && arg->flags.delim ? arg->flags.delim : "";
	struct pnode *n = build_node(b, flags ? P_FLAGS : P_SYMBOL);

	if (!n)
		return NULL;
	n->text = strdup(delim);
	n->len = strlen(delim);
	/* The kernel's tables and the value looked up in them are unsigned long. */
	n->a = build_cast(b, build_number(b, flags ? arg->flags.field : arg->symbol.field),
		    (uint16_t)b->f->long_size, false);
	if (!n->text || !n->a ||
	    !add_symbols(b, n, flags ? arg->flags.flags : arg->symbol.symbols))
		return build_fail(b);
	return n;
}

/* The array behind __print_hex() and __print_array(). */
static const struct fmt_field *array_arg(struct build *b, const struct tep_print_arg *arg)
{
	const struct fmt_field *f = NULL;

	if (arg && arg->type == TEP_PRINT_DYNAMIC_ARRAY)
		f = build_field(b, build_dyn_name(arg));
	else if (arg && arg->type == TEP_PRINT_FIELD)
		f = build_field(b, arg->field.name);
	if (!f)
		b->failed = true;
	return f;
}

static struct pnode *text_array(struct build *b, const struct tep_print_arg *arg)
{
	bool ints = arg->type == TEP_PRINT_INT_ARRAY;
	const struct fmt_field *f = array_arg(b, ints ? arg->int_array.field : arg->hex.field);
	struct pnode *n = build_node(b, ints ? P_ARRAY : P_HEX);

	if (!f || !n)
		return NULL;
	n->fld = *f;
	n->a = build_number(b, ints ? arg->int_array.count : arg->hex.size);
	if (ints)
		n->b = build_number(b, arg->int_array.el_size);
	n->val = arg->type == TEP_PRINT_HEX_STR;
	return b->failed ? NULL : n;
}

static struct pnode *text_field(struct build *b, const char *name)
{
	const struct fmt_field *f = build_field(b, name);
	struct pnode *n;

	if (!f)
		return NULL;
	if (!f->is_array && f->size == b->f->long_size) {
		n = build_node(b, P_POINTER);
		if (n) {
			n->off = f->off;
			n->size = f->size;
		}
		return n;
	}
	n = f->size || f->is_array ? build_node(b, P_CHARS) : build_fail(b);
	if (n)
		n->fld = *f;
	return n;
}

struct pnode *build_text(struct build *b, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *alt;
	struct pnode *n;

	if (b->failed || !arg)
		return build_fail(b);
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		n = arg->atom.atom ? build_node(b, P_TEXT) : build_fail(b);
		if (!n || !(n->text = strdup(arg->atom.atom)))
			return build_fail(b);
		n->len = strlen(n->text);
		return n;
	case TEP_PRINT_TYPE:
		return build_text(b, arg->typecast.item);
	case TEP_PRINT_FIELD:
		return text_field(b, arg->field.name);
	case TEP_PRINT_STRING:
		return text_field(b, arg->string.string);
	case TEP_PRINT_FLAGS:
	case TEP_PRINT_SYMBOL:
		return text_table(b, arg);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
	case TEP_PRINT_INT_ARRAY:
		return text_array(b, arg);
	case TEP_PRINT_OP:
		alt = arg->op.right;
		if (strcmp(arg->op.op, "?") || !alt || alt->type != TEP_PRINT_OP)
			return build_fail(b);
		n = build_node(b, P_COND);
		if (!n)
			return NULL;
		n->a = build_number(b, arg->op.left);
		n->b = build_text(b, alt->op.left);
		n->c = build_text(b, alt->op.right);
		return b->failed ? NULL : n;
	default:
		return build_fail(b);
	}
}
