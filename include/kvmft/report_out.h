/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_out.h: the tables of a report as text, JSON or CSV.
 */
#ifndef KVMFT_REPORT_OUT_H
#define KVMFT_REPORT_OUT_H

#include "kvmft/report.h"

/* One table and whose it is. */
struct report_section {
	bool all;		     /* nobody asked for a VM */
	const struct hostmap_vm *vm; /* the one it is of; NULL: several, or not known */
	bool unknown_vm;	     /* of threads whose VM is not known */
	int64_t vcpu;		     /* -1: all */
	int32_t tid;		     /* of that vCPU; 0: several or not asked for */
	struct report_table t;
};

/* All that is printed; everything is borrowed. */
struct report_doc {
	const struct report *r;
	const struct report_opts *opts;
	const char *pids; /* as the user gave them; NULL: all */
	const struct report_section *section;
	size_t n;
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

/* NULL: there is no such format. Errors of print() are those of the sbuf. */
const struct report_format *report_format_find(const char *name);

#endif
