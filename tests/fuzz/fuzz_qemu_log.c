/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_qemu_log.c: lines of the back ends log and syslog.
 */
#include "fuzz_qemu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_qemu(data, size, QTRACE_LOG);
	fuzz_qemu(data, size, QTRACE_SYSLOG);
	return 0;
}
