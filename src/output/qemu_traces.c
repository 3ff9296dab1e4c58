/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_traces.c: traces of QEMU on a timeline, or alone: which, in which format, of which VM, and
 * how well they were placed.
 */
#include "kvmft/results.h"

/* A file may have colons in its name: what exists as a whole is a file. */
static int trace_split(const char *text, struct tl_qemu *q, char **path, const char **vm,
		       struct kvmft_err *err)
{
	const char *const *names = qtrace_format_names, *at;
	int format = QTRACE_AUTO;

	*vm = NULL;
	*path = xstrdup(text);
	if (!access(text, F_OK))
		return 0;
	for (at = strchr(text, ':'); at; at = strchr(at + 1, ':')) {
		size_t n = strcspn(at + 1, ":");

		(*path)[at - text] = '\0';
		if (!access(*path, F_OK)) {
			while (n && names[format] &&
			       (strlen(names[format]) != n || memcmp(names[format], at + 1, n)))
				format++;
			if (!names[format])
				return err_usage(
					err,
					"option --qemu: '%.*s' is not a format: simple, log, syslog "
					"or ust",
					(int)n, at + 1);
			q->format = (enum qtrace_format)format;
			*vm = at[1 + n] && at[2 + n] ? at + 2 + n : NULL;
			return 0;
		}
		(*path)[at - text] = ':';
	}
	return err_why(err, ENOENT, "cannot open %s", text);
}

/* Where QEMU installs its declarations; a QEMU of another version has others. */
static void find_qemu_events(struct qemu_traces *m)
{
	static const char *const places[] = {
		"/usr/share/qemu/trace-events-all",
		"/usr/share/qemu/trace-events",
		"/usr/local/share/qemu/trace-events-all",
		"/usr/share/qemu-kvm/trace-events-all",
	};

	for (size_t i = 0; i < ARRAY_SIZE(places) && !m->events; i++) {
		struct kvmft_err err = { .text = "" };

		if (qevents_load(places[i], true, &m->events, &err) == -EPERM && !m->refused)
			m->refused = xstrdup(err.text);
	}
	m->found = m->events != NULL;
}

/* They are many, and few captures have anything of QEMU: only when there is something. */
static const struct qevents *events_asked(void *arg)
{
	struct qemu_traces *m = arg;

	if (!m->events && !m->looked)
		find_qemu_events(m);
	m->looked = true;
	return m->events;
}

void qemu_traces_events(struct view_opts *o)
{
	struct str_list *l = &o->qemu;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		char *format = strrchr(l->v[i], ':');

		if (format && !strcmp(format, ":events")) {
			*format = '\0';
			o->trace_events = l->v[i];
		} else {
			l->v[n++] = l->v[i];
		}
	}
	l->n = n;
}

int qemu_traces_add(struct qemu_traces *m, struct pairing *p, const struct str_list *traces,
		    const char *events, struct kvmft_err *err)
{
	bool markers = event_format(p->map->fmt, EV_PRINT);
	int ret = 0;

	for (size_t i = 0; i < p->nlater; i++)
		markers = markers || event_format(p->later[i].map->fmt, EV_PRINT);

	if (events && !traces->n && !markers)
		return err_usage(
			err, "option --qemu: a trace, or a host "
			     "recorded with -e marker, goes with %s:events", events);
	if (!traces->n && !markers)
		return 0;
	if (events && !m->events)
		ret = qevents_load(events, false, &m->events, err);
	else if (traces->n)
		(void)events_asked(m);
	for (size_t i = 0; i < traces->n && !ret; i++) {
		struct tl_qemu q = { .events = m->events, .vm = -1 };
		_cleanup_free_ char *path = NULL;
		const char *vm;

		ret = trace_split(traces->v[i], &q, &path, &vm, err);
		q.path = path;
		if (!ret && vm) {
			q.vm = hostmap_find_vm(p->map, vm, err);
			ret = (int)MIN(q.vm, (int64_t)0);
		}
		ret = ret ?: tl_add_qemu(p->t, &q, err);
	}
	if (!ret && markers)
		tl_add_markers(p->t, events_asked, m);
	return ret;
}

/* ---- without the capture of its host, in the order and with the clock of the file ---- */

#define FLUSH_AT (256u << 10)

struct alone {
	const struct qemu_alone *o;
	struct sbuf b, text;
	bool begun;
	uint64_t base; /* ns of the first event with a time */
};

/* The arguments, as QEMU's own format or the file has them. */
static void qemu_put_text(struct alone *a, const struct qtrace_item *i)
{
	sbuf_reset(&a->text);
	if (i->text)
		sbuf_add_mem(&a->text, i->text, i->text_len);
	else if (i->has_args)
		qev_print(i->ev, i->arg, i->ev->nargs, &a->text);
	else
		for (uint32_t k = 0; k < i->nraw; k++)
			sbuf_addf(&a->text, "%s0x%" PRIx64, k ? " " : "args ", i->raw[k]);
	for (size_t k = 0; k < a->text.len && !a->text.error; k++)
		a->text.s[k] = a->text.s[k] ? a->text.s[k] : '?';
	if (a->text.len && !a->text.error)
		str_printable(a->text.s);
}

static bool time_of(struct alone *a, const struct qtrace_item *i, uint64_t *ns)
{
	if (i->clock == QTRACE_NO_CLOCK)
		return false;
	if (!a->begun && !a->o->clock) {
		a->begun = true;
		a->base = i->ns;
	}
	*ns = i->ns - a->base;
	return true;
}

static void json_line(struct alone *a, const struct qtrace_item *i)
{
	uint64_t ns = 0;
	bool known = time_of(a, i, &ns);
	struct json j;

	json_line_begin(&j, &a->b);
	json_put_str(&j, "kind", i->kind == QTRACE_LOST ? "lost" : "event");
	json_put_str(&j, "side", "qemu");
	json_put_known_s64(&j, "time", known, (int64_t)ns);
	json_put_known_s64(&j, "tid", i->tid, i->tid);
	if (i->kind == QTRACE_LOST) {
		json_put_known_u64(&j, "count", i->lost, i->lost);
		json_line_end(&j);
		return;
	}
	json_key(&j, "event");
	json_str_mem(&j, i->name, i->name_len);
	json_put_object(&j, "fields");
	for (size_t k = 0; i->has_args && k < i->ev->nargs; k++) {
		const struct qev_arg *d = &i->ev->arg[k];
		const struct qev_value *v = &i->arg[k];

		if (d->kind == QEV_STRING) {
			json_key(&j, d->name);
			v->s ? json_str_mem(&j, v->s, v->len) : json_null(&j);
		} else if (d->kind == QEV_POINTER) {
			json_key(&j, d->name);
			json_hex(&j, v->num);
		} else if (d->kind == QEV_SIGNED) {
			json_put_s64(&j, d->name, (int64_t)v->num);
		} else {
			json_put_u64(&j, d->name, v->num);
		}
	}
	json_object_end(&j);
	qemu_put_text(a, i);
	json_put_str(&j, "text", a->text.len ? a->text.s : "");
	json_line_end(&j);
}

static int qemu_alone_print(const struct qemu_alone *o)
{
	struct alone a = { .o = o };
	struct qtrace_item i;
	int ret = 0;

	while (qtrace_stats(o->t)->events < o->most && (ret = qtrace_next(o->t, &i)) > 0) {
		if (o->clock && i.clock && i.clock != o->clock) {
			ret = -EDOM;
			break;
		}
		if (o->json) {
			json_line(&a, &i);
		} else {
			uint64_t ns;
			time_t second;
			char date[32];
			struct tm tm;

			sbuf_addf(&a.b, "qemu -%-7" PRId32 " ", i.tid);
			if (!time_of(&a, &i, &ns)) {
				sbuf_addf(&a.b, "%15s", "?");
			} else {
				second = (time_t)(ns / 1000000000u);
				if (a.o->clock && i.clock == QTRACE_REALTIME &&
				    localtime_r(&second, &tm) &&
				    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm))
					sbuf_addf(&a.b, "%s.%09" PRIu64, date, ns % 1000000000u);
				else
					sbuf_addf(&a.b, "%s%5" PRIu64 ".%09" PRIu64,
						  (int64_t)ns < 0 ? "-" : "",
						  ((int64_t)ns < 0 ? -ns : ns) / 1000000000u,
						  ((int64_t)ns < 0 ? -ns : ns) % 1000000000u);
			}
			if (i.kind == QTRACE_LOST) {
				if (i.lost)
					sbuf_addf(&a.b, "  LOST %" PRIu64 " EVENTS\n", i.lost);
				else
					sbuf_add(&a.b, "  LOST EVENTS, their number is unknown\n");
			} else {
				qemu_put_text(&a, &i);
				sbuf_addf(&a.b, "  qemu:%.*s:%s%s\n", (int)i.name_len, i.name,
					  a.text.len ? " " : "", a.text.len ? a.text.s : "");
			}
		}
		if (a.b.len >= FLUSH_AT && (ret = sbuf_write(&a.b, o->f)))
			break;
	}
	ret = ret < 0 ? ret : sbuf_write(&a.b, o->f);
	sbuf_free(&a.b);
	sbuf_free(&a.text);
	return ret;
}

static void note_misfits(const struct qemu_traces *m, const char *label,
			 const struct qtrace_stats *s)
{
	if (s->undeclared || s->misfits)
		m->note("%s: %" PRIu64 " events are not declared in %s, the arguments of %" PRIu64
			" do not fit: does it belong to this QEMU?",
			label, s->undeclared,
			m->events ? qevents_name(m->events)
				  : "any trace-events-all (--qemu FILE:events)",
			s->misfits);
}

int qemu_traces_alone(struct qemu_traces *m, const char *trace, const char *events,
		      const struct qemu_alone *how, bool quiet, bool *complete,
		      struct kvmft_err *err)
{
	struct qemu_alone o = *how;
	struct tl_qemu q = { .vm = -1 };
	_cleanup_free_ char *path = NULL;
	struct qtrace *t = NULL;
	const char *vm;
	int ret = trace_split(trace, &q, &path, &vm, err);

	if (!ret && events)
		ret = qevents_load(events, false, &m->events, err);
	else if (!ret)
		find_qemu_events(m);
	if (!ret)
		ret = qtrace_open(
			path, &(struct qtrace_options){ .format = q.format, .events = m->events },
			&t, err);
	if (ret)
		return ret;
	o.t = t;
	ret = qemu_alone_print(&o);
	if (qtrace_stats(t)->events < how->most) { /* else it was not read to its end */
		const struct qtrace_stats *s = qtrace_stats(t);

		/* Nothing else reports what became of it. */
		if (!quiet)
			m->note("%s: %" PRIu64 " events, %" PRIu64 " lost", path, s->events,
				s->lost);
		note_misfits(m, path, s);
		if (s->foreign && !quiet)
			m->note("%s: %" PRIu64 " lines are not trace events", path, s->foreign);
		if (s->damage || s->truncated)
			m->note("%s: %s", path, s->damage ?: "its end is cut off");
		*complete = !s->lost_records && !s->damage && !s->truncated;
	}
	if (ret == -EDOM)
		err_usage(err, "--clock %s: the times of %s are of the clock %s",
			  o.clock == QTRACE_MONO ? "mono" : "realtime", path,
			  o.clock == QTRACE_MONO ? "realtime" : "mono");
	else if (ret && ret != -EPIPE)
		err_why(err, ret, "cannot print %s", path);
	else if (!ret && !qtrace_stats(t)->events)
		ret = err_set(err, ENODATA, "%s holds no events", path);
	qtrace_close(t);
	return ret;
}

void qemu_traces_free(struct qemu_traces *m)
{
	qevents_free(m->events);
	m->events = NULL;
	free(m->refused);
	m->refused = NULL;
}

/* ---- the summary ---- */

static void note_times(const struct qemu_traces *m, const struct tl_source *s,
		       const struct tl_qemu_report *r, bool quiet)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (r->no_clock)
		m->note("%s: the host capture has no readings of the clock of this trace%s%s: nothing can be placed",
			s->label, r->why ? "; " : "", r->why ?: "");
	else if (r->why)
		m->note("%s: %s", s->label, r->why);
	if (r->untimed)
		m->note("%s: %" PRIu64 " events without a time stamp, marked with ?%s", s->label,
			r->untimed,
			r->stats->format == QTRACE_LOG ? " (QEMU writes it with -msg timestamp=on)"
						       : "");
	if ((!quiet || r->steps) && s->events > s->unplaced) {
		const char *clock =
			r->stats->format == QTRACE_SIMPLE ? "CLOCK_MONOTONIC" : "CLOCK_REALTIME";

		if (r->shown)
			sbuf_addf(&b, "by %" PRIu64 " events that both sides show, off by at most ",
				  r->shown);
		else
			sbuf_addf(&b, "by %s, off by at most ", clock);
		pairing_add_magnitude(&b, r->worst, s->cap);
		if (r->shown) {
			sbuf_add(&b, ", half of them by ");
			pairing_add_magnitude(&b, r->median, s->cap);
		}
		if (r->stats->format != QTRACE_SIMPLE && r->steps && !r->shown)
			sbuf_addf(&b,
				  "; the clock was set %" PRIu64
				  " times while the host recorded: what falls there is "
				  "marked with ?",
				  r->steps);
		m->note("%s: placed %s", s->label, b.s ?: "");
	}
	if (r->outside && !quiet)
		m->note("%s: %" PRIu64
			" events are from before or after the recording, and left out",
			s->label, r->outside);
}

bool qemu_traces_summary(const struct qemu_traces *m, const struct timeline *t, bool quiet)
{
	const uint64_t markers = tl_markers(t);
	bool any = markers != 0, some = true;

	if (markers && !quiet)
		m->note("host: %" PRIu64 " events of QEMU from its trace marker: exact", markers);

	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);
		struct tl_qemu_report r;

		if (!s->qemu)
			continue;
		any = true;
		some = some && (!s->events || s->unplaced < s->events);
		tl_qemu_report(s, &r);
		if (!quiet && r.stats->format == QTRACE_SIMPLE)
			m->note("%s: %s, back end simple, format %u", s->label, s->cap->path,
				r.stats->version);
		else if (!quiet)
			m->note("%s: %s, back end %s", s->label, s->cap->path,
				qtrace_format_names[r.stats->format]);
		note_times(m, s, &r, quiet);
		if (!quiet && r.stats->foreign)
			m->note("%s: %" PRIu64 " lines are not trace events", s->label,
				r.stats->foreign);
		if (!quiet && r.stats->folded)
			m->note("%s: %" PRIu64 " repeated lines were folded by the syslog daemon",
				s->label, r.stats->folded);
		if (!quiet)
			note_misfits(m, s->label, r.stats);
	}
	if (any && m->refused && !quiet)
		m->note("%s; if it is right, name it with --qemu FILE:events", m->refused);
	if (any && m->found && !quiet)
		m->note("QEMU's events by %s; --qemu FILE:events names that of another QEMU",
			qevents_name(m->events));
	else if (any && !m->events && !quiet)
		m->note("no trace-events-all of QEMU was found: arguments are shown without their names (see "
			"--qemu FILE:events)");
	return some;
}
