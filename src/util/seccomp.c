/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * seccomp.c: a filter of system calls made from a list of those that are allowed.
 *
 * Not with libseccomp: at run time kvmft needs no library beyond those that read traces, the lists
 * are for two machines, and starting with it takes longer than reading a small capture. The kernel
 * runs the filter for each of the process's system calls, so it is a tree: the numbers are divided
 * into ranges with the same answer, and searched by halving.
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
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FILTER_ARCH AUDIT_ARCH_AARCH64
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

/* Where an instruction can lead; every target is after it, as required. */
enum label {
	NEXT, /* or where the offset says */
	ALLOW,
	DENY,
	DENY_NEWER,
	RULE, /* + enum sandbox_rule_id */
	LABELS = RULE + SANDBOX_RULES,
};

/* Call numbers from `from` to the next range, and where they lead. */
struct stretch {
	uint32_t from;
	uint8_t label;
};

#define CODE_MAX 320

struct filter {
	struct sock_filter code[CODE_MAX];
	uint8_t yes[CODE_MAX], no[CODE_MAX]; /* enum label */
	size_t len;
	size_t at[LABELS];
	bool used[LABELS];
	struct stretch s[2 * SANDBOX_CALLS_MAX + 3];
	size_t n;
};

static size_t add(struct filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	size_t at = f->len++;

	if (at < CODE_MAX) {
		f->code[at] = (struct sock_filter){ .code = code, .k = k };
		f->yes[at] = yes;
		f->no[at] = no;
		f->used[yes] = f->used[no] = true;
	}
	return at;
}

static void load(struct filter *f, size_t off)
{
	add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, NEXT, NEXT);
}

static size_t test(struct filter *f, uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
	return add(f, (uint16_t)(BPF_JMP | BPF_K | op), k, yes, no);
}

/* ---- numbers ---- */

static void stretch_add(struct filter *f, uint32_t from, uint8_t label)
{
	struct stretch *last = f->n ? &f->s[f->n - 1] : NULL;

	if (last && last->from == from)
		last->label = label;
	else if (!last || last->label != label)
		f->s[f->n++] = (struct stretch){ from, label };
}

/* Adds one in its place; the same call twice would make an unintended filter. */
static int call_insert(struct sandbox_call *sorted, int n, struct sandbox_call c)
{
	int i = n;

	if (n == SANDBOX_CALLS_MAX)
		return -E2BIG;
	for (; i && sorted[i - 1].nr > c.nr; i--)
		sorted[i] = sorted[i - 1];
	sorted[i] = c;
	return i && sorted[i - 1].nr == c.nr ? -EEXIST : n + 1;
}

static int calls_sort(const struct sandbox_call *const *lists, struct sandbox_call *sorted)
{
	int n = 0;

	for (; *lists; lists++)
		for (const struct sandbox_call *c = *lists; c->nr != SANDBOX_CALLS_END && n >= 0;
		     c++)
			n = call_insert(sorted, n, *c);
	return n;
}

static int stretches(struct filter *f, const struct sandbox_call *const *lists)
{
	struct sandbox_call sorted[SANDBOX_CALLS_MAX];
	int n = calls_sort(lists, sorted);
	bool newer = false;

	stretch_add(f, 0, DENY);
	for (int i = 0; i < n; i++) {
		uint32_t nr = sorted[i].nr;

		if (nr >= NEWER_CALLS && !newer)
			stretch_add(f, NEWER_CALLS, DENY_NEWER);
		newer = nr >= NEWER_CALLS;
		stretch_add(f, nr, sorted[i].rule ? (uint8_t)(RULE + sorted[i].rule) : ALLOW);
		stretch_add(f, nr + 1, nr + 1 < NEWER_CALLS ? DENY : DENY_NEWER);
	}
	if (!newer)
		stretch_add(f, NEWER_CALLS, DENY_NEWER);
	return MIN(n, 0);
}

/* Ranges lo to hi, both included and more than one: halved until one side is a single range. */
static int tree(struct filter *f, size_t lo, size_t hi)
{
	size_t mid = lo + (hi - lo + 1) / 2, at;
	bool one_left = mid - 1 == lo, one_right = mid == hi;
	int ret = 0;

	at = test(f, BPF_JGE, f->s[mid].from, one_right ? f->s[hi].label : NEXT,
		  one_left ? f->s[lo].label : NEXT);
	if (!one_left)
		ret = tree(f, lo, mid - 1);
	if (one_right || ret)
		return ret;
	if (f->len - at - 1 > UINT8_MAX || at >= CODE_MAX)
		return -E2BIG;
	f->code[at].jt = (uint8_t)(f->len - at - 1);
	return tree(f, mid, hi);
}

/* ---- arguments ---- */

static void load_arg(struct filter *f, uint8_t arg)
{
	size_t off = offsetof(struct seccomp_data, args) +
		     sizeof(uint64_t) * (arg & (SANDBOX_HIGH - 1u));

	/* Little endian: the lower half comes first. */
	load(f, off + (arg & SANDBOX_HIGH ? sizeof(uint32_t) : 0));
}

static void rule_code(struct filter *f, const struct sandbox_rule *r, pid_t child)
{
	size_t i;

	for (i = 0; i < SANDBOX_ZERO_MAX && r->zero[i].bits; i++) {
		bool last = i + 1 == SANDBOX_ZERO_MAX || !r->zero[i + 1].bits;

		load_arg(f, r->zero[i].arg);
		test(f, BPF_JSET, r->zero[i].bits, DENY, last && !r->required ? ALLOW : NEXT);
	}
	if (i && !r->required)
		return;
	load_arg(f, r->arg);
	for (i = 0; i < r->nvalue; i++)
		test(f, BPF_JEQ, r->one_of[i], ALLOW, i + 1 < r->nvalue ? NEXT : DENY);
	if (r->required)
		test(f, BPF_JSET, r->required, ALLOW, DENY);
	if (r->pid == SANDBOX_PID_OWN)
		test(f, BPF_JEQ, (uint32_t)getpid(), ALLOW, DENY);
	if (r->pid == SANDBOX_PID_CHILD) /* no process has the number -1 */
		test(f, BPF_JEQ, child > 0 ? (uint32_t)child : UINT32_MAX, ALLOW, DENY);
}

/* The code of rules and answers, and the way there. */
static int labels(struct filter *f, pid_t child)
{
	static const uint32_t answers[] = {
		[ALLOW] = SECCOMP_RET_ALLOW, [DENY] = DENIED, [DENY_NEWER] = DENIED_NEWER,
	};
	size_t before;

	for (unsigned int i = RULE; i < LABELS; i++) {
		f->at[i] = f->len;
		if (f->used[i])
			rule_code(f, &sandbox_rules[i - RULE], child);
	}
	before = f->len;
	for (unsigned int i = ALLOW; i <= DENY_NEWER; i++)
		f->at[i] = add(f, BPF_RET | BPF_K, answers[i], NEXT, NEXT);
	if (f->len > CODE_MAX)
		return -E2BIG;
	for (size_t i = 0; i < before; i++) {
		size_t yes = f->at[f->yes[i]] - i - 1, no = f->at[f->no[i]] - i - 1;

		if ((f->yes[i] && yes > UINT8_MAX) || (f->no[i] && no > UINT8_MAX))
			return -E2BIG;
		f->code[i].jt = f->yes[i] ? (uint8_t)yes : f->code[i].jt;
		f->code[i].jf = f->no[i] ? (uint8_t)no : f->code[i].jf;
	}
	return 0;
}

bool sandbox_has_calls(void)
{
	return true;
}

int sandbox_seccomp(const struct sandbox_call *const *lists, pid_t child)
{
	struct filter f = { .len = 0 };
	struct sock_fprog prog = { .filter = f.code };
	int ret = stretches(&f, lists);

	if (ret)
		return ret;
	load(&f, offsetof(struct seccomp_data, arch));
	test(&f, BPF_JEQ, FILTER_ARCH, NEXT, DENY);
	load(&f, offsetof(struct seccomp_data, nr));
#ifdef FILTER_X32
	test(&f, BPF_JGE, FILTER_X32, DENY, NEXT);
#endif
	ret = tree(&f, 0, f.n - 1);
	ret = ret ?: labels(&f, child);
	if (ret)
		return ret;
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

int sandbox_seccomp(const struct sandbox_call *const *lists __unused_arg, pid_t child __unused_arg)
{
	return -ENOSYS;
}

#endif
