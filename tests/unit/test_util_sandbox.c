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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kvmft/sandbox.h"
#include "util/sandbox_calls.h"

#define NEWEST_CALL 460 /* or newer than that */

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
	const struct sandbox s = { .caps = SANDBOX_CAP(CAP_KILL), .bounding = true };
	unsigned int layers;
	uint64_t before = caps("CapEff:"), bounding = caps("CapBnd:");

	EXPECT(before != UINT64_MAX);
	EXPECT(!sandbox_enter(&s, &layers, NULL) && (layers & SANDBOX_CAPS));
	EXPECT(caps("CapEff:") == (before & SANDBOX_CAP(CAP_KILL)));
	EXPECT(caps("CapPrm:") == (before & SANDBOX_CAP(CAP_KILL)));
	EXPECT(caps("CapInh:") == 0);
	EXPECT(caps("CapAmb:") == 0);
	EXPECT(caps("CapBnd:") == (before & SANDBOX_CAP(CAP_SETPCAP) ? 0 : bounding));
	EXPECT(caps("NoNewPrivs:") == 1);
	return 0;
}

static int child_files(struct places *p)
{
	const struct sandbox_dir dir = { p->in_fd, SANDBOX_WRITE | SANDBOX_CREATE };
	const struct sandbox s = {
		.calls = SANDBOX_CALLS_RECORDER, .files = true, .dir = &dir, .ndir = 1
	};
	unsigned int layers, have = sandbox_have();
	int fd;

	EXPECT(!sandbox_enter(&s, &layers, NULL));
	EXPECT(layers == have);

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
	EXPECT(symlinkat("x", p->in_fd, "d") < 0 && (errno == EACCES || errno == EPERM));
	EXPECT(mkfifoat(p->in_fd, "d", 0600) < 0 && (errno == EACCES || errno == EPERM));
	return 0;
}

/* What else is denied, and that nothing else is: tests/cli/sandbox.t, without sanitizers. */
static int child_calls(struct places *p __unused_arg)
{
	unsigned int layers;

	EXPECT(!sandbox_enter_reader(&layers, NULL));
	if (!(layers & SANDBOX_SECCOMP))
		return 0;
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_inotify_init1, 0) < 0 && errno == EPERM);
	EXPECT(syscall(NEWEST_CALL, -1, 0, 0, 0, 0) < 0 && errno == ENOSYS);
	EXPECT(open("/proc/self/status", O_RDWR | O_CLOEXEC) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_lseek, -1, 0, 0) < 0 && errno == EBADF);
	return 0;
}

/* A list with one call twice, or with more than there is room for, is no filter. */
static int child_lists(struct places *p __unused_arg)
{
	static const struct sandbox_call twice[] = {
		{ SYS_read, SANDBOX_ANY, 1 }, { SYS_read, SANDBOX_FCNTL, 3 },
		{ SANDBOX_CALLS_END, 0, 0 },
	};
	struct sandbox_call many[240];

	if (!sandbox_has_calls())
		return 0;
	EXPECT(sandbox_seccomp(twice, 0, 0) == -EEXIST);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct sandbox_call){ (uint16_t)(2 * i), SANDBOX_FCNTL, 1 };
	many[ARRAY_SIZE(many) - 1].nr = SANDBOX_CALLS_END;
	EXPECT(sandbox_seccomp(many, 0, 0) == -E2BIG);
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

static void test_lists(void **state)
{
	in_child(child_lists, *state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_caps),
		cmocka_unit_test_setup_teardown(test_files, places_setup, places_teardown),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
