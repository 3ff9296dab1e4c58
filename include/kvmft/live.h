/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live.h: events of many CPUs while they happen, and what else commands that watch them have in
 * common: formats and descriptors of an instance, the signals that end them, and writing to a
 * reader that may be slow.
 *
 * The descriptors of per_cpu/cpuN/trace_pipe_raw are read at intervals that the caller chooses. At
 * each read an event of one CPU may still be on its way while a later one of another CPU has
 * already been read, so nothing is given out at once: live_read() releases what is no newer than
 * the newest event of the previous read. The re-order window is thus one interval; an event that
 * comes later than that is given out late and marked. Only stamps are compared: any trace clock
 * will do.
 */
#pragma once

#include "kvmft/exit_names.h"
#include "kvmft/kernel.h"
#include "kvmft/ring.h"
#include "kvmft/util.h"

struct live;

struct live_item {
	enum rkind kind; /* R_EVENT, R_GAP, R_DAMAGE */
	bool late;	 /* something newer was given out before */
	uint32_t cpu;
	uint64_t ts;	/* trace clock units; of a gap: where events begin again */
	uint64_t lost;	/* R_GAP: how many; 0 = unknown */
	struct rec rec; /* R_EVENT */
};

struct live_totals {
	uint64_t events, gaps, lost, damaged, late;
	bool lost_unknown; /* some gap had no count */
};

/*
 * A reader of all CPUs of an instance, in time order, or, where that does not matter and costs
 * less, CPU by CPU without a window. 0 or -errno; live_free() also what is half open.
 */
int live_open(struct kinst *k, const struct kcpus *cpus, bool in_order, struct live **live,
	      struct kvmft_err *err) __must_check;
void live_free(struct live *l); /* NULL is fine */

/* The same in two steps, for descriptors (borrowed) that do not block; then live_read(). */
int live_new(uint32_t subbuf_size, bool in_order, struct live **out) __must_check;
void live_add_cpu(struct live *l, uint32_t cpu, int fd);

/*
 * Takes what the descriptors hold and releases events for live_next(). last: the source is quiet,
 * release everything. 0; 1: there was not enough memory for all of it (a few MiB per CPU are kept),
 * take the events out and call again; -errno of a failed read, -EMSGSIZE for a source that does not
 * yield whole sub-buffers, -ENOMEM.
 */
int live_read(struct live *l, bool last) __must_check;
/* The next item, valid until the next call of this or live_read(); NULL: none until live_read(). */
const struct live_item *live_next(struct live *l) __must_check;

const struct live_totals *live_totals(const struct live *l);

/* ---- the session ---- */

/* Formats of list, as if they came from a capture; *fmt is the caller's. */
int session_formats(struct ktracefs *t, const struct kevent_list *list, struct fmt **fmt,
		    struct kvmft_err *err) __must_check;
/* Size of a ring per CPU, in KB: 4 MB, less when memory is short. */
uint64_t session_buffer_kb(size_t ncpu);
/* Of this machine's KVM, for what does not name it; else that of the names. */
enum exit_isa session_isa(const struct exit_names *n);
/* Opens all CPUs of an instance: (*raw)[cpus->n], to be closed with session_raw_close(). */
int session_raw_open(struct kinst *k, const struct kcpus *cpus, int **raw,
		     struct kvmft_err *err) __must_check;
void session_raw_close(int *raw, size_t n);
/* Events lost so far, by the kernel's counters; *left, unless NULL, grows by what was not read. */
uint64_t session_lost(struct kinst *k, const struct kcpus *cpus, uint64_t *left);

/* Blocks the signals that end a session and makes them readable: descriptor or -errno. */
int session_signals(struct kvmft_err *err) __must_check;
/* Nothing is left to be undone: from here on they end the program as usual. *fd: -1 = none. */
void session_signals_end(int *fd);

enum session_write {
	SESSION_WRITTEN,
	SESSION_SIGNAL,	     /* a signal came while the reader did not read: the rest was not
			      * written */
	SESSION_READER_GONE, /* EPIPE */
};

/* Writes to standard output in such a way that signals are obeyed meanwhile. 0 or -errno. */
int session_write(int signal_fd, const char *text, size_t n, enum session_write *how,
		  struct kvmft_err *err) __must_check;

/* Counts live how often, and why, the guests of this machine exit, and prints that. */

enum exits_engine_choice { EXITS_ENGINE_AUTO, EXITS_ENGINE_KERNEL, EXITS_ENGINE_USER };

struct exits_config {
	struct opt_u64 duration, pid, vcpu, interval, count, map_size;
	const char *tids, *vm, *file;
	bool alltids, time, latency, top, steal, quiet;
	note_fn *remark; /* for what is no loss */
	/* enum exits_format, enum exits_engine_choice, 1: of VMs, not threads; -1 = not given */
	int format, engine, per_vm;
};

/* Can path be replaced by a table? 0 or -errno with err set. */
int exits_file_check(const char *path, struct kvmft_err *err) __must_check;

/* Until a signal, the duration or the count ends it. An exit code, or -errno with err set. */
int exits_live_run(const struct exits_config *c, note_fn *note, struct kvmft_err *err) __must_check;

/* ---- prints events of this machine live, one per line, in the requested clock ---- */

struct trace_config {
	struct str_list events, vms, pids;
	const char *clock, *kvmclock, *guest_capture, *pvclock;
	struct opt_u64 clock_offset, count, duration, buffer;
	bool tsc, longer;
	unsigned int width; /* of lines: longer ones are cut; 0 = none are */
	bool color;
};

/* Until a signal, the duration, the count or its reader ends it. An exit code, or -errno, err. */
int trace_run(const struct trace_config *c, note_fn *note, struct kvmft_err *err) __must_check;
