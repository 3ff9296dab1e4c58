/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_perfdata.c: a whole perf.data, opened, walked event by event, and read here and there. Not its formats, which
 * are those of a trace.dat and would take most of the time.
 */
#include "fuzz_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct capture *c, const struct cap_stream *s)
{
	struct rstream r;
	uint8_t part[64];

	if (rstream_open(&r, c, s))
		return;
	while (rstream_next(&r) != R_END)
		;
	if (s->nsub && rstream_seek(&r, r.rec.ts / 2) == 0)
		(void)!rstream_next(&r);
	for (uint64_t i = 0; i < 8 && s->nsub; i++)
		(void)!capture_read_part(c, s, i * 7 % s->nsub, (uint32_t)i * 100, part, sizeof(part), NULL);
	rstream_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvmft_err err = { .text = "" };
	struct capture *c = NULL;
	char path[64];

	if (fuzz_file(data, size, path, sizeof(path)))
		return 0;
	if (capture_open(path, &c, &err) == 0)
		for (size_t i = 0; i < c->nstream; i++)
			walk(c, &c->stream[i]);
	capture_close(c);
	unlink(path);
	return 0;
}
