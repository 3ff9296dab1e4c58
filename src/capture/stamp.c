/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stamp.c: captures named by the time they were made, and keeping only the newest. */
#include "reader.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>

#define STAMP_PREFIX "kvmft-"
/* 9 is any digit, everything else itself */
#define STAMP_SHAPE  "99999999T999999Z"

int capw_stamp_name(int64_t t, unsigned int n, char *buf, size_t size)
{
	time_t when = (time_t)t;
	struct tm tm;
	int len;

	if (n > 99 || !gmtime_r(&when, &tm) || tm.tm_year + 1900 < 0 || tm.tm_year + 1900 > 9999)
		return -EOVERFLOW;
	len = snprintf(buf, size, STAMP_PREFIX "%04d%02d%02dT%02d%02d%02dZ", tm.tm_year + 1900,
		       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (n && len > 0 && (size_t)len < size)
		len += snprintf(buf + len, size - (size_t)len, "-%02u", n);
	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

static bool shape_fits(const char *s, const char *shape, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (shape[i] == '9' ? !isdigit((unsigned char)s[i]) : s[i] != shape[i])
			return false;
	return true;
}

static bool is_stamped(const char *name)
{
	const char *p = name + strlen(STAMP_PREFIX);
	size_t len = strlen(STAMP_SHAPE);

	if (!str_starts(name, STAMP_PREFIX) || !shape_fits(p, STAMP_SHAPE, len))
		return false;
	p += len;
	return !*p || (shape_fits(p, "-99", 3) && !p[3]);
}

struct names {
	char (*v)[CAPW_STAMP_SIZE];
	size_t n, cap;
};

/* Others, in a directory for all, would have ours removed by putting newer ones there. */
static bool is_own(int dirfd, const char *name, const struct stat *dir)
{
	struct stat st;

	return !fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       (st.st_uid == geteuid() || st.st_uid == dir->st_uid);
}

static int names_read(int dirfd, struct names *names)
{
	_cleanup_dir_ DIR *dir = dir_open(dirfd, ".");
	struct dirent *d;
	struct stat st;
	int ret = 0;

	if (!dir || fstat(dirfd, &st))
		return -errno;
	while (!ret && (d = readdir(dir))) {
		char (*slot)[CAPW_STAMP_SIZE];

		if (!is_stamped(d->d_name) || !is_own(dirfd, d->d_name, &st) ||
		    !cap_is_capture(dirfd, d->d_name))
			continue;
		slot = array_grow(&names->v, names->n, &names->cap, sizeof(*slot));
		if (slot) {
			/* its pattern bounds its length */
			memcpy(*slot, d->d_name, strlen(d->d_name) + 1);
			names->n++;
		} else {
			ret = -ENOMEM;
		}
	}
	return ret;
}

static int stamp_compare(const void *a, const void *b, void *now)
{
	int later_a = now && strcmp(a, now) > 0, later_b = now && strcmp(b, now) > 0;

	return later_a != later_b ? later_b - later_a : strcmp(a, b);
}

/* All of them, by age. */
static int names_sorted(int dirfd, const char *now, struct names *names, struct kvmft_err *err)
{
	int ret = names_read(dirfd, names);

	if (ret)
		return err_why(err, ret, "cannot list the old captures");
	if (names->n)
		qsort_r(names->v, names->n, sizeof(*names->v), stamp_compare,
			(void *)(uintptr_t)now);
	return 0;
}

/*
 * Of those that may be removed to leave keep, the newest complete one stays if none after it is
 * complete.
 */
static size_t last_complete(int dirfd, const struct names *names, size_t keep)
{
	size_t i = names->n;

	while (i && !cap_is_complete(dirfd, names->v[i - 1]))
		i--;
	return i && i <= names->n - MIN(keep, names->n) ? i - 1 : SIZE_MAX;
}

int capw_stamp_prune(int dirfd, const char *now, size_t keep, size_t *removed,
		     struct kvmft_err *err)
{
	struct names names = { 0 };
	int ret = names_sorted(dirfd, now, &names, err);
	size_t n = 0, stays = ret ? 0 : last_complete(dirfd, &names, keep);

	for (size_t i = 0; !ret && i + keep < names.n; i++) {
		if (i == stays)
			continue;
		ret = cap_remove(dirfd, names.v[i], err);
		n += !ret;
	}
	free(names.v);
	if (removed)
		*removed = n;
	return ret;
}

int capw_stamp_room(int dirfd, const char *now, size_t keep, uint64_t bytes,
		    struct kvmft_err *err)
{
	struct names names = { 0 };
	int ret = names_sorted(dirfd, now, &names, err);
	size_t stays = ret ? 0 : last_complete(dirfd, &names, keep), end = 0;
	uint64_t given = 0;

	for (; !ret && given < bytes && end + keep < names.n; end++)
		given += end == stays ? 0 : cap_disk_usage(dirfd, names.v[end]);
	for (size_t i = 0; !ret && given >= bytes && i < end; i++)
		if (i != stays)
			ret = cap_remove(dirfd, names.v[i], err);
	free(names.v);
	return ret ?: given >= bytes;
}

uint64_t capw_stamp_usage(int dirfd, const char *now)
{
	struct names names = { 0 };
	uint64_t bytes = 0;
	size_t i;

	if (!names_sorted(dirfd, now, &names, NULL)) {
		i = last_complete(dirfd, &names, 0);
		bytes = i == SIZE_MAX ? 0 : cap_disk_usage(dirfd, names.v[i]);
	}
	free(names.v);
	return bytes;
}
