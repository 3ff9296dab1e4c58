/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blame.h: the worst moments of a guest, and what each of them is due to.
 *
 * Two walks over the same captures. The first finds spikes: what the guest shows to have been late.
 * The second takes each apart: every cycle of it is attributed to what the vCPU that mattered did
 * then, so the parts add up to its length. The cause of the largest part is the cause of the spike,
 * unless events that were lost, or the alignment's own error, could have made it another one.
 *
 * Times are host TSC, in cycles.
 */
#pragma once

#include "kvmft/latency.h"

/* What came late. */
enum blame_what {
	BLAME_TIMER,   /* a timer interrupt, by the deadline that the guest set */
	BLAME_HRTIMER, /* a high-resolution timer of the guest's kernel */
	BLAME_IRQ,     /* any interrupt, from its source to its handler */
	BLAME_IO,      /* a block request */
	BLAME_WAKEUP,  /* a task, from its wake-up to a CPU */
	BLAME_READY,   /* a task that lost its CPU and waited to run again */
	BLAME_STALL,   /* the vCPU exited, did not halt, and was not re-entered */
	BLAME_TIMERLAT, /* a sample of the guest's timerlat tracer */
	BLAME_NOISE,   /* what kept its osnoise tracer from its CPU */
	BLAME_EVENT,   /* the time between two events */
	BLAME_MOMENT,  /* none of these: what a vCPU did around a given moment */
	BLAME_WHATS
};

/* A closed list: the names do not change. */
enum blame_cause {
	CAUSE_UNKNOWN,
	CAUSE_LOST,
	CAUSE_HOST_TASK,
	CAUSE_SIBLING,
	CAUSE_HOST_IRQ,
	CAUSE_THROTTLED,
	CAUSE_STOPPED,
	CAUSE_MIGRATED,
	CAUSE_EXIT_KERNEL,
	CAUSE_EXIT_USER,
	CAUSE_VMM,
	CAUSE_PAGE_FAULT,
	CAUSE_DISK,
	CAUSE_HALT_WAKE,
	CAUSE_HOST_TIMER,
	CAUSE_LOCK_HOLDER,
	CAUSE_GUEST_IRQS_OFF,
	CAUSE_GUEST_HANDLER,
	CAUSE_GUEST_SCHED,
	CAUSE_GUEST_SLEEP,
	CAUSE_GUEST_CODE,
	BLAME_CAUSES
};

struct blame_name {
	const char *name, *help;
	const char *whose; /* of a cause: whose time that is, for a budget */
};
extern const struct blame_name blame_whats[BLAME_WHATS];
extern const struct blame_name blame_causes[BLAME_CAUSES];

#define BLAME_NAME  96
/* Of a spike; a stretch has four times as many. More go to "others" or to CAUSE_UNKNOWN. */
#define BLAME_PARTS 24
#define BLAME_AWAY  5

struct blame_part {
	enum blame_cause cause;
	uint64_t key; /* distinguishes parts of one cause */
	uint64_t time;
	uint64_t stint, first, held; /* ... since its CPU was lost; until that idled first, last */
	uint32_t lacks; /* enum evidence: what would tell, or make it sure, and was not recorded */
	char name[BLAME_NAME]; /* "dd-4711", "io of port 0x3f8"; "" */
};

struct blame_spike {
	enum blame_what what;
	int64_t vm, vcpu; /* VM as index into the host map; where it began */
	int32_t tid;	  /* of the guest's task that waited; 0: it concerns no task */
	uint64_t begin, end;
	char of[BLAME_NAME];	     /* "dd-123", "vector 38 to vCPU 0" */
	uint32_t also[BLAME_WHATS];  /* overlapping ones on that vCPU, counted as this one */
	struct blame_part *part; /* the largest first; borrowed */
	size_t nparts, room;	 /* up to room + 1 */
	enum blame_cause cause;
	uint64_t cause_time; /* of all parts of that cause */
	/* Where the guest was at the exit with the longest part of that time; has_rip: known. */
	bool has_rip;
	uint64_t rip, rip_time;
	/* Of a stall for memory: that page, and how many other vCPUs were out for it meanwhile. */
	uint64_t page;
	uint32_t with;
	bool fetched; /* ... to run code there */
	uint64_t grain; /* a text's times may be off by it */
	bool holes; /* events are missing, and nothing says where: never sure */
	/* No other cause could have been larger: all was recorded, and the error bound */
	bool sure;
	uint32_t needs; /* enum evidence: events that would tell, or make it sure */
	/* private: the part of a request in which no vCPU holds it up */
	uint64_t away_from, away_to, away[BLAME_AWAY];
	uint32_t served;   /* private: of a stall, a vector + 1 whose handler ran in the guest */
	uint64_t accepted; /* private: of a timer, when the host's timer expired */
	/* private: the second walk */
	uint64_t since;
	int64_t on; /* the vCPU that matters now */
	bool asleep, running;
	uint64_t dark, dark_to; /* a machine below the host may have had its CPU: how long, until */
	uint64_t wait;		       /* woken, and who has its CPU is known when it gets it */
	uint64_t limited; /* it could run, and the CPU that it had lost was idle */
	uint64_t idle_wait; /* woken, and its CPU idle all the time since */
	uint32_t idle_cpu, idle_state; /* ... which, and how deep; UINT32_MAX: unknown */
	uint64_t in_exit[4]; /* of the exit in progress: KVM, asleep there, VMM, asleep */
	uint64_t in_halt;    /* halted: for a lock, if it is then released */
	uint64_t masked;     /* in the guest, which takes no interrupt: it spun if it halts then */
	uint32_t masked_by;  /* ... the task */
	uint32_t window;     /* it may spin so long, at first; 0: no pause loop changed that yet */
	uint64_t fetch;	     /* its task waits for a page, of that token + 1; 0: for none */
	uint64_t spun;	     /* in the guest since a pause loop: it spins on if that exits again */
};

struct blame_opts {
	int64_t vm, vcpu;  /* only this one; -1: any */
	uint64_t than;	   /* only longer ones, cycles */
	size_t top;	   /* how many, 1 to BLAME_TOP_MAX */
	uint32_t what;	   /* bit per enum blame_what; 0: all */
	uint64_t from, to; /* only what overlaps this, host TSC */
	bool has_at;	   /* those nearest to host TSC `at`, not the longest; */
	uint64_t at, near; /* ... up to this far from it, cycles */
	struct spans_opts spans; /* if set, BLAME_EVENT alone */
};
#define BLAME_TOP_MAX 1000u

struct blame;

/* The time line is only borrowed. -errno with err (see lat_new()). */
int blame_new(const struct timeline *t, const struct blame_opts *o, struct blame **out,
	      struct kvmft_err *err) __must_check;
/* The first walk: takes its items in order. */
void blame_find(void *blame, const struct tl_item *i);
void blame_found(struct blame *b); /* ends the first walk */
/*
 * After the first walk: one more BLAME_MOMENT, whatever that vCPU did then; exits are told apart by
 * reason alone. False: there are too many. blame_spikes() - 1 is its number.
 */
bool blame_stretch(struct blame *b, size_t vm, uint32_t vcpu, uint64_t begin, uint64_t end);
/* What the second walk has to cover. False: there is nothing to explain. */
bool blame_window(const struct blame *b, uint64_t *from, uint64_t *to);
/*
 * The second walk, over the time line started again with that window (tl_window()). off: by VM, the
 * cycles by which its guest's stamps may be off, either way; UINT64_MAX: unknown. Without it (NULL)
 * there are only parts, and each spike's cause is still to be found by blame_judge().
 */
int blame_again(struct blame *b, struct kvmft_err *err) __must_check;
void blame_explain(void *blame, const struct tl_item *i);
int blame_explained(struct blame *b, const uint64_t *off) __must_check;
void blame_judge(struct blame_spike *s, const uint64_t *off);

size_t blame_spikes(const struct blame *b);
const struct blame_spike *blame_spike(const struct blame *b, size_t i);
/* How many spikes of that kind were long enough, before `top`. */
uint64_t blame_count(const struct blame *b, enum blame_what what);
/* The same, however short they were: 0 is no proof that nothing was late. */
uint64_t blame_measured(const struct blame *b);
/* Spans that had begun and did not end in the recording. */
uint64_t blame_spans_open(const struct blame *b);
/* Why a search for spans found none, in why; false: they were only short. */
bool blame_spans_unmet(const struct blame *b, struct sbuf *why);
/* What the captures lack to find such spikes; NULL: nothing. */
const char *blame_lacks(const struct blame *b, enum blame_what what);
/* Whether anything of that vCPU, or of any (-1), was seen. */
bool blame_saw_vcpu(const struct blame *b, int64_t vcpu);
/* What could not be analysed, as for lat_note(). */
const char *blame_note(const struct blame *b, size_t i);
void blame_free(struct blame *b);
