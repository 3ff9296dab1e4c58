/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_set.c: `kvmft qemu set`, trace events of a running QEMU on and off.
 *
 * Everything is checked before anything is changed; if QEMU fails halfway, its former states are
 * restored as far as it still answers.
 */
#include "qemu.h"
#include "options.h"

#define EVENTS_FILE_MAX (1u << 20)

struct set_opts {
	struct qemu_target target;
	struct str_list files;
};

static const struct opt set_options[] = {
	QEMU_TARGET_OPTIONS(struct set_opts, target),
	OPTION(0, "events", OPT_LIST, struct set_opts, files, "FILE",
	       "patterns from a file, as QEMU's -trace events=FILE: one per line, # for comments,\n"
	       "- in front to switch off; they come before the operands"),
	OPT_END,
};

static int read_switches(const struct set_opts *o, int argc, char **argv, struct mon_switches *s,
			 struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < o->files.n && !ret; i++) {
		const char *file = o->files.v[i];
		_cleanup_free_ char *text = NULL;
		ssize_t n = file_read_all(AT_FDCWD, file, EVENTS_FILE_MAX, &text);

		ret = n < 0 ? err_why(err, (int)n, "cannot read %s", file)
			    : mon_switches_add_text(s, text, (size_t)n, file, err);
	}
	for (int i = 0; i < argc && !ret; i += 2) {
		bool on = i + 1 < argc && !strcmp(argv[i + 1], "on");

		if (i + 1 == argc || (!on && strcmp(argv[i + 1], "off")))
			return err_usage(err, "'%s' must be followed by on or off%s%s%s", argv[i],
					 i + 1 < argc ? ", not '" : "",
					 i + 1 < argc ? argv[i + 1] : "", i + 1 < argc ? "'" : "");
		ret = mon_switches_add(s, argv[i], on, err);
	}
	if (!ret && !s->n && o->files.n)
		return err_set(err, EINVAL, "there is no pattern in %s", o->files.v[0]);
	if (!ret && !s->n)
		return err_usage(err, "nothing to switch: PATTERN on|off, or --events FILE");
	return ret;
}

/* After a failure: back to what was, if QEMU still answers. */
static int apply(struct monitor *m, const struct mon_events *before, const struct mon_switches *s,
		 struct kvmft_err *err)
{
	_cleanup_(mon_events_free) struct mon_events now = { 0 };
	struct kvmft_err why = { .text = "" };
	int failed = 0, ret;

	for (size_t i = 0; i < s->n && !failed; i++)
		failed = qemu_apply(m, before, &s->v[i], err);
	if (!failed)
		return 0;
	ret = monitor_events(m, &now, &why);
	ret = ret ?: qemu_restore(m, before, &now, &why);
	return err_set(err, failed, "%s; %s", err->text,
		       ret ? "the former states could not be restored"
			   : "the former states were restored");
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
	const struct set_opts *o = opts;
	_cleanup_(mon_switches_free) struct mon_switches s = { 0 };
	_cleanup_(mon_events_free) struct mon_events before = { 0 }, after = { 0 };
	_cleanup_(sbuf_free) struct sbuf notes = { 0 };
	_cleanup_(qemu_close) struct qemu q = { 0 };
	int ret = read_switches(o, argc, argv, &s, err);

	ret = ret ?: qemu_open(&o->target, &q, err);
	ret = ret ?: monitor_events(q.m, &before, err);
	ret = ret ?: qemu_check(&before, &s, &notes, err);
	ret = ret ?: apply(q.m, &before, &s, err);
	ret = ret ?: monitor_events(q.m, &after, err);
	if (!ret) {
		ret = set_report(&before, &after, &s, err);
		qemu_print_notes(&notes);
	}
	return ret;
}

const struct cmd cmd_qemu_set = {
	.name = "qemu set",
	.summary = "switch trace events of a running QEMU on or off",
	.args = "[PATTERN on|off]...",
	.description =
		"PATTERN is the name of an event, or has * and ? as wildcards. Of several that match an\n"
		"event, the last one counts. Nothing is changed if one of them is unknown.",
	.examples = "  kvmft qemu set --vm vm1 'virtio_blk_*' on 'virtio_blk_data_plane*' off\n"
		    "  kvmft qemu set --monitor /run/vm1.hmp --events my-events",
	.opts = set_options,
	.opts_size = sizeof(struct set_opts),
	.run = set_run,
	.max_args = -1,
};
