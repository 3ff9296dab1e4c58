/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_subbuf.c: the walk over one sub-buffer, against the slow second decoder. Each input is tried
 * as it is and in PAGES_PER_RUN mutated copies: a run of libFuzzer costs more than a page.
 */
#include "lib/slow.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PAGE      4096
#define PAGES_PER_RUN 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct slow_page slow;
	struct subbuf_geom g = { .header = 16, .long_size = 8 };
	uint64_t seed = 1;
	uint8_t *page;

	if (size < 32 || size > MAX_PAGE)
		return 0;
	g.size = (uint32_t)size - 1;
	if (data[0] & 1) {
		g.header = 12;
		g.long_size = 4;
	}
	/* Of exactly that size, so that the sanitizer sees every byte too far. */
	page = malloc(g.size);
	if (!page)
		return 0;
	for (size_t i = 0; i < size; i++)
		seed = seed * 31 + data[i];
	memcpy(page, data + 1, g.size);
	for (unsigned int i = 0; i <= PAGES_PER_RUN; i++) {
		if (!slow_agrees(page, &g, &slow))
			abort();
		memcpy(page, data + 1, g.size);
		slow_mutate(page, g.size, &seed);
	}
	free(page);
	return 0;
}
