/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_exits_table.c: the table of exits: sums, intervals, threads that take over an id, VMs that
 * end, order of a view, and times from events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "kvmft/exits.h"

static uint64_t count_of(const struct exits_view *v, uint32_t tid, uint32_t reason)
{
	struct exits_row r;
	uint64_t n = 0;

	for (size_t i = 0; i < v->n; i++) {
		exits_view_row(v, i, &r);
		if (r.reason == reason && (!r.thread || r.thread->tid == tid))
			n += r.count;
	}
	return n;
}

static bool only_tid(const void *ctx, const struct exits *e __unused_arg,
		     const struct exits_thread *t)
{
	return t->tid == *(const uint32_t *)ctx;
}

static void test_order(void **state __unused_arg)
{
	static const struct {
		uint32_t tid, reason;
		uint64_t n;
	} in[] = { { 20, 7, 5 }, { 10, 12, 100 }, { 20, 12, 100 }, { 10, 1, 5 }, { 20, 1, 5 }, { 10, 9, 6 } };
	static const uint32_t want[][2] = { { 10, 12 }, { 20, 12 }, { 10, 9 }, { 10, 1 }, { 20, 1 },
					    { 20, 7 } };
	struct exits e = { .timed = false };
	struct exits_view v;
	struct exits_row r;

	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		exits_add(&e, in[i].tid, in[i].reason, in[i].n);
	exits_view_make(&e, EXITS_BY_THREAD, false, NULL, NULL, &v);
	assert_int_equal(v.n, ARRAY_SIZE(want));
	assert_int_equal(v.count, 221);
	for (size_t i = 0; i < v.n; i++) {
		exits_view_row(&v, i, &r);
		assert_int_equal(r.thread->tid, want[i][0]);
		assert_int_equal(r.reason, want[i][1]);
	}
	exits_view_free(&v);
	exits_free(&e);
}

static void test_by_reason(void **state __unused_arg)
{
	struct exits e = { .timed = true };
	uint32_t tid = 20;
	struct exits_view v;
	struct exits_row r;

	exits_add(&e, 10, 12, 3);
	exits_add(&e, 20, 12, 4);
	exits_add(&e, 20, 1, 5);
	exits_time_add(&e, 10, 12, 2, 100, 60);
	exits_time_add(&e, 20, 12, 1, 70, 70);
	exits_view_make(&e, EXITS_BY_REASON, false, NULL, NULL, &v);
	assert_int_equal(v.n, 2);
	exits_view_row(&v, 0, &r);
	assert_null(r.thread);
	assert_int_equal(r.reason, 12);
	assert_int_equal(r.count, 7);
	assert_int_equal(r.timed, 3);
	assert_int_equal(r.total, 170);
	assert_int_equal(r.max, 70);
	exits_view_free(&v);
	exits_view_make(&e, EXITS_BY_REASON, false, only_tid, &tid, &v);
	assert_int_equal(v.n, 2);
	assert_int_equal(count_of(&v, 0, 12), 4);
	exits_view_free(&v);
	exits_free(&e);
}

static void test_intervals(void **state __unused_arg)
{
	struct exits e = { .timed = true };
	struct exits_view v;
	struct exits_row r;

	exits_raw(&e, 10, 12, 100);
	exits_time_raw(&e, 10, 12, 99, 990);
	exits_time_add(&e, 10, 12, 0, 0, 50);
	exits_interval(&e);
	exits_view_make(&e, EXITS_BY_THREAD, false, NULL, NULL, &v);
	assert_int_equal(v.n, 0); /* nothing happened in this interval */
	exits_view_free(&v);
	exits_raw(&e, 10, 12, 103);
	exits_time_raw(&e, 10, 12, 101, 1000);
	exits_time_add(&e, 10, 12, 0, 0, 7);
	exits_view_make(&e, EXITS_BY_THREAD, false, NULL, NULL, &v);
	assert_int_equal(v.n, 1);
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.timed, 2);
	assert_int_equal(r.total, 10);
	assert_int_equal(r.max, 7);
	exits_view_free(&v);
	exits_view_make(&e, EXITS_BY_THREAD, true, NULL, NULL, &v);
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.count, 103);
	assert_int_equal(r.total, 1000);
	exits_view_free(&v);
	exits_free(&e);
}

/* What the source had when counting began does not count, in whatever way it is looked at. */
static void test_baseline(void **state __unused_arg)
{
	struct exits e = { .timed = true, .spreads = true };
	struct exits_view v;
	struct exits_row r;

	exits_raw(&e, 10, 12, 100);
	exits_spread_raw(&e, 10, 12, 5, 99, 990);
	exits_time_add(&e, 10, 12, 0, 0, 50);
	exits_baseline(&e);
	exits_view_make(&e, EXITS_BY_THREAD, true, NULL, NULL, &v);
	assert_int_equal(v.n, 0);
	exits_view_free(&v);
	exits_raw(&e, 10, 12, 103);
	exits_spread_raw(&e, 10, 12, 5, 101, 1000);
	exits_time_add(&e, 10, 12, 0, 0, 7);
	for (int whole = 0; whole < 2; whole++) {
		exits_view_make(&e, EXITS_BY_THREAD, whole, NULL, NULL, &v);
		assert_int_equal(v.n, 1);
		exits_view_row(&v, 0, &r);
		assert_true(r.thread->exits);
		assert_int_equal(r.count, 3);
		assert_int_equal(r.timed, 2);
		assert_int_equal(r.total, 10);
		assert_int_equal(r.max, 7);
		assert_int_equal(r.bucket[5], 2);
		exits_view_free(&v);
	}
	exits_free(&e);
}

/* The kernel's map goes by tid, and a tid may get another owner. */
static void test_tid_again(void **state __unused_arg)
{
	struct exits e = { .timed = true };
	struct exits_view v;
	struct exits_row r;

	exits_raw(&e, 10, 12, 100);
	exits_time_raw(&e, 10, 12, 100, 500);
	assert_true(exits_thread_renew(&e, 10) > 0);
	exits_raw(&e, 10, 12, 130);
	exits_time_raw(&e, 10, 12, 129, 600);
	exits_raw(&e, 10, 1, 2);
	exits_view_make(&e, EXITS_BY_THREAD, false, NULL, NULL, &v);
	assert_int_equal(v.n, 3);
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.count, 100);
	exits_view_row(&v, 1, &r);
	assert_int_equal(r.count, 30);
	assert_int_equal(r.timed, 29);
	assert_int_equal(r.total, 100);
	exits_view_row(&v, 2, &r);
	assert_int_equal(r.count, 2);
	exits_view_free(&v);
	/* A third one, whose reason the second never had. */
	assert_true(exits_thread_renew(&e, 10) > 1);
	exits_raw(&e, 10, 12, 131);
	exits_view_make(&e, EXITS_BY_THREAD, false, NULL, NULL, &v);
	exits_view_row(&v, v.n - 1, &r);
	assert_int_equal(r.count, 1);
	exits_view_free(&v);
	exits_free(&e);
}

static void test_source_emptied(void **state __unused_arg)
{
	struct exits e = { .timed = false };

	exits_raw(&e, 10, 12, 100);
	exits_raw_reset(&e);
	exits_raw(&e, 10, 12, 100);
	assert_int_equal(exits_now(&e, 0)[EXITS_N], 200);
	exits_raw(&e, 10, 12, 5); /* by somebody else */
	assert_int_equal(exits_now(&e, 0)[EXITS_N], 205);
	exits_free(&e);
}

static void test_vms(void **state __unused_arg)
{
	struct exits e = { .timed = true };
	size_t a, b, t;

	a = exits_vm(&e, "10-11", "one", NULL, 10);
	assert_int_equal(a, 0);
	assert_int_equal(exits_vm(&e, "10-11", "one", NULL, 10), a);
	t = exits_thread(&e, 12);
	assert_int_equal(t, 0);
	assert_int_equal(exits_thread(&e, 12), t);
	e.thread[t].vm = (uint32_t)a;
	exits_add(&e, 12, 1, 5);
	exits_add(&e, 13, 1, 7);
	assert_int_equal(exits_ended(&e), 0);
	e.vm[a].ended = 1;
	assert_int_equal(exits_ended(&e), 1);
	b = exits_vm(&e, "10-11", "two", "u", 10);
	assert_int_equal(b, 1); /* the name came again */
	assert_false(exits_past(&e, &e.thread[t]));
	exits_interval(&e); /* its last exits were shown */
	assert_false(exits_past(&e, &e.thread[t]));
	exits_interval(&e);
	assert_true(exits_past(&e, &e.thread[t]));
	exits_prune(&e);
	assert_int_equal(e.n, 1);
	assert_int_equal(exits_now(&e, 0)[EXITS_N], 7);
	exits_add(&e, 13, 1, 1);
	assert_int_equal(e.n, 1);
	assert_int_equal(exits_now(&e, 0)[EXITS_N], 8);
	exits_free(&e);
}

static void test_pairs(void **state __unused_arg)
{
	struct exits e = { .timed = true };
	struct exits_handling p = { .e = &e };

	exits_handling_entry(&p, 10, 5); /* of an exit before us */
	exits_handling_exit(&p, 10, 10, 12);
	exits_handling_exit(&p, 20, 11, 12);
	exits_handling_entry(&p, 10, 30);
	exits_handling_entry(&p, 10, 40); /* failed entry: nothing new */
	exits_handling_exit(&p, 10, 50, 1);
	exits_handling_exit(&p, 10, 60, 1); /* entered without an event */
	exits_handling_entry(&p, 10, 61);
	assert_int_equal(e.n, 2);
	assert_int_equal(exits_now(&e, 0)[EXITS_TIMED], 1);
	assert_int_equal(exits_now(&e, 0)[EXITS_TOTAL], 20);
	assert_int_equal(exits_now(&e, 1)[EXITS_TIMED], 1);
	assert_int_equal(exits_now(&e, 1)[EXITS_TOTAL], 1);
	exits_handling_gap(&p);
	exits_handling_entry(&p, 20, 1000000); /* its exit may be another by now */
	assert_int_equal(e.n, 2);
	exits_handling_exit(&p, 20, 100, 12);
	exits_handling_entry(&p, 20, 90); /* clocks of two CPUs that disagree */
	assert_int_equal(e.n, 2);
	exits_handling_free(&p);
	exits_free(&e);
}

/* Many threads and reasons, in any order, against a plain sum. */
static void test_many(void **state __unused_arg)
{
	static uint64_t want[200][40];
	struct exits e = { .timed = false };
	uint64_t x = 1, last = UINT64_MAX, sum = 0;
	struct exits_view v;
	struct exits_row r;

	for (int i = 0; i < 100000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		want[(x >> 33) % 200][(x >> 50) % 40] += x >> 62;
		exits_add(&e, 1000 + (uint32_t)((x >> 33) % 200),
					   (uint32_t)((x >> 50) % 40), x >> 62);
	}
	exits_view_make(&e, EXITS_BY_THREAD, true, NULL, NULL, &v);
	for (size_t i = 0; i < v.n; i++) {
		exits_view_row(&v, i, &r);
		assert_true(r.count <= last);
		assert_int_equal(r.count, want[r.thread->tid - 1000][r.reason]);
		last = r.count;
		sum += r.count;
	}
	assert_int_equal(sum, v.count);
	exits_view_free(&v);
	exits_free(&e);
}

/* As the kernel's own logarithm: up to 2^k. */
static void test_buckets(void **state __unused_arg)
{
	assert_int_equal(exits_bucket(0), 0);
	assert_int_equal(exits_bucket(1), 0);
	assert_int_equal(exits_bucket(2), 1);
	assert_int_equal(exits_bucket(1024), 10);
	assert_int_equal(exits_bucket(1025), 11);
	assert_int_equal(exits_bucket(UINT64_MAX), EXITS_BUCKETS - 1);
}

static void test_spread(void **state __unused_arg)
{
	struct exits e = { .timed = true, .spreads = true };
	struct exits_view v;
	struct exits_row r;

	exits_add(&e, 1, 12, 3);
	exits_spread_raw(&e, 1, 12, 10, 2, 1900);
	exits_spread_raw(&e, 1, 12, 12, 1, 4000);
	exits_time_one(&e, 1, EXITS_WAKE, 1024);
	exits_interval(&e);
	exits_add(&e, 1, 12, 1);
	exits_spread_raw(&e, 1, 12, 10, 3, 2900);
	exits_view_make(&e, EXITS_BY_REASON, false, NULL, NULL, &v);
	assert_int_equal(v.n, 1); /* no wake-up in this interval */
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.timed, 1);
	assert_int_equal(r.total, 1000);
	assert_int_equal(r.bucket[10], 1);
	assert_int_equal(r.bucket[12], 0);
	exits_view_free(&v);
	exits_view_make(&e, EXITS_BY_THREAD, true, NULL, NULL, &v);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.count, 4); /* wake-ups are no exits */
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.bucket[10], 3);
	assert_int_equal(exits_row_percentile(&r, 50, 100), 10);
	assert_int_equal(exits_row_percentile(&r, 99, 100), 12);
	exits_view_row(&v, 1, &r);
	assert_int_equal(r.reason, EXITS_WAKE);
	assert_int_equal(r.count, 0);
	assert_int_equal(r.timed, 1);
	exits_view_free(&v);
	/* Who gets the number next begins where the source stands. */
	exits_thread_renew(&e, 1);
	exits_spread_raw(&e, 1, 12, 10, 5, 4900);
	exits_view_make(&e, EXITS_BY_REASON, true, NULL, NULL, &v);
	exits_view_row(&v, 0, &r);
	assert_int_equal(r.bucket[10], 5);
	assert_int_equal(r.total, 8900);
	exits_view_free(&v);
	exits_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	   cmocka_unit_test(test_by_reason),
		cmocka_unit_test(test_intervals), cmocka_unit_test(test_baseline),  cmocka_unit_test(test_tid_again),
		cmocka_unit_test(test_source_emptied), cmocka_unit_test(test_vms),
		cmocka_unit_test(test_pairs),	   cmocka_unit_test(test_many),
		cmocka_unit_test(test_buckets),	   cmocka_unit_test(test_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
