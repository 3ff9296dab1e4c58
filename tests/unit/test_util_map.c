/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_map.c: tests of src/util/map.c.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

static void test_empty(void **state __unused_arg)
{
	struct u64map m = { 0 };
	uint64_t v = 7;

	assert_false(u64map_get(&m, 0, &v));
	assert_int_equal(v, 7);
	u64map_free(&m);
	u64map_free(NULL);
}

static void test_put_get(void **state __unused_arg)
{
	struct u64map m = { 0 };
	uint64_t v = 0;

	/* 0 and all ones are keys like any other, 0 a value like any other. */
	assert_int_equal(u64map_put(&m, 0, UINT64_MAX), 0);
	assert_int_equal(u64map_put(&m, UINT64_MAX, 0), 0);
	assert_true(u64map_get(&m, 0, &v));
	assert_true(v == UINT64_MAX);
	assert_true(u64map_get(&m, UINT64_MAX, &v));
	assert_int_equal(v, 0);
	assert_true(u64map_get(&m, 0, NULL));
	assert_false(u64map_get(&m, 1, NULL));
	assert_int_equal(u64map_put(&m, 0, 5), 0);
	assert_int_equal(m.n, 2);
	assert_true(u64map_get(&m, 0, &v));
	assert_int_equal(v, 5);
	u64map_free(&m);
	assert_int_equal(m.n + m.cap, 0);
	assert_false(u64map_get(&m, 0, &v));
	u64map_free(&m);
}

static void test_at(void **state __unused_arg)
{
	struct u64map m = { 0 };
	uint64_t *at = u64map_at(&m, 9);

	assert_non_null(at);
	assert_int_equal(*at, 0);
	*at += 3;
	at = u64map_at(&m, 9);
	assert_int_equal(*at, 3);
	assert_int_equal(m.n, 1);
	u64map_free(&m);
}

static void test_reserve(void **state __unused_arg)
{
	struct u64map m = { 0 };
	size_t cap;

	assert_int_equal(u64map_put(&m, 3, 4), 0);
	assert_int_equal(u64map_reserve(&m, 1000), 0);
	cap = m.cap;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(u64map_put(&m, i, i + 1), 0);
	assert_int_equal(m.n, 1000);
	assert_int_equal(m.cap, cap);
	assert_int_equal(u64map_reserve(&m, 10), 0);
	assert_int_equal(m.cap, cap);
	assert_int_equal(u64map_reserve(&m, SIZE_MAX), -ENOMEM);
	assert_true(u64map_get(&m, 3, NULL) && u64map_get(&m, 999, NULL));
	u64map_free(&m);
}

/* Where a map of this seed (0: its own) that holds only this key puts it, for a capacity of 16. */
static size_t slot_of(uint64_t key, uint64_t seed)
{
	struct u64map m = { .seed = seed };
	size_t i = 0;

	assert_int_equal(u64map_put(&m, key, 0), 0);
	while (!m.slot[i].used)
		i++;
	u64map_free(&m);
	return i;
}

/* Keys that all want the last slot: probes must wrap, and growth must not lose any. */
static void test_colliding(void **state __unused_arg)
{
	uint64_t key[200], candidate = 0, v;
	struct u64map m = { .seed = 12345 };

	for (size_t n = 0; n < ARRAY_SIZE(key); candidate++)
		if (slot_of(candidate, 12345) == 15)
			key[n++] = candidate;
	for (size_t n = 0; n < ARRAY_SIZE(key); n++) {
		assert_int_equal(u64map_put(&m, key[n], key[n] * 3), 0);
		assert_true(m.cap >= 16 && !(m.cap & (m.cap - 1)));
		assert_true(m.n < m.cap);
		for (size_t i = 0; i < ARRAY_SIZE(key); i++) {
			assert_int_equal(u64map_get(&m, key[i], &v), i <= n);
			if (i <= n)
				assert_int_equal(v, key[i] * 3);
		}
	}
	assert_int_equal(m.n, ARRAY_SIZE(key));
	u64map_free(&m);
}

/* Keys chosen to collide under one seed do not under another, nor under one that is not given. */
static void test_seed(void **state __unused_arg)
{
	size_t n = 0, same[2] = { 0 };

	for (uint64_t key = 0; n < 400; key++) {
		if (slot_of(key, 12345) != 15)
			continue;
		n++;
		same[0] += slot_of(key, 54321) == 15;
		same[1] += slot_of(key, 0) == 15;
	}
	/* a sixteenth, 25, is what chance gives */
	assert_in_range(same[0], 1, 100);
	assert_in_range(same[1], 1, 100);
}

/* Keys with equal low bits, as page addresses have, and a count at every growth. */
static void test_many(void **state __unused_arg)
{
	struct u64map m = { 0 };
	uint64_t v;

	for (uint64_t i = 0; i < 50000; i++) {
		uint64_t *at = u64map_at(&m, i << 12);

		assert_non_null(at);
		assert_int_equal(*at, 0);
		*at = i + 1;
		assert_int_equal(m.n, i + 1);
	}
	for (uint64_t i = 0; i < 50000; i++) {
		assert_true(u64map_get(&m, i << 12, &v));
		assert_int_equal(v, i + 1);
		assert_false(u64map_get(&m, (i << 12) + 1, &v));
	}
	u64map_free(&m);
}

/* Keys come and go in any order; the map keeps what is there, and no more room than that took. */
static void test_del(void **state __unused_arg)
{
	struct u64map m = { 0 };
	bool there[64] = { 0 };
	uint64_t v, x = 1;
	size_t n = 0;

	u64map_del(&m, 1);
	for (unsigned int round = 0; round < 50000; round++) {
		unsigned int k;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		k = (unsigned int)(x >> 58);
		if (x >> 33 & 1) {
			assert_int_equal(u64map_put(&m, k << 12, k + round), 0);
			n += !there[k];
		} else {
			u64map_del(&m, k << 12);
			n -= there[k];
		}
		there[k] = x >> 33 & 1;
		assert_int_equal(m.n, n);
		for (unsigned int i = round % 8; i < 64; i += 8)
			assert_int_equal(u64map_get(&m, i << 12, &v), there[i]);
	}
	for (uint64_t i = 0; i < 50000; i++) {
		assert_int_equal(u64map_put(&m, 1 + (i << 20), i), 0);
		u64map_del(&m, 1 + (i << 20));
	}
	assert_true(m.cap <= 128);
	u64map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_put_get),
		cmocka_unit_test(test_at),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_colliding),
		cmocka_unit_test(test_seed),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_del),
	};

	return cmocka_run_group_tests_name("util/map", tests, NULL, NULL);
}
