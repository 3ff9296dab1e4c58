/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_tracedat.c: a whole trace.dat, opened and walked event by event, formats included. Of one
 * input in 32 the fields are printed: fuzz_format.c does that alone.
 */
#include "fuzz_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t which = 0;
	char path[64];

	if (fuzz_file(data, size, path, sizeof(path)))
		return 0;
	for (size_t i = 0; i < size; i++)
		which = (uint8_t)(which * 31 + data[i]);
	fuzz_open_and_walk(path, which % 32 == 0);
	unlink(path);
	return 0;
}
