/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rstream.c: one CPU's sub-buffers in order, as events, gaps and damage.
 *
 * Sub-buffers are read in batches, so memory per CPU is constant however long the capture is; if
 * there are too many CPUs for a sub-buffer of each, in parts that end between two events. A corrupt
 * sub-buffer costs only the rest of itself.
 */
#include "kvmft/ring.h"

#include <sys/resource.h>

/* What is read at once: all streams of a capture together should fit into a second-level cache. */
#define BATCH_BYTES  (512u << 10)
#define BATCH_MIN    (64u << 10)
#define BATCH_ALL    (4u << 20) /* ... of all streams together */
#define PACKED_ALL   (6u << 20) /* ... where each batch costs the unpacking of what lies before it \
				 */
/* With thousands of them, whatever else each of them needs adds up, too. */
#define STREAMS_MANY 1024u
#define BATCH_MANY   (2u << 20)
#define STREAMS_MOST 4096u
#define BATCH_MOST   (3u << 19)
#define PAGE	     4096u
#define LINE	     64u
#define PART_MIN     64u	/* with thousands of CPUs */
#define SEEK_PROBES \
	16 /* stamps checked to see whether they ascend; each is a read, for each CPU */

/* A quarter of the descriptors for one capture: several may be open at once. */
static bool keep_files(const struct capture *cap)
{
	struct rlimit max;

	return getrlimit(RLIMIT_NOFILE, &max) == 0 && cap->nstream <= max.rlim_cur / 4;
}

static int rstream_place_losses(struct rstream *r);

static bool is_packed(const struct cap_stream *s)
{
	return s->next && s->ext[0].packed;
}

/* Bytes that the buffers of all streams may have together. */
static uint32_t batch_all(const struct cap_stream *s, size_t nstream)
{
	bool packed = is_packed(s);

	if (nstream > STREAMS_MOST)
		return BATCH_MOST;
	if (nstream > STREAMS_MANY)
		return packed ? BATCH_ALL : BATCH_MANY;
	return packed ? PACKED_ALL : BATCH_ALL;
}

/*
 * How much is read at once, and the buffer for it. The kernel copies into it from pages. To an
 * address just above the source's, modulo a page, that takes four times as long on some processors,
 * and to one at the beginning of a cache line a tenth longer on others. So: a few bytes before
 * that.
 */
static int rstream_buffer(struct rstream *r, size_t nstream)
{
	uint32_t size = r->geom.size, before = 0, bytes;

	nstream = MAX(nstream, (size_t)1);
	bytes = (uint32_t)MAX(BATCH_MIN, BATCH_BYTES / nstream);
	bytes = (uint32_t)MIN(bytes, batch_all(r->s, nstream) / nstream);
	if (bytes < size)
		r->window = MIN(MAX(bytes / PART_MIN * PART_MIN, PART_MIN), size);
	/* With what is before it a part of a huge page; a small one has nothing before it. */
	r->batch = MAX((bytes > 2 * PAGE ? bytes - PAGE : bytes) / size, 1u);
	if (r->s->nsub < r->batch)
		r->batch = (uint32_t)MAX(r->s->nsub, 1u);
	size = r->window ?: r->batch * size;
	if (size > PAGE && !r->window)
		before = PAGE - LINE / 4;
	r->lent = before ? (size_t)size + PAGE : 0;
	r->mem = before ? capture_buffer(r->cap, r->lent) : malloc(size);
	if (!r->mem)
		return -ENOMEM;
	r->buf = r->mem + before;
	return 0;
}

int rstream_open(struct rstream *r, const struct capture *cap, const struct cap_stream *s)
{
	uint32_t size = cap->subbuf_size;
	int ret;

	memset(r, 0, sizeof(*r));
	r->file.fd = -1;
	if (!size || size > CAPTURE_MAX_SUBBUF || cap->page_header >= size)
		return -EINVAL;
	r->cap = cap;
	r->s = s;
	r->keep = keep_files(cap);
	r->geom = (struct subbuf_geom){
		.size = size,
		.header = cap->page_header,
		.long_size = cap->long_size,
		.big_endian = cap->big_endian,
		.swap = cap->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__),
	};
	ret = capture_chunks_open(cap, s, &r->chunks);
	if (!ret && !r->chunks)
		ret = rstream_buffer(r, cap->nstream);
	ret = ret ?: rstream_place_losses(r);
	if (ret)
		rstream_close(r);
	return ret;
}

static enum rkind damage(struct rstream *r)
{
	r->open = false;
	r->part_left = 0;
	r->damage_index = r->idx - r->have + r->at - 1;
	r->damaged++;
	return R_DAMAGE;
}

void rstream_damage(struct rstream *r)
{
	damage(r);
}

static enum rkind gap(struct rstream *r)
{
	r->lost = r->sb.lost_counted ? r->sb.lost_count : 0;
	r->lost_unknown |= !r->lost;
	r->lost_total += r->lost;
	return R_GAP;
}

/* ---- sub-buffers in parts ---- */

/* How much has to be read for the event at p, of whose data `left` bytes are still available. */
static uint32_t event_bytes(const struct rstream *r, const uint8_t *p, uint32_t left)
{
	uint32_t head = get_u32(p, r->geom.swap), type, len = get_u32(p + 4, r->geom.swap);

	type = r->geom.big_endian ? head >> 27 : head & 31;
	if (type && type != 29)
		return MIN(4u + 4 * 28, left);
	return len < left ? MIN(4 + ((len + 3) & ~3u), left) : 0;
}

static int part_read(struct rstream *r, uint32_t n)
{
	return capture_read_part(r->cap, r->s, r->idx - 1, r->part_at, r->buf, n,
				 r->keep ? &r->file : NULL);
}

/*
 * Makes the next part of the current sub-buffer the one to walk: whole events, as many as fit, and
 * at least one: for a longer one room is made. What is broken is left for the walk to find.
 */
static int part_next(struct rstream *r)
{
	uint32_t n = MIN(r->part_left, r->window), used, want;
	struct subbuf *sb = &r->sb, scan;
	struct rec rec;
	uint8_t *buf;
	int ret;

	for (;;) {
		ret = part_read(r, n);
		if (ret)
			return ret;
		sb->ts = r->part_ts;
		subbuf_walk(sb, r->buf, r->buf + n);
		scan = *sb;
		while ((ret = subbuf_next(&scan, &rec)) > 0)
			;
		used = (uint32_t)(scan.p - r->buf);
		if (n == r->part_left ||
		    (!ret && used < n)) { /* the last part, or only padding follows */
			r->part_left = 0;
			return 0;
		}
		if (used)
			break;
		want = event_bytes(r, r->buf,
				   r->part_left); /* n is the window: 8 bytes are there */
		if (want <= n) { /* broken */
			r->part_left = 0;
			return 0;
		}
		buf = realloc(r->mem, want); /* with a window, all of it is the buffer */
		if (!buf)
			return -ENOMEM;
		r->mem = r->buf = buf;
		n = want;
	}
	subbuf_walk(sb, r->buf, scan.p);
	r->part_ts = scan.ts;
	r->part_at += used;
	r->part_left -= used;
	return 0;
}

/* Begins sub-buffer idx - 1 by its head: 0, -EBADMSG, or another error of reading. */
static int part_begin(struct rstream *r)
{
	uint8_t count[8];
	int ret;

	r->part_at = 0;
	ret = part_read(r, r->geom.header);
	ret = ret ?: subbuf_begin_head(&r->sb, r->buf, &r->geom);
	if (ret)
		return ret;
	r->part_left = (uint32_t)(r->sb.end - r->sb.p);
	r->part_at = r->geom.header;
	r->part_ts = r->sb.ts;
	if (r->sb.lost_counted) {
		ret = capture_read_part(r->cap, r->s, r->idx - 1, r->part_at + r->part_left, count,
					r->geom.long_size, r->keep ? &r->file : NULL);
		if (ret)
			return ret;
		r->sb.lost_count = subbuf_lost_count(count, &r->geom);
	}
	return part_next(r);
}

/* ---- whole ones ---- */

/* Makes the next sub-buffer current, reading a batch if needed: 1, 0 at the end, -errno. */
static int advance(struct rstream *r)
{
	if (r->window) {
		r->have = r->at = r->idx < r->s->nsub;
		r->idx += r->have;
		return (int)r->have;
	}
	if (r->at >= r->have) {
		ssize_t n = r->chunks
				    ? capture_chunks_read(r->chunks, r->idx, &r->buf)
				    : capture_read_subbufs(r->cap, r->s, r->idx, r->batch, r->buf,
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
		if (!r->sb.lost || r->sb.lost_counted)
			r->sb.lost_counted = true;
		r->sb.lost = true;
		r->sb.lost_count += l->count;
	}
}

/*
 * A flight recorder writes its ring out while that is off: what happened meanwhile is in no
 * segment, and no sub-buffer shows it.
 */
static bool after_a_pause(struct rstream *r, uint64_t idx)
{
	const struct cap_stream *s = r->s;

	while (r->ext_at + 1 < s->next && s->ext[r->ext_at + 1].first <= idx)
		r->ext_at++;
	return r->ext_at && s->ext[r->ext_at].first == idx &&
	       s->ext[r->ext_at].segment != s->ext[r->ext_at - 1].segment;
}

static void add_pause(struct rstream *r, uint64_t idx)
{
	struct subbuf scan = r->sb;
	struct rec rec;

	if (r->sb.lost || !after_a_pause(r, idx))
		return;
	r->sb.lost = true;
	r->sb.lost_counted = false;
	/* The sub-buffer may have begun before the pause. */
	if (subbuf_next(&scan, &rec) > 0)
		r->gap_to = rec.ts;
}

/* Begins the next sub-buffer: R_EVENT if it is open, or what comes before its events. */
static enum rkind begin_next(struct rstream *r)
{
	int ret;

	r->open = false;
	if (r->error)
		return R_END;
	if (r->part_left) {
		ret = part_next(r);
		if (ret == -EBADMSG)
			return damage(r);
		r->error = ret;
		r->open = !ret;
		return ret ? R_END : R_EVENT;
	}
	ret = advance(r);
	if (!ret && r->loss_at < r->nloss) {
		r->sb.lost = r->sb.lost_counted = false;
		add_losses(r, UINT64_MAX);
		return gap(r);
	}
	if (ret <= 0) {
		r->error = ret;
		return R_END;
	}
	if (r->window)
		ret = part_begin(r);
	else
		ret = subbuf_begin(&r->sb, r->buf + (size_t)(r->at - 1) * r->geom.size, &r->geom);
	if (ret == -EBADMSG)
		return damage(r);
	if (ret) {
		r->error = ret;
		return R_END;
	}
	r->open = true;
	r->gap_to = r->sb.ts;
	if (r->loss_at < r->nloss)
		add_losses(r, r->idx - r->have + r->at - 1);
	if (r->cap->flight)
		add_pause(r, r->idx - r->have + r->at - 1);
	return r->sb.lost ? gap(r) : R_EVENT;
}

enum rkind rstream_next_slow(struct rstream *r)
{
	for (;;) {
		enum rkind k;
		int ret = r->open ? subbuf_next_slow(&r->sb, &r->rec) : 0;

		if (ret < 0)
			return damage(r);
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
	int ret = capture_read_part(r->cap, r->s, idx, 0, ts, sizeof(*ts),
				    r->keep ? &r->file : NULL);

	if (ret == -EBADMSG) { /* damaged: does not ascend */
		*ts = UINT64_MAX;
		return 0;
	}
	if (!ret && r->geom.swap)
		*ts = __builtin_bswap64(*ts);
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

	r->at = r->have = r->part_left = 0;
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
 * longest possible one is taken for it.
 */
static int place_loss(struct rstream *r, const struct cap_loss *l, uint64_t removed,
		      uint64_t *before)
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
	for (i = lo; i < n && i <= MAX(hi, lo) && !ret && last < l->to; i++) {
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

/*
 * Sub-buffers of this CPU that were removed with old segments; without the final count unknown, so
 * none.
 */
static uint64_t removed_subbufs(const struct rstream *r)
{
	for (size_t i = 0; i < r->cap->ncpu && r->cap->trimmed; i++) {
		const struct cap_cpu *c = &r->cap->cpu[i];

		if (c->cpu == r->s->cpu && c->end.valid && c->end.subbufs > r->s->nsub)
			return c->end.subbufs - r->s->nsub;
	}
	return 0;
}

static int rstream_place_losses(struct rstream *r)
{
	uint64_t removed = removed_subbufs(r);
	int ret = 0;

	for (size_t i = 0; i < r->cap->nloss && !ret; i++) {
		const struct cap_loss *l = &r->cap->loss[i];

		if (l->cpu != r->s->cpu || (removed && l->last < removed))
			continue;
		r->loss = r->loss ?: calloc(r->cap->nloss, sizeof(*r->loss));
		if (!r->loss)
			return -ENOMEM;
		ret = place_loss(r, l, removed, &r->loss[r->nloss].before);
		r->loss[r->nloss++].count = l->count;
	}
	if (r->nloss > 1)
		qsort(r->loss, r->nloss, sizeof(*r->loss), by_place);
	return ret;
}

void rstream_close(struct rstream *r)
{
	capture_chunks_close(r->chunks);
	r->chunks = NULL;
	capture_file_close(&r->file);
	free(r->loss);
	r->loss = NULL;
	if (r->lent && r->mem)
		capture_buffer_back(r->cap, r->mem, r->lent);
	else
		free(r->mem);
	r->mem = r->buf = NULL;
}
