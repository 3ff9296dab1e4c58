/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.h: the problem that solve.c solves. Times are relative: H of a host time scaled to guest
 * cycles, G of a guest time, both from the first one known; an event is at host time G - d, and d
 * is sought.
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
	int64_t *p; /* pairs by value: guest time minus scaled host time */
	size_t np, pcap;
	/* Of a run: */
	size_t taken; /* its events */
};

#define SHARE_BITS 20

struct solve_event {
	int64_t g;
	uint32_t v; /* index of its vCPU */
};

/* A stretch of candidates [from, to). */
struct solve_cell {
	int64_t from, to;
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

/* An event outside counts against this many inside. */
#define SOLVE_COST 19

/* The best place within a cell, exactly. */
struct solve_place {
	int64_t from, to;  /* every d in [from, to] is as good; the widest such stretch */
	int64_t low, high; /* all that are as good, near it: there may be worse ones between them */
	int64_t score;
	uint64_t inside, outside;
};

/* With the first n events. 0, -ETIME. */
int solve_sweep(struct solve *s, const struct solve_cell *c, size_t n, struct solve_place *best);
