/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event_expand.c: from what a user writes behind -e to events of this kernel, or to a message
 * that says what was probably meant.
 */
#include "priv.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <tracefs.h>

#define NEAR_MAX 3

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

/* Calls fn for each event of the systems that match; returns the first non-zero answer. */
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
	char path[160];

	snprintf(path, sizeof(path), "events/%s/enable", sys);
	return kname_ok(sys) && ktracefs_has(t, path);
}

static int query_take(const char *sys, const char *name, void *arg)
{
	struct query *q = arg;

	if (!word_match(q->name, name) || !kevent_exists(q->t, sys, name))
		return 0;
	return kevent_list_add(&q->found, sys, name, q->filter);
}

/* ---- near names ---- */

struct near {
	const char *word; /* what was asked for */
	bool with_system; /* compare system names, not event names */
	size_t n;
	struct {
		unsigned int dist; /* near_score() */
		char text[260];
	} best[NEAR_MAX];
};

/*
 * A third of the letters wrong is still a typing error; more is another word. Two swapped letters
 * count as two, and happen in short words too.
 */
static unsigned int near_limit(const char *word)
{
	size_t len = MIN(strlen(word), 63);

	return (unsigned int)MAX(len / 3, len > 3 ? 2 : 1);
}

/* Equal distances are common in short names; then the longer common beginning is likelier. */
static unsigned int near_score(const char *word, const char *name)
{
	unsigned int same = 0;

	while (same < 63 && word[same] && word[same] == name[same])
		same++;
	return str_distance(word, name) * 64 + 63 - same;
}

static void near_offer(struct near *near, unsigned int dist, const char *text)
{
	size_t at = near->n;

	for (size_t i = 0; i < near->n; i++)
		if (!strcmp(near->best[i].text, text))
			return;
	/* By name where the score is equal: the order of a directory is nobody's promise. */
	while (at > 0 && (near->best[at - 1].dist > dist ||
			  (near->best[at - 1].dist == dist &&
			   strcmp(near->best[at - 1].text, text) > 0)))
		at--;
	if (at == NEAR_MAX)
		return;
	if (near->n < NEAR_MAX)
		near->n++;
	memmove(&near->best[at + 1], &near->best[at],
		(near->n - at - 1) * sizeof(near->best[0]));
	near->best[at].dist = dist;
	snprintf(near->best[at].text, sizeof(near->best[at].text), "%s", text);
}

static int near_event(const char *sys, const char *name, void *arg)
{
	struct near *near = arg;
	unsigned int dist = near_score(near->word, near->with_system ? sys : name);
	char text[260];

	if (dist / 64 > near_limit(near->word))
		return 0;
	if (near->with_system)
		snprintf(text, sizeof(text), "%s", sys);
	else
		snprintf(text, sizeof(text), "%s:%s", sys, name);
	near_offer(near, dist, text);
	return 0;
}

/* Beside a good guess a much worse one is noise: beside the very name, any other. */
static void near_text(const struct near *near, struct sbuf *b)
{
	size_t n = near->n;

	while (n && near->best[n - 1].dist / 64 > near->best[0].dist / 64 * 2)
		n--;
	for (size_t i = 0; i < n; i++) {
		sbuf_add(b, !i ? " (did you mean " : i + 1 == n ? " or " : ", ");
		sbuf_add(b, near->best[i].text);
	}
	if (n)
		sbuf_add(b, "?)");
}

/* ---- why nothing was found ---- */

static int explain(const struct query *q, const struct near *near, const char *what,
		   struct kvmft_err *err)
{
	struct sbuf b = { 0 };
	int got;

	near_text(near, &b);
	got = err_set(err, ENOENT, "%s%s%s: %s%s", q->bare ? "" : q->sys, q->bare ? "" : ":",
		      q->name, what, b.s ? b.s : "");
	sbuf_free(&b);
	return got;
}

static int explain_system(const struct query *q, struct kvmft_err *err)
{
	struct near near = { .word = q->sys, .with_system = true };
	struct kvmft_err why = { 0 };
	char what[200];

	if (!strcmp(q->sys, "kvm") || !strcmp(q->sys, "kvmmmu")) {
		int got = kevent_kvm_check(q->t, &why);

		if (got)
			return err_lack(err, got, "%s:%s: %s", q->sys, q->name, why.text);
	}
	if (!is_pattern(q->sys) && kmodule_state_get(q->sys) == KMODULE_AVAILABLE)
		return err_lack(err, ENOENT, "%s:%s: no event system %s: its module is not loaded "
				"(modprobe %s)", q->sys, q->name, q->sys, q->sys);
	(void)events_walk(q->t, "*", near_event, &near);
	snprintf(what, sizeof(what), "no event system %s", q->sys);
	return explain(q, &near, what, err);
}

/* ftrace's own pseudo events have a format, but no switch. */
static bool format_exists(const struct query *q)
{
	char path[320];

	snprintf(path, sizeof(path), "events/%s/%s/format", q->sys, q->name);
	return ktracefs_has(q->t, path);
}

static int explain_nothing(const struct query *q, struct kvmft_err *err)
{
	struct near near = { .word = q->name };
	struct near other = { .word = q->name, .with_system = true };

	if (!q->bare && !is_pattern(q->sys) && !is_pattern(q->name) && format_exists(q))
		return err_set(err, ENOENT, "%s:%s: the kernel does not let this event be "
			       "enabled", q->sys, q->name);
	if (!q->bare && !is_pattern(q->sys) && !system_exists(q->t, q->sys))
		return explain_system(q, err);
	if (is_pattern(q->name))
		return explain(q, &near, "no such events", err);
	(void)events_walk(q->t, q->bare ? "*" : q->sys, near_event, &near);
	if (!near.n && !q->bare) /* right event, wrong system? */
		(void)events_walk(q->t, "*", near_event, &near);
	if (q->bare)
		(void)events_walk(q->t, "*", near_event, &other);
	for (size_t i = 0; i < other.n; i++)
		near_offer(&near, other.best[i].dist, other.best[i].text);
	return explain(q, &near, q->bare ? "no such event or system" : "no such event", err);
}

static int explain_ambiguous(const struct query *q, struct kvmft_err *err)
{
	struct sbuf b = { 0 };
	int got;

	for (size_t i = 0; i < q->found.n; i++)
		sbuf_addf(&b, "%s%s:%s", i ? ", " : "", q->found.v[i].sys, q->found.v[i].name);
	(void)err_usage(err, "%s: exists in several systems, name one of: %s", q->name,
			b.s ? b.s : "");
	got = -EINVAL;
	sbuf_free(&b);
	return got;
}

/* ---- the whole ---- */

static int event_cmp(const void *a, const void *b)
{
	const struct kevent *x = a, *y = b;
	int sys = strcmp(x->sys, y->sys);

	return sys ? sys : strcmp(x->name, y->name);
}

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
	if (q->bare && !is_pattern(q->name) && q->found.n > 1)
		return explain_ambiguous(q, err);
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
