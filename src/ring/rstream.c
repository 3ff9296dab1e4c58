/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rstream.c: one CPU's sub-buffers in order, as events, gaps and damage.
 *
 * Sub-buffers are read in batches, so memory per CPU is constant however long the capture is.
 * A corrupt sub-buffer costs the rest of itself and nothing else.
 */
#include "kvmft/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES (256u << 10)
#define SEEK_PROBES 16384 /* stamps looked at before a seek trusts their order */

int rstream_open(struct rstream *r, const struct capture *cap, const struct cap_stream *s)
{
	uint32_t size = cap->subbuf_size;

	memset(r, 0, sizeof(*r));
	if (!size || size > CAPTURE_MAX_SUBBUF || cap->page_header >= size)
		return -EINVAL;
	r->cap = cap;
	r->s = s;
	r->geom = (struct subbuf_geom){
		.size = size,
		.header = cap->page_header,
		.long_size = cap->long_size,
		.big_endian = cap->big_endian,
		.swap = cap->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
	};
	r->batch = MAX(BATCH_BYTES / size, 1u);
	if (s->nsub < r->batch)
		r->batch = (uint32_t)MAX(s->nsub, 1u);
	r->buf = malloc((size_t)r->batch * size);
	return r->buf ? 0 : -ENOMEM;
}

static enum rkind damage(struct rstream *r)
{
	r->open = false;
	r->damage_index = r->idx - r->have + r->at - 1;
	r->damaged++;
	return R_DAMAGE;
}

static enum rkind gap(struct rstream *r)
{
	r->gap_pending = false;
	r->lost = r->sb.lost_counted ? r->sb.lost_count : 0;
	r->gaps++;
	if (!r->lost)
		r->lost_unknown = true;
	r->lost_total += r->lost;
	return R_GAP;
}

/* Makes the next sub-buffer current, reading a batch when needed: 1, 0 at the end, -errno. */
static int advance(struct rstream *r)
{
	if (r->at >= r->have) {
		ssize_t n = capture_read_subbufs(r->cap, r->s, r->idx, r->batch, r->buf);

		if (n <= 0)
			return (int)n;
		r->have = (uint32_t)n;
		r->idx += (uint64_t)n;
		r->at = 0;
	}
	r->at++;
	return 1;
}

enum rkind rstream_next(struct rstream *r)
{
	if (r->error)
		return R_END;
	for (;;) {
		int ret;

		if (r->gap_pending)
			return gap(r);
		if (r->open) {
			ret = subbuf_next(&r->sb, &r->rec);
			if (ret > 0) {
				r->events++;
				if (r->rec.ts < r->last_ts)
					r->backwards++;
				r->last_ts = r->rec.ts;
				return R_EVENT;
			}
			if (ret < 0)
				return damage(r);
			r->open = false;
		}
		ret = advance(r);
		if (ret <= 0) {
			r->error = ret;
			return R_END;
		}
		if (subbuf_begin(&r->sb, r->buf + (size_t)(r->at - 1) * r->geom.size, &r->geom))
			return damage(r);
		r->open = true;
		r->gap_pending = r->sb.lost;
	}
}

/* Base stamp of a sub-buffer. */
static int read_stamp(const struct rstream *r, uint64_t idx, uint64_t *ts)
{
	int ret = capture_read_head(r->cap, r->s, idx, ts, sizeof(*ts));

	if (!ret && r->geom.swap)
		*ts = __builtin_bswap64(*ts);
	return ret;
}

/*
 * Walks stamps lo, lo + step, ... below hi; *at becomes the last one below `from`.
 * 1 when they ascend, 0 when they do not, -errno.
 */
static int scan_stamps(const struct rstream *r, uint64_t lo, uint64_t hi, uint64_t step,
		       uint64_t from, uint64_t *at)
{
	uint64_t last = 0, ts, i;
	int ret;

	for (i = lo; i < hi; i += step) {
		ret = read_stamp(r, i, &ts);
		if (ret)
			return ret;
		if (ts < last)
			return 0;
		last = ts;
		if (ts < from)
			*at = i;
		if (hi - i <= step)
			break;
	}
	return 1;
}

/*
 * Every event of sub-buffer i - 1 is no later than the base stamp of i, as long as stamps ascend.
 * So the walk may start at the last sub-buffer whose stamp is below `from`. The order is checked
 * on evenly spaced stamps (all of them up to SEEK_PROBES sub-buffers); where it does not hold the
 * stream is walked from its beginning.
 */
int rstream_seek(struct rstream *r, uint64_t from)
{
	uint64_t step = r->s->nsub / SEEK_PROBES + 1, at = 0;
	int ret;

	r->at = r->have = 0;
	r->open = r->gap_pending = false;
	r->error = 0;
	r->last_ts = 0;
	r->idx = 0;
	ret = scan_stamps(r, 0, r->s->nsub, step, from, &at);
	if (ret > 0 && step > 1)
		ret = scan_stamps(r, at, MIN(at + step, r->s->nsub), 1, from, &at);
	if (ret < 0)
		return ret;
	r->idx = ret ? at : 0;
	return 0;
}

void rstream_close(struct rstream *r)
{
	free(r->buf);
	r->buf = NULL;
}
