/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solution.h: all TSC offsets of a guest, as far as events tell them: one for all vCPUs; where none
 * serves all, one for each; where one changed, one for each stretch of time.
 */
#ifndef KVMFT_SOLUTION_H
#define KVMFT_SOLUTION_H

#include "kvmft/solve.h"

struct solution_vcpu {
	uint32_t id;
	struct solve_result r;
	struct solve_part *part; /* NULL, or of some time only: SOLVE_PARTS, nparts used */
	size_t nparts;
	uint64_t left; /* events that no part serves */
};

/* Zero-initialised; freed with solution_free(). */
struct solution {
	bool tried;
	struct tsc_map map;	/* ratio and fraction bits taken; its offset is not used */
	struct solve_result r;	/* for all vCPUs; or, with own, what has most witnesses; or r.why */
	struct solution_vcpu *own; /* vCPUs that one offset for all does not serve */
	size_t n_own, own_cap;
	uint64_t rest, rest_outside; /* of other vCPUs by r, and those it does not serve */
	uint32_t missed; /* one of these of which there are such events ... */
	const char *missed_why; /* ... and why it has no offset of its own; NULL: there is none */
};

/* What the events of s say. 0 (s->r.found or s->r.why), or -ENOMEM. */
int solution_find(struct solve *s, const struct tsc_map *map, struct solution *out) __must_check;
/* The same of one vCPU alone, as one more of out->own if it is sure. 0 or -ENOMEM. */
int solution_find_vcpu(struct solve *s, uint32_t vcpu, struct solution *out) __must_check;
/* What is known of a vCPU otherwise. 0 or -ENOMEM. */
int solution_add(struct solution *out, uint32_t vcpu, const struct solve_result *r) __must_check;
/* Makes s->own what holds for vCPUs of which nothing is known. 0 or -ENOMEM. */
int solution_fill(const struct solution *s, struct hostmap *map, size_t vm) __must_check;
/*
 * Found, at one place only, and no event of any vCPU is outside: what can be relied upon without
 * anybody looking at it.
 */
bool solution_is_sure(const struct solution *s);
/* Events that it was found with, and of these those outside. */
void solution_count(const struct solution *s, uint64_t *events, uint64_t *outside);
/* By how much any of the offsets may be wrong, guest cycles; 0: nothing was found. */
uint64_t solution_bound(const struct solution *s);
/* Makes it hold for VM number vm of the map: vCPUs 0..ncpu-1 and those known. 0 or -ENOMEM. */
int solution_force(const struct solution *s, struct hostmap *map, size_t vm,
		   size_t ncpu) __must_check;
void solution_free(struct solution *s);

#endif
