/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.c: lines of the back end log, among whatever else QEMU says on the same descriptor.
 *
 * 	719585@1608130130.441188:NAME TEXT		thread (old: process), seconds since 1970
 * 	2025-09-02T16:47:29.123456Z [(TID) ][GUEST ][PROG: ]NAME TEXT	since the rework of 2025
 * 	NAME TEXT					without -msg timestamp=on
 *
 * Which one is decided line by line. An undeclared line without time is an event only if its first
 * word has an underscore, as names of QEMU's events do.
 */
#include "trace.h"

static bool old_form(const struct qevents *events, struct qline l, struct qtrace_item *item)
{
	uint64_t id;

	if (!qline_digits(&l, 1, 10, &id) || id > INT32_MAX || !qline_char(&l, '@') ||
	    !qline_seconds(&l, item) || !qline_char(&l, ':'))
		return false;
	item->tid = (int32_t)id;
	item->clock = QTRACE_REALTIME;
	return qline_event(events, l, true, item);
}

static bool ends_with_colon(const char *s, size_t n)
{
	return n > 1 && s[n - 1] == ':';
}

/* What may come between time and name: where the name is, judging only by the words. */
static struct qline name_at(struct qline l)
{
	struct qline at = l, second;
	const char *word;
	size_t n = qline_word(&at, &word);

	if (ends_with_colon(word, n)) /* PROG: */
		return at;
	second = at;
	n = qline_word(&second, &word);
	return ends_with_colon(word, n) ? second : l; /* GUEST PROG: */
}

static bool new_form(const struct qevents *events, struct qline l, struct qtrace_item *item)
{
	struct qline at;
	const char *word;
	uint64_t id;

	if (!qline_iso(&l, item) || !qline_char(&l, ' '))
		return false;
	at = l;
	if (qline_char(&at, '(') && qline_digits(&at, 1, 10, &id) && qline_char(&at, ')') &&
	    qline_char(&at, ' ') && id <= INT32_MAX) {
		item->tid = (int32_t)id;
		l = at;
	}
	/* A declared name among the first three words decides; else what the words look like. */
	at = l;
	for (int i = 0; i < 3 && events; i++) {
		if (qline_event(events, at, false, item))
			return true;
		if (!qline_word(&at, &word))
			break;
	}
	return qline_event(events, name_at(l), true, item);
}

static bool log_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	const struct qline l = { s, s + n };
	size_t word = 0;

	if (old_form(t->o.events, l, item) || new_form(t->o.events, l, item))
		return true;
	*item = (struct qtrace_item){ .cpu = -1, .unit = 1 };
	while (word < n && s[word] != ' ')
		word++;
	return qline_event(t->o.events, l, !t->o.events && memchr(s, '_', word), item);
}

const struct qtrace_reader qtrace_log = { .format = QTRACE_LOG, .line = log_line };
