/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inst_events.c: events, filters and triggers of an instance of our own. Only the wanted events
 * are enabled, one by one: a whole system costs time for events that nobody reads.
 */
#include "priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tracefs.h>

void kerr_add_lines(struct kvmft_err *err, const char *lines)
{
	size_t n;

	if (!err)
		return;
	n = strlen(err->text);
	if (n + 1 < sizeof(err->text))
		err->text[n++] = '\n';
	for (; *lines && n + 1 < sizeof(err->text); lines++) {
		unsigned char c = (unsigned char)*lines;

		err->text[n++] = c == '\n' || (c >= ' ' && c != 127) ? (char)c : '?';
	}
	while (n && err->text[n - 1] == '\n')
		n--;
	err->text[n] = '\0';
}

static int event_file(const char *sys, const char *name, const char *file, char *buf, size_t size)
{
	if (!kname_ok(sys) || !kname_ok(name))
		return -EINVAL;
	snprintf(buf, size, "events/%s/%s/%s", sys, name, file);
	return 0;
}

/* Writes to a file of one event; the kernel explains a refusal in the instance's error_log. */
static int event_write(struct kinst *k, const char *sys, const char *name, const char *file,
		       const char *text, struct kvmft_err *err)
{
	char path[320];
	char *log;
	int got = event_file(sys, name, file, path, sizeof(path));

	if (got)
		return err_set(err, -got, "%s:%s: not an event name", sys, name);
	tracefs_error_clear(k->tr); /* so that what stands there afterwards is about this */
	got = knob_write(NULL, k->dirfd, path, text, NULL);
	if (!got)
		return 0;
	(void)err_set(err, -got, "%s:%s: the kernel refuses %s '%s': %s", sys, name, file, text,
		      strerror(-got));
	log = tracefs_error_last(k->tr);
	if (log && *log)
		kerr_add_lines(err, log);
	free(log);
	return got;
}

int kinst_events_add(struct kinst *k, const struct kevent_list *list, struct kvmft_err *err)
{
	int got = 0;

	for (size_t i = 0; !got && i < list->n; i++) {
		const struct kevent *e = &list->v[i];

		if (e->filter)
			got = event_write(k, e->sys, e->name, "filter", e->filter, err);
		if (got)
			return got;
		got = kevent_list_add(&k->ev, e->sys, e->name, e->filter);
		if (got)
			return err_set(err, -got, "out of memory");
	}
	return got;
}

static int event_switch(struct kinst *k, const struct kevent *e, bool on)
{
	char path[320];
	int got = event_file(e->sys, e->name, "enable", path, sizeof(path));

	return got ? got : knob_write(NULL, k->dirfd, path, on ? "1" : "0", NULL);
}

int kinst_events_enable(struct kinst *k, struct kvmft_err *err)
{
	for (size_t i = 0; i < k->ev.n; i++) {
		const struct kevent *e = &k->ev.v[i];
		int got = event_switch(k, e, true);

		if (!got)
			continue;
		(void)kinst_events_disable(k);
		return err_set(err, -got, "cannot enable %s:%s: %s (see kvmft check)", e->sys,
			       e->name, strerror(-got));
	}
	return 0;
}

int kinst_events_disable(struct kinst *k)
{
	int first = 0;

	for (size_t i = 0; i < k->ev.n; i++) {
		int got = event_switch(k, &k->ev.v[i], false);

		/* -ENOENT: its module was unloaded, and the event with it. */
		if (got && got != -ENOENT && !first)
			first = got;
	}
	return first;
}

const struct kevent_list *kinst_events(const struct kinst *k)
{
	return &k->ev;
}

bool kinst_has_trigger(const struct kinst *k, const char *sys, const char *name)
{
	char path[320];

	return !event_file(sys, name, "trigger", path, sizeof(path)) && kfile_exists(k->dirfd, path);
}

int kinst_trigger(struct kinst *k, const char *sys, const char *name, const char *text,
		  struct kvmft_err *err)
{
	return event_write(k, sys, name, "trigger", text, err);
}

int kinst_hist_read(struct kinst *k, const char *sys, const char *name, char **text)
{
	char path[320];
	ssize_t n;
	int got = event_file(sys, name, "hist", path, sizeof(path));

	*text = NULL;
	if (got)
		return got;
	n = kinst_read(k, path, KFILE_MAX, text);
	return n < 0 ? (int)n : 0;
}
