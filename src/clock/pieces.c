/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pieces.c: clocks that follow NTP or get set (mono, boot, realtime), as lines between samples.
 *
 * Interval i runs from sample i to sample i + 1.  All intermediate values are signed 128-bit; the
 * limits of 2^62 checked on the way in keep every product below 2^127.
 */
#include "kvmft/clock.h"

#include <limits.h>

#include "wide.h"

#define FAR ((s128)1 << 62)
#define PPB 1000000000
/* ns per cycle of a 1 kHz TSC, the slowest that tsc_khz can express; measured slopes are below */
#define STEEPEST ((s128)1 << 20)
/* how far NTP may steer a clock; all that is known about its rate beside a step */
#define NTP_LIMIT_PPB 500000

static s128 piece_place(const struct clock_sample *s)
{
	return (s128)s->tsc_before + (s->tsc_after - s->tsc_before) / 2;
}

static s128 half_width(const struct clock_sample *s)
{
	uint64_t w = s->tsc_after - s->tsc_before;

	return (s128)(w / 2 + w % 2);
}

/* Slope of interval @i as ns / cycles: measured, or nominal where a step spoils the measurement. */
struct slope {
	s128 ns;
	s128 cycles;
};

static struct slope interval_slope(const struct clock_pieces *p, size_t i)
{
	const struct clock_sample *s = &p->v[i];

	if (s->step)
		return (struct slope){ 1000000, (s128)p->tsc_khz };
	return (struct slope){ (s128)s[1].ns - (s128)s[0].ns,
			       piece_place(&s[1]) - piece_place(&s[0]) };
}

static s128 cycles_to_ns(struct slope r, s128 cycles)
{
	return wide_div_floor(cycles * r.ns, r.cycles);
}

int clock_pieces_mark_steps(struct clock_sample *v, size_t n, uint32_t tsc_khz, uint32_t ppm,
			    int64_t *largest)
{
	struct slope nominal = { 1000000, (s128)tsc_khz };
	s128 most = 0;
	int count = 0;
	size_t i;

	if (!tsc_khz)
		return -EINVAL;
	for (i = 0; i + 1 < n; i++) {
		s128 expect = cycles_to_ns(nominal, piece_place(&v[i + 1]) - piece_place(&v[i]));
		s128 moved = (s128)v[i + 1].ns - (s128)v[i].ns - expect;
		s128 slack = half_width(&v[i]) + half_width(&v[i + 1]);

		slack = cycles_to_ns(nominal, slack) + 2;
		slack += (expect < 0 ? -expect : expect) * (s128)ppm / 1000000;
		v[i].step = moved > slack || moved < -slack;
		if (!v[i].step)
			continue;
		if (count < INT_MAX)
			count++;
		if ((moved < 0 ? -moved : moved) > (most < 0 ? -most : most))
			most = moved;
	}
	if (n)
		v[n - 1].step = false;
	if (largest)
		*largest = most > INT64_MAX   ? INT64_MAX
			   : most < INT64_MIN ? INT64_MIN
					      : (int64_t)most;
	return count;
}

int clock_pieces_init(struct clock_pieces *p, const struct clock_sample *v, size_t n,
		      uint32_t tsc_khz, uint32_t slew_ppb)
{
	bool stepped = false;
	size_t i;

	if (n < 2 || !tsc_khz)
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (v[i].tsc_after < v[i].tsc_before)
			return -EINVAL;
	for (i = 0; i + 1 < n; i++) {
		s128 moved = (s128)v[i + 1].ns - (s128)v[i].ns;
		s128 between = piece_place(&v[i + 1]) - piece_place(&v[i]);

		if (v[i].tsc_after >= v[i + 1].tsc_before || between >= FAR || moved >= FAR ||
		    moved <= -FAR)
			return -EDOM;
		if (!v[i].step && (moved <= 0 || moved > between * STEEPEST))
			return -EDOM;
		stepped |= v[i].step;
	}
	*p = (struct clock_pieces){
		.v = v,
		.n = n,
		.tsc_khz = tsc_khz,
		.slew_ppb = slew_ppb,
		.stepped = stepped,
	};
	return 0;
}

/*
 * Error bound in ns at @outside cycles beyond interval @i (0: within it).  Measured slopes carry
 * the bracket error of both ends, which an extrapolation magnifies; nominal ones that of NTP.
 */
static s128 interval_error(const struct clock_pieces *p, size_t i, s128 outside)
{
	const struct clock_sample *s = &p->v[i];
	struct slope r = interval_slope(p, i);
	s128 len = piece_place(&s[1]) - piece_place(&s[0]);
	s128 half = half_width(&s[0]);
	s128 cycles, err;

	if (half_width(&s[1]) > half)
		half = half_width(&s[1]);
	cycles = half;
	if (outside && !s->step)
		cycles += wide_sdiv_ceil(2 * outside, len) * half;
	if (cycles >= FAR)
		cycles = FAR;
	err = wide_sdiv_ceil(cycles * r.ns, r.cycles);
	/*
	 * a rate that changes by r within a chord deviates from it by at most a quarter of r *
	 * length
	 */
	cycles = outside ?: wide_sdiv_ceil(len, 4);
	err += wide_sdiv_ceil((cycles_to_ns(r, cycles) + 1) * (s128)p->slew_ppb, PPB);
	if (s->step) {
		cycles = outside ?: len;
		err += wide_sdiv_ceil((cycles_to_ns(r, cycles) + 1) * NTP_LIMIT_PPB, PPB);
	}
	return err < FAR ? err : FAR;
}

static s128 pieces_reading(const struct clock_sample *s)
{
	return (s128)s->ns;
}

/*
 * Last interval starting at or before @v: a TSC by piece_place(), or ns by reading(), in a map
 * without steps; the first or last one for a value outside.
 */
static size_t piece_find(const struct clock_pieces *p, s128 v,
			 s128 (*of)(const struct clock_sample *s))
{
	size_t n = COUNT_BEFORE(i, p->n - 1, of(&p->v[i]) <= v);

	return n ? n - 1 : 0;
}

/* How far @tsc lies outside of interval @i, in cycles. */
static s128 distance_outside(const struct clock_pieces *p, size_t i, s128 tsc)
{
	if (tsc < piece_place(&p->v[i]))
		return piece_place(&p->v[i]) - tsc;
	if (tsc > piece_place(&p->v[i + 1]))
		return tsc - piece_place(&p->v[i + 1]);
	return 0;
}

static int store_hull(s128 first, s128 last, uint64_t *lo, uint64_t *hi)
{
	return last < first ? -ERANGE : wide_store_range(first, last + 1, lo, hi);
}

int clock_pieces_to_ns(const struct clock_pieces *p, uint64_t tsc, uint64_t *lo, uint64_t *hi)
{
	size_t i = piece_find(p, (s128)tsc, piece_place);
	const struct clock_sample *s = &p->v[i];
	struct slope r = interval_slope(p, i);
	s128 outside = distance_outside(p, i, (s128)tsc);
	s128 left, right, err;
	int ret;

	if (outside >= FAR)
		return -ERANGE;
	left = (s128)s[0].ns + cycles_to_ns(r, (s128)tsc - piece_place(&s[0]));
	right = left;
	if (s->step) {
		right = (s128)s[1].ns + cycles_to_ns(r, (s128)tsc - piece_place(&s[1]));
		if (outside) /* on this side of the step only one of them can be true */
			left = right = (s128)tsc < piece_place(&s[0]) ? left : right;
	}
	err = interval_error(p, i, outside);
	ret = left < right ? store_hull(left - err, right + err + 1, lo, hi)
			   : store_hull(right - err, left + err + 1, lo, hi);
	return ret ?: outside != 0;
}

bool clock_pieces_was_set(const struct clock_pieces *p, uint64_t tsc)
{
	size_t i = piece_find(p, (s128)tsc, piece_place);

	return p->v[i].step && !distance_outside(p, i, (s128)tsc);
}

/*
 * TSC at which the line of interval @i, extended both ways, reads @ns: floor or ceil.  With a step
 * the line through its left or right end is taken, whichever faces @ns from outside.
 */
static s128 line_to_tsc(const struct clock_pieces *p, size_t i, s128 ns, bool up)
{
	const struct clock_sample *s = &p->v[i];
	struct slope r = interval_slope(p, i);
	const struct clock_sample *from =
		s->step && i == p->n - 2 && ns > (s128)s[1].ns ? s + 1 : s;
	s128 d = (ns - (s128)from->ns) * r.cycles;

	return piece_place(from) + (up ? wide_sdiv_ceil(d, r.ns) : wide_div_floor(d, r.ns));
}

/*
 * Bound that holds in interval @i and its neighbours, because a stamp near an edge may belong to
 * either.
 */
static s128 error_around(const struct clock_pieces *p, size_t i)
{
	s128 err = interval_error(p, i, 0), e;

	if (i > 0) {
		e = interval_error(p, i - 1, 0);
		err = e > err ? e : err;
	}
	if (i + 2 < p->n) {
		e = interval_error(p, i + 1, 0);
		err = e > err ? e : err;
	}
	return err;
}

static int piece_beyond(const struct clock_pieces *p, size_t i, s128 ns, uint64_t *lo, uint64_t *hi)
{
	s128 outside = distance_outside(p, i, line_to_tsc(p, i, ns, false));
	s128 err = interval_error(p, i, outside >= FAR ? FAR : outside);
	int ret = store_hull(line_to_tsc(p, i, ns - err - 1, false),
			     line_to_tsc(p, i, ns + err + 1, true), lo, hi);

	return ret ?: 1;
}

/* Can the clock have read @ns in interval @i?  If so, where: [*first, *last]. */
static bool interval_reads(const struct clock_pieces *p, size_t i, s128 ns, s128 *first, s128 *last)
{
	const struct clock_sample *s = &p->v[i];
	s128 err = error_around(p, i) + 1;
	s128 low = (s128)s[0].ns, high = (s128)s[1].ns, moved;

	if (s->step) {
		moved = cycles_to_ns(interval_slope(p, i), piece_place(&s[1]) - piece_place(&s[0]));
		if (high - moved < low)
			low = high - moved;
		if ((s128)s[0].ns + moved > high)
			high = (s128)s[0].ns + moved;
	}
	if (ns < low - err || ns > high + err)
		return false;
	*first = s->step ? piece_place(&s[0]) : line_to_tsc(p, i, ns - err, false);
	*last = s->step ? piece_place(&s[1]) : line_to_tsc(p, i, ns + err, true);
	return true;
}

/* With steps, ns does not order the intervals: try each, join what touches, refuse two places. */
static int stepped_to_tsc(const struct clock_pieces *p, s128 ns, uint64_t *lo, uint64_t *hi)
{
	s128 first = 0, last = -1, a, b;
	bool found = false;
	size_t i;

	for (i = 0; i + 1 < p->n; i++) {
		if (!interval_reads(p, i, ns, &a, &b))
			continue;
		if (found && a > last + 1)
			return -ENOTUNIQ;
		if (!found || a < first)
			first = a;
		if (!found || b > last)
			last = b;
		found = true;
	}
	return found ? store_hull(first, last, lo, hi) : -ENODATA;
}

int clock_pieces_to_tsc(const struct clock_pieces *p, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	size_t end = p->n - 2;
	int ret = -ENODATA;
	s128 a, b, err;

	if (p->stepped) {
		ret = stepped_to_tsc(p, (s128)ns, lo, hi);
	} else if (ns >= p->v[0].ns && ns <= p->v[p->n - 1].ns) {
		err = error_around(p, piece_find(p, (s128)ns, pieces_reading)) + 1;
		a = (s128)ns - err;
		b = (s128)ns + err;
		return store_hull(line_to_tsc(p, piece_find(p, a, pieces_reading), a, false),
				  line_to_tsc(p, piece_find(p, b, pieces_reading), b, true), lo,
				  hi);
	}
	if (ret != -ENODATA)
		return ret;
	if (ns < p->v[0].ns)
		return piece_beyond(p, 0, (s128)ns, lo, hi);
	if (ns > p->v[p->n - 1].ns)
		return piece_beyond(p, end, (s128)ns, lo, hi);
	return -ENODATA;
}
