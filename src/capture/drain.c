/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drain.c: the recording threads.
 *
 * splice() lets the kernel hand whole pages from the ring to the file through a pipe: no copy, no
 * walk over events. Three facts shape the code. The sub-buffer that is being written is never
 * spliced, so the end is fetched with read(). A splice() that returns 0 is not the end of the
 * file. And old kernels do not wake sleeping readers when tracing stops, so the threads are woken
 * by a signal, repeated until each one says that it is done.
 */
#include "kvmft/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#define PIPE_WANTED (1u << 20) /* the most that needs no privilege by default */
#define STACK_SIZE  (128u << 10)

static void drain_set_stop(struct drain_budget *b, enum drain_stop why)
{
	int expected = DRAIN_RUNNING;
	uint64_t one = 1;

	if (!atomic_compare_exchange_strong(&b->stop, &expected, (int)why) || b->wake_fd < 0)
		return;
	/* The counter cannot overflow here, so the write cannot fail in a way that matters. */
	if (write(b->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void drain_fail(struct drain_cpu *c, int error, bool is_write)
{
	if (!c->error) {
		c->error = error;
		c->error_is_write = is_write;
	}
	drain_set_stop(c->budget, DRAIN_ERROR);
}

/* How many of n bytes (whole sub-buffers) may still be written; the rest stays unread. */
static size_t drain_reserve(struct drain_cpu *c, size_t n)
{
	struct drain_budget *b = c->budget;
	uint64_t used = atomic_load(&b->used), room;
	struct statvfs vfs;

	if (b->min_free && fstatvfs(c->dst, &vfs) == 0 &&
	    (uint64_t)vfs.f_bavail * vfs.f_frsize < b->min_free + n) {
		drain_set_stop(b, DRAIN_MIN_FREE);
		return 0;
	}
	do {
		room = !b->max_bytes ? n : used < b->max_bytes ? b->max_bytes - used : 0;
		if (room < n)
			drain_set_stop(b, DRAIN_MAX_SIZE);
		room = MIN(room, n);
		room -= room % c->subbuf;
	} while (!atomic_compare_exchange_weak(&b->used, &used, used + room));
	return (size_t)room;
}

/* A failed write may have left part of a sub-buffer behind: cut the file to whole ones. */
static void drain_trim(struct drain_cpu *c)
{
	off_t end = lseek(c->dst, 0, SEEK_CUR);

	if (end < 0)
		return;
	c->bytes = (uint64_t)end - (uint64_t)end % c->subbuf;
	if (ftruncate(c->dst, (off_t)c->bytes) == 0 && lseek(c->dst, (off_t)c->bytes, SEEK_SET) < 0)
		return;
}

static int drain_copy_out(struct drain_cpu *c, const void *p, size_t n)
{
	int ret = full_write(c->dst, p, n, NULL);

	if (ret) {
		drain_fail(c, ret, true);
		drain_trim(c);
		return ret;
	}
	c->bytes += n;
	return 0;
}

/* Empties the pipe of n bytes into tmp, and writes them when keep is set. */
static int drain_pipe_copy(struct drain_cpu *c, size_t n, bool keep)
{
	while (n) {
		ssize_t got = read(c->pipe[0], c->tmp, MIN(n, (size_t)c->subbuf));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			drain_fail(c, got < 0 ? -errno : -EIO, false);
			return c->error;
		}
		n -= (size_t)got;
		if (keep && drain_copy_out(c, c->tmp, (size_t)got))
			keep = false; /* go on emptying the pipe */
	}
	return c->error;
}

/* Moves n bytes from the pipe to the file; what the budget forbids or a failure leaves is dropped. */
static void drain_pipe_out(struct drain_cpu *c, size_t n)
{
	size_t room = c->error ? 0 : drain_reserve(c, n), left = room;
	uint64_t before = c->bytes;

	while (left && !c->copy) {
		ssize_t put = splice(c->pipe[0], NULL, c->dst, NULL, left, SPLICE_F_MOVE);

		if (put > 0) {
			left -= (size_t)put;
			c->bytes += (uint64_t)put;
		} else if (put < 0 && errno == EINTR) {
			continue;
		} else if (put < 0 && errno == EINVAL && left == room) {
			c->copy = true; /* this file system cannot splice */
		} else {
			drain_fail(c, put < 0 ? -errno : -EIO, true);
			break;
		}
	}
	if (left && c->copy && !c->error) {
		drain_pipe_copy(c, left, true);
		left = 0;
	}
	if (c->error_is_write)
		drain_trim(c);
	drain_pipe_copy(c, n - room + left, false);
	c->unread += (n - (size_t)(c->bytes > before ? c->bytes - before : 0)) / c->subbuf;
}

/* One splice from the kernel; > 0 bytes moved, 0 nothing now, -errno. */
static ssize_t drain_splice(struct drain_cpu *c, unsigned int flags)
{
	ssize_t n = splice(c->src, NULL, c->pipe[1], NULL, c->pipe_size, SPLICE_F_MOVE | flags);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (n > 0)
		drain_pipe_out(c, (size_t)n);
	return n;
}

static void *drain_thread(void *arg)
{
	struct timespec nap = { .tv_nsec = 5 * 1000 * 1000 };
	struct drain_cpu *c = arg;

	while (!atomic_load(&c->stopping) && !c->error) {
		ssize_t n = drain_splice(c, 0);

		c->wakeups++;
		if (n < 0)
			drain_fail(c, (int)n, false);
		else if (n == 0 && !atomic_load(&c->stopping))
			nanosleep(&nap, NULL); /* a source that says 0 at once must not spin us */
	}
	atomic_store(&c->done, true);
	return NULL;
}

static void drain_noop(int sig __unused_arg)
{
}

static int drain_prepare(struct drain_cpu *c, uint32_t subbuf, struct drain_budget *b)
{
	int size;

	c->budget = b;
	c->subbuf = subbuf;
	c->tmp = malloc(subbuf);
	if (!c->tmp)
		return -ENOMEM;
	if (pipe2(c->pipe, O_CLOEXEC) < 0) {
		c->pipe[0] = c->pipe[1] = -1;
		return -errno;
	}
	/* One pipe slot holds one sub-buffer, so the kernel's batch is bounded by slots. */
	if (fcntl(c->pipe[1], F_SETPIPE_SZ, PIPE_WANTED) < 0 && errno != EPERM && errno != EBUSY)
		return -errno;
	size = fcntl(c->pipe[1], F_GETPIPE_SZ);
	c->pipe_size = MAX((size_t)MAX(size, 0) / 4096 * subbuf, (size_t)subbuf);
	return 0;
}

static void drain_unprepare(struct drain_cpu *c)
{
	if (c->pipe[0] >= 0)
		close(c->pipe[0]);
	if (c->pipe[1] >= 0)
		close(c->pipe[1]);
	c->pipe[0] = c->pipe[1] = -1;
	free(c->tmp);
	c->tmp = NULL;
}

/* Signals every unfinished thread until all are done: a single signal could come just too early. */
static void drain_join(struct drain_cpu *cpu, size_t n)
{
	struct timespec nap = { .tv_nsec = 1000 * 1000 };

	for (size_t i = 0; i < n; i++)
		atomic_store(&cpu[i].stopping, true);
	for (size_t i = 0; i < n; i++) {
		while (cpu[i].started && !atomic_load(&cpu[i].done)) {
			for (size_t k = i; k < n; k++)
				if (cpu[k].started && !atomic_load(&cpu[k].done))
					pthread_kill(cpu[k].thread, DRAIN_SIGNAL);
			nanosleep(&nap, NULL);
		}
		if (cpu[i].started)
			pthread_join(cpu[i].thread, NULL);
		cpu[i].started = false;
	}
}

static int drain_spawn(struct drain_cpu *c, const pthread_attr_t *attr)
{
	sigset_t all, old;
	int ret;

	/* Only the wake-up signal may reach these threads; the others belong to the main loop. */
	sigfillset(&all);
	sigdelset(&all, DRAIN_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&c->thread, attr, drain_thread, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->started = ret == 0;
	return -ret;
}

int drain_start(struct drain_cpu *cpu, size_t n, uint32_t subbuf, struct drain_budget *b)
{
	struct sigaction sa = { .sa_handler = drain_noop };
	pthread_attr_t attr;
	int ret = 0;

	sigemptyset(&sa.sa_mask);
	if (sigaction(DRAIN_SIGNAL, &sa, NULL) < 0)
		return -errno;
	for (size_t i = 0; i < n; i++)
		cpu[i].pipe[0] = cpu[i].pipe[1] = -1;
	ret = -pthread_attr_init(&attr);
	if (ret)
		return ret;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (size_t i = 0; i < n && !ret; i++)
		ret = drain_prepare(&cpu[i], subbuf, b);
	for (size_t i = 0; i < n && !ret; i++)
		ret = drain_spawn(&cpu[i], &attr);
	pthread_attr_destroy(&attr);
	if (ret) {
		drain_join(cpu, n);
		for (size_t i = 0; i < n; i++)
			drain_unprepare(&cpu[i]);
	}
	return ret;
}

/* What splice left: the sub-buffer that the kernel was writing, and on old kernels a few more. */
static int drain_rest(struct drain_cpu *c)
{
	int fl = fcntl(c->src, F_GETFL);
	unsigned int zeros = 0;
	ssize_t n;

	if (fl < 0 || fcntl(c->src, F_SETFL, fl | O_NONBLOCK) < 0)
		return -errno;
	while ((n = drain_splice(c, SPLICE_F_NONBLOCK)) > 0)
		;
	if (n < 0)
		return (int)n;
	/* A read() may say 0 with data still to come: believe it the third time. */
	while (zeros < 3) {
		n = read(c->src, c->tmp, c->subbuf);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		zeros = n ? 0 : zeros + 1;
		if (n && (c->error || (n == c->subbuf && drain_reserve(c, (size_t)n) == 0)))
			c->unread++;
		else if (n == c->subbuf)
			c->unread += drain_copy_out(c, c->tmp, (size_t)n) ? 1 : 0;
		else if (n)
			return -EMSGSIZE; /* not a source of whole sub-buffers */
	}
	return 0;
}

int drain_finish(struct drain_cpu *cpu, size_t n)
{
	int first = 0;

	drain_join(cpu, n);
	for (size_t i = 0; i < n; i++) {
		int ret = cpu[i].tmp ? drain_rest(&cpu[i]) : 0;

		if (ret)
			drain_fail(&cpu[i], ret, false);
		if (!first)
			first = cpu[i].error;
		drain_unprepare(&cpu[i]);
	}
	return first;
}
