/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two sub-buffers become one that says the same; whatever does not fit leaves the first as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "kvmft/ring.h"

#define SIZE 256

static int keep(void *to, const void *buf)
{
	memcpy(to, buf, SIZE);
	return 0;
}

/* n events of 8 bytes, a tick apart, the first at ts. */
static void page(uint8_t *to, uint64_t ts, unsigned int n, bool lost)
{
	const struct subbuf_geom g = subbuf_geom_here(SIZE);
	struct subbuf_writer w;

	assert_int_equal(subbuf_writer_init(&w, &g, keep, to), 0);
	if (lost)
		assert_int_equal(subbuf_write_lost(&w, 3), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(subbuf_write(&w, ts + i, (const uint32_t[]){ 7, i }, 8), 0);
	assert_int_equal(subbuf_write_end(&w), 0);
	assert_int_equal(w.emitted, 1);
	subbuf_writer_free(&w);
}

static unsigned int stamps(const uint8_t *p, uint64_t *ts)
{
	const struct subbuf_geom g = subbuf_geom_here(SIZE);
	struct subbuf sb;
	struct rec rec;
	unsigned int n = 0;
	int ret;

	assert_int_equal(subbuf_begin(&sb, p, &g), 0);
	while ((ret = subbuf_next(&sb, &rec)) > 0)
		ts[n++] = rec.ts;
	assert_int_equal(ret, 0);
	return n;
}

static void test_join(void **state __unused_arg)
{
	/* at once, later, too far for the delta of an event, too far for a time extend */
	static const uint64_t later[] = { 0, 5, 1ull << 40, 1ull << 60 };
	const struct subbuf_geom g = subbuf_geom_here(SIZE);

	for (size_t k = 0; k < ARRAY_SIZE(later); k++) {
		uint8_t a[SIZE], b[SIZE], before[SIZE];
		uint64_t ts[32] = { 0 };
		int ret;

		page(a, 1000, 3, false);
		page(b, 1002 + later[k], 4, false);
		memcpy(before, a, SIZE);
		ret = subbuf_join(a, b, &g);
		if (later[k] == 1ull << 60) {
			assert_int_equal(ret, -ENOSPC);
			assert_memory_equal(a, before, SIZE);
			continue;
		}
		assert_true(ret > 0);
		assert_int_equal(stamps(a, ts), 7);
		assert_int_equal(ts[2], 1002);
		assert_int_equal(ts[3], 1002 + later[k]);
		assert_int_equal(ts[6], 1005 + later[k]);
	}
}

static void test_refused(void **state __unused_arg)
{
	const struct subbuf_geom g = subbuf_geom_here(SIZE);
	uint8_t a[SIZE], b[SIZE], before[SIZE];

	for (int k = 0; k < 4; k++) {
		page(a, 1000, k == 0 ? 15 : 3, k == 3);
		page(b, k == 1 ? 999 : 2000, 5, k == 2);
		memcpy(before, a, SIZE);
		assert_int_equal(subbuf_join(a, b, &g), -ENOSPC); /* full, backwards, lost before b, counted in a */
		assert_memory_equal(a, before, SIZE);
	}
	memset(b + 8, 0x3f, 4); /* a length beyond its end */
	assert_int_equal(subbuf_join(a, b, &g), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
