/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blame_output.h: spikes and their causes in readable formats. */
#ifndef KVMFT_BLAME_OUTPUT_H
#define KVMFT_BLAME_OUTPUT_H

#include "kvmft/blame.h"
#include "kvmft/lat_output.h"

enum blame_by { BLAME_BY_LENGTH, BLAME_BY_TIME, BLAME_BY_CAUSE, BLAME_BY_TASK, BLAME_BY_VCPU };

/* What is printed; all borrowed. */
struct blame_view {
	const struct blame *blame;
	const struct timeline *t;
	const struct out_clock *clock;
	const struct lat_bound *bound;	/* by VM */
	const struct lat_story *story;	/* by spike; NULL: none */
	enum blame_by by;
	bool at; /* the nearest to a moment, not the longest */
	bool color;
	unsigned int width; /* of a terminal; 0 = not a terminal */
};

extern const char *const blame_bys[]; /* by enum blame_by, NULL-terminated */

/* In one of cli_formats. 0 or -errno. */
int blame_print(const struct blame_view *v, const char *format, FILE *f) __must_check;

#endif
