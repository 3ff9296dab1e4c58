/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * own_tsc.h: from the trace clock of a capture to the TSC of the recorded machine, by what the
 * capture holds of both.
 */
#ifndef KVMFT_OWN_TSC_H
#define KVMFT_OWN_TSC_H

#include "kvmft/capture.h"
#include "kvmft/samples.h"

enum own_kind {
	OWN_TSC,     /* stamps are TSC */
	OWN_LINE,    /* ... lie on a line of sched_clock() over it */
	OWN_RAW,     /* ... on one of the timekeeper's */
	OWN_SAMPLED, /* ns of a clock that the capture read together with the TSC */
};

struct own_tsc {
	enum own_kind kind;
	struct cyc2ns line;
	struct mono_raw raw;
	struct cap_pieces samples;
};

/* -ENOTSUP with err: what is missing and how to get it; -ENOMEM. err may be NULL. */
int own_tsc_init(struct own_tsc *o, const struct capture *cap, struct kvmft_err *err) __must_check;
void own_tsc_free(struct own_tsc *o); /* NULL is fine; o itself is the caller's */
/* Whether the capture's stamps are TSC or lie on a known line over it: an offset can be solved. */
bool own_tsc_is_exact(const struct capture *cap);
/* The first and the last cycle at which the clock may have shown ts; false: none. */
bool own_tsc_range(const struct own_tsc *o, uint64_t ts, uint64_t *lo, uint64_t *hi);
/* What the clock showed at that cycle, as nearly as it is known; false: unknown. */
bool own_tsc_stamp(const struct own_tsc *o, uint64_t tsc, uint64_t *ts);
/*
 * Where an event is shown: for an exact range its first cycle, with the whole range in *width;
 * otherwise the middle.
 */
bool own_tsc_place(const struct own_tsc *o, uint64_t ts, uint64_t *at, uint64_t *width);
/* How far off such a middle may be, either way, in the worst case: 0 if ranges are exact. */
uint64_t own_tsc_around(const struct own_tsc *o);

#endif
