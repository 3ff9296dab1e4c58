/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tsc.c: TSC offsetting and scaling: host cycles to guest cycles and back, nested maps. */
#include "kvmft/clock.h"
#include "wide.h"

/* The SVM TSC ratio MSR has 8 integer and 32 fractional bits. */
#define SVM_RATIO_MAX	0xffffffffffULL

int tsc_map_check(const struct tsc_map *m)
{
	switch (m->frac) {
	case TSC_FRAC_NONE:
		return m->ratio <= 1 ? 0 : -EINVAL;
	case TSC_FRAC_SVM:
		return m->ratio <= SVM_RATIO_MAX ? 0 : -ERANGE;
	case TSC_FRAC_VMX:
		return 0;
	}
	return -EINVAL;
}

bool tsc_map_unscaled(const struct tsc_map *m)
{
	return m->ratio == 0 || m->frac >= 64 || m->ratio == 1ULL << m->frac;
}

bool tsc_map_equal(const struct tsc_map *a, const struct tsc_map *b)
{
	if (a->offset != b->offset)
		return false;
	if (tsc_map_unscaled(a) || tsc_map_unscaled(b))
		return tsc_map_unscaled(a) && tsc_map_unscaled(b);
	return a->ratio == b->ratio && a->frac == b->frac;
}

static uint64_t scale(uint64_t v, uint64_t ratio, uint8_t frac)
{
	return (uint64_t)(((u128)v * ratio) >> frac);
}

uint64_t tsc_to_guest(const struct tsc_map *m, uint64_t host)
{
	if (tsc_map_unscaled(m))
		return m->offset + host;
	return m->offset + scale(host, m->ratio, m->frac);
}

int tsc_to_host(const struct tsc_map *m, uint64_t guest, uint64_t *lo, uint64_t *hi)
{
	uint64_t x = guest - m->offset;
	u128 first, end;

	if (tsc_map_unscaled(m)) {
		*lo = *hi = x;
		return 0;
	}
	first = wide_div_ceil((u128)x << m->frac, m->ratio);
	end = wide_div_ceil(((u128)x + 1) << m->frac, m->ratio);
	return wide_store_range((s128)first, (s128)end, lo, hi);
}

uint64_t tsc_cycles_to_ns(uint64_t cycles, uint64_t khz)
{
	if (cycles < UINT64_MAX / 1000000u) /* hours of it: no division of 128 bits */
		return cycles * 1000000u / khz;
	return (uint64_t)((unsigned __int128)cycles * 1000000u / khz);
}
