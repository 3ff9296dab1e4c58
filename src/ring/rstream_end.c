/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rstream_end.c: when a stream ends, without reading all of it. */
#include "kvmft/ring.h"

#define TRIES 8 /* sub-buffers from the end; the last ones may hold only a loss */

/* The last stamp in sub-buffer idx and those after it; 0: no event there. */
static uint64_t last_from(struct rstream *r, uint64_t idx)
{
	enum rkind k;
	uint64_t last = 0;

	r->at = r->have = r->part_left = 0;
	r->open = r->gap_told = false;
	r->idx = idx;
	r->loss_at = r->nloss;
	while ((k = rstream_next(r)) != R_END)
		if (k == R_EVENT)
			last = r->rec.ts;
	return last;
}

int rstream_end(const struct capture *cap, const struct cap_stream *s, uint64_t *ts)
{
	struct rstream r;
	int ret;

	*ts = 0;
	if (!s->nsub)
		return 0;
	ret = rstream_open(&r, cap, s);
	if (ret)
		return ret;
	for (uint64_t n = 1; n <= MIN((uint64_t)TRIES, s->nsub) && !*ts && !ret; n++) {
		*ts = last_from(&r, s->nsub - n);
		ret = r.error;
	}
	rstream_close(&r);
	return ret;
}
