/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vm_fixture.h: a false /proc, /sys and debugfs in a directory of its own, for the tests of the
 * vm room.
 */
#ifndef VM_FIXTURE_H
#define VM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvmft/vm.h"

struct fixture {
	char dir[64], proc[96], debugfs[96], sys[96];
	struct vm_roots roots;
};

static inline void fx_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(path, 0700);
		*p = '/';
	}
}

static inline void fx_bytes(struct fixture *fx, const char *path, const void *data, size_t len)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", fx->dir, path);
	fx_parents(full);
	f = fopen(full, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static inline void fx_file(struct fixture *fx, const char *text, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static inline void fx_file(struct fixture *fx, const char *text, const char *fmt, ...)
{
	char path[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	fx_bytes(fx, path, text, strlen(text));
}

static inline void fx_link(struct fixture *fx, const char *target, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static inline void fx_link(struct fixture *fx, const char *target, const char *fmt, ...)
{
	char path[256], full[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	snprintf(full, sizeof(full), "%s/%s", fx->dir, path);
	fx_parents(full);
	assert_int_equal(symlink(target, full), 0);
}

/* One thread of a process: what /proc has under the thread's own number and under task/. */
static inline void fx_thread(struct fixture *fx, unsigned int tgid, unsigned int tid,
			     const char *comm)
{
	char text[128];

	snprintf(text, sizeof(text), "%s\n", comm);
	fx_file(fx, text, "proc/%u/task/%u/comm", tgid, tid);
	if (tid != tgid) {
		/* readdir does not show it in the real /proc; its status is there all the same */
		snprintf(text, sizeof(text), "Name:\tx\nTgid:\t%u\nPid:\t%u\n", tgid, tid);
		fx_file(fx, text, "proc/%u/status", tid);
	}
}

/* exe NULL: a process whose executable may not be read. */
static inline void fx_process(struct fixture *fx, unsigned int pid, unsigned int ppid,
			      const char *exe, const char *args, size_t args_len)
{
	char text[256], path[64];

	snprintf(text, sizeof(text), "Name:\tTgid:\\n 7\nUmask:\t0022\nTgid:\t%u\nPid:\t%u\n", pid,
		 pid);
	fx_file(fx, text, "proc/%u/status", pid);
	snprintf(text, sizeof(text),
		 "%u (a) b) (c) S %u 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 %u 1 2\n", pid, ppid,
		 pid + 1000000);
	fx_file(fx, text, "proc/%u/stat", pid);
	fx_file(fx, "main\n", "proc/%u/comm", pid);
	if (exe)
		fx_link(fx, exe, "proc/%u/exe", pid);
	fx_link(fx, "/dev/null", "proc/%u/fd/0", pid);
	fx_thread(fx, pid, pid, "main");
	snprintf(path, sizeof(path), "proc/%u/cmdline", pid);
	fx_bytes(fx, path, args, args_len);
}

#define FX_PROCESS(fx, pid, exe, args) fx_process(fx, pid, 1, exe, args, sizeof(args))

/* vcpu<id> of debugfs kvm/<sel>; a NULL text leaves the file out. */
static inline void fx_vcpu(struct fixture *fx, const char *sel, unsigned int id, const char *pid,
			   const char *offset, const char *ratio, const char *frac)
{
	fx_file(fx, "0\n", "debugfs/kvm/%s/vcpu%u/guest_mode", sel, id);
	if (pid)
		fx_file(fx, pid, "debugfs/kvm/%s/vcpu%u/pid", sel, id);
	if (offset)
		fx_file(fx, offset, "debugfs/kvm/%s/vcpu%u/tsc-offset", sel, id);
	if (ratio)
		fx_file(fx, ratio, "debugfs/kvm/%s/vcpu%u/tsc-scaling-ratio", sel, id);
	if (frac)
		fx_file(fx, frac, "debugfs/kvm/%s/vcpu%u/tsc-scaling-ratio-frac-bits", sel, id);
}

static inline int fx_setup(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	assert_non_null(fx);
	snprintf(fx->dir, sizeof(fx->dir), "/tmp/kvmft-vm-XXXXXX");
	assert_non_null(mkdtemp(fx->dir));
	snprintf(fx->proc, sizeof(fx->proc), "%s/proc", fx->dir);
	snprintf(fx->debugfs, sizeof(fx->debugfs), "%s/debugfs", fx->dir);
	snprintf(fx->sys, sizeof(fx->sys), "%s/sys", fx->dir);
	fx->roots = (struct vm_roots){ fx->proc, fx->debugfs, fx->sys };
	fx_file(fx, "", "proc/version");
	fx_file(fx, "0\n", "debugfs/kvm/exits");
	fx_file(fx, "tsc\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource");
	*state = fx;
	return 0;
}

static inline int fx_remove(const char *path, const struct stat *st __unused_arg,
			    int type __unused_arg, struct FTW *ftw __unused_arg)
{
	return remove(path);
}

static inline void fx_drop(struct fixture *fx, const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", fx->dir, path);
	assert_int_equal(nftw(full, fx_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline int fx_teardown(void **state)
{
	struct fixture *fx = *state;

	nftw(fx->dir, fx_remove, 16, FTW_DEPTH | FTW_PHYS);
	free(fx);
	return 0;
}

static inline struct vm_list *fx_scan(struct fixture *fx)
{
	struct vm_list *list = NULL;
	struct kvmft_err err = { .code = 0 };

	assert_int_equal(vm_scan(&fx->roots, &list, &err), 0);
	assert_non_null(list);
	return list;
}

#endif
