/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * priv.h: what the files of blame share.
 *
 *   find.c     the first walk: spikes, and which are the same; what latency does not measure
 *   explain.c  the second walk: what the vCPUs of spikes do; kinds of exits for memory; causes
 *   spend.c    ... and where each cycle of a spike went
 */
#pragma once

#include "kvmft/blame.h"
#include "kvmft/evidence.h"
#include "kvmft/exit_names.h"

/* EV_NONE: of no interest, as a handler of the host's whose end was not recorded. */
static inline enum event_role blame_role(const struct tl_item *i)
{
	enum event_role r;

	if (i->kind != TL_EVENT || i->src->qemu || i->marker)
		return EV_NONE;
	r = event_role_of(i->ev);
	return r != EV_VECTOR_ENTRY || event_handler_ends(i->src->fmt, i->ev, NULL) ? r : EV_NONE;
}

/* What a request waited for in the VMM, by the stage of `latency io` that has it. */
struct blame_away {
	const char *stage, *name;
	enum blame_cause cause;
};
extern const struct blame_away blame_away[BLAME_AWAY];

/* ---- the first walk ---- */

struct blame_wait {
	uint64_t since;
	int64_t vcpu;
	bool ready;
	uint32_t gen;
};

/* When a vCPU last left its guest. */
struct blame_left {
	uint64_t exit, rip; /* host TSC, 0: it is in the guest, or unknown */
	uint64_t entry;	    /* ... of the window that it is in */
	uint64_t woken;	    /* its thread was woken since the exit */
	uint32_t cpu;	    /* of the exit, or entry */
	uint32_t injected;  /* a vector + 1, since the exit */
	uint32_t vector;    /* ... of an interrupt */
	uint32_t serves;    /* ... whose handler runs: injected before, no EOI yet */
	bool halted, kicked;
	uint32_t gen;
};

struct blame_middle {
	uint64_t at;
	size_t i;
};

struct blame {
	struct blame_opts o;
	const struct timeline *t;
	struct hostmap *map;
	uint64_t khz;
	bool alone;   /* a guest without its host */
	bool below;   /* the host may itself be a virtual machine */
	bool late[3]; /* by isa up to SVM: the host's interrupts look like the guest's time */
	bool (*seen)[EV_ROLES]; /* by source */
	uint32_t *has;		/* by VM: enum evidence, of the host and of that guest */
	const struct evidence_rule *rule[BLAME_CAUSES], *request, *io_wake, *asleep, *awake, *halt;
	const struct evidence_rule *late_exit, *long_exit, *io, *fetch;
	struct sbuf remedy; /* how to record what the spikes' causes lack */
	struct lat *lat, *found; /* of this walk; of the first, during the second */
	/* find.c */
	struct blame_spike *v;
	/* First walk: n spikes, of which `sorted` are compact()'s, the longest first. */
	struct blame_spike **ranked, **merged;
	size_t sorted;
	struct blame_part *part; /* of all of them; in the second walk */
	struct blame_middle *middle; /* of the spikes kept so far, in order, in compact() */
	bool by_reason; /* what an exit was for is not recorded */
	size_t n, keep, cap; /* room for cap; compact() leaves `keep` */
	uint64_t least;	     /* shorter ones, or farther ones, can be ignored */
	uint64_t count[BLAME_WHATS], measured;
	/* find.c */
	uint32_t gaps;	       /* of the host in the second walk, and one */
	uint32_t gen;	       /* grows at each gap of the host: who was out of the guest is
			        * unknown */
	uint32_t *guest_gen;   /* by VM: ... at each gap of the guest, for its tasks */
	uint64_t *guest_lost;  /* ... until when, host TSC */
	struct u64map wait_at; /* vm << 32 | tid → index + 1 */
	struct blame_wait *wait;
	size_t wait_cap;
	struct u64map left_at;	/* vm << 32 | vcpu → index + 1 */
	struct blame_left *left;
	size_t left_cap;
	bool *limited;		/* by VM: one of its vCPUs had to leave its CPU idle */
	size_t nlimited;
	struct hash_key halt_key;
	/* By VM, what is kept of it: what one does is no other's loss. */
	struct blame_kept {
		uint32_t halts, faults, windows;
	} *kept;
	struct u64map halts;	/* by place in a guest: halts << 32 | how many were ended by a
				 * kick */
	struct u64map vcpu_of;	/* source << 32 | CPU of the guest → vCPU */
	struct spans *spans; /* NULL: not wanted */
	uint64_t homeless;   /* spans of no vCPU */
	struct u64map fault; /* of a vCPU, by the time of its exit */
	struct u64map empty; /* ... of its entry: windows in which the guest did not run */
	struct u64map first; /* by VM, vector and address: exits there, right after its injection */
	/* explain.c */
	struct blame_vcpu *vcpu;
	size_t vcpu_cap;
	struct u64map vcpu_at;
	struct blame_cpu *cpu;
	size_t ncpu, cpu_cap;
	size_t next;		/* spikes by their beginning: the first that has not begun */
	uint64_t begins;	/* ... and when it does; 0: not looked up yet */
	size_t *order, *active, nactive;
	/* host TSC; events of the host, or of a guest alone, were lost up to there */
	uint64_t now, lost_to, overwritten_to; /* by a flight recorder itself */
};

/* find.c */
/* Whether the guest halts there to wait for a lock, and not because it is idle. */
bool blame_lock_halt(const struct blame *b, int64_t vm, uint64_t rip);
/* Whether a host's EV_ACCEPT is such a kick, of vCPU *target. */
bool blame_kick(const struct tl_item *i, int64_t *target);
/* The vCPU of a CPU of the guest, as far as its events have shown; else other. */
int64_t blame_vcpu_of(const struct blame *b, const struct tl_item *i, uint64_t cpu, int64_t other);
/* Learns that from a guest's event. */
static inline void blame_vcpu_learn(struct blame *b, const struct tl_item *i)
{
	*xu64map_at(&b->vcpu_of, (uint64_t)i->src->index << 32 | i->cpu) = (uint64_t)i->vcpu;
}

bool blame_knows_faults(const struct blame *b); /* whether the host has the events */
/* A stall for memory has ended. */
void blame_fault(struct blame *b, const struct lat_case *c);
/* For lat_mem_kind(); an unknown exit is not reported. */
uint32_t blame_fault_kind(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t exit);

/* An exit, kind, ends a window; an entry ends what was between. */
void blame_window_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i,
		      enum exit_kind kind, uint64_t rip);
void blame_exit_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i);
enum blame_empty { BLAME_RAN, BLAME_MOVED, BLAME_NOTHING };
/* Of the window that begins there; of an exit: whether its thread changed its CPU. */
enum blame_empty blame_window_is(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t begin);

/* ---- the second walk ---- */

struct blame_vcpu {
	struct exit_why why;
	bool halted, device, user;
	uint32_t cpu;	     /* of the host, of its last event */
	enum blame_empty empty;
	uint32_t user_reason;
	const char *what;    /* what was accessed at address: "port", "at"; NULL */
	uint64_t address;
	bool has_rip;
	uint64_t rip, at; /* of its exit */
	int64_t vm;
	uint64_t over; /* when that exit ended; 0: not yet */
	uint32_t left;	  /* blame.gaps at that exit; 0: none was seen */
	uint32_t faulted; /* blame.gaps then; 0: it did not */
	bool fetched;
	uint32_t window, wider; /* how long it may spin, before this exit and from now on */
	uint64_t page; /* of kvm_page_fault */
	bool in_irq;  /* left the guest for an interrupt; the exit is still to be reported */
	bool kicked;  /* by vCPU kicker */
	bool freed;   /* ... before now: what it waits for since then is its wake-up */
	uint32_t kicker;
};

/* What interrupts a CPU of the host. */
struct blame_cpu {
	uint32_t gaps; /* blame.gaps then: what was before another one is not known */
	uint64_t heard; /* host TSC of the last event there; 0: none is known */
	uint32_t irqs, softirqs;
	uint64_t irq, softirq;
	bool slept;	     /* in idle_state, up to now or until just now */
	uint32_t idle_state;
	const struct fmt_event *vector; /* by which irq came; NULL: it has a handler, ... */
	char handler[32];		/* ... if that is known */
};

/* NULL: nothing is known of it since the last gap. */
static inline const struct blame_cpu *blame_cpu_of(const struct blame *b, uint32_t cpu)
{
	return cpu < b->ncpu && b->cpu[cpu].gaps == b->gaps ? &b->cpu[cpu] : NULL;
}

/* spend.c: attributes the time since the last call, up to `to`. */
void blame_spend(struct blame *b, struct blame_spike *s, uint64_t to);
/* What a halt has been up to now, or up to the kick that ended it. */
void blame_halt_over(const struct blame *b, struct blame_spike *s, const struct blame_vcpu *v);
/* An exit has ended, and with it a halt. */
void blame_exit_over(const struct blame *b, struct blame_spike *s);
/* A pause loop has ended; on: with an exit into another one. */
void blame_spun_over(const struct blame *b, struct blame_spike *s, bool on);
/* It is left, and took no interrupt until now; lock: because it waits for one. */
void blame_masked_over(const struct blame *b, struct blame_spike *s, bool lock);
/* All of these, at its end or before it moves to another vCPU. */
void blame_settle(struct blame *b, struct blame_spike *s);
