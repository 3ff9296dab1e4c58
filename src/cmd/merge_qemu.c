/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * merge_qemu.c: which traces of QEMU, in which format, of which VM; and how well they were placed.
 */
#include "merge_qemu.h"

#include <inttypes.h>
#include <limits.h>

#include "kvmft/events.h"
#include "kvmft/output.h"

/* A file may have colons in its name: what exists as a whole is a file. */
static int split(const char *text, struct tl_qemu *q, char **path, const char **vm,
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

static int add_one(struct merge_qemu *m, struct pairing *p, const char *text, struct kvmft_err *err)
{
	struct tl_qemu q = { .events = m->events, .vm = -1 };
	_cleanup_free_ char *path = NULL;
	const char *vm;
	int ret = split(text, &q, &path, &vm, err);

	if (ret)
		return ret;
	q.path = path;
	if (vm) {
		q.vm = hostmap_find_vm(p->map, vm, err);
		if (q.vm < 0)
			return (int)q.vm;
	}
	return tl_add_qemu(p->t, &q, err);
}

/* Where QEMU installs its declarations; a QEMU of another version has others. */
static void find_qemu_events(struct merge_qemu *m)
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
	struct merge_qemu *m = arg;

	if (!m->events && !m->looked)
		find_qemu_events(m);
	m->looked = true;
	return m->events;
}

int merge_qemu_add(struct merge_qemu *m, struct pairing *p, const struct str_list *traces,
		   const char *events, struct kvmft_err *err)
{
	bool markers = event_format(p->map->fmt, EV_PRINT);
	int ret = 0;

	for (size_t i = 0; i < p->nlater; i++)
		markers = markers || event_format(p->later[i].map->fmt, EV_PRINT);

	if (events && !traces->n && !markers)
		return err_usage(
			err, "option --trace-events: of which trace? It needs --qemu, or a host "
			     "recorded with --marker");
	if (!traces->n && !markers)
		return 0;
	if (events && !m->events)
		ret = qevents_load(events, false, &m->events, err);
	else if (traces->n)
		(void)events_asked(m);
	for (size_t i = 0; i < traces->n && !ret; i++)
		ret = add_one(m, p, traces->v[i], err);
	if (!ret && markers)
		tl_add_markers(p->t, events_asked, m);
	return ret;
}

static void note_misfits(const struct merge_qemu *m, const char *label,
			 const struct qtrace_stats *s)
{
	if (s->undeclared || s->misfits)
		cli_note("%s: %" PRIu64 " events are not declared in %s, the arguments of %" PRIu64
			 " do not fit: does it belong to this QEMU?",
			 label, s->undeclared,
			 m->events ? qevents_name(m->events)
				   : "any trace-events-all (--trace-events)",
			 s->misfits);
}

int merge_qemu_alone(struct merge_qemu *m, const char *trace, const char *events,
		     const struct qemu_alone *how, bool quiet, bool *complete,
		     struct kvmft_err *err)
{
	struct qemu_alone o = *how;
	struct tl_qemu q = { .vm = -1 };
	_cleanup_free_ char *path = NULL;
	struct qtrace *t = NULL;
	const char *vm;
	int ret = split(trace, &q, &path, &vm, err);

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
			cli_note("%s: %" PRIu64 " events, %" PRIu64 " lost", path, s->events,
				 s->lost);
		note_misfits(m, path, s);
		if (s->foreign && !quiet)
			cli_note("%s: %" PRIu64 " lines are not trace events", path, s->foreign);
		if (s->damage || s->truncated)
			cli_note("%s: %s", path, s->damage ?: "its end is cut off");
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

void merge_qemu_free(struct merge_qemu *m)
{
	qevents_free(m->events);
	m->events = NULL;
	free(m->refused);
	m->refused = NULL;
}

/* ---- the summary ---- */

static void note_times(const struct tl_source *s, const struct tl_qemu_report *r, bool quiet)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (r->no_clock)
		cli_note(
			"%s: the host capture has no readings of the clock of this trace%s%s: nothing can be placed",
			s->label, r->why ? "; " : "", r->why ?: "");
	else if (r->why)
		cli_note("%s: %s", s->label, r->why);
	if (r->untimed)
		cli_note("%s: %" PRIu64 " events without a time stamp, marked with ?%s", s->label,
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
		cli_note("%s: placed %s", s->label, b.s ?: "");
	}
	if (r->outside && !quiet)
		cli_note("%s: %" PRIu64
			 " events are from before or after the recording, and left out",
			 s->label, r->outside);
}

bool merge_qemu_summary(const struct merge_qemu *m, const struct timeline *t, bool quiet)
{
	const uint64_t markers = tl_markers(t);
	bool any = markers != 0, some = true;

	if (markers && !quiet)
		cli_note("host: %" PRIu64 " events of QEMU from its trace marker: exact", markers);

	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);
		struct tl_qemu_report r;

		if (!s->qemu)
			continue;
		any = true;
		some = some && (!s->events || s->unplaced < s->events);
		tl_qemu_report(s, &r);
		if (!quiet && r.stats->format == QTRACE_SIMPLE)
			cli_note("%s: %s, back end simple, format %u", s->label, s->cap->path,
				 r.stats->version);
		else if (!quiet)
			cli_note("%s: %s, back end %s", s->label, s->cap->path,
				 qtrace_format_names[r.stats->format]);
		note_times(s, &r, quiet);
		if (!quiet && r.stats->foreign)
			cli_note("%s: %" PRIu64 " lines are not trace events", s->label,
				 r.stats->foreign);
		if (!quiet && r.stats->folded)
			cli_note("%s: %" PRIu64 " repeated lines were folded by the syslog daemon",
				 s->label, r.stats->folded);
		if (!quiet)
			note_misfits(m, s->label, r.stats);
	}
	if (any && m->refused && !quiet)
		cli_note("%s; if it is right, name it with --trace-events", m->refused);
	if (any && m->found && !quiet)
		cli_note("QEMU's events by %s; --trace-events FILE names that of another QEMU",
			 qevents_name(m->events));
	else if (any && !m->events && !quiet)
		cli_note(
			"no trace-events-all of QEMU was found: arguments are shown without their names (see "
			"--trace-events)");
	return some;
}
