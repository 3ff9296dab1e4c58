/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * process.c: the processes of a side, and their messages.
 *
 * All are in the process group of the terminal, because ssh may have to ask for a password; so they
 * ignore Ctrl-C, which is for the one that tells them in order to stop.
 */
#include "sides.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define WORDS_MAX  4096u /* of its standard error */
#define TERM_MS	   1000
#define MAX_WORDS  (REMOTE_MAX_ARGS + 8)

void side_say(int fd, struct side_said *said)
{
	/* The controller may be gone: then nobody is there to hear it. */
	(void)!full_write(fd, said, sizeof(*said), NULL);
}

/* Any byte that a process put there, which may have been taken over. */
static void flag_check(bool *flag)
{
	unsigned char byte;

	memcpy(&byte, flag, sizeof(byte));
	*flag = byte;
}

int side_hear(const struct side *s, bool stores, struct side_said *said)
{
	ssize_t n = read(s->from, said, sizeof(*said));
	struct stream_news *news = &said->news;

	if (n != (ssize_t)sizeof(*said))
		return n < 0 ? -errno : -EPIPE;
	bool *const flags[] = { &news->began, &news->stopped, &news->ended, &news->quiet,
				&news->lost,  &news->trimmed, &said->progress.sent };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		flag_check(flags[i]);
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

void side_leave_terminal(void)
{
	sigset_t none;

	static const int sigs[] = { SIGINT, SIGQUIT, SIGHUP, SIGUSR1 };

	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		(void)signal(sigs[i], SIG_IGN);
	(void)signal(SIGTERM, SIG_DFL); /* by which it is told to end, whoever ignored it before */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int side_fork(struct side *s, side_fn *fn, void *arg, struct kvmft_err *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_why(err, errno, "cannot make a pipe");
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

static void become(int in, int out, int err_words)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	in = in < 0 ? null : in;
	out = out < 0 ? null : out;
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err_words, STDERR_FILENO) < 0)
		_exit(126);
	side_leave_terminal();
}

static void execute(char **argv)
{
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* In the child 0 with its standard files set, else its PID, or -errno. */
static int fork_with(int in, int out, int *err_words, struct kvmft_err *err)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_why(err, errno, "cannot make a pipe");
	pid = fork();
	if (!pid)
		become(in, out, fds[1]);
	close(fds[1]);
	if (pid > 0) {
		*err_words = fds[0];
		return pid;
	}
	close(fds[0]);
	return pid ? err_why(err, errno, "cannot fork") : 0;
}

int side_exec(const struct remote_words *prefix, const char *const *words, int in, int out,
	      int *err_words, struct kvmft_err *err)
{
	char *argv[MAX_WORDS + 1];
	int pid = join_words(prefix, words, argv, err);

	pid = pid ?: fork_with(in, out, err_words, err);
	if (!pid)
		execute(argv);
	return pid;
}

int side_self(const struct remote_words *words, int dir, struct kvmft_err *err)
{
	static const char *const here[] = { ".", NULL };
	char *argv[MAX_WORDS + 1];
	int ret = join_words(words, here, argv, err);
	pid_t pid = ret ?: fork();

	if (!pid) {
		side_leave_terminal();
		if (!fchdir(dir))
			execv("/proc/self/exe", argv);
		dprintf(STDERR_FILENO, "kvmft: cannot run itself: %s\n", strerror(errno));
		_exit(127);
	}
	return !ret && pid < 0 ? err_why(err, errno, "cannot fork") : pid;
}

int side_run(int (*fn)(void *arg), void *arg, int in, int out, int *err_words,
	     struct kvmft_err *err)
{
	int pid = fork_with(in, out, err_words, err);

	if (!pid)
		_exit(fn(arg));
	return pid;
}

/*
 * Reads two pipes to their ends; -ETIMEDOUT if that takes too long, -EINTR if the result is not
 * wanted any more.
 */
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

/* It may have closed its output, and not end: the same limits hold. */
static int await_end(const struct side_question *q, pid_t pid, uint64_t begin)
{
	struct pollfd p = { .fd = q->hangup };
	siginfo_t gone = { 0 };

	while (!waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) && !gone.si_pid) {
		if (util_now_ns() - begin > SIDE_ASK_NS)
			return -ETIMEDOUT;
		if (poll(&p, 1, 5) > 0)
			return -EINTR;
	}
	return 0;
}

/* One that does not end when it is told to is killed. */
static void end_soon(pid_t pid)
{
	siginfo_t gone = { 0 };

	kill(pid, SIGTERM);
	for (int i = 0; i < TERM_MS / 20 && !gone.si_pid; i++) {
		if (waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) < 0)
			return;
		if (!gone.si_pid)
			(void)poll(NULL, 0, 20);
	}
	if (!gone.si_pid)
		kill(pid, SIGKILL);
}

int side_ask(const struct side_question *q, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf said = { 0 };
	_cleanup_close_ int err_words = -1, mine = -1;
	const uint64_t begin = util_now_ns();
	int fds[2], ret, status = 0, pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_why(err, errno, "cannot make a pipe");
	mine = fds[0];
	pid = side_exec(q->prefix, q->words, q->input, fds[1], &err_words, err);
	close(fds[1]);
	if (pid < 0)
		return pid;
	ret = listen_both(q, mine, err_words, begin, &said);
	ret = ret ? ret : await_end(q, pid, begin);
	if (ret)
		end_soon(pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (ret)
		return err_why(err, ret, "%s %s gives no answer", q->prefix->v[0], q->what);
	if (status)
		err_set(err, EIO, "%s: exit status %d%s%s", q->what, exit_status(status),
			said.len ? ": " : "", side_last_line(&said));
	return exit_status(status);
}

static void reap(pid_t *pid, int *status)
{
	while (*pid > 0 && waitpid(*pid, status, 0) < 0 && errno == EINTR)
		;
	*pid = 0;
}

void side_close(struct side *s)
{
	int status;

	util_close_fd(&s->to);
	if (s->transport > 0)
		end_soon(s->transport);
	util_close_fd(&s->words);
	reap(&s->transport, &s->status);
	util_close_fd(&s->from);
	/* After an error it may not be done, and its sender may send without end. */
	if (s->teller > 0)
		kill(s->teller, SIGTERM);
	reap(&s->teller, &status);
	sbuf_free(&s->line);
}
