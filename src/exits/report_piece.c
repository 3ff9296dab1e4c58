/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_piece.c: a report in pieces: what was counted in each stretch of time.
 *
 * The walk stops between two stretches and calls opts.cut, which takes from the cells what is in
 * them. So the hot loop is not affected.
 */
#include "report_priv.h"

uint64_t report_ticks(const struct report *r, uint64_t ns)
{
	u128 t = (u128)ns * r->div / r->mul;

	return t > UINT64_MAX ? UINT64_MAX : MAX((uint64_t)t, (uint64_t)1);
}

void report_begin(struct report *r, uint64_t first)
{
	r->begin = r->from ?: cap_in_tsc(r->cap) ? r->cap->begin_tsc : 0;
	if (!r->begin || r->begin > first)
		r->begin = first;
}

void report_span(const struct report *r, struct report_span *s)
{
	uint64_t end = r->last;

	*s = (struct report_span){ .begin = r->begin, .from = r->from, .to = r->to };
	if (cap_in_tsc(r->cap) && r->cap->stop_tsc)
		end = MAX(end, r->cap->stop_tsc);
	end = MIN(end, r->to);
	s->length = end > r->begin ? report_time(r, end - r->begin) : 0;
}

static int take(struct report *r, struct cell *c, report_piece_fn *fn, void *ctx, u128 *part)
{
	struct report_piece p = {
		.key = c->key,
		.samples = c->timed + c->untimed,
		.timed = c->timed,
		.time = report_time(r, c->sum),
		.cell = c,
	};
	u128 rest = c->sum;
	int ret;

	if (!p.samples)
		return 0;
	for (int i = PART_KERNEL + 1; c->part && i < REPORT_PARTS; i++) {
		part[i] += c->part[i];
		p.part[i] = report_time(r, c->part[i]);
		rest -= MIN(rest, c->part[i]);
	}
	part[PART_KERNEL] += rest;
	p.part[PART_KERNEL] = report_time(r, rest);
	ret = fn(ctx, r, &p);
	cell_clear(c);
	return ret;
}

int report_take(struct report *r, const struct report_filter *f, report_piece_fn *fn, void *ctx,
		struct report_sums *s)
{
	u128 guest = 0, part[REPORT_PARTS] = { 0 };
	int ret = 0;

	for (size_t i = 0; i < r->nvcpu && !ret; i++) {
		struct rvcpu *v = r->vcpu[i];
		struct cell *c = v->owner && report_matches(r, f, i) ? v->cells->first : NULL;

		for (; c && !ret; c = c->next)
			ret = take(r, c, fn, ctx, part);
		guest += report_matches(r, f, i) ? v->guest : 0;
		v->guest = 0;
	}
	s->guest_time = report_time(r, guest);
	for (int i = 0; i < REPORT_PARTS; i++)
		s->part_time[i] = report_time(r, part[i]);
	return ret;
}

bool report_key_halts(const struct report *r, uint64_t key)
{
	const struct exit_why why = class_vmexit_why(key);

	return r->opts.cls == &class_vmexit && key != CELL_OTHERS && exit_is_halt(why);
}

void report_piece_times(const struct report *r, const struct report_piece *p,
			void (*fn)(void *ctx, uint64_t time, uint32_t n), void *ctx)
{
	const struct cell_hist *h = p->cell->hist;

	for (unsigned int o = 0; h && o < OCTAVES; o++)
		for (unsigned int i = 0; h->at[o] && i < LOGHIST_STEPS; i++) {
			uint32_t n = h->row[h->at[o] - 1][i];
			uint64_t lo, hi;

			if (!n)
				continue;
			loghist_bounds(o * LOGHIST_STEPS + i, &lo, &hi);
			fn(ctx, report_time(r, (u128)lo + (hi - lo) / 2), n);
		}
}
