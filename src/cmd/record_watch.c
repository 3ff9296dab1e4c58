/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record_watch.c: what happens when the recorder is killed.
 *
 * Its instance is left behind. The kernel's dead-man switch (free_buffer, see kernel/inst.c) stops
 * tracing in it at once, but the events stay enabled, at a tenth of a microsecond for each that
 * fires. So a small process, forked before anything is made, sleeps in read() on a pipe whose other
 * end only the recorder has. End of file means that the recorder is gone: its instance is removed,
 * which disables the events, and the watcher ends. If it was killed as well, the next start or
 * `kvmft reset` removes the instance.
 */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Pauses grow: looking for who has an instance open takes a while on a machine with many processes. */
#define PAUSE_US     (10 * 1000)
#define PAUSE_MAX_US (640 * 1000) /* after 5 s in all others have to clean up */

/* Nothing of the recorder may stay open here, or the kernel would not see that it is gone. */
static void close_all_but(int a, int b)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	uint64_t fd;

	while (dir && (e = readdir(dir)))
		if (!parse_u64(e->d_name, &fd) && fd > STDERR_FILENO && (int)fd != a &&
		    (int)fd != b && (int)fd != dirfd(dir))
			close((int)fd);
	if (dir)
		closedir(dir);
}

/* So that a pipe or a terminal that the recorder wrote to is not held open by us. */
static void close_std(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			close(fd);
	if (null > STDERR_FILENO)
		close(null);
}

/* Is there nothing of the recorder left to remove? */
static bool watch_cleaned(struct record *r, const struct kowner *recorder)
{
	struct kreset found = { 0 };
	bool done;

	if (kowner_alive(recorder)) /* it is still closing its files */
		return false;
	(void)!kreset_sweep_of(r->t, recorder, false, &found, NULL);
	done = !found.busy;
	kreset_free(&found);
	return done;
}

static void watch_clean(struct record *r, const struct kowner *recorder)
{
	unsigned int pause = PAUSE_US;

	for (int more = 8; !watch_cleaned(r, recorder) && more; more -= pause == PAUSE_MAX_US) {
		usleep(pause);
		pause = MIN(2 * pause, (unsigned int)PAUSE_MAX_US);
	}
}

void record_detach(const char *name, int a, int b)
{
	(void)setsid(); /* a Ctrl-C is for the recorder alone */
	(void)prctl(PR_SET_NAME, name);
	for (int sig = 1; sig < SIGRTMIN; sig++)
		if (sig != SIGCHLD)
			(void)signal(sig, SIG_IGN);
	close_all_but(a, b);
	close_std();
}

static _Noreturn void watch_main(struct record *r, int pipe, const struct kowner *recorder)
{
	char byte;
	ssize_t n;

	record_detach("kvmft-watch", pipe, ktracefs_dirfd(r->t));
	record_confine_watcher();
	do {
		n = read(pipe, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		watch_clean(r, recorder);
	_exit(0);
}

int record_watch_start(struct record *r)
{
	struct kowner self;
	int fds[2], ret = kowner_self(&self);

	if (ret)
		return err_set(r->err, -ret, "cannot read /proc/self/stat: %s", strerror(-ret));
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(r->err, errno, "cannot make a pipe: %s", strerror(errno));
	r->watcher = fork();
	if (r->watcher < 0) {
		ret = errno;
		r->watcher = 0;
		close(fds[0]);
		close(fds[1]);
		return err_set(r->err, ret, "cannot fork: %s", strerror(ret));
	}
	if (!r->watcher) {
		close(fds[1]);
		watch_main(r, fds[0], &self);
	}
	close(fds[0]);
	r->watcher_pipe = fds[1];
	return 0;
}

void record_watch_end(struct record *r)
{
	if (r->watcher_pipe >= 0 && write(r->watcher_pipe, "q", 1) < 0)
		errno = 0; /* it was killed */
	util_close_fd(&r->watcher_pipe);
	if (r->watcher > 0)
		while (waitpid(r->watcher, NULL, 0) < 0 && errno == EINTR)
			;
	r->watcher = 0;
}
