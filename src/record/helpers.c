/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * helpers.c: the processes that a recorder forks: COMMAND, kvmft-look, kvmft-watch, and kvmft-qemu,
 * whose life is in qemu.c.
 */
#include "record.h"

#include <limits.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* ---- processes, and what they answer ---- */

#define NAP_MS	   200
#define ANSWER_MAX ((size_t)64 << 20) /* 100,000 VMs take less */

int record_helper_start(struct record *r, struct record_helper *h, record_helper_fn *fn, void *arg)
{
	int end[2];
	const pid_t pid = fork_piped(end);

	if (!pid) {
		fn(r, end[1], end[0], arg);
		_exit(0);
	}
	h->to = end[0];
	h->from = end[1];
	h->pid = MAX(pid, 0);
	return pid < 0 ? err_why(r->err, pid, "cannot start a process") : 0;
}

/* Closes the pipes, and waits for its end for a while; false: it has not ended. */
static bool helper_ends(struct record_helper *h)
{
	unsigned int pause = 1;

	util_close_fd(&h->to);
	util_close_fd(&h->from);
	for (unsigned int ms = RECORD_PATIENCE_MS; h->pid > 0; ms -= MIN(ms, pause)) {
		if (waitpid(h->pid, NULL, WNOHANG)) {
			h->pid = 0;
		} else if (!ms) {
			return false;
		} else {
			pause = MIN(2 * pause, 20u);
			usleep(pause * 1000);
		}
	}
	return true;
}

void record_helper_end(struct record *r, struct record_helper *h)
{
	if (helper_ends(h))
		return;
	r->note("waiting for %s (process %d) to end; another signal leaves it alone", h->name,
		h->pid);
	while (!waitpid(h->pid, NULL, WNOHANG) && !signal_told())
		usleep(NAP_MS * 1000); /* what it has to undo it does without us, too */
	h->pid = 0;
}

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

int record_answer(int out, int result, const struct kvmft_err *err, const struct sbuf *text)
{
	struct record_answer a = { .ret = result, .err = *err, .len = text->len };
	int ret = full_write(out, &a, sizeof(a), NULL);

	return ret ?: full_write(out, text->s, text->len, NULL);
}

/* One of them may itself wait, for a process that hangs, and may have been taken over by one. */
static int answer_read(const struct record *r, const struct record_helper *h, void *to, size_t n)
{
	int ms = RECORD_PATIENCE_MS;

	for (size_t done = 0; done < n;) {
		struct pollfd p = { .fd = h->from, .events = POLLIN };
		int ret = poll(&p, 1, ms);
		ssize_t got = ret > 0 ? read(p.fd, (char *)to + done, n - done) : 0;

		if (!ret && !h->task)
			return -ETIMEDOUT;
		if (!ret) {
			if (ms == RECORD_PATIENCE_MS)
				r->note("waiting for %s (process %d), which %s", h->name, h->pid,
					h->task);
			ms = NAP_MS;
			if (signal_told())
				return -EINTR;
		}
		if ((ret < 0 || got < 0) && errno != EINTR)
			return -errno;
		if (ret > 0 && !got)
			return -EPIPE;
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

int record_ask(const struct record *r, const struct record_helper *h, const void *question,
	       size_t n, struct record_answer *a, char **text)
{
	int ret = full_write(h->to, question, n, NULL);

	*text = NULL;
	ret = ret ?: answer_read(r, h, a, sizeof(*a));
	if (ret)
		return ret;
	a->err.text[sizeof(a->err.text) - 1] = '\0';
	str_printable(a->err.text);
	if (a->err.code < KVMFT_OK || a->err.code > KVMFT_LACKING)
		a->err.code = KVMFT_FAILED;
	if (a->len > ANSWER_MAX)
		return -EPIPE; /* as good as none */
	*text = calloc(1, a->len + 1);
	return *text ? answer_read(r, h, *text, a->len) : -ENOMEM;
}

/*
 * COMMAND, which runs as if kvmft were not there: with the signals, CPUs and limits that kvmft was
 * started with. It does not outlive the recorder: it gets SIGTERM when that is killed.
 */
static void child_main(struct record *r, int go, int failed, void *command)
{
	const struct record_control *control = &r->c->control;
	char **argv = command;
	int error, null;
	char c;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (r->marker == RECORD_MARKER_COMMAND) {
		error = -kinst_private_marker(r->k);
		if (full_write(failed, &error, sizeof(error), NULL))
			_exit(125);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	umask(r->env.umask);
	/* Restoring what it would have had is a courtesy: a failure is no reason not to run it. */
	if (r->env.has_nofile)
		(void)!setrlimit(RLIMIT_NOFILE, &r->env.nofile);
	/* End of file without a byte: the parent gave up before tracing was live. */
	if (read(go, &c, 1) != 1)
		_exit(125);
	close(go);
	/* The pipe with the orders is not for it to read. */
	null = control->on && control->fd == STDIN_FILENO ? open("/dev/null", O_RDONLY | O_CLOEXEC)
							  : -1;
	if (null >= 0 && dup2(null, STDIN_FILENO) < 0)
		_exit(125);
	/* Its output must not get into the stream. */
	if (record_to_stream(r->c) && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(125);
	execvp(argv[0], argv);
	error = errno;
	_exit(full_write(failed, &error, sizeof(error), NULL) ? 126 : 127);
}

int record_child_fork(struct record *r, char **argv, struct record_child *c)
{
	int error, ret = record_helper_start(r, &c->p, child_main, argv);

	if (ret || r->marker != RECORD_MARKER_COMMAND)
		return ret;
	/* What became of its private trace_marker. */
	if (read(c->p.from, &error, sizeof(error)) != sizeof(error))
		return err_set(r->err, EIO, "the process that was to run the command died");
	if (error && r->marker_wanted)
		return err_set(r->err, error,
			       "cannot give the command a trace_marker of its own, in a mount "
			       "namespace: %s%s",
			       strerror(error), error == EPERM ? " (run as root)" : "");
	/* A QEMU for which it was not requested runs without. */
	if (error && !r->c->quiet)
		r->note("no markers of this QEMU are recorded: a mount namespace of its own failed: %s",
			strerror(error));
	return 0;
}

int record_child_result(struct record *r, const struct record_child *c)
{
	const int status = c->status;
	int error;

	if (c->p.pid)
		return 0;
	/* The command itself holds no end of this pipe: nothing comes unless exec failed. */
	if (c->p.from >= 0 && read(c->p.from, &error, sizeof(error)) == sizeof(error))
		return err_why(r->err, error, "cannot run %s", c->p.name);
	/* Ctrl-C was for both. */
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGINT)
		r->note("%s was killed by signal %d (%s)", c->p.name, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (!WIFSIGNALED(status) && status)
		r->note("%s ended with exit status %d", c->p.name, WEXITSTATUS(status));
	return 0;
}

void record_child_end(struct record *r, struct record_child *c)
{
	/* If it is never released, it ends by itself. */
	if (c->p.pid > 0 && c->p.to < 0)
		kill(c->p.pid, SIGTERM);
	if (!helper_ends(&c->p))
		r->note("%s (process %d) goes on after SIGTERM: the recording ends without it",
			c->p.name, c->p.pid);
}

/*
 * kvmft-look, the process that looks at other processes for a recorder on a host.
 *
 * /proc/PID/fd shows which process has which VM. Reading it needs CAP_SYS_PTRACE and is impossible
 * under Landlock. So the recorder asks a process that was forked before: four kinds of questions,
 * with at most a process id. It opens nothing for writing, and takes no input but the recorder's
 * questions.
 */

#define CHILDREN_MAX 4096

enum look_for {
	LOOK_READY = 'r',
	LOOK_VMS = 'v', /* those that thread pid made; 0: all */
	LOOK_TASKS = 't',
	LOOK_QEMU = 'q',
	LOOK_CHILDREN = 'c'
};

struct question {
	char what;
	uint32_t pid;
};

static int add_task(const struct vm_task *t, void *ctx)
{
	sbuf_add_mem(ctx, t, sizeof(*t));
	return ((struct sbuf *)ctx)->error;
}

/* Its record for meta, if it is a QEMU. */
static int look_qemu(uint32_t pid, struct sbuf *b)
{
	_cleanup_(mon_program_free) struct mon_program p = { .path = { 0 } };
	char link[PATH_MAX];
	const char *name;
	ssize_t n;

	/* By its file's name: searching the file takes milliseconds, too much for most programs. */
	n = readlink(TEXTF("/proc/%" PRIu32 "/exe", pid), link, sizeof(link) - 1);
	if (n <= 0)
		return 0;
	link[n] = '\0';
	name = strrchr(link, '/');
	if (!name || (!strstr(name, "qemu") && strcmp(name, "/kvm")))
		return 0;
	(void)!mon_program_read(pid, &p);
	if (p.version.len) {
		record_met_line(b, pid, &p);
		meta_str(b, "version", p.version.s);
	}
	return b->error;
}

static int look_answer(const struct question *q, struct sbuf *b, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	struct vm_list *l = NULL;
	int ret;

	switch (q->what) {
	case LOOK_VMS:
		ret = q->pid ? vm_scan_made_by(NULL, q->pid, &l, err) : vm_scan_told(NULL, &l, err);
		ret = ret ?: vm_list_pack(l, b);
		vm_list_free(l);
		return ret;
	case LOOK_TASKS: return vm_tasks_walk(NULL, q->pid, add_task, b);
	case LOOK_QEMU: return look_qemu(q->pid, b);
	case LOOK_CHILDREN: /* "ID ID ..." */
		if (file_read_all(AT_FDCWD, TEXTF("/proc/%" PRIu32 "/task/%" PRIu32 "/children",
						  q->pid, q->pid), CHILDREN_MAX, &text) > 0)
			sbuf_add(b, text);
		return b->error;
	default: return 0;
	}
}

static void look_main(struct record *r, int in, int out, void *arg __unused_arg)
{
	const int keep[] = { in, out };
	struct kvmft_err confined_err = { .text = "" };
	struct question q;
	int confined, ret = 0;

	record_detach(r->look.name, keep, ARRAY_SIZE(keep));
	confined = record_confine_helper(SANDBOX_CALLS_LOOKER, NULL, 0, &confined_err);
	while (!ret && read(in, &q, sizeof(q)) == sizeof(q)) {
		struct kvmft_err err = confined_err;
		struct sbuf b = { 0 };

		ret = confined ?: look_answer(&q, &b, &err);
		if (ret)
			b.len = 0;
		ret = record_answer(out, ret, &err, &b);
		sbuf_free(&b);
	}
}

/*
 * *text receives the answer, len bytes and a NUL; to be freed. There is nothing in it if nobody is
 * left to answer: the recording goes on without it. In a guest the recorder looks itself.
 */
static int look_ask(struct record *r, enum look_for what, uint32_t pid, char **text, size_t *len,
		    struct kvmft_err *err)
{
	const struct question q = { .what = (char)what, .pid = pid };
	struct record_answer a = { .ret = 0 };
	struct sbuf b = { 0 };
	int ret;

	if (!r->look.pid) {
		ret = look_answer(&q, &b, err);
		*len = b.len;
		*text = ret ? NULL : sbuf_take(&b);
		sbuf_free(&b);
		return ret ?: *text ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	ret = r->blind ? 0 : record_ask(r, &r->look, &q, sizeof(q), &a, text);
	if ((ret == -EPIPE || ret == -ETIMEDOUT) && r->started) {
		r->blind = true;
		free(*text);
		/* Once its pipes are closed, it ends when it can. */
		util_close_fd(&r->look.to);
		util_close_fd(&r->look.from);
		r->note("kvmft-look (process %d) %s: VMs and threads that appear from now on are not "
			"known",
			r->look.pid, ret == -ETIMEDOUT ? "does not answer" : "was killed");
		ret = 0;
	}
	if (!ret && r->blind) {
		a = (struct record_answer){ .ret = 0 };
		*text = calloc(1, 1);
		ret = *text ? 0 : -ENOMEM;
	}
	if (ret)
		return err_why(err, ret, "cannot ask the process kvmft-look, which looks for VMs");
	*len = a.len;
	if (a.ret && err)
		*err = a.err;
	return a.ret;
}

int record_look_start(struct record *r)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret;

	if (!(r->side & CAP_SIDE_HOST))
		return 0;
	ret = record_helper_start(r, &r->look, look_main, NULL);
	return ret ?: look_ask(r, LOOK_READY, 0, &text, &len, r->err);
}

void record_look_end(struct record *r)
{
	if (!r->blind)
		record_helper_end(r, &r->look);
}

int record_look_vms(struct record *r, uint32_t tid, struct vm_list **list, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret = look_ask(r, LOOK_VMS, tid, &text, &len, err);

	*list = NULL;
	if (ret)
		return ret;
	if (r->blind)
		*list = calloc(1, sizeof(**list));
	ret = !r->blind ? vm_list_unpack(text, len, list) : *list ? 0 : -ENOMEM;
	return err_why(err, ret, "cannot list the VMs");
}

int record_look_tasks(struct record *r, uint32_t pid, vm_task_fn fn, void *ctx)
{
	_cleanup_free_ char *text = NULL;
	struct vm_task t;
	size_t len;
	int ret = look_ask(r, LOOK_TASKS, pid, &text, &len, r->err);

	for (size_t at = 0; !ret && len - at >= sizeof(t); at += sizeof(t)) {
		memcpy(&t, text + at, sizeof(t));
		ret = fn(&t, ctx);
	}
	return ret;
}

/*
 * Which QEMUs were seen: program, version and trace back ends, into the capture. Those are the
 * QEMUs of the VMs of this host, of --qemu, and COMMAND or what it starts.
 */

#define EXEC_WAIT_MS 100

void record_met_line(struct sbuf *line, uint32_t pid, const struct mon_program *p)
{
	meta_begin(line, "qemu");
	meta_u64(line, "pid", pid);
	meta_str(line, "binary", p->path.s);
	meta_str(line, "backends", p->backends.s);
	meta_str(line, "found", p->found.s);
}

static bool is_met(const struct record *r, uint32_t pid)
{
	for (size_t i = 0; i < r->met.n; i++)
		if (r->met.v[i] == pid)
			return true;
	return false;
}

void record_met_told(struct record *r, const char *line)
{
	unsigned int pid;

	if (sscanf(line, "qemu pid=%u ", &pid) == 1 && !is_met(r, pid))
		(void)!array_add(&r->met.v, &r->met.n, &r->met.cap, &pid, sizeof(pid));
}

int record_met(struct record *r, uint32_t pid)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret;

	if (!pid || is_met(r, pid))
		return 0;
	ret = look_ask(r, LOOK_QEMU, pid, &text, &len, r->err);
	if (ret || !str_starts(text, "qemu ") || strchr(text, '\n'))
		return ret;
	(void)!array_add(&r->met.v, &r->met.n, &r->met.cap, &pid, sizeof(pid));
	sbuf_reset(&r->line);
	sbuf_add(&r->line, text);
	return record_put(r);
}

int record_met_command(struct record *r, const struct record_child *c, bool begin)
{
	struct pollfd p = { .fd = c->p.from, .events = POLLIN };
	_cleanup_free_ char *text = NULL;
	char *save = NULL, *word;
	uint64_t child;
	size_t len;
	int ret;

	if (c->p.pid <= 0 || !(r->side & CAP_SIDE_HOST))
		return 0;
	/* At its exec() the pipe is closed: then it is the requested program. */
	if (begin && poll(&p, 1, EXEC_WAIT_MS) < 0)
		errno = 0;
	ret = record_met(r, (uint32_t)c->p.pid);
	/* It may be a shell, env or timeout that starts the QEMU. */
	ret = ret ?: look_ask(r, LOOK_CHILDREN, (uint32_t)c->p.pid, &text, &len, r->err);
	word = ret ? NULL : strtok_r(text, " ", &save);
	for (; word && !ret; word = strtok_r(NULL, " ", &save))
		if (!parse_u64(word, &child) && child <= INT32_MAX)
			ret = record_met(r, (uint32_t)child);
	return ret;
}

int record_child_release(struct record *r, struct record_child *c)
{
	/* A child that has died is noticed by SIGCHLD: EPIPE needs no care here. */
	if (c->p.pid > 0 && c->p.to >= 0 && write(c->p.to, "g", 1) < 0)
		errno = 0;
	util_close_fd(&c->p.to);
	return record_met_command(r, c, true);
}

/*
 * kvmft-watch, for what happens if the recorder is killed, and because that itself can do nothing
 * in the place of the capture once it records.
 *
 * The instance would be left behind. The kernel's dead-man switch (free_buffer, see kernel/inst.c)
 * stops tracing in it at once, but the events stay enabled, at a tenth of a microsecond for each
 * that fires. So a small process, forked before anything is made, sleeps in read() on a pipe whose
 * other end only the recorder has. End of file means that the recorder is gone: its instance is
 * removed, which disables the events, and the watcher ends. If it was killed as well, the next
 * start or `kvmft reset` removes the instance.
 */

/* Pauses grow: with many processes it takes a while to see who has an instance open. */
#define WATCH_END    'q'
#define PAUSE_US     (10 * 1000)
#define PAUSE_MAX_US (640 * 1000)
#define PAUSES_MAX   90 /* of the longest: after a minute, cleaning up is left to others */

/* Its own: in each instance, and each list of probes, what is left of a killed recorder. */
int record_confine_watch(const struct record *r, struct kvmft_err *err)
{
	static const char *const file[] = { "kprobe_events", "uprobe_events", "dynamic_events",
					    "synthetic_events" };
	struct sandbox_dir dir[2 + ARRAY_SIZE(file)] = {
		{ r->place.dir, SANDBOX_WRITE | SANDBOX_CREATE | SANDBOX_REMOVE },
		{ openat(ktracefs_dirfd(r->t), "instances", O_PATH | O_DIRECTORY | O_CLOEXEC),
		  SANDBOX_WRITE | SANDBOX_REMOVE },
	};
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(file); i++)
		dir[2 + i] = (struct sandbox_dir){
			openat(ktracefs_dirfd(r->t), file[i], O_PATH | O_CLOEXEC), SANDBOX_WRITE
		};
	ret = record_confine_helper(SANDBOX_CALLS_WATCHER, dir, ARRAY_SIZE(dir), err);
	for (size_t i = 1; i < ARRAY_SIZE(dir); i++)
		util_close_fd(&dir[i].fd);
	return ret;
}

static void watch_main(struct record *r, int from, int to, void *recorder)
{
	/* Of its own, because what is locked is the recorder's descriptor. */
	const int own = openat(r->place.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int error = errno, place = own < 0 ? r->place.dir : own;
	const int keep[] = { from, to, ktracefs_dirfd(r->t), place };
	struct kvmft_err confined_err = { .text = "" };
	unsigned int pause = PAUSE_US;
	int confined;
	char byte = 0;
	ssize_t n;

	r->place.dir = r->place.name.dir = place;
	record_detach(r->watch.name, keep, ARRAY_SIZE(keep));
	confined = record_confine_watch(r, &confined_err);
	if (own != place)
		confined = err_why(&confined_err, error, "cannot open the directory of the capture");
	while ((n = read(from, &byte, 1)) == 1 ? byte != WATCH_END : n < 0 && errno == EINTR) {
		struct kvmft_err err = confined_err;
		struct sbuf aside = { .s = r->place.name.aside };
		int ret = n < 0 ? 0 : confined;

		/* What the recorder may not do itself any more. */
		if (!ret && n == 1 && !record_to_stream(r->c)) {
			ret = byte == RECORD_LIVE ? capw_name_take(&r->place.name, &err)
						  : capw_name_done(&r->place.name, &err);
			if (!ret && byte != RECORD_LIVE && r->c->keep_captures.set)
				ret = capw_stamp_prune(place, r->place.name.name,
						       r->c->keep_captures.v, NULL, &err);
		}
		aside.len = strlen(r->place.name.aside);
		if (n == 1) /* without a recorder there is end of file, too */
			(void)!record_answer(to, ret, &err, &aside);
	}
	capw_name_drop(&r->place.name);
	if (n)
		return;
	/* Until nothing of the recorder is left to remove, which first closes its files. */
	for (int more = PAUSES_MAX;; more -= pause == PAUSE_MAX_US) {
		struct kreset found = { .busy = kowner_alive(recorder) };
		bool busy;

		if (!found.busy)
			(void)!kreset_sweep(r->t, recorder, false, &found, NULL);
		busy = found.busy;
		kreset_free(&found);
		if (!busy || !more)
			break;
		usleep(pause);
		pause = MIN(2 * pause, (unsigned int)PAUSE_MAX_US);
	}
}

int record_watch_start(struct record *r)
{
	struct kowner self;
	int ret = kowner_self(&self);

	if (ret)
		return err_why(r->err, ret, "cannot read /proc/self/stat");
	return record_helper_start(r, &r->watch, watch_main, &self);
}

int record_watch_tell(struct record *r, enum record_stage stage)
{
	_cleanup_free_ char *aside = NULL;
	const char byte = (char)stage;
	struct record_answer a;

	if (record_ask(r, &r->watch, &byte, 1, &a, &aside))
		return err_set(r->err, EPIPE, "the process kvmft-watch was killed: %s%s",
			       stage == RECORD_LIVE ? "it names the capture"
						    : "old captures stay where ",
			       stage == RECORD_LIVE ? "" : capw_path(r->w));
	snprintf(r->place.name.aside, sizeof(r->place.name.aside), "%s", aside);
	if (a.ret)
		*r->err = a.err;
	return a.ret;
}

void record_watch_end(struct record *r)
{
	const char end = WATCH_END;

	if (r->watch.to >= 0 && write(r->watch.to, &end, 1) < 0)
		errno = 0; /* it was killed */
	record_helper_end(r, &r->watch);
}
