/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * align.c: from figures of windows to a verdict.
 *
 * Each slice of time allows an interval of shifts. A clock with another rate needs another shift in
 * each slice; a straight line that crosses all intervals exists only if for every two of them it is
 * allowed by the line between their opposite ends, which bounds its slope from both sides.
 */
#include "kvmft/proof.h"

const char *const align_names[] = {
	[ALIGN_OK] = "aligned",
	[ALIGN_BAD] = "misaligned",
	[ALIGN_UNKNOWN] = "cannot-tell",
};

/* Shifts that the figures allow; false if they contradict each other or bound only one side. */
static bool allowed_shifts(const struct win_stats *s, int64_t *lo, int64_t *hi)
{
	*lo = -s->early;
	*hi = s->late;
	return s->has_early && s->has_late && *lo <= *hi;
}

/* The weakest statement about a slope: it is not known where within their slices both ends are. */
static int64_t slope(int64_t rise, size_t slices, uint64_t width, bool least)
{
	bool far = (rise > 0) == least;

	__int128 ppb =
		(__int128)rise * 1000000000 / (__int128)((far ? slices + 1 : slices - 1) * width);

	return ppb > INT64_MAX ? INT64_MAX : ppb < INT64_MIN ? INT64_MIN : (int64_t)ppb;
}

void align_measure(const struct windows *w, size_t vm, struct align *a)
{
	uint64_t all;
	struct win_stats s[WIN_SLICES];
	int64_t lo[WIN_SLICES], hi[WIN_SLICES];
	bool ok[WIN_SLICES];
	uint64_t from, width;

	*a = (struct align){ 0 };
	win_total(w, (int64_t)vm, &a->total);
	a->has_shift = allowed_shifts(&a->total, &a->shift_lo, &a->shift_hi);
	win_each_vcpu(w, vm, v) {
		a->windows += v->windows;
		if (!v->s.checked && !v->s.unchecked)
			continue; /* runs on the host, but has no guest events */
		a->vcpus++;
		a->vcpus_blind += !v->s.checked;
		if (!v->s.outside)
			continue;
		a->bad_vcpu = v->vcpu;
		a->bad_from = a->vcpus_bad ? MIN(a->bad_from, v->first_out) : v->first_out;
		a->bad_to = MAX(a->bad_to, v->last_out);
		a->bad_inside += v->s.inside;
		a->bad_after_good += v->inside_before_out;
		a->vcpus_bad++;
	}
	win_slices(w, &from, &width);
	for (size_t i = 0; i < WIN_SLICES; i++) {
		s[i] = (struct win_stats){ 0 };
		win_each_vcpu(w, vm, v)
			win_stats_add(&s[i], &v->slice[i]);
		ok[i] = allowed_shifts(&s[i], &lo[i], &hi[i]);
	}
	for (size_t i = 0; i < WIN_SLICES; i++) {
		for (size_t k = i + 2; ok[i] && k < WIN_SLICES; k++) {
			int64_t least, most;

			if (!ok[k])
				continue;
			least = slope(lo[k] - hi[i], k - i, width, true);
			most = slope(hi[k] - lo[i], k - i, width, false);
			a->drift_lo = a->has_drift ? MAX(a->drift_lo, least) : least;
			a->drift_hi = a->has_drift ? MIN(a->drift_hi, most) : most;
			a->has_drift = true;
		}
	}
	all = a->total.checked + a->total.unchecked - a->total.apart;
	if (all)
		a->share = (unsigned int)(a->total.checked * 100 / all);
}

enum align_kind proof_judge(const struct proof_facts *f)
{
	const struct align *a = f->windows;

	if (f->solved && f->solved->missed_why) /* a vCPU without an offset of its own */
		return ALIGN_UNKNOWN;
	/*
	 * Whether deadlines alone contradict the alignment. They are unique, so their order counts;
	 * that of repeating values may be an accident. So may be a few: a deadline that was written
	 * twice, one of which is in the capture.
	 */
	if (a->total.outside || (f->deadlines && f->deadlines->violations > f->deadlines->n / 100))
		return ALIGN_BAD;
	if (!a->total.checked || !a->has_shift || a->share < ALIGN_MIN_SHARE)
		return f->elsewhere ? ALIGN_BAD : ALIGN_UNKNOWN;
	if (f->solved && !solution_is_sure(f->solved)) /* being as good as another one is not
						        * proof */
		return ALIGN_UNKNOWN;
	return f->off_record ? ALIGN_BAD : ALIGN_OK;
}
