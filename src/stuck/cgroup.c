/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cgroup.c: whether the CPU controller of a cgroup kept a thread from running. libvirt has a cgroup
 * for each vCPU, and the limit may be on any of those above it.
 */
#include "room.h"

#include <fcntl.h>

/* Where a hierarchy with the CPU controller may be mounted, and its line in /proc/PID/cgroup. */
static const struct {
	const char *controller, *dir;
} mounts[] = {
	{ "", "/sys/fs/cgroup" },
	{ "", "/sys/fs/cgroup/unified" },
	{ "cpu", "/sys/fs/cgroup/cpu,cpuacct" },
	{ "cpu", "/sys/fs/cgroup/cpu" },
};

/* Reads a line "name VALUE". */
static bool take_value(const char *text, const char *name, uint64_t *v)
{
	size_t n = strlen(name);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, name, n) && p[n] == ' ') {
			*v = strtoull(p + n + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool read_stat(const char *dir, uint64_t *n, uint64_t *ns)
{
	_cleanup_free_ char *text = NULL;
	char path[400];
	uint64_t us;

	snprintf(path, sizeof(path), "%s/cpu.stat", dir);
	if (file_read_all(AT_FDCWD, path, 4096, &text) < 0 || !take_value(text, "nr_throttled", n))
		return false;
	if (take_value(text, "throttled_usec", &us))
		*ns = us * 1000;
	else if (!take_value(text, "throttled_time", ns))
		*ns = 0;
	return true;
}

/* Is name one of "cpu,cpuacct"? The list of the single hierarchy of version 2 is empty. */
static bool has_controller(const char *list, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (size_t at = 0; n && at + n <= len; at++)
		if ((!at || list[at - 1] == ',') && !strncmp(list + at, name, n) &&
		    (at + n == len || list[at + n] == ','))
			return true;
	return !n && !len;
}

typedef void cgroup_fn(const char *dir, uint64_t n, uint64_t ns, struct stuck_throttle *t);

/* The cgroup in `at` and all above it. */
static void walk_up(const char *mount, const char *at, cgroup_fn *fn, struct stuck_throttle *t)
{
	char dir[360];
	uint64_t n, ns;
	int len = snprintf(dir, sizeof(dir), "%s%s", mount, at);

	if (len < 0 || (size_t)len >= sizeof(dir))
		return;
	while (strlen(dir) > strlen(mount)) {
		if (read_stat(dir, &n, &ns))
			fn(dir, n, ns, t);
		*strrchr(dir, '/') = '\0';
	}
}

static void walk(int task, cgroup_fn *fn, struct stuck_throttle *t)
{
	_cleanup_free_ char *text = NULL;
	char *save = NULL, *list, *path;

	if (file_read_all(task, "cgroup", 65536, &text) < 0)
		return;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		list = strchr(l, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		for (size_t i = 0; path && path[1] == '/' && i < ARRAY_SIZE(mounts); i++)
			if (has_controller(list + 1, (size_t)(path - list - 1),
					   mounts[i].controller))
				walk_up(mounts[i].dir, path + 1, fn, t);
	}
}

/* Sums: an unthrottled cgroup adds nothing. The lowest throttled one gives its name. */
static void add_up(const char *dir, uint64_t n, uint64_t ns, struct stuck_throttle *t)
{
	t->n += n;
	t->ns += ns;
	if (!n || t->path[0])
		return;
	snprintf(t->path, sizeof(t->path), "%s", dir);
	str_printable(t->path);
}

void stuck_throttle_begin(int task, struct stuck_throttle *t)
{
	*t = (struct stuck_throttle){ 0 };
	walk(task, add_up, t);
}

void stuck_throttle_end(int task, struct stuck_throttle *t)
{
	struct stuck_throttle now = { 0 };

	walk(task, add_up, &now);
	now.n = now.n > t->n ? now.n - t->n : 0;
	now.ns = now.ns > t->ns ? now.ns - t->ns : 0;
	*t = now;
}
