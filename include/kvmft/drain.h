/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drain.h: moves sub-buffers from per-CPU kernel files to per-CPU data files, without copying.
 *
 * One thread per CPU sits in a blocking splice(), which the kernel wakes at the instance's
 * buffer_percent; the descriptors come from outside, so this works on any source that behaves like
 * trace_pipe_raw. See "Draining" in src/README.md for why splice. Where the data goes, and how much
 * of it, is up to the store, one for all CPUs.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "kvmft/util.h"

struct drain_cpu;
struct stream_out;

enum drain_stop {
	DRAIN_RUNNING,
	DRAIN_MAX_SIZE, /* the byte budget is used up */
	DRAIN_MIN_FREE, /* the file system would have less free space than requested */
	DRAIN_ERROR,	/* a read or write failed: see error of the CPUs */
};

/* What all CPUs share. Sizes in bytes; 0 = no limit. Callbacks come from any thread. */
struct drain_store {
	/* set by the caller before drain_store_init() */
	uint32_t subbuf;       /* size of a sub-buffer */
	uint64_t max_bytes;    /* of all data present */
	uint64_t min_free;     /* of the file system of dirfd */
	uint64_t rotate_bytes; /* of one segment, all CPUs together; at least one sub-buffer */
	bool sync;	       /* also sync what is flushed to the disk */
	int dirfd;	       /* borrowed */
	/*
	 * Borrowed: the data goes there instead of to files; open() is not called. NULL: to files.
	 */
	struct stream_out *stream;
	int wake_fd;	       /* eventfd: written when stop is set or a segment has begun; -1 =
			        * none */
	void *ctx;	       /* first argument of the functions */
	/* Makes the data file of a CPU; fd open for reading and writing, or -errno. */
	int (*open)(void *ctx, unsigned int segment, unsigned int cpu);
	/*
	 * Begins a segment: makes it and may remove old ones, adding their bytes to *freed. Called
	 * under the lock: no other thread is in it or in open(), and all that have something to
	 * write wait. 0 or -errno. NULL = nothing to do.
	 */
	int (*next)(void *ctx, unsigned int segment, uint64_t *freed);
	/*
	 * A segment has begun: does what next() left undone because it takes time. Not under the
	 * lock. NULL = nothing.
	 */
	void (*began)(void *ctx);
	/* The number of events in a sub-buffer that was taken from the kernel but did not fit. */
	uint64_t (*events)(void *ctx, const void *subbuf);
	/*
	 * Appends the events of a sub-buffer to those of another: the bytes that that one has then,
	 * or -errno and it is unchanged. NULL = never.
	 */
	int (*join)(void *ctx, void *subbuf, const void *more);
	/*
	 * Sub-buffers of this CPU were moved: time to look at its counters. NULL = nothing to do.
	 */
	void (*moved)(void *ctx, struct drain_cpu *c);

	/* the store's own */
	pthread_mutex_t lock;
	pthread_cond_t none_opening;
	unsigned int opening; /* threads in open() */
	bool fresh;	      /* began() is to be called */
	uint64_t used, in_flight, segment_used;
	_Atomic unsigned int segment;
	_Atomic int stop; /* enum drain_stop: first reason wins */
};

struct drain_cpu {
	unsigned int cpu;
	int src;		 /* borrowed; -1 = this CPU is not drained */
	uint64_t bytes;		 /* stored, all segments */
	uint64_t dropped;	 /* sub-buffers taken from the kernel that did not fit ... */
	uint64_t dropped_events; /* ... and the number of events in them, but for ... */
	uint64_t uncounted;	 /* ... so many that were lost half written */
	uint64_t write_ns, write_max_ns; /* time that the output took: in all, for one batch */
	int error;		 /* -errno of the first failed call */
	bool error_is_write;

	/* the thread's own */
	struct drain_store *store;
	int dst;	       /* data file of `segment`, -1 = none yet */
	unsigned int segment;
	uint64_t off;	       /* bytes in it: whole sub-buffers */
	int pipe[2];
	size_t pipe_size;
	bool copy; /* the data file cannot take splice: copy through user space */
	uint8_t *tmp;
	uint8_t *tail; /* a copy of the last sub-buffer in the file, if more may be appended to
		        * it ... */
	uint64_t tail_end; /* ... which is in segment tail_segment; 0 = none */
	unsigned int tail_segment;
	pthread_t thread;
	bool started;
	_Atomic bool stopping, done;
	_Atomic int flush; /* enum drain_flush */
};

/* ---- the store ---- */

int drain_store_init(struct drain_store *s) __must_check;
void drain_store_free(struct drain_store *s);
/* Begins a new segment unless the present one is empty. 0 or -errno. */
int drain_rotate(struct drain_store *s) __must_check;
/* Would min_free hold with n bytes more in the file system? */
bool drain_room(const struct drain_store *s, size_t n);
/* Outside of next(): this many bytes of old data were removed. */
void drain_freed(struct drain_store *s, uint64_t bytes);
/* Makes wake_fd readable. */
void drain_wake(struct drain_store *s);

/* ---- draining ---- */

/*
 * Prepares a CPU whose cpu, src and store are set and the rest zero. Its data file of segment 0 is
 * made at once, so that an output that cannot be written to is noticed early. 0 or -errno; -ENOBUFS
 * if no pipe can hold a sub-buffer (fs.pipe-user-pages-soft).
 */
int drain_open(struct drain_cpu *c) __must_check;
/* Closes everything but src; a CPU that was never opened (store NULL) is fine. */
void drain_close(struct drain_cpu *c);

/*
 * Starts the thread of one CPU. The process must have a handler for DRAIN_SIGNAL, which wakes
 * blocked threads: see drain_signal_init(). 0 or -errno.
 */
#define DRAIN_SIGNAL SIGURG /* not a queued one, for which there may be no room */
int drain_signal_init(void) __must_check;
int drain_start(struct drain_cpu *c) __must_check;
enum drain_flush {
	DRAIN_FLUSH_NONE,
	/* complete sub-buffers, without waiting until the ring is half full */
	DRAIN_FLUSH_COMPLETE,
	DRAIN_FLUSH_ALL,      /* also what is in the one being written */
};

/* Lets the threads fetch what there is now. */
void drain_flush(struct drain_cpu *cpu, size_t n, enum drain_flush what);
/*
 * Moves what is in the ring now, including the sub-buffer being written as far as it got, but not
 * much more than limit bytes; for a CPU without a thread and with a non-blocking src. 0 or -errno.
 */
int drain_now(struct drain_cpu *c, uint64_t limit);
/* Ends the threads. */
void drain_join(struct drain_cpu *cpu, size_t n);
/*
 * After drain_join(): takes what is left in the kernel, including the sub-buffer being written. The
 * source must have stopped producing (events disabled). If a limit was reached, the rest stays in
 * the kernel, whose counters show it. Returns 0, or the first -errno.
 */
int drain_finish(struct drain_cpu *cpu, size_t n);
