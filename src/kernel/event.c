/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event.c: names of events: taking a specification apart, lists of wanted events, and what
 * events/SYSTEM/EVENT/ says about one; which events of this kernel a specification means. Files
 * are read by ktracefs_read(), see tracefs.c.
 */

#include <fnmatch.h>
#include <tracefs.h>

#include "priv.h"

#define FORMAT_MAX (256u << 10) /* one event's format text; the longest known are near 20 KB */

bool kname_ok(const char *name)
{
	if (!*name || *name == '.' || strlen(name) > 127)
		return false;
	for (; *name; name++)
		if (*name == '/' || (unsigned char)*name <= ' ' || (unsigned char)*name >= 127)
			return false;
	return true;
}

/* ---- specification ---- */

int kevent_parse_spec(const char *spec, char **sys, char **name, char **filter,
		      struct kvmft_err *err)
{
	_cleanup_free_ char *text = strdup(spec);
	char *from = text ? strchr(text, '/') : NULL, *to = from ? strrchr(text, '/') : NULL,
	     *colon;
	const char *second;
	int got = 0;

	*sys = *name = *filter = NULL;
	if (!text)
		return err_set(err, ENOMEM, "out of memory");
	/* The filter is between the first and the last slash, which must be the last character. */
	if (from && to == from)
		return err_usage(err, "%s: the filter has no closing '/'", text);
	if (from && to[1])
		return err_usage(err, "%s: something follows the closing '/' of the filter", text);
	if (from && to == from + 1)
		return err_usage(err, "%s: empty filter", text);
	if (from)
		*from = *to = '\0';
	colon = strchr(text, ':');
	second = colon ? colon + 1 : text;
	if (colon)
		*colon = '\0';
	if ((colon && !kname_ok(text)) || !kname_ok(second) || strchr(second, ':'))
		return err_usage(err,
				 "%s: not an event (SYSTEM:EVENT, SYSTEM:*, SYSTEM or EVENT, "
				 "each may be followed by /FILTER/)",
				 spec);
	*filter = from ? strdup(from + 1) : NULL;
	*sys = colon ? strdup(text) : NULL;
	*name = strdup(second);
	if ((from && !*filter) || (colon && !*sys) || !*name)
		got = err_set(err, ENOMEM, "out of memory");
	if (got) {
		free(*sys);
		free(*name);
		free(*filter);
		*sys = *name = *filter = NULL;
	}
	return got;
}

/* ---- lists ---- */

static struct kevent *list_find(const struct kevent_list *list, const char *sys, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->v[i].sys, sys) && !strcmp(list->v[i].name, name))
			return &list->v[i];
	return NULL;
}

static void event_free(struct kevent *e)
{
	free(e->sys);
	free(e->name);
	free(e->filter);
}

static int filter_replace(struct kevent *e, const char *filter)
{
	char *copy;

	if (!filter)
		return 0;
	copy = strdup(filter);
	if (!copy)
		return -ENOMEM;
	free(e->filter);
	e->filter = copy;
	return 0;
}

int kevent_list_add(struct kevent_list *list, const char *sys, const char *name, const char *filter)
{
	struct kevent *e = list_find(list, sys, name);

	if (e)
		return filter_replace(e, filter);
	e = array_grow(&list->v, list->n, &list->cap, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->sys = strdup(sys);
	e->name = strdup(name);
	if (!e->sys || !e->name || filter_replace(e, filter)) {
		event_free(e);
		return -ENOMEM;
	}
	list->n++;
	return 0;
}

bool kevent_list_has(const struct kevent_list *list, const char *sys, const char *name)
{
	return list_find(list, sys, name) != NULL;
}

void kevent_list_free(struct kevent_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		event_free(&list->v[i]);
	free(list->v);
	*list = (struct kevent_list){ 0 };
}

/* ---- what tracefs says about one event ---- */

int kevent_path(const char *sys, const char *name, const char *file, char *buf, size_t size)
{
	if (!kname_ok(sys) || !kname_ok(name))
		return -EINVAL;
	snprintf(buf, size, "events/%s/%s/%s", sys, name, file);
	return 0;
}

/* Without "enable" it cannot be recorded as an event (ftrace's own pseudo events). */
bool kevent_exists(const struct ktracefs *t, const char *sys, const char *name)
{
	char path[320];

	return !kevent_path(sys, name, "enable", path, sizeof(path)) && ktracefs_has(t, path);
}

int kevent_format_id(const char *text, uint32_t *id)
{
	const char *line = strstr(text, "\nID:");
	uint64_t v;

	if (!line)
		return -EBADMSG;
	line += strlen("\nID:");
	line += strspn(line, " \t");
	if (!take_u64(&line, UINT64_MAX, &v) || *line != '\n')
		return -EBADMSG;
	if (v > UINT16_MAX) /* common_type has 16 bits */
		return -ERANGE;
	*id = (uint32_t)v;
	return 0;
}

int kevent_format(const struct ktracefs *t, const char *sys, const char *name, char **text)
{
	char path[320];
	ssize_t got;
	int err = kevent_path(sys, name, "format", path, sizeof(path));

	*text = NULL;
	if (err)
		return err;
	got = ktracefs_read(t, path, FORMAT_MAX, text);
	return got < 0 ? (int)got : 0;
}

int kevent_kvm_check(const struct ktracefs *t, struct kvmft_err *err)
{
	if (kevent_exists(t, "kvm", "kvm_exit"))
		return 0;
	switch (kmodule_state_get("kvm")) {
	case KMODULE_LOADED:
	case KMODULE_BUILTIN:
		return err_lack(err, ENOENT, "no kvm events although kvm is there: this kernel has "
				"KVM without tracepoints (CONFIG_EVENT_TRACING)");
	case KMODULE_AVAILABLE:
		return err_lack(err, ENOENT, "no kvm events: module kvm is not loaded "
				"(modprobe kvm_intel or modprobe kvm_amd)");
	case KMODULE_ABSENT: return err_lack(err, ENOENT, "no kvm events: this kernel has no KVM");
	case KMODULE_UNKNOWN: break;
	}
	return err_lack(err, ENOENT, "no kvm events: module kvm is not loaded, or this kernel has "
			"no KVM");
}

/* ---- from the argument of -e to events of this kernel, or to what was probably meant ---- */

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

static int explain_nothing(const struct query *q, struct kvmft_err *err)
{
	struct near near = { .word = q->name }, near_sys = { .word = q->sys };
	struct kvmft_err why = { 0 };
	int got;

	/* ftrace's own pseudo events have a format, but no switch. */
	if (!q->bare && !is_pattern(q->sys) && !is_pattern(q->name) &&
	    ktracefs_has(q->t, TEXTF("events/%s/%s/format", q->sys, q->name)))
		return err_lack(err, ENOENT,
				"%s:%s: the kernel does not let this event be "
				"enabled",
				q->sys, q->name);
	if (!q->bare && !is_pattern(q->sys) && !system_exists(q->t, q->sys)) {
		if ((!strcmp(q->sys, "kvm") || !strcmp(q->sys, "kvmmmu")) &&
		    (got = kevent_kvm_check(q->t, &why)))
			return err_lack(err, got, "%s:%s: %s", q->sys, q->name, why.text);
		if (kmodule_state_get(q->sys) == KMODULE_AVAILABLE)
			return err_lack(err, ENOENT,
					"%s:%s: no event system %s: its module is not loaded "
					"(modprobe %s)",
					q->sys, q->name, q->sys, q->sys);
		(void)events_walk(q->t, "*", near_system, &near_sys);
		return expand_explain(q, &near_sys, TEXTF("no event system %s", q->sys), err);
	}
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
	array_sort(q->found.v, q->found.n, event_cmp);
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
