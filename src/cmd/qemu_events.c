/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_events.c: `kvmft qemu events`, the trace events of a running QEMU and their states. */
#include "qemu.h"
#include "options.h"
#include "kvmft/table.h"
#include "sink.h"

struct events_opts {
	struct qemu_target target;
	int format, state;
};

static const char *const state_choices[] = { "unavailable", "disabled", "enabled", NULL };

static const struct opt events_options[] = {
	QEMU_TARGET_OPTIONS(struct events_opts, target),
	OPTION_CHOICE(0, "state", struct events_opts, state, "STATE", state_choices,
		      "only events in this state"),
	OPTION_CHOICE(0, "format", struct events_opts, format, "FORMAT", cli_formats,
		      "how to print them (default: text)"),
	OPT_END,
};

/* What is printed about it all. */
struct view {
	const struct qemu *q;
	struct mon_events all;
	bool *shown; /* all.n of them */
	size_t n;    /* of which are shown */
	struct sbuf version;
};

static void qemu_event_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct mon_event none;
	const struct view *v = ctx;
	const struct mon_event *e = o->head ? &none : &v->all.v[i];

	if (!o->head && !v->shown[i])
		return;
	row_str(o, "name", e->name);
	row_str(o, "state", mon_state_names[e->state]);
	row_bool(o, "vcpu", true, e->vcpu);
}

static void qemu_event_json_head(struct json *j, const void *ctx)
{
	const struct view *v = ctx;

	json_put_str(j, "monitor", monitor_name(v->q->m));
	json_put_u64(j, "pid", v->q->pid);
	json_put_str(j, "name", v->q->name);
	json_put_str(j, "version", v->version.s);
	json_put_u64(j, "total", v->all.n);
	json_put_bool(j, "tells_unavailable", monitor_kind(v->q->m) == MON_QMP);
}

static void events_print(const struct view *v, int format, struct sbuf *b)
{
	if (format > FORMAT_TEXT)
		table_doc(&(struct table){ .cells = qemu_event_cells, .ctx = v, .n = v->all.n },
			  format == FORMAT_CSV, "events", qemu_event_json_head, b);
	for (size_t i = 0; format <= FORMAT_TEXT && i < v->all.n; i++)
		if (v->shown[i])
			sbuf_addf(b, "%-11s  %s%s\n", mon_state_names[v->all.v[i].state],
				  v->all.v[i].name, v->all.v[i].vcpu ? "  (vcpu)" : "");
}

static int events_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct events_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf notes = { 0 }, b = { 0 };
	struct view v = { 0 };
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

		v.shown = calloc(v.all.n + 1, sizeof(*v.shown));
		if (!v.shown) {
			ret = err_set(err, ENOMEM, "out of memory");
		} else {
			for (int i = 0; i < argc && !ret;
			     i++) /* off: it is good if the event is compiled out */
				ret = mon_switches_add(&s, argv[i], false, err);
			ret = ret ?: qemu_check(&v.all, &s, &notes, err);
			for (size_t i = 0; i < v.all.n && !ret; i++) {
				v.shown[i] =
					(!argc || mon_switches_get(&s, v.all.v[i].name) >= 0) &&
					(o->state < 0 ||
					 v.all.v[i].state == (enum mon_state)o->state);
				v.n += v.shown[i];
			}
			mon_switches_free(&s);
		}
	}
	if (!ret) {
		events_print(&v, o->format, &b);
		ret = sink_print(&b, stdout, err);
	}
	if (!ret) {
		qemu_print_notes(&notes);
		if (monitor_kind(q.m) == MON_HMP && o->state == MON_UNAVAILABLE)
			cli_note(
				"HMP only says on or off: events that were compiled out are shown as disabled");
	}
	sbuf_free(&v.version);
	free(v.shown);
	mon_events_free(&v.all);
	qemu_close(&q);
	return ret;
}

const struct cmd cmd_qemu_events = {
	.name = "qemu events",
	.summary = "trace events of a running QEMU, and their states",
	.args = "[PATTERN...]",
	.description =
		"Prints the events that a PATTERN matches (default: all), with * and ? as wildcards.\n"
		"unavailable: compiled out, nothing can switch it on; (vcpu): traced for each vCPU.",
	.examples = "  kvmft qemu events --vm vm1 'virtio_*'\n"
		    "  kvmft qemu events --monitor /run/vm1.qmp --state enabled",
	.opts = events_options,
	.opts_size = sizeof(struct events_opts),
	.run = events_run,
	.max_args = -1,
};
