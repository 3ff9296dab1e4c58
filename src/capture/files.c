/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files.c: opening files of a capture directory that somebody else may have prepared.
 *
 * Every step is opened relative to its parent and never through a symbolic link; O_NONBLOCK keeps
 * a FIFO from hanging the reader, and only regular files are read. A tar archive may be in the
 * place of the directory.
 */
#include "reader.h"
#include <limits.h>

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
	struct stat st = { 0 };
	int fd = path_open(dirfd, path, 0);
	int err = fd < 0 ? fd : fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;

	if (err)
		util_close_fd(&fd);
	*size = (uint64_t)st.st_size;
	return err ?: fd;
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
	above = xstrndup(path, (size_t)(slash - path));
	*sub = slash + 1;
	fd = open(above, flags);
	return fd < 0 ? -errno : fd;
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
	ssize_t n;

	*out = xmalloc(len + 1);
	n = cap_part_read(file, *out, len, at);
	(*out)[MAX(n, (ssize_t)0)] = '\0';
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

/*
 * ---- sub-buffers by number, whatever files they are in ----
 *
 * Data files of a capture directory are opened when they are read. A caller may keep the last one
 * open between reads; the number of CPUs and segments is not limited by that of descriptors.
 */

/* The extent that holds sub-buffer idx, whose offset inside it goes to *off; NULL past the end. */
static const struct cap_extent *extent_of(const struct capture *c, const struct cap_stream *s,
					  uint64_t idx, uint64_t *off)
{
	const struct cap_extent *e;

	if (idx >= s->nsub)
		return NULL;
	e = &s->ext[COUNT_BEFORE(i, s->next, s->ext[i].first <= idx) - 1];
	*off = (idx - e->first) * c->subbuf_size;
	return e;
}

void capture_skip_text(const struct capture *c, bool skip)
{
	cap_priv(c)->skip_text = skip;
}

static int read_exact(int fd, void *buf, size_t len, uint64_t off)
{
	ssize_t n = full_pread(fd, buf, len, off);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EIO; /* the file shrank while we read */
}

/*
 * Reads exactly len bytes at off inside an extent; -EBADMSG: they were compressed, and are damaged.
 */
static int read_extent(const struct capture *c, const struct cap_stream *s,
		       const struct cap_extent *e, uint64_t off, void *buf, size_t len,
		       struct cap_file *file)
{
	struct cap_file own = { -1, 0 };
	uint64_t size;
	char name[64];
	int ret;

	if (cap_priv(c)->maker.make) {
		const struct cap_maker *m = &cap_priv(c)->maker;
		const uint8_t *made;
		size_t n;

		/* Sub-buffers that are made. */
		ret = 0;
		for (; len && !ret; off += n, buf += n, len -= n) {
			size_t in = off % c->subbuf_size;

			n = MIN(len, c->subbuf_size - in);
			ret = m->make(m->arg, e->off, off / c->subbuf_size, &made);
			if (!ret)
				memcpy(buf, made + in, n);
		}
		return ret;
	}
	if (e->packed)
		return cap_unpack_at(&cap_priv(c)->unpacker, cap_priv(c)->packing, e, off, buf,
				     len);
	if (e->fd >= 0)
		return read_exact(e->fd, buf, len, e->off + off);
	file = file ?: &own;
	if (file->fd < 0 || file->segment != e->segment) {
		capture_file_close(file);
		cap_data_name(name, sizeof(name), e->segment, s->cpu);
		file->fd = cap_open_file(cap_priv(c)->dir.fd, name, &size);
		file->segment = e->segment;
	}
	ret = file->fd < 0 ? file->fd : read_exact(file->fd, buf, len, e->off + off);
	capture_file_close(&own);
	return ret;
}

void capture_file_close(struct cap_file *file)
{
	util_close_fd(&file->fd);
	file->fd = -1;
}

ssize_t capture_read_subbufs(const struct capture *c, const struct cap_stream *s, uint64_t idx,
			     uint64_t n, void *buf, struct cap_file *file)
{
	uint64_t off = 0;
	int ret;
	const struct cap_extent *e = extent_of(c, s, idx, &off);

	if (!e || !n)
		return 0;
	n = MIN(n, (e->len - off) / c->subbuf_size);
	n = MIN(n, (uint64_t)(SSIZE_MAX / CAPTURE_MAX_SUBBUF));
	ret = read_extent(c, s, e, off, buf, (size_t)(n * c->subbuf_size), file);
	if (ret == -EBADMSG) { /* not valid sub-buffers: counted as damage by their reader */
		memset(buf, 0xff, (size_t)(n * c->subbuf_size));
		ret = 0;
	}
	return ret ?: (ssize_t)n;
}

int capture_read_part(const struct capture *c, const struct cap_stream *s, uint64_t idx,
		      uint32_t at, void *buf, size_t n, struct cap_file *file)
{
	uint64_t off = 0;
	const struct cap_extent *e = extent_of(c, s, idx, &off);

	if (!e)
		return -ENODATA;
	if (at > c->subbuf_size || n > c->subbuf_size - at)
		return -EINVAL;
	if (!n)
		return 0;
	return read_extent(c, s, e, off + at, buf, n, file);
}
