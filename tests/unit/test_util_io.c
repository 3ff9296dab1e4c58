/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_io.c: tests of src/util/io.c, each in a new directory of its own.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <cmocka.h>

struct place {
	char path[64];
	int dir;
};

static int place_setup(void **state)
{
	struct place *pl = calloc(1, sizeof(*pl));

	if (!pl)
		return -1;
	snprintf(pl->path, sizeof(pl->path), "/tmp/kvmft-test-io-XXXXXX");
	if (!mkdtemp(pl->path))
		return -1;
	pl->dir = open(pl->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = pl;
	return pl->dir < 0;
}

static int place_teardown(void **state)
{
	static const char *const name[] = { "f", "target", "link", "fifo" };
	struct place *pl = *state;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(name); i++)
		unlinkat(pl->dir, name[i], 0);
	close(pl->dir);
	err = rmdir(pl->path);
	free(pl);
	return err;
}

static void put(struct place *pl, const char *name, const void *p, size_t n)
{
	_cleanup_close_ int fd = openat(pl->dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(full_write(fd, p, n, NULL), 0);
}

static void test_close_keeps_errno(void **state __unused_arg)
{
	int fd = 12345; /* not open: close() fails with EBADF */

	errno = ENOENT;
	util_close_fd(&fd);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(fd, -1);
	util_close_fd(&fd);
}

static void test_write_full_pipe(void **state __unused_arg)
{
	static char data[1 << 20];
	size_t done = 0;
	int fd[2], size;

	assert_int_equal(pipe2(fd, O_NONBLOCK | O_CLOEXEC), 0);
	size = fcntl(fd[1], F_GETPIPE_SZ);
	assert_int_equal(full_write(fd[1], data, sizeof(data), &done), -EAGAIN);
	assert_int_equal(done, size);
	assert_int_equal(full_write(fd[1], data, 1, &done), -EAGAIN);
	assert_int_equal(done, 0);
	assert_int_equal(full_write(fd[1], data, 0, &done), 0);
	close(fd[0]);
	close(fd[1]);
}

/* A slow reader of a small pipe forces many short or blocking writes. */
static void test_write_slow_reader(void **state __unused_arg)
{
	static char data[200000], got[4096];
	size_t done = 0, total = 0;
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 / 3);
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fd[0]);
		_exit(full_write(fd[1], data, sizeof(data), &done) || done != sizeof(data));
	}
	close(fd[1]);
	while ((n = read(fd[0], got, sizeof(got))) > 0) {
		assert_true(total + (size_t)n <= sizeof(data));
		assert_memory_equal(got, data + total, (size_t)n);
		total += (size_t)n;
	}
	close(fd[0]);
	assert_int_equal(total, sizeof(data));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static volatile sig_atomic_t interruptions;

static void count_interruption(int sig __unused_arg)
{
	interruptions++;
}

/* The pipe is full until the reader wakes up; meanwhile a timer interrupts write() many times. */
static void test_write_interrupted(void **state __unused_arg)
{
	const struct itimerval every = { .it_interval.tv_usec = 5000, .it_value.tv_usec = 5000 };
	const struct sigaction count = { .sa_handler = count_interruption }; /* no SA_RESTART */
	static char data[300000], got[4096];
	const struct itimerval off = { 0 };
	struct sigaction old;
	size_t done = 0, total = 0;
	int fd[2], status, err;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fd[1]);
		usleep(150000);
		while ((n = read(fd[0], got, sizeof(got))) > 0)
			total += (size_t)n;
		_exit(total != sizeof(data));
	}
	close(fd[0]);
	sigaction(SIGALRM, &count, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	err = full_write(fd[1], data, 65536, &done); /* fills a pipe of usual size */
	if (!err)
		err = full_write(fd[1], data, sizeof(data) - 65536, &done);
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
	close(fd[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(err, 0);
	assert_int_equal(done, sizeof(data) - 65536);
	assert_int_equal(status, 0);
	assert_true(interruptions > 3);
}

/* Each side hears the other one, and its end: nobody has a copy of an end that is not his. */
static void test_fork_piped(void **state)
{
	const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit was, now;
	char text[8] = "";
	int end[2], status;
	pid_t pid;

	(void)state;
	pid = fork_piped(end);
	assert_true(pid >= 0);
	if (!pid) {
		if (full_read(end[1], text, 5) || read(end[1], text + 5, 1) || strcmp(text, "hello"))
			_exit(1);
		_exit(full_write(end[0], "world", 5, NULL) ? 2 : 0);
	}
	assert_int_equal(full_write(end[0], "hello", 5, NULL), 0);
	util_close_fd(&end[0]);
	assert_int_equal(full_read(end[1], text, 5), 0);
	assert_string_equal(text, "world");
	assert_int_equal(read(end[1], text, 1), 0);
	util_close_fd(&end[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* With room for one of the two pipes: nothing of it stays open. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	now.rlim_cur = (rlim_t)before + 4;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	pid = fork_piped(end);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(pid, -EMFILE);
	assert_true(end[0] == -1 && end[1] == -1);
	status = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(status, before + 1);
	close(status);
	close(before);
}

static void test_write_file_limit(void **state)
{
	struct place *pl = *state;
	static char data[10000];
	struct rlimit was, now;
	struct sigaction ign = { .sa_handler = SIG_IGN }, old;
	size_t done = 0;
	int fd, err;

	fd = file_create(pl->dir, "f");
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	now = was;
	now.rlim_cur = 4097;
	sigaction(SIGXFSZ, &ign, &old);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
	err = full_write(fd, data, sizeof(data), &done);
	setrlimit(RLIMIT_FSIZE, &was); /* before any assertion prints */
	sigaction(SIGXFSZ, &old, NULL);
	close(fd);
	assert_int_equal(err, -EFBIG);
	assert_int_equal(done, 4097);
}

static void test_write_errors(void **state __unused_arg)
{
	size_t done = 7;
	_cleanup_close_ int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	assert_int_equal(full_write(fd, "x", 1, &done), -ENOSPC);
	assert_int_equal(done, 0);
	assert_int_equal(full_write(-1, "x", 1, NULL), -EBADF);
}

static void test_pread(void **state)
{
	struct place *pl = *state;
	char buf[8] = "";
	int fd;

	put(pl, "f", "0123456789", 10);
	fd = openat(pl->dir, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(full_pread(fd, buf, 4, 3), 4);
	assert_memory_equal(buf, "3456", 4);
	assert_int_equal(full_pread(fd, buf, 8, 6), 4);
	assert_memory_equal(buf, "6789", 4);
	assert_int_equal(full_pread(fd, buf, 8, 10), 0);
	assert_int_equal(full_pread(fd, buf, 8, 1 << 30), 0);
	assert_int_equal(full_pread(fd, buf, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(full_pread(fd, buf, 8, INT64_MAX - 7), -EINVAL);
	assert_int_equal(full_pread(fd, buf, SIZE_MAX, 0), -EINVAL);
	close(fd);
	assert_int_equal(full_pread(-1, buf, 8, 0), -EBADF);
}

/* Every length near the steps of the buffer, with the maximum below, at and above it. */
static void test_read_all_lengths(void **state)
{
	static const size_t len[] = { 0, 1, 2, 4093, 4094, 4095, 4096, 4097, 8191, 8192, 100000 };
	static char data[100000];
	struct place *pl = *state;
	char *out;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 13 / 5);
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		for (size_t max = len[i]; max < len[i] + 3; max++) {
			put(pl, "f", data, len[i]);
			assert_int_equal(file_read_all(pl->dir, "f", max, &out), len[i]);
			assert_memory_equal(out, data, len[i]);
			assert_int_equal(out[len[i]], 0);
			free(out);
		}
		assert_int_equal(file_read_all(pl->dir, "f", SIZE_MAX, &out), len[i]);
		free(out);
		if (len[i]) {
			out = data;
			assert_int_equal(file_read_all(pl->dir, "f", len[i] - 1, &out), -EFBIG);
			assert_null(out);
		}
	}
}

static void test_read_all_kernel_file(void **state __unused_arg)
{
	struct stat st;
	char *out;

	assert_int_equal(stat("/proc/self/maps", &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_true(file_read_all(AT_FDCWD, "/proc/self/maps", 1 << 22, &out) > 0);
	assert_non_null(strstr(out, "[stack]"));
	free(out);
}

static void test_read_all_errors(void **state)
{
	struct place *pl = *state;
	char *out = (char *)pl;

	assert_int_equal(file_read_all(pl->dir, "none", 10, &out), -ENOENT);
	assert_null(out);
	assert_int_equal(file_read_all(pl->dir, ".", 10, &out), -EISDIR);
	assert_null(out);
}

static void test_read_line(void **state)
{
	struct place *pl = *state;
	char buf[5];

	put(pl, "f", "", 0);
	assert_int_equal(file_read_line(pl->dir, "f", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	put(pl, "f", "ab\ncdefgh", 9);
	assert_int_equal(file_read_line(pl->dir, "f", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "ab");
	put(pl, "f", "abcd", 4);
	assert_int_equal(file_read_line(pl->dir, "f", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "abcd");
	put(pl, "f", "abcd\n", 5);
	assert_int_equal(file_read_line(pl->dir, "f", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "abcd");
	put(pl, "f", "abcde", 5);
	assert_int_equal(file_read_line(pl->dir, "f", buf, sizeof(buf)), -EFBIG);
	assert_int_equal(file_read_line(pl->dir, "f", buf, 0), -EFBIG);
	assert_int_equal(file_read_line(pl->dir, "none", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(file_read_line(pl->dir, ".", buf, sizeof(buf)), -EISDIR);
}

static void test_read_u64(void **state)
{
	static const char *const bad[] = { "", "\n", " \n1", "x", "1 2", "-1", "1x" };
	struct place *pl = *state;
	uint64_t v = 0;

	put(pl, "f", " \t42 \t\r\nrest", 12);
	assert_int_equal(file_read_u64(pl->dir, "f", &v), 0);
	assert_int_equal(v, 42);
	put(pl, "f", "18446744073709551615\n", 21);
	assert_int_equal(file_read_u64(pl->dir, "f", &v), 0);
	assert_true(v == UINT64_MAX);
	put(pl, "f", "18446744073709551616\n", 21);
	assert_int_equal(file_read_u64(pl->dir, "f", &v), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		put(pl, "f", bad[i], strlen(bad[i]));
		assert_int_equal(file_read_u64(pl->dir, "f", &v), -EINVAL);
	}
	assert_true(v == UINT64_MAX);
	assert_int_equal(file_read_u64(pl->dir, "none", &v), -ENOENT);
}

static void test_write_text(void **state)
{
	struct place *pl = *state;
	char *out;

	assert_int_equal(file_write_text(pl->dir, "f", "x"), -ENOENT);
	put(pl, "f", "abc", 3);
	assert_int_equal(file_write_text(pl->dir, "f", "X"), 0);
	assert_int_equal(file_read_all(pl->dir, "f", 10, &out), 3);
	assert_string_equal(out, "Xbc"); /* not truncated */
	free(out);
	assert_int_equal(file_write_text(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

static void test_create_mode(void **state)
{
	static const mode_t mask[] = { 0, 022, 077, 0277, 0777 };
	struct place *pl = *state;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(mask); i++) {
		mode_t was = umask(mask[i]);
		int fd = file_create(pl->dir, "f");

		umask(was);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		close(fd);
		assert_int_equal(unlinkat(pl->dir, "f", 0), 0);
	}
}

static void test_create_refuses(void **state)
{
	struct place *pl = *state;
	char *out;

	put(pl, "target", "precious", 8);
	assert_int_equal(file_create(pl->dir, "target"), -EEXIST);
	assert_int_equal(symlinkat("target", pl->dir, "link"), 0);
	assert_int_equal(file_create(pl->dir, "link"), -EEXIST);
	assert_int_equal(unlinkat(pl->dir, "link", 0), 0);
	assert_int_equal(symlinkat("nowhere", pl->dir, "link"), 0);
	assert_int_equal(file_create(pl->dir, "link"), -EEXIST);
	assert_int_equal(faccessat(pl->dir, "nowhere", F_OK, 0), -1);
	assert_int_equal(mkfifoat(pl->dir, "fifo", 0600), 0);
	assert_int_equal(file_create(pl->dir, "fifo"), -EEXIST); /* and does not hang */
	assert_int_equal(file_create(pl->dir, "."), -EEXIST);
	assert_int_equal(file_create(pl->dir, "no/file"), -ENOENT);
	assert_int_equal(file_read_all(pl->dir, "target", 100, &out), 8);
	assert_string_equal(out, "precious");
	free(out);
}

/* Only plain files are opened, whatever leads to them; and only ours when that is requested. */
static void test_open_plain(void **state)
{
	const struct place *pl = *state;
	char path[96], *text;
	int fd;

	put(*state, "target", "x", 1);
	assert_int_equal(symlinkat("target", pl->dir, "link"), 0);
	assert_int_equal(mkfifoat(pl->dir, "fifo", 0600), 0);
	snprintf(path, sizeof(path), "%s/link", pl->path);
	fd = file_open_regular(path, true);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	assert_int_equal(file_read_regular(path, 100, true, &text), 1);
	free(text);
	assert_int_equal(fchmodat(pl->dir, "target", 0620, 0), 0);
	assert_int_equal(file_open_regular(path, true), -EPERM);
	close(file_open_regular(path, false));
	if (!geteuid()) {
		assert_int_equal(fchmodat(pl->dir, "target", 0600, 0), 0);
		assert_int_equal(fchownat(pl->dir, "target", 65534, 65534, 0), 0);
		assert_int_equal(file_read_regular(path, 100, true, &text), -EPERM);
		assert_null(text);
	}
	snprintf(path, sizeof(path), "%s/fifo", pl->path);
	assert_int_equal(file_open_regular(path, false), -EINVAL); /* and does not wait */
	assert_int_equal(file_open_regular(pl->path, false), -EINVAL);
	assert_int_equal(file_open_regular("/dev/null", false), -EINVAL);
	snprintf(path, sizeof(path), "%s/none", pl->path);
	assert_int_equal(file_open_regular(path, false), -ENOENT);
}

#define io_test(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_keeps_errno),
		cmocka_unit_test(test_write_full_pipe),
		cmocka_unit_test(test_write_slow_reader),
		cmocka_unit_test(test_write_interrupted),
		cmocka_unit_test(test_fork_piped),
		io_test(test_write_file_limit),
		cmocka_unit_test(test_write_errors),
		io_test(test_pread),
		io_test(test_read_all_lengths),
		cmocka_unit_test(test_read_all_kernel_file),
		io_test(test_read_all_errors),
		io_test(test_read_line),
		io_test(test_read_u64),
		io_test(test_write_text),
		io_test(test_create_mode),
		io_test(test_create_refuses),
		io_test(test_open_plain),
	};

	return cmocka_run_group_tests_name("util/io", tests, NULL, NULL);
}
