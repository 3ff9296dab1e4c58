/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_sbuf.c: tests of src/util/sbuf.c and of the escapes it shares with str.c.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_add(void **state __unused_arg)
{
	struct sbuf b = { 0 };

	sbuf_add(&b, "");
	assert_string_equal(b.s, "");
	sbuf_add(&b, "ab");
	sbuf_addc(&b, 'c');
	sbuf_add_mem(&b, "d\0e", 3);
	sbuf_add_mem(&b, NULL, 0);
	assert_int_equal(b.len, 6);
	assert_memory_equal(b.s, "abcd\0e", 7);
	sbuf_free(&b);
	assert_null(b.s);
	sbuf_free(&b);
	sbuf_free(NULL);
}

static void test_addf_any_length(void **state __unused_arg)
{
	struct sbuf b = { 0 };

	/* Every length around the sizes of allocations, from every fill. */
	for (int n = 0; n < 300; n++) {
		size_t before = b.len;

		sbuf_addf(&b, "<%*s>", n, "");
		assert_int_equal(b.len, before + (size_t)n + 2);
		assert_int_equal(strlen(b.s), b.len);
		assert_int_equal(b.s[b.len - 1], '>');
	}
	assert_int_equal(b.error, 0);
	sbuf_free(&b);
}

static void test_numbers(void **state __unused_arg)
{
	static const uint64_t v[] = { 0, 1, 9, 10, 15, 16, 99, 100, 0xffffffff, 0x100000000,
				      (uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1,
				      UINT64_MAX - 1, UINT64_MAX };
	struct sbuf b = { 0 };
	char want[80];

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		sbuf_reset(&b);
		sbuf_add_u64(&b, v[i]);
		sbuf_addc(&b, ' ');
		sbuf_add_s64(&b, (int64_t)v[i]);
		sbuf_addc(&b, ' ');
		sbuf_add_hex(&b, v[i]);
		snprintf(want, sizeof(want), "%" PRIu64 " %" PRId64 " %" PRIx64, v[i],
			 (int64_t)v[i], v[i]);
		assert_string_equal(b.s, want);
	}
	sbuf_free(&b);
}

static void test_escapes_round_trip(void **state __unused_arg)
{
	char text[256], all[256];
	struct sbuf b = { 0 };

	for (int i = 0; i < 255; i++)
		all[i] = (char)(i + 1);
	all[255] = '\0';
	sbuf_add_escaped(&b, all);
	for (size_t i = 0; i < b.len; i++)
		assert_true(b.s[i] > 0x20 && b.s[i] < 0x7f && b.s[i] != '=');
	assert_true(b.len < sizeof(text) * 3);
	str_unescape(b.s);
	assert_string_equal(b.s, all);

	sbuf_reset(&b);
	sbuf_add_escaped(&b, "a b=c%d\n\xff~!");
	assert_string_equal(b.s, "a%20b%3dc%25d%0a%ff~!");
	sbuf_free(&b);
}

static void test_broken_escapes_stay(void **state __unused_arg)
{
	static const char *const kept[] = { "%", "%4", "%g0", "%0g", "a%", "%%", "%00", "%-1" };
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		snprintf(text, sizeof(text), "%s", kept[i]);
		str_unescape(text);
		assert_string_equal(text, kept[i]);
	}
	snprintf(text, sizeof(text), "%s", "%%41%4A%4a%2541%");
	str_unescape(text);
	assert_string_equal(text, "%AJJ%41%");
}

static void test_overflow_sticks(void **state __unused_arg)
{
	struct sbuf b = { 0 };

	sbuf_add(&b, "kept");
	sbuf_add_mem(&b, "", SIZE_MAX - 2); /* the sum wraps: must be seen before any copy */
	assert_int_equal(b.error, -ENOMEM);
	sbuf_add(&b, "no");
	sbuf_addf(&b, "%d", 1);
	sbuf_add_u64(&b, 1);
	assert_string_equal(b.s, "kept");
	sbuf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.error, -ENOMEM);
	assert_null(sbuf_take(&b));
	assert_int_equal(b.error, 0);

	sbuf_add_mem(&b, "", SIZE_MAX / 2 + 1);
	assert_int_equal(b.error, -ENOMEM);
	assert_null(b.s);
	sbuf_free(&b);
	assert_int_equal(b.error, 0);
}

static void test_take(void **state __unused_arg)
{
	struct sbuf b = { 0 };
	char *s = sbuf_take(&b);

	assert_non_null(s);
	assert_string_equal(s, "");
	free(s);
	sbuf_add(&b, "text");
	s = sbuf_take(&b);
	assert_string_equal(s, "text");
	free(s);
	assert_null(b.s);
	assert_int_equal(b.len + b.cap, 0);
}

static void test_csv(void **state __unused_arg)
{
	struct sbuf b = { 0 };

	for (const char *s = "=+-@\t"; *s; s++) {
		const char text[] = { *s, '1', '\0' }, want[] = { '\'', *s, '1', '\0' };

		sbuf_add_csv(&b, text);
		assert_string_equal(b.s, want);
		sbuf_reset(&b);
	}
	sbuf_add_csv(&b, "=1,2");
	assert_string_equal(b.s, "\"'=1,2\"");
	sbuf_reset(&b);
	sbuf_add_csv(&b, "plain");
	sbuf_addc(&b, ',');
	sbuf_add_csv(&b, NULL);
	sbuf_addc(&b, ',');
	sbuf_add_csv(&b, "a,\"b\"");
	assert_string_equal(b.s, "plain,,\"a,\"\"b\"\"\"");
	sbuf_reset(&b);
	sbuf_add_csv(&b, "two\nlines");
	assert_string_equal(b.s, "\"two\nlines\"");
	sbuf_free(&b);
}

static void test_word(void **state __unused_arg)
{
	static const char *const words[][2] = {
		{ "", "''" }, { "/run/a-b_c.1,2+3=4@5%6:7", "/run/a-b_c.1,2+3=4@5%6:7" },
		{ "my run", "'my run'" }, { "$(id)", "'$(id)'" }, { "it's", "'it'\\''s'" },
		{ "a\\b", "'a\\b'" }, { "~", "'~'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct sbuf b = { 0 };

		sbuf_add_word(&b, words[i][0]);
		assert_string_equal(b.s, words[i][1]);
		sbuf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_addf_any_length),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_escapes_round_trip),
		cmocka_unit_test(test_broken_escapes_stay),
		cmocka_unit_test(test_overflow_sticks),
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_word),
	};

	return cmocka_run_group_tests_name("util/sbuf", tests, NULL, NULL);
}
