/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits.h: how often each thread exited from its guest, for which reason, and how long that was
 * handled.
 *
 * One table holds everything since counting began, together with its state at the beginning of the
 * current interval, so that an interval's table is a difference and nothing has to be stopped or
 * cleared for it. 1,000 vCPUs with 40 reasons each are 40,000 cells: a cell is small, and rows for
 * printing are made one by one.
 */
#pragma once

#include "kvmft/util.h"
#include "kvmft/vcpu_turn.h"

#define EXITS_NONE UINT32_MAX

/* A VM as it is to be shown. The strings are the table's. */
struct exits_vm {
	char *sel;	   /* PID-FD */
	char *name, *uuid; /* NULL = none */
	uint32_t pid;
	unsigned int ended; /* 0 = running; else the number of intervals since it ended, plus 1 */
	size_t look;	    /* the last one that found it */
};

struct exits_thread {
	uint32_t tid;
	uint32_t pid;	/* its process; 0 = it ended before it could be looked up */
	uint32_t vm;	/* index into exits.vm; EXITS_NONE = of no known VM */
	uint32_t vcpu;	/* EXITS_NONE = not known */
	uint32_t older; /* who had this tid before; EXITS_NONE = no one */
	uint64_t start; /* clock ticks since boot, against reuse of the tid; 0 = not known */
	bool exits;	/* some were counted */
};

/* One thread's exits for one reason, exit_reason as the event has it. */
struct exits_cell {
	uint32_t thread, reason;
};

/* Lengths of time: bucket k counts those of at most 2^k ns that bucket k - 1 does not hold. */
#define EXITS_BUCKETS 40 /* the last one, 9 minutes, counts all that took longer */

/* What is counted of a cell: exits; when timed, those with an entry after them, and their ns. */
enum { EXITS_N, EXITS_TIMED, EXITS_TOTAL, EXITS_BUCKET /* with spreads, the first one */ };

/* Values of all cells, those of one beside each other. */
struct exits_values {
	uint64_t *v;
	size_t cap;
};

/* In place of a reason: not exits, and never counted as such; they only have times. */
#define EXITS_WAKE 0x7fffff01u /* from the wake-up of the vCPU's thread to its next entry */
#define EXITS_HALT 0x7fffff02u /* from the halt to what ended it */
static inline bool exits_is_exit(uint32_t reason)
{
	return reason != EXITS_WAKE && reason != EXITS_HALT;
}

struct exits {
	bool timed;
	bool spreads; /* timed as well */
	struct exits_vm *vm;
	size_t nvm, vm_cap;
	struct exits_thread *thread;
	size_t nthread, thread_cap;
	struct exits_cell *cell;
	size_t n, cap;
	/* Since counting began; of these, before this interval; the source's: exits_raw(). */
	struct exits_values now, shown, raw;
	struct exits_values max; /* ns, in this interval, when timed */
	struct u64map by_tid;
	struct u64map by_key; /* cell number plus 1 */
	struct u64map by_sel; /* by hash: the newest VM of that PID-FD */
	struct hash_key key;
};

void exits_free(struct exits *e);
uint64_t *exits_now(const struct exits *e, size_t cell); /* values of a cell since counting began */
/* Counting begins now: what was counted so far is forgotten, but not what the source had. */
void exits_baseline(struct exits *e);

/* Index of the thread that has this tid now, added if it is new. */
size_t exits_thread(struct exits *e, uint32_t tid);
/* The tid was reused: index of the new thread, whose cells begin at 0. */
size_t exits_thread_renew(struct exits *e, uint32_t tid);
/* Index of the VM that has this PID-FD now; EXITS_NONE. */
size_t exits_vm_find(const struct exits *e, const char *sel);
/* ... added if it is new; NULL strings are fine. */
size_t exits_vm(struct exits *e, const char *sel, const char *name, const char *uuid, uint32_t pid);

void exits_add(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n); /* n more exits */
/*
 * The source, which never forgets, is at n for this tid and reason: the increase since the last
 * call is added. A thread that reuses a tid begins where the one before it ended.
 */
void exits_raw(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n);
/* The source was emptied: the next exits_raw() counts from 0. */
void exits_raw_reset(struct exits *e);
/* n exits that took total ns, and at most max ns. */
void exits_time_add(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n, uint64_t total,
		    uint64_t max);
/* One that took that long, for the times and for the spread, if there are any. */
void exits_time_one(struct exits *e, uint32_t tid, uint32_t reason, uint64_t ns);
unsigned int exits_bucket(uint64_t ns);
/* Like exits_time_raw(), for one bucket of the spread; the times have the sums of all. */
void exits_spread_raw(struct exits *e, uint32_t tid, uint32_t reason, unsigned int bucket,
		      uint64_t n, uint64_t total);
/* Like exits_raw(), for timed exits. */
void exits_time_raw(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n, uint64_t total);
void exits_interval(struct exits *e); /* a new interval begins */
void exits_prune(struct exits *e); /* forgets the cells of VMs whose end was already in a table */
size_t exits_ended(const struct exits *e); /* the number of cells of VMs that have ended */
/* Of a VM whose end was already in a table. */
bool exits_past(const struct exits *e, const struct exits_thread *t);

/* ---- a sorted view ---- */

#define EXITS_VMS 1000u

enum exits_group {
	EXITS_BY_THREAD, /* a row per thread and reason */
	EXITS_BY_REASON, /* all threads together */
	EXITS_BY_VM,	 /* all of a VM together; for the first EXITS_VMS of them */
};

struct exits_row {
	const struct exits_thread *thread; /* NULL: by reason, or by VM */
	const struct exits_vm *vm; /* by VM; NULL: of no known VM, or of one too many */
	uint32_t reason;
	uint64_t count, timed, total, max;
	uint64_t bucket[EXITS_BUCKETS]; /* with spreads */
};

/* The bucket with the num/den percentile of a row; 0 when nothing was timed. */
unsigned int exits_row_percentile(const struct exits_row *row, uint64_t num, uint64_t den);

struct exits_view {
	const struct exits *e; /* borrowed */
	uint32_t *cell;	       /* n indices, sorted: most exits first */
	size_t n;
	struct exits *sum;     /* EXITS_BY_REASON: what the indices refer to */
	bool whole;	       /* since counting began, not in the interval */
	bool by_vm;
	uint64_t count;	       /* of all rows */
};

/* Which threads to show. */
typedef bool (*exits_filter)(const void *ctx, const struct exits *e, const struct exits_thread *t);

/* Without rows of 0; filter NULL: all. To be freed; e must not change while it is used. */
void exits_view_make(const struct exits *e, enum exits_group group, bool whole,
		     exits_filter filter, const void *ctx, struct exits_view *v);
void exits_view_row(const struct exits_view *v, size_t i, struct exits_row *row);
void exits_view_free(struct exits_view *v);

/* ---- from events to times ---- */

/*
 * Pairs each kvm_exit with the next kvm_entry of the same thread; events must come in time order.
 * An exit followed by another exit has no duration (KVM entered again without an event); a second
 * entry is ignored, and so is an entry older than its exit.
 */
struct exits_handling {
	struct exits *e; /* borrowed */
	struct exits_open {
		uint64_t ts;
		uint32_t reason;
		struct vcpu_turn turn; /* out: the exit is open */
	} *v;
	size_t cap;
	struct u64map by_tid;
};

/* ts in ns. */
void exits_handling_exit(struct exits_handling *p, uint32_t tid, uint64_t ts, uint32_t reason);
void exits_handling_entry(struct exits_handling *p, uint32_t tid, uint64_t ts);
/* Events were lost: nothing that began before is paired with what follows. */
void exits_handling_gap(struct exits_handling *p);
void exits_handling_free(struct exits_handling *p);
