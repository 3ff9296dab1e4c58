/* SPDX-License-Identifier: GPL-2.0-or-later */
/* exits_target.c: whose exits are counted, and telling users what is wrong with their request. */
#include "exits.h"

#include <inttypes.h>

/* ---- looking at the machine ---- */

static int tid_add(struct exits_run *x, uint32_t tid)
{
	struct exits_target *g = &x->target;
	size_t n = g->ntid;
	struct vm_task task;
	uint64_t start = 0;

	if (vm_task_read(NULL, tid, &task, &start))
		return err_set(x->err, ESRCH,
			       "no thread %" PRIu32 " (kvmft list shows those of all VMs)", tid);
	if (array_add(&g->tid_start, &n, &g->start_cap, &start, sizeof(start)) ||
	    array_add(&g->tid, &g->ntid, &g->tid_cap, &tid, sizeof(*g->tid)))
		return err_set(x->err, ENOMEM, "out of memory");
	return 0;
}

/* "0-3, 8": ids ascend. */
static void add_ranges(struct sbuf *b, const struct vm *vm)
{
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		size_t last = i;

		while (last + 1 < vm->n_vcpus && vm->vcpu[last + 1].id == vm->vcpu[last].id + 1)
			last++;
		sbuf_addf(b, "%s%" PRIu32, i ? ", " : "", vm->vcpu[i].id);
		if (last > i)
			sbuf_addf(b, "-%" PRIu32, vm->vcpu[last].id);
		i = last;
	}
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
static int find_vm(struct exits_run *x, const struct vm **vm, bool *alone)
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
	if (vm_task_read(NULL, pid, &task, &g->start))
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
			g->sel = strdup((*vm)->sel);
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
		add_ranges(&have, vm);
		return err_set(x->err, ENOENT, "PID %" PRIu32 " has no vCPU %" PRIu64 "; it has %s",
			       g->pid, x->c->vcpu.v,
			       have.len ? have.s : vm->note ?: "none yet");
	}
	/* Preferably by the event itself, which holds whatever thread runs the vCPU. */
	if (alone && x->exit.f[3].size) {
		snprintf(g->filter, sizeof(g->filter), "vcpu_id==%" PRIu32, v->id);
		return 0;
	}
	if (!v->tid)
		return err_lack(x->err, ENOENT,
				"the thread of vCPU %" PRIu32 " of %s is not known here: "
				"start QEMU with -name NAME,debug-threads=on, or use -t TID",
				v->id, vm->sel);
	return tid_add(x, v->tid);
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

	if (vm_task_read(NULL, tid, &task, &start))
		return 0; /* told by tid_add() */
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
	_cleanup_free_ char *text = strdup(x->c->tids);
	char *save, *word;
	int ret = 0;

	if (!text)
		return err_set(x->err, ENOMEM, "out of memory");
	for (word = strtok_r(text, ", ", &save); word && !ret; word = strtok_r(NULL, ", ", &save)) {
		uint64_t tid;

		if (parse_u64(word, &tid) || !tid || tid > INT32_MAX)
			return err_usage(x->err, "option -T: '%s' is not a thread id", word);
		ret = check_vcpu_thread(x, (uint32_t)tid);
		ret = ret ?: tid_add(x, (uint32_t)tid);
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
	int ret = find_vm(x, &vm, &alone);

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

/* The threads that the kernel has to watch: all of a process, because vCPUs may appear. */
static int find_pids(struct exits_run *x)
{
	struct exits_target *g = &x->target;
	uint32_t *tid = NULL;
	int ret;

	if (g->ntid) {
		g->pids = malloc(g->ntid * sizeof(*g->pids));
		if (!g->pids)
			return err_set(x->err, ENOMEM, "out of memory");
		memcpy(g->pids, g->tid, g->ntid * sizeof(*g->pids));
		g->npids = g->ntid;
		return 0;
	}
	ret = vm_thread_ids(NULL, g->pid, &tid, &g->npids);
	g->pids = (int32_t *)tid; /* thread ids are positive: the same bits */
	return err_why(x->err, ret, "cannot list the threads of process %" PRIu32, g->pid);
}

static int find_in_list(struct exits_run *x)
{
	struct exits_target *g = &x->target;
	int ret;

	if (x->c->tid.set) {
		g->threads = true;
		g->group = EXITS_BY_REASON;
		sbuf_addf(&g->title, "TID %" PRIu64, x->c->tid.v);
		ret = check_vcpu_thread(x, (uint32_t)x->c->tid.v);
		ret = ret ?: tid_add(x, (uint32_t)x->c->tid.v);
	} else if (x->c->tids) {
		g->threads = true;
		sbuf_addf(&g->title, "TIDS %s", x->c->tids);
		ret = find_tids(x);
	} else {
		ret = find_process(x);
	}
	ret = ret ?: find_pids(x);
	return ret ?: g->title.error;
}

int exits_target_find(struct exits_run *x)
{
	int ret;

	if (!x->c->tid.set && !x->c->tids && !x->c->pid.set && !x->c->vm) {
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

	return vm_task_read(NULL, tid, &task, &now) == -ESRCH || (start && now != start);
}

/* A process that has not been waited for still exists, but its VM does not. */
static bool vms_gone(const struct exits *e, uint32_t pid)
{
	size_t had = 0;

	for (size_t i = 0; i < e->nvm; i++) {
		if (e->vm[i].pid != pid)
			continue;
		if (!e->vm[i].ended)
			return false;
		had++;
	}
	return had != 0;
}

bool exits_target_gone(const struct exits_run *x)
{
	const struct exits_target *g = &x->target;

	for (size_t i = 0; i < g->ntid; i++)
		if (!task_gone((uint32_t)g->tid[i], g->tid_start[i]))
			return false;
	if (g->ntid)
		return true;
	return g->pid && (task_gone(g->pid, g->start) || vms_gone(&x->table, g->pid));
}

void exits_target_free(struct exits_target *g)
{
	sbuf_free(&g->title);
	free(g->sel);
	free(g->tid);
	free(g->tid_start);
	free(g->pids);
}
