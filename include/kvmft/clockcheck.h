/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockcheck.h: whether the clocks of a host's guests are right, and if not, what happened to them.
 *
 * One walk over a time line whose host's clocks are known gives each VM a list of findings, each of
 * a closed table, and facts of its vCPUs. A finding is only made from events that show it. Whether
 * there would be one is known only if what it needs was recorded: kvmft/evidence.h has that, as
 * rules of "clock".
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/evidence.h"
#include "kvmft/timeline.h"

enum clock_finding {
	CLOCK_SKEW,	 /* amount: cycles to the first vCPU; positive: ahead, as everywhere */
	CLOCK_TSC_JUMP,	 /* cycles */
	CLOCK_TSC_SET,	 /* the same, unless a snapshot was loaded */
	CLOCK_FORWARDS,	 /* from here on ns */
	CLOCK_BACKWARDS, /* the guest ran before and after */
	CLOCK_STOOD,	 /* it did not run in between, and goes on where it was, or later */
	CLOCK_SET_BACK,	 /* one of both */
	CLOCK_ANEW,	 /* at: when its VM was made, and kvmclock began; told: see below */
	CLOCK_NO_MASTER,
	CLOCK_DIFFERS,	 /* between vCPUs, ns */
	CLOCK_FREQUENCY, /* it gains that many ns a second; told and real are kHz; what: by whom */
	CLOCK_READS,	 /* spent: cycles between exits and entries */
	CLOCK_DEADLINES, /* amount: the worst, in ns; count of them, among all */
	CLOCK_STOPPED,
	CLOCK_RESTORED, /* told: the record in its memory; real: the last one it had, 0: none */
	CLOCK_WALL,   /* CLOCK_REALTIME against the host's */
	CLOCK_SOURCE, /* what: its name; real: it was another at the beginning, and what has both */
	CLOCK_SCHED,  /* sched_clock() against what its constants make of kvmclock, ns */
	CLOCK_FOREIGN, /* its TSC is not KVM's; what: how that is known */
	CLOCK_FINDINGS
};

struct clock_rule {
	const char *id; /* in JSON; never changes */
	bool note;	/* what happened, but no illness */
	bool must;	/* without what it needs, nothing is known to be well */
	/* The sentence, with letters for numbers: clockcheck_out.c. a|b: a where .real is set. */
	const char *why;
	const char *remedy;
};

extern const struct clock_rule clock_rules[CLOCK_FINDINGS];

/* Who did it: the thread of a clock event. */
struct clock_who {
	int32_t tid; /* 0: not known */
	char comm[64];
	bool guest; /* the guest itself, by an MSR */
	enum event_role event;
};

struct clock_seen {
	enum clock_finding is;
	int64_t vcpu;	   /* -1: the VM */
	uint32_t than;	   /* the vCPU that it is compared with */
	uint64_t from, to; /* host TSC; 0: since before the recording; to its end, or beyond */
	uint64_t count, all, spent, told, real;
	int64_t amount;
	int64_t moved; /* kvmclock: by what was announced then, which may not be what was seen */
	uint64_t at;
	char what[64];
	struct clock_who by;
};

struct clock_vcpu {
	uint32_t id;
	const struct epoch_vcpu *epochs; /* NULL: nothing is known */
	size_t at, same; /* ... the one in force; the first of those in a row with its offset */
	bool entered, born, waits;
	size_t anew; /* of its VM, as it was when this one's record and write came */
	uint64_t entry, exit, rip; /* its last ones, stamps; 0: none */
	unsigned int read;	   /* what that exit reads, from 1; 0: no clock */
	struct epoch was;    /* its last record, when that came, and the TSC that it goes with */
	struct tsc_map last; /* its TSC at the end, also if nothing says since when; ... */
	uint64_t last_at;    /* ... when that was read; 0: it is not known */
	size_t skew;		 /* its open finding + 1 */
	struct clock_who writer; /* of its TSC */
	struct {
		bool is; /* a write that no entry followed yet */
		bool unsure; /* its guest's memory may be another one since */
		uint64_t at;
		int64_t cycles;
	} jump;
	uint64_t timers, late, worst; /* deadlines; ns */
};

#define CLOCK_READ_KINDS 14
#define CLOCK_TIMERS	 12 /* from this one on they are what timers exit for, no reads */
#define CLOCK_DRIFTS	 2 /* CLOCK_BOOTTIME, CLOCK_REALTIME */
#define CLOCK_SEEN_MAX	 1000u

struct clock_vm {
	size_t vm;		 /* index into the host map; only those with of == vm are used */
	struct clock_vcpu *vcpu; /* by id */
	size_t n, cap;
	struct clock_seen *seen;
	size_t nseen, seen_cap, more; /* more than CLOCK_SEEN_MAX are only counted */
	uint64_t first, last, ran; /* stamps: of its vCPUs' entries and exits; the last exit */
	uint32_t recorded;	   /* enum evidence */
	bool is_tdx, is_sev; /* by its exits; with SEV-ES its TSC may be Secure TSC */
	bool foreign, doubtful; /* KVM's offset is, or may be, not its TSC's; an event says so */
	bool born;     /* a vCPU was made */
	/* Resets, and other memory: what a guest reads is no sequel of what it read before. */
	size_t anew;
	struct pvclock pv; /* the last record of any vCPU */
	struct clock_vcpu *ref; /* whose TSC the others' are compared with */
	struct clock_vcpu **apart; /* whose TSC differs from ref's, which ran not yet */
	size_t napart, apart_cap;
	/* vCPUs that were heard of since the last loss, and those of them in the guest. */
	size_t heard, inside;
	uint64_t heard_from; /* that loss */
	uint64_t made; /* KVM's last word of its master clock before that: it made the VM */
	/* Of kvmclock against the host's, in ppb, and how far that may be off; 0: not known. */
	struct {
		int64_t ppb;
		uint64_t off;
	} drift[CLOCK_DRIFTS];
	bool blind; /* a record came, and what was before it is not known */
	struct {
		bool known, off;
		uint64_t since, told_at; /* the last event of it */
		struct clock_who by;
		uint64_t by_at;
		uint64_t matched, vcpus, host_clock;
		bool tracked;
	} master;
	struct {
		uint64_t n, spent;
	} read[CLOCK_READ_KINDS];
	const struct capture *sched; /* the guest's, if it has the constants of its sched_clock() */
};

/* The last finding of that kind of a vCPU, or -1: of any; NULL: there is none. */
struct clock_seen *clock_seen_of(const struct clock_vm *vm, enum clock_finding is, int64_t vcpu);
/* Reads of clocks, and timers, that exit: of the first event that can be one. */
struct clock_read {
	enum event_role role;
	uint64_t isa; /* of an exit: enum exit_isa */
	uint64_t from, to;
	const char *name;
};
extern const struct clock_read clock_reads[CLOCK_READ_KINDS];
/* Its number in that table, from 1; 0: it is none. */
unsigned int clock_read_kind(enum event_role role, uint64_t what, uint64_t isa, bool write);

enum clock_verdict { CLOCK_WELL, CLOCK_ILL, CLOCK_UNKNOWN };
extern const char *const clock_verdicts[]; /* "well", "ill", "unknown" */
extern const char *const clock_words[];	   /* the same as text has it */

struct clockcheck {
	struct timeline *t;
	const struct capture *cap; /* of the host */
	struct clock_vm *vm;
	size_t n;
	int64_t only;
	uint64_t until, newest; /* stamps: what is later is not judged; set by the caller */
	bool watch; /* this is one of many passes, which see all of it; set by the caller */
	bool lossy, no_rip;
	uint64_t lost_to; /* what was known before that, the end of the last loss, may be stale */
	const struct out_clock *clock; /* of the answer's times: set by the caller; ... */
	struct windows *w;	       /* ... and those of guests' events; NULL: none */
	bool stray; /* there are clock events of threads whose VM is not known */
	bool seen[EV_ROLES];
};

/* vm: only this one; -1: all. t is borrowed, and was not started. */
struct clockcheck *clockcheck_new(struct timeline *t, int64_t vm);
void clockcheck_free(struct clockcheck *c); /* NULL is fine */
/* Each item of the walk, and its end. */
void clockcheck_feed(void *clockcheck, const struct tl_item *i);
void clockcheck_finish(struct clockcheck *c);
/* Whether it is asked for, and anything is known of it. */
bool clockcheck_shown(const struct clockcheck *c, size_t vm);
enum clock_verdict clockcheck_verdict(const struct clockcheck *c, const struct clock_vm *vm);
/* What a finding that was not made would have needed, and was not recorded. */
uint32_t clockcheck_lacks(const struct clock_vm *vm, enum clock_finding is);
/* The map in force, of which is known since when it is that; NULL: not known. */
const struct tsc_map *clock_vcpu_map(const struct clock_vcpu *v);
/* That, or what was read at the end. */
const struct tsc_map *clock_vcpu_last(const struct clock_vcpu *v);
/* NULL: none. What its VM's last reset made stale is gone. */
struct clock_vcpu *clock_vcpu_by_id(const struct clock_vm *vm, int64_t id);
/* kHz of a vCPU's TSC; 0: not known. */
uint64_t clock_vcpu_khz(const struct clockcheck *c, const struct clock_vcpu *v);
