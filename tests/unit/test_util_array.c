/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_array.c: tests of src/util/array.c.
 */
#include "kvmft/util.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

struct item {
	uint64_t a;
	char b[5];
};

static void test_grow(void **state __unused_arg)
{
	struct item *v = NULL, *p;
	size_t n = 0, cap = 0;

	for (; n < 1000; n++) {
		static const struct item zero;

		p = array_grow(&v, n, &cap, sizeof(*p));
		assert_non_null(p);
		assert_ptr_equal(p, &v[n]);
		assert_true(cap > n);
		assert_memory_equal(p, &zero, sizeof(zero));
		memset(p, 0xff, sizeof(*p));
		p->a = n;
	}
	for (n = 0; n < 1000; n++)
		assert_int_equal(v[n].a, n);
	assert_true(cap < 4000);

	/* A place that was used before is zeroed again. */
	p = array_grow(&v, 3, &cap, sizeof(*p));
	assert_ptr_equal(p, &v[3]);
	assert_int_equal(p->a, 0);
	free(v);
}

static void test_overflow(void **state __unused_arg)
{
	uint64_t *v = NULL;
	size_t cap = 0;

	assert_null(array_grow(&v, SIZE_MAX / 2 + 1, &cap, 8)); /* 2n wraps */
	assert_null(array_grow(&v, SIZE_MAX / 8, &cap, 8));	/* 2n * 8 wraps */
	assert_null(array_grow(&v, 2, &cap, SIZE_MAX / 3));
	assert_null(array_grow(&v, 0, &cap, 0));
	assert_null(v);
	assert_int_equal(cap, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_overflow),
	};

	return cmocka_run_group_tests_name("util/array", tests, NULL, NULL);
}
