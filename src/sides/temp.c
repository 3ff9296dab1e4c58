/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * temp.c: sessions that are not to be kept, in memory; their names identify their owner, as those
 * of instances do, so that what a killed kvmft left is found.
 */
#include "sides.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "kvmft/kernel.h"

/* The first one that exists; the second may offer little memory, the last is a disk. */
static const char *const places[] = { "/dev/shm", "/run", "/tmp" };

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int side_temp_name(char *path, size_t size, struct kvmft_err *err)
{
	struct kowner me;
	char name[64];
	int ret = kowner_self(&me);

	ret = ret ?: kowner_format(&me, '.', name, sizeof(name));
	if (ret)
		return err_why(err, ret, "cannot make a name for what is recorded");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (access(places[i], W_OK | X_OK))
			continue;
		snprintf(path, size, "%s/%s", places[i], name);
		return 0;
	}
	return err_lack(err, ENOENT, "none of /dev/shm, /run and /tmp is there to keep events in");
}

/* A session, or what is left of one: captures, and the file that says what they are. */
static int remove_session(int at, const char *name)
{
	_cleanup_close_ int fd = open_dir(at, name);
	_cleanup_close_ int again = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	struct dirent *e;

	if (!d)
		return -errno;
	again = -1;
	while ((e = readdir(d))) {
		struct capw_name n = { .dir = fd };

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    strlen(e->d_name) >= sizeof(n.temp))
			continue;
		strcpy(n.temp, e->d_name);
		if (unlinkat(fd, e->d_name, 0))
			capw_name_drop(&n);
	}
	closedir(d);
	return unlinkat(at, name, AT_REMOVEDIR) ? -errno : 0;
}

/* Whether it belongs to a process of this user that is gone. */
static bool is_left(int at, const char *name)
{
	struct kowner o;
	struct stat st;

	return !kowner_parse(name, '.', &o) && !kowner_alive(&o) &&
	       !fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

unsigned int sides_temp_sweep(bool dry_run, struct sbuf *text)
{
	unsigned int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int fd = open_dir(AT_FDCWD, places[i]);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *e;

		while (d && (e = readdir(d))) {
			int ret;

			if (!is_left(fd, e->d_name))
				continue;
			ret = dry_run ? 0 : remove_session(fd, e->d_name);
			sbuf_addf(text, "session %s/%s%s%s\n", places[i], e->d_name,
				  ret ? ": left, as something in it is no capture: " : "",
				  ret ? strerror(-ret) : "");
			n += !ret;
		}
		if (d)
			closedir(d);
		else
			util_close_fd(&fd);
	}
	return n;
}
