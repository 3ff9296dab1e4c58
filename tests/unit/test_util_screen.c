/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines that are cut to a terminal's width, whole and byte by byte; colours.
 */
#include "kvmft/util.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct {
	unsigned int width;
	const char *in, *out;
} lines[] = {
	{ 5, "", "" },
	{ 5, "abcd\n", "abcd\n" },
	{ 5, "abcde\n", "abcde\n" },
	{ 5, "abcdef\n", "abcd>\n" },
	{ 5, "abcdefghi\nxy\n", "abcd>\nxy\n" },
	/* Sequences take no column, and those behind the cut still end what began before it. */
	{ 5, "\033[1mabcde\033[m\n", "\033[1mabcde\033[m\n" },
	{ 5, "\033[1mabcdef\033[m\n", "\033[1mabcd>\033[m\n" },
	{ 5, "abcde\033[mf\n", "abcd>\033[m\n" },
	/* Characters of UTF-8 are one column each. */
	{ 3, "\303\244\303\266\303\274\n", "\303\244\303\266\303\274\n" },
	{ 3, "\303\244\303\266\303\274x\n", "\303\244\303\266>\n" },
	{ 1, "ab\n", ">\n" },
};

static void test_cut(void **state __unused_arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct screen_cut whole = { .width = lines[i].width }, bytes = whole;
		struct sbuf a = { 0 }, b = { 0 };

		sbuf_add(&a, "");
		sbuf_add(&b, "");
		screen_cut(&whole, lines[i].in, strlen(lines[i].in), &a);
		for (const char *p = lines[i].in; *p; p++)
			screen_cut(&bytes, p, 1, &b);
		assert_string_equal(a.s ? a.s : "", lines[i].out);
		assert_string_equal(b.s ? b.s : "", lines[i].out);
		sbuf_free(&a);
		sbuf_free(&b);
	}
}

/* A sequence that never ends is kept in no buffer. */
static void test_endless(void **state __unused_arg)
{
	struct screen_cut c = { .width = 1 };
	struct sbuf b = { 0 };

	screen_cut(&c, "a\033", 2, &b);
	for (unsigned int i = 0; i < 1000; i++)
		screen_cut(&c, "[", 1, &b);
	screen_cut(&c, "\n", 1, &b);
	assert_int_equal(b.len, 1003);
	sbuf_free(&b);
}

static void test_paint(void **state __unused_arg)
{
	struct sbuf b = { 0 };

	sbuf_add(&b, "one two\n");
	screen_paint(&b, 4, 7, "1;31");
	screen_paint(&b, 0, 3, "36");
	assert_string_equal(b.s, "\033[36mone\033[m \033[1;31mtwo\033[m\n");
	screen_paint(&b, 3, 3, "36");
	screen_paint(&b, 3, b.len + 1, "36");
	assert_string_equal(b.s, "\033[36mone\033[m \033[1;31mtwo\033[m\n");
	sbuf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_paint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
