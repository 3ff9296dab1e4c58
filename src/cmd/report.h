/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report.h: what `kvmft report` has in files of its own. */
#pragma once

#include "sink.h"

struct process_opts {
	const char *input, *vm, *format;
	const struct opt_u64 *khz;
	const struct page *page;
	size_t top;
	bool tasks; /* of guests' own recordings, which else only tell names */
};

/* An exit code, or -errno with err. */
int report_by_process(const struct process_opts *o, char **guest, size_t nguest,
		      struct kvmft_err *err);
