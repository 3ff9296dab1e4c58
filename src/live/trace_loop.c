/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_loop.c: every tick the rings are read and what can be ordered is printed. A reader that
 * goes away is noticed even if no event comes.
 */
#include "trace.h"

#include <poll.h>

#define FLUSH_AT (256u << 10)

uint64_t trace_elapsed_ms(struct trace *t)
{
	uint64_t ns = util_now_ns() - t->begin_ns;

	if (!t->end && t->c->duration.set && ns >= t->c->duration.v)
		t->end = TRACE_DURATION;
	return ns / 1000000;
}

int trace_wait(struct trace *t, unsigned int ms)
{
	struct pollfd p[2] = { { .fd = t->signal_fd, .events = POLLIN },
			       { .fd = STDOUT_FILENO } }; /* POLLERR: the reader is gone */

	if (poll(p, 2, (int)ms) < 0 && errno != EINTR)
		return err_why(t->err, errno, "cannot wait");
	if (p[0].revents)
		t->end = TRACE_SIGNAL;
	else if (p[1].revents & POLLERR)
		t->end = TRACE_READER_GONE;
	return 0;
}

static int loop_flush(struct trace *t)
{
	const struct sbuf *line = &t->line;
	enum session_write how;
	int ret;

	t->cut.width = t->c->width;
	if (t->c->width) {
		line = &t->shown;
		screen_cut(&t->cut, t->line.s, t->line.len, &t->shown);
	}
	if (line->error)
		return err_set(t->err, ENOMEM, "out of memory");
	ret = session_write(t->signal_fd, line->s, line->len, &how, t->err);
	if (how == SESSION_SIGNAL)
		t->end = TRACE_SIGNAL;
	else if (how == SESSION_READER_GONE)
		t->end = TRACE_READER_GONE;
	sbuf_reset(&t->line);
	sbuf_reset(&t->shown);
	return ret;
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
		if (t->c->count.set && t->printed >= t->c->count.v)
			t->end = TRACE_COUNT;
		if (t->line.len >= FLUSH_AT)
			ret = loop_flush(t);
	}
	return ret ?: loop_flush(t);
}

/* 1: there is more to read at once. */
static int loop_read(struct trace *t, bool last)
{
	int more = live_read(t->live, last), ret;

	if (more < 0)
		return err_why(t->err, more, "cannot read the ring");
	ret = loop_print(t);
	return ret ?: more;
}

/* Everything that the ring still holds; not wanted if enough was printed. */
static int loop_rest(struct trace *t)
{
	int ret = kinst_events_disable(t->k);

	if (ret)
		return err_why(t->err, ret, "cannot disable the events");
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

	if (t->c->duration.set && !t->end) {
		left = (t->c->duration.v + 999999) / 1000000;
		left = left > now ? left - now : 0;
		wait = MIN(wait, left);
	}
	return wait;
}

/*
 * Never faster than the tick, even if there is much to read: the time between two reads is the
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
