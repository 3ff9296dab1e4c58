/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc_rate.c: the frequency of a TSC, from the first source that has it.
 *
 * kHz are exact enough: the kernel itself knows its tsc_khz in whole kHz, and computes from that
 * the multipliers of pvclock, of its clocks and of TSC2NSEC. So those were made from the kHz
 * nearest to what they say.
 */
#include "kvmft/events.h"
#include "kvmft/hostmap.h"

typedef unsigned __int128 u128;

#define USEFUL_PPM 5000 /* either way: anything less certain counts as unknown */
#define KHZ_MIN	   1000 /* anything slower, or faster, is nonsense in a file */
#define KHZ_MAX	   100000000
/* CLOCK_MONOTONIC_RAW's multiplier is rounded: its rate is off by up to 240 parts per 10^9. */
#define RAW_PPB 240

uint64_t tsc_rate_ppm(const struct tsc_rate *r)
{
	return r->khz ? (uint64_t)(((u128)(r->max - r->min) * 500000 + r->khz - 1) / r->khz) : 0;
}

/* From min to max, if that is plausible. */
static bool rate_between(enum tsc_rate_source source, u128 min, u128 max, struct tsc_rate *r)
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
	if (b->tsc <= a->tsc || b->mono_raw <= a->mono_raw || b->tsc - a->tsc < a->width)
		return false;
	ns = b->mono_raw - a->mono_raw;
	min = (u128)(b->tsc - a->tsc - a->width) * 1000000 / (ns + 1);
	max = ((u128)(b->tsc - a->tsc) + b->width) * 1000000 / (ns > 1 ? ns - 1 : 1) + 1;
	off = max * RAW_PPB / 1000000000 + 1;
	return rate_between(TSC_RATE_READINGS, min - MIN(off, min), max + off, r);
}

void tsc_rate_said(const struct capture *cap, struct tsc_rate *r)
{
	if (cap->tsc_khz)
		*r = (struct tsc_rate){ .source = TSC_RATE_CAPTURE,
					.khz = cap->tsc_khz,
					.min = cap->tsc_khz,
					.max = cap->tsc_khz };
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
	return rate_between(TSC_RATE_PVCLOCK, first, last, r);
}

/* The first host kHz that scales to guest kHz or more. */
static u128 rate_unscale(uint64_t guest, const struct tsc_map *map)
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
	return rate_between(guest->source, rate_unscale(guest->min, map),
			    rate_unscale(guest->max + 2, map) - 1, r);
}

/* What a guest says is believed as long as no other one contradicts it. */
static struct tsc_rate by_guests(const struct tsc_rate_guest *g, size_t n)
{
	struct tsc_rate r = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct capture *cap = g[i].cap;
		struct tsc_rate own = { 0 }, one;
		uint64_t by;

		for (size_t k = 0; k < cap->npvclock && !own.source; k++)
			if (!tsc_rate_of_pvclock(cap->pvclock[k].pv.mul, cap->pvclock[k].pv.shift,
						 &own))
				own = (struct tsc_rate){ 0 };
		if (!own.source)
			tsc_rate_said(cap, &own);
		if (!tsc_rate_of_guest(&own, g[i].has_map ? &g[i].map : NULL, &one))
			continue;
		one.source = TSC_RATE_GUEST;
		by = MAX(r.khz, one.khz) - MIN(r.khz, one.khz);
		if (!r.source || (r.supposed && !one.supposed))
			r = one;
		else if (!r.supposed && !one.supposed && by * 1000000 > USEFUL_PPM * one.khz)
			return (struct tsc_rate){ 0 };
	}
	return r;
}

/* ---- kvm_pvclock_update: KVM computes the record from the frequency ---- */

struct pvclock_scan {
	const struct capture *cap;
	const struct fmt *fmt;
	const struct event_type *type;
	struct tsc_rate *r;
};

/* The ratio of the vCPU that the thread runs; NULL: not in the capture. */
static const struct cap_vcpu *thread_vcpu_of(const struct capture *cap, int32_t tid)
{
	for (size_t i = 0; i < cap->nvm; i++)
		for (size_t k = 0; k < cap->vm[i].nvcpu; k++)
			if (cap->vm[i].vcpu[k].tid == tid && cap->vm[i].vcpu[k].has_offset)
				return &cap->vm[i].vcpu[k];
	return NULL;
}

/* 1: nothing better can come. */
static int scan_pvclock(void *arg, const struct rec *rec)
{
	struct pvclock_scan *s = arg;
	const struct cap_vcpu *v;
	struct tsc_map map;
	struct tsc_rate guest, r;

	if (rec->id != fmt_id(s->type->ev))
		return 0;
	v = thread_vcpu_of(s->cap, fmt_pid(s->fmt, rec));
	map = (struct tsc_map){ .ratio = v ? v->ratio : 0, .frac = v ? v->frac : 0 };
	if (tsc_rate_of_pvclock((uint32_t)event_u64(s->type, 4, rec),
				(int8_t)event_u64(s->type, 5, rec), &guest) &&
	    tsc_rate_of_guest(&guest, v ? &map : NULL, &r) && (!s->r->source || !r.supposed))
		*s->r = r;
	return s->r->source && !s->r->supposed;
}

int tsc_rate_scan(const struct capture *cap, const struct fmt *fmt, struct tsc_rate *r)
{
	struct pvclock_scan s = {
		.cap = cap, .fmt = fmt, .r = r, .type = event_find(fmt, EV_PVCLOCK, 6),
	};
	int ret = 0;

	*r = (struct tsc_rate){ 0 };
	if (!s.type->ev)
		return 0;
	for (size_t i = 0; i < cap->nstream && !ret; i++)
		ret = rstream_each(cap, &cap->stream[i], scan_pvclock, &s);
	return MIN(ret, 0);
}

int tsc_rate_find(const struct capture *cap, const struct fmt *fmt,
		  const struct tsc_rate_guest *guest, size_t nguest, struct tsc_rate *r)
{
	struct tsc_rate by;
	int ret;

	tsc_rate_said(cap, r);
	if (r->source || !cap_in_tsc(cap))
		return 0;
	ret = tsc_rate_scan(cap, fmt, r); /* the host's own events first: guests may lie */
	if (ret || (r->source && !r->supposed))
		return ret;
	by = by_guests(guest, nguest);
	if (by.source)
		*r = by;
	return 0;
}

void tsc_rate_use(struct capture *cap, const struct tsc_rate *r)
{
	static const char *const source[] = {
		[TSC_RATE_GIVEN] = "--tsc-khz",
		[TSC_RATE_READINGS] = "readings of CLOCK_MONOTONIC_RAW",
		[TSC_RATE_PVCLOCK] = "kvm_pvclock_update",
		[TSC_RATE_GUEST] = "capture of a guest",
	};

	if (!r->source || r->source == TSC_RATE_CAPTURE)
		return;
	free(cap->tsc_khz_source);
	cap->tsc_khz_source = xstrdup(
		TEXTF("%s%s", source[r->source],
		      r->supposed ? ", if that guest's TSC is not scaled" : ""));
	cap->tsc_khz = r->khz;
	cap->tsc_khz_min = r->min;
	cap->tsc_khz_max = r->max;
	if (r->source == TSC_RATE_GIVEN)
		cap->has_tsc2nsec = false;
}
