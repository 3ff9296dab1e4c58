/* SPDX-License-Identifier: GPL-2.0-or-later */
/* window.c: --from, --to, --at: from a time as rows show it, or of the day, to the host's TSC. */
#include <ctype.h>
#include "sink.h"

#define NSEC 1000000000ull

/* "+01:00", "-0130", "+02" or "Z" up to the end: seconds east of Greenwich. */
static int parse_zone(const char *text, int *east)
{
	char digits[5] = "";
	size_t n = 0;
	int hm;

	*east = 0;
	if (!strcmp(text, "Z"))
		return 0;
	for (const char *p = text + 1; *p; p++)
		if (*p != ':' || p != text + 3) {
			if (!isdigit((unsigned char)*p) || n == 4)
				return -EINVAL;
			digits[n++] = *p;
		}
	if (n != 2 && n != 4)
		return -EINVAL;
	hm = atoi(digits) * (n == 2 ? 100 : 1);
	*east = (hm / 100 * 60 + hm % 100) * (*text == '-' ? -60 : 60);
	return hm < 2400 && hm % 100 < 60 ? 0 : -EINVAL;
}

/*
 * A time of day as people and logs write it: the ns since 1970 at which it begins, and how long it
 * lasts: a minute, a second, or if there is a fraction one ns. Without a zone it is local time;
 * without a date on the day of `begin`, ns since 1970, or the one after it.
 */
static int parse_wall(const char *text, uint64_t begin, uint64_t *ns, uint64_t *lasts)
{
	const char *colon = strchr(text, ':'), *zone = colon ? strpbrk(colon, "Z+-") : NULL, *rest;
	const char *seconds = text[0] == '@' ? text + 1 : NULL;
	time_t now = (time_t)(begin / NSEC), then;
	uint64_t frac = 0;
	int east = 0;
	struct tm tm, day;
	bool dated;

	*lasts = NSEC;
	if (seconds) {
		if (strspn(seconds, "0123456789.") != strlen(seconds))
			return -EINVAL;
		if (strchr(seconds, '.'))
			*lasts = 1;
		return parse_duration(seconds, ns);
	}
	if (!colon || (zone && parse_zone(zone, &east)))
		return -EINVAL;
	now += east;
	if (!(zone ? gmtime_r(&now, &day) : localtime_r(&now, &day)))
		return -EINVAL;
	tm = day; /* a failed strptime() may have changed it */
	rest = strptime(text, "%Y-%m-%d", &tm);
	dated = rest && (*rest == ' ' || *rest == 'T');
	if (!dated)
		tm = day;
	rest = strptime(dated ? rest + 1 : text, "%H:%M", &tm);
	tm.tm_sec = 0;
	tm.tm_isdst = -1;
	if (rest && *rest == ':') {
		rest = strptime(rest, ":%S", &tm);
		if (rest && *rest == '.') {
			char digits[] = "000000000";
			size_t n = strspn(++rest, "0123456789");

			if (!n || n >= sizeof(digits))
				return -EINVAL;
			memcpy(digits, rest, n);
			frac = strtoul(digits, NULL, 10);
			rest += n;
			*lasts = 1;
		}
	} else {
		*lasts = 60 * NSEC;
	}
	if (!rest || rest != (zone ?: text + strlen(text)))
		return -EINVAL;
	then = zone ? timegm(&tm) - east : mktime(&tm);
	if (!dated && then + 12 * 3600 < now - east) /* past midnight */
		then += 24 * 3600;
	if (then < 0 || (uint64_t)then >= UINT64_MAX / NSEC - 60) /* the year 2554 */
		return -ERANGE;
	*ns = (uint64_t)then * NSEC + frac;
	return 0;
}

/* Before the recording there may have been no TSC: that is its value 0. */
static bool wall_host(const struct out_clock *real, uint64_t begin, uint64_t ns, uint64_t *host)
{
	*host = 0;
	return out_clock_host(real, ns, host) || ns < begin;
}

bool day_clock(const struct capture *host, struct cap_pieces *pieces, struct out_clock *day)
{
	*day = (struct out_clock){ .kind = OUT_CLOCK_REALTIME };
	if (!cap_in_tsc(host) || host->unit_ns || cap_pieces_init(pieces, host, CAP_CLOCK_REALTIME))
		return false;
	day->pieces = &pieces->pieces;
	return true;
}

/* The first and last host TSC of a time of day: by realtime, whatever clock rows have. */
static int wall_span(const struct out_clock *c, const struct capture *cap, const char *name,
		     const char *text, uint64_t *lo, uint64_t *hi, struct kvmft_err *err)
{
	struct out_clock real = *c;
	struct cap_pieces own = { 0 };
	uint64_t begin, ns, lasts;
	int ret = 0;

	if (c->kind != OUT_CLOCK_REALTIME && !day_clock(cap, &own, &real))
		ret = err_lack(
			err, ENODATA,
			"option --%s: %s has no readings of realtime against the TSC (kvmft record "
			"takes them): give the time as the rows show it",
			name, cap->path);
	else if (!out_clock_value(&real, cap->begin_tsc, -1, &begin) ||
		 parse_wall(text, begin, &ns, &lasts))
		ret = -EINVAL; /* the caller says so */
	else if (!wall_host(&real, begin, ns, lo) || !wall_host(&real, begin, ns + lasts, hi))
		ret = err_usage(err, "option --%s: %s is outside of what %s knows of realtime",
				name, text, cap->path);
	else
		*hi -= !!*hi; /* of what was before the TSC began, nothing */
	cap_pieces_free(&own);
	return ret;
}

/* The first and last value of the clock that the text means; *wall: host TSCs instead. */
static int window_value(const struct out_clock *c, const struct capture *cap, const char *name,
			const char *text, uint64_t *lo, uint64_t *hi, bool *wall,
			struct kvmft_err *err)
{
	bool cycles = c->kind == OUT_CLOCK_HOST_TSC || c->kind == OUT_CLOCK_GUEST_TSC;
	int ret = cycles ? parse_u64(text, lo) : parse_duration(text, lo);

	*hi = *lo;
	*wall = ret && (text[0] == '@' || strchr(text, ':'));
	if (*wall)
		ret = wall_span(c, cap, name, text, lo, hi, err);
	if (ret && !err->text[0])
		return err_usage(err,
				 "option --%s: '%s' is neither %s (--clock %s) nor "
				 "[DATE ]HH:MM[:SS[.FRACTION]][ZONE] or @SECONDS",
				 name, text, cycles ? "a number of cycles" : "a time in seconds",
				 out_clock_names[c->kind]);
	return ret;
}

int window_span(const struct out_clock *c, const char *name, const char *text, uint64_t *lo,
		uint64_t *hi, struct kvmft_err *err)
{
	uint64_t first, last;
	bool wall;
	int ret = window_value(c, c->map->cap, name, text, &first, &last, &wall, err);

	if (ret)
		return ret;
	if (!wall) {
		/* The first that shows it or more; the last that shows less than the next. */
		bool known = !lo || out_clock_host(c, first, &first);

		if (known && hi && last < UINT64_MAX) {
			known = out_clock_host(c, last + 1, &last);
			last -= !!last;
		}
		if (!known)
			return err_usage(
				err,
				"option --%s: %s is outside of what the captures know of clock %s",
				name, text, out_clock_names[c->kind]);
	}
	if (lo)
		*lo = first;
	if (hi)
		*hi = last;
	return 0;
}

int window_parse_named(const struct out_clock *c, const char *from, const char *end, const char *to,
		       uint64_t *lo, uint64_t *hi, struct kvmft_err *err)
{
	int ret;

	*lo = 0;
	*hi = UINT64_MAX;
	ret = from ? window_span(c, "from", from, lo, NULL, err) : 0;
	ret = ret ?: to ? window_span(c, end, to, NULL, hi, err) : 0;
	if (!ret && from && *hi < *lo)
		ret = err_usage(err, "option --%s: %s is before --from %s", end, to, from);
	return ret;
}

int window_parse(const struct out_clock *c, const char *from, const char *to, uint64_t *lo,
		 uint64_t *hi, struct kvmft_err *err)
{
	return window_parse_named(c, from, "to", to, lo, hi, err);
}

/* A report's times are ns since its capture began, or its stamps. */
static int report_value(const struct capture *cap, const char *name, const char *text, uint64_t *lo,
			uint64_t *hi, struct kvmft_err *err)
{
	const struct out_clock c = {
		.kind = report_untimed(cap) ? OUT_CLOCK_HOST_TSC : OUT_CLOCK_NS,
	};
	bool wall;
	int ret = window_value(&c, cap, name, text, lo, hi, &wall, err);

	if (!ret && wall && c.kind == OUT_CLOCK_NS) { /* readings need a rate: it is known */
		*lo = tsc_cycles_to_ns(*lo - MIN(*lo, cap->begin_tsc), cap->tsc_khz);
		*hi = tsc_cycles_to_ns(*hi - MIN(*hi, cap->begin_tsc), cap->tsc_khz);
	}
	return ret;
}

int window_report(const struct capture *cap, const char *from, const char *to,
		  struct report_opts *ro, struct kvmft_err *err)
{
	uint64_t other;
	int ret = from ? report_value(cap, "from", from, &ro->from, &other, err) : 0;

	ret = ret ?: to ? report_value(cap, "to", to, &other, &ro->to, err) : 0;
	if (!ret && from && to && ro->to < ro->from)
		return err_usage(err, "option --to: %s is before --from %s", to, from);
	return ret;
}
