/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_live_rings.c: tests of src/live/live.c over pipes that stand for trace_pipe_raw: order over
 * CPUs, what the window holds back, gaps, damage, full queues, late events.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "kvmft/live.h"

#define CPUS 3

struct rig {
	struct subbuf_geom g;
	int rd[CPUS], wr[CPUS];
	struct live *l;
};

static int next(struct live *l, struct live_item *it)
{
	const struct live_item *i = live_next(l);

	if (i)
		*it = *i;
	return i != NULL;
}

static void rig_open_as(struct rig *r, bool in_order)
{
	r->g = enc_geom(FX_SUB, sizeof(long));
	assert_int_equal(live_new(FX_SUB, in_order, &r->l), 0);
	for (uint32_t i = 0; i < CPUS; i++) {
		int fds[2];

		assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
		fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
		r->rd[i] = fds[0];
		r->wr[i] = fds[1];
		live_add_cpu(r->l, i, fds[0]);
	}
}

static void rig_open(struct rig *r)
{
	rig_open_as(r, true);
}

static void rig_close(struct rig *r)
{
	live_free(r->l);
	for (int i = 0; i < CPUS; i++) {
		close(r->rd[i]);
		close(r->wr[i]);
	}
}

static void put(struct rig *r, int cpu, const void *page)
{
	assert_int_equal(write(r->wr[cpu], page, FX_SUB), FX_SUB);
}

/* n events from ts on, step apart, in one sub-buffer; lost: < 0 none, 0 unknown number. */
static void put_events(struct rig *r, int cpu, uint64_t ts, uint64_t step, unsigned int n, long lost)
{
	uint8_t page[FX_SUB], data[64];
	struct encpage p;

	enc_page_begin(&p, &r->g, page, ts);
	for (unsigned int i = 0; i < n; i++) {
		enc_record(data, 7, 100, ts + i * step, 24);
		assert_true(enc_event(&p, ts + i * step, data, 24));
	}
	if (lost >= 0)
		enc_lost(&p, lost > 0, (uint64_t)lost);
	enc_page_end(&p);
	put(r, cpu, page);
}

/* Takes all released events; they must ascend. Returns how many; *last is the newest stamp. */
static unsigned int take(struct rig *r, uint64_t *last)
{
	struct live_item it = { .late = false };
	unsigned int n = 0;

	while (next(r->l, &it)) {
		assert_int_equal(it.kind, R_EVENT);
		assert_false(it.late);
		assert_true(it.ts >= *last);
		assert_int_equal(load_u64(it.rec.data + 8), it.ts);
		*last = it.ts;
		n++;
	}
	return n;
}

static void test_order_over_cpus(void **state __unused_arg)
{
	struct rig r;
	uint64_t last = 0;

	rig_open(&r);
	put_events(&r, 0, 100, 30, 50, -1);
	put_events(&r, 1, 110, 30, 50, -1);
	put_events(&r, 2, 120, 30, 50, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(take(&r, &last), 0); /* nothing is old enough yet */
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(take(&r, &last), 150);
	assert_int_equal(last, 120 + 49 * 30);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(take(&r, &last), 0);
	assert_int_equal(live_totals(r.l)->events, 150);
	assert_int_equal(live_totals(r.l)->late, 0);
	rig_close(&r);
}

/* CPU 1 is read after CPU 0 got newer events: the window keeps CPU 0's back. */
static void test_window(void **state __unused_arg)
{
	struct rig r;
	uint64_t last = 0;

	rig_open(&r);
	put_events(&r, 0, 1000, 1, 10, -1);
	assert_int_equal(live_read(r.l, false), 0);
	put_events(&r, 1, 500, 1, 10, -1); /* older, but read later */
	put_events(&r, 0, 2000, 1, 10, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(take(&r, &last), 20); /* up to 1009, the newest of the first read */
	assert_int_equal(last, 1009);
	assert_int_equal(live_read(r.l, true), 0);
	assert_int_equal(take(&r, &last), 10);
	rig_close(&r);
}

static void test_late(void **state __unused_arg)
{
	struct live_item it = { .late = false };
	struct rig r;
	uint64_t last = 0;

	rig_open(&r);
	put_events(&r, 0, 1000, 1, 1, -1);
	assert_int_equal(live_read(r.l, true), 0);
	assert_int_equal(take(&r, &last), 1);
	put_events(&r, 1, 500, 1, 1, -1);
	assert_int_equal(live_read(r.l, true), 0);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.ts, 500);
	assert_true(it.late);
	assert_int_equal(next(r.l, &it), 0);
	assert_int_equal(live_totals(r.l)->late, 1);
	rig_close(&r);
}

static void test_gap_and_damage(void **state __unused_arg)
{
	uint8_t page[FX_SUB];
	struct live_item it = { .late = false };
	struct rig r;

	rig_open(&r);
	put_events(&r, 0, 100, 1, 1, -1);
	put_events(&r, 0, 200, 1, 1, 42);
	memset(page, 0xff, sizeof(page));
	put(&r, 0, page);
	put_events(&r, 0, 300, 1, 1, 0);
	assert_int_equal(live_read(r.l, true), 0);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.kind, R_EVENT);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.kind, R_GAP);
	assert_int_equal(it.lost, 42);
	assert_int_equal(it.ts, 200);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.ts, 200);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.kind, R_DAMAGE);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.kind, R_GAP);
	assert_int_equal(it.lost, 0);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.ts, 300);
	assert_int_equal(next(r.l, &it), 0);
	assert_int_equal(live_totals(r.l)->events, 3);
	assert_int_equal(live_totals(r.l)->lost, 42);
	assert_true(live_totals(r.l)->lost_unknown);
	assert_int_equal(live_totals(r.l)->damaged, 1);
	rig_close(&r);
}

/* Without order nothing is held back: all of a CPU, with its gaps, then the next one. */
static void test_cpu_by_cpu(void **state __unused_arg)
{
	static const uint64_t want[] = { 200, 201, 202, 100, 101, 900, 900 };
	struct live_item it = { .late = false };
	struct rig r;

	rig_open_as(&r, false);
	put_events(&r, 0, 200, 1, 3, -1);
	put_events(&r, 1, 100, 1, 2, -1);
	put_events(&r, 1, 900, 1, 1, 5);
	assert_int_equal(live_read(r.l, false), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(next(r.l, &it), 1);
		assert_int_equal(it.kind, i == 5 ? R_GAP : R_EVENT);
		assert_int_equal(it.cpu, i >= 3);
		assert_int_equal(it.ts, want[i]);
		assert_false(it.late);
	}
	assert_int_equal(next(r.l, &it), 0);
	put_events(&r, 0, 50, 1, 1, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(next(r.l, &it), 1);
	assert_int_equal(it.ts, 50);
	assert_int_equal(next(r.l, &it), 0);
	assert_int_equal(live_totals(r.l)->events, 7);
	assert_int_equal(live_totals(r.l)->lost, 5);
	assert_int_equal(live_totals(r.l)->late, 0);
	rig_close(&r);
}

/* More than a queue takes (8 MiB): the rest comes in later reads, and order holds against CPU 1. */
static void test_full_queue(void **state __unused_arg)
{
	const unsigned int pages = 3000, per = 100; /* what fills most of a sub-buffer */
	unsigned int put_pages = 0, got = 0, full = 0;
	uint64_t last = 0;
	struct rig r;
	int ret = 0;

	rig_open(&r);
	put_events(&r, 1, 1000000, 100, 20, -1);
	while (put_pages < pages || ret > 0) {
		/* The pipe holds 256 pages; without taking events out the queue fills. */
		for (int i = 0; !ret && i < 200 && put_pages < pages; i++, put_pages++)
			put_events(&r, 0, 1000 + (uint64_t)put_pages * per * 10, 10, per, -1);
		ret = live_read(r.l, false);
		assert_in_range(ret, 0, 1);
		full += (unsigned int)ret;
		if (ret)
			got += take(&r, &last);
	}
	assert_true(full > 0);
	do {
		ret = live_read(r.l, true);
		assert_in_range(ret, 0, 1);
		got += take(&r, &last);
	} while (ret);
	assert_int_equal(got, pages * per + 20);
	assert_int_equal(live_totals(r.l)->late, 0);
	rig_close(&r);
}

static unsigned int unread(const struct rig *r, int cpu)
{
	int bytes = 0;

	assert_int_equal(ioctl(r->rd[cpu], FIONREAD, &bytes), 0);
	return (unsigned int)bytes / FX_SUB;
}

/* A CPU that writes while it is read from is left alone when there is little left, unless that is old. */
static void test_small(void **state __unused_arg)
{
	uint64_t last = 0;
	struct rig r;

	rig_open(&r);
	for (uint64_t i = 0; i < 6; i++)
		put_events(&r, 0, 1000 + i * 100, 10, 5, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(unread(&r, 0), 4);
	put_events(&r, 1, 1000000, 10, 5, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(unread(&r, 0), 2);
	/* Older than what CPU 1 had shown: all of it, as it is to be given out now. */
	put_events(&r, 1, 2000000, 10, 5, -1);
	assert_int_equal(live_read(r.l, false), 0);
	assert_int_equal(unread(&r, 0), 0);
	assert_int_equal(take(&r, &last), 6 * 5 + 5);
	for (uint64_t i = 0; i < 4; i++)
		put_events(&r, 2, 3000000 + i * 100, 10, 5, -1);
	assert_int_equal(live_read(r.l, true), 0);
	assert_int_equal(unread(&r, 2), 0);
	assert_int_equal(take(&r, &last), 5 + 4 * 5);
	assert_int_equal(live_totals(r.l)->late, 0);
	rig_close(&r);
}

static void test_errors(void **state __unused_arg)
{
	struct live_item it = { .late = false };
	struct live *l;
	struct rig r;

	assert_int_equal(live_new(0, true, &l), -EINVAL);
	assert_int_equal(live_new(CAPTURE_MAX_SUBBUF + 1, true, &l), -EINVAL);
	live_free(NULL);
	rig_open(&r);
	assert_int_equal(next(r.l, &it), 0); /* before the first read */
	assert_int_equal(write(r.wr[2], "short", 5), 5);
	assert_int_equal(live_read(r.l, false), -EMSGSIZE);
	rig_close(&r);
	rig_open(&r);
	close(r.rd[1]);
	r.rd[1] = open("/", O_RDONLY);
	assert_int_equal(live_read(r.l, false), -EISDIR);
	rig_close(&r);
	/* No CPU at all. */
	assert_int_equal(live_new(FX_SUB, true, &l), 0);
	assert_int_equal(live_read(l, true), 0);
	assert_int_equal(next(l, &it), 0);
	live_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_over_cpus), cmocka_unit_test(test_window),
		cmocka_unit_test(test_late),		cmocka_unit_test(test_gap_and_damage),
		cmocka_unit_test(test_full_queue),	cmocka_unit_test(test_small),
		cmocka_unit_test(test_cpu_by_cpu),	cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
