/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: states the problem, narrows the cells that the grid left, and judges the best place.
 *
 * An offset is a number of guest cycles, so host times are scaled first: what remains to be found
 * is a plain difference, d. Captures must overlap by an eighth of the shorter one; the candidates
 * follow from that.
 */
#include "solve.h"

#include <errno.h>
#include <string.h>

#define MAX_EVENTS  (1u << 19)
#define MAX_SWEEPS  512	 /* cells that are solved exactly, ... */
#define SWEEP_EVENTS (1u << 20) /* ... with this many events in all, ... */
#define SWEEP_MOST   (1u << 14) /* ... with no more for each than this, ... */
#define MAX_FULL    8		 /* ... and this many of those with all events */
#define FEW_JOINED  4
#define MANY_JOINED 256
#define MANY_TESTS  (1u << 14) /* cells that pass so many are solved */
#define TEST_WORK   20 /* a window is looked up */
#define CHANCE_BITS 10 /* one wrong answer in 2^10 */
#define AROUND	    8  /* windows to either side that are "around" one */
#define MIN_EVENTS  8
#define LEAST_OVERLAP 8 /* captures overlap by at least this part of the shorter one */
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
	while (s->windows > RUNS_MAX / 2) {
		s->min_gap = s->min_gap ? s->min_gap * 2 : 1024;
		s->windows = 0;
		for (size_t i = 0; i < s->nv; i++) {
			run_list_join(&s->v[i].w, s->min_gap);
			s->windows += s->v[i].w.n;
		}
	}
}

int solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	int ret = v ? run_list_add(&v->w, entry, exit, s->min_gap) : -ENOMEM;

	if (ret < 0)
		return ret;
	s->windows += (uint64_t)ret;
	if (s->windows >= RUNS_MAX)
		thin_windows(s);
	return 0;
}

void solve_clear_windows(struct solve *s, uint32_t vcpu)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	if (!v)
		return;
	s->windows -= v->w.n;
	s->scaled = false; /* others would be scaled twice, unless the ratio is 1 */
	v->w.n = v->ntid = v->np = 0;
}

COMPARE_BY(by_from, struct vcpu_run, .from);

/* From a thread that may have run the vCPU before those already added. */
int solve_add_runs(struct solve *s, uint32_t vcpu, const struct run_list *l)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	struct run_list old;
	int ret = v ? 0 : -ENOMEM;

	if (ret || !l->n)
		return ret;
	old = v->w;
	if (!old.n || old.v[old.n - 1].to < l->v[0].from) {
		for (size_t i = 0; i < l->n && !ret; i++)
			ret = solve_add_window(s, vcpu, l->v[i].from, l->v[i].to);
		return ret;
	}
	v->w = (struct run_list){ 0 };
	s->windows -= old.n;
	for (size_t i = 0; i < l->n && ret >= 0; i++) {
		struct vcpu_run *slot = array_grow(&old.v, old.n, &old.cap, sizeof(*slot));

		ret = slot ? 0 : -ENOMEM;
		if (slot)
			old.v[old.n++] = l->v[i];
	}
	qsort(old.v, old.n, sizeof(*old.v), by_from);
	for (size_t i = 0; i < old.n && !ret; i++)
		ret = solve_add_window(s, vcpu, old.v[i].from, old.v[i].to);
	free(old.v);
	return ret;
}

int solve_name_thread(struct solve *s, uint32_t vcpu, int32_t tid)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	int32_t *slot = v ? array_grow(&v->tid, v->ntid, &v->tidcap, sizeof(*slot)) : NULL;

	if (!slot)
		return -ENOMEM;
	*slot = tid;
	v->ntid++;
	return 0;
}

const struct solve_vcpu *solve_find(const struct solve *s, uint32_t id)
{
	for (size_t i = 0; i < s->nv; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	return NULL;
}

uint64_t solve_deadline(const struct solve *s, uint32_t vcpu, const struct runs *runs,
			uint64_t value)
{
	const struct solve_vcpu *v = solve_find(s, vcpu);
	uint64_t host = 0;

	for (size_t i = 0; v && i < v->ntid && !host; i++)
		host = runs_deadline(runs, v->tid[i], value);
	return host;
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
	*p = (struct solve_pair){ .at = v->ne,
				  .later = (int64_t)(guest - tsc_to_guest(&s->map, host)) };
	v->np++;
}

/*
 * Pairs that count: their number, and the smallest of their differences. Offsets may be anywhere in
 * 64 bits, but are all close to each other.
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

		for (size_t k = 0; k < v->w.n && !s->scaled; k++) {
			v->w.v[k].from = tsc_to_guest(&s->map, v->w.v[k].from);
			v->w.v[k].to = tsc_to_guest(&s->map, v->w.v[k].to);
		}
		if (!solve_takes(s, v))
			continue;
		s->h0 = MIN(s->h0, v->w.v[0].from);
		last = MAX(last, v->w.v[v->w.n - 1].to);
	}
	s->scaled = true;
	s->hspan = last - s->h0;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void take_events(struct solve *s)
{
	uint64_t latest = 0;
	size_t first, last;

	s->g0 = UINT64_MAX;
	s->nev = 0;
	for (size_t i = 0; i < s->nv; i++) {
		solve_range(s, &s->v[i], &first, &last);
		s->v[i].taken = solve_takes(s, &s->v[i]) ? last - first : 0;
		for (size_t k = first; s->v[i].taken && k < last; k++) {
			s->g0 = MIN(s->g0, s->v[i].e[k]);
			latest = MAX(latest, s->v[i].e[k]);
		}
	}
	for (size_t i = 0; i < s->nv; i++) {
		solve_range(s, &s->v[i], &first, &last);
		for (size_t k = first; s->v[i].taken && k < last; k++)
			s->ev[s->nev++] =
				(struct solve_event){ .g = (int64_t)(s->v[i].e[k] - s->g0),
						      .v = (uint32_t)i };
	}
	s->gspan = s->nev ? latest - s->g0 : 0;
}

COMPARE_BY(by_value, int64_t, );

/* All events of vCPUs that have windows, in random order, so that any few of them are a sample. */
static int shuffle_events(struct solve *s)
{
	uint32_t seed = 1;

	free(s->ev);
	free(s->order);
	s->ev = calloc(s->events + 1, sizeof(*s->ev));
	s->order = calloc(s->events + 1, sizeof(*s->order));
	if (!s->ev || !s->order)
		return -ENOMEM;
	take_events(s);
	for (size_t i = 0; i < s->nev; i++)
		s->order[i] = s->ev[i].g;
	qsort(s->order, s->nev, sizeof(*s->order), by_value);
	for (size_t i = s->nev; i > 1; i--) {
		size_t k = next_random(&seed) % i;
		struct solve_event e = s->ev[i - 1];

		s->ev[i - 1] = s->ev[k];
		s->ev[k] = e;
	}
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
	overlap = MIN(s->hspan, s->gspan) / LEAST_OVERLAP;
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

		if ((s->only != SOLVE_ALL && s->only != (int64_t)v->id) ||
		    !pairs_least(s, v, &least))
			continue;
		if (!r->has_most || (int64_t)((uint64_t)least - r->at_most) < 0)
			r->at_most = (uint64_t)least;
		r->has_most = true;
	}
}

/*
 * Where the pairs say that it must be, within the range to be searched anyway: the number of pairs,
 * 0 if they do not help.
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

/* The best that the event can be for a candidate of the cell. */
static enum solve_fit possible(const struct solve *s, const struct solve_event *e,
			       const struct solve_cell *c)
{
	const struct solve_vcpu *v = &s->v[e->v];
	int64_t from = e->g - (c->to - 1), to = e->g - c->from;
	size_t i = solve_window_at(s, v, from);

	if (i >= v->w.n || to < solve_h(s, v->w.v[0].from))
		return SOLVE_UNKNOWN;
	return solve_h(s, v->w.v[i].from) <= to || from < solve_h(s, v->w.v[0].from)
		       ? SOLVE_INSIDE
		       : SOLVE_OUTSIDE;
}

/*
 * How many of n events may be wrong by accident. A wrong offset leaves more outside, even if it
 * puts them into a time in which the vCPU was busy and hardly left its guest.
 */
static uint64_t allowed(const struct solve *s, size_t n)
{
	return 2 + MIN(n * s->share >> (SHARE_BITS + 2), n / 32);
}

/* Tests with n events, within what is allowed. 1: possible, 0: impossible, -ETIME. */
static int test_cell(struct solve *s, struct solve_cell *c, size_t n)
{
	uint64_t limit = allowed(s, n), known = 0;
	size_t i;

	c->outside = 0;
	for (i = 0; i < n && c->outside <= limit; i++) {
		enum solve_fit fit = possible(s, &s->ev[i], c);

		known += fit != SOLVE_UNKNOWN;
		c->outside += fit == SOLVE_OUTSIDE;
	}
	if (!solve_spend(s, i * TEST_WORK))
		return -ETIME;
	return c->outside <= allowed(s, known) && known >= solve_least(n);
}

COMPARE_BY(cell_cmp, struct solve_cell, .from);

/* Cells that touch are joined, if the result is not wider than this many of the grid's. */
static void join_cells(struct solve *s, int64_t most)
{
	size_t n = 0;

	if (!s->ncell)
		return;
	qsort(s->cell, s->ncell, sizeof(*s->cell), cell_cmp);
	for (size_t i = 0; i < s->ncell; i++) {
		struct solve_cell *c = n ? &s->cell[n - 1] : NULL;

		if (c && c->to == s->cell[i].from && s->cell[i].to - c->from <= most * s->width) {
			c->to = s->cell[i].to;
			c->outside = MIN(c->outside, s->cell[i].outside);
		} else {
			s->cell[n++] = s->cell[i];
		}
	}
	s->ncell = n;
}

/* Tests with ever more events, keeping only what may be the true offset. */
static int narrow(struct solve *s)
{
	join_cells(s, FEW_JOINED);
	for (size_t n = solve_enough(s); s->ncell; n *= 4) {
		size_t kept = 0, tests = MIN(n, s->nev);

		for (size_t i = 0; i < s->ncell; i++) {
			int ret = test_cell(s, &s->cell[i], tests);

			if (ret < 0)
				return ret;
			if (ret)
				s->cell[kept++] = s->cell[i];
		}
		s->ncell = kept;
		if (tests == s->nev || n >= MANY_TESTS)
			break;
	}
	join_cells(s, MANY_JOINED);
	return s->ncell > MAX_SWEEPS ? -E2BIG : 0;
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
		if (p->score >= best->score)
			solve_place_add(best, p);
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
	r->offset_lo = base + (uint64_t)best->low;
	r->offset_hi = base + (uint64_t)best->high;
	r->offset = base + (uint64_t)(best->from + (best->to - best->from) / 2);
	r->inside = best->inside;
	r->outside = best->outside;
	r->has_next = next->score != INT64_MIN;
	r->next_distance = next->from - best->from;
	r->next_inside = next->inside;
	r->next_outside = next->outside;
}

COMPARE_BY(by_place, struct solve_place, .from);

/* Other places that contradict no more and are based on as much: as good as the best. */
static uint64_t count_equal(const struct solve *s, struct solve_place *p, size_t n,
			    const struct solve_place *best)
{
	const struct solve_place *last = NULL;
	uint64_t count = 0;

	qsort(p, n, sizeof(*p), by_place);
	for (size_t i = 0; i < n; i++) {
		if (!worth(&p[i]) || p[i].outside > best->outside ||
		    p[i].inside < best->inside / 2 || same_place(s, &p[i], best))
			continue;
		count += !last || !same_place(s, &p[i], last);
		last = &p[i];
	}
	return count;
}

static int by_score(const void *a, const void *b)
{
	const struct solve_place *x = *(struct solve_place *const *)a,
				 *y = *(struct solve_place *const *)b;

	return x->score != y->score ? (x->score < y->score ? 1 : -1) : by_place(x, y);
}

/*
 * The exact places of all cells: with a part of the events if there are many cells, then the best
 * ones with all. p has room for one per cell.
 */
static int sweep_cells(struct solve *s, struct solve_place *p)
{
	_cleanup_free_ struct solve_place **order = calloc(s->ncell + 1, sizeof(*order));
	size_t some = MIN((size_t)SWEEP_EVENTS / s->ncell, (size_t)SWEEP_MOST);
	int ret = order ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->ncell && !ret; i++) {
		order[i] = &p[i];
		ret = solve_sweep(s, &s->cell[i], some, &p[i]);
	}
	if (ret || some >= s->nev)
		return ret;
	qsort(order, s->ncell, sizeof(*order), by_score);
	for (size_t i = 0; i < s->ncell && !ret; i++) {
		if (i < MAX_FULL)
			ret = solve_settle(s, &s->cell[order[i] - p], order[i]);
		else
			order[i]->score = INT64_MIN;
	}
	return ret;
}

/* ---- what a place rests on ---- */

/* log2(x), 2^-8; x > 0. */
static uint64_t log2_8(uint64_t x)
{
	unsigned int whole = 63 - (unsigned int)__builtin_clzll(x);
	uint64_t log = whole, m = whole > 31 ? x >> (whole - 31) : x << (31 - whole);

	for (int i = 0; i < 8; i++) {
		m = m * m >> 31;
		log = log << 1 | m >> 32;
		m >>= m >> 32;
	}
	return log;
}

/*
 * How unexpected it is that an event of this window is in one: in 2^-8 bits, by how much of the
 * time around it the vCPU was in its guest. A wrong offset may put all events into a time when the
 * vCPU hardly left it.
 */
static uint64_t window_bits(const struct solve_vcpu *v, size_t w)
{
	size_t from = w > AROUND ? w - AROUND : 0, to = MIN(w + AROUND, v->w.n - 1);
	uint64_t in = 0, all = v->w.v[to].to - v->w.v[from].from + 1;

	for (size_t i = from; i <= to; i++)
		in += v->w.v[i].to - v->w.v[i].from + 1;
	return log2_8(all) - log2_8(in);
}

/*
 * The value of the vCPU's events being in windows, and how many such events and windows there are.
 * Consecutive events in one window say the same about an offset.
 */
static uint64_t count_bits(const struct solve *s, const struct solve_vcpu *v, uint64_t offset,
			   uint64_t *hits, uint64_t *wrong)
{
	size_t first, last, before = SIZE_MAX;
	uint64_t bits = 0;

	*hits = *wrong = 0;
	solve_range(s, v, &first, &last);
	for (size_t i = first; i < last; i++) {
		int64_t h = solve_h(s, v->e[i] - offset);
		size_t w = solve_window_at(s, v, h);

		if (w >= v->w.n || h < solve_h(s, v->w.v[0].from))
			continue;
		if (solve_h(s, v->w.v[w].from) > h) {
			++*wrong;
		} else if (w != before) {
			++*hits;
			bits += window_bits(v, w);
		}
		before = w;
	}
	return bits;
}

/* Could events of another VM or time fit as well somewhere? */
static bool is_chance(const struct solve *s, const struct solve_result *r)
{
	uint64_t gain = 0,
		 cost = log2_8((uint64_t)((s->hi - s->lo) / s->width) + 1) + CHANCE_BITS * 256;

	for (size_t i = 0; i < s->nv; i++) {
		uint64_t hits, wrong;

		if (!s->v[i].taken)
			continue;
		gain += count_bits(s, &s->v[i], r->offset, &hits, &wrong);
		if (wrong)
			cost += wrong * log2_8(3 * (hits + wrong) / wrong);
	}
	return gain < cost;
}

static int solve_cells(struct solve *s, struct solve_result *r)
{
	struct solve_place best = { .score = INT64_MIN }, next = { .score = INT64_MIN };
	_cleanup_free_ struct solve_place *p = NULL;
	int ret = narrow(s);

	if (ret || !s->ncell)
		return ret;
	p = calloc(s->ncell, sizeof(*p));
	if (!p)
		return -ENOMEM;
	ret = sweep_cells(s, p);
	for (size_t i = 0; i < s->ncell && !ret; i++)
		take_place(s, &p[i], &best, &next);
	if (ret || best.score == INT64_MIN)
		return ret;
	r->equal = count_equal(s, p, s->ncell, &best);
	fill_result(s, &best, &next, r);
	r->found = !is_chance(s, r);
	return r->found ? 0 : -EDOM;
}

static int solve_once(struct solve *s, struct solve_result *r)
{
	int ret;

	r->span = (uint64_t)(s->hi - s->lo);
	r->equal = 0;
	ret = solve_grid(s);
	return ret ? ret : solve_cells(s, r);
}

/* With the pairs' help first. They may be wrong, if a clock was set, and then do not help. */
static int solve_both(struct solve *s, struct solve_result *r)
{
	int64_t lo = s->lo, hi = s->hi;
	int ret = 0;

	r->pairs = narrow_by_pairs(s, &s->lo, &s->hi);
	if (r->pairs)
		ret = solve_once(s, r);
	if (r->pairs && ret != -ENOMEM && (ret || !r->found || r->outside > r->inside / 64)) {
		*r = (struct solve_result){ .events = r->events, .has_most = r->has_most,
					    .at_most = r->at_most };
		ret = 0;
	}
	s->lo = lo;
	s->hi = hi;
	return ret || r->found ? ret : solve_once(s, r);
}

/*
 * Work grows no faster than the input, whatever the stamps are: what a run may spend is bounded,
 * and so is what all of them may. Captures of real machines take a tenth of it (make bench).
 */
static void allow_work(struct solve *s)
{
	uint64_t all = (1ull << 30) + (s->windows + s->events) * 4096, windows = 0;

	for (size_t i = 0; i < s->nv; i++)
		windows += s->v[i].taken ? s->v[i].w.n : 0;
	s->limit = MIN(all, s->spent + (1ull << 28) + (windows + s->nev) * 2048);
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
	allow_work(s);
	r->why = prepare(s);
	if (r->why)
		return 0;
	r->events = s->nev;
	ret = solve_both(s, r);
	if (ret == -ENODATA)
		r->why = "the vCPUs ran without a break: their windows tell nothing";
	else if (ret == -E2BIG)
		r->why = "too many offsets fit: record longer";
	else if (ret == -EDOM)
		r->why = "an offset that fits may as well be chance: record longer";
	else if (ret == -ETIME)
		r->why = "too many offsets nearly fit: the search ended at its limit of work";
	else if (!ret && !r->found)
		r->why =
			"no offset puts the guest's events into the windows: another VM, another ratio "
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

int solve_run_range(struct solve *s, uint32_t vcpu, size_t first, size_t last,
		    struct solve_result *r)
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

	if (!v->w.n || h < solve_h(s, v->w.v[0].from) || w >= v->w.n)
		return SOLVE_UNKNOWN; /* nothing is known about that time */
	return solve_h(s, v->w.v[w].from) <= h ? SOLVE_INSIDE : SOLVE_OUTSIDE;
}

void solve_count(const struct solve *s, size_t i, const struct solve_result *r, uint64_t *inside,
		 uint64_t *outside)
{
	const struct solve_vcpu *v = &s->v[i];

	*inside = *outside = 0;
	for (size_t k = 0; v->w.n && k < v->ne; k++) {
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
		free(s->v[i].w.v);
		free(s->v[i].tid);
		free(s->v[i].e);
		free(s->v[i].p);
	}
	free(s->v);
	free(s->ev);
	free(s->order);
	free(s->cell);
	free(s);
}
