/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stuck.h: where each vCPU of a guest is, and why it makes no progress, seen from the host alone.
 *
 * For a few seconds each vCPU's thread is looked at in /proc many times, and events of KVM are
 * counted. From both a judge, which asks nobody, makes one of the classes below.
 */
#pragma once

#include "kvmft/ksyms.h"

enum stuck_class {
	STUCK_UNKNOWN, STUCK_RUNNING,
	STUCK_IDLE, /* halted, but wakes up */
	STUCK_SPINNING,
	STUCK_IN_GUEST, /* on a CPU without an exit: nobody saw where its guest is */
	STUCK_EXIT_LOOP, STUCK_HALTED, STUCK_STARVED, STUCK_THROTTLED, STUCK_STOPPED, STUCK_BLOCKED,
	STUCK_PAUSED, STUCK_VMM, STUCK_CLASSES
};

const char *stuck_class_name(enum stuck_class c); /* part of the JSON format */
bool stuck_class_is(enum stuck_class c); /* whether such a vCPU makes no progress */

/* Where a thread is found when one looks. */
enum stuck_at {
	STUCK_AT_CPU,	 /* it runs or could run */
	STUCK_AT_HALT,	 /* asleep in KVM_RUN: its guest waits for an interrupt */
	STUCK_AT_WAIT,	 /* asleep for something else there, or in D state */
	STUCK_AT_STOP,	 /* by a signal or a debugger */
	STUCK_AT_FREEZE, /* by its cgroup */
	STUCK_AT_USER,	 /* asleep in a system call of the VMM */
	STUCK_AT_GONE,
	STUCK_ATS
};

/* What is counted, and the two numbers that each thing is told apart by. */
enum stuck_what {
	STUCK_SAMPLE,  /* exit that the host caused, or PAUSE did: reason, RIP. It samples RIPs */
	STUCK_HLT,     /* exit by HLT: reason, RIP */
	STUCK_UPKEEP,  /* exit for the guest's own timer or interrupt controller: reason, RIP */
	STUCK_EXIT,    /* any other: reason, RIP */
	STUCK_PIO,     /* port, 1: out */
	STUCK_MMIO,    /* address, 1: write */
	STUCK_MSR,     /* MSR, 1: write */
	STUCK_FAULT,   /* address that KVM had to map, 0 */
	STUCK_TO_USER, /* KVM_EXIT_*, 0 */
	STUCK_INJECT,  /* vector that its guest was given, 0 */
	STUCK_ACCEPT,  /* vector that came for it, 0 */
	STUCK_EOI,     /* vector that its guest was done with, 0 */
	STUCK_WHATS
};

/* Reasons have their instruction set (enum exit_isa) with them. */
#define STUCK_REASON(isa, reason) ((uint64_t)(isa) << 32 | (uint32_t)(reason))

#define STUCK_PLACES		  3

struct stuck_row {
	enum stuck_what what;
	uint64_t a, b, n;
};

/* All that was seen of a vCPU in ns. */
struct stuck_obs {
	uint64_t ns;
	uint32_t at[STUCK_ATS], looks; /* how often it was found where, of looks */
	bool has_sched;		       /* the three below are known: */
	uint64_t run_ns, turns;	       /* how long it had a CPU, and how often it got one */
	uint64_t delay_ns;	       /* how long it waited for those */
	uint64_t ticks_user, ticks_kernel, ticks_guest;
	uint64_t throttled; /* its cgroup: how often */
	bool recorded;			  /* in a capture: not looked at live */
	bool untold;			  /* ... without what shows that it takes interrupts */
	bool blind;			  /* this KVM does not report exits */
	bool futex;			  /* its last system call was one */
	bool peeked;			  /* and so is why KVM_RUN returned last: */
	uint32_t peek;			  /* KVM_EXIT_* */
	uint64_t count[STUCK_WHATS];	  /* rows or not */
	/* events that were read, and those that were lost, by the ring all vCPUs share */
	uint64_t read, lost;
	bool exact;	   /* exits were counted by the kernel: all of them, ... */
	uint64_t exits_ns; /* ... in this time */
	bool (*is_timer)(unsigned int vector); /* of the guest; NULL: none is known */

	struct stuck_row *row;
	size_t nrow, cap;
	struct u64map by_key; /* no use once rows were sorted */
	struct hash_key key;
};

/* What the judge makes of it. Pointers are into the rows and the symbols. */
struct stuck_verdict {
	enum stuck_class class, seems; /* seems: it is that, or a guest that works */
	unsigned int run_pm, at_pm[STUCK_ATS]; /* thousandths of the time, of looks */
	uint64_t exits_per_s;
	/* Where its guest was most: RIPs there, of all that were seen; 0: none was */
	uint64_t rip, rip_n, rip_all, rip_user;
	const struct ksym *sym; /* NULL: rips are those of the 4 KiB around it */
	struct stuck_place {
		uint64_t rip, n; /* the RIP seen most there, and how many were */
	} place[STUCK_PLACES];	 /* the most frequent first */
	/* The exit that repeats, its share of all, and what is accessed; may be NULL */
	const struct stuck_row *exit, *access;
	unsigned int exit_pm;
	uint64_t per_s;
	bool deaf; /* interrupts are there, and the guest takes none */
};

/* n more; rows are bounded, count is not. */
void stuck_count_n(struct stuck_obs *o, enum stuck_what what, uint64_t a, uint64_t b, uint64_t n);
static inline void stuck_count(struct stuck_obs *o, enum stuck_what what, uint64_t a, uint64_t b)
{
	stuck_count_n(o, what, a, b, 1);
}
/* As if nothing of these had been counted. */
void stuck_count_none(struct stuck_obs *o, enum stuck_what from, enum stuck_what to);
void stuck_obs_free(struct stuck_obs *o);
/* Whether such an access (STUCK_PIO, MMIO, MSR) is of the guest's own timer or interrupts. */
bool stuck_is_upkeep(enum stuck_what what, uint64_t a, uint64_t b);
/* Sorts rows: nothing is to be counted afterwards. syms: of the guest, NULL = none. */
void stuck_judge(struct stuck_obs *o, const struct ksyms *syms, struct stuck_verdict *v);
/* The row of these with the most; NULL: there is none. */
const struct stuck_row *stuck_most(const struct stuck_obs *o, enum stuck_what from,
				   enum stuck_what to);

/* Who counts exits: the ring, and the kernel those that the ring loses; or one of them alone. */
enum stuck_engine { STUCK_ENGINE_AUTO, STUCK_ENGINE_HIST, STUCK_ENGINE_RING };

struct stuck_config {
	int engine;	   /* enum stuck_engine; -1: STUCK_ENGINE_AUTO */
	const char *input; /* a host's capture; NULL: live */
	char **guests;	   /* of that host, as for pairing_prepare() */
	size_t nguest;
	const char *vm;
	const struct ksyms *syms; /* of the guest; NULL: none */
	struct opt_u64 ns, khz;
	note_fn *remark;   /* for what is no loss */
	uint64_t begin_ns; /* CLOCK_MONOTONIC; what the default takes is from then on */
	bool json;
	unsigned int width; /* of the terminal that the text is for; 0 = not for one */
};

/* Looks, judges, and adds what is to be printed to out. An exit code, or -errno with err set. */
int stuck_run(const struct stuck_config *c, note_fn *note, struct sbuf *out,
	      struct kvmft_err *err) __must_check;
