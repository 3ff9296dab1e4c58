/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_hist.c: engine 1, the kernel counts. A hist trigger on kvm_exit adds one to a cell of a map
 * in the kernel; the event itself is not enabled, so nothing is written to a ring, and nothing
 * happens here until the counts are to be shown.
 *
 * The map of counts is not cleared after reading, because exits between the two would get lost: the
 * count of an interval is a difference, exact to the last exit. Only when the threads of ended VMs
 * have filled it is it emptied.
 *
 * Times need four more triggers. kvm_exit keeps stamp and reason per thread; kvm_entry takes the
 * difference and raises a synthetic event of our own, which has a map of sums, read like the
 * counts, and one of maxima. A maximum is no difference, so each interval has a new map of them:
 * the next exists before the last is read and removed. (Clearing it is impossible: the kernel takes
 * the variable in the command for a second one of that name.)
 *
 * For --latency the map of sums also has the logarithm of the time as a key, so that its cells are
 * buckets. Wake-ups are timed like exits, by a synthetic event of their own; for halts
 * kvm_vcpu_wakeup itself has the time.
 */
#include "exits.h"

#define REASONS_GUESS 48u     /* that a vCPU has in its life; 20 are usual */
#define MAP_MIN	      4096u   /* cells ... */
#define MAP_MAX	      131072u /* ... TRACING_MAP_BITS_MAX of kernel/trace/tracing_map.h */
#define RING_KB	      64u     /* not used */

/* The kernel's names of maps: those of an event, and of the two maxima, must differ. */
#define COUNT_MAP "common_pid,exit_reason"
#define SUM_MAP	  "pid,reason:vals=hitcount,lat"
#define SPREAD_MAP "pid,reason,lat.log2:vals=hitcount,lat"
#define WAKE_MAP  "pid,lat.log2:vals=hitcount,lat"
#define HALT_MAP  "common_pid,ns.log2:vals=hitcount,ns"
#define BUCKETS_GUESS 8u /* that a reason has */

/* An exit that fails this has no time; its count is elsewhere. */
#define SANE_LAT " if " KSYNTH_LAT_SANE

static const char *const max_map[] = { "reason,pid:vals=hitcount", "pid,reason:vals=hitcount" };

struct exits_hist {
	uint64_t size;	      /* cells of a map */
	uint64_t cells;	      /* of the map of sums */
	char synth[64];	      /* name of our synthetic event; "" = none */
	char synth_wake[64];  /* likewise, for wake-ups */
	bool spreads, halts;
	unsigned int turn;    /* which map of maxima counts */
	bool last;	      /* read() is called for the last time */
	/* what the maps had dropped at the last reading */
	uint64_t dropped, sum_dropped;
};

/* ---- setting up ---- */

static uint64_t map_size(const struct exits_run *x)
{
	uint64_t want = exits_who_count() * REASONS_GUESS, size = MAP_MIN;

	if (x->c->map_size.set) {
		want = x->c->map_size.v;
		size = 128;
	}
	while (size < want && size < MAP_MAX)
		size *= 2;
	return size;
}

static int trigger(struct exits_run *x, const char *sys, const char *name, const char *text)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add(&b, text);
	if (x->target.filter[0] && !strcmp(sys, "kvm"))
		sbuf_addf(&b, " if %s", x->target.filter);
	return kinst_trigger_add(x->k, sys, name, xsbuf_text(&b), x->err);
}

static void max_trigger(const struct exits_hist *h, unsigned int turn, char *buf, size_t size)
{
	snprintf(buf, size, "hist:keys=%s:size=%" PRIu64 ":m%u=lat:onmax($m%u).save(lat)" SANE_LAT,
		 max_map[turn], h->size, turn, turn);
}

static void sum_trigger(const struct exits_hist *h, const char *more, char *buf, size_t size)
{
	snprintf(buf, size, "hist:keys=%s:size=%" PRIu64 "%s" SANE_LAT,
		 h->spreads ? SPREAD_MAP : SUM_MAP, h->cells, more);
}

static void count_trigger(const struct exits_hist *h, const char *more, char *buf, size_t size)
{
	snprintf(buf, size, "hist:keys=" COUNT_MAP ":size=%" PRIu64 "%s", h->size, more);
}

/* Who wakes knows whom: all threads of the host have a cell, as any may run a vCPU. */
static int start_wakes(struct exits_run *x)
{
	struct exits_hist *h = x->hist;
	char text[256];
	int ret;

	if (!x->waking)
		return 0;
	ret = ksynth_add(x->t, 1, "int pid; u64 lat", h->synth_wake, sizeof(h->synth_wake), x->err);
	if (ret) {
		h->synth_wake[0] = '\0';
		return ret;
	}
	snprintf(text, sizeof(text), "hist:keys=" WAKE_MAP ":size=%" PRIu64 SANE_LAT, h->size);
	ret = trigger(x, "synthetic", h->synth_wake, text);
	snprintf(text, sizeof(text), "hist:keys=pid:wts=common_timestamp:size=%u:clock=%s",
		 MAP_MAX / 4, x->clock);
	ret = ret ?: trigger(x, "sched", event_name(EV_WAKING), text);
	snprintf(text, sizeof(text),
		 "hist:keys=common_pid:wlat=common_timestamp-$wts:size=%" PRIu64 ":clock=%s:"
		 "onmatch(sched.%s).trace(%s,common_pid,$wlat)",
		 MAX(h->size / 16, (uint64_t)1024), x->clock, event_name(EV_WAKING), h->synth_wake);
	return ret ?: trigger(x, "kvm", "kvm_entry", text);
}

static int start_times(struct exits_run *x)
{
	struct exits_hist *h = x->hist;
	uint64_t threads = MAX(h->size / 16, (uint64_t)1024);
	char text[256];
	int ret;

	/* Types as in the fields of kvm_exit: the kernel compares them by name. */
	ret = ksynth_add(x->t, 0, "int pid; unsigned int reason; u64 lat", h->synth, sizeof(h->synth),
			 x->err);
	if (ret) {
		h->synth[0] = '\0';
		return ret;
	}
	sum_trigger(h, "", text, sizeof(text));
	ret = trigger(x, "synthetic", h->synth, text);
	max_trigger(h, h->turn, text, sizeof(text));
	ret = ret ?: trigger(x, "synthetic", h->synth, text);
	snprintf(text, sizeof(text),
		 "hist:keys=common_pid:ts0=common_timestamp,r0=exit_reason:size=%" PRIu64
		 ":clock=%s",
		 threads, x->clock);
	ret = ret ?: trigger(x, "kvm", "kvm_exit", text);
	snprintf(text, sizeof(text),
		 "hist:keys=common_pid:lat=common_timestamp-$ts0,r=$r0:size=%" PRIu64 ":clock=%s:"
		 "onmatch(kvm.kvm_exit).trace(%s,common_pid,$r,$lat)",
		 threads, x->clock, h->synth);
	return ret ?: trigger(x, "kvm", "kvm_entry", text);
}

static int read_times(struct exits_run *x, bool last, struct khist *h);

static int hist_start(struct exits_run *x)
{
	struct fmt_field reason;

	/* A kernel with two such fields would need a map of both. */
	if (!fmt_field(x->exit->ev, "exit_reason", &reason) || reason.off != x->exit->f[0].off)
		return err_lack(x->err, ENOENT,
				"kvm_exit of this kernel has no single field with "
				"the exit reason");
	/*
	 * The size has to be set before the first trigger: as long as no ring was given a size,
	 * older kernels (seen with 6.1) enlarge the main trace's ring at that moment.
	 */
	struct kinst_config c = { .clock = x->c->time ? x->clock : NULL, .buffer_kb = RING_KB,
				  .buffer_percent = -1 };
	struct exits_hist *h;
	struct khist times;
	char text[256];
	int ret;

	if (!kfeat_have(x->t, "hist-triggers"))
		return err_lack(x->err, ENOTSUP,
				"this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)");
	h = x->hist = xcalloc(1, sizeof(*h));
	h->size = h->cells = map_size(x);
	h->spreads = x->c->latency;
	if (h->spreads)
		h->cells = MIN(h->size * BUCKETS_GUESS, (uint64_t)MAP_MAX);
	c.pid = x->target.pids;
	c.npid = x->target.npids;
	c.event_fork = x->target.pid != 0;
	ret = kinst_create(x->t, &c, &x->k, x->err);
	/*
	 * Stamps are right only while the ring is on: otherwise a stamp of 0 would be kept, and the
	 * exit would seem to have lasted since boot. The events are not enabled, so it stays empty.
	 */
	if (!ret && x->c->time)
		ret = kinst_tracing(x->k, true, x->err);
	if (!ret && x->c->time)
		ret = start_times(x);
	count_trigger(h, "", text, sizeof(text));
	ret = ret ?: trigger(x, "kvm", "kvm_exit", text);
	/* What was timed while triggers were set is left out: else times are more than exits. */
	if (!ret && x->c->time)
		ret = read_times(x, false, &times);
	exits_baseline(&x->table);
	if (!ret && x->c->latency)
		ret = start_wakes(x);
	if (!ret && x->c->latency && x->wakeup) {
		snprintf(text, sizeof(text), "hist:keys=" HALT_MAP ":size=%" PRIu64, h->size);
		/* It does not name the vCPU: take_halt() asks the table. */
		ret = kinst_trigger_add(x->k, "kvm", event_name(EV_VCPU_WAKEUP), text, x->err);
		h->halts = !ret;
	}
	if (!ret)
		sbuf_addf(&x->engine_text,
			  "the kernel counts: hist triggers in %s, maps of %" PRIu64
			  " cells, nothing is recorded",
			  kinst_name(x->k), h->size);
	return ret;
}

static void hist_stop(struct exits_run *x)
{
	struct exits_hist *h = x->hist;

	kinst_end(x->k, x->note);
	x->k = NULL;
	for (unsigned int i = 0; h && i < 2; i++) {
		const char *name = i ? h->synth_wake : h->synth;

		if (name[0] && ksynth_remove(x->t, name))
			x->note("cannot remove the synthetic event %s (kvmft reset removes it later)",
				name);
	}
	free(h);
	x->hist = NULL;
}

/* ---- reading ---- */

static int hist_take_count(void *ctx, const struct khist_entry *e)
{
	struct exits_run *x = ctx;
	uint64_t tid, reason, n;

	if (!khist_get(e, "common_pid", &tid) || !khist_get(e, "exit_reason", &reason) ||
	    !khist_get(e, "hitcount", &n) || tid > UINT32_MAX || reason > UINT32_MAX)
		return -EBADMSG;
	exits_raw(&x->table, (uint32_t)tid, (uint32_t)reason, n);
	return 0;
}

/* A cell of a map with a logarithm among its keys, and the sum under its name, too. */
static int take_spread(struct exits_run *x, const struct khist_entry *e, const char *who,
		       const char *time, uint32_t fixed)
{
	uint64_t tid, reason = fixed, bucket = 0, n, total = 0;
	unsigned int seen = 0;

	for (size_t i = 0; i < e->n; i++)
		if (!strcmp(e->pair[i].name, time) && seen++ < 2)
			*(i < e->nkeys ? &bucket : &total) = e->pair[i].v;
	if (seen != 2 || !khist_get(e, who, &tid) || !khist_get(e, "hitcount", &n) ||
	    (!fixed && !khist_get(e, "reason", &reason)) || tid > UINT32_MAX || reason > UINT32_MAX ||
	    bucket > 64)
		return -EBADMSG;
	/* The vCPU is known by its exits. */
	if (!fixed || u64map_get(&x->table.by_tid, tid, NULL))
		exits_spread_raw(&x->table, (uint32_t)tid, (uint32_t)reason, (unsigned int)bucket,
				 n, total);
	return 0;
}

static int take_exit_spread(void *ctx, const struct khist_entry *e)
{
	return take_spread(ctx, e, "pid", "lat", 0);
}

static int take_wake(void *ctx, const struct khist_entry *e)
{
	return take_spread(ctx, e, "pid", "lat", EXITS_WAKE);
}

static int take_halt(void *ctx, const struct khist_entry *e)
{
	return take_spread(ctx, e, "common_pid", "ns", EXITS_HALT);
}

static int take_sum(void *ctx, const struct khist_entry *e)
{
	struct exits_run *x = ctx;
	uint64_t tid, reason, n, total;

	if (!khist_get(e, "pid", &tid) || !khist_get(e, "reason", &reason) ||
	    !khist_get(e, "hitcount", &n) || !khist_get(e, "lat", &total) || tid > UINT32_MAX ||
	    reason > UINT32_MAX)
		return -EBADMSG;
	exits_time_raw(&x->table, (uint32_t)tid, (uint32_t)reason, n, total);
	return 0;
}

static int take_max(void *ctx, const struct khist_entry *e)
{
	struct exits_run *x = ctx;
	uint64_t tid, reason, max;

	if (!khist_get(e, "pid", &tid) || !khist_get(e, "reason", &reason) ||
	    !khist_get(e, "max", &max) || tid > UINT32_MAX || reason > UINT32_MAX)
		return -EBADMSG;
	exits_time_add(&x->table, (uint32_t)tid, (uint32_t)reason, 0, 0, max);
	return 0;
}

static int read_map(struct exits_run *x, const char *sys, const char *event, const char *keys,
		    khist_fn fn, struct khist *h)
{
	int ret;

	khist_begin(h, keys, fn, x);
	ret = kinst_hist_walk(x->k, sys, event, h);
	if (!ret)
		return 0;
	return err_set(x->err, -ret, "cannot read the counts of %s:%s: %s%s", sys, event,
		       strerror(-ret),
		       ret == -EBADMSG ? " (not as any known kernel writes them)" : "");
}

static int read_max(struct exits_run *x)
{
	struct exits_hist *s = x->hist;
	unsigned int now = s->turn;
	char text[256];
	struct khist h;
	int ret = 0;

	if (!s->last) {
		s->turn = !now;
		max_trigger(s, s->turn, text, sizeof(text));
		ret = trigger(x, "synthetic", s->synth, text);
	}
	ret = ret ?: read_map(x, "synthetic", s->synth, max_map[now], take_max, &h);
	x->lost_time |= !ret && h.dropped;
	if (ret || s->last)
		return ret;
	max_trigger(s, now, text, sizeof(text));
	return kinst_trigger_remove(x->k, "synthetic", s->synth, text, x->err);
}

static int control(struct exits_run *x, bool sums, const char *what)
{
	struct exits_hist *h = x->hist;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char text[256];

	(sums ? sum_trigger : count_trigger)(h, what, text, sizeof(text));
	sbuf_add(&b, text);
	if (x->target.filter[0] && !sums)
		sbuf_addf(&b, " if %s", x->target.filter);
	return kinst_trigger(x->k, sums ? "synthetic" : "kvm", sums ? h->synth : "kvm_exit",
			     xsbuf_text(&b), x->err);
}

static int read_sums(struct exits_run *x, struct khist *h)
{
	int ret = x->c->latency ? read_map(x, "synthetic", x->hist->synth, SPREAD_MAP,
					   take_exit_spread, h) :
				  read_map(x, "synthetic", x->hist->synth, SUM_MAP, take_sum, h);

	x->lost_time |= !ret && h->dropped > x->hist->sum_dropped;
	x->hist->sum_dropped = ret ? 0 : h->dropped;
	return ret;
}

static int read_counts(struct exits_run *x, struct khist *h)
{
	int ret = read_map(x, "kvm", "kvm_exit", COUNT_MAP, hist_take_count, h);

	if (!ret && h->dropped > x->hist->dropped)
		x->lost += h->dropped - x->hist->dropped;
	x->hist->dropped = ret ? 0 : h->dropped;
	return ret;
}

static int empty_map(struct exits_run *x, bool sums, struct khist *h)
{
	int ret = control(x, sums, ":pause");

	if (!ret)
		ret = sums ? read_sums(x, h) : read_counts(x, h);
	ret = ret ?: control(x, sums, ":clear");
	return ret ?: control(x, sums, ":cont");
}

/* Exits go on meanwhile: sums are read last, so no maximum of a run is above its total. */
static int read_times(struct exits_run *x, bool last, struct khist *h)
{
	int ret = last ? read_max(x) : read_sums(x, h);

	return ret ?: last ? read_sums(x, h) : read_max(x);
}

static int hist_read(struct exits_run *x, bool last)
{
	struct khist h, other;
	uint64_t begin;
	char text[32];
	int ret = 0;

	x->hist->last = last;
	/* Times first: an exit is counted before it is timed, so there are never more times. */
	if (x->c->time)
		ret = read_times(x, last, &h);
	ret = ret ?: read_counts(x, &h);
	if (!ret && x->c->latency && x->hist->synth_wake[0]) {
		ret = read_map(x, "synthetic", x->hist->synth_wake, WAKE_MAP, take_wake, &other);
		x->lost_time |= !ret && other.dropped;
	}
	if (!ret && x->c->latency && x->hist->halts) {
		ret = read_map(x, "kvm", event_name(EV_VCPU_WAKEUP), HALT_MAP, take_halt, &other);
		x->lost_time |= !ret && other.dropped;
	}
	if (ret || last || h.entries <= x->hist->size / 4 * 3 ||
	    exits_ended(&x->table) <= h.entries / 4)
		return ret;
	/* The maps are full of threads that are gone; exits go uncounted while they are emptied. */
	begin = util_now_ns();
	ret = x->c->time ? empty_map(x, true, &other) : 0;
	ret = ret ?: empty_map(x, false, &other);
	if (ret)
		return ret;
	x->hist->dropped = x->hist->sum_dropped = 0;
	exits_raw_reset(&x->table);
	if (!x->screen.on)
		x->note("the kernel's map was full of ended VMs and was emptied: exits of %s are not "
			"counted",
			str_ns(text, sizeof(text), util_now_ns() - begin));
	x->lost_unknown = true;
	if (x->c->interval.set || x->c->top)
		exits_prune(&x->table);
	return 0;
}

const struct exits_engine exits_engine_hist = {
	.name = "kernel",
	.start = hist_start,
	.read = hist_read,
	.stop = hist_stop,
};
