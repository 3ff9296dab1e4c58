/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.h: the problem that solve.c states, solve_grid.c searches coarsely and solve_sweep.c solves
 * exactly. Times are relative: H of a host time scaled to guest cycles, G of a guest time, both from
 * the first one known; an event is at host time G - d, and d is sought.
 */
#ifndef KVMFT_ANALYZE_SOLVE_H
#define KVMFT_ANALYZE_SOLVE_H

#include "kvmft/solve.h"

struct solve_window {
	uint64_t from, to; /* the guest may have run in [from, to] */
};

struct solve_vcpu {
	uint32_t id;
	struct solve_window *w; /* in order, disjoint */
	size_t nw, wcap;
	uint64_t *e;
	size_t ne, ecap;
	struct solve_pair {
		size_t at;     /* index of the event after it */
		int64_t later; /* guest time minus scaled host time */
	} *p; /* pairs by value */
	size_t np, pcap;
};

struct solve_event {
	int64_t g;
	uint32_t v; /* index of its vCPU */
};

/* A stretch of candidates [from, to) with what is known of it. */
struct solve_cell {
	int64_t from, to;
	uint64_t outside; /* at least so many of the tested events are outside */
};

struct solve {
	struct tsc_map map;
	int64_t only; /* the vCPU that is solved, or SOLVE_ALL */
	size_t first, last; /* of its events those from first on, and before last; else all */
	bool scaled;  /* windows are in guest cycles */
	struct solve_vcpu *v;
	size_t nv, vcap;
	/* Deadlines that the host saw, while captures are read: their mix with the vCPU → host time. */
	struct u64map deadline;
	size_t deadlines;
	uint64_t windows, events, seen; /* totals kept; events seen */
	uint64_t min_gap;		/* windows closer than this become one, host cycles */
	uint64_t stride;		/* every so many-th event is kept */
	uint64_t h0, g0;		/* what H and G count from */
	uint64_t hspan, gspan;
	struct solve_event *ev; /* all of them, shuffled */
	size_t nev;
	int64_t lo, hi; /* candidates: lo <= d < hi */
	struct solve_cell *cell;
	size_t ncell, cellcap;
	int64_t width; /* of a cell of the grid */
	/* Tolerance: events tested by the grid (16 may be wrong), share of 64 that may be wrong after. */
	size_t tests;
	unsigned int wrong;
	int64_t cost; /* an event outside counts against this many inside */
};

/* Windows of one vCPU in terms of H. */
static inline int64_t solve_h(const struct solve *s, uint64_t scaled)
{
	return (int64_t)(scaled - s->h0);
}

/* A vCPU that counts in this run. */
static inline bool solve_takes(const struct solve *s, const struct solve_vcpu *v)
{
	return v->nw && v->ne && (s->only == SOLVE_ALL || s->only == (int64_t)v->id);
}

/* Its events that count are [*first, *last). */
static inline void solve_range(const struct solve *s, const struct solve_vcpu *v, size_t *first,
			       size_t *last)
{
	*first = s->only == SOLVE_ALL ? 0 : MIN(s->first, v->ne);
	*last = s->only == SOLVE_ALL ? v->ne : MIN(s->last, v->ne);
}

enum solve_fit { SOLVE_UNKNOWN, SOLVE_INSIDE, SOLVE_OUTSIDE };

/* What an event at guest TSC `guest` is with that offset. Windows must be scaled. */
enum solve_fit solve_fits(const struct solve *s, const struct solve_vcpu *v, uint64_t guest,
			  uint64_t offset);
/* solve_run() with events [first, last) of that vCPU. */
int solve_run_range(struct solve *s, uint32_t vcpu, size_t first, size_t last, struct solve_result *r);

/* Fills s->cell with those cells of the grid that may hold the answer. 0, -ENOMEM, -E2BIG, -ENODATA. */
int solve_grid(struct solve *s);
/* The number of the first window that ends at or after h; nw when there is none. */
size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h);

/* The best place within a cell, exactly. */
struct solve_place {
	int64_t from, to; /* every d in [from, to] is as good */
	int64_t score;
	uint64_t inside, outside;
};

int solve_sweep(struct solve *s, const struct solve_cell *c, struct solve_place *best);

#endif
