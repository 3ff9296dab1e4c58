/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits.h: the parts of counting exits live.
 *
 * exits_live.c    order of setting up and undoing, waiting, tables, result
 * exits_who.c     whose exits: the target, and which thread is whose vCPU
 * exits_hist.c    engine 1: the kernel counts, in hist triggers
 * exits_drain.c   engine 2: the events are read and counted here
 * exits_steal.c   --steal: with engine 2 not exits, but who has the CPU that vCPUs want
 */
#pragma once

#include <termios.h>

#include "kvmft/events.h"
#include "kvmft/exit_names.h"
#include "kvmft/exits.h"
#include "kvmft/results.h"
#include "kvmft/steal.h"
#include "kvmft/vm.h"
#include "kvmft/live.h"

struct exits_run;

/* How exits get counted. start() and read() return 0 or -errno with x->err set. */
struct exits_engine {
	const char *name;
	unsigned int tick_ms; /* tick() is to be called this often; 0 = never */
	int (*start)(struct exits_run *x);
	int (*tick)(struct exits_run *x);
	/* Brings x->table and x->lost up to date. last: nothing will be counted any more. */
	int (*read)(struct exits_run *x, bool last);
	void (*stop)(struct exits_run *x); /* also after a start() that failed */
};

extern const struct exits_engine exits_engine_hist, exits_engine_drain;

struct exits_hist;
struct exits_drain;
struct exits_steal;

/* Whose exits. All zero: everybody's. */
struct exits_target {
	enum exits_group group;
	struct sbuf title; /* "PID 1273795 VCPU 0" */
	uint32_t pid;	   /* the process; 0 = not one process */
	uint64_t start;	   /* of it */
	char *sel;	   /* of its VMs only this one; NULL = all */
	char filter[48];   /* for the kernel: "vcpu_id==4" or "" */
	int32_t *tid;	   /* only these threads; none = all */
	uint64_t *tid_start;
	size_t ntid, tid_cap, start_cap;
	bool threads;	   /* the threads themselves were requested, not as a way to find the
			    * vCPU */
	int32_t *pids;	   /* for the kernel: ntid, or all threads of pid */
	size_t npids;
};

enum exits_end { EXITS_GOING, EXITS_SIGNAL, EXITS_DURATION, EXITS_COUNT, EXITS_READER_GONE,
		 EXITS_TARGET_GONE, EXITS_QUIT };

struct exits_run {
	const struct exits_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct ktracefs *t;
	struct kinst *k;
	struct kevent_list events; /* kvm_exit, kvm_entry for --time, two more for --latency */
	struct fmt *fmt;
	const struct event_type *exit, *entry;
	bool waking, wakeup; /* for --latency, if the kernel has them */
	struct exit_names names;
	enum exit_isa isa;
	const char *clock; /* for --time; one that counts ns */

	struct vm_list *vms; /* the last look; NULL = none yet */
	bool undirected;     /* a VM has no directory in debugfs: it is known only by its
			      * descriptors */
	struct exits_target target;
	struct exits table;
	size_t looked; /* threads of the table that were looked up already */

	const struct exits_engine *engine;
	struct exits_hist *hist;
	struct exits_drain *drain;
	struct exits_steal *steal; /* NULL: exits are counted */
	struct steal taken;
	struct sbuf engine_text; /* for -V */
	uint64_t lost;		 /* exits that were not counted */
	bool lost_time;		 /* some that were counted are not in the times */
	bool lost_unknown;	 /* more than lost says */

	int signal_fd, inotify_fd;
	uint64_t begin_ns, interval_ns; /* CLOCK_MONOTONIC: of counting, of this interval */
	uint64_t tables, seen;		/* tables shown, exits in them */
	uint64_t rescan_ns, rescan_step;
	size_t looks; /* at VMs */
	enum exits_end end;
	struct exits_screen {
		bool on;
		struct termios saved;
		bool keys;
	} screen;
};

/* ---- exits_steal.c ---- */

/* Adds the events that it needs to x->events. 0 or -errno with x->err set. */
int exits_steal_begin(struct exits_run *x);
void exits_steal_take(struct exits_run *x, const struct live_item *i);
uint64_t exits_steal_now(const struct exits_run *x); /* by x->clock; 0: that is not known */
void exits_steal_limits(struct exits_run *x); /* what cgroups' limits took since the last time */
void exits_steal_end(struct exits_run *x);
/* x->vms is new. */
int exits_steal_look(struct exits_run *x);

/* ---- exits_who.c: 0 or -errno with x->err set ---- */

void exits_who_begin(struct exits_run *x); /* starts watching debugfs */
/* vCPUs of this machine, and VMs; without a look at processes, so roughly. */
size_t exits_who_count(void);
/* A new x->vms: of those in debugfs, or of all that any process has a descriptor of. */
int exits_who_list(struct exits_run *x, bool all);
int exits_who_scan(struct exits_run *x); /* looks at the VMs again */
/* Threads that appeared since the last call get their process, VM and vCPU. */
int exits_who_new(struct exits_run *x);
/* The descriptor of x->inotify_fd is readable: a few looks are due from now on. */
void exits_who_changed(struct exits_run *x);
int exits_who_tick(struct exits_run *x); /* looks if x->rescan_ns (0 = never) has come */

/* Finds the target, and x->vms if there is one. After x->exit is known. */
int exits_target_find(struct exits_run *x);
/* For views: is this one of the target's threads? ctx is the exits_run. */
bool exits_wanted(const void *ctx, const struct exits *e, const struct exits_thread *t);
bool exits_target_gone(const struct exits_run *x);
void exits_target_free(struct exits_target *t);
