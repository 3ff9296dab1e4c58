/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * order.c: which change comes first.
 *
 * Everything that follows from one thing is a group: an exit's rate, its times, where they went.
 * Groups are ordered by their effect in seconds per second, since a tiny thing that doubled matters
 * less than one that costs half a CPU. Causes come before their effects: exits, and time stolen by
 * others, before the time that is left to guests, and that before latencies. What has no measurable
 * effect comes last.
 */
#include "kvmft/diff.h"

enum place {
	PLACE_CAUSE,
	PLACE_TIME,
	PLACE_LATENCY,
	PLACE_SMALL,
	PLACE_NOISE,
};

/* A row's place, found before the rows are sorted. */
struct ranked {
	struct diff_row row;
	enum place place;
	double effect; /* of the group */
	double weight; /* in the group */
	bool shares;   /* the change in the group's total time is beyond noise */
};

/*
 * A rate that doubles doubles the CPU time as well. Of nearly equal effects, the one of the
 * simplest measure leads.
 */
static double weight(const struct diff_row *r)
{
	if (r->measure == DIFF_RATE)
		return 1.3 * r->effect;
	return r->measure == DIFF_MEAN ? 1.2 * r->effect : r->effect;
}

static enum place place(const struct ranked *k)
{
	const struct diff_row *r = &k->row;

	if (!r->beyond)
		return PLACE_NOISE;
	if (k->effect < DIFF_SHARE_ERROR)
		return PLACE_SMALL;
	if (r->kind == DIFF_TIME)
		return PLACE_TIME;
	if (r->kind == DIFF_EXITS || (k->shares && !strcmp(r->group, "sched")))
		return PLACE_CAUSE;
	return PLACE_LATENCY;
}

static bool same_group(const struct diff_row *a, const struct diff_row *b)
{
	return a->kind == b->kind && !strcmp(a->group, b->group);
}

static int by_weight(const struct ranked *x, const struct ranked *y)
{
	if (x->weight < y->weight || x->weight > y->weight)
		return x->weight > y->weight ? -1 : 1;
	return (int)x->row.measure - (int)y->row.measure;
}

/* Finds the lead of each group. */
static void lead(struct ranked *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ranked *first = &v[i];

		for (size_t k = 0; k < n; k++) {
			if (!v[k].row.beyond || !same_group(&v[k].row, &v[i].row))
				continue;
			v[i].shares |= v[k].row.measure == DIFF_SHARE;
			if (!first->row.beyond || by_weight(&v[k], first) < 0)
				first = &v[k];
		}
		v[i].effect = first->row.effect;
		v[i].row.lead = first == &v[i] && v[i].row.beyond;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int d = ORDER(x->place, y->place);

	if (!d && x->place == PLACE_NOISE) {
		d = ORDER(x->row.chance, y->row.chance);
	} else if (!d) {
		d = ORDER(y->effect, x->effect) ?: strcmp(x->row.group, y->row.group)
			?: ORDER(y->row.lead, x->row.lead);
	}
	if (!d && x->row.kind == DIFF_TIME)
		d = ORDER(y->row.effect, x->row.effect);
	return d ?: strcmp(x->row.name, y->row.name) ?: ORDER(x->row.measure, y->row.measure);
}

int diff_order(struct diff *d)
{
	_cleanup_free_ struct ranked *v = calloc(d->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < d->n; i++) {
		v[i].row = d->row[i];
		v[i].weight = weight(&d->row[i]);
	}
	lead(v, d->n);
	for (size_t i = 0; i < d->n; i++)
		v[i].place = place(&v[i]);
	if (d->n)
		qsort(v, d->n, sizeof(*v), by_place);
	for (size_t i = 0; i < d->n; i++)
		d->row[i] = v[i].row;
	return 0;
}
