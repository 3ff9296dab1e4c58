/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rstream.c: one CPU's sub-buffers in order, as events, gaps and damage.
 *
 * Sub-buffers are read in batches, so memory per CPU is constant however long the capture is. A
 * corrupt sub-buffer costs only the rest of itself.
 */
#include "kvmft/ring.h"

#include <sys/resource.h>

/*
 * What all streams of a capture read at once should fit into a second-level cache; but 64 KiB of
 * each, if that is not too much together, and in any case a sub-buffer.
 */
#define BATCH_BYTES (512u << 10)
#define BATCH_MIN   (64u << 10)
#define BATCH_ALL   (4u << 20)
#define PACKED_ALL  (256u << 20) /* ... if whole chunks: a part needs what is before it, too */
#define SEEK_PROBES 16 /* stamps checked to see whether they ascend; each is a read, for each CPU */

static int rstream_place_losses(struct rstream *r);

int rstream_open(struct rstream *r, const struct capture *cap, const struct cap_stream *s)
{
	uint32_t size = cap->subbuf_size;
	uint64_t n, bytes, chunk = 0;
	struct rlimit max;
	int ret;

	memset(r, 0, sizeof(*r));
	r->file.fd = -1;
	if (!size || size > CAPTURE_MAX_SUBBUF || cap->page_header >= size)
		return -EINVAL;
	r->cap = cap;
	r->s = s;
	r->holes = s->cut;
	/* A quarter of the descriptors for one capture: several may be open at once. */
	r->keep = getrlimit(RLIMIT_NOFILE, &max) == 0 && cap->nstream <= max.rlim_cur / 4;
	r->geom = (struct subbuf_geom){
		.size = size,
		.header = cap->page_header,
		.long_size = cap->long_size,
	};
	/* How much is read at once, and the buffer for it. */
	n = MAX(cap->nstream, (size_t)1);
	bytes = MIN(MAX(BATCH_BYTES / n, (uint64_t)BATCH_MIN), BATCH_ALL / n);
	for (size_t i = 0; i < s->next; i++)
		if (s->ext[i].packed)
			chunk = MAX(chunk, s->ext[i].len);
	if (chunk)
		bytes = MIN(chunk, PACKED_ALL / n);
	r->batch = (uint32_t)MAX(MIN(bytes / size, s->nsub), (uint64_t)1);
	r->buf = r->mem = xmalloc((size_t)r->batch * size);
	ret = rstream_place_losses(r);
	if (ret)
		rstream_close(r);
	return ret;
}

static enum rkind stream_damage(struct rstream *r)
{
	r->open = false;
	r->damage_index = r->idx - r->have + r->at - 1;
	r->damaged++;
	return R_DAMAGE;
}

void rstream_damage(struct rstream *r)
{
	stream_damage(r);
}

static enum rkind rstream_gap(struct rstream *r)
{
	r->lost = r->sb.lost_counted ? r->sb.lost_count : 0;
	r->lost_unknown |= !r->lost && r->why == GAP_LOST;
	r->lost_total += r->lost;
	return R_GAP;
}

/* Makes the next sub-buffer current, reading a batch if needed: 1, 0 at the end, -errno. */
static int rstream_advance(struct rstream *r)
{
	if (r->at >= r->have) {
		ssize_t n = capture_read_subbufs(r->cap, r->s, r->idx, r->batch, r->buf,
						 r->keep ? &r->file : NULL);

		if (n <= 0)
			return (int)n;
		r->have = (uint32_t)n;
		r->idx += (uint64_t)n;
		r->at = 0;
	}
	r->at++;
	return 1;
}

/*
 * What the recorder noted as lost before sub-buffer idx is added to what that itself reports. The
 * rest is reported after the last one.
 */
static void add_losses(struct rstream *r, uint64_t idx)
{
	for (; r->loss_at < r->nloss && r->loss[r->loss_at].before <= idx; r->loss_at++) {
		const struct rloss *l = &r->loss[r->loss_at];

		if (!r->sb.lost)
			r->sb.lost_count = 0;
		if (!r->sb.lost || r->sb.lost_counted || r->why)
			r->sb.lost_counted = true;
		r->sb.lost = true;
		r->why = GAP_LOST;
		r->sb.lost_count += l->count;
	}
}

static void add_pause(struct rstream *r, uint64_t idx)
{
	const struct cap_stream *s = r->s;
	struct subbuf scan = r->sb;
	bool paused = idx > 0;
	struct rec rec;

	if (r->sb.lost)
		return;
	/*
	 * A flight recorder writes its ring out while that is off: what happened meanwhile is in no
	 * segment, and no sub-buffer shows it.
	 */
	if (!r->holes) {
		while (r->ext_at + 1 < s->next && s->ext[r->ext_at + 1].first <= idx)
			r->ext_at++;
		paused = r->ext_at && s->ext[r->ext_at].first == idx &&
			 s->ext[r->ext_at].segment != s->ext[r->ext_at - 1].segment;
	}
	if (!paused)
		return;
	r->sb.lost = true;
	r->sb.lost_counted = false;
	r->why = r->holes ? GAP_LOST : GAP_OFF;
	/* The sub-buffer may have begun before the pause. */
	if (subbuf_next(&scan, &rec) > 0)
		r->gap_to = rec.ts;
}

/* Begins the next sub-buffer: R_EVENT if it is open, or what comes before its events. */
static enum rkind begin_next(struct rstream *r)
{
	int ret;

	r->open = false;
	r->why = GAP_LOST;
	if (r->error)
		return R_END;
	ret = rstream_advance(r);
	if (!ret && r->loss_at < r->nloss) {
		r->sb.lost = r->sb.lost_counted = false;
		r->gap_to = UINT64_MAX;
		add_losses(r, UINT64_MAX);
		return rstream_gap(r);
	}
	if (ret <= 0) {
		r->error = ret;
		return R_END;
	}
	ret = subbuf_begin(&r->sb, r->buf + (size_t)(r->at - 1) * r->geom.size, &r->geom);
	if (ret == -EBADMSG)
		return stream_damage(r);
	if (ret) {
		r->error = ret;
		return R_END;
	}
	r->open = true;
	r->gap_to = r->sb.ts;
	if (r->cap->flight && !r->holes && r->sb.lost) {
		r->why = GAP_OVERWRITTEN;
		r->sb.lost_counted = false;
		r->sb.lost_count = 0;
	}
	if (r->loss_at < r->nloss)
		add_losses(r, r->idx - r->have + r->at - 1);
	if (r->cap->flight || r->holes)
		add_pause(r, r->idx - r->have + r->at - 1);
	/* Some were still in the rings when the oldest segment that is left was begun. */
	if (r->cap->trimmed && !r->cap->flight && !r->sb.lost &&
	    r->idx - r->have + r->at == 1) {
		r->sb.lost = true;
		r->sb.lost_counted = false;
		r->why = GAP_REMOVED;
		if (r->cap->kept_tsc && cap_in_tsc(r->cap))
			r->gap_to = MIN(r->gap_to, r->cap->kept_tsc);
	}
	return r->sb.lost ? rstream_gap(r) : R_EVENT;
}

enum rkind rstream_next_slow(struct rstream *r)
{
	for (;;) {
		enum rkind k;
		int ret = r->open ? subbuf_next_slow(&r->sb, &r->rec) : 0;

		if (ret < 0)
			return stream_damage(r);
		if (ret)
			return R_EVENT;
		k = begin_next(r);
		if (k != R_EVENT)
			return k;
	}
}

enum rkind rstream_subbuf(struct rstream *r)
{
	/* A gap was reported: this is the sub-buffer after it. */
	bool told = r->open && r->gap_told;
	enum rkind k = told ? R_EVENT : begin_next(r);

	r->gap_told = k == R_GAP;
	return k;
}

/* ---- seeking ---- */

struct seek {
	bool (*before)(void *arg, uint64_t ts);
	void *arg;
};

/* Base stamp of a sub-buffer. */
static int read_stamp(struct rstream *r, uint64_t idx, uint64_t *ts)
{
	int ret =
		capture_read_part(r->cap, r->s, idx, 0, ts, sizeof(*ts), r->keep ? &r->file : NULL);

	if (ret == -EBADMSG) { /* damaged: does not ascend */
		*ts = UINT64_MAX;
		return 0;
	}
	return ret;
}

/*
 * The last of the stamps 0, step, ... below hi that is too early, in *at (0 if there is none). 1 if
 * they ascend, 0 if not, -errno.
 */
static int scan_stamps(struct rstream *r, uint64_t hi, uint64_t step, const struct seek *s,
		       uint64_t *at)
{
	uint64_t last = 0, ts, i;
	int ret;

	*at = 0;
	for (i = 0; i < hi; i += step) {
		ret = read_stamp(r, i, &ts);
		if (ret)
			return ret;
		if (ts < last)
			return 0;
		last = ts;
		if (s->before(s->arg, ts))
			*at = i;
	}
	return 1;
}

/* The last early stamp among lo (which is early) .. hi - 1, by bisection. Returns as above. */
static int halve_stamps(struct rstream *r, uint64_t lo, uint64_t hi, const struct seek *s,
			uint64_t *at)
{
	uint64_t low = 0, high = UINT64_MAX, ts;
	int ret;

	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		ret = read_stamp(r, mid, &ts);
		if (ret)
			return ret;
		if (ts < low || ts > high)
			return 0;
		if (s->before(s->arg, ts)) {
			lo = mid;
			low = ts;
		} else {
			hi = mid;
			high = ts;
		}
	}
	*at = lo;
	return 1;
}

/*
 * Every event of sub-buffer i - 1 is no later than the base stamp of i, as long as stamps ascend.
 * So the walk may start at the last sub-buffer whose stamp is too early. The order is checked on
 * evenly spaced stamps and on those that the search encounters; if it does not hold, the stream is
 * walked from its beginning.
 */
int rstream_seek_by(struct rstream *r, bool (*before)(void *arg, uint64_t ts), void *arg)
{
	const struct seek s = { before, arg };
	uint64_t n = r->s->nsub, step = n / SEEK_PROBES + 1, at = 0;
	int ret;

	r->at = r->have = 0;
	r->open = r->gap_told = false;
	r->error = 0;
	r->idx = 0;
	r->ext_at = 0;
	ret = scan_stamps(r, n, step, &s, &at);
	if (ret > 0 && step > 1)
		ret = halve_stamps(r, at, MIN(at + step, n), &s, &at);
	if (ret < 0)
		return ret;
	r->idx = ret ? at : 0;
	for (r->loss_at = 0; r->loss_at < r->nloss && r->loss[r->loss_at].before < r->idx;)
		r->loss_at++;
	return 0;
}

static bool before_number(void *arg, uint64_t ts)
{
	return ts < *(const uint64_t *)arg;
}

int rstream_seek(struct rstream *r, uint64_t from)
{
	return rstream_seek_by(r, before_number, &from);
}

/* ---- losses that the data does not show ---- */

/*
 * A full ring refuses events until it is read: that is a pause between two sub-buffers, and the
 * longest possible one is taken for it. *looks: how many sub-buffers may still be looked at; those
 * of a recorder's losses hardly overlap, but a file can claim what it likes.
 */
static int place_loss(struct rstream *r, const struct cap_loss *l, uint64_t removed,
		      uint64_t *looks, uint64_t *before)
{
	uint64_t n = r->s->nsub, lo = l->first > removed ? l->first - removed : 0;
	uint64_t hi = l->last > removed ? MIN(l->last - removed, n) : 0;
	const struct seek from = { before_number, (void *)(uintptr_t)&l->from };
	uint64_t i = 0, last = 0, ts, longest = 0;
	int ret = n ? halve_stamps(r, 0, n, &from, &i) : 0;

	if (ret < 0)
		return ret;
	if (ret && i + 1 > lo)
		lo = i + 1;
	*before = lo = MIN(MAX(lo, (uint64_t)1), n);
	if (lo >= n)
		return 0;
	ret = read_stamp(r, lo - 1, &last);
	for (i = lo; i < n && i <= MAX(hi, lo) && !ret && last < l->to && *looks; i++, --*looks) {
		ret = read_stamp(r, i, &ts);
		if (!ret && ts > last && ts - last > longest) {
			longest = ts - last;
			*before = i;
		}
		last = ts;
	}
	return ret;
}

COMPARE_BY(by_place, struct rloss, .before);

static int rstream_place_losses(struct rstream *r)
{
	const struct capture *c = r->cap;
	uint64_t removed = 0, looks;
	/* They are sorted by CPU. */
	size_t first = COUNT_BEFORE(i, c->nloss, c->loss[i].cpu < r->s->cpu), end = first;
	int ret = 0;

	/* Sub-buffers that were removed with old segments; unknown without the final count. */
	for (size_t i = 0; i < c->ncpu && c->trimmed; i++)
		if (c->cpu[i].cpu == r->s->cpu && c->cpu[i].end.valid &&
		    c->cpu[i].end.subbufs > r->s->nsub)
			removed = c->cpu[i].end.subbufs - r->s->nsub;
	while (end < c->nloss && c->loss[end].cpu == r->s->cpu)
		end++;
	r->loss = first < end ? xcalloc(end - first, sizeof(*r->loss)) : NULL;
	looks = 4 * r->s->nsub + 64 * (uint64_t)(end - first);
	for (size_t i = first; i < end && !ret; i++) {
		const struct cap_loss *l = &c->loss[i];

		if (removed && l->last < removed)
			continue;
		ret = place_loss(r, l, removed, &looks, &r->loss[r->nloss].before);
		r->loss[r->nloss++].count = l->count;
	}
	array_sort(r->loss, r->nloss, by_place);
	return ret;
}

void rstream_close(struct rstream *r)
{
	capture_file_close(&r->file);
	free(r->loss);
	r->loss = NULL;
	free(r->mem);
	r->mem = r->buf = NULL;
}

/* ---- when a stream ends, without reading all of it ---- */

#define TRIES 8 /* sub-buffers from the end; the last ones may hold only a loss */

int rstream_end(const struct capture *cap, const struct cap_stream *s, uint64_t *ts)
{
	struct rstream r;
	enum rkind k;
	int ret;

	*ts = 0;
	if (!s->nsub)
		return 0;
	ret = rstream_open(&r, cap, s);
	if (ret)
		return ret;
	for (uint64_t n = 1; n <= MIN((uint64_t)TRIES, s->nsub) && !*ts && !ret; n++) {
		r.at = r.have = 0;
		r.open = r.gap_told = false;
		r.idx = s->nsub - n;
		r.loss_at = r.nloss;
		while ((k = rstream_next(&r)) != R_END)
			if (k == R_EVENT)
				*ts = r.rec.ts;
		ret = r.error;
	}
	rstream_close(&r);
	return ret;
}

int rstream_held(const struct capture *cap, uint64_t *from)
{
	uint64_t resumed = UINT64_MAX;
	uint32_t last = 0;
	int ret = 0;

	*from = 0;
	for (size_t i = 0; i < cap->nstream && cap->flight; i++)
		if (cap->stream[i].nsub)
			last = MAX(last, cap->stream[i].ext[cap->stream[i].next - 1].segment);
	for (size_t i = 0; i < cap->nstream && cap->flight && !ret; i++) {
		const struct cap_stream *s = &cap->stream[i];
		size_t at = s->next;
		struct rstream r;
		enum rkind k;

		while (at && s->ext[at - 1].segment == last)
			at--;
		if (at == s->next || !s->nsub)
			continue;
		ret = rstream_open(&r, cap, s);
		if (ret)
			break;
		r.idx = s->ext[at].first;
		r.loss_at = r.nloss;
		while ((k = rstream_subbuf(&r)) != R_END)
			if (k == R_GAP && r.why == GAP_OVERWRITTEN)
				*from = MAX(*from, r.gap_to);
			else if (k == R_GAP && r.why == GAP_OFF)
				resumed = MIN(resumed, r.gap_to);
		ret = r.error;
		rstream_close(&r);
	}
	*from = *from ?: resumed == UINT64_MAX ? 0 : resumed;
	return ret;
}
