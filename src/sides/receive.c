/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * receive.c: a stream from somebody else, into a capture.
 *
 * This process gives the capture its name, and takes signals; it never looks at a byte of the
 * stream.
 */
#include "sides.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

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

static int make_place(struct receive *r)
{
	_cleanup_free_ char *base = NULL;
	struct side *s = &r->side;
	int ret;

	r->shown = capw_parent_shown(r->c->output);
	if (!r->shown)
		return err_set(r->err, ENOMEM, "out of memory");
	r->dir = capw_parent_open(r->c->output, &base, r->err);
	if (r->dir < 0)
		return r->dir;
	ret = capw_name_init(&s->place, r->dir, r->shown, base,
			     r->c->force ? CAPW_REPLACE : CAPW_REFUSE, r->err);
	ret = ret ?: capw_create(&s->place, &s->w, r->err);
	r->store = (struct side_store){
		.w = s->w, .in = r->c->in,
		.limits = { r->c->max_size.v, side_least_free(r->dir, &r->c->min_free),
			    r->c->keep.v },
	};
	return ret;
}

static void run_store(void *arg, int said)
{
	struct receive *r = arg;

	util_close_fd(&r->sigfd);
	side_store_main(&r->store, said);
}

static int open_signals(struct receive *r)
{
	r->sigfd = signal_fd_open((const int[]){ SIGINT, SIGTERM, SIGHUP, 0 });
	return r->sigfd < 0 ? err_why(r->err, r->sigfd, "cannot wait for signals") : 0;
}

/* A Ctrl-C also reaches the sender, which still has something to say. */
static void take_signals(struct receive *r)
{
	struct signalfd_siginfo si;

	while (read(r->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo != SIGINT || r->told) {
			kill(r->side.teller, r->side.killed ? SIGKILL : SIGTERM);
			r->side.killed = true;
		} else if (!r->c->quiet) {
			r->note("waiting for the sender to end; Ctrl-C again gives that up");
		}
		r->told = true;
	}
}

static int take_said(struct receive *r)
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

/* It says something each second. */
static void tell_silence(struct receive *r)
{
	if (!r->side.stalled)
		r->note("process %d, which stores the stream, does not answer: is it stopped?",
			r->side.teller);
	r->side.stalled = true;
}

static int wait_end(struct receive *r)
{
	int ret = 0, n;

	while (!r->ended) {
		struct pollfd p[] = { { .fd = r->sigfd, .events = POLLIN },
				      { .fd = r->side.from, .events = POLLIN } };

		n = poll(p, 2, SILENT_MS);
		if (n < 0 && errno != EINTR)
			return err_why(r->err, errno, "cannot wait");
		if (!n)
			tell_silence(r);
		if (p[0].revents)
			take_signals(r);
		if (p[1].revents)
			ret = take_said(r);
		if (ret && !r->ended)
			return ret;
	}
	return ret;
}

static int result(struct receive *r, int ret)
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
		.side = { .to = -1, .from = -1, .words = -1 },
	};
	mode_t old = umask(077);
	int ret = open_signals(&r);

	ret = ret ?: make_place(&r);
	ret = ret ?: side_fork(&r.side, run_store, &r, err);
	ret = ret ?: wait_end(&r);
	ret = result(&r, ret);
	side_close(&r.side); /* it writes there until then */
	capw_name_drop(&r.side.place);
	capw_close(r.side.w);
	util_close_fd(&r.dir);
	util_close_fd(&r.sigfd);
	free(r.shown);
	(void)umask(old);
	return ret;
}
