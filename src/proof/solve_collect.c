/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_collect.c: windows and events for solve.c, from the host's threads and a guest's capture.
 */
#include "solve.h"

#include "kvmft/msr_pairs.h"
#include "kvmft/own_tsc.h"
#include "kvmft/timeline.h"

int solve_add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	const struct run_list *l = runs_of(runs, tid);
	int ret = solve_name_thread(s, vcpu, tid);

	return ret || !l ? ret : solve_add_runs(s, vcpu, l);
}

struct guest_side {
	struct solve *s;
	const struct runs *runs;
	const struct fmt *fmt;
	struct msr_pair_events msr;
	struct own_tsc own;
	uint32_t vcpu; /* of the stream */
};

static int guest_event(void *arg, const struct rec *rec)
{
	const struct guest_side *g = arg;
	enum msr_pair kind;
	uint64_t value, host, ts, width;

	if (!own_tsc_place(&g->own, rec->ts, &ts, &width))
		return 0;
	if (g->runs->ndeadline &&
	    msr_pair_match(&g->msr, g->fmt, fmt_by_id(g->fmt, rec->id), rec, &kind, &value) &&
	    kind == MSR_PAIR_DEADLINE && (host = solve_deadline(g->s, g->vcpu, g->runs, value)))
		solve_add_pair(g->s, g->vcpu, host, ts);
	return solve_add_event(g->s, g->vcpu, ts);
}

int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt)
{
	struct guest_side g = { .s = s, .runs = runs, .fmt = fmt };
	int ret = own_tsc_init(&g.own, cap, NULL);

	msr_pair_events_init(&g.msr, fmt, true);
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		g.vcpu = cap_vcpu_of_cpu(cap, cap->stream[i].cpu);
		ret = rstream_each(cap, &cap->stream[i], guest_event, &g);
	}
	own_tsc_free(&g.own);
	return ret;
}

int solve_captures(const struct tsc_map *scale, const struct hostmap *map, size_t vm,
		   const struct runs *runs, const struct capture *cap, const struct fmt *fmt,
		   struct solve **out)
{
	const struct hostmap_thread *t;
	int ret = solve_new(scale, out);

	hostmap_each_thread(map, vm, t)
		ret = ret ? ret : solve_add_thread(*out, t->vcpu, runs, t->tid);
	return ret ? ret : solve_add_guest(*out, runs, cap, fmt);
}
