/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.h: the TSC offset of a guest from nothing but two captures: the one that puts its events
 * into the entry..exit windows of its vCPUs.
 *
 * Accesses of MSRs that both sides traced narrow the search if there are any: the host handles such
 * an access before the guest's event of it, and usually shortly before.
 *
 * Large amounts of data are thinned, so memory is bounded: events are dropped evenly, and windows
 * with a short gap between them are joined. Neither can exclude the true offset.
 */
#pragma once

#include "kvmft/runs.h"

struct solve;

struct solve_result {
	bool found;
	uint64_t offset; /* middle of the widest stretch that fits equally well; wraps */
	uint64_t offset_lo, offset_hi; /* smallest and greatest that fit; some between them may
				        * not */
	uint64_t events;	    /* that were used, out of all in the capture */
	uint64_t inside, outside;   /* of those; the rest is outside all known time */
	/* How unique it is. */
	uint64_t span;		    /* guest cycles of offsets that were searched */
	uint64_t equal;		    /* other places in the span that leave no more outside */
	bool has_next;		    /* the best of all other places ... */
	int64_t next_distance;	    /* ... is this far away, guest cycles */
	uint64_t next_inside, next_outside;
	uint64_t pairs;		    /* the search was narrowed by so many pairs by value; 0 = not */
	bool has_most;		    /* by pairs the offset is at most this, whether it was found
				     * or not */
	uint64_t at_most;
	const char *why;	    /* !found: a line of text */
};

/* An empty problem. map: ratio and fraction bits of the guest (its offset is ignored). */
void solve_new(const struct tsc_map *map, struct solve **out);
/*
 * In time order per vCPU: the guest of that vCPU may have run from entry to exit, host TSC. Windows
 * that touch or overlap the previous one are joined with it.
 */
void solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit);
/* An event of that vCPU, guest TSC; in any order. */
void solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest);
/* All runs of a thread, as windows of that vCPU; of several threads in time order. */
void solve_add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid);
/*
 * All events of a capture whose stamps are exact (own_tsc_is_exact()), and all pairs of both sides;
 * after the threads.
 */
int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt) __must_check;
/*
 * The problem of one guest: the runs of a VM's threads and the events of such a capture.
 * *out is to be freed whatever is returned: 0 or -errno.
 */
int solve_captures(const struct tsc_map *scale, const struct hostmap *map, size_t vm,
		   const struct runs *runs, const struct capture *cap, const struct fmt *fmt,
		   struct solve **out) __must_check;
/* Forgets the windows of a vCPU, so that another thread can be tried. */
void solve_clear_windows(struct solve *s, uint32_t vcpu);
/* The host handled an access of that vCPU whose event the guest has at guest TSC `guest`. */
void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest);
#define SOLVE_ALL (-1)
/*
 * One offset for that vCPU alone, or SOLVE_ALL for one that fits all of them. After the last add;
 * may be called again. r->found or r->why.
 */
void solve_run(struct solve *s, int64_t vcpu, struct solve_result *r);
/*
 * How many events of vCPU number i a result leaves without a place, before or after those that it
 * fits, though the vCPU ran on the host without a guest event there: its clock may have been moved,
 * and where to is not known. After a run.
 */
uint64_t solve_leaves(const struct solve *s, size_t i, const struct solve_result *r);
/* Host times between which a result puts events into windows; from > to: none. After a run. */
struct solve_span {
	int64_t from, to;
};
struct solve_span solve_span_of(const struct solve *s, const struct solve_result *r);
/*
 * The events of vCPU number i, if a result puts none of them into the time known of it, though the
 * vCPU ran again and again in that span, where some should be; else 0.
 */
uint64_t solve_absent(const struct solve *s, size_t i, const struct solve_result *r,
		      const struct solve_span *span);
/* vCPUs with windows and events, in no order. */
size_t solve_vcpus(const struct solve *s);
uint32_t solve_vcpu_id(const struct solve *s, size_t i);
enum solve_fit { SOLVE_UNKNOWN, SOLVE_INSIDE, SOLVE_OUTSIDE };
/* How many events of vCPU number i are inside and outside with the result's offset. */
void solve_count(const struct solve *s, size_t i, const struct solve_result *r, uint64_t *inside,
		 uint64_t *outside);
void solve_free(struct solve *s);

/*
 * All TSC offsets of a guest, as far as events reveal them: one for all vCPUs; if none
 * fits all, one for each.
 */

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
