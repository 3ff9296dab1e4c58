/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_formats.c: `kvmft qemu list-formats`, what a file trace-events-all declares. */
#include "qemu.h"

#include <fnmatch.h>

#include "kvmft/qemu.h"
#include "kvmft/table.h"
#include "sink.h"

struct formats_opts {
	int format;
};

static const struct opt formats_options[] = {
	OPTION_CHOICE(0, "format", struct formats_opts, format, "FORMAT", cli_formats,
		      "how to print the list"),
	OPT_END,
};

struct list {
	const struct qevents *q;
	char **pattern; /* NULL-terminated; none: all events */
};

static const struct qev *listed(const struct list *l, size_t i)
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
	const struct qev *e = o->head ? &none : listed(ctx, i);
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
	json_put_str(j, "file", qevents_name(((const struct list *)ctx)->q));
}

static int formats_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct formats_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct list l = { .pattern = argv + 1 };
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
		const struct qev *e = listed(&l, i);

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
	ret = shown ? sink_print(&b, stdout, err) : ret;
	for (; !ret && (note = qevents_note(q, bad)); bad++)
		cli_note("%s: %s", argv[0], note);
	qevents_free(q);
	return ret ?: bad ? KVMFT_INCOMPLETE : KVMFT_OK;
}

const struct cmd cmd_qemu_formats = {
	.name = "qemu list-formats",
	.summary = "events, arguments and formats of a trace-events-all",
	.args = "FILE [PATTERN...]",
	.description =
		"FILE is the trace-events-all of a QEMU, which declares its trace events; it is installed in\n"
		"/usr/share/qemu. PATTERN may have * and ?.",
	.examples = "  kvmft qemu list-formats /usr/share/qemu/trace-events-all 'virtio_*'\n"
		    "  kvmft qemu list-formats --format json trace-events-all",
	.opts = formats_options,
	.opts_size = sizeof(struct formats_opts),
	.run = formats_run,
	.reader = true,
	.min_args = 1,
	.max_args = -1,
};
