/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hist.c: exits counted by the kernel, by thread, reason and RIP, in a hist trigger.
 *
 * The ring has what a look could read of it: of a guest that exits rarely too little, if the CPU
 * that it runs on has others that exit all the time. A map counts each exit of those it was made
 * for, whatever the others do. But it takes 1,120 instructions of a vCPU for each (the ring: 660),
 * and has 131,072 cells at most, of which one guest that works fills 2,000 in 5 s. So it is made
 * for vCPUs that the ring shows too little of, and these do not exit often.
 */
#include "room.h"

#define KEYS	     "common_pid,exit_reason,guest_rip"
#define CELLS_VCPU   2048u
#define CELLS_MIN    4096u
#define CELLS_MAX    131072u /* TRACING_MAP_BITS_MAX of kernel/trace/tracing_map.h */
#define SOME	     8u	     /* as a filter, which each exit of any vCPU has to pass */
#define ENOUGH_EXITS 100u    /* that were read of a vCPU: no more need to be counted */

static const char *hist_lacks(const struct stuck *s)
{
	const struct fmt_event *ev = s->ev.of[EV_EXIT].ev;
	struct fmt_field f;

	if (!kfeat_have(s->t, "hist-triggers"))
		return "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)";
	if (!ev || !fmt_field(ev, "exit_reason", &f) || !fmt_field(ev, "guest_rip", &f))
		return "kvm_exit of this kernel has not the fields exit_reason and guest_rip";
	return NULL;
}

/* Counts the exits of the n marked vCPUs, or of all, from now on. */
static int hist_begin(struct stuck *s, size_t n, bool all, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *before = " if ";
	uint64_t cells = CELLS_MIN;
	int ret;

	while (cells < n * CELLS_VCPU && cells < CELLS_MAX)
		cells *= 2;
	sbuf_addf(&b, "hist:keys=" KEYS ":size=%" PRIu64, cells);
	for (size_t i = 0; i < s->n && !all; i++)
		if (s->vcpu[i].obs.exact) {
			sbuf_addf(&b, "%scommon_pid==%" PRIu32, before, s->vcpu[i].vcpu->tid);
			before = "||";
		}
	ret = kinst_trigger_add(s->k, "kvm", event_name(EV_EXIT), xsbuf_text(&b), err);
	s->hist = !ret;
	s->hist_ns = util_now_ns();
	return ret;
}

static size_t mark(struct stuck *s, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct stuck_obs *o = &s->vcpu[i].obs;
		uint64_t seen = o->count[STUCK_SAMPLE] + o->count[STUCK_HLT] + o->count[STUCK_EXIT];

		/* One that sleeps elsewhere does not exit. */
		o->exact = s->vcpu[i].vcpu->tid && (all || (n < SOME && seen < ENOUGH_EXITS &&
							    o->at[STUCK_AT_CPU] > o->looks / 4));
		n += o->exact;
	}
	return n;
}

int stuck_hist_all(struct stuck *s)
{
	const char *why = hist_lacks(s);

	if (why)
		return err_lack(s->err, ENOTSUP, "--engine hist: %s", why);
	return hist_begin(s, mark(s, true), true, s->err);
}

static void unmark(struct stuck *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->vcpu[i].obs.exact = false;
}

void stuck_hist_some(struct stuck *s)
{
	struct kvmft_err none = { .text = "" };
	size_t n;

	if (hist_lacks(s) || !stuck_watch_lossy(s))
		return;
	n = mark(s, false);
	/* The ring goes on without it. */
	if (n && hist_begin(s, n, false, &none))
		unmark(s);
}

static int hist_count(void *ctx, const struct khist_entry *e)
{
	struct stuck *s = ctx;
	uint64_t tid, reason, rip, n, at;
	struct stuck_vcpu *c;

	if (!khist_get(e, "common_pid", &tid) || !khist_get(e, "exit_reason", &reason) ||
	    !khist_get(e, "guest_rip", &rip) || !khist_get(e, "hitcount", &n))
		return -EBADMSG;
	if (!u64map_get(&s->by_tid, tid, &at))
		return 0;
	c = &s->vcpu[at];
	stuck_watch_exit(s, c, exit_why(&s->ev.names, reason, session_isa(&s->ev.names)), rip, n);
	return 0;
}

int stuck_hist_read(struct stuck *s)
{
	if (!s->hist)
		return 0;
	s->hist_end_ns = util_now_ns();
	if (s->hist_end_ns - s->hist_ns >= s->ns / 4) {
		struct khist h;
		int ret;

		for (size_t i = 0; i < s->n; i++)
			if (s->vcpu[i].obs.exact)
				stuck_count_none(&s->vcpu[i].obs, STUCK_SAMPLE, STUCK_EXIT);
		khist_begin(&h, KEYS, hist_count, s);
		ret = kinst_hist_walk(s->k, "kvm", event_name(EV_EXIT), &h);
		for (size_t i = 0; i < s->n; i++)
			s->vcpu[i].obs.exits_ns = s->hist_end_ns - s->hist_ns;
		if (!ret && h.dropped)
			s->note("the kernel's map was full: %" PRIu64 " of %" PRIu64
				" exits were not counted",
				h.dropped, h.hits);
		return err_why(s->err, ret, "cannot read the counts of kvm_exit");
	}
	/* Creating it took too long: the ring covers more time. */
	unmark(s);
	return 0;
}
