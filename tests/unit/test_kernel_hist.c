/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_hist.c: the text of hist files, as kernels write it and as none does.
 */
#include "kernel_fixture.h"

#include "kvmft/exits.h"

#ifndef MADE_UP
#define MADE_UP 5000 /* texts that no kernel writes */
#endif

struct seen {
	struct {
		uint64_t pid, reason, hits, lat, max;
		size_t nkeys, n;
		bool has_max;
	} v[8];
	size_t n;
	int ret; /* what the callback returns */
};

static int take(void *ctx, const struct khist_entry *e)
{
	struct seen *s = ctx;
	size_t i = s->n++;

	assert_in_range(i, 0, 7);
	assert_true(khist_get(e, "common_pid", &s->v[i].pid) || khist_get(e, "pid", &s->v[i].pid));
	(void)(khist_get(e, "exit_reason", &s->v[i].reason) || khist_get(e, "reason", &s->v[i].reason));
	if (!khist_get(e, "hitcount", &s->v[i].hits)) {
		s->n--;
		return -EBADMSG;
	}
	(void)khist_get(e, "lat", &s->v[i].lat);
	s->v[i].has_max = khist_get(e, "max", &s->v[i].max);
	s->v[i].nkeys = e->nkeys;
	s->v[i].n = e->n;
	return s->ret;
}

/* What Linux 6.1 printed, with two triggers on one event. */
static const char real[] =
	"# event histogram\n#\n"
	"# trigger info: hist:keys=common_pid:vals=hitcount:ts0=common_timestamp,r0=exit_reason:"
	"sort=hitcount:size=256:clock=x86-tsc [active]\n#\n\n"
	"{ common_pid:        152 } hitcount:       3048\n"
	"{ common_pid:        151 } hitcount:       3048\n"
	"\nTotals:\n    Hits: 6096\n    Entries: 2\n    Dropped: 0\n\n\n"
	"# event histogram\n#\n"
	"# trigger info: hist:keys=common_pid,exit_reason:vals=hitcount:sort=hitcount:size=2048"
	" [active]\n#\n\n"
	"{ common_pid:        151, exit_reason:         96 } hitcount:         47\n"
	"{ common_pid:        152, exit_reason: 4294967295 } hitcount:       1001\n"
	"\nTotals:\n    Hits: 1048\n    Entries: 2\n    Dropped: 1680\n";

static const char maxima[] =
	"# event histogram\n#\n"
	"# trigger info: hist:keys=pid,reason:vals=hitcount,lat:m=lat:sort=hitcount:size=2048:"
	"onmax($m).save(lat) [active]\n#\n\n"
	"{ pid:        151, reason:         96 } hitcount:         47  lat:   17470047\n"
	"\tmax:   14262547  lat:   14262547\n"
	"{ pid:        152, reason:        120 } hitcount:        999  lat:  400402742\n"
	"\tmax:   24360649  lat:   24360649\n"
	"\nTotals:\n    Hits: 1046\n    Entries: 2\n    Dropped: 0\n";

static int feed_lines(struct khist *h, const char *text)
{
	char *copy = strdup(text), *save, *line = copy;
	int ret = 0;

	assert_non_null(copy);
	for (save = line; !ret && *line; line = save) {
		save = line + strcspn(line, "\n");
		if (*save)
			*save++ = '\0';
		ret = khist_line(h, line);
	}
	ret = ret ? ret : khist_end(h);
	free(copy);
	return ret;
}

static int feed(struct khist *h, const char *text, const char *keys, struct seen *s)
{
	khist_begin(h, keys, take, s);
	return feed_lines(h, text);
}

static void test_counts(void **state __unused_arg)
{
	struct seen s = { .n = 0 };
	struct khist h;

	assert_int_equal(feed(&h, real, "common_pid,exit_reason", &s), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[0].pid, 151);
	assert_int_equal(s.v[0].reason, 96);
	assert_int_equal(s.v[0].hits, 47);
	assert_int_equal(s.v[0].nkeys, 2);
	assert_int_equal(s.v[0].n, 3);
	assert_int_equal(s.v[1].reason, UINT32_MAX);
	assert_int_equal(s.v[1].hits, 1001);
	assert_int_equal(h.hits, 1048);
	assert_int_equal(h.entries, 2);
	assert_int_equal(h.dropped, 1680);
}

/* Keys that only begin alike are another block. */
static void test_choice(void **state __unused_arg)
{
	struct seen s = { .n = 0 };
	struct khist h;

	assert_int_equal(feed(&h, real, "common_pid", &s), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[0].pid, 152);
	assert_int_equal(s.v[0].nkeys, 1);
	assert_int_equal(h.hits, 6096);
	s = (struct seen){ .n = 0 };
	assert_int_equal(feed(&h, real, "common_p", &s), -ENOENT);
	assert_int_equal(s.n, 0);
	assert_int_equal(feed(&h, "", "common_pid", &s), -ENOENT);
	assert_int_equal(feed(&h, maxima, "pid,reason:vals=hitcount", &s), -ENOENT);
}

static void test_maxima(void **state __unused_arg)
{
	struct seen s = { .n = 0 };
	struct khist h;

	assert_int_equal(feed(&h, maxima, "pid,reason:vals=hitcount,lat", &s), 0);
	assert_int_equal(s.n, 2);
	assert_true(s.v[0].has_max);
	assert_int_equal(s.v[0].lat, 17470047);
	assert_int_equal(s.v[0].max, 14262547);
	assert_int_equal(s.v[1].pid, 152);
	assert_int_equal(s.v[1].max, 24360649);
}

/* A logarithm among the keys, and the sum of that field. */
static void test_log2(void **state __unused_arg)
{
	static const char text[] =
		"# trigger info: hist:keys=pid,lat.log2:vals=hitcount,lat:sort=hitcount:size=2048 [active]\n"
		"{ pid:        151, lat: ~ 2^14 } hitcount:         47  lat:     570047\n"
		"{ pid:        151, lat: ~ 2^9  } hitcount:          2  lat:        900\n"
		"\nTotals:\n    Hits: 49\n    Entries: 2\n    Dropped: 0\n";
	struct seen s = { .n = 0 };
	struct khist h;

	assert_int_equal(feed(&h, text, "pid,lat.log2:vals=hitcount,lat", &s), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[0].lat, 14); /* the first of that name */
	assert_int_equal(s.v[0].nkeys, 2);
	assert_int_equal(s.v[1].lat, 9);
	assert_int_equal(s.v[1].hits, 2);
}

#define BLOCK "# trigger info: hist:keys=common_pid:vals=hitcount:size=128 [active]\n"
#define TOTAL "\nTotals:\n    Hits: 1\n    Entries: 1\n    Dropped: 0\n"

static void test_odd(void **state __unused_arg)
{
	static const struct {
		const char *text;
		int ret;
		size_t n;
	} t[] = {
		{ BLOCK TOTAL, 0, 0 },
		{ BLOCK "{ common_pid: 1 } hitcount: 1" TOTAL, 0, 1 },
		{ BLOCK "{ common_pid: 1 } hitcount: 1\n" TOTAL, 0, 1 },
		{ BLOCK "{ common_pid: 1 } hitcount: 1\n", -EBADMSG, 1 }, /* cut: no totals */
		{ BLOCK "{ common_pid: 1", -EBADMSG, 0 },
		{ BLOCK "{ common_pid: -1 } hitcount: 1\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "{ common_pid: x } hitcount: 1\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "{ common_pid: } hitcount: 1\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "{ : 1 } hitcount: 1\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "{ common_pid: 1 } hitcount: 99999999999999999999\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "\tmax: 5\n" TOTAL, -EBADMSG, 0 }, /* of no entry */
		{ BLOCK "nonsense\n" TOTAL, -EBADMSG, 0 },
		{ BLOCK "\nTotals:\n    Hits: many\n", -EBADMSG, 0 },
		{ BLOCK "\nTotals:\n    Hits: 1\n    Something new: 5\n", 0, 0 },
		{ "{ common_pid: 1 } hitcount: 1\n" BLOCK TOTAL, 0, 0 }, /* before any block */
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct seen s = { .n = 0 };
		struct khist h;

		if (feed(&h, t[i].text, "common_pid", &s) != t[i].ret || s.n != t[i].n)
			fail_msg("case %zu: %zu entries", i, s.n);
	}
}

static void test_too_much(void **state __unused_arg)
{
	struct seen s = { .n = 0 };
	struct sbuf b = { 0 };
	struct khist h;

	sbuf_add(&b, BLOCK "{ common_pid: 1 } hitcount: 1");
	for (int i = 0; i < 20; i++)
		sbuf_addf(&b, " v%d: %d", i, i);
	sbuf_add(&b, "\n" TOTAL);
	assert_int_equal(feed(&h, b.s, "common_pid", &s), -EBADMSG);
	sbuf_reset(&b);
	sbuf_add(&b, BLOCK "{ common_pid: 1 } ");
	for (int i = 0; i < 2 * KHIST_TEXT; i++)
		sbuf_addc(&b, 'x');
	sbuf_add(&b, ": 1\n" TOTAL);
	assert_int_equal(feed(&h, b.s, "common_pid", &s), -EBADMSG);
	sbuf_free(&b);
	assert_int_equal(s.n, 0);
}

static void test_callback_stops(void **state __unused_arg)
{
	struct seen s = { .ret = -ENOMEM };
	struct khist h;

	assert_int_equal(feed(&h, real, "common_pid,exit_reason", &s), -ENOMEM);
	assert_int_equal(s.n, 1);
}

/* Cut anywhere, each line is either understood or refused, never read beyond. */
static void test_cut(void **state __unused_arg)
{
	for (size_t n = 0; n <= strlen(maxima); n++) {
		char *text = strndup(maxima, n);
		struct seen s = { .n = 0 };
		struct khist h;
		int ret;

		assert_non_null(text);
		ret = feed(&h, text, "pid,reason:vals=hitcount,lat", &s);
		assert_true(ret == 0 || ret == -EBADMSG || ret == -ENOENT);
		assert_in_range(s.n, 0, 2);
		free(text);
	}
}

/* ---- made up ---- */

static uint64_t seed = 88172645463325252u;

static uint32_t any(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % n;
}

static const char info[] =
	"# trigger info: hist:keys=pid,reason:vals=hitcount,lat:size=2048 [active]\n";
static const char cell[] =
	"{ pid:        151, reason:         96 } hitcount:         47  lat:   17470047\n";
static const char *const words[] = {
	"# event histogram\n", "#\n", "\n", info, "# trigger info: ", "hist:keys=", "{ ", "{", "}",
	" }", "pid:", "reason:", "lat:", "max:", "hitcount:", ",", " ", "\t", "\n\t", ":", "::",
	"~ 2^", "~", "2^", "0", "1", "63", "64", "65", "4294967295", "4294967296",
	"18446744073709551615", "18446744073709551616", "-1", "0x7",
	"99999999999999999999999999999999", "Totals:\n", "    Hits: ", "    Entries: ",
	"    Dropped: ", cell, "\xff", "\x01", "unknown",
	"{ lat: ~ 2^64, pid: 1, reason: 2 } hitcount: 18446744073709551615 "
	"lat: 18446744073709551615\n",
	"a_very_long_name_of_a_field_that_no_kernel_has_and_that_has_no_end_but_the_end_of_the_"
	"buffer_for_it",
};

/* What `exits` does with a cell, without its checks. */
static int take_any(void *ctx, const struct khist_entry *e)
{
	struct exits *x = ctx;
	uint64_t n = 0, lat = 0, max = 0, pid = 0;

	assert_true(e->nkeys <= e->n && e->n <= KHIST_PAIRS);
	for (size_t i = 0; i < e->n; i++)
		assert_in_range(strlen(e->pair[i].name), 1, 4096);
	(void)(khist_get(e, "hitcount", &n) && khist_get(e, "lat", &lat) && khist_get(e, "max", &max));
	(void)khist_get(e, "pid", &pid);
	exits_raw(x, (uint32_t)pid % 8, 1, n);
	exits_time_raw(x, (uint32_t)pid % 8, 1, n, lat);
	exits_time_add(x, (uint32_t)pid % 8, 2, n, lat, max);
	exits_spread_raw(x, (uint32_t)pid % 8, 3, (unsigned int)(lat % 65), n, lat);
	return 0;
}

static void test_made_up(void **state __unused_arg)
{
	struct exits x = { .timed = true, .spreads = true };
	unsigned int good = 0;

	for (unsigned int run = 0; run < MADE_UP; run++) {
		struct sbuf b = { 0 };
		struct khist h;
		int ret;

		if (any(4))
			sbuf_add(&b, info);
		for (uint32_t n = any(60); n; n--)
			sbuf_add(&b, any(3) ? words[any(ARRAY_SIZE(words))] : cell);
		if (any(2))
			sbuf_add(&b, "\nTotals:\n    Hits: 1\n");
		khist_begin(&h, "pid,reason:vals=hitcount,lat", take_any, &x);
		ret = feed_lines(&h, b.s ? b.s : "");
		assert_true(ret == 0 || ret == -EBADMSG || ret == -ENOENT);
		good += !ret;
		sbuf_free(&b);
	}
	assert_true(good > MADE_UP / 100 && good < MADE_UP);
	exits_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_log2),
		cmocka_unit_test(test_maxima),
		cmocka_unit_test(test_odd),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_callback_stops),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
