/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files.c: opening files of a capture directory that somebody else may have prepared.
 *
 * Every step is opened relative to its parent and never through a symbolic link; O_NONBLOCK keeps
 * a FIFO from hanging the reader, and only regular files are read. A tar archive may be in the
 * place of the directory.
 */
#include "reader.h"

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

int cap_part_open(const struct cap_dir *dir, const char *path, struct cap_part *file)
{
	int ret;

	*file = (struct cap_part){ .fd = -1 };
	if (!dir->tar) {
		file->fd = cap_open_file(dir->fd, path, &file->size);
		return MIN(file->fd, 0);
	}
	ret = cap_tar_file(dir->tar, path, file);
	if (!ret && !file->mem)
		file->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	return ret ?: file->fd < 0 && !file->mem ? -errno : 0;
}

ssize_t cap_part_read(const struct cap_part *file, void *buf, size_t n, uint64_t off)
{
	if (!file->mem)
		return full_pread(file->fd, buf, n, file->at + off);
	n = (size_t)MIN((uint64_t)n, file->size - MIN(off, file->size));
	memcpy(buf, file->mem + file->at + off, n);
	return (ssize_t)n;
}

int cap_dir_list(const struct cap_dir *dir, const char *path, cap_name_fn *each, void *arg)
{
	struct dirent *de;
	DIR *d;
	int fd, ret = 0;

	if (dir->tar)
		return cap_tar_list(dir->tar, path, each, arg);
	fd = path_open(dir->fd, *path ? path : ".", O_DIRECTORY);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		ret = fd < 0 ? fd : -errno;
		util_close_fd(&fd);
		return ret;
	}
	while (!ret && (errno = 0, de = readdir(d)))
		ret = each(arg, de->d_name);
	ret = ret ?: -errno;
	closedir(d);
	return ret;
}

int cap_open_above(const char *path, const char **sub)
{
	/* O_NONBLOCK: a FIFO must not hang the reader; the path itself may be a link. */
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *above = NULL;
	const bool input = str_starts(path, CAP_STDIN);
	int fd = input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, flags);

	*sub = input ? slash + 1 : "";
	if (fd >= 0 || errno != ENOTDIR || !slash)
		return fd < 0 ? -errno : fd;
	above = strndup(path, (size_t)(slash - path));
	*sub = slash + 1;
	fd = above ? open(above, flags) : -1;
	return !above ? -ENOMEM : fd < 0 ? -errno : fd;
}

int cap_dir_open(const char *path, struct cap_dir *dir, struct kvmft_err *err)
{
	const char *sub;
	_cleanup_close_ int fd = cap_open_above(path, &sub);
	struct stat st;

	*dir = (struct cap_dir){ .fd = -1 };
	if (fd < 0 || fstat(fd, &st))
		return -ENOMSG;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) ? cap_dir_of_tar(fd, sub, dir, err) : -ENOMSG;
	dir->fd = fd;
	fd = -1;
	return 0;
}

void cap_dir_close(struct cap_dir *dir)
{
	if (!dir->tar)
		util_close_fd(&dir->fd);
	cap_tar_free(dir->tar);
	*dir = (struct cap_dir){ .fd = -1 };
}

static ssize_t read_text(const struct cap_part *file, uint64_t at, size_t len, char **out)
{
	char *text = malloc(len + 1);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = cap_part_read(file, text, len, at);
	if (n < 0) {
		free(text);
		return n;
	}
	text[n] = '\0';
	*out = text;
	return n;
}

ssize_t cap_read_file(const struct cap_dir *dir, const char *path, size_t max, char **out,
		      bool *more)
{
	struct cap_part file;
	ssize_t n = cap_part_open(dir, path, &file);

	*more = !n && file.size > max;
	n = n ?: read_text(&file, 0, (size_t)MIN(file.size, (uint64_t)max), out);
	util_close_fd(&file.fd);
	return n;
}

ssize_t cap_read_part(const struct cap_dir *dir, const char *path, struct cap_part *file,
		      uint64_t at, size_t len, char **out)
{
	int ret = file->fd < 0 && !file->mem ? cap_part_open(dir, path, file) : 0;

	if (ret)
		return ret;
	if (at > file->size || len > file->size - at)
		return -ENODATA;
	return read_text(file, at, len, out);
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
