/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.h: the problem that solve_collect.c collects, solve.c states and searches coarsely, and
 * solve_places.c solves exactly and judges. Times are relative: H of a host
 * time scaled to guest cycles, G of a guest time, both from the first one known; an event is at
 * host time G - d, and d is sought.
 */
#pragma once

#include "kvmft/proof.h"

struct solve_vcpu {
	uint32_t id;
	struct run_list w; /* the guest may have run then: host TSC, later scaled to guest cycles */
	int32_t *tid;	   /* threads that run it */
	size_t ntid, tidcap;
	uint64_t *e;
	size_t ne, ecap;
	struct solve_pair {
		int64_t later; /* guest time minus scaled host time */
	} * p;		       /* pairs by value */
	size_t np, pcap;
	/* Of a run: */
	size_t taken; /* its events */
};

#define SHARE_BITS 20

struct solve_event {
	int64_t g;
	uint32_t v; /* index of its vCPU */
};

/* A stretch of candidates [from, to) and what is known about it. */
struct solve_cell {
	int64_t from, to;
	uint64_t outside; /* at least so many of the tested events are outside */
};

struct solve {
	struct tsc_map map;
	int64_t only; /* the vCPU to solve, or SOLVE_ALL */
	bool scaled;  /* windows are in guest cycles */
	struct solve_vcpu *v;
	size_t nv, vcap;
	uint64_t windows, events, seen; /* all of those kept; all events seen */
	uint64_t min_gap;		/* windows closer than this become one, host cycles */
	uint64_t stride;		/* every n-th event is kept */
	uint64_t h0, g0;		/* what H and G are counted from */
	uint64_t hspan, gspan;
	struct solve_event *ev; /* all of them, shuffled */
	int64_t *order;		/* their g alone, in order */
	size_t nev;
	int64_t lo, hi; /* candidates: lo <= d < hi */
	struct solve_cell *cell;
	size_t ncell, cellcap, most;
	int least;	       /* the smallest cells are of 2^least */
	int64_t width, fine;   /* of a cell of the grid, and of its smallest */
	uint64_t share;	       /* of events, 2^-SHARE_BITS: a wrong offset leaves at least this many
			 * outside */
	uint64_t spent, limit; /* by all runs, and allowed to this one; about 1 ns each */
};

/* So many events are tested that a wrong offset is expected to leave 64 of them outside. */
static inline size_t solve_enough(const struct solve *s)
{
	return (64ull << SHARE_BITS) / s->share + 1;
}

/*
 * So many of n events must fall into times about which something is known: an offset that moves
 * nearly all of them out of the host's recording is contradicted by nothing, but proves nothing.
 */
static inline size_t solve_least(size_t n)
{
	return MAX(n / 64, (size_t)2);
}

#define SOLVE_MIN_EVENTS 8

/* An event outside counts against this many inside. */
#define SOLVE_COST 19

/* True while the budget is not spent. */
static inline bool solve_spend(struct solve *s, uint64_t work)
{
	s->spent += work;
	return s->spent < s->limit;
}

/* Windows of one vCPU in terms of H. */
static inline int64_t solve_h(const struct solve *s, uint64_t scaled)
{
	return (int64_t)(scaled - s->h0);
}

/* A vCPU that counts in this run. */
static inline bool solve_takes(const struct solve *s, const struct solve_vcpu *v)
{
	return v->w.n && v->ne && (s->only == SOLVE_ALL || s->only == (int64_t)v->id);
}

/* The number of the first window that ends at or after h; w.n if there is none. */
size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h);

/* The best place within a cell, exactly. */
struct solve_place {
	int64_t from, to;  /* every d in [from, to] is as good; the widest such stretch */
	int64_t low, high; /* all that are as good, near it: there may be worse ones between them */
	int64_t score;
	uint64_t inside, outside;
};

/* With the first n events. 0, -ETIME. */
int solve_sweep(struct solve *s, const struct solve_cell *c, size_t n, struct solve_place *best);

/*
 * The best place of all cells, if it is not chance. 0, found or not; -ETIME; -E2BIG: too
 * many cells fit; -EDOM: it may be chance.
 */
int solve_cells(struct solve *s, struct solve_result *r);
