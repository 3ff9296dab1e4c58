/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sched.c - the clocks built on sched_clock(): constants of a kvm-clock guest, cyc2ns of a TSC */
#include "kvmft/clock.h"

#include "wide.h"

uint64_t sched_local_to_kvmclock(const struct sched_offsets *s, uint64_t ts)
{
	return ts + s->kvm;
}

uint64_t sched_perf_to_kvmclock(const struct sched_offsets *s, uint64_t ts)
{
	return ts + s->kvm - s->kernel;
}

uint64_t sched_local_from_kvmclock(const struct sched_offsets *s, uint64_t ns)
{
	return ns - s->kvm;
}

uint64_t sched_perf_from_kvmclock(const struct sched_offsets *s, uint64_t ns)
{
	return ns - s->kvm + s->kernel;
}

int cyc2ns_params(uint32_t khz, uint32_t *mult, uint8_t *shift)
{
	if (!khz)
		return -EINVAL;
	clocks_calc_mult_shift(khz, 1000000, 0, mult, shift);
	/*
	 * cyc2ns_data once had to serve code that could not shift by 32; the kernel kept the rule
	 */
	if (*shift == 32) {
		*shift = 31;
		*mult >>= 1;
	}
	return 0;
}

int cyc2ns_check(const struct cyc2ns *c)
{
	return c->mult && c->shift <= 32 ? 0 : -EINVAL;
}

static uint64_t scaled(const struct cyc2ns *c, uint64_t tsc)
{
	return (uint64_t)(((u128)tsc * c->mult) >> c->shift);
}

uint64_t cyc2ns_to_ns(const struct cyc2ns *c, uint64_t tsc)
{
	return c->offset + scaled(c, tsc);
}

uint64_t cyc2ns_offset_at(const struct cyc2ns *c, uint64_t tsc, uint64_t ns)
{
	return ns - scaled(c, tsc);
}

int cyc2ns_to_tsc(const struct cyc2ns *c, uint64_t ns, uint64_t *tsc)
{
	uint64_t k = ns - c->offset;

	return wide_store((s128)wide_div_ceil((u128)k << c->shift, c->mult), tsc);
}

int cyc2ns_to_tsc_range(const struct cyc2ns *c, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	u128 k = ns - c->offset;
	u128 first = wide_div_ceil(k << c->shift, c->mult);
	u128 end = wide_div_ceil((k + 1) << c->shift, c->mult);

	return wide_store_range((s128)first, (s128)end, lo, hi);
}
