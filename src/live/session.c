/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.c: formats, descriptors, signals and output of commands that watch events live.
 *
 * Output goes through poll() and write() in small pieces, so that a signal is obeyed even if nobody
 * reads the pipe behind standard output, and a reader that goes away is noticed even if no event
 * comes.
 */
#include "kvmft/live_session.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define DEFAULT_BUFFER_KB 4096u
#define MIN_BUFFER_KB	  512u
#define FREE_MEMORY_SHARE 20u /* the rings of all CPUs take at most 1/20 of what is free */

void session_sweep(struct ktracefs *t, note_fn *note)
{
	_cleanup_(kreset_free) struct kreset leftovers = { 0 };

	if (kreset_sweep(t, false, &leftovers, NULL) == 0 && leftovers.instances)
		note("removed %u instance(s) that a killed kvmft had left", leftovers.instances);
}

/* ---- formats ---- */

static int format_read(struct ktracefs *t, const struct kevent *e, struct cap_format *f,
		       struct kvmft_err *err)
{
	int ret = kevent_format(t, e->sys, e->name, &f->text);

	if (ret)
		return err_why(err, ret, "cannot read the format of %s:%s", e->sys, e->name);
	f->len = strlen(f->text);
	f->sys = e->sys; /* borrowed: fmt_load() copies */
	f->name = e->name;
	return 0;
}

int session_formats(struct ktracefs *t, const struct kevent_list *list, struct fmt **fmt,
		    struct kvmft_err *err)
{
	struct capture cap = { .long_size = sizeof(long) };
	int ret = 0;

	cap.format = calloc(MAX(list->n, (size_t)1), sizeof(*cap.format));
	if (!cap.format)
		return err_set(err, ENOMEM, "out of memory");
	for (; cap.nformat < list->n && !ret; cap.nformat++)
		ret = format_read(t, &list->v[cap.nformat], &cap.format[cap.nformat], err);
	ret = ret ?: fmt_load(&cap, fmt, err);
	for (size_t i = 0; i < cap.nformat; i++)
		free(cap.format[i].text);
	free(cap.format);
	return ret;
}

/* ---- the ring ---- */

uint64_t session_buffer_kb(size_t ncpu)
{
	long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t share;

	if (pages <= 0 || size <= 0)
		return MIN_BUFFER_KB;
	share = (uint64_t)pages * (uint64_t)size / 1024 / FREE_MEMORY_SHARE / MAX(ncpu, (size_t)1);
	return MAX(MIN(share, (uint64_t)DEFAULT_BUFFER_KB), (uint64_t)MIN_BUFFER_KB);
}

void session_raw_close(int *raw, size_t n)
{
	for (size_t i = 0; raw && i < n; i++)
		if (raw[i] >= 0)
			close(raw[i]);
	free(raw);
}

int session_raw_open(struct kinst *k, const struct kcpus *cpus, int **raw, struct kvmft_err *err)
{
	*raw = malloc(MAX(cpus->n, (size_t)1) * sizeof(**raw));
	if (!*raw)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < cpus->n; i++)
		(*raw)[i] = -1;
	for (size_t i = 0; i < cpus->n; i++) {
		(*raw)[i] = kinst_raw_open(k, cpus->cpu[i], true, err);
		if ((*raw)[i] < 0)
			return (*raw)[i];
	}
	return 0;
}

int session_live_open(struct kinst *k, const struct kcpus *cpus, const int *raw,
		      struct live **live, struct kvmft_err *err)
{
	int ret = live_new(kinst_subbuf_size(k), live);

	for (size_t i = 0; i < cpus->n && !ret; i++)
		ret = live_add_cpu(*live, cpus->cpu[i], raw[i]);
	return err_why(err, ret, "cannot read the ring");
}

/* ---- time, signals, output ---- */

static const int session_ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0 };

int session_signals(struct kvmft_err *err)
{
	int fd = signal_fd_open(session_ends);

	return fd < 0 ? err_why(err, fd, "cannot wait for signals") : fd;
}

void session_signals_end(int *fd)
{
	struct signalfd_siginfo si;
	sigset_t set;

	if (*fd < 0)
		return;
	while (read(*fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		; /* what they were to end has ended */
	util_close_fd(fd);
	signal_set(&set, session_ends);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* How much can be written without blocking when poll() says "writable". */
static size_t piece_size(void)
{
	struct stat st;

	return fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) ? SIZE_MAX : PIPE_BUF;
}

int session_write(int signal_fd, const char *text, size_t n, enum session_write *how,
		  struct kvmft_err *err)
{
	size_t at = 0, piece = piece_size();

	*how = SESSION_WRITTEN;
	while (at < n) {
		struct pollfd p[2] = { { .fd = STDOUT_FILENO, .events = POLLOUT },
				       { .fd = signal_fd, .events = POLLIN } };
		ssize_t got;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_why(err, errno, "cannot wait");
		if (!p[0].revents && p[1].revents) {
			*how = SESSION_SIGNAL; /* nobody reads: what is left is not wanted */
			return 0;
		}
		if (!p[0].revents)
			continue;
		got = write(STDOUT_FILENO, text + at, MIN(n - at, piece));
		if (got < 0 && errno == EPIPE) {
			*how = SESSION_READER_GONE;
			return 0;
		}
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return err_why(err, errno, "cannot write");
		at += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

enum exit_isa session_isa(const struct exit_names *n)
{
	const char *module;
	enum exit_isa isa;
	struct stat st;
	char path[64];

	for (size_t i = 0; (module = exit_module(i, &isa)); i++) {
		snprintf(path, sizeof(path), "/sys/module/%s", module);
		if (module[0] && !stat(path, &st))
			return isa;
	}
	return n->isa;
}
