/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * many.h: many captures, each looked at by one of as many processes as there are CPUs, and the
 * results in the order of the captures.
 *
 * The processes are forked before the command gives up what a reader does not need, and do the same
 * themselves before they see a byte of a capture. What they pass on is bounded, and belongs to one
 * capture: memory stays flat.
 */
#pragma once

#include "kvmft/util.h"

/* What a row of all captures together is made of. Each sum is exact, or the largest number. */
struct many_row {
	char name[64];
	uint64_t n, timed, min, max;
	unsigned __int128 total;
};

/* In a process of its own: input's result to out, rows for the sum. An exit code, or -errno. */
typedef int many_fn(void *ctx, const char *input, FILE *out, struct sbuf *rows,
		    struct kvmft_err *err);

struct many;

/* Before the sandbox. Inputs given twice are removed and reported. Borrowed; many_end() always. */
int many_begin(struct str_list *list, many_fn *fn, void *ctx, note_fn *note, struct many **out,
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
