/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: states the problem and runs the search: the grid, then the places in the cells that it
 * left (solve_places.c).
 *
 * An offset is a number of guest cycles, so host times are scaled first: what remains to be found
 * is a plain difference, d. Captures must overlap by an eighth of the shorter one; the candidates
 * follow from that.
 */
#include "solve.h"

/*
 * The coarse search, over all possible offsets.
 *
 * Host time is cut into cells of a power of two cycles. Per vCPU one bit per cell says whether the
 * guest may have run in it or in the cell before. For one event, the offsets (in cells) that do not
 * contradict it are then that row of bits, shifted by the event's time: 64 offsets with one
 * operation. Each offset has a counter of contradictions in four bit planes and is dropped at 16.
 * So many events are tested that a wrong offset contradicts about 64 of them: by chance one of
 * 10^11 wrong offsets remains, and a right one remains even if a quarter as many events are wrong
 * as a wrong one would make.
 */

#define BLOCK	   512		/* words of 64 candidates at once: they stay in the L1 cache */
#define MAX_BITS   (1ull << 27) /* cells of host time or of offsets */
#define MAX_ROWS   8		/* vCPUs whose windows are looked at here, ... */
#define ROW_BITS   (1ull << 29) /* ... if that takes no more memory */
#define MAX_SHIFT  30
#define MANY_CELLS (1u << 17)
#define MAX_CELLS  (1u << 21)
#define FEW_CELLS  256 /* they are not searched again, in cells smaller by ... */
#define FINER	   6   /* ... so many bits, ... */
#define FINE	   8   /* ... down to this part of the mean window */
#define WORD_WORK  3
#define FETCH_WORK 20

/* What remains visible of gaps between windows in cells of 2^n cycles. */
struct gaps {
	uint64_t count[64], sum[64]; /* by the gap's highest bit */
	uint64_t known;		     /* time from the first window to the end of the last */
};

struct row {
	uint64_t *bit; /* reversed: bit 64 + n - 1 - b is that of cell b; with ones before and
		        * after */
	int64_t n, words;
};

struct planes {
	uint64_t m[4][BLOCK], dead[BLOCK];
};

/* ---- how fine the grid has to be ---- */

/* Share of the known time, 2^-SHARE_BITS, in which cells of 2^shift cycles are seen to be empty. */
static uint64_t seen_empty(const struct gaps *g, unsigned int shift)
{
	uint64_t empty = 0;

	for (unsigned int b = shift ? shift + 2 : 0; b < 64; b++)
		empty += g->sum[b] - g->count[b] * (shift ? 3ull << shift : 0);
	return (uint64_t)(((unsigned __int128)empty << SHARE_BITS) / g->known);
}

/*
 * The same for all vCPUs, weighted by their events: the share of events that show that a wrong
 * offset is wrong.
 */
static uint64_t all_empty(const struct solve *s, const struct gaps *g, unsigned int shift)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < s->nv; i++)
		if (g[i].known)
			sum += (unsigned __int128)seen_empty(&g[i], shift) * s->v[i].taken;
	return (uint64_t)(sum / MAX(s->nev, (size_t)1));
}

/*
 * The largest cells that still show half of all gaps, and enough of them; -1: there are no gaps.
 * s->least: the smallest that are of use; they take not too much memory.
 */
static int pick_shift(struct solve *s, const struct gaps *g)
{
	uint64_t span = MAX(s->hspan, (uint64_t)(s->hi - s->lo)), all = all_empty(s, g, 0);
	uint64_t in = 0, n = 1;
	unsigned int shift = MAX_SHIFT, least = 0;

	while (span >> least > MAX_BITS)
		least++;
	while (shift > least && (all_empty(s, g, shift) * 2 < all ||
				 all_empty(s, g, shift) * s->nev < 64ull << SHARE_BITS))
		shift--;
	shift = MAX(shift, least);
	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; s->v[i].taken && k < s->v[i].w.n; k++, n++)
			in += s->v[i].w.v[k].to - s->v[i].w.v[k].from;
	for (s->least = 0; s->hspan >> s->least > ROW_BITS || in / n >> s->least > FINE;)
		s->least++;
	s->share = all_empty(s, g, shift);
	return s->share ? (int)shift : -1;
}

/* ---- rows: where the guest may have run ---- */

static void set_bits(uint64_t *bit, int64_t from, int64_t to)
{
	for (int64_t b = from; b <= to; b++) {
		if (!(b & 63) && to - b >= 63) {
			bit[b >> 6] = ~0ull;
			b += 63;
		} else {
			bit[b >> 6] |= 1ull << (b & 63);
		}
	}
}

/* Cells from..to of the row, as far as there are such. */
static void set_cells(struct row *r, int64_t from, int64_t to)
{
	from = MAX(from, 0);
	to = MIN(to, r->n - 1);
	if (from <= to)
		set_bits(r->bit, 64 + r->n - 1 - to, 64 + r->n - 1 - from);
}

static int make_row(struct solve *s, const struct solve_vcpu *v, unsigned int shift, struct row *r)
{
	int64_t first = solve_h(s, v->w.v[0].from) >> shift;
	int64_t last = solve_h(s, v->w.v[v->w.n - 1].to) >> shift;

	r->n = (int64_t)(s->hspan >> shift) + 2;
	r->words = r->n / 64 + 3;
	r->bit = xcalloc((size_t)r->words, sizeof(*r->bit));
	set_bits(r->bit, 0, 63);
	set_bits(r->bit, 64 + r->n, r->words * 64 - 1);
	/* Nothing is known about a vCPU before its first entry and after its last exit. */
	set_cells(r, 0, first);
	set_cells(r, last, r->n - 1);
	for (size_t i = 0; i < v->w.n; i++)
		set_cells(r, solve_h(s, v->w.v[i].from) >> shift,
			  (solve_h(s, v->w.v[i].to) >> shift) + 1);
	return solve_spend(s, v->w.n * 8 + (uint64_t)r->words) ? 0 : -ETIME;
}

/* ---- events against candidates ---- */

/* 64 * 8 candidates at once: compilers vectorize the inner loops. */
static inline void test_words(struct planes *p, const uint64_t *row, unsigned int s, size_t at)
{
	uint64_t carry[8], next;

	for (int i = 0; i < 8; i++)
		carry[i] =
			~(row[i] >> s | (row[i + 1] << 1) << (63 - s)) & ~p->dead[at + (size_t)i];
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < 8; i++) {
			next = p->m[k][at + (size_t)i] & carry[i];
			p->m[k][at + (size_t)i] ^= carry[i];
			carry[i] = next;
		}
	for (int i = 0; i < 8; i++)
		p->dead[at + (size_t)i] |= carry[i];
}

/* Candidate i of the block reads bit pos + i of the row; outside the row everything is possible. */
static void test_event(struct planes *p, const struct row *r, int64_t pos, size_t words)
{
	int64_t w = (pos + 64) >> 6, from = w < 0 ? (-w + 7) & ~7ll : 0;
	int64_t to = MIN((int64_t)words, r->words - 1 - w);
	unsigned int s = (unsigned int)((pos + 64) & 63);
	uint64_t edge[9];

	if (w < 0 && from > 0)
		from -= 8; /* the words before the row's first are ones */
	for (int64_t i = from; i < to; i += 8) {
		const uint64_t *row = r->bit + w + i;

		if (w + i < 0 || w + i + 9 > r->words) {
			for (int64_t k = 0; k < 9; k++)
				edge[k] = w + i + k >= 0 && w + i + k < r->words ? row[k] : ~0ull;
			row = edge;
		}
		test_words(p, row, s, (size_t)i);
	}
}

static bool all_dead(const struct planes *p, size_t words)
{
	uint64_t alive = 0;

	for (size_t i = 0; i < words; i++)
		alive |= ~p->dead[i];
	return !alive;
}

static int keep_cells(struct solve *s, const struct planes *p, int64_t first, size_t words,
		      unsigned int shift)
{
	for (size_t i = 0; i < words * 64; i++) {
		struct solve_cell *c;
		int64_t from = s->lo + ((first + (int64_t)i) << shift);
		uint64_t out = 0;

		if (p->dead[i / 64] >> (i % 64) & 1)
			continue;
		if (s->ncell >= s->most)
			return -E2BIG;
		for (int k = 0; k < 4; k++)
			out |= (p->m[k][i / 64] >> (i % 64) & 1) << k;
		c = xarray_grow(&s->cell, s->ncell, &s->cellcap, sizeof(*c));
		*c = (struct solve_cell){ .from = from,
					  .to = from + (1ll << shift),
					  .outside = out };
		s->ncell++;
	}
	return 0;
}

/* A block of `cells` candidates against up to `tests` events; row[] by index of the vCPU. */
static int search_block(struct solve *s, struct planes *p, const struct row *row, size_t tests,
			int64_t first, size_t cells, unsigned int shift)
{
	size_t words = (cells + 63) / 64;

	memset(p, 0, sizeof(*p));
	if (cells % 64)
		p->dead[cells / 64] = ~0ull << cells % 64;
	for (size_t i = 0, done = 0; i < s->nev && done < tests; i++) {
		const struct row *r = &row[s->ev[i].v];
		int64_t cell = (s->ev[i].g - s->lo) >> shift;

		if (!r->bit)
			continue;
		test_event(p, r, r->n - 1 - cell + first, words);
		if (!solve_spend(s, FETCH_WORK + words * WORD_WORK))
			return -ETIME;
		if (!(++done % 16) && all_dead(p, words))
			return 0;
	}
	return keep_cells(s, p, first, words, shift);
}

/* The candidates in n cells of an earlier, coarser search, in order. */
static int search(struct solve *s, const struct row *row, size_t tests, unsigned int shift,
		  const struct solve_cell *in, size_t n)
{
	_cleanup_free_ struct planes *p = xmalloc(sizeof(*p));
	int ret = 0;

	s->ncell = 0;
	for (size_t i = 0, k; i < n && !ret; i = k) {
		for (k = i + 1; k < n && in[k].from == in[k - 1].to; k++)
			;
		for (int64_t from = in[i].from, to = in [k - 1].to; from < to && !ret;) {
			int64_t cells = MIN(((to - from - 1) >> shift) + 1, BLOCK * 64);

			/* Candidates must move enough events into the host's time. */
			size_t early = COUNT_BEFORE(e, s->nev, s->order[e] < from);
			size_t late = COUNT_BEFORE(e, s->nev,
						   s->order[e] < from + (cells << shift) +
									 (int64_t)s->hspan);

			if (late - early >= solve_least(s->nev))
				ret = search_block(s, p, row, tests, (from - s->lo) >> shift,
						   (size_t)cells, shift);
			from += cells << shift;
		}
	}
	return ret;
}

/* The vCPU without a row whose events exclude most. */
static ssize_t next_row(const struct solve *s, const struct gaps *g, const struct row *row)
{
	unsigned __int128 most = 0;
	ssize_t best = -1;

	for (size_t i = 0; i < s->nv; i++) {
		unsigned __int128 tells =
			g[i].known ? (unsigned __int128)seen_empty(&g[i], 0) * s->v[i].taken : 0;

		if (row[i].bit || tells <= most)
			continue;
		most = tells;
		best = (ssize_t)i;
	}
	return best;
}

static int solve_make_rows(struct solve *s, const struct gaps *g, struct row *row,
			   unsigned int shift)
{
	ssize_t v;
	int ret = 0;

	for (size_t i = 0; i < s->nv; i++) {
		free(row[i].bit);
		row[i].bit = NULL;
	}
	for (size_t n = 0; n < MAX_ROWS && !ret && (v = next_row(s, g, row)) >= 0; n++) {
		if (n && (s->hspan >> shift) * (n + 1) > ROW_BITS)
			break;
		ret = make_row(s, &s->v[v], shift, &row[v]);
	}
	return ret;
}

/*
 * If too many cells are left, more events are needed, since they may come in bursts; or smaller
 * cells: a guest that is idle but for its ticks fits nearly as well a tick earlier or later, as
 * long as cells are wider than its windows.
 */
static int run_grid(struct solve *s, const struct gaps *g, struct row *row)
{
	struct solve_cell *in = xcalloc(1, sizeof(*in));
	int shift = pick_shift(s, g), ret = shift < 0 ? -ENODATA : 0;

	*in = (struct solve_cell){ .from = s->lo, .to = s->hi };
	s->width = (int64_t)1 << MAX(shift, 0);
	s->ncell = 1;
	while (!ret) {
		size_t n = s->ncell, enough = solve_enough(s);

		s->fine = (int64_t)1 << shift;
		ret = solve_make_rows(s, g, row, (unsigned int)shift) ?: -E2BIG;
		s->most = MANY_CELLS;
		for (size_t k = 1; ret == -E2BIG && k <= 16 && enough * k < 4 * s->nev; k *= 4)
			ret = search(s, row, enough * k, (unsigned int)shift, in, n);
		s->most = MAX_CELLS;
		if (ret == -E2BIG)
			ret = search(s, row, enough, (unsigned int)shift, in, n);
		if (ret || s->ncell <= FEW_CELLS || shift <= s->least)
			break;
		free(in);
		in = s->cell;
		s->cell = NULL;
		s->cellcap = 0;
		shift = MAX(shift - FINER, s->least);
		s->share = all_empty(s, g, (unsigned int)shift);
	}
	free(in);
	return ret;
}

/*
 * Fills s->cell with the cells of the grid that may hold the answer. 0, -E2BIG: too many
 * fit, -ENODATA: the windows have no gaps, -ETIME: the allowed work is done.
 */
static int solve_grid(struct solve *s)
{
	_cleanup_free_ struct row *row = xcalloc(s->nv, sizeof(*row));
	_cleanup_free_ struct gaps *g = xcalloc(s->nv, sizeof(*g));
	int ret = 0;

	for (size_t i = 0; i < s->nv && !ret; i++)
		if (solve_takes(s, &s->v[i])) {
			const struct run_list *w = &s->v[i].w;

			g[i].known = w->v[w->n - 1].to - w->v[0].from + 1;
			for (size_t k = 1; k < w->n; k++) {
				uint64_t gap = w->v[k].from - w->v[k - 1].to;
				int bit = 63 - __builtin_clzll(gap | 1);

				g[i].count[bit]++;
				g[i].sum[bit] += gap;
			}
			ret = solve_spend(s, s->v[i].w.n) ? 0 : -ETIME;
		}
	ret = ret ?: run_grid(s, g, row);
	for (size_t i = 0; row && i < s->nv; i++)
		free(row[i].bit);
	return ret;
}

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
static void shuffle_events(struct solve *s)
{
	uint32_t seed = 1;

	free(s->ev);
	free(s->order);
	s->ev = xcalloc(s->events + 1, sizeof(*s->ev));
	s->order = xcalloc(s->events + 1, sizeof(*s->order));
	take_events(s);
	for (size_t i = 0; i < s->nev; i++)
		s->order[i] = s->ev[i].g;
	array_sort(s->order, s->nev, by_value);
	for (size_t i = s->nev; i > 1; i--) {
		struct solve_event e = s->ev[i - 1];
		size_t k;

		seed = seed * 1664525u + 1013904223u;
		k = (seed >> 8) % i;
		s->ev[i - 1] = s->ev[k];
		s->ev[k] = e;
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
	if (r->pairs && (ret || !r->found || r->outside > r->inside / 64)) {
		*r = (struct solve_result){ .events = r->events,
					    .has_most = r->has_most,
					    .at_most = r->at_most };
		ret = 0;
	}
	s->lo = lo;
	s->hi = hi;
	return ret || r->found ? ret : solve_once(s, r);
}

void solve_run(struct solve *s, int64_t vcpu, struct solve_result *r)
{
	int ret;
	uint64_t all, windows, overlap;

	s->only = vcpu;
	memset(r, 0, sizeof(*r));
	/* The guest's event of an access never comes before the host's. */
	for (size_t i = 0; i < s->nv; i++) {
		const struct solve_vcpu *v = &s->v[i];
		int64_t least = 0;

		if ((s->only != SOLVE_ALL && s->only != (int64_t)v->id) || !pairs_least(v, &least))
			continue;
		if (!r->has_most || (int64_t)((uint64_t)least - r->at_most) < 0)
			r->at_most = (uint64_t)least;
		r->has_most = true;
	}
	scale_windows(s);
	shuffle_events(s);
	/*
	 * Work grows no faster than the input, whatever the stamps are: what a run may spend is
	 * bounded, and so is what all of them may. Captures of real machines take a tenth of it
	 * (make bench).
	 */
	all = (1ull << 30) + (s->windows * 4 + s->events) * 4096;
	windows = 0;
	for (size_t i = 0; i < s->nv; i++)
		windows += s->v[i].taken ? s->v[i].w.n : 0;
	s->limit = MIN(all, s->spent + (1ull << 28) + (windows * 4 + s->nev) * 2048);
	if (!s->windows) {
		r->why = "the host capture shows no entries and exits of this VM's vCPUs";
	} else if (s->nev < SOLVE_MIN_EVENTS) {
		r->why =
			"the guest capture has too few events of vCPUs that are in the host capture";
	} else if (s->hspan >> 61 || s->gspan >> 61) {
		r->why = "the stamps of one capture are too far apart";
	} else {
		overlap = MIN(s->hspan, s->gspan) / LEAST_OVERLAP;
		s->lo = -(int64_t)(s->hspan - overlap);
		s->hi = (int64_t)(s->gspan - overlap) + 1;
		r->why = NULL;
	}
	if (r->why)
		return;
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
	else if (!r->found)
		r->why =
			"no offset puts the guest's events into the windows: another VM, another ratio "
			"(--tsc-ratio), or captures of different times";
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
