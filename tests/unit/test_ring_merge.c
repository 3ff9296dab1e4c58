/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_merge.c: tests of src/ring/rmerge.c against sorting everything.
 */
#include "kvmft/ring.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

struct list {
	uint64_t key[64];
	size_t n, at;
};

static bool list_next(void *src, uint64_t *key)
{
	struct list *l = src;

	if (l->at >= l->n)
		return false;
	*key = l->key[l->at++];
	return true;
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Small numbers; with far set, some of them behind jumps of any size. */
static uint64_t any_key(unsigned int *seed, uint64_t spread, bool far)
{
	uint64_t key = (uint64_t)rand_r(seed) % spread;

	if (far && rand_r(seed) % 2)
		key += ((uint64_t)rand_r(seed) << 33 ^ (uint64_t)rand_r(seed)) >> rand_r(seed) % 48;
	return far && rand_r(seed) % 50 == 0 ? UINT64_MAX - key % 3 : key;
}

static void check(size_t n, unsigned int seed, uint64_t spread, bool far)
{
	struct list *l = calloc(n + 1, sizeof(*l));
	void **src = calloc(n + 1, sizeof(*src));
	uint64_t *all = calloc(n * 64 + 1, sizeof(*all)), key, last_key = 0;
	size_t total = 0, i, k, got = 0;
	ssize_t w, last = -1;
	struct rmerge *m;

	for (i = 0; i < n; i++) {
		l[i].n = (size_t)rand_r(&seed) % 65; /* some are empty */
		for (k = 0; k < l[i].n; k++)
			all[total++] = l[i].key[k] = any_key(&seed, spread, far);
		qsort(l[i].key, l[i].n, sizeof(uint64_t), by_key);
		src[i] = &l[i];
	}
	qsort(all, total, sizeof(*all), by_key);
	assert_int_equal(rmerge_new(&m, list_next, src, n), 0);
	for (w = rmerge_peek(m, &key); w >= 0; w = rmerge_pop(m, w, list_next, &key)) {
		assert_true(got < total);
		assert_int_equal(key, all[got]);
		if (got && key == last_key)
			assert_true(w >= last); /* ties: lowest index first */
		assert_int_equal(rmerge_peek(m, &key), w);
		last = w;
		last_key = key;
		got++;
	}
	assert_int_equal(got, total);
	assert_int_equal(rmerge_pop(m, w, list_next, &key), -1); /* harmless at the end */
	assert_int_equal(rmerge_peek(m, &key), -1);
	rmerge_free(m);
	free(l);
	free(src);
	free(all);
}

static void test_sorted(void **state __unused_arg)
{
	unsigned int seed = 1;
	size_t n;

	for (n = 0; n <= 40; n++)
		for (seed = 1; seed <= 8; seed++)
			check(n, seed, seed % 2 ? 1u << 30 : 5, false);
	for (n = 0; n <= 40; n++)
		for (seed = 1; seed <= 40; seed++)
			check(n, seed, seed % 2 ? 1u << 30 : 5, true);
}

/* A source that breaks its promise: what it has is first, once it has it. */
static void test_backwards(void **state __unused_arg)
{
	struct list a = { .key = { 1000, 50, 2000 }, .n = 3 }, b = { .key = { 1000, 1500 }, .n = 2 };
	void *const src[] = { &a, &b };
	const uint64_t want[] = { 1000, 50, 1000, 1500, 2000 };
	struct rmerge *m;
	uint64_t key = 0;
	ssize_t w;

	assert_int_equal(rmerge_new(&m, list_next, src, 2), 0);
	for (size_t i = 0; i < 5; i++) {
		w = rmerge_peek(m, &key);
		assert_true(w >= 0);
		assert_int_equal(key, want[i]);
		w = rmerge_pop(m, w, list_next, &key);
		assert_int_equal(w, rmerge_peek(m, &key));
	}
	assert_int_equal(rmerge_peek(m, &key), -1);
	rmerge_free(m);
}

static void test_extreme_keys(void **state __unused_arg)
{
	struct list a = { .key = { 0, UINT64_MAX }, .n = 2 }, b = { .key = { UINT64_MAX }, .n = 1 };
	struct list c = { .n = 0 };
	void *const src[] = { &a, &b, &c };
	const ssize_t order[] = { 0, 0, 1 };
	struct rmerge *m;
	uint64_t key;
	size_t i;

	assert_int_equal(rmerge_new(&m, list_next, src, 3), 0);
	for (i = 0; i < 3; i++) { /* UINT64_MAX is a key, not "ended" */
		assert_int_equal(rmerge_peek(m, &key), order[i]);
		(void)rmerge_pop(m, order[i], list_next, &key);
	}
	assert_int_equal(rmerge_peek(m, &key), -1);
	rmerge_free(m);
	rmerge_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_backwards),
		cmocka_unit_test(test_extreme_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
