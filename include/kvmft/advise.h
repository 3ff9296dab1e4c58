/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * advise.h: which settings of a host and its VMMs cost how much, by what they made a VM's vCPUs do.
 *
 * A closed table has the rules. Each is a class of exits, whose cost is the time that the vCPU's
 * thread had a CPU between exit and entry, or of waits, whose cost is how long it had none. How
 * well a cost is known comes from how much it varies over the recording.
 */
#pragma once

#include "kvmft/clockcheck.h"

enum advice {
	ADVICE_CLOCK_READS, ADVICE_TICK, ADVICE_XAPIC, ADVICE_APICV, ADVICE_POLL_WASTE,
	ADVICE_POLL_OFF, ADVICE_DEVICE, ADVICE_SERIAL, ADVICE_SMALL_PAGES, ADVICE_NX_PAGES,
	ADVICE_DIRTY_LOG, ADVICE_PAUSE, ADVICE_EMULATOR, ADVICE_CROWDED, ADVICE_THROTTLED,
	ADVICE_IDLE_DEEP, ADVICE_MIGRATES, ADVICE_CLOCKS, ADVICE_RULES,
	/* no rules: all of one cost together */
	ADVICE_ALL_EXITS = ADVICE_RULES, ADVICE_ALL_WAITS, ADVICE_SUMS
};

struct advice_rule {
	const char *id;	     /* in JSON; never changes */
	enum { ADVICE_CPU, ADVICE_WAIT, ADVICE_COUNT } cost; /* COUNT: what it costs is not known */
	bool some;	     /* what takes its place costs something, too */
	uint32_t needs;	     /* enum evidence; without these it is not judged */
	enum event_role also; /* ... nor without this event; EV_NONE */
	const char *how;     /* ... which this option of record adds; NULL: the default has it */
	const char *what;    /* the beginning of its sentence */
	const char *qemu, *libvirt, *host; /* what to type or write there; NULL: nothing */
	const char *risk;    /* what it might cost; NULL */
	const char *source;  /* below Documentation/ of the kernel, or whose manual */
};
extern const struct advice_rule advice_rules[ADVICE_RULES];

#define ADVICE_SLICES 32u /* that many, or half of it and more, are full at the end */
#define ADVICE_KEYS   16u /* what else there is goes to the last one */

/* By what: an address, or other number, of an event with that role; of waits, who has the CPU. */
struct advice_key {
	enum event_role role; /* EV_NONE: nothing that is worth a word */
	uint64_t key, n, spent;
};

struct advice_sum {
	uint64_t n, spent, slice[ADVICE_SLICES]; /* cycles */
	struct advice_key key[ADVICE_KEYS];
	size_t nkeys;
};

struct advise_vcpu;

struct advise_vm {
	struct advise_vcpu *vcpu; /* by the number in its clock_vm */
	size_t n;
	uint64_t first, last, guest; /* stamps; cycles that its vCPUs ran in it */
	uint64_t slice;		     /* length, in cycles */
	uint64_t inhibits, inhibited; /* what keeps APICv off; since when. 0: nothing known of */
	uint64_t tick;		     /* since when one is pending; 0: none */
	uint64_t gaps;		     /* how many there had been when it was seen last, */
	uint64_t inhibit_gaps;	     /* ... and when `inhibits` was */
	struct advice_sum *sum[ADVICE_SUMS]; /* NULL: nothing; see advice_sum_of() */
};

/* What one says at the end; in thousandths of a CPU, or of the time. */
struct advice_cost {
	uint64_t pm, low, high; /* with 99 % certainty between these */
	uint64_t count, per_s;	/* 0: the TSC frequency is not known */
	bool speaks;
	bool vague; /* it costs enough on average; whether in the long run is not sure */
};

struct advise {
	struct clockcheck *clocks; /* of the same walk; borrowed */
	struct timeline *t;
	const struct capture *cap;
	struct advise_vm *vm; /* by index into the host map; only those with of == vm are used */
	size_t n;
	uint32_t recorded; /* enum evidence */
	bool has[EV_ROLES]; /* whether its events would be there */
	bool nx; /* the parameter nx_huge_pages is on */
	uint32_t *idle; /* state, by CPU */
	uint64_t gaps;
	size_t ncpu, cpu_cap;
};

const struct advice_sum *advice_sum_of(const struct advise_vm *vm, enum advice is);
struct advise *advise_new(struct clockcheck *c); /* c is borrowed */
void advise_free(struct advise *a); /* NULL is fine */
/* Each item of the walk, after clockcheck_feed() of it. */
void advise_feed(void *advise, const struct tl_item *i);
void advise_finish(struct advise *a); /* at the end of the walk, after clockcheck_finish() */
#define ADVISE_LEAST 10u /* what it must cost, in thousandths of a CPU, or of the time */
void advise_cost(const struct advise *a, size_t vm, enum advice is,
		 struct advice_cost *cost);
/* Only what is measured: pm, low, high and the counts; also of a sum that is no rule. */
void advise_mean(const struct advise *a, size_t vm, enum advice sum, struct advice_cost *cost);
/* Whether the recording can answer that one, of that VM. */
bool advise_known(const struct advise *a, size_t vm, enum advice is);
/* The value of a parameter of a module; NULL: not recorded. */
const char *advise_param(const struct advise *a, const char *module, const char *name);
