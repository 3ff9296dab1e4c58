/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * child.c: COMMAND, which runs as if kvmft were not there: with the signals, CPUs and limits that
 * kvmft was started with. It does not outlive the recorder: it gets SIGTERM when that is killed.
 */
#include "record.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void env_restore(const struct record_env *env)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	umask(env->umask);
	/* Restoring what it would have had is a courtesy: a failure is no reason not to run it. */
	if (env->affinity)
		(void)sched_setaffinity(0, env->affinity_size, env->affinity);
	if (env->has_nofile)
		(void)!setrlimit(RLIMIT_NOFILE, &env->nofile);
}

/* The pipe with the orders is not for COMMAND to read. */
static void control_keep_out(const struct record_control *c)
{
	int null = c->on && c->fd == STDIN_FILENO ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

	if (null >= 0 && dup2(null, STDIN_FILENO) < 0)
		_exit(125);
}

static void child_main(struct record *r, int go, int failed, void *command)
{
	char **argv = command;
	int error;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (r->marker == RECORD_MARKER_COMMAND) {
		error = -kinst_private_marker(r->k);
		if (full_write(failed, &error, sizeof(error), NULL))
			_exit(125);
	}
	env_restore(&r->env);
	/* End of file without a byte: the parent gave up before tracing was live. */
	if (read(go, &c, 1) != 1)
		_exit(125);
	close(go);
	control_keep_out(&r->c->control);
	/* Its output must not get into the stream. */
	if (record_to_stream(r->c) && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(125);
	execvp(argv[0], argv);
	error = errno;
	_exit(full_write(failed, &error, sizeof(error), NULL) ? 126 : 127);
}

/*
 * What became of the child's private trace_marker. A QEMU for which it was not requested runs
 * without.
 */
static int marker_result(const struct record *r, const struct record_child *c)
{
	int error;

	if (r->marker != RECORD_MARKER_COMMAND)
		return 0;
	if (read(c->p.from, &error, sizeof(error)) != sizeof(error))
		return err_set(r->err, EIO, "the process that was to run the command died");
	if (!error)
		return 0;
	if (r->c->marker >= 0)
		return err_set(r->err, error,
			       "cannot give the command a trace_marker of its own, in a mount "
			       "namespace: %s%s",
			       strerror(error), error == EPERM ? " (run as root)" : "");
	if (!r->c->quiet)
		r->note("no markers of this QEMU are recorded: a mount namespace of its own failed: %s",
			strerror(error));
	return 0;
}

int record_child_fork(struct record *r, char **argv, struct record_child *c)
{
	int ret = record_helper_start(r, &c->p, child_main, argv);

	return ret ?: marker_result(r, c);
}

int record_child_error(struct record_child *c, const char *name, struct kvmft_err *err)
{
	int error;

	/* The command itself holds no end of this pipe: nothing comes unless exec failed. */
	if (c->p.pid || c->p.from < 0 || read(c->p.from, &error, sizeof(error)) != sizeof(error))
		return 0;
	return err_why(err, error, "cannot run %s", name);
}

void record_child_tell(const struct record_child *c, const char *name, note_fn *note)
{
	/* Ctrl-C was for both. */
	if (c->p.pid || !c->status || (WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGINT))
		return;
	if (WIFSIGNALED(c->status))
		note("%s was killed by signal %d (%s)", name, WTERMSIG(c->status),
		     strsignal(WTERMSIG(c->status)));
	else
		note("%s ended with exit status %d", name, WEXITSTATUS(c->status));
}

void record_child_release(struct record_child *c)
{
	if (c->p.pid <= 0 || c->p.to < 0)
		return;
	/* A child that has died is noticed by SIGCHLD: EPIPE needs no care here. */
	if (write(c->p.to, "g", 1) < 0)
		errno = 0;
	util_close_fd(&c->p.to);
}

void record_child_end(struct record *r, struct record_child *c, const char *name)
{
	/* If it is never released, it ends by itself. */
	if (c->p.pid > 0 && c->p.to < 0)
		kill(c->p.pid, SIGTERM);
	if (!record_helper_ends(&c->p, RECORD_PATIENCE_MS))
		r->note("%s (process %d) goes on after SIGTERM: the recording ends without it",
			name, c->p.pid);
}
