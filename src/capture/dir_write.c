/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir_write.c: makes a capture directory.
 *
 * The layout stands above its reader (dir_read.c). Writing keeps two promises: meta only ever
 * grows by whole lines, and sub-buffers go to their files as they come, so that a reader needs no
 * repair whatever happened to the writer. Everything is opened relative to the directory's own
 * descriptor and created anew (O_EXCL, O_NOFOLLOW, 0600): nobody can put a link in our way.
 */
#include "kvmft/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CAPW_MAGIC     "kvmft-capture "
#define CAPW_MAX_DEPTH 4

struct capw {
	char *path;
	int dirfd, meta;
};

/* Splits PATH into parent and last step; both owned by the caller. */
static int path_split(const char *path, char **parent, char **base)
{
	size_t len = strlen(path);
	const char *slash;

	while (len > 1 && path[len - 1] == '/')
		len--;
	slash = memrchr(path, '/', len);
	*base = strndup(slash ? slash + 1 : path, slash ? len - (size_t)(slash + 1 - path) : len);
	if (!slash)
		*parent = strdup(".");
	else
		*parent = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!*parent || !*base)
		return -ENOMEM;
	if (!**base || !strcmp(*base, ".") || !strcmp(*base, ".."))
		return -EINVAL;
	return 0;
}

/*
 * The parent must be a real directory in which nobody else can swap our new directory for another:
 * not a symbolic link, and not writable for others unless sticky.
 */
static int parent_open(const char *parent, struct kvmft_err *err)
{
	struct stat st;
	int fd, e;

	fd = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		e = errno;
		if (lstat(parent, &st) == 0 && S_ISLNK(st.st_mode))
			return err_set(err, ELOOP, "%s is a symbolic link: name the real directory",
				       parent);
		return err_set(err, e, "cannot open directory %s: %s", parent, strerror(e));
	}
	if (fstat(fd, &st) < 0) {
		e = errno;
		close(fd);
		return err_set(err, e, "cannot look at %s: %s", parent, strerror(e));
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX) &&
	    ((st.st_mode & S_IWOTH) || st.st_gid != 0)) {
		close(fd);
		return err_set(err, EPERM,
			       "directory %s is writable for others and not sticky: they could replace "
			       "the capture; use another place or chmod go-w",
			       parent);
	}
	return fd;
}

static bool is_capture(int parent, const char *base)
{
	char head[sizeof(CAPW_MAGIC)] = "";
	_cleanup_close_ int dir = -1, fd = -1;

	dir = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return false;
	fd = openat(dir, "meta", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	return full_pread(fd, head, sizeof(head) - 1, 0) == (ssize_t)sizeof(head) - 1 &&
	       !strcmp(head, CAPW_MAGIC);
}

/* Removes a tree without ever following a link out of it. */
static int remove_tree(int parent, const char *base, unsigned int depth)
{
	struct dirent *d;
	int fd, ret = 0;
	DIR *dir;

	if (depth > CAPW_MAX_DEPTH)
		return -ELOOP;
	fd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		ret = -errno;
		close(fd);
		return ret;
	}
	while (!ret && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (unlinkat(fd, d->d_name, 0) == 0)
			continue;
		ret = errno == EISDIR || errno == EPERM ? remove_tree(fd, d->d_name, depth + 1)
							: -errno;
	}
	closedir(dir);
	if (!ret && unlinkat(parent, base, AT_REMOVEDIR) < 0)
		ret = -errno;
	return ret;
}

static int remove_capture(int parent, const char *base, struct kvmft_err *err)
{
	int ret;

	if (!is_capture(parent, base))
		return err_set(err, EEXIST,
			       "%s exists and is not a kvmft capture: it is not touched, choose "
			       "another name",
			       base);
	ret = remove_tree(parent, base, 0);
	if (ret)
		return err_set(err, -ret, "cannot remove the old capture %s: %s", base,
			       strerror(-ret));
	return 0;
}

/* kvmft.data → kvmft.data.old, as perf does, but only ever over captures. */
static int rotate_old(int parent, const char *base, struct kvmft_err *err)
{
	char old[NAME_MAX + 1];
	struct stat st;

	if ((size_t)snprintf(old, sizeof(old), "%s.old", base) >= sizeof(old))
		return err_set(err, ENAMETOOLONG, "%s: name too long", base);
	if (!is_capture(parent, base))
		return err_set(err, EEXIST,
			       "%s exists and is not a kvmft capture: it is not touched, use -o",
			       base);
	if (fstatat(parent, old, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		int ret = remove_capture(parent, old, err);

		if (ret)
			return ret;
	}
	if (renameat(parent, base, parent, old) < 0)
		return err_set(err, errno, "cannot rename %s to %s: %s", base, old, strerror(errno));
	return 0;
}

static int make_room(int parent, const char *base, const char *path, unsigned int flags,
		     struct kvmft_err *err)
{
	struct stat st;

	if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : err_set(err, errno, "%s: %s", path, strerror(errno));
	if (flags & CAPW_FORCE)
		return remove_capture(parent, base, err);
	if (flags & CAPW_ROTATE_OLD)
		return rotate_old(parent, base, err);
	return err_set(err, EEXIST, "output %s exists: choose another name or use --force", path);
}

static int open_new(struct capw *w, int parent, const char *base, struct kvmft_err *err)
{
	if (mkdirat(parent, base, 0700) < 0)
		return err_set(err, errno, "cannot make directory %s: %s", w->path, strerror(errno));
	w->dirfd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->dirfd < 0)
		return err_set(err, errno, "cannot open %s: %s", w->path, strerror(errno));
	/* The umask may have taken bits away that we need ourselves. */
	if (fchmod(w->dirfd, 0700) < 0)
		return err_set(err, errno, "cannot chmod %s: %s", w->path, strerror(errno));
	w->meta = file_create(w->dirfd, "meta");
	if (w->meta < 0)
		return err_set(err, -w->meta, "cannot create %s/meta: %s", w->path,
			       strerror(-w->meta));
	return 0;
}

int capw_create(const char *path, unsigned int flags, struct capw **out, struct kvmft_err *err)
{
	_cleanup_free_ char *parent = NULL, *base = NULL;
	_cleanup_close_ int pfd = -1;
	struct sbuf line = { 0 };
	struct capw *w;
	int ret;

	*out = NULL;
	ret = path_split(path, &parent, &base);
	if (ret)
		return err_set(err, -ret, "'%s' cannot be the name of a capture", path);
	pfd = parent_open(parent, err);
	if (pfd < 0)
		return pfd;
	ret = make_room(pfd, base, path, flags, err);
	if (ret)
		return ret;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, ENOMEM, "out of memory");
	w->dirfd = w->meta = -1;
	w->path = strdup(path);
	ret = w->path ? open_new(w, pfd, base, err) : err_set(err, ENOMEM, "out of memory");
	if (!ret) {
		meta_begin(&line, "kvmft-capture");
		meta_u64(&line, "version", CAPTURE_VERSION);
		ret = capw_meta(w, &line);
		if (ret)
			err_set(err, -ret, "cannot write %s/meta: %s", path, strerror(-ret));
	}
	sbuf_free(&line);
	if (ret) {
		capw_close(w);
		return ret;
	}
	*out = w;
	return 0;
}

int capw_meta(struct capw *w, struct sbuf *line)
{
	int ret;

	sbuf_addc(line, '\n');
	ret = line->error;
	if (!ret)
		ret = full_write(w->meta, line->s, line->len, NULL);
	sbuf_reset(line);
	return ret;
}

/* Opens the directory that holds name, making the ones on the way; *base is name's last step. */
static int open_parents(const struct capw *w, const char *name, const char **base)
{
	const char *slash;
	int fd = dup(w->dirfd);

	while (fd >= 0 && (slash = strchr(name, '/'))) {
		_cleanup_free_ char *step = strndup(name, (size_t)(slash - name));
		int next, e;

		if (!step || (mkdirat(fd, step, 0700) < 0 && errno != EEXIST)) {
			e = step ? errno : ENOMEM;
			close(fd);
			return -e;
		}
		next = openat(fd, step, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		e = errno;
		close(fd);
		if (next < 0)
			return -e;
		fd = next;
		name = slash + 1;
	}
	*base = name;
	return fd < 0 ? -errno : fd;
}

int capw_file(struct capw *w, const char *name, const void *data, size_t len)
{
	_cleanup_close_ int dir = -1, fd = -1;
	const char *base;

	dir = open_parents(w, name, &base);
	if (dir < 0)
		return dir;
	fd = file_create(dir, base);
	if (fd < 0)
		return fd;
	return full_write(fd, data, len, NULL);
}

int capw_data_open(struct capw *w, unsigned int segment, unsigned int cpu)
{
	_cleanup_close_ int dir = -1;
	const char *base;
	char name[64];

	snprintf(name, sizeof(name), "seg%06u/cpu%u", segment, cpu);
	dir = open_parents(w, name, &base);
	if (dir < 0)
		return dir;
	return file_create(dir, base);
}

int capw_dirfd(const struct capw *w)
{
	return w->dirfd;
}

const char *capw_path(const struct capw *w)
{
	return w->path;
}

void capw_close(struct capw *w)
{
	if (!w)
		return;
	if (w->meta >= 0)
		close(w->meta);
	if (w->dirfd >= 0)
		close(w->dirfd);
	free(w->path);
	free(w);
}
