/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.c: VMs that are made while one watches: debugfs reports a new directory, as other file
 * systems do.
 */
#include "kvmft/vm_proc.h"

#include <limits.h>
#include <sys/inotify.h>

int vm_watch_open(const struct vm_roots *roots, struct vm_watch *w)
{
	struct vm_roots r = vm_roots_fill(roots);
	char path[PATH_MAX];
	int ret;

	*w = (struct vm_watch){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
	if (w->fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/kvm", r.debugfs);
	if (inotify_add_watch(w->fd, path, IN_CREATE | IN_ONLYDIR) >= 0)
		return 0;
	ret = -errno;
	vm_watch_close(w);
	return ret;
}

/* More from the kernel: 1, 0: nothing, -errno. */
static int refill(struct vm_watch *w)
{
	ssize_t n = read(w->fd, w->buf, sizeof(w->buf));

	w->at = w->n = 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	w->n = (size_t)n;
	return n > 0;
}

int vm_watch_next(struct vm_watch *w, uint32_t *pid, uint32_t *fd)
{
	struct inotify_event e;
	const char *name;

	for (;;) {
		if (w->at + sizeof(e) > w->n) {
			int ret = refill(w);

			if (ret <= 0)
				return ret;
		}
		memcpy(&e, w->buf + w->at, sizeof(e));
		name = w->buf + w->at + sizeof(e);
		w->at += sizeof(e) + e.len;
		if (e.mask & IN_Q_OVERFLOW)
			return -EOVERFLOW;
		if (e.len && w->at <= w->n && vm_name_parse(name, pid, fd))
			return 1;
	}
}

void vm_watch_close(struct vm_watch *w)
{
	util_close_fd(&w->fd);
	w->fd = -1;
}
