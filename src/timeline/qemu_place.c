/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_place.c: from pairs of anchors to the earliest and latest time of an event.
 *
 * Each pair bounds the time of one event from one side or both; what is known about the rate
 * carries the bounds to the others. If two pairs contradict each other, both are left out, and if
 * these become many, nothing is trusted.
 */
#include "qemu_place.h"

#define SAMPLES	   4096 /* the number of samples that it is reduced to, at most */
#define DROP_SHIFT 6	/* 2^-n of all pairs may contradict others */
#define ROUNDS	   64
#define MIN_BOTH   8 /* bounds of either side */

typedef __int128 s128;

/* How the rate may change: of a steered clock, and at most by NTP for others. */
static const uint64_t drift_ppb[] = { 20000, 600000 };

struct bounds {
	struct qpair *v;
	size_t n, dropped;
	uint64_t slow, fast; /* cycles per ns << 32 */
	size_t *from;	     /* the pair that gives a bound */
	uint64_t *lo, *hi;   /* at each pair; 0, UINT64_MAX: none */
	size_t *hi_from;
	bool *out;
};

static uint64_t cycles(uint64_t rate, uint64_t ns)
{
	s128 c = (s128)rate * ns >> 32;

	return c > INT64_MAX / 2 ? INT64_MAX / 2 : (uint64_t)c;
}

/* The best lower and upper bound at pair i from earlier pairs, and from later ones. */
static void bound_one(struct bounds *b, size_t i, size_t before, bool forward)
{
	uint64_t d = 0, lo = 0, hi = UINT64_MAX;

	if (before < b->n) {
		d = forward ? b->v[i].at - b->v[before].at : b->v[before].at - b->v[i].at;
		if (b->lo[before])
			lo = forward ? b->lo[before] + cycles(b->slow, d)
				     : b->lo[before] - MIN(b->lo[before], cycles(b->fast, d));
		if (b->hi[before] != UINT64_MAX)
			hi = forward ? b->hi[before] + cycles(b->fast, d)
				     : b->hi[before] - MIN(b->hi[before], cycles(b->slow, d));
	}
	if (before < b->n && lo > b->lo[i]) {
		b->lo[i] = lo;
		b->from[i] = b->from[before];
	}
	if (before < b->n && hi < b->hi[i]) {
		b->hi[i] = hi;
		b->hi_from[i] = b->hi_from[before];
	}
}

static void bound_all(struct bounds *b)
{
	size_t last = SIZE_MAX;

	for (size_t i = 0; i < b->n; i++) {
		b->lo[i] = b->out[i] ? 0 : b->v[i].lo;
		b->hi[i] = b->out[i] ? UINT64_MAX : b->v[i].hi;
		b->from[i] = b->hi_from[i] = i;
		bound_one(b, i, last, true);
		last = i;
	}
	last = SIZE_MAX;
	for (size_t i = b->n; i--; last = i)
		bound_one(b, i, last, false);
}

/* Leaves out pairs that contradict each other, until none do. False: they are too many. */
static bool agree(struct bounds *b)
{
	bool again = true;

	b->dropped = 0;
	memset(b->out, 0, b->n * sizeof(*b->out));
	for (int round = 0; round < ROUNDS && again; round++) {
		again = false;
		bound_all(b);
		for (size_t i = 0; i < b->n; i++) {
			if (b->lo[i] <= b->hi[i] || b->out[b->from[i]] || b->out[b->hi_from[i]])
				continue;
			b->out[b->from[i]] = b->out[b->hi_from[i]] = again = true;
			b->dropped += 2;
		}
	}
	for (size_t i = 0; i < b->n; i++)
		again |= b->lo[i] > b->hi[i];
	return !again && b->dropped <= b->n >> DROP_SHIFT;
}

static int bounds_init(struct bounds *b, struct qpairs *p)
{
	*b = (struct bounds){ .v = p->v, .n = p->n };
	b->from = calloc(b->n, sizeof(*b->from));
	b->hi_from = calloc(b->n, sizeof(*b->hi_from));
	b->lo = calloc(b->n, sizeof(*b->lo));
	b->hi = calloc(b->n, sizeof(*b->hi));
	b->out = calloc(b->n, sizeof(*b->out));
	return b->from && b->hi_from && b->lo && b->hi && b->out ? 0 : -ENOMEM;
}

static void bounds_free(struct bounds *b)
{
	free(b->from);
	free(b->hi_from);
	free(b->lo);
	free(b->hi);
	free(b->out);
}

static bool both_sides(const struct qpairs *p)
{
	size_t lo = 0, hi = 0;

	for (size_t i = 0; i < p->n; i++) {
		lo += p->v[i].lo != 0;
		hi += p->v[i].hi != UINT64_MAX;
	}
	return lo >= MIN_BOTH && hi >= MIN_BOTH;
}

static bool has_both(const struct bounds *b, size_t i)
{
	return b->lo[i] && b->hi[i] != UINT64_MAX;
}

/*
 * The rate over the whole time, as the bounds at both ends allow it; *error is its own plus what
 * the clock may change besides.
 */
static uint64_t rate_of(const struct bounds *b, uint64_t rate, uint64_t ppb, uint64_t *error)
{
	size_t i = 0, k = b->n - 1;
	uint64_t wide, d;

	while (i < k && !has_both(b, i))
		i++;
	while (k > i && !has_both(b, k))
		k--;
	*error = rate >> 6;
	if (i == k || b->lo[k] <= b->hi[i])
		return rate;
	d = b->v[k].at - b->v[i].at;
	wide = b->hi[i] - b->lo[i] + (b->hi[k] - b->lo[k]);
	if (!d || wide >> 40 || d >> 60)
		return rate;
	*error = MIN(*error, (uint64_t)(((s128)wide << 31) / d) +
				     (uint64_t)((s128)rate * ppb / 1000000000));
	return (uint64_t)(((s128)(b->lo[k] + (b->hi[k] - b->lo[k]) / 2 - b->lo[i] -
				  (b->hi[i] - b->lo[i]) / 2)
			   << 32) /
			  d);
}

/* With ever better rates, as the bounds get closer. */
static bool close_in(struct bounds *b, uint64_t rate, uint64_t ppb)
{
	uint64_t error = rate >> 6;

	for (int i = 0; i < 6; i++) {
		uint64_t allowed = MAX(error, (uint64_t)((s128)rate * ppb / 1000000000));

		b->slow = rate - allowed;
		b->fast = rate + allowed;
		if (!agree(b))
			return false;
		rate = rate_of(b, rate, ppb, &error);
	}
	return true;
}

static void add_sample(struct qplace *p, uint64_t ns, uint64_t lo, uint64_t hi)
{
	if (!p->n || lo > p->v[p->n - 1].tsc_after)
		p->v[p->n++] = (struct clock_sample){ .tsc_before = lo, .tsc_after = hi, .ns = ns };
}

/*
 * What the bounds at pair i say about the beginning or the end of the host's recording, which is
 * not between pairs.
 */
static void add_edge(struct qplace *p, const struct bounds *b, size_t i, bool end)
{
	uint64_t far = end ? p->last - MIN(p->last, b->lo[i]) : b->hi[i] - MIN(b->hi[i], p->first),
		 ns, lo, hi;

	if (far >> 56)
		return;
	ns = (uint64_t)(((s128)far << 32) / (s128)b->slow) + 1;
	lo = end ? b->lo[i] + cycles(b->slow, ns) : b->lo[i] - MIN(b->lo[i], cycles(b->fast, ns));
	hi = end ? b->hi[i] + cycles(b->fast, ns) : b->hi[i] - MIN(b->hi[i], cycles(b->slow, ns));
	if (end)
		add_sample(p, b->v[i].at + ns, lo, hi);
	else if (b->v[i].at > ns && lo)
		add_sample(p, b->v[i].at - ns, lo, hi);
}

/* The closest bounds of each part of the time become samples, as long as they are in order. */
static int take_samples(struct qplace *p, const struct bounds *b)
{
	uint64_t span = b->v[b->n - 1].at - b->v->at;
	size_t i = 0, last = SIZE_MAX;

	p->v = calloc(SAMPLES + 2, sizeof(*p->v));
	if (!p->v)
		return -ENOMEM;
	for (uint64_t part = 0; part < SAMPLES; part++) {
		uint64_t end = b->v->at + (uint64_t)((s128)span * (part + 1) / SAMPLES);
		size_t best = SIZE_MAX;

		for (; i < b->n && b->v[i].at <= end; i++)
			if (has_both(b, i) &&
			    (best == SIZE_MAX || b->hi[i] - b->lo[i] < b->hi[best] - b->lo[best]))
				best = i;
		if (best == SIZE_MAX)
			continue;
		if (last == SIZE_MAX)
			add_edge(p, b, best, false);
		last = best;
		add_sample(p, b->v[best].at, b->lo[best], b->hi[best]);
	}
	if (last != SIZE_MAX)
		add_edge(p, b, last, true);
	return 0;
}

/* unit: resolution of QEMU's times, ns: the event was later by up to that. */
static int place_timed(struct qplace *p, struct qpairs *pairs, uint64_t unit)
{
	struct clock_pieces try;
	struct bounds b;
	int ret = bounds_init(&b, pairs);
	bool found = false;

	for (size_t i = 0; i < pairs->n; i++)
		pairs->v[i].lo -= MIN(pairs->v[i].lo, cycles(pairs->rate, unit));
	for (size_t i = 0; i < ARRAY_SIZE(drift_ppb) && !ret && !found; i++) {
		p->slew_ppb = (uint32_t)(2 * drift_ppb[i]);
		found = close_in(&b, pairs->rate, drift_ppb[i]);
	}
	if (found)
		ret = take_samples(p, &b);
	p->khz = (uint32_t)MIN((uint64_t)((s128)pairs->rate * 1000000 >> 32), (uint64_t)UINT32_MAX);
	if (found && !ret && !clock_pieces_init(&try, p->v, p->n, p->khz, p->slew_ppb))
		p->pairs = b.n - b.dropped;
	else
		p->why = "what both sides show contradicts itself";
	bounds_free(&b);
	return ret;
}

int qplace_find(struct qplace *p, struct hostmap *map, int64_t vm, struct qtrace *trace,
		struct kvmft_err *err)
{
	struct qanchors q = { 0 }, h = { 0 };
	struct qpairs pairs = { 0 };
	int ret = qanchors_host(map, vm, &h, err);

	ret = ret ?: qtrace_rewind(trace);
	ret = ret ?: qanchors_qemu(trace, h.prints, &q);
	ret = ret ?: qmatch_timed(&q, &h, map->cap->tsc_khz, &pairs, &p->why);
	if (ret > 0 && !both_sides(&pairs)) {
		p->why = "what both sides show bounds its time from one side only";
		ret = 0;
	}
	p->first = h.first;
	p->last = h.last;
	if (ret > 0)
		ret = place_timed(p, &pairs, q.unit);
	qpairs_free(&pairs);
	qanchors_free(&q);
	qanchors_free(&h);
	return ret;
}

void qplace_free(struct qplace *p)
{
	free(p->v);
	*p = (struct qplace){ 0 };
}
