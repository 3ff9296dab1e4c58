/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * window.c: from what the user sees in the time column to host TSC.
 */
#include "window.h"

#include <errno.h>

static int window_value(const struct out_clock *c, const char *name, const char *text, uint64_t *v,
			struct kvmft_err *err)
{
	bool cycles = c->kind == OUT_CLOCK_HOST_TSC || c->kind == OUT_CLOCK_GUEST_TSC;
	int ret = cycles ? parse_u64(text, v) : parse_duration(text, v);

	if (!ret)
		return 0;
	return err_usage(err, cycles ? "option --%s: '%s' is no number of cycles (--clock %s)" :
				       "option --%s: '%s' is no time in seconds (--clock %s)",
			 name, text, out_clock_names[c->kind]);
}

/* The first host TSC that shows v or more. */
static int window_edge(const struct out_clock *c, const char *name, const char *text, uint64_t v,
		       uint64_t *host, struct kvmft_err *err)
{
	if (out_clock_host(c, v, host))
		return 0;
	return err_usage(err, "option --%s: %s is at no place of clock %s that the captures know", name,
			 text, out_clock_names[c->kind]);
}

int window_parse(const struct out_clock *c, const char *from, const char *to, uint64_t *lo,
		 uint64_t *hi, struct kvmft_err *err)
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
	ret = window_value(c, "to", to, &v, err);
	if (ret || v == UINT64_MAX)
		return ret;
	ret = window_edge(c, "to", to, v + 1, hi, err);
	if (!ret && *hi)
		--*hi; /* the last one that shows less than v + 1 */
	if (!ret && from && *hi < *lo)
		ret = err_usage(err, "option --to: %s is before --from %s", to, from);
	return ret;
}
