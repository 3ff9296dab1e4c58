/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * samples.h: the clocks that a capture read beside the TSC (its `time` and `clock` records), as
 * maps between TSC and ns.
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
	CAP_CLOCK_LOCAL, /* trace clocks, sampled when recording began and ended */
	CAP_CLOCK_GLOBAL,
	CAP_CLOCK_PERF,
};

struct cap_pieces {
	struct clock_sample *v; /* what pieces borrows */
	struct clock_pieces pieces;
};

/*
 * Lines between the capture's readings of a clock. The TSC's nominal rate is as the capture says,
 * or else measured with mono_raw. -ENODATA: fewer than two readings (one is
 * enough where the recorder did not end); -ENOTSUP: no TSC rate;
 * -EINVAL: readings that contradict each other; -ENOMEM. Freed with cap_pieces_free(), also after a
 * failure.
 */
int cap_pieces_init(struct cap_pieces *p, const struct capture *cap,
		    enum cap_clock clock) __must_check;
void cap_pieces_free(struct cap_pieces *p);

/* The least and the most that kvmclock may read at a guest TSC, ns. False: not known. */
typedef bool cap_kvmclock(const void *arg, uint64_t tsc, uint64_t *lo, uint64_t *hi);
/*
 * The line of CLOCK_MONOTONIC_RAW as the capture's kernel has it. It must give what the capture
 * read of that clock each time: a file may say anything. kvmclock is asked where the line is over
 * that; NULL: such a line is of no use.
 */
bool cap_raw_line(const struct capture *cap, cap_kvmclock *kvmclock, const void *arg,
		  struct mono_raw *raw) __must_check;

#endif
