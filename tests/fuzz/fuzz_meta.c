/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_meta.c: the meta file of a capture directory. The directory is made once per process; each
 * input replaces its meta.
 */
#include "fuzz_walk.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[64], path[80];
	int fd;

	snprintf(dir, sizeof(dir), "%s/kvmft-fuzz-dir.%d", fuzz_dir(), (int)getpid());
	if (mkdir(dir, 0700) < 0 && access(dir, W_OK))
		return 0;
	snprintf(path, sizeof(path), "%s/meta", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return 0;
	/* The magic line is given, so that no input is wasted on finding it. */
	if (full_write(fd, "kvmft-capture version=1\n", 24, NULL) == 0 &&
	    full_write(fd, data, size, NULL) == 0)
		fuzz_open_and_walk(dir, true);
	close(fd);
	unlink(path);
	rmdir(dir);
	return 0;
}
