/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mono_raw.c - CLOCK_MONOTONIC_RAW: one straight line over the clocksource, and its parameters */
#include "kvmft/clock.h"

#include "wide.h"

/* The kernel leaves room for steering: 11 % of mult. */
static uint32_t max_adjustment(uint32_t mult)
{
	return (uint32_t)((uint64_t)mult * 11 / 100);
}

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

int mono_raw_to_cyc(const struct mono_raw *r, uint64_t ns, uint64_t *cyc)
{
	return wide_store(first_cyc(r, (s128)ns), cyc);
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

void clocks_calc_mult_shift(uint32_t from, uint32_t to, uint32_t maxsec, uint32_t *mult,
			    uint8_t *shift)
{
	uint64_t tmp = ((uint64_t)maxsec * from) >> 32;
	unsigned int acc = 32;
	uint8_t sft;

	for (; tmp; tmp >>= 1)
		acc--;
	for (sft = 32; sft > 0; sft--) {
		tmp = (((uint64_t)to << sft) + from / 2) / from;
		if (!(tmp >> acc))
			break;
	}
	*mult = (uint32_t)tmp;
	*shift = sft;
}

int mono_raw_params(uint32_t khz, uint32_t *mult, uint8_t *shift)
{
	uint64_t sec;

	if (!khz)
		return -EINVAL;
	/* seconds until the 64-bit counter wraps; the kernel wants ten minutes and no more */
	sec = UINT64_MAX / khz / 1000;
	if (sec > 600)
		sec = 600;
	clocks_calc_mult_shift(khz, 1000000, (uint32_t)sec * 1000, mult, shift);
	while ((uint64_t)*mult + max_adjustment(*mult) > UINT32_MAX) {
		*mult >>= 1;
		(*shift)--;
	}
	return 0;
}

int clocksource_line(uint32_t mult, uint8_t shift, uint64_t *max_cycles, uint64_t *max_idle_ns)
{
	uint32_t adj = max_adjustment(mult);

	if (!mult || shift > 32)
		return -EINVAL;
	*max_cycles = UINT64_MAX / ((uint64_t)mult + adj);
	/* the second shift is the kernel's safety margin of half */
	*max_idle_ns = ((*max_cycles * (mult - adj)) >> shift) >> 1;
	return 0;
}

bool clocksource_line_fits(uint32_t mult, uint8_t shift, uint64_t max_cycles,
			   uint64_t max_idle_ns)
{
	uint64_t m, i;

	return !clocksource_line(mult, shift, &m, &i) && m == max_cycles && i == max_idle_ns;
}
