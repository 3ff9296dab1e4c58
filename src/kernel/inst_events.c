/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inst_events.c: events, filters and triggers of an instance of our own. Only the wanted events are
 * enabled: a whole system would cost time for events that are not read. Not libtracefs'
 * tracefs_event_enable(): filters, triggers and switches have the kernel's own error told, triggers
 * are journalled (tracefs.c), and the confined recorder cannot use paths.
 */
#include "priv.h"

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

/*
 * Writes to a file of one event; the kernel explains a refusal in the instance's error_log, or in
 * the top level's, which is not ours to clear. undo (or NULL) takes the write back.
 */
static int event_write(struct kinst *k, const char *sys, const char *name, const char *file,
		       const char *text, const char *undo, struct kvmft_err *err)
{
	char path[320];
	char *log;
	int got = kevent_path(sys, name, file, path, sizeof(path));

	if (got)
		return err_set(err, -got, "%s:%s: not an event name", sys, name);
	tracefs_error_clear(k->tr); /* so that what is there afterwards is about this write */
	got = knob_write(undo ? &k->triggers : NULL, k->dirfd, path, text, undo);
	if (!got)
		return 0;
	(void)err_why(err, got, "%s:%s: the kernel refuses %s '%s'", sys, name, file, text);
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
			got = event_write(k, e->sys, e->name, "filter", e->filter, NULL, err);
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
	int got = kevent_path(e->sys, e->name, "enable", path, sizeof(path));

	return got ?: knob_write(NULL, k->dirfd, path, on ? "1" : "0", NULL);
}

/*
 * Whether event i was enabled together with its whole system: by one write, if all of it is wanted,
 * as with kvm:*. `done` is the system of the previous event, if that was so.
 */
static bool enabled_with_system(struct kinst *k, size_t i, const char **done)
{
	const char *sys = k->ev.v[i].sys;
	_cleanup_dir_ DIR *dir = NULL;
	size_t wanted = 0, has = 0;
	struct dirent *e;

	if (*done && !strcmp(*done, sys))
		return true;
	*done = NULL;
	if (i && !strcmp(k->ev.v[i - 1].sys, sys))
		return false;
	for (size_t n = 0; n < k->ev.n; n++)
		wanted += !strcmp(k->ev.v[n].sys, sys);
	dir = wanted < 2 ? NULL : dir_open(k->dirfd, TEXTF("events/%s", sys));
	while (dir && (e = readdir(dir)))
		has += e->d_type == DT_UNKNOWN ? SIZE_MAX / 4
					       : e->d_type == DT_DIR && e->d_name[0] != '.';
	if (!dir || has != wanted)
		return false;
	if (!knob_write(NULL, k->dirfd, TEXTF("events/%s/enable", sys), "1", NULL))
		*done = sys;
	return *done; /* else one by one, to know which one fails */
}

int kinst_events_enable(struct kinst *k, struct kvmft_err *err)
{
	const char *done = NULL;

	k->events_on = true;
	for (size_t i = 0; i < k->ev.n; i++) {
		const struct kevent *e = &k->ev.v[i];
		int got = enabled_with_system(k, i, &done) ? 0 : event_switch(k, e, true);

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

	/* The instance is ours alone: all at once, with one write instead of one for each. */
	if (k->events_on && k->ev.n > 1 && !knob_write(NULL, k->dirfd, "events/enable", "0", NULL))
		k->events_on = false;
	for (size_t i = 0; i < k->ev.n && k->events_on; i++) {
		int got = event_switch(k, &k->ev.v[i], false);

		/* -ENOENT: its module was unloaded, and the event with it. */
		if (got && got != -ENOENT && !first)
			first = got;
	}
	k->events_on = first != 0;
	return first;
}

bool kinst_has_trigger(const struct kinst *k, const char *sys, const char *name)
{
	char path[320];

	return !kevent_path(sys, name, "trigger", path, sizeof(path)) &&
	       kfile_exists(k->dirfd, path);
}

/* If none is set, the file lists the available triggers. */
enum kstacks kinst_stacks(const struct kinst *k, const char *sys, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[320];

	if (!kevent_path(sys, name, "trigger", path, sizeof(path)) &&
	    kinst_read(k, path, KFILE_MAX, &text) > 0 && strstr(text, " stacktrace"))
		return KSTACKS_TRIGGER;
	return kfile_exists(k->dirfd, "options/stacktrace") ? KSTACKS_OPTION : KSTACKS_NONE;
}

int kinst_stacks_of_all(struct kinst *k, const char *option, struct kvmft_err *err)
{
	int got = knob_write(NULL, k->dirfd, TEXTF("options/%s", option), "1", NULL);

	return err_why(err, got, "cannot set option %s of %s", option, k->name);
}

int kinst_trigger(struct kinst *k, const char *sys, const char *name, const char *text,
		  struct kvmft_err *err)
{
	return event_write(k, sys, name, "trigger", text, NULL, err);
}

int kinst_trigger_add(struct kinst *k, const char *sys, const char *name, const char *text,
		      struct kvmft_err *err)
{
	_cleanup_free_ char *undo = NULL;

	if (asprintf(&undo, "!%s", text) < 0) {
		undo = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	return event_write(k, sys, name, "trigger", text, undo, err);
}

int kinst_trigger_remove(struct kinst *k, const char *sys, const char *name, const char *text,
			 struct kvmft_err *err)
{
	_cleanup_free_ char *undo = NULL;
	int got;

	if (asprintf(&undo, "!%s", text) < 0) {
		undo = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	got = kjournal_undo(&k->triggers, undo);
	return err_why(err, got, "%s:%s: cannot remove trigger '%s'", sys, name, text);
}

/* The lines of a trigger file, "TRIGGER [active]", written back with '!' in front. */
static void event_triggers_sweep(int instfd, const char *path)
{
	_cleanup_free_ char *text = NULL;
	char *save, *line;

	if (file_read_all(instfd, path, KFILE_MAX, &text) < 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *state = strstr(line, " [");
		struct sbuf undo = { 0 };

		if (*line == '#')
			continue;
		if (state)
			*state = '\0';
		sbuf_addf(&undo, "!%s", line);
		/* What cannot be removed makes the instance's rmdir fail. */
		if (!undo.error)
			(void)!file_write_text(instfd, path, undo.s);
		sbuf_free(&undo);
	}
}

void kinst_triggers_sweep(int instfd)
{
	/* Those that use variables of others first: a variable in use cannot be removed. */
	static const char *const user[] = { "kvm/kvm_entry", "kvm/kvm_exit" };
	_cleanup_dir_ DIR *dir = dir_open(instfd, "events/synthetic");
	struct dirent *e;

	for (size_t i = 0; i < ARRAY_SIZE(user); i++)
		event_triggers_sweep(instfd, TEXTF("events/%s/trigger", user[i]));
	while (dir && (e = readdir(dir)))
		if (str_starts(e->d_name, "kvmft_"))
			event_triggers_sweep(instfd,
					     TEXTF("events/synthetic/%s/trigger", e->d_name));
}
