/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_json.c: tests of src/util/json.c against expected text.
 */
#include "kvmft/json.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void expect(struct json *j, const char *want)
{
	assert_int_equal(json_finish(j), 0);
	assert_string_equal(j->out->s, want);
	sbuf_free(j->out);
}

static void test_nesting(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j);
	json_key(&j, "a");
	json_array_begin(&j);
	json_u64(&j, 1);
	json_array_begin(&j);
	json_array_end(&j);
	json_object_begin(&j);
	json_object_end(&j);
	json_array_begin(&j);
	json_null(&j);
	json_array_end(&j);
	json_bool(&j, true);
	json_array_end(&j);
	json_key(&j, "b");
	json_object_begin(&j);
	json_key(&j, "c");
	json_bool(&j, false);
	json_key(&j, "");
	json_str(&j, NULL);
	json_object_end(&j);
	json_key(&j, "d");
	json_s64(&j, -1);
	json_object_end(&j);
	expect(&j, "{\"a\":[1,[],{},[null],true],\"b\":{\"c\":false,\"\":null},\"d\":-1}");
}

static void test_scalars(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	json_init(&j, &out);
	json_str(&j, "");
	expect(&j, "\"\"");

	json_init(&j, &out);
	json_array_begin(&j);
	json_u64(&j, UINT64_MAX);
	json_s64(&j, INT64_MIN);
	json_s64(&j, INT64_MAX);
	json_array_end(&j);
	expect(&j, "[18446744073709551615,-9223372036854775808,9223372036854775807]");
}

static void test_strings(void **state __unused_arg)
{
	static const struct {
		const char *in;
		size_t n;
		const char *want;
	} row[] = {
		{ "plain /~", 8, "\"plain /~\"" },
		{ "\"\\", 2, "\"\\\"\\\\\"" },
		{ "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"" },
		{ "\x01\x0b\x1f\x7f", 4, "\"\\u0001\\u000b\\u001f\\u007f\"" },
		{ "a\0b", 3, "\"a\\u0000b\"" },
		{ "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		  "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\xff\x80", 2, "\"\\u00ff\\u0080\"" },
		{ "\xc2\x9b", 2, "\"\\u009b\"" },
		{ "\xe2\x80\xae\xef\xbb\xbf", 6, "\"\\u202e\\ufeff\"" },
		{ "\xf3\xa0\x80\x81", 4, "\"\\udb40\\udc01\"" },
		{ "\xc2\xa0", 2, "\"\xc2\xa0\"" },
		{ "\xe2\x82", 2, "\"\\u00e2\\u0082\"" },
		{ "\xc3\"", 2, "\"\\u00c3\\\"\"" }, /* a cut character cannot eat the quote */
		{ "\xed\xa0\x80", 3, "\"\\u00ed\\u00a0\\u0080\"" },
		{ NULL, 0, "\"\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct sbuf out = { 0 };
		struct json j;

		json_init(&j, &out);
		json_str_mem(&j, row[i].in, row[i].n);
		expect(&j, row[i].want);
	}
}

/* Whatever the bytes: plain printable text between two quotes, and no quote inside. */
static void test_every_byte(void **state __unused_arg)
{
	for (int i = 0; i < 256; i++) {
		struct sbuf out = { 0 };
		char c = (char)i;
		struct json j;

		json_init(&j, &out);
		json_str_mem(&j, &c, 1);
		assert_int_equal(json_finish(&j), 0);
		for (size_t k = 0; k < out.len; k++)
			assert_in_range(out.s[k], 0x20, 0x7e);
		assert_int_equal(out.s[0], '"');
		assert_int_equal(out.s[out.len - 1], '"');
		assert_null(memchr(out.s + 2, '"', out.len - 3 - (c == '"')));
		assert_in_range(out.len, 3, 8);
		sbuf_free(&out);
	}
}

static void test_keys_escaped(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j);
	json_key(&j, "a\"\n\xff");
	json_u64(&j, 0);
	json_object_end(&j);
	expect(&j, "{\"a\\\"\\n\\u00ff\":0}");
}

static void test_fixed(void **state __unused_arg)
{
	static const struct {
		uint64_t v;
		unsigned int scale;
		const char *want;
	} row[] = {
		{ 0, 0, "0" },
		{ 7, 0, "7" },
		{ 0, 3, "0.000" },
		{ 5, 3, "0.005" },
		{ 1250, 3, "1.250" },
		{ 999, 3, "0.999" },
		{ 1000, 3, "1.000" },
		{ INT64_MAX, 9, "9223372036.854775807" },
		{ INT64_MAX, 19, "0.9223372036854775807" },
		{ 1, 25, "0.0000000000000000000000001" },
	};
	struct sbuf out = { 0 };
	struct json j;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		json_init(&j, &out);
		json_fixed_u64(&j, row[i].v, row[i].scale);
		expect(&j, row[i].want);
	}
	json_init(&j, &out);
	json_fixed_u64(&j, UINT64_MAX, 3);
	expect(&j, "18446744073709551.615");
	json_init(&j, &out);
	json_fixed_u64(&j, UINT64_MAX, JSON_SCALE_MAX);
	assert_int_equal(out.len, 2 + JSON_SCALE_MAX);
	assert_int_equal(json_finish(&j), 0);
	sbuf_free(&out);
	json_init(&j, &out);
	json_fixed_u64(&j, 1, JSON_SCALE_MAX + 1);
	assert_int_equal(json_finish(&j), -EINVAL);
	assert_int_equal(out.len, 0);
}

static void test_depth(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	/* Objects and arrays in turn, down to the limit and back: each end must match. */
	json_init(&j, &out);
	for (int i = 0; i < JSON_DEPTH_MAX; i++) {
		if (i % 2) {
			json_key(&j, "k");
			json_array_begin(&j);
		} else {
			json_object_begin(&j);
		}
	}
	for (int i = JSON_DEPTH_MAX; i-- > 0;) {
		if (i % 2)
			json_array_end(&j);
		else
			json_object_end(&j);
	}
	assert_int_equal(json_finish(&j), 0);
	assert_int_equal(out.len, JSON_DEPTH_MAX / 2 * (1 + 4 + 1 + 1 + 1));
	sbuf_free(&out);

	json_init(&j, &out);
	for (int i = 0; i <= JSON_DEPTH_MAX; i++)
		json_array_begin(&j);
	assert_int_equal(out.len, JSON_DEPTH_MAX);
	for (int i = 0; i <= JSON_DEPTH_MAX; i++)
		json_array_end(&j);
	assert_int_equal(json_finish(&j), -EINVAL);
	sbuf_free(&out);
}

/* The text may be drained at any moment: nothing is looked up in it. */
static void test_streaming(void **state __unused_arg)
{
	struct sbuf out = { 0 }, all = { 0 };
	struct json j;

	json_init(&j, &out);
	json_array_begin(&j);
	for (uint64_t i = 0; i < 4; i++) {
		sbuf_add_mem(&all, out.s, out.len);
		sbuf_reset(&out);
		json_u64(&j, i);
	}
	json_array_end(&j);
	sbuf_add_mem(&all, out.s, out.len);
	assert_int_equal(json_finish(&j), 0);
	assert_string_equal(all.s, "[0,1,2,3]");
	sbuf_free(&all);
	sbuf_free(&out);
}

/*
 * Misuse as a script, one letter per call: { } [ ] as they look, k key, 1 value. Each must end
 * in -EINVAL, with exactly the text of the calls before the wrong one.
 */
static void test_misuse(void **state __unused_arg)
{
	static const struct {
		const char *script, *left;
	} row[] = {
		{ "", "" },
		{ "{", "{" },
		{ "[", "[" },
		{ "}", "" },
		{ "]", "" },
		{ "k", "" },
		{ "11", "1" },
		{ "[]1", "[]" },
		{ "[]]", "[]" },
		{ "[}]", "[" },
		{ "{]}", "{" },
		{ "{1}", "{" },
		{ "{{}}", "{" },
		{ "{[]}", "{" },
		{ "{k}", "{\"k\":" },
		{ "{kk1}", "{\"k\":" },
		{ "{k11}", "{\"k\":1" },
		{ "[k1]", "[" },
		{ "{k[}]", "{\"k\":[" },
		{ "{k1", "{\"k\":1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct sbuf out = { 0 };
		struct json j;

		json_init(&j, &out);
		for (const char *s = row[i].script; *s; s++) {
			switch (*s) {
			case '{': json_object_begin(&j); break;
			case '}': json_object_end(&j); break;
			case '[': json_array_begin(&j); break;
			case ']': json_array_end(&j); break;
			case 'k': json_key(&j, "k"); break;
			default: json_u64(&j, 1); break;
			}
		}
		assert_int_equal(json_finish(&j), -EINVAL);
		assert_string_equal(out.s ? out.s : "", row[i].left);
		sbuf_free(&out);
	}
}

static void test_out_of_memory_tells(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	json_init(&j, &out);
	sbuf_add_mem(&out, "", SIZE_MAX); /* refused before any copy */
	json_null(&j);
	assert_int_equal(json_finish(&j), -ENOMEM);
	sbuf_free(&out);
}

static void test_members(void **state __unused_arg)
{
	struct sbuf out = { 0 };
	struct json j;

	json_line_begin(&j, &out);
	json_put_str(&j, "s", "x");
	json_put_u64(&j, "u", UINT64_MAX);
	json_put_s64(&j, "i", -1);
	json_put_bool(&j, "b", true);
	json_put_fixed(&j, "f", 1250, 3);
	json_put_known_u64(&j, "ku", true, 7);
	json_put_known_s64(&j, "ki", false, 7);
	json_put_array(&j, "a");
	json_array_end(&j);
	json_put_object(&j, "o");
	json_object_end(&j);
	json_line_end(&j);
	assert_int_equal(out.error, 0);
	assert_string_equal(out.s, "{\"s\":\"x\",\"u\":18446744073709551615,\"i\":-1,\"b\":true,"
				   "\"f\":1.250,\"ku\":7,\"ki\":null,\"a\":[],\"o\":{}}\n");
	sbuf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_keys_escaped),
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_streaming),
		cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_out_of_memory_tells),
		cmocka_unit_test(test_members),
	};

	return cmocka_run_group_tests_name("util/json", tests, NULL, NULL);
}
