/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mono_raw.c: the line of this machine's CLOCK_MONOTONIC_RAW.
 *
 * The numbers come out of the kernel's memory, at places that differ between kernels. So they count
 * only if clock_gettime() agrees: within the few dozen ns of a bracketed reading.
 */
#include "kvmft/mono_raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TRIES 64

static int refuse(struct kvmft_err *err, const char *why)
{
	return err_set(err, ENODATA, "no line of CLOCK_MONOTONIC_RAW: %s", why);
}

/* [tsc, tsc + width] in the units of the clocksource; false when there is no way. */
static bool bracket_cycles(const struct clock_bracket *b, const struct kguest_clock *g, bool kvmclock,
			   uint64_t *lo, uint64_t *hi)
{
	const struct pvclock *pv;

	*lo = b->tsc;
	*hi = b->tsc + b->width;
	if (!kvmclock)
		return true;
	if (!g || !g->npv)
		return false;
	pv = &g->pv[0].pv;
	return !pvclock_check(pv) && !pvclock_to_ns(pv, *lo, lo) && !pvclock_to_ns(pv, *hi, hi);
}

int mono_raw_learn(struct ktracefs *t, const char *clocksource, const struct kguest_clock *g,
		   struct mono_raw_line *m, struct kvmft_err *err)
{
	struct clock_bracket b;
	struct kmono_raw k;
	uint64_t lo, hi;
	int ret = 0;

	m->over_kvmclock = !strcmp(clocksource, "kvm-clock");
	if (!m->over_kvmclock && strcmp(clocksource, "tsc") && strcmp(clocksource, "tsc-early"))
		return refuse(err, "the clocksource is neither tsc nor kvm-clock");
	if (g && !g->has_raw)
		return refuse(err, g->why[0] ? g->why : "the timekeeper of this kernel has no known shape");
	if (g)
		k = g->raw;
	else
		ret = kmono_raw_read(t, &k, err);
	if (ret)
		return ret;
	m->raw = k.line;
	snprintf(m->source, sizeof(m->source), "kprobe %s", k.symbol);
	if (kbracket_read(TRIES, &b))
		return refuse(err, "this machine has no TSC to check it with");
	if (!bracket_cycles(&b, g, m->over_kvmclock, &lo, &hi))
		return refuse(err, "no pvclock record to check it with");
	if (!mono_raw_fits(&m->raw, lo, hi, b.mono_raw))
		return refuse(err, "what the kernel's timekeeper says does not fit clock_gettime()");
	return 0;
}
