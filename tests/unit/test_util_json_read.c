/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_json_read.c: the JSON reader: grammar, look-ups, strings, values that come in pieces.
 */
#include "kvmft/json_read.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* In memory of its own of just that size, so that ASan sees a byte too far. */
static int parse_exact(const char *text, size_t n)
{
	char *copy = malloc(n ? n : 1);
	struct jval v;
	int ret;

	assert_non_null(copy);
	memcpy(copy, text, n);
	ret = jval_parse(copy, n, &v);
	if (!ret)
		assert_true(v.n > 0 && v.p >= copy && v.p + v.n <= copy + n);
	free(copy);
	return ret;
}

static void grammar(void **state __unused_arg)
{
	static const char *const good[] = {
		"{}", "[]", " [ ] ", "{\"a\":1}", "[1,2,[3,{}],{\"x\":[]}]", "\"\"", "\"\\u00e9\\n\"", "0",
		"-0.5e+10", "1E9", "true", "false", "null", "{\"\":{\"\":[null]}}",
		"\r\n{ \"a\" : [ 1 , true ] }\t",
	};
	static const char *const bad[] = {
		"", " ", "{", "}", "[", "[1", "[1,", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}",
		"{1:1}", "[1 2]", "{}{}", "01", "-", "1.", ".5", "1e", "+1", "tru", "nul", "\"", "\"\\\"",
		"\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[}", "{]", "[\"a\":1]", "'a'", "NaN", ",", ":",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(parse_exact(good[i], strlen(good[i])), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_exact(bad[i], strlen(bad[i])), -EINVAL);
}

static void cut_anywhere(void **state __unused_arg)
{
	static const char text[] =
		"{\"return\": [{\"name\": \"a\\u00e9\", \"vcpu\": false, \"n\": -1.5e3}, [], {}]}";

	for (size_t n = 0; n < strlen(text); n++)
		assert_int_equal(parse_exact(text, n), -EINVAL);
	assert_int_equal(parse_exact(text, strlen(text)), 0);
	assert_int_equal(parse_exact("{\"a\0\":1}", 8), -EINVAL);
}

static void depth(void **state __unused_arg)
{
	char text[4 * JVAL_DEPTH_MAX];

	memset(text, '[', JVAL_DEPTH_MAX);
	memset(text + JVAL_DEPTH_MAX, ']', JVAL_DEPTH_MAX);
	assert_int_equal(parse_exact(text, 2 * JVAL_DEPTH_MAX), 0);
	memset(text, '[', JVAL_DEPTH_MAX + 1);
	memset(text + JVAL_DEPTH_MAX + 1, ']', JVAL_DEPTH_MAX + 1);
	assert_int_equal(parse_exact(text, 2 * JVAL_DEPTH_MAX + 2), -EINVAL);
}

static struct jval parsed(const char *text)
{
	struct jval v;

	assert_int_equal(jval_parse(text, strlen(text), &v), 0);
	return v;
}

static void lookups(void **state __unused_arg)
{
	struct jval v = parsed(" { \"a\" : \"x}],\\\"\" , \"b\":[ 1 ,{\"c\":2}, \"\" ] ,\"d\":true,"
			       "\"e\":18446744073709551615, \"f\":1.5,\"a\":0 } ");
	struct jval e;
	uint64_t u = 7;
	size_t n = 0;

	assert_int_equal(jval_type(v), JVAL_OBJECT);
	assert_true(jval_get(v, "a", &e)); /* the first of two */
	assert_int_equal(jval_type(e), JVAL_STRING);
	assert_true(jval_get(v, "d", &e) && jval_true(e));
	assert_true(jval_get(v, "e", &e) && jval_u64(e, &u));
	assert_true(u == UINT64_MAX);
	assert_true(jval_get(v, "f", &e));
	assert_false(jval_u64(e, &u));
	assert_false(jval_get(v, "c", &e));
	assert_int_equal(jval_type(e), JVAL_NONE);
	assert_true(jval_get(v, "b", &e));
	for (struct jiter i = jval_iter(e); jiter_next(&i); n++) {
		if (n == 0)
			assert_true(jval_u64(i.value, &u) && u == 1);
		else if (n == 1)
			assert_true(jval_get(i.value, "c", &v) && jval_u64(v, &u) && u == 2);
		else
			assert_true(jval_is(i.value, ""));
	}
	assert_int_equal(n, 3);
	for (struct jiter i = jval_iter(parsed("[]")); jiter_next(&i);)
		fail();
	for (struct jiter i = jval_iter(parsed("12")); jiter_next(&i);)
		fail();
	for (struct jiter i = jval_iter((struct jval){ 0 }); jiter_next(&i);)
		fail();
	assert_false(jval_get(parsed("[\"a\",1]"), "a", &e));
}

static void strings(void **state __unused_arg)
{
	static const struct {
		const char *json, *text;
	} t[] = {
		{ "\"\"", "" },
		{ "\"a\\\\b\\/c\\\"d\"", "a\\b/c\"d" },
		{ "\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t" },
		{ "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\"\\ud83dx\"", "\xef\xbf\xbdx" },
		{ "\"\\ud83d\\u0041\"", "\xef\xbf\xbd" "A" },
		{ "\"\\ude00\"", "\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct sbuf b = { 0 };

		assert_int_equal(jval_text(parsed(t[i].json), &b), 0);
		assert_string_equal(b.s ? b.s : "", t[i].text);
		sbuf_free(&b);
	}
	assert_int_equal(jval_text(parsed("1"), &(struct sbuf){ 0 }), -EINVAL);
}

static void pieces(void **state __unused_arg)
{
	static const char text[] = "\r\n{\"a\":\"}{\\\"]\",\"b\":[1,{}]}\r\n{}";
	size_t want = strlen(text) - 4, len = 0;

	for (size_t step = 1; step < sizeof(text); step++) {
		struct jframe f = { 0 };
		int ret = 0;

		for (size_t n = step; !ret && n < sizeof(text) + step; n += step)
			ret = jframe_find(&f, text, MIN(n, strlen(text)), &len);
		assert_int_equal(ret, 1);
		assert_int_equal(len, want);
	}
	assert_int_equal(jframe_find(&(struct jframe){ 0 }, "garbage", 7, &len), -EINVAL);
	assert_int_equal(jframe_find(&(struct jframe){ 0 }, "}", 1, &len), -EINVAL);
	assert_int_equal(jframe_find(&(struct jframe){ 0 }, " \n", 2, &len), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grammar), cmocka_unit_test(cut_anywhere), cmocka_unit_test(depth),
		cmocka_unit_test(lookups), cmocka_unit_test(strings),	   cmocka_unit_test(pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
