/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flight.c: the flight recorder: its triggers, how far back it reaches, writing the ring out, and
 * orders of another process. Markers of programs, which may be a trigger, too.
 */
#include "record.h"

#include <sys/utsname.h>

#include "kvmft/exit_names.h"

/*
 * --trigger exit-longer=DURATION, which the kernel itself watches for.
 *
 * kvm_exit keeps its stamp per thread in a hist trigger; kvm_entry takes the difference and raises
 * a synthetic event of our own; that has a traceoff trigger with the bound as its filter. All of it
 * is set in the recorder's own instance, so that the ring stops at this very entry. Halts are left
 * out, and what begins soon after the ring was written out.
 */

#define LONGER	    "exit-longer="
#define MAP_THREADS 4096u	/* that run vCPUs while we look */
#define MAX_TIDS    100u	/* in a filter, which is a page at most */
#define HOLD_OFF    1000000000u /* ns, without --before */
#define WATCH_KB    16u		/* of a second instance, for a trigger */

static const char *const clocks_ns[] = { "local",    "global", "perf", "mono",
					 "mono_raw", "boot",   "tai" };

static bool trigger_is_longer(const struct record *r)
{
	return r->c->trigger && str_starts(r->c->trigger, LONGER);
}

/* How long, in ns, and the filter between the slashes ("" = none), which is the caller's. */
static int longer_parse(struct record *r, uint64_t *ns, char **filter)
{
	const char *text = r->c->trigger + strlen(LONGER);
	const char *slash = strchr(text, '/');
	size_t len = slash ? strlen(slash) : 0;
	_cleanup_free_ char *duration = strndup(text, strcspn(text, "/"));

	*filter = NULL;
	if (!duration)
		return err_set(r->err, ENOMEM, "out of memory");
	if (parse_duration(duration, ns) || !*ns || (slash && (len < 3 || slash[len - 1] != '/')))
		return err_usage(r->err,
				 "option --trigger: '%s' is not " LONGER
				 "DURATION[/FILTER/], such as " LONGER "5ms/vcpu_id == 0/",
				 r->c->trigger);
	*filter = slash ? strndup(slash + 1, len - 2) : strdup("");
	return *filter ? 0 : err_set(r->err, ENOMEM, "out of memory");
}

/* That many ns in units of the ring's clock; 0 if it has no unit of time. */
static uint64_t ring_ticks(const struct record *r, uint64_t ns)
{
	if (!strcmp(r->c->clock, "x86-tsc"))
		return (uint64_t)((unsigned __int128)ns * r->tsc.khz / 1000000);
	for (size_t i = 0; i < ARRAY_SIZE(clocks_ns); i++)
		if (!strcmp(r->c->clock, clocks_ns[i]))
			return ns;
	return 0;
}

static int longer_set(struct record *r, const char *event, const struct sbuf *text)
{
	return text->error ? err_set(r->err, ENOMEM, "out of memory")
			   : kinst_trigger_add(r->k, "kvm", event, text->s, r->err);
}

/*
 * While the ring is off, events get the stamp last written to it, or 0: an exit would seem to have
 * lasted since then. So only those count that came after `since`.
 */
static int set_bound(struct record *r, uint64_t since)
{
	struct record_flight *f = &r->flight;

	snprintf(f->bound_text, sizeof(f->bound_text),
		 "traceoff if lat > %" PRIu64 " && " KSYNTH_LAT_SANE " && t0 > %" PRIu64, f->bound,
		 since);
	return kinst_trigger_add(r->k, "synthetic", f->synth, f->bound_text, r->err);
}

static int trigger_longer_arm(struct record *r)
{
	bool some = r->tids.n && r->tids.n <= MAX_TIDS;
	_cleanup_free_ char *filter = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, all = { 0 };
	struct utsname u;
	char field[32];
	uint32_t halt;
	uint64_t ns;
	int ret = longer_parse(r, &ns, &filter);

	if (ret)
		return ret;
	if (!kfeat_have(r->t, "hist-triggers"))
		return err_lack(r->err, ENOTSUP,
				"this kernel has no hist triggers (CONFIG_HIST_TRIGGERS), "
				"which --trigger " LONGER " needs: use --trigger EVENT/FILTER/");
	ret = ksynth_add(r->t, 0, "u64 lat; u64 t0", r->flight.synth, sizeof(r->flight.synth),
			 r->err);
	if (ret)
		r->flight.synth[0] = '\0';
	r->flight.bound = ring_ticks(r, ns);
	ret = ret ?: set_bound(r, 0);
	sbuf_addf(&b, "hist:keys=common_pid:ts0=common_timestamp:size=%u:clock=%s", MAP_THREADS,
		  r->c->clock);
	/* With the user's filter and the threads of --vm, --vcpu and -p. */
	for (size_t i = 0; some && i < r->tids.n; i++)
		sbuf_addf(&all, "%scommon_pid == %" PRId32, i ? " || " : "(", r->tids.v[i]);
	if (some)
		sbuf_add(&all, ")");
	/* An idle vCPU halts while nothing happens: not meant, unless the filter has the field. */
	if (uname(&u) || !exit_halt_field(u.machine, r->tsc.vendor, field, &halt))
		r->note("which exits are halts is not known here: an idle vCPU is a late one, too");
	else if (!strstr(filter, field))
		sbuf_addf(&all, "%s%s != %" PRIu32, all.len ? " && " : "", field, halt);
	if (*filter)
		sbuf_addf(&all, "%s(%s)", all.len ? " && " : "", filter);
	if (all.len)
		sbuf_addf(&b, " if %s", all.s);
	b.error = b.error ?: all.error;
	ret = ret ?: longer_set(r, "kvm_exit", &b);
	sbuf_reset(&b);
	sbuf_addf(&b,
		  "hist:keys=common_pid:lat=common_timestamp-$ts0,t0=$ts0:size=%u:clock=%s:"
		  "onmatch(kvm.kvm_exit).trace(%s,$lat,$t0)",
		  MAP_THREADS, r->c->clock, r->flight.synth);
	return ret ?: longer_set(r, "kvm_entry", &b);
}

void record_trigger_free(struct record *r)
{
	if (r->flight.synth[0] && ksynth_remove(r->t, r->flight.synth))
		r->note("cannot remove the synthetic event %s (kvmft reset removes it later)",
			r->flight.synth);
	r->flight.synth[0] = '\0';
}

/*
 * -e marker, what programs write to trace_marker.
 *
 * QEMU's trace back end ftrace writes there, to the kernel's main trace, which is not ours to read.
 * COMMAND gets the instance's trace_marker (kernel/marker.c). For programs that already run, the
 * kernel has an option for instances, copy_trace_marker, which copies everybody's.
 */

int record_marker_check(struct record *r, char **argv)
{
	for (size_t i = 0; i < r->c->events.n; i++)
		if (!strcmp(r->c->events.v[i], RECORD_MARKER))
			r->marker = argv ? RECORD_MARKER_COMMAND : RECORD_MARKER_ALL;
	r->marker_wanted = r->marker != RECORD_MARKER_NONE;
	/*
	 * A QEMU gets its own marker without being requested, also through taskset, timeout and the
	 * like; it makes no difference to programs that do not write to it.
	 */
	for (size_t i = 0; argv && argv[i]; i++) {
		const char *slash = strrchr(argv[i], '/'), *name = slash ? slash + 1 : argv[i];

		if (str_starts(name, "qemu-system-") || !strcmp(name, "qemu-kvm") ||
		    (!i && !strcmp(name, "kvm")))
			r->marker = RECORD_MARKER_COMMAND;
	}
	/* While an instance that copies does not record, the kernel refuses everybody's markers. */
	if (r->marker == RECORD_MARKER_ALL && r->c->trigger)
		return err_usage(r->err,
				 "-e marker without a COMMAND and --trigger exclude each other: the trigger stops "
				 "the ring, and programs could write no markers meanwhile");
	return 0;
}

int record_marker_ready(struct record *r)
{
	if (r->marker != RECORD_MARKER_ALL || kinst_can_copy_markers(r->k))
		return 0;
	return err_lack(
		r->err, ENOTSUP,
		"this kernel cannot copy markers of running programs into an instance (no option "
		"copy_trace_marker, which came with Linux 6.16): start the program with kvmft "
		"record -e default -e marker -- COMMAND, or let QEMU use another trace back end");
}

int record_marker_facts(struct record *r)
{
	char sys[] = "ftrace", name[] = "print";
	const struct kevent print = { .sys = sys, .name = name };

	/* Anyone who knows the instance may write to its trace_marker: always be ready for that. */
	int ret = record_facts_event(r, &print);

	if (ret || r->marker == RECORD_MARKER_NONE)
		return ret;
	meta_begin(&r->line, "marker");
	meta_str(&r->line, "of", r->marker == RECORD_MARKER_ALL ? "all" : "command");
	return record_put(r);
}

void record_marker_stop(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (r->copying && kinst_copy_markers(r->k, false, &err))
		r->note("%s", err.text);
	r->copying = false;
}

/* ---- a marker as trigger ---- */

#define MARKER	   "marker"
#define WRITTEN_AS "tracing_mark_write: "

static bool trigger_is_marker(const struct record *r)
{
	const char *t = r->c->trigger;

	return t && (!strcmp(t, MARKER) || str_starts(t, MARKER "="));
}

/* In an instance of its own. */
static int marker_arm(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	c.buffer_kb = WATCH_KB;
	ret = kinst_create(r->t, &c, &r->flight.watch, r->err);
	ret = ret ?: kinst_tracing(r->flight.watch, true, r->err);
	/* Programs use the machine's trace_marker, if the kernel copies it; else the instance's. */
	if (!ret && kinst_can_copy_markers(r->flight.watch))
		ret = kinst_copy_markers(r->flight.watch, true, r->err);
	else if (!ret)
		r->note("this kernel cannot copy markers (no option copy_trace_marker, which came with "
			"Linux 6.16): the trigger is what is written to %s/instances/%s/trace_marker",
			ktracefs_path(r->t), kinst_name(r->flight.watch));
	if (ret)
		return ret;
	r->flight.marker_fd = openat(kinst_dirfd(r->flight.watch), "trace_pipe",
				     O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (r->flight.marker_fd < 0)
		return err_why(r->err, errno, "cannot open the instance's trace_pipe");
	r->flight.marker = true;
	return 0;
}

static int marker_seen(struct record *r)
{
	const char *wanted = strchr(r->c->trigger, '=');
	char buf[4096], *save, *line;
	bool seen = false;
	ssize_t n;

	while ((n = read(r->flight.marker_fd, buf, sizeof(buf) - 1)) > 0) {
		buf[n] = '\0';
		/* "  comm-123 [000] ..... 12.345: tracing_mark_write: text" */
		for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			const char *text = strstr(line, WRITTEN_AS);

			if (!text || (wanted && !strstr(text + strlen(WRITTEN_AS), wanted + 1)))
				continue;
			snprintf(r->flight.text, sizeof(r->flight.text), "%s",
				 text + strlen(WRITTEN_AS));
			str_printable(r->flight.text);
			seen = true;
		}
	}
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : seen;
}

/*
 * The flight recorder. The kernel's ring overwrites itself and is not drained; on a
 * signal or a trigger it is written out as one segment, and recording continues.
 *
 * The trigger is the kernel's own if possible: `traceoff` on the event, which stops the ring at
 * that very event; we notice within 100 ms, write the ring out and switch it on again. Before Linux
 * 5.18 that trigger stopped the machine's main trace instead of the instance it was set in, and
 * must not be used; then a second, tiny instance gets only that event, and we check whether it
 * holds something, up to 100 ms late. Markers of programs are not events that could have a trigger:
 * they are handled the same way.
 */

/*
 * How far back the ring of a flight recorder reaches, for --before.
 *
 * How fast a ring fills up is not known beforehand. So it is checked once a second while it is on,
 * and enlarged if it holds too little, as far as memory allows and -b does not forbid it.
 */

/* Until the rings of other sides have stopped, after one has seen the trigger. */
#define MARGIN_NS 1000000000ull
#define MOST_NS	  86400000000000ull

static uint64_t needed_kb(const struct record *r, uint64_t held)
{
	unsigned __int128 kb = (unsigned __int128)kinst_buffer_kb(r->k) *
			       (r->c->before.v + MARGIN_NS) / MAX(held, (uint64_t)1) * 5 / 4;

	return kb > UINT32_MAX ? UINT32_MAX : (uint64_t)kb + 1;
}

static void note_short(struct record *r, uint64_t held)
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
	uint64_t held = UINT64_MAX, least = UINT64_MAX, second, was, kb;
	struct kvmft_err none = { .text = "" };

	/* A ring that was stopped is about to be written out. */
	if (!r->before.asked || kinst_tracing_get(r->k) != 1)
		return;
	second = ring_ticks(r, 1000000000);
	for (size_t i = 0; i < r->ncpu; i++) {
		struct record_seen *seen = &r->seen[i];
		struct kstats s;
		uint64_t ns;
		bool turns;

		if (kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
			continue;
		/* It is full now, and was not only before it grew. */
		turns = s.overrun != seen->overrun_now;
		seen->overrun_now = s.overrun;
		/* One that was not full since it was written out holds everything. */
		if (s.overrun == seen->overrun || !s.oldest || s.now <= s.oldest || !second)
			continue;
		ns = (uint64_t)((unsigned __int128)(s.now - s.oldest) * 1000000000 / second);
		held = MIN(held, ns);
		least = turns ? MIN(least, ns) : least;
	}
	r->before.held = held;
	if (least == UINT64_MAX || least >= r->c->before.v + MARGIN_NS)
		return;
	/* What is there grows, and continues; -b is obeyed. */
	was = kinst_buffer_kb(r->k);
	kb = MIN(needed_kb(r, least), r->before.most_kb);
	if (r->c->buffer.set || kb <= was + was / 4 || kinst_buffer_set(r->k, kb, &none)) {
		if (!r->before.told)
			note_short(r, least);
	} else if (!r->c->quiet) {
		r->note("the ring grows from %llu to %llu KiB on each CPU, for --before",
			(unsigned long long)was, (unsigned long long)kinst_buffer_kb(r->k));
	}
}

/* The ring was written out just now. */
static void before_written(struct record *r)
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
			note_short(r, r->before.held);
	}
	r->before.held = UINT64_MAX;
}

int record_flight_check(struct record *r)
{
	const struct record_config *c = r->c;
	int ret = 0;

	if (c->before.set) {
		if (!c->before.v || c->before.v > MOST_NS)
			return err_usage(r->err, "option --before: from 1ns to 24h");
		if (!ring_ticks(r, 1000000000))
			return err_lack(r->err, ENODATA,
					"--before needs a trace clock whose rate is known, not %s",
					c->clock);
		r->before.held = UINT64_MAX;
		r->before.asked = true;
	}
	if (!c->trigger)
		return 0;
	if (trigger_is_longer(r)) {
		char *filter;
		uint64_t ns;

		ret = longer_parse(r, &ns, &filter);
		free(filter);
		if (ret)
			return ret;
		if (!(r->side & CAP_SIDE_HOST))
			return err_usage(r->err,
					 "option --trigger " LONGER ": exits are seen only on the "
					 "host");
		if (!ring_ticks(r, ns))
			return err_usage(r->err,
					 "option --trigger " LONGER
					 ": the rate of clock %s is not known",
					 r->c->clock);
		return kevent_kvm_check(r->t, r->err);
	}
	if (trigger_is_marker(r))
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

int record_flight_arm(struct record *r)
{
	const struct kevent *e = r->flight.on.v;
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	int ret;

	if (!r->c->trigger)
		return 0;
	if (trigger_is_longer(r)) {
		if (!traceoff_is_ours())
			return err_lack(r->err, ENOTSUP,
					"--trigger %s needs Linux 5.18: before that a trigger "
					"stopped the machine's main trace",
					r->c->trigger);
		ret = trigger_longer_arm(r);
	} else if (trigger_is_marker(r)) {
		ret = marker_arm(r);
	} else if (traceoff_is_ours() && kinst_has_trigger(r->k, e->sys, e->name)) {
		/* Without a condition a trigger fires for any thread: it gets one that holds. */
		sbuf_add(&text, "traceoff");
		if (e->filter || r->tids.n)
			sbuf_addf(&text, " if %s", e->filter ?: "common_pid >= 0");
		ret = text.error ? err_set(r->err, ENOMEM, "out of memory")
				 : kinst_trigger(r->k, e->sys, e->name, text.s, r->err);
	} else {
		struct kinst_config c = KINST_CONFIG_DEFAULT;

		c.buffer_kb = WATCH_KB;
		c.pid = r->tids.v;
		c.npid = r->tids.n;
		c.event_fork = r->tids.n != 0;
		ret = kinst_create(r->t, &c, &r->flight.watch, r->err);
		ret = ret ?: kinst_events_add(r->flight.watch, &r->flight.on, r->err);
		ret = ret ?: kinst_tracing(r->flight.watch, true, r->err);
		ret = ret ?: kinst_events_enable(r->flight.watch, r->err);
		if (!ret && !r->c->quiet)
			r->note("this kernel cannot stop the ring at the trigger: kvmft polls for "
				"it ten times a second");
	}
	r->flight.armed = !ret;
	return ret;
}

/* Did the trigger fire since the last call? 1, 0 or -errno. */
static int trigger_fired(struct record *r)
{
	uint64_t seen = 0;
	struct kstats s;
	int on;

	if (r->flight.marker)
		return marker_seen(r);
	if (!r->flight.watch) {
		on = kinst_tracing_get(r->k);
		return on < 0 ? on : !on;
	}
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->flight.watch, r->drain[i].cpu, &s, NULL))
			seen += s.entries + s.overrun + s.commit_overrun;
	/* Emptying it makes it ready for the next one. */
	return seen && kinst_clear(r->flight.watch) ? -EIO : seen != 0;
}

/* "fired", by what; or "asked", if another side was triggered, by which. */
static int put_cause(struct record *r, const char *what, const char *key, const char *cause)
{
	meta_begin(&r->line, what);
	meta_str(&r->line, key, cause);
	meta_u64(&r->line, "tsc", krdtsc_now());
	if (r->flight.text[0])
		meta_str(&r->line, "text", r->flight.text);
	r->flight.text[0] = '\0';
	return record_put(r);
}

static int ring_dump(struct record *r, const char *why)
{
	unsigned int segment;
	uint64_t bytes = 0;
	char size[32];
	int ret = 0;

	/* Before anything is written, which takes time: others have to stop their rings, too. */
	if (strcmp(why, "control") && strcmp(why, "end")) {
		record_control_tell(r, RECORD_NEWS_FIRED, 0);
		ret = put_cause(r, "fired", "why", why);
	}
	if (!ret && !record_store_room(r)) {
		r->note("%s: no room for a segment by the trigger of %s beside our own",
			capw_path(r->w), r->flight.by);
		r->flight.stopped = 0;
		return 0;
	}
	/* Whoever stores this has to know before the segment begins. */
	if (!ret && r->flight.by[0])
		ret = put_cause(r, "asked", "by", r->flight.by);
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
	if (!bytes) { /* since the last time: the next events get this segment */
		r->flight.stopped = 0;
		before_written(r);
		if (!r->c->quiet)
			r->note("%s: no segment written, the rings are empty (%s)", capw_path(r->w),
				why);
		return 0;
	}
	meta_begin(&r->line, "segment");
	meta_u64(&r->line, "n", segment);
	meta_str(&r->line, "why", why);
	meta_u64(&r->line, "tsc", krdtsc_now());
	if (r->flight.stopped)
		meta_u64(&r->line, "stopped", r->flight.stopped);
	if (r->before.asked && r->before.held != UINT64_MAX)
		meta_u64(&r->line, "held", r->before.held);
	r->flight.stopped = 0;
	before_written(r);
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
	int ret = ring_dump(r, why);

	if (!ret)
		record_control_tell(r, RECORD_NEWS_WRITTEN, 0);
	return ret;
}

int record_flight_tick(struct record *r)
{
	int ret = trigger_fired(r);

	if (ret < 0)
		return err_why(r->err, ret, "cannot look for the trigger");
	if (!ret)
		return 0;
	r->flight.fired = true;
	ret = record_flight_dump(r, "trigger");
	if (!ret && trigger_is_longer(r)) {
		struct record_flight *f = &r->flight;
		struct kstats s;

		/* The ring was off and is to be switched on. */
		ret = err_why(r->err, kinst_stats(r->k, r->drain[0].cpu, &s, NULL),
			      "cannot read the time of the ring");
		ret = ret
			      ?: kinst_trigger_remove(r->k, "synthetic", f->synth, f->bound_text,
						      r->err);
		/* What comes at once would find no history: first the ring fills again. */
		if (!ret)
			ret = set_bound(r, s.now + ring_ticks(r, r->c->before.set ? r->c->before.v
										  : HOLD_OFF));
	}
	return ret ?: kinst_tracing(r->k, true, r->err);
}

void record_flight_free(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (r->flight.marker) {
		r->flight.marker = false;
		close(r->flight.marker_fd);
		if (kinst_can_copy_markers(r->flight.watch) &&
		    kinst_copy_markers(r->flight.watch, false, &err))
			r->note("%s", err.text);
	}
	kinst_end(r->flight.watch, r->note);
	r->flight.watch = NULL;
	kevent_list_free(&r->flight.on);
}

/*
 * A recorder that takes orders, from a process that records several machines at once.
 *
 * They come as lines, through a pipe or a connection: if its other end is gone, so is the reason to
 * record.
 */

static int order_obey(struct record *r, struct record_child *c)
{
	const char *what = r->order.text;
	char *by = r->order.text;

	r->order.text[r->order.len] = '\0';
	r->order.len = 0;
	strsep(&by, " ");
	if (!strcmp(what, "snapshot")) {
		int ret;

		if (!r->c->flight) {
			drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
			return 0;
		}
		/* What happened must stay in the ring while that is written out. */
		r->flight.stopped = krdtsc_now();
		snprintf(r->flight.by, sizeof(r->flight.by), "%s", by ?: "");
		ret = kinst_tracing(r->k, false, r->err);
		ret = ret ?: record_flight_dump(r, "control");
		r->flight.by[0] = '\0';
		return ret ?: kinst_tracing(r->k, true, r->err);
	}
	if (!strcmp(what, "stop"))
		r->end_reason = "control";
	else if (!strcmp(what, "start") && c->p.pid > 0 && c->p.to >= 0)
		return record_child_release(r, c);
	else if (strcmp(what, "start") && strcmp(what, "alive"))
		return err_set(r->err, EPROTO, "unknown order '%s'", what);
	return 0;
}

int record_control_take(struct record *r, struct record_child *c)
{
	char buf[256];
	ssize_t n = read(r->c->control.fd, buf, sizeof(buf));
	int ret = 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		r->end_reason = "control";
	for (ssize_t i = 0; i < n && !ret && !r->end_reason; i++) {
		if (buf[i] == '\n')
			ret = order_obey(r, c);
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
