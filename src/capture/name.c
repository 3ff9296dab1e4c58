/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * name.c: how a capture gets its name, and what becomes of the previous one.
 *
 * It is made as .NAME.PID.new and takes its name when it records, so that a recorder that cannot
 * start leaves everything as it was. A capture that it replaces is removed only when the new one is
 * complete; of kvmft.data and kvmft.data.old the last complete one always stays.
 */

#include <ctype.h>
#include <limits.h>
#include <sys/file.h>

#include "reader.h"

/*
 * The directory that a capture is made in.
 *
 * A recorder runs as root, often in a directory that others use, too. So the path to it is walked
 * one step at a time, each relative to the one before: links that others may have put there are not
 * followed, and directories in which others could swap the next step are refused.
 */

#define CAP_MAX_LINKS 8 /* nested links on the way to it */

/* ---- the way to a directory ---- */

struct walk {
	const char *path; /* as the user wrote it, for messages */
	unsigned int links;
	bool shared; /* directories that all may write to will do, as /tmp without its sticky bit */
	struct kvmft_err *err;
};

static int walk_fd(struct walk *w, int fd, const char *path);

/*
 * In a directory that others can write to (a sticky one, otherwise it was refused), a link is
 * followed only if it is ours or root's, as the kernel does with fs.protected_symlinks=1.
 */
static int walk_link(struct walk *w, int dir, const struct stat *dst, int link,
		     const struct stat *lst, const char *step)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;
	int fd;

	if ((dst->st_mode & S_IWOTH) && lst->st_uid != geteuid() && lst->st_uid)
		return err_set(
			w->err, ELOOP,
			"%s: %s is a symbolic link that another user made: name the real directory",
			w->path, step);
	if (++w->links > CAP_MAX_LINKS)
		return err_set(w->err, ELOOP, "%s: too many symbolic links", w->path);
	n = readlinkat(link, "", target, sizeof(target) - 1);
	if (n <= 0)
		return err_set(w->err, n ? errno : ENOENT, "%s: cannot read the link %s", w->path,
			       step);
	target[n] = '\0';
	fd = target[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)
			      : fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_why(w->err, errno, "%s", w->path);
	fd = walk_fd(w, fd, target);
	/*
	 * Where a link of another user leads must be his as well: what is made there could be
	 * otherwise.
	 */
	if (fd < 0 || lst->st_uid == geteuid() || !lst->st_uid ||
	    (!fstat(fd, &st) && st.st_uid == lst->st_uid))
		return fd;
	close(fd);
	return err_set(w->err, ELOOP,
		       "%s: %s is a symbolic link that user %u made, to somebody else's directory: "
		       "name the real directory",
		       w->path, step, (unsigned int)lst->st_uid);
}

/* One step from the directory dir: its descriptor, or -errno. */
static int walk_step(struct walk *w, int dir, const char *step)
{
	struct stat dst, st;
	int fd, ret;

	if (fstat(dir, &dst) < 0)
		return err_why(w->err, errno, "cannot access %s", w->path);
	if (!w->shared && (dst.st_mode & S_IWOTH) && !(dst.st_mode & S_ISVTX))
		return err_set(
			w->err, EPERM,
			"%s: the directory above %s is writable by others and not sticky: they "
			"could replace it; use another place or chmod o-w",
			w->path, step);
	fd = openat(dir, step, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		ret = err_set(w->err, errno, "cannot open directory %s: %s%s", w->path,
			      strerror(errno), errno == ENOENT ? ": make it first (mkdir -p)" : "");
		util_close_fd(&fd);
		return ret;
	}
	if (S_ISDIR(st.st_mode))
		return fd;
	ret = S_ISLNK(st.st_mode) ? walk_link(w, dir, &dst, fd, &st, step)
				  : err_why(w->err, ENOTDIR, "cannot open directory %s", w->path);
	close(fd);
	return ret;
}

/* Takes fd over. Recursion ends with CAP_MAX_LINKS. */
static int walk_fd(struct walk *w, int fd, const char *path)
{
	char step[NAME_MAX + 1];

	while (fd >= 0) {
		size_t n;
		int next;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (!n)
			break;
		if (n >= sizeof(step)) {
			close(fd);
			return err_set(w->err, ENAMETOOLONG, "%s: name too long", w->path);
		}
		memcpy(step, path, n);
		step[n] = '\0';
		path += n;
		next = walk_step(w, fd, step);
		close(fd);
		fd = next;
	}
	return fd;
}

int capw_dir_open(const char *path, struct kvmft_err *err)
{
	struct walk w = { .path = path, .err = err };
	_cleanup_close_ int at = -1;
	struct stat st;
	int fd, ret;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		return err_set(err, ELOOP, "%s is a symbolic link: name the real directory", path);
	fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_why(err, errno, "cannot open directory %s", path);
	at = walk_fd(&w, fd, path);
	if (at < 0)
		return at;
	fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_why(err, errno, "cannot open directory %s", path);
	ret = fstat(fd, &st) < 0 ? err_why(err, errno, "cannot access %s", path) : 0;
	if (!ret && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
		ret = err_set(
			err, EPERM,
			"directory %s is writable by others and not sticky: they could replace "
			"the capture; use another place or chmod o-w",
			path);
	if (ret)
		close(fd);
	return ret ?: fd;
}

char *capw_parent_shown(const char *path)
{
	size_t len = strlen(path);
	const char *slash;

	while (len > 1 && path[len - 1] == '/')
		len--;
	slash = memrchr(path, '/', len);
	return strndup(path, slash ? (size_t)(slash + 1 - path) : 0);
}

int capw_parent_open(const char *path, char **base, struct kvmft_err *err)
{
	_cleanup_free_ char *parent = NULL;
	size_t len = strlen(path);
	const char *slash;
	int ret = 0;

	while (len > 1 && path[len - 1] == '/')
		len--;
	slash = memrchr(path, '/', len);
	*base = strndup(slash ? slash + 1 : path, slash ? len - (size_t)(slash + 1 - path) : len);
	if (!slash)
		parent = strdup(".");
	else
		parent = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!parent || !*base)
		ret = -ENOMEM;
	else if (!**base || !strcmp(*base, ".") || !strcmp(*base, ".."))
		ret = -EINVAL;
	return ret ? err_set(err, -ret, "'%s' cannot be the name of a capture", path)
		   : capw_dir_open(parent, err);
}

int capw_file_parent_open(const char *path, const char **base, struct kvmft_err *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);
	struct walk w = { .path = parent, .shared = true, .err = err };
	int fd;

	*base = slash ? slash + 1 : path;
	if (!**base || !strcmp(*base, ".") || !strcmp(*base, ".."))
		return err_why(err, *path ? EISDIR : ENOENT, "cannot create '%s'", path);
	fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!parent || fd < 0)
		return err_why(err, parent ? errno : ENOMEM, "cannot create %s", path);
	return walk_fd(&w, fd, parent);
}

#define ASIDE_NAMES   99
#define CAP_MAX_DEPTH 4 /* folders below a capture */

/* ---- what is there, and removing it ---- */

static int open_meta(int parent, const char *base)
{
	_cleanup_close_ int dir =
		openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir < 0 ? -1 : openat(dir, "meta", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Is base (below the directory parent) a capture? By its meta file; links are not followed. */
static bool cap_is_capture(int parent, const char *base)
{
	_cleanup_close_ int fd = open_meta(parent, base);
	char head[sizeof(CAPTURE_MAGIC)] = "";

	return fd >= 0 && full_pread(fd, head, sizeof(head) - 1, 0) == (ssize_t)sizeof(head) - 1 &&
	       !strcmp(head, CAPTURE_MAGIC);
}

/* ... and one whose recording ended by itself? The last record being `end` is no error. */
static bool cap_is_complete(int parent, const char *base)
{
	_cleanup_close_ int fd = open_meta(parent, base);
	char tail[4096], *last;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	n = full_pread(fd, tail, sizeof(tail) - 1,
		       (uint64_t)st.st_size - MIN((uint64_t)st.st_size, sizeof(tail) - 1));
	if (n <= 0 || tail[n - 1] != '\n')
		return false;
	tail[n - 1] = '\0';
	last = strrchr(tail, '\n');
	return strlen(tail) == (size_t)n - 1 && last && str_starts(last + 1, "end ") &&
	       !strstr(last, " reason=error");
}

/* bytes: adds what an entry takes on the disk; NULL: removes it. */
static int tree_entry(int dir, const char *name, int flag, uint64_t *bytes)
{
	struct stat st;

	if (!bytes)
		return unlinkat(dir, name, flag) ? -errno : 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	*bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

/* All that is in a directory, and itself, up to an error; depth first, no link is followed. */
static int walk_tree(int parent, const char *base, unsigned int depth, uint64_t *bytes)
{
	struct dirent *d;
	struct stat st;
	int fd, ret = 0;
	DIR *dir;

	if (depth > CAP_MAX_DEPTH)
		return -ELOOP;
	dir = dir_open(parent, base);
	if (!dir)
		return -errno;
	fd = dirfd(dir);
	while (!ret && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW))
			ret = -errno;
		else if (S_ISDIR(st.st_mode))
			ret = walk_tree(fd, d->d_name, depth + 1, bytes);
		else
			ret = tree_entry(fd, d->d_name, 0, bytes);
	}
	closedir(dir);
	return ret ?: tree_entry(parent, base, AT_REMOVEDIR, bytes);
}

/* What is in a directory takes on the disk, bytes; 0: unknown. */
static uint64_t cap_disk_usage(int parent, const char *base)
{
	uint64_t bytes = 0;

	return walk_tree(parent, base, 0, &bytes) ? 0 : bytes;
}

/* Removes the capture base and nothing else. -EEXIST: it is not a capture. */
static int cap_remove(int parent, const char *base, struct kvmft_err *err)
{
	int ret;

	if (!cap_is_capture(parent, base))
		return err_set(err, EEXIST,
			       "%s exists and is not a kvmft capture: it is not touched, choose "
			       "another name",
			       base);
	ret = walk_tree(parent, base, 0, NULL);
	return err_why(err, ret, "cannot remove the old capture %s", base);
}

/* ---- names ---- */

static bool name_exists(int dir, const char *name)
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
	if (!name_exists(n->dir, name) || cap_is_capture(n->dir, name))
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
	const bool rotate = n->old == CAPW_ROTATE;
	char goes[CAPW_NAME_SIZE];
	int ret;

	if (n->old == CAPW_REFUSE && !name_exists(n->dir, n->name))
		return 0;
	if (n->old == CAPW_REFUSE)
		return err_set(err, EEXIST,
			       "output %s%s exists: choose another name or use --force", n->shown,
			       n->name);
	ret = check_capture(n, n->name, rotate ? "use -o" : "choose another name", err);
	ret = ret ?: capw_name_add(goes, err, n->name, rotate ? ".old" : "");
	ret = ret ?: check_capture(n, goes, "choose another name", err);
	return ret ?: check_held(n, goes, err);
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
	if (ret == -ENOSYS && !name_exists(n->dir, n->name))
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
	if (!ret && name_exists(n->dir, to))
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
	if (!ret && name_exists(n->dir, n->aside) && !cap_is_complete(n->dir, n->name)) {
		n->aside[0] = '\0';
		ret = cap_remove(n->dir, n->name, err);
		return ret ?: name_take_free(n, err);
	}
	for (int i = 2; !ret && name_exists(n->dir, n->aside) && i <= ASIDE_NAMES; i++) {
		snprintf(number, sizeof(number), ".replaced-%d", i);
		ret = capw_name_add(n->aside, err, n->name, number);
	}
	if (!ret && name_exists(n->dir, n->aside))
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

	if (!ret && !name_exists(n->dir, n->name))
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
	struct stat st;

	if (n->taken || !n->temp[0])
		return;
	/* capw_name_init() made it: cut off meanwhile, it may not look like a capture. */
	if (n->name[0] && !fstatat(n->dir, n->temp, &st, AT_SYMLINK_NOFOLLOW) &&
	    st.st_uid == geteuid())
		(void)!walk_tree(n->dir, n->temp, 0, NULL);
	else
		(void)!cap_remove(n->dir, n->temp, NULL);
}

/* ---- captures named by the time they were made, and keeping only the newest ---- */

#define STAMP_PREFIX "kvmft-"

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

/* In its shape 9 is any digit, everything else itself. */
static bool is_stamped(const char *name)
{
	static const char shape[] = STAMP_PREFIX "99999999T999999Z-99";
	const size_t n = strlen(name), most = sizeof(shape) - 1;

	for (size_t i = 0; i < n; i++)
		if (i == most ||
		    (shape[i] == '9' ? !isdigit((unsigned char)name[i]) : name[i] != shape[i]))
			return false;
	return n == most || n == most - 3;
}

struct names {
	char (*v)[CAPW_STAMP_SIZE];
	size_t n, cap;
};

static int stamp_compare(const void *a, const void *b, void *now)
{
	int later_a = now && strcmp(a, now) > 0, later_b = now && strcmp(b, now) > 0;

	return later_a != later_b ? later_b - later_a : strcmp(a, b);
}

/* All of them, by age. */
static int names_sorted(int dirfd, const char *now, struct names *names, struct kvmft_err *err)
{
	_cleanup_dir_ DIR *dir = dir_open(dirfd, ".");
	struct stat st, its;
	struct dirent *d;
	int ret = 0;

	if (!dir || fstat(dirfd, &st))
		return err_why(err, -errno, "cannot list the old captures");
	while (!ret && (d = readdir(dir))) {
		char name[CAPW_STAMP_SIZE] = "";

		/* In a directory for all, newer ones of others would have ours removed. */
		if (!is_stamped(d->d_name) ||
		    fstatat(dirfd, d->d_name, &its, AT_SYMLINK_NOFOLLOW) ||
		    (its.st_uid != geteuid() && its.st_uid != st.st_uid) ||
		    !cap_is_capture(dirfd, d->d_name))
			continue;
		memcpy(name, d->d_name, strlen(d->d_name)); /* its shape bounds its length */
		ret = array_add(&names->v, &names->n, &names->cap, name, sizeof(name));
	}
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

int capw_stamp_room(int dirfd, const char *now, size_t keep, uint64_t bytes, struct kvmft_err *err)
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
