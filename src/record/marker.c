/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * marker.c: --marker, what programs write to trace_marker.
 *
 * QEMU's trace back end ftrace writes there, to the kernel's main trace, which is not ours to read.
 * COMMAND gets the instance's trace_marker (kernel/marker.c). For programs that already run, the
 * kernel has an option for instances, copy_trace_marker, which copies everybody's.
 */
#include "record.h"

#include <fcntl.h>

const char *const record_marker_choices[] = { "command", "all", "none", NULL };

static bool is_qemu(const char *word, bool command)
{
	const char *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word;

	return str_starts(name, "qemu-system-") || !strcmp(name, "qemu-kvm") ||
	       (command && !strcmp(name, "kvm"));
}

/*
 * A QEMU gets its own marker without being requested, also through taskset, timeout and the like;
 * it makes no difference to programs that do not write to it.
 */
static bool starts_qemu(char **argv)
{
	for (size_t i = 0; argv[i]; i++)
		if (is_qemu(argv[i], !i))
			return true;
	return false;
}

int record_marker_check(struct record *r, char **argv)
{
	int asked = r->c->marker;

	if (asked < 0)
		asked = argv && starts_qemu(argv) ? RECORD_MARKER_COMMAND : RECORD_MARKER_NONE;
	r->marker = (enum record_marker)asked;
	if (r->marker == RECORD_MARKER_COMMAND && !argv)
		return err_usage(r->err,
				 "option --marker command needs a COMMAND; for programs that run "
				 "already: --marker all");
	/* While an instance that copies does not record, the kernel refuses everybody's markers. */
	if (r->marker == RECORD_MARKER_ALL && r->c->trigger)
		return err_usage(r->err,
				 "--marker all and --trigger exclude each other: the trigger stops "
				 "the ring, and programs could write no markers meanwhile");
	return 0;
}

int record_marker_ready(struct record *r)
{
	if (r->marker != RECORD_MARKER_ALL || kinst_can_copy_markers(r->k))
		return 0;
	return err_lack(
		r->err, ENOTSUP,
		"this kernel cannot copy markers of running programs into an instance (no option "
		"copy_trace_marker, which came with Linux 6.16): start the program with kvmft "
		"record --marker command -- COMMAND, or let QEMU use another trace back end");
}

int record_marker_facts(struct record *r)
{
	char sys[] = "ftrace", name[] = "print";
	const struct kevent print = { .sys = sys, .name = name };

	/*
	 * Anyone who knows of this instance may write to its trace_marker: always be ready for
	 * that.
	 */
	int ret = record_facts_event(r, &print);

	if (ret || r->marker == RECORD_MARKER_NONE)
		return ret;
	meta_begin(&r->line, "marker");
	meta_str(&r->line, "of", record_marker_choices[r->marker]);
	return record_put(r);
}

int record_marker_start(struct record *r)
{
	int ret;

	if (r->marker != RECORD_MARKER_ALL)
		return 0;
	ret = kinst_copy_markers(r->k, true, r->err);
	r->copying = !ret;
	return ret;
}

void record_marker_stop(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (r->copying && kinst_copy_markers(r->k, false, &err))
		r->note("%s", err.text);
	r->copying = false;
}

/* ---- a marker as trigger ---- */

#define MARKER	   "marker"
#define WRITTEN_AS "tracing_mark_write: "

bool record_trigger_is_marker(const struct record *r)
{
	const char *t = r->c->trigger;

	return t && (!strcmp(t, MARKER) || str_starts(t, MARKER "="));
}

/*
 * Programs write to the machine's own trace_marker, if the kernel copies that; else to the
 * instance's.
 */
static int hear_markers(struct record *r)
{
	struct kinst *k = r->flight.watch;

	if (kinst_can_copy_markers(k))
		return kinst_copy_markers(k, true, r->err);
	r->note("this kernel cannot copy markers (no option copy_trace_marker, which came with "
		"Linux 6.16): the trigger is what is written to %s/instances/%s/trace_marker",
		ktracefs_path(r->t), kinst_name(k));
	return 0;
}

int record_marker_arm(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	c.buffer_kb = RECORD_WATCH_KB;
	ret = kinst_create(r->t, &c, &r->flight.watch, r->err);
	ret = ret ?: kinst_tracing(r->flight.watch, true, r->err);
	ret = ret ?: hear_markers(r);
	if (ret)
		return ret;
	r->flight.marker_fd = openat(kinst_dirfd(r->flight.watch), "trace_pipe",
				     O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (r->flight.marker_fd < 0)
		return err_why(r->err, errno, "cannot open the instance's trace_pipe");
	r->flight.marker = true;
	return 0;
}

/* "  comm-123 [000] ..... 12.345: tracing_mark_write: text" */
static bool take_marker(struct record *r, char *line)
{
	const char *wanted = strchr(r->c->trigger, '='), *text = strstr(line, WRITTEN_AS);

	if (!text)
		return false;
	text += strlen(WRITTEN_AS);
	if (wanted && !strstr(text, wanted + 1))
		return false;
	snprintf(r->flight.text, sizeof(r->flight.text), "%s", text);
	str_printable(r->flight.text);
	return true;
}

int record_marker_seen(struct record *r)
{
	char buf[4096], *save, *line;
	bool seen = false;
	ssize_t n;

	while ((n = read(r->flight.marker_fd, buf, sizeof(buf) - 1)) > 0) {
		buf[n] = '\0';
		for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			seen |= take_marker(r, line);
	}
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : seen;
}

void record_marker_disarm(struct record *r)
{
	struct kvmft_err none = { .text = "" };

	if (!r->flight.marker)
		return;
	r->flight.marker = false;
	close(r->flight.marker_fd);
	if (kinst_can_copy_markers(r->flight.watch) &&
	    kinst_copy_markers(r->flight.watch, false, &none))
		r->note("%s", none.text);
}
