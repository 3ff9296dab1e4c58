/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan.c: joins what debugfs and /proc say into one list of VMs.
 *
 * 1. every kvm/<PID>-<FD> directory is a VM, with exact vCPU ids and clocks;
 * 2. every process with KVM descriptors is noted;
 * 3. <PID> is the thread that called KVM_CREATE_VM: it may be no thread group leader, may have
 *    ended, and its number may be in use again, so the process found is checked against 2;
 * 4. descriptors of VMs that have no directory become VMs too, unless they are second descriptors
 *    (dup, fork) of a VM known already;
 * 5. names, UUIDs and missing thread ids come from the process.
 */
#include "kvmft/vm.h"
#include "kvmft/vmsel.h"

#include <sys/syscall.h>

/* From include/uapi/linux/kcmp.h, which not every libc's kernel headers ship. */
#define KCMP_FILE_TYPE 0

struct scan {
	struct vm_roots roots;
	int procfd, kvmfd;
	bool told; /* only what debugfs shows, if it does */
	bool vcpu_dirs; /* debugfs shows vCPUs of a VM */
	uint32_t only; /* VMs made by this thread; 0: all */
	unsigned int patience; /* ms, see vm_proc_memory() */
	struct vm_list *list;
	struct vm_procs procs;
};

static struct vm *scan_add_vm(struct scan *s, uint32_t dir_pid, uint32_t fd)
{
	struct vm *vm = array_grow(&s->list->vm, s->list->n, &s->list->cap, sizeof(*vm));
	char sel[32];

	if (!vm)
		return NULL;
	snprintf(sel, sizeof(sel), "%u-%u", dir_pid, fd);
	vm->dir_pid = dir_pid;
	vm->pid = dir_pid;
	vm->fd = fd;
	vm->sel = strdup(sel);
	if (!vm->sel)
		return NULL;
	s->list->n++;
	return vm;
}

static bool list_full(struct scan *s)
{
	if (s->list->n < VM_MAX_VMS)
		return false;
	s->list->truncated = true;
	return true;
}

/* ---- 1: debugfs ---- */

bool vm_name_parse(const char *name, uint32_t *pid, uint32_t *fd)
{
	return vm_text_u32(&name, pid) && *name++ == '-' && vm_text_u32(&name, fd) && !*name;
}

static int scan_debugfs(struct scan *s)
{
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *de;
	int ret = 0;

	s->kvmfd = vm_debugfs_open(&s->roots, &s->list->debugfs, &s->list->debugfs_text);
	if (s->kvmfd < 0)
		return s->list->debugfs_text ? 0 : -ENOMEM;
	dir = dir_open(s->kvmfd, ".");
	if (!dir)
		return -errno;
	while (!ret && (de = readdir(dir))) {
		uint32_t pid, fd;
		struct vm *vm;

		if (!vm_name_parse(de->d_name, &pid, &fd) || (s->only && s->only != pid))
			continue;
		if (list_full(s))
			break;
		vm = scan_add_vm(s, pid, fd);
		ret = vm ? vm_debugfs_read_vm(s->kvmfd, vm) : -ENOMEM;
		if (ret == -ENOENT) { /* ended since it was listed */
			vm_free_members(vm);
			s->list->n--;
			ret = 0;
		} else if (ret != -ENOMEM) {
			vm->has_debugfs = !ret;
			ret = ret ? vm_add_note(vm, "cannot list debugfs kvm/%s: %s", vm->sel,
						strerror(-ret))
				  : 0;
		}
	}
	return ret;
}

/* ---- 3: whose VM is it ---- */

static bool is_claimed(const struct scan *s, uint32_t pid, uint32_t fd)
{
	for (size_t i = 0; i < s->list->n; i++) {
		const struct vm *vm = &s->list->vm[i];

		if (vm->pid_sure && vm->pid == pid && vm->fd == fd)
			return true;
	}
	return false;
}

static void own_fd(struct vm *vm, uint32_t pid)
{
	vm->pid = pid;
	vm->pid_sure = true;
}

static bool resolve_by_creator(const struct scan *s, struct vm *vm)
{
	uint32_t tgid;

	if (vm_proc_tgid(s->procfd, vm->dir_pid, &tgid))
		return false;
	vm->pid = tgid;
	if (!vm_proc_has_vm_fd(vm_procs_get(&s->procs, tgid), vm->fd))
		return false;
	own_fd(vm, tgid);
	return true;
}

static bool resolve_by_vcpus(const struct scan *s, struct vm *vm)
{
	uint32_t tgid;

	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		if (v->tid_source != VM_TID_DEBUGFS || vm_proc_tgid(s->procfd, v->tid, &tgid))
			continue;
		if (!vm_procs_get(&s->procs, tgid))
			continue;
		own_fd(vm, tgid);
		return true;
	}
	return false;
}

/* The only process with a VM at this descriptor number that is not another one's. */
static bool resolve_by_fd(const struct scan *s, struct vm *vm)
{
	uint32_t pid = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->procs.n; i++) {
		const struct vm_proc *p = &s->procs.v[i];

		if (!vm_proc_has_vm_fd(p, vm->fd) || is_claimed(s, p->pid, vm->fd))
			continue;
		pid = p->pid;
		n++;
	}
	if (n != 1)
		return false;
	own_fd(vm, pid);
	return true;
}

/* ---- 2: who has KVM descriptors ---- */

/*
 * Looks only at the processes of VMs that debugfs shows: by the thread that created the VM, and by
 * a vCPU's thread, in case the first one is gone. *all: each VM found its process, or looking at
 * more of them is useless because their descriptors are hidden from us.
 */
static int look_at_told(struct scan *s, bool *all)
{
	size_t n = 0, cap = 0;
	uint32_t *pid = NULL;
	int ret = 0;

	for (size_t i = 0; i < s->list->n && !ret; i++) {
		const struct vm *vm = &s->list->vm[i];
		uint32_t tid[] = { vm->dir_pid, vm->n_vcpus ? vm->vcpu[0].tid : 0 };

		for (size_t k = 0; k < ARRAY_SIZE(tid) && !ret; k++) {
			uint32_t *slot = array_grow(&pid, n, &cap, sizeof(*pid));

			if (!slot)
				ret = -ENOMEM;
			else if (tid[k] && !vm_proc_tgid(s->procfd, tid[k], slot))
				n++;
		}
	}
	ret = ret ?: vm_procs_scan_some(s->procfd, pid, n, &s->procs);
	free(pid);
	for (size_t i = 0; i < s->list->n; i++)
		*all &= resolve_by_creator(s, &s->list->vm[i]) ||
			resolve_by_vcpus(s, &s->list->vm[i]);
	*all |= s->procs.n_hidden != 0;
	return ret;
}

static int look_at_processes(struct scan *s)
{
	bool all = s->told && s->list->debugfs == VM_DEBUGFS_OK;
	int ret;

	if (s->only)
		return look_at_told(s, &all);
	if (all) {
		ret = look_at_told(s, &all);
		if (ret || all)
			return ret;
		vm_procs_free(&s->procs);
	}
	return vm_procs_scan(s->procfd, &s->procs);
}

/* ---- 4: VMs without a directory ---- */

enum same { SAME_NO, SAME_YES, SAME_UNKNOWN };

/*
 * *vm is the VM that the descriptor is, or may be, a copy of. Only the kernel can tell copies of a
 * descriptor from a second VM; a fixture cannot.
 */
static enum same find_same(const struct scan *s, uint32_t pid, uint32_t fd, struct vm **vm)
{
	const bool real = !strcmp(s->roots.proc, "/proc");
	enum same best = SAME_NO;

	for (size_t i = 0; i < s->list->n; i++) {
		struct vm *other = &s->list->vm[i];
		enum same same = SAME_UNKNOWN;
		long ret = -1;

		if (!other->pid_sure)
			continue;
		if (real)
			ret = syscall(SYS_kcmp, (long)pid, (long)other->pid, (long)KCMP_FILE_TYPE,
				      (unsigned long)fd, (unsigned long)other->fd);
		if (ret >= 0)
			same = ret ? SAME_NO : SAME_YES;
		if (same == SAME_NO || (same == SAME_UNKNOWN && other->pid != pid))
			continue;
		*vm = other;
		best = same;
		if (same == SAME_YES)
			break;
	}
	return best;
}

static int add_without_directory(struct scan *s, uint32_t pid, uint32_t fd)
{
	struct vm *vm = scan_add_vm(s, pid, fd);

	if (!vm)
		return -ENOMEM;
	own_fd(vm, pid);
	if (s->list->debugfs != VM_DEBUGFS_OK)
		return vm_add_note(vm, "no TSC offsets: %s", s->list->debugfs_text);
	return vm_add_note(vm, "no TSC offsets: no directory kvm/%s in debugfs (kernel log: "
			       "\"duplicate directory\"?)", vm->sel);
}

static int consider_vm_fd(struct scan *s, uint32_t pid, uint32_t fd)
{
	struct vm *other = NULL;
	enum same same;
	int ret;

	if (is_claimed(s, pid, fd))
		return 0;
	same = find_same(s, pid, fd, &other);
	if (same == SAME_YES)
		return 0;
	/* if directories work, a copy is far more likely than a VM without one */
	if (same == SAME_UNKNOWN && s->list->debugfs == VM_DEBUGFS_OK)
		return vm_add_note(other, "descriptor %u of process %u is either a copy or another "
					  "VM (cannot compare)", fd, pid);
	if (list_full(s))
		return 0;
	ret = add_without_directory(s, pid, fd);
	if (!ret && same == SAME_UNKNOWN)
		ret = vm_add_note(&s->list->vm[s->list->n - 1],
				  "may be a copy of another VM's descriptor (cannot compare)");
	return ret;
}

static size_t count_vms_of(const struct scan *s, uint32_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < s->list->n; i++)
		n += s->list->vm[i].pid == pid;
	return n;
}

/* debugfs has no vCPU directories on arm64. */
static int fill_vcpus(struct scan *s, struct vm *vm)
{
	const struct vm_proc *p = vm_procs_get(&s->procs, vm->pid);
	bool nameless = false;
	struct vm_vcpu *v;

	if (vm->n_vcpus || (vm->has_debugfs && s->vcpu_dirs) || !p)
		return 0;
	if (count_vms_of(s, vm->pid) > 1)
		return vm_add_note(vm, "vCPUs unknown: without debugfs those of several VMs in one "
				       "process cannot be told apart");
	for (size_t k = 0; k < p->n && vm->n_vcpus < VM_MAX_VCPUS; k++) {
		bool known = false;

		if (p->fd[k].is_vm)
			continue;
		nameless |= !p->fd[k].has_vcpu_id;
		for (size_t i = 0; i < vm->n_vcpus; i++)
			known |= vm->vcpu[i].id == p->fd[k].vcpu_id;
		if (!p->fd[k].has_vcpu_id || known)
			continue;
		v = array_grow(&vm->vcpu, vm->n_vcpus, &vm->cap_vcpus, sizeof(*v));
		if (!v)
			return -ENOMEM;
		v->id = p->fd[k].vcpu_id;
		vm->n_vcpus++;
	}
	array_sort(vm->vcpu, vm->n_vcpus, vm_vcpu_compare);
	return nameless ? vm_add_note(vm, "this kernel does not show vCPU ids in /proc") : 0;
}

/* ---- 5: who is it ---- */

/* Which thread runs which vCPU, by the names VMMs give their threads: a hint only. */

struct found {
	uint32_t number, tid;
};

struct collect {
	const struct vmsel_comm *pattern; /* of the first thread that matched any */
	struct found *v;
	size_t n, cap;
};

static int collect_task(const struct vm_task *task, void *ctx)
{
	struct collect *c = ctx;
	uint32_t number;
	const struct vmsel_comm *p = vmsel_vcpu(task->comm, &number);

	if (!p || (c->pattern && c->pattern != p))
		return 0;
	c->pattern = p;
	return array_add(&c->v, &c->n, &c->cap, &(struct found){ number, task->tid },
			 sizeof(*c->v));
}

COMPARE_BY(compare_number, struct found, .number);

static bool unique(const struct collect *c, size_t i)
{
	return (i == 0 || c->v[i - 1].number != c->v[i].number) &&
	       (i + 1 == c->n || c->v[i + 1].number != c->v[i].number);
}

/* Gives vCPUs without a thread the one named like them; only for a process with one VM. */
static int threads_guess(const struct vm_roots *roots, struct vm *vm)
{
	struct collect c = { 0 };
	bool gaps = vm->n_vcpus && vm->vcpu[vm->n_vcpus - 1].id != vm->n_vcpus - 1, in_order;
	size_t known = 0;
	int ret;

	while (known < vm->n_vcpus && vm->vcpu[known].tid_source != VM_TID_UNKNOWN)
		known++;
	if (known == vm->n_vcpus)
		return 0;
	ret = vm_tasks_walk(roots, vm->pid, collect_task, &c);
	c.n = ret ? 0 : c.n;
	array_sort(c.v, c.n, compare_number);
	/* CPUs and APIC ids ascend together; if any are missing, nothing can be said. */
	in_order = c.n && c.pattern->is_index && gaps;
	for (size_t i = 0; in_order && i < c.n; i++)
		if (c.n != vm->n_vcpus || !unique(&c, i))
			c.n = 0;
	for (size_t i = 0; i < c.n; i++) {
		const struct vm_vcpu key = { .id = c.v[i].number };
		struct vm_vcpu *v = in_order ? &vm->vcpu[i] : NULL;

		if (!in_order && vm->n_vcpus && unique(&c, i))
			v = bsearch(&key, vm->vcpu, vm->n_vcpus, sizeof(key), vm_vcpu_compare);
		if (!v || v->tid_source != VM_TID_UNKNOWN)
			continue;
		v->tid = c.v[i].tid;
		v->tid_source = VM_TID_THREAD_NAME;
	}
	free(c.v);
	return ret == -ENOMEM ? ret : 0;
}

static int identify(struct scan *s, struct vm *vm)
{
	_cleanup_free_ char *args = NULL;
	struct vm_ident id;
	struct proc_stat st;
	ssize_t len;
	int ret;

	vm->vmm = vm_proc_vmm(s->procfd, vm->pid);
	if (!vm->vmm)
		return -ENOMEM;
	vm->has_uid = !vm_proc_uid(s->procfd, vm->pid, &vm->uid);
	if (!proc_stat(s->procfd, vm->pid, &st)) {
		vm->start_time = st.start;
		if (st.ppid && !vm_proc_comm(s->procfd, TEXTF("%u/comm", st.ppid), vm->starter,
					     sizeof(vm->starter)))
			vm->parent = st.ppid;
	}
	len = vm_proc_cmdline(s->procfd, vm->pid, &s->patience, &args);
	if (len == -ENOMEM)
		return -ENOMEM;
	ret = len == -ETIMEDOUT ? vm_add_note(vm, "name unknown: process %u lets nobody read its "
						  "command line", vm->pid) : 0;
	if (ret)
		return ret;
	if (len > 0) {
		ret = vm_cmdline_parse(args, (size_t)len, vm->vmm, &id);
		if (ret)
			return ret;
		vm->name = id.name;
		vm->uuid = id.uuid;
	}
	ret = fill_vcpus(s, vm);
	/* a thread's name says the vCPU, not which VM of the process */
	if (!ret && count_vms_of(s, vm->pid) == 1)
		ret = threads_guess(&s->roots, vm);
	return ret;
}

COMPARE(compare_vm, struct vm,
	ORDER(x->pid, y->pid) ?: ORDER(x->fd, y->fd) ?: ORDER(x->dir_pid, y->dir_pid));

static int scan_all(struct scan *s)
{
	char line[64];
	int ret = scan_debugfs(s);

	for (size_t i = 0; i < s->list->n; i++)
		s->vcpu_dirs |= s->list->vm[i].n_vcpus > 0;
	ret = ret ?: look_at_processes(s);
	for (size_t i = 0; i < s->list->n && !ret; i++)
		if (!resolve_by_creator(s, &s->list->vm[i]))
			resolve_by_vcpus(s, &s->list->vm[i]);
	/* last, because it depends on what the others have left */
	for (size_t i = 0; i < s->list->n && !ret; i++) {
		struct vm *vm = &s->list->vm[i];

		if (!vm->pid_sure && !resolve_by_fd(s, vm))
			ret = vm_add_note(vm,
					  "process %u is assumed: it shows no KVM descriptor %u",
					  vm->pid, vm->fd);
	}
	/* With only some, descriptors of all others would look like VMs without a directory. */
	for (size_t i = 0; i < s->procs.n && !ret && !s->only; i++) {
		const struct vm_proc *p = &s->procs.v[i];

		for (size_t k = 0; k < p->n && !ret; k++)
			if (p->fd[k].is_vm)
				ret = consider_vm_fd(s, p->pid, p->fd[k].fd);
		/* a VMM may close the VM and continue with its vCPUs */
		if (ret || s->list->debugfs == VM_DEBUGFS_OK || count_vms_of(s, p->pid) ||
		    list_full(s))
			continue;
		ret = add_without_directory(s, p->pid, p->fd[0].fd);
		if (!ret)
			ret = vm_add_note(&s->list->vm[s->list->n - 1],
					  "the VM's own descriptor is closed, FD is a vCPU's");
	}
	for (size_t i = 0; i < s->list->n && !ret; i++)
		ret = identify(s, &s->list->vm[i]);
	s->list->n_hidden = s->procs.n_hidden;
	s->list->truncated |= s->procs.truncated;
	array_sort(s->list->vm, s->list->n, compare_vm);
	vm_sys_clocksource(&s->roots, line, sizeof(line));
	s->list->clocksource = line[0] ? strdup(line) : NULL;
	return ret;
}

static int scan(const struct vm_roots *roots, bool told, uint32_t only, struct vm_list **list,
		struct kvmft_err *err)
{
	struct scan s = {
		.roots = vm_roots_fill(roots),
		.procfd = -1,
		.kvmfd = -1,
		.told = told,
		.only = only,
		.patience = VM_PATIENCE_MS,
	};
	int ret;

	s.procfd = vm_proc_open(&s.roots);
	if (s.procfd < 0)
		return err_why(err, s.procfd, "cannot open %s", s.roots.proc);
	s.list = calloc(1, sizeof(*s.list));
	ret = s.list ? scan_all(&s) : -ENOMEM;
	vm_procs_free(&s.procs);
	util_close_fd(&s.kvmfd);
	util_close_fd(&s.procfd);
	if (ret) {
		vm_list_free(s.list);
		return err_why(err, ret, "cannot look for VMs in %s and %s", s.roots.proc,
			       s.roots.debugfs);
	}
	*list = s.list;
	return 0;
}

int vm_scan(const struct vm_roots *roots, struct vm_list **list, struct kvmft_err *err)
{
	return scan(roots, false, 0, list, err);
}

int vm_scan_told(const struct vm_roots *roots, struct vm_list **list, struct kvmft_err *err)
{
	return scan(roots, true, 0, list, err);
}

int vm_scan_made_by(const struct vm_roots *roots, uint32_t tid, struct vm_list **list,
		    struct kvmft_err *err)
{
	return scan(roots, true, tid, list, err);
}
