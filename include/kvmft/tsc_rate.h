/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc_rate.h: the TSC frequency of the machine of a capture, and its source.
 *
 * A capture of kvmft has it, and so has a trace.dat with TSC2NSEC. For other files it is derived
 * from what else they hold: readings of CLOCK_MONOTONIC_RAW, the pvclock records that KVM made for
 * its guests, and captures of those guests.
 */
#pragma once

#include "kvmft/capture.h"
#include "kvmft/clock.h"
#include "kvmft/ring.h"

enum tsc_rate_source {
	TSC_RATE_UNKNOWN,
	TSC_RATE_GIVEN,	   /* by the user */
	TSC_RATE_CAPTURE,  /* the capture says it */
	TSC_RATE_READINGS, /* its readings of CLOCK_MONOTONIC_RAW together with the TSC */
	TSC_RATE_PVCLOCK,  /* kvm_pvclock_update: KVM computes the record from it */
	TSC_RATE_GUEST,	   /* the capture of a guest: its pvclock record, or its own frequency */
};

struct tsc_rate {
	enum tsc_rate_source source;
	uint64_t khz, min, max; /* kHz; it is somewhere from min to max */
	bool supposed;		/* ... if the guest's TSC is not scaled, which nothing shows */
};

/* A guest of the machine. */
struct tsc_rate_guest {
	const struct capture *cap;
	const struct fmt *fmt;
	bool has_map; /* how its vCPUs' TSC is derived; only the ratio counts */
	struct tsc_map map;
};

/* What the capture says, without its events: TSC_RATE_UNKNOWN, _CAPTURE or _READINGS. */
void tsc_rate_said(const struct capture *cap, struct tsc_rate *r);
/*
 * All that can be found. Events are read only if nothing else has it, and no more of them than
 * needed. The result is accurate to 1 % or better, or TSC_RATE_UNKNOWN, which is no error. 0;
 * -ENOMEM, or a failed read.
 */
int tsc_rate_find(const struct capture *cap, const struct fmt *fmt,
		  const struct tsc_rate_guest *guest, size_t nguest,
		  struct tsc_rate *r) __must_check;
/*
 * From now on the capture has it: tsc_khz, tsc_khz_source, tsc_khz_min, tsc_khz_max; the user's
 * value takes precedence over its TSC2NSEC. TSC_RATE_UNKNOWN changes nothing.
 */
void tsc_rate_use(struct capture *cap, const struct tsc_rate *r);
/* Half of min..max, in parts per million of khz, rounded up; 0: to the kHz. */
uint64_t tsc_rate_ppm(const struct tsc_rate *r);

/* ---- the parts of tsc_rate_find() ---- */

/*
 * A TSC by the record that KVM made of its rate; false: not such a record. One kHz fits, seldom
 * two.
 */
bool tsc_rate_of_pvclock(uint32_t mul, int8_t shift, struct tsc_rate *r);
/* From a guest's frequency to the host's, by the ratio of map; NULL: taken for 1. */
bool tsc_rate_of_guest(const struct tsc_rate *guest, const struct tsc_map *map, struct tsc_rate *r);

/* By kvm_pvclock_update, of the first VM that has one whose ratio is known; or of any. */
int tsc_rate_scan(const struct capture *cap, const struct fmt *fmt, struct tsc_rate *r)
	__must_check;
