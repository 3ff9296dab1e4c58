/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sink.h: where results go, and in which clock a time line is: what commands that print share. */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/results.h"
#include "kvmft/output.h"
#include "kvmft/pager.h"
#include "kvmft/pairing.h"
#include "kvmft/proof.h"

#define DEFAULT_INPUT "kvmft.data"

/* -o and --force, and what a terminal shows: first in the options of commands that have them. */
struct sink_file {
	const char *path; /* NULL = standard output */
	bool force;
	struct page_opts page_opts;
	struct outfile *out;
	struct page page;
};

/* As struct cmd's output and release, for commands with one file. */
int sink_file_open(void *opts, int argc, struct kvmft_err *err) __must_check;
int sink_file_close(void *opts);

struct sink {
	struct out out;
	struct when when;
	FILE *f;
	struct outfile *file; /* borrowed; NULL = to be read at once */
};

/*
 * Whether the format can be written in that clock, and to path (NULL = standard output). A format
 * that only has ns shows cycles as such if the TSC frequency is unknown.
 */
int sink_check(const struct out_format *fmt, struct out_clock *c, const char *path,
	       struct kvmft_err *err) __must_check;
/* What a time line of that format (NULL: text) and clock shows if the TSC frequency is unknown. */
const char *sink_cycles(const char *format, int kind);
/*
 * Into file, NULL = to f. The caller gives it its name if all went well: see outfile_check() and
 * outfile_commit().
 */
int sink_open(struct sink *s, struct outfile *file, FILE *f, struct kvmft_err *err) __must_check;
/* Of all guests, for formats that have a place for it: after win_finish(). */
void sink_put_alignment(struct sink *s, const struct pairing *p, const struct windows *w);
/*
 * Ends the output that out_begin() began (begun) and closes the file; ret is how the walk ended.
 * -EPIPE is passed on without a message: `| head` has seen enough.
 */
int sink_close(struct sink *s, bool begun, int ret, struct kvmft_err *err) __must_check;
/* After sink_close(): whether all events had a place in the output; if not, that is reported. */
bool sink_whole(const struct sink *s);
/* The exit code of a command whose output ended so, or -errno: `| head` has seen enough. */
int sink_exit(int ret, bool complete);

/* What has to be said about a result, in its place for that or by cli_note(). */
struct sink_remarks {
	char *v[16]; /* more are left out */
	size_t n;
};

void sink_remark(struct sink_remarks *r, const char *fmt, ...) __printf(2, 3);
void sink_remarks_tell(const struct sink_remarks *r);
void sink_remarks_free(struct sink_remarks *r);

/* Writes the result to f, if making it went well. 0 or -errno with err. */
int sink_print(const struct sbuf *b, FILE *f, struct kvmft_err *err) __must_check;
/* Is there a capture at the default place? 0 or -ENOENT. */
int sink_input_check(const char *path, struct kvmft_err *err) __must_check;
/* Notes how far off a guest's clock may be; quiet: only if it is wrong. */
void sink_tell_alignment(const struct pairing *p, const struct windows *w, size_t vm,
			 const char *name, bool quiet);

/* After a walk: what was assumed, read, lost, and of each guest; w: NULL. Then pairing_placed(). */
int sink_tell(const struct pairing *p, const struct windows *w, bool quiet, bool *complete,
	      struct kvmft_err *err) __must_check;

/* What analyses are limited to: -1 = not. --vcpu: a number; --vm: SEL; --than: a time. */
int only_vcpu(const struct opt_u64 *given, int64_t *vcpu, struct kvmft_err *err) __must_check;
/* What SPANS_OPTIONS() took: both events, or none. -EINVAL with err. */
int spans_check(const struct spans_opts *o, struct kvmft_err *err) __must_check;
/* --top: not 0. */
int top_check(const struct opt_u64 *top, struct kvmft_err *err) __must_check;
int only_vm(const struct pairing *p, const char *sel, int64_t *vm,
	    struct kvmft_err *err) __must_check;
int than_check(const struct opt_u64 *given, const struct pairing *p,
	       struct kvmft_err *err) __must_check;
