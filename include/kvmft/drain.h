/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drain.h: moves sub-buffers from per-CPU kernel files to per-CPU data files, without copying.
 *
 * One thread per CPU sits in a blocking splice(), which the kernel wakes at the instance's
 * buffer_percent; the descriptors come from outside, so this works on any source that behaves
 * like trace_pipe_raw (the tests use pipes). See "Draining" in src/README.md for why splice.
 */
#ifndef KVMFT_DRAIN_H
#define KVMFT_DRAIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvmft/util.h"

enum drain_stop {
	DRAIN_RUNNING,
	DRAIN_MAX_SIZE, /* the byte budget is used up */
	DRAIN_MIN_FREE, /* the file system would fall below the asked free space */
	DRAIN_ERROR,	/* a read or write failed: see error */
};

/* What all CPUs share. Sizes in bytes; 0 = no limit. */
struct drain_budget {
	uint64_t max_bytes;
	uint64_t min_free;
	_Atomic uint64_t used;
	_Atomic int stop;     /* enum drain_stop: first reason wins */
	int wake_fd;	      /* eventfd that becomes readable when stop is set; -1 = none */
};

struct drain_cpu {
	unsigned int cpu;
	int src, dst;	 /* borrowed; dst is written sequentially */
	uint64_t bytes;	 /* written to dst */
	uint64_t unread; /* sub-buffers that were taken from the kernel but did not fit */
	uint64_t wakeups;
	int error;	 /* -errno of the first failed call */
	bool error_is_write;

	/* the thread's own */
	struct drain_budget *budget;
	uint32_t subbuf;
	int pipe[2];
	size_t pipe_size;
	bool copy; /* the data file cannot take splice: copy through user space */
	uint8_t *tmp;
	pthread_t thread;
	bool started;
	_Atomic bool stopping, done;
};

/*
 * Starts a thread per CPU. subbuf is the size of a sub-buffer. Installs a no-op handler for
 * DRAIN_SIGNAL, with which blocked threads are woken. 0 or -errno (nothing runs then).
 */
#define DRAIN_SIGNAL SIGRTMIN
int drain_start(struct drain_cpu *cpu, size_t n, uint32_t subbuf, struct drain_budget *b)
	__must_check;
/*
 * Ends the threads, then takes what is left in the kernel, the sub-buffer being written included.
 * The source must produce nothing any more (events disabled). Returns 0, or the first -errno; each
 * CPU's error and unread tell the rest. The descriptors stay open.
 */
int drain_finish(struct drain_cpu *cpu, size_t n);

#endif
