/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_loghist.c: src/util/loghist.c against sorted values.
 */
#include "kvmft/util.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 5000

/* xorshift64: the same values in every run. */
static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = load_u64(a), y = load_u64(b);

	return (x > y) - (x < y);
}

/* Nearest rank by counting, written another way than in loghist.c. */
static uint64_t brute_percentile(const uint64_t *sorted, size_t n, uint64_t num, uint64_t den)
{
	size_t i = 0;

	while (i + 1 < n && (i + 1) * den < n * num)
		i++;
	return sorted[i];
}

static void check(uint64_t *v, size_t n, const struct loghist *h)
{
	static const uint64_t rank[][2] = { { 0, 100 },	   { 1, 100000 }, { 1, 100 },	{ 5, 100 },
					    { 1, 4 },	   { 1, 3 },	  { 50, 100 },	{ 75, 100 },
					    { 90, 100 },   { 95, 100 },	  { 99, 100 },	{ 999, 1000 },
					    { 9999, 10000 }, { 1, 1 },	  { 2, 1 } };
	unsigned __int128 sum = 0;

	qsort(v, n, sizeof(*v), compare);
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	assert_int_equal(h->n, n);
	assert_true(h->sum == sum);
	assert_true(h->min == v[0] && h->max == v[n - 1]);
	assert_true(loghist_mean(h) == (uint64_t)((sum + n / 2) / n));
	for (size_t i = 0; i < ARRAY_SIZE(rank); i++) {
		uint64_t want = brute_percentile(v, n, rank[i][0], rank[i][1]);
		uint64_t got = loghist_percentile(h, rank[i][0], rank[i][1]);
		uint64_t off = got > want ? got - want : want - got;

		if (off > want / 64)
			fail_msg("%zu values, %llu/%llu: got %llu, want %llu", n,
				 (unsigned long long)rank[i][0], (unsigned long long)rank[i][1],
				 (unsigned long long)got, (unsigned long long)want);
	}
	assert_true(loghist_percentile(h, 0, 1) == v[0]);
	assert_true(loghist_percentile(h, 1, 1) == v[n - 1]);
}

/* Four shapes: every magnitude, narrow, small numbers, nearly all equal. */
static uint64_t shaped(unsigned int shape, uint64_t *x)
{
	uint64_t r = next_random(x);

	switch (shape) {
	case 0: return next_random(x) >> (r % 64);
	case 1: return 1000000 + r % 5000;
	case 2: return r % 100;
	default: return r % 50 ? 2500 : r;
	}
}

static void test_percentiles(void **state __unused_arg)
{
	static const size_t n[] = { 1, 2, 3, 10, 99, 100, 101, VALUES };
	static uint64_t v[VALUES];
	static struct loghist h;
	uint64_t x = 88172645463325252;

	for (unsigned int shape = 0; shape < 4; shape++) {
		for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
			loghist_free(&h);
			for (size_t k = 0; k < n[i]; k++) {
				v[k] = shaped(shape, &x);
				loghist_add(&h, v[k]);
			}
			check(v, n[i], &h);
		}
	}
}

/* Between 0 and the largest number, so that min and max do not help. */
static void test_every_edge(void **state __unused_arg)
{
	static struct loghist h;

	for (unsigned int e = 0; e < 64; e++) {
		for (int d = -2; d <= 2; d++) {
			uint64_t v[3] = { 0, ((uint64_t)1 << e) + (uint64_t)d, UINT64_MAX };

			loghist_free(&h);
			for (size_t i = 0; i < 3; i++)
				loghist_add(&h, v[i]);
			check(v, 3, &h);
		}
	}
}

static void test_small_exact(void **state __unused_arg)
{
	static struct loghist h;

	for (uint64_t v = 0; v < 200; v++)
		loghist_add(&h, v);
	for (uint64_t v = 0; v < 64; v++)
		assert_int_equal(loghist_percentile(&h, v + 1, 200), v);
}

static void test_buckets_tile(void **state __unused_arg)
{
	uint64_t lo, hi, next = 0;

	for (unsigned int i = 0; i < LOGHIST_BUCKETS; i++) {
		static struct loghist h;

		loghist_bounds(i, &lo, &hi);
		assert_true(lo == next && hi >= lo);
		next = hi + 1;
		loghist_free(&h);
		loghist_add(&h, lo);
		loghist_add(&h, hi);
		assert_int_equal(loghist_count(&h, i), 2);
	}
	assert_true(hi == UINT64_MAX);
}

static void test_merge(void **state __unused_arg)
{
	static struct loghist part[3], all, merged;
	static uint64_t v[VALUES];
	uint64_t x = 42424242;

	for (size_t i = 0; i < VALUES; i++) {
		v[i] = shaped(0, &x);
		loghist_add(&part[i % 2], v[i]);
		loghist_add(&all, v[i]);
	}
	for (size_t i = 0; i < 3; i++) /* the third one is empty */
		loghist_merge(&merged, &part[i]);
	for (unsigned int i = 0; i < LOGHIST_BUCKETS; i++)
		assert_int_equal(loghist_count(&merged, i), loghist_count(&all, i));
	assert_true(merged.n == all.n && merged.sum == all.sum && merged.min == all.min &&
		    merged.max == all.max);
	check(v, VALUES, &merged);
	loghist_merge(&merged, &merged);
	assert_int_equal(merged.n, 2 * VALUES);
	assert_true(merged.sum == 2 * all.sum);
	assert_true(merged.min == all.min && merged.max == all.max);
}

static void test_empty(void **state __unused_arg)
{
	static struct loghist h;

	assert_int_equal(loghist_percentile(&h, 1, 2), 0);
	assert_int_equal(loghist_percentile(&h, 1, 0), 0);
	assert_int_equal(loghist_mean(&h), 0);
	loghist_add(&h, 5);
	assert_int_equal(h.min, 5);
	assert_int_equal(loghist_percentile(&h, 1, 0), 5);
}

/* The middle of a bucket may lie outside of what was seen; the answer may not. */
static void test_within_min_max(void **state __unused_arg)
{
	static struct loghist h;

	for (unsigned int i = 0; i < LOGHIST_BUCKETS; i++) {
		uint64_t edge[2];

		loghist_bounds(i, &edge[0], &edge[1]);
		for (int k = 0; k < 2; k++) {
			loghist_free(&h);
			loghist_add(&h, edge[k]);
			assert_true(loghist_percentile(&h, 1, 2) == edge[k]);
		}
	}
}

static void test_sum_beyond_64_bits(void **state __unused_arg)
{
	static struct loghist h;

	for (int i = 0; i < 4; i++)
		loghist_add(&h, UINT64_MAX);
	assert_true(h.sum == (unsigned __int128)UINT64_MAX * 4);
	assert_true(loghist_mean(&h) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_every_edge),
		cmocka_unit_test(test_small_exact),
		cmocka_unit_test(test_buckets_tile),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_within_min_max),
		cmocka_unit_test(test_sum_beyond_64_bits),
	};

	return cmocka_run_group_tests_name("util/loghist", tests, NULL, NULL);
}
