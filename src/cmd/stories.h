/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stories.h: parts of the time line, in a walk of their own, around moments that were found. */
#ifndef KVMFT_CMD_STORIES_H
#define KVMFT_CMD_STORIES_H

#include "kvmft/lat_output.h"

/* From one host TSC to another, of one VM; -1: of all. */
struct story {
	int64_t vm;
	uint64_t begin, end;
	struct lat_story *to; /* what is written there is the caller's to free */
};

/*
 * Tells n of them by a time line that was started. context: lines before and after each. 0, -errno.
 */
int stories_tell(const struct story *v, size_t n, struct timeline *t, const struct out_clock *clock,
		 bool color, uint64_t context) __must_check;

#endif
