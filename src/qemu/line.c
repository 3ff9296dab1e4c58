/* SPDX-License-Identifier: GPL-2.0-or-later */
/* line.c: words, dates and events in lines of text. */
#include "trace.h"

#include <ctype.h>
#include <time.h>

#define NS  1000000000ull
#define DAY 86400

size_t qline_word(struct qline *l, const char **word)
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

bool qline_digits(struct qline *l, unsigned int n, unsigned int most, uint64_t *v)
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

bool qline_char(struct qline *l, char c)
{
	if (l->p == l->end || *l->p != c)
		return false;
	l->p++;
	return true;
}

/* "[.FRACTION]" of a second, up to 9 digits: ns and what one unit of its last digit is. */
static bool fraction(struct qline *l, uint64_t *ns, uint64_t *unit)
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

bool qline_time_of_day(struct qline *l, uint64_t *ns, uint64_t *unit)
{
	uint64_t h, m, s;

	if (!qline_digits(l, 2, 2, &h) || !qline_char(l, ':') || !qline_digits(l, 2, 2, &m) ||
	    !qline_char(l, ':') || !qline_digits(l, 2, 2, &s) || !fraction(l, ns, unit))
		return false;
	*ns += ((h * 60 + m) * 60 + s) * NS;
	return h < 24 && m < 60 && s < 61;
}

/* Days of the Gregorian calendar: years begin in March, so that a leap day is their last one. */
int64_t qline_days(int64_t year, unsigned int month, unsigned int day)
{
	int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
	int64_t of_year =
		(153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void qline_civil(int64_t days, int64_t *year, unsigned int *month, unsigned int *day)
{
	*year = 1970 + days / 366; /* never too late */
	while (qline_days(*year + 1, 1, 1) <= days)
		++*year;
	for (*month = 12; *month > 1 && qline_days(*year, *month, 1) > days; --*month)
		;
	*day = (unsigned int)(days - qline_days(*year, *month, 1)) + 1;
}

/* "YYYY-MM-DD": days since 1970. */
static bool date(struct qline *l, int64_t *days)
{
	uint64_t y, m, d;

	if (!qline_digits(l, 4, 4, &y) || !qline_char(l, '-') || !qline_digits(l, 2, 2, &m) ||
	    !qline_char(l, '-') || !qline_digits(l, 2, 2, &d) || y < 1970 || m < 1 || m > 12 ||
	    d < 1 || d > 31)
		return false;
	*days = qline_days((int64_t)y, (unsigned int)m, (unsigned int)d);
	return true;
}

bool qline_local(int64_t days, uint64_t ns_of_day, uint64_t *ns)
{
	uint64_t s = ns_of_day / NS;
	unsigned int month, day;
	struct tm tm = { .tm_hour = (int)(s / 3600), .tm_min = (int)(s / 60 % 60),
			 .tm_sec = (int)(s % 60), .tm_isdst = -1 };
	int64_t year;
	time_t t;

	if (days < 0)
		return false;
	qline_civil(days, &year, &month, &day);
	tm.tm_year = (int)(year - 1900);
	tm.tm_mon = (int)month - 1;
	tm.tm_mday = (int)day;
	t = mktime(&tm);
	if (t < 0)
		return false;
	*ns = (uint64_t)t * NS + ns_of_day % NS;
	return true;
}

int64_t qline_nearest_day(const struct qtrace *t, uint64_t ns_of_day)
{
	time_t now = (time_t)(t->o.near / NS);
	int64_t today, second = (int64_t)(ns_of_day / NS), then;
	struct tm tm;

	if (!localtime_r(&now, &tm))
		return 0;
	today = qline_days(tm.tm_year + 1900, (unsigned int)tm.tm_mon + 1,
			   (unsigned int)tm.tm_mday);
	then = tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec;
	return second - then > DAY / 2 ? today - 1 : then - second > DAY / 2 ? today + 1 : today;
}

/* "Z", "+01:00", "-0130"; seconds east of Greenwich. *known false: there is none. */
static bool zone(struct qline *l, int64_t *east, bool *known)
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

bool qline_iso(struct qline *l, struct qtrace_item *item)
{
	int64_t days, east;
	uint64_t of_day;
	struct qline at = *l;
	bool known;

	if (!date(&at, &days) || !(qline_char(&at, 'T') || qline_char(&at, ' ')) ||
	    !qline_time_of_day(&at, &of_day, &item->unit) || !zone(&at, &east, &known))
		return false;
	if (!known && !qline_local(days, of_day, &item->ns))
		return false;
	if (known) /* days begin in 1970, zones are less than a day */
		item->ns = (uint64_t)MAX(days * DAY - east, (int64_t)0) * NS + of_day;
	item->clock = QTRACE_REALTIME;
	*l = at;
	return true;
}

bool qline_seconds(struct qline *l, struct qtrace_item *item)
{
	struct qline at = *l;
	uint64_t s, frac;

	if (!qline_digits(&at, 1, 10, &s) || !fraction(&at, &frac, &item->unit))
		return false;
	item->ns = s * NS + frac;
	*l = at;
	return true;
}

bool qline_is_name(const char *s, size_t n)
{
	if (!n || n > 255 || !(islower((unsigned char)*s) || *s == '_'))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/* One blank separates name and text; any more belong to the text. */
static size_t name_of(struct qline *l, const char **name)
{
	*name = l->p;
	while (l->p < l->end && *l->p != ' ')
		l->p++;
	return (size_t)(l->p - *name);
}

bool qline_event(const struct qevents *events, struct qline l, bool sure, struct qtrace_item *item)
{
	size_t n = name_of(&l, &item->name);

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
