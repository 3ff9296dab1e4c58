/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * output.h: timelines as text. An output is a table of callbacks; a new one is one file in
 * src/output and one line in out_formats (src/output/formats.c).
 */
#ifndef KVMFT_OUTPUT_H
#define KVMFT_OUTPUT_H

#include <stdio.h>

#include "kvmft/timeline.h"

/* ---- the clock that all rows are shown in ---- */

enum out_clock_kind {
	OUT_CLOCK_HOST_TSC,
	OUT_CLOCK_GUEST_TSC,
	OUT_CLOCK_KVMCLOCK,
	OUT_CLOCK_NS,
	/* the host's clocks that its capture read beside the TSC */
	OUT_CLOCK_MONO_RAW,
	OUT_CLOCK_MONO,
	OUT_CLOCK_BOOT,
	OUT_CLOCK_REALTIME,
};
extern const char *const out_clock_names[]; /* by enum out_clock_kind, NULL-terminated */

struct out_clock {
	enum out_clock_kind kind;
	const struct hostmap *map;
	size_t vm;     /* whose guest-tsc or kvmclock */
	uint64_t base; /* ns: host TSC of second 0 */
	uint64_t khz;  /* ns: of the host's TSC */
	const struct clock_pieces *pieces; /* mono_raw and the like: borrowed */
};

/*
 * The value of host TSC `host` in the clock: cycles or ns by kind. vcpu: whose epochs to use, -1
 * for the VM's first. False when there is none (no epoch, no pvclock record).
 */
bool out_clock_value(const struct out_clock *c, uint64_t host, int64_t vcpu, uint64_t *v);
/* Cycles of the host's TSC in ns, rounded down; khz must not be 0. */
uint64_t out_cycles_to_ns(uint64_t cycles, uint64_t khz);

/* ---- outputs ---- */

struct out;

struct out_format {
	const char *name; /* as in --format */
	const char *help;
	int (*begin)(struct out *o);
	int (*item)(struct out *o, const struct tl_item *item);
	int (*end)(struct out *o);
};

struct out {
	const struct out_format *fmt;
	FILE *f;
	struct out_clock clock;
	const struct timeline *t;
	struct sbuf line;
	int label_width;
	void *priv; /* the format's own */
};

extern const struct out_format *const out_formats[]; /* NULL-terminated; the first is the default */
const struct out_format *out_format_find(const char *name);

/* Each returns 0 or -errno (a failed write included). */
int out_begin(struct out *o, const struct timeline *t, const struct out_format *fmt,
	      const struct out_clock *clock, FILE *f) __must_check;
int out_item(struct out *o, const struct tl_item *item) __must_check;
int out_end(struct out *o) __must_check;

#endif
