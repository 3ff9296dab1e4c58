/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * windows.h: the alignment check. A guest event on vCPU n can only have happened between a
 * kvm_entry and the next kvm_exit of that vCPU's thread: the entry is stamped before the guest
 * runs, the exit after it stopped (and if the host's interrupts are recorded, the first one that
 * the thread takes shows the exit sooner). With a right conversion no event is outside; and how far
 * the guest's clock could be moved before one would be is the bound of the error.
 */
#pragma once

#include "kvmft/timeline.h"
#include "kvmft/vcpu_turn.h"

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
void win_feed(struct windows *w, const struct tl_item *item);
/*
 * Instead: an event of a host came after newer ones of others. What was outside meanwhile may have been inside of
 * windows that were not known yet.
 */
void win_late(struct windows *w);
bool win_was_late(const struct windows *w);
/* The check continues with another time line of the same captures, or of some: see tl_inherit(). */
void win_go_on(struct windows *w, const struct timeline *t);
/* To be called before figures are requested; more may be fed later. */
void win_finish(struct windows *w);
size_t win_count(const struct windows *w);
const struct win_vcpu *win_vcpu(const struct windows *w, size_t i);
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
