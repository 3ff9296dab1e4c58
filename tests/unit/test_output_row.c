/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_output_row.c: tests of the cells of src/output/table.c.
 */
#include "kvmft/table.h"

#include <setjmp.h>

#include <cmocka.h>

static void columns(struct row *r, const char *text, bool known)
{
	row_str(r, "s", text);
	row_quoted(r, "q", text);
	row_u64(r, "u", known, UINT64_MAX);
	row_s64(r, "i", known, -1);
	row_bool(r, "b", known, true);
	row_fixed(r, "f", 1205, 2);
	row_time(r, "t", known, 1234567);
	row_end(r);
}

static void test_csv(void **state __unused_arg)
{
	struct sbuf b = { 0 };
	struct row r;

	r = (struct row){ .form = ROW_CSV, .b = &b, .cycles = false, .head = true };
	columns(&r, NULL, false);
	r = (struct row){ .form = ROW_CSV, .b = &b, .cycles = false };
	columns(&r, "a,b", true);
	r = (struct row){ .form = ROW_CSV, .b = &b, .cycles = true };
	columns(&r, NULL, false);
	r = (struct row){ .form = ROW_CSV, .b = &b, .cycles = true, .head = true };
	row_time(&r, "t", true, 1);
	assert_string_equal(b.s, "s,q,u,i,b,f,t_us\n"
				 "\"a,b\",\"a,b\",18446744073709551615,-1,1,12.05,1234.567\n"
				 ",\"\",,,,12.05,\n"
				 "t_cycles");
	sbuf_free(&b);
}

static void test_json(void **state __unused_arg)
{
	struct sbuf b = { 0 };
	struct json j;
	struct row r;

	json_init(&j, &b);
	json_array_begin(&j);
	row_json(&r, &j, false);
	columns(&r, "a,b", true);
	row_json(&r, &j, true);
	columns(&r, NULL, false);
	json_array_end(&j);
	assert_int_equal(json_finish(&j), 0);
	assert_string_equal(b.s, "[{\"s\":\"a,b\",\"q\":\"a,b\",\"u\":18446744073709551615,\"i\":-1,"
				 "\"b\":true,\"f\":12.05,\"t_ns\":1234567},"
				 "{\"s\":null,\"q\":null,\"u\":null,\"i\":null,\"b\":null,\"f\":12.05,"
				 "\"t_cycles\":null}]");
	sbuf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests_name("output/row", tests, NULL, NULL);
}
