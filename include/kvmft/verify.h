/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verify.h: what `kvmft verify` found out, and how it reports that. */
#pragma once

#include "kvmft/align.h"
#include "kvmft/msr_pairs.h"
#include "kvmft/solve.h"
#include "kvmft/pairing.h"

struct verify_guest {
	const struct pairing_guest *g;
	const struct tl_source *src;
	struct align a;
	uint64_t first, last; /* host TSC of its first and last placed event; 0 = none */
	bool solved;	      /* by the offset from the events: none recorded, or --solve */
	struct solution sol;  /* tried: the offset was searched for in the data, but not used */
	const struct tsc_map *used; /* then: the first vCPU's map, or NULL */
	enum align_kind verdict;
	struct sbuf reasons; /* for verify_reason() */
};

struct verify {
	struct pairing p;
	struct windows *w;
	struct msr_pairs *pairs;
	struct runs *runs; /* collected when needed */
	struct verify_guest *guest;
	uint64_t host_first, host_last; /* host TSC of the host's own events */
	bool complete;
	uint64_t khz;
	unsigned int width; /* of a terminal: sentences are wrapped; 0 = they are not */
	bool color;
	const struct out_clock *clock; /* of slices; NULL: s since the host's first event */
};

/* After the walk: the verdict on each guest, and the reasons for it. 0, or -errno with err. */
int verify_judge(struct verify *v, struct kvmft_err *err) __must_check;
/*
 * The reasons for the verdict and what to do about it: the line after that one; NULL: before the
 * first, which is the verdict, and after the last.
 */
const char *verify_reason(const struct verify_guest *g, const char *after);
/* What the events say about the offsets, whether asked or not. */
const struct solution *verify_solution(const struct verify_guest *g);
void verify_text(const struct verify *v, struct sbuf *b);
void verify_json(const struct verify *v, struct sbuf *b);
void verify_csv(const struct verify *v, struct sbuf *b);
