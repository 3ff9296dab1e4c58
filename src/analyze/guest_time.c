/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_time.c: picks the way from a guest's trace clock to host TSC. The arithmetic is the clock
 * room's; here is only which of it a capture needs and whether it has the constants for it.
 */
#include "guest_time.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	enum cap_clock clock;
} sampled[] = {
	{ "mono_raw", CAP_CLOCK_MONO_RAW },
	{ "mono", CAP_CLOCK_MONO },
	{ "boot", CAP_CLOCK_BOOT },
};

static int need_samples(struct guest_time *g, const struct capture *cap, enum cap_clock clock,
			struct kvmft_err *err)
{
	int ret = cap_pieces_init(&g->samples, cap, clock);

	g->kind = GCLOCK_SAMPLED;
	if (ret)
		return err_set(err, -ret,
			       "%s: trace clock %s needs readings of that clock beside the TSC, which "
			       "the capture %s: record with --clock x86-tsc",
			       cap->path, cap->clock, ret == -ENODATA ? "lacks" : "has wrong");
	return 0;
}

/* Over kvmclock, whose rate it then has, mono_raw is kvmclock and a constant. */
static bool raw_over_kvmclock(struct guest_time *g, const struct capture *cap)
{
	const struct cap_raw *r = &cap->raw;
	struct pvclock pv;
	uint64_t lo, hi;

	if (!cap->npvclock || r->mult != 1ull << r->shift)
		return false;
	pv = cap_pvclock_record(&cap->pvclock[0]);
	for (size_t i = 0; i < cap->nbracket; i++)
		if (pvclock_check(&pv) || pvclock_to_ns(&pv, cap->bracket[i].tsc, &lo) ||
		    pvclock_to_ns(&pv, cap->bracket[i].tsc + cap->bracket[i].width, &hi) ||
		    !mono_raw_fits(&g->raw, lo, hi, cap->bracket[i].mono_raw))
			return false;
	g->kind = GCLOCK_KVMCLOCK;
	g->offset = (int64_t)(r->last - r->base - (r->nsec >> r->shift));
	return cap->nbracket > 0;
}

/*
 * The kernel's own line, where the capture has it: exact. It must give what the capture read of the
 * clock each time, else the samples do.
 */
static bool raw_line(struct guest_time *g, const struct capture *cap)
{
	const struct cap_raw *r = &cap->raw;

	g->raw = (struct mono_raw){
		.last = r->last, .nsec = r->nsec, .base = r->base, .mult = r->mult, .shift = r->shift,
	};
	if (!r->known || strcmp(cap->clock, "mono_raw"))
		return false;
	if (r->over_kvmclock)
		return raw_over_kvmclock(g, cap);
	for (size_t i = 0; i < cap->nbracket; i++)
		if (!mono_raw_fits(&g->raw, cap->bracket[i].tsc,
				   cap->bracket[i].tsc + cap->bracket[i].width, cap->bracket[i].mono_raw))
			return false;
	g->kind = GCLOCK_RAW;
	return cap->nbracket > 0;
}

/* Exact with the guest's constants; else, or without kvmclock, by samples beside the TSC. */
static int sched_clock(struct guest_time *g, const struct capture *cap, bool kernel_offset,
		       enum cap_clock clock, struct kvmft_err *err)
{
	if (cap->sched_is_tsc || !cap->has_sched_offset ||
	    (kernel_offset && !cap->has_kernel_sched_offset))
		return need_samples(g, cap, clock, err);
	g->kind = GCLOCK_KVMCLOCK;
	g->offset = (int64_t)((uint64_t)cap->kvm_sched_clock_offset -
			      (kernel_offset ? (uint64_t)cap->kernel_sched_offset : 0));
	return 0;
}

int guest_time_init(struct guest_time *g, const struct capture *cap, struct kvmft_err *err)
{
	memset(g, 0, sizeof(*g));
	if (!cap->clock)
		return err_set(err, ENOTSUP, "%s does not say what its trace clock is", cap->path);
	if (!strcmp(cap->clock, "x86-tsc"))
		return 0;
	/* local is sched_clock(); global and perf are local_clock() = sched_clock() + the offset. */
	if (!strcmp(cap->clock, "local"))
		return sched_clock(g, cap, false, CAP_CLOCK_LOCAL, err);
	if (!strcmp(cap->clock, "global"))
		return sched_clock(g, cap, true, CAP_CLOCK_GLOBAL, err);
	if (!strcmp(cap->clock, "perf"))
		return sched_clock(g, cap, true, CAP_CLOCK_PERF, err);
	if (raw_line(g, cap))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(sampled); i++)
		if (!strcmp(cap->clock, sampled[i].name))
			return need_samples(g, cap, sampled[i].clock, err);
	return err_set(err, ENOTSUP, "%s: trace clock %s cannot be aligned: record with --clock x86-tsc",
		       cap->path, cap->clock);
}

void guest_time_free(struct guest_time *g)
{
	if (g)
		cap_pieces_free(&g->samples);
}

void guest_time_anchor(struct guest_time *g, const struct capture *cap, const struct capture *host)
{
	const struct cap_bracket *b = cap->bracket, *h = host->bracket;
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

/* The nearest to what the wall clocks say of all epochs that can have read ts. */
static enum epoch_result nearest(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
				 uint64_t *lo, uint64_t *hi)
{
	uint64_t want = g->near_host + (ts - g->near_guest), best = UINT64_MAX;

	for (size_t i = 0; i < v->n; i++) {
		uint64_t from, to, d;

		if (!v->v[i].has_map || tsc_to_host(&v->v[i].map, ts, &from, &to) ||
		    from < v->v[i].from || (i + 1 < v->n && from >= v->v[i + 1].from))
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

/* From guest TSC; where the epochs leave a choice the wall clocks make it. */
enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	enum epoch_result r = epoch_guest_to_host(v, ts, lo, hi);

	return r == EPOCH_AMBIGUOUS && g->has_near ? nearest(g, v, ts, lo, hi) : r;
}

/*
 * A sampled clock gives a range of guest TSC, as wide as its brackets; the vCPU's TSC at its middle
 * is the best guess, and both ends bound it.
 */
static enum epoch_result sampled_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	uint64_t from, to, unused;
	enum epoch_result r;

	if (clock_pieces_to_tsc(&g->samples.pieces, ts, &from, &to) < 0)
		return EPOCH_RANGE;
	r = guest_time_tsc_to_host(g, v, from + (to - from) / 2, lo, &unused);
	*hi = epoch_result_usable(r) ? *lo + (to - from) / 2 : 0;
	return r;
}

/* The cycles that read this ns, from the first to the last. */
static enum epoch_result raw_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	uint64_t from, to, unused;
	enum epoch_result r, last;

	if (mono_raw_to_cyc_range(&g->raw, ts, &from, &to))
		return EPOCH_RANGE;
	r = guest_time_tsc_to_host(g, v, from, lo, hi);
	last = to > from ? guest_time_tsc_to_host(g, v, to, &unused, hi) : r;
	return epoch_result_usable(last) ? r : last;
}

enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	if (g->kind == GCLOCK_TSC)
		return guest_time_tsc_to_host(g, v, ts, lo, hi);
	if (g->kind == GCLOCK_RAW)
		return raw_to_host(g, v, ts, lo, hi);
	if (g->kind == GCLOCK_SAMPLED)
		return sampled_to_host(g, v, ts, lo, hi);
	return epoch_kvmclock_to_host(v, ts + (uint64_t)g->offset, lo, hi);
}
