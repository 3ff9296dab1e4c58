/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.c: a recording from its options to its end, and what it waits for meanwhile.
 *
 * Order matters here. The kernel is asked about everything that can fail (events, filters, clock)
 * before the output exists; the instance records only when all is ready; TSC offsets are read once
 * kvm_write_tsc_offset is being recorded, so that no change falls in between; and whatever happens,
 * everything is undone by record_undo().
 */
#include "kvmft/sandbox.h"
#include "record.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

/*
 * What a recorder checks in its environment before it starts, and what it gives up before
 * the first event: see "Privileges" in kvmft-record(1).
 */

/* What makes the dynamic loader load foreign code into this process. */
static const char *const loader_variables[] = { "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH" };

/* Refuses variables that would load foreign code; command ends with NULL. */
static int record_environment(char **command, struct kvmft_err *err)
{
	const char *path = getenv("PATH");

	for (size_t i = 0; i < ARRAY_SIZE(loader_variables); i++) {
		const char *v = getenv(loader_variables[i]);

		if (v && *v)
			return err_set(
				err, EPERM,
				"%s is set and would load other code into the recorder: env -u %s "
				"kvmft record ...; for the command alone: -- env %s=... COMMAND",
				loader_variables[i], loader_variables[i], loader_variables[i]);
	}
	if (!*command || strchr(*command, '/'))
		return 0;
	/* execvp() searches PATH: an empty or relative entry is the current directory or below. */
	for (const char *p = path; p; p = strchr(p, ':')) {
		p += p != path;
		if (*p != '/')
			return err_set(err, EPERM,
				       "PATH has an entry that is not an absolute "
				       "directory: name %s by its path",
				       *command);
	}
	return 0;
}

/* ---- privileges ---- */

/* Not root, but with the right to ignore file modes: tracefs can only be reached with that. */
static uint64_t caps_for_tracefs(void)
{
	return geteuid() ? SANDBOX_CAP(CAP_DAC_OVERRIDE) | SANDBOX_CAP(CAP_DAC_READ_SEARCH) : 0;
}

int record_confine_helper(enum sandbox_calls calls, const struct sandbox_dir *dir, size_t ndir,
			  struct kvmft_err *err)
{
	const bool looks = calls == SANDBOX_CALLS_LOOKER;
	const struct sandbox s = {
		.calls = calls, .bounding = true, .files = dir != NULL, .dir = dir, .ndir = ndir,
		.reads = calls == SANDBOX_CALLS_MONITOR,
		/* With hidepid=2, a process that we may not see looks as if it were gone. */
		.caps = SANDBOX_CAP(CAP_SYS_PTRACE) | caps_for_tracefs() |
			/* The directory of the capture may be somebody else's. */
			SANDBOX_CAP(looks ? CAP_DAC_READ_SEARCH : CAP_DAC_OVERRIDE),
	};
	unsigned int layers;

	return sandbox_enter(&s, &layers, err);
}

/* What is opened while it records; not trace_pipe, nor the rest of its instance for writing. */
enum wall_of { OF_ROOT, OF_INSTANCE, OF_WATCH, OF_BEFORE, OF_MARKER, OF_SDT, OF_NET, OF_SYNTH,
	       OF_CR3, OF_GUEST, OF_COPY };

static const struct {
	enum wall_of of;
	unsigned int rights;
	const char *path;
} walls[] = {
	{ OF_ROOT, SANDBOX_READ, "trace_clock" },
	{ OF_ROOT, SANDBOX_READ, "saved_cmdlines" },
	{ OF_ROOT, SANDBOX_READ, "saved_tgids" },
	{ OF_ROOT, SANDBOX_READ, "printk_formats" },
	{ OF_ROOT, SANDBOX_REMOVE, "instances" }, /* ours, at the end */
	{ OF_INSTANCE, SANDBOX_READ, "." },
	{ OF_INSTANCE, SANDBOX_WRITE, "events" },
	{ OF_INSTANCE, SANDBOX_WRITE, "options/raw" },
	{ OF_INSTANCE, SANDBOX_WRITE, "options/stacktrace" },
	{ OF_COPY, SANDBOX_WRITE, "options/copy_trace_marker" },
	{ OF_INSTANCE, SANDBOX_WRITE, "set_event_pid" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_clock" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_marker" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_marker_raw" },
	{ OF_WATCH, SANDBOX_READ, "." },
	{ OF_WATCH, SANDBOX_WRITE, "events" },
	{ OF_BEFORE, SANDBOX_WRITE, "buffer_size_kb" }, /* of the instance */
	{ OF_MARKER, SANDBOX_WRITE, "options/copy_trace_marker" }, /* of the watcher */
	{ OF_SDT, SANDBOX_READ | SANDBOX_WRITE, "uprobe_events" }, /* its probes, at the end ... */
	{ OF_NET, SANDBOX_WRITE, "dynamic_events" }, /* ... those of net-id */
	{ OF_CR3, SANDBOX_WRITE, "kprobe_events" }, /* ... of --guest-processes */
	{ OF_SYNTH, SANDBOX_WRITE, "synthetic_events" }, /* ... and the event of --trigger */
	{ OF_ROOT, SANDBOX_READ, "/sys/devices/system/cpu" },
	{ OF_ROOT, SANDBOX_READ, "/sys/devices/system/clocksource" },
	/* A recorder lists all threads at its end; on a host kvmft-look does. */
	{ OF_GUEST, SANDBOX_READ, "/proc" },
};

/* The existing directory that a path begins with; -1 = none. */
static int wall_dir(const struct record *r, enum wall_of of)
{
	switch (of) {
	case OF_INSTANCE: return kinst_dirfd(r->k);
	case OF_WATCH: return r->flight.watch ? kinst_dirfd(r->flight.watch) : -1;
	case OF_BEFORE: return r->before.asked ? kinst_dirfd(r->k) : -1;
	case OF_COPY: return r->marker == RECORD_MARKER_ALL ? kinst_dirfd(r->k) : -1;
	case OF_MARKER: return r->flight.marker ? kinst_dirfd(r->flight.watch) : -1;
	case OF_SDT: return r->sdt ? ktracefs_dirfd(r->t) : -1;
	case OF_NET: return r->net_id ? ktracefs_dirfd(r->t) : -1;
	case OF_CR3: return r->cr3 ? ktracefs_dirfd(r->t) : -1;
	case OF_SYNTH: return r->flight.synth[0] ? ktracefs_dirfd(r->t) : -1;
	case OF_GUEST: return r->side & CAP_SIDE_GUEST ? ktracefs_dirfd(r->t) : -1;
	default: return ktracefs_dirfd(r->t);
	}
}

int record_confine(struct record *r, pid_t child)
{
	struct sandbox_dir dir[ARRAY_SIZE(walls) + 1];
	struct sandbox s = {
		.calls = SANDBOX_CALLS_RECORDER, .child = child, .bounding = true,
		.files = true, .reads = true, .dir = dir, .ndir = ARRAY_SIZE(dir),
	};
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(walls); i++) {
		int at = wall_dir(r, walls[i].of);

		dir[i].fd =
			at < 0 ? -1 : openat(at, walls[i].path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
		dir[i].rights = walls[i].rights;
	}
	dir[ARRAY_SIZE(walls)].fd = capw_dirfd(r->w);
	dir[ARRAY_SIZE(walls)].rights = SANDBOX_READ | SANDBOX_WRITE | SANDBOX_CREATE;
	/* Pipes beyond the limit of an unprivileged user: there is one for each CPU. */
	s.caps = SANDBOX_CAP(CAP_SYS_RESOURCE) | caps_for_tracefs();
	/* COMMAND may have become another user, but must still be ended. */
	if (child > 0)
		s.caps |= SANDBOX_CAP(CAP_KILL);
	fds_keep(NULL, 0); /* COMMAND has what our caller had open */
	ret = sandbox_enter(&s, &r->confined, r->err);
	for (size_t i = 0; i < ARRAY_SIZE(walls); i++)
		util_close_fd(&dir[i].fd);
	return ret;
}

/* All that it waits for: one poll() of signalfd, timers and drains; signal handlers do nothing. */

/* Once a second. */
static void progress_tell(struct record *r)
{
	uint64_t now = util_now_ns(), events = 0, since = now - r->progress.ns;
	struct record_progress p = {
		.elapsed_ns = now - r->live_ns, .left_ns = UINT64_MAX,
		.sent = r->out.stream != NULL,
		.waits_for = r->flight.armed && !r->flight.fired ? r->c->trigger : NULL,
	};
	struct kstats s;

	if (!r->c->progress && !r->c->control.news)
		return;
	pthread_mutex_lock(&r->store.lock);
	p.bytes = r->store.used;
	pthread_mutex_unlock(&r->store.lock);
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL)) {
			/* A flight recorder's ring is meant to overwrite what is old. */
			p.lost += s.commit_overrun + s.dropped;
			events += s.entries + s.read + s.overrun + s.commit_overrun + s.dropped;
		}
	if (r->progress.ns && since && events >= r->progress.events)
		p.per_second = (uint64_t)((unsigned __int128)(events - r->progress.events) *
					  1000000000u / since);
	else
		p.per_second = (uint64_t)((unsigned __int128)events * 1000000000u /
					  MAX(p.elapsed_ns, (uint64_t)1));
	if (r->c->duration.set)
		p.left_ns = r->c->duration.v - MIN(r->c->duration.v, p.elapsed_ns);
	r->progress.ns = now;
	r->progress.events = events;
	if (r->c->progress)
		r->c->progress(&p);
	else
		r->c->control.news(r->c->control.ctx, RECORD_NEWS_PROGRESS, 0, &p);
}

#define TICK_NS	      1000000000ull
#define FIRST_TICK_NS 250000000ull /* with a COMMAND: what it has started by then is examined */
#define TRIGGER_NS    100000000ull
/* Clock readings in between allow for slewed clocks: one every few seconds is plenty. */
#define BRACKET_TICKS 5
#define ROTATE_LEAD_NS 100000000ull

enum {
	W_SIGNAL, W_STORE, W_TICK, W_TRIGGER, W_ROTATE, W_FLUSH, W_DURATION, W_CAME, W_LOOK,
	W_CONTROL,
	W_COUNT
};

static int wait_timer(struct pollfd *p, uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec its = {
		.it_value = { .tv_sec = (time_t)(first_ns / 1000000000u),
			      .tv_nsec = (long)(first_ns % 1000000000u) },
		.it_interval = { .tv_sec = (time_t)(every_ns / 1000000000u),
				 .tv_nsec = (long)(every_ns % 1000000000u) },
	};

	/* A zero first expiry would disarm the timer. */
	if (!first_ns)
		its.it_value.tv_nsec = 1;
	p->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return p->fd < 0 || timerfd_settime(p->fd, 0, &its, NULL) < 0 ? -errno : 0;
}

/* How long before a segment ends the threads are told to fetch what belongs to it. */
static uint64_t rotate_lead(const struct record *r)
{
	return MIN(r->rotate_ns / 4, ROTATE_LEAD_NS);
}

/* The signals that end a recording are blocked before any thread or child exists. */
static int signals_take(bool block)
{
	sigset_t set;

	signal_ends(&set);
	sigaddset(&set, SIGCHLD);
	if (block)
		return sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int wait_open(struct record *r, const struct record_child *c, struct pollfd *p)
{
	uint64_t gone = util_now_ns() - r->live_ns;
	int ret;

	for (int i = 0; i < W_COUNT; i++)
		p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[W_SIGNAL].fd = signals_take(false);
	if (p[W_SIGNAL].fd < 0)
		return -errno;
	p[W_STORE].fd = r->store.wake_fd;
	p[W_CAME].fd = r->newcomers.fd;
	if (r->c->control.on)
		p[W_CONTROL].fd = r->c->control.fd;
	ret = wait_timer(&p[W_TICK], c->p.pid > 0 ? FIRST_TICK_NS : TICK_NS, TICK_NS);
	if (!ret && r->flight.armed)
		ret = wait_timer(&p[W_TRIGGER], TRIGGER_NS, TRIGGER_NS);
	if (!ret && r->rotate_ns)
		ret = wait_timer(&p[W_ROTATE], r->rotate_ns - rotate_lead(r), 0);
	if (!ret && r->flush_ns)
		ret = wait_timer(&p[W_FLUSH], r->flush_ns, r->flush_ns);
	/* It counts from when the events were on, whatever else had to be done since. */
	if (!ret && r->c->duration.set)
		ret = wait_timer(&p[W_DURATION], r->c->duration.v - MIN(gone, r->c->duration.v), 0);
	return ret;
}

/* A timer or an eventfd: false if there was nothing after all. */
static bool take_count(const struct pollfd *p)
{
	uint64_t n;

	return p->revents && read(p->fd, &n, sizeof(n)) == (ssize_t)sizeof(n);
}

static int take_signals(struct record *r, int fd, struct record_child *c)
{
	struct signalfd_siginfo si;
	int ret = 0;

	while (!ret && !r->end_reason && read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (c->p.pid <= 0 || waitpid(c->p.pid, &c->status, WNOHANG) != c->p.pid)
				continue;
			c->p.pid = 0;
			record_control_tell(r, RECORD_NEWS_COMMAND, c->status);
			if (!r->c->control.outlive)
				r->end_reason = "command";
		} else if (si.ssi_signo != SIGUSR1) {
			/* Otherwise Ctrl-C is for the controlling process. */
			if (!r->c->control.on || si.ssi_signo == SIGTERM)
				r->end_reason = "signal";
		} else if (r->c->flight) {
			ret = record_flight_dump(r, "signal");
		} else {
			drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
		}
	}
	return ret;
}

/* Once a second: what is new; every fifth time also a clock reading, and old data drained. */
static int take_tick(struct record *r, const struct record_child *c, unsigned int tick)
{
	bool fifth = tick % BRACKET_TICKS == 0;
	int ret = record_cpus(r);

	ret = ret ?: record_tids_again(r, fifth);
	ret = ret ?: record_sched_again(r);
	ret = ret ?: record_met_command(r, c, false);
	ret = ret ?: record_store_news(r);
	ret = ret ?: record_stream_tick(r);
	record_before_tick(r);
	if (!ret)
		progress_tell(r);
	if (!fifth || ret)
		return ret;
	if (!r->c->flight && !r->flush_ns)
		drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_COMPLETE);
	return record_facts_bracket(r);
}

/* The timer exists when a new VM has to be looked at again. */
static int take_came(struct record *r, struct pollfd *look)
{
	int ret = record_came_take(r);
	uint64_t due = 0, now = util_now_ns();

	for (size_t i = 0; i < r->ncame; i++)
		due = due ? MIN(due, r->came[i].due) : r->came[i].due;
	util_close_fd(&look->fd);
	return ret || !due ? ret : wait_timer(look, due - MIN(due, now), 0);
}

/* Until a signal, the duration, the command's exit or a limit; sets r->end_reason. */
static int record_wait(struct record *r, struct record_child *c)
{
	struct pollfd p[W_COUNT];
	unsigned int tick = 0;
	int ret = wait_open(r, c, p);

	ret = ret ?: take_came(r, &p[W_LOOK]);
	while (!ret && !r->end_reason) {
		if (poll(p, W_COUNT, -1) < 0) {
			ret = errno == EINTR ? 0 : -errno;
			continue;
		}
		if (p[W_SIGNAL].revents)
			ret = take_signals(r, p[W_SIGNAL].fd, c);
		if (!ret && p[W_CONTROL].revents && !r->end_reason)
			ret = record_control_take(r, c);
		if (!ret && take_count(&p[W_STORE])) {
			static const char *const why[] = { [DRAIN_MAX_SIZE] = "max-size",
							   [DRAIN_MIN_FREE] = "min-free",
							   [DRAIN_ERROR] = "error" };
			unsigned int stop = (unsigned int)atomic_load(&r->store.stop);

			ret = record_store_news(r);
			if (!ret && !r->end_reason && stop < ARRAY_SIZE(why))
				r->end_reason = why[stop];
		}
		if (!ret && p[W_DURATION].revents && !r->end_reason)
			r->end_reason = "duration";
		if (!ret && take_count(&p[W_ROTATE])) {
			uint64_t lead = rotate_lead(r);

			/*
			 * Twice for each segment, because rings are fetched when half full: first
			 * what there is goes to the old segment, then the new one begins.
			 */
			r->rotate_flushed = !r->rotate_flushed;
			if (r->rotate_flushed)
				drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
			else
				ret = drain_rotate(&r->store);
			close(p[W_ROTATE].fd);
			if (!ret)
				ret = wait_timer(&p[W_ROTATE],
						 r->rotate_flushed ? lead : r->rotate_ns - lead, 0);
			ret = err_why(r->err, ret, "cannot begin a segment in %s", capw_path(r->w));
		}
		if (!ret && take_count(&p[W_FLUSH])) {
			struct kstats s;

			/* Only threads of CPUs that have something are woken. */
			for (size_t i = 0; i < r->ncpu; i++) {
				if (kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
					continue;
				if (s.entries || (r->c->sync && s.read != r->seen[i].flushed))
					drain_flush(&r->drain[i], 1, DRAIN_FLUSH_ALL);
				r->seen[i].flushed = s.read;
			}
			ret = r->c->sync ? capw_sync(r->w) : 0;
			ret = err_why(r->err, ret, "cannot write %s to the disk", capw_path(r->w));
		}
		if (!ret && take_count(&p[W_TRIGGER]))
			ret = record_flight_tick(r);
		if (!ret && (p[W_CAME].revents || p[W_LOOK].revents))
			ret = take_came(r, &p[W_LOOK]);
		if (!ret && take_count(&p[W_TICK]))
			ret = take_tick(r, c, ++tick);
	}
	for (int i = 0; i < W_COUNT; i++)
		if (i != W_STORE && i != W_CAME && i != W_CONTROL && p[i].fd >= 0)
			close(p[i].fd);
	if (ret && !r->err->text[0])
		return err_why(r->err, ret, "cannot wait");
	return ret;
}

/* ---- setting up and undoing ---- */

/* What the small build may lack. */
static int record_extra_of(struct record *r, int (*fn)(struct record *r))
{
	return fn ? fn(r) : 0;
}

static int record_start(struct record *r)
{
	int ret;

	r->started = true;
	r->tracing = true;
	/* Each event takes time to enable; the recording begins with all of them at once. */
	ret = kinst_events_enable(r->k, r->err);
	/* Not sooner: a ring that is off does not let its readers sleep. */
	if (!ret && r->out.stream)
		ret = err_why(r->err, stream_out_start(r->out.stream), "cannot start a thread");
	ret = ret ?: record_cpus(r);
	if (ret)
		return ret;
	meta_begin(&r->line, "begin");
	meta_u64(&r->line, "tsc", krdtsc_now());
	ret = kinst_tracing(r->k, true, r->err);
	if (ret)
		return ret;
	r->live_ns = util_now_ns();
	ret = capw_meta(r->w, &r->line);
	if (ret)
		return err_why(r->err, ret, "cannot write meta");
	if (r->marker == RECORD_MARKER_ALL) {
		ret = kinst_copy_markers(r->k, true, r->err);
		r->copying = !ret;
	}
	ret = ret ?: record_facts_vms(r, false);
	ret = ret ?: record_came_begin(r);
	ret = ret ?: record_tids_again(r, true);
	ret = ret ?: record_extra_of(r, record_qemu.on);
	return ret ?: record_watch_tell(r, RECORD_LIVE);
}

/* Off, then the events, then empty it; threads first, as a ring that is off lets none sleep. */
static int record_stop(struct record *r)
{
	bool more = true;
	struct kstats s;
	int ret = 0, off = 0;

	record_marker_stop(r);
	/* So that what is recorded ends with all events at once. */
	if (r->tracing && !kinst_tracing(r->k, false, NULL)) {
		meta_begin(&r->line, "stop");
		meta_u64(&r->line, "tsc", krdtsc_now());
		/* If a full disk does not take it, more important lines will fail. */
		(void)!capw_meta(r->w, &r->line);
	}
	atomic_store(&r->out.ending, true);
	drain_join(r->drain, r->ncpu);
	if (r->tracing)
		off = kinst_events_disable(r->k);
	r->tracing = false;
	if (off && !r->err->text[0])
		err_why(r->err, off, "cannot disable the events");
	if (r->c->flight)
		return off;
	/* An event whose handler was running when it was disabled may come last of all. */
	for (int i = 0; i < 3 && !ret && more; i++) {
		if (i)
			usleep(1000);
		ret = drain_finish(r->drain, r->ncpu);
		more = false;
		for (size_t k = 0; k < r->ncpu; k++)
			more |= !kinst_stats(r->k, r->drain[k].cpu, &s, NULL) && s.entries;
	}
	for (size_t i = 0; ret && i < r->ncpu; i++)
		if (r->drain[i].error) {
			if (r->out.stream && r->drain[i].error_is_write)
				return record_stream_error(r, r->drain[i].error);
			err_set(r->err, -r->drain[i].error,
				"cannot %s the data of CPU %u: %s; what was "
				"written before can be read",
				r->drain[i].error_is_write ? "write" : "read", r->drain[i].cpu,
				strerror(-r->drain[i].error));
			break;
		}
	return off ?: ret;
}

/* ---- phases: entered in this order, left in reverse ---- */

static int enter_tracefs(struct record *r)
{
	return ktracefs_open(NULL, KTRACEFS_MOUNT, &r->t, r->err);
}

static void leave_tracefs(struct record *r)
{
	ktracefs_close(r->t);
}

static int enter_machine(struct record *r)
{
	_cleanup_(kcpus_free) struct kcpus possible = { 0 };
	int ret;

	ktsc_facts_read(r->t, &r->tsc);
	kreset_leftovers(r->t, r->c->quiet ? NULL : r->note);
	if (record_qemu.leftovers)
		record_qemu.leftovers(r->note);
	/* For the TSC offsets; a machine without debugfs is reported in the VM list, not here. */
	vm_debugfs_mount();
	ret = kcpus_read(KCPU_POSSIBLE, &possible);
	if (ret)
		return err_why(r->err, ret, "cannot read the list of CPUs");
	r->ncpu_max = possible.n;
	record_nofile(r);
	return 0;
}

static void leave_tids(struct record *r)
{
	free(r->met.v);
	free(r->tids.v);
	vm_list_free(r->vms);
}

static int enter_events(struct record *r)
{
	int ret = ktracefs_clock_check(r->t, r->c->clock, r->err);

	ret = ret ?: record_events(r);
	return ret ?: record_stacks_events(r);
}

static void leave_events(struct record *r)
{
	kevent_list_free(&r->events);
}

static void leave_instance(struct record *r)
{
	kinst_end(r->k, r->note);
}

static void leave_facts(struct record *r)
{
	u64map_free(&r->tasks_told);
	sbuf_free(&r->line);
}

#define PHASE(e, l) { .enter = e, .leave = l }

/* What the kernel may refuse comes before the capture. leave() may come without enter(). */
static const struct phase {
	int (*enter)(struct record *r);
	void (*leave)(struct record *r);
	const struct record_extra *extra; /* its start() and end(), in their place */
} phases[] = {
	PHASE(enter_tracefs, leave_tracefs),
	PHASE(record_place_open, record_place_free),
	/* It goes before that: it may still have to give the capture its name. */
	PHASE(record_watch_start, record_watch_end),
	PHASE(enter_machine, NULL),
	PHASE(record_side, NULL),
	PHASE(record_look_start, record_look_end),
	PHASE(record_came_open, record_came_free),
	PHASE(record_tids, leave_tids),
	{ .extra = &record_qemu },
	PHASE(enter_events, leave_events),
	{ .extra = &record_probes },
	PHASE(record_flight_check, record_trigger_free),
	PHASE(record_instance, leave_instance),
	PHASE(record_sched_arm, record_sched_free),
	PHASE(record_stacks_arm, record_stacks_free),
	PHASE(record_symbols_read, record_symbols_free),
	PHASE(record_marker_ready, NULL),
	PHASE(record_flight_arm, record_flight_free),
	PHASE(record_capture_create, NULL),
	PHASE(record_store_open, record_store_close),
	PHASE(record_cpus_open, NULL),
	PHASE(record_facts_begin, leave_facts),
	PHASE(record_symbols_write, NULL),
};

static int facts_vms_end(struct record *r)
{
	return record_facts_vms(r, true);
}

/* At the end; what only helps to read is left out on a full disk, for the last line. */
static const struct {
	int (*write)(struct record *r);
	bool helps;
} last_facts[] = {
	{ record_came_take, false },  { facts_vms_end, false },	       { record_store_news, false },
	{ record_loss_end, false },   { record_facts_bracket, false }, { record_clocks_end, true },
	{ record_facts_tasks, true }, { record_stacks_names, true },   { record_symbols_end, true },
	{ record_facts_end, false },  { record_stream_end, false },
};

/* Even after a full disk as much as possible is written; the first error counts. */
static int record_finish(struct record *r)
{
	bool off = r->c->flight && !(r->c->trigger && r->flight.fired);
	int first, ret;

	record_marker_stop(r);
	if (off && r->tracing) /* at the end, unless the trigger's was what was wanted */
		off = !kinst_tracing(r->k, false, NULL);
	first = off ? record_flight_dump(r, "end") : 0;
	ret = record_stop(r);
	first = first ?: record_extra_of(r, record_qemu.end);
	first = first ?: ret;
	for (size_t i = 0; i < ARRAY_SIZE(last_facts); i++) {
		if (first && last_facts[i].helps)
			continue;
		ret = last_facts[i].write(r);
		first = first ?: ret;
	}
	return first;
}

/* What ends a recording that nothing else does. */
static void note_until(const struct record *r, const char *command)
{
	char room[32];

	if (r->c->quiet || command || r->c->duration.set || r->c->control.on)
		return;
	r->note("recording into %s until %s%s%s%s", capw_path(r->w),
		isatty(STDERR_FILENO) ? "Ctrl-C" : "SIGTERM",
		r->store.min_free ? ", or less than " : "",
		r->store.min_free ? str_bytes(room, sizeof(room), r->place.min_free) : "",
		r->store.min_free ? " is free there (--max-size, -d)" : "");
}

static int record_result(struct record *r)
{
	bool incomplete = r->lost || r->before.cut || r->blind;
	bool full = r->end_reason && !strcmp(r->end_reason, "min-free");
	uint64_t bytes = 0;
	char size[32], room[32];

	for (size_t i = 0; i < r->ncpu; i++)
		bytes += r->drain[i].bytes;
	if (!r->c->quiet || incomplete)
		r->note("%s: %llu events, %s, %llu lost (%s%s%s)", capw_path(r->w),
			(unsigned long long)r->stored, str_bytes(size, sizeof(size), bytes),
			(unsigned long long)r->lost, r->end_reason, full ? " of " : "",
			full ? str_bytes(room, sizeof(room), r->place.min_free) : "");
	if (!r->c->quiet)
		record_cost_note(r);
	return incomplete ? KVMFT_INCOMPLETE : KVMFT_OK;
}

int record_run(struct record_config *c, char **argv, note_fn *note, struct kvmft_err *err)
{
	struct record r = {
		.c = c, .note = note, .err = err, .place.dir = -1, .store.wake_fd = -1,
		.newcomers.fd = -1, .out.signals = -1, .sched.loadavg = -1, .stacks.kallsyms = -1,
		.symbols.modules = -1, .look = { .name = "kvmft-look", .to = -1, .from = -1 },
		.watch = { .name = "kvmft-watch", .to = -1, .from = -1,
			   .task = "names captures and removes old ones" },
		.qemu.keeper = { .name = "kvmft-qemu", .to = -1, .from = -1, .task = "talks to QEMU" },
	};
	struct record_child child = { .p = { .name = argv[0], .to = -1, .from = -1 } };
	struct kvmft_err first;
	bool live = false;
	int ret, fin, code;

	/* Wrong options are reported before anything is cleaned up or started. */
	ret = record_place_check(c, err);
	r.place.limited = c->duration.set || c->max_size.set;
	ret = ret ?: record_environment(argv, err);
	ret = ret ?: record_store_check(&r);
	ret = ret ?: record_marker_check(&r, argv[0] ? argv : NULL);
	ret = ret ?: record_extra_of(&r, record_qemu.check);
	ret = ret ?: record_extra_of(&r, record_probes.check);
	if (ret)
		return ret;
	/* A directory without its owner's rights is closed to us, who gave up ignoring that. */
	r.env.umask = umask(077);
	if (signals_take(true) < 0)
		return err_why(err, errno, "cannot block signals");
	for (size_t i = 0; i < ARRAY_SIZE(phases) && !ret; i++)
		ret = record_extra_of(&r, phases[i].extra ? phases[i].extra->start
							  : phases[i].enter);
	ret = ret ?: record_extra_of(&r, record_qemu.facts);
	if (!ret && argv[0])
		ret = record_child_fork(&r, argv, &child);
	ret = ret ?: record_confine(&r, child.p.pid);
	ret = ret ?: record_start(&r);
	live = !ret;
	if (live) {
		if (!c->control.on)
			ret = record_child_release(&r, &child);
		record_control_tell(&r, RECORD_NEWS_LIVE, 0);
		note_until(&r, argv[0]);
		ret = ret ?: record_wait(&r, &child);
	}
	if (!ret && argv[0])
		ret = record_child_result(&r, &child);
	record_child_end(&r, &child);
	if (r.started) {
		first = *err;
		fin = record_finish(&r);

		r.started = false;
		if (ret)
			*err = first; /* what ended the recording says more than what followed */
		ret = ret ?: fin;
		/* It was recorded, as far as it could be written; else there is no capture. */
		if (live && (ret == -ENOSPC || ret == -EDQUOT || ret == -EIO || ret == -EFBIG ||
			     ret == -EPIPE || ret == -ECANCELED))
			err->code = KVMFT_INCOMPLETE;
	}
	if (r.w)
		capw_why(capw_dirfd(r.w), ret, err);
	/* The previous capture of that name, and old ones: removed when the new one is complete. */
	first = *err;
	if (!ret && (c->force || c->keep_captures.set) && record_watch_tell(&r, RECORD_DONE))
		note("%s", err->text);
	else if (ret && r.place.name.aside[0])
		note("the old capture is kept as %s%s", r.place.shown, r.place.name.aside);
	*err = first;
	code = ret ? KVMFT_FAILED : record_result(&r);
	if (r.started)
		record_stop(&r);
	for (size_t i = ARRAY_SIZE(phases); i-- > 0;)
		if (phases[i].extra)
			(void)!record_extra_of(&r, phases[i].extra->end);
		else if (phases[i].leave)
			phases[i].leave(&r);
	return ret ?: code;
}
