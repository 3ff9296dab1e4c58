/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_places.c: narrows the cells that the grid left, and judges the best place in them.
 *
 * In one stretch of candidates: as d grows, each event moves back in host time and enters or leaves
 * windows; between two such moments nothing changes. So all those moments, in order, with a running
 * score, find the best stretch to the cycle.
 */
#include "solve.h"

#define MAX_SWEEPS   512	/* cells that are solved exactly, ... */
#define SWEEP_EVENTS (1u << 20) /* ... with this many events in all, ... */
#define SWEEP_MOST   (1u << 14) /* ... with no more for each than this, ... */
#define MAX_FULL     8		/* ... and this many of those with all events */
#define FEW_JOINED   4
#define MANY_JOINED  256
#define MANY_TESTS   (1u << 14) /* cells that pass so many are solved */
#define TEST_WORK    20		/* a window is looked up */
#define CHANCE_BITS  10		/* one wrong answer in 2^10 */
#define AROUND	     8		/* windows to either side that are "around" one */
#define LOOK_WORK    20		/* looking up an event's window */
#define TURN_WORK    100	/* ... and sorting what follows from it */

/* ---- the exact search ---- */

struct turn {
	int64_t d;		 /* from this candidate on ... */
	int32_t inside, outside; /* ... the counts differ by this */
};

struct turns {
	struct turn *v;
	size_t n, cap;
};

static void turn_add(struct turns *t, int64_t d, int inside, int outside)
{
	xarray_add(&t->v, &t->n, &t->cap, &(struct turn){ d, inside, outside }, sizeof(*t->v));
}

/* The event is inside for d in [from, to], both cut to the cell. */
static void add_inside(struct turns *t, const struct solve_cell *c, int64_t from, int64_t to)
{
	from = MAX(from, c->from);
	to = MIN(to, c->to - 1);
	if (from > to)
		return;
	turn_add(t, from, 1, -1);
	turn_add(t, to + 1, -1, 1);
}

static int event_turns(struct solve *s, const struct solve_event *e, const struct solve_cell *c,
		       struct turns *t)
{
	const struct solve_vcpu *v = &s->v[e->v];
	int64_t first = solve_h(s, v->w.v[0].from), last = solve_h(s, v->w.v[v->w.n - 1].to);
	int64_t from = MAX(c->from, e->g - last), to = MIN(c->to - 1, e->g - first);
	int ret = 0;

	if (from > to)
		return 0; /* never within the time known of this vCPU */
	turn_add(t, from, 0, 1);
	turn_add(t, to + 1, 0, -1);
	for (size_t i = solve_window_at(s, v, e->g - c->to + 1); i < v->w.n && !ret; i++) {
		int64_t h = solve_h(s, v->w.v[i].from);

		if (e->g - h < c->from)
			break;
		add_inside(t, c, e->g - solve_h(s, v->w.v[i].to), e->g - h);
		if (!solve_spend(s, TURN_WORK))
			ret = -ETIME;
	}
	return ret;
}

/* One more stretch, at least as good, near the best one. */
static void solve_place_add(struct solve_place *best, const struct solve_place *p)
{
	int64_t low = MIN(best->low, p->low), high = MAX(best->high, p->high);

	if (p->score > best->score) {
		*best = *p;
		return;
	}
	if (p->to - p->from > best->to - best->from)
		*best = *p;
	best->low = low;
	best->high = high;
}

COMPARE_BY(turn_cmp, struct turn, .d);

static void sweep(const struct turns *t, const struct solve_cell *c, struct solve_place *best)
{
	struct solve_place cur = { .score = INT64_MIN };
	int64_t inside = 0, outside = 0;
	bool open = false;

	for (size_t i = 0; i < t->n;) {
		int64_t d = t->v[i].d, score;

		for (; i < t->n && t->v[i].d == d; i++) {
			inside += t->v[i].inside;
			outside += t->v[i].outside;
		}
		score = inside - SOLVE_COST * outside;
		/* Neighbours that are as good, though with other events, are one stretch. */
		if (open && d < c->to && score == cur.score)
			continue;
		if (open) { /* at least as good as the best so far */
			cur.to = cur.high = d - 1;
			solve_place_add(best, &cur);
		}
		open = d < c->to && score >= best->score;
		if (d >= c->to)
			break;
		cur = (struct solve_place){ .from = d,
					    .low = d,
					    .score = score,
					    .inside = (uint64_t)inside,
					    .outside = (uint64_t)outside };
	}
}

int solve_sweep(struct solve *s, const struct solve_cell *c, size_t n, struct solve_place *best)
{
	struct turns t = { 0 };
	int ret = 0;

	*best = (struct solve_place){
		.from = c->from, .to = c->from, .low = c->from, .high = c->from, .score = INT64_MIN
	};
	for (size_t i = 0; i < MIN(n, s->nev) && !ret; i++) {
		ret = event_turns(s, &s->ev[i], c, &t);
		if (!solve_spend(s, TURN_WORK))
			ret = -ETIME;
	}
	if (!ret && t.n) {
		array_sort(t.v, t.n, turn_cmp);
		sweep(&t, c, best);
	}
	free(t.v);
	return ret;
}

/*
 * Every event leaves some room around a candidate that has it inside: if all do, the room that they
 * have in common is the place, and no sweep is needed. False: one is outside.
 */
static bool common_room(const struct solve *s, int64_t d, struct solve_place *room)
{
	*room = (struct solve_place){ .from = INT64_MIN, .to = INT64_MAX };
	for (size_t i = 0; i < s->nev; i++) {
		const struct solve_vcpu *v = &s->v[s->ev[i].v];
		int64_t g = s->ev[i].g;
		size_t w = MIN(solve_window_at(s, v, g - d), v->w.n - 1);
		bool early = solve_h(s, v->w.v[w].from) > g - d,
		     late = solve_h(s, v->w.v[w].to) < g - d;

		if (early && w)
			return false; /* in a gap, not before everything known */
		/* An unknown event may come into the nearest window, but not out of it. */
		if (!late)
			room->from = MAX(room->from, g - solve_h(s, v->w.v[w].to));
		if (!early)
			room->to = MIN(room->to, g - solve_h(s, v->w.v[w].from));
		room->inside += !early && !late;
	}
	room->score = (int64_t)room->inside;
	return true;
}

/* ---- cells ---- */

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
		enum solve_fit fit;
		const struct solve_vcpu *v = &s->v[s->ev[i].v];
		int64_t from = s->ev[i].g - (c->to - 1);
		int64_t to = s->ev[i].g - c->from;
		size_t w = solve_window_at(s, v, from);

		/* The best that the event can be for a candidate of the cell. */
		if (w >= v->w.n || to < solve_h(s, v->w.v[0].from))
			fit = SOLVE_UNKNOWN;
		else
			fit = solve_h(s, v->w.v[w].from) <= to || from < solve_h(s, v->w.v[0].from)
				      ? SOLVE_INSIDE
				      : SOLVE_OUTSIDE;
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
	array_sort(s->cell, s->ncell, cell_cmp);
	for (size_t i = 0; i < s->ncell; i++) {
		struct solve_cell *c = n ? &s->cell[n - 1] : NULL;

		if (c && c->to == s->cell[i].from && s->cell[i].to - c->from <= most * s->fine) {
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
	return p->inside >= SOLVE_MIN_EVENTS && p->outside <= p->inside;
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

COMPARE_BY(by_place, struct solve_place, .from);

/* Other places that contradict no more and are based on as much: as good as the best. */
static uint64_t count_equal(const struct solve *s, struct solve_place *p, size_t n,
			    const struct solve_place *best)
{
	const struct solve_place *last = NULL;
	uint64_t count = 0;

	array_sort(p, n, by_place);
	for (size_t i = 0; i < n; i++) {
		if (!worth(&p[i]) || p[i].outside > best->outside ||
		    p[i].inside < best->inside / 2 || same_place(s, &p[i], best))
			continue;
		count += !last || !same_place(s, &p[i], last);
		last = &p[i];
	}
	return count;
}

COMPARE(by_score, struct solve_place *, ORDER((*y)->score, (*x)->score) ?: by_place(*x, *y));

/*
 * The exact places of all cells: with a part of the events if there are many cells, then the best
 * ones with all. p has room for one per cell.
 */
static int sweep_cells(struct solve *s, struct solve_place *p)
{
	_cleanup_free_ struct solve_place **order = xcalloc(s->ncell + 1, sizeof(*order));
	size_t some = MIN((size_t)SWEEP_EVENTS / s->ncell, (size_t)SWEEP_MOST);
	int ret = 0;

	for (size_t i = 0; i < s->ncell && !ret; i++) {
		order[i] = &p[i];
		ret = solve_sweep(s, &s->cell[i], some, &p[i]);
	}
	if (ret || some >= s->nev)
		return ret;
	array_sort(order, s->ncell, by_score);
	for (size_t i = 0; i < s->ncell && !ret; i++) {
		if (i < MAX_FULL) {
			struct solve_place *best = order[i];
			struct solve_place room;

			/* With all events, in the cell where some have the place *best. */
			if (!solve_spend(s, s->nev * LOOK_WORK)) {
				ret = -ETIME;
			} else if (best->score == INT64_MIN || best->outside ||
				   !common_room(s, best->from + (best->to - best->from) / 2,
						&room)) {
				ret = solve_sweep(s, &s->cell[order[i] - p], s->nev, best);
			} else {
				room.low = best->low < best->from ? best->low : room.from;
				room.high = best->high > best->to ? best->high : room.to;
				*best = room;
				ret = 0;
			}
		} else {
			order[i]->score = INT64_MIN;
		}
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
 * The value of the vCPU's events being in windows, and how many such events and windows there are.
 * Consecutive events in one window say the same about an offset.
 */
static uint64_t count_bits(const struct solve *s, const struct solve_vcpu *v, uint64_t offset,
			   uint64_t *hits, uint64_t *wrong)
{
	size_t before = SIZE_MAX;
	uint64_t bits = 0;

	*hits = *wrong = 0;
	for (size_t i = 0; i < v->ne; i++) {
		int64_t h = solve_h(s, v->e[i] - offset);
		size_t w = solve_window_at(s, v, h);

		if (w >= v->w.n || h < solve_h(s, v->w.v[0].from))
			continue;
		if (solve_h(s, v->w.v[w].from) > h) {
			++*wrong;
		} else if (w != before) {
			size_t from, to;
			uint64_t in, all;

			++*hits;
			/*
			 * How unexpected it is that an event of this window is in one: in 2^-8
			 * bits, by how much of the time around it the vCPU was in its guest. A
			 * wrong offset may put all events into a time when the vCPU hardly left it.
			 */
			from = w > AROUND ? w - AROUND : 0;
			to = MIN(w + AROUND, v->w.n - 1);
			in = 0;
			all = v->w.v[to].to - v->w.v[from].from + 1;
			for (size_t k = from; k <= to; k++)
				in += v->w.v[k].to - v->w.v[k].from + 1;
			bits += log2_8(all) - log2_8(in);
		}
		before = w;
	}
	return bits;
}

/* Could events of another VM or time fit as well somewhere? */
static bool is_chance(const struct solve *s, const struct solve_result *r)
{
	uint64_t gain = 0,
		 cost = log2_8((uint64_t)((s->hi - s->lo) / s->fine) + 1) + CHANCE_BITS * 256;

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

int solve_cells(struct solve *s, struct solve_result *r)
{
	struct solve_place best = { .score = INT64_MIN }, next = { .score = INT64_MIN };
	_cleanup_free_ struct solve_place *p = NULL;
	int ret = narrow(s);
	uint64_t base;

	if (ret || !s->ncell)
		return ret;
	p = xcalloc(s->ncell, sizeof(*p));
	ret = sweep_cells(s, p);
	for (size_t i = 0; i < s->ncell && !ret; i++)
		take_place(s, &p[i], &best, &next);
	if (ret || best.score == INT64_MIN)
		return ret;
	r->equal = count_equal(s, p, s->ncell, &best);
	base = s->g0 - s->h0;
	r->found = true;
	r->offset_lo = base + (uint64_t)best.low;
	r->offset_hi = base + (uint64_t)best.high;
	r->offset = base + (uint64_t)(best.from + (best.to - best.from) / 2);
	r->inside = best.inside;
	r->outside = best.outside;
	r->has_next = next.score != INT64_MIN;
	r->next_distance = next.from - best.from;
	r->next_inside = next.inside;
	r->next_outside = next.outside;
	r->found = !is_chance(s, r);
	return r->found ? 0 : -EDOM;
}
