/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h: the parts of `kvmft record`, private to the command.
 *
 * record.c        options, checks, and the order in which things are set up and undone
 * record_facts.c  what goes into the capture besides events
 * record_loop.c   the wait: signals, time, child, budget
 * record_place.c  the capture's place: -o, or --output-dir with its lock and its retention
 * record_guard.c  environment, modules, privileges
 */
#ifndef KVMFT_CMD_RECORD_H
#define KVMFT_CMD_RECORD_H

#include "kvmft/capture.h"
#include "kvmft/cli.h"
#include "kvmft/drain.h"
#include "kvmft/kernel.h"
#include "kvmft/vm.h"

struct record_opts {
	const char *output, *output_dir, *clock;
	struct opt_list events, vms, pids;
	struct opt_u64 buffer, duration, max_size, min_free, keep_captures;
	bool host, guest, force, overwrite, allow_lost, quiet, load_modules;
};

struct record {
	const struct record_opts *o;
	struct kvmft_err *err;
	enum cap_side side;
	struct ktracefs *t;
	struct ktsc_facts tsc;
	struct kevent_list events;
	struct kinst *k;
	struct capw *w;
	struct kcpus cpus;
	struct drain_cpu *drain;    /* cpus.n of them */
	struct drain_budget budget;
	struct vm_list *vms;	    /* as last scanned */
	int32_t *tids;		    /* --vm and -p: initial set_event_pid */
	size_t ntids, tids_cap;
	struct sbuf line;	    /* meta record under construction */
	uint64_t lost;		    /* events, all CPUs; known after the end */
	uint64_t stored;	    /* events read from the ring */
	uint64_t bytes;
	bool tracing, threads;
	const char *end_reason;
	int place;		    /* --output-dir, locked while it is open; -1 = none */
	unsigned int confined;	    /* enum sandbox_layer */
};

/* ---- record_place.c ---- */

/* Options that do not go together: 0 or -EINVAL. Quiet when it is cron that reads our words. */
int record_place_options(struct record_opts *o, struct kvmft_err *err);
/* Makes the capture: r->w, and r->place with --output-dir. 0 or -errno with r->err set. */
int record_output(struct record *r);

/* ---- record_guard.c ---- */

/* Refuses variables that would let somebody else's code in; command ends with NULL. */
int record_environment(char **command, struct kvmft_err *err);
/* --load-modules: 0 when nothing is missing (any more), or -errno with r->err set. */
int record_modules(struct record *r);
/*
 * Drops what is not needed from here on, for this thread and those started later. After the
 * capture and the instance exist and COMMAND was forked, before the draining threads.
 */
void record_confine(struct record *r, bool has_command);

/* ---- record_facts.c: each appends to meta; 0 or -errno with r->err set ---- */

int record_facts_begin(struct record *r);	/* before tracing starts */
int record_facts_vms(struct record *r, bool end); /* after it started, and again at the end */
int record_facts_bracket(struct record *r);
int record_facts_tasks(struct record *r);
int record_facts_stats(struct record *r, const char *when);
int record_facts_end(struct record *r);

/* ---- record_loop.c ---- */

struct record_child {
	int pid;
	int go;	    /* write end of the pipe that releases the child */
	int failed; /* read end of the pipe on which it tells that exec failed */
};

/* Forks COMMAND, which waits until record_child_release(). 0 or -errno. */
int record_child_fork(char **argv, struct record_child *c, struct kvmft_err *err);
void record_child_release(struct record_child *c);
/* After its end: 0, or -errno with err set when the command could not be run at all. */
int record_child_error(struct record_child *c, const char *name, struct kvmft_err *err);
/* Never let it run (set-up failed), or end it (SIGTERM) and reap it. */
void record_child_end(struct record_child *c);

/* Blocks the signals that end a recording; before any thread or child exists. */
int record_signals_block(void);
/*
 * Waits until a signal, the duration, the command's exit or the budget ends the recording, takes
 * clock brackets meanwhile, and sets r->end_reason. 0 or -errno.
 */
int record_wait(struct record *r, struct record_child *c);

#endif
