/* SPDX-License-Identifier: GPL-2.0-or-later */
/* window.c: from the time column to host TSC. */
#include "window.h"

#include <time.h>

/* A day and a time of the day as people write them, in local time. */
static int parse_date(const char *text, uint64_t around, uint64_t *ns)
{
	time_t now = (time_t)(around / 1000000000u), then;
	uint64_t frac = 0;
	const char *rest;
	struct tm tm, today;

	if (!localtime_r(&now, &tm))
		return -EINVAL;
	today = tm;
	rest = strptime(text, "%Y-%m-%d", &tm);
	if (rest && *rest != ' ' && *rest != 'T')
		return -EINVAL;
	if (!rest)
		tm = today; /* a failed strptime() may have changed it */
	rest = strptime(rest ? rest + 1 : text, "%H:%M:%S", &tm);
	if (!rest)
		return -EINVAL;
	if (*rest == '.') {
		char second[16] = "0";

		if (strlen(rest) >= sizeof(second) - 1 ||
		    strspn(rest + 1, "0123456789") != strlen(rest + 1))
			return -EINVAL;
		strcat(second, rest);
		if (parse_duration(second, &frac))
			return -EINVAL;
	} else if (*rest) {
		return -EINVAL;
	}
	tm.tm_isdst = -1;
	then = mktime(&tm);
	if (then < 0 || (uint64_t)then >= UINT64_MAX / 1000000000u) /* the year 2554 */
		return -ERANGE;
	*ns = (uint64_t)then * 1000000000u + frac;
	return 0;
}

static int window_value(const struct out_clock *c, const char *name, const char *text, uint64_t *v,
			struct kvmft_err *err)
{
	bool cycles = c->kind == OUT_CLOCK_HOST_TSC || c->kind == OUT_CLOCK_GUEST_TSC;
	uint64_t begin;
	int ret = cycles ? parse_u64(text, v) : parse_duration(text, v);

	if (ret && c->kind == OUT_CLOCK_REALTIME &&
	    out_clock_value(c, c->map->cap->begin_tsc, -1, &begin))
		ret = parse_date(text, begin, v);
	if (!ret)
		return 0;
	return err_usage(
		err,
		cycles ? "option --%s: '%s' is not a number of cycles (--clock %s)"
		: c->kind == OUT_CLOCK_REALTIME
			? "option --%s: '%s' is neither [YYYY-MM-DD ]HH:MM:SS[.FRACTION] nor seconds "
			  "since 1970 (--clock %s)"
			: "option --%s: '%s' is not a time in seconds (--clock %s)",
		name, text, out_clock_names[c->kind]);
}

/* The first host TSC that shows v or more. */
static int window_edge(const struct out_clock *c, const char *name, const char *text, uint64_t v,
		       uint64_t *host, struct kvmft_err *err)
{
	if (out_clock_host(c, v, host))
		return 0;
	return err_usage(err, "option --%s: %s is outside of what the captures know of clock %s",
			 name, text, out_clock_names[c->kind]);
}

int window_parse_named(const struct out_clock *c, const char *from, const char *end, const char *to,
		       uint64_t *lo, uint64_t *hi, struct kvmft_err *err)
{
	uint64_t v = 0;
	int ret = 0;

	*lo = 0;
	*hi = UINT64_MAX;
	if (from)
		ret = window_value(c, "from", from, &v, err);
	if (from && !ret)
		ret = window_edge(c, "from", from, v, lo, err);
	if (!to || ret)
		return ret;
	ret = window_value(c, end, to, &v, err);
	if (ret || v == UINT64_MAX)
		return ret;
	ret = window_edge(c, end, to, v + 1, hi, err);
	if (!ret && *hi)
		--*hi; /* the last one that shows less than v + 1 */
	if (!ret && from && *hi < *lo)
		ret = err_usage(err, "option --%s: %s is before --from %s", end, to, from);
	return ret;
}

int window_parse(const struct out_clock *c, const char *from, const char *to, uint64_t *lo,
		 uint64_t *hi, struct kvmft_err *err)
{
	return window_parse_named(c, from, "to", to, lo, hi, err);
}
