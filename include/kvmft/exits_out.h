/* SPDX-License-Identifier: GPL-2.0-or-later */
/* exits_out.h: a table of exits as text, JSON, CSV and OpenMetrics. */
#pragma once

#include "kvmft/exit_names.h"
#include "kvmft/exits.h"

enum exits_columns {
	EXITS_COL_REASON,  /* KVM_EXIT_REASON COUNT */
	EXITS_COL_TID,	   /* TID in front */
	EXITS_COL_PID_TID, /* PID TID in front */
};

/* What a table is made of; all borrowed. */
struct exits_page {
	const struct exits_view *view;
	const struct exit_names *names;
	enum exit_isa isa;
	enum exits_columns columns;
	const char *tid_header;	 /* "TID" or "TIDS" */
	uint64_t realtime_ns;	 /* of the table's end, since 1970 */
	uint64_t elapsed_ns;	 /* that it covers */
	uint64_t lost;		 /* exits that could not be counted, since counting began */
	bool lost_unknown;	 /* there may be more */
	const char *engine;	 /* "kernel" or "user" */
	const char *target;	 /* "all VMs", "PID 1273795 VCPU 0" */
	bool first;		 /* the first table of a stream of tables */
	size_t max_rows;	 /* text: no more than these; 0 = all */
	unsigned int width;	 /* of the terminal; 0 = none */
};

/* Called from time to time with the text so far, which it may empty. 0 or -errno. */
typedef int (*exits_flush)(void *ctx, struct sbuf *b);

enum exits_format { EXITS_TEXT, EXITS_JSON, EXITS_CSV, EXITS_OPENMETRICS, EXITS_PROMETHEUS };
extern const char *const exits_format_names[]; /* by enum, NULL-terminated */

/*
 * Appends the table to b. OpenMetrics needs a view since counting began (whole), because its
 * counters never go back. 0, -ENOMEM or what flush returned.
 */
int exits_print(enum exits_format f, const struct exits_page *p, struct sbuf *b,
		exits_flush flush, void *ctx) __must_check;
