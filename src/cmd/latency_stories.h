/* SPDX-License-Identifier: GPL-2.0-or-later */
/* latency_stories.h: the parts of the time line that belong to the worst cases: a second walk. */
#ifndef KVMFT_CMD_LATENCY_STORIES_H
#define KVMFT_CMD_LATENCY_STORIES_H

#include "kvmft/lat_output.h"
#include "kvmft/pairing.h"

/*
 * Fills v->story from a new timeline over the same captures. context: lines before and after each
 * case. 0, -errno. The stories are freed with stories_free(), also after a failure.
 */
int stories_tell(struct lat_view *v, struct pairing *again, uint64_t context) __must_check;
void stories_free(struct lat_view *v);

#endif
