/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run.c: sides begin, record together, and end.
 *
 * The host comes first and goes last: what a guest shows is only of use between the entries and
 * exits of its vCPUs. COMMANDs run when all record. A guest that is lost is no reason to lose the
 * others.
 */
#include "sides.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kvmft/capture.h"
#include "kvmft/vm.h"

#define SECOND	     1000000000ull
#define STALL_NS     (10 * SECOND) /* of a guest that was told to end */
#define MOVED_NS     (2 * SECOND)  /* what a guest said before its VM went has come by then */
#define LEAVE_NS     (5 * SECOND)  /* ... of our own process, when that one is gone */
#define DEFAULT_NAME "kvmft.data"

struct sides {
	const struct sides_config *c;
	struct record_config *host;
	char **argv;
	note_fn *note;
	struct kvmft_err *err;
	struct side_spec *spec;
	size_t nspec;
	struct side *side; /* the host, then the guests */
	size_t n;
	int parent, dir, file, sigfd;
	struct vm_list *vms;
	char *base, *shown; /* "run", "run/" */
	const char *why;    /* it ends; NULL = not yet */
	pid_t reader;	    /* 0 = gone, or none */
	int reader_status;
	struct snapshots snapshots;
	bool all_live, command_done, told_alone, reader_killed;
	uint64_t live_ns, tick_ns;
	mode_t umask;
};

/* ---- the directory ---- */

static int make_dir(struct sides *x)
{
	const char *path = x->host->output ? x->host->output : DEFAULT_NAME;
	struct sbuf shown = { 0 };

	x->parent = capw_parent_open(path, &x->base, x->err);
	if (x->parent < 0)
		return x->parent;
	if (mkdirat(x->parent, x->base, 0700))
		return err_set(x->err, errno, errno == EEXIST ? "%s exists: choose another name with -o"
							      : "cannot make directory %s", path);
	/* A place in memory is nobody's to look at: sides are called by their names alone. */
	if (!x->c->temp)
		sbuf_addf(&shown, "%.*s/", (int)(strlen(path) - (path[strlen(path) - 1] == '/')),
			  path);
	x->shown = sbuf_take(&shown);
	x->dir = openat(x->parent, x->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (x->dir < 0 || !x->shown)
		return err_why(x->err, x->dir < 0 ? errno : ENOMEM, "cannot open %s", path);
	/* Whose names are asked for; a machine that hides them will be asked by the captures. */
	if (vm_scan(NULL, &x->vms, NULL))
		x->vms = NULL;
	return session_create(x->dir, &x->file, x->err);
}

/* Nothing was recorded that anybody asked for: no trace of it is left. */
static void remove_dir(struct sides *x)
{
	for (size_t i = 0; x->dir >= 0 && i < x->n; i++) {
		struct capw_name n = { .dir = x->dir };

		capw_name_drop(&x->side[i].place);
		snprintf(n.temp, sizeof(n.temp), "%s", x->side[i].name);
		capw_name_drop(&n);
	}
	if (x->dir >= 0 && !unlinkat(x->dir, "session", 0))
		(void)!unlinkat(x->parent, x->base, AT_REMOVEDIR);
}

/* A guest that is called like a VM of this host is meant to be that one. */
static int put_side(struct sides *x, struct side *s)
{
	struct kvmft_err none;
	const struct vm *vm = NULL;

	if (s->spec && x->vms && vm_list_find(x->vms, s->name, &vm, &none))
		vm = NULL;
	s->vm_pid = vm ? vm->pid : 0;
	return session_put_side(x->file, s, vm, x->err);
}

static void put_end(struct sides *x, const struct side *s)
{
	const char *reason = s->news.reason[0] ? s->news.reason : s->spec ? "died" : "control";

	if (x->file >= 0 && session_put_end(x->file, s, reason))
		x->note("cannot write %ssession", x->shown);
}

/* ---- beginning ---- */

static int pair(int fds[2], struct kvmft_err *err)
{
	return pipe2(fds, O_CLOEXEC) < 0 ? err_why(err, errno, "cannot make a pipe") : 0;
}

/* In a process of ours: what is another side's must not be held open here. */
static void forget_others(struct sides *x)
{
	for (size_t i = 0; i < x->n; i++) {
		util_close_fd(&x->side[i].to);
		util_close_fd(&x->side[i].from);
		util_close_fd(&x->side[i].words);
		util_close_fd(&x->side[i].push.to);
		util_close_fd(&x->side[i].push.from);
	}
	util_close_fd(&x->sigfd);
}

struct start {
	struct sides *x;
	struct side_host host;
	struct side_store store;
};

static void run_host(void *arg, int said)
{
	struct start *a = arg;

	forget_others(a->x);
	/* What it tells of its capture names no place that nobody has named. */
	if (a->x->c->temp && fchdir(a->x->dir))
		_exit(KVMFT_FAILED);
	side_host_main(&a->host, said);
}

static void run_store(void *arg, int said)
{
	struct start *a = arg;

	forget_others(a->x);
	side_store_main(&a->store, said);
}

static int start_host(struct sides *x)
{
	struct side *s = &x->side[0];
	_cleanup_free_ char *output = NULL;
	struct sbuf path = { 0 };
	int fds[2], ret;

	sbuf_addf(&path, "%s%s", x->shown, s->name);
	output = sbuf_take(&path);
	ret = output ? pair(fds, x->err) : err_set(x->err, ENOMEM, "out of memory");
	if (ret)
		return ret;
	x->host->output = output;
	s->to = fds[1];
	(void)umask(x->umask);
	ret = side_fork(s, run_host,
			&(struct start){ .x = x, .host = { x->host, x->argv, fds[0], x->note } },
			x->err);
	(void)umask(077);
	close(fds[0]);
	return ret ? ret : put_side(x, s);
}

struct agent_start {
	struct sides *x;
	const struct side_spec *spec;
	const char *program;
};

/* What ends when its orders have an end must not hold that open itself. */
static int run_agent(void *arg)
{
	struct agent_start *a = arg;

	forget_others(a->x);
	return side_qga_main(a->spec, a->program);
}

static int start_transport(struct sides *x, struct side *s, int orders, int out)
{
	const char *program = s->push.path[0] ? s->push.path : "kvmft";
	const char *words[] = { program, "record", "--remote", NULL };
	struct agent_start a = { x, s->spec, program };
	int pid = s->spec->agent
			  ? side_run(run_agent, &a, orders, out, &s->words, x->err)
			  : side_exec(&s->spec->command, words, orders, out, &s->words, x->err);

	if (pid < 0)
		return pid;
	s->transport = pid;
	return 0;
}

static int send_words(struct sides *x, struct side *s)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct remote_words w = { .drop = s->push.path[0] };
	int ret = side_words(x->c, s->spec, &w, x->err);

	remote_put(&text, &w);
	remote_words_free(&w);
	if (!ret && (text.error || text.len > REMOTE_MAX))
		ret = err_set(x->err, E2BIG, "%s: more options than a guest can be told", s->name);
	if (!ret)
		side_order(s, text.s);
	return ret;
}

static int make_capture(struct sides *x, struct side *s)
{
	int ret = capw_name_init(&s->place, x->dir, x->shown, s->name, CAPW_REFUSE, x->err);

	return ret ? ret : capw_create(&s->place, &s->w, x->err);
}

static int start_guest(struct sides *x, struct side *s)
{
	const struct record_config *h = x->host;
	const struct stream_limits limits = {
		.max_size = h->max_size.v,
		.min_free = side_least_free(x->dir, &h->min_free),
		.keep = h->keep.v,
	};
	int in[2], out[2], ret = pair(in, x->err);

	if (ret)
		return ret;
	ret = pair(out, x->err);
	if (ret) {
		close(in[0]);
		close(in[1]);
		return ret;
	}
	s->to = in[1];
	s->since = util_now_ns();
	ret = start_transport(x, s, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	ret = ret ? ret : send_words(x, s);
	ret = ret ? ret : make_capture(x, s);
	ret = ret ? ret
		  : side_fork(s, run_store,
			      &(struct start){ .x = x, .store = { s->w, out[0], limits } },
			      x->err);
	close(out[0]);
	return ret ? ret : put_side(x, s);
}

/* ---- what they say ---- */

static bool is_live(const struct side *s)
{
	return s->live || s->state == SIDE_ENDED;
}

static void tell_last(struct sides *x, struct side *s)
{
	if (s->untold && !x->host->quiet && s->last[0])
		x->note("%s: %s", s->name, s->last);
	s->untold = false;
}

static void say_line(struct sides *x, struct side *s)
{
	const char *text = s->line.s;

	str_printable(s->line.s);
	/* It is kvmft that speaks there, too, and of what it sends. */
	if (!strncmp(text, "kvmft", 5) && strstr(text, ": "))
		text = strstr(text, ": ") + 2;
	if (str_starts(text, "standard output: "))
		text += strlen("standard output: ");
	tell_last(x, s);
	snprintf(s->last, sizeof(s->last), "%s", text);
	s->untold = true;
	if (s->live)
		tell_last(x, s);
	sbuf_reset(&s->line);
}

static void take_words(struct sides *x, struct side *s)
{
	char buf[512];
	ssize_t n = read(s->words, buf, sizeof(buf));

	if (n <= 0) {
		if (s->line.len)
			say_line(x, s);
		util_close_fd(&s->words);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n' || s->line.len >= 400) {
			sbuf_add(&s->line, "");
			if (s->line.s)
				say_line(x, s);
		}
		if (buf[i] != '\n')
			sbuf_addc(&s->line, buf[i]);
	}
}

/* What one side saw, the others may know the cause of: their rings still hold it. */
static void fired(struct sides *x, const struct side *s)
{
	if (!x->host->quiet)
		x->note("%s: its flight recorder was asked for; all sides write out their rings",
			s->name);
	snapshots_asked(&x->snapshots, x->side, x->n);
	for (size_t i = 0; i < x->n; i++)
		if (&x->side[i] != s)
			side_order(&x->side[i], "snapshot\n");
}

static int take_news(struct sides *x, struct side *s, const struct stream_news *n)
{
	if (n->fired != s->news.fired)
		fired(x, s);
	if (n->written != s->news.written)
		s->owes = false;
	if (n->bytes != s->news.bytes)
		s->since = util_now_ns();
	if (n->quiet && !s->stalled && s->live && s->state != SIDE_STOPPING)
		x->note("%s: nothing has come from there for 5 s: is the guest paused, the link "
			"cut? The others go on",
			s->name);
	else if (!n->quiet && s->stalled && s->live)
		x->note("%s: is back", s->name);
	s->stalled = n->quiet;
	s->news = *n;
	if (!n->began || s->live)
		return 0;
	s->live = true;
	side_push_end(s, true);
	tell_last(x, s);
	s->state = MAX(s->state, SIDE_LIVE);
	return capw_name_take(&s->place, x->err);
}

static void ended(struct sides *x, struct side *s, const struct side_said *said)
{
	s->state = SIDE_ENDED;
	s->since = util_now_ns();
	s->ret = said->ret;
	s->exit_code = said->ret ? KVMFT_FAILED : said->status;
	s->err = said->err;
	util_close_fd(&s->to);
	if (s->spec && said->ret && s->live) {
		s->exit_code = KVMFT_INCOMPLETE;
		x->note("%s: %s%s%s%s", s->name, s->killed ? "was given up" : s->err.text,
			x->c->temp ? "" : "; what came before is in ", x->c->temp ? "" : x->shown,
			x->c->temp ? "" : s->name);
	}
}

static int take_said(struct sides *x, struct side *s)
{
	struct side_said said = { .what = SAID_END, .ret = -EIO };
	ssize_t n = read(s->from, &said, sizeof(said));
	int ret;

	if (n != (ssize_t)sizeof(said)) {
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return 0;
		util_close_fd(&s->from);
		if (s->state == SIDE_ENDED)
			return 0;
		said = (struct side_said){ .what = SAID_END, .ret = -EIO };
		err_set(&said.err, EIO, "the process that %s was killed",
			s->spec ? "stored its stream" : "recorded");
	}
	switch (said.what) {
	case SAID_LIVE:
		s->live = true;
		s->state = SIDE_LIVE;
		break;
	case SAID_FIRED:
		fired(x, s);
		break;
	case SAID_WRITTEN:
		s->owes = false;
		break;
	case SAID_COMMAND:
		x->command_done = true;
		break;
	case SAID_PROGRESS:
		if (!s->spec)
			s->progress = said.progress;
		break;
	case SAID_END:
		ret = s->spec ? take_news(x, s, &said.news) : 0;
		ended(x, s, &said);
		return ret;
	}
	return s->spec ? take_news(x, s, &said.news) : 0;
}

/* ---- signals ---- */

static void take_children(struct sides *x)
{
	snapshots_child(&x->snapshots);
	if (x->reader > 0 && waitpid(x->reader, &x->reader_status, WNOHANG) == x->reader)
		x->reader = 0;
	for (size_t i = 1; i < x->n; i++) {
		struct side *s = &x->side[i];

		if (s->transport <= 0 ||
		    waitpid(s->transport, &s->status, WNOHANG) != s->transport)
			continue;
		s->transport = 0;
		s->since = util_now_ns();
	}
}

static void snapshot(struct sides *x)
{
	snapshots_asked(&x->snapshots, x->side, x->n);
	for (size_t i = 0; i < x->n; i++)
		side_order(&x->side[i], "snapshot\n");
}

/* What reaches into the guest goes first: its end is the end of the stream. */
static void give_up(struct side *s)
{
	int sig = s->killed ? SIGKILL : SIGTERM; /* one that is stopped takes no other */

	if (!s->spec || (s->state == SIDE_ENDED && s->transport <= 0))
		return;
	s->killed = true;
	if (s->transport > 0)
		kill(s->transport, sig);
	else if (s->teller > 0)
		kill(s->teller, sig);
	s->since = util_now_ns();
}

static void give_up_all(struct sides *x)
{
	/* It would show all that there is yet, if its reader takes that. */
	x->reader_killed = x->reader > 0 && !kill(x->reader, SIGKILL);
	if (x->reader_killed)
		x->note("a second signal ended this before all was shown");
	for (size_t i = 1; i < x->n; i++)
		give_up(&x->side[i]);
}

static void take_signals(struct sides *x)
{
	struct signalfd_siginfo si;

	while (read(x->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			take_children(x);
		else if (si.ssi_signo == SIGUSR1)
			snapshot(x);
		else if (!x->why)
			x->why = "signal";
		else
			give_up_all(x);
	}
}

/* ---- time ---- */

/* A guest that is heard of when its VM has been gone for a while runs on another host. */
static void look_for_vm(struct sides *x, struct side *s, uint64_t now)
{
	if (!s->vm_pid || s->state != SIDE_LIVE || !kill((pid_t)s->vm_pid, 0) || errno != ESRCH)
		return;
	if (!s->vm_gone_ns)
		s->vm_gone_ns = now;
	if (s->since < s->vm_gone_ns + MOVED_NS)
		return;
	x->note("%s: its VM (PID %u) has gone from this host, and the guest goes on: it has moved to "
		"another host, and nothing here shows what that does to it from now on",
		s->name, s->vm_pid);
	s->vm_pid = 0;
}

static void look_at(struct sides *x, struct side *s, uint64_t now)
{
	uint64_t since = now - s->since;

	look_for_vm(x, s, now);
	if (!s->teller && !s->transport)
		return; /* its turn comes when the host records */
	/*
	 * What it was there for has ended; it did not go when it should; something that its command
	 * left behind holds the pipe.
	 */
	if ((s->state == SIDE_ENDED || s->killed || !s->transport) && since > LEAVE_NS) {
		give_up(s);
	} else if (s->state == SIDE_STOPPING && !s->killed && since > STALL_NS) {
		x->note("%s: has sent nothing for 10 s, and was told to end: it is given up", s->name);
		give_up(s);
	} else if (s->state != SIDE_ENDED && !s->live && since >= SECOND &&
		   since / SECOND % 10 == 0) {
		tell_last(x, s);
		x->note("waiting for %s to begin", s->name);
	}
}

static void show(struct sides *x)
{
	const char *lines[1 + SIDES_MAX_GUESTS];
	struct sbuf text[1 + SIDES_MAX_GUESTS] = { 0 };
	char bytes[32];

	/* What a snapshot's command prints is not to be drawn over. */
	if (!x->c->show || !x->all_live || x->snapshots.pid)
		return;
	for (size_t i = 0; i < x->n; i++) {
		const struct side *s = &x->side[i];
		const struct record_progress *p = &s->progress;

		sbuf_addf(&text[i], "%-12s ", s->name);
		if (s->spec)
			sbuf_addf(&text[i], "%s received%s",
				  str_bytes(bytes, sizeof(bytes), s->news.bytes),
				  s->state == SIDE_ENDED ? ", ended" : s->stalled ? ", silent" : "");
		else
			sbuf_addf(&text[i], "%llu s, %llu events/s, %llu lost, %s on disk",
				  (unsigned long long)((util_now_ns() - x->live_ns) / SECOND),
				  (unsigned long long)p->per_second, (unsigned long long)p->lost,
				  str_bytes(bytes, sizeof(bytes), p->bytes));
		lines[i] = text[i].s ? text[i].s : s->name;
	}
	x->c->show(lines, x->n);
	for (size_t i = 0; i < x->n; i++)
		sbuf_free(&text[i]);
}

static void tick(struct sides *x, uint64_t now)
{
	if (now - x->tick_ns < SECOND)
		return;
	x->tick_ns = now;
	for (size_t i = 1; i < x->n; i++) {
		look_at(x, &x->side[i], now);
		side_order(&x->side[i], "alive\n");
	}
	show(x);
}

static int wait_ms(const struct sides *x, uint64_t now)
{
	uint64_t left = SECOND, gone = now - x->live_ns;

	if (x->all_live && !x->why && x->host->duration.set)
		left = MIN(left, x->host->duration.v - MIN(gone, x->host->duration.v));
	return (int)(left / 1000000) + 1;
}

static int wait_once(struct sides *x)
{
	struct pollfd p[2 * (1 + SIDES_MAX_GUESTS) + 1];
	nfds_t n = 0;
	int ret = 0;

	p[n++] = (struct pollfd){ .fd = x->sigfd, .events = POLLIN };
	for (size_t i = 0; i < x->n; i++) {
		p[n++] = (struct pollfd){ .fd = x->side[i].from, .events = POLLIN };
		p[n++] = (struct pollfd){ .fd = x->side[i].words, .events = POLLIN };
	}
	if (poll(p, n, wait_ms(x, util_now_ns())) < 0)
		return errno == EINTR ? 0 : err_why(x->err, errno, "cannot wait");
	if (p[0].revents)
		take_signals(x);
	for (size_t i = 0; i < x->n && !ret; i++) {
		if (p[2 + 2 * i].revents)
			take_words(x, &x->side[i]);
		if (p[1 + 2 * i].revents)
			ret = take_said(x, &x->side[i]);
	}
	tick(x, util_now_ns());
	return ret ? ret : snapshots_tick(&x->snapshots, x->side, x->n, x->dir, x->err);
}

/* ---- together ---- */

/* What a guest could not even begin with. */
static int not_begun(struct sides *x, struct side *s)
{
	int status = WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 0;

	if (!s->spec) {
		*x->err = s->err;
		return s->ret ? s->ret : err_set(x->err, EIO, "the host's recording ended too soon");
	}
	s->untold = false;
	if (!s->transport && status == 127)
		return err_lack(x->err, ENOENT,
				"%s: there is no kvmft, or no such command (%s): --push brings a "
				"static one", s->name, s->last);
	err_set(x->err, EIO, "%s: does not record: %s", s->name,
		s->last[0] ? s->last : s->err.text);
	/* Where its command passes that on. */
	if (!s->transport && status == KVMFT_LACKING)
		x->err->code = KVMFT_LACKING;
	return -EIO;
}

static int wait_live(struct sides *x, size_t n)
{
	int ret = 0;

	while (!ret && !x->why) {
		bool all = true;

		for (size_t i = 0; i < n && !ret; i++) {
			all &= is_live(&x->side[i]);
			/* Its last words, and how it ended, may still be on their way. */
			if (x->side[i].state == SIDE_ENDED && x->side[i].words < 0 &&
			    x->side[i].transport <= 0)
				ret = not_begun(x, &x->side[i]);
			else if (x->side[i].state == SIDE_ENDED)
				all = false;
		}
		if (all || ret)
			break;
		ret = wait_once(x);
	}
	if (!ret && x->why)
		ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
	return ret;
}

static size_t guests_left(const struct sides *x)
{
	size_t n = 0;

	for (size_t i = 1; i < x->n; i++)
		n += x->side[i].state != SIDE_ENDED;
	return n;
}

static const char *why_now(struct sides *x)
{
	if (x->side[0].state == SIDE_ENDED)
		return "host";
	if (x->command_done)
		return "command";
	if (x->c->reader && !x->reader)
		return "reader";
	if (x->host->duration.set && util_now_ns() - x->live_ns >= x->host->duration.v)
		return "duration";
	if (guests_left(x))
		return NULL;
	if (x->c->command)
		return "command";
	if (!x->told_alone && !x->argv[0] && !x->host->duration.set) {
		x->told_alone = true;
		x->note("no guest is left; the host is still recorded, Ctrl-C ends it");
	}
	return NULL;
}

static int start_reader(struct sides *x)
{
	int pid = x->c->reader ? side_self(x->c->reader, x->dir, x->err) : 0;

	x->reader = MAX(pid, 0);
	return MIN(pid, 0);
}

static int record_together(struct sides *x)
{
	int ret = 0;

	x->all_live = true;
	x->live_ns = util_now_ns();
	if (session_put_start(x->file, x->n))
		x->note("cannot write %ssession", x->shown);
	for (size_t i = x->n; i-- > 0;)
		side_order(&x->side[i], "start\n");
	ret = start_reader(x);
	while (!ret && !x->why && !(x->why = why_now(x)))
		ret = wait_once(x);
	return ret;
}

static void stop(struct side *s)
{
	if (s->state == SIDE_ENDED)
		return;
	side_order(s, "stop\n");
	s->state = s->teller ? SIDE_STOPPING : SIDE_ENDED;
	s->since = util_now_ns();
}

/* What reached into guests still says how the recorder there ended. */
static bool commands_left(const struct sides *x)
{
	for (size_t i = 1; i < x->n; i++)
		if (x->side[i].transport > 0)
			return true;
	return false;
}

static int end_all(struct sides *x)
{
	int ret = 0;

	for (size_t i = 1; i < x->n; i++)
		stop(&x->side[i]);
	while (!ret && (guests_left(x) || commands_left(x)))
		ret = wait_once(x);
	stop(&x->side[0]);
	while (!ret && (x->side[0].state != SIDE_ENDED || x->snapshots.pid))
		ret = wait_once(x);
	/* It ends where the host's capture does; a recorder that failed has not written that. */
	if (x->reader > 0 && x->side[0].ret)
		kill(x->reader, SIGTERM);
	while (!ret && x->reader > 0)
		ret = wait_once(x);
	return ret;
}

/* ---- results ---- */

/* How the recorder in the guest ended counts as well, where its command passes that on. */
static void guest_exit(struct side *s)
{
	int code = WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 0;

	if (s->spec && !s->exit_code && code == KVMFT_INCOMPLETE)
		s->exit_code = code;
}

static int result(struct sides *x)
{
	const struct side *host = &x->side[0];
	int worst = KVMFT_OK;

	for (size_t i = 0; i < x->n; i++) {
		guest_exit(&x->side[i]);
		worst = MAX(worst, x->side[i].exit_code == KVMFT_FAILED ? KVMFT_INCOMPLETE
									: x->side[i].exit_code);
		put_end(x, &x->side[i]);
	}
	if (x->c->reader && WIFEXITED(x->reader_status))
		worst = MAX(worst, WEXITSTATUS(x->reader_status));
	if (x->c->reader && WIFSIGNALED(x->reader_status)) {
		if (!x->reader_killed)
			x->note("what shows the events was killed by signal %d",
				WTERMSIG(x->reader_status));
		worst = MAX(worst, KVMFT_INCOMPLETE);
	}
	if (host->ret) {
		*x->err = host->err;
		return host->ret;
	}
	if (x->snapshots.words.n && !x->snapshots.ever)
		x->note("--blame: no trigger came, and no snapshot was asked for; of the end: "
			"kvmft blame --last 1s %.*s",
			(int)strlen(x->shown) - 1, x->shown);
	if (!x->host->quiet)
		x->note("%.*s: %zu sides (%s): kvmft merge %.*s", (int)strlen(x->shown) - 1, x->shown,
			x->n, x->why ? x->why : "error", (int)strlen(x->shown) - 1, x->shown);
	return worst;
}

static int open_signals(struct sides *x)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_why(x->err, errno, "cannot block signals");
	x->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return x->sigfd < 0 ? err_why(x->err, errno, "cannot wait for signals") : 0;
}

static int make_sides(struct sides *x)
{
	x->n = 1 + x->nspec;
	x->side = calloc(x->n, sizeof(*x->side));
	if (!x->side)
		return err_set(x->err, ENOMEM, "out of memory");
	for (size_t i = 0; i < x->n; i++) {
		x->side[i].spec = i ? &x->spec[i - 1] : NULL;
		x->side[i].name = i ? x->spec[i - 1].name : SIDES_HOST;
		x->side[i].to = x->side[i].from = x->side[i].words = -1;
		x->side[i].push.to = x->side[i].push.from = -1;
	}
	return 0;
}

static int check(const struct sides_config *c, const struct record_config *host,
		 struct kvmft_err *err)
{
	if (host->output_dir || host->force)
		return err_usage(err, "%s does not go with --guest: a session is a new directory, "
				 "named by -o",
				 host->output_dir ? "--output-dir" : "--force");
	if (c->push_file && !c->push)
		return err_usage(err, "--push-file goes with --push");
	return 0;
}

static void sweep(struct sides *x)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	unsigned int n = sides_temp_sweep(false, &text);

	if (n)
		x->note("removed %u session(s) in memory that a killed kvmft had left", n);
}

/* All at once: each has its own line. */
static int push_all(struct sides *x)
{
	int ret = 0;

	for (size_t i = 1; i < x->n && !ret; i++)
		ret = side_push_start(x->c, &x->side[i], x->err);
	for (size_t i = 1; i < x->n && !ret; i++) {
		struct pollfd p[] = { { .fd = x->side[i].push.from, .events = POLLIN },
				      { .fd = x->sigfd, .events = POLLIN } };

		while (poll(p, 2, -1) < 0 && errno == EINTR)
			;
		if (p[1].revents)
			take_signals(x);
		if (x->why)
			ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
		else if (p[0].revents)
			ret = side_push_take(&x->side[i], x->err);
		else
			i--;
	}
	return ret;
}

static int begin(struct sides *x)
{
	int ret = open_signals(x);

	ret = ret ? ret : make_sides(x);
	ret = ret || !x->c->push ? ret : push_all(x);
	ret = ret ? ret : make_dir(x);
	ret = ret ? ret : start_host(x);
	ret = ret ? ret : wait_live(x, 1);
	for (size_t i = 1; i < x->n && !ret; i++)
		ret = start_guest(x, &x->side[i]);
	return ret ? ret : wait_live(x, x->n);
}

static void undo(struct sides *x)
{
	if (x->reader > 0) {
		kill(x->reader, SIGKILL);
		while (waitpid(x->reader, &x->reader_status, 0) < 0 && errno == EINTR)
			;
	}
	for (size_t i = x->n; i-- > 0;) {
		struct side *s = &x->side[i];

		side_close(s);
		side_push_end(s, false);
		capw_name_drop(&s->place);
		capw_close(s->w);
	}
	snapshots_free(&x->snapshots);
	util_close_fd(&x->file);
	vm_list_free(x->vms);
	side_specs_free(x->spec, x->nspec);
	free(x->side);
	free(x->base);
	free(x->shown);
	util_close_fd(&x->dir);
	util_close_fd(&x->parent);
	util_close_fd(&x->sigfd);
}

int sides_record(const struct sides_config *c, struct record_config *host, char **argv,
		 note_fn *note, struct kvmft_err *err)
{
	struct sides x = {
		.c = c, .host = host, .argv = argv, .note = note, .err = err,
		.parent = -1, .dir = -1, .file = -1, .sigfd = -1,
	};
	char temp[128];
	int ret = check(c, host, err);

	ret = ret ? ret : side_specs(c, &x.spec, &x.nspec, err);
	ret = ret ? ret : snapshots_init(&x.snapshots, c->after_snapshot, err);
	if (ret) {
		snapshots_free(&x.snapshots);
		side_specs_free(x.spec, x.nspec);
		return ret;
	}
	x.umask = umask(077);
	sweep(&x);
	if (c->temp)
		ret = side_temp_name(temp, sizeof(temp), err);
	host->output = c->temp ? temp : host->output;
	ret = ret ? ret : begin(&x);
	if (ret) {
		struct kvmft_err first = *err;

		(void)!end_all(&x);
		remove_dir(&x);
		*err = first;
	} else {
		ret = record_together(&x);
		ret = ret ? ret : end_all(&x);
		ret = ret ? ret : result(&x);
		if (c->temp)
			remove_dir(&x);
	}
	undo(&x);
	return ret;
}
