/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * folded.c: stacks in the format for flame graphs, a line for each with its count:
 *
 * 	comm;outermost;...;innermost COUNT
 *
 * Those of a guest begin with its name: vm1:comm. Of exits, before the first stack of the host in
 * them, if any:
 * vm1;function of the guest;reason
 */
#include "kvmft/events.h"
#include "kvmft/output.h"
#include "kvmft/tally.h"

#define FLUSH_AT (256u << 10)

struct folded_exit {
	uint64_t since, gaps; /* 0: it is over; how many gaps there had been */
	struct sbuf text;
	size_t bare; /* of text, without a stack */
};

struct folded {
	struct tally stacks;
	struct sbuf one;
	struct u64map at; /* vCPU → its exit */
	struct folded_exit *of;
	size_t cap;
	uint64_t gaps;
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

static void add_frames(struct sbuf *b, const struct tl_item *i)
{
	struct fmt_value v;

	fmt_stack(i->ev, i->rec, &v);
	for (uint32_t k = v.len; k-- > 0;) {
		size_t from;

		sbuf_addc(b, ';');
		from = b->len;
		fmt_stack_name(i->ev, &v, k, b);
		no_separators(b, from);
	}
}

static void exit_begin(const struct out *o, struct folded_exit *e, const struct tl_item *i)
{
	const struct hostmap_vm *vm = &tl_hostmap(o->t)->vm[i->vm];
	uint64_t rip = tl_field(i, 2);
	const struct ksym *s = vm->syms ? ksyms_find(vm->syms, rip) : NULL;
	struct exit_why why = exit_why(&i->src->exits, tl_field(i, 0), tl_field(i, 1));
	char name[EXIT_NAME_MAX];
	size_t from;

	sbuf_reset(&e->text);
	sbuf_add(&e->text, vm->label);
	no_separators(&e->text, 0);
	from = e->text.len + 1;
	if (s || (vm->syms && ksyms_is_user(rip)))
		sbuf_addf(&e->text, ";%s", s ? s->name : "user");
	else
		sbuf_addf(&e->text, ";%#llx", (unsigned long long)rip);
	no_separators(&e->text, from);
	sbuf_addc(&e->text, ';');
	from = e->text.len;
	exit_reason_text(&i->src->exits, why.isa, why.reason, name, sizeof(name));
	sbuf_add(&e->text, name);
	no_separators(&e->text, from);
	e->bare = e->text.len;
	e->since = i->host;
}

static void folded_item(struct out *o, const struct tl_item *i)
{
	struct folded *p = o->priv;
	struct sbuf *b = &p->one;

	if (o->fold) {
		struct folded_exit *e;

		if (i->src->index)
			return;
		p->gaps += i->kind != TL_EVENT;
		if (i->kind != TL_EVENT || !i->ev || i->marker || i->vm < 0 || i->vcpu < 0)
			return;
		e = xu64map_elem(&p->at, (uint64_t)i->vm << 32 | (uint32_t)i->vcpu, &p->of, &p->cap,
				 sizeof(*e));
		e->since = e->gaps == p->gaps ? e->since : 0;
		e->gaps = p->gaps;
		if (event_role_of(i->ev) == EV_EXIT && event_type_of(i->ev)->have) {
			exit_begin(o, e, i);
		} else if (e->since && event_role_of(i->ev) == EV_ENTRY) {
			tally_add(&p->stacks, xsbuf_text(&e->text), e->text.len,
				  o->fold == FOLD_EXITS ? 1 : i->host - e->since);
			e->since = 0;
		} else if (e->since && e->text.len == e->bare && fmt_is_stack(i->ev)) {
			add_frames(&e->text, i);
		}
		return;
	}
	if (i->kind != TL_EVENT || !i->ev || i->src->qemu || i->marker || !fmt_is_stack(i->ev))
		return;
	sbuf_reset(b);
	if (i->src->guest)
		sbuf_addf(b, "%s:", i->src->label);
	sbuf_add(b, tl_comm(i->src, i->tid));
	no_separators(b, 0);
	add_frames(b, i);
	tally_add(&p->stacks, xsbuf_text(b), b->len, 1);
}

static void folded_end(struct out *o)
{
	struct folded *p = o->priv;
	uint64_t khz = o->fold == FOLD_EXIT_TIME ? tl_source(o->t, 0)->cap->tsc_khz : 0;

	if (!p->stacks.n)
		o->line.error = -ENOMSG;
	tally_sort(&p->stacks, false);
	for (size_t i = 0; i < p->stacks.n && !o->line.error; i++) {
		uint64_t n = p->stacks.row[i].n;

		sbuf_addf(&o->line, "%s %llu\n", p->stacks.row[i].text,
			  (unsigned long long)(khz ? tsc_cycles_to_ns(n, khz) : n));
		if (o->line.len >= FLUSH_AT)
			out_flush(o);
	}
	if (p->stacks.others)
		sbuf_addf(&o->line, "(others) %llu\n", (unsigned long long)p->stacks.others);
	for (size_t i = 0; i < p->at.n; i++)
		sbuf_free(&p->of[i].text);
	free(p->of);
	u64map_free(&p->at);
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
