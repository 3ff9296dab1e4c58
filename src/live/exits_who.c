/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_who.c: which thread is whose vCPU, while VMs come and go.
 *
 * The counts know only thread ids, and a thread that has ended can no longer be looked up. So VMs
 * are looked at when counting begins and whenever debugfs gets or loses one, which inotify reports
 * at once; the vCPUs of a new one appear a little later, so there are a few more looks.
 *
 * debugfs is enough for nearly all, and reading every descriptor of every process of a busy host
 * takes longer than all the rest of a start. That is done only for those that need it.
 */
#include "exits.h"

#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define KVM_DIR	     "/sys/kernel/debug/kvm"
#define RESCAN_FIRST 10000000u	 /* ns after a VM came or went; then after four times that, ... */
#define RESCAN_IDLE  250000000u	 /* ... and from here on only while a vCPU has not run yet, ... */
#define RESCAN_LAST  2000000000u /* ... after twice that, and so on up to this */

void exits_who_begin(struct exits_run *x)
{
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0; /* vm_scan() says what that means */
	x->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (x->inotify_fd >= 0 &&
	    inotify_add_watch(x->inotify_fd, KVM_DIR, IN_CREATE | IN_DELETE | IN_ONLYDIR) < 0)
		util_close_fd(
			&x->inotify_fd); /* no debugfs: then threads are looked up when seen */
}

size_t exits_who_count(void)
{
	DIR *dir = opendir(KVM_DIR);
	struct dirent *e;
	struct stat st;
	size_t n = 0;

	/* A directory has a link from each of its own: one per vCPU. */
	while (dir && (e = readdir(dir)))
		if (strchr(e->d_name, '-') && !fstatat(dirfd(dir), e->d_name, &st, 0) &&
		    S_ISDIR(st.st_mode))
			n += st.st_nlink;
	if (dir)
		closedir(dir);
	return n;
}

static void note_vm(const struct exits_run *x, const struct exits_vm *vm, const char *what)
{
	if (!x->screen.on && x->begin_ns && !x->target.pid && !x->target.ntid)
		x->note("VM %s%s%s%s %s", vm->sel, vm->name ? " (" : "", vm->name ?: "",
			 vm->name ? ")" : "", what);
}

/* Thread tid belongs to vm: that may be new, or the id was reused. */
static int who_set(struct exits *e, uint32_t tid, uint32_t vm, uint32_t vcpu, uint32_t pid)
{
	int64_t at = exits_thread(e, tid);
	struct exits_thread *t;

	if (at >= 0 && e->thread[at].vm != EXITS_NONE && e->thread[at].vm != vm)
		at = exits_thread_renew(e, tid);
	if (at < 0)
		return -ENOMEM;
	t = &e->thread[at];
	t->vm = vm;
	t->pid = pid;
	if (vcpu != EXITS_NONE)
		t->vcpu = vcpu;
	return 0;
}

static bool one_vm(const struct vm_list *l, uint32_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->vm[i].pid == pid;
	return n == 1;
}

/* The one vCPU whose thread is unknown; EXITS_NONE if there is none, or several. */
static uint32_t who_is_left(const struct vm *vm)
{
	uint32_t id = EXITS_NONE;
	size_t n = 0;

	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (!vm->vcpu[i].tid) {
			id = vm->vcpu[i].id;
			n++;
		}
	return n == 1 ? id : EXITS_NONE;
}

/*
 * A vCPU whose thread is unknown: any thread of the process may be it. If it is the only one,
 * whichever of them is seen to leave a guest is it.
 */
static int who_process(struct exits *e, const struct vm *vm, uint32_t at)
{
	uint32_t vcpu = who_is_left(vm);
	_cleanup_free_ uint32_t *tid = NULL;
	size_t n = 0;
	int ret = vm_thread_ids(NULL, vm->pid, &tid, &n);

	for (size_t i = 0; i < n && !ret; i++)
		ret = who_set(e, tid[i], at, vcpu, vm->pid);
	return ret == -ENOMEM ? ret : 0;
}

static int who_vm(struct exits_run *x, const struct vm *vm)
{
	struct exits *e = &x->table;
	bool unknown = vm->n_vcpus == 0, never_ran = false;
	size_t vms = e->nvm;
	int64_t at = exits_vm(e, vm->sel, vm->name, vm->uuid, vm->pid);
	int ret = 0;

	if (at < 0)
		return (int)at;
	if (e->nvm > vms)
		note_vm(x, &e->vm[at], "started");
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		unknown |= !vm->vcpu[i].tid;
		never_ran |= vm->vcpu[i].tid_source == VM_TID_NEVER_RAN;
	}
	if (never_ran && !x->rescan_ns) {
		x->rescan_step = MAX(2 * x->rescan_step, (uint64_t)RESCAN_IDLE);
		x->rescan_step = MIN(x->rescan_step, (uint64_t)RESCAN_LAST);
		x->rescan_ns = util_now_ns() + x->rescan_step;
	}
	if (unknown && one_vm(x->vms, vm->pid))
		ret = who_process(e, vm, (uint32_t)at);
	for (size_t i = 0; i < vm->n_vcpus && !ret; i++)
		if (vm->vcpu[i].tid)
			ret = who_set(e, vm->vcpu[i].tid, (uint32_t)at, vm->vcpu[i].id, vm->pid);
	return ret;
}

static bool still_there(const struct vm_list *l, const char *sel)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->vm[i].sel, sel))
			return true;
	return false;
}

int exits_who_list(struct exits_run *x, bool all)
{
	struct vm_list *list = NULL;
	int ret;

	all |= x->undirected;
	ret = all ? vm_scan(NULL, &list, x->err) : vm_scan_told(NULL, &list, x->err);
	if (ret)
		return ret;
	vm_list_free(x->vms);
	x->vms = list;
	/* From now on only a look at all processes shows whether that one still exists. */
	for (size_t i = 0; i < list->n; i++)
		x->undirected |= !list->vm[i].has_debugfs;
	return 0;
}

/* The table learns from x->vms. */
static int who_update(struct exits_run *x)
{
	struct exits *e = &x->table;
	int ret = 0;

	for (size_t i = 0; i < e->nvm; i++) {
		if (e->vm[i].ended || still_there(x->vms, e->vm[i].sel))
			continue;
		e->vm[i].ended = 1;
		note_vm(x, &e->vm[i], "ended");
	}
	for (size_t i = 0; i < x->vms->n && !ret; i++)
		ret = who_vm(x, &x->vms->vm[i]);
	return ret ? err_set(x->err, ENOMEM, "out of memory") : 0;
}

int exits_who_scan(struct exits_run *x)
{
	/* The target may have needed the first list. */
	int ret = x->begin_ns || !x->vms ? exits_who_list(x, false) : 0;

	return ret ?: who_update(x);
}

/* A thread that the list of VMs does not have. */
static void who_ask(struct exits_run *x, struct exits_thread *t)
{
	struct exits *e = &x->table;
	struct vm_task task;

	if (vm_task_read(NULL, t->tid, &task, &t->start))
		return;
	t->pid = task.tgid;
	if (!one_vm(x->vms, task.tgid))
		return;
	for (size_t i = 0; i < e->nvm; i++)
		if (e->vm[i].pid == task.tgid && !e->vm[i].ended)
			t->vm = (uint32_t)i;
}

static bool is_any_unknown(const struct exits_run *x)
{
	for (size_t i = x->looked; i < x->table.nthread; i++)
		if (x->table.thread[i].vm == EXITS_NONE)
			return true;
	return false;
}

int exits_who_new(struct exits_run *x)
{
	struct exits *e = &x->table;
	int ret = 0;

	for (int all = 0; all < 2 && !ret && is_any_unknown(x); all++) {
		ret = exits_who_list(x, all);
		ret = ret ?: who_update(x);
	}
	for (size_t i = x->looked; i < e->nthread; i++)
		if (e->thread[i].vm == EXITS_NONE)
			who_ask(x, &e->thread[i]);
	x->looked = e->nthread;
	return ret;
}

void exits_who_changed(struct exits_run *x)
{
	char buf[4096];

	while (read(x->inotify_fd, buf, sizeof(buf)) > 0)
		;
	x->rescan_step = RESCAN_FIRST;
	x->rescan_ns = util_now_ns() + x->rescan_step;
}

int exits_who_tick(struct exits_run *x)
{
	uint64_t now = util_now_ns();

	if (!x->rescan_ns || now < x->rescan_ns)
		return 0;
	/* The steps after a change come first; a vCPU that never ran asks for more. */
	x->rescan_ns = 0;
	if (x->rescan_step < RESCAN_IDLE) {
		x->rescan_step *= 4;
		x->rescan_ns = now + x->rescan_step;
	}
	return exits_who_scan(x);
}
