/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files.c: opening files of a capture directory that somebody else may have prepared.
 *
 * Every step is opened relative to its parent and never through a symbolic link; O_NONBLOCK keeps
 * a FIFO from hanging the reader, and only regular files are read.
 */
#include "reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#define STEP_MAX 256

static int step_open(int fd, const char *name, int flags)
{
	int ret = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags);

	return ret < 0 ? -errno : ret;
}

int cap_parent(int dirfd, const char *path, bool make, const char **last)
{
	int fd = dirfd, next;
	const char *slash;
	char step[STEP_MAX];

	while (fd >= 0 && (slash = strchr(path, '/'))) {
		size_t n = (size_t)(slash - path);

		if (n >= sizeof(step)) {
			next = -ENAMETOOLONG;
		} else {
			memcpy(step, path, n);
			step[n] = '\0';
			next = step_open(fd, step, O_DIRECTORY);
			/* It may exist now: another thread's. */
			if (make && next == -ENOENT)
				next = !mkdirat(fd, step, 0700) || errno == EEXIST
					       ? step_open(fd, step, O_DIRECTORY)
					       : -errno;
		}
		if (fd != dirfd)
			close(fd);
		fd = next;
		path = slash + 1;
	}
	*last = path;
	return fd;
}

static int path_open(int dirfd, const char *path, int flags)
{
	const char *last;
	int parent = cap_parent(dirfd, path, false, &last), fd;

	if (parent < 0)
		return parent;
	fd = step_open(parent, last, flags);
	if (parent != dirfd)
		close(parent);
	return fd;
}

int cap_open_dir(int dirfd, const char *path)
{
	return path_open(dirfd, path, O_DIRECTORY);
}

int cap_open_file(int dirfd, const char *path, uint64_t *size)
{
	struct stat st;
	int fd, err;

	fd = path_open(dirfd, path, 0);
	if (fd < 0)
		return fd;
	err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
	if (err) {
		close(fd);
		return err;
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

static ssize_t read_text(int fd, uint64_t at, size_t len, char **out)
{
	char *text = malloc(len + 1);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = full_pread(fd, text, len, at);
	if (n < 0) {
		free(text);
		return n;
	}
	text[n] = '\0';
	*out = text;
	return n;
}

ssize_t cap_read_file(int dirfd, const char *path, size_t max, char **out, bool *more)
{
	_cleanup_close_ int fd = -1;
	uint64_t size = 0;

	*more = false;
	fd = cap_open_file(dirfd, path, &size);
	if (fd < 0)
		return fd;
	*more = size > max;
	if (size > max)
		size = max;
	return read_text(fd, 0, (size_t)size, out);
}

ssize_t cap_read_part(int dirfd, const char *path, struct cap_part *file, uint64_t at, size_t len,
		      char **out)
{
	if (file->fd < 0) {
		file->fd = cap_open_file(dirfd, path, &file->size);
		if (file->fd < 0)
			return file->fd;
	}
	if (at > file->size || len > file->size - at)
		return -ENODATA;
	return read_text(file->fd, at, len, out);
}

void cap_data_name(char *buf, size_t size, uint32_t segment, uint32_t cpu)
{
	snprintf(buf, size, "seg%06u/cpu%u", segment, cpu);
}

bool cap_name_ok(const char *name)
{
	const char *p;

	if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) >= STEP_MAX)
		return false;
	for (p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/')
			return false;
	return true;
}
