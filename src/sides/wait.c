/* SPDX-License-Identifier: GPL-2.0-or-later */
/* wait.c: what sides say, signals, and who is not waited for any longer. */
#include "sides.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define STALL_NS     (10 * SIDES_SECOND) /* without a byte, of a guest that was told to end */
#define MOVED_NS     (2 * SIDES_SECOND)	 /* by then, what a guest sent before its VM went is here */
#define TIMES_MAX    10u    /* --guest-timeout, of one that goes on sending without begin or end */
#define LINES_MAX    10000u /* that a guest says, and are printed */
#define LEAVE_NS     (5 * SIDES_SECOND) /* ... of our own process, when that one is gone */
#define FIRED_SILENT (600 * SIDES_SECOND)
#define OWES_NS	     (5 * SIDES_SECOND) /* a side whose ring was empty says nothing */

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

/* Runs the command once all rings have come, or enough time has passed. */
static int snapshots_tick(struct sides *x)
{
	struct snapshots *n = &x->snapshots;
	bool all = true;
	int pid;

	if (!n->asked_ns || n->pid)
		return 0;
	for (size_t i = 0; i < x->n; i++)
		all &= !x->side[i].owes || x->side[i].state == SIDE_ENDED;
	if (!all && util_now_ns() - n->asked_ns < OWES_NS)
		return 0;
	n->asked_ns = 0;
	pid = side_self(&n->words, x->dir, x->err);
	n->pid = MAX(pid, 0);
	return MIN(pid, 0);
}

/*
 * The others may know the cause of what one side saw: their rings still hold it. But a guest can
 * say that without end, and each time may cost the others their oldest segments: after the first
 * time it has to wait for a second, then for 2, 4, 8, until it was silent for long.
 */
static void fired(struct sides *x, struct side *s)
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
		fired(x, s);
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
	case SAID_FIRED: fired(x, s); break;
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

/* ---- signals ---- */

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

void sides_take_signals(struct sides *x)
{
	struct signalfd_siginfo si;

	while (read(x->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (x->snapshots.pid &&
			    waitpid(x->snapshots.pid, NULL, WNOHANG) == x->snapshots.pid)
				x->snapshots.pid = 0;
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
		} else {
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

/* It was told to end: what its ring still holds may take a while, but not for ever. */
static void wait_for_end(struct sides *x, struct side *s, uint64_t now)
{
	uint64_t limit = x->c->timeout.set ? x->c->timeout.v : SIDE_BEGIN_NS;
	uint64_t took = now - s->begun;
	const char *why = now - s->since > STALL_NS ? "has sent nothing for 10 s"
			  : limit && took / TIMES_MAX >= limit
				  ? "goes on sending (--guest-timeout allows more time)"
				  : NULL;
	char bytes[32];

	if (why) {
		x->note("%s: was told to end and %s: it is given up", s->name, why);
		give_up(s);
	} else if (took >= SIDES_SECOND && took / SIDES_SECOND % 10 == 0) {
		x->note("waiting for %s to end: it goes on sending, %s so far; Ctrl-C gives it up",
			s->name, str_bytes(bytes, sizeof(bytes), s->news.bytes));
	}
}

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
	/*
	 * Its side has ended; or it did not end when it should have; or something that its command
	 * left behind holds the pipe.
	 */
	if ((s->state == SIDE_ENDED || s->killed || !s->transport) && since > LEAVE_NS) {
		give_up(s);
	} else if (s->state == SIDE_STOPPING && !s->killed) {
		wait_for_end(x, s, now);
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

static void tick(struct sides *x, uint64_t now)
{
	uint64_t took = now - x->side[0].since;
	pid_t pid = x->snapshots.pid ?: x->reader;

	if (now - x->tick_ns < SIDES_SECOND)
		return;
	x->tick_ns = now;
	for (size_t i = 0; i < x->n; i++)
		if (x->side[i].fired_again)
			fired(x, &x->side[i]);
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

int sides_wait_once(struct sides *x)
{
	struct pollfd p[2 * (1 + SIDES_MAX_GUESTS) + 1];
	uint64_t left = SIDES_SECOND, gone = util_now_ns() - x->live_ns;
	nfds_t n = 0;
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
	tick(x, util_now_ns());
	return ret ?: snapshots_tick(x);
}
