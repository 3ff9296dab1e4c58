/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_formats.c: `kvmft qemu list-formats`, what a file trace-events-all declares. */
#include "qemu.h"

#include <fnmatch.h>

#include "kvmft/json.h"
#include "kvmft/qemu_events.h"
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
	struct sbuf b;
	size_t shown;
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

/* In quotes and with escapes, as in C and JSON. */
static void add_quoted(struct sbuf *b, const char *format)
{
	struct json j;

	if (!*format)
		return;
	sbuf_addc(b, ' ');
	json_init(&j, b);
	json_str(&j, format);
}

static void add_csv(struct sbuf *b, const char *text)
{
	_cleanup_free_ char *copy = strdup(text ?: "");

	if (copy)
		str_printable(copy);
	else
		b->error = -ENOMEM;
	sbuf_add_csv(b, copy);
}

/* As in QEMU's own file, but on one line and without macros. */
static int list_text(struct list *l)
{
	for (size_t i = 0; i < qevents_count(l->q); i++) {
		const struct qev *e = listed(l, i);

		if (!e)
			continue;
		l->shown++;
		add_props(&l->b, e, " ");
		sbuf_addf(&l->b, "%s%s(", e->props ? " " : "", e->name);
		add_args(&l->b, e);
		sbuf_add(&l->b, ")");
		add_quoted(&l->b, e->format);
		if (*e->format && !e->format_usable)
			sbuf_add(&l->b, "  # does not fit the arguments");
		sbuf_addc(&l->b, '\n');
	}
	return 0;
}

static void json_args(struct json *j, const struct qev *e)
{
	json_array_begin(j);
	for (size_t k = 0; k < e->nargs; k++) {
		json_object_begin(j);
		json_put_str(j, "name", e->arg[k].name);
		json_put_str(j, "type", e->arg[k].type);
		json_put_str(j, "kind", qev_kind_names[e->arg[k].kind]);
		json_put_u64(j, "bytes", e->arg[k].size);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_event(struct json *j, const struct qev *e, size_t number)
{
	const char *name;

	json_object_begin(j);
	json_put_u64(j, "number", number);
	json_put_str(j, "name", e->name);
	json_put_array(j, "properties");
	for (unsigned int bit = 0; (name = qev_prop_name(bit)); bit++)
		if (e->props & 1u << bit)
			json_str(j, name);
	json_array_end(j);
	json_key(j, "arguments");
	json_args(j, e);
	json_put_str(j, "print", e->format);
	json_put_bool(j, "usable", e->format_usable || (!*e->format && !e->nargs));
	json_put_u64(j, "line", e->line);
	json_object_end(j);
}

static int list_json(struct list *l)
{
	struct json j;

	json_line_begin(&j, &l->b);
	json_put_str(&j, "file", qevents_name(l->q));
	json_put_array(&j, "events");
	for (size_t i = 0; i < qevents_count(l->q); i++) {
		const struct qev *e = listed(l, i);

		if (e)
			json_event(&j, e, i);
		l->shown += e != NULL;
	}
	json_array_end(&j);
	return json_line_end(&j);
}

static int list_csv(struct list *l)
{
	sbuf_add(&l->b, "number,name,properties,arguments,print,line\n");
	for (size_t i = 0; i < qevents_count(l->q); i++) {
		const struct qev *e = listed(l, i);
		struct sbuf args = { 0 };

		if (!e)
			continue;
		l->shown++;
		sbuf_addf(&l->b, "%zu,%s,", i, e->name);
		add_props(&l->b, e, " ");
		sbuf_addc(&l->b, ',');
		add_args(&args, e);
		add_csv(&l->b, args.s);
		sbuf_free(&args);
		sbuf_addc(&l->b, ',');
		add_csv(&l->b, e->format);
		sbuf_addf(&l->b, ",%u\n", e->line);
	}
	return 0;
}

static int (*const list_formats[])(struct list *l) = {
	[FORMAT_TEXT] = list_text,
	[FORMAT_JSON] = list_json,
	[FORMAT_CSV] = list_csv,
};

static int formats_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct formats_opts *o = opts;
	struct list l = { .pattern = argv + 1 };
	struct qevents *q;
	const char *note;
	size_t bad = 0;
	int ret = qevents_load(argv[0], false, &q, err);

	if (ret)
		return ret;
	l.q = q;
	ret = list_formats[MAX(o->format, 0)](&l);
	if (!ret && !l.b.error && !l.shown)
		ret = err_set(err, ENOENT, "%s declares no event of that name", argv[0]);
	else
		ret = sink_print(ret, &l.b, stdout, err);
	for (; !ret && (note = qevents_note(q, bad)); bad++)
		cli_note("%s: %s", argv[0], note);
	sbuf_free(&l.b);
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
