/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_marker.c: events of QEMU in the host's own trace. Their stamps are the ring's: no conversion
 * is needed.
 */
#include "qemu_marker.h"
#include "kvmft/events.h"
#include "qemu_types.h"

struct qmarker {
	const struct hostmap *map;
	const struct qevents *(*get)(void *arg); /* NULL: it was called */
	void *arg;
	const struct qevents *events;
	struct qtypes types;
	const struct fmt_event *print; /* the host's ftrace:print */
	uint32_t text;		       /* where its text begins */
	struct rec rec;
	uint8_t *data;
	uint64_t met;
};

int qmarker_new(const struct hostmap *map, const struct qevents *(*get)(void *arg), void *arg,
		struct qmarker **out, struct kvmft_err *err)
{
	struct qmarker *m = calloc(1, sizeof(*m));
	struct event_type print;
	int ret;

	*out = NULL;
	if (!m)
		return err_set(err, ENOMEM, "out of memory");
	m->map = map;
	m->get = get;
	m->arg = arg;
	if (!event_find(map->fmt, EV_PRINT, 1, &print)) {
		qmarker_free(m);
		return 0;
	}
	m->print = print.ev;
	m->text = print.f[0].off; /* an array without a size, the last field */
	ret = qtypes_init(&m->types, err);
	if (ret)
		qmarker_free(m);
	else
		*out = m;
	return ret;
}

void qmarker_free(struct qmarker *m)
{
	if (!m)
		return;
	if (m->types.fmt)
		qtypes_free(&m->types);
	free(m->data);
	free(m);
}

/*
 * Any program may write what looks like an event: only a thread of a VM's process is trusted. If no
 * VM is known, or only the recorded command could write, a text is trusted if its arguments fit the
 * declaration.
 */
static bool is_qemu(const struct qmarker *m, const struct tl_item *item,
		    const struct qtrace_item *i)
{
	if (m->map->nvm && hostmap_task_vm(m->map, item->tid) >= 0)
		return true;
	return i->has_args && (!m->map->nvm || m->map->cap->marker_of_command);
}

int qmarker_resolve(struct qmarker *m, struct tl_item *item)
{
	const struct rec *rec = item->rec;
	struct qtrace_item i;
	const char *text;
	int ret;

	if (item->ev != m->print || rec->len <= m->text)
		return 0;
	if (m->get)
		m->events = m->get(m->arg);
	m->get = NULL;
	if (!m->events)
		return 0;
	text = (const char *)rec->data + m->text;
	if (!qtrace_marker(m->events, text, strnlen(text, rec->len - m->text), &i) ||
	    !is_qemu(m, item, &i))
		return 0;
	i.tid = item->tid;
	free(m->data);
	ret = qtypes_record(&m->types, &i, &m->rec.id, &m->data, &m->rec.len);
	if (ret)
		return ret;
	m->rec.data = m->data;
	m->rec.ts = rec->ts;
	m->met++;
	item->rec = &m->rec;
	item->ev = fmt_by_id(m->types.fmt, m->rec.id);
	item->marker = m;
	item->usual = false;
	return 0;
}

const struct fmt_event *qmarker_event(const struct qmarker *m)
{
	return m->print;
}

const struct fmt *qmarker_fmt(const struct qmarker *m)
{
	return m->types.fmt;
}

void qmarker_print(const struct qmarker *m, const struct tl_item *item, struct sbuf *out)
{
	qtypes_print(&m->types, item->rec, out);
}

uint64_t qmarker_met(const struct qmarker *m)
{
	return m->met;
}

void qmarker_restart(struct qmarker *m)
{
	m->met = 0;
}
