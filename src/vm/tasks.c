/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tasks.c: walks over threads: all of them, or those of one process. */
#include "kvmft/vm_proc.h"

#include <sys/inotify.h>

/* *gone: the process cannot be listed (-errno); apart from what fn returns. */
static int walk_process(int procfd, uint32_t pid, vm_task_fn fn, void *ctx, int *gone)
{
	struct vm_task task = { .tgid = pid };
	_cleanup_dir_ DIR *dir = NULL;
	int ret;

	dir = dir_open(procfd, TEXTF("%u/task", pid));
	*gone = 0;
	if (!dir) {
		*gone = errno == ENOENT ? -ESRCH : -errno;
		return 0;
	}
	while (vm_dir_next_u32(dir, &task.tid)) {
		if (vm_proc_comm(dirfd(dir), TEXTF("%u/comm", task.tid), task.comm,
				 sizeof(task.comm)))
			continue;
		ret = fn(&task, ctx);
		if (ret)
			return ret;
	}
	return 0;
}

int vm_tasks_walk(const struct vm_roots *roots, uint32_t pid, vm_task_fn fn, void *ctx)
{
	struct vm_roots r = vm_roots_fill(roots);
	_cleanup_close_ int procfd = vm_proc_open(&r);
	_cleanup_dir_ DIR *dir = procfd < 0 || pid ? NULL : dir_open(procfd, ".");
	int ret = 0, gone = 0;

	if (procfd < 0)
		return procfd;
	if (pid) {
		ret = walk_process(procfd, pid, fn, ctx, &gone);
		return ret ?: gone;
	}
	if (!dir)
		return -errno;
	/* one that is gone, or hidden from us, does not hide the others */
	while (!ret && vm_dir_next_u32(dir, &pid))
		ret = walk_process(procfd, pid, fn, ctx, &gone);
	return ret;
}

int vm_task_read(const struct vm_roots *roots, uint32_t tid, struct vm_task *task,
		 uint64_t *start_time)
{
	struct vm_roots r = vm_roots_fill(roots);
	_cleanup_close_ int procfd = vm_proc_open(&r);
	uint32_t ppid;
	int ret;

	if (procfd < 0)
		return procfd;
	*task = (struct vm_task){ .tid = tid };
	ret = vm_proc_tgid(procfd, tid, &task->tgid);
	ret = ret ?: vm_proc_stat(procfd, tid, &ppid, start_time);
	return ret ?: vm_proc_comm(procfd, TEXTF("%u/comm", tid), task->comm, sizeof(task->comm));
}

bool vm_task_hidden(const struct vm_roots *roots, uint32_t tgid)
{
	struct vm_roots r = vm_roots_fill(roots);
	_cleanup_close_ int procfd = vm_proc_open(&r);
	_cleanup_(vm_procs_free) struct vm_procs procs = { 0 };

	return procfd >= 0 && !vm_procs_scan_some(procfd, &tgid, 1, &procs) && procs.n_hidden;
}

/*
 * VMs that are made while one watches: debugfs reports a new directory, as other file
 * systems do.
 */

int vm_watch_open(const struct vm_roots *roots, struct vm_watch *w)
{
	struct vm_roots r = vm_roots_fill(roots);
	int ret;

	*w = (struct vm_watch){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
	if (w->fd < 0)
		return -errno;
	if (inotify_add_watch(w->fd, TEXTF("%s/kvm", r.debugfs), IN_CREATE | IN_ONLYDIR) >= 0)
		return 0;
	ret = -errno;
	vm_watch_close(w);
	return ret;
}

int vm_watch_next(struct vm_watch *w, uint32_t *pid, uint32_t *fd)
{
	struct inotify_event e;
	const char *name;

	for (;;) {
		if (w->at + sizeof(e) > w->n) {
			ssize_t n = read(w->fd, w->buf, sizeof(w->buf));

			w->at = w->n = 0;
			if (n <= 0)
				return !n || errno == EAGAIN || errno == EINTR ? 0 : -errno;
			w->n = (size_t)n;
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
