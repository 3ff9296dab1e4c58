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
	struct run_list w; /* the guest may have run then: guest cycles */
	int32_t *tid;	   /* threads that run it */
	size_t ntid, tidcap;
	uint64_t *e;
	size_t ne, ecap;
	uint64_t pair; /* the least by value: guest time minus scaled host time */
	size_t np;
	/* Of a run: */
	size_t taken;	   /* its events */
	struct solve_gap { /* cells in which it did not run, nor in the one before */
		uint32_t from, to;
	} * gap;
	size_t ngap, gapcap;
	uint32_t *first; /* by 2^step cells: the first gap that ends in them or later */
	size_t steps;
	unsigned int step;
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
	struct solve_vcpu *v;
	size_t nv, vcap;
	uint64_t events, seen;	 /* all that are kept; all of them */
	uint64_t stride;	 /* every n-th event is kept */
	uint64_t windows, taken; /* all of them, and those of this run */
	uint64_t h0, g0;	 /* what H and G are counted from */
	uint64_t hspan, gspan;
	struct solve_event *ev; /* all of them, shuffled */
	size_t nev;
	int64_t lo, hi; /* candidates: lo <= d < hi */
	struct solve_cell *cell;
	size_t ncell, cellcap, left; /* left: cells of the grid in them */
	int shift;		     /* they are of 2^shift ... */
	int64_t width;		     /* ... and were of this at first */
	uint64_t share;	       /* of events, 2^-SHARE_BITS: outside with a wrong offset, at least */
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
