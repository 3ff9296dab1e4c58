/* SPDX-License-Identifier: GPL-2.0-or-later */
/* handling.c: how long exits took, from events in time order. */
#include "kvmft/exits.h"

static struct exits_open *open_at(struct exits_handling *p, uint32_t tid)
{
	return u64map_elem(&p->by_tid, tid, &p->v, &p->cap, sizeof(*p->v));
}

int exits_handling_exit(struct exits_handling *p, uint32_t tid, uint64_t ts, uint32_t reason)
{
	struct exits_open *o = open_at(p, tid);

	if (!o)
		return -ENOMEM;
	vcpu_turn_step(&o->turn, TURN_EXIT);
	o->ts = ts;
	o->reason = reason;
	return 0;
}

int exits_handling_entry(struct exits_handling *p, uint32_t tid, uint64_t ts)
{
	struct exits_open *o = open_at(p, tid);
	bool pair;

	if (!o)
		return -ENOMEM;
	pair = o->turn.state == TURN_OUT && ts >= o->ts;
	vcpu_turn_step(&o->turn, TURN_ENTRY);
	return pair ? exits_time_one(p->e, tid, o->reason, ts - o->ts) : 0;
}

void exits_handling_gap(struct exits_handling *p)
{
	for (size_t i = 0; i < p->by_tid.n; i++)
		p->v[i].turn = (struct vcpu_turn){ 0 };
}

void exits_handling_free(struct exits_handling *p)
{
	free(p->v);
	u64map_free(&p->by_tid);
	*p = (struct exits_handling){ 0 };
}
