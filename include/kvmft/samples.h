/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * samples.h: the clocks that a capture read together with the TSC (its `time` and `clock` records),
 * as maps between TSC and ns.
 */
#ifndef KVMFT_SAMPLES_H
#define KVMFT_SAMPLES_H

#include "kvmft/capture.h"
#include "kvmft/clock.h"

enum cap_clock {
	CAP_CLOCK_MONO_RAW,
	CAP_CLOCK_MONO,
	CAP_CLOCK_BOOT,
	CAP_CLOCK_REALTIME,
	CAP_CLOCK_LOCAL, /* trace clocks, sampled at the beginning and end of the recording */
	CAP_CLOCK_GLOBAL,
	CAP_CLOCK_PERF,
};

/* The one with that name as a trace clock; false: none of them. */
bool cap_clock_find(const char *name, enum cap_clock *clock);

struct cap_pieces {
	struct clock_sample *v; /* what pieces borrows */
	struct clock_pieces pieces;
};

/*
 * Lines between the capture's readings of a clock. The TSC's nominal rate is as the capture says,
 * or else measured with mono_raw. -ENODATA: fewer than two readings (one is enough if the recorder
 * did not end); -ENOTSUP: no TSC rate; -EINVAL: readings that contradict each other; -ENOMEM. To be
 * freed with cap_pieces_free(), also after a failure.
 */
int cap_pieces_init(struct cap_pieces *p, const struct capture *cap,
		    enum cap_clock clock) __must_check;
void cap_pieces_free(struct cap_pieces *p);

/* The minimum and maximum of kvmclock at a guest TSC, ns. False: unknown. */
typedef bool cap_kvmclock(const void *arg, uint64_t tsc, uint64_t *lo, uint64_t *hi);
/*
 * The line of CLOCK_MONOTONIC_RAW from the capture's kernel. It must agree with each of the
 * capture's readings of that clock: a file may say anything. If the line is over kvmclock, that is
 * asked; NULL: such a line is not used.
 */
bool cap_raw_line(const struct capture *cap, cap_kvmclock *kvmclock, const void *arg,
		  struct mono_raw *raw) __must_check;

#endif
