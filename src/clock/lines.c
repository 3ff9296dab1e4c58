/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lines.c: clocks that are one straight line over a counter: CLOCK_MONOTONIC_RAW over the
 * clocksource, and sched_clock() of a machine whose TSC it is (cyc2ns).
 */
#include "kvmft/clock.h"
#include "wide.h"

int mono_raw_check(const struct mono_raw *r)
{
	return r->mult && r->shift <= 32 ? 0 : -EINVAL;
}

int mono_raw_to_ns(const struct mono_raw *r, uint64_t cyc, uint64_t *ns)
{
	s128 d = (s128)cyc - (s128)r->last;
	s128 shifted = d * (s128)r->mult + (s128)r->nsec;

	/* a right shift of a negative value is a floor in gcc and clang, which is what we want */
	return wide_store((s128)r->base + (shifted >> r->shift), ns);
}

/* Smallest cycle, as an unbounded integer, with mono_raw >= ns. */
static s128 first_cyc(const struct mono_raw *r, s128 ns)
{
	s128 shifted = (ns - (s128)r->base) * ((s128)1 << r->shift) - (s128)r->nsec;

	return (s128)r->last + wide_sdiv_ceil(shifted, (s128)r->mult);
}

int mono_raw_to_cyc_range(const struct mono_raw *r, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	return wide_store_range(first_cyc(r, (s128)ns), first_cyc(r, (s128)ns + 1), lo, hi);
}

bool mono_raw_fits(const struct mono_raw *r, uint64_t cyc_lo, uint64_t cyc_hi, uint64_t ns)
{
	uint64_t first, last;

	if (mono_raw_check(r) || mono_raw_to_ns(r, cyc_lo, &first) ||
	    mono_raw_to_ns(r, cyc_hi, &last))
		return false;
	/* 1 ns: old kernels cut the fraction off at each tick */
	return (s128)ns >= (s128)first - 1 && (s128)ns <= (s128)last + 1;
}

int cyc2ns_check(const struct cyc2ns *c)
{
	return c->mult && c->shift <= 32 ? 0 : -EINVAL;
}

uint64_t cyc2ns_to_ns(const struct cyc2ns *c, uint64_t tsc)
{
	return c->offset + (uint64_t)(((u128)tsc * c->mult) >> c->shift);
}

int cyc2ns_to_tsc_range(const struct cyc2ns *c, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	u128 k = ns - c->offset;
	u128 first = wide_div_ceil(k << c->shift, c->mult);
	u128 end = wide_div_ceil((k + 1) << c->shift, c->mult);

	return wide_store_range((s128)first, (s128)end, lo, hi);
}
