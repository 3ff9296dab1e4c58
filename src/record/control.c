/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.c: a recorder that takes orders, from a process that records several machines at once.
 *
 * They come as lines, through a pipe or a connection: if its other end is gone, so is the reason to
 * record.
 */
#include "record.h"

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
