/* SPDX-License-Identifier: GPL-2.0-or-later */
/* samples.c: from the bracketed readings of a capture to lines between them. */
#include "kvmft/samples.h"
#include "kvmft/tsc_rate.h"

/* What NTP may steer a clock by, and as much again for a tsc_khz that is not exact. */
#define STEP_PPM 1000
/* A rate is never trusted to be steadier than this, however steady it looks. */
#define SLEW_MIN_PPB 1000

static const struct {
	size_t field;	  /* of struct clock_bracket; 0: in struct cap_clock_sample, by name */
	const char *name; /* as a trace clock; NULL: it is none */
	bool steered;	  /* by NTP */
} sampled[] = {
	[CAP_CLOCK_MONO_RAW] = { offsetof(struct clock_bracket, mono_raw), "mono_raw", false },
	[CAP_CLOCK_MONO] = { offsetof(struct clock_bracket, mono), "mono", true },
	[CAP_CLOCK_BOOT] = { offsetof(struct clock_bracket, boot), "boot", true },
	[CAP_CLOCK_REALTIME] = { offsetof(struct clock_bracket, real), NULL, true },
	[CAP_CLOCK_LOCAL] = { 0, "local", false },
	[CAP_CLOCK_GLOBAL] = { 0, "global", false },
	[CAP_CLOCK_PERF] = { 0, "perf", false },
};

bool cap_clock_find(const char *name, enum cap_clock *clock)
{
	for (size_t i = 0; i < ARRAY_SIZE(sampled); i++)
		if (sampled[i].name && !strcmp(sampled[i].name, name)) {
			*clock = (enum cap_clock)i;
			return true;
		}
	return false;
}

COMPARE_BY(sample_cmp, struct clock_sample, .tsc_before);

static uint64_t width(const struct clock_sample *s)
{
	return s->tsc_after - s->tsc_before;
}

static void take_one(struct clock_sample *v, size_t *n, uint64_t tsc, uint64_t width, uint64_t ns)
{
	if (width <= UINT64_MAX - tsc) /* otherwise the file is damaged */
		v[(*n)++] = (struct clock_sample){
			.tsc_before = tsc, .tsc_after = tsc + width, .ns = ns,
		};
}

/* Maximum number of readings. */
static size_t readings(const struct capture *cap, enum cap_clock clock)
{
	return sampled[clock].field ? cap->nbracket : cap->nsample;
}

/* The readings in TSC order; of two that overlap the tighter one stays. Returns how many. */
static size_t take(const struct capture *cap, enum cap_clock clock, struct clock_sample *v)
{
	size_t n = 0, kept = 0, field = sampled[clock].field;

	for (size_t i = 0; field && i < cap->nbracket; i++) {
		const struct clock_bracket *b = &cap->bracket[i];

		take_one(v, &n, b->tsc, b->width,
			 *(const uint64_t *)((const char *)b + field));
	}
	for (size_t i = 0; !field && i < cap->nsample; i++) {
		const struct cap_clock_sample *s = &cap->sample[i];

		if (!strcmp(s->clock, sampled[clock].name))
			take_one(v, &n, s->tsc, s->width, s->ns);
	}
	qsort(v, n, sizeof(*v), sample_cmp);
	for (size_t i = 0; i < n; i++) {
		if (!kept || v[i].tsc_before > v[kept - 1].tsc_after)
			v[kept++] = v[i];
		else if (width(&v[i]) < width(&v[kept - 1]))
			v[kept - 1] = v[i];
	}
	return kept;
}

/* Rate of interval i, ns per cycle in units of 2^-40; 0 if it does not move forward. */
static unsigned __int128 rate(const struct clock_sample *s)
{
	uint64_t cycles = s[1].tsc_before - s[0].tsc_before;

	if (!cycles || s[1].ns <= s[0].ns)
		return 0;
	return ((unsigned __int128)(s[1].ns - s[0].ns) << 40) / cycles;
}

/* The largest change of rate between neighbours, as a measure of what happens within one. */
static uint32_t slew_of(const struct clock_sample *v, size_t n)
{
	uint64_t most = SLEW_MIN_PPB;

	for (size_t i = 0; i + 2 < n; i++) {
		unsigned __int128 a = rate(&v[i]), b = rate(&v[i + 1]), d = a > b ? a - b : b - a;

		if (v[i].step || v[i + 1].step || !a || !b || a >> 80 || d >> 80)
			continue;
		d = d * 1000000000 / a;
		most = MAX(most, d > UINT32_MAX ? UINT32_MAX : (uint64_t)d);
	}
	return (uint32_t)most;
}

/*
 * A capture that has only just begun, or was short, has one reading: the line through it has the
 * TSC's nominal rate.
 */
static size_t add_nominal(struct clock_sample *v, size_t n, uint64_t khz)
{
	if (n != 1)
		return n;
	v[1] = (struct clock_sample){ .tsc_before = v[0].tsc_before + khz * 1000,
				      .tsc_after = v[0].tsc_after + khz * 1000,
				      .ns = v[0].ns + 1000000000 };
	return 2;
}

int cap_pieces_init(struct cap_pieces *p, const struct capture *cap, enum cap_clock clock)
{
	const size_t least = cap->complete ? 2 : 1;
	struct tsc_rate nominal;
	uint64_t khz;
	size_t n;

	memset(p, 0, sizeof(*p));
	if (readings(cap, clock) < least)
		return -ENODATA;
	tsc_rate_said(cap, &nominal);
	khz = nominal.khz;
	if (!khz || khz > UINT32_MAX)
		return -ENOTSUP;
	p->v = calloc(readings(cap, clock) + 1, sizeof(*p->v));
	if (!p->v)
		return -ENOMEM;
	n = take(cap, clock, p->v);
	if (!cap->complete)
		n = add_nominal(p->v, n, khz);
	if (n < 2)
		return -ENODATA;
	if (clock_pieces_mark_steps(p->v, n, (uint32_t)khz, STEP_PPM, NULL) < 0 ||
	    clock_pieces_init(&p->pieces, p->v, n, (uint32_t)khz,
			      sampled[clock].steered ? slew_of(p->v, n) : 0))
		return -EINVAL;
	return 0;
}

void cap_pieces_free(struct cap_pieces *p)
{
	free(p->v);
	memset(p, 0, sizeof(*p));
}

bool cap_raw_line(const struct capture *cap, cap_kvmclock *kvmclock, const void *arg,
		  struct mono_raw *raw)
{
	const struct cap_raw *r = &cap->raw;

	*raw = r->line;
	if (!r->known || (r->over_kvmclock && !kvmclock))
		return false;
	for (size_t i = 0; i < cap->nbracket; i++) {
		const struct clock_bracket *b = &cap->bracket[i];
		uint64_t lo = b->tsc, hi = b->tsc + b->width, unused;

		if (r->over_kvmclock &&
		    (!kvmclock(arg, lo, &lo, &unused) || !kvmclock(arg, hi, &unused, &hi)))
			return false;
		if (!mono_raw_fits(raw, lo, hi, b->mono_raw))
			return false;
	}
	return cap->nbracket > 0;
}
