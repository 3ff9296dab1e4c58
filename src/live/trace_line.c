/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_line.c: one line per event, as `kvmft merge` prints it but without the side:
 *   TASK-TID  [CPU]  TIME  SYSTEM:EVENT: FIELDS
 */
#include "trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

#include "kvmft/output.h"
#include "kvmft/put.h"

#define COMMS_MAX   65536		   /* then all are forgotten */
#define COMMS_TICKS (2000 / TRACE_TICK_MS) /* a name is trusted this long: exec changes it */

void trace_comms_free(struct trace_comms *c)
{
	free(c->v);
	u64map_free(&c->by_tid);
	*c = (struct trace_comms){ 0 };
}

static struct trace_comm *comm_slot(struct trace_comms *c, int32_t tid)
{
	struct trace_comm *m;
	uint64_t at;

	if (u64map_get(&c->by_tid, (uint32_t)tid, &at))
		return &c->v[at];
	if (c->n >= COMMS_MAX)
		trace_comms_free(c);
	m = array_grow(&c->v, c->n, &c->cap, sizeof(*m));
	if (!m || u64map_put(&c->by_tid, (uint32_t)tid, c->n))
		return NULL;
	c->n++;
	return m;
}

/*
 * Threads that were gone before we looked: the kernel remembers the names of some, lines of "TID
 * NAME". Once a tick is enough.
 */
static void comms_from_kernel(struct trace *t)
{
	_cleanup_free_ char *text = NULL;
	char *save, *line, *end;

	if (t->comms.asked == t->tick || ktracefs_text(t->t, "saved_cmdlines", &text))
		return;
	t->comms.asked = t->tick;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		long tid = strtol(line, &end, 10);
		struct trace_comm *m;

		if (end == line || *end != ' ' || tid <= 0 || tid > INT32_MAX)
			continue;
		m = comm_slot(&t->comms, (int32_t)tid);
		if (!m || m->name[0])
			continue;
		snprintf(m->name, sizeof(m->name), "%.31s", end + strspn(end, " "));
		str_printable(m->name);
	}
}

/* From /proc while the thread lives; afterwards the last known name stays. */
static const char *comm_get(struct trace *t, int32_t tid)
{
	struct trace_comm *m;
	char path[64], name[32];

	if (tid == 0)
		return "<idle>";
	m = comm_slot(&t->comms, tid);
	if (!m)
		return "<...>";
	if (m->tick && t->tick - m->tick < COMMS_TICKS)
		return m->name;
	m->tick = t->tick;
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/comm", tid);
	if (file_read_line(AT_FDCWD, path, name, sizeof(name)) == 0) {
		str_printable(name);
		memcpy(m->name, name, sizeof(name));
	} else if (!m->name[0]) {
		comms_from_kernel(t);
		m = comm_slot(&t->comms, tid); /* the array may have moved */
		if (m && !m->name[0])
			strcpy(m->name, "<...>");
	}
	return m ? m->name : "<...>";
}

/* As in merge with --clock realtime. */
static void line_date(uint64_t ns, char *text, size_t size)
{
	time_t second = (time_t)(ns / 1000000000u);
	char date[32];
	struct tm tm;

	if (localtime_r(&second, &tm) && strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, size, "%s.%09" PRIu64, date, ns % 1000000000u);
	else
		snprintf(text, size, "?");
}

static void line_time(struct trace *t, const struct live_item *i, int32_t tid)
{
	char text[48];
	uint64_t v;

	if (!trace_clock_value(t, i->ts, tid, &v))
		strcpy(text, "?");
	else if (t->time == TRACE_REALTIME)
		line_date(v, text, sizeof(text));
	else if (t->time == TRACE_UNITS)
		snprintf(text, sizeof(text), "%" PRIu64, v);
	else
		snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, v / 1000000000u,
			 v % 1000000000u);
	t->time_width = MAX(t->time_width, (int)strlen(text));
	sbuf_addf(&t->line, "%*s  ", t->time_width, text);
}

/* What precedes the time. Wider ones are not waited for: a column grows when it must. */
static void line_who(struct trace *t, const char *task, uint32_t cpu)
{
	uint32_t last = t->cpus.n ? t->cpus.cpu[t->cpus.n - 1] : 0;

	t->task_width = MAX(t->task_width, (int)strlen(task));
	sbuf_addf(&t->line, "%-*s [%0*u] ", t->task_width, task, (int)put_dec_len(last), cpu);
}

/* The line that began at from; its event, or what became of it, at `what`. */
static void line_end(struct trace *t, size_t from, size_t what)
{
	sbuf_addc(&t->line, '\n');
	if (t->c->color)
		out_paint(&t->line, from, 0, what - from, 0);
}

static void line_lost(struct trace *t, const struct live_item *i)
{
	size_t from = t->line.len, what;

	line_who(t, "-", i->cpu);
	line_time(t, i, -1);
	what = t->line.len;
	if (i->kind == R_DAMAGE)
		sbuf_add(&t->line, "DAMAGED: a sub-buffer of this CPU could not be read");
	else if (i->lost)
		sbuf_addf(&t->line, "LOST %" PRIu64 " EVENTS of this CPU", i->lost);
	else
		sbuf_add(&t->line, "LOST EVENTS of this CPU, their number is unknown");
	line_end(t, from, what);
}

bool trace_line(struct trace *t, const struct live_item *i)
{
	const struct fmt_event *ev;
	size_t from = t->line.len, what;
	char task[64];
	int32_t tid;

	if (i->kind != R_EVENT) {
		line_lost(t, i);
		return true;
	}
	if (t->time == TRACE_KVMCLOCK && !trace_kvmclock_feed(t, &i->rec))
		return false;
	tid = fmt_pid(t->fmt, &i->rec);
	snprintf(task, sizeof(task), "%s-%" PRId32, comm_get(t, tid), tid);
	line_who(t, task, i->cpu);
	line_time(t, i, tid);
	what = t->line.len;
	ev = fmt_by_id(t->fmt, i->rec.id);
	if (ev) {
		sbuf_add(&t->line, fmt_sys(ev));
		sbuf_addc(&t->line, ':');
		sbuf_add(&t->line, fmt_name(ev));
		sbuf_add(&t->line, ": ");
		fmt_print(ev, &i->rec, &t->line);
	} else {
		sbuf_addf(&t->line, "event-%u: (no format, %u bytes)", i->rec.id, i->rec.len);
	}
	line_end(t, from, what);
	return true;
}
