/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "lib/kernel_params.h"

#include <errno.h>

#include "kvmft/clock.h"

/* The search of the kernel's clocks_calc_mult_shift(), for no interval that must not overflow. */
int cyc2ns_params(uint32_t khz, uint32_t *mult, uint8_t *shift)
{
	uint64_t m = 0;
	uint8_t s;

	if (!khz)
		return -EINVAL;
	for (s = 32; s > 0; s--) {
		m = ((1000000ull << s) + khz / 2) / khz;
		if (!(m >> 32))
			break;
	}
	/* cyc2ns_data once had to serve code that could not shift by 32; the kernel kept the rule */
	*shift = s == 32 ? 31 : s;
	*mult = (uint32_t)(s == 32 ? m >> 1 : m);
	return 0;
}

int tsc_ratio_from_khz(uint64_t user_khz, uint64_t host_khz, uint8_t frac, uint64_t *ratio)
{
	unsigned __int128 r;

	if (!host_khz || (frac != TSC_FRAC_SVM && frac != TSC_FRAC_VMX))
		return -EINVAL;
	r = ((unsigned __int128)user_khz << frac) / host_khz;
	if (r > UINT64_MAX)
		return -ERANGE;
	*ratio = (uint64_t)r;
	return 0;
}
