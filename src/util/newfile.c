/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * newfile.c: files that get their name when they are complete: if the writer fails or is killed,
 * the file that had the name before is still there, and nothing else is. Until then they have no
 * name, or a temporary one where the file system cannot do that.
 */
#include "kvmft/util.h"

#include <limits.h>
#include <linux/fs.h>
#include <sys/syscall.h>

#define TEMP_FORMAT ".kvmft.%ld.%d.tmp"
#define TEMP_NAMES 100 /* attempts: some of the names may be taken */
#define DEPTH_MAX  256 /* directories above a file; more means that the file system changes
		        * meanwhile */

static bool newfile_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is dir, or a directory above it, the one described by st? */
static bool is_below(int dir, const struct stat *st)
{
	_cleanup_close_ int fd = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat at, above;

	for (int i = 0; i < DEPTH_MAX && fd >= 0 && !fstat(fd, &at); i++) {
		int up;

		if (newfile_is_same(&at, st))
			return true;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		util_close_fd(&fd);
		fd = up;
		if (fd < 0 || fstat(fd, &above) || newfile_is_same(&at, &above))
			break;
	}
	return false;
}

bool file_is_part(int dir, const char *base, const char *path)
{
	struct stat whole, st;

	if (stat(path, &whole))
		return false;
	if (S_ISDIR(whole.st_mode) && is_below(dir, &whole))
		return true;
	return !fstatat(dir, base, &st, 0) && newfile_is_same(&st, &whole);
}

int newfile_check(int dir, const char *base, bool replace)
{
	struct stat st;

	if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* /dev/null is for writing to, not for replacing; neither is a link such as /dev/stdout. */
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return replace ? 0 : -EEXIST;
}

static int create_new(int dir, const char *name, mode_t mode)
{
	int fd = openat(dir, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_RDWR, mode), err;

	if (fd < 0)
		return -errno;
	/* A umask of 0277 would leave a file nobody can read. */
	if (mode != 0600 || !fchmod(fd, mode))
		return fd;
	err = -errno;
	close(fd);
	unlinkat(dir, name, 0);
	return err;
}

int file_create(int dirfd, const char *name)
{
	return create_new(dirfd, name, 0600);
}

static int link_as(const struct newfile *f, const char *name)
{
	return linkat(AT_FDCWD, TEXTF("/proc/self/fd/%d", f->fd), f->dir, name, AT_SYMLINK_FOLLOW) <
			       0
		       ? -errno
		       : 0;
}

/* By its path in /proc a file without a name can be given one. */
static int create_nameless(int dir, mode_t mode)
{
	int fd = openat(dir, ".", O_TMPFILE | O_CLOEXEC | O_RDWR, mode);

	if (fd < 0)
		return -errno;
	if (!access(TEXTF("/proc/self/fd/%d", fd), F_OK) && (mode != 0600 || !fchmod(fd, mode)))
		return fd;
	close(fd);
	return -ENOSYS;
}

int newfile_open(struct newfile *f, int dir, mode_t mode)
{
	*f = (struct newfile){ .dir = dir, .fd = create_nameless(dir, mode) };
	return f->fd < 0 ? newfile_open_named(f, dir, mode) : 0;
}

int newfile_open_named(struct newfile *f, int dir, mode_t mode)
{
	*f = (struct newfile){ .dir = dir, .fd = -EEXIST };
	for (int i = 0; i < TEMP_NAMES && f->fd == -EEXIST; i++) {
		snprintf(f->temp, sizeof(f->temp), TEMP_FORMAT, (long)getpid(), i);
		f->fd = create_new(dir, f->temp, mode);
	}
	if (f->fd < 0)
		f->temp[0] = '\0';
	return MIN(f->fd, 0);
}

int file_rename_new(int dir, const char *from, const char *to)
{
	if (!syscall(SYS_renameat2, dir, from, dir, to, RENAME_NOREPLACE))
		return 0;
	return errno == EINVAL ? -ENOSYS : -errno;
}

int newfile_commit(struct newfile *f, const char *base, unsigned int flags)
{
	bool replace = flags & NEWFILE_REPLACE;
	struct stat ours, named;
	int ret = newfile_check(f->dir, base, replace);

	/* The old file is lost for good: not before the new one is safe. */
	if (!ret && (flags & NEWFILE_SYNC) && fsync(f->fd))
		ret = -errno;
	if (!ret && !f->temp[0]) {
		ret = link_as(f, base);
		if (ret != -EEXIST || !replace)
			return ret;
		/* Only a file with a name can replace another one. */
		ret = -EEXIST;
		for (int i = 0; i < TEMP_NAMES && ret == -EEXIST; i++) {
			snprintf(f->temp, sizeof(f->temp), TEMP_FORMAT, (long)getpid(), i);
			ret = link_as(f, f->temp);
		}
		if (ret)
			f->temp[0] = '\0';
	}
	if (ret)
		return ret;
	/* If others may write there, the name could have become theirs. */
	if (fstat(f->fd, &ours) || fstatat(f->dir, f->temp, &named, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!newfile_is_same(&ours, &named))
		return -ESTALE;
	if (!replace) {
		/* The file under this name, unless there is one. */
		ret = file_rename_new(f->dir, f->temp, base);
		if (ret == -ENOSYS)
			ret = linkat(f->dir, f->temp, f->dir, base, 0) < 0 ||
					      unlinkat(f->dir, f->temp, 0) < 0
				      ? -errno
				      : 0;
	} else if (renameat(f->dir, f->temp, f->dir, base)) {
		ret = -errno;
	}
	if (!ret)
		f->temp[0] = '\0';
	return ret;
}

void newfile_close(struct newfile *f)
{
	if (f->temp[0])
		(void)unlinkat(f->dir, f->temp, 0);
	f->temp[0] = '\0';
	util_close_fd(&f->fd);
}
