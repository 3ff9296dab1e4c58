/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_priv.h: what the files of the report share; private to this room.
 *
 *   report_open.c    opening: event plans, clock, notes; who is which vCPU
 *   report_walk.c    streams in, events in each thread's order out
 *   report_samples.c begin and end of samples, per thread; what their time was spent on
 *   report_table.c   samples by key, and by places in guests; tables and pieces from that
 */
#pragma once

#include "kvmft/evidence.h"
#include "kvmft/exit_names.h"
#include "kvmft/report.h"

/*
 * ---- event classes, the things that `kvmft report` can make a table of ----
 *
 * A class says, in one constant table, which events it uses, at which of them the clock starts and
 * stops, what is counted separately (the key) and how a key is printed. It never sees state:
 * pairing (report_samples.c) is the same for all. A new class is a section of classes.c and a
 * line in its table.
 */

#define CLASS_TPS    4
#define CLASS_FIELDS 4

/* Numbers of the events that every class gets; its own tracepoints are 0, 1, ... */
#define CLASS_ENTRY CLASS_TPS
#define CLASS_EXIT  (CLASS_TPS + 1) /* v: exit_reason, isa (as enum exit_isa) */

/* An event of a vCPU thread, as a class sees it. */
struct class_event {
	unsigned int tp;	  /* index into tp[] of the class, CLASS_ENTRY or CLASS_EXIT */
	unsigned int tps;	  /* bit i: the captured kernel has tp[i] */
	unsigned int has;	  /* bit i: this event has field i */
	uint64_t v[CLASS_FIELDS]; /* the fields; 0 where absent */
};

/* The role of an event in begin() or end(). */
enum class_mark {
	MARK_NO,
	MARK_YES,     /* it is one, but the key is known only at the other end */
	MARK_KEY,     /* it is one, and *key says of what */
	MARK_AT_EXIT, /* begin() only: the key is known now, the clock started at the exit */
	MARK_MORE,    /* begin() only: none, but the key of what is open also has these bits */
};

typedef enum class_mark class_rule(const struct class_event *e, uint64_t *key);

struct class_rules {
	class_rule *begin, *end;
};

struct event_class {
	const char *name, *title;
	/* Of system kvm. The class cannot do without the first one, unless it says so. */
	struct class_tp {
		const char *name;
		const char *field[CLASS_FIELDS];
	} tp[CLASS_TPS];
	bool optional;		 /* it can do without all of tp[] */
	bool counts;		 /* only counts: its events have no end */
	struct class_rules exact;
	struct class_rules perf; /* NULL: perf kvm has no such table */
	struct class_rules perf_before; /* where exit_perf_before(); NULL: as elsewhere */
	void (*describe)(const struct exit_names *names, uint64_t key, char *buf, size_t size);
};

struct exit_why class_vmexit_why(uint64_t key); /* of a key of class_vmexit */

extern const struct event_class class_vmexit;

typedef unsigned __int128 u128;

/* ---- samples by key ---- */

#define CELL_OTHERS UINT64_MAX /* key of samples without memory for a cell of their own */

struct cell {
	uint64_t key;
	uint64_t timed, untimed; /* samples with begin and end, and others */
	uint64_t min, max; /* ticks */
	struct cell *next;
	u128 sum, squares; /* of ticks; squares stays at its maximum instead of overflowing */
	struct loghist_rows *hist;
	uint64_t *part; /* REPORT_PARTS sums of ticks */
};

#define CELLS_CACHED 32 /* as many as cell_slot() has numbers */

/* Cells of one vCPU. */
struct cells {
	struct cell *first;
	size_t used; /* of cell_budget.used */
	uint32_t n;
	struct u64map by_key; /* key → address of the cell, once there are many */
	struct cell *cache[CELLS_CACHED]; /* by the key's hash */
};

/* Memory of all cells together is limited, and so is that of their histograms. */
struct cell_budget {
	size_t used, limit, hist_used, hist_limit;
	size_t vcpus; /* each has its part of the last sixteenth, whatever others take */
	bool hist, part;
	uint64_t crowded; /* samples that went to CELL_OTHERS for lack of memory */
	uint64_t no_hist; /* ... that are in no histogram */
};

/* The cell of key, made if it is new. */
struct cell *cell_slow(struct cells *c, struct cell_budget *b, uint64_t key);
void cell_time_hist(struct cell *c, struct cell_budget *b, uint64_t ticks);
void cells_free(struct cells *c); /* forgets all that a cell counted */

/* Spreads the common reasons of VMX, and those of SVM, over 32 slots; found by trial. */
static inline unsigned int cell_slot(uint64_t key)
{
	return (unsigned int)(key * 0x91ced082e1f2e3fd >> 59);
}

static inline struct cell *cell_get(struct cells *c, struct cell_budget *b, uint64_t key)
{
	struct cell *cell = c->cache[cell_slot(key)];

	return cell && cell->key == key ? cell : cell_slow(c, b, key);
}

/* *sum += v. Written like that, compilers make ten instructions instead of two. */
static inline void sum_add(u128 *sum, uint64_t v)
{
	uint64_t low = (uint64_t)*sum, high = (uint64_t)(*sum >> 64);

	high += __builtin_add_overflow(low, v, &low);
	*sum = (u128)high << 64 | low;
}

static inline void cell_time(struct cell *c, struct cell_budget *b, uint64_t ticks)
{
	u128 sq = (u128)ticks * ticks;

	c->timed++;
	c->min = ticks < c->min ? ticks : c->min;
	c->max = ticks > c->max ? ticks : c->max;
	sum_add(&c->sum, ticks);
	c->squares = c->squares + sq < sq ? ~(u128)0 : c->squares + sq;
	if (b->hist)
		cell_time_hist(c, b, ticks);
}

/* ---- threads and vCPUs ---- */

/* A vCPU by the thread that runs it: what samples are kept for. */
struct rvcpu {
	int32_t tid;
	bool sampled;
	int64_t vcpu; /* -1: not known (yet) */
	int64_t vm;   /* -1: not known */
	size_t next;  /* of its VM */
	struct cells *cells;
	uint64_t windows;
	u128 guest;   /* ticks between entries and exits */
};

enum rstate { STATE_UNKNOWN, STATE_GUEST, STATE_EXITED };
enum ropen { OPEN_NONE, OPEN_HERE, OPEN_AT_EXIT };

/* What a thread does inside an exit. */
struct rsplit {
	uint64_t part[REPORT_PARTS]; /* ticks since the exit; PART_KERNEL is the rest */
	uint64_t blocked, runnable;  /* of those, since the last kvm_vcpu_wakeup */
	uint64_t off_guest;	     /* off its CPU since the entry */
	bool in_user;
	uint64_t user_since;
	enum { ON_CPU, OFF_ASLEEP, OFF_WOKEN, OFF_PREEMPTED } off;
	uint64_t off_since;
};

struct rthread {
	int32_t tid;
	uint32_t slice_cpu;   /* report_walk.c: the stream that had it in slice `slice` */
	uint64_t slice;
	struct rvcpu *v;
	struct rvcpu *first;  /* that it ran; report.by_vcpu knows the others */
	enum rstate state;    /* not beside `open`: both would be read as one word */
	bool floats;	      /* it takes any vCPU: see struct report */
	bool known;	      /* perf: kvm_entry was seen */
	bool perf_key;	      /* perf: the begin had a key */
	bool left;	      /* it was seen to leave its CPU since the exit */
	uint32_t from_cpu;    /* stream of the begin */
	enum ropen open;      /* written one by one, which would make processors wait for the
			       * writes */
	uint64_t key;
	uint64_t from;	      /* of what is open; perf: 0 = none */
	uint64_t last;	      /* OPEN_AT_EXIT: where it ends if another one follows */
	uint64_t mark;	      /* STATE_EXITED: up to here the time since the exit is assigned */
	uint32_t mark_cpu;
	uint64_t entered;     /* STATE_GUEST: since when */
	uint32_t entered_cpu;
	struct rthread *next, **at, **list; /* of a CPU, whose gap would cut what is going on */
	struct rsplit *split; /* behind the struct; NULL without opts.split */
};

/* ---- events on their way from the walk to the pairing ---- */

enum rop {
	OP_NONE,
	OP_ENTRY,   /* key: vcpu_id, or VCPU_UNKNOWN */
	OP_EXIT,    /* key: the class's */
	OP_CLASS,   /* key: the class's */
	OP_USER,    /* kvm_userspace_exit */
	OP_RESUME,  /* the thread is in KVM's run loop again */
	OP_WAKEUP,  /* kvm_vcpu_wakeup; key: ns */
	OP_OUT,	    /* sched_switch away; key: 1 = asleep, 0 = preempted */
	OP_IN,	    /* sched_switch to */
	OP_WOKEN,   /* sched_wakeup */
	OP_GAP,	    /* events of this CPU are missing from here (key 1: a recorder's pause) ... */
	OP_GAP_END, /* ... to here */
};

/* What an event is; begin and end are what the class says of it (enum class_mark). */
struct rwhat {
	uint8_t op, begin, end;
	/* What direct_run() takes: an exit that at most begins the class, an entry that ends it. */
	uint8_t direct;
};

/* One event, decoded. */
struct rev {
	uint64_t ts, key;
	uint32_t thread; /* index */
	struct rwhat is;
};

#define VCPU_UNKNOWN UINT32_MAX

/* A field, resolved: value at off, size bytes. */
struct rfield {
	uint16_t off;
	uint8_t size; /* 0: absent */
};

/* What an event means to the report, followed by the fields that its plan resolves. */
enum rplan_kind {
	RE_NONE,
	RE_ENTRY,  /* vcpu_id */
	RE_EXIT,   /* exit_reason, isa, vcpu_id */
	RE_CLASS,  /* those of the class */
	RE_USER,
	RE_RESUME,
	RE_IOCTL,  /* cmd */
	RE_WAKEUP, /* ns */
	RE_POLL,   /* grow */
	RE_SWITCH, /* prev_pid, prev_state, next_pid */
	RE_WOKEN,  /* pid */
};

struct rplan {
	uint8_t kind, tp, has, role;
	uint16_t need; /* bytes of a record with all the fields */
	struct rfield f[CLASS_FIELDS];
};

/* An entry or exit whose thread is u32 and whose fields are no less: where two of these are. */
struct rdirect {
	uint32_t id; /* NO_EVENT: there is none */
	uint16_t need, off[2];
};

#define NO_EVENT UINT32_MAX

#define RPLANS 16

struct report {
	const struct capture *cap;
	const struct fmt *fmt;
	struct report_opts opts;
	const struct class_rules *rules;
	struct exit_names names;
	struct hostmap *map;
	int64_t vm_named; /* -1: none */
	bool holes;	  /* of a trace.dat: see struct rstream */
	/*
	 * Threads that take any vCPU in turn, as gVisor's do: seen, and the walk knows. Then it is
	 * in time order, and by vCPU id it is known which of them had that vCPU last (index + 1).
	 */
	bool floats, in_order;
	bool switches;	 /* events were lost: the walk sees which threads left their CPU */
	uint64_t handed; /* exits after which others had their vCPU */
	struct u64map owner;
	bool vms_later;	  /* VMs will be known after the walk */
	unsigned int tps; /* tracepoints of the class that the capture's kernel has */
	struct rfield pid;
	uint8_t plan_of[65536]; /* by event id: index into plan, 0 = none */
	struct rplan plan[RPLANS];
	size_t nplan;
	uint32_t recorded; /* split: enum evidence */
	struct rdirect entry, exit;
	struct rthread **thread;
	size_t nthread, thread_cap;
	struct u64map by_tid;  /* tid → index */
	struct rvcpu **vcpu;
	size_t nvcpu, vcpu_cap;
	size_t *first_vcpu; /* of each VM, SIZE_MAX = none; NULL: before the first table */
	struct u64map by_vcpu; /* tid << 32 | vcpu → index: a thread's further vCPUs */
	struct cell_budget budget;

	struct rthread **cut_by; /* by stream: threads that a gap there would cut */
	uint64_t *gap_to;      /* by stream: where its last gap ended, UINT64_MAX: not yet */
	/* Without those of a flight recorder, which all CPUs have at one time, and the latest. */
	uint64_t *loss_to, any_loss_to;
	uint64_t from, to;     /* window in ticks, both ends included; by default all */
	uint64_t begin, last;  /* opts.every: where the first stretch begins; the last event */

	struct by_rip *rips;   /* NULL: rows are by the class's keys */

	/* ns = ticks * mul / div; cycles: both are 1 */
	uint64_t mul, div;
	bool cycles;

	struct report_totals tot;
	/* ticks between exits and the events that give their cause: perf leaves them out */
	u128 before;
	char **note;
	size_t nnote, note_cap;
};

/* All from the beginning, with more known. 0, -errno. */
int report_start_over(struct report *r, struct kvmft_err *err) __must_check;
/* After the walk, if the VMs were to be known later: maybe by another walk. 0, -errno. */
int report_vms_now(struct report *r, struct kvmft_err *err) __must_check;
void report_saw(struct report *r, enum event_role role); /* an event of that role is there */
/* Adds a remark; if out of memory, the walk fails. */
void report_remark(struct report *r, const char *fmt, ...) __printf(2, 3);
uint64_t report_ticks(const struct report *r, uint64_t ns); /* the reverse: at least 1 */

/* The thread's index, added if new (UINT32_MAX: too many, or out of memory). */
uint32_t report_thread(struct report *r, int32_t tid);
/* Index of a known thread, else UINT32_MAX. */
uint32_t report_thread_known(const struct report *r, int32_t tid);
/* The vCPU of a thread from its kvm_entry. */
void report_set_vcpu(struct report *r, struct rthread *t, uint32_t vcpu);

/* ---- report_table.c: places in guests, for opts.by_rip ---- */

struct by_rip *by_rip_new(void);
void by_rip_free(struct by_rip *b); /* NULL is fine */
/* The key of an exit with that key of the class; k: of its guest, NULL: not known. vm: or -1. */
uint64_t by_rip_key(struct by_rip *b, int64_t vm, const struct ksyms *k, uint64_t rip,
		    uint64_t reason);

/* ---- report_samples.c: cpu is the index of the stream ---- */

/* Feeds n events of one stream, in order; those of a thread must be in order over all calls. */
int samples_feed(struct report *r, const struct rev *e, size_t n, uint32_t cpu) __must_check;
void samples_finish(struct report *r); /* counts what is open when the capture ends */
