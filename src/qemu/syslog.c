/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * syslog.c: lines of the back end syslog, as syslog daemons and journalctl write them:
 *
 * 	Nov 21 09:54:00[.123456] HOST PROG[PID]: NAME TEXT	local time, no year
 * 	2026-11-21T09:54:00.123456+00:00 HOST PROG[PID]: NAME TEXT
 * 	1795254840.123456 HOST PROG[PID]: NAME TEXT		journalctl -o short-unix
 * 	[ 1234.567890] HOST PROG[PID]: NAME TEXT		journalctl -o short-monotonic
 *
 * Daemons fold repeated lines and drop what comes too fast; if they say so, that is reported.
 */
#include "trace.h"

/*
 * Whole seconds are from time(), which reads a kernel clock that is updated by ticks: it lags by
 * one of them, and by whatever kept a VM from its CPU.
 */
#define COARSE_LAG 100000000ull

/* "Nov 21 09:54:00": in the year that brings it nearest to the capture. */
static bool old_date(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	int64_t year, near_days = (int64_t)(t->o.near / 86400000000000ull), best = INT64_MAX;
	uint64_t day, of_day, ns;
	struct qline at = *l;
	unsigned int month, d, m;

	if (at.end - at.p < 4 || at.p[3] != ' ')
		return false;
	for (month = 1; month <= 12 && memcmp(at.p, months + 3 * (month - 1), 3); month++)
		;
	at.p += 4;
	qline_char(&at, ' ');
	if (month > 12 || !qline_digits(&at, 1, 2, &day) || day < 1 || day > 31 ||
	    !qline_char(&at, ' ') || !qline_time_of_day(&at, &of_day, &item->unit))
		return false;
	qline_civil(near_days, &year, &m, &d);
	for (int64_t y = MAX(year - 1, (int64_t)1970); y <= year + 1; y++) {
		int64_t days = qline_days(y, month, (unsigned int)day), off = days - near_days;

		off = off < 0 ? -off : off;
		if (off < best && qline_local(days, of_day, &ns)) {
			best = off;
			item->ns = ns;
		}
	}
	item->clock = QTRACE_REALTIME;
	if (item->unit == 1000000000)
		item->unit += COARSE_LAG;
	*l = at;
	return best < INT64_MAX;
}

static bool stamp(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
{
	struct qline at = *l;

	if (qline_char(&at, '[')) {
		while (qline_char(&at, ' '))
			;
		if (!qline_seconds(&at, item) || !qline_char(&at, ']'))
			return false;
		item->clock = QTRACE_MONO;
		*l = at;
		return true;
	}
	if (old_date(t, l, item) || qline_iso(l, item))
		return true;
	if (!qline_seconds(l, item))
		return false;
	item->clock = QTRACE_REALTIME;
	return true;
}

/* "PROG[PID]:"; the number goes to *pid, 0 when there is none. */
static bool program(const char *s, size_t n, int32_t *pid)
{
	const char *open = memchr(s, '[', n);
	struct qline l;
	uint64_t v = 0;

	*pid = 0;
	if (n < 2 || s[n - 1] != ':')
		return false;
	if (!open)
		return true;
	l = (struct qline){ open + 1, s + n };
	if (!qline_digits(&l, 1, 10, &v) || !qline_char(&l, ']') || v > INT32_MAX)
		return false;
	*pid = (int32_t)v;
	return true;
}

/* A number before (a part of) what. */
static bool count_before(struct qline l, const char *what, uint64_t *n)
{
	const char *at = memmem(l.p, (size_t)(l.end - l.p), what, strlen(what)), *from = at;
	struct qline digits;

	while (from && from > l.p && from[-1] >= '0' && from[-1] <= '9')
		from--;
	if (!at || from == at)
		return false;
	digits = (struct qline){ from, at };
	return qline_digits(&digits, 1, 9, n);
}

/* "message repeated 5 times: [ NAME TEXT]": the line counts for that many. */
static struct qline unfold(struct qtrace *t, struct qline l)
{
	static const char head[] = "message repeated ";
	const char *open = memmem(l.p, (size_t)(l.end - l.p), ": [ ", 4);
	uint64_t times;

	if ((size_t)(l.end - l.p) < sizeof(head) || memcmp(l.p, head, sizeof(head) - 1) || !open ||
	    !count_before(l, " times", &times))
		return l;
	t->st.folded += times ? times - 1 : 0;
	l.p = open + 4;
	if (l.end > l.p && l.end[-1] == ']')
		l.end--;
	return l;
}

static bool dropped(struct qline l, struct qtrace_item *item)
{
	if (!memmem(l.p, (size_t)(l.end - l.p), "rate-limit", 10) &&
	    !memmem(l.p, (size_t)(l.end - l.p), "Suppressed ", 11))
		return false;
	if (!count_before(l, " messages", &item->lost))
		return false;
	item->kind = QTRACE_LOST;
	return true;
}

static bool is_qemu(const char *s, size_t n)
{
	return (n > 4 && !memcmp(s, "qemu", 4)) || (n > 3 && !memcmp(s, "kvm", 3));
}

static bool syslog_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	struct qline l = { s, s + n };
	const char *word;
	int32_t pid;
	size_t len;
	uint64_t pri;

	if (qline_char(&l, '<') && (!qline_digits(&l, 1, 3, &pri) || !qline_char(&l, '>')))
		return false;
	if (!stamp(t, &l, item) || !qline_char(&l, ' '))
		return false;
	len = qline_word(&l, &word);
	if (!program(word, len, &pid)) { /* it was the host's name */
		len = qline_word(&l, &word);
		if (!program(word, len, &pid))
			return false;
	}
	item->tid = pid;
	if (!is_qemu(word, len) && dropped(l, item))
		return true;
	return qline_event(t->o.events, unfold(t, l), is_qemu(word, len), item);
}

const struct qtrace_reader qtrace_syslog = { .format = QTRACE_SYSLOG, .line = syslog_line };
