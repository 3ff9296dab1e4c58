/* SPDX-License-Identifier: GPL-2.0-or-later */
/* proof.h: what proves an alignment: windows, the offset that fits the events, the verdict. */
#pragma once

#include "kvmft/timeline.h"
#include "kvmft/vcpu_turn.h"

/*
 * The alignment check. A guest event on vCPU n can only have happened between a
 * kvm_entry and the next kvm_exit of that vCPU's thread: the entry is stamped before the guest
 * runs, the exit after it stopped (and if the host's interrupts are recorded, the first one that
 * the thread takes shows the exit sooner). With a right conversion no event is outside; and how far
 * the guest's clock could be moved before one would be is the bound of the error.
 */

struct win_stats {
	uint64_t checked;   /* guest events with a known window state */
	uint64_t inside, outside;
	uint64_t unchecked; /* no window known: before the first entry, after a gap, no place */
	uint64_t apart;	    /* of these: before or after the host's events; in totals only */
	/*
	 * Slack in host cycles: all events of the vCPU could happen this much earlier / later and
	 * would still be inside. Negative: an event is outside by that much. Valid only if
	 * has_early / has_late.
	 */
	int64_t early, late;
	bool has_early, has_late;
	int64_t outside_max; /* the largest distance of an outside event to its nearest window */
};

/* The time of the check is cut into at most this many equal slices. */
#define WIN_SLICES 64

/* Hosts with figures of their own; any more share the last one's. */
#define WIN_HOSTS 4

struct win_vcpu {
	size_t vm; /* index into the host map: several captures of a VM have one each */
	uint32_t vcpu;
	struct win_stats s;
	struct win_stats slice[WIN_SLICES]; /* the same figures, per slice of time */
	struct win_stats part[WIN_HOSTS];   /* ... and per host on which it ran */
	size_t on;			    /* the one on which it runs */
	uint64_t first_out, last_out;	    /* host TSC of the first and last outside event */
	uint64_t inside_before_out;	    /* events inside before the first outside one */
	uint64_t windows;		    /* closed ones, entry to exit */
	/* state of the walk */
	struct vcpu_turn turn;
	bool heard;		   /* it had events since the last gap */
	uint64_t entry, exit;	   /* host TSC of the last ones */
	uint64_t first_in, last_in; /* guest events in the open window, if `in` of them */
	uint64_t in;
	/* events inside that no figure counts yet: of the slice [run_from, run_from + run_len) */
	uint64_t run, run_from, run_len;
	uint64_t after, since; /* placed ones after the host's event at since, so far its last */
	/* events since the last exit: outside, if an entry comes next */
	uint64_t pending, pending_first, pending_last;
	uint64_t before;   /* events before the host's, if some can be placed later */
	bool placed;	   /* one had a place */
	size_t next;	   /* win_next()'s */
};

struct windows;

void win_new(const struct timeline *t, struct windows **out);
/*
 * Calls fn with each window of v as it ends, with v->entry and v->in of it, and the host TSC of its
 * exit. Windows that are not completely known are left out.
 */
void win_each(struct windows *w, void (*fn)(void *ctx, const struct win_vcpu *v, uint64_t exit),
	      void *ctx);
/* Feeds the items of a timeline in order. */
void win_feed(void *windows, const struct tl_item *item);
/*
 * Instead: an event of a host came after newer ones of others. What was outside meanwhile may
 * have been inside of windows that were not known yet.
 */
void win_late(struct windows *w);
bool win_was_late(const struct windows *w);
/* The check continues with another time line of the same captures, or of some: see tl_inherit(). */
void win_go_on(struct windows *w, const struct timeline *t);
/* To be called before figures are requested; more may be fed later. */
void win_finish(struct windows *w);
/* Those of one VM by id, after win_finish(): the one after v; NULL: the first; after the last. */
const struct win_vcpu *win_next(const struct windows *w, size_t vm, const struct win_vcpu *v);
#define win_each_vcpu(w, vm, v) \
	for (const struct win_vcpu *v = win_next(w, vm, NULL); v; v = win_next(w, vm, v))
/* All vCPUs of one VM together; vm -1: of all VMs. */
void win_total(const struct windows *w, int64_t vm, struct win_stats *s);
/* Hosts on the time line, and all vCPUs of one VM on number i of them. */
size_t win_hosts(const struct windows *w);
void win_host_total(const struct windows *w, size_t vm, size_t i, struct win_stats *s);
/* Slices of time: number i is [from + i * width, from + (i + 1) * width), in host TSC. */
void win_slices(const struct windows *w, uint64_t *from, uint64_t *width);
/* Adds the figures of b to a; the smaller slack of both counts. */
void win_stats_add(struct win_stats *a, const struct win_stats *b);
void win_free(struct windows *w);

/*
 * The TSC offset of a guest from nothing but two captures: the one that puts its events
 * into the entry..exit windows of its vCPUs.
 *
 * Accesses of MSRs that both sides traced narrow the search if there are any: the host handles such
 * an access before the guest's event of it, and usually shortly before.
 *
 * Large amounts of events are thinned, so memory is bounded: they are dropped evenly.
 */

struct solve;

struct solve_result {
	bool found;
	uint64_t offset; /* middle of the widest stretch that fits equally well; wraps */
	uint64_t offset_lo, offset_hi; /* smallest and greatest that fit; some between them may
				        * not */
	uint64_t events;	    /* that were used, out of all in the capture */
	uint64_t inside, outside;   /* of those; the rest is outside all known time */
	/* How unique it is. */
	uint64_t span;		    /* guest cycles of offsets that were searched */
	uint64_t equal;		    /* other places in the span that leave no more outside */
	bool has_next;		    /* the best of all other places ... */
	int64_t next_distance;	    /* ... is this far away, guest cycles */
	uint64_t next_inside, next_outside;
	uint64_t pairs;		    /* the search was narrowed by so many pairs by value; 0 = not */
	bool has_most;		    /* by pairs the offset is at most this, whether it was found
				     * or not */
	uint64_t at_most;
	const char *why;	    /* !found: a line of text */
};

/* An empty problem. map: ratio and fraction bits of the guest (its offset is ignored). */
void solve_new(const struct tsc_map *map, struct solve **out);
/*
 * In time order per vCPU: the guest of that vCPU may have run from entry to exit, host TSC. Windows
 * that touch or overlap the previous one are joined with it.
 */
void solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit);
/* An event of that vCPU, guest TSC; in any order. */
void solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest);
/* All runs of that thread alone, as windows of that vCPU; tid 0: none. */
void solve_set_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid);
/*
 * All events of a capture whose stamps are exact (own_tsc_is_exact()), and all pairs of both sides;
 * after the threads.
 */
int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt) __must_check;
/*
 * The problem of one guest: the runs of a VM's threads and the events of such a capture.
 * *out is to be freed whatever is returned: 0 or -errno.
 */
int solve_captures(const struct tsc_map *scale, const struct hostmap *map, size_t vm,
		   const struct runs *runs, const struct capture *cap, const struct fmt *fmt,
		   struct solve **out) __must_check;
/* The host handled an access of that vCPU whose event the guest has at guest TSC `guest`. */
void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest);
#define SOLVE_ALL (-1)
/*
 * One offset for that vCPU alone, or SOLVE_ALL for one that fits all of them. After the last add;
 * may be called again. r->found or r->why.
 */
void solve_run(struct solve *s, int64_t vcpu, struct solve_result *r);
/* vCPUs with windows and events, in no order. */
size_t solve_vcpus(const struct solve *s);
uint32_t solve_vcpu_id(const struct solve *s, size_t i);
enum solve_fit { SOLVE_UNKNOWN, SOLVE_INSIDE, SOLVE_OUTSIDE };
/* What a result says about the events of a vCPU. */
struct solve_counts {
	uint64_t inside, outside; /* the rest is outside all known time */
	int64_t from, to;	  /* host times between which some are inside; from > to: none */
	/*
	 * Without a place, before or after those that it fits, though the vCPU ran on the host
	 * without a guest event there: its clock may have been moved, and where to is not known.
	 */
	uint64_t left;
};
/* Of vCPU number i. After a run. */
void solve_count(const struct solve *s, size_t i, const struct solve_result *r,
		 struct solve_counts *c);
/*
 * The events of vCPU number i, if none of them is in the time known of it, though the vCPU ran
 * again and again between all->from and all->to, where some should be; else 0.
 */
uint64_t solve_absent(const struct solve *s, size_t i, const struct solve_counts *c,
		      const struct solve_counts *all);
void solve_free(struct solve *s);

/*
 * All TSC offsets of a guest, as far as events reveal them: one for all vCPUs; if none
 * fits all, one for each.
 */

struct solution_vcpu {
	uint32_t id;
	struct solve_result r;
	uint64_t left; /* events without a place, though the vCPU ran: it may have changed */
};

/* Zero-initialised; freed with solution_free(). */
struct solution {
	bool tried;
	struct tsc_map map;	/* ratio and fraction bits taken; its offset is not used */
	struct solve_result r;	/* for all vCPUs; or, with own, the one with most witnesses; or
				 * r.why */
	struct solution_vcpu *own; /* vCPUs that one offset for all does not fit */
	size_t n_own, own_cap;
	uint64_t rest, rest_outside; /* of other vCPUs by r, and those it does not fit */
	uint32_t missed; /* one of these with such events ... */
	const char *missed_why; /* why it has no offset of its own; NULL: no vCPU is missed */
};

/* What the events of s show: out->r.found or out->r.why. */
void solution_find(struct solve *s, const struct tsc_map *map, struct solution *out);
/* The same for vCPU number i, added to out->own if it is sure. */
void solution_find_vcpu(struct solve *s, size_t i, struct solution *out);
/* What is known about a vCPU from elsewhere. */
void solution_add(struct solution *out, uint32_t vcpu, const struct solve_result *r);
/* Makes s->own what holds for vCPUs about which nothing is known. */
void solution_fill(const struct solution *s, struct hostmap *map, size_t vm);
/* Found, unique, and no event of any vCPU is outside: can be relied upon without a human look. */
bool solution_is_sure(const struct solution *s);
/* Events that it was found with, and how many of these are outside. */
void solution_count(const struct solution *s, uint64_t *events, uint64_t *outside);
/* By how much any of the offsets may be wrong, host cycles; 0: nothing was found. */
uint64_t solution_bound(const struct solution *s);
/* Makes it hold for VM number vm of the map: vCPUs 0..ncpu-1 and those known. */
void solution_force(const struct solution *s, struct hostmap *map, size_t vm, size_t ncpu);
void solution_free(struct solution *s);

/*
 * How well one guest is aligned with its host: what the windows say, in numbers, and the
 * verdict. All distances are host cycles; a shift is what would have to be added to the host times
 * of all guest events.
 */

struct align {
	struct win_stats total;
	uint64_t windows;	/* that were closed, of this VM */
	unsigned int share;	/* of the events not apart: percentage that could be checked */
	size_t vcpus_blind;	/* vCPUs with events, none of which could be checked */
	/* Shifts that leave every event inside; if lo <= 0 <= hi, they bound the error. */
	bool has_shift;
	int64_t shift_lo, shift_hi;
	/*
	 * Rates at which the guest's clock could run away, in parts per 10^9, without an event
	 * leaving its window in any slice of time. hi < lo: no steady rate explains what was seen.
	 */
	bool has_drift;
	int64_t drift_lo, drift_hi;
	/* Outside events: how many vCPUs have some, host TSC of the first and last one. */
	size_t vcpus, vcpus_bad;
	uint32_t bad_vcpu;	/* one of them */
	uint64_t bad_from, bad_to;
	uint64_t bad_inside;	/* events inside on those vCPUs ... */
	uint64_t bad_after_good; /* ... of these, before their first outside one */
};

/* Below this share, too much could not be checked for a verdict. */
#define ALIGN_MIN_SHARE 75
/* After win_finish(). */
void align_measure(const struct windows *w, size_t vm, struct align *a);

/* ---- the verdict ---- */

enum align_kind { ALIGN_OK, ALIGN_BAD, ALIGN_UNKNOWN };
extern const char *const align_names[]; /* "aligned", "misaligned", "cannot-tell" */

/* All evidence for an alignment or against it. */
struct proof_facts {
	const struct align *windows;
	const struct msr_pair_stats *deadlines; /* NULL: neither side shows any */
	const struct solution *solved; /* its offset comes from the events; NULL: it was known */
	bool elsewhere;		       /* it was known, but the events ask for another one */
	bool off_record; /* given by hand although the windows hold for the recorded one as well */
};

/* The verdict: made only here, and final. */
enum align_kind proof_judge(const struct proof_facts *f);
