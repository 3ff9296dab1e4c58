/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_time.c: from a guest's trace clock to host TSC: by kvmclock, if the capture has the
 * constants for that, because then it is exact; else own_tsc_init() picks the way, to its TSC.
 */
#include "kvmft/hostmap.h"
/* ---- from the bracketed readings of a capture to lines between them ---- */

/* What NTP may steer a clock by, and as much again for a tsc_khz that is not exact. */
#define STEP_PPM 1000
/* A rate is never trusted to be steadier than this, however steady it looks. */
#define SLEW_MIN_PPB 1000

static const struct {
	size_t field;	  /* of struct clock_bracket; 0: in struct cap_clock_sample, by name */
	const char *name; /* as a trace clock; NULL: it is none */
	bool steered;	  /* by NTP */
} sampled[] = {
	[CAP_CLOCK_MONO_RAW] = { offsetof(struct clock_bracket, mono_raw), "mono_raw", false },
	[CAP_CLOCK_MONO] = { offsetof(struct clock_bracket, mono), "mono", true },
	[CAP_CLOCK_BOOT] = { offsetof(struct clock_bracket, boot), "boot", true },
	[CAP_CLOCK_REALTIME] = { offsetof(struct clock_bracket, real), NULL, true },
	[CAP_CLOCK_LOCAL] = { 0, "local", false },
	[CAP_CLOCK_GLOBAL] = { 0, "global", false },
	[CAP_CLOCK_PERF] = { 0, "perf", false },
};

/* The one with that name as a trace clock; false: none of them. */
static bool cap_clock_find(const char *name, enum cap_clock *clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(sampled); i++)
		if (sampled[i].name && !strcmp(sampled[i].name, name)) {
			*clock = (enum cap_clock)i;
			return true;
		}
	return false;
}

COMPARE_BY(sample_cmp, struct clock_sample, .tsc_before);

static uint64_t sample_width(const struct clock_sample *s)
{
	return s->tsc_after - s->tsc_before;
}

static void take_one(struct clock_sample *v, size_t *n, uint64_t tsc, uint64_t width, uint64_t ns)
{
	if (width <= UINT64_MAX - tsc) /* otherwise the file is damaged */
		v[(*n)++] = (struct clock_sample){ tsc, tsc + width, .ns = ns };
}

/* Maximum number of readings. */
static size_t readings_of(const struct capture *cap, enum cap_clock clock)
{
	return sampled[clock].field ? cap->nbracket : cap->nsample;
}

/* The readings in TSC order; of two that overlap the tighter one stays. Returns how many. */
static size_t readings_take(const struct capture *cap, enum cap_clock clock, struct clock_sample *v)
{
	size_t n = 0, kept = 0, field = sampled[clock].field;

	for (size_t i = 0; field && i < cap->nbracket; i++) {
		const struct clock_bracket *b = &cap->bracket[i];

		take_one(v, &n, b->tsc, b->width, *(const uint64_t *)((const char *)b + field));
	}
	for (size_t i = 0; !field && i < cap->nsample; i++) {
		const struct cap_clock_sample *s = &cap->sample[i];

		if (!strcmp(s->clock, sampled[clock].name))
			take_one(v, &n, s->tsc, s->width, s->ns);
	}
	array_sort(v, n, sample_cmp);
	for (size_t i = 0; i < n; i++) {
		if (!kept || v[i].tsc_before > v[kept - 1].tsc_after)
			v[kept++] = v[i];
		else if (sample_width(&v[i]) < sample_width(&v[kept - 1]))
			v[kept - 1] = v[i];
	}
	return kept;
}

/* The largest change of rate between neighbours, as a measure of what happens within one. */
static uint32_t slew_of(const struct clock_sample *v, size_t n)
{
	uint64_t most = SLEW_MIN_PPB;

	for (size_t i = 0; i + 2 < n; i++) {
		/* ns per cycle in units of 2^-40; 0: not forward */
		unsigned __int128 rate[2] = { 0 }, d;

		for (size_t k = i; k < i + 2; k++)
			if (v[k + 1].tsc_before != v[k].tsc_before && v[k + 1].ns > v[k].ns)
				rate[k - i] = ((unsigned __int128)(v[k + 1].ns - v[k].ns) << 40) /
					      (v[k + 1].tsc_before - v[k].tsc_before);
		d = rate[0] > rate[1] ? rate[0] - rate[1] : rate[1] - rate[0];

		if (v[i].step || v[i + 1].step || !rate[0] || !rate[1] || rate[0] >> 80 || d >> 80)
			continue;
		d = d * 1000000000 / rate[0];
		most = MAX(most, d > UINT32_MAX ? UINT32_MAX : (uint64_t)d);
	}
	return (uint32_t)most;
}

/* Where the file says what makes its stamps, which are ns, the time of day: from the first on. */
static int pieces_of_day(struct cap_pieces *p, const struct capture *cap)
{
	uint64_t first = UINT64_MAX, at;

	for (size_t i = 0; i < cap->nstream; i++)
		if (!capture_read_part(cap, &cap->stream[i], 0, 0, &at, sizeof(at), NULL))
			first = MIN(first, at);
	first = first > INT64_MAX ? 0 : first;
	p->v = xcalloc(2, sizeof(*p->v));
	for (size_t i = 0; i < 2; i++, first += 1000000000)
		p->v[i] = (struct clock_sample){ .tsc_before = first,
						 .tsc_after = first,
						 .ns = first + (uint64_t)cap->real_add };
	return clock_pieces_init(&p->pieces, p->v, 2, 1000000, 0);
}

int cap_pieces_init(struct cap_pieces *p, const struct capture *cap, enum cap_clock clock)
{
	const size_t least = cap->complete ? 2 : 1;
	struct tsc_rate nominal;
	uint64_t khz;
	size_t n;

	memset(p, 0, sizeof(*p));
	if (clock == CAP_CLOCK_REALTIME && cap->has_real)
		return pieces_of_day(p, cap);
	if (readings_of(cap, clock) < least)
		return -ENODATA;
	tsc_rate_said(cap, &nominal);
	khz = nominal.khz;
	if (!khz || khz > UINT32_MAX)
		return -ENOTSUP;
	p->v = xcalloc(readings_of(cap, clock) + 1, sizeof(*p->v));
	n = readings_take(cap, clock, p->v);
	/*
	 * A capture that has only just begun, or was short, has one reading: the line through it
	 * has the TSC's nominal rate.
	 */
	if (!cap->complete && n == 1) {
		p->v[1] = (struct clock_sample){ .tsc_before = p->v[0].tsc_before + khz * 1000,
						 .tsc_after = p->v[0].tsc_after + khz * 1000,
						 .ns = p->v[0].ns + 1000000000 };
		n = 2;
	}
	if (n < 2)
		return -ENODATA;
	if (clock_pieces_mark_steps(p->v, n, (uint32_t)khz, STEP_PPM, NULL) < 0 ||
	    clock_pieces_init(&p->pieces, p->v, n, (uint32_t)khz,
			      sampled[clock].steered ? slew_of(p->v, n) : 0))
		return -EINVAL;
	return 0;
}

void cap_pieces_free(struct cap_pieces *p)
{
	free(p->v);
	memset(p, 0, sizeof(*p));
}

bool cap_raw_line(const struct capture *cap, cap_kvmclock *kvmclock, const void *arg,
		  struct mono_raw *raw)
{
	const struct cap_raw *r = &cap->raw;

	*raw = r->line;
	if (!r->known || (r->over_kvmclock && !kvmclock))
		return false;
	for (size_t i = 0; i < cap->nbracket; i++) {
		const struct clock_bracket *b = &cap->bracket[i];
		uint64_t lo = b->tsc, hi = b->tsc + b->width, unused;

		if (r->over_kvmclock &&
		    (!kvmclock(arg, lo, &lo, &unused) || !kvmclock(arg, hi, &unused, &hi)))
			return false;
		if (!mono_raw_fits(raw, lo, hi, b->mono_raw))
			return false;
	}
	return cap->nbracket > 0;
}

/*
 * Picks the way from a trace clock to the TSC; no other file does. The arithmetic is in
 * the clock room; here is only which part of it a capture needs, and whether it has the data.
 */

int own_tsc_init(struct own_tsc *o, const struct capture *cap, struct kvmft_err *err)
{
	struct clock_link *l = &o->link;
	enum cap_clock clock;

	*o = (struct own_tsc){ .link.way = CLOCK_WAY_SAME };
	if (!cap->clock)
		return err_lack(err, ENOTSUP, "%s does not say what its trace clock is", cap->path);
	if (cap_in_tsc(cap))
		return 0;
	/* perf's own clock, as described in perf.data. */
	l->way = CLOCK_WAY_CYC2NS;
	l->line = cap->line.line;
	if (cap->line.known && !cyc2ns_check(&l->line))
		return 0;
	/* The kernel's own line, if the capture has it: exact. Else the samples. */
	l->way = CLOCK_WAY_RAW;
	if (!strcmp(cap->clock, "mono_raw") && !cap->raw.over_kvmclock &&
	    cap_raw_line(cap, NULL, NULL, &l->raw))
		return 0;
	if (cap->is_perfdata) {
		/* perf describes only its own clock, if that is based on the machine's TSC. */
		if (strcmp(cap->clock, "perf"))
			return err_lack(
				err, ENOTSUP,
				"%s: clock %s cannot be put on the TSC: record without perf's option -k, or with "
				"kvmft record",
				cap->path, cap->clock);
		return err_lack(
			err, ENOTSUP,
			"%s does not relate perf's clock to the TSC: perf cannot on a machine that is not "
			"x86, is itself a guest with kvm-clock, or has an unstable TSC; record with kvmft "
			"record, or trace-cmd record -C x86-tsc",
			cap->path);
	}
	if (cap_clock_find(cap->clock, &clock)) {
		struct cap_pieces p;
		int ret = cap_pieces_init(&p, cap, clock);

		l->way = CLOCK_WAY_PIECES;
		l->pieces = p.pieces;
		o->v = p.v;
		if (!ret)
			return 0;
		own_tsc_free(o);
		return err_lack(
			err, ENOTSUP,
			"%s: trace clock %s needs readings of that clock against the TSC, which the capture %s: record "
			"with %s",
			cap->path, cap->clock, ret == -ENODATA ? "lacks" : "has wrong",
			cap_clock_advice(cap));
	}
	return err_lack(err, ENOTSUP, "%s: trace clock %s cannot be aligned: record with %s",
			cap->path, cap->clock, cap_clock_advice(cap));
}

void own_tsc_free(struct own_tsc *o)
{
	if (!o)
		return;
	free(o->v);
	*o = (struct own_tsc){ 0 };
}

static bool is_sampled(const struct own_tsc *o)
{
	return o->link.way == CLOCK_WAY_PIECES;
}

bool own_tsc_is_exact(const struct capture *cap)
{
	struct own_tsc o;
	bool exact = !own_tsc_init(&o, cap, NULL) && !is_sampled(&o);

	own_tsc_free(&o);
	return exact;
}

bool own_tsc_place(const struct own_tsc *o, uint64_t ts, uint64_t *at, uint64_t *width)
{
	uint64_t lo, hi;

	if (clock_link_up(&o->link, ts, &lo, &hi) < 0)
		return false;
	*at = is_sampled(o) ? lo + (hi - lo) / 2 : lo;
	*width = is_sampled(o) ? 0 : hi - lo;
	return true;
}

uint64_t own_tsc_around(const struct own_tsc *o)
{
	const struct clock_pieces *p = &o->link.pieces;
	uint64_t most = 0, lo, hi;

	for (size_t i = 0; is_sampled(o) && i < p->n; i++)
		if (clock_pieces_to_tsc(p, p->v[i].ns, &lo, &hi) >= 0)
			most = MAX(most, (hi - lo) / 2 + 1);
	return most;
}

static bool by_record(const void *arg, uint64_t tsc, uint64_t *lo, uint64_t *hi)
{
	const struct pvclock *pv = arg;

	if (pvclock_check(pv) || pvclock_to_ns(pv, tsc, lo))
		return false;
	*hi = *lo;
	return true;
}

int guest_time_init(struct guest_time *g, const struct capture *cap, struct kvmft_err *err)
{
	const bool local = cap->clock && !strcmp(cap->clock, "local");
	struct clock_link *l = &g->own.link;
	const struct mono_raw *r = &cap->raw.line;
	struct mono_raw raw;

	*g = (struct guest_time){ .own.link = { CLOCK_WAY_LATER, CLK_KVMCLOCK, .later = 0 } };
	if (!cap->clock || cap->unit_ns)
		return own_tsc_init(&g->own, cap, err);
	/*
	 * local is sched_clock(); global and perf are local_clock() = sched_clock() + an offset.
	 * Exact with the constants.
	 */
	if ((local || !strcmp(cap->clock, "global") || !strcmp(cap->clock, "perf")) &&
	    !cap->sched_is_tsc && cap->has_sched_offset &&
	    (local || cap->has_kernel_sched_offset)) {
		l->later = (local ? 0 : (uint64_t)cap->kernel_sched_offset) -
			   (uint64_t)cap->kvm_sched_clock_offset;
		return 0;
	}
	/* If it is over kvmclock, and so has its rate, mono_raw is kvmclock plus a constant. */
	l->later = r->base + (r->nsec >> r->shift) - r->last;
	if (cap->raw.over_kvmclock && !strcmp(cap->clock, "mono_raw") && cap->npvclock &&
	    r->mult == 1ull << r->shift && cap_raw_line(cap, by_record, &cap->pvclock[0].pv, &raw))
		return 0;
	return own_tsc_init(&g->own, cap, err);
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
static enum epoch_result choose_link(const struct guest_time *g, const struct epoch_vcpu *v,
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

	return r == EPOCH_AMBIGUOUS && (g->has_near || after) ? choose_link(g, v, after, ts, lo, hi)
							      : r;
}

enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	return tsc_to_host_after(g, v, 0, ts, lo, hi);
}

enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	const struct clock_link *l = &g->own.link;
	uint64_t from, to, unused;
	enum epoch_result r, last;

	if (l->over == CLK_KVMCLOCK)
		return epoch_kvmclock_to_host(v, ts - l->later, lo, hi);
	if (l->way == CLOCK_WAY_SAME)
		return tsc_to_host_after(g, v, after, ts, lo, hi);
	/*
	 * A clock read together with the TSC gives a range of it. For a line, both ends are the
	 * vCPU's TSC; if only readings are known, the middle is the best guess, and both ends
	 * bound it.
	 */
	if (clock_link_up(&g->own.link, ts, &from, &to) < 0)
		return EPOCH_RANGE;
	if (is_sampled(&g->own)) {
		r = tsc_to_host_after(g, v, after, from + (to - from) / 2, lo, &unused);
		*hi = epoch_result_usable(r) ? *lo + (to - from) / 2 : 0;
		return r;
	}
	r = tsc_to_host_after(g, v, after, from, lo, hi);
	last = to > from ? tsc_to_host_after(g, v, after, to, &unused, hi) : r;
	return epoch_result_usable(last) ? r : last;
}

bool guest_time_line(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
		     struct epoch_line *line)
{
	return g->own.link.way == CLOCK_WAY_SAME && epoch_guest_line(v, ts, line);
}
