/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * steal.h: who has the CPU that vCPUs want, from the scheduler's events as they happen.
 *
 * A vCPU's thread that is woken, or loses its CPU while it wants to go on, waits. What runs
 * meanwhile on the CPU whose queue it is in has taken that time: its waits are, in sum, the
 * run_delay of schedstat. Apart from that, interrupts and softirqs take the CPU of a thread that
 * has one. Every switch of all threads must be fed, and in time order.
 */
#pragma once

#include "kvmft/util.h"

enum steal_kind {
	STEAL_VM,	 /* a thread of a VM, or another one of its own */
	STEAL_TASK,	 /* any other thread */
	STEAL_IDLE,	 /* nobody */
	STEAL_UNKNOWN,
	STEAL_IRQ,	 /* not while it waited, but in its place */
	STEAL_SOFTIRQ,
	STEAL_THROTTLED, /* by a limit of its cgroup, whoever had the CPU meanwhile */
	STEAL_KINDS
};
extern const char *const steal_kind_names[];

#define STEAL_COMM  16
#define STEAL_CELLS 10000u /* after as many, tasks that are new are "(others)", and VMs after ten times that */
#define STEAL_NONE  UINT32_MAX

struct steal_task {
	uint32_t tid;
	char comm[STEAL_COMM]; /* printable */
};

/* Time that one takes from a VM, in ns. */
struct steal_cell {
	uint32_t vm, kind, by;	/* by: of STEAL_VM, which; else STEAL_NONE */
	char comm[STEAL_COMM];	/* of STEAL_TASK */
	uint64_t ns, shown;	/* since the beginning; until this interval */
};

struct steal_vcpu {
	uint32_t tid, vm; /* vm: STEAL_NONE, it is nobody's any more */
	uint32_t look;
	uint64_t from;	  /* what was before that is not looked at */
	enum { STEAL_UNSEEN, STEAL_RUNS, STEAL_SLEEPS, STEAL_WAITS } state;
	bool heard;	  /* it was woken once: such events are recorded */
	uint32_t cpu;
	uint32_t after, before; /* in that CPU's queue, plus 1 */
	uint64_t since;	  /* of STEAL_WAITS, that is not in a cell yet */
	uint64_t begin[2]; /* of its interrupt, its softirq; 0: none */
};

struct steal {
	/* Which VM a thread belongs to; STEAL_NONE. Asked when it takes time. */
	uint32_t (*vm_of)(void *ctx, const struct steal_task *task);
	void *ctx;
	struct steal_cell *cell;
	size_t ncell, cell_cap;
	struct u64map cell_at; /* by hash of vm, kind, by, comm; plus 1 */
	struct hash_key key;
	struct steal_vcpu *vcpu;
	size_t vcpu_cap;
	struct u64map vcpu_at; /* by tid */
	uint32_t look;
	struct steal_cpu {
		bool known; /* who runs there: */
		struct steal_task task;
		uint32_t queue; /* the first vCPU, plus 1 */
	} *cpu;
	size_t ncpu, cpu_cap;
	uint64_t now, begin;	/* of the last event, of the interval */
	uint64_t gaps, odd;	/* events lost; that contradict those before: some are missing */
	uint64_t gaps_shown;	/* both, until this interval */
};

void steal_free(struct steal *s);

/*
 * After a look at the VMs: steal_vcpu() for each thread, then the others are nobody's. from: when
 * all events of one that is new began to be recorded.
 */
void steal_vcpu(struct steal *s, uint32_t tid, uint32_t vm, uint64_t from);
void steal_looked(struct steal *s);

/* sleeps: prev does not want its CPU any more. */
void steal_switch(struct steal *s, uint32_t cpu, uint64_t t, const struct steal_task *prev,
		  bool sleeps, const struct steal_task *next);
/* Into the queue of cpu: woken, or moved while it waits. */
void steal_wake(struct steal *s, uint32_t cpu, uint64_t t, uint32_t tid);
void steal_move(struct steal *s, uint32_t cpu, uint64_t t, uint32_t tid);
/* An interrupt or a softirq begins, or ends, while that thread has the CPU. */
void steal_irq(struct steal *s, uint64_t t, uint32_t tid, bool soft, bool end);
void steal_throttled(struct steal *s, uint32_t vm, uint64_t ns);
/* Events were lost: nothing is known of any thread or CPU until it is seen again. */
void steal_gap(struct steal *s);

/* All events until t were fed: brings what is going on into the cells. */
void steal_read(struct steal *s, uint64_t t);
/* Whether this interval's times are only lower bounds. */
bool steal_bound(const struct steal *s);
void steal_interval(struct steal *s); /* a new one begins */
