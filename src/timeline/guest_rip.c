/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest_rip.c: events of a host that show where the guest was, and which guest that is. */
#include "kvmft/timeline.h"
#include "kvmft/events.h"
#include "kvmft/exit_names.h"

bool guest_rip_any(const struct hostmap *m)
{
	for (size_t i = 0; i < m->nvm; i++)
		if (m->vm[i].syms)
			return true;
	return false;
}

static const struct guest_rip_type *rip_type_of(struct guest_rips *g, const struct fmt_event *ev)
{
	static const char *const names[] = { "guest_rip", "rip", "vcpu_pc" };
	struct guest_rip_type *t = &g->type[fmt_id(ev) % ARRAY_SIZE(g->type)];
	const char *name = fmt_name(ev);

	if (t->ev == ev)
		return t;
	*t = (struct guest_rip_type){ .ev = ev };
	/*
	 * Those of nested guests show where such a guest is; kvm_emulate_insn has part of the
	 * address in another field.
	 */
	if (!strcmp(fmt_sys(ev), "kvm") && strncmp(name, "kvm_nested_", 11) &&
	    strcmp(name, "kvm_emulate_insn"))
		for (size_t i = 0; i < ARRAY_SIZE(names) && !t->has; i++)
			t->has = fmt_field(ev, names[i], &t->f);
	return t;
}

bool guest_rip_has(struct guest_rips *g, const struct tl_item *i)
{
	return !i->src->guest && !i->src->qemu && !i->marker && i->ev && rip_type_of(g, i->ev)->has;
}

bool guest_rip(struct guest_rips *g, const struct hostmap *m, const struct tl_item *i,
	       uint64_t *rip, const struct ksyms **k)
{
	if (i->vm < 0 || i->src->link || !m->vm[i->vm].syms || !guest_rip_has(g, i))
		return false;
	*k = m->vm[i->vm].syms;
	return fmt_u64(&rip_type_of(g, i->ev)->f, i->rec, rip);
}

/* ---- guests that have guests ---- */

struct nested {
	struct hostmap *m;
	struct exit_names names;
	/* What was found out last, of each kind of exit. */
	struct {
		bool known, enters;
		uint64_t reason, isa;
	} why[64];
};

/* A guest that enters one of its own exits for that: on every exit of this kind it is L1. */
static bool enters_guest(struct nested *w, const struct event_type *exit, const struct rec *rec)
{
	uint64_t reason = event_u64(exit, 0, rec);
	uint64_t isa = event_u64(exit, 1, rec);
	size_t i = reason % ARRAY_SIZE(w->why);

	if (!w->why[i].known || w->why[i].reason != reason || w->why[i].isa != isa) {
		w->why[i].enters = exit_enters_guest(exit_why(&w->names, reason, isa));
		w->why[i].known = true;
		w->why[i].reason = reason;
		w->why[i].isa = isa;
	}
	return w->why[i].enters;
}

static int rip_walk(struct nested *w, const struct cap_stream *cs)
{
	struct rstream s;
	enum rkind k;
	int ret = rstream_open(&s, w->m->cap, cs);

	if (ret)
		return ret;
	while ((k = rstream_next(&s)) != R_END) {
		const struct event_type *e;

		if (k != R_EVENT)
			continue;
		e = event_type_of(fmt_by_id(w->m->fmt, s.rec.id));
		/* Some events only a guest with guests causes. */
		if (e->role == EV_EXIT ? enters_guest(w, e, &s.rec) : e->role == EV_NESTED_EXIT) {
			int32_t tid = fmt_pid(w->m->fmt, &s.rec);
			const struct hostmap_thread *t = hostmap_thread(w->m, tid);
			ssize_t vm = t && t->vm != HOSTMAP_END ? (ssize_t)w->m->vm[t->vm].of
							       : hostmap_task_vm(w->m, tid);

			if (vm >= 0)
				w->m->vm[vm].syms = NULL;
		}
	}
	ret = s.error;
	rstream_close(&s);
	return ret;
}

static size_t with_symbols(const struct hostmap *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->nvm; i++)
		n += m->vm[i].syms != NULL;
	return n;
}

int guest_rip_drop_nested(struct hostmap *m, size_t *n)
{
	struct nested w = { .m = m };
	size_t had = with_symbols(m);
	int ret = 0;

	*n = 0;
	if (!had)
		return 0;
	exit_names_init(&w.names, event_format(m->fmt, EV_EXIT), m->cap->vendor);
	for (size_t i = 0; i < m->cap->nstream && !ret; i++)
		ret = rip_walk(&w, &m->cap->stream[i]);
	*n = had - with_symbols(m);
	return ret;
}
