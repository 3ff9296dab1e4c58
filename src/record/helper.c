/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * helper.c: the processes that a recorder forks: kvmft-watch, kvmft-look, kvmft-qemu, and COMMAND.
 */
#include "record.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int record_helper_start(struct record *r, struct record_helper *h, record_helper_fn *fn, void *arg)
{
	_cleanup_close_ int in = -1, out = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_why(r->err, errno, "cannot make a pipe");
	in = fds[0];
	h->to = fds[1];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_why(r->err, errno, "cannot make a pipe");
	h->from = fds[0];
	out = fds[1];
	h->pid = fork();
	if (h->pid < 0) {
		h->pid = 0;
		return err_why(r->err, errno, "cannot fork");
	}
	if (!h->pid) {
		/* Or it would not notice that the recorder is gone. */
		close(h->to);
		close(h->from);
		fn(r, in, out, arg);
		_exit(0);
	}
	return 0;
}

bool record_helper_ends(struct record_helper *h, unsigned int ms)
{
	unsigned int pause = 1;

	util_close_fd(&h->to);
	util_close_fd(&h->from);
	while (h->pid > 0) {
		if (waitpid(h->pid, NULL, WNOHANG))
			h->pid = 0;
		else if (!ms)
			return false;
		else
			usleep(pause * 1000);
		ms -= MIN(ms, pause);
		pause = MIN(2 * pause, 20u);
	}
	return true;
}

void record_helper_end(struct record *r, struct record_helper *h, const char *name)
{
	if (record_helper_ends(h, RECORD_PATIENCE_MS))
		return;
	r->note("waiting for %s (process %d) to end", name, h->pid);
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	h->pid = 0;
}

/* ---- independence of the recorder ---- */

void record_detach(const char *name, const int *keep, size_t n)
{
	(void)setsid(); /* a Ctrl-C is for the recorder alone */
	(void)prctl(PR_SET_NAME, name);
	for (int sig = 1; sig < SIGRTMIN; sig++)
		if (sig != SIGCHLD)
			(void)signal(sig, SIG_IGN);
	/* Nothing of the recorder may stay open, or the kernel would not notice that it is gone. */
	fds_keep(keep, n);
}
