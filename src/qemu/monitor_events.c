/* SPDX-License-Identifier: GPL-2.0-or-later */
/* monitor_events.c: QEMU's trace events by either monitor; patterns, and files of patterns. */
#include "monitor_internal.h"

const char *const mon_state_names[MON_STATES] = {
	[MON_UNAVAILABLE] = "unavailable",
	[MON_DISABLED] = "disabled",
	[MON_ENABLED] = "enabled",
};

int mon_events_add(struct mon_events *list, const char *name, enum mon_state state, bool vcpu)
{
	struct mon_event e = { .state = state, .vcpu = vcpu };

	/* It may have to be named when it is switched off, also by kvmft reset. */
	if (!mon_pattern_ok(name) || mon_is_pattern(name))
		return -EINVAL;
	if (list->n >= MON_MAX_EVENTS)
		return -E2BIG;
	e.name = strdup(name);
	if (!e.name || array_add(&list->v, &list->n, &list->cap, &e, sizeof(e))) {
		free(e.name);
		return -ENOMEM;
	}
	return 0;
}

void mon_events_free(struct mon_events *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i].name);
	free(list->v);
	*list = (struct mon_events){ 0 };
}

static int compare_events(const void *a, const void *b)
{
	const struct mon_event *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int monitor_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err)
{
	int ret;

	*list = (struct mon_events){ 0 };
	ret = m->ops->events(m, list, err);
	if (ret) {
		mon_events_free(list);
		return ret;
	}
	if (list->n)
		qsort(list->v, list->n, sizeof(*list->v), compare_events);
	return 0;
}

struct mon_event *mon_events_get(const struct mon_events *list, const char *name)
{
	size_t at = COUNT_BEFORE(i, list->n, strcmp(list->v[i].name, name) < 0);

	return at < list->n && !strcmp(list->v[at].name, name) ? &list->v[at] : NULL;
}

int monitor_set(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err)
{
	return m->ops->set(m, pattern, on, err);
}

/* ---- patterns ---- */

bool mon_is_pattern(const char *text)
{
	return strpbrk(text, "*?") != NULL;
}

bool mon_pattern_ok(const char *text)
{
	static const char chars[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*?";

	return *text && strlen(text) < 256 && !text[strspn(text, chars)];
}

int mon_switches_add(struct mon_switches *s, const char *pattern, bool on, struct kvmft_err *err)
{
	struct mon_switch *slot;
	char shown[64];

	if (!mon_pattern_ok(pattern)) {
		size_t n = MIN(strlen(pattern), sizeof(shown) - 1);

		memcpy(shown, pattern, n);
		shown[n] = '\0';
		return err_usage(
			err,
			"'%s' cannot name a trace event: letters, digits, _ and the wildcards "
			"* and ? can",
			shown);
	}
	slot = array_grow(&s->v, s->n, &s->cap, sizeof(*slot));
	if (slot)
		slot->pattern = strdup(pattern);
	if (!slot || !slot->pattern)
		return err_set(err, ENOMEM, "out of memory");
	slot->on = on;
	s->n++;
	return 0;
}

static int add_line(struct mon_switches *s, const char *line, size_t n, struct kvmft_err *err)
{
	char text[256];
	bool off;

	while (n && strchr(" \t", *line)) {
		line++;
		n--;
	}
	while (n && strchr(" \t\r", line[n - 1]))
		n--;
	if (!n || *line == '#')
		return 0;
	if (n >= sizeof(text) || memchr(line, '\0', n))
		return err_set(err, EINVAL, "it is not a line of text, or too long");
	memcpy(text, line, n);
	text[n] = '\0';
	off = *text == '-';
	return mon_switches_add(s, text + off, !off, err);
}

int mon_switches_add_text(struct mon_switches *s, const char *text, size_t n, const char *file,
			  struct kvmft_err *err)
{
	struct kvmft_err why = { .text = "" };

	for (unsigned int line = 1; n; line++) {
		const char *end = memchr(text, '\n', n);
		size_t len = end ? (size_t)(end - text) : n;
		int ret = add_line(s, text, len, &why);

		if (ret) {
			err_set(err, -ret, "%s, line %u: %s", file, line, why.text);
			if (err)
				err->code = why.code;
			return ret;
		}
		len += !!end;
		text += len;
		n -= len;
	}
	return 0;
}

void mon_switches_free(struct mon_switches *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].pattern);
	free(s->v);
	*s = (struct mon_switches){ 0 };
}

int mon_switches_get(const struct mon_switches *s, const char *name)
{
	for (size_t i = s->n; i-- > 0;)
		if (str_glob(s->v[i].pattern, name))
			return s->v[i].on;
	return -1;
}
