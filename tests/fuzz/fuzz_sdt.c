/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_sdt.c: ELF files with SDT markers: the reader, and the plan of events for all of them.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "kvmft/sdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sdt_want want[] = {
		{ .name = NULL },
		{ .provider = "p*", .name = "?*", .as = { SDT_AS_STRING, SDT_AS_HEX } },
	};
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct sdt_file f;
	struct sdt_plan p = { 0 };

	if (fd < 0 || full_write(fd, data, size, NULL) || sdt_read(fd, "fuzz", &f, NULL))
		return 0;
	(void)!sdt_plan_add(&p, &f, 0, want, 2, 1000);
	sdt_plan_free(&p);
	sdt_free(&f);
	return 0;
}
