/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_drain.c: engine 2, for kernels without hist triggers. The events are recorded into a ring
 * of our own, read every few milliseconds and counted here. Counts need no order; times need exit
 * and entry of a thread in order over CPUs.
 */
#include "exits.h"

#define SUBBUF_KB 64u
#define TICK_MS	  20u
#define WOKEN_MAX 32768u /* as many as the kernel's map has */

struct exits_drain {
	struct kcpus cpus;
	struct live *live;
	struct exits_handling pair;
	struct u64map woken; /* by thread: when, plus 1; 0: never */
	uint64_t damaged;    /* events */
};

/* ---- setting up ---- */

static int drain_start(struct exits_run *x)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct exits_drain *d;
	int ret;

	d = x->drain = xcalloc(1, sizeof(*x->drain));
	ret = kcpus_read(KCPU_POSSIBLE, &d->cpus);
	if (ret)
		return err_why(x->err, ret, "cannot read the list of CPUs");
	if (!x->exit->f[0].size && !x->steal)
		return err_lack(x->err, ENOENT,
				"kvm_exit of this kernel has no field with the exit "
				"reason: not a machine that kvmft knows?");
	d->pair.e = &x->table;
	c.clock = x->clock;
	c.subbuf_kb = SUBBUF_KB;
	c.buffer_kb = session_buffer_kb(d->cpus.n);
	c.record_cmd = false;
	if (!x->steal) {
		c.pid = x->target.pids;
		c.npid = x->target.npids;
		c.event_fork = x->target.pid != 0;
	}
	ret = kinst_create(x->t, &c, &x->k, x->err);
	for (size_t i = 0; i < x->events.n && x->target.filter[0]; i++) {
		struct kevent *e = &x->events.v[i];

		/* Those of wake-ups do not name the vCPU; the table does. */
		if (strcmp(e->sys, fmt_sys(x->exit->ev)) ||
		    !strcmp(e->name, event_name(EV_VCPU_WAKEUP)))
			continue;
		e->filter = xstrdup(x->target.filter);
	}
	ret = ret ?: kinst_events_add(x->k, &x->events, x->err);
	ret = ret ?: live_open(x->k, &d->cpus, x->c->time || x->steal, &d->live, x->err);
	ret = ret ?: kinst_tracing(x->k, true, x->err);
	ret = ret ?: kinst_events_enable(x->k, x->err);
	if (!ret)
		sbuf_addf(&x->engine_text,
			  "kvmft counts: events recorded in %s, %" PRIu64 " KB per CPU, "
			  "read every %u ms",
			  kinst_name(x->k), kinst_buffer_kb(x->k), TICK_MS);
	return ret;
}

static void drain_stop(struct exits_run *x)
{
	struct exits_drain *d = x->drain;

	if (d) {
		live_free(d->live);
		exits_handling_free(&d->pair);
		u64map_free(&d->woken);
		kcpus_free(&d->cpus);
		free(d);
	}
	x->drain = NULL;
	kinst_end(x->k, x->note);
	x->k = NULL;
}

/* ---- counting ---- */

/* The event names the vCPU: better than anything found elsewhere. */
static void take_vcpu(struct exits_run *x, const struct rec *rec, const struct fmt_field *field,
		      uint32_t tid)
{
	size_t at = exits_thread(&x->table, tid);
	uint64_t vcpu;

	if (x->table.thread[at].vcpu == EXITS_NONE && fmt_u64(field, rec, &vcpu) &&
	    vcpu < EXITS_NONE)
		x->table.thread[at].vcpu = (uint32_t)vcpu;
}

static void take_event(struct exits_run *x, const struct rec *rec)
{
	struct exits_drain *d = x->drain;
	const struct event_type *e = event_type_of(fmt_by_id(x->fmt, rec->id));
	int32_t tid = fmt_pid(x->fmt, rec);
	uint64_t first;

	if (e->role == EV_WAKING && e->have) {
		uint64_t woken = event_u64(e, 0, rec);

		/* Beyond this number only threads that run vCPUs are remembered. */
		if (d->woken.n < WOKEN_MAX || u64map_get(&d->woken, woken, NULL))
			xu64map_put(&d->woken, woken, rec->ts + 1);
	} else if (tid <= 0) {
		return;
	} else if (e->role == EV_VCPU_WAKEUP && e->have) {
		/* It does not name the vCPU, which is known by its exits. */
		if (u64map_get(&x->table.by_tid, (uint32_t)tid, NULL))
			exits_time_one(&x->table, (uint32_t)tid, EXITS_HALT,
				       event_u64(e, 0, rec));
	} else if (e->role == EV_EXIT && !fmt_u64(&x->exit->f[0], rec, &first)) {
		d->damaged++;
	} else if (e->role == EV_EXIT) {
		size_t threads = x->table.nthread;
		uint32_t reason = exit_why(&x->names, first, event_u64(x->exit, 1, rec)).reason;

		exits_add(&x->table, (uint32_t)tid, reason, 1);
		if (x->c->time)
			exits_handling_exit(&d->pair, (uint32_t)tid, rec->ts, reason);
		if (x->table.nthread != threads)
			take_vcpu(x, rec, &x->exit->f[3], (uint32_t)tid);
	} else if (x->c->time && e->role == EV_ENTRY) {
		uint64_t *woken = x->waking ? xu64map_at(&d->woken, (uint32_t)tid) : NULL;

		if (!x->exit->f[3].size) /* before Linux 5.10 only the entry has it */
			take_vcpu(x, rec, &e->f[0], (uint32_t)tid);
		exits_handling_entry(&d->pair, (uint32_t)tid, rec->ts);
		if (woken && *woken && rec->ts >= *woken - 1)
			exits_time_one(&x->table, (uint32_t)tid, EXITS_WAKE,
				       rec->ts - (*woken - 1));
		if (woken)
			*woken = 0;
	}
}

/* once: what there is now, else until nothing is left. */
static int exits_drain_all(struct exits_run *x, bool last, bool once)
{
	struct exits_drain *d = x->drain;
	const struct live_item *item;
	int more;

	do {
		more = live_read(d->live, last);
		while (more >= 0 && (item = live_next(d->live)))
			if (x->steal) {
				exits_steal_take(x, item);
			} else if (item->kind == R_EVENT) {
				take_event(x, &item->rec);
			} else {
				/* What was woken before may have entered unseen. */
				exits_handling_gap(&d->pair);
				for (size_t i = 0; i < d->woken.cap; i++)
					d->woken.slot[i].val = 0;
			}
	} while (more > 0 && !once);
	return err_why(x->err, MIN(more, 0), "cannot read the ring");
}

static int drain_tick(struct exits_run *x)
{
	return exits_drain_all(x, false, true);
}

static int exits_drain_read(struct exits_run *x, bool last)
{
	struct exits_drain *d = x->drain;
	const struct live_totals *in_band = live_totals(d->live);
	const uint64_t now = x->steal ? exits_steal_now(x) : 0;
	int ret = last ? kinst_events_disable(x->k) : 0;

	if (ret)
		return err_why(x->err, ret, "cannot disable the events");
	ret = exits_drain_all(x, last, !last);
	if (x->steal) {
		/* The second gives out what the first has read: all that there was until now. */
		ret = ret ?: exits_drain_all(x, last, !last);
		steal_read(&x->taken, now);
		exits_steal_limits(x);
		x->lost_unknown |= x->taken.odd || x->taken.gaps;
	}
	x->lost = session_lost(x->k, &d->cpus, NULL);
	x->lost = MAX(x->lost, in_band->lost + in_band->lost_unknown);
	x->lost_unknown |= d->damaged || in_band->damaged;
	return ret;
}

const struct exits_engine exits_engine_drain = {
	.name = "user",
	.tick_ms = TICK_MS,
	.start = drain_start,
	.tick = drain_tick,
	.read = exits_drain_read,
	.stop = drain_stop,
};
