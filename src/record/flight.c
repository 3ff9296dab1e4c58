/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flight.c: the flight recorder. The kernel's ring overwrites itself and is not drained; on a
 * signal or a trigger it is written out as one segment, and recording continues.
 *
 * The trigger is the kernel's own if possible: `traceoff` on the event, which stops the ring at
 * that very event; we notice within 100 ms, write the ring out and switch it on again. Before Linux
 * 5.18 that trigger stopped the machine's main trace instead of the instance it was set in, and
 * must not be used; then a second, tiny instance gets only that event, and we check whether it
 * holds something, up to 100 ms late. Markers of programs are not events that could have a trigger:
 * they are handled the same way.
 */
#include "record.h"

#include <sys/utsname.h>

int record_flight_check(struct record *r)
{
	const struct record_config *c = r->c;
	int ret = record_before_check(r);

	if (ret || !c->trigger)
		return ret;
	if (!c->flight)
		return err_usage(r->err, "option --trigger needs --flight-recorder");
	if (record_trigger_is_longer(r))
		return record_trigger_longer_check(r);
	if (record_trigger_is_marker(r))
		return 0;
	ret = kevent_expand(r->t, c->trigger, &r->flight.on, r->err);
	if (!ret && r->flight.on.n != 1)
		return err_usage(r->err, "option --trigger: '%s' is %zu events, it must be one",
				 c->trigger, r->flight.on.n);
	return ret;
}

static bool traceoff_is_ours(void)
{
	unsigned int major, minor;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 18));
}

static int arm_watch(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	c.buffer_kb = RECORD_WATCH_KB;
	c.pid = r->tids.v;
	c.npid = r->tids.n;
	c.event_fork = r->tids.n != 0;
	ret = kinst_create(r->t, &c, &r->flight.watch, r->err);
	ret = ret ?: kinst_events_add(r->flight.watch, &r->flight.on, r->err);
	ret = ret ?: kinst_tracing(r->flight.watch, true, r->err);
	ret = ret ?: kinst_events_enable(r->flight.watch, r->err);
	if (!ret && !r->c->quiet)
		r->note("this kernel cannot stop the ring at the trigger: kvmft polls for it ten "
			"times a second");
	return ret;
}

/*
 * A trigger without a condition fires before the kernel checks whose event it is; one with a
 * condition after that, once the event passed set_event_pid (trace_event_buffer_reserve() in
 * kernel/trace/trace_events.c). So if threads were chosen, it gets a condition that always holds.
 */
static int arm_kernel(struct record *r, const struct kevent *e)
{
	const char *condition = e->filter ?: r->tids.n ? "common_pid >= 0" : NULL;
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	sbuf_addf(&text, "traceoff%s%s", condition ? " if " : "", condition ?: "");
	return text.error ? err_set(r->err, ENOMEM, "out of memory")
			  : kinst_trigger(r->k, e->sys, e->name, text.s, r->err);
}

int record_flight_arm(struct record *r)
{
	const struct kevent *e = r->flight.on.v;
	int ret;

	if (!r->c->trigger)
		return 0;
	if (record_trigger_is_longer(r)) {
		if (!traceoff_is_ours())
			return err_lack(r->err, ENOTSUP,
					"--trigger %s needs Linux 5.18: before that a trigger "
					"stopped the machine's main trace",
					r->c->trigger);
		ret = record_trigger_longer_arm(r);
	} else if (record_trigger_is_marker(r)) {
		ret = record_marker_arm(r);
	} else if (traceoff_is_ours() && kinst_has_trigger(r->k, e->sys, e->name)) {
		ret = arm_kernel(r, e);
	} else {
		ret = arm_watch(r);
	}
	r->flight.armed = !ret;
	return ret;
}

static int watch_fired(struct record *r)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < r->ncpu; i++) {
		struct kstats s;

		if (!kinst_stats(r->flight.watch, r->drain[i].cpu, &s, NULL))
			seen += s.entries + s.overrun + s.commit_overrun;
	}
	if (!seen)
		return 0;
	/* Emptying it makes it ready for the next one. */
	return kinst_clear(r->flight.watch) ? -EIO : 1;
}

int record_flight_fired(struct record *r)
{
	int on;

	if (!r->flight.armed)
		return 0;
	if (r->flight.marker)
		return record_marker_seen(r);
	if (r->flight.watch)
		return watch_fired(r);
	on = kinst_tracing_get(r->k);
	return on < 0 ? on : !on;
}

/* Before anything is written, because that takes time: others have to stop their rings, too. */
static int tell_fired(struct record *r, const char *why)
{
	if (!strcmp(why, "control") || !strcmp(why, "end"))
		return 0;
	record_control_tell(r, RECORD_NEWS_FIRED, 0);
	meta_begin(&r->line, "fired");
	meta_str(&r->line, "why", why);
	meta_u64(&r->line, "tsc", krdtsc_now());
	if (r->flight.text[0])
		meta_str(&r->line, "text", r->flight.text);
	r->flight.text[0] = '\0';
	return record_put(r);
}

/* Another side was triggered: whoever stores this has to know before the segment begins. */
static int tell_asked(struct record *r)
{
	if (!r->flight.by[0])
		return 0;
	meta_begin(&r->line, "asked");
	meta_str(&r->line, "by", r->flight.by);
	meta_u64(&r->line, "tsc", krdtsc_now());
	return record_put(r);
}

/* No events since the last time: the next ones get this segment. */
static int nothing_written(struct record *r, const char *why)
{
	r->flight.stopped = 0;
	record_before_written(r);
	if (!r->c->quiet)
		r->note("%s: no segment written, the rings are empty (%s)", capw_path(r->w), why);
	return 0;
}

static int dump(struct record *r, const char *why)
{
	unsigned int segment;
	uint64_t bytes = 0;
	int ret = tell_fired(r, why);
	char size[32];

	if (!ret && !record_store_room(r)) {
		r->note("%s: no room for a segment by the trigger of %s beside our own",
			capw_path(r->w), r->flight.by);
		r->flight.stopped = 0;
		return 0;
	}
	ret = ret ?: tell_asked(r);

	ret = ret ?: drain_rotate(&r->store);
	if (ret)
		return err_why(r->err, ret, "cannot begin a segment in %s", capw_path(r->w));
	segment = atomic_load(&r->store.segment);
	for (size_t i = 0; i < r->ncpu; i++) {
		uint64_t before = r->drain[i].bytes;

		ret = drain_now(&r->drain[i], record_ring_bytes(r) + r->store.subbuf);
		bytes += r->drain[i].bytes - before;
		if (ret)
			return err_why(r->err, ret, "cannot write the ring of CPU %u",
				       r->drain[i].cpu);
	}
	if (!bytes)
		return nothing_written(r, why);
	meta_begin(&r->line, "segment");
	meta_u64(&r->line, "n", segment);
	meta_str(&r->line, "why", why);
	meta_u64(&r->line, "tsc", krdtsc_now());
	if (r->flight.stopped)
		meta_u64(&r->line, "stopped", r->flight.stopped);
	if (r->before.asked && r->before.held != UINT64_MAX)
		meta_u64(&r->line, "held", r->before.held);
	r->flight.stopped = 0;
	record_before_written(r);
	r->segments_told = segment;
	ret = record_put(r);
	if (ret)
		return ret;
	ret = record_store_written(r, segment);
	if (ret)
		return err_why(r->err, ret, "cannot remove an old segment of %s", capw_path(r->w));
	if (!r->c->quiet)
		r->note("%s: segment %u written, %s (%s%s)", capw_path(r->w), segment,
			str_bytes(size, sizeof(size), bytes), r->flight.by[0] ? "trigger of " : "",
			r->flight.by[0] ? r->flight.by : why);
	return 0;
}

int record_flight_dump(struct record *r, const char *why)
{
	int ret = dump(r, why);

	if (!ret)
		record_control_tell(r, RECORD_NEWS_WRITTEN, 0);
	return ret;
}

void record_flight_free(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	record_marker_disarm(r);
	if (r->flight.watch && kinst_destroy(r->flight.watch, &err) && err.text[0])
		r->note("%s", err.text);
	r->flight.watch = NULL;
	kevent_list_free(&r->flight.on);
}
