/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_parse.c: tests of src/util/parse.c.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

struct row {
	const char *text;
	int err;
	uint64_t v;
};

/* On error the result must be what it was. */
#define UNTOUCHED 0x1234567812345678

static void check(int (*parse)(const char *, uint64_t *), const struct row *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = UNTOUCHED, want = row[i].err ? UNTOUCHED : row[i].v;
		int err = parse(row[i].text, &v);

		if (err != row[i].err || v != want)
			fail_msg("\"%s\": got %d, %llu; want %d, %llu", row[i].text, err,
				 (unsigned long long)v, row[i].err, (unsigned long long)want);
	}
}

static int parse_s64_as_u64(const char *s, uint64_t *v)
{
	int64_t got = UNTOUCHED;
	int err = parse_s64(s, &got);

	*v = (uint64_t)got;
	return err;
}

static void test_u64(void **state __unused_arg)
{
	static const struct row row[] = {
		{ "0", 0, 0 },
		{ "00012", 0, 12 }, /* not octal */
		{ "0x0", 0, 0 },
		{ "0XaBcDeF", 0, 0xabcdef },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446744073709551620", -ERANGE, 0 },
		{ "184467440737095516150", -ERANGE, 0 },
		{ "0xffffffffffffffff", 0, UINT64_MAX },
		{ "0x0000000000000000000001", 0, 1 },
		{ "0x10000000000000000", -ERANGE, 0 },
		{ "99999999999999999999999x", -EINVAL, 0 }, /* first of all no number */
		{ "", -EINVAL, 0 },
		{ "x", -EINVAL, 0 },
		{ "0x", -EINVAL, 0 },
		{ "0xg", -EINVAL, 0 },
		{ "x10", -EINVAL, 0 },
		{ "1f", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1\n", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "-0", -EINVAL, 0 },
		{ "1.0", -EINVAL, 0 },
	};

	check(parse_u64, row, ARRAY_SIZE(row));
}

static void test_s64(void **state __unused_arg)
{
	static const struct row row[] = {
		{ "0", 0, 0 },
		{ "-0", 0, 0 },
		{ "-1", 0, UINT64_MAX },
		{ "-0x10", 0, (uint64_t)-16 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "-9223372036854775807", 0, (uint64_t)-INT64_MAX },
		{ "-9223372036854775808", 0, (uint64_t)INT64_MIN },
		{ "-9223372036854775809", -ERANGE, 0 },
		{ "-18446744073709551616", -ERANGE, 0 },
		{ "0x8000000000000000", -ERANGE, 0 },
		{ "--1", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "- 1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
	};

	check(parse_s64_as_u64, row, ARRAY_SIZE(row));
}

static void test_bits64(void **state __unused_arg)
{
	static const struct row row[] = {
		{ "-1", 0, UINT64_MAX },
		{ "0xffffffffffffffff", 0, UINT64_MAX },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "-9223372036854775808", 0, (uint64_t)1 << 63 },
		{ "0x8000000000000000", 0, (uint64_t)1 << 63 },
		{ "9223372036854775808", 0, (uint64_t)1 << 63 },
		{ "-300000000000000", 0, (uint64_t)-300000000000000 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "-9223372036854775809", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "--1", -EINVAL, 0 },
	};

	check(parse_bits64, row, ARRAY_SIZE(row));
}

static void test_size(void **state __unused_arg)
{
	static const struct row row[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "0x1000", 0, 4096 },
		{ "1K", 0, 1024 },
		{ "1k", 0, 1024 },
		{ "1KiB", 0, 1024 },
		{ "3M", 0, 3 << 20 },
		{ "3m", 0, 3 << 20 },
		{ "3MiB", 0, 3 << 20 },
		{ "2G", 0, (uint64_t)2 << 30 },
		{ "2g", 0, (uint64_t)2 << 30 },
		{ "2GiB", 0, (uint64_t)2 << 30 },
		{ "17179869183G", 0, (uint64_t)17179869183 << 30 },
		{ "17179869184G", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446744073709551616K", -ERANGE, 0 },
		{ "18446744073709551616X", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "K", -EINVAL, 0 },
		{ "1KK", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 },
		{ "1KB", -EINVAL, 0 }, /* 1000 or 1024: let the user say */
		{ "1T", -EINVAL, 0 },
		{ "1.5G", -EINVAL, 0 },
		{ "-1K", -EINVAL, 0 },
	};

	check(parse_size, row, ARRAY_SIZE(row));
}

static void test_duration(void **state __unused_arg)
{
	static const struct row row[] = {
		{ "0", 0, 0 },
		{ "5", 0, 5000000000 },
		{ "7ns", 0, 7 },
		{ "7us", 0, 7000 },
		{ "7ms", 0, 7000000 },
		{ "7s", 0, 7000000000 },
		{ "7m", 0, 420000000000 },
		{ "7h", 0, 25200000000000 },
		{ "1.5s", 0, 1500000000 },
		{ "1.5", 0, 1500000000 },
		{ "0.1h", 0, 360000000000 },
		{ "0.25m", 0, 15000000000 },
		{ "0.000000001", 0, 1 },
		{ "0.001us", 0, 1 },
		{ "0.0000000000025h", 0, 9 },
		{ "1.000000000000000000000000ns", 0, 1 },
		{ "0010.50ms", 0, 10500000 },
		{ "18446744073.709551615", 0, UINT64_MAX },
		{ "18446744073.709551616", -ERANGE, 0 },
		{ "18446744073709551615ns", 0, UINT64_MAX },
		{ "18446744073709551616ns", -ERANGE, 0 },
		{ "5124096h", -ERANGE, 0 },
		{ "18446744073709551615h", -ERANGE, 0 },
		{ "0.5ns", -EINVAL, 0 },
		{ "0.0000000001", -EINVAL, 0 },
		{ "0.33333333333333333333", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ "1.s", -EINVAL, 0 },
		{ "1.5.5s", -EINVAL, 0 },
		{ "1..5s", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "0x10s", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "1.-5s", -EINVAL, 0 },
		{ "1 s", -EINVAL, 0 },
		{ "1M", -EINVAL, 0 },
		{ "1sec", -EINVAL, 0 },
	};

	check(parse_duration, row, ARRAY_SIZE(row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_s64),
		cmocka_unit_test(test_bits64),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_duration),
	};

	return cmocka_run_group_tests_name("util/parse", tests, NULL, NULL);
}
