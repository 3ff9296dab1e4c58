/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mono_raw.h: the line of this machine's CLOCK_MONOTONIC_RAW, read and checked. */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/guest_clock.h"

struct mono_raw_line {
	struct mono_raw raw;
	bool over_kvmclock; /* its cycles are kvmclock ns, not TSC cycles */
	char source[48];    /* "vvar", "kprobe tk_core" */
};

/*
 * Reads what the kernel shows to each process, or else uses what g (NULL: not a guest) has read, or
 * else reads the kernel's timekeeper; accepts it only if it agrees with clock_gettime() now.
 * -ENODATA with err: not available, or it does not agree. t is borrowed.
 */
int mono_raw_learn(struct ktracefs *t, const char *clocksource, const struct kguest_clock *g,
		   struct mono_raw_line *m, struct kvmft_err *err) __must_check;
