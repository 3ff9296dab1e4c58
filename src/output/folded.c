/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * folded.c: stacks in the format for flame graphs, a line for each with its count:
 *
 * 	comm;outermost;...;innermost COUNT
 *
 * Those of a guest begin with its name: vm1:comm.
 */
#include "kvmft/output.h"
#include "kvmft/tally.h"

#define FLUSH_AT (256u << 10)

struct folded {
	struct tally stacks;
	struct sbuf one;
};

static void folded_begin(struct out *o)
{
	o->priv = xcalloc(1, sizeof(struct folded));
}

/* Separators of frames must not occur in one. */
static void no_separators(struct sbuf *b, size_t from)
{
	for (size_t i = from; !b->error && i < b->len; i++)
		if (b->s[i] == ';')
			b->s[i] = ':';
}

static void folded_item(struct out *o, const struct tl_item *i)
{
	struct folded *p = o->priv;
	struct sbuf *b = &p->one;
	struct fmt_value v;

	if (i->kind != TL_EVENT || !i->ev || i->src->qemu || i->marker || !fmt_is_stack(i->ev))
		return;
	sbuf_reset(b);
	if (i->src->guest)
		sbuf_addf(b, "%s:", i->src->label);
	sbuf_add(b, tl_comm(i->src, i->tid));
	no_separators(b, 0);
	fmt_stack(i->ev, i->rec, &v);
	for (uint32_t k = v.len; k-- > 0;) {
		size_t from;

		sbuf_addc(b, ';');
		from = b->len;
		fmt_stack_name(i->ev, &v, k, b);
		no_separators(b, from);
	}
	tally_add(&p->stacks, xsbuf_text(b), b->len);
}

static void folded_end(struct out *o)
{
	struct folded *p = o->priv;

	if (!p->stacks.n)
		o->line.error = -ENOMSG;
	tally_sort_by_text(&p->stacks);
	for (size_t i = 0; i < p->stacks.n && !o->line.error; i++) {
		sbuf_addf(&o->line, "%s %llu\n", p->stacks.row[i].text,
			  (unsigned long long)p->stacks.row[i].n);
		if (o->line.len >= FLUSH_AT)
			out_flush(o);
	}
	if (p->stacks.others)
		sbuf_addf(&o->line, "(others) %llu\n", (unsigned long long)p->stacks.others);
	tally_free(&p->stacks);
	sbuf_free(&p->one);
	free(p);
	o->priv = NULL;
}

const struct out_format out_folded = {
	.name = "folded",
	.begin = folded_begin,
	.item = folded_item,
	.end = folded_end,
};
