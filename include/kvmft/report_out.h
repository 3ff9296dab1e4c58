/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_out.h: the tables of a report as text, JSON or CSV.
 */
#ifndef KVMFT_REPORT_OUT_H
#define KVMFT_REPORT_OUT_H

#include "kvmft/report.h"

/* A table that is to be printed: whose it is. */
struct report_section {
	bool all;		     /* nobody asked for a VM */
	const struct hostmap_vm *vm; /* the one it is of; NULL: several, or not known */
	struct report_filter of;     /* what it is made of */
};

/* All that is printed; everything is borrowed. */
struct report_doc {
	struct report *r; /* walked again where tables need it, else not changed */
	const struct capture *cap; /* what it is of */
	const struct report_opts *opts;
	const char *pids; /* as the user gave them; NULL: all */
	/* The next table, in the order in which they are made and printed; false: there is none. */
	bool (*next)(void *arg, struct report_section *s);
	enum report_key key; /* by which each table is sorted */
	size_t top;	  /* rows of each table; 0 = all */
	uint64_t lost;	  /* events that the capture lacks, from gaps and counters */
	bool lost_unknown; /* ... at least */
	/* Takes what out holds away, so that it does not grow with the report. */
	void (*flush)(void *arg, struct sbuf *out);
	void *arg;
	const char *const *remark; /* what the command has to say beside report_note() */
	size_t nremark;
};

struct report_format {
	const char *name;
	bool has_notes; /* whether it has a place for the notes; else the command tells them */
	void (*print)(const struct report_doc *d, struct sbuf *out);
};

/*
 * NULL: there is no such format. Errors of print() are those of the sbuf, and -ENOMEM there for a
 * table's.
 */
const struct report_format *report_format_find(const char *name);

#endif
