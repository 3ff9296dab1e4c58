/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_subbuf.c: the walk over one sub-buffer. Besides not crashing, every event must lie inside
 * the input and the walk must end within commit / 4 steps.
 */
#include "kvmft/ring.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct subbuf_geom g = { .header = 16, .long_size = 8 };
	struct subbuf sb;
	struct rec rec;
	size_t steps = 0;

	if (size < 32 || size > CAPTURE_MAX_SUBBUF)
		return 0;
	g.size = (uint32_t)size - 1;
	if (data[0] & 1) {
		g.header = 12;
		g.long_size = 4;
	}
	g.swap = g.big_endian = data[0] & 2;
	if (subbuf_begin(&sb, data + 1, &g))
		return 0;
	while (subbuf_next(&sb, &rec) > 0) {
		if (rec.data < data + 1 || rec.data + rec.len > data + size || ++steps > size / 4)
			abort();
	}
	return 0;
}
