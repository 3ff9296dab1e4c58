/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event_expand.c: from the argument of -e to events of this kernel, or to a message that says what
 * was probably meant. libtracefs lists the systems and their events.
 */
#include "priv.h"

#include <fnmatch.h>
#include <tracefs.h>

struct query {
	const struct ktracefs *t;
	char *sys, *name, *filter;
	bool bare; /* the user gave no system */
	struct kevent_list found;
};

static bool is_pattern(const char *s)
{
	return strpbrk(s, "*?[") != NULL;
}

static bool word_match(const char *pattern, const char *s)
{
	return is_pattern(pattern) ? !fnmatch(pattern, s, 0) : !strcmp(pattern, s);
}

typedef int (*event_fn)(const char *sys, const char *name, void *arg);

static int system_walk(const char *root, const char *sys, event_fn fn, void *arg)
{
	char **names = tracefs_system_events(root, sys);
	int err = 0;

	for (size_t i = 0; !err && names && names[i]; i++)
		err = fn(sys, names[i], arg);
	tracefs_list_free(names);
	return err;
}

/* Calls fn for each event of the matching systems; returns the first non-zero answer. */
static int events_walk(const struct ktracefs *t, const char *pattern, event_fn fn, void *arg)
{
	char **systems;
	int err = 0;

	if (!is_pattern(pattern))
		return system_walk(t->path, pattern, fn, arg);
	systems = tracefs_event_systems(t->path);
	for (size_t i = 0; !err && systems && systems[i]; i++)
		if (word_match(pattern, systems[i]))
			err = system_walk(t->path, systems[i], fn, arg);
	tracefs_list_free(systems);
	return err;
}

static bool system_exists(const struct ktracefs *t, const char *sys)
{
	return kname_ok(sys) && ktracefs_has(t, TEXTF("events/%s/enable", sys));
}

static int query_take(const char *sys, const char *name, void *arg)
{
	struct query *q = arg;

	if (!word_match(q->name, name) || !kevent_exists(q->t, sys, name))
		return 0;
	return kevent_list_add(&q->found, sys, name, q->filter);
}

/* ---- near names ---- */

static int near_event(const char *sys, const char *name, void *arg)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "%s:%s", sys, name);
	near_offer(arg, name, b.s);
	return 0;
}

static int near_system(const char *sys, const char *name __unused_arg, void *arg)
{
	near_offer(arg, sys, sys);
	return 0;
}

/* ---- why nothing was found ---- */

static int expand_explain(const struct query *q, const struct near *near, const char *what,
			  struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	near_text(near, &b);
	return err_lack(err, ENOENT, "%s%s%s: %s%s", q->bare ? "" : q->sys, q->bare ? "" : ":",
			q->name, what, b.s ?: "");
}

static int explain_system(const struct query *q, struct kvmft_err *err)
{
	struct near near = { .word = q->sys };
	struct kvmft_err why = { 0 };

	if (!strcmp(q->sys, "kvm") || !strcmp(q->sys, "kvmmmu")) {
		int got = kevent_kvm_check(q->t, &why);

		if (got)
			return err_lack(err, got, "%s:%s: %s", q->sys, q->name, why.text);
	}
	if (!is_pattern(q->sys) && kmodule_state_get(q->sys) == KMODULE_AVAILABLE)
		return err_lack(err, ENOENT, "%s:%s: no event system %s: its module is not loaded "
				"(modprobe %s)", q->sys, q->name, q->sys, q->sys);
	(void)events_walk(q->t, "*", near_system, &near);
	return expand_explain(q, &near, TEXTF("no event system %s", q->sys), err);
}

static int explain_nothing(const struct query *q, struct kvmft_err *err)
{
	struct near near = { .word = q->name };

	/* ftrace's own pseudo events have a format, but no switch. */
	if (!q->bare && !is_pattern(q->sys) && !is_pattern(q->name) &&
	    ktracefs_has(q->t, TEXTF("events/%s/%s/format", q->sys, q->name)))
		return err_lack(err, ENOENT, "%s:%s: the kernel does not let this event be "
				"enabled", q->sys, q->name);
	if (!q->bare && !is_pattern(q->sys) && !system_exists(q->t, q->sys))
		return explain_system(q, err);
	if (is_pattern(q->name))
		return expand_explain(q, &near, "no such events", err);
	(void)events_walk(q->t, q->bare ? "*" : q->sys, near_event, &near);
	if (!near.n && !q->bare) /* right event, wrong system? */
		(void)events_walk(q->t, "*", near_event, &near);
	if (q->bare)
		(void)events_walk(q->t, "*", near_system, &near);
	return expand_explain(q, &near, q->bare ? "no such event or system" : "no such event", err);
}

/* ---- the whole ---- */

COMPARE(event_cmp, struct kevent, strcmp(x->sys, y->sys) ?: strcmp(x->name, y->name));

static int query_run(struct query *q, struct kvmft_err *err)
{
	int got;

	if (!q->sys) {
		q->bare = !system_exists(q->t, q->name);
		q->sys = q->bare ? strdup("*") : q->name;
		if (!q->bare)
			q->name = strdup("*");
		if (!q->sys || !q->name)
			return err_set(err, ENOMEM, "out of memory");
	}
	if (!is_pattern(q->sys) && !is_pattern(q->name))
		got = query_take(q->sys, q->name, q);
	else
		got = events_walk(q->t, q->sys, query_take, q);
	if (got)
		return err_set(err, -got, "out of memory");
	if (!q->found.n)
		return explain_nothing(q, err);
	qsort(q->found.v, q->found.n, sizeof(q->found.v[0]), event_cmp);
	if (q->bare && !is_pattern(q->name) && q->found.n > 1) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		for (size_t i = 0; i < q->found.n; i++)
			sbuf_addf(&b, "%s%s:%s", i ? ", " : "", q->found.v[i].sys,
				  q->found.v[i].name);
		(void)err_usage(err, "%s: exists in several systems, name one of: %s", q->name,
				b.s ?: "");
		return -EINVAL;
	}
	return 0;
}

int kevent_expand(const struct ktracefs *t, const char *spec, struct kevent_list *list,
		  struct kvmft_err *err)
{
	struct query q = { .t = t };
	int got = kevent_parse_spec(spec, &q.sys, &q.name, &q.filter, err);

	if (got)
		return got;
	got = query_run(&q, err);
	for (size_t i = 0; !got && i < q.found.n; i++) {
		got = kevent_list_add(list, q.found.v[i].sys, q.found.v[i].name, q.filter);
		if (got)
			(void)err_set(err, -got, "out of memory");
	}
	kevent_list_free(&q.found);
	free(q.sys);
	free(q.name);
	free(q.filter);
	return got;
}
