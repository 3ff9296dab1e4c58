/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event.c: names of events: taking a specification apart, lists of wanted events, and what
 * events/SYSTEM/EVENT/ says about one. Which events a specification means: event_expand.c. Files
 * are read by ktracefs_read(), see tracefs.c.
 */
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

/* The text between the first and the last slash, which must be the last character. */
static int take_filter(char *text, char **filter, struct kvmft_err *err)
{
	char *from = strchr(text, '/');
	char *to = from ? strrchr(text, '/') : NULL;

	*filter = NULL;
	if (!from)
		return 0;
	if (to == from)
		return err_usage(err, "%s: the filter has no closing '/'", text);
	if (to[1])
		return err_usage(err, "%s: something follows the closing '/' of the filter", text);
	if (to == from + 1)
		return err_usage(err, "%s: empty filter", text);
	*to = '\0';
	*filter = strdup(from + 1);
	*from = '\0';
	return *filter ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int take_names(const char *spec, char *text, char **sys, char **name,
		      struct kvmft_err *err)
{
	char *colon = strchr(text, ':');
	const char *first = colon ? text : NULL;
	const char *second = colon ? colon + 1 : text;

	if (colon)
		*colon = '\0';
	if ((first && !kname_ok(first)) || !kname_ok(second) || strchr(second, ':'))
		return err_usage(err, "%s: not an event (SYSTEM:EVENT, SYSTEM:*, SYSTEM or EVENT, "
				 "each may be followed by /FILTER/)", spec);
	*sys = first ? strdup(first) : NULL;
	*name = strdup(second);
	if ((first && !*sys) || !*name)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

int kevent_parse_spec(const char *spec, char **sys, char **name, char **filter,
		      struct kvmft_err *err)
{
	_cleanup_free_ char *text = strdup(spec);
	int got;

	*sys = *name = *filter = NULL;
	if (!text)
		return err_set(err, ENOMEM, "out of memory");
	got = take_filter(text, filter, err);
	got = got ?: take_names(spec, text, sys, name, err);
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

int kevent_list_add(struct kevent_list *list, const char *sys, const char *name,
		    const char *filter)
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
	case KMODULE_ABSENT:
		return err_lack(err, ENOENT, "no kvm events: this kernel has no KVM");
	case KMODULE_UNKNOWN:
		break;
	}
	return err_lack(err, ENOENT, "no kvm events: module kvm is not loaded, or this kernel has "
			"no KVM");
}
