/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: states the problem and runs the search: the grid (solve_grid.c), then the places in the
 * cells that it left (solve_places.c).
 *
 * An offset is a number of guest cycles, so host times are scaled first: what remains to be found
 * is a plain difference, d. Captures must overlap by an eighth of the shorter one; the candidates
 * follow from that.
 */
#include "solve.h"

#define LEAST_OVERLAP 8 /* captures overlap by at least this part of the shorter one */
#define MIN_PAIRS     4
#define MANY_PAIRS    64
#define LEFT_MIN      48	/* events that are no accident, windows in which some should be */
#define ABSENT_MIN    8		/* events of which at least one should be where the vCPU ran */
#define PAIR_LATE     (1 << 24) /* cycles, some ms: of several pairs one is closer than that ... */
#define MANY_LATE     (1 << 21) /* ... and of many, closer than that */

/*
 * Pairs that count: their number, and the smallest of their differences. Offsets may be anywhere in
 * 64 bits, but are all close to each other.
 */
static uint64_t pairs_least(const struct solve_vcpu *v, int64_t *least)
{
	uint64_t n = 0;

	for (size_t i = 0; i < v->np; i++) {
		if (!n || (int64_t)((uint64_t)v->p[i].later - (uint64_t)*least) < 0)
			*least = v->p[i].later;
		n++;
	}
	return n;
}

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

	s->g0 = UINT64_MAX;
	s->nev = 0;
	for (size_t i = 0; i < s->nv; i++) {
		s->v[i].taken = solve_takes(s, &s->v[i]) ? s->v[i].ne : 0;
		for (size_t k = 0; k < s->v[i].taken; k++) {
			s->g0 = MIN(s->g0, s->v[i].e[k]);
			latest = MAX(latest, s->v[i].e[k]);
		}
	}
	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; k < s->v[i].taken; k++)
			s->ev[s->nev++] =
				(struct solve_event){ .g = (int64_t)(s->v[i].e[k] - s->g0),
						      .v = (uint32_t)i };
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
	if (s->nev < SOLVE_MIN_EVENTS)
		return "the guest capture has too few events of vCPUs that are in the host capture";
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

		if ((s->only != SOLVE_ALL && s->only != (int64_t)v->id) || !pairs_least(v, &least))
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
		uint64_t more = solve_takes(s, &s->v[i]) ? pairs_least(&s->v[i], &d) : 0;

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

static int solve_once(struct solve *s, struct solve_result *r)
{
	int ret;

	r->span = (uint64_t)(s->hi - s->lo);
	r->equal = 0;
	ret = solve_grid(s);
	return ret ?: solve_cells(s, r);
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
		*r = (struct solve_result){ .events = r->events,
					    .has_most = r->has_most,
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

int solve_run(struct solve *s, int64_t vcpu, struct solve_result *r)
{
	int ret;

	s->only = vcpu;
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
		r->why = "the vCPUs never left their guest: the windows exclude no offset";
	else if (ret == -E2BIG)
		r->why = "too many offsets fit: record longer";
	else if (ret == -EDOM)
		r->why = "an offset fits, but that may be chance: record longer";
	else if (ret == -ETIME)
		r->why = "too many offsets nearly fit: the search reached its limit";
	else if (!ret && !r->found)
		r->why =
			"no offset puts the guest's events into the windows: another VM, another ratio "
			"(--tsc-ratio), or captures of different times";
	return r->why ? 0 : ret;
}

size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h)
{
	return COUNT_BEFORE(i, v->w.n, solve_h(s, v->w.v[i].to) < h);
}

/* The state of an event at guest TSC `guest` with that offset. */
static enum solve_fit fit(const struct solve *s, const struct solve_vcpu *v, uint64_t guest,
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
		enum solve_fit f = fit(s, v, v->e[k], r->offset);

		*inside += f == SOLVE_INSIDE;
		*outside += f == SOLVE_OUTSIDE;
	}
}

/*
 * The stretch of the vCPU's events that the offset fits best. Events beyond it are also inside now
 * and then, so one that is outside outweighs several that are not.
 */
static void served(const struct solve *s, const struct solve_vcpu *v, uint64_t offset,
		   size_t *first, size_t *last)
{
	int64_t sum = 0, best = 0;
	size_t from = 0;

	*first = *last = 0;
	for (size_t i = 0; i < v->ne; i++) {
		enum solve_fit f = fit(s, v, v->e[i], offset);

		sum += f == SOLVE_INSIDE ? 1 : f == SOLVE_OUTSIDE ? -16 : 0;
		if (sum <= 0) {
			sum = 0;
			from = i + 1;
		} else if (sum > best) {
			best = sum;
			*first = from;
			*last = i + 1;
		}
	}
}

uint64_t solve_leaves(const struct solve *s, size_t i, const struct solve_result *r)
{
	const struct solve_vcpu *v = &s->v[i];
	size_t first, last;
	uint64_t left = 0;

	if (!v->w.n || !v->ne)
		return 0;
	served(s, v, r->offset, &first, &last);
	if (first == last)
		return v->ne;
	if (first >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[first] - r->offset)) >= LEFT_MIN)
		left = first;
	if (v->ne - last >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[last - 1] - r->offset)) + LEFT_MIN < v->w.n)
		left += v->ne - last;
	return left;
}

struct solve_span solve_span_of(const struct solve *s, const struct solve_result *r)
{
	struct solve_span span = { .from = INT64_MAX, .to = INT64_MIN };

	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; k < s->v[i].ne; k++) {
			int64_t h = solve_h(s, s->v[i].e[k] - r->offset);

			if (fit(s, &s->v[i], s->v[i].e[k], r->offset) != SOLVE_INSIDE)
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
	return solve_window_at(s, v, span->to) - solve_window_at(s, v, span->from) >= LEFT_MIN
		       ? v->ne
		       : 0;
}
