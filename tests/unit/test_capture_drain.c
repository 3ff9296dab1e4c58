/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining as on a machine with more CPUs than select() has room for: every stream arrives whole, in
 * its own file, and all threads end when told to. Pipes stand in for trace_pipe_raw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvmft/drain.h"

#define CPUS	1100u
#define SUBBUF	4096u
#define SUBBUFS 6u
#define FDS	(5 * CPUS + 64) /* source and pipe have two ends */

struct machine {
	struct drain_store store;
	struct drain_cpu cpu[CPUS];
	int in[CPUS], out[CPUS];
	int file[CPUS]; /* a second descriptor of the data file */
	_Atomic unsigned int opened;
};

static int store_open(void *ctx, unsigned int segment, unsigned int cpu)
{
	struct machine *m = ctx;
	int fd = memfd_create("kvmft-test", MFD_CLOEXEC);

	assert_int_equal(segment, 0);
	m->file[cpu] = fd < 0 ? -1 : dup(fd);
	atomic_fetch_add(&m->opened, 1);
	return fd < 0 ? -errno : fd;
}

static bool enough_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return false;
	if (lim.rlim_cur >= FDS + CPUS)
		return true;
	lim.rlim_cur = FDS + CPUS;
	lim.rlim_max = lim.rlim_max < lim.rlim_cur ? lim.rlim_cur : lim.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &lim);
}

static void fill(uint8_t *buf, unsigned int cpu, unsigned int n)
{
	memset(buf, (int)(cpu + n), SUBBUF);
	memcpy(buf, &cpu, sizeof(cpu));
	memcpy(buf + sizeof(cpu), &n, sizeof(n));
}

static void produce(struct machine *m, unsigned int from, unsigned int to)
{
	uint8_t buf[SUBBUF];

	for (unsigned int n = from; n < to; n++)
		for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
			fill(buf, cpu, n);
			assert_int_equal(write(m->in[cpu], buf, SUBBUF), SUBBUF);
		}
}

static void check_file(const struct machine *m, unsigned int cpu)
{
	uint8_t want[SUBBUF], got[SUBBUF];

	for (unsigned int n = 0; n < SUBBUFS; n++) {
		fill(want, cpu, n);
		assert_int_equal(pread(m->file[cpu], got, SUBBUF, (off_t)n * SUBBUF), SUBBUF);
		assert_memory_equal(got, want, SUBBUF);
	}
	assert_int_equal(pread(m->file[cpu], got, 1, (off_t)SUBBUFS * SUBBUF), 0);
	assert_int_equal(m->cpu[cpu].bytes, SUBBUFS * SUBBUF);
	assert_int_equal(m->cpu[cpu].error, 0);
	assert_int_equal(m->cpu[cpu].dropped, 0);
}

static void start_all(struct machine *m)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		struct drain_cpu *c = &m->cpu[cpu];
		int fds[2];

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		m->in[cpu] = fds[1];
		m->out[cpu] = fds[0];
		*c = (struct drain_cpu){ .cpu = cpu, .src = fds[0], .store = &m->store };
		assert_int_equal(drain_open(c), 0);
		assert_int_equal(drain_start(c), 0);
	}
}

static void test_many_cpus(void **state __unused_arg)
{
	struct machine *m = calloc(1, sizeof(*m));
	int highest = 0;

	assert_non_null(m);
	if (!enough_descriptors()) {
		print_message("skipped: %u descriptors are not allowed here\n", FDS + CPUS);
		free(m);
		skip();
	}
	m->store = (struct drain_store){ .subbuf = SUBBUF, .wake_fd = -1, .ctx = m, .open = store_open };
	assert_int_equal(drain_store_init(&m->store), 0);
	assert_int_equal(drain_signal_init(), 0);
	start_all(m);
	produce(m, 0, SUBBUFS / 2);
	drain_flush(m->cpu, CPUS, DRAIN_FLUSH_COMPLETE);
	produce(m, SUBBUFS / 2, SUBBUFS);
	/* Threads that sleep in splice() with nothing to come are woken, all of them. */
	drain_join(m->cpu, CPUS);
	assert_int_equal(drain_finish(m->cpu, CPUS), 0);
	assert_int_equal(m->opened, CPUS);
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		check_file(m, cpu);
		highest = m->cpu[cpu].dst > highest ? m->cpu[cpu].dst : highest;
		drain_close(&m->cpu[cpu]);
		close(m->in[cpu]);
		close(m->out[cpu]);
		close(m->file[cpu]);
	}
	assert_true(highest > 1024); /* FD_SETSIZE */
	drain_store_free(&m->store);
	free(m);
}

/* ---- a user whose pipes have reached their limit ---- */

#define NOBODY	   61234 /* an account of its own: nobody else's pipes are in the way, nor ours in theirs */
#define PIPES_MOST 200
#define BIG	   65536u

static int memfd_open(void *ctx __unused_arg, unsigned int segment __unused_arg,
		      unsigned int cpu __unused_arg)
{
	int fd = memfd_create("kvmft-test", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* drain_open() with large sub-buffers: what it returns; *size is what its pipe may take. */
static int open_one(size_t *size)
{
	struct drain_store s = { .subbuf = BIG, .wake_fd = -1, .open = memfd_open };
	struct drain_cpu c = { .store = &s };
	int got = drain_store_init(&s);

	got = got ? got : drain_open(&c);
	*size = c.pipe_size;
	drain_close(&c);
	drain_store_free(&s);
	return got;
}

/* In a child. 0, or the line of the first thing that is not so; 77 when there is no limit here. */
static int without_pipes(void)
{
	int fds[PIPES_MOST][2], n = 0;
	size_t size;

	if (setgid(NOBODY) || setuid(NOBODY))
		return 77;
	while (n < PIPES_MOST && !pipe2(fds[n], O_CLOEXEC) && fcntl(fds[n][1], F_SETPIPE_SZ, 1 << 20) > 0)
		n++;
	if (n == PIPES_MOST || errno != EPERM)
		return 77;
	/* The last one has what is left; a new one is too small for a sub-buffer. */
	while (!pipe2(fds[n + 1], O_CLOEXEC) && fcntl(fds[n + 1][1], F_GETPIPE_SZ) >= (int)BIG &&
	       n + 2 < PIPES_MOST)
		n++;
	if (open_one(&size) != -ENOBUFS)
		return __LINE__;
	/* One megabyte free: not all of it, because a pipe is there before it grows. */
	close(fds[0][0]);
	close(fds[0][1]);
	if (open_one(&size) || size < (size_t)BIG * 16)
		return __LINE__;
	close(fds[1][0]);
	close(fds[1][1]);
	if (open_one(&size) || size < (size_t)BIG * 256)
		return __LINE__;
	return 0;
}

static void test_pipe_limit(void **state __unused_arg)
{
	int status;
	pid_t pid;

	if (geteuid()) {
		print_message("skipped: only root can become a user without pipes\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(without_pipes() & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: this kernel limits no user's pipes\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A file that takes a part of a sub-buffer, and cannot be read: what was lost is counted, if not its events. */
static int store_open_short(void *ctx __unused_arg, unsigned int segment __unused_arg,
			    unsigned int cpu __unused_arg)
{
	char path[64];
	int fd = memfd_create("kvmft-test", MFD_CLOEXEC), to;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	to = open(path, O_WRONLY | O_CLOEXEC);
	close(fd);
	return to;
}

static void test_half_written(void **state __unused_arg)
{
	struct drain_store store = { .subbuf = SUBBUF, .wake_fd = -1, .open = store_open_short };
	struct rlimit lim, old;
	struct drain_cpu c = { .store = &store };
	uint8_t buf[SUBBUF];
	int fds[2];

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	lim = old;
	lim.rlim_cur = SUBBUF + 100;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	c.src = fds[0];
	for (unsigned int n = 0; n < 3; n++) {
		fill(buf, 0, n);
		assert_int_equal(write(fds[1], buf, SUBBUF), SUBBUF);
	}
	assert_int_equal(drain_store_init(&store), 0);
	assert_int_equal(drain_signal_init(), 0);
	assert_int_equal(drain_open(&c), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	assert_int_equal(drain_start(&c), 0);
	drain_join(&c, 1);
	(void)drain_finish(&c, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(c.error, -EFBIG);
	assert_int_equal(c.bytes, SUBBUF);
	assert_int_equal(c.uncounted, 1);
	assert_int_equal(c.dropped, 2);
	drain_close(&c);
	drain_store_free(&store);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_cpus),
		cmocka_unit_test(test_pipe_limit),
		cmocka_unit_test(test_half_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
