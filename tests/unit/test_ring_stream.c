/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_stream.c: tests of src/ring/rstream.c over capture directories: order, gaps, damage,
 * seeking, and several CPUs through the merge.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

static struct capture *one_cpu(char *dir, const uint8_t *pages, size_t nsub,
			       const struct subbuf_geom *g)
{
	struct sbuf meta = { 0 };

	fx_meta(&meta, g);
	fx_end(&meta);
	fx_write(dir, &meta);
	enc_file(dir, "seg000000/cpu0", pages, nsub * g->size);
	return fx_open(dir);
}

static void test_in_order(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	uint8_t *pages = fx_pages(&g, 200, 50, 1000, 10, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 200, &g);
	struct rstream r;
	uint64_t k;

	assert_non_null(c);
	assert_int_equal(c->ndamage, 0);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	for (k = 0; k < 200 * 50; k++) {
		assert_int_equal(rstream_next(&r), R_EVENT);
		assert_int_equal(r.rec.ts, 1000 + 10 * k);
		assert_int_equal(load_u64(r.rec.data + 8), k);
	}
	assert_int_equal(rstream_next(&r), R_END);
	assert_int_equal(rstream_next(&r), R_END);
	assert_int_equal(r.damaged + r.lost_total + r.lost_unknown + (uint64_t)-r.error, 0);
	rstream_close(&r);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

static void test_gap_and_damage(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	uint8_t *pages = fx_pages(&g, 100, 20, 1000, 10, 7);
	char *dir = enc_tmpdir();
	uint64_t events = 0, gaps = 0, bad = 0;
	struct rstream r;
	struct capture *c;
	enum rkind kind;

	/* 3: counted loss, 5: uncounted loss, 70: broken in the middle, 80: broken header */
	enc_put(pages + 3 * FX_SUB + 8, false, 3u << 30 | 20 * 28, 8);
	enc_put(pages + 3 * FX_SUB + 16 + 20 * 28, false, 123, 8);
	enc_put(pages + 5 * FX_SUB + 8, false, 1u << 31 | 20 * 28, 8);
	enc_put(pages + 70 * FX_SUB + 16 + 10 * 28, false, 0, 8);
	enc_put(pages + 80 * FX_SUB + 8, false, 0xffff, 8);
	c = one_cpu(dir, pages, 100, &g);
	assert_non_null(c);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	while ((kind = rstream_next(&r)) != R_END) {
		if (kind == R_EVENT) {
			events++;
		} else if (kind == R_GAP) {
			assert_int_equal(events, gaps ? 100 : 60); /* before its events */
			assert_int_equal(r.lost, gaps++ ? 0 : 123);
		} else {
			assert_int_equal(r.damage_index, bad++ ? 80 : 70);
		}
	}
	assert_int_equal(events, 100 * 20 - 10 - 20);
	assert_int_equal(bad, 2);
	assert_int_equal(r.damaged, 2);
	assert_int_equal(gaps, 2);
	assert_int_equal(r.lost_total, 123);
	assert_true(r.lost_unknown);
	rstream_close(&r);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

static void check_seek(struct rstream *r, uint64_t from, uint64_t first, uint64_t last,
		       uint64_t step, uint64_t slack)
{
	uint64_t want = from <= first ? first : first + (from - first + step - 1) / step * step;
	uint64_t before = 0;

	if (from > last)
		want = UINT64_MAX;
	assert_int_equal(rstream_seek(r, from), 0);
	for (;;) {
		enum rkind kind = rstream_next(r);

		if (kind == R_END) {
			assert_true(want > last);
			break;
		}
		assert_int_equal(kind, R_EVENT);
		if (r->rec.ts >= from) {
			assert_int_equal(r->rec.ts, want);
			break;
		}
		before++;
	}
	assert_true(before <= slack);
}

static void test_seek(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	const uint64_t first = 1000, step = 10, last = first + (300 * 20 - 1) * step;
	uint8_t *pages = fx_pages(&g, 300, 20, first, step, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 300, &g);
	struct rstream r;
	uint64_t from;

	assert_non_null(c);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	check_seek(&r, 0, first, last, step, 0);
	check_seek(&r, UINT64_MAX, first, last, step, 20);
	for (from = first - 3; from < last + 30; from += 37)
		check_seek(&r, from, first, last, step, 20); /* at most one sub-buffer too early */
	rstream_close(&r);
	capture_close(c);

	/* Stamps out of order: nothing may be skipped, so the whole stream is walked. */
	enc_put(pages + 95 * FX_SUB, false, 5, 8); /* one of those that are looked at */
	c = one_cpu(dir, pages, 300, &g);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	assert_int_equal(rstream_seek(&r, last), 0);
	assert_int_equal(r.idx, 0);
	rstream_close(&r);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

/* ---- several CPUs ---- */

static bool stream_key(void *src, uint64_t *key)
{
	struct rstream *r = src;

	if (rstream_next(r) == R_END)
		return false;
	*key = r->rec.ts;
	return true;
}

static void test_cpus_in_time_order(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, true); /* big endian on top */
	enum { CPUS = 7 };
	void *src[CPUS];
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	struct rstream r[CPUS];
	uint64_t key, last = 0, n = 0;
	struct capture *c;
	struct rmerge *m;
	unsigned int i;

	fx_meta(&meta, &g);
	fx_end(&meta);
	fx_write(dir, &meta);
	for (i = 0; i < CPUS; i++) { /* two segments each, CPU 3 only in the second */
		uint8_t *pages = fx_pages(&g, 4, 30, 1000 + i, 7 + i, 7);
		char name[64];

		snprintf(name, sizeof(name), "seg000004/cpu%u", i);
		if (i != 3)
			enc_file(dir, name, pages, 2 * g.size);
		snprintf(name, sizeof(name), "seg000005/cpu%u", i);
		enc_file(dir, name, pages + 2 * g.size, 2 * g.size);
		free(pages);
	}
	c = fx_open(dir);
	assert_non_null(c);
	assert_int_equal(c->nstream, CPUS);
	assert_int_equal(c->ndamage, 0);
	for (i = 0; i < CPUS; i++) {
		assert_int_equal(c->stream[i].cpu, i);
		assert_int_equal(c->stream[i].nsub, i == 3 ? 2 : 4);
		assert_int_equal(rstream_open(&r[i], c, &c->stream[i]), 0);
		src[i] = &r[i];
	}
	assert_int_equal(rmerge_new(&m, stream_key, src, CPUS), 0);
	for (ssize_t w = rmerge_peek(m, &key); w >= 0; w = rmerge_pop(m, w, stream_key, &key)) {
		assert_true(key >= last);
		last = key;
		n++;
	}
	assert_int_equal(n, CPUS * 120 - 60);
	rmerge_free(m);
	for (i = 0; i < CPUS; i++)
		rstream_close(&r[i]);
	capture_close(c);
	enc_rmtree(dir);
}

/* A data file that shrinks under the reader is an error, not an end. */
static void test_file_shrinks(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	uint8_t *pages = fx_pages(&g, 200, 20, 1000, 10, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 200, &g);
	struct rstream r;

	assert_non_null(c);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	enc_file(dir, "seg000000/cpu0", pages, 10 * g.size);
	while (rstream_next(&r) != R_END)
		;
	assert_int_equal(r.error, -EIO);
	rstream_close(&r);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

/* ---- sub-buffers in parts ---- */

#define PART_SUBS 200

static uint32_t rnd(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* All kinds of events and losses; every third sub-buffer has some bits that are wrong. */
static uint8_t *mixed_pages(const struct subbuf_geom *g, uint32_t *seed)
{
	uint8_t *pages = calloc(PART_SUBS, g->size), data[2048];
	uint64_t ts = 1000;

	assert_non_null(pages);
	for (uint32_t i = 0; i < PART_SUBS; i++) {
		uint8_t *at = pages + (size_t)i * g->size;
		struct encpage p;
		bool room = true;

		enc_page_begin(&p, g, at, ts);
		while (room) {
			uint32_t len = 16 + rnd(seed) % (rnd(seed) % 20 ? 64 : 2000) / 4 * 4;

			memset(data, 0, sizeof(data));
			enc_record(data, g, (uint16_t)(rnd(seed) % 100), 1, rnd(seed), len);
			ts += 1 + rnd(seed) % 1000;
			switch (rnd(seed) % 12) {
			case 0: room = enc_discard(&p, ts, len); break;
			case 1: room = enc_stamp(&p, ts); break;
			case 2: room = enc_event_long(&p, ts, data, len - rnd(seed) % 4); break;
			default: room = enc_event(&p, ts, data, len); break;
			}
		}
		if (i % 5 == 0)
			enc_lost(&p, i % 2, i);
		enc_page_end(&p);
		for (int k = 0; i % 3 == 0 && k < 40; k++)
			at[g->header + rnd(seed) % (g->size - g->header)] ^= (uint8_t)(1 << rnd(seed) % 8);
	}
	return pages;
}

/* Reading in parts of any size tells what reading whole sub-buffers does, event by event. */
static void check_parts(const struct subbuf_geom *g, uint32_t window, uint32_t seed)
{
	uint8_t *pages = mixed_pages(g, &seed);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, PART_SUBS, g);
	unsigned int n[R_END + 1] = { 0 };
	struct rstream whole, part;
	enum rkind k;

	assert_non_null(c);
	assert_int_equal(rstream_open(&whole, c, &c->stream[0]), 0);
	assert_int_equal(rstream_open(&part, c, &c->stream[0]), 0);
	assert_int_equal(whole.window, 0);
	part.window = window;
	do {
		k = rstream_next(&whole);
		assert_int_equal(rstream_next(&part), k);
		n[k]++;
		if (k == R_EVENT) {
			assert_int_equal(part.rec.ts, whole.rec.ts);
			assert_int_equal(part.rec.len, whole.rec.len);
			assert_memory_equal(part.rec.data, whole.rec.data, whole.rec.len);
		} else if (k == R_GAP) {
			assert_int_equal(part.lost, whole.lost);
			assert_int_equal(part.sb.ts, whole.sb.ts);
		} else if (k == R_DAMAGE) {
			assert_int_equal(part.damage_index, whole.damage_index);
		}
	} while (k != R_END);
	assert_int_equal(part.error, 0);
	assert_true(n[R_EVENT] > 5000 && n[R_GAP] > 20 && n[R_DAMAGE] > 5);
	rstream_close(&whole);
	rstream_close(&part);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

static void test_parts(void **state __unused_arg)
{
	static const uint32_t window[] = { 16, 20, 64, 256, 1000, 4096, 8192 };

	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(window); i++) {
		struct subbuf_geom g = enc_geom(8192, i % 3 ? 8 : 4, i % 4 == 3);

		check_parts(&g, window[i / 2], i + 1);
	}
}

/* So many CPUs that a sub-buffer of each would be too much: parts are read. */
static void test_many_large(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(1u << 20, 8, false);
	uint8_t *pages = fx_pages(&g, 2, 20000, 1000, 10, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 2, &g);
	struct rstream r;

	assert_non_null(c);
	c->nstream = 256;
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
	assert_int_equal(r.window, 16384);
	for (uint64_t k = 0; k < 2 * 20000; k++) {
		assert_int_equal(rstream_next(&r), R_EVENT);
		assert_int_equal(r.rec.ts, 1000 + 10 * k);
		assert_int_equal(load_u64(r.rec.data + 8), k);
	}
	assert_int_equal(rstream_next(&r), R_END);
	rstream_close(&r);
	c->nstream = 1;
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

/* A stream that cannot be opened leaves nothing behind: no memory (the sanitizer looks), no descriptor. */
static void test_not_opened(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	uint8_t *pages = fx_pages(&g, 4, 5, 1000, 10, 7);
	char *dir = enc_tmpdir(), path[256];
	struct sbuf meta = { 0 };
	int before, after;
	struct capture *c;
	struct rstream r;

	fx_meta(&meta, &g);
	sbuf_add(&meta, "lost cpu=0 count=5 from=0 to=99999\n"); /* to be placed by the stamps of the data */
	fx_end(&meta);
	fx_write(dir, &meta);
	enc_file(dir, "seg000000/cpu0", pages, 4 * g.size);
	c = fx_open(dir);
	assert_non_null(c);
	snprintf(path, sizeof(path), "%s/seg000000/cpu0", dir);
	assert_int_equal(truncate(path, 0), 0);
	before = dup(0);
	assert_int_equal(rstream_open(&r, c, &c->stream[0]), -EIO);
	after = dup(0);
	assert_int_equal(after, before + 1);
	close(before);
	close(after);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

/* Thousands of CPUs with small sub-buffers have a little room each, too, not that for all that there is. */
static void test_many_small(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(1024, 8, false);
	uint8_t *pages = fx_pages(&g, 200, 20, 1000, 10, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 200, &g);
	struct rstream r;

	assert_non_null(c);
	for (size_t n = 1; n <= 4096; n *= 2) {
		uint32_t most = MAX((uint32_t)((512u << 10) / n), 64u << 10);

		c->nstream = n;
		assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
		assert_in_range(r.batch, 1, MIN(most, (4u << 20) / n) / g.size + 1);
		rstream_close(&r);
	}
	c->nstream = 1;
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

#define BUFFERS 40u /* more than the huge pages of as many streams have room for */
#define BUFFER	(64u << 10)

static void fill(uint8_t *const v[BUFFERS])
{
	for (uint32_t i = 0; i < BUFFERS; i++)
		memset(v[i], (int)i + 1, BUFFER);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		assert_int_equal((uintptr_t)v[i] % 4096, 0);
		assert_int_equal(v[i][0], i + 1);
		assert_memory_equal(v[i], v[i] + 1, BUFFER - 1); /* all bytes are the same */
	}
}

/* Those of many streams come from one piece of memory; none lies in another, whatever is given back. */
static void test_buffers(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8, false);
	uint8_t *pages = fx_pages(&g, 1, 4, 1000, 10, 7), *v[BUFFERS], *small;
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir(), name[64];
	size_t together = 0;
	struct capture *c;

	fx_meta(&meta, &g);
	fx_end(&meta);
	fx_write(dir, &meta);
	for (unsigned int i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "seg000000/cpu%u", i);
		enc_file(dir, name, pages, g.size);
	}
	c = fx_open(dir);
	assert_non_null(c);
	assert_int_equal(c->nstream, 32);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < BUFFERS; i++)
			assert_non_null(v[i] = capture_buffer(c, BUFFER));
		for (uint32_t i = 1; i < BUFFERS; i++)
			together += v[i] == v[i - 1] + BUFFER || v[i] == v[i - 1] - BUFFER;
		assert_non_null(small = capture_buffer(c, 8192));
		fill(v);
		memset(small, 0, 8192);
		for (uint32_t i = 0; i < BUFFERS; i += 2)
			capture_buffer_back(c, v[i], BUFFER);
		for (uint32_t i = 0; i < BUFFERS; i += 2)
			assert_non_null(v[i] = capture_buffer(c, BUFFER));
		fill(v);
		for (uint32_t i = 0; i < BUFFERS; i++)
			capture_buffer_back(c, v[i], BUFFER);
		capture_buffer_back(c, small, 8192);
	}
	assert_true(together >= 31);
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),	   cmocka_unit_test(test_gap_and_damage),
		cmocka_unit_test(test_seek),		   cmocka_unit_test(test_cpus_in_time_order),
		cmocka_unit_test(test_file_shrinks),	   cmocka_unit_test(test_parts),
		cmocka_unit_test(test_many_large),	   cmocka_unit_test(test_not_opened),
		cmocka_unit_test(test_many_small),	   cmocka_unit_test(test_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
