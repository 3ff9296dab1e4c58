/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loop.c: what a running recording waits for. One poll() over a signalfd, timers and the
 * eventfd of the draining threads; nothing is done in signal handlers.
 */
#include "record.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

/* ---- what is reported of a recording while it runs ---- */

static uint64_t bytes_stored(struct record *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->store.lock);
	n = r->store.used;
	pthread_mutex_unlock(&r->store.lock);
	return n;
}

/* Once a second. */
static void record_progress_tell(struct record *r)
{
	uint64_t now = util_now_ns(), events = 0, since = now - r->progress.ns;
	struct record_progress p = {
		.elapsed_ns = now - r->live_ns,
		.left_ns = UINT64_MAX,
		.bytes = bytes_stored(r),
		.sent = r->out.stream != NULL,
		.waits_for = r->flight.armed && !r->flight.fired ? r->c->trigger : NULL,
	};
	struct kstats s;

	if (!r->c->progress && !r->c->control.news)
		return;
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL)) {
			/* A flight recorder's ring is meant to overwrite what is old. */
			p.lost += s.commit_overrun + s.dropped + (r->c->flight ? 0 : s.overrun);
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

static void record_sigset(sigset_t *set)
{
	signal_set(set, (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD, 0 });
}

int record_signals_block(void)
{
	sigset_t set;

	record_sigset(&set);
	return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

static int timer_new(uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec its = {
		.it_value = { .tv_sec = (time_t)(first_ns / 1000000000u),
			      .tv_nsec = (long)(first_ns % 1000000000u) },
		.it_interval = { .tv_sec = (time_t)(every_ns / 1000000000u),
				 .tv_nsec = (long)(every_ns % 1000000000u) },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	/* A zero first expiry would disarm the timer. */
	if (!first_ns)
		its.it_value.tv_nsec = 1;
	if (timerfd_settime(fd, 0, &its, NULL) < 0) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	return fd;
}

enum {
	W_SIGNAL,
	W_STORE,
	W_TICK,
	W_TRIGGER,
	W_ROTATE,
	W_FLUSH,
	W_DURATION,
	W_CAME,
	W_LOOK,
	W_CONTROL,
	W_COUNT
};

static int wait_timer(struct pollfd *p, uint64_t first_ns, uint64_t every_ns)
{
	p->fd = timer_new(first_ns, every_ns);
	return MIN(p->fd, 0);
}

/* It counts from when the events were on, whatever else had to be done since. */
static uint64_t duration_left(const struct record *r)
{
	uint64_t gone = util_now_ns() - r->live_ns;

	return r->c->duration.v - MIN(gone, r->c->duration.v);
}

/* How long before a segment ends the threads are told to fetch what belongs to it. */
static uint64_t rotate_lead(const struct record *r)
{
	return MIN(r->rotate_ns / 4, ROTATE_LEAD_NS);
}

static int wait_open(struct record *r, const struct record_child *c, struct pollfd *p)
{
	sigset_t set;
	int ret;

	record_sigset(&set);
	for (int i = 0; i < W_COUNT; i++)
		p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[W_SIGNAL].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
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
	if (!ret && r->c->duration.set)
		ret = wait_timer(&p[W_DURATION], duration_left(r), 0);
	return ret;
}

/* A timer or an eventfd: false if there was nothing after all. */
static bool take_count(const struct pollfd *p)
{
	uint64_t n;

	return p->revents && read(p->fd, &n, sizeof(n)) == (ssize_t)sizeof(n);
}

static bool child_gone(struct record_child *c)
{
	if (c->p.pid <= 0 || waitpid(c->p.pid, &c->status, WNOHANG) != c->p.pid)
		return false;
	c->p.pid = 0;
	return true;
}

static void command_gone(struct record *r, const struct record_child *c)
{
	record_control_tell(r, RECORD_NEWS_COMMAND, c->status);
	if (!r->c->control.outlive)
		r->end_reason = "command";
}

static int take_signals(struct record *r, int fd, struct record_child *c)
{
	struct signalfd_siginfo si;
	int ret = 0;

	while (!ret && !r->end_reason && read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (child_gone(c))
				command_gone(r, c);
		} else if (si.ssi_signo != SIGUSR1) {
			if (!r->c->control.on || si.ssi_signo == SIGTERM)
				r->end_reason = "signal"; /* otherwise Ctrl-C is for the
							   * controlling process */
		} else if (r->c->flight) {
			ret = record_flight_dump(r, "signal");
		} else {
			drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
		}
	}
	return ret;
}

static const char *store_reason(const struct drain_store *s)
{
	switch (atomic_load(&s->stop)) {
	case DRAIN_MAX_SIZE: return "max-size";
	case DRAIN_MIN_FREE: return "min-free";
	case DRAIN_ERROR: return "error";
	default: return NULL;
	}
}

static int take_store(struct record *r)
{
	int ret = record_store_news(r);

	if (!ret && !r->end_reason)
		r->end_reason = store_reason(&r->store);
	return ret;
}

/*
 * Once a second: whatever is new. Every fifth time also a clock reading, and no old data in the
 * ring.
 */
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
		record_progress_tell(r);
	if (!fifth || ret)
		return ret;
	if (!r->c->flight && !r->flush_ns)
		drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_COMPLETE);
	return record_facts_bracket(r);
}

/*
 * Twice for each segment, because rings are fetched when half full: first what there is goes to the
 * old segment, then the new one begins.
 */
static int take_rotate(struct record *r, struct pollfd *p)
{
	uint64_t lead = rotate_lead(r);
	int ret = 0;

	r->rotate_flushed = !r->rotate_flushed;
	if (r->rotate_flushed)
		drain_flush(r->drain, r->ncpu, DRAIN_FLUSH_ALL);
	else
		ret = drain_rotate(&r->store);
	close(p->fd);
	ret = ret ?: wait_timer(p, r->rotate_flushed ? lead : r->rotate_ns - lead, 0);
	return err_why(r->err, ret, "cannot begin a segment in %s", capw_path(r->w));
}

/* Only threads of CPUs that have something are woken. */
static int take_flush(struct record *r)
{
	struct kstats s;
	int ret;

	for (size_t i = 0; i < r->ncpu; i++) {
		if (kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
			continue;
		if (s.entries || (r->c->sync && s.read != r->seen[i].flushed))
			drain_flush(&r->drain[i], 1, DRAIN_FLUSH_ALL);
		r->seen[i].flushed = s.read;
	}
	ret = r->c->sync ? capw_sync(r->w) : 0;
	return err_why(r->err, ret, "cannot write %s to the disk", capw_path(r->w));
}

static int take_trigger(struct record *r)
{
	int ret = record_flight_fired(r);

	if (ret < 0)
		return err_why(r->err, ret, "cannot look for the trigger");
	if (!ret)
		return 0;
	r->flight.fired = true;
	ret = record_flight_dump(r, "trigger");
	if (!ret && record_trigger_is_longer(r))
		ret = record_trigger_longer_again(r);
	return ret ?: kinst_tracing(r->k, true, r->err);
}

/* The timer exists when a new VM has to be looked at again. */
static int take_came(struct record *r, struct pollfd *look)
{
	int ret = record_came_take(r);
	uint64_t due = record_came_due(r), now = util_now_ns();

	util_close_fd(&look->fd);
	return ret || !due ? ret : wait_timer(look, due - MIN(due, now), 0);
}

static int take_all(struct record *r, struct pollfd *p, struct record_child *c, unsigned int *tick)
{
	int ret = 0;

	if (p[W_SIGNAL].revents)
		ret = take_signals(r, p[W_SIGNAL].fd, c);
	if (!ret && p[W_CONTROL].revents && !r->end_reason)
		ret = record_control_take(r, c);
	if (!ret && take_count(&p[W_STORE]))
		ret = take_store(r);
	if (!ret && p[W_DURATION].revents && !r->end_reason)
		r->end_reason = "duration";
	if (!ret && take_count(&p[W_ROTATE]))
		ret = take_rotate(r, &p[W_ROTATE]);
	if (!ret && take_count(&p[W_FLUSH]))
		ret = take_flush(r);
	if (!ret && take_count(&p[W_TRIGGER]))
		ret = take_trigger(r);
	if (!ret && (p[W_CAME].revents || p[W_LOOK].revents))
		ret = take_came(r, &p[W_LOOK]);
	if (!ret && take_count(&p[W_TICK]))
		ret = take_tick(r, c, ++*tick);
	return ret;
}

int record_wait(struct record *r, struct record_child *c)
{
	struct pollfd p[W_COUNT];
	unsigned int tick = 0;
	int ret = wait_open(r, c, p);

	ret = ret ?: take_came(r, &p[W_LOOK]);
	while (!ret && !r->end_reason) {
		if (poll(p, W_COUNT, -1) < 0)
			ret = errno == EINTR ? 0 : -errno;
		else
			ret = take_all(r, p, c, &tick);
	}
	for (int i = 0; i < W_COUNT; i++)
		if (i != W_STORE && i != W_CAME && i != W_CONTROL && p[i].fd >= 0)
			close(p[i].fd);
	if (ret && !r->err->text[0])
		return err_why(r->err, ret, "cannot wait");
	return ret;
}
