/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_collect.c: windows and events for solve.c, from what a host's threads did and a guest's capture.
 */
#include "solve.h"

#include "kvmft/pairs.h"
#include "kvmft/timeline.h"

int solve_add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	const struct run_list *l = runs_of(runs, tid);
	int ret = solve_name_thread(s, vcpu, tid);

	return ret || !l ? ret : solve_add_runs(s, vcpu, l);
}

int solve_add_host(struct solve *s, const struct hostmap *map, size_t vm, const struct runs *runs)
{
	const struct hostmap_thread *t;
	int ret = 0;

	hostmap_each_thread(map, vm, t)
		ret = ret ? ret : solve_add_thread(s, t->vcpu, runs, t->tid);
	return ret;
}

struct guest_side {
	struct solve *s;
	const struct runs *runs;
	const struct fmt *fmt;
	struct pair_events msr;
};

static int guest_event(const struct guest_side *g, uint32_t vcpu, const struct rec *rec)
{
	enum pair_kind kind;
	uint64_t value, host;

	if (g->runs->ndeadline &&
	    pair_match(&g->msr, g->fmt, fmt_by_id(g->fmt, rec->id), rec, &kind, &value) &&
	    kind == PAIR_DEADLINE && (host = solve_deadline(g->s, vcpu, g->runs, value)))
		solve_add_pair(g->s, vcpu, host, rec->ts);
	return solve_add_event(g->s, vcpu, rec->ts);
}

static int guest_stream(const struct guest_side *g, const struct capture *cap, const struct cap_stream *st)
{
	uint32_t vcpu = cap_vcpu_of_cpu(cap, st->cpu);
	struct rstream r;
	enum rkind k;
	int ret = rstream_open(&r, cap, st);

	if (ret)
		return ret;
	while (!ret && (k = rstream_next(&r)) != R_END)
		if (k == R_EVENT)
			ret = guest_event(g, vcpu, &r.rec);
	if (!ret)
		ret = r.error;
	rstream_close(&r);
	return ret;
}

int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt)
{
	struct guest_side g = { .s = s, .runs = runs, .fmt = fmt };
	int ret = 0;

	pair_events_init(&g.msr, fmt, true);
	for (size_t i = 0; i < cap->nstream && !ret; i++)
		ret = guest_stream(&g, cap, &cap->stream[i]);
	return ret;
}
