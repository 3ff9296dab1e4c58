/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report.h: what `kvmft report` has in files of its own. */
#pragma once

#include "sink.h"

struct process_opts {
	const char *input, *vm, *format;
	const struct opt_u64 *khz;
	const struct page *page;
	size_t top;
	int waits;  /* enum lat_waits_by + 1; 0: not these */
	bool tasks; /* of guests' own recordings, which else only tell names */
};

/* Whether the captures can tell what guests ran; and what must be known of all before the walk. */
int process_check(const struct pairing *p, const struct processes *s, bool tasks,
		  struct kvmft_err *err);
int process_learn(struct pairing *p, struct processes *s, struct kvmft_err *err);

/* An exit code, or -errno with err. */
int report_waits(const struct process_opts *o, char **guest, size_t nguest, struct kvmft_err *err);
int report_by_process(const struct process_opts *o, char **guest, size_t nguest,
		      struct kvmft_err *err);
