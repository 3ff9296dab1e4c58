/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc_rate.c: the frequency of a TSC, from the first source that has it.
 *
 * kHz are exact enough: the kernel itself knows its tsc_khz in whole kHz, and computes from that
 * the multipliers of pvclock, of its clocks and of TSC2NSEC. So those were made from the kHz
 * nearest to what they say.
 */
#include "kvmft/tsc_rate.h"

typedef unsigned __int128 u128;

#define USEFUL_PPM 5000 /* either way: anything less certain counts as unknown */
#define GOOD_PPM   50 /* ... and with this, no other capture is consulted */
#define KHZ_MIN	   1000 /* anything slower, or faster, is nonsense in a file */
#define KHZ_MAX	   100000000
/* CLOCK_MONOTONIC_RAW's multiplier is rounded: its rate is off by up to 240 parts per 10^9. */
#define RAW_PPB	   240

uint64_t tsc_rate_ppm(const struct tsc_rate *r)
{
	return r->khz ? (uint64_t)(((u128)(r->max - r->min) * 500000 + r->khz - 1) / r->khz) : 0;
}

static struct tsc_rate exactly(enum tsc_rate_source source, uint64_t khz)
{
	return (struct tsc_rate){ .source = source, .khz = khz, .min = khz, .max = khz };
}

/* From min to max, if that is plausible. */
static bool between(enum tsc_rate_source source, u128 min, u128 max, struct tsc_rate *r)
{
	if (min < KHZ_MIN || max < min || max > KHZ_MAX)
		return false;
	*r = (struct tsc_rate){ .source = source,
				.khz = (uint64_t)(min + (max - min) / 2),
				.min = (uint64_t)min,
				.max = (uint64_t)max };
	return tsc_rate_ppm(r) <= USEFUL_PPM;
}

/* ---- what the capture says ---- */

/* The first reading and the last, each somewhere within its bracket. */
static bool by_readings(const struct capture *cap, struct tsc_rate *r)
{
	const struct clock_bracket *a = cap->bracket, *b;
	u128 min, max, off;
	uint64_t ns;

	if (cap->nbracket < 2)
		return false;
	b = a + cap->nbracket - 1;
	if (b->tsc <= a->tsc || b->mono_raw <= a->mono_raw ||
	    b->tsc - a->tsc < a->width)
		return false;
	ns = b->mono_raw - a->mono_raw;
	min = (u128)(b->tsc - a->tsc - a->width) * 1000000 / (ns + 1);
	max = ((u128)(b->tsc - a->tsc) + b->width) * 1000000 / (ns > 1 ? ns - 1 : 1) + 1;
	off = max * RAW_PPB / 1000000000 + 1;
	return between(TSC_RATE_READINGS, min - MIN(off, min), max + off, r);
}

void tsc_rate_said(const struct capture *cap, struct tsc_rate *r)
{
	if (cap->tsc_khz)
		*r = exactly(TSC_RATE_CAPTURE, cap->tsc_khz);
	else if (!by_readings(cap, r))
		*r = (struct tsc_rate){ 0 };
	if (cap->tsc_khz && cap->tsc_khz_max) {
		r->min = cap->tsc_khz_min;
		r->max = cap->tsc_khz_max;
	}
}

/* ---- guests ---- */

bool tsc_rate_of_pvclock(uint32_t mul, int8_t shift, struct tsc_rate *r)
{
	uint64_t khz, first = 0, last = 0, span = shift < 0 ? 1ull << MIN(-shift, 31) : 1;

	if (pvclock_khz(mul, shift, &khz) || !khz || khz + span > UINT32_MAX || span > khz)
		return false;
	for (uint64_t k = khz; k <= khz + span; k++) { /* khz is rounded down, to a power of two */
		uint32_t m;
		int8_t s;

		if (pvclock_params_from_khz((uint32_t)k, &m, &s) || m != mul || s != shift)
			continue;
		first = first ?: k;
		last = k;
	}
	return between(TSC_RATE_PVCLOCK, first, last, r);
}

/* The first host kHz that scales to guest kHz or more. */
static u128 unscale(uint64_t guest, const struct tsc_map *map)
{
	return (((u128)guest << map->frac) + map->ratio - 1) / map->ratio;
}

bool tsc_rate_of_guest(const struct tsc_rate *guest, const struct tsc_map *map, struct tsc_rate *r)
{
	if (!guest->source || (map && tsc_map_check(map)))
		return false;
	*r = *guest;
	r->supposed = !map;
	if (!map || !map->ratio)
		return true;
	/* KVM rounds down, and a guest may round up again. */
	return between(guest->source, unscale(guest->min, map), unscale(guest->max + 2, map) - 1,
		       r);
}

static bool by_guest(const struct tsc_rate_guest *g, struct tsc_rate *r)
{
	struct tsc_rate own = { 0 };

	for (size_t i = 0; i < g->cap->npvclock && !own.source; i++)
		if (!tsc_rate_of_pvclock(g->cap->pvclock[i].pv.mul,
					 g->cap->pvclock[i].pv.shift, &own))
			own = (struct tsc_rate){ 0 };
	if (!own.source)
		tsc_rate_said(g->cap, &own);
	if (!tsc_rate_of_guest(&own, g->has_map ? &g->map : NULL, r))
		return false;
	r->source = TSC_RATE_GUEST;
	return true;
}

/* ---- all together ---- */

/* A result that assumes an unscaled guest TSC must fit what the host's events show. */
static bool fits(const struct tsc_rate *r, const struct tsc_rate_events *e)
{
	return r->source && (!r->supposed || (r->max >= e->waits.min && r->min <= e->waits.max &&
					      r->max >= e->timers.min && r->min <= e->timers.max));
}

static void keep_narrower(struct tsc_rate *r, const struct tsc_rate *other)
{
	if (other->source && (!r->source || other->max - other->min < r->max - r->min))
		*r = *other;
}

static struct tsc_rate of_bounds(enum tsc_rate_source source, const struct tsc_rate_bounds *b)
{
	struct tsc_rate r;

	return between(source, b->min, b->max, &r) ? r : (struct tsc_rate){ 0 };
}

/* What a guest's timers reveal about the host. */
static int by_guest_timers(const struct tsc_rate_guest *g, struct tsc_rate *r)
{
	struct tsc_rate_events e;
	struct tsc_rate own;
	int ret;

	*r = (struct tsc_rate){ 0 };
	if (!cap_in_tsc(g->cap))
		return 0;
	ret = tsc_rate_scan(g->cap, g->fmt, &e);
	own = of_bounds(TSC_RATE_GUEST_TIMERS, &e.timers);
	if (ret || !tsc_rate_of_guest(&own, g->has_map ? &g->map : NULL, r))
		*r = (struct tsc_rate){ 0 };
	return ret;
}

/* The narrowest of the bounds that events give. */
static int by_bounds(const struct tsc_rate_events *e, const struct tsc_rate_guest *guest,
		     size_t nguest, struct tsc_rate *r)
{
	struct tsc_rate by = of_bounds(TSC_RATE_WAITS, &e->waits);
	int ret = 0;

	*r = of_bounds(TSC_RATE_TIMERS, &e->timers);
	keep_narrower(r, &by);
	for (size_t i = 0; i < nguest && !ret && (!r->source || tsc_rate_ppm(r) > GOOD_PPM); i++) {
		ret = by_guest_timers(&guest[i], &by);
		if (!ret && fits(&by, e))
			keep_narrower(r, &by);
	}
	if (!r->source && e->waits.max >= MAX(e->waits.min, (uint64_t)KHZ_MIN) &&
	    e->waits.max <= KHZ_MAX)
		r->at_most = e->waits.max;
	return ret;
}

int tsc_rate_find(const struct capture *cap, const struct fmt *fmt,
		  const struct tsc_rate_guest *guest, size_t nguest, struct tsc_rate *r)
{
	struct tsc_rate_events e;
	struct tsc_rate by = { 0 };
	int ret;

	tsc_rate_said(cap, r);
	if (r->source || !cap_in_tsc(cap))
		return 0;
	for (size_t i = 0; i < nguest && (!by.source || by.supposed); i++)
		if (!by_guest(&guest[i], &by))
			by = (struct tsc_rate){ 0 };
	*r = by;
	if (by.source && !by.supposed)
		return 0;
	ret = tsc_rate_scan(cap, fmt, &e);
	if (ret || fits(&by, &e))
		return ret;
	*r = e.pvclock;
	return fits(r, &e) ? 0 : by_bounds(&e, guest, nguest, r);
}

int tsc_rate_use(struct capture *cap, const struct tsc_rate *r)
{
	static const char *const source[] = {
		[TSC_RATE_GIVEN] = "--tsc-khz",
		[TSC_RATE_READINGS] = "readings of CLOCK_MONOTONIC_RAW",
		[TSC_RATE_PVCLOCK] = "kvm_pvclock_update",
		[TSC_RATE_GUEST] = "capture of a guest",
		[TSC_RATE_WAITS] = "kvm_vcpu_wakeup",
		[TSC_RATE_TIMERS] = "hrtimer_expire_entry",
		[TSC_RATE_GUEST_TIMERS] = "hrtimer_expire_entry of a guest",
	};
	char *text;

	if (!r->source || r->source == TSC_RATE_CAPTURE)
		return 0;
	if (asprintf(&text, "%s%s", source[r->source],
		     r->supposed ? ", if that guest's TSC is not scaled" : "") < 0)
		return -ENOMEM;
	free(cap->tsc_khz_source);
	cap->tsc_khz_source = text;
	cap->tsc_khz = r->khz;
	cap->tsc_khz_min = r->min;
	cap->tsc_khz_max = r->max;
	if (r->source == TSC_RATE_GIVEN)
		cap->has_tsc2nsec = false;
	return 0;
}
