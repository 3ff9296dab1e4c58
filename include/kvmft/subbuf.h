/* SPDX-License-Identifier: GPL-2.0-or-later */
/* subbuf.h: events into sub-buffers, for making captures from something else. */
#pragma once

#include "kvmft/capture.h"

/* Puts events into sub-buffers, in the layout that subbuf_begin() reads. */
struct subbuf_writer {
	struct subbuf_geom g;
	int (*emit)(void *arg, const void *buf); /* takes g.size bytes; 0 or -errno */
	void *arg;
	uint8_t *buf;
	uint32_t pos;	/* bytes of data in buf */
	uint64_t begin, ts; /* of the first and the last event */
	bool open;	/* buf was begun */
	bool lost;	/* events were lost before it */
	bool uncounted; /* ... and how many is unknown */
	uint64_t lost_count;
	uint64_t emitted;
};

/* -EINVAL for a geometry without room for events; freed with subbuf_writer_free() always. */
int subbuf_writer_init(struct subbuf_writer *w, const struct subbuf_geom *g,
		       int (*emit)(void *arg, const void *buf), void *arg) __must_check;
/*
 * Adds an event; data as in struct rec. A stamp before the last one begins a new
 * sub-buffer. -EMSGSIZE: it does not fit into any sub-buffer of that size.
 */
int subbuf_write(struct subbuf_writer *w, uint64_t ts, const void *data, uint32_t len)
	__must_check;
/* Events were lost before the next one: count, 0 = number unknown. Counts add up. */
int subbuf_write_lost(struct subbuf_writer *w, uint64_t count) __must_check;
/* Hands out what there is. A loss that no event follows makes an empty sub-buffer. */
int subbuf_write_end(struct subbuf_writer *w) __must_check;
void subbuf_writer_free(struct subbuf_writer *w);
