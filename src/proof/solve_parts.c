/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_parts.c: one vCPU whose offset changed while it was recorded. Its events are in order, so
 * an offset is right for a stretch of them. A stretch that no offset fits is halved; if part of it
 * is fitted, what is before and after that part is searched again. In the end each part is extended
 * as far as its offset is right, and parts must also follow each other on the host.
 */
#include "solve.h"

#define PART_MIN  48 /* events that distinguish an offset from an accident */
#define MAX_DEPTH 12
#define ABSENT_MIN 8 /* events of which at least one should be where the vCPU ran */
#define RUNS	  6 /* halves and quarters, ... */
#define RUNS_MORE 6 /* ... and this many more for each part that is found */

struct parts {
	const struct solve *s;
	struct solve *run; /* the same, to be searched */
	const struct solve_vcpu *v;
	struct solve_part *p; /* by event */
	size_t n;
	unsigned int runs; /* attempts left: searches take time, and a wrong pair has no parts */
};

static enum solve_fit fit(const struct parts *x, size_t event, uint64_t offset)
{
	return solve_fits(x->s, x->v, x->v->e[event], offset);
}

/* Wrong ones are few. */
static bool mostly(uint64_t outside, uint64_t inside)
{
	return outside <= inside / 16;
}

/* Host time of an event of that part, in guest cycles, counted from the first window. */
static int64_t host_of(const struct parts *x, const struct solve_part *p, size_t event)
{
	return (int64_t)(x->v->e[event] - p->r.offset - x->v->w.v[0].from);
}

/*
 * Could events before those that a part fits, from first on, have a place of their own? The vCPU
 * ran before it while nothing of the guest is placed there.
 */
static bool room_before(const struct parts *x, const struct solve_part *p, size_t first)
{
	int64_t h = solve_h(x->s, x->v->e[p->first] - p->r.offset);

	return p->first - first >= PART_MIN && solve_window_at(x->s, x->v, h) >= PART_MIN;
}

/* The same behind it. */
static bool room_behind(const struct parts *x, const struct solve_part *p, size_t last)
{
	int64_t h = solve_h(x->s, x->v->e[p->last - 1] - p->r.offset);

	return last - p->last >= PART_MIN && solve_window_at(x->s, x->v, h) + PART_MIN < x->v->w.n;
}

/*
 * The stretch of [first, last) that the offset fits best. Events beyond it are also inside now and
 * then, so one that is outside outweighs several that are not.
 */
static void served(const struct parts *x, uint64_t offset, size_t *first, size_t *last)
{
	int64_t sum = 0, best = 0;
	size_t from = *first, best_from = *first, best_to = *first;

	for (size_t i = *first; i < *last; i++) {
		enum solve_fit f = fit(x, i, offset);

		sum += f == SOLVE_INSIDE ? 1 : f == SOLVE_OUTSIDE ? -16 : 0;
		if (sum <= 0) {
			sum = 0;
			from = i + 1;
		} else if (sum > best) {
			best = sum;
			best_from = from;
			best_to = i + 1;
		}
	}
	*first = best_from;
	*last = best_to;
}

static void part_add(struct parts *x, size_t first, size_t last, const struct solve_result *r)
{
	size_t i = x->n++;

	for (; i && x->p[i - 1].first > first; i--)
		x->p[i] = x->p[i - 1];
	x->p[i] = (struct solve_part){ .first = first, .last = last, .r = *r };
}

static int parts_find(struct parts *x, size_t first, size_t last, unsigned int depth);

/*
 * Events that do not belong to the part influenced its offset: those that are inside of it by
 * accident move it a little. It is searched again with only the events of the part, and without
 * those near a border, which is not yet known to the event.
 */
static int purify(struct parts *x, struct solve_part *p, size_t first, size_t last)
{
	size_t margin = (p->last - p->first) / 8;
	size_t from = p->first > first ? p->first + margin : first,
	       to = p->last < last ? p->last - margin : last;
	int ret;

	if (to - from < PART_MIN)
		return 0;
	ret = solve_run_range(x->run, x->v->id, from, to, &p->r);
	p->first = first;
	p->last = last;
	if (!ret && p->r.found && !p->r.equal && mostly(p->r.outside, p->r.inside))
		served(x, p->r.offset, &p->first, &p->last);
	else
		p->last = first;
	return ret;
}

static int parts_rest(struct parts *x, size_t first, size_t last, const struct solve_result *r,
		      unsigned int depth)
{
	struct solve_part p = { .first = first, .last = last, .r = *r };
	int ret = 0;

	served(x, r->offset, &p.first, &p.last);
	if (p.first < p.last && r->outside)
		ret = purify(x, &p, first, last);
	if (ret || p.first == p.last)
		return ret;
	part_add(x, p.first, p.last, &p.r);
	x->runs += RUNS_MORE;
	if (room_before(x, &p, first))
		ret = parts_find(x, first, p.first, depth);
	if (!ret && room_behind(x, &p, last))
		ret = parts_find(x, p.last, last, depth);
	return ret;
}

/* Where to cut: at a pause of half the stretch, when the TSC may have moved; or in the middle. */
static size_t cut_of(const struct parts *x, size_t first, size_t last)
{
	uint64_t span = x->v->e[last - 1] - x->v->e[first];

	for (size_t i = first + PART_MIN; i + PART_MIN <= last; i++)
		if (x->v->e[i] - x->v->e[i - 1] > span / 2)
			return i;
	return first + (last - first) / 2;
}

static int parts_find(struct parts *x, size_t first, size_t last, unsigned int depth)
{
	struct solve_result r;
	size_t mid;
	int ret;

	if (last - first < PART_MIN || depth > MAX_DEPTH || x->n == SOLVE_PARTS || !x->runs)
		return 0;
	x->runs--;
	ret = solve_run_range(x->run, x->v->id, first, last, &r);
	if (ret)
		return ret;
	if (r.found && mostly(r.outside, r.inside) && !r.equal && r.inside >= PART_MIN)
		return parts_rest(x, first, last, &r, depth + 1);
	mid = cut_of(x, first, last);
	ret = parts_find(x, first, mid, depth + 1);
	return ret ?: parts_find(x, mid, last, depth + 1);
}

/* Does the offset put no event of that stretch outside? */
static bool serves_all(const struct parts *x, size_t first, size_t last, uint64_t offset)
{
	for (size_t i = first; i < last; i++)
		if (fit(x, i, offset) == SOLVE_OUTSIDE)
			return false;
	return true;
}

/* Halves of what is really one. */
static bool join(const struct parts *x, struct solve_part *a, const struct solve_part *b)
{
	uint64_t base = a->r.offset_lo;
	int64_t lo = (int64_t)(b->r.offset_lo - base), hi = (int64_t)(b->r.offset_hi - base);
	uint64_t middle;

	lo = MAX(lo, 0);
	hi = MIN(hi, (int64_t)(a->r.offset_hi - base));
	if (lo > hi)
		return false;
	a->r.offset_lo = base + (uint64_t)lo;
	a->r.offset_hi = base + (uint64_t)hi;
	middle = base + (uint64_t)(lo + (hi - lo) / 2);
	if (serves_all(x, a->first, b->last, middle)) /* not all between both need to */
		a->r.offset = middle;
	else if (!serves_all(x, a->first, b->last, a->r.offset))
		a->r.offset = b->r.offset;
	a->last = b->last;
	return true;
}

static void drop(struct parts *x, size_t i)
{
	memmove(&x->p[i], &x->p[i + 1], (x->n - i - 1) * sizeof(*x->p));
	x->n--;
}

static void parts_join(struct parts *x)
{
	for (size_t i = 1; i < x->n;)
		if (join(x, &x->p[i - 1], &x->p[i]))
			drop(x, i);
		else
			i++;
}

static bool in_order(const struct parts *x, const struct solve_part *a, const struct solve_part *b)
{
	return host_of(x, b, b->first) > host_of(x, a, a->last - 1);
}

/*
 * Time goes on. If two parts are in another order on the host, the last events of the first one or
 * the first ones of the other are inside by accident, at most an eighth of one.
 */
static bool trim(const struct parts *x, struct solve_part *a, struct solve_part *b)
{
	size_t last = a->last - (a->last - a->first) / 8,
	       first = b->first + (b->last - b->first) / 8;

	while (!in_order(x, a, b) && a->last > last)
		a->last--;
	while (!in_order(x, a, b) && b->first < first)
		b->first++;
	return in_order(x, a, b);
}

/* ... or all of the smaller one. */
static void parts_order(struct parts *x)
{
	for (size_t i = 1; i < x->n;) {
		struct solve_part *a = &x->p[i - 1], *b = &x->p[i];

		if (trim(x, a, b)) {
			i++;
			continue;
		}
		drop(x, a->last - a->first < b->last - b->first ? i - 1 : i);
		i = i > 1 ? i - 1 : 1;
	}
}

/* How far the offset is right, from an event of the part backwards and forwards. */
static size_t reach_back(const struct parts *x, const struct solve_part *p, size_t least)
{
	size_t i = p->first;

	while (i > least && fit(x, i - 1, p->r.offset) == SOLVE_INSIDE)
		i--;
	return i;
}

static size_t reach_on(const struct parts *x, const struct solve_part *p, size_t most)
{
	size_t i = p->last;

	while (i < most && fit(x, i, p->r.offset) == SOLVE_INSIDE)
		i++;
	return i;
}

/*
 * Where one part ends and the next begins. For events that both offsets would fit, the order on the
 * host decides: time goes on from the last event of the one to the first of the other. Else each
 * keeps what it has.
 */
static void set_border(const struct parts *x, struct solve_part *a, struct solve_part *b)
{
	size_t from = reach_back(x, b, a->first + 1), to = reach_on(x, a, b->last - 1);

	if (from > to) { /* events that neither fits */
		a->last = to;
		b->first = from;
		return;
	}
	for (size_t i = from; i <= to; i++)
		if (host_of(x, a, i - 1) < host_of(x, b, i)) {
			a->last = b->first = i;
			return;
		}
}

/* Each reaches to the next one, as far as its offset is right. */
static void parts_extend(struct parts *x)
{
	if (!x->n)
		return;
	x->p[0].first = reach_back(x, &x->p[0], 0);
	x->p[x->n - 1].last = reach_on(x, &x->p[x->n - 1], x->v->ne);
	for (size_t i = 1; i < x->n; i++)
		set_border(x, &x->p[i - 1], &x->p[i]);
}

static uint64_t host_tsc(const struct parts *x, const struct solve_part *p, size_t event)
{
	uint64_t lo = 0, hi;

	return tsc_to_host(&x->s->map, x->v->e[event] - p->r.offset, &lo, &hi) ? 0 : lo;
}

static void parts_count(struct parts *x)
{
	for (size_t i = 0; i < x->n; i++) {
		struct solve_part *p = &x->p[i];

		p->r.inside = p->r.outside = 0;
		p->r.events = p->last - p->first;
		for (size_t k = p->first; k < p->last; k++) {
			enum solve_fit f = fit(x, k, p->r.offset);

			p->r.inside += f == SOLVE_INSIDE;
			p->r.outside += f == SOLVE_OUTSIDE;
		}
		p->host_first = host_tsc(x, p, p->first);
		p->host_last = host_tsc(x, p, p->last - 1);
	}
}

bool solve_leaves(const struct solve *s, uint32_t vcpu, const struct solve_result *r)
{
	struct parts x = { .s = s, .v = solve_find(s, vcpu) };
	struct solve_part p = { .r = *r };

	if (!x.v || !x.v->w.n || !x.v->ne)
		return false;
	p.last = x.v->ne;
	served(&x, r->offset, &p.first, &p.last);
	if (p.first == p.last)
		return true;
	return room_before(&x, &p, 0) || room_behind(&x, &p, x.v->ne);
}

struct solve_span solve_span_of(const struct solve *s, const struct solve_result *r)
{
	struct solve_span span = { .from = INT64_MAX, .to = INT64_MIN };

	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; k < s->v[i].ne; k++) {
			int64_t h = solve_h(s, s->v[i].e[k] - r->offset);

			if (solve_fits(s, &s->v[i], s->v[i].e[k], r->offset) != SOLVE_INSIDE)
				continue;
			span.from = MIN(span.from, h);
			span.to = MAX(span.to, h);
		}
	return span;
}

uint64_t solve_absent(const struct solve *s, size_t i, const struct solve_result *r,
		      const struct solve_span *span)
{
	const struct solve_vcpu *v = &s->v[i];
	uint64_t inside, outside;

	solve_count(s, i, r, &inside, &outside);
	if (!v->w.n || v->ne < ABSENT_MIN || inside || outside || span->from > span->to)
		return 0;
	return solve_window_at(s, v, span->to) - solve_window_at(s, v, span->from) >= PART_MIN
		       ? v->ne
		       : 0;
}

/* Events between parts, and those before and after them that they leave in known time. */
static uint64_t parts_left(const struct parts *x)
{
	uint64_t left = 0;

	for (size_t i = 1; i < x->n; i++)
		left += x->p[i].first - x->p[i - 1].last;
	for (size_t k = 0; x->n && k < x->p[0].first; k++)
		left += fit(x, k, x->p[0].r.offset) != SOLVE_UNKNOWN;
	for (size_t k = x->n ? x->p[x->n - 1].last : x->v->ne; k < x->v->ne; k++)
		left += fit(x, k, x->p[x->n - 1].r.offset) != SOLVE_UNKNOWN;
	return left;
}

/* Does another vCPU have events, but none between those two? */
static bool alone(const struct solve *s, const struct solve_vcpu *v, uint64_t from, uint64_t to)
{
	size_t others = 0;

	for (size_t i = 0; i < s->nv; i++) {
		const struct solve_vcpu *o = &s->v[i];

		for (size_t k = 0; o != v && k < o->ne; k++, others++)
			if (o->e[k] - from <= to - from)
				return false;
	}
	return others >= PART_MIN;
}

size_t solve_strays(const struct solve *s, uint32_t vcpu, const struct solve_part *p)
{
	struct parts x = { .s = s, .v = solve_find(s, vcpu) };
	const uint64_t *e = x.v->e;
	size_t strays = 0;

	if (room_before(&x, p, 0) && alone(s, x.v, e[0], e[p->first - 1]))
		strays += p->first;
	if (room_behind(&x, p, x.v->ne) && alone(s, x.v, e[p->last], e[x.v->ne - 1]))
		strays += x.v->ne - p->last;
	return strays;
}

int solve_run_parts(struct solve *s, uint32_t vcpu, struct solve_part part[SOLVE_PARTS], size_t *n,
		    uint64_t *left)
{
	struct parts x = {
		.s = s, .run = s, .v = solve_find(s, vcpu), .p = part, .runs = RUNS + 1
	};
	int ret;

	*n = *left = 0;
	if (!x.v || !x.v->w.n)
		return 0;
	ret = parts_find(&x, 0, x.v->ne, 0);
	if (ret)
		return ret;
	parts_join(&x);
	parts_order(&x);
	parts_join(&x);
	parts_extend(&x);
	parts_count(&x);
	*n = x.n;
	*left = parts_left(&x);
	return 0;
}
