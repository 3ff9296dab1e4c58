/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_loop.c: every tick the rings are read and what can be ordered is printed.
 *
 * Output goes through poll() and write() in small pieces, so that a signal is obeyed even when
 * nobody reads the pipe behind standard output, and a reader that goes away is noticed even when
 * no event comes.
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>

#define FLUSH_AT (256u << 10)

int trace_signals(struct trace *t)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set(t->err, errno, "cannot block signals: %s", strerror(errno));
	t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (t->signal_fd < 0)
		return err_set(t->err, errno, "signalfd: %s", strerror(errno));
	return 0;
}

uint64_t trace_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t trace_elapsed_ms(struct trace *t)
{
	uint64_t ns = trace_now_ns() - t->begin_ns;

	if (!t->end && t->o->duration.set && ns >= t->o->duration.v)
		t->end = TRACE_DURATION;
	return ns / 1000000;
}

int trace_wait(struct trace *t, unsigned int ms)
{
	struct pollfd p[2] = { { .fd = t->signal_fd, .events = POLLIN },
			       { .fd = STDOUT_FILENO } }; /* POLLERR: the reader is gone */

	if (poll(p, 2, (int)ms) < 0 && errno != EINTR)
		return err_set(t->err, errno, "cannot wait: %s", strerror(errno));
	if (p[0].revents)
		t->end = TRACE_SIGNAL;
	else if (p[1].revents & POLLERR)
		t->end = TRACE_READER_GONE;
	return 0;
}

/* How much can be written without being blocked when poll() says "writable". */
static size_t piece_size(void)
{
	struct stat st;

	return fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) ? SIZE_MAX : PIPE_BUF;
}

static int loop_flush(struct trace *t)
{
	size_t at = 0, piece = piece_size();

	if (t->line.error)
		return err_set(t->err, ENOMEM, "out of memory");
	while (at < t->line.len) {
		struct pollfd p[2] = { { .fd = STDOUT_FILENO, .events = POLLOUT },
				       { .fd = t->signal_fd, .events = POLLIN } };
		ssize_t n;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_set(t->err, errno, "cannot wait: %s", strerror(errno));
		if (!p[0].revents && p[1].revents) {
			t->end = TRACE_SIGNAL; /* nobody reads: what is left is not wanted */
			break;
		}
		if (!p[0].revents)
			continue;
		n = write(STDOUT_FILENO, t->line.s + at, MIN(t->line.len - at, piece));
		if (n < 0 && errno == EPIPE) {
			t->end = TRACE_READER_GONE;
			break;
		}
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_set(t->err, errno, "cannot write: %s", strerror(errno));
		at += n > 0 ? (size_t)n : 0;
	}
	sbuf_reset(&t->line);
	return 0;
}

/* Prints what live_read() released. */
static int loop_print(struct trace *t)
{
	struct live_item item;
	int ret = 0;

	while (!ret && t->end != TRACE_COUNT && t->end != TRACE_READER_GONE &&
	       live_next(t->live, &item)) {
		if (trace_line(t, &item) && item.kind == R_EVENT)
			t->printed++;
		if (t->o->count.set && t->printed >= t->o->count.v)
			t->end = TRACE_COUNT;
		if (t->line.len >= FLUSH_AT)
			ret = loop_flush(t);
	}
	return ret ? ret : loop_flush(t);
}

/* 1: there is more to read at once. */
static int loop_read(struct trace *t, bool last)
{
	int more = live_read(t->live, last), ret;

	if (more < 0)
		return err_set(t->err, -more, "cannot read the ring: %s", strerror(-more));
	ret = loop_print(t);
	return ret ? ret : more;
}

/* Everything that the ring still holds; not wanted when enough was printed. */
static int loop_rest(struct trace *t)
{
	int ret = kinst_events_disable(t->k);

	if (ret)
		return err_set(t->err, -ret, "cannot disable the events: %s", strerror(-ret));
	if (t->end == TRACE_COUNT || t->end == TRACE_READER_GONE)
		return 0;
	do {
		ret = loop_read(t, true);
	} while (ret > 0 && t->end != TRACE_COUNT && t->end != TRACE_READER_GONE);
	return MIN(ret, 0);
}

static uint64_t until_next(struct trace *t, uint64_t next_ms)
{
	uint64_t now = trace_elapsed_ms(t), wait = next_ms > now ? next_ms - now : 0, left;

	if (t->o->duration.set && !t->end) {
		left = (t->o->duration.v + 999999) / 1000000;
		left = left > now ? left - now : 0;
		wait = MIN(wait, left);
	}
	return wait;
}

/*
 * Never faster than the tick, even when there is much to read: the time between two reads is the
 * window in which late events find their place.
 */
int trace_loop(struct trace *t)
{
	uint64_t next = 0;
	int ret = 0;

	while (!t->end) {
		t->tick++;
		next = MAX(next + TRACE_TICK_MS, trace_elapsed_ms(t));
		ret = trace_wait(t, (unsigned int)until_next(t, next));
		if (!ret && !t->end)
			ret = loop_read(t, false);
		if (ret < 0)
			return ret;
	}
	return loop_rest(t);
}
