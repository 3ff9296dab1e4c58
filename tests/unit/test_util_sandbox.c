/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process cannot do any more after sandbox_enter(), each time in a child of its own, which
 * answers with the number of the line that failed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kvmft/sandbox.h"

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond))                                                                       \
			return __LINE__;                                                           \
	} while (0)

struct places {
	char dir[64], in[80], out[80];
	int in_fd, out_fd;
};

static void in_child(int (*fn)(struct places *p), struct places *p)
{
	int ends[2], line = 0, status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		line = fn(p);
		_exit(write(ends[1], &line, sizeof(line)) != sizeof(line));
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &line, sizeof(line)), sizeof(line));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (line)
		fail_msg("line %d of this file", line);
}

static int places_setup(void **state)
{
	struct places *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	snprintf(p->dir, sizeof(p->dir), "/tmp/kvmft-test-sandbox-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	snprintf(p->in, sizeof(p->in), "%s/in", p->dir);
	snprintf(p->out, sizeof(p->out), "%s/out", p->dir);
	if (mkdir(p->in, 0700) || mkdir(p->out, 0700))
		return -1;
	p->in_fd = open(p->in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->out_fd = open(p->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->in_fd < 0 || p->out_fd < 0;
}

static int places_teardown(void **state)
{
	struct places *p = *state;
	const char *left[] = { "in/a", "in/d", "in", "out/a", "out", "." };
	int failed = 0;

	close(p->in_fd);
	close(p->out_fd);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", p->dir, left[i]);
		(void)!remove(i + 1 < ARRAY_SIZE(left) ? path : p->dir);
	}
	failed = access(p->dir, F_OK) == 0;
	free(p);
	return failed;
}

static uint64_t caps(const char *field)
{
	_cleanup_free_ char *text = NULL;
	const char *at;

	if (file_read_all(AT_FDCWD, "/proc/self/status", 1 << 16, &text) < 0)
		return UINT64_MAX;
	at = strstr(text, field);
	return at ? strtoull(at + strlen(field), NULL, 16) : UINT64_MAX;
}

static int child_caps(struct places *p __unused_arg)
{
	const struct sandbox s = { .caps = SANDBOX_CAP(CAP_KILL) };
	uint64_t before = caps("CapEff:"), bounding = caps("CapBnd:");

	EXPECT(before != UINT64_MAX);
	EXPECT(sandbox_enter(&s) & SANDBOX_CAPS);
	EXPECT(caps("CapEff:") == (before & SANDBOX_CAP(CAP_KILL)));
	EXPECT(caps("CapPrm:") == (before & SANDBOX_CAP(CAP_KILL)));
	EXPECT(caps("CapInh:") == 0);
	EXPECT(caps("CapAmb:") == 0);
	EXPECT(caps("CapBnd:") == (before & SANDBOX_CAP(CAP_SETPCAP) ? 0 : bounding));
	EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	return 0;
}

static int child_files(struct places *p)
{
	const struct sandbox_dir dir = { p->in_fd, SANDBOX_WRITE | SANDBOX_CREATE };
	const struct sandbox s = { .files = true, .dir = &dir, .ndir = 1 };
	unsigned int layers = sandbox_enter(&s);
	int fd;

	/* What it may: write below the directory, and read anything. */
	fd = file_create(p->in_fd, "a");
	EXPECT(fd >= 0);
	EXPECT(!full_write(fd, "x", 1, NULL));
	close(fd);
	EXPECT(!mkdirat(p->in_fd, "d", 0700));
	EXPECT(!unlinkat(p->in_fd, "d", AT_REMOVEDIR));
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	EXPECT(fd >= 0);
	close(fd);
	if (!(layers & SANDBOX_LANDLOCK))
		return 0;
	EXPECT(file_create(p->out_fd, "a") == -EACCES);
	EXPECT(mkdir(p->out, 0700) < 0);
	EXPECT(mkdirat(p->out_fd, "d", 0700) < 0 && errno == EACCES);
	EXPECT(rmdir(p->out) < 0 && errno == EACCES);
	EXPECT(open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 && errno == EACCES);
	EXPECT(symlinkat("x", p->in_fd, "d") < 0 && errno == EACCES);
	EXPECT(mkfifoat(p->in_fd, "d", 0600) < 0 && errno == EACCES);
	return 0;
}

static const long denied[] = {
	SYS_socket, SYS_socketpair, SYS_process_vm_readv, SYS_process_vm_writev, SYS_add_key, SYS_request_key,
	SYS_keyctl, SYS_setns, SYS_personality, SYS_io_setup, SYS_clock_adjtime, SYS_open_by_handle_at,
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
#endif
};
static const long allowed[] = {
	SYS_read, SYS_close, SYS_lseek, SYS_fstat, SYS_getpid, SYS_sendto, SYS_getsockname, SYS_fsync, SYS_getuid,
	SYS_getppid, SYS_gettid, SYS_readahead, SYS_io_destroy, SYS_openat, SYS_unlinkat, SYS_pread64, SYS_getcpu,
	SYS_syncfs, SYS_getrandom, SYS_copy_file_range, SYS_statx,
};

static int child_calls(struct places *p __unused_arg)
{
	const struct sandbox s = { 0 };
	unsigned int layers = sandbox_enter(&s);

	if (!(layers & SANDBOX_SECCOMP))
		return 0;
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_INET, SOCK_DGRAM, 0) < 0 && errno == EPERM);
	/* Low numbers, high ones and those between; none of them would do anything if it were not denied. */
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		EXPECT(syscall(denied[i], -1, 0, 0, 0, 0) < 0 && errno == EPERM);
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		EXPECT(syscall(allowed[i], -1, 0, 0, 0, 0) >= 0 || errno != EPERM);
	/* Also for what is started from now on. */
	pid_t pid = fork();

	if (!pid)
		_exit(socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM);
	int status = 1;

	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_caps(void **state)
{
	in_child(child_caps, *state);
}

static void test_files(void **state)
{
	in_child(child_files, *state);
}

static void test_calls(void **state)
{
	in_child(child_calls, *state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_caps),
		cmocka_unit_test_setup_teardown(test_files, places_setup, places_teardown),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
