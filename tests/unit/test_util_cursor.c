/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_cursor.c: tests of src/util/cursor.c: every record is cut at every byte.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

/* u8, u16, u32, u64, "ab", 3 bytes skipped, 2 bytes: 23 in all, unaligned on purpose. */
static const uint8_t record[] = { 0x01, 0x12, 0x34, 0x11, 0x22, 0x33, 0x44, 0x81, 0x82,
				  0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 'a',  'b',  0,
				  9,	9,    9,    0xca, 0xfe };

struct decoded {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	const char *s;
	const uint8_t *bytes;
};

/* Decodes until something is missing; returns how many of the seven parts came. */
static int decode(struct cursor *c, struct decoded *d)
{
	if (cur_u8(c, &d->u8))
		return 0;
	if (cur_u16(c, &d->u16))
		return 1;
	if (cur_u32(c, &d->u32))
		return 2;
	if (cur_u64(c, &d->u64))
		return 3;
	if (cur_str(c, &d->s))
		return 4;
	if (cur_skip(c, 3))
		return 5;
	return cur_bytes(c, 2, &d->bytes) ? 6 : 7;
}

static void test_values(void **state __unused_arg)
{
	struct cursor c = { record, sizeof(record) };
	struct decoded d;

	assert_int_equal(decode(&c, &d), 7);
	assert_int_equal(c.left, 0);
	assert_ptr_equal(c.p, record + sizeof(record));
	assert_int_equal(d.u8, 1);
	assert_int_equal(d.u16, 0x3412);
	assert_int_equal(d.u32, 0x44332211);
	assert_true(d.u64 == 0x8887868584838281);
	assert_string_equal(d.s, "ab");
	assert_ptr_equal(d.bytes, record + 21);
}

/* The copy on the heap is exactly as long as the cut, so that a sanitizer sees one byte too far. */
static void test_cut_everywhere(void **state __unused_arg)
{
	static const size_t end[] = { 1, 3, 7, 15, 18, 21, 23 };

	for (size_t n = 0; n <= sizeof(record); n++) {
		uint8_t *copy = malloc(n ? n : 1);
		struct cursor c = { copy, n };
		struct decoded d;
		size_t parts = 0, before;

		assert_non_null(copy);
		memcpy(copy, record, n);
		while (parts < ARRAY_SIZE(end) && end[parts] <= n)
			parts++;
		before = parts ? end[parts - 1] : 0;
		assert_int_equal(decode(&c, &d), parts);
		/* The failing read did not move. */
		assert_int_equal(c.left, n - before);
		assert_ptr_equal(c.p, copy + before);
		free(copy);
	}
}

static void test_huge_lengths(void **state __unused_arg)
{
	struct cursor c = { record, sizeof(record) };
	const uint8_t *p = NULL;

	assert_int_equal(cur_skip(&c, SIZE_MAX), -ENODATA);
	assert_int_equal(cur_bytes(&c, SIZE_MAX, &p), -ENODATA);
	assert_int_equal(cur_bytes(&c, sizeof(record) + 1, &p), -ENODATA);
	assert_null(p);
	assert_ptr_equal(c.p, record);
	assert_int_equal(cur_skip(&c, sizeof(record)), 0);
	assert_int_equal(c.left, 0);
}

static void test_empty(void **state __unused_arg)
{
	struct cursor c = { NULL, 0 };
	const uint8_t *p = record;
	const char *s = "kept";
	uint64_t v = 5;

	assert_int_equal(cur_u64(&c, &v), -ENODATA);
	assert_int_equal(v, 5);
	assert_int_equal(cur_str(&c, &s), -ENODATA);
	assert_string_equal(s, "kept");
	assert_int_equal(cur_skip(&c, 0), 0);
	assert_int_equal(cur_bytes(&c, 0, &p), 0);
	assert_null(p);
}

static void test_strings(void **state __unused_arg)
{
	static const uint8_t data[] = { 0, 'x', 0, 'y' };
	struct cursor c = { data, sizeof(data) };
	const char *s;

	assert_int_equal(cur_str(&c, &s), 0);
	assert_string_equal(s, "");
	assert_int_equal(cur_str(&c, &s), 0);
	assert_string_equal(s, "x");
	assert_int_equal(cur_str(&c, &s), -ENODATA); /* "y" does not end inside */
	assert_int_equal(c.left, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_huge_lengths),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests_name("util/cursor", tests, NULL, NULL);
}
