/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cgroup.c: did a cgroup's CPU limit stop a thread? libvirt has one for each vCPU, or any above
 * may.
 */
#include "kvmft/vm.h"

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

bool vm_cgroup_throttled(const char *dir, uint64_t *n, uint64_t *ns)
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

void vm_cgroups(int task, void (*fn)(void *ctx, const char *dir), void *ctx)
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
					   mounts[i].controller)) {
				char dir[360];
				int len =
					snprintf(dir, sizeof(dir), "%s%s", mounts[i].dir, path + 1);

				/* This cgroup and all above it. */
				if (len >= 0 && (size_t)len < sizeof(dir)) {
					while (strlen(dir) > strlen(mounts[i].dir)) {
						fn(ctx, dir);
						*strrchr(dir, '/') = '\0';
					}
				}
			}
	}
}
