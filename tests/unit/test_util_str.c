/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_str.c: tests of src/util/str.c; str_unescape() is in test_util_sbuf.c.
 */
#include "kvmft/util.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_starts(void **state __unused_arg)
{
	assert_true(str_starts("", ""));
	assert_true(str_starts("kvm_exit", "kvm_"));
	assert_true(str_starts("kvm", "kvm"));
	assert_false(str_starts("kv", "kvm"));
	assert_false(str_starts("", "k"));
}

/* Each byte at each place of texts of several lengths, against the plain rule. */
static void test_is_text(void **state __unused_arg)
{
	char s[24];

	assert_true(str_is_text("", 0));
	for (size_t n = 1; n <= sizeof(s); n++) {
		for (size_t at = 0; at < n; at++) {
			for (int c = 0; c < 256; c++) {
				memset(s, c & 1 ? ' ' : '~', sizeof(s));
				s[at] = (char)c;
				assert_int_equal(str_is_text(s, n),
						 (c >= ' ' && c <= '~') || c == '\t' || c == '\n');
			}
		}
	}
}

static void test_utf8(void **state __unused_arg)
{
	static const struct {
		const char *s;
		size_t n, len;
	} row[] = {
		{ "", 0, 0 },
		{ "", 1, 1 }, /* NUL is U+0000 */
		{ "a", 1, 1 },
		{ "\x7f", 1, 1 },
		{ "\x80", 1, 0 },
		{ "\xbf", 1, 0 },
		{ "\xc0\x80", 2, 0 }, /* overlong NUL */
		{ "\xc1\xbf", 2, 0 },
		{ "\xc2\x80", 2, 2 },
		{ "\xc2\x80", 1, 0 }, /* cut */
		{ "\xc2z", 2, 0 },
		{ "\xdf\xbf", 2, 2 },
		{ "\xe0\x9f\xbf", 3, 0 }, /* overlong */
		{ "\xe0\xa0\x80", 3, 3 },
		{ "\xe2\x82\xac", 3, 3 },
		{ "\xe2\x82\xac", 2, 0 },
		{ "\xed\x9f\xbf", 3, 3 },
		{ "\xed\xa0\x80", 3, 0 }, /* surrogate */
		{ "\xed\xbf\xbf", 3, 0 },
		{ "\xee\x80\x80", 3, 3 },
		{ "\xf0\x8f\xbf\xbf", 4, 0 }, /* overlong */
		{ "\xf0\x90\x80\x80", 4, 4 },
		{ "\xf0\x90\x80\x80", 3, 0 },
		{ "\xf0\x90\x80z", 4, 0 },
		{ "\xf4\x8f\xbf\xbf", 4, 4 },
		{ "\xf4\x90\x80\x80", 4, 0 }, /* above U+10FFFF */
		{ "\xf5\x80\x80\x80", 4, 0 },
		{ "\xff", 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (str_utf8_len(row[i].s, row[i].n) != row[i].len)
			fail_msg("row %zu", i);
}

static void test_printable(void **state __unused_arg)
{
	static const struct {
		const char *in, *out;
	} row[] = {
		{ "", "" },
		{ "plain ~!", "plain ~!" },
		{ "\033[2J\t\n\r\b\x7f", "?[2J?????" },
		{ "gr\xc3\xbc\xc3\x9f \xe2\x82\xac", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac" },
		{ "\xc2\x9b" "31m", "??31m" }, /* C1 control sequence introducer */
		{ "a\xff\xfe" "b", "a??b" },
		{ "cut \xe2\x82", "cut ??" },
		{ "cut \xc3", "cut ?" },
		{ "a\xe2\x80\xae" "b", "a???b" },	      /* U+202E turns the rest around */
		{ "\xe2\x81\xa6x\xe2\x81\xa9", "???x???" }, /* U+2066, U+2069 */
		{ "a\xe2\x80\xa8" "b\xe2\x80\xa9", "a???b???" }, /* line, paragraph */
		{ "vm\xe2\x80\x8b" "1\xef\xbb\xbf\xc2\xad", "vm???1?????" }, /* zero width */
		{ "\xf3\xa0\x81\x81", "????" },	      /* a tag */
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		snprintf(text, sizeof(text), "%s", row[i].in);
		str_printable(text);
		assert_string_equal(text, row[i].out);
	}
}

static void test_cut(void **state __unused_arg)
{
	static const struct {
		const char *s;
		size_t max, n;
	} row[] = {
		{ "", 0, 0 },	      { "", 5, 0 },	    { "abc", 2, 2 },
		{ "abc", 3, 3 },      { "abc", 9, 3 },	    { "\xc3\xa9\xc3\xa9", 1, 0 },
		{ "\xc3\xa9\xc3\xa9", 2, 2 }, { "\xc3\xa9\xc3\xa9", 3, 2 }, { "\xc3\xa9\xc3\xa9", 4, 4 },
		{ "a\xf0\x9f\x98\x80", 2, 1 }, { "a\xf0\x9f\x98\x80", 4, 1 }, { "a\xf0\x9f\x98\x80", 5, 5 },
		{ "\x80\x80\x80\x80\x80", 4, 4 }, /* not UTF-8 anyway */
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(str_cut(row[i].s, row[i].max), row[i].n);
}

static void test_spec_len(void **state __unused_arg)
{
	static const struct {
		const char *s;
		size_t n;
	} row[] = {
		{ "", 0 },
		{ "a,b", 1 },
		{ "a/x == 1,2/,b", 11 },
		{ "a/x == \"k/0:1\"/,b", 15 },
		{ "a/x == 'k/0,1' && y != \"'/\"/,b", 28 },
		{ "a/x == \"k/,b", 12 },
		{ "a\"/x/,b", 5 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(str_spec_len(row[i].s), row[i].n);
}

static void test_distance(void **state __unused_arg)
{
	static const struct {
		const char *a, *b;
		unsigned int d;
	} row[] = {
		{ "", "", 0 },
		{ "", "abc", 3 },
		{ "abc", "abc", 0 },
		{ "record", "recrod", 2 },
		{ "report", "record", 2 },
		{ "kitten", "sitting", 3 },
		{ "flaw", "lawn", 2 },
		{ "stat", "status", 2 },
	};
	char a[100], b[100];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		assert_int_equal(str_distance(row[i].a, row[i].b), row[i].d);
		assert_int_equal(str_distance(row[i].b, row[i].a), row[i].d);
	}
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	a[99] = b[99] = '\0';
	assert_int_equal(str_distance(a, b), 63);
	memcpy(b, a, 63); /* differ only beyond what is compared */
	assert_int_equal(str_distance(a, b), 0);
}

static void test_ns(void **state __unused_arg)
{
	static const struct {
		uint64_t v;
		const char *text;
	} row[] = {
		{ 0, "0 ns" },
		{ 250, "250 ns" },
		{ 999, "999 ns" },
		{ 1000, "1 us" },
		{ 1049, "1 us" },
		{ 1050, "1.1 us" },
		{ 1500, "1.5 us" },
		{ 999949, "999.9 us" },
		{ 999950, "1 ms" }, /* never "1000 us" */
		{ 20000000, "20 ms" },
		{ 3200000000, "3.2 s" },
		{ 3600000000000, "3600 s" },
		{ UINT64_MAX, "18446744073.7 s" },
	};
	char buf[32], tiny[4];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_string_equal(str_ns(buf, sizeof(buf), row[i].v), row[i].text);
	assert_string_equal(str_ns(tiny, sizeof(tiny), 1500), "1.5");
}

static void test_bytes(void **state __unused_arg)
{
	static const struct {
		uint64_t v;
		const char *text;
	} row[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ (1 << 20) - 1, "1 MiB" },
		{ 20 << 20, "20 MiB" },
		{ (uint64_t)3 << 30, "3 GiB" },
		{ (uint64_t)1 << 40, "1 TiB" },
		{ (uint64_t)1 << 50, "1 PiB" },
		{ UINT64_MAX, "16 EiB" },
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_string_equal(str_bytes(buf, sizeof(buf), row[i].v), row[i].text);
}

static void test_glob(void **state __unused_arg)
{
	static const struct {
		const char *pattern, *s;
		bool match;
	} row[] = {
		{ "", "", true },	   { "", "a", false },	     { "*", "", true },
		{ "*", "abc", true },	   { "?", "", false },	     { "?", "a", true },
		{ "a*c", "abbc", true },   { "a*c", "abcb", false }, { "a*b*c", "aXbXbYc", true },
		{ "*ab", "aab", true },	   { "*a?", "aba", false },  { "a**", "a", true },
		{ "[a]", "a", false },	   { "[a]", "[a]", true },   { "ab", "a", false },
		{ "virtio_*", "virtio_notify", true },
		{ "virtio_blk_*", "virtio_notify", false },
		{ "a*", "a", true },	   { "a?c", "ac", false },   { "**", "ab", true },
		{ "*a?b*c", "xaybzc", true },
		{ "*aaaaaaaaaaaaaaaab*", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (str_glob(row[i].pattern, row[i].s) != row[i].match)
			fail_msg("'%s' and '%s'", row[i].pattern, row[i].s);
}

static void test_quoted_end(void **state __unused_arg)
{
	static const struct {
		const char *text;
		size_t end;
	} row[] = {
		{ "\"\"", 2 },	  { "\"a\"b", 3 },	 { "\"a\\\"b\" c", 6 }, { "\"\\\\\"x", 4 },
		{ "\"", 1 },	  { "\"abc", 4 }, { "\"a\\", 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(str_quoted_end(row[i].text, row[i].text + strlen(row[i].text)) - row[i].text,
				 row[i].end);
}

static void test_poses(void **state __unused_arg)
{
	static const char *const words[] = { "host", "qemu", NULL };
	static const struct {
		const char *name;
		bool poses;
	} row[] = {
		{ "host", true },  { "Host", true }, { " host", true }, { "?host", true }, { "host#2", true },
		{ "qemu?", true }, { "vm1 ", true },
		{ "vm1", false }, { "hostess", false }, { "host1", false }, { "a host", false },
		{ "", false },	   { "~", false },
		{ "hÐ¾st", true },				    /* Cyrillic o */
		{ "ï½ï½ï½ï½", true }, /* fullwidth */
		{ "hÌ²ost", true },				    /* a combining line */
		{ "", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (str_poses_as(row[i].name, words) != row[i].poses)
			fail_msg("'%s'", row[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts),
		cmocka_unit_test(test_is_text),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_cut), cmocka_unit_test(test_printable),
		cmocka_unit_test(test_poses),
		cmocka_unit_test(test_spec_len),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_ns),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_quoted_end),
	};

	return cmocka_run_group_tests_name("util/str", tests, NULL, NULL);
}
