/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_diff_slices.c: sums by slices of time, of which each two become one as a recording grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kvmft/diff.h"

static struct diff_cell *cell(struct diff_set *s, uint64_t number, uint64_t n)
{
	size_t slice = diff_set_slice(s, n);
	struct diff_cell *c;
	struct diff_key *k;
	bool is_new;

	k = diff_set_key(s, number, &is_new);
	assert_non_null(k);
	c = diff_key_cell(k, slice);
	assert_non_null(c);
	k->n++;
	c->n++;
	c->timed++;
	c->time += 1000;
	diff_key_time(k, c, 1000, 1);
	s->guest[slice] += 7;
	return c;
}

/* One event in each stretch, of one key, and in each 10th of another. */
static void test_grow(void **state __unused_arg)
{
	struct diff_set s = { 0 };
	uint64_t n[2] = { 0 }, counted = 0;
	double guest = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		cell(&s, 5, i);
		if (i % 10 == 0)
			cell(&s, 9, i);
	}
	diff_set_end(&s, 1000 * (uint64_t)DIFF_SLICE);
	assert_int_equal(s.shift, 3);
	assert_int_equal(s.n, 125);
	assert_int_equal(s.slice, 8 * DIFF_SLICE);
	for (size_t i = 0; i < s.n; i++) {
		assert_int_equal(s.key[0]->slice[i]->n, 8);
		assert_int_equal((int)(s.key[0]->slice[i]->time), 8000);
		for (int k = 0; k < 2; k++)
			n[k] += s.key[k]->slice[i] ? s.key[k]->slice[i]->n : 0;
		counted += s.key[0]->slice[i]->count[loghist_index(1000) / 4];
		guest += s.guest[i];
	}
	assert_int_equal(n[0], 1000);
	assert_int_equal(n[1], 100);
	assert_int_equal(counted, 1000);
	assert_int_equal((int)guest, 7700);
	assert_int_equal(s.key[0]->times->n, 1000);
	diff_set_free(&s);
}

/* The last slice is as long as there is time. */
static void test_end(void **state __unused_arg)
{
	struct diff_set s = { 0 };

	cell(&s, 1, 0);
	diff_set_end(&s, 10 * (uint64_t)DIFF_SLICE + 1000);
	assert_int_equal(s.n, 11);
	assert_int_equal((int)s.ns[9], DIFF_SLICE);
	assert_int_equal((int)s.ns[10], 1000);
	diff_set_free(&s);
}

/* A stamp at the end of all times, and none at all. */
static void test_far(void **state __unused_arg)
{
	struct diff_set s = { 0 }, none = { 0 };

	cell(&s, 1, 0);
	cell(&s, 1, UINT64_MAX);
	diff_set_end(&s, UINT64_MAX);
	assert_in_range(s.n, 1, DIFF_SLICES);
	assert_int_equal(s.key[0]->n, 2);
	diff_set_end(&none, 0);
	assert_int_equal(none.n, 0);
	diff_set_free(&s);
	diff_set_free(&none);
}

/* More keys than are kept apart are one. */
static void test_keys(void **state __unused_arg)
{
	struct diff_set s = { 0 };
	uint64_t n = 0;

	for (uint64_t i = 0; i < DIFF_KEYS + 100; i++)
		cell(&s, i, i);
	assert_int_equal(s.nkey, DIFF_KEYS + 1);
	assert_string_equal(s.key[DIFF_KEYS]->name, "(others)");
	assert_int_equal(s.key[DIFF_KEYS]->n, 100);
	for (size_t i = 0; i < s.nkey; i++)
		n += s.key[i]->n;
	assert_int_equal(n, DIFF_KEYS + 100);
	diff_set_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
