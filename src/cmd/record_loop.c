/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record_loop.c: what a running recording waits for. One poll() over a signalfd, two timers and
 * the eventfd of the draining threads; nothing is done in signal handlers.
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

/* Clock brackets in between allow for clocks that are slewed: one every few seconds is plenty. */
#define BRACKET_SECONDS 5

static void record_sigset(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGQUIT);
	sigaddset(set, SIGCHLD);
}

int record_signals_block(void)
{
	sigset_t set;

	record_sigset(&set);
	return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

static _Noreturn void child_main(char **argv, int go, int failed)
{
	sigset_t none;
	int error;
	char c;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* End of file without a byte: the parent gave up before tracing was live. */
	if (read(go, &c, 1) != 1)
		_exit(125);
	close(go);
	execvp(argv[0], argv);
	error = errno;
	_exit(full_write(failed, &error, sizeof(error), NULL) ? 126 : 127);
}

int record_child_fork(char **argv, struct record_child *c, struct kvmft_err *err)
{
	_cleanup_close_ int go_read = -1, failed_write = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "cannot make a pipe: %s", strerror(errno));
	go_read = fds[0];
	c->go = fds[1];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "cannot make a pipe: %s", strerror(errno));
	c->failed = fds[0];
	failed_write = fds[1];
	c->pid = fork();
	if (c->pid < 0)
		return err_set(err, errno, "cannot fork: %s", strerror(errno));
	if (c->pid == 0) {
		close(c->go);
		child_main(argv, go_read, failed_write);
	}
	return 0;
}

int record_child_error(struct record_child *c, const char *name, struct kvmft_err *err)
{
	int error;

	/* The command itself holds no end of this pipe: nothing comes unless exec failed. */
	if (c->pid || c->failed < 0 || read(c->failed, &error, sizeof(error)) != sizeof(error))
		return 0;
	return err_set(err, error, "cannot run %s: %s", name, strerror(error));
}

void record_child_release(struct record_child *c)
{
	if (c->pid <= 0 || c->go < 0)
		return;
	/* A child that died meanwhile is noticed by SIGCHLD: EPIPE needs no care here. */
	if (write(c->go, "g", 1) < 0)
		errno = 0;
	close(c->go);
	c->go = -1;
}

void record_child_end(struct record_child *c)
{
	bool released = c->go < 0;

	util_close_fd(&c->go); /* never released: it ends by itself */
	util_close_fd(&c->failed);
	if (c->pid <= 0)
		return;
	if (released)
		kill(c->pid, SIGTERM);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}

static int timer_new(uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec its = {
		.it_value = { .tv_sec = (time_t)(first_ns / 1000000000u),
			      .tv_nsec = (long)(first_ns % 1000000000u) },
		.it_interval = { .tv_sec = (time_t)(every_ns / 1000000000u),
				 .tv_nsec = (long)(every_ns % 1000000000u) },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	/* A zero first expiry would disarm the timer. */
	if (!first_ns)
		its.it_value.tv_nsec = 1;
	if (timerfd_settime(fd, 0, &its, NULL) < 0) {
		int ret = -errno;

		close(fd);
		return ret;
	}
	return fd;
}

enum { W_SIGNAL, W_BUDGET, W_BRACKET, W_DURATION, W_COUNT };

static int wait_open(struct record *r, struct pollfd *p)
{
	sigset_t set;

	record_sigset(&set);
	for (int i = 0; i < W_COUNT; i++)
		p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[W_SIGNAL].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p[W_SIGNAL].fd < 0)
		return -errno;
	p[W_BUDGET].fd = r->budget.wake_fd;
	p[W_BRACKET].fd = timer_new(BRACKET_SECONDS * 1000000000ull, BRACKET_SECONDS * 1000000000ull);
	if (p[W_BRACKET].fd < 0)
		return p[W_BRACKET].fd;
	if (r->o->duration.set) {
		p[W_DURATION].fd = timer_new(r->o->duration.v, 0);
		if (p[W_DURATION].fd < 0)
			return p[W_DURATION].fd;
	}
	return 0;
}

static void wait_close(struct pollfd *p)
{
	for (int i = 0; i < W_COUNT; i++)
		if (i != W_BUDGET && p[i].fd >= 0)
			close(p[i].fd);
}

/* True when the command has ended (its status is the caller's business no more). */
static bool child_gone(struct record_child *c)
{
	int status;

	if (c->pid <= 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
		return false;
	c->pid = 0;
	return true;
}

static const char *take_signal(int fd, struct record_child *c)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (child_gone(c))
				return "command";
			continue;
		}
		return "signal";
	}
	return NULL;
}

static const char *budget_reason(const struct drain_budget *b)
{
	switch (atomic_load(&b->stop)) {
	case DRAIN_MAX_SIZE: return "max-size";
	case DRAIN_MIN_FREE: return "min-free";
	case DRAIN_ERROR: return "error";
	default: return NULL;
	}
}

static int take_bracket(struct record *r, int fd)
{
	uint64_t expirations;

	if (read(fd, &expirations, sizeof(expirations)) != (ssize_t)sizeof(expirations))
		return 0;
	return record_facts_bracket(r);
}

int record_wait(struct record *r, struct record_child *c)
{
	struct pollfd p[W_COUNT];
	int ret;

	ret = wait_open(r, p);
	while (!ret && !r->end_reason) {
		if (poll(p, W_COUNT, -1) < 0) {
			ret = errno == EINTR ? 0 : -errno;
			continue;
		}
		if (p[W_SIGNAL].revents)
			r->end_reason = take_signal(p[W_SIGNAL].fd, c);
		if (!r->end_reason && p[W_BUDGET].revents)
			r->end_reason = budget_reason(&r->budget);
		if (!r->end_reason && p[W_DURATION].revents)
			r->end_reason = "duration";
		if (!r->end_reason && p[W_BRACKET].revents)
			ret = take_bracket(r, p[W_BRACKET].fd);
	}
	wait_close(p);
	if (ret)
		return err_set(r->err, -ret, "cannot wait: %s", strerror(-ret));
	return 0;
}
