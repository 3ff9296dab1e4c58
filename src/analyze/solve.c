/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: states the problem, narrows the cells that the grid left, and judges the best place.
 *
 * An offset is a number of guest cycles, so host times are scaled first: what is left to find is a
 * plain difference, d. Captures must overlap by half of the shorter one; the candidates follow from
 * that.
 */
#include "solve.h"

#include <errno.h>
#include <string.h>

#define MAX_WINDOWS (1u << 22)
#define MAX_EVENTS  (1u << 19)
#define MAX_SWEEPS  512 /* cells that are solved exactly */
#define MIN_EVENTS  8
#define MIN_PAIRS   4
#define MANY_PAIRS  64
#define PAIR_LATE   (1 << 24) /* cycles, some ms: of several pairs one is closer than that ... */
#define MANY_LATE   (1 << 21) /* ... and of many, closer than that */

int solve_new(const struct tsc_map *map, struct solve **out)
{
	struct solve *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s)
		return -ENOMEM;
	s->map = *map;
	s->map.offset = 0;
	s->stride = 1;
	return 0;
}

static struct solve_vcpu *vcpu_at(struct solve *s, uint32_t id)
{
	struct solve_vcpu *v;

	for (size_t i = 0; i < s->nv; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	v = array_grow(&s->v, s->nv, &s->vcap, sizeof(*v));
	if (!v)
		return NULL;
	v->id = id;
	s->nv++;
	return v;
}

/* Joins windows with short gaps until there are half as many. */
static void thin_windows(struct solve *s)
{
	while (s->windows > MAX_WINDOWS / 2) {
		s->min_gap = s->min_gap ? s->min_gap * 2 : 1024;
		s->windows = 0;
		for (size_t i = 0; i < s->nv; i++) {
			struct solve_vcpu *v = &s->v[i];
			size_t n = 0;

			for (size_t k = 0; k < v->nw; k++) {
				if (n && v->w[k].from - v->w[n - 1].to < s->min_gap)
					v->w[n - 1].to = v->w[k].to;
				else
					v->w[n++] = v->w[k];
			}
			v->nw = n;
			s->windows += n;
		}
	}
}

int solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	struct solve_window *w;

	if (!v)
		return -ENOMEM;
	w = v->nw ? &v->w[v->nw - 1] : NULL;
	if (exit < entry || (w && exit <= w->to))
		return 0;
	if (w && (entry <= w->to || entry - w->to < s->min_gap)) {
		w->to = exit;
		return 0;
	}
	if (s->windows >= MAX_WINDOWS)
		thin_windows(s);
	w = array_grow(&v->w, v->nw, &v->wcap, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct solve_window){ .from = entry, .to = exit };
	v->nw++;
	s->windows++;
	return 0;
}

/* Drops every other event. */
static void thin_events(struct solve *s)
{
	s->stride *= 2;
	s->events = 0;
	for (size_t i = 0; i < s->nv; i++) {
		struct solve_vcpu *v = &s->v[i];

		for (size_t k = 0; k < v->ne / 2; k++)
			v->e[k] = v->e[2 * k];
		for (size_t k = 0; k < v->np; k++)
			v->p[k].at /= 2;
		v->ne /= 2;
		s->events += v->ne;
	}
}

int solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	uint64_t *e;

	if (!v)
		return -ENOMEM;
	if (s->seen++ % s->stride)
		return 0;
	if (s->events >= MAX_EVENTS)
		thin_events(s);
	e = array_grow(&v->e, v->ne, &v->ecap, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = guest;
	v->ne++;
	s->events++;
	return 0;
}

void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	struct solve_pair *p;

	if (!v || v->np >= MAX_EVENTS)
		return; /* it only helps */
	p = array_grow(&v->p, v->np, &v->pcap, sizeof(*p));
	if (!p)
		return;
	*p = (struct solve_pair){ .at = v->ne, .later = (int64_t)(guest - tsc_to_guest(&s->map, host)) };
	v->np++;
}

/*
 * Pairs that count: their number, and the least of their differences. Offsets may be anywhere in 64
 * bits, but are all near each other.
 */
static uint64_t pairs_least(const struct solve *s, const struct solve_vcpu *v, int64_t *least)
{
	size_t first, last;
	uint64_t n = 0;

	solve_range(s, v, &first, &last);
	for (size_t i = 0; i < v->np; i++) {
		if (v->p[i].at < first || v->p[i].at >= MAX(last, (size_t)1))
			continue;
		if (!n || (int64_t)((uint64_t)v->p[i].later - (uint64_t)*least) < 0)
			*least = v->p[i].later;
		n++;
	}
	return n;
}

/* ---- the problem in terms of H and G ---- */

static void scale_windows(struct solve *s)
{
	uint64_t last = 0;

	s->h0 = UINT64_MAX;
	for (size_t i = 0; i < s->nv; i++) {
		struct solve_vcpu *v = &s->v[i];

		for (size_t k = 0; k < v->nw && !s->scaled; k++) {
			v->w[k].from = tsc_to_guest(&s->map, v->w[k].from);
			v->w[k].to = tsc_to_guest(&s->map, v->w[k].to);
		}
		if (!solve_takes(s, v))
			continue;
		s->h0 = MIN(s->h0, v->w[0].from);
		last = MAX(last, v->w[v->nw - 1].to);
	}
	s->scaled = true;
	s->hspan = last - s->h0;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* All events of vCPUs that have windows, in random order, so that any few of them are a sample. */
static int shuffle_events(struct solve *s)
{
	uint64_t latest = 0;
	uint32_t seed = 1;
	size_t first, last;

	s->g0 = UINT64_MAX;
	s->nev = 0;
	free(s->ev);
	s->ev = calloc(s->events ? s->events : 1, sizeof(*s->ev));
	if (!s->ev)
		return -ENOMEM;
	for (size_t i = 0; i < s->nv; i++) {
		solve_range(s, &s->v[i], &first, &last);
		for (size_t k = first; solve_takes(s, &s->v[i]) && k < last; k++) {
			s->g0 = MIN(s->g0, s->v[i].e[k]);
			latest = MAX(latest, s->v[i].e[k]);
		}
	}
	for (size_t i = 0; i < s->nv; i++) {
		solve_range(s, &s->v[i], &first, &last);
		for (size_t k = first; solve_takes(s, &s->v[i]) && k < last; k++)
			s->ev[s->nev++] = (struct solve_event){ .g = (int64_t)(s->v[i].e[k] - s->g0),
								.v = (uint32_t)i };
	}
	for (size_t i = s->nev; i > 1; i--) {
		size_t k = next_random(&seed) % i;
		struct solve_event e = s->ev[i - 1];

		s->ev[i - 1] = s->ev[k];
		s->ev[k] = e;
	}
	s->gspan = s->nev ? latest - s->g0 : 0;
	return 0;
}

static const char *prepare(struct solve *s)
{
	uint64_t overlap;

	if (!s->windows)
		return "the host capture shows no entries and exits of this VM's vCPUs";
	if (s->nev < MIN_EVENTS)
		return "the guest capture has too few events on vCPUs that the host capture shows";
	if (s->hspan >> 61 || s->gspan >> 61)
		return "the stamps of one capture are too far apart";
	overlap = MIN(s->hspan, s->gspan) / 2;
	s->lo = -(int64_t)(s->hspan - overlap);
	s->hi = (int64_t)(s->gspan - overlap) + 1;
	return NULL;
}

/* The guest's event of an access never comes before the host's. */
static void note_most(const struct solve *s, struct solve_result *r)
{
	for (size_t i = 0; i < s->nv; i++) {
		const struct solve_vcpu *v = &s->v[i];
		int64_t least = 0;

		if ((s->only != SOLVE_ALL && s->only != (int64_t)v->id) || !pairs_least(s, v, &least))
			continue;
		if (!r->has_most || (int64_t)((uint64_t)least - r->at_most) < 0)
			r->at_most = (uint64_t)least;
		r->has_most = true;
	}
}

/*
 * Where the pairs say that it must be, as far as that was to be searched anyway: how many they are, 0
 * if they do not help.
 */
static uint64_t narrow_by_pairs(const struct solve *s, int64_t *lo, int64_t *hi)
{
	uint64_t n = 0, base = s->g0 - s->h0;
	int64_t least = 0, late;

	for (size_t i = 0; i < s->nv; i++) {
		int64_t d = 0;
		uint64_t more = solve_takes(s, &s->v[i]) ? pairs_least(s, &s->v[i], &d) : 0;

		if (!more)
			continue;
		d = (int64_t)((uint64_t)d - base);
		least = n ? MIN(least, d) : d;
		n += more;
	}
	late = n < MANY_PAIRS ? PAIR_LATE : MANY_LATE;
	if (n < MIN_PAIRS || least <= s->lo || least - late >= s->hi)
		return 0;
	*lo = MAX(s->lo, least - late);
	*hi = MIN(s->hi, least + 1);
	return n;
}

/* ---- from cells to places ---- */

/* Could the event be inside for some candidate of the cell, or lie out of known time? */
static bool possible(const struct solve *s, const struct solve_event *e, const struct solve_cell *c)
{
	const struct solve_vcpu *v = &s->v[e->v];
	int64_t from = e->g - (c->to - 1), to = e->g - c->from;
	size_t i = solve_window_at(s, v, from);

	return i >= v->nw || solve_h(s, v->w[i].from) <= to || from < solve_h(s, v->w[0].from);
}

/* Counts contradictions among the first n events; gives up above the limit. */
static void test_cell(const struct solve *s, struct solve_cell *c, size_t n, uint64_t limit)
{
	c->outside = 0;
	for (size_t i = 0; i < n && c->outside <= limit; i++)
		c->outside += !possible(s, &s->ev[i], c);
}

static int cell_cmp(const void *a, const void *b)
{
	const struct solve_cell *x = a, *y = b;

	if (x->outside != y->outside)
		return x->outside < y->outside ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Tests with ever more events, keeping only what a true offset may look like. */
static void narrow(struct solve *s)
{
	for (size_t n = 4096;; n *= 8) {
		size_t kept = 0, tests = MIN(n, s->nev);
		uint64_t limit = 2 + tests * s->wrong / 64;

		for (size_t i = 0; i < s->ncell; i++) {
			test_cell(s, &s->cell[i], tests, limit);
			if (s->cell[i].outside <= limit)
				s->cell[kept++] = s->cell[i];
		}
		s->ncell = kept;
		if (tests == s->nev || kept <= MAX_SWEEPS / 8)
			break;
	}
	if (s->ncell)
		qsort(s->cell, s->ncell, sizeof(*s->cell), cell_cmp);
}

static bool worth(const struct solve_place *p)
{
	return p->inside >= MIN_EVENTS && p->outside <= p->inside;
}

/* Two places in one or in neighbouring cells of the grid are one. */
static bool same_place(const struct solve *s, const struct solve_place *a,
		       const struct solve_place *b)
{
	return a->from <= b->to + s->width && b->from <= a->to + s->width;
}

static void take_place(struct solve *s, const struct solve_place *p, struct solve_place *best,
		       struct solve_place *next)
{
	struct solve_place old = *best;

	if (!worth(p))
		return;
	if (best->score != INT64_MIN && same_place(s, p, best)) {
		if (p->score == best->score && p->from == best->to + 1)
			best->to = p->to;
		else if (p->score == best->score && p->to + 1 == best->from)
			best->from = p->from;
		else if (p->score > best->score)
			*best = *p;
		return;
	}
	if (p->score > best->score) {
		*best = *p;
		p = &old;
	}
	if (p->score > next->score)
		*next = *p;
}

static void fill_result(const struct solve *s, const struct solve_place *best,
			const struct solve_place *next, struct solve_result *r)
{
	uint64_t base = s->g0 - s->h0;

	r->found = true;
	r->offset_lo = base + (uint64_t)best->from;
	r->offset_hi = base + (uint64_t)best->to;
	r->offset = base + (uint64_t)(best->from + (best->to - best->from) / 2);
	r->inside = best->inside;
	r->outside = best->outside;
	r->has_next = next->score != INT64_MIN;
	r->next_distance = next->from - best->from;
	r->next_inside = next->inside;
	r->next_outside = next->outside;
}

static int by_place(const void *a, const void *b)
{
	const struct solve_place *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Other places that contradict no more and rest on about as much: nothing tells them from the best. */
static uint64_t count_equal(const struct solve *s, struct solve_place *p, size_t n,
			    const struct solve_place *best)
{
	const struct solve_place *last = NULL;
	uint64_t count = 0;

	qsort(p, n, sizeof(*p), by_place);
	for (size_t i = 0; i < n; i++) {
		if (!worth(&p[i]) || p[i].outside > best->outside || p[i].inside < best->inside / 2 ||
		    same_place(s, &p[i], best))
			continue;
		count += !last || !same_place(s, &p[i], last);
		last = &p[i];
	}
	return count;
}

static int solve_cells(struct solve *s, struct solve_result *r)
{
	struct solve_place best = { .score = INT64_MIN }, next = { .score = INT64_MIN };
	_cleanup_free_ struct solve_place *p = NULL;
	int ret = 0;

	narrow(s);
	s->ncell = MIN(s->ncell, (size_t)MAX_SWEEPS);
	p = calloc(s->ncell + 1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < s->ncell && !ret; i++) {
		ret = solve_sweep(s, &s->cell[i], &p[i]);
		if (!ret)
			take_place(s, &p[i], &best, &next);
	}
	if (ret || best.score == INT64_MIN)
		return ret;
	r->equal = count_equal(s, p, s->ncell, &best);
	fill_result(s, &best, &next, r);
	return 0;
}

/* First for a few wrong events; then for an offset that is right for a part of the time only. */
static int solve_tolerant(struct solve *s, struct solve_result *r)
{
	static const struct {
		size_t tests;
		unsigned int wrong;
		int64_t cost;
	} tolerance[] = { { 1024, 4, 19 }, { 48, 24, 2 } };
	int ret = 0;

	r->span = (uint64_t)(s->hi - s->lo);
	for (size_t i = 0; i < ARRAY_SIZE(tolerance) && !ret && !r->found; i++) {
		r->equal = 0;
		s->tests = tolerance[i].tests;
		s->wrong = tolerance[i].wrong;
		s->cost = tolerance[i].cost;
		ret = solve_grid(s);
		if (!ret)
			ret = solve_cells(s, r);
		r->tolerance = s->wrong;
	}
	return ret;
}

/* With the pairs' help first. They may be wrong, where a clock was set, and then help nothing. */
static int solve_both(struct solve *s, struct solve_result *r)
{
	int64_t lo = s->lo, hi = s->hi;
	int ret = 0;

	r->pairs = narrow_by_pairs(s, &s->lo, &s->hi);
	if (r->pairs)
		ret = solve_tolerant(s, r);
	if (r->pairs && ret != -ENOMEM && (ret || !r->found || r->outside > r->inside / 64)) {
		*r = (struct solve_result){ .events = r->events, .sampled = r->sampled,
					    .has_most = r->has_most, .at_most = r->at_most };
		ret = 0;
	}
	s->lo = lo;
	s->hi = hi;
	return ret || r->found ? ret : solve_tolerant(s, r);
}

static int run(struct solve *s, struct solve_result *r)
{
	int ret;

	memset(r, 0, sizeof(*r));
	note_most(s, r);
	scale_windows(s);
	ret = shuffle_events(s);
	if (ret)
		return ret;
	r->why = prepare(s);
	if (r->why)
		return 0;
	r->events = s->nev;
	r->sampled = s->stride > 1;
	ret = solve_both(s, r);
	if (ret == -ENODATA)
		r->why = "the vCPUs ran without a break: their windows tell nothing";
	else if (ret == -E2BIG)
		r->why = "too many offsets would do: record longer";
	else if (!ret && !r->found)
		r->why = "no offset puts the guest's events into the windows: another VM, another ratio "
			 "(--tsc-ratio), or captures of different times";
	return r->why ? 0 : ret;
}

int solve_run(struct solve *s, int64_t vcpu, struct solve_result *r)
{
	s->only = vcpu;
	s->first = 0;
	s->last = SIZE_MAX;
	return run(s, r);
}

int solve_run_range(struct solve *s, uint32_t vcpu, size_t first, size_t last, struct solve_result *r)
{
	s->only = vcpu;
	s->first = first;
	s->last = last;
	return run(s, r);
}

size_t solve_vcpus(const struct solve *s)
{
	return s->nv;
}

uint32_t solve_vcpu_id(const struct solve *s, size_t i)
{
	return s->v[i].id;
}

enum solve_fit solve_fits(const struct solve *s, const struct solve_vcpu *v, uint64_t guest,
			  uint64_t offset)
{
	int64_t h = solve_h(s, guest - offset); /* as a host time, scaled */
	size_t w = solve_window_at(s, v, h);

	if (!v->nw || h < solve_h(s, v->w[0].from) || w >= v->nw)
		return SOLVE_UNKNOWN; /* of that time nothing is known */
	return solve_h(s, v->w[w].from) <= h ? SOLVE_INSIDE : SOLVE_OUTSIDE;
}

void solve_count(const struct solve *s, size_t i, const struct solve_result *r, uint64_t *inside,
		 uint64_t *outside)
{
	const struct solve_vcpu *v = &s->v[i];

	*inside = *outside = 0;
	for (size_t k = 0; v->nw && k < v->ne; k++) {
		enum solve_fit fit = solve_fits(s, v, v->e[k], r->offset);

		*inside += fit == SOLVE_INSIDE;
		*outside += fit == SOLVE_OUTSIDE;
	}
}

void solve_free(struct solve *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nv; i++) {
		free(s->v[i].w);
		free(s->v[i].e);
		free(s->v[i].p);
	}
	u64map_free(&s->deadline);
	free(s->v);
	free(s->ev);
	free(s->cell);
	free(s);
}
