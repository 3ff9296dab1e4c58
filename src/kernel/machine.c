/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machine.c: which machine is this. The UUID in DMI is the one that a host gives its guest, so
 * it ties a capture made inside a guest to the VM that a host capture knows.
 */
#include "priv.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define UUID_LEN 36

static bool uuid_ok(const char *s)
{
	if (strlen(s) != UUID_LEN)
		return false;
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
			return false;
	}
	return true;
}

int kernel_machine_uuid(char *buf, size_t size)
{
	char line[64];
	int err;

	err = file_read_line(AT_FDCWD, "/sys/class/dmi/id/product_uuid", line, sizeof(line));
	if (err)
		return err;
	if (!uuid_ok(line))
		return -EINVAL;
	if (size <= UUID_LEN)
		return -ENAMETOOLONG;
	for (size_t i = 0; i <= UUID_LEN; i++)
		buf[i] = (char)tolower((unsigned char)line[i]);
	return 0;
}
