/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.c: capabilities, Landlock and a seccomp filter, by their system calls: none of the three
 * needs a library, and the headers of older systems lack parts of them.
 */
#include "kvmft/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

/* ---- capabilities ---- */

#define CAP_BITS 64

static bool caps_drop(uint64_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/* The bounding set first: that takes a capability itself. Not root: there is nothing to drop. */
	for (int cap = 0; cap < CAP_BITS; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		data[i].permitted &= (uint32_t)(keep >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) == 0;
}

/* ---- Landlock: include/uapi/linux/landlock.h ---- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule	    445
#define SYS_landlock_restrict_self  446
#endif

#define LL_VERSION_FLAG 1u
#define LL_PATH_BENEATH 1

enum {
	LL_EXECUTE = 1 << 0,
	LL_WRITE_FILE = 1 << 1,
	LL_REMOVE_DIR = 1 << 4,
	LL_REMOVE_FILE = 1 << 5,
	LL_MAKE_CHAR = 1 << 6,
	LL_MAKE_DIR = 1 << 7,
	LL_MAKE_REG = 1 << 8,
	LL_MAKE_SOCK = 1 << 9,
	LL_MAKE_FIFO = 1 << 10,
	LL_MAKE_BLOCK = 1 << 11,
	LL_MAKE_SYM = 1 << 12,
	LL_REFER = 1 << 13,
	LL_TRUNCATE = 1 << 14,
	LL_IOCTL_DEV = 1 << 15,
};

#define LL_CREATE (LL_MAKE_DIR | LL_MAKE_REG | LL_REMOVE_DIR | LL_REMOVE_FILE)
#define LL_ABI_1                                                                                   \
	(LL_EXECUTE | LL_WRITE_FILE | LL_CREATE | LL_MAKE_CHAR | LL_MAKE_SOCK | LL_MAKE_FIFO |       \
	 LL_MAKE_BLOCK | LL_MAKE_SYM)

struct ll_ruleset {
	uint64_t fs, net, scoped;
};

struct ll_beneath {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

/* What the kernel's version can handle; size is how much of the struct it knows. */
static size_t ll_handled(long abi, struct ll_ruleset *r)
{
	*r = (struct ll_ruleset){ .fs = LL_ABI_1 };
	if (abi >= 2)
		r->fs |= LL_REFER;
	if (abi >= 3)
		r->fs |= LL_TRUNCATE;
	if (abi >= 5)
		r->fs |= LL_IOCTL_DEV;
	if (abi >= 4)
		r->net = 3; /* bind and connect of TCP */
	if (abi >= 6)
		r->scoped = 1; /* abstract sockets of others; not signals: a command is to be ended */
	return abi >= 6 ? sizeof(*r) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

static bool ll_allow(int set, const struct ll_ruleset *r, const struct sandbox_dir *d)
{
	struct ll_beneath rule = { .fd = d->fd };

	if (d->rights & SANDBOX_WRITE)
		rule.access |= LL_WRITE_FILE | LL_TRUNCATE;
	if (d->rights & SANDBOX_CREATE)
		rule.access |= LL_CREATE | LL_REFER;
	rule.access &= r->fs;
	return !syscall(SYS_landlock_add_rule, set, LL_PATH_BENEATH, &rule, 0);
}

static bool __unused_arg landlock_files(const struct sandbox *s)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION_FLAG);
	_cleanup_close_ int set = -1;
	struct ll_ruleset r;
	size_t size;

	if (abi < 1)
		return false;
	size = ll_handled(abi, &r);
	set = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	if (set < 0)
		return false;
	for (size_t i = 0; i < s->ndir; i++)
		if (!ll_allow(set, &r, &s->dir[i]))
			return false;
	return !syscall(SYS_landlock_restrict_self, set, 0);
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#define SANDBOX_X32  0x40000000u /* system calls from here on are those of the x32 ABI */
#elif defined(__i386__)
#define SANDBOX_ARCH AUDIT_ARCH_I386
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef SANDBOX_ARCH

/* Nothing that kvmft does after this point; each answers "Operation not permitted". */
static const unsigned int forbidden[] = {
#ifndef __SANITIZE_ADDRESS__ /* the leak checker traces, the report runs a symbolizer */
	SYS_execve, SYS_execveat, SYS_ptrace,
#endif
	SYS_process_vm_readv, SYS_process_vm_writev, SYS_socket, SYS_socketpair, SYS_bpf,
	SYS_perf_event_open, SYS_userfaultfd, SYS_io_setup, SYS_add_key, SYS_request_key,
	SYS_keyctl, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns,
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
	SYS_swapon, SYS_swapoff, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
	SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname, SYS_acct, SYS_quotactl,
	SYS_open_by_handle_at, SYS_personality,
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
#endif
#ifdef SYS_fsopen
	SYS_fsopen, SYS_open_tree, SYS_move_mount,
#endif
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
	SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

#define LOAD(field)	     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP(op, k, yes, no) BPF_JUMP(BPF_JMP | (op) | BPF_K, (k), (yes), (no))
#define RETURN(v)	     BPF_STMT(BPF_RET | BPF_K, (v))
#define DENY		     RETURN(SECCOMP_RET_ERRNO | EPERM)

#define FEW 4

struct filter {
	struct sock_filter code[3 * ARRAY_SIZE(forbidden) + 16];
	unsigned short len;
};

static void filter_add(struct filter *f, struct sock_filter code)
{
	f->code[f->len++] = code;
}

/*
 * Denies the n system calls, which are in order, by halving: the kernel goes through the filter for every system call
 * that there is when it is installed, which with one comparison behind the other takes longer than all else here.
 */
static void filter_forbid(struct filter *f, const unsigned int *no, size_t n)
{
	unsigned short from = f->len;

	_Static_assert(3 * ARRAY_SIZE(forbidden) / 2 + 16 <= UINT8_MAX, "half of it can be jumped over");
	if (n > FEW) {
		filter_add(f, (struct sock_filter)JUMP(BPF_JGE, no[n / 2], 0, 0));
		filter_forbid(f, no, n / 2);
		f->code[from].jt = (uint8_t)(f->len - from - 1);
		filter_forbid(f, no + n / 2, n - n / 2);
		return;
	}
	for (size_t i = 0; i < n; i++)
		filter_add(f, (struct sock_filter)JUMP(BPF_JEQ, no[i], (uint8_t)(n - i), 0));
	filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
	filter_add(f, (struct sock_filter)DENY);
}

static int by_number(const void *a, const void *b)
{
	const unsigned int *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool seccomp_forbid(void)
{
	unsigned int no[ARRAY_SIZE(forbidden)];
	struct filter f = {
		.code = {
			LOAD(arch),
			JUMP(BPF_JEQ, SANDBOX_ARCH, 1, 0),
			DENY,
			LOAD(nr),
		},
		.len = 4,
	};
	struct sock_fprog prog = { .filter = f.code };

#ifdef SANDBOX_X32
	filter_add(&f, (struct sock_filter)JUMP(BPF_JGE, SANDBOX_X32, 0, 1));
	filter_add(&f, (struct sock_filter)DENY);
#endif
	memcpy(no, forbidden, sizeof(no));
	qsort(no, ARRAY_SIZE(no), sizeof(*no), by_number);
	filter_forbid(&f, no, ARRAY_SIZE(no));
	prog.len = f.len;
	return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

#else

static bool seccomp_forbid(void)
{
	return false;
}

#endif

unsigned int sandbox_enter(const struct sandbox *s)
{
	unsigned int layers = 0;

	/* Without it, Landlock and seccomp are for root only, and a set-uid program a way out. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 0;
	if (caps_drop(s->caps))
		layers |= SANDBOX_CAPS;
#ifndef KVMFT_COVERAGE /* counts are written next to the object files at the end */
	if (s->files && landlock_files(s))
		layers |= SANDBOX_LANDLOCK;
#endif
	if (seccomp_forbid())
		layers |= SANDBOX_SECCOMP;
	return layers;
}
