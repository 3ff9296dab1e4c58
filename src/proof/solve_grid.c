/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_grid.c: the coarse search, over all possible offsets.
 *
 * Host time is cut into cells of a power of two cycles. Per vCPU one bit per cell says whether the
 * guest may have run in it or in the cell before. For one event, the offsets (in cells) that do not
 * contradict it are then that row of bits, shifted by the event's time: 64 offsets with one
 * operation. Each offset has a counter of contradictions in four bit planes and is dropped at 16.
 * So many events are tested that a wrong offset contradicts about 64 of them: by chance one of
 * 10^11 wrong offsets remains, and a right one remains even if a quarter as many events are wrong
 * as a wrong one would make.
 */
#include "solve.h"

#define BLOCK	   512		/* words of 64 candidates at once: they stay in the L1 cache */
#define MAX_BITS   (1ull << 27) /* cells of host time or of offsets */
#define MAX_ROWS   8		/* vCPUs whose windows are looked at here, ... */
#define ROW_BITS   (1ull << 29) /* ... if that takes no more memory */
#define MAX_SHIFT  30
#define MAX_CELLS  (1u << 17)
#define WORD_WORK  3

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

static void gaps_of(const struct solve_vcpu *v, struct gaps *g)
{
	*g = (struct gaps){ .known = v->w.v[v->w.n - 1].to - v->w.v[0].from + 1 };
	for (size_t k = 1; k < v->w.n; k++) {
		uint64_t gap = v->w.v[k].from - v->w.v[k - 1].to;
		int bit = 63 - __builtin_clzll(gap | 1);

		g->count[bit]++;
		g->sum[bit] += gap;
	}
}

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

/* The largest cells that still show half of all gaps, and enough of them; -1: there are no gaps. */
static int pick_shift(struct solve *s, const struct gaps *g)
{
	uint64_t span = MAX(s->hspan, (uint64_t)(s->hi - s->lo)), all = all_empty(s, g, 0);
	unsigned int shift = MAX_SHIFT, least = 0;

	while (span >> least > MAX_BITS)
		least++;
	while (shift > least && (all_empty(s, g, shift) * 2 < all ||
				 all_empty(s, g, shift) * s->nev < 64ull << SHARE_BITS))
		shift--;
	shift = MAX(shift, least);
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
	r->bit = calloc((size_t)r->words, sizeof(*r->bit));
	if (!r->bit)
		return -ENOMEM;
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

		if (p->dead[i / 64] >> (i % 64) & 1 || from >= s->hi)
			continue;
		if (s->ncell >= MAX_CELLS)
			return -E2BIG;
		for (int k = 0; k < 4; k++)
			out |= (p->m[k][i / 64] >> (i % 64) & 1) << k;
		c = array_grow(&s->cell, s->ncell, &s->cellcap, sizeof(*c));
		if (!c)
			return -ENOMEM;
		*c = (struct solve_cell){ .from = from,
					  .to = from + (1ll << shift),
					  .outside = out };
		s->ncell++;
	}
	return 0;
}

/* One block of candidates against up to `tests` events; row[] by index of the vCPU. */
static int search_block(struct solve *s, struct planes *p, const struct row *row, size_t tests,
			int64_t first, size_t words, unsigned int shift)
{
	memset(p, 0, sizeof(*p));
	for (size_t i = 0, done = 0; i < s->nev && done < tests; i++) {
		const struct row *r = &row[s->ev[i].v];
		int64_t cell = (s->ev[i].g - s->lo) >> shift;

		if (!r->bit)
			continue;
		test_event(p, r, r->n - 1 - cell + first, words);
		if (!solve_spend(s, words * WORD_WORK))
			return -ETIME;
		if (!(++done % 16) && all_dead(p, words))
			return 0;
	}
	return keep_cells(s, p, first, words, shift);
}

/* No candidate in [from, to) moves enough events into the time that the host was recorded. */
static bool is_void(const struct solve *s, int64_t from, int64_t to)
{
	size_t late = COUNT_BEFORE(i, s->nev, s->order[i] < to + (int64_t)s->hspan);

	return late - COUNT_BEFORE(i, s->nev, s->order[i] < from) < solve_least(s->nev);
}

static int search(struct solve *s, const struct row *row, size_t tests, unsigned int shift)
{
	int64_t cells = ((s->hi - s->lo) >> shift) + 1;
	_cleanup_free_ struct planes *p = malloc(sizeof(*p));
	int ret = p ? 0 : -ENOMEM;

	s->ncell = 0;
	for (int64_t first = 0; first < cells && !ret; first += BLOCK * 64) {
		size_t words = (size_t)MIN(cells - first + 63, (int64_t)BLOCK * 64) / 64;
		int64_t from = s->lo + (first << shift);

		if (is_void(s, from, from + ((int64_t)words * 64 << shift)))
			continue;
		ret = search_block(s, p, row, tests, first, words, shift);
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

static int make_rows(struct solve *s, const struct gaps *g, struct row *row, unsigned int shift)
{
	ssize_t v;
	int ret = 0;

	for (size_t n = 0; n < MAX_ROWS && !ret && (v = next_row(s, g, row)) >= 0; n++) {
		if (n && (s->hspan >> shift) * (n + 1) > ROW_BITS)
			break;
		ret = make_row(s, &s->v[v], shift, &row[v]);
	}
	return ret;
}

static int run_grid(struct solve *s, const struct gaps *g, struct row *row)
{
	int shift = pick_shift(s, g), ret;
	size_t tests;

	if (shift < 0)
		return -ENODATA;
	s->width = (int64_t)1 << shift;
	ret = make_rows(s, g, row, (unsigned int)shift);
	/* Too many survive: if events come in bursts, more of them are needed. */
	for (tests = solve_enough(s); !ret; tests *= 4) {
		ret = search(s, row, tests, (unsigned int)shift);
		if (ret != -E2BIG || tests >= s->nev)
			break;
		ret = 0;
	}
	return ret;
}

int solve_grid(struct solve *s)
{
	_cleanup_free_ struct row *row = calloc(s->nv, sizeof(*row));
	_cleanup_free_ struct gaps *g = calloc(s->nv, sizeof(*g));
	int ret = row && g ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->nv && !ret; i++)
		if (solve_takes(s, &s->v[i])) {
			gaps_of(&s->v[i], &g[i]);
			ret = solve_spend(s, s->v[i].w.n) ? 0 : -ETIME;
		}
	ret = ret ?: run_grid(s, g, row);
	for (size_t i = 0; row && i < s->nv; i++)
		free(row[i].bit);
	return ret;
}
