/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solution.h: all TSC offsets of a guest, as far as events reveal them: one for all vCPUs; if none
 * fits all, one for each.
 */
#pragma once

#include "kvmft/solve.h"

struct solution_vcpu {
	uint32_t id;
	struct solve_result r;
	uint64_t left; /* events without a place, though the vCPU ran: it may have changed */
};

/* Zero-initialised; freed with solution_free(). */
struct solution {
	bool tried;
	struct tsc_map map;	/* ratio and fraction bits taken; its offset is not used */
	struct solve_result r;	/* for all vCPUs; or, with own, the one with most witnesses; or
				 * r.why */
	struct solution_vcpu *own; /* vCPUs that one offset for all does not fit */
	size_t n_own, own_cap;
	uint64_t rest, rest_outside; /* of other vCPUs by r, and those it does not fit */
	uint32_t missed; /* one of these with such events ... */
	const char *missed_why; /* why it has no offset of its own; NULL: no vCPU is missed */
};

/* What the events of s show: out->r.found or out->r.why. */
void solution_find(struct solve *s, const struct tsc_map *map, struct solution *out);
/* The same for one vCPU, added to out->own if it is sure. */
void solution_find_vcpu(struct solve *s, uint32_t vcpu, struct solution *out);
/* What is known about a vCPU from elsewhere. */
void solution_add(struct solution *out, uint32_t vcpu, const struct solve_result *r);
/* Makes s->own what holds for vCPUs about which nothing is known. */
void solution_fill(const struct solution *s, struct hostmap *map, size_t vm);
/* Found, unique, and no event of any vCPU is outside: can be relied upon without a human look. */
bool solution_is_sure(const struct solution *s);
/* Events that it was found with, and how many of these are outside. */
void solution_count(const struct solution *s, uint64_t *events, uint64_t *outside);
/* By how much any of the offsets may be wrong, host cycles; 0: nothing was found. */
uint64_t solution_bound(const struct solution *s);
/* Makes it hold for VM number vm of the map: vCPUs 0..ncpu-1 and those known. */
void solution_force(const struct solution *s, struct hostmap *map, size_t vm, size_t ncpu);
void solution_free(struct solution *s);
