/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify.h: what `kvmft verify` found out, and its ways of saying it.
 */
#ifndef KVMFT_CMD_VERIFY_H
#define KVMFT_CMD_VERIFY_H

#include "kvmft/align.h"
#include "kvmft/output.h"
#include "kvmft/pairs.h"
#include "kvmft/solve.h"
#include "pairing.h"

struct verify_guest {
	const struct pairing_guest *g;
	const struct tl_source *src;
	struct align a;
	uint64_t first, last; /* host TSC of its first and last placed event; 0 = none */
	bool has_solution;    /* the offset was looked for in the data: */
	struct solve_result solution;
	struct verify_vcpu {
		uint32_t id;
		struct solve_result r;
		struct solve_part *part; /* NULL, or of some time only: SOLVE_PARTS, nparts used */
		size_t nparts;
	} *own; /* vCPUs that it is not right for, and what is right for them alone */
	size_t n_own, own_cap;
	struct tsc_map map;   /* as it was before, of the first vCPU; ratio 0 where unknown */
	bool has_map;
	char **reason;	      /* lines of text, the first is the verdict */
	size_t nreason, reason_cap;
};

struct verify {
	struct pairing p;
	struct windows *w;
	struct pairs *pairs;
	struct verify_guest *guest;
	uint64_t host_first, host_last; /* host TSC of the host's own events */
	bool complete;
	bool solved; /* by --solve: what is judged is the solution */
	uint64_t khz;
};

/* Why the verdict is what it is, and what to do about it. 0 or -ENOMEM. */
int verify_reasons(struct verify *v, struct verify_guest *g) __must_check;
/* The guest's events were placed where the host did not record, although it has windows. */
bool verify_elsewhere(const struct verify *v, const struct verify_guest *g);
/* One more reason: takes the text of b. 0 or -ENOMEM. */
int verify_reason(struct verify_guest *g, struct sbuf *b) __must_check;
/* Looks for the guest's offset in the data. 0, or -errno with err; g->solution says what was found. */
int verify_solve(struct verify *v, struct verify_guest *g, struct kvmft_err *err) __must_check;
/* Makes what was found what the captures say; pairing_restart() must follow. 0 or -ENOMEM. */
int verify_use_solution(struct verify *v, struct verify_guest *g) __must_check;
/* Says what was found. 0 or -ENOMEM. */
int verify_solution_reasons(struct verify *v, struct verify_guest *g) __must_check;
/* "1.234567 s (host TSC 4711)", counted from the host's first event. */
void verify_time(const struct verify *v, uint64_t host, struct sbuf *b);
void verify_text(const struct verify *v, struct sbuf *b);
void verify_json(const struct verify *v, struct sbuf *b);
void verify_csv(const struct verify *v, struct sbuf *b);

#endif
