/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_proof_solve.c: tests of src/proof/solve*.c: the offset that random windows and events were
 * made with is found; a sweep agrees with counting at every candidate.
 */
#include "kvmft/proof.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "proof/solve.c"
#include "lib/solve_load.h"

static uint64_t rnd(uint32_t *seed, uint64_t from, uint64_t to)
{
	*seed = *seed * 1664525u + 1013904223u;
	return from + (*seed >> 4) % (to - from + 1);
}

#define SLACK 700

/* A vCPU that runs and sleeps; `wrong` of 1000 events are elsewhere. */
static void make(struct solve *s, uint32_t vcpu, const struct tsc_map *map, size_t windows,
		 unsigned int wrong, uint32_t *seed)
{
	uint64_t t = 50000000000ull + vcpu * 1000;

	for (size_t i = 0; i < windows; i++) {
		uint64_t entry = t;

		t += SLACK;
		for (uint64_t n = rnd(seed, 0, 3); n; n--) {
			uint64_t at = rnd(seed, 1, 1000) <= wrong ? t + rnd(seed, 0, 4000000) : t;

			solve_add_event(s, vcpu, tsc_to_guest(map, at));
			t += rnd(seed, 0, 9000);
		}
		t += SLACK;
		solve_add_window(s, vcpu, entry, t);
		t += rnd(seed, 0, 7) ? rnd(seed, 3000, 20000) : rnd(seed, 100000, 3000000);
	}
}

static void solve_one(const struct tsc_map *map, uint32_t vcpus, size_t windows, unsigned int wrong,
		      uint32_t seed)
{
	struct tsc_map scale = { .ratio = map->ratio, .frac = map->frac };
	struct solve_result r;
	struct solve *s;
	int64_t off;

	solve_new(&scale, &s);
	for (uint32_t v = 0; v < vcpus; v++)
		make(s, v * 3, map, windows, wrong, &seed);
	solve_run(s, SOLVE_ALL, &r);
	assert_true(r.found);
	assert_int_equal(r.equal, 0);
	off = (int64_t)(map->offset - r.offset);
	assert_true(off >= -SLACK && off <= SLACK);
	if (!wrong) {
		assert_int_equal(r.outside, 0);
		assert_true((int64_t)(map->offset - r.offset_lo) >= 0);
		assert_true((int64_t)(r.offset_hi - map->offset) >= 0);
	}
	solve_free(s);
}

static void test_plain(void **state)
{
	struct tsc_map map = { .offset = 0ull - 42051902088ull };

	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++)
		solve_one(&map, 1 + seed % 3, 300, 0, seed);
}

static void test_outliers(void **state)
{
	struct tsc_map map = { .offset = 123456789 };

	(void)state;
	for (uint32_t seed = 1; seed <= 10; seed++)
		solve_one(&map, 2, 400, 10, seed);
}

static void test_scaled(void **state)
{
	struct tsc_map svm = { .offset = 0ull - 7, .ratio = 3474161823ull, .frac = 32 };
	struct tsc_map vmx = { .offset = 1ull << 60, .ratio = 227682669269131ull, .frac = 48 };

	(void)state;
	solve_one(&svm, 2, 400, 0, 5);
	solve_one(&vmx, 2, 400, 0, 6);
}

/* More than is kept: thinned, and still found. */
static void test_thinned(void **state)
{
	struct tsc_map map = { .offset = 99 };

	(void)state;
	solve_one(&map, 1, 500000, 0, 7);
}

/* Each window like any other: the events alone fit everywhere. */
static void make_regular(struct solve *s, uint64_t offset, size_t pairs)
{
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t entry = 50000000000ull + i * 5000000;

		solve_add_window(s, 0, entry, entry + 20000);
		for (uint64_t k = 0; k < 5; k++)
			solve_add_event(s, 0, entry + SLACK + k * 4000 + offset);
		if (i < pairs) /* served before the entry */
			solve_add_pair(s, 0, entry - 3000, entry + SLACK + offset);
	}
}

static void test_pairs(void **state)
{
	const uint64_t offset = 0ull - 31000000000ull;
	struct tsc_map map = { 0 };
	struct solve_result r;
	struct solve *s;

	(void)state;
	for (size_t pairs = 0; pairs <= 100; pairs += 100) {
		solve_new(&map, &s);
		make_regular(s, offset, pairs);
		solve_run(s, SOLVE_ALL, &r);
		assert_true(r.found);
		assert_int_equal(r.outside, 0);
		assert_int_equal(r.has_most, pairs > 0);
		assert_int_equal(r.pairs, pairs);
		if (pairs) {
			assert_int_equal(r.equal, 0);
			assert_true((int64_t)(offset - r.offset_lo) >= 0);
			assert_true((int64_t)(r.offset_hi - offset) >= 0);
			assert_true(r.at_most == offset + 3000 + SLACK);
		} else {
			assert_true(r.equal > 50);
		}
		solve_free(s);
	}

	/* Pairs that lie far off are no help and do no harm. */
	solve_new(&map, &s);
	make_regular(s, offset, 0);
	for (int i = 0; i < 10; i++)
		solve_add_pair(s, 0, 50000000000ull, 50000000000ull - 5000 + (offset - 100000000000ull));
	solve_run(s, SOLVE_ALL, &r);
	assert_true(r.found && r.equal > 50 && !r.pairs);
	solve_free(s);
}

/* Two vCPUs, each right with its own offset. */
static void test_own(void **state)
{
	struct tsc_map map[2] = { { .offset = 1000000 }, { .offset = 1300000 } }, none = { 0 };
	struct solve_counts c[2];
	struct solve_result r;
	uint32_t seed = 9;
	struct solve *s;

	(void)state;
	solve_new(&none, &s);
	for (uint32_t v = 0; v < 2; v++)
		make(s, v, &map[v], 300, 0, &seed);
	assert_int_equal(solve_vcpus(s), 2);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < 2; i++) {
			uint32_t id = solve_vcpu_id(s, i);

			solve_run(s, id, &r);
			assert_true(r.found && !r.outside && !r.equal);
			assert_true((int64_t)(r.offset_hi - map[id].offset) >= 0);
			assert_true((int64_t)(map[id].offset - r.offset_lo) >= 0);
			solve_count(s, i, &r, &c[0]);
			solve_count(s, 1 - i, &r, &c[1]);
			assert_int_equal(c[0].outside, 0);
			assert_int_equal(c[0].inside, r.inside);
			assert_true(c[1].outside > c[1].inside / 16);
		}
	solve_free(s);
}

static void test_nothing(void **state)
{
	struct tsc_map map = { 0 };
	struct solve_result r;
	struct solve *s;

	(void)state;
	solve_new(&map, &s);
	solve_run(s, SOLVE_ALL, &r);
	assert_false(r.found);
	assert_non_null(r.why);
	solve_free(s);

	/* One window without end says nothing, whatever the events. */
	solve_new(&map, &s);
	solve_add_window(s, 0, 1000, 100000000);
	for (uint64_t i = 0; i < 100; i++)
		solve_add_event(s, 0, 5000 + i * 1000);
	solve_run(s, SOLVE_ALL, &r);
	assert_false(r.found);
	assert_non_null(r.why);
	solve_free(s);

	/* The far ends of 64 bits. */
	solve_new(&map, &s);
	solve_add_window(s, 0, 0, 10);
	solve_add_window(s, 0, UINT64_MAX - 5, UINT64_MAX);
	for (uint64_t i = 0; i < 20; i++)
		solve_add_event(s, 0, i * (UINT64_MAX / 20));
	solve_run(s, SOLVE_ALL, &r);
	assert_false(r.found);
	solve_free(s);
	solve_free(NULL);
}

/* What a candidate is worth, its events counted one by one. */
static int64_t score_of(const struct solve *s, size_t n, int64_t d)
{
	const struct run_list *w = &s->v[0].w;
	int64_t inside = 0, outside = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t h = s->ev[i].g - d;
		bool in = false;

		if (h < (int64_t)w->v[0].from || h > (int64_t)w->v[w->n - 1].to)
			continue;
		for (size_t k = 0; k < w->n; k++)
			in |= h >= (int64_t)w->v[k].from && h <= (int64_t)w->v[k].to;
		inside += in;
		outside += !in;
	}
	return inside - SOLVE_COST * outside;
}

/* Every candidate of small problems against the sweep: the best ones, their widest stretch, and their ends. */
static void test_sweep(void **state)
{
	struct vcpu_run w[] = { { 0, 10 }, { 14, 20 }, { 50, 60 } };
	struct solve_vcpu v = { .w = { .v = w, .n = 3 } };
	struct solve_event e[] = { { 105, 0 }, { 112, 0 }, { 117, 0 }, { 155, 0 }, { 130, 0 } };
	struct solve s = { .v = &v, .nv = 1, .ev = e, .width = 1, .limit = UINT64_MAX };
	struct solve_cell c = { .from = 60, .to = 160 };
	size_t apart = 0;

	(void)state;
	for (s.nev = 1; s.nev <= 5; s.nev++) {
		int64_t most = INT64_MIN, low = 0, high = 0, widest = 0, width = 0;
		struct solve_place best;

		for (int64_t d = c.from; d < c.to; d++)
			most = MAX(most, score_of(&s, s.nev, d));
		for (int64_t d = c.to - 1; d >= c.from; d--)
			low = score_of(&s, s.nev, d) == most ? d : low;
		for (int64_t d = c.from; d < c.to; d++) {
			width = score_of(&s, s.nev, d) == most ? width + 1 : 0;
			high = width ? d : high;
			widest = MAX(widest, width);
		}
		assert_int_equal(solve_sweep(&s, &c, s.nev, &best), 0);
		assert_int_equal(best.score, most);
		assert_int_equal(best.low, low);
		assert_int_equal(best.high, high);
		assert_int_equal(best.to - best.from + 1, widest);
		assert_int_equal(score_of(&s, s.nev, best.from), most);
		assert_int_equal(score_of(&s, s.nev, best.to), most);
		apart += widest < high - low + 1;
	}
	assert_true(apart > 1);
}

/* Whatever the stamps are, the work ends, and four times as many events cost about four times as much at most. */
static void test_bounded(void **state)
{
	static const bool own[] = { [0] = true, [6] = true, [7] = true, [8] = false }; /* aligned, ticks, idle */
	struct tsc_map map = { 0 };
	struct solve_result r;
	struct solve *s;

	(void)state;
	for (size_t k = 0; solve_load_kind(k); k++)
		for (size_t n = 2000; n <= 32000; n *= 4) {
			solve_new(&map, &s);
			assert_int_equal(solve_load(s, solve_load_kind(k), n, 3), 0);
			solve_run(s, SOLVE_ALL, &r);
			assert_true(s->spent < (1ull << 28) + 5 * n * 2048 + (1u << 20));
			/* An idle guest's ticks alone tell little: 2,000 stamps are 110 of them. */
			assert_true(r.found || !own[k] || n == 2000);
			if (own[k] && r.found)
				assert_true(!r.equal && r.offset_lo <= SOLVE_LOAD_OFFSET &&
					    r.offset_hi >= SOLVE_LOAD_OFFSET);
			else if (r.found) /* not what anybody would rely on */
				assert_true(r.equal || r.outside > r.inside / 16);
			assert_true(strcmp(solve_load_kind(k), "twice") || n == 2000 || r.equal);
			solve_free(s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),   cmocka_unit_test(test_outliers),
		cmocka_unit_test(test_scaled),  cmocka_unit_test(test_thinned),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
