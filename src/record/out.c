/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * out.c: a recording that goes to standard output, as a stream.
 *
 * There is no directory then: no name to take, no disk to fill, nothing to read again. A reader
 * that is slow or gone only makes the rings overflow. At the end what they hold is still sent, with
 * a message about what is being waited for.
 */
#include "record.h"

#include <signal.h>
#include <sys/signalfd.h>

#define PATIENCE_NS 1000000000ull

bool record_to_stream(const struct record_config *c)
{
	return c->output && !strcmp(c->output, "-");
}

static const char *refused(const struct record_config *c)
{
	return c->output_dir	? "--output-dir"
	       : c->min_free.set ? "--min-free"
	       : c->keep.set	? "--keep"
	       : c->sync	? "--sync"
				: NULL;
}

int record_stream_check(const struct record_config *c, struct kvmft_err *err)
{
	const char *what = refused(c);

	if (!record_to_stream(c))
		return 0;
	if (what)
		return err_usage(err,
				 "%s needs a directory, which -o - does not have: use kvmft receive, if "
				 "it has this option",
				 what);
	if (c->stacks.n)
		return err_usage(err,
				 "--stacks reads the data again at the end, which is not possible with "
				 "-o -: record into a directory");
	if (isatty(STDOUT_FILENO))
		return err_usage(err, "-o - writes a stream of bytes, and standard output is a terminal: "
				      "kvmft record -o - ... | kvmft receive -o DIR");
	return 0;
}

/* From any thread, one at a time. While it records, waiting costs events, which are counted. */
static bool patient(void *ctx, uint64_t queued __unused_arg)
{
	struct record *r = ctx;
	struct signalfd_siginfo si;
	uint64_t now = util_now_ns();

	if (!atomic_load(&r->out.ending))
		return true;
	r->out.since = r->out.since ?: now;
	if (!r->out.told && now - r->out.since > PATIENCE_NS && !r->c->quiet) {
		r->out.told = true;
		r->note("waiting for the reader of standard output, to send what is left; Ctrl-C "
			"again gives that up");
	}
	while (read(r->out.signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (!r->c->control.on || si.ssi_signo == SIGTERM)
			return false;
	return true;
}

int record_stream_create(struct record *r)
{
	int ret = stream_out_new(STDOUT_FILENO, &r->out.stream);

	if (!ret)
		ret = r->out.signals =
			signal_fd_open((const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0 });
	ret = MIN(ret, 0);
	if (!ret)
		stream_out_patience(r->out.stream, patient, r);
	ret = ret ?: capw_create_stream(r->out.stream, &r->w);
	return err_why(r->err, ret, "cannot write to standard output");
}

int record_stream_start(struct record *r)
{
	int ret = r->out.stream ? stream_out_start(r->out.stream) : 0;

	return err_why(r->err, ret, "cannot start a thread");
}

void record_stream_ending(struct record *r)
{
	atomic_store(&r->out.ending, true);
}

/* If nothing comes for long, a reader cannot tell a quiet machine from a dead one. */
int record_stream_tick(struct record *r)
{
	const struct stream_head h = { .type = STREAM_ALIVE };
	uint64_t bytes = r->out.stream ? stream_out_bytes(r->out.stream) : 0;
	bool quiet = r->out.stream && bytes == r->out.bytes;

	r->out.bytes = bytes;
	return quiet ? record_stream_error(r, stream_out_put(r->out.stream, &h, NULL, 0)) : 0;
}

int record_stream_error(struct record *r, int ret)
{
	if (!ret || !r->out.stream)
		return ret;
	if (ret == -ECANCELED)
		return err_set(r->err, ECANCELED,
			       "given up: not all was sent; what was sent can be read at the receiver");
	if (ret == -EPIPE)
		return err_set(r->err, EPIPE, "the reader of standard output went away; what it got "
					      "can be read");
	return err_why(r->err, ret, "cannot write to standard output");
}

int record_stream_end(struct record *r)
{
	return r->out.stream ? record_stream_error(r, stream_out_end(r->out.stream)) : 0;
}

void record_stream_free(struct record *r)
{
	stream_out_free(r->out.stream);
	r->out.stream = NULL;
	util_close_fd(&r->out.signals);
}
