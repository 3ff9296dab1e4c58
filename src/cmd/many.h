/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * many.h: a command for many captures: those of a tree of directories, each looked at by one of as
 * many processes as there are CPUs, and the results in the order of the captures.
 *
 * The processes are forked before the command gives up what a reader does not need, and do the same
 * themselves before they see a byte of a capture. What they pass on is bounded, and belongs to one
 * capture: memory stays flat.
 */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/report.h"

/*
 * The captures that a path stands for: itself, if it is one or not a directory; else all hosts'
 * captures below it, sorted by name; sessions: or whole sessions. Links are not followed. *list
 * gets texts that live as long as the operands.
 */
int many_list(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err) __must_check;

/* Whether a path is a directory, and not a capture: a session, or a tree of them. */
bool many_is_tree(const char *path);

/* What a row of all captures together is made of. Each sum is exact, or the largest number. */
struct many_row {
	char name[64];
	uint64_t n, timed, min, max;
	unsigned __int128 total;
};

/*
 * In a process of its own: writes the result for input to out, and rows for the sum. An exit code,
 * or -errno with err.
 */
typedef int many_fn(void *ctx, const char *input, FILE *out, struct sbuf *rows,
		    struct kvmft_err *err);

struct many;

/*
 * Before the sandbox. Whatever list contains twice, by any path, is removed from it and reported.
 * The list and ctx are borrowed; many_end() in any case.
 */
int many_begin(struct str_list *list, many_fn *fn, void *ctx, struct many **out,
	       struct kvmft_err *err) __must_check;
void many_end(struct many *m); /* NULL is fine */
const struct str_list *many_inputs(const struct many *m); /* those that are looked at */

#define MANY_WHY sizeof(((struct kvmft_err *)NULL)->text)

struct many_result {
	int code; /* an exit code, or -errno */
	char why[MANY_WHY];
	struct sbuf text, rows, notes; /* output, rows for the sum, messages */
};

/*
 * The result for input i; to be called for each, in their order. r is empty, or an earlier result.
 * A process that was killed costs the result that it owes: code is -EIO. 0 or -errno.
 */
int many_result(struct many *m, size_t i, struct many_result *r) __must_check;
void many_result_free(struct many_result *r);

struct many_doc {
	const char *format; /* one of cli_formats */
	FILE *f;
	const char *title;  /* heading of the first column of the sum */
	const char *what;   /* ... and of the next: what is counted, "Samples" */
	const char *times;  /* what the sum of all times is called */
	const char *of;	    /* what is counted, in JSON: "samples" */
	enum report_key key; /* by which the sum is sorted */
	uint64_t top;	    /* rows of the sum in text; 0: all */
};

/*
 * All results, and their sum: text; JSON lines, an object for each capture; or CSV with a first
 * column for the capture. An exit code, or -errno with err: none gave a result.
 */
int many_print(struct many *m, const struct many_doc *d, struct kvmft_err *err) __must_check;
