/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_subbuf_write.c: tests of src/capture/subbuf_write.c: whatever events and losses are
 * written, the walker reads back, in every word size and size of sub-buffers.
 */
#include "lib/enc.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS	 3000
#define MAX_DATA 700

/* What was written, and the sub-buffers it became. */
struct item {
	bool lost;
	uint64_t ts, count; /* count: of lost events */
	uint32_t len;
	uint8_t data[MAX_DATA];
};

static struct item item[EVENTS];
static struct sbuf pages;

static uint32_t rnd(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static int collect(void *arg, const void *buf)
{
	const struct subbuf_geom *g = arg;

	sbuf_add_mem(&pages, buf, g->size);
	return pages.error;
}

/* Mostly small steps; now and then more than 27 bits, backwards, long data, odd lengths, losses. */
static void make_items(uint32_t seed, uint32_t max)
{
	uint64_t ts = 1000;

	for (size_t i = 0; i < EVENTS; i++) {
		struct item *t = &item[i];
		uint32_t kind = rnd(&seed) % 64;

		memset(t, 0, sizeof(*t));
		t->lost = kind == 0;
		t->count = rnd(&seed) % 3 * 100;
		ts += kind == 1 ? 1ull << (27 + rnd(&seed) % 20) : rnd(&seed) % 5000;
		if (kind == 2 && ts > 100000)
			ts -= 50000;
		t->ts = ts;
		t->len = kind == 3 ? 2 + rnd(&seed) % (max - 2) : 8 + rnd(&seed) % 30 * 4;
		t->len = MIN(t->len, max);
		for (uint32_t k = 0; k < t->len; k++)
			t->data[k] = (uint8_t)rnd(&seed);
		enc_put(t->data, 7 + i % 50, 2);
	}
}

static void write_items(const struct subbuf_geom *g)
{
	struct subbuf_writer w;

	assert_int_equal(subbuf_writer_init(&w, g, collect, (void *)g), 0);
	for (size_t i = 0; i < EVENTS; i++)
		assert_int_equal(item[i].lost ? subbuf_write_lost(&w, item[i].count) :
						subbuf_write(&w, item[i].ts, item[i].data, item[i].len), 0);
	assert_int_equal(subbuf_write_end(&w), 0);
	assert_int_equal(w.emitted * g->size, pages.len);
	subbuf_writer_free(&w);
}

/* The losses in front of item i as one: count, and whether it is known. */
static size_t skip_lost(size_t i, uint64_t *count, bool *known)
{
	*count = 0;
	*known = true;
	for (; i < EVENTS && item[i].lost; i++) {
		*count += item[i].count;
		*known &= item[i].count != 0;
	}
	return i;
}

static void expect_items(const struct subbuf_geom *g)
{
	uint64_t count;
	size_t at = 0;
	bool known;

	for (size_t p = 0; p < pages.len; p += g->size) {
		struct subbuf sb;
		struct rec rec;
		int ret;

		assert_int_equal(subbuf_begin(&sb, pages.s + p, g), 0);
		if (sb.lost) {
			assert_true(item[at].lost);
			at = skip_lost(at, &count, &known);
			assert_int_equal(sb.lost_counted, known);
			assert_int_equal(sb.lost_count, known ? count : 0);
		}
		while ((ret = subbuf_next(&sb, &rec)) > 0) {
			const struct item *t = &item[at++];

			assert_false(t->lost);
			assert_int_equal(rec.ts, t->ts);
			assert_int_equal(rec.id, 7 + (at - 1) % 50);
			/* The short form counts in words: only what is longer has its own length. */
			assert_int_equal(rec.len, t->len);
			assert_memory_equal(rec.data, t->data, t->len);
		}
		assert_int_equal(ret, 0);
	}
	assert_int_equal(at, EVENTS);
}

static void test_round_trip(void **state __unused_arg)
{
	static const uint32_t size[] = { 256, 4096, 65536 };

	for (unsigned int k = 0; k < 3 * 4; k++) {
		struct subbuf_geom g = enc_geom(size[k / 4], k & 1 ? 4 : 8);

		make_items(k + 1, MIN((uint32_t)MAX_DATA, g.size - 64));
		item[EVENTS - 1].lost = k & 4; /* a loss at the end has no event behind it */
		sbuf_reset(&pages);
		write_items(&g);
		expect_items(&g);
	}
	sbuf_free(&pages);
}

static void test_limits(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(256, 8), small = enc_geom(256, 8);
	struct subbuf_writer w;
	uint8_t data[512] = { 0 };

	assert_int_equal(subbuf_writer_init(&w, &g, collect, &g), 0);
	assert_int_equal(subbuf_write_end(&w), 0);
	assert_int_equal(w.emitted, 0); /* nothing in, nothing out */
	assert_int_equal(subbuf_write(&w, 1, data, 240 - 8), 0); /* fills it to the last byte */
	assert_int_equal(subbuf_write(&w, 2, data, 240 - 7), -EMSGSIZE);
	assert_int_equal(subbuf_write(&w, 2, data, UINT32_MAX), -EMSGSIZE);
	assert_int_equal(subbuf_write_lost(&w, 5), 0); /* its number needs room too */
	assert_int_equal(subbuf_write(&w, 3, data, 240 - 8), -EMSGSIZE);
	assert_int_equal(subbuf_write(&w, 3, data, 240 - 16), 0);
	assert_int_equal(subbuf_write_end(&w), 0);
	subbuf_writer_free(&w);
	small.size = 32;
	assert_int_equal(subbuf_writer_init(&w, &small, collect, &small), -EINVAL);
	subbuf_writer_free(&w);
	sbuf_free(&pages);
}

static int refuse(void *arg __unused_arg, const void *buf __unused_arg)
{
	return -ENOSPC;
}

static void test_errors_come_through(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(256, 8);
	struct subbuf_writer w;
	uint8_t data[100] = { 0 };

	assert_int_equal(subbuf_writer_init(&w, &g, refuse, NULL), 0);
	assert_int_equal(subbuf_write(&w, 1, data, 100), 0);
	assert_int_equal(subbuf_write(&w, 2, data, 100), 0);
	assert_int_equal(subbuf_write(&w, 3, data, 100), -ENOSPC);
	assert_int_equal(subbuf_write(&w, 4, data, 100), 0);
	assert_int_equal(subbuf_write_lost(&w, 1), -ENOSPC);
	assert_int_equal(subbuf_write_end(&w), -ENOSPC);
	subbuf_writer_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_errors_come_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
