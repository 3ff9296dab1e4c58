/* SPDX-License-Identifier: GPL-2.0-or-later */
/* many_print.h: the results of many captures, and their sum. */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/many.h"
#include "kvmft/report.h"

struct many_doc {
	const char *format; /* one of cli_formats */
	FILE *f;
	const char *title;   /* heading of the first column of the sum */
	const char *what;    /* ... and of the next: what is counted, "Samples" */
	const char *times;   /* what the sum of all times is called */
	const char *of;	     /* what is counted, in JSON: "samples" */
	enum report_key key; /* by which the sum is sorted */
	uint64_t top;	     /* rows of the sum in text; 0: all */
};

/*
 * All results, and their sum: text; JSON lines, an object for each capture; or CSV with a first
 * column for the capture. An exit code, or -errno with err: none gave a result.
 */
int many_print(struct many *m, const struct many_doc *d, struct kvmft_err *err) __must_check;
