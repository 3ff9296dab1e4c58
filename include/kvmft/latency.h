/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency.h: how long things took across host and guest: interrupts, stolen time, block I/O,
 * timers, memory, packets.
 *
 * One walk over a timeline feeds all wanted analyses. Each follows chains of events from beginning
 * to end and measures the stages between; chains that were cut by a gap, or that are ambiguous, are
 * counted and left out. Memory is bounded by open chains.
 *
 * Lengths of time are in ns, or in host cycles if the TSC frequency is not known: lat_in_cycles().
 */
#pragma once

#include "kvmft/evidence.h"
#include "kvmft/timeline.h"

/* LAT_WAIT is asked for by `kvmft report --waits` alone. */
enum lat_kind {
	LAT_IRQ, LAT_SCHED, LAT_IO, LAT_TIMER, LAT_MEM, LAT_NET, LAT_EVENT, LAT_WAIT, LAT_KINDS
};

/*
 * The tables of the analyses. sched has two: whom it hit, and who ran instead; so has timer: what
 * the guest set its hardware to, and its own high-resolution timers; net has one for each
 * direction. Of a guest without its host irq and sched have others: its handlers, and its tasks.
 * Those of mem after the first show the same stalls, grouped by what lat_opts.mem_by asks for.
 */
enum lat_table_id {
	LAT_T_IRQ,
	LAT_T_SCHED,
	LAT_T_STEALER,
	LAT_T_IO,
	LAT_T_TIMER,
	LAT_T_HRTIMER,
	LAT_T_NET_RX,
	LAT_T_NET_TX,
	LAT_T_TASK,
	LAT_T_HANDLER,
	LAT_T_EVENT,
	LAT_T_WAIT,
	LAT_T_MEM,
	LAT_T_MEM_VCPU,
	LAT_T_MEM_TASK,
	LAT_T_MEM_GPA,
	LAT_T_MEM_THREAD,
	LAT_T_MEM_TIME,
	LAT_T_MEM_MOVE,
	LAT_TABLES
};

/* Bit numbers of lat_opts.mem_by; the command's names are in lat_mem_by_names[]. */
enum lat_mem_by { MEM_BY_vcpu, MEM_BY_task, MEM_BY_gpa, MEM_BY_thread, MEM_BY_time, MEM_BY_move };
extern const char *const lat_mem_by_names[]; /* NULL-terminated */
#define LAT_GRAIN (64ull << 20) /* of addresses, by default */

#define LAT_STAGES 16 /* most stages of a table, including the total */
#define LAT_CAUSES 24
#define LAT_COUNTS 23
#define LAT_NAME   64
#define LAT_WHAT   192 /* two addresses of IPv6 are long */

/* What a vCPU's thread is doing. */
enum vs_state {
	VS_UNKNOWN,   /* before its first event, after a gap */
	VS_GUEST,     /* between kvm_entry and kvm_exit */
	VS_KERNEL,    /* in KVM */
	VS_USER,      /* in the VMM, from kvm_userspace_exit on */
	VS_HALTED,    /* the guest executed HLT and waits for an interrupt */
	VS_WAITING,   /* woken up, waits for a CPU */
	VS_PREEMPTED, /* lost its CPU although it wanted to run */
	VS_STATES,
};
extern const char *const vs_names[VS_STATES];

/* What a table consists of. Stage 0 is the total, others are what is known of its parts. */
struct lat_desc {
	const char *name;  /* "irq" */
	enum lat_kind kind; /* the analysis of the table */
	const char *title; /* one line, head of the table */
	const char *key;   /* head of the first column */
	const char *stage[LAT_STAGES];
	const char *stage_help[LAT_STAGES];
	uint32_t parts; /* bit per stage: those that follow each other and make the total */
	uint32_t waits; /* ... those within others that are waits, and say why these took so long */
	/* Bit per stage: between clocks of both sides, so as far off as the alignment is. */
	uint32_t crosses;
	/*
	 * Causes ([0] = none in particular) and what was counted, matched or not: "KEY: text", or one
	 * word that is both. Keys are those of JSON, and never change.
	 */
	const char *const *cause;      /* LAT_CAUSES */
	bool cause_is_stage;	       /* the stage of that number took most of it */
	uint32_t cause_untold;	       /* the one that stands for those without their evidence */
	const char *count[LAT_COUNTS];
	bool in_order;		       /* its groups keep the order in which they came */
};

/* The text of a cause or count, for people; its key are the characters before ':'. */
const char *lat_word_text(const char *word);

enum lat_kind lat_table_kind(enum lat_table_id id); /* the analysis that a table belongs to */

struct lat_group {
	int64_t vm;	     /* index into the host map; -1: of the host */
	char name[LAT_NAME];
	bool rest;	     /* of what is not known: comes last */
	bool others;	     /* of all that the table has no room for */
	uint32_t order;	     /* used during sorting */
	struct loghist *stage[LAT_STAGES]; /* NULL: never measured */
	uint64_t cause[LAT_CAUSES]; /* how many */
	uint64_t cause_time[LAT_CAUSES]; /* of their totals: of tables without parts */
	uint64_t longest, begin, end; /* of its cases: the total, and when it was (host TSC) */
};

/* One of the worst. */
struct lat_case {
	uint64_t begin, end; /* host TSC */
	uint64_t time;	     /* the total */
	int64_t vm, vcpu;
	uint32_t group;
	uint32_t cause;
	uint32_t kind;	     /* of mem, see lat_mem_kind() */
	uint32_t known;	     /* bit per stage */
	uint64_t stage_time[LAT_STAGES];
	char what[LAT_WHAT]; /* "vector 38", "vda sector 3328 read 64 KiB" */
};

struct lat_table {
	const struct lat_desc *desc;
	struct lat_group *group; /* after lat_finish(): the greatest sum of totals first */
	size_t ngroup, group_cap;
	uint64_t count[LAT_COUNTS];
	struct lat_case *worst;	 /* the longest first, after lat_finish() */
	size_t nworst;
};

/* How a vCPU spent the capture, in host cycles: sums to last - first; 0 without host events. */
struct lat_times {
	size_t vm;
	uint32_t vcpu;
	int32_t tid;
	uint64_t first, last;
	uint64_t time[VS_STATES];
};

struct lat_opts {
	bool want[LAT_KINDS]; /* LAT_EVENT is wanted if spans.from is set */
	int64_t vm, vcpu; /* only this one; -1: any */
	uint64_t than_ns; /* only longer ones are kept as worst; 0 with cycles */
	size_t worst;	  /* how many are kept per table */
	bool states_only; /* only lat_vcpu_now() is wanted */
	bool cases_only;  /* only what each() is told, of all but sched, and notes */
	enum lat_waits_by { WAITS_BY_VM, WAITS_BY_VCPU, WAITS_BY_PROCESS } waits_by;
	uint32_t mem_by;  /* tables of mem in addition to the one by kind */
	uint64_t grain;	  /* of the one by address, in bytes; 0: LAT_GRAIN */
	struct spans_opts spans;
	/* If set, called with each case as it ends. */
	void (*each)(void *ctx, enum lat_table_id id, const struct lat_case *c);
	void *ctx;
	/* With cases_only: those shorter than this, in cycles, have no names; NULL: all have */
	const uint64_t *named_from;
};

struct lat;

/*
 * The timeline is borrowed, and walked by the caller. Its only source may be a guest, as a VM of
 * its own (tl_new_alone()): then that is analysed in its clock. An analysis that needs events which
 * no capture has is left out; -ENOENT with err, which names what is missing, if none is left.
 */
int lat_new(const struct timeline *t, const struct lat_opts *o, struct lat **out,
	    struct kvmft_err *err) __must_check;
/* Feeds the items of the timeline in order. */
void lat_feed(void *lat, const struct tl_item *i);
#define LAT_NOT_SEEN "(not seen)"
/* With WAITS_BY_PROCESS: who ran first on a vCPU after its last halt; id: not 0, or not seen. */
void lat_waits_ran(struct lat *l, size_t vm, uint32_t vcpu, uint64_t id, const char *who);
/* Ends open chains, and sorts. */
void lat_finish(struct lat *l);
bool lat_in_cycles(const struct lat *l);
const struct lat_table *lat_table(const struct lat *l, enum lat_table_id id);
/* Whether it belongs to an analysis that was wanted and not left out, and was requested. */
bool lat_has_table(const struct lat *l, enum lat_table_id id);
/* What a vCPU is doing at this point of the walk. */
struct lat_now {
	enum vs_state state, base; /* base: without a scheduler */
	bool asleep;		   /* its thread sleeps; the state stays what it was */
	bool stopped;		   /* VS_PREEMPTED: by a signal */
	bool thief_known;	   /* VS_PREEMPTED, VS_WAITING: who has the CPU, 0: no one */
	int32_t thief;
	uint32_t thief_cpu, cpu; /* cpu: where its thread ran last */
	bool perhaps; /* ... or others have had it since; not known: that is not recorded, but: */
	int32_t from; /* on a CPU: which thread left it that CPU; -1: unknown */
	bool task_known;	   /* the guest's */
	int32_t task;
	bool in_handler;	   /* of an interrupt or softirq of the guest */
};
/* False: nothing of it was seen. */
bool lat_vcpu_now(const struct lat *l, size_t vm, uint32_t vcpu, struct lat_now *now);
const bool *lat_answers(const struct lat *l); /* by lat_kind: what was wanted and not left out */
/* What this analysis, if it was wanted, needs and no capture has; otherwise NULL. */
const char *lat_left_out(const struct lat *l, enum lat_kind kind);
/*
 * What was not recorded (enum evidence), without which a stage or cause of a table, or of "vcpu" a
 * state, is not told; and all of that for what is shown.
 */
uint32_t lat_lacks(const struct lat *l, const char *of, const char *what);
uint32_t lat_needs(const struct lat *l);
size_t lat_vcpus(const struct lat *l);
/* The time of states that cannot be told is in VS_UNKNOWN. False: the options ask for others. */
bool lat_vcpu_times(const struct lat *l, size_t i, struct lat_times *t);
/* What inhibited APICv or AVIC of a VM, as bits; false: nothing, or not recorded. */
struct lat_apicv {
	uint64_t now, ever; /* now: 0, it is in use again */
	uint64_t since;	    /* host TSC of the last time that it began; before: or earlier */
	bool before, known; /* known: no event was lost since */
	uint64_t cycles, times;
};
bool lat_apicv(const struct lat *l, size_t vm, struct lat_apicv *a);
/* The i-th remark on what is missing for complete answers (a line of text); NULL past the last. */
const char *lat_note(const struct lat *l, size_t i);
/* Names of lat_kind as the command takes them, NULL-terminated. */
extern const char *const lat_kind_names[];
/* What a stall for memory was, by lat_case.kind; NULL: not told. */
const char *lat_mem_kind(uint32_t kind);
void lat_free(struct lat *l);
