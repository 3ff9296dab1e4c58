/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_tracedat.c: a whole trace.dat, opened and walked event by event, formats included.
 */
#include "fuzz_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];

	if (fuzz_file(data, size, path, sizeof(path)))
		return 0;
	fuzz_open_and_walk(path);
	unlink(path);
	return 0;
}
