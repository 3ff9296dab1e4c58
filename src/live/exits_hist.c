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
#define CELLS_MIN     4096u   /* cells ... */
#define CELLS_MAX     131072u /* ... TRACING_MAP_BITS_MAX of kernel/trace/tracing_map.h */
#define RING_KB	      64u     /* not used */

#define BUCKETS_GUESS 8u /* that a reason has */

/* An exit that fails this has no time; its count is elsewhere. */
#define SANE_LAT " if " KSYNTH_LAT_SANE

enum map_id { MAP_COUNT, MAP_SUM, MAP_SPREAD, MAP_WAKE, MAP_HALT, MAP_MAX, MAP_MAX2, MAPS };

/* The kernel's names of maps, those of an event differ, and which of a cell's numbers is what. */
static const struct {
	const char *keys, *who, *reason;
	uint32_t fixed;	  /* the reason, if that is no key */
	const char *time; /* the sum; also a key: its logarithm */
	bool log, max;
} maps[MAPS] = {
	[MAP_COUNT] = { "common_pid,exit_reason", "common_pid", "exit_reason" },
	[MAP_SUM] = { "pid,reason:vals=hitcount,lat", "pid", "reason", .time = "lat" },
	[MAP_SPREAD] = { "pid,reason,lat.log2:vals=hitcount,lat", "pid", "reason", .time = "lat",
			 .log = true },
	[MAP_WAKE] = { "pid,lat.log2:vals=hitcount,lat", "pid", .fixed = EXITS_WAKE, .time = "lat",
		       .log = true },
	[MAP_HALT] = { "common_pid,ns.log2:vals=hitcount,ns", "common_pid", .fixed = EXITS_HALT,
		       .time = "ns", .log = true },
	[MAP_MAX] = { "reason,pid:vals=hitcount", "pid", "reason", .max = true },
	[MAP_MAX2] = { "pid,reason:vals=hitcount", "pid", "reason", .max = true },
};

struct exits_hist {
	uint64_t size;	      /* cells of a map */
	uint64_t cells;	      /* of the map of sums, ... */
	enum map_id sums;     /* ... which is this one */
	char synth[64];	      /* name of our synthetic event; "" = none */
	char synth_wake[64];  /* likewise, for wake-ups */
	bool halts;
	enum map_id max;      /* which map of maxima counts */
	bool last;	      /* read() is called for the last time */
	struct map_read {
		struct exits_run *x;
		enum map_id id;
		uint64_t entries, dropped; /* at the last reading */
	} read[MAPS];
};

/* ---- setting up ---- */

static uint64_t map_size(const struct exits_run *x)
{
	uint64_t want = exits_who_count() * REASONS_GUESS, size = CELLS_MIN;

	if (x->c->map_size.set) {
		want = x->c->map_size.v;
		size = 128;
	}
	while (size < want && size < CELLS_MAX)
		size *= 2;
	return size;
}

typedef int (*trigger_fn)(struct kinst *k, const char *sys, const char *name, const char *text,
			  struct kvmft_err *err);

/* KVM's events have the target's filter, if they name the vCPU. */
static int hist_on(struct exits_run *x, trigger_fn set, const char *sys, const char *name,
		   const char *text)
{
	bool all = !x->target.filter[0] || strcmp(sys, "kvm") ||
		   !strcmp(name, event_name(EV_VCPU_WAKEUP));

	return set(x->k, sys, name, all ? text : TEXTF("%s if %s", text, x->target.filter), x->err);
}

static const char *map_sys(enum map_id id)
{
	return id == MAP_COUNT || id == MAP_HALT ? "kvm" : "synthetic";
}

static const char *map_event(const struct exits_run *x, enum map_id id)
{
	return id == MAP_COUNT  ? "kvm_exit"
	       : id == MAP_HALT ? event_name(EV_VCPU_WAKEUP)
	       : id == MAP_WAKE ? x->hist->synth_wake
				: x->hist->synth;
}

static int map_set(struct exits_run *x, trigger_fn set, enum map_id id, const char *more)
{
	const struct exits_hist *h = x->hist;
	const unsigned int turn = id - MAP_MAX;

	more = maps[id].max ? TEXTF(":m%u=lat:onmax($m%u).save(lat)", turn, turn) : more;
	return hist_on(x, set, map_sys(id), map_event(x, id),
		       TEXTF("hist:keys=%s:size=%" PRIu64 "%s%s", maps[id].keys,
			     id == h->sums ? h->cells : h->size, more,
			     id == MAP_COUNT || id == MAP_HALT ? "" : SANE_LAT));
}

/* Who wakes knows whom: all threads of the host have a cell, as any may run a vCPU. */
static int start_wakes(struct exits_run *x)
{
	struct exits_hist *h = x->hist;
	int ret;

	if (!x->waking)
		return 0;
	ret = ksynth_add(x->t, 1, "int pid; u64 lat", h->synth_wake, sizeof(h->synth_wake), x->err);
	if (ret) {
		h->synth_wake[0] = '\0';
		return ret;
	}
	ret = map_set(x, kinst_trigger_add, MAP_WAKE, "");
	ret = ret ?: hist_on(x, kinst_trigger_add, "sched", event_name(EV_WAKING),
			     TEXTF("hist:keys=pid:wts=common_timestamp:size=%u:clock=%s",
				   CELLS_MAX / 4, x->clock));
	return ret ?: hist_on(x, kinst_trigger_add, "kvm", "kvm_entry",
			      TEXTF("hist:keys=common_pid:wlat=common_timestamp-$wts:size=%" PRIu64
				    ":clock=%s:onmatch(sched.%s).trace(%s,common_pid,$wlat)",
				    MAX(h->size / 16, (uint64_t)1024), x->clock,
				    event_name(EV_WAKING), h->synth_wake));
}

static int start_times(struct exits_run *x)
{
	struct exits_hist *h = x->hist;
	uint64_t threads = MAX(h->size / 16, (uint64_t)1024);
	int ret;

	/* Types as in the fields of kvm_exit: the kernel compares them by name. */
	ret = ksynth_add(x->t, 0, "int pid; unsigned int reason; u64 lat", h->synth, sizeof(h->synth),
			 x->err);
	if (ret) {
		h->synth[0] = '\0';
		return ret;
	}
	ret = map_set(x, kinst_trigger_add, h->sums, "");
	ret = ret ?: map_set(x, kinst_trigger_add, h->max, "");
	ret = ret ?: hist_on(x, kinst_trigger_add, "kvm", "kvm_exit",
			     TEXTF("hist:keys=common_pid:ts0=common_timestamp,r0=exit_reason:size=%"
				   PRIu64 ":clock=%s", threads, x->clock));
	return ret ?: hist_on(x, kinst_trigger_add, "kvm", "kvm_entry",
			      TEXTF("hist:keys=common_pid:lat=common_timestamp-$ts0,r=$r0:size=%"
				    PRIu64 ":clock=%s:onmatch(kvm.kvm_exit)"
				    ".trace(%s,common_pid,$r,$lat)", threads, x->clock, h->synth));
}

static int read_times(struct exits_run *x, bool last);

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
	int ret;

	if (!kfeat_have(x->t, "hist-triggers"))
		return err_lack(x->err, ENOTSUP,
				"this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)");
	h = x->hist = xcalloc(1, sizeof(*h));
	h->size = h->cells = map_size(x);
	h->sums = x->c->latency ? MAP_SPREAD : MAP_SUM;
	h->max = MAP_MAX;
	if (x->c->latency)
		h->cells = MIN(h->size * BUCKETS_GUESS, (uint64_t)CELLS_MAX);
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
	ret = ret ?: map_set(x, kinst_trigger_add, MAP_COUNT, "");
	/* What was timed while triggers were set is left out: else times are more than exits. */
	if (!ret && x->c->time)
		ret = read_times(x, false);
	exits_baseline(&x->table);
	if (!ret && x->c->latency)
		ret = start_wakes(x);
	if (!ret && x->c->latency && x->wakeup) {
		/* It does not name the vCPU: take_cell() asks the table. */
		ret = map_set(x, kinst_trigger_add, MAP_HALT, "");
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

static int take_cell(void *ctx, const struct khist_entry *e)
{
	const struct map_read *r = ctx;
	const enum map_id id = r->id;
	struct exits *t = &r->x->table;
	uint64_t tid, reason = maps[id].fixed, n, num[2] = { 0 }; /* logarithm, sum */
	size_t seen = 0, want = !maps[id].time ? 0 : maps[id].log ? 2 : 1;

	for (size_t i = 0; i < e->n && want; i++)
		if (!strcmp(e->pair[i].name, maps[id].time) && seen++ < 2)
			num[want == 1 || i >= e->nkeys] = e->pair[i].v;
	if (seen != want || !khist_get(e, maps[id].who, &tid) || tid > UINT32_MAX ||
	    (maps[id].reason && !khist_get(e, maps[id].reason, &reason)) || reason > UINT32_MAX ||
	    !khist_get(e, maps[id].max ? "max" : "hitcount", &n) || num[0] > 64)
		return -EBADMSG;
	if (maps[id].max)
		exits_time_add(t, (uint32_t)tid, (uint32_t)reason, 0, 0, n);
	else if (!want)
		exits_raw(t, (uint32_t)tid, (uint32_t)reason, n);
	else if (want == 1)
		exits_time_raw(t, (uint32_t)tid, (uint32_t)reason, n, num[1]);
	else if (maps[id].reason || u64map_get(&t->by_tid, tid, NULL)) /* a vCPU, by its exits */
		exits_spread_raw(t, (uint32_t)tid, (uint32_t)reason, (unsigned int)num[0], n,
				 num[1]);
	return 0;
}

static int read_map(struct exits_run *x, enum map_id id)
{
	struct map_read *r = &x->hist->read[id];
	struct khist h;
	int ret;

	r->x = x;
	r->id = id;
	khist_begin(&h, maps[id].keys, take_cell, r);
	ret = kinst_hist_walk(x->k, map_sys(id), map_event(x, id), &h);
	if (!ret && h.dropped > r->dropped) {
		x->lost += id == MAP_COUNT ? h.dropped - r->dropped : 0;
		x->lost_time |= id != MAP_COUNT;
	}
	r->dropped = ret ? 0 : h.dropped;
	r->entries = h.entries;
	if (!ret)
		return 0;
	return err_set(x->err, -ret, "cannot read the counts of %s:%s: %s%s", map_sys(id),
		       map_event(x, id), strerror(-ret),
		       ret == -EBADMSG ? " (not as any known kernel writes them)" : "");
}

static int read_max(struct exits_run *x)
{
	struct exits_hist *h = x->hist;
	enum map_id now = h->max;
	int ret = 0;

	if (!h->last) {
		h->max = now == MAP_MAX ? MAP_MAX2 : MAP_MAX;
		ret = map_set(x, kinst_trigger_add, h->max, "");
	}
	ret = ret ?: read_map(x, now);
	return ret || h->last ? ret : map_set(x, kinst_trigger_remove, now, "");
}

static int empty_map(struct exits_run *x, enum map_id id)
{
	int ret = map_set(x, kinst_trigger, id, ":pause");

	ret = ret ?: read_map(x, id);
	ret = ret ?: map_set(x, kinst_trigger, id, ":clear");
	x->hist->read[id].dropped = 0;
	return ret ?: map_set(x, kinst_trigger, id, ":cont");
}

/* Exits go on meanwhile: sums are read last, so no maximum of a run is above its total. */
static int read_times(struct exits_run *x, bool last)
{
	int ret = last ? read_max(x) : read_map(x, x->hist->sums);

	return ret ?: last ? read_map(x, x->hist->sums) : read_max(x);
}

static int hist_read(struct exits_run *x, bool last)
{
	struct exits_hist *h = x->hist;
	uint64_t begin;
	char text[32];
	int ret = 0;

	h->last = last;
	/* Times first: an exit is counted before it is timed, so there are never more times. */
	if (x->c->time)
		ret = read_times(x, last);
	ret = ret ?: read_map(x, MAP_COUNT);
	if (!ret && h->synth_wake[0])
		ret = read_map(x, MAP_WAKE);
	if (!ret && h->halts)
		ret = read_map(x, MAP_HALT);
	if (ret || last || h->read[MAP_COUNT].entries <= h->size / 4 * 3 ||
	    exits_ended(&x->table) <= h->read[MAP_COUNT].entries / 4)
		return ret;
	/* The maps are full of threads that are gone; exits go uncounted while they are emptied. */
	begin = util_now_ns();
	ret = x->c->time ? empty_map(x, h->sums) : 0;
	ret = ret ?: empty_map(x, MAP_COUNT);
	if (ret)
		return ret;
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
