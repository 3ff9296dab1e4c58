/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_meta.c: tests of src/capture/meta.c: record lines both ways.
 */
#include "capture/reader.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state __unused_arg)
{
	struct sbuf l = { 0 };
	struct meta_rec r;
	uint64_t u;
	int64_t s;

	meta_begin(&l, "vcpu");
	meta_str(&l, "comm", "CPU 0/KVM =100%\n\xff");
	meta_str(&l, "empty", "");
	meta_str(&l, "absent", NULL);
	meta_u64(&l, "max", UINT64_MAX);
	meta_s64(&l, "min", INT64_MIN);
	assert_null(strchr(l.s, '\n'));
	assert_true(meta_parse(l.s, &r));
	assert_string_equal(r.name, "vcpu");
	assert_string_equal(meta_get(&r, "comm"), "CPU 0/KVM =100%\n\xff");
	assert_string_equal(meta_get(&r, "empty"), "");
	assert_null(meta_get(&r, "absent"));
	assert_true(meta_get_u64(&r, "max", &u) && u == UINT64_MAX);
	assert_true(meta_get_s64(&r, "min", &s) && s == INT64_MIN);
	assert_true(meta_get_bits(&r, "min", &u) && u == 1ull << 63);
	assert_false(meta_get_u64(&r, "min", &u));
	assert_false(meta_get_u64(&r, "comm", &u));
	meta_begin(&l, "again"); /* resets */
	assert_string_equal(l.s, "again");
	sbuf_free(&l);
}

static void test_narrow(void **state __unused_arg)
{
	char line[] = "x a=4294967295 b=4294967296 c=-2147483648 d=-2147483649 e=0x10";
	struct meta_rec r;
	uint32_t u = 1;
	int32_t s = 1;

	assert_true(meta_parse(line, &r));
	assert_true(meta_get_u32(&r, "a", &u) && u == UINT32_MAX);
	assert_false(meta_get_u32(&r, "b", &u));
	assert_true(meta_get_s32(&r, "c", &s) && s == INT32_MIN);
	assert_false(meta_get_s32(&r, "d", &s));
	assert_true(meta_get_u32(&r, "e", &u) && u == 16);
}

static void test_refused(void **state __unused_arg)
{
	char many[4096] = "r", *p = many + 1;
	const char *const bad[] = { "", " ", "a=b", "r x", "r =x", "r a=1 b" };
	struct meta_rec r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		char line[32];

		strcpy(line, bad[i]);
		assert_false(meta_parse(line, &r));
	}
	for (i = 0; i < 2 * META_MAX_KEYS; i++, p += 6)
		memcpy(p, " k=val", 7);
	assert_true(meta_parse(many, &r)); /* more names than known: the first ones */
	assert_int_equal(r.n, META_MAX_KEYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
