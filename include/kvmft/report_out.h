/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report_out.h: the tables of a report as text, JSON or CSV. */
#ifndef KVMFT_REPORT_OUT_H
#define KVMFT_REPORT_OUT_H

#include <stdio.h>

#include "kvmft/by_stack.h"

/* Which tables there are: one of all together, also one per VM, also one per vCPU. */
enum report_per { REPORT_PER_ALL, REPORT_PER_VM, REPORT_PER_VCPU };

/* All that is printed; everything is borrowed. */
struct report_doc {
	struct report *r;	     /* not changed */
	const struct capture *cap;   /* what it is of */
	const struct report_opts *opts;
	const char *pids;	     /* as the user gave them; NULL: all */
	struct report_filter filter; /* what was requested */
	enum report_per per;
	enum report_key key;	     /* by which each table is sorted */
	size_t top;		     /* rows of each table; 0 = all */
	uint64_t lost;		     /* events missing from the capture, by gaps and counters */
	bool lost_unknown;	     /* ... at least */
	FILE *f;
	bool color;	    /* text may have colours */
	unsigned int width; /* of a terminal; 0 = rows are not cut */
	const char *const *remark;   /* what the command has to say in addition to report_note() */
	size_t nremark;
};

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_OPENMETRICS };
/* Whether it has a place for the notes; otherwise the command prints them. */
static inline bool report_has_notes(enum report_format f)
{
	return f <= REPORT_JSON;
}
/* Prints it into d->f. 0, -ENOMEM, or -errno of a write: then d->f has its error set. */
int report_print(const struct report_doc *d, enum report_format format) __must_check;
/*
 * Prints rows by stack, at most top (0: all), in one of cli_formats: "text", "json" or "csv"; there
 * must be a stack. 0 or -errno.
 */
int by_stack_print(struct by_stack *b, const struct capture *cap, size_t top, const char *format,
		   FILE *f) __must_check;
/* Was anything counted of what f asks for? */
bool report_has_samples(const struct report *r, const struct report_filter *f);

#endif
