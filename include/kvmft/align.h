/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * align.h: how well one guest is aligned with its host: what the windows say, in numbers, and the
 * verdict. All distances are host cycles; a shift is what would have to be added to the host times
 * of all guest events.
 */
#pragma once

#include "kvmft/msr_pairs.h"
#include "kvmft/solve.h"
#include "kvmft/windows.h"

struct align {
	struct win_stats total;
	uint64_t windows;	/* that were closed, of this VM */
	unsigned int share;	/* of the events not apart: percentage that could be checked */
	size_t vcpus_blind;	/* vCPUs with events, none of which could be checked */
	/* Shifts that leave every event inside; if lo <= 0 <= hi, they bound the error. */
	bool has_shift;
	int64_t shift_lo, shift_hi;
	/*
	 * Rates at which the guest's clock could run away, in parts per 10^9, without an event
	 * leaving its window in any slice of time. hi < lo: no steady rate explains what was seen.
	 */
	bool has_drift;
	int64_t drift_lo, drift_hi;
	/* Outside events: how many vCPUs have some, host TSC of the first and last one. */
	size_t vcpus, vcpus_bad;
	uint32_t bad_vcpu;	/* one of them */
	uint64_t bad_from, bad_to;
	uint64_t bad_inside;	/* events inside on those vCPUs ... */
	uint64_t bad_after_good; /* ... of these, before their first outside one */
};

/* Below this share, too much could not be checked for a verdict. */
#define ALIGN_MIN_SHARE 75
/* After win_finish(). */
void align_measure(const struct windows *w, size_t vm, struct align *a);

/* ---- the verdict ---- */

enum align_kind { ALIGN_OK, ALIGN_BAD, ALIGN_UNKNOWN };
extern const char *const align_names[]; /* "aligned", "misaligned", "cannot-tell" */

/* All evidence for an alignment or against it. */
struct proof_facts {
	const struct align *windows;
	const struct msr_pair_stats *deadlines; /* NULL: neither side shows any */
	const struct solution *solved; /* its offset comes from the events; NULL: it was known */
	bool elsewhere;		       /* it was known, but the events ask for another one */
	bool off_record; /* given by hand although the windows hold for the recorded one as well */
};

/* The verdict: made only here, and final. */
enum align_kind proof_judge(const struct proof_facts *f);
