/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live.h: events of many CPUs in time order while they happen.
 *
 * The descriptors of per_cpu/cpuN/trace_pipe_raw are read at intervals that the caller chooses. At
 * each read an event of one CPU may still be on its way while a later one of another CPU has
 * already been read, so nothing is given out at once: live_read() releases what is no newer than
 * the newest event of the previous read. The re-order window is thus one interval; an event that
 * comes later than that is given out late and marked. Only stamps are compared: any trace clock
 * will do.
 */
#ifndef KVMFT_LIVE_H
#define KVMFT_LIVE_H

#include "kvmft/ring.h"

struct live;

struct live_item {
	enum rkind kind;  /* R_EVENT, R_GAP, R_DAMAGE */
	bool late;	  /* something newer was given out before */
	uint32_t cpu;
	uint64_t ts;	  /* trace clock units; of a gap: where events begin again */
	uint64_t lost;	  /* R_GAP: how many; 0 = unknown */
	struct rec rec;	  /* R_EVENT; data is valid until the next live_next() or live_read() */
};

struct live_totals {
	uint64_t events, gaps, lost, damaged, late;
	bool lost_unknown; /* some gap had no count */
};

/* Geometry of the sub-buffers of this machine. Freed with live_free(). 0 or -ENOMEM, -EINVAL. */
int live_new(uint32_t subbuf_size, struct live **out) __must_check;
void live_free(struct live *l); /* NULL is fine; closes no descriptor */

/* fd (borrowed) yields whole sub-buffers and does not block. After the last one: live_read(). */
int live_add_cpu(struct live *l, uint32_t cpu, int fd) __must_check;

/*
 * Takes what the descriptors hold and releases events for live_next(). last: the source is quiet,
 * release everything. 0; 1: there was not enough memory for all of it (a few MiB per CPU are kept),
 * take the events out and call again; -errno of a failed read, -EMSGSIZE for a source that does not
 * yield whole sub-buffers, -ENOMEM.
 */
int live_read(struct live *l, bool last) __must_check;
/* The next released item: 1, or 0 if there is none until the next live_read(). */
int live_next(struct live *l, struct live_item *item) __must_check;

const struct live_totals *live_totals(const struct live *l);

#endif
