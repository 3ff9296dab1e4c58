/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * name.c: how a capture gets its name, and what becomes of the previous one.
 *
 * It is made as .NAME.PID.new and takes its name when it records, so that a recorder that cannot
 * start leaves everything as it was. A capture that it replaces is removed only when the new one is
 * complete; of kvmft.data and kvmft.data.old the last complete one always stays.
 */
#include "reader.h"

#include <fcntl.h>
#include <sys/file.h>

#define ASIDE_NAMES 99

static bool exists(int dir, const char *name)
{
	return !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int capw_name_add(char *to, struct kvmft_err *err, const char *name, const char *suffix)
{
	if (snprintf(to, CAPW_NAME_SIZE, "%s%s", name, suffix) < CAPW_NAME_SIZE)
		return 0;
	return err_set(err, ENAMETOOLONG, "%s: name too long", name);
}

static int check_capture(const struct capw_name *n, const char *name, const char *remedy,
			 struct kvmft_err *err)
{
	if (!exists(n->dir, name) || cap_is_capture(n->dir, name))
		return 0;
	return err_set(err, EEXIST, "%s exists and is not a kvmft capture: it is not touched, %s",
		       name, remedy);
}

/*
 * Holds an old capture, until the descriptor is closed: who records it, or replaces it, does so,
 * too. -EBUSY with err set; -1: there is none, or it cannot be held.
 */
static int old_hold(const struct capw_name *n, const char *name, struct kvmft_err *err)
{
	int fd = openat(n->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return MAX(fd, -1);
	close(fd);
	return err_set(err, EBUSY,
		       "%s%s is being recorded by another kvmft: end that first, or choose "
		       "another name",
		       n->shown, name);
}

static int check_held(const struct capw_name *n, const char *name, struct kvmft_err *err)
{
	_cleanup_close_ int fd = old_hold(n, name, err);

	return fd < -1 ? fd : 0;
}

static int check_old(const struct capw_name *n, struct kvmft_err *err)
{
	char other[CAPW_NAME_SIZE];
	int ret;

	switch (n->old) {
	case CAPW_REFUSE:
		if (!exists(n->dir, n->name))
			return 0;
		return err_set(err, EEXIST,
			       "output %s%s exists: choose another name or use --force", n->shown,
			       n->name);
	case CAPW_ROTATE:
		ret = check_capture(n, n->name, "use -o", err);
		ret = ret ?: capw_name_add(other, err, n->name, ".old");
		ret = ret ?: check_capture(n, other, "choose another name", err);
		return ret ?: check_held(n, other, err);
	default:
		ret = check_capture(n, n->name, "choose another name", err);
		return ret ?: check_held(n, n->name, err);
	}
}

int capw_name_init(struct capw_name *n, int dir, const char *shown, const char *name,
		   enum capw_old old, struct kvmft_err *err)
{
	char pid[32];
	int ret;

	*n = (struct capw_name){ .dir = dir, .shown = shown, .old = old };
	snprintf(pid, sizeof(pid), ".%ld.new", (long)getpid());
	ret = capw_name_add(n->name, err, name, "");
	ret = ret ?: capw_name_add(n->temp, err, ".", name);
	if (!ret && strlen(n->temp) + strlen(pid) >= sizeof(n->temp))
		ret = err_set(err, ENAMETOOLONG, "%s: name too long", name);
	if (!ret)
		strcat(n->temp, pid);
	return ret ?: check_old(n, err);
}

/* A name that must be free: whatever came there meanwhile is not replaced. */
static int name_take_free(const struct capw_name *n, struct kvmft_err *err)
{
	int ret = file_rename_new(n->dir, n->temp, n->name);

	/* Over an empty directory at most. */
	if (ret == -ENOSYS && !exists(n->dir, n->name))
		ret = renameat(n->dir, n->temp, n->dir, n->name) ? -errno : 0;
	return err_why(err, ret, "cannot give the capture its name %s%s", n->shown, n->name);
}

static int capw_name_move(const struct capw_name *n, const char *to, struct kvmft_err *err)
{
	if (!renameat(n->dir, n->name, n->dir, to))
		return 0;
	return err_why(err, errno, "cannot rename %s to %s", n->name, to);
}

/*
 * To NAME.old, as perf does; but if it was cut short, and NAME.old was not, to NAME.cut: there may
 * be no other complete one.
 */
static int take_rotated(const struct capw_name *n, struct kvmft_err *err)
{
	char to[CAPW_NAME_SIZE];
	int ret = capw_name_add(to, err, n->name, ".old");

	if (!ret && !cap_is_complete(n->dir, n->name) && cap_is_complete(n->dir, to))
		ret = capw_name_add(to, err, n->name, ".cut");
	if (!ret && exists(n->dir, to))
		ret = cap_remove(n->dir, to, err);
	ret = ret ?: capw_name_move(n, to, err);
	return ret ?: name_take_free(n, err);
}

/*
 * To NAME.replaced, until the new one is complete. Those that were cut short do not pile up there,
 * whoever sends them.
 */
static int take_replaced(struct capw_name *n, struct kvmft_err *err)
{
	_cleanup_close_ int old = old_hold(n, n->name, err);
	char number[24] = ".replaced";
	int ret = capw_name_add(n->aside, err, n->name, number);

	ret = ret ?: old < -1 ? old : 0;
	if (!ret && exists(n->dir, n->aside) && !cap_is_complete(n->dir, n->name)) {
		n->aside[0] = '\0';
		ret = cap_remove(n->dir, n->name, err);
		return ret ?: name_take_free(n, err);
	}
	for (int i = 2; !ret && exists(n->dir, n->aside) && i <= ASIDE_NAMES; i++) {
		snprintf(number, sizeof(number), ".replaced-%d", i);
		ret = capw_name_add(n->aside, err, n->name, number);
	}
	if (!ret && exists(n->dir, n->aside))
		ret = err_set(err, EEXIST, "%s.replaced to %s exist: remove those that you do not need",
			      n->name, n->aside);
	ret = ret ?: capw_name_move(n, n->aside, err);
	if (ret) {
		n->aside[0] = '\0';
		return ret;
	}
	ret = name_take_free(n, err);
	if (ret && !renameat(n->dir, n->aside, n->dir, n->name))
		n->aside[0] = '\0';
	return ret;
}

int capw_name_take(struct capw_name *n, struct kvmft_err *err)
{
	int ret = check_old(n, err);

	if (!ret && !exists(n->dir, n->name))
		ret = name_take_free(n, err);
	else if (!ret)
		ret = n->old == CAPW_ROTATE ? take_rotated(n, err) : take_replaced(n, err);
	n->taken = !ret;
	return ret;
}

int capw_name_done(struct capw_name *n, struct kvmft_err *err)
{
	int ret = n->aside[0] ? cap_remove(n->dir, n->aside, err) : 0;

	n->aside[0] = '\0';
	return ret;
}

void capw_name_drop(const struct capw_name *n)
{
	if (!n->taken && n->temp[0])
		(void)!cap_remove(n->dir, n->temp, NULL);
}
