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

#include <limits.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* From include/uapi/linux/kcmp.h, which not every libc's kernel headers ship. */
#define KCMP_FILE_TYPE 0

/*
 * ---- debugfs ----
 *
 * One VM's directory is /sys/kernel/debug/kvm/<PID>-<FD>/vcpu<N>/.
 * Files of a vCPU (arch/x86/kvm/debugfs.c, virt/kvm/kvm_main.c), all one number in text:
 *   tsc-offset                  signed decimal of a u64
 *   tsc-scaling-ratio           unsigned; this and the next only where the CPU can scale
 *   tsc-scaling-ratio-frac-bits unsigned
 *   guest_mode                  1 while an L2 guest runs: offset and ratio are then L1+L2 combined
 *   pid                         thread that last ran the vCPU, 0 = none yet; absent in old kernels
 */

/* An L2 guest that never pauses must not hold us up: about 5 ms per vCPU at most. */
#define GUEST_MODE_TRIES 8
#define GUEST_MODE_NAP_NS 100000L

static uint64_t rdtsc(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* A missing file is value 0 and *present = false; any other failure is returned. */
static int read_optional_u64(int dirfd, const char *path, uint64_t *v, bool *present)
{
	int ret = file_read_u64(dirfd, path, v);

	*present = ret >= 0;
	if (ret == -ENOENT) {
		*v = 0;
		return 0;
	}
	return ret < 0 ? ret : 0;
}

static int read_ratio(int dirfd, struct vm_vcpu *v)
{
	bool has_ratio, has_frac;
	uint64_t ratio, frac;
	int ret;

	v->ratio_state = VM_RATIO_UNKNOWN;
	v->tsc_ratio = 0;
	v->tsc_frac_bits = 0;
	ret = read_optional_u64(dirfd, "tsc-scaling-ratio", &ratio, &has_ratio);
	ret = ret ?: read_optional_u64(dirfd, "tsc-scaling-ratio-frac-bits", &frac, &has_frac);
	if (ret == -EINVAL || ret == -ERANGE) {
		v->ratio_state = VM_RATIO_REFUSED;
		return 0;
	}
	if (ret)
		return ret;
	if (has_ratio != has_frac) {
		v->ratio_state = VM_RATIO_REFUSED;
	} else if (!ratio) {
		v->ratio_state = VM_RATIO_NONE;
	} else if (frac < 1 || frac > 63) {
		v->ratio_state = VM_RATIO_REFUSED;
	} else {
		v->ratio_state = VM_RATIO_SET;
		v->tsc_ratio = ratio;
		v->tsc_frac_bits = (uint32_t)frac;
	}
	return 0;
}

/* One reading of everything; *l2: an L2 guest may have been running then. */
static int read_clock_once(int dirfd, struct vm_vcpu *v, bool *l2)
{
	uint64_t mode_before, mode_after, tsc_before, tsc_after;
	char line[64];
	int64_t offset;
	bool present;
	int ret;

	tsc_before = rdtsc();
	ret = read_optional_u64(dirfd, "guest_mode", &mode_before, &present);
	ret = ret ?: file_read_line(dirfd, "tsc-offset", line, sizeof(line));
	ret = ret ?: parse_s64(line, &offset);
	ret = ret ?: read_ratio(dirfd, v);
	ret = ret ?: read_optional_u64(dirfd, "guest_mode", &mode_after, &present);
	tsc_after = rdtsc();
	if (ret)
		return ret;
	v->has_offset = true;
	v->tsc_offset = (uint64_t)offset;
	v->tsc_before = tsc_before;
	v->tsc_after = tsc_after;
	*l2 = mode_before || mode_after;
	return 0;
}

static void forget_clock(struct vm_vcpu *v)
{
	v->has_offset = false;
	v->ratio_state = VM_RATIO_UNKNOWN;
	v->tsc_before = v->tsc_after = 0;
}

static int read_clock(int dirfd, struct vm_vcpu *v)
{
	struct timespec nap = { .tv_nsec = GUEST_MODE_NAP_NS };
	bool l2 = false;
	int ret;

	forget_clock(v);
	for (int i = 0; i < GUEST_MODE_TRIES; i++) {
		ret = read_clock_once(dirfd, v, &l2);
		if (ret || !l2)
			break;
		if (i + 1 < GUEST_MODE_TRIES)
			nanosleep(&nap, NULL);
		nap.tv_nsec = MIN(nap.tv_nsec * 2, 1000000L);
	}
	v->in_guest_mode = l2;
	if (ret) {
		v->has_offset = false;
		v->ratio_state = VM_RATIO_UNKNOWN;
	}
	/* not every architecture has these files */
	return ret == -ENOENT ? 0 : ret;
}

static int debugfs_vcpu_add(int vmfd, const char *name, uint32_t id, struct vm *vm, int *denied)
{
	_cleanup_close_ int fd =
		openat(vmfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct vm_vcpu *v;
	int ret;
	uint64_t tid;
	bool present;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	v = array_grow(&vm->vcpu, vm->n_vcpus, &vm->cap_vcpus, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->id = id;
	/* Clock and thread id from a vCPU's directory; -errno of the first file that was denied. */
	ret = read_optional_u64(fd, "pid", &tid, &present);
	v->tid = 0;
	v->tid_source = VM_TID_UNKNOWN;
	if (!ret && present && tid <= INT_MAX) {
		v->tid = (uint32_t)tid;
		v->tid_source = tid ? VM_TID_DEBUGFS : VM_TID_NEVER_RAN;
	}
	if (ret)
		(void)read_clock(fd, v);
	else
		ret = read_clock(fd, v);
	if (ret == -ENOMEM)
		return ret;
	if (ret)
		*denied = ret;
	vm->n_vcpus++;
	return 0;
}

COMPARE_BY(vcpu_compare, struct vm_vcpu, .id);

/* Fills vm->vcpu from the directory kvm/<sel>; 0, or -errno when it cannot be listed. */
static int debugfs_read_vm(int kvmfd, struct vm *vm)
{
	_cleanup_dir_ DIR *dir = dir_open(kvmfd, vm->sel);
	int ret = 0, unread = 0;
	struct dirent *de;

	if (!dir)
		return -errno;
	while (!ret && (de = readdir(dir))) {
		const char *p = de->d_name;
		uint32_t id;

		if (!str_starts(p, "vcpu"))
			continue;
		p += strlen("vcpu");
		if (!vm_text_u32(&p, &id) || *p)
			continue;
		if (vm->n_vcpus >= VM_MAX_VCPUS) {
			ret = vm_add_note(vm, "only the first %d vCPUs were read", VM_MAX_VCPUS);
			break;
		}
		ret = debugfs_vcpu_add(dirfd(dir), de->d_name, id, vm, &unread);
	}
	array_sort(vm->vcpu, vm->n_vcpus, vcpu_compare);
	if (!ret && unread)
		ret = vm_add_note(vm, "cannot read a vCPU's files in debugfs kvm/%s: %s", vm->sel,
				  strerror(-unread));
	return ret;
}

int vm_reread_clocks(const struct vm_roots *roots, struct vm *vm)
{
	struct vm_roots r = vm_roots_fill(roots);
	_cleanup_close_ int dir =
		open(TEXTF("%s/kvm/%s", r.debugfs, vm->sel), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret = 0;

	if (dir < 0)
		return -errno;
	for (size_t i = 0; i < vm->n_vcpus && !ret; i++) {
		struct vm_vcpu *v = &vm->vcpu[i];
		_cleanup_close_ int fd =
			openat(dir, TEXTF("vcpu%u", v->id), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0)
			ret = read_clock(fd, v);
		else
			forget_clock(v);
	}
	return ret;
}

/* ---- what is wrong with debugfs ---- */

static bool is_debugfs(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && (unsigned long)fs.f_type == VM_DEBUGFS_MAGIC;
}

/* lockdown lists its levels with the active one in brackets: "[none] integrity confidentiality". */
static bool locked_down(const struct vm_roots *r)
{
	char line[128];

	return !file_read_line(AT_FDCWD, TEXTF("%s/kernel/security/lockdown", r->sys), line,
			       sizeof(line)) &&
	       strchr(line, '[') && !strstr(line, "[none]");
}

static const char *why_absent(const struct vm_roots *r)
{
	return access(TEXTF("%s/kernel", r->sys), F_OK)
		       ? "sysfs is not mounted: mount -t sysfs none /sys"
		       : "this kernel has no debugfs (CONFIG_DEBUG_FS), or was booted with "
			 "debugfs=off";
}

/* Descriptor, or -1 with the reason in *state and *text (owned by the caller). */
static int debugfs_open(const struct vm_roots *roots, enum vm_debugfs_state *state, char **text)
{
	struct vm_roots r = vm_roots_fill(roots);
	struct sbuf b = { 0 };
	int fd, error;

	*text = NULL;
	*state = VM_DEBUGFS_OK;
	fd = open(TEXTF("%s/kvm", r.debugfs), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	error = errno;
	if (error == ENOENT && access(r.debugfs, F_OK)) {
		*state = VM_DEBUGFS_ABSENT;
		sbuf_addf(&b, "%s does not exist: %s", r.debugfs, why_absent(&r));
	} else if (error == ENOENT && !is_debugfs(r.debugfs)) {
		*state = VM_DEBUGFS_NOT_MOUNTED;
		sbuf_addf(&b, "debugfs is not mounted: mount -t debugfs none %s", r.debugfs);
	} else if (error == ENOENT && access(TEXTF("%s/module/kvm", r.sys), F_OK)) {
		*state = VM_DEBUGFS_NO_KVM;
		sbuf_addf(&b, "the kvm module is not loaded: modprobe kvm_intel or kvm_amd");
	} else if (error == ENOENT) {
		*state = VM_DEBUGFS_NO_KVM;
		sbuf_addf(&b, "kvm is loaded but has no directory in %s: see the kernel log",
			  r.debugfs);
	} else if ((error == EACCES || error == EPERM) && geteuid()) {
		*state = VM_DEBUGFS_DENIED;
		sbuf_addf(&b, "%s/kvm is for root only: run as root", r.debugfs);
	} else if ((error == EACCES || error == EPERM) && locked_down(&r)) {
		*state = VM_DEBUGFS_LOCKDOWN;
		sbuf_addf(&b, "kernel lockdown forbids debugfs: boot without lockdown= (or without "
			      "Secure Boot)");
	} else {
		*state = VM_DEBUGFS_ERROR;
		sbuf_addf(&b, "cannot open %s/kvm: %s", r.debugfs, strerror(error));
	}
	*text = sbuf_take(&b);
	return -1;
}

void vm_debugfs_mount(void)
{
	const struct vm_roots r = vm_roots_fill(NULL);

	if (!is_debugfs(r.debugfs) && !geteuid())
		(void)mount("none", r.debugfs, "debugfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* ---- the scan ---- */

struct scan {
	struct vm_roots roots;
	int procfd, kvmfd;
	bool told; /* only what debugfs shows, if it does */
	bool vcpu_dirs; /* debugfs shows vCPUs of a VM */
	uint32_t only; /* VMs made by this thread; 0: all */
	unsigned int patience; /* ms, see vm_proc_memory() */
	struct vm_list *list;
	struct vm_procs procs;
	struct u64map claimed;	 /* by process and descriptor: those of a VM of the list */
	struct u64map unclaimed; /* by descriptor: how many others, and their PIDs by XOR */
	size_t compared;	 /* descriptors with each other */
	uint32_t locked;	 /* the last process that did not let us read its command line */
	int error;
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

	s->kvmfd = debugfs_open(&s->roots, &s->list->debugfs, &s->list->debugfs_text);
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
		ret = vm ? debugfs_read_vm(s->kvmfd, vm) : -ENOMEM;
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

static uint64_t claim_key(uint32_t pid, uint32_t fd)
{
	return (uint64_t)pid << 32 | fd;
}

static bool is_claimed(const struct scan *s, uint32_t pid, uint32_t fd)
{
	return u64map_get(&s->claimed, claim_key(pid, fd), NULL);
}

static void own_fd(struct scan *s, struct vm *vm, uint32_t pid)
{
	vm->pid = pid;
	vm->pid_sure = true;
	s->error = s->error ?: u64map_put(&s->claimed, claim_key(pid, vm->fd), 1);
}

static bool resolve_by_creator(struct scan *s, struct vm *vm)
{
	uint32_t tgid;

	if (vm_proc_tgid(s->procfd, vm->dir_pid, &tgid))
		return false;
	vm->pid = tgid;
	if (!vm_proc_has_vm_fd(vm_procs_get(&s->procs, tgid), vm->fd))
		return false;
	own_fd(s, vm, tgid);
	return true;
}

static bool resolve_by_vcpus(struct scan *s, struct vm *vm)
{
	uint32_t tgid;

	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		if (v->tid_source != VM_TID_DEBUGFS || vm_proc_tgid(s->procfd, v->tid, &tgid))
			continue;
		if (!vm_procs_get(&s->procs, tgid))
			continue;
		own_fd(s, vm, tgid);
		return true;
	}
	return false;
}

/* The only process with a VM at this descriptor number that is not another one's. */
static bool resolve_by_fd(struct scan *s, struct vm *vm)
{
	uint64_t of;

	if (!u64map_get(&s->unclaimed, vm->fd, &of) || of >> 32 != 1)
		return false;
	u64map_del(&s->unclaimed, vm->fd);
	own_fd(s, vm, (uint32_t)of);
	return true;
}

static void find_unclaimed(struct scan *s)
{
	for (size_t i = 0; i < s->procs.n; i++) {
		const struct vm_proc *p = &s->procs.v[i];

		for (size_t k = 0; k < p->n && !s->error; k++) {
			uint64_t *of;

			if (!p->fd[k].is_vm || is_claimed(s, p->pid, p->fd[k].fd))
				continue;
			of = u64map_at(&s->unclaimed, p->fd[k].fd);
			if (!of)
				s->error = -ENOMEM;
			else
				*of = ((*of >> 32) + 1) << 32 | (uint32_t)(*of ^ p->pid);
		}
	}
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

#define COMPARED_MAX 1000000u /* 0.5 s */

enum same { SAME_NO, SAME_YES, SAME_UNKNOWN };

/*
 * *vm is the VM that the descriptor is, or may be, a copy of. Only the kernel can tell copies of a
 * descriptor from a second VM; a fixture cannot.
 */
static enum same find_same(struct scan *s, uint32_t pid, uint32_t fd, struct vm **vm)
{
	const bool real = !strcmp(s->roots.proc, "/proc");
	enum same best = SAME_NO;

	for (size_t i = 0; i < s->list->n; i++) {
		struct vm *other = &s->list->vm[i];
		enum same same = SAME_UNKNOWN;
		long ret = -1;

		if (!other->pid_sure)
			continue;
		/* Somebody has too many to compare each with: what this one is stays unknown. */
		if (++s->compared > COMPARED_MAX) {
			s->list->truncated = true;
			return SAME_YES;
		}
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
	own_fd(s, vm, pid);
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

/* debugfs has no vCPU directories on arm64. */
static int fill_vcpus(struct scan *s, struct vm *vm)
{
	const struct vm_proc *p = vm_procs_get(&s->procs, vm->pid);
	bool nameless = false;
	struct vm_vcpu *v;

	if (vm->n_vcpus || (vm->has_debugfs && s->vcpu_dirs) || !p)
		return 0;
	if (!vm_list_only(s->list, vm->pid))
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
	array_sort(vm->vcpu, vm->n_vcpus, vcpu_compare);
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

static bool collect_unique(const struct collect *c, size_t i)
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
		if (c.n != vm->n_vcpus || !collect_unique(&c, i))
			c.n = 0;
	for (size_t i = 0; i < c.n; i++) {
		const struct vm_vcpu key = { .id = c.v[i].number };
		struct vm_vcpu *v = in_order ? &vm->vcpu[i] : NULL;

		if (!in_order && vm->n_vcpus && collect_unique(&c, i))
			v = bsearch(&key, vm->vcpu, vm->n_vcpus, sizeof(key), vcpu_compare);
		if (!v || v->tid_source != VM_TID_UNKNOWN)
			continue;
		v->tid = c.v[i].tid;
		v->tid_source = VM_TID_THREAD_NAME;
	}
	free(c.v);
	return ret == -ENOMEM ? ret : 0;
}

static int identify_process(struct scan *s, struct vm *vm)
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
	s->locked = len == -ETIMEDOUT ? vm->pid : 0;
	ret = len > 0 ? vm_cmdline_parse(args, (size_t)len, vm->vmm, &id) : 0;
	if (!ret && len > 0) {
		vm->name = id.name;
		vm->uuid = id.uuid;
	}
	return ret;
}

/* Another VM of the same process */
static int identify_as(struct vm *vm, const struct vm *other)
{
	vm->vmm = strdup(other->vmm);
	vm->name = other->name ? strdup(other->name) : NULL;
	vm->uuid = other->uuid ? strdup(other->uuid) : NULL;
	vm->has_uid = other->has_uid;
	vm->uid = other->uid;
	vm->start_time = other->start_time;
	vm->parent = other->parent;
	memcpy(vm->starter, other->starter, sizeof(vm->starter));
	return vm->vmm && !vm->name == !other->name && !vm->uuid == !other->uuid ? 0 : -ENOMEM;
}

static int vm_identify(struct scan *s, struct vm *vm, const struct vm *before)
{
	int ret = before && before->pid == vm->pid ? identify_as(vm, before)
						   : identify_process(s, vm);

	if (!ret && s->locked == vm->pid)
		ret = vm_add_note(vm, "name unknown: process %u lets nobody read its command line",
				  vm->pid);
	ret = ret ?: fill_vcpus(s, vm);
	/* a thread's name says the vCPU, not which VM of the process */
	if (!ret && vm_list_only(s->list, vm->pid))
		ret = threads_guess(&s->roots, vm);
	return ret;
}

COMPARE(compare_vm, struct vm,
	ORDER(x->pid, y->pid) ?: ORDER(x->fd, y->fd) ?: ORDER(x->dir_pid, y->dir_pid));

static int scan_all(struct scan *s)
{
	_cleanup_dir_ DIR *dir = NULL;
	uint32_t pid;
	char line[64];
	int ret = scan_debugfs(s);

	for (size_t i = 0; i < s->list->n; i++)
		s->vcpu_dirs |= s->list->vm[i].n_vcpus > 0;
	ret = ret ?: look_at_processes(s);
	for (size_t i = 0; i < s->list->n && !ret; i++)
		if (!resolve_by_creator(s, &s->list->vm[i]))
			resolve_by_vcpus(s, &s->list->vm[i]);
	find_unclaimed(s);
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
		if (ret || s->list->debugfs == VM_DEBUGFS_OK || list_full(s) ||
		    (s->list->n && s->list->vm[s->list->n - 1].pid == p->pid))
			continue;
		ret = add_without_directory(s, p->pid, p->fd[0].fd);
		if (!ret)
			ret = vm_add_note(&s->list->vm[s->list->n - 1],
					  "the VM's own descriptor is closed, FD is a vCPU's");
	}
	array_sort(s->list->vm, s->list->n, compare_vm);
	for (size_t i = 0; i < s->list->n && !ret; i++)
		ret = vm_identify(s, &s->list->vm[i], i ? &s->list->vm[i - 1] : NULL);
	/* One may look for a QEMU that only emulates. */
	dir = s->told || ret ? NULL : dir_open(s->procfd, ".");
	while (dir && !s->list->emulates && vm_dir_next_u32(dir, &pid)) {
		_cleanup_free_ char *vmm = vm_proc_vmm(s->procfd, pid);

		if (vmm && vm_vmm_is_qemu(vmm) && !vm_procs_get(&s->procs, pid) &&
		    !vm_task_hidden(&s->roots, pid))
			s->list->emulates = pid;
	}
	s->list->n_hidden = s->procs.n_hidden;
	s->list->hidden = s->procs.hidden;
	s->list->truncated |= s->procs.truncated;
	vm_sys_clocksource(&s->roots, line, sizeof(line));
	s->list->clocksource = line[0] ? strdup(line) : NULL;
	return ret ?: s->error;
}

static int scan_as(const struct vm_roots *roots, bool told, uint32_t only, struct vm_list **list,
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
	u64map_free(&s.claimed);
	u64map_free(&s.unclaimed);
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
	return scan_as(roots, false, 0, list, err);
}

int vm_scan_told(const struct vm_roots *roots, struct vm_list **list, struct kvmft_err *err)
{
	return scan_as(roots, true, 0, list, err);
}

int vm_scan_made_by(const struct vm_roots *roots, uint32_t tid, struct vm_list **list,
		    struct kvmft_err *err)
{
	return scan_as(roots, true, tid, list, err);
}
