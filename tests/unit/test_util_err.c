/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_err.c: tests of src/util/err.c.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void test_set(void **state __unused_arg)
{
	struct kvmft_err err = { .text = "old", .code = KVMFT_LACKING };

	assert_int_equal(err_set(&err, ENOENT, "no VM %s (%d)", "web", 3), -ENOENT);
	assert_string_equal(err.text, "no VM web (3)");
	assert_int_equal(err.code, KVMFT_FAILED);
}

static void test_codes(void **state __unused_arg)
{
	struct kvmft_err err = { 0 };

	assert_int_equal(err_lack(&err, ENOSYS, "%s", "no tracefs"), -ENOSYS);
	assert_int_equal(err.code, KVMFT_LACKING);
	assert_int_equal(err_usage(&err, "%s", "what?"), -EINVAL);
	assert_int_equal(err.code, KVMFT_USAGE);
	assert_string_equal(err.text, "what?");
}

static void test_why(void **state __unused_arg)
{
	struct kvmft_err err = { .text = "old" };

	assert_int_equal(err_why(&err, 0, "cannot read %s", "x"), 0);
	assert_string_equal(err.text, "old");
	assert_int_equal(err_why(&err, -ENOENT, "cannot read %s", "x"), -ENOENT);
	assert_string_equal(err.text, "cannot read x: No such file or directory");
	assert_int_equal(err_why(&err, EPERM, "%s", err.text), -EPERM);
	assert_string_equal(err.text,
			    "cannot read x: No such file or directory: Operation not permitted");
	assert_int_equal(err_why(NULL, EIO, "x"), -EIO);
}

static void test_null(void **state __unused_arg)
{
	assert_int_equal(err_set(NULL, EIO, "x"), -EIO);
	assert_int_equal(err_lack(NULL, EPERM, "x"), -EPERM);
	assert_int_equal(err_usage(NULL, "x"), -EINVAL);
}

static void test_sign(void **state __unused_arg)
{
	assert_int_equal(err_set(NULL, -ENOSPC, "x"), -ENOSPC);
	assert_int_equal(err_set(NULL, 0, "x"), -EIO); /* never reads as success */
}

static void test_context_from_itself(void **state __unused_arg)
{
	struct kvmft_err err = { 0 };

	(void)!err_set(&err, EIO, "inner");
	assert_int_equal(err_set(&err, EIO, "outer: %s: %s", err.text, err.text), -EIO);
	assert_string_equal(err.text, "outer: inner: inner");
}

static void test_long_and_dirty(void **state __unused_arg)
{
	struct kvmft_err err = { 0 };
	char text[3000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)!err_set(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	(void)!err_set(&err, EIO, "%s", "vm\033[31m\nname");
	assert_string_equal(err.text, "vm?[31m?name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_sign),
		cmocka_unit_test(test_context_from_itself),
		cmocka_unit_test(test_long_and_dirty),
	};

	return cmocka_run_group_tests_name("util/err", tests, NULL, NULL);
}
