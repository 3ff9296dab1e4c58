/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * segment.c: the folders segNNNNNN of a capture being written, and what becomes of old ones.
 */
#include "kvmft/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Unlinks the data files; what is not one of them was not made by us and stays. */
static int unlink_data(int fd, uint64_t *freed)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	struct stat st;
	int ret = 0;

	if (!dir) {
		ret = -errno;
		close(fd);
		return ret;
	}
	while ((e = readdir(dir))) {
		if (strncmp(e->d_name, "cpu", 3) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!unlinkat(dirfd(dir), e->d_name, 0))
			*freed += (uint64_t)st.st_size;
		else if (!ret)
			ret = -errno;
	}
	closedir(dir);
	return ret;
}

int capw_segment_remove(struct capw *w, unsigned int segment, uint64_t *freed)
{
	char name[32];
	int fd, ret;

	*freed = 0;
	snprintf(name, sizeof(name), "seg%06u", segment);
	fd = openat(capw_dirfd(w), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	ret = unlink_data(fd, freed);
	if (!ret && unlinkat(capw_dirfd(w), name, AT_REMOVEDIR))
		ret = -errno;
	return ret;
}
