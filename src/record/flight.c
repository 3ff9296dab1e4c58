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

/*
 * How far back the ring of a flight recorder reaches, for --before.
 *
 * How fast a ring fills up is not known beforehand. So it is checked once a second while it is on,
 * and enlarged if it holds too little, as far as memory allows and -b does not forbid it.
 */

/* Until the rings of other sides have stopped, after one has seen the trigger. */
#define MARGIN_NS 1000000000ull
#define MOST_NS	  86400000000000ull

static int record_before_check(struct record *r)
{
	const struct record_config *c = r->c;

	if (!c->before.set)
		return 0;
	if (!c->flight)
		return err_usage(r->err, "option --before needs --flight-recorder");
	if (!c->before.v || c->before.v > MOST_NS)
		return err_usage(r->err, "option --before: from 1ns to 24h");
	if (!record_ticks(r, 1000000000))
		return err_lack(r->err, ENODATA,
				"--before needs a trace clock whose rate is known, not %s",
				c->clock);
	r->before.held = UINT64_MAX;
	r->before.asked = true;
	return 0;
}

/*
 * Of one ring, ns; UINT64_MAX: it has not been full since it was written out. turns: it is full
 * now, and was not only before it grew.
 */
static uint64_t held_by(struct record *r, size_t i, bool *turns)
{
	uint64_t second = record_ticks(r, 1000000000);
	struct record_seen *seen = &r->seen[i];
	struct kstats s;

	*turns = false;
	if (kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
		return UINT64_MAX;
	*turns = s.overrun != seen->overrun_now;
	seen->overrun_now = s.overrun;
	if (s.overrun == seen->overrun || !s.oldest || s.now <= s.oldest || !second)
		return UINT64_MAX;
	return (uint64_t)((unsigned __int128)(s.now - s.oldest) * 1000000000 / second);
}

static uint64_t needed_kb(const struct record *r, uint64_t held)
{
	unsigned __int128 kb = (unsigned __int128)kinst_buffer_kb(r->k) *
			       (r->c->before.v + MARGIN_NS) / MAX(held, (uint64_t)1) * 5 / 4;

	return kb > UINT32_MAX ? UINT32_MAX : (uint64_t)kb + 1;
}

/* What is there grows, and continues; -b is obeyed. */
static bool grow(struct record *r, uint64_t kb)
{
	struct kvmft_err none = { .text = "" };
	uint64_t was = kinst_buffer_kb(r->k);

	if (r->c->buffer.set)
		return false;
	kb = MIN(kb, r->before.most_kb);
	if (kb <= was + was / 4 || kinst_buffer_set(r->k, kb, &none))
		return false;
	if (!r->c->quiet)
		r->note("the ring grows from %llu to %llu KiB on each CPU, for --before",
			(unsigned long long)was, (unsigned long long)kinst_buffer_kb(r->k));
	return true;
}

static void tell_short(struct record *r, uint64_t held)
{
	char would[48] = "memory allows no more"; /* of several sides none has --force */

	if (r->c->buffer.set || !r->c->control.on)
		snprintf(would, sizeof(would), "-b %lluM%s would do",
			 (unsigned long long)(needed_kb(r, held) / 1024 + 1),
			 r->c->buffer.set ? "" : " --force");
	r->note("the ring reaches back %llu.%llu s, --before asks for %llu.%llu s and a second more: %s",
		(unsigned long long)(held / 1000000000),
		(unsigned long long)(held / 100000000 % 10),
		(unsigned long long)(r->c->before.v / 1000000000),
		(unsigned long long)(r->c->before.v / 100000000 % 10), would);
	r->before.told = true;
}

void record_before_tick(struct record *r)
{
	uint64_t held = UINT64_MAX, least = UINT64_MAX;

	/* A ring that was stopped is about to be written out. */
	if (!r->before.asked || kinst_tracing_get(r->k) != 1)
		return;
	for (size_t i = 0; i < r->ncpu; i++) {
		bool turns;
		uint64_t ns = held_by(r, i, &turns);

		held = MIN(held, ns);
		least = turns ? MIN(least, ns) : least;
	}
	r->before.held = held;
	if (least == UINT64_MAX || least >= r->c->before.v + MARGIN_NS)
		return;
	if (!grow(r, needed_kb(r, least)) && !r->before.told)
		tell_short(r, least);
}

/* once a second */
/* the ring, just now */
static void record_before_written(struct record *r)
{
	struct kstats s;

	if (!r->before.asked)
		return;
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
			r->seen[i].overrun = r->seen[i].overrun_now = s.overrun;
	if (r->before.held < r->c->before.v) {
		r->before.cut = true;
		if (!r->before.told)
			tell_short(r, r->before.held);
	}
	r->before.held = UINT64_MAX;
}

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

/*
 * A recorder that takes orders, from a process that records several machines at once.
 *
 * They come as lines, through a pipe or a connection: if its other end is gone, so is the reason to
 * record.
 */

static int order_start(struct record *r, struct record_child *c, const char *by __unused_arg)
{
	if (c->p.pid <= 0 || c->p.to < 0)
		return 0;
	record_child_release(c);
	return record_met_command(r, c, true);
}

static int order_stop(struct record *r, struct record_child *c __unused_arg,
		      const char *by __unused_arg)
{
	r->end_reason = "control";
	return 0;
}

static int order_snapshot(struct record *r, struct record_child *c __unused_arg, const char *by)
{
	int ret;

	if (!r->c->flight) {
		drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
		return 0;
	}
	/* What happened must stay in the ring while that is written out. */
	r->flight.stopped = krdtsc_now();
	snprintf(r->flight.by, sizeof(r->flight.by), "%s", by);
	ret = kinst_tracing(r->k, false, r->err);
	ret = ret ?: record_flight_dump(r, "control");
	r->flight.by[0] = '\0';
	return ret ?: kinst_tracing(r->k, true, r->err);
}

static int order_alive(struct record *r __unused_arg, struct record_child *c __unused_arg,
		       const char *by __unused_arg)
{
	return 0;
}

static const struct {
	const char *name;
	int (*obey)(struct record *r, struct record_child *c, const char *by);
} orders[] = {
	{ "start", order_start },
	{ "stop", order_stop },
	{ "snapshot", order_snapshot },
	{ "alive", order_alive },
};

static int obey(struct record *r, struct record_child *c)
{
	char *by = r->order.text;

	r->order.text[r->order.len] = '\0';
	r->order.len = 0;
	strsep(&by, " ");
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		if (!strcmp(orders[i].name, r->order.text))
			return orders[i].obey(r, c, by ?: "");
	return err_set(r->err, EPROTO, "unknown order '%s'",
		       r->order.text);
}

int record_control_take(struct record *r, struct record_child *c)
{
	char buf[256];
	ssize_t n = read(r->c->control.fd, buf, sizeof(buf));
	int ret = 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		return order_stop(r, c, "");
	for (ssize_t i = 0; i < n && !ret && !r->end_reason; i++) {
		if (buf[i] == '\n')
			ret = obey(r, c);
		else if (r->order.len < sizeof(r->order.text) - 1)
			r->order.text[r->order.len++] = buf[i];
	}
	return ret;
}

void record_control_tell(const struct record *r, enum record_news what, int status)
{
	if (r->c->control.news)
		r->c->control.news(r->c->control.ctx, what, status, NULL);
}
