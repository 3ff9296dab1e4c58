/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_who.c: whose exits are counted: which thread is whose vCPU, while VMs come and go, and
 * which of them -p, -v, -t, -T and --vm mean.
 */
#include "exits.h"

#include <sys/inotify.h>

/*
 * The counts know only thread ids, and a thread that has ended can no longer be looked up. So VMs
 * are looked at when counting begins and whenever debugfs gets or loses one, which inotify reports
 * at once; the vCPUs of a new one appear a little later, so there are a few more looks.
 *
 * debugfs is enough for nearly all, and reading every descriptor of every process of a busy host
 * takes longer than all the rest of a start. That is done only for those that need it.
 */

#define KVM_DIR	     "/sys/kernel/debug/kvm"
#define RESCAN_FIRST 10000000u	 /* ns after a VM came or went; then after four times that, ... */
#define RESCAN_IDLE  250000000u	 /* ... and from here on only while a vCPU has not run yet, ... */
#define RESCAN_LAST  2000000000u /* ... after twice that, and so on up to this */

void exits_who_begin(struct exits_run *x)
{
	vm_debugfs_mount();
	x->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (x->inotify_fd >= 0 &&
	    inotify_add_watch(x->inotify_fd, KVM_DIR, IN_CREATE | IN_DELETE | IN_ONLYDIR) < 0)
		util_close_fd(
			&x->inotify_fd); /* no debugfs: then threads are looked up when seen */
}

size_t exits_who_count(void)
{
	_cleanup_dir_ DIR *dir = opendir(KVM_DIR);
	struct dirent *e;
	struct stat st;
	size_t n = 0;

	/* A directory has a link from each of its own: one per vCPU. */
	while (dir && (e = readdir(dir)))
		if (strchr(e->d_name, '-') && !fstatat(dirfd(dir), e->d_name, &st, 0) &&
		    S_ISDIR(st.st_mode))
			n += st.st_nlink;
	return n;
}

static void note_vm(const struct exits_run *x, const struct exits_vm *vm, const char *what)
{
	if (!x->screen.on && x->begin_ns && !x->target.pid && !x->target.ntid)
		x->c->remark("VM %s%s%s%s %s", vm->sel, vm->name ? " (" : "", vm->name ?: "",
			     vm->name ? ")" : "", what);
}

/* Thread tid belongs to vm: that may be new, or the id was reused. */
static void who_set(struct exits *e, uint32_t tid, uint32_t vm, uint32_t vcpu, uint32_t pid)
{
	size_t at = exits_thread(e, tid);
	struct exits_thread *t;

	if (e->thread[at].vm != EXITS_NONE && e->thread[at].vm != vm)
		at = exits_thread_renew(e, tid);
	t = &e->thread[at];
	t->vm = vm;
	t->pid = pid;
	if (vcpu != EXITS_NONE)
		t->vcpu = vcpu;
}

static void who_vm(struct exits_run *x, const struct vm *vm)
{
	struct exits *e = &x->table;
	bool unknown = vm->n_vcpus == 0, never_ran = false;
	size_t vms = e->nvm;
	size_t at = exits_vm(e, vm->sel, vm->name, vm->uuid, vm->pid);

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
	if (unknown && vm_list_only(x->vms, vm->pid)) {
		_cleanup_free_ uint32_t *tid = NULL;
		uint32_t vcpu = EXITS_NONE;
		size_t n = 0, without = 0;

		/* If one vCPU's thread is unknown, it is whichever is seen to leave a guest. */
		if (vm_thread_ids(NULL, vm->pid, &tid, &n) == -ENOMEM)
			memory_out();
		for (size_t i = 0; i < vm->n_vcpus; i++)
			if (!vm->vcpu[i].tid)
				vcpu = without++ ? EXITS_NONE : vm->vcpu[i].id;
		for (size_t i = 0; i < n; i++)
			who_set(e, tid[i], (uint32_t)at, vcpu, vm->pid);
	}
	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (vm->vcpu[i].tid)
			who_set(e, vm->vcpu[i].tid, (uint32_t)at, vm->vcpu[i].id, vm->pid);
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

	x->looks++;
	for (size_t i = 0; i < x->vms->n; i++) {
		size_t at = exits_vm_find(e, x->vms->vm[i].sel);

		if (at != EXITS_NONE)
			e->vm[at].look = x->looks;
	}
	for (size_t i = 0; i < e->nvm; i++) {
		if (e->vm[i].ended || e->vm[i].look == x->looks)
			continue;
		e->vm[i].ended = 1;
		note_vm(x, &e->vm[i], "ended");
	}
	for (size_t i = 0; i < x->vms->n; i++)
		who_vm(x, &x->vms->vm[i]);
	return x->steal ? exits_steal_look(x) : 0;
}

int exits_who_scan(struct exits_run *x)
{
	/*
	 * The target may have needed the first list. No exits tell --steal of VMs that debugfs does
	 * not have.
	 */
	int ret = x->begin_ns || !x->vms ? exits_who_list(x, x->steal && !x->vms) : 0;

	return ret ?: who_update(x);
}

int exits_who_new(struct exits_run *x)
{
	struct exits *e = &x->table;
	int ret = 0;

	for (int all = 0; all < 2 && !ret; all++) {
		size_t i = x->looked;

		while (i < e->nthread && e->thread[i].vm != EXITS_NONE)
			i++;
		if (i >= e->nthread)
			break;
		ret = exits_who_list(x, all) ?: who_update(x);
	}
	/* Threads that the list of VMs does not have. */
	for (size_t i = x->looked; i < e->nthread; i++) {
		struct exits_thread *t = &e->thread[i];
		const struct vm *vm;
		struct vm_task task;

		if (t->vm != EXITS_NONE || vm_task_read(t->tid, &task, &t->start))
			continue;
		t->pid = task.tgid;
		vm = vm_list_only(x->vms, task.tgid);
		if (vm)
			t->vm = (uint32_t)exits_vm_find(e, vm->sel);
	}
	x->looked = e->nthread;
	return ret;
}

void exits_who_changed(struct exits_run *x)
{
	char buf[4096];

	while (read(x->inotify_fd, buf, sizeof(buf)) > 0)
		;
	/* A look that is due soon is not put off: who makes VMs all the time would hide others. */
	if (!x->rescan_ns || x->rescan_step > RESCAN_FIRST)
		x->rescan_ns = util_now_ns() + RESCAN_FIRST;
	x->rescan_step = RESCAN_FIRST;
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

/* ---- the target, and what is wrong with a request ---- */

static int target_tid(struct exits_run *x, uint32_t tid)
{
	struct exits_target *g = &x->target;
	size_t n = g->ntid;
	struct vm_task task;
	uint64_t start = 0;

	if (vm_task_read(tid, &task, &start))
		return err_set(x->err, ESRCH,
			       "no thread %" PRIu32 " (kvmft list shows those of all VMs)", tid);
	xarray_add(&g->tid_start, &n, &g->start_cap, &start, sizeof(start));
	xarray_add(&g->tid, &g->ntid, &g->tid_cap, &tid, sizeof(*g->tid));
	return 0;
}

static const struct vm *first_vm_of(const struct vm_list *l, uint32_t pid, size_t *n)
{
	const struct vm *found = NULL;

	*n = 0;
	for (size_t i = 0; i < l->n; i++) {
		if (l->vm[i].pid != pid)
			continue;
		found = found ?: &l->vm[i];
		++*n;
	}
	return found;
}

static int not_a_vm(struct exits_run *x, const struct vm_task *task, const char *what)
{
	if (vm_task_hidden(NULL, task->tgid))
		return err_lack(x->err, EPERM,
				"cannot tell whether %s %" PRIu32 " (%s) is a VM: its descriptors "
				"are hidden: run as root, with CAP_SYS_PTRACE",
				what, task->tid, task->comm);
	return err_set(x->err, ENOENT, "%s %" PRIu32 " (%s) is not a VM: process %" PRIu32
		       " holds no KVM descriptor (kvmft list shows the VMs)", what, task->tid,
		       task->comm, task->tgid);
}

/* The VM that -p or --vm means. *alone: its process has no other. */
static int who_find_vm(struct exits_run *x, const struct vm **vm, bool *alone)
{
	struct exits_target *g = &x->target;
	uint32_t pid = (uint32_t)x->c->pid.v;
	struct vm_task task;
	size_t n = 0;
	int ret;

	if (x->c->vm) {
		ret = vm_list_find(x->vms, x->c->vm, vm, x->err);
		if (ret)
			return ret;
		pid = (*vm)->pid;
	}
	if (vm_task_read(pid, &task, &g->start))
		return err_set(x->err, ESRCH, "no process %" PRIu32 " (kvmft list shows the VMs)",
			       pid);
	if (task.tgid != pid)
		return err_set(x->err, EINVAL,
			       "%" PRIu32 " is a thread of process %" PRIu32 ": use -t %" PRIu32
			       ", or -p %" PRIu32,
			       pid, task.tgid, pid, task.tgid);
	g->pid = pid;
	if (x->c->vm) {
		(void)first_vm_of(x->vms, pid, &n);
		if (n > 1)
			g->sel = xstrdup((*vm)->sel);
	} else {
		*vm = first_vm_of(x->vms, pid, &n);
		if (!*vm)
			return not_a_vm(x, &task, "PID");
	}
	*alone = n <= 1;
	return 0;
}

static int find_vcpu(struct exits_run *x, const struct vm *vm, bool alone)
{
	struct exits_target *g = &x->target;
	const struct vm_vcpu *v = NULL;
	_cleanup_(sbuf_free) struct sbuf have = { 0 };

	if (!alone && !x->c->vm)
		return err_set(x->err, EEXIST,
			       "PID %" PRIu32 " runs more than one VM, each may have a "
			       "vCPU %" PRIu64 ": choose one with --vm PID-FD (see kvmft list)",
			       g->pid, x->c->vcpu.v);
	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (vm->vcpu[i].id == x->c->vcpu.v)
			v = &vm->vcpu[i];
	if (!v) {
		/* "0-3, 8": ids ascend. */
		for (size_t i = 0; i < vm->n_vcpus; i++) {
			size_t last = i;

			while (last + 1 < vm->n_vcpus &&
			       vm->vcpu[last + 1].id == vm->vcpu[last].id + 1)
				last++;
			sbuf_addf(&have, "%s%" PRIu32, i ? ", " : "", vm->vcpu[i].id);
			if (last > i)
				sbuf_addf(&have, "-%" PRIu32, vm->vcpu[last].id);
			i = last;
		}
		return err_set(x->err, ENOENT, "PID %" PRIu32 " has no vCPU %" PRIu64 "; it has %s",
			       g->pid, x->c->vcpu.v,
			       have.len ? have.s : vm->note ?: "none yet");
	}
	/* Preferably by the event itself, which holds whatever thread runs the vCPU. */
	if (alone && x->exit->f[3].size) {
		snprintf(g->filter, sizeof(g->filter), "vcpu_id==%" PRIu32, v->id);
		return 0;
	}
	if (!v->tid)
		return err_lack(x->err, ENOENT,
				"the thread of vCPU %" PRIu32 " of %s is not known here: "
				"start QEMU with -name NAME,debug-threads=on, or use -t TID",
				v->id, vm->sel);
	return target_tid(x, v->tid);
}

/* Certainly a mistake: a thread that runs no vCPU. */
static int check_vcpu_thread(struct exits_run *x, uint32_t tid)
{
	_cleanup_(sbuf_free) struct sbuf have = { 0 };
	bool unknown = false;
	struct vm_task task;
	const struct vm *vm;
	uint64_t start;
	size_t n;

	if (vm_task_read(tid, &task, &start))
		return 0; /* target_tid() says so */
	vm = first_vm_of(x->vms, task.tgid, &n);
	if (!vm)
		return not_a_vm(x, &task, "TID");
	for (size_t k = 0; k < x->vms->n; k++) {
		const struct vm *m = &x->vms->vm[k];

		if (m->pid != task.tgid)
			continue;
		unknown |= m->n_vcpus == 0;
		for (size_t i = 0; i < m->n_vcpus; i++) {
			if (m->vcpu[i].tid == tid)
				return 0;
			unknown |= !m->vcpu[i].tid;
			sbuf_addf(&have, " %" PRIu32, m->vcpu[i].tid);
		}
	}
	return unknown ? 0
		       : err_set(x->err, ENOENT,
				 "TID %" PRIu32 " (%s) runs no vCPU; those of PID %" PRIu32
				 " run in%s",
				 tid, task.comm, task.tgid, have.s ?: "");
}

static int find_tids(struct exits_run *x)
{
	_cleanup_free_ char *text = xstrdup(x->c->tids);
	char *save, *word;
	int ret = 0;

	for (word = strtok_r(text, ", ", &save); word && !ret; word = strtok_r(NULL, ", ", &save)) {
		uint64_t tid;

		if (parse_u64(word, &tid) || !tid || tid > INT32_MAX)
			return err_usage(x->err, "option -T: '%s' is not a thread id", word);
		ret = check_vcpu_thread(x, (uint32_t)tid);
		ret = ret ?: target_tid(x, (uint32_t)tid);
	}
	if (!ret && !x->target.ntid)
		return err_usage(x->err, "option -T: no thread id in '%s'", x->c->tids);
	return ret;
}

static int find_process(struct exits_run *x)
{
	struct exits_target *g = &x->target;
	const struct exits_config *c = x->c;
	const struct vm *vm = NULL;
	bool alone = false;
	int ret = who_find_vm(x, &vm, &alone);

	if (ret)
		return ret;
	g->group = c->alltids ? EXITS_BY_THREAD : EXITS_BY_REASON;
	if (c->vm)
		sbuf_addf(&g->title, "VM %s%s%s%s", vm->sel, vm->name ? " (" : "",
			  vm->name ?: "", vm->name ? ")" : "");
	else
		sbuf_addf(&g->title, "PID %" PRIu32, g->pid);
	if (c->alltids)
		sbuf_add(&g->title, " and all its threads");
	if (!c->vcpu.set)
		return 0;
	sbuf_addf(&g->title, " VCPU %" PRIu64, c->vcpu.v);
	return find_vcpu(x, vm, alone);
}

static int find_in_list(struct exits_run *x)
{
	struct exits_target *g = &x->target;
	uint32_t *tid = NULL;
	int ret;

	if (x->c->tids) {
		g->threads = true;
		ret = find_tids(x);
		if (g->ntid == 1)
			g->group = EXITS_BY_REASON;
		sbuf_addf(&g->title, "%s %s", g->ntid == 1 ? "TID" : "TIDS", x->c->tids);
	} else {
		ret = find_process(x);
	}
	/* The threads that the kernel has to watch: all of a process, because vCPUs may appear. */
	if (!ret && g->ntid) {
		g->pids = xmalloc(g->ntid * sizeof(*g->pids));
		memcpy(g->pids, g->tid, g->ntid * sizeof(*g->pids));
		g->npids = g->ntid;
	} else if (!ret) {
		ret = vm_thread_ids(NULL, g->pid, &tid, &g->npids);
		g->pids = (int32_t *)tid; /* thread ids are positive: the same bits */
		ret = err_why(x->err, ret, "cannot list the threads of process %" PRIu32, g->pid);
	}
	return ret ?: g->title.error;
}

int exits_target_find(struct exits_run *x)
{
	int ret;

	if (!x->c->tids && !x->c->pid.set && !x->c->vm) {
		/* Looking at VMs can wait until counting has begun. */
		sbuf_add(&x->target.title, "all threads");
		return x->target.title.error;
	}
	ret = exits_who_list(x, false);
	if (ret)
		return ret;
	ret = find_in_list(x);
	if (!ret)
		return 0;
	/* "No such VM" is never reported without a look at all processes. */
	*x->err = (struct kvmft_err){ .text = "" };
	exits_target_free(&x->target);
	x->target = (struct exits_target){ 0 };
	ret = exits_who_list(x, true);
	return ret ?: find_in_list(x);
}

bool exits_wanted(const void *ctx, const struct exits *e, const struct exits_thread *t)
{
	const struct exits_run *x = ctx;
	const struct exits_target *g = &x->target;

	for (size_t i = 0; i < g->ntid; i++)
		if ((uint32_t)g->tid[i] == t->tid)
			return true;
	if (g->ntid)
		return false;
	/* A thread that was gone before it could be looked up: the kernel chose it by our list. */
	if (g->pid && t->pid && t->pid != g->pid)
		return false;
	/* Not all events name the vCPU that the filter of the others lets through. */
	if (x->c->vcpu.set && (t->vcpu != EXITS_NONE ? t->vcpu != x->c->vcpu.v : !t->exits))
		return false;
	return !g->sel || (t->vm != EXITS_NONE && !strcmp(e->vm[t->vm].sel, g->sel));
}

static bool task_gone(uint32_t tid, uint64_t start)
{
	struct vm_task task;
	uint64_t now;

	return vm_task_read(tid, &task, &now) == -ESRCH || (start && now != start);
}

bool exits_target_gone(const struct exits_run *x)
{
	const struct exits_target *g = &x->target;
	const struct exits *e = &x->table;
	bool had = false, has = false;

	for (size_t i = 0; i < g->ntid; i++)
		if (!task_gone((uint32_t)g->tid[i], g->tid_start[i]))
			return false;
	if (g->ntid || !g->pid)
		return g->ntid != 0;
	/* A process that has not been waited for still exists, but its VM does not. */
	for (size_t i = 0; i < e->nvm; i++) {
		had |= e->vm[i].pid == g->pid;
		has |= e->vm[i].pid == g->pid && !e->vm[i].ended;
	}
	return task_gone(g->pid, g->start) || (had && !has);
}

void exits_target_free(struct exits_target *g)
{
	sbuf_free(&g->title);
	free(g->sel);
	free(g->tid);
	free(g->tid_start);
	free(g->pids);
}
