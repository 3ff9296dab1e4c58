/* SPDX-License-Identifier: GPL-2.0-or-later */
/* line.c: words, dates and events in lines of text. */
#include "trace.h"

#include <ctype.h>

struct qline {
	const char *p, *end;
};

#define NS  1000000000ull
#define DAY 86400

/* The next word (up to a blank), skipping the blanks after it; 0: none is left. */
static size_t qline_word(struct qline *l, const char **word)
{
	size_t n = 0;

	*word = l->p;
	while (l->p < l->end && *l->p != ' ' && *l->p != '\t') {
		l->p++;
		n++;
	}
	while (l->p < l->end && (*l->p == ' ' || *l->p == '\t'))
		l->p++;
	return n;
}

static bool qline_digits(struct qline *l, unsigned int n, unsigned int most, uint64_t *v)
{
	const char *p = l->p;
	unsigned int got = 0;

	for (*v = 0; p < l->end && isdigit((unsigned char)*p) && got < most; p++, got++)
		*v = *v * 10 + (uint64_t)(*p - '0');
	if (got < n || (p < l->end && isdigit((unsigned char)*p)))
		return false;
	l->p = p;
	return true;
}

/* n to most digits as a number; false without moving. */
static bool qline_char(struct qline *l, char c)
{
	if (l->p == l->end || *l->p != c)
		return false;
	l->p++;
	return true;
}

/* "[.FRACTION]" of a second, up to 9 digits: ns and what one unit of its last digit is. */
static bool stamp_fraction(struct qline *l, uint64_t *ns, uint64_t *unit)
{
	*ns = 0;
	*unit = NS;
	if (!qline_char(l, '.') && !qline_char(l, ','))
		return true;
	for (; l->p < l->end && isdigit((unsigned char)*l->p) && *unit > 1; l->p++) {
		*unit /= 10;
		*ns += *unit * (uint64_t)(*l->p - '0');
	}
	while (l->p < l->end && isdigit((unsigned char)*l->p)) /* finer than ns */
		l->p++;
	return *unit < NS;
}

/* "HH:MM:SS[.FRACTION]": ns since midnight. */
static bool qline_time_of_day(struct qline *l, uint64_t *ns, uint64_t *unit)
{
	uint64_t h, m, s;

	if (!qline_digits(l, 2, 2, &h) || !qline_char(l, ':') || !qline_digits(l, 2, 2, &m) ||
	    !qline_char(l, ':') || !qline_digits(l, 2, 2, &s) || !stamp_fraction(l, ns, unit))
		return false;
	*ns += ((h * 60 + m) * 60 + s) * NS;
	return h < 24 && m < 60 && s < 61;
}

/* Since 1970. */
static int64_t qline_days(int year, int month, int day)
{
	struct tm tm = { .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day };

	return timegm(&tm) / DAY;
}

/* Local date and time of day as ns since 1970; false: no such time. */
static bool qline_local(int64_t days, uint64_t ns_of_day, uint64_t *ns)
{
	time_t t = (time_t)days * DAY + (time_t)(ns_of_day / NS);
	struct tm tm;

	if (days < 0 || !gmtime_r(&t, &tm))
		return false;
	tm.tm_isdst = -1;
	t = mktime(&tm);
	if (t < 0)
		return false;
	*ns = (uint64_t)t * NS + ns_of_day % NS;
	return true;
}

/* "Z", "+01:00", "-0130"; seconds east of Greenwich. *known false: there is none. */
static bool stamp_zone(struct qline *l, int64_t *east, bool *known)
{
	bool minus = l->p < l->end && *l->p == '-';
	uint64_t h, m;

	*east = 0;
	*known = true;
	if (qline_char(l, 'Z'))
		return true;
	*known = qline_char(l, '+') || qline_char(l, '-');
	if (!*known)
		return true;
	if (qline_digits(l, 4, 4, &h)) {
		m = h % 100;
		h /= 100;
	} else if (!qline_digits(l, 2, 2, &h)) {
		return false;
	} else if (!qline_char(l, ':')) {
		m = 0;
	} else if (!qline_digits(l, 2, 2, &m)) {
		return false;
	}
	*east = (int64_t)(h * 3600 + m * 60);
	if (minus)
		*east = -*east;
	return h < 24 && m < 60;
}

/* "YYYY-MM-DDTHH:MM:SS[.FRACTION][Z|+HH:MM|+HHMM]"; without a zone local time. */
static bool qline_iso(struct qline *l, struct qtrace_item *item)
{
	int64_t days, east;
	uint64_t y, m, d, of_day;
	struct qline at = *l;
	bool known;

	if (!qline_digits(&at, 4, 4, &y) || !qline_char(&at, '-') || !qline_digits(&at, 2, 2, &m) ||
	    !qline_char(&at, '-') || !qline_digits(&at, 2, 2, &d) || y < 1970 || m < 1 || m > 12 ||
	    d < 1 || d > 31 || !(qline_char(&at, 'T') || qline_char(&at, ' ')) ||
	    !qline_time_of_day(&at, &of_day, &item->unit) || !stamp_zone(&at, &east, &known))
		return false;
	days = qline_days((int)y, (int)m, (int)d);
	if (!known && !qline_local(days, of_day, &item->ns))
		return false;
	if (known) /* days begin in 1970, zones are less than a day */
		item->ns = (uint64_t)MAX(days * DAY - east, (int64_t)0) * NS + of_day;
	item->clock = QTRACE_REALTIME;
	*l = at;
	return true;
}

/* "SECONDS[.FRACTION]" since 1970 or boot. */
static bool qline_seconds(struct qline *l, struct qtrace_item *item)
{
	struct qline at = *l;
	uint64_t s, frac;

	if (!qline_digits(&at, 1, 10, &s) || !stamp_fraction(&at, &frac, &item->unit))
		return false;
	item->ns = s * NS + frac;
	*l = at;
	return true;
}

/* A name of an event by its looks: [a-z_][a-z0-9_]*, of any case behind the first. */
static bool qline_is_name(const char *s, size_t n)
{
	if (!n || n > 255 || !(islower((unsigned char)*s) || *s == '_'))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/*
 * "NAME text" at the end of a line: fills in what belongs to the event. sure: NAME counts by its
 * looks even if it is not declared.
 */
static bool qline_event(const struct qevents *events, struct qline l, bool sure,
			struct qtrace_item *item)
{
	size_t n;

	/* One blank separates name and text; any more belong to the text. */
	for (item->name = l.p; l.p < l.end && *l.p != ' '; l.p++)
		;
	n = (size_t)(l.p - item->name);
	if (!qline_is_name(item->name, n))
		return false;
	item->ev = qevents_find(events, item->name, n);
	if (!item->ev && !sure)
		return false;
	qline_char(&l, ' ');
	item->kind = QTRACE_EVENT;
	item->name_len = (uint32_t)n;
	item->text = l.p;
	item->text_len = (uint32_t)(l.end - l.p);
	item->has_args = item->ev && qev_scan(item->ev, item->text, item->text_len, item->arg);
	return true;
}

bool qtrace_marker(const struct qevents *events, const char *text, size_t len,
		   struct qtrace_item *item)
{
	*item = (struct qtrace_item){ .cpu = -1, .unit = 1 };
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\0'))
		len--;
	return qline_event(events, (struct qline){ text, text + len }, false, item);
}

/*
 * Lines of the back end log, among whatever else QEMU says on the same descriptor.
 *
 * 	719585@1608130130.441188:NAME TEXT		thread (old: process), seconds since 1970
 * 	2025-09-02T16:47:29.123456Z [(TID) ][GUEST ][PROG: ]NAME TEXT	since the rework of 2025
 * 	NAME TEXT					without -msg timestamp=on
 *
 * Which one is decided line by line. An undeclared line without time is an event only if its first
 * word has an underscore, as names of QEMU's events do.
 */

static bool ends_with_colon(const char *s, size_t n)
{
	return n > 1 && s[n - 1] == ':';
}

static bool new_form(const struct qevents *events, struct qline l, struct qtrace_item *item)
{
	struct qline at;
	const char *word;
	uint64_t id;
	size_t n;

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
	/* What may come between time and name: "PROG:" or "GUEST PROG:". */
	at = l;
	n = qline_word(&at, &word);
	if (!ends_with_colon(word, n)) {
		n = qline_word(&at, &word);
		at = ends_with_colon(word, n) ? at : l;
	}
	return qline_event(events, at, true, item);
}

static bool log_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	const struct qline l = { s, s + n };
	struct qline old = l;
	size_t word = 0;
	uint64_t id;

	if (qline_digits(&old, 1, 10, &id) && id <= INT32_MAX && qline_char(&old, '@') &&
	    qline_seconds(&old, item) && qline_char(&old, ':')) {
		item->tid = (int32_t)id;
		item->clock = QTRACE_REALTIME;
		return qline_event(t->o.events, old, true, item);
	}
	if (new_form(t->o.events, l, item))
		return true;
	*item = (struct qtrace_item){ .cpu = -1, .unit = 1 };
	while (word < n && s[word] != ' ')
		word++;
	return qline_event(t->o.events, l, !t->o.events && memchr(s, '_', word), item);
}

const struct qtrace_reader qtrace_log = { .format = QTRACE_LOG, .line = log_line };

/*
 * Lines of the back end syslog, as syslog daemons and journalctl write them:
 *
 * 	Nov 21 09:54:00[.123456] HOST PROG[PID]: NAME TEXT	local time, no year
 * 	2026-11-21T09:54:00.123456+00:00 HOST PROG[PID]: NAME TEXT
 * 	1795254840.123456 HOST PROG[PID]: NAME TEXT		journalctl -o short-unix
 * 	[ 1234.567890] HOST PROG[PID]: NAME TEXT		journalctl -o short-monotonic
 *
 * Daemons fold repeated lines and drop what comes too fast; if they say so, that is reported.
 */

/*
 * Whole seconds are from time(), which reads a kernel clock that is updated by ticks: it lags by
 * one of them, and by whatever kept a VM from its CPU.
 */
#define COARSE_LAG 100000000ull

/*
 * "Nov 21 09:54:00": in the year that brings it nearest to the capture; if only the file's own time
 * is known, before that: but for a day, which clocks may differ by.
 */
static bool old_date(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	int64_t near_days = (int64_t)(t->o.near / (NS * DAY)), best = INT64_MAX;
	const time_t near = (time_t)(t->o.near / NS);
	uint64_t day, of_day, ns;
	struct qline at = *l;
	struct tm tm;
	int month, year;

	if (at.end - at.p < 4 || at.p[3] != ' ')
		return false;
	for (month = 1; month <= 12 && memcmp(at.p, months + 3 * (month - 1), 3); month++)
		;
	at.p += 4;
	qline_char(&at, ' ');
	if (month > 12 || !qline_digits(&at, 1, 2, &day) || day < 1 || day > 31 ||
	    !qline_char(&at, ' ') || !qline_time_of_day(&at, &of_day, &item->unit) ||
	    !gmtime_r(&near, &tm))
		return false;
	year = tm.tm_year + 1900;
	for (int y = MAX(year - 1, 1970); y <= year + 1; y++) {
		int64_t days = qline_days(y, month, (int)day), off = days - near_days;

		off = off < 0 ? -off : off;
		if (off < best && !(t->by_file && days > near_days + 1) &&
		    qline_local(days, of_day, &ns)) {
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

static bool line_stamp(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
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
static bool line_program(const char *s, size_t n, int32_t *pid)
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

static bool word_is_qemu(const char *s, size_t n)
{
	return (n > 4 && !memcmp(s, "qemu", 4)) || (n > 3 && !memcmp(s, "kvm", 3));
}

static bool syslog_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	static const char head[] = "message repeated ";
	struct qline l = { s, s + n };
	const char *word, *open;
	int32_t pid;
	size_t len;
	uint64_t pri, times;

	if (qline_char(&l, '<') && (!qline_digits(&l, 1, 3, &pri) || !qline_char(&l, '>')))
		return false;
	if (!line_stamp(t, &l, item) || !qline_char(&l, ' '))
		return false;
	len = qline_word(&l, &word);
	if (!line_program(word, len, &pid)) { /* it was the host's name */
		len = qline_word(&l, &word);
		if (!line_program(word, len, &pid))
			return false;
	}
	item->tid = pid;
	if (!word_is_qemu(word, len) &&
	    (memmem(l.p, (size_t)(l.end - l.p), "rate-limit", 10) ||
	     memmem(l.p, (size_t)(l.end - l.p), "Suppressed ", 11)) &&
	    count_before(l, " messages", &item->lost)) {
		item->kind = QTRACE_LOST;
		return true;
	}
	/* "message repeated 5 times: [ NAME TEXT]": the line counts for that many. */
	open = memmem(l.p, (size_t)(l.end - l.p), ": [ ", 4);
	if (open && (size_t)(l.end - l.p) >= sizeof(head) && !memcmp(l.p, head, sizeof(head) - 1) &&
	    count_before(l, " times", &times)) {
		t->st.folded += times ? times - 1 : 0;
		l.p = open + 4;
		if (l.end > l.p && l.end[-1] == ']')
			l.end--;
	}
	return qline_event(t->o.events, l, word_is_qemu(word, len), item);
}

const struct qtrace_reader qtrace_syslog = { .format = QTRACE_SYSLOG, .line = syslog_line };

/*
 * Text that babeltrace and babeltrace2 make of a trace of the back end ust:
 *
 * 	[16:47:29.123456789] (+0.000001234) HOST qemu:NAME: { cpu_id = 1 }, { n = 0, vq = 0x55AA }
 * 	[2025-09-02 16:47:29.123456789] ...		--clock-date
 * 	[1756831649.123456789] ...			--clock-seconds
 *
 * Local time, or whatever --clock-gmt and TZ made of it; LTTng's clock is CLOCK_MONOTONIC plus the
 * lead of CLOCK_REALTIME when the session began. Contexts are in braces before the arguments, which
 * come last.
 */

static bool ust_stamp(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
{
	struct qline at = *l, time;
	const time_t now = (time_t)(t->o.near / NS);
	int64_t day = 0, then;
	uint64_t of_day;
	struct tm tm;

	if (!qline_char(&at, '['))
		return false;
	item->clock = QTRACE_REALTIME;
	time = at;
	if (!qline_iso(&at, item) && qline_time_of_day(&time, &of_day, &item->unit)) {
		/* On the day (since 1970, local) on which it is nearest to t->o.near. */
		if (localtime_r(&now, &tm)) {
			day = qline_days(tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
			then = (int64_t)(of_day / NS) -
			       (tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec);
			day += then > DAY / 2 ? -1 : -then > DAY / 2;
		}
		if (qline_local(day, of_day, &item->ns))
			at = time;
	}
	if (at.p == l->p + 1 && !qline_seconds(&at, item))
		return false;
	if (!qline_char(&at, ']'))
		return false;
	*l = at;
	return true;
}

/* ---- "{ a = 1, b = "text" }" ---- */

struct group {
	const char *begin, *end; /* between the braces */
};

/* The next group of a line; l moves past it. */
static bool next_group(struct qline *l, struct group *g)
{
	unsigned int depth = 1;
	const char *p = memchr(l->p, '{', (size_t)(l->end - l->p)), *begin;

	if (!p)
		return false;
	begin = ++p;
	while (p < l->end && depth) {
		if (*p == '"') {
			p = str_quoted_end(p, l->end);
			continue;
		}
		depth += *p == '{';
		depth -= *p == '}';
		p++;
	}
	if (depth)
		return false; /* cut: no group */
	g->begin = begin;
	g->end = p - 1;
	l->p = p;
	return true;
}

/* The value of a member: from after " = " to the comma after it. */
static bool group_value(const struct group *g, const char *name, size_t len, struct qline *value)
{
	const char *p = g->begin, *from, *stop;

	while (p < g->end) {
		while (p < g->end && (*p == ' ' || *p == ','))
			p++;
		from = p;
		while (p < g->end && *p != ' ' && *p != '=')
			p++;
		stop = p;
		while (p < g->end && (*p == ' ' || *p == '='))
			p++;
		value->p = p;
		while (p < g->end && *p != ',')
			p = *p == '"' ? str_quoted_end(p, g->end) : p + 1;
		value->end = p;
		while (value->end > value->p && value->end[-1] == ' ')
			value->end--;
		/* Names that are not words in C have an underscore in front. */
		if (stop > from && *from == '_' && (size_t)(stop - from) == len + 1)
			from++;
		if ((size_t)(stop - from) == len && !memcmp(from, name, len))
			return true;
	}
	return false;
}

static bool qline_number(struct qline l, uint64_t *v)
{
	char text[32];
	size_t n = (size_t)(l.end - l.p);

	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, l.p, n);
	text[n] = '\0';
	return !parse_bits64(text, v);
}

static int32_t group_context(const struct group *g, const char *name)
{
	struct qline value;
	uint64_t v;

	if (!group_value(g, name, strlen(name), &value) || !qline_number(value, &v) ||
	    v > INT32_MAX)
		return -1;
	return (int32_t)v;
}

static bool ust_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	struct qline l = { s, s + n };
	struct group g = { s, s };
	const char *at, *end;

	if (!ust_stamp(t, &l, item))
		return false;
	at = memmem(l.p, (size_t)(l.end - l.p), "qemu:", 5);
	if (!at)
		return false;
	at += 5;
	for (end = at; end < l.end && *end != ':' && *end != ' '; end++)
		;
	if (end == l.end || *end != ':' || !qline_is_name(at, (size_t)(end - at)))
		return false;
	item->name = at;
	item->name_len = (uint32_t)(end - at);
	item->ev = qevents_find(t->o.events, at, (size_t)(end - at));
	l.p = end + 1;
	while (next_group(&l, &g)) {
		int32_t cpu = group_context(&g, "cpu_id"), tid = group_context(&g, "vtid"),
			pid = group_context(&g, "vpid");

		item->cpu = cpu >= 0 && item->cpu < 0 ? cpu : item->cpu;
		item->tid = tid > 0 ? tid : pid > 0 && !item->tid ? pid : item->tid;
	}
	while (g.begin < g.end && *g.begin == ' ')
		g.begin++;
	while (g.end > g.begin && g.end[-1] == ' ')
		g.end--;
	item->text = g.begin;
	item->text_len = (uint32_t)(g.end - g.begin);
	item->has_args = item->ev;
	for (size_t i = 0; item->has_args && i < item->ev->nargs; i++) {
		const struct qev_arg *a = &item->ev->arg[i];
		struct qev_value *v = &item->arg[i];
		struct qline value;

		*v = (struct qev_value){ 0 };
		item->has_args = group_value(&g, a->name, strlen(a->name), &value);
		if (item->has_args && value.end - value.p >= 2 && *value.p == '"') {
			v->s = value.p + 1;
			v->len = (uint32_t)(value.end - value.p - 2);
		} else if (item->has_args) {
			item->has_args = qline_number(value, &v->num);
		}
		item->has_args &= (v->s != NULL) == (a->kind == QEV_STRING);
	}
	return true;
}

const struct qtrace_reader qtrace_ust = { .format = QTRACE_UST, .line = ust_line };
