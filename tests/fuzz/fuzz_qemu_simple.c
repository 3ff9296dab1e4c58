/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_qemu_simple.c: files of the back end simple.
 */
#include "fuzz_qemu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_qemu(data, size, QTRACE_SIMPLE);
	return 0;
}
