/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_put.c: tests of include/kvmft/put.h against printf.
 */
#include "kvmft/put.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SPACE (64 + PUT_SLACK)

/* Values at which the number of digits or bits changes, and their neighbours. */
static size_t edges(uint64_t v[600])
{
	size_t n = 0;
	uint64_t ten = 1;

	for (unsigned int i = 0; i < 64; i++)
		for (uint64_t d = 0; d < 3; d++)
			v[n++] = (1ull << i) - 1 + d;
	for (unsigned int i = 0; i < 20; i++, ten *= 10)
		for (uint64_t d = 0; d < 3; d++)
			v[n++] = ten - 1 + d;
	for (uint64_t i = 0; i < 256; i++)
		v[n++] = i * 0x0102030405060708;
	v[n++] = UINT64_MAX;
	return n;
}

static void check(char *text, const char *end, const char *want)
{
	assert_int_equal(end - text, strlen(want));
	assert_memory_equal(text, want, strlen(want));
	for (size_t i = strlen(want) + PUT_SLACK; i < SPACE; i++)
		assert_int_equal((unsigned char)text[i], 0xee);
	memset(text, 0xee, SPACE);
}

static void test_numbers(void **state __unused_arg)
{
	uint64_t v[600];
	size_t n = edges(v);
	char text[SPACE], want[64];

	memset(text, 0xee, sizeof(text));
	for (size_t i = 0; i < n; i++) {
		snprintf(want, sizeof(want), "%" PRIu64, v[i]);
		assert_int_equal(put_dec_len(v[i]), strlen(want));
		check(text, put_dec(text, v[i]), want);
		snprintf(want, sizeof(want), "%" PRId64, (int64_t)v[i]);
		check(text, put_sdec(text, (int64_t)v[i]), want);
		snprintf(want, sizeof(want), "%09" PRIu64, v[i] % 1000000000);
		check(text, put_dec_fixed(text, v[i], 9), want);
		snprintf(want, sizeof(want), "%" PRIx64, v[i]);
		check(text, put_hex(text, v[i]), want);
		for (int w = 1; w <= 16; w++) {
			snprintf(want, sizeof(want), "%0*" PRIx64, w, v[i]);
			check(text, put_hex_pad(text, v[i], (unsigned int)w), want);
		}
		snprintf(want, sizeof(want), "%08" PRIx32, (uint32_t)v[i]);
		check(text, put_hex8(text, (uint32_t)v[i]), want);
		snprintf(want, sizeof(want), "%016" PRIx64, v[i]);
		check(text, put_hex16(text, v[i]), want);
	}
	check(text, put_dec_fixed(text, 7, 0), "");
	for (uint32_t i = 0; i < 100000000; i += 1237) {
		snprintf(want, sizeof(want), "%08" PRIu32, i);
		check(text, put_dec_fixed(text, i, 8), want);
	}
}

static void test_texts(void **state __unused_arg)
{
	char from[64 + PUT_SLACK] = "The quick brown fox jumps over the lazy dog 0123456789";
	char text[SPACE];

	memset(text, 0xee, sizeof(text));
	for (size_t n = 0; n <= strlen(from); n++) {
		char want[64];

		snprintf(want, sizeof(want), "%.*s", (int)n, from);
		check(text, put_mem(text, from, n), want);
		check(text, put_padded(text, from, n), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
