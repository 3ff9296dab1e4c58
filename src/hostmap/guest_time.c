/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_time.c: from a guest's trace clock to host TSC: by kvmclock, if the capture has the
 * constants for that, because then it is exact; else own_tsc.c picks the way, to the guest's TSC.
 */
#include "kvmft/guest_time.h"

static bool by_record(const void *arg, uint64_t tsc, uint64_t *lo, uint64_t *hi)
{
	const struct pvclock *pv = arg;

	if (pvclock_check(pv) || pvclock_to_ns(pv, tsc, lo))
		return false;
	*hi = *lo;
	return true;
}

/* If it is over kvmclock, and so has its rate, mono_raw is kvmclock plus a constant. */
static bool raw_over_kvmclock(struct guest_time *g, const struct capture *cap)
{
	const struct mono_raw *r = &cap->raw.line;
	struct mono_raw raw;

	if (!cap->raw.over_kvmclock || strcmp(cap->clock, "mono_raw") || !cap->npvclock ||
	    r->mult != 1ull << r->shift)
		return false;
	g->offset = (int64_t)(r->last - r->base - (r->nsec >> r->shift));
	return cap_raw_line(cap, by_record, &cap->pvclock[0].pv, &raw);
}

/*
 * local is sched_clock(); global and perf are local_clock() = sched_clock() + an offset. Exact
 * with the constants.
 */
static bool sched_over_kvmclock(struct guest_time *g, const struct capture *cap)
{
	bool local = !strcmp(cap->clock, "local");

	if (!local && strcmp(cap->clock, "global") && strcmp(cap->clock, "perf"))
		return false;
	if (cap->sched_is_tsc || !cap->has_sched_offset ||
	    (!local && !cap->has_kernel_sched_offset))
		return false;
	g->offset = (int64_t)((uint64_t)cap->kvm_sched_clock_offset -
			      (local ? 0 : (uint64_t)cap->kernel_sched_offset));
	return true;
}

int guest_time_init(struct guest_time *g, const struct capture *cap, struct kvmft_err *err)
{
	memset(g, 0, sizeof(*g));
	g->kvmclock = cap->clock && (sched_over_kvmclock(g, cap) || raw_over_kvmclock(g, cap));
	return g->kvmclock ? 0 : own_tsc_init(&g->own, cap, err);
}

void guest_time_free(struct guest_time *g)
{
	if (g)
		own_tsc_free(&g->own);
}

void guest_time_anchor(struct guest_time *g, const struct capture *cap, const struct capture *host)
{
	const struct clock_bracket *b = cap->bracket, *h = host->bracket;
	unsigned __int128 cycles;
	uint64_t ns;

	if (!cap->nbracket || !host->nbracket || !host->tsc_khz || !b->real || !h->real)
		return;
	ns = b->real > h->real ? b->real - h->real : h->real - b->real;
	cycles = (unsigned __int128)ns * host->tsc_khz / 1000000;
	if (cycles > INT64_MAX)
		return;
	g->near_host = b->real > h->real ? h->tsc + (uint64_t)cycles : h->tsc - (uint64_t)cycles;
	g->near_guest = b->tsc;
	g->has_near = true;
}

/*
 * Of all epochs that can have read ts, the first one after the previous event on that CPU: a CPU's
 * events are in order, whatever was written to its TSC. If there is none, the nearest to what the
 * wall clocks say.
 */
static enum epoch_result choose(const struct guest_time *g, const struct epoch_vcpu *v,
				uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	uint64_t want = after ?: g->near_host + (ts - g->near_guest), best = UINT64_MAX;

	for (size_t i = 0; i < v->n; i++) {
		uint64_t from, to, d;

		if (!v->v[i].has_map || tsc_to_host(&v->v[i].map, ts, &from, &to) ||
		    from < v->v[i].from || (i + 1 < v->n && from >= v->v[i + 1].from) ||
		    from < after)
			continue;
		d = from > want ? from - want : want - from;
		if (d >= best)
			continue;
		best = d;
		*lo = from;
		*hi = MAX(from, to);
	}
	return best == UINT64_MAX ? EPOCH_AMBIGUOUS : EPOCH_DOUBTFUL;
}

/* From guest TSC. */
static enum epoch_result tsc_to_host_after(const struct guest_time *g, const struct epoch_vcpu *v,
					   uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	enum epoch_result r = epoch_guest_to_host(v, ts, lo, hi);

	return r == EPOCH_AMBIGUOUS && (g->has_near || after) ? choose(g, v, after, ts, lo, hi) : r;
}

enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	return tsc_to_host_after(g, v, 0, ts, lo, hi);
}

/*
 * A clock read together with the TSC gives a range of it. For a line, both ends are the vCPU's TSC;
 * if only readings are known, the middle is the best guess, and both ends bound it.
 */
static enum epoch_result own_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	uint64_t from, to, unused;
	enum epoch_result r, last;

	if (!own_tsc_range(&g->own, ts, &from, &to))
		return EPOCH_RANGE;
	if (g->own.kind == OWN_SAMPLED) {
		r = tsc_to_host_after(g, v, after, from + (to - from) / 2, lo, &unused);
		*hi = epoch_result_usable(r) ? *lo + (to - from) / 2 : 0;
		return r;
	}
	r = tsc_to_host_after(g, v, after, from, lo, hi);
	last = to > from ? tsc_to_host_after(g, v, after, to, &unused, hi) : r;
	return epoch_result_usable(last) ? r : last;
}

enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	if (g->kvmclock)
		return epoch_kvmclock_to_host(v, ts + (uint64_t)g->offset, lo, hi);
	if (g->own.kind == OWN_TSC)
		return tsc_to_host_after(g, v, after, ts, lo, hi);
	return own_to_host(g, v, after, ts, lo, hi);
}

bool guest_time_line(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
		     struct epoch_line *line)
{
	return !g->kvmclock && g->own.kind == OWN_TSC && epoch_guest_line(v, ts, line);
}
