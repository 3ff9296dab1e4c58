/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run.c: sides begin, record together, and end; the file that says what belongs together.
 *
 * The host starts first and ends last: what a guest shows is only of use between the entries and
 * exits of its vCPUs. COMMANDs run when all record. Losing one guest is no reason to lose the
 * others.
 */

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "kvmft/vm.h"
#include "sides.h"

/* ---- what sides say, signals, and who is not waited for any longer ---- */

#define STALL_NS     (10 * SIDES_SECOND) /* without a byte, of a guest that was told to end */
#define MOVED_NS     (2 * SIDES_SECOND)	 /* by then, what a guest sent before its VM went is here */
#define TIMES_MAX    10u    /* --guest-timeout, of one that goes on sending without begin or end */
#define LINES_MAX    10000u /* that a guest says, and are printed */
#define LEAVE_NS     (5 * SIDES_SECOND) /* ... of our own process, when that one is gone */
#define FIRED_SILENT (600 * SIDES_SECOND)
#define OWES_NS	     (5 * SIDES_SECOND) /* a side whose ring was empty says nothing */
#define SAME_NS	     (SIDES_SECOND / 10) /* timeout(1) signals its child, then its group */

static void tell_last(struct sides *x, struct side *s)
{
	if (s->untold && !x->host->quiet && s->last[0] && s->told <= LINES_MAX) {
		if (s->told++ == LINES_MAX)
			x->note("%s: says more than %u lines: the rest is not shown", s->name, LINES_MAX);
		else
			x->note("%s: %s", s->name, s->last);
	}
	s->untold = false;
}

static void say_line(struct sides *x, struct side *s)
{
	const char *text = s->line.s;

	str_printable(s->line.s);
	/* A message of the kvmft there, and about what it sends. */
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
		if (buf[i] != '\n' && buf[i] != '\r') /* ssh's lines end with both */
			sbuf_addc(&s->line, buf[i]);
	}
}

/* All sides are asked for their rings: what is run then waits for them. */
static void snapshots_asked(struct sides *x)
{
	struct snapshots *n = &x->snapshots;

	if (!n->words.n)
		return;
	n->ever = true;
	n->asked_ns = n->asked_ns ?: util_now_ns();
	for (size_t i = 0; i < x->n; i++)
		x->side[i].owes = x->side[i].live && x->side[i].state < SIDE_STOPPING;
}

/* It may have found what --on-over is for. */
static void snapshot_shown(struct sides *x, int status)
{
	struct snapshots *n = &x->snapshots;
	bool over = x->c->on_over && WIFEXITED(status) && WEXITSTATUS(status) == SIDES_OVER;

	if (n->over)
		x->note("--on-over: %s %d", WIFEXITED(status) ? "exit status" : "killed by signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	n->pid = over && !n->over ? side_shell(x->c->on_over, x->shown, x->umask) : 0;
	if (n->pid < 0)
		x->note("--on-over: cannot fork: %s", strerror(-n->pid));
	n->pid = MAX(n->pid, 0);
	n->over = n->pid > 0;
}

/* Rings of the others may show the cause; who says so again waits for 1 s, 2, 4, 8. */
static void side_fired(struct sides *x, struct side *s)
{
	uint64_t now = util_now_ns(), since = now - s->fired_ns;
	char again[64] = "", order[sizeof("snapshot \n") + CAPW_ORIGIN_SIZE];

	s->fired_again = since < s->fired_wait;
	if (s->fired_again)
		return;
	if (s == &x->side[0] || since > FIRED_SILENT)
		s->fired_wait = SIDES_SECOND;
	else
		s->fired_wait = MIN(2 * s->fired_wait, FIRED_SILENT);
	s->fired_ns = now;
	if (s->fired_wait > SIDES_SECOND)
		snprintf(again, sizeof(again), "; its next trigger counts in %llu s",
			 (unsigned long long)(s->fired_wait / SIDES_SECOND));
	if (!x->host->quiet)
		x->note("%s: its flight recorder was triggered; all sides write out their rings%s",
			s->name, again);
	snapshots_asked(x);
	snprintf(order, sizeof(order), "snapshot %s\n", s->name);
	for (size_t i = 0; i < x->n; i++)
		if (&x->side[i] != s)
			side_order(&x->side[i], order);
}

static int take_news(struct sides *x, struct side *s, const struct stream_news *n)
{
	if (n->fired != s->news.fired)
		side_fired(x, s);
	if (n->written != s->news.written)
		s->owes = false;
	/* What its command left behind may send without end: that is no life of one given up. */
	if (n->bytes != s->news.bytes && !s->killed)
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
	side_push_end(s, true, x->note);
	tell_last(x, s);
	s->state = MAX(s->state, SIDE_LIVE);
	return capw_name_take(&s->place, x->err);
}

static int take_said(struct sides *x, struct side *s)
{
	struct side_said said = { .what = SAID_END, .ret = -EIO };
	int ret = side_hear(s, s->spec, &said);

	if (ret) {
		if (ret == -EINTR || ret == -EAGAIN)
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
	case SAID_FIRED: side_fired(x, s); break;
	case SAID_WRITTEN: s->owes = false; break;
	case SAID_COMMAND: x->command_done = true; break;
	case SAID_PROGRESS:
		if (!s->spec)
			s->progress = said.progress;
		break;
	case SAID_END:
		ret = s->spec ? take_news(x, s, &said.news) : 0;
		s->state = SIDE_ENDED;
		s->since = util_now_ns();
		s->ret = said.ret;
		s->exit_code = said.ret ? KVMFT_FAILED : said.status;
		s->err = said.err;
		util_close_fd(&s->to);
		if (s->spec && said.ret && s->live) {
			s->exit_code = KVMFT_INCOMPLETE;
			x->note("%s: %s%s%s%s", s->name, s->killed ? "was given up" : s->err.text,
				x->c->temp ? "" : "; what came before is in ",
				x->c->temp ? "" : x->shown, x->c->temp ? "" : s->name);
		}
		return ret;
	}
	return s->spec ? take_news(x, s, &said.news) : 0;
}

/* Ends what reaches into the guest first: its end is the end of the stream. */
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

static void sides_take_signals(struct sides *x)
{
	struct signalfd_siginfo si;
	int status;

	while (read(x->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (x->snapshots.pid &&
			    waitpid(x->snapshots.pid, &status, WNOHANG) == x->snapshots.pid)
				snapshot_shown(x, status);
			if (x->reader > 0 &&
			    waitpid(x->reader, &x->reader_status, WNOHANG) == x->reader)
				x->reader = 0;
			for (size_t i = 1; i < x->n; i++) {
				struct side *s = &x->side[i];

				if (s->transport <= 0 ||
				    waitpid(s->transport, &s->status, WNOHANG) != s->transport)
					continue;
				s->transport = 0;
				s->since = util_now_ns();
			}
		} else if (si.ssi_signo == SIGUSR1) {
			snapshots_asked(x);
			for (size_t i = 0; i < x->n; i++)
				side_order(&x->side[i], "snapshot\n");
		} else if (!x->why) {
			x->why = "signal";
			x->signal_ns = util_now_ns();
			x->signo = si.ssi_signo;
		} else if (si.ssi_signo != x->signo || util_now_ns() - x->signal_ns > SAME_NS) {
			/* They would show everything that there is, if their reader takes that. */
			x->blame_killed |= x->snapshots.pid && !kill(x->snapshots.pid, SIGKILL);
			x->reader_killed = x->reader > 0 && !kill(x->reader, SIGKILL);
			if (x->blame_killed || x->reader_killed)
				x->note("a second signal ended this before all was shown");
			for (size_t i = 1; i < x->n; i++)
				give_up(&x->side[i]);
			/* What it has written stays; whatever it made is removed by others. */
			if (x->side[0].stalled && x->side[0].state != SIDE_ENDED)
				kill(x->side[0].teller, SIGKILL);
		}
	}
}

/* ---- time ---- */

/* Its process on this host says something each second, unless it is stopped. */
static void look_at_teller(struct sides *x, struct side *s, uint64_t since)
{
	bool waits = s->spec ? s->live && s->state == SIDE_LIVE
			     : s->state == SIDE_STARTING || s->state == SIDE_STOPPING;

	if (!waits || s->stalled || since <= STALL_NS)
		return;
	s->stalled = true;
	if (s->spec)
		x->note("%s: process %d, which stores its stream, does not answer: is it stopped?",
			s->name, s->teller);
	else
		x->note("waiting for process %d, which records the host, to %s; a second signal kills "
			"it",
			s->teller, s->state == SIDE_STOPPING ? "end" : "begin");
}

static void look_at(struct sides *x, struct side *s, uint64_t now)
{
	uint64_t since = now - s->since;

	if (s->vm_pid && s->state == SIDE_LIVE && kill((pid_t)s->vm_pid, 0) && errno == ESRCH) {
		s->vm_gone_ns = s->vm_gone_ns ?: now;
		/* A guest that still sends when its VM has long been gone runs on another host. */
		if (s->since >= s->vm_gone_ns + MOVED_NS) {
			x->note("%s: its VM (PID %u) is gone from this host, and the guest goes on: it has "
				"moved to another host, and what happens to it there is not recorded here",
				s->name, s->vm_pid);
			s->vm_pid = 0;
		}
	}
	look_at_teller(x, s, since);
	/* What its command has left behind may hold this for ever. */
	if (s->state == SIDE_ENDED && s->transport <= 0 && since > LEAVE_NS)
		util_close_fd(&s->words);
	if (!s->teller && !s->transport)
		return; /* its turn comes when the host records */
	/* Its side ended, or should have; or what its command left behind holds the pipe. */
	if ((s->state == SIDE_ENDED || s->killed || !s->transport) && since > LEAVE_NS) {
		give_up(s);
	} else if (s->state == SIDE_STOPPING && !s->killed) {
		uint64_t limit = x->c->timeout.set ? x->c->timeout.v : SIDE_BEGIN_NS;
		uint64_t took = now - s->begun;
		const char *why = now - s->since > STALL_NS ? "has sent nothing for 10 s"
				  : limit && took / TIMES_MAX >= limit
					  ? "goes on sending (--guest-timeout allows more time)"
					  : NULL;
		char bytes[32];

		/* It was told to end: what its ring still holds may take a while, not for ever. */
		if (why) {
			x->note("%s: was told to end and %s: it is given up", s->name, why);
			give_up(s);
		} else if (took >= SIDES_SECOND && took / SIDES_SECOND % 10 == 0) {
			x->note("waiting for %s to end: it goes on sending, %s so far; Ctrl-C gives it up",
				s->name, str_bytes(bytes, sizeof(bytes), s->news.bytes));
		}
	} else if (s->spec && s->state != SIDE_ENDED && !s->live && !s->killed) {
		/* It was started, and nothing says yet that it records. */
		uint64_t limit = x->c->timeout.set ? x->c->timeout.v : SIDE_BEGIN_NS;

		if (limit && (since >= limit || (now - s->begun) / TIMES_MAX >= limit)) {
			s->late = true;
			give_up(s);
		} else if (since >= SIDES_SECOND && since / SIDES_SECOND % 10 == 0) {
			tell_last(x, s);
			x->note("waiting for %s to begin: %s, and nothing has come from there%s",
				s->name,
				s->spec->agent ? "its agent was asked to run kvmft"
					       : "its command was started",
				s->news.bytes ? " since" : "");
		}
	}
}

static void show_states(struct sides *x)
{
	const char *lines[1 + SIDES_MAX_GUESTS];
	struct sbuf text[1 + SIDES_MAX_GUESTS] = { 0 };
	char bytes[32];

	/* The output of a snapshot's command must not be overwritten. */
	if (!x->c->show || !x->all_live || x->snapshots.pid)
		return;
	for (size_t i = 0; i < x->n; i++) {
		const struct side *s = &x->side[i];
		const struct record_progress *p = &s->progress;

		sbuf_addf(&text[i], "%-12s ", s->name);
		if (s->spec)
			sbuf_addf(&text[i], "%s received%s",
				  str_bytes(bytes, sizeof(bytes), s->news.bytes),
				  s->state == SIDE_ENDED ? ", ended"
				  : s->stalled		 ? ", silent"
							 : "");
		else
			sbuf_addf(&text[i], "%llu s, %llu events/s, %llu lost, %s on disk",
				  (unsigned long long)((util_now_ns() - x->live_ns) / SIDES_SECOND),
				  (unsigned long long)p->per_second, (unsigned long long)p->lost,
				  str_bytes(bytes, sizeof(bytes), p->bytes));
		lines[i] = text[i].s ? text[i].s : s->name;
	}
	x->c->show(lines, x->n);
	for (size_t i = 0; i < x->n; i++)
		sbuf_free(&text[i]);
}

static void sides_tick(struct sides *x, uint64_t now)
{
	uint64_t took = now - x->side[0].since;
	pid_t pid = x->snapshots.pid ?: x->reader;

	if (now - x->tick_ns < SIDES_SECOND)
		return;
	x->tick_ns = now;
	for (size_t i = 0; i < x->n; i++)
		if (x->side[i].fired_again)
			side_fired(x, &x->side[i]);
	look_at_teller(x, &x->side[0], took);
	/* All sides have ended, and what shows them has not: its own reader may have stopped. */
	if (x->side[0].state == SIDE_ENDED && pid && took >= STALL_NS &&
	    took / SIDES_SECOND % 10 == 0)
		x->note("waiting for process %d to show what was recorded; Ctrl-C ends that", pid);
	for (size_t i = 1; i < x->n; i++) {
		look_at(x, &x->side[i], now);
		side_order(&x->side[i], "alive\n");
	}
	show_states(x);
}

/* Waits for whatever comes first, at most a second, and handles it. */
static int sides_wait_once(struct sides *x)
{
	struct pollfd p[2 * (1 + SIDES_MAX_GUESTS) + 1];
	uint64_t left = SIDES_SECOND, gone = util_now_ns() - x->live_ns;
	nfds_t n = 0;
	bool all = true;
	int ret = 0;

	if (x->all_live && !x->why && x->host->duration.set)
		left = MIN(left, x->host->duration.v - MIN(gone, x->host->duration.v));
	p[n++] = (struct pollfd){ .fd = x->sigfd, .events = POLLIN };
	for (size_t i = 0; i < x->n; i++) {
		p[n++] = (struct pollfd){ .fd = x->side[i].from, .events = POLLIN };
		p[n++] = (struct pollfd){ .fd = x->side[i].words, .events = POLLIN };
	}
	if (poll(p, n, (int)(left / 1000000) + 1) < 0)
		return errno == EINTR ? 0 : err_why(x->err, errno, "cannot wait");
	if (p[0].revents)
		sides_take_signals(x);
	for (size_t i = 0; i < x->n && !ret; i++) {
		if (p[2 + 2 * i].revents)
			take_words(x, &x->side[i]);
		if (p[1 + 2 * i].revents)
			ret = take_said(x, &x->side[i]);
	}
	sides_tick(x, util_now_ns());
	/* Runs the command of snapshots once all rings have come, or enough time has passed. */
	if (ret || !x->snapshots.asked_ns || x->snapshots.pid)
		return ret;
	for (size_t i = 0; i < x->n; i++)
		all &= !x->side[i].owes || x->side[i].state == SIDE_ENDED;
	if (!all && util_now_ns() - x->snapshots.asked_ns < OWES_NS)
		return 0;
	x->snapshots.asked_ns = 0;
	ret = side_self(&x->snapshots.words, x->dir, x->err);
	x->snapshots.pid = MAX(ret, 0);
	return MIN(ret, 0);
}

#define PUSH_TELL_NS (5 * SIDES_SECOND)
#define PUSH_STEPS   3u /* copying as a whole may take that many times --guest-timeout */

/* Why a side did not begin. */
static int not_begun(struct sides *x, struct side *s)
{
	int status = WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 0;

	if (!s->spec) {
		*x->err = s->err;
		return s->ret ?: err_set(x->err, EIO, "the host's recording ended too soon");
	}
	s->untold = false;
	if (!s->transport && status == 127)
		return err_lack(x->err, ENOENT,
				"%s: there is no kvmft, or no such command (%s): --push brings a "
				"static one",
				s->name, s->last);
	if (s->late)
		return err_set(x->err, ETIMEDOUT,
			       "%s: does not record: %s, and then nothing came from there%s%s; "
			       "--guest-timeout allows more time",
			       s->name,
			       s->spec->agent ? "its agent was asked to run kvmft"
					      : "its command was started",
			       s->last[0] ? "; last was said: " : "", s->last);
	err_set(x->err, EIO, "%s: does not record: %s", s->name,
		s->last[0] ? s->last : s->err.text);
	/* If its command passes the exit status on. */
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
			struct side *s = &x->side[i];

			all &= s->live || s->state == SIDE_ENDED;
			if (s->state != SIDE_ENDED || s->failed)
				continue;
			/* Its last words, and its exit status, may still be on their way. */
			if (s->words >= 0 || s->transport > 0) {
				all = false;
				continue;
			}
			ret = not_begun(x, s);
			if (!s->spec || x->c->temp)
				continue;
			/* What the host recorded meanwhile is kept, but for trace --guest. */
			x->note("%s", x->err->text);
			*x->err = (struct kvmft_err){ .text = "" };
			s->failed = true;
			s->exit_code = KVMFT_INCOMPLETE;
			ret = 0;
		}
		if (all || ret)
			break;
		ret = sides_wait_once(x);
	}
	if (!ret && x->why)
		ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
	return ret;
}

/* The file session says which captures belong together. It grows by whole lines, as meta does. */
int sides_put(struct sides *x, struct sbuf *line)
{
	int ret;

	sbuf_addc(line, '\n');
	ret = line->error ?: full_write(x->file, line->s, line->len, NULL);
	sbuf_free(line);
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
	if (guests_left(x) || !x->nspec)
		return NULL;
	if (x->c->command)
		return "command";
	if (!x->told_alone && !x->argv[0] && !x->host->duration.set) {
		x->told_alone = true;
		x->note("no guest is left; the host is still being recorded, Ctrl-C ends it");
	}
	return NULL;
}

static int record_together(struct sides *x)
{
	struct sbuf line = { 0 };
	int ret;

	x->all_live = true;
	x->live_ns = util_now_ns();
	meta_begin(&line, "start");
	meta_u64(&line, "sides", x->n);
	if (sides_put(x, &line))
		x->note("cannot write %ssession", x->shown);
	if (x->nspec && !guests_left(x)) {
		x->why = "no guest";
		return 0;
	}
	for (size_t i = x->n; i-- > 0;)
		side_order(&x->side[i], "start\n");
	ret = x->c->reader ? side_self(x->c->reader, x->dir, x->err) : 0;
	x->reader = MAX(ret, 0);
	ret = MIN(ret, 0);
	while (!ret && !x->why && !(x->why = why_now(x)))
		ret = sides_wait_once(x);
	return ret;
}

static void side_stop(struct side *s)
{
	if (s->state == SIDE_ENDED)
		return;
	if (side_order(s, "stop\n"))
		util_close_fd(&s->to); /* the end of its orders says the same */
	s->state = s->teller ? SIDE_STOPPING : SIDE_ENDED;
	s->stalled = false;
	s->begun = s->since = util_now_ns();
}

/* The exit status of what reaches into a guest still says how the recorder there ended. */
static bool commands_left(const struct sides *x)
{
	for (size_t i = 1; i < x->n; i++)
		if (x->side[i].transport > 0)
			return true;
	return false;
}

static int sides_end_all(struct sides *x)
{
	int ret = 0;

	for (size_t i = 1; i < x->n; i++)
		side_stop(&x->side[i]);
	while (!ret && (guests_left(x) || commands_left(x)))
		ret = sides_wait_once(x);
	side_stop(&x->side[0]);
	while (!ret && (x->side[0].state != SIDE_ENDED || x->snapshots.pid))
		ret = sides_wait_once(x);
	/* The reader ends where the host's capture does; a recorder that failed wrote no end. */
	if (x->reader > 0 && x->side[0].ret)
		x->reader_killed = !kill(x->reader, SIGKILL);
	while (!ret && x->reader > 0)
		ret = sides_wait_once(x);
	return ret;
}

/* ---- results ---- */

static int sides_result(struct sides *x)
{
	_cleanup_(sbuf_free) struct sbuf path = { 0 }, word = { 0 };
	const struct side *host = &x->side[0];
	int worst = KVMFT_OK;
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		struct side *s = &x->side[i];
		struct sbuf line = { 0 };

		n += !s->failed;
		/* How the recorder in the guest ended counts, if its command passes that on. */
		if (s->spec && !s->exit_code && WIFEXITED(s->status) &&
		    WEXITSTATUS(s->status) == KVMFT_INCOMPLETE)
			s->exit_code = KVMFT_INCOMPLETE;
		worst = MAX(worst, s->exit_code == KVMFT_FAILED ? KVMFT_INCOMPLETE : s->exit_code);
		if (x->file < 0)
			continue;
		meta_begin(&line, "end");
		meta_str(&line, "side", s->name);
		meta_str(&line, "reason",
			 s->news.reason[0] ? s->news.reason
			 : s->spec	   ? "died"
					   : "control");
		meta_u64(&line, "status", (uint64_t)s->exit_code);
		if (sides_put(x, &line))
			x->note("cannot write %ssession", x->shown);
	}
	if (x->c->reader && WIFEXITED(x->reader_status))
		worst = MAX(worst, WEXITSTATUS(x->reader_status));
	if (x->c->reader && WIFSIGNALED(x->reader_status)) {
		if (!x->reader_killed)
			x->note("the process that shows the events was killed by signal %d",
				WTERMSIG(x->reader_status));
		worst = MAX(worst, KVMFT_INCOMPLETE);
	}
	if (x->blame_killed)
		worst = MAX(worst, KVMFT_INCOMPLETE);
	if (host->ret) {
		*x->err = host->err;
		return host->ret;
	}
	sbuf_add_mem(&path, x->shown, MAX(strlen(x->shown), (size_t)1) - 1);
	sbuf_add_word(&word, path.s ?: "");
	if (x->snapshots.words.n && !x->snapshots.ever)
		x->note("--blame: no trigger came, and no snapshot was asked for; for the last "
			"second: kvmft blame --last 1s %s",
			word.s ?: "");
	if (!x->host->quiet)
		x->note("%s: %zu side%s (%s): kvmft merge %s", path.s ?: "", n, n > 1 ? "s" : "",
			x->why ?: "error", word.s ?: "");
	return worst;
}

/* All at once: each has its own line. */
static int push_all(struct sides *x)
{
	const uint64_t limit = x->c->timeout.set ? x->c->timeout.v : SIDE_BEGIN_NS;
	const uint64_t begin = util_now_ns();
	bool told = false;
	int ret = 0;

	for (size_t i = 1; i < x->n && !ret; i++)
		ret = side_push_start(x->c, &x->side[i], x->err);
	for (size_t i = 1; i < x->n && !ret;) {
		struct side *s = &x->side[i];
		char time[32];
		uint64_t took;
		struct pollfd p[] = { { .fd = s->push.from, .events = POLLIN },
				      { .fd = x->sigfd, .events = POLLIN } };

		if (poll(p, 2, 1000) < 0)
			continue;
		if (p[1].revents)
			sides_take_signals(x);
		if (x->why)
			ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
		else if (p[0].revents)
			ret = side_push_take(s, x->err);
		took = util_now_ns() - begin;
		if (ret || x->why || p[0].revents) {
			i += p[0].revents != 0;
			continue;
		}
		/* It may be silent, or answer without end: then what copies is told to give up. */
		if (took > PUSH_TELL_NS && !told && !x->host->quiet) {
			x->note("%s: a program is being copied there; Ctrl-C gives that up", s->name);
			told = true;
		}
		if (limit && took / PUSH_STEPS >= limit)
			ret = err_set(x->err, ETIMEDOUT, "%s: no program could be copied there within %s; "
				      "--guest-timeout allows more time", s->name,
				      str_ns(time, sizeof(time), took));
	}
	return ret;
}

static int sides_begin(struct sides *x)
{
	int ret;

	(void)signal(SIGPIPE, SIG_IGN);
	/* From here on signals come through a descriptor. */
	x->sigfd = signal_fd_open(SIGCHLD);
	if (x->sigfd < 0)
		return err_why(x->err, x->sigfd, "cannot wait for signals");
	x->side = calloc(1 + x->nspec, sizeof(*x->side));
	if (!x->side)
		return err_set(x->err, ENOMEM, "out of memory");
	x->n = 1 + x->nspec;
	for (size_t i = 0; i < x->n; i++) {
		x->side[i].spec = i ? &x->spec[i - 1] : NULL;
		x->side[i].name = i ? x->spec[i - 1].name : SIDES_HOST;
		x->side[i].to = x->side[i].from = x->side[i].words = -1;
		x->side[i].push.to = x->side[i].push.from = -1;
	}
	ret = x->c->push ? push_all(x) : 0;
	ret = ret ?: sides_make_dir(x);
	ret = ret ?: sides_start_host(x);
	ret = ret ?: wait_live(x, 1);
	for (size_t i = 1; i < x->n && !ret; i++)
		ret = sides_start_guest(x, &x->side[i]);
	return ret ?: wait_live(x, x->n);
}

static void sides_undo(struct sides *x)
{
	if (x->reader > 0) {
		kill(x->reader, SIGKILL);
		while (waitpid(x->reader, &x->reader_status, 0) < 0 && errno == EINTR)
			;
	}
	for (size_t i = 0; i < x->n; i++)
		util_close_fd(&x->side[i].push.to); /* all give up at once */
	for (size_t i = x->n; i-- > 0;) {
		struct side *s = &x->side[i];

		side_close(s);
		side_push_end(s, false, x->note);
		capw_name_drop(&s->place);
		capw_close(s->w);
	}
	if (x->snapshots.pid && !kill(x->snapshots.pid, SIGKILL))
		(void)waitpid(x->snapshots.pid, NULL, 0);
	remote_words_free(&x->snapshots.words);
	util_close_fd(&x->file);
	vm_list_free(x->vms);
	for (size_t i = 0; x->spec && i < x->nspec; i++) {
		free(x->spec[i].name);
		free(x->spec[i].text);
		remote_words_free(&x->spec[i].command);
	}
	free(x->spec);
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
		.c = c, .host = host, .argv = argv, .note = note, .err = err, .parent = -1,
		.dir = -1, .file = -1, .sigfd = -1,
	};
	_cleanup_(sbuf_free) struct sbuf left = { 0 };
	unsigned int swept;
	char temp[128];
	int ret;

	if (record_in_dir(host) || host->force)
		return err_usage(err,
				 "%s does not go with --guest: a session is a new directory, "
				 "named by -o",
				 host->force ? "--force" : "the / at its end");
	ret = side_specs(c, &x.spec, &x.nspec, err);
	if (!ret && c->on_over && (!c->after_snapshot || !strstr(c->after_snapshot, "--budget")))
		ret = err_usage(err, "--on-over goes with a --budget in --blame=OPTIONS");
	if (!ret && c->after_snapshot)
		ret = side_split(c->after_snapshot, "--blame", &x.snapshots.words, err);
	if (ret) {
		sides_undo(&x);
		return ret;
	}
	x.umask = umask(077);
	swept = sides_temp_sweep(false, &left);
	if (swept)
		note("removed %u session(s) in memory that a killed kvmft had left", swept);
	if (c->temp)
		ret = sides_temp_name(temp, sizeof(temp), err);
	host->output = c->temp ? temp : host->output;
	ret = ret ?: sides_begin(&x);
	if (ret) {
		struct kvmft_err first = *err;

		if (x.n)
			(void)!sides_end_all(&x);
		sides_remove_dir(&x);
		*err = first;
	} else {
		ret = record_together(&x);
		ret = ret ?: sides_end_all(&x);
		ret = ret ?: sides_result(&x);
		if (c->temp)
			sides_remove_dir(&x);
	}
	sides_undo(&x);
	return ret;
}
