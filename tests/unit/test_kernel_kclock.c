/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_kclock.c: trace clocks read by markers, and the timekeeper found by its shape. What
 * needs tracefs is skipped, visibly, where it cannot be had.
 */
#include "kernel_fixture.h"

#include <time.h>

#include "kvmft/kernel.h"

/* As 6.1 and 6.18 print it. */
static void test_parse_marker(void **state)
{
	static const char text[] =
		"# tracer: nop\n#\n"
		"6775 0 12915894665248 # ffffffff814987da kvmft-0\n"
		"6775 0 12915894697328 # ffffffff814987da another's\n"
		"6776 11 18446744073709551615 # ffffffff814987da kvmft-12\n"
		"6775 0 5 # ffffffff814987da kvmft-";
	uint64_t ts = 1;

	(void)state;
	assert_int_equal(kclock_parse_marker(text, 0, &ts), 0);
	assert_int_equal(ts, 12915894665248);
	assert_int_equal(kclock_parse_marker(text, 12, &ts), 0);
	assert_true(ts == UINT64_MAX);
	assert_int_equal(kclock_parse_marker(text, 1, &ts), -ENOENT);
	assert_int_equal(kclock_parse_marker("", 0, &ts), -ENOENT);
	assert_int_equal(kclock_parse_marker("kvmft-0", 0, &ts), -ENOENT);
	/* without the option the stamp has a point */
	assert_int_equal(kclock_parse_marker("  <...>-1 [000] ...1. 5.000001: tracing_mark_write: kvmft-0",
					     0, &ts), -ENOENT);
}

/* ---- the timekeeper ---- */

#define PER_NAME (KTK_ARGS / 2)

static struct kread_arg arg[KTK_ARGS];

static void put_record(size_t name, size_t byte, uint64_t clock, uint64_t last, uint64_t base)
{
	struct kread_arg *a = &arg[name * PER_NAME + byte / 8];

	a[0].value = clock;
	a[1].value = UINT64_MAX;
	a[2].value = last;
	a[3].value = 24ull << 32 | 6462355;
	a[4].value = 77;
	a[5].value = base;
}

static void fill(size_t name, uint64_t seq)
{
	static char where[KTK_ARGS][32];

	kmono_raw_args(arg, where);
	for (size_t i = 0; i < KTK_ARGS; i++)
		arg[i].present = i / PER_NAME == name;
	arg[name * PER_NAME].value = arg[name * PER_NAME + PER_NAME - 1].value = seq;
}

static void test_timekeeper(void **state)
{
	const uint64_t clock = 0xffffffff82a1b2c0;
	struct kmono_raw r;

	(void)state;
	/* 6.1: mono at 8, raw at 64; with lock debugging 8 later; 6.18: raw at 128, another name */
	for (size_t at = 64; at <= 128; at += 8) {
		size_t name = at == 128;

		fill(name, 2);
		put_record(name, at == 72 ? 16 : 8, clock, 1000, 5);
		put_record(name, at, clock, 1000, 12345);
		assert_int_equal(kmono_raw_take(arg, &r), 0);
		assert_int_equal(r.line.base, 12345);
		assert_int_equal(r.line.last, 1000);
		assert_int_equal(r.line.mult, 6462355);
		assert_int_equal(r.line.shift, 24);
		assert_int_equal(r.line.nsec, 77);
		assert_string_equal(r.symbol, name ? "timekeeper_data" : "tk_core");
	}
	/* written at another moment, of another clocksource, only one, a third one */
	fill(0, 2);
	put_record(0, 8, clock, 1000, 5);
	put_record(0, 64, clock, 1001, 6);
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	put_record(0, 64, clock + 64, 1000, 6);
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	fill(0, 2);
	put_record(0, 8, clock, 1000, 5);
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	put_record(0, 64, clock, 1000, 6);
	put_record(0, 128, clock, 1000, 7);
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	/* being written, or written meanwhile */
	fill(0, 3);
	put_record(0, 8, clock, 1000, 5);
	put_record(0, 64, clock, 1000, 6);
	assert_int_equal(kmono_raw_take(arg, &r), -EAGAIN);
	fill(0, 2);
	put_record(0, 8, clock, 1000, 5);
	put_record(0, 64, clock, 1000, 6);
	arg[PER_NAME - 1].value = 4;
	assert_int_equal(kmono_raw_take(arg, &r), -EAGAIN);
	/* a user-space pointer, a clocksource of 24 bits, no mult */
	fill(0, 2);
	put_record(0, 8, 0x7fff00000000, 1000, 5);
	put_record(0, 64, clock, 1000, 6);
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	put_record(0, 8, clock, 1000, 5);
	arg[9].value = 0xffffff;
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	put_record(0, 64, clock, 1000, 6);
	arg[11].value = 24ull << 32;
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
	for (size_t i = 0; i < KTK_ARGS; i++)
		arg[i].present = false;
	assert_int_equal(kmono_raw_take(arg, &r), -ENOENT);
}

/* ---- on this machine ---- */

static uint64_t now_raw(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC_RAW, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t ring_entries(const struct kinst *k)
{
	struct kcpus online = { 0 };
	uint64_t n = 0;

	assert_int_equal(kcpus_read(KCPU_ONLINE, &online), 0);
	for (size_t i = 0; i < online.n; i++) {
		struct kstats s;

		assert_int_equal(kinst_stats(k, online.cpu[i], &s, NULL), 0);
		n += s.entries;
	}
	kcpus_free(&online);
	return n;
}

/* The trace clock mono_raw is CLOCK_MONOTONIC_RAW: between two readings by clock_gettime(). */
static bool is_line(const struct kmono_raw *r, const void *want)
{
	const struct mono_raw *w = want; /* not by memcmp(): what lies between members is anything */

	return r->line.last == w->last && r->line.mult == w->mult && r->line.shift == w->shift &&
	       r->line.nsec == w->nsec && r->line.base == w->base;
}

/* The page of the vDSO: two records, of which the second is that of the raw clock. */
static void test_vvar(void **state __unused_arg)
{
	const struct mono_raw want = { .last = 5000, .nsec = 77, .base = 3000000000, .mult = 16 << 20,
				       .shift = 20 };
	uint64_t word[80] = { 2, 4000, UINT64_MAX, 20ull << 32 | 99 }, *raw = &word[30];
	struct kmono_raw r;

	for (size_t more = 0; more < 2; more++) { /* with max_cycles before the mask */
		uint64_t *mask = &raw[2 + more];

		memset(raw, 0, 50 * sizeof(*raw));
		raw[0] = 6;
		raw[1] = 5000;
		mask[0] = (1ull << 57) - 1;
		mask[1] = 20ull << 32 | 16 << 20;
		mask[10] = 3;
		mask[11] = 77;
		memset(&r, 0, sizeof(r));
		assert_int_equal(kvvar_find(word, ARRAY_SIZE(word), &r, is_line, &want), 0);
		assert_string_equal(r.symbol, "vvar");
		assert_int_equal(kvvar_find(word, 30 + 13 + more, &r, is_line, &want), -ENOENT);
		raw[0] = 7; /* being written */
		assert_int_equal(kvvar_find(word, ARRAY_SIZE(word), &r, is_line, &want), -ENOENT);
		raw[0] = 6;
		mask[0] = UINT32_MAX; /* wraps */
		assert_int_equal(kvvar_find(word, ARRAY_SIZE(word), &r, is_line, &want), -ENOENT);
	}
}

static void test_live(void **state)
{
	struct kvmft_err err = { 0 };
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct ktracefs *t = NULL;
	struct kinst *s = NULL;
	struct kclock_sample a, b;
	struct ktsc_facts f;
	uint64_t before, after;

	(void)state;
	ktsc_facts_read(NULL, &f);
	if (!f.present) {
		print_message("skipped: this machine has no TSC\n");
		skip();
	}
	if (ktracefs_open(NULL, KTRACEFS_MOUNT, &t, &err) || kinst_create(t, &c, &s, &err)) {
		print_message("skipped: %s\n", err.text);
		ktracefs_close(t);
		skip();
	}
	before = now_raw();
	assert_int_equal(kclock_sample(s, "mono_raw", 1000, &a, &err), 0);
	after = now_raw();
	assert_in_range(a.ns, before, after);
	/* sched_clock() runs on, and not much faster or slower than the TSC says */
	assert_int_equal(kclock_sample(s, "local", 32, &a, &err), 0);
	assert_int_equal(kclock_sample(s, "local", 32, &b, &err), 0);
	assert_true(b.tsc > a.tsc + a.width);
	assert_true(b.ns > a.ns);
	assert_in_range((b.tsc - a.tsc) / (b.ns - a.ns + 1), 0, 20);
	assert_int_equal(kclock_sample(s, "sundial", 1, &a, &err), -EINVAL);
	/* it is left as it was, but for the clock; setting one empties the ring, also the same one */
	assert_int_equal(kinst_tracing_get(s), 0);
	assert_string_equal(kinst_clock(s), "local");
	assert_true(ring_entries(s) >= 64);
	assert_int_equal(kinst_set_clock(s, "local", &err), 0);
	assert_int_equal(ring_entries(s), 0);
	assert_int_equal(kinst_destroy(s, &err), 0);
	ktracefs_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_marker),
		cmocka_unit_test(test_timekeeper),
		cmocka_unit_test(test_vvar),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
