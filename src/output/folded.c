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

static int folded_begin(struct out *o)
{
	o->priv = xcalloc(1, sizeof(struct folded));
	return 0;
}

/* Separators of frames must not occur in one. */
static void no_separators(struct sbuf *b, size_t from)
{
	for (size_t i = from; !b->error && i < b->len; i++)
		if (b->s[i] == ';')
			b->s[i] = ':';
}

static int folded_item(struct out *o, const struct tl_item *i)
{
	struct folded *p = o->priv;
	struct sbuf *b = &p->one;
	struct fmt_value v;

	if (i->kind != TL_EVENT || !i->ev || i->src->qemu || i->marker || !fmt_is_stack(i->ev))
		return 0;
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
	return 0;
}

static int folded_end(struct out *o)
{
	struct folded *p = o->priv;
	int ret = 0;

	if (!p)
		return 0;
	ret = p->stacks.n ? 0 : -ENOMSG;
	tally_sort_by_text(&p->stacks);
	for (size_t i = 0; i < p->stacks.n && !ret; i++) {
		sbuf_addf(&o->line, "%s %llu\n", p->stacks.row[i].text,
			  (unsigned long long)p->stacks.row[i].n);
		ret = o->line.len >= FLUSH_AT ? out_flush(o) : 0;
	}
	if (p->stacks.others)
		sbuf_addf(&o->line, "(others) %llu\n", (unsigned long long)p->stacks.others);
	tally_free(&p->stacks);
	sbuf_free(&p->one);
	free(p);
	o->priv = NULL;
	return ret;
}

const struct out_format out_folded = {
	.name = "folded",
	.begin = folded_begin,
	.item = folded_item,
	.end = folded_end,
};
