/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * place.c: the directory that a capture is made in.
 *
 * A recorder runs as root, often in a directory that others use, too. So the path to it is walked
 * one step at a time, each relative to the one before: links that others may have put there are not
 * followed, and directories in which others could swap the next step are refused.
 */
#include "reader.h"

#include <limits.h>

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
