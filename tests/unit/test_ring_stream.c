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
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
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
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	uint8_t *pages = fx_pages(&g, 100, 20, 1000, 10, 7);
	char *dir = enc_tmpdir();
	uint64_t events = 0, gaps = 0, bad = 0;
	struct rstream r;
	struct capture *c;
	enum rkind kind;

	/* 3: counted loss, 5: uncounted loss, 70: broken in the middle, 80: broken header */
	enc_put(pages + 3 * FX_SUB + 8, 3u << 30 | 20 * 28, 8);
	enc_put(pages + 3 * FX_SUB + 16 + 20 * 28, 123, 8);
	enc_put(pages + 5 * FX_SUB + 8, 1u << 31 | 20 * 28, 8);
	enc_put(pages + 70 * FX_SUB + 16 + 10 * 28, 0, 8);
	enc_put(pages + 80 * FX_SUB + 8, 0xffff, 8);
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
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
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
	enc_put(pages + 95 * FX_SUB, 5, 8); /* one of those that are looked at */
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
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
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
	assert_int_equal(n, CPUS * 120 - 60 + CPUS); /* older segments are gone: a gap before each */
	rmerge_free(m);
	for (i = 0; i < CPUS; i++)
		rstream_close(&r[i]);
	capture_close(c);
	enc_rmtree(dir);
}

/* A data file that shrinks under the reader is an error, not an end. */
static void test_file_shrinks(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
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

/* The buffers of many CPUs have no more than 4 MiB together, but at least a sub-buffer each. */
static void test_many_large(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(1u << 16, 8);
	uint8_t *pages = fx_pages(&g, 20, 200, 1000, 10, 7);
	char *dir = enc_tmpdir();
	struct capture *c = one_cpu(dir, pages, 20, &g);
	struct rstream r;

	assert_non_null(c);
	for (size_t n = 1; n <= 4096; n *= 2) {
		c->nstream = n;
		assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
		assert_int_equal(r.batch, MAX(8 / n, (size_t)1));
		for (uint64_t k = 0; k < 20 * 200; k++) {
			assert_int_equal(rstream_next(&r), R_EVENT);
			assert_int_equal(r.rec.ts, 1000 + 10 * k);
			assert_int_equal(load_u64(r.rec.data + 8), k);
		}
		assert_int_equal(rstream_next(&r), R_END);
		rstream_close(&r);
	}
	c->nstream = 1;
	capture_close(c);
	free(pages);
	enc_rmtree(dir);
}

/* A stream that cannot be opened leaves nothing behind: no memory (the sanitizer looks), no descriptor. */
static void test_not_opened(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),	   cmocka_unit_test(test_gap_and_damage),
		cmocka_unit_test(test_seek),		   cmocka_unit_test(test_cpus_in_time_order),
		cmocka_unit_test(test_file_shrinks),	   cmocka_unit_test(test_many_large),
		cmocka_unit_test(test_not_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
