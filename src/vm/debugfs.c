/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * debugfs.c: one VM's directory /sys/kernel/debug/kvm/<PID>-<FD>/vcpu<N>/, and what to tell the
 * user when debugfs is not there.
 *
 * Files of a vCPU (arch/x86/kvm/debugfs.c, virt/kvm/kvm_main.c), all one number in text:
 *   tsc-offset                  signed decimal of a u64
 *   tsc-scaling-ratio           unsigned; this and the next only where the CPU can scale
 *   tsc-scaling-ratio-frac-bits unsigned
 *   guest_mode                  1 while an L2 guest runs: offset and ratio are then L1+L2 combined
 *   pid                         thread that last ran the vCPU, 0 = none yet; absent in old kernels
 */
#include "kvmft/vm.h"

#include <limits.h>
#include <sys/mount.h>
#include <sys/vfs.h>

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

int vm_debugfs_read_vm(int kvmfd, struct vm *vm)
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
	array_sort(vm->vcpu, vm->n_vcpus, vm_vcpu_compare);
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

int vm_debugfs_open(const struct vm_roots *roots, enum vm_debugfs_state *state, char **text)
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

int vm_debugfs_mount(const struct vm_roots *roots, struct kvmft_err *err)
{
	struct vm_roots r = vm_roots_fill(roots);
	int error;

	if (is_debugfs(r.debugfs))
		return 0;
	if (access(r.debugfs, F_OK))
		return err_lack(err, ENODEV, "cannot mount debugfs: %s does not exist: %s",
				r.debugfs, why_absent(&r));
	if (geteuid())
		return err_lack(
			err, EPERM,
			"debugfs is not mounted and only root can: mount -t debugfs none %s",
			r.debugfs);
	if (!mount("none", r.debugfs, "debugfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return 0;
	error = errno;
	if (error == EBUSY && is_debugfs(r.debugfs))
		return 0;
	return err_lack(err, error, "cannot mount debugfs on %s: %s%s", r.debugfs, strerror(error),
			error == EPERM && locked_down(&r) ? " (kernel lockdown)" :
			error == EPERM			  ? " (container, or debugfs=off)" :
							    "");
}
