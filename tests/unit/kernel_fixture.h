/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel_fixture.h: a false tracefs of plain files in a directory of its own, for the tests of
 * the kernel room, and a dead process to own things.
 */
#ifndef KERNEL_FIXTURE_H
#define KERNEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvmft/kernel.h"

struct kfx {
	char dir[64];
	struct ktracefs *t;
	struct kvmft_err err;
};

static inline void kfx_path(const struct kfx *fx, const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", fx->dir, name);
	for (char *p = strchr(buf + strlen(fx->dir) + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(buf, 0700);
		*p = '/';
	}
}

/* Makes a file with its parents. */
static inline void kfx_file(const struct kfx *fx, const char *name, const char *text)
{
	char path[320];
	FILE *f;

	kfx_path(fx, name, path, sizeof(path));
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static inline void kfx_dir(const struct kfx *fx, const char *name)
{
	char path[320];

	kfx_path(fx, name, path, sizeof(path));
	assert_int_equal(mkdir(path, 0700), 0);
}

static inline void kfx_event(const struct kfx *fx, const char *sys, const char *name,
			     const char *id)
{
	char path[160];

	snprintf(path, sizeof(path), "events/%s/enable", sys);
	kfx_file(fx, path, "0\n");
	snprintf(path, sizeof(path), "events/%s/%s/enable", sys, name);
	kfx_file(fx, path, "0\n");
	snprintf(path, sizeof(path), "events/%s/%s/id", sys, name);
	kfx_file(fx, path, id);
	snprintf(path, sizeof(path), "events/%s/%s/format", sys, name);
	kfx_file(fx, path, "name: x\n");
}

static inline int kfx_setup(void **state)
{
	struct kfx *fx = calloc(1, sizeof(*fx));

	if (!fx)
		return -1;
	snprintf(fx->dir, sizeof(fx->dir), "/tmp/kvmft-test-kernel-XXXXXX");
	if (!mkdtemp(fx->dir))
		return -1;
	*state = fx;
	return ktracefs_open(fx->dir, 0, &fx->t, NULL);
}

static inline int kfx_unlink(const char *path, const struct stat *st __unused_arg,
			     int type __unused_arg, struct FTW *f __unused_arg)
{
	return remove(path);
}

static inline int kfx_teardown(void **state)
{
	struct kfx *fx = *state;

	ktracefs_close(fx->t);
	if (nftw(fx->dir, kfx_unlink, 16, FTW_DEPTH | FTW_PHYS))
		return -1;
	free(fx);
	return 0;
}

/* A process that was and is no more, by PID and start time. */
static inline struct kowner kfx_dead_owner(void)
{
	struct kowner o = { 0 };
	int status, ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int err = kowner_self(&o);

		_exit(err || write(ends[1], &o, sizeof(o)) != sizeof(o));
	}
	assert_int_equal(read(ends[0], &o, sizeof(o)), sizeof(o));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	return o;
}

#endif
