/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_sweep.c: the exact search within one stretch of candidates. As d grows, each event moves
 * back in host time and enters or leaves windows; between two such moments nothing changes. So all
 * those moments, in order, with a running score, find the best stretch to the cycle.
 */
#include "solve.h"

#define LOOK_WORK 20  /* looking up an event's window */
#define TURN_WORK 100 /* ... and sorting what follows from it */

struct turn {
	int64_t d; /* from this candidate on ... */
	int32_t inside, outside; /* ... the counts differ by this */
};

struct turns {
	struct turn *v;
	size_t n, cap;
};

size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h)
{
	return COUNT_BEFORE(i, v->w.n, solve_h(s, v->w.v[i].to) < h);
}

static int turn_add(struct turns *t, int64_t d, int inside, int outside)
{
	struct turn *x = array_grow(&t->v, t->n, &t->cap, sizeof(*x));

	if (!x)
		return -ENOMEM;
	*x = (struct turn){ .d = d, .inside = inside, .outside = outside };
	t->n++;
	return 0;
}

/* The event is inside for d in [from, to], both cut to the cell. */
static int add_inside(struct turns *t, const struct solve_cell *c, int64_t from, int64_t to)
{
	from = MAX(from, c->from);
	to = MIN(to, c->to - 1);
	if (from > to)
		return 0;
	return turn_add(t, from, 1, -1) || turn_add(t, to + 1, -1, 1) ? -ENOMEM : 0;
}

static int event_turns(struct solve *s, const struct solve_event *e, const struct solve_cell *c,
		       struct turns *t)
{
	const struct solve_vcpu *v = &s->v[e->v];
	int64_t first = solve_h(s, v->w.v[0].from), last = solve_h(s, v->w.v[v->w.n - 1].to);
	int64_t from = MAX(c->from, e->g - last), to = MIN(c->to - 1, e->g - first);
	int ret;

	if (from > to)
		return 0; /* never within the time known of this vCPU */
	ret = turn_add(t, from, 0, 1) || turn_add(t, to + 1, 0, -1) ? -ENOMEM : 0;
	for (size_t i = solve_window_at(s, v, e->g - c->to + 1); i < v->w.n && !ret; i++) {
		int64_t h = solve_h(s, v->w.v[i].from);

		if (e->g - h < c->from)
			break;
		ret = add_inside(t, c, e->g - solve_h(s, v->w.v[i].to), e->g - h);
		if (!solve_spend(s, TURN_WORK))
			ret = -ETIME;
	}
	return ret;
}

void solve_place_add(struct solve_place *best, const struct solve_place *p)
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

/* The stretch from cur->from to `to` is at least as good as the best so far. */
static void take_stretch(struct solve_place *best, struct solve_place *cur, int64_t to)
{
	cur->to = cur->high = to;
	solve_place_add(best, cur);
}

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
		if (open)
			take_stretch(best, &cur, d - 1);
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
		qsort(t.v, t.n, sizeof(*t.v), turn_cmp);
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

int solve_settle(struct solve *s, const struct solve_cell *c, struct solve_place *best)
{
	struct solve_place room;

	if (!solve_spend(s, s->nev * LOOK_WORK))
		return -ETIME;
	if (best->score == INT64_MIN || best->outside ||
	    !common_room(s, best->from + (best->to - best->from) / 2, &room))
		return solve_sweep(s, c, s->nev, best);
	room.low = best->low < best->from ? best->low : room.from;
	room.high = best->high > best->to ? best->high : room.to;
	*best = room;
	return 0;
}
