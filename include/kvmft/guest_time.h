/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest_time.h: from the trace clock of a capture to the TSC of its machine, and of its host. */
#pragma once

#include "kvmft/capture.h"
#include "kvmft/clockchain.h"

/* ---- clocks that a capture read together with the TSC (its `time` and `clock` records) ---- */

enum cap_clock {
	CAP_CLOCK_MONO_RAW,
	CAP_CLOCK_MONO,
	CAP_CLOCK_BOOT,
	CAP_CLOCK_REALTIME,
	CAP_CLOCK_LOCAL, /* trace clocks, sampled at the beginning and end of the recording */
	CAP_CLOCK_GLOBAL,
	CAP_CLOCK_PERF,
};

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

/* ---- from the trace clock of a capture to the TSC of the recorded machine ---- */

/* By its link, over the TSC of that machine or, in struct guest_time, kvmclock. */
struct own_tsc {
	struct clock_link link;
	struct clock_sample *v; /* what the link's pieces borrow */
};

/* -ENOTSUP with err: what is missing and how to get it; -ENOMEM. err may be NULL. */
int own_tsc_init(struct own_tsc *o, const struct capture *cap, struct kvmft_err *err) __must_check;
void own_tsc_free(struct own_tsc *o); /* NULL is fine; o itself is the caller's */
/* Whether the capture's stamps are TSC or lie on a known line over it: an offset can be solved. */
bool own_tsc_is_exact(const struct capture *cap);
/* What the clock showed at that cycle, as nearly as it is known; false: unknown. */
bool own_tsc_stamp(const struct own_tsc *o, uint64_t tsc, uint64_t *ts);
/*
 * Where an event is shown: for an exact range its first cycle, with the whole range in *width;
 * otherwise the middle.
 */
bool own_tsc_place(const struct own_tsc *o, uint64_t ts, uint64_t *at, uint64_t *width);
/* How far off such a middle may be, either way, in the worst case: 0 if ranges are exact. */
uint64_t own_tsc_around(const struct own_tsc *o);

/* ---- from a guest's trace clock to host TSC ---- */

struct guest_time {
	struct own_tsc own;
	/*
	 * When it was, roughly: guest TSC near_guest was host TSC near_host, by both wall clocks.
	 */
	bool has_near;
	uint64_t near_guest, near_host;
};

/* -ENOTSUP with err: what is missing and how to get it. */
int guest_time_init(struct guest_time *g, const struct capture *cap,
		    struct kvmft_err *err) __must_check;
/*
 * After a reboot the guest's TSC repeats values. Which of several host times is meant can then be
 * told from the wall clocks that both captures read beside their TSC, even if these agree only
 * roughly.
 */
void guest_time_anchor(struct guest_time *g, const struct capture *cap, const struct capture *host);
void guest_time_free(struct guest_time *g); /* NULL is fine; g itself is the caller's */
/*
 * after: host TSC of the previous event on the same CPU, 0 if there is none. If the epochs leave a
 * choice, it is the next one after that.
 */
enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi);
/* The same of all stamps around ts as a line; false: there is none. See epoch_guest_line(). */
bool guest_time_line(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
		     struct epoch_line *line);
/* For a guest TSC, whatever the capture's trace clock. */
enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi);
