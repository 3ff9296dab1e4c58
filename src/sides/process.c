/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * process.c: the processes of a side, and their messages: those that record the host and store what
 * comes from a guest, and programs. kvmft receive, which is the latter alone.
 */
#include "sides.h"

#include <ctype.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "kvmft/sandbox.h"

/*
 * All are in the process group of the terminal, because ssh may have to ask for a password; so they
 * ignore Ctrl-C, which is for the one that tells them in order to stop.
 */

#define WORDS_MAX  4096u /* of its standard error */
#define TERM_MS	   1000
#define KILL_MS	   5000
#define MAX_WORDS  (REMOTE_MAX_ARGS + 8)

static void side_say(int fd, const struct side_said *said)
{
	/* The controller may be gone: then nobody is there to hear it. */
	(void)!full_write(fd, said, sizeof(*said), NULL);
}

int side_hear(const struct side *s, bool stores, struct side_said *said)
{
	ssize_t n = read(s->from, said, sizeof(*said));
	struct stream_news *news = &said->news;

	if (n != (ssize_t)sizeof(*said))
		return n < 0 ? -errno : -EPIPE;
	bool *const flags[] = { &news->began, &news->stopped, &news->ended, &news->quiet,
				&news->lost,  &news->trimmed, &said->progress.sent };

	/* Any byte may be there, of a process that was taken over. */
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		*flags[i] = *(unsigned char *)flags[i] != 0;
	news->reason[sizeof(news->reason) - 1] = said->err.text[sizeof(said->err.text) - 1] = '\0';
	str_printable(news->reason);
	str_printable(said->err.text);
	said->ret = MIN(said->ret, 0);
	if (!stores)
		return 0;
	/* The end of COMMAND, and so of all, is the host's to say. */
	if (said->what != SAID_END)
		said->what = SAID_PROGRESS;
	said->progress = (struct record_progress){ .waits_for = NULL };
	if (said->status < KVMFT_OK || said->status > KVMFT_LACKING)
		said->status = KVMFT_FAILED;
	if (said->err.code < KVMFT_OK || said->err.code > KVMFT_LACKING)
		said->err.code = KVMFT_FAILED;
	return 0;
}

int side_order(struct side *s, const char *order)
{
	int ret = s->to >= 0 ? full_write(s->to, order, strlen(order), NULL) : 0;

	if (ret && ret != -EAGAIN)
		util_close_fd(&s->to);
	return ret;
}

/* In a new process: Ctrl-C is not for it, SIGTERM ends it, other signals are as usual. */
static void side_leave_terminal(void)
{
	static const int sigs[] = { SIGINT, SIGQUIT, SIGHUP, SIGUSR1 };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		(void)signal(sigs[i], SIG_IGN);
	(void)signal(SIGTERM, SIG_DFL); /* by which it is told to end, whoever ignored it before */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int side_pipe(int fds[2], struct kvmft_err *err)
{
	return pipe2(fds, O_CLOEXEC) < 0 ? err_why(err, errno, "cannot make a pipe") : 0;
}

int side_fork(struct side *s, side_fn *fn, void *arg, struct kvmft_err *err)
{
	int fds[2], ret = side_pipe(fds, err);

	if (ret)
		return ret;
	s->teller = fork();
	if (!s->teller) {
		close(fds[0]);
		fn(arg, fds[1]);
		_exit(KVMFT_FAILED);
	}
	close(fds[1]);
	if (s->teller < 0) {
		s->teller = 0;
		close(fds[0]);
		return err_why(err, errno, "cannot fork");
	}
	s->from = fds[0];
	return 0;
}

/* ---- programs ---- */

/* After the prefix; NULL-terminated, its words borrowed. */
static int join_words(const struct remote_words *prefix, const char *const *words, char **argv,
		      struct kvmft_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < prefix->n && n < MAX_WORDS; i++)
		argv[n++] = prefix->v[i];
	for (; *words && n < MAX_WORDS; words++)
		argv[n++] = (char *)*words;
	argv[n] = NULL;
	return n < MAX_WORDS ? 0 : err_set(err, E2BIG, "the command has too many words");
}

int side_run(int (*fn)(void *arg), void *arg, int in, int out, int *err_words,
	     struct kvmft_err *err)
{
	int fds[2], ret = side_pipe(fds, err);
	pid_t pid;

	if (ret)
		return ret;
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (dup2(in < 0 ? null : in, STDIN_FILENO) < 0 ||
		    dup2(out < 0 ? null : out, STDOUT_FILENO) < 0 ||
		    dup2(fds[1], STDERR_FILENO) < 0)
			_exit(126);
		/* Who holds the reading end of its pipe is not told that nobody reads. */
		fds_keep((const int[]){ 0, 1, 2 }, 3);
		side_leave_terminal();
		_exit(fn(arg));
	}
	close(fds[1]);
	*err_words = fds[0];
	if (pid > 0)
		return pid;
	util_close_fd(err_words);
	return err_why(err, errno, "cannot fork");
}

static int side_execute(void *words)
{
	char **argv = words;

	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	return 127;
}

int side_exec(const struct remote_words *prefix, const char *const *words, int in, int out,
	      int *err_words, struct kvmft_err *err)
{
	char *argv[MAX_WORDS + 1];
	int ret = join_words(prefix, words, argv, err);

	return ret ?: side_run(side_execute, argv, in, out, err_words, err);
}

int side_self(const struct remote_words *words, int dir, struct kvmft_err *err)
{
	static const char *const here[] = { ".", NULL };
	char *argv[MAX_WORDS + 1];
	int ret = join_words(words, here, argv, err);
	pid_t pid = ret ?: fork();

	if (!pid) {
		side_leave_terminal();
		/* It ends where what it reads ends, also where all of a unit get SIGTERM. */
		(void)signal(SIGTERM, SIG_IGN);
		if (!fchdir(dir))
			execv("/proc/self/exe", argv);
		dprintf(STDERR_FILENO, "kvmft: cannot run itself: %s\n", strerror(errno));
		_exit(127);
	}
	return !ret && pid < 0 ? err_why(err, errno, "cannot fork") : pid;
}

pid_t side_shell(const char *command, const char *session, mode_t mask)
{
	pid_t pid = fork();
	char *path;

	if (pid)
		return pid < 0 ? -errno : pid;
	side_leave_terminal();
	(void)signal(SIGPIPE, SIG_DFL);
	(void)umask(mask);
	path = realpath(session, NULL);
	if (path && !setenv("KVMFT_SESSION", path, 1))
		execl("/bin/sh", "sh", "-c", command, NULL);
	dprintf(STDERR_FILENO, "kvmft: --on-over: %s\n", strerror(errno));
	_exit(127);
}

/* Reads two pipes to their ends; -ETIMEDOUT: too slow, -EINTR: not wanted any more. */
static int listen_both(const struct side_question *q, int out_fd, int err_fd, uint64_t begin,
		       struct sbuf *words)
{
	struct pollfd p[] = { { .fd = out_fd, .events = POLLIN },
			      { .fd = err_fd, .events = POLLIN },
			      { .fd = q->hangup } };
	struct sbuf *const to[] = { q->out, words };
	const size_t limit[] = { q->max, WORDS_MAX };
	char buf[4096];

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		if (util_now_ns() - begin > SIDE_ASK_NS)
			return -ETIMEDOUT;
		if (poll(p, 3, 1000) < 0 && errno != EINTR)
			return -errno;
		if (p[2].revents)
			return -EINTR;
		for (int i = 0; i < 2; i++) {
			ssize_t n = p[i].revents ? read(p[i].fd, buf, sizeof(buf)) : 0;

			if (p[i].revents && (!n || (n < 0 && errno != EINTR)))
				p[i].fd = -1;
			else if (n > 0 && to[i] && to[i]->len < limit[i])
				sbuf_add_mem(to[i], buf, (size_t)n);
		}
	}
	return 0;
}

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The last line of its output: what comes before is often only a greeting. */
const char *side_last_line(struct sbuf *said)
{
	char *newline;

	while (said->len && isspace((unsigned char)said->s[said->len - 1]))
		said->s[--said->len] = '\0';
	newline = said->len ? strrchr(said->s, '\n') : NULL;
	return newline ? newline + 1 : said->len ? said->s : "";
}

static bool gone_within(pid_t pid, int ms)
{
	siginfo_t gone = { 0 };

	for (; ms > 0 && !gone.si_pid; ms -= 20) {
		if (waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) < 0)
			return true;
		if (!gone.si_pid)
			(void)poll(NULL, 0, 20);
	}
	return gone.si_pid;
}

/*
 * One that does not end when it is told to is killed, a patient one only by a signal. If that does
 * not end it either it hangs in the kernel, and is left there.
 */
static void end_soon(pid_t *pid, int *status, bool patient)
{
	kill(*pid, SIGTERM);
	while (!gone_within(*pid, TERM_MS))
		if (!patient || signal_told()) {
			kill(*pid, SIGKILL);
			(void)gone_within(*pid, KILL_MS);
			break;
		}
	(void)waitpid(*pid, status, WNOHANG);
	*pid = 0;
}

int side_ask(const struct side_question *q, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf said = { 0 };
	_cleanup_close_ int err_words = -1, mine = -1;
	struct pollfd p = { .fd = q->hangup };
	const uint64_t begin = util_now_ns();
	siginfo_t gone = { 0 };
	int fds[2], ret = side_pipe(fds, err), status = 0, pid;

	if (ret)
		return ret;
	mine = fds[0];
	pid = side_exec(q->prefix, q->words, q->input, fds[1], &err_words, err);
	close(fds[1]);
	if (pid < 0)
		return pid;
	ret = listen_both(q, mine, err_words, begin, &said);
	/* It may have closed its output, and not end: the same limits hold. */
	while (!ret && !gone.si_pid &&
	       !waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) && !gone.si_pid)
		if (util_now_ns() - begin > SIDE_ASK_NS)
			ret = -ETIMEDOUT;
		else if (poll(&p, 1, 5) > 0)
			ret = -EINTR;
	if (ret)
		end_soon(&pid, &status, false);
	else
		(void)waitpid(pid, &status, 0); /* it is gone */
	if (ret)
		return err_why(err, ret, "%s %s gives no answer", q->prefix->v[0], q->what);
	if (status)
		err_set(err, EIO, "%s: exit status %d%s%s", q->what, exit_status(status),
			said.len ? ": " : "", side_last_line(&said));
	return exit_status(status);
}

void side_close(struct side *s)
{
	int status;

	util_close_fd(&s->to);
	if (s->transport > 0)
		end_soon(&s->transport, &s->status, false);
	util_close_fd(&s->words);
	util_close_fd(&s->from);
	/* A recorder undoes what it changed, and is waited for; others may send without end. */
	if (s->teller > 0)
		end_soon(&s->teller, &status, !s->spec);
	sbuf_free(&s->line);
}

/* ---- the process that records the host, as `kvmft record` would, under orders ---- */

static void host_news(void *ctx, enum record_news what, int status, const struct record_progress *p)
{
	static const enum said of[] = {
		[RECORD_NEWS_LIVE] = SAID_LIVE,		[RECORD_NEWS_FIRED] = SAID_FIRED,
		[RECORD_NEWS_WRITTEN] = SAID_WRITTEN,	[RECORD_NEWS_COMMAND] = SAID_COMMAND,
		[RECORD_NEWS_PROGRESS] = SAID_PROGRESS,
	};
	struct side_said said = { .what = of[what], .status = status };

	if (p)
		said.progress = *p;
	side_say(*(const int *)ctx, &said);
}

void side_host_main(void *arg, int said)
{
	struct side_host *h = arg;
	struct side_said end = { .what = SAID_END };

	h->c->control = (struct record_control){
		.on = true, .fd = h->orders, .outlive = true, .news = host_news, .ctx = &said,
	};
	h->c->duration.set = false; /* of all sides together, counted by another process */
	end.ret = record_run(h->c, h->argv, h->note, &end.err);
	end.status = MAX(end.ret, 0);
	end.ret = MIN(end.ret, 0);
	side_say(said, &end);
	_exit(KVMFT_OK);
}

/* Stores a stream in a directory; its name and completion are up to the process that began. */

#define LEAST_FREE_PERCENT 5u

uint64_t side_least_free(int dir, const struct opt_u64 *given)
{
	struct statvfs vfs;

	if (given->set || fstatvfs(dir, &vfs))
		return given->v;
	return (uint64_t)vfs.f_blocks * vfs.f_frsize / 100 * LEAST_FREE_PERCENT;
}

struct store {
	struct side_said last;
	int said;
};

static bool store_news(void *ctx, const struct stream_news *n)
{
	struct store *s = ctx;

	s->last.what = SAID_PROGRESS;
	s->last.news = *n;
	side_say(s->said, &s->last);
	return true;
}

int side_store_confine(const struct capw *w, struct kvmft_err *err)
{
	const struct sandbox_dir dir = {
		.fd = capw_dirfd(w),
		.rights = SANDBOX_READ | SANDBOX_WRITE | SANDBOX_CREATE | SANDBOX_REMOVE,
	};
	const struct sandbox s = {
		.calls = SANDBOX_CALLS_STORE, .bounding = true, .files = true, .reads = true,
		.dir = &dir, .ndir = 1,
	};
	unsigned int layers;

	return sandbox_enter(&s, &layers, err);
}

void side_store_main(void *arg, int said)
{
	const struct side_store *c = arg;
	struct store s = { .said = said };
	struct stream_news n = { 0 };
	int keep[5] = { c->in, said }, ret;

	(void)prctl(PR_SET_NAME, "kvmft-store");
	side_leave_terminal();
	/* No other side's capture, no session, no terminal. */
	fds_keep(keep, 2 + capw_fds(c->w, keep + 2));
	ret = side_store_confine(c->w, &s.last.err);
	ret = ret ?: stream_receive(c->in, c->w, &c->limits, store_news, &s, &n, &s.last.err);
	capw_why(capw_dirfd(c->w), ret, &s.last.err);
	s.last.what = SAID_END;
	s.last.news = n;
	s.last.ret = ret;
	s.last.status = ret || n.lost || !n.reason[0] ? KVMFT_INCOMPLETE : KVMFT_OK;
	side_say(said, &s.last);
	_exit(KVMFT_OK);
}

/*
 * kvmft receive, a stream from somebody else, into a capture. The process that began gives the
 * capture its name, and takes signals; it never looks at a byte of the stream.
 */

#define SILENT_MS 10000

struct receive {
	const struct receive_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct side side;
	struct side_store store;
	int dir, sigfd;
	char *shown;
	bool ended, told;
};

static void receive_store(void *arg, int said)
{
	struct receive *r = arg;

	util_close_fd(&r->sigfd);
	side_store_main(&r->store, said);
}

static int receive_said(struct receive *r)
{
	struct side *s = &r->side;
	struct side_said said;
	bool quiet = s->news.quiet;

	if (side_hear(s, true, &said)) {
		r->ended = true;
		return s->killed ? err_set(r->err, EINTR, "given up")
				 : err_set(r->err, EIO, "the process that stores the stream was "
				                        "killed");
	}
	s->news = said.news;
	if (s->news.quiet && !quiet && !r->c->quiet)
		r->note("nothing has come for 5 s, not even a sign of life");
	if (r->c->show)
		r->c->show(&s->news);
	r->ended = said.what == SAID_END;
	s->exit_code = said.status;
	if (r->ended && said.ret)
		*r->err = said.err;
	if (s->place.taken || !(s->news.began || s->news.data))
		return r->ended ? said.ret : 0;
	return capw_name_take(&s->place, r->err);
}

static int receive_wait(struct receive *r)
{
	int ret = 0, n;

	while (!r->ended) {
		struct pollfd p[] = { { .fd = r->sigfd, .events = POLLIN },
				      { .fd = r->side.from, .events = POLLIN } };

		n = poll(p, 2, SILENT_MS);
		if (n < 0 && errno != EINTR)
			return err_why(r->err, errno, "cannot wait");
		if (!n && !r->side.stalled) /* it says something each second */
			r->note("process %d, which stores the stream, does not answer: is it "
				"stopped?",
				r->side.teller);
		r->side.stalled |= !n;
		if (p[0].revents) {
			struct signalfd_siginfo si;

			/* A Ctrl-C also reaches the sender, which still has something to say. */
			while (read(r->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
				if (si.ssi_signo != SIGINT || r->told) {
					kill(r->side.teller, r->side.killed ? SIGKILL : SIGTERM);
					r->side.killed = true;
				} else if (!r->c->quiet) {
					r->note("waiting for the sender to end; Ctrl-C again "
						"gives that up");
				}
				r->told = true;
			}
		}
		if (p[1].revents)
			ret = receive_said(r);
		if (ret && !r->ended)
			return ret;
	}
	return ret;
}

static int receive_result(struct receive *r, int ret)
{
	const struct stream_news *n = &r->side.news;
	const struct kvmft_err why = *r->err;
	char size[32];

	if (!r->side.place.taken)
		return ret ?: err_set(r->err, ENODATA, "the stream has no recording");
	if (ret)
		err_set(r->err, -ret, "%s; what came before is kept", why.text);
	if (!ret)
		ret = capw_name_done(&r->side.place, r->err);
	else
		r->err->code = KVMFT_INCOMPLETE;
	if (!r->c->quiet)
		r->note("%s%s: %s of data (%s)", r->shown, r->side.place.name,
			str_bytes(size, sizeof(size), n->data), n->reason[0] ? n->reason : "cut");
	if (ret && r->side.place.aside[0])
		r->note("the old capture is kept as %s%s", r->shown, r->side.place.aside);
	return ret ?: r->side.exit_code;
}

int receive_run(const struct receive_config *c, note_fn *note, struct kvmft_err *err)
{
	struct receive r = {
		.c = c, .note = note, .err = err, .dir = -1, .sigfd = -1,
		.shown = capw_parent_shown(c->output),
		.side = { .to = -1, .from = -1, .words = -1 },
	};
	_cleanup_free_ char *base = NULL;
	mode_t old = umask(077);
	int ret = r.sigfd = signal_fd_open(0);

	ret = ret < 0 ? err_why(err, ret, "cannot wait for signals")
		      : r.shown ? 0 : err_set(err, ENOMEM, "out of memory");
	if (!ret)
		ret = MIN(r.dir = capw_parent_open(c->output, &base, err), 0);
	ret = ret ?: capw_name_init(&r.side.place, r.dir, r.shown, base,
				    c->force ? CAPW_REPLACE : CAPW_REFUSE, err);
	ret = ret ?: capw_create(&r.side.place, &r.side.w, err);
	r.store = (struct side_store){
		.w = r.side.w, .in = c->in,
		.limits = { c->max_size.v, r.dir < 0 ? 0 : side_least_free(r.dir, &c->min_free),
			    c->keep.v },
	};
	ret = ret ?: side_fork(&r.side, receive_store, &r, err);
	ret = ret ?: receive_wait(&r);
	ret = receive_result(&r, ret);
	side_close(&r.side); /* it writes there until then */
	capw_name_drop(&r.side.place);
	capw_close(r.side.w);
	util_close_fd(&r.dir);
	util_close_fd(&r.sigfd);
	free(r.shown);
	(void)umask(old);
	return ret;
}
