/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.h: the parts of printing events live.
 *
 * trace.c           the instance, the clock, ticks and lines, until something ends it
 * trace_kvmclock.c  --kvmclock: the epochs of one VM, kept up to date by its events, and where its
 *                   pvclock record comes from
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/events.h"
#include "kvmft/kernel.h"
#include "kvmft/live.h"
#include "kvmft/util.h"
#include "kvmft/vm.h"

#define TRACE_TICK_MS 50 /* reading interval, and so the re-order window */

enum trace_time {
	TRACE_SINCE_START, /* seconds of the TSC since tracing began */
	TRACE_UNITS,	   /* the unchanged stamp: cycles, or a count */
	TRACE_NS,	   /* the stamp is ns */
	TRACE_KVMCLOCK,
	TRACE_REALTIME,	   /* date and time of the day, by the TSC */
};

struct trace_comms {
	struct trace_comm {
		char name[32];
		uint64_t tick; /* when it was looked up */
	} *v;
	size_t n, cap;
	struct u64map by_tid;
	uint64_t asked; /* tick of the last look at the kernel's own list */
};

/* The VM of --kvmclock. */
struct trace_vm {
	struct vm *vm;		/* in trace.vms */
	struct epoch_vm *epochs;
	struct u64map vcpu_of;	/* thread → vCPU id */
	bool hides_pvclock, hides_offset; /* we wanted these events, not the user */
	struct trace_pvclock {
		bool all; /* counts for all vCPUs */
		uint32_t vcpu;
		struct pvclock pv;
	} *record;
	size_t nrecord, record_cap;
	uint64_t unknown;	/* stamps that could not be converted */
};

/* Why the ticks ended. */
enum trace_end { TRACE_GOING, TRACE_SIGNAL, TRACE_DURATION, TRACE_COUNT, TRACE_READER_GONE };

struct trace {
	const struct trace_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct ktracefs *t;
	struct kinst *k;
	struct kevent_list events;
	struct fmt *fmt;
	struct kcpus cpus;
	struct live *live;
	struct vm_list *vms;
	int32_t *tids; /* --vm and -p */
	size_t ntids, tids_cap;

	enum trace_time time;
	const char *clock;	/* of the instance */
	/* Of the clock since the start: rate, and when tracing began. */
	uint64_t khz, start;
	struct trace_vm kvmclock;
	/* TSC and CLOCK_REALTIME at about the last event: the latter is steered */
	struct clock_bracket wall;

	struct trace_comms comms;
	struct sbuf line;	/* text of this tick */
	struct sbuf shown;	/* ... cut to the width of the terminal */
	struct screen_cut cut;
	int task_width, time_width; /* of the columns, as wide as their contents so far */
	int signal_fd;
	uint64_t begin_ns;	/* CLOCK_MONOTONIC, for the duration */
	uint64_t tick, printed;
	enum trace_end end;
};

/* ---- trace_kvmclock.c: 0 or -errno with t->err set ---- */

/* Finds the VM and adds its clock events to t->events. Before the instance is made. */
int trace_kvmclock_prepare(struct trace *t);
/* Fills t->kvmclock.record from the options, or waits for the VM's kvm_pvclock_update. */
int trace_record_get(struct trace *t);
/* TSC offsets and record, once the clock events are being recorded. */
int trace_kvmclock_begin(struct trace *t);
/* Looks at an event before it is printed. False: the user did not ask for it. */
bool trace_kvmclock_feed(struct trace *t, const struct rec *rec);
bool trace_kvmclock_value(struct trace *t, uint64_t ts, int32_t tid, uint64_t *v);

/* ---- trace.c ---- */

/* Waits at most ms for a signal or the loss of the reader; sets t->end. 0 or -errno. */
int trace_wait(struct trace *t, unsigned int ms);
/* Milliseconds of CLOCK_MONOTONIC since tracing (or waiting) began; sets t->end at --duration. */
uint64_t trace_elapsed_ms(struct trace *t);
