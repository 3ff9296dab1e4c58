/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_match.h: which anchors of QEMU's trace and of the host are the same thing. Private to
 * src/timeline.
 */
#ifndef KVMFT_TIMELINE_QEMU_MATCH_H
#define KVMFT_TIMELINE_QEMU_MATCH_H

#include "qemu_anchor.h"

struct qpair {
	uint64_t at;	 /* of QEMU's, ns */
	uint64_t lo, hi; /* when it happened, TSC; 0, UINT64_MAX: no bound */
};

/* Zero-initialised. */
struct qpairs {
	struct qpair *v; /* by at */
	size_t n, cap;
	uint64_t rate; /* TSC cycles per ns << 32, about */
};

/*
 * khz: of the host's TSC, 0 = unknown. Anchors of both sides are sorted. 1: found. 0: nothing fits,
 * or more than one thing does: then *why is a line of text. -ENOMEM.
 */
int qmatch_timed(struct qanchors *q, struct qanchors *h, uint64_t khz, struct qpairs *out,
		 const char **why) __must_check;
/* Adds one: QEMU's event with that time or number is anchor h of the host's. 0 or -ENOMEM. */
int qpairs_add(struct qpairs *p, uint64_t at, const struct qanchor *h) __must_check;
void qpairs_sort(struct qpairs *p);
void qpairs_free(struct qpairs *p);

#endif
