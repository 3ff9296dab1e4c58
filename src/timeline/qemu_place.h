/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_place.h: when the events of a QEMU happened whose clock nobody read, from those of the host
 * about the same things. Private to src/timeline.
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/timeline.h"

/* Zero-initialised. */
struct qplace {
	uint64_t pairs;		/* what it is based on; 0: it was not found */
	const char *why;	/* then: why not; NULL: it was not tried */
	uint64_t first, last;	/* of the host's events, TSC */
	struct clock_sample *v; /* what the clock showed, and when: for clock_pieces_init() */
	size_t n;
	uint32_t khz, slew_ppb;
};

/* Searches the whole trace. 0 (p->pairs or p->why) or -errno. */
int qplace_find(struct qplace *p, struct hostmap *map, int64_t vm, struct qtrace *trace,
		struct kvmft_err *err) __must_check;
void qplace_free(struct qplace *p);
