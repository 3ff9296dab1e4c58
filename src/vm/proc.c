/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proc.c: reading one process in /proc: what it is, how it was started, which KVM descriptors it
 * holds. A process can end between any two reads: that is never an error of the scan.
 */

#include <sys/inotify.h>

#include "kvmft/util.h"
#include "kvmft/vm.h"

/* Tgid is the fourth line of status: within this. */
#define HEAD_SIZE 1024

struct vm_roots vm_roots_fill(const struct vm_roots *roots)
{
	struct vm_roots r = { .proc = "/proc", .debugfs = "/sys/kernel/debug", .sys = "/sys" };

	if (roots && roots->proc)
		r.proc = roots->proc;
	if (roots && roots->debugfs)
		r.debugfs = roots->debugfs;
	if (roots && roots->sys)
		r.sys = roots->sys;
	return r;
}

void vm_sys_clocksource(const struct vm_roots *roots, char *buf, size_t size)
{
	if (file_read_line(AT_FDCWD,
			   TEXTF("%s/devices/system/clocksource/clocksource0/current_clocksource",
				 roots->sys),
			   buf, size) < 0)
		buf[0] = '\0';
	str_printable(buf);
}

bool vm_text_u32(const char **s, uint32_t *v)
{
	const char *p = *s;
	uint64_t n;

	if (!take_u64(&p, UINT32_MAX, &n) || (**s == '0' && p != *s + 1))
		return false;
	*v = (uint32_t)n;
	*s = p;
	return true;
}

bool vm_dir_next_u32(DIR *dir, uint32_t *v)
{
	struct dirent *de;

	while ((de = readdir(dir))) {
		const char *s = de->d_name;

		if (vm_text_u32(&s, v) && !*s)
			return true;
	}
	return false;
}

int vm_proc_open(const struct vm_roots *roots)
{
	int fd = open(roots ? roots->proc : "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The first bytes of a small file, without allocating: length or -errno; NUL-terminated. */
static ssize_t read_head(int procfd, const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(procfd, path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	len = full_pread(fd, buf, size - 1, 0);
	if (len >= 0)
		buf[len] = '\0';
	return len;
}

/* The number of the line of that name in /proc/PID/status. */
static int status_number(int procfd, uint32_t pid, const char *name, uint32_t *v)
{
	char text[HEAD_SIZE];
	const char *p;
	ssize_t len = read_head(procfd, TEXTF("%u/status", pid), text, sizeof(text));

	if (len < 0)
		return (int)len;
	p = ktext_value(text, name);
	return p && vm_text_u32(&p, v) ? 0 : -EINVAL;
}

int vm_proc_tgid(int procfd, uint32_t pid, uint32_t *tgid)
{
	int ret = status_number(procfd, pid, "Tgid", tgid);

	return !ret && !*tgid ? -EINVAL : ret;
}

int vm_proc_uid(int procfd, uint32_t pid, uint32_t *uid)
{
	return status_number(procfd, pid, "Uid", uid);
}

int vm_proc_comm(int procfd, const char *path, char *buf, size_t size)
{
	ssize_t len = read_head(procfd, path, buf, size);

	if (len < 0)
		return (int)len;
	/* only the last newline is the kernel's, a comm can contain others */
	if (len && buf[len - 1] == '\n')
		buf[len - 1] = '\0';
	str_printable(buf);
	return 0;
}

char *vm_proc_vmm(int procfd, uint32_t pid)
{
	static const char deleted[] = " (deleted)";
	char buf[4096];
	const char *base;
	ssize_t len;
	char *slash;

	len = readlinkat(procfd, TEXTF("%u/exe", pid), buf, sizeof(buf) - 1);
	if (len > 0) {
		buf[len] = '\0';
		/* an upgraded VMM keeps running from its removed file */
		if ((size_t)len > strlen(deleted) &&
		    !strcmp(buf + (size_t)len - strlen(deleted), deleted))
			buf[(size_t)len - strlen(deleted)] = '\0';
		slash = strrchr(buf, '/');
		base = slash ? slash + 1 : buf;
	} else {
		base = vm_proc_comm(procfd, TEXTF("%u/comm", pid), buf, 64) ? "?" : buf;
	}
	slash = strndup(*base ? base : "?", VM_MAX_TEXT);
	if (slash)
		str_printable(slash);
	return slash;
}

struct patient_file {
	int procfd;
	char path[64];
};

static ssize_t patient_file(const void *arg, void *buf, size_t size)
{
	const struct patient_file *f = arg;
	_cleanup_close_ int fd = openat(f->procfd, f->path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : full_pread(fd, buf, size, 0);
}

ssize_t vm_proc_memory(int procfd, uint32_t pid, const char *name, size_t max, unsigned int *left,
		       char **out)
{
	const unsigned int ms = MAX(*left / 4, VM_PATIENCE_LEAST_MS);
	struct patient_file f = { .procfd = procfd };
	char *buf = malloc(max + 1);
	ssize_t len;

	if (!buf)
		return -ENOMEM;
	snprintf(f.path, sizeof(f.path), "%u/%s", pid, name);
	len = patient_read(patient_file, &f, procfd, buf, max, ms);
	if (len == -ETIMEDOUT)
		*left -= MIN(*left, ms);
	if (len < 0) {
		free(buf);
		return len == -ENOENT ? -ESRCH : len;
	}
	buf[len] = '\0';
	*out = buf;
	return len;
}

ssize_t vm_proc_cmdline(int procfd, uint32_t pid, unsigned int *left, char **out)
{
	return vm_proc_memory(procfd, pid, "cmdline", VM_MAX_CMDLINE, left, out);
}

/* "anon_inode:kvm-vm" or "anon_inode:kvm-vcpu:<N>" (virt/kvm/kvm_main.c). */
static bool proc_parse_link(const char *link, struct vm_kvm_fd *k)
{
	static const char vcpu[] = "anon_inode:kvm-vcpu";
	const char *p;

	k->is_vm = !strcmp(link, "anon_inode:kvm-vm");
	if (k->is_vm)
		return true;
	if (!str_starts(link, vcpu))
		return false;
	p = link + strlen(vcpu);
	if (!*p)
		return true;
	p++;
	k->has_vcpu_id = p[-1] == ':' && vm_text_u32(&p, &k->vcpu_id) && !*p;
	return k->has_vcpu_id;
}

static int proc_scan_fds(int procfd, struct vm_proc *proc, bool *truncated)
{
	_cleanup_dir_ DIR *dir = dir_open(procfd, TEXTF("%u/fd", proc->pid));
	char link[64];
	bool hidden = false;
	size_t looked = 0;
	uint32_t fd;

	if (!dir)
		return -errno;
	while (vm_dir_next_u32(dir, &fd)) {
		struct vm_kvm_fd k = { .fd = fd };
		ssize_t len;

		if (++looked > VM_MAX_FDS) {
			*truncated = true;
			break;
		}
		len = readlinkat(dirfd(dir), TEXTF("%u", fd), link, sizeof(link) - 1);
		if (len <= 0) {
			hidden |= len < 0 && errno == EACCES;
			continue;
		}
		link[len] = '\0';
		if (!proc_parse_link(link, &k))
			continue;
		if (array_add(&proc->fd, &proc->n, &proc->cap, &k, sizeof(k)))
			return -ENOMEM;
	}
	return hidden ? -EACCES : 0;
}

COMPARE_BY(proc_compare_fd, struct vm_kvm_fd, .fd);

COMPARE_BY(proc_compare, struct vm_proc, .pid);

/* Notes a process if it has KVM descriptors: 0 or -ENOMEM. */
static int procs_look(int procfd, uint32_t pid, struct vm_procs *procs)
{
	struct vm_proc proc = { .pid = pid };
	int ret = proc_scan_fds(procfd, &proc, &procs->truncated);

	if (ret == -EACCES || ret == -EPERM)
		procs->hidden = procs->n_hidden++ ? procs->hidden : pid;
	ret = ret == -ENOMEM ? ret : 0;
	if (!ret && proc.n) {
		array_sort(proc.fd, proc.n, proc_compare_fd);
		ret = array_add(&procs->v, &procs->n, &procs->cap, &proc, sizeof(proc));
		if (!ret)
			return 0;
	}
	free(proc.fd);
	return ret;
}

int vm_procs_scan(int procfd, struct vm_procs *procs)
{
	_cleanup_dir_ DIR *dir = dir_open(procfd, ".");
	uint32_t pid;
	int ret = 0;

	if (!dir)
		return -errno;
	while (!ret && vm_dir_next_u32(dir, &pid))
		ret = procs_look(procfd, pid, procs);
	array_sort(procs->v, procs->n, proc_compare);
	return ret;
}

COMPARE_BY(pid_compare, uint32_t, );

int vm_procs_scan_some(int procfd, uint32_t *pid, size_t n, struct vm_procs *procs)
{
	int ret = 0;

	array_sort(pid, n, pid_compare);
	for (size_t i = 0; i < n && !ret; i++)
		if (!i || pid[i] != pid[i - 1])
			ret = procs_look(procfd, pid[i], procs);
	array_sort(procs->v, procs->n, proc_compare);
	return ret;
}

void vm_procs_free(struct vm_procs *procs)
{
	for (size_t i = 0; i < procs->n; i++)
		free(procs->v[i].fd);
	free(procs->v);
	*procs = (struct vm_procs){ 0 };
}

const struct vm_proc *vm_procs_get(const struct vm_procs *procs, uint32_t pid)
{
	const struct vm_proc key = { .pid = pid };

	return procs->n ? bsearch(&key, procs->v, procs->n, sizeof(key), proc_compare) : NULL;
}

bool vm_proc_has_vm_fd(const struct vm_proc *proc, uint32_t fd)
{
	const struct vm_kvm_fd key = { .fd = fd }, *found = NULL;

	if (proc && proc->n)
		found = bsearch(&key, proc->fd, proc->n, sizeof(key), proc_compare_fd);
	return found && found->is_vm;
}

/* ---- walks over threads: all of them, or those of one process ---- */

/* *gone: the process cannot be listed (-errno); apart from what fn returns. */
static int walk_process(int procfd, uint32_t pid, vm_task_fn fn, void *ctx, int *gone)
{
	_cleanup_dir_ DIR *dir = dir_open(procfd, TEXTF("%u/task", pid));
	struct vm_task task = { .tgid = pid };
	int ret;

	*gone = dir ? 0 : errno == ENOENT ? -ESRCH : -errno;
	if (!dir)
		return 0;
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

int vm_task_read(uint32_t tid, struct vm_task *task, uint64_t *start_time)
{
	_cleanup_close_ int procfd = vm_proc_open(NULL);
	struct proc_stat st;
	int ret;

	if (procfd < 0)
		return procfd;
	*task = (struct vm_task){ .tid = tid };
	ret = vm_proc_tgid(procfd, tid, &task->tgid);
	ret = ret ?: proc_stat(procfd, tid, &st);
	if (!ret)
		*start_time = st.start;
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
