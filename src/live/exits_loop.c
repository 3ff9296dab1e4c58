/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_loop.c: one poll() over signals, debugfs and the keyboard, woken when the next thing is
 * due.
 */
#include "exits.h"

#include <poll.h>
#include <sys/signalfd.h>

#define ALIVE_MS      250u
#define TOP_INTERVAL  1000000000u

static uint64_t interval_ns(const struct exits_run *x)
{
	if (x->c->interval.set)
		return x->c->interval.v;
	return x->c->top ? TOP_INTERVAL : 0;
}

static void take_signal(struct exits_run *x)
{
	struct signalfd_siginfo si;

	/* Taken, so that the final table can be written; the next one interrupts even that. */
	(void)!read(x->signal_fd, &si, sizeof(si));
	x->end = EXITS_SIGNAL;
}

static void take_key(struct exits_run *x)
{
	char c;
	ssize_t n = read(STDIN_FILENO, &c, 1);

	if (n == 1 && (c == 'q' || c == 'Q'))
		x->end = EXITS_QUIT;
	else if (n <= 0)
		x->screen.keys = false;
}

static int wait_until(struct exits_run *x, uint64_t when)
{
	struct pollfd p[4] = {
		{ .fd = x->signal_fd, .events = POLLIN },
		{ .fd = x->inotify_fd, .events = POLLIN },
		{ .fd = x->screen.keys ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = x->c->file ? -1 : STDOUT_FILENO }, /* POLLERR: the reader is gone */
	};
	uint64_t now = util_now_ns();
	uint64_t ms = when > now ? (when - now + 999999) / 1000000 : 0;

	if (poll(p, 4, (int)MIN(ms, (uint64_t)60000)) < 0 && errno != EINTR)
		return err_why(x->err, errno, "cannot wait");
	if (p[1].revents)
		exits_who_changed(x);
	if (p[2].revents)
		take_key(x);
	if (p[3].revents & POLLERR)
		x->end = EXITS_READER_GONE;
	if (p[0].revents)
		take_signal(x);
	return 0;
}

/* One table, and the next interval begins. */
static int table(struct exits_run *x, bool last)
{
	int ret = x->engine->read(x, last);

	ret = ret ?: exits_who_new(x);
	if (!ret)
		ret = x->screen.on && !last ? exits_top_show(x) : exits_show(x);
	if (ret)
		return ret;
	x->tables++;
	exits_interval(&x->table);
	x->interval_ns = util_now_ns();
	if (x->c->count.set && x->tables >= x->c->count.v && !x->end)
		x->end = EXITS_COUNT;
	return 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : MIN(a, b);
}

struct due {
	uint64_t end, table, tick, alive;
};

static int do_due(struct exits_run *x, struct due *d)
{
	uint64_t now = util_now_ns(), step = interval_ns(x);
	int ret = 0;

	if (x->engine->tick && now >= d->tick) {
		ret = x->engine->tick(x);
		d->tick = util_now_ns() + (uint64_t)x->engine->tick_ms * 1000000;
	}
	if (!ret && now >= d->alive) {
		ret = exits_who_tick(x);
		if (exits_target_gone(x))
			x->end = EXITS_TARGET_GONE;
		d->alive = now + (uint64_t)ALIVE_MS * 1000000;
	}
	if (!ret && x->rescan_ns && now >= x->rescan_ns)
		ret = exits_who_tick(x);
	if (d->end && now >= d->end && !x->end)
		x->end = EXITS_DURATION;
	/* At the end a table is printed anyway. */
	if (!ret && step && now >= d->table && !x->end) {
		ret = table(x, false);
		d->table += step;
		d->table = MAX(d->table, util_now_ns());
	}
	return ret;
}

int exits_loop(struct exits_run *x)
{
	uint64_t step = interval_ns(x), now = x->begin_ns;
	struct due d = {
		.end = x->c->duration.set ? now + x->c->duration.v : 0,
		.table = step ? now + step : 0,
		.tick = x->engine->tick ? now : 0,
		.alive = now,
	};
	int ret = 0;

	while (!x->end && !ret) {
		uint64_t when = earlier(d.end, d.table);

		when = earlier(earlier(when, d.tick), earlier(d.alive, x->rescan_ns));
		ret = wait_until(x, when);
		if (!ret && !x->end)
			ret = do_due(x, &d);
	}
	if (ret || x->end == EXITS_READER_GONE || x->end == EXITS_COUNT)
		return ret;
	exits_top_end(x);
	ret = table(x, true);
	if (!ret && x->end == EXITS_TARGET_GONE)
		x->note("%s ended", x->target.pid ? "the VM" : "what kvmft counted");
	return ret;
}
