/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc_rate.h: how fast the TSC of the machine that a capture is of runs, and who says so.
 *
 * A capture of kvmft says it, and so does a trace.dat with TSC2NSEC. Of other files it is found in
 * what they hold otherwise: readings of CLOCK_MONOTONIC_RAW, the pvclock records that KVM made for
 * its guests, captures of those guests, and waits whose length KVM measured.
 */
#ifndef KVMFT_TSC_RATE_H
#define KVMFT_TSC_RATE_H

#include "kvmft/capture.h"
#include "kvmft/clock.h"
#include "kvmft/ring.h"

enum tsc_rate_source {
	TSC_RATE_UNKNOWN,
	TSC_RATE_GIVEN,	   /* by the user */
	TSC_RATE_CAPTURE,  /* the capture says it */
	TSC_RATE_READINGS, /* its readings of CLOCK_MONOTONIC_RAW beside the TSC */
	TSC_RATE_PVCLOCK,  /* kvm_pvclock_update: KVM computes the record from it */
	TSC_RATE_GUEST,	   /* the capture of a guest: its pvclock record, or its own frequency */
	TSC_RATE_WAITS,	   /* kvm_vcpu_wakeup: ns of a wait, against events around and in it */
	TSC_RATE_TIMERS,   /* hrtimer_expire_entry: ns that a clock showed between events */
	TSC_RATE_GUEST_TIMERS, /* the same of a guest */
};

struct tsc_rate {
	enum tsc_rate_source source;
	uint64_t khz, min, max; /* kHz; it is somewhere from min to max */
	bool supposed;		/* ... if the guest's TSC is not scaled, of which nothing tells */
	uint64_t at_most;	/* TSC_RATE_UNKNOWN: it is no more than that; 0: not known */
};

/* A guest of the machine. */
struct tsc_rate_guest {
	const struct capture *cap;
	const struct fmt *fmt;
	bool has_map; /* what its vCPUs' TSC is made by, of which the ratio counts */
	struct tsc_map map;
};

/* What the capture says, its events aside: TSC_RATE_UNKNOWN, _CAPTURE or _READINGS. */
void tsc_rate_said(const struct capture *cap, struct tsc_rate *r);
/*
 * All that can be found. Events are read only where nothing else tells, and no more of them than
 * needed. What is found is to 1 % or better, or TSC_RATE_UNKNOWN; that is no error. 0; -ENOMEM, or
 * a read that failed.
 */
int tsc_rate_find(const struct capture *cap, const struct fmt *fmt,
		  const struct tsc_rate_guest *guest, size_t nguest,
		  struct tsc_rate *r) __must_check;
/*
 * From now on the capture says it: tsc_khz, tsc_khz_source, tsc_khz_min, tsc_khz_max; what the user
 * gave goes before its TSC2NSEC. Nothing is changed for TSC_RATE_UNKNOWN. 0 or -ENOMEM.
 */
int tsc_rate_use(struct capture *cap, const struct tsc_rate *r) __must_check;
/* Half of min..max, in parts per million of khz, rounded up; 0: to the kHz. */
uint64_t tsc_rate_ppm(const struct tsc_rate *r);

/* ---- the parts of tsc_rate_find() ---- */

/* A TSC by the record that KVM made of its rate; false: not such. One kHz fits, seldom two. */
bool tsc_rate_of_pvclock(uint32_t mul, int8_t shift, struct tsc_rate *r);
/* From a guest's frequency to the host's, by the ratio of map; NULL: taken for 1. */
bool tsc_rate_of_guest(const struct tsc_rate *guest, const struct tsc_map *map, struct tsc_rate *r);

/* What the events tell (tsc_rate_events.c). */
struct tsc_rate_events {
	struct tsc_rate pvclock; /* of the first VM that has one, TSC_RATE_UNKNOWN: none */
	struct tsc_rate_bounds {
		uint64_t min, max; /* kHz; 0, UINT32_MAX: not known; max < min: a contradiction */
		uint64_t n;	   /* times that they are of */
	} waits, timers;
};
int tsc_rate_scan(const struct capture *cap, const struct fmt *fmt,
		  struct tsc_rate_events *e) __must_check;

#endif
