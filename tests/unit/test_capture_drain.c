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
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

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
	drain_flush(m->cpu, CPUS);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
