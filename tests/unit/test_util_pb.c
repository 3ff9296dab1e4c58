/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_pb.c: tests of src/util/pb.c, against a decoder written from the wire format's
 * description.
 */
#include "kvmft/pb.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint64_t get_varint(const struct sbuf *b, size_t *at)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t c;

	do {
		assert_true(*at < b->len && shift < 70);
		c = (uint8_t)b->s[(*at)++];
		v |= (uint64_t)(c & 0x7f) << shift;
		shift += 7;
	} while (c & 0x80);
	return v;
}

static void expect_tag(const struct sbuf *b, size_t *at, uint32_t field, unsigned int wire)
{
	assert_int_equal(get_varint(b, at), (uint64_t)field << 3 | wire);
}

static void test_varints(void **state __unused_arg)
{
	static const uint8_t n300[] = { 0xac, 0x02 }; /* the example of the description */
	struct sbuf b = { 0 };
	size_t at;

	pb_varint(&b, 300);
	assert_int_equal(b.len, 2);
	assert_memory_equal(b.s, n300, 2);
	for (unsigned int bit = 0; bit <= 64; bit++) {
		uint64_t edge = bit < 64 ? 1ull << bit : 0;

		for (uint64_t v = edge - 2; v != edge + 2; v++) {
			sbuf_reset(&b);
			pb_varint(&b, v);
			at = 0;
			assert_int_equal(get_varint(&b, &at), v);
			assert_int_equal(at, b.len);
			/* no longer than it must be */
			assert_int_equal(b.len, v ? (size_t)(63 - __builtin_clzll(v)) / 7 + 1 : 1);
		}
	}
	sbuf_free(&b);
}

static void test_fields(void **state __unused_arg)
{
	struct sbuf b = { 0 };
	size_t at = 0;

	pb_u64(&b, 1, UINT64_MAX);
	pb_s64(&b, 58, -1);
	pb_str(&b, 536870911, "a\xff\xc3\xa4\xc3"); /* the highest number; two bytes are no UTF-8 */
	expect_tag(&b, &at, 1, 0);
	assert_int_equal(get_varint(&b, &at), UINT64_MAX);
	expect_tag(&b, &at, 58, 0);
	assert_int_equal(get_varint(&b, &at), UINT64_MAX);
	expect_tag(&b, &at, 536870911, 2);
	assert_int_equal(get_varint(&b, &at), 5);
	assert_memory_equal(b.s + at, "a?\xc3\xa4?", 5);
	assert_int_equal(at + 5, b.len);
	sbuf_free(&b);
}

static void test_nested(void **state __unused_arg)
{
	static const size_t size[] = { 0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 3000000 };
	struct sbuf b = { 0 };
	char *fill = calloc(1, 3000000);
	size_t outer, inner, at, k, n;

	for (k = 0; k < ARRAY_SIZE(size); k++) {
		sbuf_reset(&b);
		outer = pb_begin(&b, 1);
		pb_u64(&b, 2, 7);
		inner = pb_begin(&b, 3);
		sbuf_add_mem(&b, fill, size[k]);
		pb_end(&b, inner);
		pb_u64(&b, 4, 9);
		pb_end(&b, outer);
		at = 0;
		expect_tag(&b, &at, 1, 2);
		n = get_varint(&b, &at);
		assert_int_equal(at + n, b.len);
		expect_tag(&b, &at, 2, 0);
		assert_int_equal(get_varint(&b, &at), 7);
		expect_tag(&b, &at, 3, 2);
		assert_int_equal(get_varint(&b, &at), size[k]);
		at += size[k];
		expect_tag(&b, &at, 4, 0);
		assert_int_equal(get_varint(&b, &at), 9);
		assert_int_equal(at, b.len);
	}
	free(fill);
	sbuf_free(&b);
}

static void test_errors(void **state __unused_arg)
{
	struct sbuf b = { .error = -ENOMEM };
	size_t mark;

	mark = pb_begin(&b, 1); /* nothing is touched in a buffer that has none */
	pb_str(&b, 2, "text");
	pb_end(&b, mark);
	assert_int_equal(b.error, -ENOMEM);
	assert_int_equal(b.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
