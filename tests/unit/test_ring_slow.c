/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_slow.c: the walk over sub-buffers against the slow second decoder (tests/lib/slow.h):
 * on what the encoder makes, and on the same after random damage. KVMFT_PAGES sets how many.
 */
#include "lib/enc.h"
#include "lib/slow.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 1024

/* A page of all kinds of entries, by random numbers. */
static void random_page(const struct subbuf_geom *g, uint8_t *page, uint64_t *seed)
{
	uint64_t ts = *seed >> 8;
	struct encpage p;
	uint8_t rec[300];

	enc_page_begin(&p, g, page, ts);
	for (bool room = true; room; ) {
		uint32_t r, len;

		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		r = (uint32_t)(*seed >> 33);
		len = 16 + (r >> 8) % 200;
		ts += 1 + (r % 5 ? r % 100000 : (uint64_t)r << 20);
		enc_record(rec, (uint16_t)r, (int32_t)(r >> 3), r, len);
		switch (r % 11) {
		case 0: room = enc_discard(&p, ts = p.ts + 1 + r % 999, len & ~3u); break;
		case 1: room = enc_stamp(&p, ts); break;
		case 2: room = enc_event_long(&p, ts, rec, len); break;
		case 3: room = r % 7 || !enc_padding(&p); break;
		default: room = enc_event(&p, ts, rec, len);
		}
	}
	if (*seed >> 61 == 1)
		enc_lost(&p, *seed >> 60 & 1 && g->size - g->header - p.pos >= g->long_size, *seed >> 40);
	enc_page_end(&p);
}

static void test_agree(void **state __unused_arg)
{
	const char *env = getenv("KVMFT_PAGES");
	uint64_t pages = env ? strtoull(env, NULL, 0) : 400000, seed = 42, events = 0, refused = 0;
	struct slow_page *slow = malloc(sizeof(*slow));
	uint8_t good[4][SIZE], page[SIZE];

	assert_non_null(slow);
	for (uint64_t i = 0; i < pages; i++) {
		struct subbuf_geom g = enc_geom(SIZE, i & 1 ? 4 : 8);

		if (i % 64 < 4) { /* a fresh one of each geometry, and many damaged copies */
			random_page(&g, good[i % 4], &seed);
			assert_true(slow_agrees(good[i % 4], &g, slow));
			assert_false(slow->refused || slow->broken);
		}
		memcpy(page, good[i % 4], SIZE);
		slow_mutate(page, SIZE, &seed);
		if (!slow_agrees(page, &g, slow)) {
			print_error("page %llu: the decoders differ\n", (unsigned long long)i);
			fail();
		}
		events += slow->n;
		refused += slow->refused;
	}
	print_message("[     INFO ] %llu damaged pages, %llu events in them, %llu refused\n",
		      (unsigned long long)pages, (unsigned long long)events,
		      (unsigned long long)refused);
	assert_true(events > pages && refused > pages / 1000 && refused < pages);
	free(slow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
