/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_subbuf.c: tests of src/ring/subbuf.c: what the encoder wrote comes back, in every byte
 * order and word size, and no byte of a sub-buffer makes the walk leave it or run for ever.
 */
#include "lib/enc.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 512

static const uint32_t longs[] = { 8, 4 };

/* Exactly SIZE bytes on the heap, so that one byte too far is seen by the sanitizer. */
static uint8_t *page_new(void)
{
	uint8_t *p = malloc(SIZE);

	assert_non_null(p);
	return p;
}

static void fill(struct encpage *p, const struct subbuf_geom *g, uint8_t *buf)
{
	uint8_t data[200];

	enc_page_begin(p, g, buf, 1000);
	enc_record(data, 7, 42, 1, 16);
	assert_true(enc_event(p, 1005, data, 16));
	enc_record(data, 8, 42, 2, 120); /* too long for the short form */
	assert_true(enc_event(p, 1005, data, 120));
	assert_true(enc_discard(p, 1010, 24));
	enc_record(data, 9, 42, 3, 16);
	assert_true(enc_event(p, 1010 + (1ull << 30), data, 16)); /* through a time extend */
	assert_true(enc_stamp(p, (1ull << 40) + 5));
	enc_record(data, 10, 42, 4, 16);
	assert_true(enc_event_long(p, (1ull << 40) + 6, data, 16));
}

static void expect(struct subbuf *sb, uint16_t id, uint64_t ts, uint32_t len, uint64_t seq)
{
	struct rec rec = { 0 };

	assert_int_equal(subbuf_next(sb, &rec), 1);
	assert_int_equal(rec.id, id);
	assert_int_equal(rec.ts, ts);
	assert_int_equal(rec.len, len);
	assert_int_equal(load_u64(rec.data + 8), seq);
}

static void test_round_trip(void **state __unused_arg)
{
	uint8_t *buf = page_new();
	struct encpage p;
	struct subbuf sb;
	struct rec rec;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(longs); i++) {
		struct subbuf_geom g = enc_geom(SIZE, longs[i]);

		fill(&p, &g, buf);
		if (i & 1)
			assert_true(enc_padding(&p));
		enc_page_end(&p);
		assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
		assert_false(sb.lost);
		expect(&sb, 7, 1005, 16, 1);
		expect(&sb, 8, 1005, 120, 2);
		expect(&sb, 9, 1010 + (1ull << 30), 16, 3);
		expect(&sb, 10, (1ull << 40) + 6, 16, 4);
		assert_int_equal(subbuf_next(&sb, &rec), 0);
		assert_int_equal(subbuf_next(&sb, &rec), 0);
	}
	free(buf);
}

static void test_lost(void **state __unused_arg)
{
	uint8_t *buf = page_new();
	struct encpage p;
	struct subbuf sb;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(longs); i++) {
		struct subbuf_geom g = enc_geom(SIZE, longs[i]);

		fill(&p, &g, buf);
		enc_lost(&p, true, 171873);
		enc_page_end(&p);
		assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
		assert_true(sb.lost && sb.lost_counted);
		assert_int_equal(sb.lost_count, 171873);

		fill(&p, &g, buf);
		enc_lost(&p, false, 0);
		enc_page_end(&p);
		assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
		assert_true(sb.lost);
		assert_false(sb.lost_counted);
		expect(&sb, 7, 1005, 16, 1);
	}
	free(buf);
}

static void test_commit_word(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(SIZE, 8);
	uint8_t *buf = page_new();
	struct subbuf sb;
	struct rec rec;

	memset(buf, 0, SIZE);
	enc_put(buf + 8, SIZE - 16, 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	enc_put(buf + 8, SIZE - 15, 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), -EBADMSG);
	/* The flag "lost" comes sign-extended from a 64-bit kernel; the high half says nothing else. */
	enc_put(buf + 8, (uint64_t)INT32_MIN, 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	assert_true(sb.lost && !sb.lost_counted);
	enc_put(buf + 8, (uint64_t)INT32_MIN | (SIZE - 15), 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), -EBADMSG);
	/* no room for the stored count */
	enc_put(buf + 8, 3u << 30 | (SIZE - 16 - 7), 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), -EBADMSG);
	enc_put(buf + 8, 3u << 30 | (SIZE - 16 - 8), 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	/* an empty sub-buffer */
	enc_put(buf + 8, 0, 8);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	assert_int_equal(subbuf_next(&sb, &rec), 0);
	/* nonsense geometry */
	g.long_size = 5;
	assert_int_equal(subbuf_begin(&sb, buf, &g), -EBADMSG);
	g = enc_geom(SIZE, 8);
	g.header = 12;
	assert_int_equal(subbuf_begin(&sb, buf, &g), -EBADMSG);
	free(buf);
}

/* Builds a sub-buffer of the given words and returns what the walk ends with. */
static int walk_words(const uint32_t *word, size_t n, size_t commit)
{
	struct subbuf_geom g = enc_geom(SIZE, 8);
	uint8_t *buf = page_new();
	struct subbuf sb;
	struct rec rec;
	size_t i;
	int ret;

	memset(buf, 0, SIZE);
	enc_put(buf + 8, commit, 8);
	for (i = 0; i < n; i++)
		enc_put(buf + 16 + 4 * i, word[i], 4);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	while ((ret = subbuf_next(&sb, &rec)) > 0)
		assert_true(rec.len >= 2 && rec.data + rec.len <= buf + SIZE);
	free(buf);
	return ret;
}

static void test_bad_events(void **state __unused_arg)
{
	const uint32_t zero_len[] = { 0, 0 }, tiny[] = { 0, 5, 0 }, huge[] = { 0, 0xfffffffc, 0 };
	const uint32_t pad_huge[] = { 29 | 1 << 5, 0xfffffffc }, pad_zero[] = { 29 | 1 << 5, 0 };
	const uint32_t pad_self[] = { 29 | 1 << 5, 4, 1, 7 }, short_long[] = { 5, 0 };
	const uint32_t extend_cut[] = { 30 }, stamp_cut[] = { 31 }, len_cut[] = { 0 };

	assert_int_equal(walk_words(zero_len, 2, 8), -EBADMSG);
	assert_int_equal(walk_words(tiny, 3, 12), -EBADMSG);
	assert_int_equal(walk_words(huge, 3, 12), -EBADMSG);
	assert_int_equal(walk_words(pad_huge, 2, 8), -EBADMSG);
	assert_int_equal(walk_words(pad_zero, 2, 8), -EBADMSG);
	assert_int_equal(walk_words(pad_self, 4, 16), 0); /* 8 bytes dropped, then one event */
	assert_int_equal(walk_words(short_long, 2, 8), -EBADMSG);
	assert_int_equal(walk_words(extend_cut, 1, 4), -EBADMSG);
	assert_int_equal(walk_words(stamp_cut, 1, 4), -EBADMSG);
	assert_int_equal(walk_words(len_cut, 1, 4), -EBADMSG);
	assert_int_equal(walk_words(pad_self, 4, 14), -EBADMSG); /* commit inside a word */
}

/* The low 59 bits of an absolute stamp wrap: time must go on, not back by 2^59. */
static void test_stamp_wrap(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(SIZE, 8);
	uint64_t base = (5ull << 59) | ((1ull << 59) - 10);
	uint8_t *buf = page_new(), data[16];
	struct encpage p;
	struct subbuf sb;
	struct rec rec;

	enc_page_begin(&p, &g, buf, base);
	enc_record(data, 7, 1, 0, 16);
	assert_true(enc_event(&p, base + 1, data, 16));
	assert_true(enc_stamp(&p, 20)); /* 30 later */
	p.ts = 20;
	assert_true(enc_event(&p, 21, data, 16));
	enc_page_end(&p);
	assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
	assert_int_equal(subbuf_next(&sb, &rec), 1);
	assert_int_equal(rec.ts, base + 1);
	assert_int_equal(subbuf_next(&sb, &rec), 1);
	assert_int_equal(rec.ts, (6ull << 59) + 21);
	free(buf);
}

/* Every commit length: whatever is cut off, the events before it are intact. */
static void test_cut_everywhere(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(SIZE, 8);
	uint8_t *buf = page_new();
	struct encpage p;
	uint32_t cut;

	fill(&p, &g, buf);
	for (cut = 0; cut <= p.pos; cut++) {
		unsigned int n = 0;
		struct subbuf sb;
		struct rec rec;
		int ret;

		enc_put(buf + 8, cut, 8);
		assert_int_equal(subbuf_begin(&sb, buf, &g), 0);
		while ((ret = subbuf_next(&sb, &rec)) > 0) {
			assert_true(rec.data + rec.len <= buf + 16 + cut);
			n++;
		}
		assert_true(ret == 0 || ret == -EBADMSG);
		assert_int_equal(n == 4, cut == p.pos);
	}
	free(buf);
}

/* Random damage: only the absence of a crash and of an endless loop is claimed. */
static void test_mutated(void **state __unused_arg)
{
	uint8_t *buf = page_new();
	unsigned int seed = 1, round, k;
	struct encpage p;

	for (round = 0; round < 20000; round++) {
		struct subbuf_geom g = enc_geom(SIZE, longs[round % 2]);
		unsigned int n = 0;
		struct subbuf sb;
		struct rec rec;

		fill(&p, &g, buf);
		enc_page_end(&p);
		for (k = 0; k < 1 + round % 4; k++)
			buf[(unsigned int)rand_r(&seed) % SIZE] = (uint8_t)rand_r(&seed);
		if (subbuf_begin(&sb, buf, &g))
			continue;
		while (subbuf_next(&sb, &rec) > 0) {
			assert_true(rec.data >= buf && rec.data + rec.len <= buf + SIZE);
			assert_true(++n <= SIZE / 4);
		}
	}
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_lost),
		cmocka_unit_test(test_commit_word), cmocka_unit_test(test_bad_events),
		cmocka_unit_test(test_stamp_wrap),  cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_mutated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
