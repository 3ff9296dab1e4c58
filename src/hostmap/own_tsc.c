/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * own_tsc.c: picks the way from a trace clock to the TSC; no other file does. The arithmetic is in
 * the clock room; here is only which part of it a capture needs, and whether it has the data.
 */
#include "kvmft/own_tsc.h"

/* perf describes only its own clock, and only if that is based on the machine's TSC. */
static int refuse_perf(const struct capture *cap, struct kvmft_err *err)
{
	if (strcmp(cap->clock, "perf"))
		return err_lack(
			err, ENOTSUP,
			"%s: clock %s cannot be put on the TSC: record without perf's option -k, or with "
			"kvmft record",
			cap->path, cap->clock);
	return err_lack(
		err, ENOTSUP,
		"%s does not relate perf's clock to the TSC: perf cannot on a machine that is not "
		"x86, is itself a guest with kvm-clock, or has an unstable TSC; record with kvmft "
		"record, or trace-cmd record -C x86-tsc",
		cap->path);
}

static int use_samples(struct own_tsc *o, const struct capture *cap, enum cap_clock clock,
		       struct kvmft_err *err)
{
	int ret = cap_pieces_init(&o->samples, cap, clock);

	o->kind = OWN_SAMPLED;
	if (!ret || ret == -ENOMEM)
		return ret;
	own_tsc_free(o);
	return err_lack(
		err, ENOTSUP,
		"%s: trace clock %s needs readings of that clock against the TSC, which the capture %s: record "
		"with --clock x86-tsc (trace-cmd: -C x86-tsc)",
		cap->path, cap->clock, ret == -ENODATA ? "lacks" : "has wrong");
}

/* perf's own clock, as described in perf.data. */
static bool use_line(struct own_tsc *o, const struct capture *cap)
{
	o->line = cap->line.line;
	o->kind = OWN_LINE;
	return cap->line.known && !cyc2ns_check(&o->line);
}

/* The kernel's own line, if the capture has it: exact. Else the samples. */
static bool use_raw(struct own_tsc *o, const struct capture *cap)
{
	o->kind = OWN_RAW;
	return !strcmp(cap->clock, "mono_raw") && !cap->raw.over_kvmclock &&
	       cap_raw_line(cap, NULL, NULL, &o->raw);
}

int own_tsc_init(struct own_tsc *o, const struct capture *cap, struct kvmft_err *err)
{
	enum cap_clock clock;

	memset(o, 0, sizeof(*o));
	if (!cap->clock)
		return err_lack(err, ENOTSUP, "%s does not say what its trace clock is", cap->path);
	if (cap_in_tsc(cap)) /* OWN_TSC */
		return 0;
	if (use_line(o, cap) || use_raw(o, cap))
		return 0;
	if (cap->is_perfdata)
		return refuse_perf(cap, err);
	if (cap_clock_find(cap->clock, &clock))
		return use_samples(o, cap, clock, err);
	return err_lack(err, ENOTSUP,
			"%s: trace clock %s cannot be aligned: record with --clock x86-tsc "
			"(trace-cmd: -C x86-tsc)",
			cap->path, cap->clock);
}

void own_tsc_free(struct own_tsc *o)
{
	if (o)
		cap_pieces_free(&o->samples);
}

bool own_tsc_is_exact(const struct capture *cap)
{
	struct own_tsc o;
	bool exact = !own_tsc_init(&o, cap, NULL) && o.kind != OWN_SAMPLED;

	own_tsc_free(&o);
	return exact;
}

bool own_tsc_range(const struct own_tsc *o, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	switch (o->kind) {
	case OWN_TSC: *lo = *hi = ts; return true;
	case OWN_LINE: return !cyc2ns_to_tsc_range(&o->line, ts, lo, hi);
	case OWN_RAW: return !mono_raw_to_cyc_range(&o->raw, ts, lo, hi);
	case OWN_SAMPLED: return clock_pieces_to_tsc(&o->samples.pieces, ts, lo, hi) >= 0;
	}
	return false;
}

bool own_tsc_stamp(const struct own_tsc *o, uint64_t tsc, uint64_t *ts)
{
	uint64_t hi;

	switch (o->kind) {
	case OWN_TSC: *ts = tsc; return true;
	case OWN_LINE: *ts = cyc2ns_to_ns(&o->line, tsc); return true;
	case OWN_RAW: return !mono_raw_to_ns(&o->raw, tsc, ts);
	case OWN_SAMPLED: return clock_pieces_to_ns(&o->samples.pieces, tsc, ts, &hi) >= 0;
	}
	return false;
}

bool own_tsc_place(const struct own_tsc *o, uint64_t ts, uint64_t *at, uint64_t *width)
{
	uint64_t lo, hi;

	if (!own_tsc_range(o, ts, &lo, &hi))
		return false;
	hi = MAX(lo, hi); /* a ns that no cycle reads: the first cycle after it */
	*at = o->kind == OWN_SAMPLED ? lo + (hi - lo) / 2 : lo;
	*width = o->kind == OWN_SAMPLED ? 0 : hi - lo;
	return true;
}

uint64_t own_tsc_around(const struct own_tsc *o)
{
	const struct clock_pieces *p = &o->samples.pieces;
	uint64_t most = 0, lo, hi;

	for (size_t i = 0; o->kind == OWN_SAMPLED && i < p->n; i++)
		if (clock_pieces_to_tsc(p, p->v[i].ns, &lo, &hi) >= 0)
			most = MAX(most, (hi - lo) / 2 + 1);
	return most;
}
