/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_grid.c: the coarse search, over all offsets there can be.
 *
 * Host time is cut into cells of a power of two cycles. Per vCPU one bit per cell says whether the
 * guest may have run in it or in the cell before. For one event, the offsets (in cells) that do not
 * contradict it are then that row of bits, shifted by the event's time: 64 offsets with one
 * operation. Each offset has a counter of contradictions in four bit planes and is given up at 16,
 * so some events may be wrong: how many depends on how many are tested. What is left is a few cells,
 * to be solved exactly.
 */
#include "solve.h"

#include <errno.h>
#include <string.h>

#define BLOCK	   1024		/* words of 64 candidates that are worked on at once */
#define MAX_BITS   (1ull << 27) /* cells of host time or of offsets */
#define MAX_VCPUS  8		/* whose windows are looked at here */
#define MAX_SHIFT  22
#define MAX_CELLS  (1u << 18)
#define MAX_TESTS  16384	/* events; bounds the time that hostile captures can cost */

struct row {
	uint64_t *bit; /* reversed: bit n - 1 - b is that of cell b */
	int64_t n;
};

struct planes {
	uint64_t m[4][BLOCK], dead[BLOCK];
};

/* Parts of 1024 of the vCPUs' time in which a cell of that size would be seen to be empty. */
static uint64_t empty_share(const struct solve *s, unsigned int shift)
{
	uint64_t empty = 0, all = 1, need = shift ? 3ull << shift : 0;

	for (size_t i = 0; i < s->nv; i++) {
		const struct solve_vcpu *v = &s->v[i];

		if (!solve_takes(s, v))
			continue;
		all += v->w[v->nw - 1].to - v->w[0].from;
		for (size_t k = 1; k < v->nw; k++) {
			uint64_t gap = v->w[k].from - v->w[k - 1].to;

			empty += gap > need ? gap - need : 0;
		}
	}
	return (uint64_t)((unsigned __int128)empty * 1024 / all);
}

/* The largest cells that still show half of all gaps; -1: windows without gaps tell nothing. */
static int pick_shift(const struct solve *s)
{
	uint64_t span = MAX(s->hspan, (uint64_t)(s->hi - s->lo)), all = empty_share(s, 0);
	unsigned int shift = MAX_SHIFT, least = 0;

	while (span >> least > MAX_BITS)
		least++;
	while (shift > least && empty_share(s, shift) * 2 < all)
		shift--;
	shift = MAX(shift, least);
	return empty_share(s, shift) ? (int)shift : -1;
}

static void set_cell(struct row *r, int64_t b)
{
	if (b >= 0 && b < r->n)
		r->bit[(r->n - 1 - b) / 64] |= 1ull << ((r->n - 1 - b) % 64);
}

static int make_row(const struct solve *s, const struct solve_vcpu *v, unsigned int shift,
		    struct row *r)
{
	int64_t first = solve_h(s, v->w[0].from) >> shift;
	int64_t last = solve_h(s, v->w[v->nw - 1].to) >> shift;

	r->n = (int64_t)(s->hspan >> shift) + 2;
	r->bit = calloc((size_t)r->n / 64 + 1, sizeof(*r->bit));
	if (!r->bit)
		return -ENOMEM;
	/* Before its first entry and after its last exit nothing is known of a vCPU. */
	for (int64_t b = 0; b <= first; b++)
		set_cell(r, b);
	for (int64_t b = last; b < r->n; b++)
		set_cell(r, b);
	for (size_t i = 0; i < v->nw; i++) {
		int64_t from = solve_h(s, v->w[i].from) >> shift, to = solve_h(s, v->w[i].to) >> shift;

		for (int64_t b = from; b <= to + 1; b++)
			set_cell(r, b);
	}
	return 0;
}

/* 64 bits from pos on; beyond the row everything is possible. */
static uint64_t bits_at(const struct row *r, int64_t pos)
{
	int64_t w = pos >> 6, words = r->n / 64 + 1;
	unsigned int s = (unsigned int)(pos & 63);
	uint64_t lo = w >= 0 && w < words ? r->bit[w] : ~0ull;
	uint64_t hi = w + 1 >= 0 && w + 1 < words ? r->bit[w + 1] : ~0ull;

	/* The last word's tail is beyond the row as well. */
	if (w == words - 1)
		lo |= ~0ull << (r->n & 63);
	if (w + 1 == words - 1)
		hi |= ~0ull << (r->n & 63);
	return s ? lo >> s | hi << (64 - s) : lo;
}

static void test_event(struct planes *p, const struct row *r, int64_t pos, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t carry = ~bits_at(r, pos + (int64_t)i * 64) & ~p->dead[i];

		for (int k = 0; k < 4; k++) {
			uint64_t next = p->m[k][i] & carry;

			p->m[k][i] ^= carry;
			carry = next;
		}
		p->dead[i] |= carry;
	}
}

static bool all_dead(const struct planes *p, size_t words)
{
	for (size_t i = 0; i < words; i++)
		if (~p->dead[i])
			return false;
	return true;
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
		*c = (struct solve_cell){ .from = from, .to = from + (1ll << shift), .outside = out };
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
		if (!(++done % 16) && all_dead(p, words))
			return 0;
	}
	return keep_cells(s, p, first, words, shift);
}

static int search(struct solve *s, const struct row *row, size_t tests, unsigned int shift)
{
	int64_t cells = ((s->hi - s->lo) >> shift) + 1;
	struct planes *p = malloc(sizeof(*p));
	int ret = p ? 0 : -ENOMEM;

	s->ncell = 0;
	for (int64_t first = 0; first < cells && !ret; first += BLOCK * 64) {
		size_t words = (size_t)MIN(cells - first + 63, (int64_t)BLOCK * 64) / 64;

		ret = search_block(s, p, row, tests, first, words, shift);
	}
	free(p);
	return ret;
}

int solve_grid(struct solve *s)
{
	struct row *row = calloc(s->nv, sizeof(*row));
	int shift = pick_shift(s), ret = row ? 0 : -ENOMEM;
	size_t rows = 0;

	if (shift < 0)
		ret = ret ? ret : -ENODATA;
	s->width = shift < 0 ? 0 : (int64_t)1 << shift;
	for (size_t i = 0; i < s->nv && !ret && rows < MAX_VCPUS; i++) {
		if (!solve_takes(s, &s->v[i]))
			continue;
		ret = make_row(s, &s->v[i], (unsigned int)shift, &row[i]);
		rows++;
	}
	for (size_t tests = s->tests; !ret; tests *= 4) {
		ret = search(s, row, tests, (unsigned int)shift);
		if (ret != -E2BIG || tests >= MIN(s->nev, (size_t)MAX_TESTS))
			break;
		ret = 0;
	}
	for (size_t i = 0; row && i < s->nv; i++)
		free(row[i].bit);
	free(row);
	return ret;
}
