/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * marker.c: recording what programs write to the top-level trace_marker into an instance.
 *
 * A program that kvmft starts gets a mount namespace of its own, in which the instance's files take
 * the place of the top-level ones: it writes to "trace_marker" as usual, and the kernel's main
 * trace never sees it. Programs like QEMU first switch on tracing_on. That must affect neither the
 * main trace nor the instance, which the recorder starts and stops: there it is /dev/null. The
 * option copy_trace_marker is newer than libtracefs 1.6.4 and set by tracefs.c.
 */
#include "priv.h"

#include <sched.h>
#include <sys/mount.h>

static const char copy_option[] = "options/copy_trace_marker";

bool kinst_can_copy_markers(const struct kinst *k)
{
	return kfile_exists(k->dirfd, copy_option);
}

int kinst_copy_markers(struct kinst *k, bool on, struct kvmft_err *err)
{
	int got = knob_write(NULL, k->dirfd, copy_option, on ? "1" : "0", NULL);

	return err_why(err, got, "%s: cannot switch %s %s", k->name, copy_option,
		       on ? "on" : "off");
}

/* ---- a private view ---- */

/*
 * proc(5): "36 35 98:0 ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS". NULL: not such a line.
 */
static char *mount_point(char *line, const char *type)
{
	char *save = NULL, *word, *point = NULL, *root = NULL, *s, *to;
	int i = 0;

	for (word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (i == 3)
			root = word;
		else if (i == 4)
			point = word;
		else if (i > 5 && !strcmp(word, "-"))
			break;
		i++;
	}
	word = word ? strtok_r(NULL, " ", &save) : NULL;
	if (!word || strcmp(word, type) || !root || strcmp(root, "/") || !point)
		return NULL;
	/* \040 and the like, in place. */
	for (s = to = point; *s;) {
		if (*s == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
	return point;
}

typedef int (*mount_fn)(const char *point, const struct kinst *k);

/* Calls fn for each place where a whole file system of that type is mounted. */
static int mounts_walk(const char *type, mount_fn fn, const struct kinst *k)
{
	_cleanup_free_ char *text = NULL;
	char *save = NULL, *line;
	ssize_t n = file_read_all(AT_FDCWD, "/proc/self/mountinfo", KFILE_MAX, &text);
	int got = n < 0 ? (int)n : 0;

	line = got ? NULL : strtok_r(text, "\n", &save);
	for (; line && !got; line = strtok_r(NULL, "\n", &save)) {
		char *point = mount_point(line, type);

		if (point)
			got = fn(point, k);
	}
	return got;
}

/* debugfs has a directory where tracefs is mounted on access: trigger that now. */
static int wake_automount(const char *point, const struct kinst *k __unused_arg)
{
	char path[4200];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/tracing/.", point) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* Both are names below point; from NULL = /dev/null. */
static int bind_over(const char *point, const char *name, const struct kinst *k)
{
	char from[4300], to[4200];

	if ((size_t)snprintf(to, sizeof(to), "%s/%s", point, name) >= sizeof(to))
		return -ENAMETOOLONG;
	snprintf(from, sizeof(from), "/dev/null");
	if (k && (size_t)snprintf(from, sizeof(from), "%s/instances/%s/%s", point, k->name, name) >=
			 sizeof(from))
		return -ENAMETOOLONG;
	return mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int bind_tracefs(const char *point, const struct kinst *k)
{
	int got;

	/* What is mounted there does not show outside. / itself need not be a mount point. */
	if (mount(NULL, point, NULL, MS_SLAVE, NULL) < 0)
		return -errno;
	got = bind_over(point, "trace_marker", k);
	got = got ?: bind_over(point, "trace_marker_raw", k);
	if (got == -ENOENT) /* before Linux 4.9 */
		got = 0;
	return got ?: bind_over(point, "tracing_on", NULL);
}

int kinst_private_marker(const struct kinst *k)
{
	int got;

	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	got = mounts_walk("debugfs", wake_automount, NULL);
	return got ?: mounts_walk("tracefs", bind_tracefs, k);
}
