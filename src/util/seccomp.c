/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * seccomp.c: a filter of system calls made from a list of those that are allowed.
 *
 * Not with libseccomp: at run time kvmft needs no library beyond those that read traces, the lists
 * are for four machines, and starting with it takes longer than reading a small capture. Each call
 * is compared in turn: kernels from 5.11 on remember which numbers are allowed whatever the
 * arguments are, and others are rare.
 */
#include "kvmft/sandbox.h"
#include "sandbox_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#if defined(__x86_64__) && !defined(__ILP32__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#define FILTER_X32  0x40000000u /* from here on calls are those of the x32 ABI */
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define FILTER_ARCH AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define FILTER_ARCH AUDIT_ARCH_PPC64LE
#endif

#if defined(FILTER_ARCH) && \
	!defined(KVMFT_COVERAGE) /* counts are written next to the object files at the end */

/*
 * From this number on all machines count alike, and C libraries try what the kernel has: "no such
 * call" makes them fall back to an older one. Below it the answer is "not permitted".
 */
#define NEWER_CALLS 424

#ifdef KVMFT_SANDBOX_KILL /* a test wants to see who makes a call that is not allowed */
#define DENIED	     SECCOMP_RET_KILL_PROCESS
#define DENIED_NEWER SECCOMP_RET_KILL_PROCESS
#else
#define DENIED	     (SECCOMP_RET_ERRNO | EPERM)
#define DENIED_NEWER (SECCOMP_RET_ERRNO | ENOSYS)
#endif

#define CODE_MAX  1024
#define CALLS_MAX 512 /* their numbers are below this */

struct filter {
	struct sock_filter code[CODE_MAX];
	size_t len;
	bool seen[CALLS_MAX];
};

static void filter_add(struct filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	if (f->len < CODE_MAX)
		f->code[f->len] = (struct sock_filter){ code, yes, no, k };
	f->len++;
}

static void filter_load(struct filter *f, size_t off)
{
	filter_add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, 0, 0);
}

/* If the test is true of what was loaded, the answer. */
static void answer_if(struct filter *f, uint16_t op, uint32_t k, uint32_t answer)
{
	filter_add(f, (uint16_t)(BPF_JMP | BPF_K | op), k, 0, 1);
	filter_add(f, BPF_RET | BPF_K, answer, 0, 0);
}

static void load_arg(struct filter *f, uint8_t arg)
{
	size_t off = offsetof(struct seccomp_data, args) +
		     sizeof(uint64_t) * (arg & (SANDBOX_HIGH - 1u));

	/* Little endian: the lower half comes first. */
	filter_load(f, off + (arg & SANDBOX_HIGH ? sizeof(uint32_t) : 0));
}

static void rule_code(struct filter *f, const struct sandbox_rule *r, pid_t child)
{
	size_t i;

	for (i = 0; i < SANDBOX_ZERO_MAX && r->zero[i].bits; i++) {
		load_arg(f, r->zero[i].arg);
		answer_if(f, BPF_JSET, r->zero[i].bits, DENIED);
	}
	if (i && !r->required) {
		filter_add(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
		return;
	}
	load_arg(f, r->arg);
	for (i = 0; i < r->nvalue; i++)
		answer_if(f, BPF_JEQ, r->one_of[i], SECCOMP_RET_ALLOW);
	if (r->required)
		answer_if(f, BPF_JSET, r->required, SECCOMP_RET_ALLOW);
	if (r->pid == SANDBOX_PID_OWN)
		answer_if(f, BPF_JEQ, (uint32_t)getpid(), SECCOMP_RET_ALLOW);
	if (r->pid == SANDBOX_PID_CHILD && child > 0)
		answer_if(f, BPF_JEQ, (uint32_t)child, SECCOMP_RET_ALLOW);
	filter_add(f, BPF_RET | BPF_K, DENIED, 0, 0);
}

/* The same call twice would make an unintended filter. */
static int call_code(struct filter *f, const struct sandbox_call *c, pid_t child)
{
	size_t at = f->len;

	if (c->nr >= CALLS_MAX || f->seen[c->nr])
		return -EEXIST;
	f->seen[c->nr] = true;
	if (!c->rule) {
		answer_if(f, BPF_JEQ, c->nr, SECCOMP_RET_ALLOW);
		return 0;
	}
	filter_add(f, BPF_JMP | BPF_K | BPF_JEQ, c->nr, 0, 0);
	rule_code(f, &sandbox_rules[c->rule], child);
	if (f->len > CODE_MAX || f->len - at - 1 > UINT8_MAX)
		return -E2BIG;
	f->code[at].jf = (uint8_t)(f->len - at - 1);
	return 0;
}

bool sandbox_has_calls(void)
{
	return true;
}

int sandbox_seccomp(const struct sandbox_call *list, unsigned int who, pid_t child)
{
	struct filter f = { .len = 0 };
	struct sock_fprog prog = { .filter = f.code };
	int ret = 0;

	filter_load(&f, offsetof(struct seccomp_data, arch));
	filter_add(&f, BPF_JMP | BPF_K | BPF_JEQ, FILTER_ARCH, 1, 0);
	filter_add(&f, BPF_RET | BPF_K, DENIED, 0, 0);
	filter_load(&f, offsetof(struct seccomp_data, nr));
#ifdef FILTER_X32
	answer_if(&f, BPF_JGE, FILTER_X32, DENIED);
#endif
	for (; list->nr != SANDBOX_CALLS_END && !ret; list++)
		ret = list->who >> who & 1 ? call_code(&f, list, child) : 0;
	answer_if(&f, BPF_JGE, NEWER_CALLS, DENIED_NEWER);
	filter_add(&f, BPF_RET | BPF_K, DENIED, 0, 0);
	if (ret || f.len > CODE_MAX)
		return ret ?: -E2BIG;
	prog.len = (unsigned short)f.len;
	if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0))
		return 0;
	return errno == EINVAL ? -ENOSYS : -errno;
}

#else

bool sandbox_has_calls(void)
{
	return false;
}

int sandbox_seccomp(const struct sandbox_call *list __unused_arg, unsigned int who __unused_arg,
		    pid_t child __unused_arg)
{
	return -ENOSYS;
}

#endif
