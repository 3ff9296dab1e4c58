/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify.h: what `kvmft verify` found out, and its ways of saying it.
 */
#ifndef KVMFT_VERIFY_H
#define KVMFT_VERIFY_H

#include "kvmft/align.h"
#include "kvmft/pairs.h"
#include "kvmft/solution.h"
#include "kvmft/pairing.h"

struct verify_guest {
	const struct pairing_guest *g;
	const struct tl_source *src;
	struct align a;
	uint64_t first, last; /* host TSC of its first and last placed event; 0 = none */
	uint64_t before, after; /* events before the host's first, and since its last so far */
	bool solved;	      /* its offset is what the events say: the captures have none, or --solve */
	struct solution sol;  /* tried: the offset was looked for in the data, and not used */
	struct tsc_map map;   /* that is used, of the first vCPU */
	bool has_map;
	char **reason;	      /* lines of text, the first is the verdict */
	size_t nreason, reason_cap;
};

struct verify {
	struct pairing p;
	struct windows *w;
	struct pairs *pairs;
	struct runs *runs; /* collected when they are needed */
	struct verify_guest *guest;
	uint64_t host_first, host_last; /* host TSC of the host's own events */
	bool complete;
	uint64_t khz;
};

/* Why the verdict is what it is, and what to do about it. 0 or -ENOMEM. */
int verify_reasons(struct verify *v, struct verify_guest *g) __must_check;
/* The guest's events were placed where the host did not record, although it has windows. */
bool verify_elsewhere(const struct verify *v, const struct verify_guest *g);
/* One more reason: takes the text of b. 0 or -ENOMEM. */
int verify_reason(struct verify_guest *g, struct sbuf *b) __must_check;
/* Looks for the guest's offset in the data: g->sol. 0, or -errno with err. */
int verify_solve(struct verify *v, struct verify_guest *g, struct kvmft_err *err) __must_check;
/* What the events say of the offsets, asked or not. */
const struct solution *verify_solution(const struct verify_guest *g);
/* Says what was found. 0 or -ENOMEM. */
int verify_solution_reasons(struct verify *v, struct verify_guest *g) __must_check;
/* "1.234567 s (host TSC 4711)", counted from the host's first event. */
void verify_time(const struct verify *v, uint64_t host, struct sbuf *b);
void verify_text(const struct verify *v, struct sbuf *b);
void verify_json(const struct verify *v, struct sbuf *b);
void verify_csv(const struct verify *v, struct sbuf *b);

#endif
