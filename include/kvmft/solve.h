/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.h: the TSC offset of a guest from nothing but two captures: the one that puts its events
 * into the entry..exit windows of its vCPUs.
 *
 * The data is thinned when there is a lot of it, so memory is bounded: events are dropped evenly,
 * windows with a short gap between them become one. Neither can exclude the true offset.
 */
#ifndef KVMFT_SOLVE_H
#define KVMFT_SOLVE_H

#include "kvmft/hostmap.h"

struct solve;

struct solve_result {
	bool found;
	uint64_t offset;	    /* middle of the range below; 64 bits, wrapping */
	uint64_t offset_lo, offset_hi; /* all of these do equally well; guest cycles */
	uint64_t events;	    /* that were used, of all that the capture has */
	uint64_t inside, outside;   /* of those, with this offset; the rest is outside of all time known */
	/* How unique it is. */
	uint64_t span;		    /* guest cycles of offsets that were searched */
	uint64_t equal;		    /* other places of the span that do as well or better */
	bool has_next;		    /* the best of all other places ... */
	int64_t next_distance;	    /* ... is that far away, guest cycles */
	uint64_t next_inside, next_outside;
	unsigned int tolerance;	    /* places that leave more than this many 64ths outside were dropped */
	bool sampled;		    /* not all events were used */
	const char *why;	    /* !found: a line of text */
};

/* An empty problem. map: ratio and fraction bits of the guest (its offset is ignored). */
int solve_new(const struct tsc_map *map, struct solve **out) __must_check;
/*
 * In order of time per vCPU: the guest of that vCPU may have run from entry to exit, host TSC.
 * Windows that touch or overlap the one before become one.
 */
int solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit) __must_check;
/* An event of that vCPU, guest TSC; in any order. */
int solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest) __must_check;
/* All windows of a VM, and all events of a guest capture that is in guest TSC. */
int solve_add_host(struct solve *s, struct hostmap *map, size_t vm, struct kvmft_err *err)
	__must_check;
int solve_add_guest(struct solve *s, const struct capture *cap) __must_check;
/* 0 (r->found or r->why), or -ENOMEM. */
int solve_run(struct solve *s, struct solve_result *r) __must_check;
void solve_free(struct solve *s);

#endif
