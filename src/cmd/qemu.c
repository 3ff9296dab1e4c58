/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu.c: `kvmft qemu`, the group of commands for QEMU's own trace events. A new one is a
 * descriptor called "qemu NAME" and a line in qemu_verbs[]; its options are described in a
 * subsection of man/kvmft-qemu.1 called "kvmft qemu NAME".
 */
#include "cmds.h"
#include "kvmft/sdt.h"
#include "kvmft/table.h"

#include <fnmatch.h>

/* Prints notes, which end each with '\n', on stderr. */
static void qemu_print_notes(const struct sbuf *notes)
{
	const char *p = notes->s;

	while (p && *p) {
		size_t n = strcspn(p, "\n");

		cli_note("%.*s", (int)n, p);
		p += n + !!p[n];
	}
}

/* ---- events: those of a running QEMU and their states ---- */

struct events_opts {
	struct qemu_target target;
	int format;
};

static const struct opt events_options[] = {
	QEMU_TARGET_OPTIONS(struct events_opts, target),
	OPTION_CHOICE(0, "format", struct events_opts, format, "FORMAT", cli_formats,
		      "how to print them (default: text)"),
	OPT_END,
};

/* What is printed about it all. */
struct qemu_view {
	const struct qemu *q;
	struct mon_events all;
	bool *shown; /* all.n of them */
	struct sbuf version;
};

static void qemu_event_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct mon_event none;
	const struct qemu_view *v = ctx;
	const struct mon_event *e = o->head ? &none : &v->all.v[i];

	if (!o->head && !v->shown[i])
		return;
	row_str(o, "name", e->name);
	row_str(o, "state", mon_state_names[e->state]);
	row_bool(o, "vcpu", true, e->vcpu);
}

static void qemu_event_json_head(struct json *j, const void *ctx)
{
	const struct qemu_view *v = ctx;

	json_put_str(j, "monitor", monitor_name(v->q->m));
	json_put_u64(j, "pid", v->q->pid);
	json_put_str(j, "name", v->q->name);
	json_put_str(j, "version", v->version.s);
	json_put_u64(j, "total", v->all.n);
	json_put_bool(j, "tells_unavailable", monitor_kind(v->q->m) == MON_QMP);
}

static int events_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct events_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf notes = { 0 }, b = { 0 };
	struct qemu_view v = { 0 };
	struct qemu q;
	int ret;

	for (int i = 0; i < argc; i++)
		if (!mon_pattern_ok(argv[i]))
			return err_usage(
				err,
				"'%s' cannot name a trace event: letters, digits, _ and the "
				"wildcards * and ? can",
				argv[i]);
	ret = qemu_open(&o->target, &q, err);
	v.q = &q;
	ret = ret ?: monitor_version(q.m, &v.version, err);
	ret = ret ?: monitor_events(q.m, &v.all, err);
	if (!ret) {
		struct mon_switches s = { 0 };

		v.shown = xcalloc(v.all.n + 1, sizeof(*v.shown));
		for (int i = 0; i < argc && !ret; i++) /* off: it may be compiled out */
			ret = mon_switches_add(&s, argv[i], false, err);
		ret = ret ?: qemu_check(&v.all, &s, &notes, err);
		for (size_t i = 0; i < v.all.n && !ret; i++)
			v.shown[i] = !argc || mon_switches_get(&s, v.all.v[i].name) >= 0;
		mon_switches_free(&s);
	}
	if (!ret) {
		if (o->format > FORMAT_TEXT)
			table_doc(&(struct table){ .cells = qemu_event_cells,
						   .ctx = &v,
						   .n = v.all.n },
				  o->format == FORMAT_CSV, "events", qemu_event_json_head, &b);
		for (size_t i = 0; o->format <= FORMAT_TEXT && i < v.all.n; i++)
			if (v.shown[i])
				sbuf_addf(&b, "%-11s  %s%s\n", mon_state_names[v.all.v[i].state],
					  v.all.v[i].name, v.all.v[i].vcpu ? "  (vcpu)" : "");
		ret = sink_show(&b, err);
	}
	if (!ret)
		qemu_print_notes(&notes);
	sbuf_free(&v.version);
	free(v.shown);
	mon_events_free(&v.all);
	qemu_close(&q);
	return ret;
}

static const struct cmd cmd_qemu_events = {
	.name = "qemu events",
	.summary = "trace events of a running QEMU, and their states",
	.args = "[PATTERN...]",
	.description =
		"Prints the events that a PATTERN matches (default: all), with * and ? as wildcards.\n"
		"unavailable: compiled out, nothing can switch it on; (vcpu): traced for each vCPU.",
	.examples = "  kvmft qemu events --vm vm1 'virtio_*'\n"
		    "  kvmft qemu events --monitor /run/vm1.qmp | grep ^enabled",
	.opts = events_options,
	.opts_size = sizeof(struct events_opts),
	.run = events_run,
	.max_args = -1,
};

/*
 * ---- set: on and off ----
 *
 * Everything is checked before anything is changed; if QEMU fails halfway, its former states are
 * restored as far as it still answers.
 */

#define EVENTS_FILE_MAX (1u << 20)

/* Of what only asks a QEMU. */
struct qemu_opts {
	struct qemu_target target;
};

static const struct opt target_options[] = {
	QEMU_TARGET_OPTIONS(struct qemu_opts, target),
	OPT_END,
};

static int read_switches(int argc, char **argv, struct mon_switches *s, struct kvmft_err *err)
{
	int ret = 0;

	for (int i = 0; i < argc && !ret; i++) {
		const char *file = str_starts(argv[i], "events=") ? strchr(argv[i], '=') + 1 : NULL;
		_cleanup_free_ char *text = NULL;
		bool on = i + 1 < argc && !strcmp(argv[i + 1], "on");
		ssize_t n = file ? file_read_all(AT_FDCWD, file, EVENTS_FILE_MAX, &text) : 0;

		if (file) {
			ret = n < 0 ? err_why(err, (int)n, "cannot read %s", file)
				    : mon_switches_add_text(s, text, (size_t)n, file, err);
			if (!ret && !s->n)
				ret = err_set(err, EINVAL, "there is no pattern in %s", file);
			continue;
		}
		if (i + 1 == argc || (!on && strcmp(argv[i + 1], "off")))
			return err_usage(err, "'%s' must be followed by on or off%s%s%s", argv[i],
					 i + 1 < argc ? ", not '" : "",
					 i + 1 < argc ? argv[i + 1] : "", i + 1 < argc ? "'" : "");
		ret = mon_switches_add(s, argv[i++], on, err);
	}
	if (!ret && !s->n)
		return err_usage(err, "nothing to switch: PATTERN on|off, or events=FILE");
	return ret;
}

/* What has changed; and what has not, though it was requested, which HMP does not say before. */
static int set_report(const struct mon_events *before, const struct mon_events *after,
		      const struct mon_switches *s, struct kvmft_err *err)
{
	size_t on = 0, off = 0, stays = 0, enabled = 0;
	const char *one = NULL, *named = NULL;

	for (size_t i = 0; i < after->n; i++) {
		const struct mon_event *e = &after->v[i], *was = mon_events_get(before, e->name);

		enabled += e->state == MON_ENABLED;
		if (was && was->state != e->state) {
			on += e->state == MON_ENABLED;
			off += e->state != MON_ENABLED;
		}
		if (e->state == MON_DISABLED && mon_switches_get(s, e->name) == 1) {
			stays++;
			one = one ?: e->name;
			/* Was this event itself requested, and not only by a wildcard? */
			for (size_t k = 0; k < s->n && !named; k++)
				named = strcmp(s->v[k].pattern, e->name) ? NULL : e->name;
		}
	}
	printf("switched %zu on, %zu off; %zu of %zu events are on\n", on, off, enabled, after->n);
	if (named)
		return err_set(err, ENOTSUP,
			       "%s stays off: it was compiled out of this QEMU (property disable, "
			       "or back end nop)",
			       named);
	if (stays)
		cli_note(
			"%s%s stay%s off: compiled out of this QEMU (property disable, or back end nop)",
			one, stays > 1 ? " and others" : "", stays > 1 ? "" : "s");
	return 0;
}

static int set_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct qemu_opts *o = opts;
	_cleanup_(mon_switches_free) struct mon_switches s = { 0 };
	_cleanup_(mon_events_free) struct mon_events before = { 0 }, after = { 0 }, now = { 0 };
	struct kvmft_err why = { .text = "" };
	_cleanup_(sbuf_free) struct sbuf notes = { 0 };
	_cleanup_(qemu_close) struct qemu q = { 0 };
	int ret = read_switches(argc, argv, &s, err);

	ret = ret ?: qemu_open(&o->target, &q, err);
	ret = ret ?: monitor_events(q.m, &before, err);
	ret = ret ?: qemu_check(&before, &s, &notes, err);
	for (size_t i = 0; i < s.n && !ret; i++) {
		ret = qemu_apply(q.m, &before, &s.v[i], err);
		/* Back to what was, if QEMU still answers. */
		if (ret)
			err_set(err, ret, "%s; the former states %s restored", err->text,
				monitor_events(q.m, &now, &why) ||
				qemu_restore(q.m, &before, &now, &why) ? "could not be" : "were");
	}
	ret = ret ?: monitor_events(q.m, &after, err);
	if (!ret) {
		ret = set_report(&before, &after, &s, err);
		qemu_print_notes(&notes);
	}
	return ret;
}

static const struct cmd cmd_qemu_set = {
	.name = "qemu set",
	.summary = "switch trace events of a running QEMU on or off",
	.args = "[PATTERN on|off | events=FILE]...",
	.description =
		"PATTERN is the name of an event, or has * and ? as wildcards. Of several that match an\n"
		"event, the last one counts. Nothing is changed if one of them is unknown. FILE is one of\n"
		"QEMU's -trace events=FILE: a pattern per line, # for comments, - in front to switch off.",
	.examples = "  kvmft qemu set --vm vm1 'virtio_blk_*' on 'virtio_blk_data_plane*' off\n"
		    "  kvmft qemu set --monitor /run/vm1.hmp events=my-events",
	.opts = target_options,
	.opts_size = sizeof(struct qemu_opts),
	.run = set_run,
	.max_args = -1,
};

/* ---- trace-file: of the back end "simple"; its command is one of HMP, which QMP passes on ---- */

/* Quoted as HMP reads it. */
static int add_path(struct sbuf *line, const char *path, struct kvmft_err *err)
{
	if (!*path)
		return err_usage(err, "the path is empty");
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_usage(
				err, "the path has control characters, which HMP does not take");
	sbuf_add(line, " \"");
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			sbuf_addc(line, '\\');
		sbuf_addc(line, *path);
	}
	sbuf_addc(line, '"');
	return 0;
}

static int qmp_ask(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	int ret = monitor_human(m, line, out, err);

	if (ret || !out->s || !str_starts(out->s, "unknown command"))
		return ret;
	return err_lack(
		err, ENOTSUP,
		"this QEMU has no trace back end 'simple', so no trace file: its events go elsewhere "
		"(back end log: its stderr or -D FILE); a QEMU built with "
		"--enable-trace-backends=simple has one");
}

/* "Trace file "NAME" on.", on a line of its own. */
static int qemu_status(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	int ret;

	sbuf_reset(out);
	ret = qmp_ask(m, "trace-file", out, err);
	while (out->len && strchr("\n ", out->s[out->len - 1]))
		out->s[--out->len] = '\0';
	if (out->s)
		str_printable(out->s);
	return ret;
}

static bool answer_is_off(const struct sbuf *status)
{
	return status->len > 5 && !strcmp(status->s + status->len - 5, " off.");
}

static int trace_file_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct qemu_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf line = { 0 }, out = { 0 };
	_cleanup_(qemu_close) struct qemu q = { 0 };
	bool was_off;
	int ret;
	const char *what = argc ? argv[0] : "";
	bool set = !strcmp(what, "set");

	if (argc && !set && strcmp(what, "on") && strcmp(what, "off") && strcmp(what, "flush")) {
		ret = err_usage(err, "'%s' is not on, off, flush or set PATH", what);
	} else if (set != (argc == 2)) {
		ret = err_usage(err, set ? "set needs one PATH"
					 : "too many operands: only set takes one");
	} else {
		sbuf_addf(&line, "trace-file%s%s", *what ? " " : "", what);
		ret = set ? add_path(&line, argv[1], err) : 0;
	}

	ret = ret ?: qemu_open(&o->target, &q, err);
	ret = ret ?: qemu_status(q.m, &out, err);
	was_off = answer_is_off(&out);
	if (!ret && argc) {
		sbuf_reset(&out);
		ret = line.s ? qmp_ask(q.m, line.s, &out, err) : -ENOMEM;
		if (!ret && out.len) { /* success prints nothing */
			str_printable(out.s);
			ret = err_set(err, EREMOTEIO, "QEMU refused it: %s", out.s);
		}
		ret = ret ?: qemu_status(q.m, &out, err);
	}
	if (!ret && argc && !strcmp(argv[0], "on") && answer_is_off(&out))
		ret = err_set(err, EIO, "QEMU could not start the file: %s", out.s);
	if (!ret) {
		printf("%s\n", out.s ?: "");
		if (argc && !strcmp(argv[0], "on") && was_off)
			cli_note("QEMU has started the file anew: its former contents are gone");
	}
	return ret;
}

static const struct cmd cmd_qemu_trace_file = {
	.name = "qemu trace-file",
	.summary = "the trace file of a QEMU with trace back end simple",
	.args = "[on|off|flush|set PATH]",
	.description =
		"Without an operand, says which file it is and whether it is being written. Use "
		"flush\nbefore copying it: QEMU buffers 64 KiB. on after off empties it first.",
	.examples = "  kvmft qemu trace-file --vm vm1 set /tmp/vm1.trace\n"
		    "  kvmft qemu trace-file --vm vm1 flush",
	.opts = target_options,
	.opts_size = sizeof(struct qemu_opts),
	.run = trace_file_run,
	.max_args = 2,
};

/* Of what prints the list of a file. */
struct qemu_list_opts {
	struct sink_file file;
	int format;
};

static const struct opt qemu_list_options[] = {
	OPTION_CHOICE(0, "format", struct qemu_list_opts, format, "FORMAT", cli_formats,
		      "how to print the list"),
	OPT_END,
};

/* ---- sdt: the markers of a program and what can be recorded of each ---- */

#define MAX_LISTED 16384 /* events; QEMU has a few thousand */

struct marker_list {
	const struct sdt_spec *s;
	const struct sdt_plan *p;
};

static void marker_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct sdt_event none;
	const struct sdt_event *e = o->head ? &none : &((const struct marker_list *)ctx)->p->v[i];

	row_str(o, "provider", e->provider);
	row_str(o, "marker", e->marker);
	row_str(o, "system", e->sys);
	row_str(o, "event", e->name);
	if (o->form != ROW_JSON)
		row_u64(o, "places", true, e->n);
	row_bool(o, "guarded", true, e->guarded);
	if (o->form == ROW_JSON) {
		const char *types = e->types;

		/* "arg1:s8 arg3:string" */
		json_put_array(o->j, "arguments");
		while (*types) {
			size_t n = strcspn(types, " "), name = strcspn(types, ":");

			json_object_begin(o->j);
			json_key(o->j, "name");
			json_str_mem(o->j, types, MIN(name, n));
			json_key(o->j, "type");
			json_str_mem(o->j, types + MIN(name + 1, n), n - MIN(name + 1, n));
			json_object_end(o->j);
			types += n + (types[n] == ' ');
		}
		json_array_end(o->j);
	} else {
		row_str(o, "arguments", e->types);
	}
	row_str(o, "left_out", e->left_out);
	if (o->form != ROW_JSON)
		return;
	json_put_array(o->j, "places");
	for (size_t k = 0; k < e->n; k++) {
		json_object_begin(o->j);
		json_put_u64(o->j, "offset", e->place[k].offset);
		json_put_known_u64(o->j, "semaphore", e->place[k].semaphore, e->place[k].semaphore);
		json_put_str(o->j, "fetch", e->place[k].args);
		json_object_end(o->j);
	}
	json_array_end(o->j);
}

static void marker_json_head(struct json *j, const void *ctx)
{
	json_put_str(j, "binary", ((const struct marker_list *)ctx)->s->path);
}

static void list_print(const struct marker_list *l, int format, struct sbuf *b)
{
	const struct table t = { .cells = marker_cells, .ctx = l, .n = l->p->n };

	if (format > FORMAT_TEXT) {
		table_doc(&t, format == FORMAT_CSV, "markers", marker_json_head, b);
		return;
	}
	sbuf_addf(b, "%-36s %6s  %-5s  %s\n", "PROVIDER:MARKER", "PLACES", "GUARD", "ARGUMENTS");
	for (const struct sdt_event *e = l->p->v; e < l->p->v + l->p->n; e++) {
		size_t from = b->len;

		sbuf_addf(b, "%s:%s", e->provider, e->marker);
		while (b->len - from < 36 && !b->error)
			sbuf_addc(b, ' ');
		sbuf_addf(b, " %6zu  %-5s  %s", e->n, e->guarded ? "yes" : "no",
			  *e->types ? e->types : "-");
		if (*e->left_out)
			sbuf_addf(b, "  (not %s)", e->left_out);
		sbuf_addc(b, '\n');
	}
}

static int sdt_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct qemu_list_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct sdt_file f = { 0 };
	struct sdt_hints h = { 0 };
	struct sdt_plan p = { 0 };
	struct sdt_spec s;
	int ret = sdt_spec_parse(argv[0], &s, err);

	ret = ret ?: sdt_read(s.fd, s.path, &f, err);
	ret = ret ?: sdt_spec_check(&s, &f, err);
	if (!ret && sdt_hints_find(&s, &f, 1, &h))
		ret = err_set(err, ENOMEM, "out of memory");
	if (!ret) {
		h.want[h.n] = s.want;
		ret = sdt_plan_add(&p, &f, 0, h.want, h.n + 1, MAX_LISTED);
		if (ret)
			err_set(err, -ret, "%s: %s", s.path,
				ret == -E2BIG ? "too many markers to list: name some"
					      : strerror(-ret));
	}
	if (!ret) {
		list_print(&(struct marker_list){ &s, &p }, o->format, &b);
		ret = sink_print(&b, o->file.page.f, err);
	}
	if (!ret && p.unfit)
		cli_note("%s: %zu places cannot be probed and are left out: %s", s.path, p.unfit,
			 p.why_unfit);
	if (!ret && f.bad)
		cli_note("%s: %zu notes make no sense and are left out", s.path, f.bad);
	if (!ret && (p.unfit || f.bad))
		ret = KVMFT_INCOMPLETE;
	sdt_plan_free(&p);
	sdt_hints_free(&h);
	sdt_free(&f);
	sdt_spec_free(&s);
	return ret;
}

static const struct cmd cmd_qemu_sdt = {
	.name = "qemu sdt",
	.summary = "the SDT markers of a QEMU or any other program",
	.args = "BINARY[:PROVIDER[:MARKER]]",
	.description =
		"What `kvmft record --sdt` can record: the static probes of sys/sdt.h, which QEMU has when\n"
		"it was built with the trace back end dtrace. PROVIDER and MARKER may have * and ?.",
	.examples = "  kvmft qemu sdt qemu-system-x86_64:qemu:virtio_*\n"
		    "  kvmft qemu sdt --format json /usr/lib/x86_64-linux-gnu/libc.so.6",
	.opts = qemu_list_options,
	.opts_size = sizeof(struct qemu_list_opts),
	PAGE_AT(struct qemu_list_opts, file.page_opts),
	.output = sink_file_open,
	.release = sink_file_close,
	.run = sdt_run,
	.reader = true,
	.min_args = 1,
	.max_args = 1,
};

/* ---- list-formats: what a file trace-events-all declares ---- */

struct format_list {
	const struct qevents *q;
	char **pattern; /* NULL-terminated; none: all events */
};

static const struct qev *format_listed(const struct format_list *l, size_t i)
{
	const struct qev *e = qevents_at(l->q, i);
	bool wanted = !*l->pattern;

	for (char **p = l->pattern; *p && !wanted; p++)
		wanted = !fnmatch(*p, e->name, 0);
	return wanted ? e : NULL;
}

static void add_props(struct sbuf *b, const struct qev *e, const char *between)
{
	const char *name, *gap = "";

	for (unsigned int bit = 0; (name = qev_prop_name(bit)); bit++) {
		if (!(e->props & 1u << bit))
			continue;
		sbuf_addf(b, "%s%s", gap, name);
		gap = between;
	}
}

static void add_args(struct sbuf *b, const struct qev *e)
{
	if (!e->nargs)
		sbuf_add(b, "void");
	for (size_t k = 0; k < e->nargs; k++)
		sbuf_addf(b, "%s%s%s%s", k ? ", " : "", e->arg[k].type,
			  strchr(e->arg[k].type, '*') ? "" : " ", e->arg[k].name);
}

static void qemu_format_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct qev none;
	const struct qev *e = o->head ? &none : format_listed(ctx, i);
	_cleanup_(sbuf_free) struct sbuf props = { 0 }, args = { 0 }, print = { 0 };

	if (!e)
		return;
	row_u64(o, "number", true, i);
	row_str(o, "name", e->name);
	if (o->form == ROW_JSON) {
		const char *name;

		json_put_array(o->j, "properties");
		for (unsigned int bit = 0; (name = qev_prop_name(bit)); bit++)
			if (e->props & 1u << bit)
				json_str(o->j, name);
		json_array_end(o->j);
		json_put_array(o->j, "arguments");
		for (size_t k = 0; k < e->nargs; k++) {
			json_object_begin(o->j);
			json_put_str(o->j, "name", e->arg[k].name);
			json_put_str(o->j, "type", e->arg[k].type);
			json_put_str(o->j, "kind", qev_kind_names[e->arg[k].kind]);
			json_put_u64(o->j, "bytes", e->arg[k].size);
			json_object_end(o->j);
		}
		json_array_end(o->j);
		json_put_str(o->j, "print", e->format);
		json_put_bool(o->j, "usable", e->format_usable || (!*e->format && !e->nargs));
	} else {
		add_props(&props, e, " ");
		add_args(&args, e);
		sbuf_add(&print, e->format ?: "");
		if (args.error || print.error)
			o->b->error = -ENOMEM;
		for (size_t k = 0; k < 2; k++)
			if (!o->b->error && (k ? &print : &args)->s)
				str_printable((k ? &print : &args)->s);
		row_str(o, "properties", props.s ?: "");
		row_str(o, "arguments", args.s);
		row_str(o, "print", print.s);
	}
	row_u64(o, "line", true, e->line);
}

static void qemu_format_json_head(struct json *j, const void *ctx)
{
	json_put_str(j, "file", qevents_name(((const struct format_list *)ctx)->q));
}

static int formats_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct qemu_list_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct format_list l = { .pattern = argv + 1 };
	struct table t = { .cells = qemu_format_cells, .ctx = &l };
	size_t bad = 0, shown = 0;
	struct qevents *q;
	const char *note;
	int ret = qevents_load(argv[0], false, &q, err);

	if (ret)
		return ret;
	l.q = q;
	t.n = qevents_count(q);
	for (size_t i = 0; i < t.n; i++) {
		const struct qev *e = format_listed(&l, i);

		shown += e != NULL;
		if (e && o->format <= FORMAT_TEXT) {
			struct json j;

			/* As in QEMU's own file, but on one line and without macros. */
			add_props(&b, e, " ");
			sbuf_addf(&b, "%s%s(", e->props ? " " : "", e->name);
			add_args(&b, e);
			sbuf_add(&b, *e->format ? ") " : ")");
			if (*e->format) { /* in quotes and with escapes, as in C and JSON */
				json_init(&j, &b);
				json_str(&j, e->format);
			}
			if (*e->format && !e->format_usable)
				sbuf_add(&b, "  # does not fit the arguments");
			sbuf_addc(&b, '\n');
		}
	}
	if (!shown)
		ret = err_set(err, ENOENT, "%s declares no event of that name", argv[0]);
	else if (o->format > FORMAT_TEXT)
		table_doc(&t, o->format == FORMAT_CSV, "events", qemu_format_json_head, &b);
	ret = shown ? sink_print(&b, o->file.page.f, err) : ret;
	for (; !ret && (note = qevents_note(q, bad)); bad++)
		cli_note("%s: %s", argv[0], note);
	qevents_free(q);
	return ret ?: bad ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static const struct cmd cmd_qemu_formats = {
	.name = "qemu list-formats",
	.summary = "events, arguments and formats of a trace-events-all",
	.args = "FILE [PATTERN...]",
	.description =
		"FILE is the trace-events-all of a QEMU, which declares its trace events; it is installed in\n"
		"/usr/share/qemu. PATTERN may have * and ?.",
	.examples = "  kvmft qemu list-formats /usr/share/qemu/trace-events-all 'virtio_*'\n"
		    "  kvmft qemu list-formats --format json trace-events-all",
	.opts = qemu_list_options,
	.opts_size = sizeof(struct qemu_list_opts),
	PAGE_AT(struct qemu_list_opts, file.page_opts),
	.output = sink_file_open,
	.release = sink_file_close,
	.run = formats_run,
	.reader = true,
	.min_args = 1,
	.max_args = -1,
};

/* ---- the group ---- */

static const struct cmd *const qemu_verbs[] = {
	&cmd_qemu_events, &cmd_qemu_set,     &cmd_qemu_trace_file,
	&cmd_qemu_sdt,	  &cmd_qemu_formats, NULL,
};

static const struct opt qemu_options[] = {
	OPT_END,
};

const struct cmd cmd_qemu = {
	.name = "qemu",
	.summary = "QEMU's own trace events: control and formats",
	.args = "events|set|trace-file|sdt|list-formats ...",
	.description =
		"QEMU has trace events of its own, in its devices and block layers. These commands show and\n"
		"switch them in a running QEMU through its monitor.\n"
		"`kvmft help qemu COMMAND` has the options of each.",
	.opts = qemu_options,
	.options_first = true,
	.verbs = qemu_verbs,
	.min_args = 1,
	.max_args = -1,
};
