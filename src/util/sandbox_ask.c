/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sandbox_ask.c: a confined process that parses what a process with rights needs of a file. */
#include "kvmft/sandbox.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct head {
	int ret;
	struct kvmft_err err;
};

static _Noreturn void answer(sandbox_fn *fn, void *ctx, int file, int to)
{
	const int keep[] = { to, file, STDERR_FILENO };
	struct head h = { .err = { .text = "" } };
	struct sbuf out = { 0 };
	unsigned int layers;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	fds_keep(keep, ARRAY_SIZE(keep));
	h.ret = sandbox_enter_reader(&layers, &h.err);
	h.ret = h.ret ?: fn(ctx, &out, &h.err);
	h.ret = h.ret ?: out.error;
	_exit(full_write(to, &h, sizeof(h), NULL) ||
	      (!h.ret && out.len && full_write(to, out.s, out.len, NULL)));
}

static int take(int from, size_t max, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n = fd_read_all(from, sizeof(struct head) + max, &text);
	struct head h;

	if (n == -ENOMEM || n == -EFBIG)
		return err_set(err, (int)-n, "what a file holds takes more than %zu MB of memory", max >> 20);
	if (n < (ssize_t)sizeof(h))
		return err_set(err, EIO, "the process that reads a file was killed");
	memcpy(&h, text, sizeof(h));
	if (!h.ret) {
		sbuf_add_mem(out, text + sizeof(h), (size_t)n - sizeof(h));
		return out->error ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	h.err.text[sizeof(h.err.text) - 1] = '\0';
	str_printable(h.err.text);
	*err = h.err;
	err->code = h.err.code > KVMFT_OK && h.err.code <= KVMFT_LACKING ? h.err.code : 0;
	return h.ret < 0 && h.ret >= -4095 ? h.ret : -EBADMSG;
}

int sandbox_ask(sandbox_fn *fn, void *ctx, int file, size_t max, struct sbuf *out,
		struct kvmft_err *err)
{
	int fds[2], ret;
	pid_t pid;

	/* No filter of ours allows sockets to readers: then this process is confined itself. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errno == EPERM && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			       ? fn(ctx, out, err)
			       : err_why(err, errno, "socketpair");
	pid = fork();
	if (!pid)
		answer(fn, ctx, file, fds[1]);
	ret = pid < 0 ? err_why(err, errno, "cannot start a process that reads") : 0;
	close(fds[1]);
	ret = ret ?: take(fds[0], max, out, err);
	close(fds[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ret;
}
