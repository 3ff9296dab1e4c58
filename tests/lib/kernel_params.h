/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel_params.h: constants that the kernel and KVM compute from a frequency, for captures that
 * tests make.
 */
#ifndef TESTS_KERNEL_PARAMS_H
#define TESTS_KERNEL_PARAMS_H

#include <stdint.h>

/*
 * mult and shift of sched_clock() for a TSC of khz (kernel: set_cyc2ns_scale() in
 * arch/x86/kernel/tsc.c). 0, or -EINVAL: khz 0.
 */
int cyc2ns_params(uint32_t khz, uint32_t *mult, uint8_t *shift);

/*
 * The ratio that KVM programs for a guest that asked for user_khz on a host of host_khz:
 * floor((user_khz << frac) / host_khz) (kernel: set_tsc_khz() in arch/x86/kvm/x86.c).
 * 0; -EINVAL: host_khz 0 or frac other than 32 and 48; -ERANGE: needs more than 64 bits.
 */
int tsc_ratio_from_khz(uint64_t user_khz, uint64_t host_khz, uint8_t frac, uint64_t *ratio);

#endif
