/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h: statistics of why vCPUs exited, from a capture of their host.
 *
 * One walk over the capture pairs the events of each vCPU thread and counts them per thread and key
 * (an exit reason, an address, a port ...). Tables for all VMs, one VM or one vCPU are made from
 * that afterwards, as often as wanted. Times are kept in units of the capture's trace clock and are
 * converted when a table is made; memory is bounded whatever the capture holds.
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/hostmap.h"
#include "kvmft/tally.h"
#include "kvmft/exit_names.h"
#include "kvmft/timeline.h"

/* ---- event classes: what can be reported ---- */

struct event_class; /* src/exits/report_priv.h */

/* The i-th class's name, in the order in which help shows them; NULL past the last. */
const char *class_name_at(size_t i);
const struct event_class *class_find(const char *name); /* NULL: there is none */
const char *class_name(const struct event_class *c);	/* "vmexit" */
const char *class_title(const struct event_class *c);	/* head of the table's first column */
/* The first class, but vmexit, whose event the capture has; NULL: none. */
const struct event_class *class_recorded(const struct fmt *fmt);
bool class_has_perf(const struct event_class *c);	/* whether perf kvm has such a table */

/* ---- the walk ---- */

enum report_semantics {
	REPORT_EXACT, /* from the exit that caused it to the entry, see kvmft-report(1) */
	REPORT_PERF,  /* the begin and end events of `perf kvm stat report` (Linux 6.12) */
};

/* Parts of the time between an exit and the next entry. */
enum report_part {
	PART_KERNEL,	/* in the kernel, on a CPU */
	PART_USER,	/* from kvm_userspace_exit to the first event of the thread in KVM again */
	PART_POLL,	/* halted: polling for a wakeup */
	PART_BLOCKED,	/* asleep in the kernel: usually halted */
	PART_RUNNABLE,	/* woken up, waiting for a CPU */
	PART_PREEMPTED, /* off its CPU although it wanted to run */
	REPORT_PARTS,
};

struct report;

/*
 * Called after each stretch of time with events, number n of `every` ns from the beginning: all
 * samples that ended in it are counted, and none that ended later. 0 or -errno.
 */
typedef int report_cut_fn(void *ctx, struct report *r, uint64_t n);

/* One sample, in ticks of the capture's clock. */
struct report_sample {
	int32_t tid;
	int64_t vcpu; /* -1: not known (yet) */
	uint64_t key, from;
	bool timed;   /* whether its end is known: */
	uint64_t to, part[REPORT_PARTS]; /* the sum is to - from */
};

/* Called with each sample as it ends, those of a thread in their order. 0 or -errno. */
typedef int report_sample_fn(void *ctx, const struct report *r, const struct report_sample *s);

struct report_opts {
	const struct event_class *cls;
	enum report_semantics semantics;
	bool percentiles;    /* histograms are kept */
	bool split;	     /* parts are kept; class vmexit, REPORT_EXACT */
	bool vms;	     /* tables of VMs will be requested, by their names, PIDs or threads */
	const char *vm;	     /* ... or only of that VM: SEL; NULL: of all */
	bool by_rip;	     /* by code of the guest, and reason; class vmexit, REPORT_EXACT */
	bool has_from, has_to;
	bool held;	     /* from where a flight recorder's last snapshot shows all CPUs */
	uint64_t from, to;   /* only this time, both ends included: ns since the beginning, or
			      * stamps where ticks are no time (report_untimed()) */
	uint64_t every;	     /* 0: never cut */
	report_cut_fn *cut;
	report_sample_fn *each; /* only with split; NULL: not wanted */
	bool counts; /* samples have no times: neither kvm_exit nor kvm_entry was recorded */
	const bool *seen; /* totals of another walk; of a trace.dat nothing else says it earlier */
	void *ctx;	     /* of cut and each */
};

/* Whether how long a tick of its clock is remains unknown. */
bool report_untimed(const struct capture *cap);
/*
 * Prepares a report of cap, which is borrowed like fmt. -errno with err: the capture has no
 * format of kvm_exit or of what the class needs (ENOENT), its clock cannot be converted to ns.
 */
int report_new(const struct capture *cap, const struct fmt *fmt, const struct report_opts *opts,
	       struct report **out, struct kvmft_err *err) __must_check;
/* Walks the capture. 0, -errno with err set: a failed read, out of memory. */
int report_walk(struct report *r, struct kvmft_err *err) __must_check;
void report_free(struct report *r);

/* With opts.every: the time that it covers, which is the recording's or the requested part. */
struct report_span {
	uint64_t begin;	   /* ticks of the capture's clock */
	uint64_t from, to; /* ... that were requested, both included */
	uint64_t length;   /* ns, or cycles */
};
void report_span(const struct report *r, struct report_span *s);

/* What the walk saw, over all streams. */
struct report_totals {
	uint64_t events;	 /* the whole capture (in the window) */
	uint64_t exits, entries; /* kvm_exit and kvm_entry */
	uint64_t class_events;	 /* of the class's own tracepoints */
	uint64_t lost;		 /* events, as far as gaps are counted */
	bool lost_unknown;	 /* some gap has no count */
	uint64_t gaps, damaged;	 /* gaps; sub-buffers that could not be read to their end */
	uint64_t backwards;	 /* stamps below the one before on the same CPU */
	uint64_t dropped;	 /* pairs with a gap between begin and end: left out */
	uint64_t no_begin;	 /* ends without a beginning: begun before the capture or in a
				  * gap */
	uint64_t no_end;	 /* exits after which the guest was entered again without
				  * kvm_entry */
	uint64_t open;		 /* without end when the capture ended */
	uint64_t negative;	 /* ends before their begin: left out */
	uint64_t crowded;	 /* samples of keys that did not fit into memory: in one row */
	uint64_t no_hist;	 /* samples without percentiles for lack of memory */
	uint64_t left_out;	 /* events of threads that did not fit into memory */
	uint64_t misplaced;	 /* entries of vCPUs ...: counted for another vCPU of their
				  * thread */
	uint64_t cut;		 /* entries whose exit was on another CPU, or came after lost
				  * events: no guest run time */
	uint64_t moved;		 /* exits whose entry was on another CPU: the thread was off its CPU
				  * in between */
	uint64_t poll_grow, poll_shrink; /* kvm_halt_poll_ns: changes of the polling time */
	uint64_t fail_entry;	 /* kvm_exit with a flag bit of VMX set: see exit_names.h */
	bool seen[EV_ROLES];	 /* split: events that tell parts apart */
};

const struct report_totals *report_totals(const struct report *r);
/* Whether its times are cycles, because the frequency of its x86-tsc is unknown; else ns. */
bool report_in_cycles(const struct report *r);
/* The i-th remark that belongs beside the table (a line of text); NULL past the last. */
const char *report_note(const struct report *r, size_t i);

/* ---- tables ---- */

/* A vCPU with events in the capture. */
struct report_vcpu {
	int32_t tid;
	int64_t vcpu;	/* -1: not known */
	int64_t vm;	/* index into report_hostmap(), -1: not known */
	bool samples;	/* has any */
};

size_t report_vcpus(const struct report *r);
void report_vcpu(const struct report *r, size_t i, struct report_vcpu *v);
/* Index of the VM that opts.vm names; -1: none was named. */
int64_t report_vm_named(const struct report *r);

#define REPORT_PERCENTILES 3
extern const unsigned int report_percentiles[REPORT_PERCENTILES];

/* Times are in ns, or cycles: see report_in_cycles(). */
struct report_row {
	uint64_t key;
	uint64_t samples; /* all */
	uint64_t timed;	  /* those with beginning and end: times refer to these */
	uint64_t total_time, min_time, max_time, avg_time;
	/* percent times 100, rounded: of all samples, of the whole time; of the average */
	uint32_t samples_pct, time_pct, stderr_pct;
	bool counted; /* all timed samples are in a histogram: percentiles are known */
	uint64_t percentile_time[REPORT_PERCENTILES];
	uint64_t part_time[REPORT_PARTS]; /* their sum is total_time */
	/* for sorting and adding up */
	unsigned __int128 ticks, squares, order;
	uint64_t min, max;
	uint64_t rank; /* of the name among those of the table */
};

/* The parts' names, also the keys of JSON and CSV. */
extern const char *const report_part_names[REPORT_PARTS];
/* What was not recorded, without which that part of samples of key is unknown: enum evidence. */
uint32_t report_lacks(const struct report *r, uint64_t key, enum report_part p);
uint32_t report_needs(const struct report *r); /* the same of all parts, if there are any */

#define REPORT_NAME 64
/* The name of a row's key, by its class. */
void report_key_name(const struct report *r, uint64_t key, char name[REPORT_NAME]);
/* Ticks in ns, or cycles: see report_in_cycles(). */
uint64_t report_time(const struct report *r, unsigned __int128 ticks);

/* With opts.by_rip: the code of a row. */
struct report_place {
	const char *function; /* "user": of any program; NULL: unknown */
	const char *module;   /* NULL: the kernel itself */
	bool has_addr;	      /* without a function */
	uint64_t addr;
};
void report_row_place(const struct report *r, const struct report_row *row, struct report_place *p);
/* All VMs; between report_new() and report_walk(): who owns which symbols, see hostmap_vm.syms. */
struct hostmap *report_hostmap(const struct report *r);

enum report_key {
	KEY_SAMPLE, KEY_TIME, KEY_MAX, KEY_MIN, KEY_MEAN, KEY_NAME, KEY_SAMPLES_PCT, KEY_TIME_PCT,
	KEY_CPU, /* with opts.split: time on a CPU */
};
extern const char *const report_keys[]; /* "sample", ..., NULL: by enum report_key */

/* Which vCPUs a table is of: all that meet every criterion. */
struct report_filter {
	int64_t vm;	/* -1: any */
	bool unknown_vm; /* only those whose VM is unknown; vm is -1 */
	int64_t vcpu;	/* -1: any */
	int32_t tid;	/* 0: any */
	const int32_t *pid; /* of the VMM, or of the thread; NULL: any */
	size_t npid, only; /* only: index + 1 of the vCPU that all this is of; 0: not known */
};

struct report_table {
	struct report_row *row;
	size_t n;
	uint64_t samples, timed, total_time;
	uint64_t part_time[REPORT_PARTS];
	uint64_t guest_time; /* between entries and exits; only REPORT_EXACT of vmexit */
	uint64_t windows;  /* how many */
	size_t vcpus;	   /* that had samples */
	uint32_t lacks[REPORT_PARTS]; /* any row; with opts.split */
};

bool report_matches(const struct report *r, const struct report_filter *f, size_t vcpu);
/* Of those that may match, once there was a table: the first, the next; report_vcpus(): none. */
size_t report_first(const struct report *r, const struct report_filter *f);
size_t report_next(const struct report *r, const struct report_filter *f, size_t i);
/* Makes a table, sorted by key (descending; names ascending). Free it below. */
void report_table(struct report *r, const struct report_filter *f, enum report_key key,
		 struct report_table *t);
void report_table_free(struct report_table *t);
/*
 * What was not recorded, without which that part of a row is unknown; row NULL: of all of the
 * table. And the time that no known part has, with what it may be: "not recorded: ...", else "".
 */
uint32_t report_row_lacks(const struct report *r, const struct report_table *t,
			  const struct report_row *row, enum report_part p);
uint64_t report_row_unknown(const struct report *r, const struct report_table *t,
			    const struct report_row *row, char *buf, size_t size);

/* ---- piecewise ---- */

/* What was counted of a key since it was last taken; of one VM, or of several. */
struct report_piece {
	uint64_t key, samples, timed;
	uint64_t time; /* of those that are timed */
	uint64_t part[REPORT_PARTS]; /* of that, with opts.split */
	const struct cell *cell;
};

/* The same of all keys together. */
struct report_sums {
	uint64_t guest_time;
	uint64_t part_time[REPORT_PARTS]; /* with opts.split */
};

typedef int report_piece_fn(void *ctx, struct report *r, const struct report_piece *p);
/* From opts.cut: passes all that f counts to fn and forgets it. 0, or what fn returned. */
int report_take(struct report *r, const struct report_filter *f, report_piece_fn *fn, void *ctx,
		struct report_sums *s) __must_check;
/* Whether key is how the guest waits, so that most of its time is not spent on a CPU. */
bool report_key_halts(const struct report *r, uint64_t key);
/* With opts.percentiles: the number of samples of about each length of time that occurs. */
void report_piece_times(const struct report *r, const struct report_piece *p,
			void (*fn)(void *ctx, uint64_t time, uint32_t n), void *ctx);

/* ---- how often each event of a capture occurred on which kernel stack ---- */

struct by_stack { /* to be freed with by_stack_free() */
	struct tally rows; /* texts: see by_stack_row() */
	uint64_t stacks;   /* all that are in rows, and rows.others */
	uint64_t apart;	   /* whose event is missing: lost, or before the beginning */
	uint64_t events, lost, damaged; /* of the capture: events, losses marked in the data,
					 * sub-buffers */
	bool lost_unknown;
};

/* What a row is; texts are printable. */
struct by_stack_row {
	const char *event;  /* "kvm:kvm_exit" */
	const char *reason; /* of an exit, else "" */
	const char *stack;  /* functions, innermost first, BY_STACK_BETWEEN them */
};
#define BY_STACK_BETWEEN " <- "

/* Counts the stacks of events of one class, or all (NULL), most frequent first. Free b. */
int by_stack_walk(const struct capture *cap, const struct fmt *fmt, const struct event_class *cls,
		  struct by_stack *b, struct kvmft_err *err) __must_check;
void by_stack_free(struct by_stack *b);

/* Shortens the text of a row in place; once for each. */
struct by_stack_row by_stack_row(char *text);

/*
 * ---- what the address spaces of guests got of their vCPUs, from the host alone, and what their
 * tasks got, where a guest recorded itself ----
 *
 * An address space is a value of CR3, which `kvmft record --guest-processes` has of each exit. All
 * times are host cycles in which the guest's code ran, but for those of exits. Between an exit and
 * the next one nothing shows which address space runs: with the same one at both ends that is who
 * ran; else it is taken for the later one, and is not certain. See kvmft-report(1).
 */

#define PROCESS_REASONS 8 /* of a row, the first ones; others are in the last */

enum process_kind {
	PROCESS_SPACE,	/* id: CR3 without the bits that are no address */
	PROCESS_IDLE,	/* halted, or in an interrupt meanwhile */
	PROCESS_KERNEL, /* kernel threads, which have no address space of their own */
	PROCESS_NESTED, /* the guest runs a guest of its own */
	PROCESS_TASK,	/* id: thread of the guest, by its sched_switch; 0: its idle ones */
};

struct process_row {
	enum process_kind kind;
	size_t vm;	 /* index into the host map */
	uint64_t id;
	uint32_t number; /* from 1, of the address spaces of its VM, as they were seen first */
	const char *name; /* PROCESS_TASK: its comm; PROCESS_SPACE: of most exits, if known; NULL */
	/* Of its exits, those whose task is known, and those that were in a task of that name. */
	uint64_t judged, agree;
	uint64_t cpu, least, most; /* most: without what processes_unknown() says */
	uint64_t exits, faults;	   /* faults: of memory that the host had not mapped */
	uint64_t async;		   /* ... that it was told of, while others fetched the page */
	uint64_t spent;		   /* in exits that do not halt, without: */
	uint64_t stolen;	   /* its vCPU had no CPU although it wanted one */
	size_t nreasons;
	struct process_reason {
		struct exit_why why;
		uint64_t n;
	} reason[PROCESS_REASONS];
	uint64_t other_reasons;
};

struct process_vm {
	uint64_t guest;	   /* all that its guest ran, as far as it is known */
	uint64_t unknown;  /* it may have run, but no event says in which address space */
	uint64_t exits;
	uint64_t blind;	   /* exits without CR3 */
	uint64_t sealed;   /* ... with registers that are encrypted: SEV-ES, SEV-SNP */
	uint64_t shadowed; /* ... whose CR3 is KVM's own, because there is no nested paging */
	uint64_t missed;   /* exits without an entry before */
	uint64_t judged, agree; /* exits whose task is known; whose row has its name */
	uint64_t switching; /* exits between a guest's sched_switch and its switch: not judged */
	uint64_t crowded;  /* exits of rows for which there was no memory */
	uint32_t spaces;   /* how many it had */
	bool tables;	   /* the user's CR3 is another one than the kernel's (KPTI): in one row */
};

struct processes {
	struct process_row *row; /* by VM, kind and time: after processes_finish() */
	size_t n, cap;
	struct process_vm *vm; /* by index into the host map */
	size_t nvm;
	bool has_cr3, has_sched, has_async; /* what the host's capture has */
	/* May be set: who had run at an exit; NULL: nobody, it halts. */
	void (*ran)(void *ctx, size_t vm, uint32_t vcpu, const struct process_row *r);
	void *ctx;
};

/* t is borrowed. only: that VM of the host map, -1: all. */
void processes_new(struct timeline *t, int64_t only, struct processes **out);
/* Each item of the time line, in its order; and all of them once more after processes_again(). */
void processes_feed(void *processes, const struct tl_item *item);
void processes_again(struct processes *p);
/* Sorts rows and gives names, which are borrowed from the time line. */
void processes_finish(struct processes *p);
void processes_free(struct processes *p); /* NULL is fine */
