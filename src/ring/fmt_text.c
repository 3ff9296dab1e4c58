/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fmt_text.c: what %s prints in a print format, as nodes of a plan: fields, names, arrays. */
#include "fmt_build.h"

#include <ctype.h>

/*
 * Names that kernels leave in their formats; libtraceevent knows some of them, but its eval_flag()
 * is not exported.
 */
static const struct {
	const char *name;
	int64_t val;
} known[] = {
	{ "HI_SOFTIRQ", 0 }, { "TIMER_SOFTIRQ", 1 }, { "NET_TX_SOFTIRQ", 2 },
	{ "NET_RX_SOFTIRQ", 3 }, { "BLOCK_SOFTIRQ", 4 }, { "IRQ_POLL_SOFTIRQ", 5 },
	{ "TASKLET_SOFTIRQ", 6 }, { "SCHED_SOFTIRQ", 7 }, { "HRTIMER_SOFTIRQ", 8 },
	{ "RCU_SOFTIRQ", 9 }, { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
	/* the clock of a KVM host, until 5.5 and since */
	{ "VCLOCK_NONE", 0 }, { "VCLOCK_TSC", 1 },
	{ "VDSO_CLOCKMODE_NONE", 0 }, { "VDSO_CLOCKMODE_TSC", 1 },
};

/* False for a name that only the kernel can resolve: no value is known to match it. */
static bool symbol_value(const char *text, int64_t *v)
{
	if (isdigit((unsigned char)text[text[0] == '-'])) {
		*v = text[0] == '-' ? strtoll(text, NULL, 0) : (int64_t)strtoull(text, NULL, 0);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, text))
			continue;
		*v = known[i].val;
		return true;
	}
	return false;
}

static int by_value(const void *a, const void *b)
{
	const struct psym *x = a, *y = b;

	return ORDER(x->val, y->val) ?: ORDER(x->order, y->order);
}

/* Names stay in the order of the text if all of them count, else they are sorted by value. */
static void add_names(struct build *b, struct pnode *n, const struct tep_print_flag_sym *from)
{
	size_t cap = 0;

	for (; from && !b->failed; from = from->next) {
		struct psym *s;
		int64_t v;

		if (!symbol_value(from->value, &v))
			continue;
		s = n->nsym < FMT_MAX_SYMS ? array_grow(&n->sym, n->nsym, &cap, sizeof(*s)) : NULL;
		if (!s) {
			b->failed = true;
			return;
		}
		*s = (struct psym){ v, from->str, (uint32_t)strlen(from->str),
				    (uint32_t)n->nsym++ };
	}
	if (n->kind == P_SYMBOL && n->nsym)
		qsort(n->sym, n->nsym, sizeof(*n->sym), by_value);
}

static struct pnode *text_names(struct build *b, const struct tep_print_arg *arg)
{
	bool flags = arg->type == TEP_PRINT_FLAGS;
	struct pnode *n = build_node(b, flags ? P_FLAGS : P_SYMBOL);

	n->text = flags && arg->flags.delim ? arg->flags.delim : "";
	n->len = strlen(n->text);
	/* The kernel's tables and the value looked up in them are unsigned long. */
	n->a = build_cast(b, build_number(b, flags ? arg->flags.field : arg->symbol.field),
			  (uint16_t)b->f->long_size, false);
	add_names(b, n, flags ? arg->flags.flags : arg->symbol.symbols);
	return n;
}

/* __print_hex() and __print_array() */
static struct pnode *text_array(struct build *b, const struct tep_print_arg *arg)
{
	bool ints = arg->type == TEP_PRINT_INT_ARRAY;
	const struct tep_print_arg *from = ints ? arg->int_array.field : arg->hex.field;
	bool dynamic = from->type == TEP_PRINT_DYNAMIC_ARRAY;
	struct pnode *n;

	if (!dynamic && from->type != TEP_PRINT_FIELD)
		return build_fail(b);
	n = build_field(b, ints ? P_ARRAY : P_HEX,
			dynamic ? build_dyn_name(from) : from->field.name);
	n->a = build_number(b, ints ? arg->int_array.count : arg->hex.size);
	if (ints)
		n->b = build_number(b, arg->int_array.el_size);
	n->val = arg->type == TEP_PRINT_HEX_STR;
	return n;
}

static struct pnode *text_field(struct build *b, const char *name)
{
	struct pnode *n = build_field(b, P_CHARS, name);

	if (!n->fld.is_array && n->size == b->f->long_size)
		n->kind = P_POINTER;
	return n->size || n->fld.is_array ? n : build_fail(b);
}

struct pnode *build_text(struct build *b, const struct tep_print_arg *arg)
{
	struct pnode *n;

	if (b->failed || !arg)
		return build_fail(b);
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		n = build_node(b, P_TEXT);
		n->text = arg->atom.atom;
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
		return text_names(b, arg);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
	case TEP_PRINT_INT_ARRAY:
		return text_array(b, arg);
	case TEP_PRINT_OP:
		return *arg->op.op == '?' ? build_cond(b, arg, build_text) : build_fail(b);
	default:
		return build_fail(b);
	}
}
