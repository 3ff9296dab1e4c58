/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * subbuf_write.c: the reverse: events into sub-buffers, laid out as described in ring/subbuf.c.
 *
 * The first event of a sub-buffer has delta 0 to its stamp; a delta of more than 27 bits is
 * preceded by a time extend. Data of 1 to 28 whole words has its length in the event header, all
 * other a length word.
 */
#include "kvmft/capture.h"

#define LOST	      (1ull << 31)
#define LOST_STORED   (1ull << 30)
#define DELTA_BITS    27
#define EXTEND_BITS   59
#define TYPE_EXTEND   30
#define MAX_SHORT     112 /* bytes of data that need no length word: 28 words */

static void put_long(uint8_t *p, const struct subbuf_geom *g, uint64_t v)
{
	memcpy(p, &v, g->long_size);
}

int subbuf_writer_init(struct subbuf_writer *w, const struct subbuf_geom *g,
		       int (*emit)(void *arg, const void *buf), void *arg)
{
	*w = (struct subbuf_writer){ .g = *g, .emit = emit, .arg = arg };
	if ((g->long_size != 4 && g->long_size != 8) || g->header < 8 + g->long_size ||
	    g->size < g->header + 32 || g->size > CAPTURE_MAX_SUBBUF)
		return -EINVAL;
	w->buf = malloc(g->size);
	return w->buf ? 0 : -ENOMEM;
}

void subbuf_writer_free(struct subbuf_writer *w)
{
	free(w->buf);
	w->buf = NULL;
}

/* Bytes for data; the number of lost events goes after it. */
static uint32_t subbuf_room(const struct subbuf_writer *w)
{
	return w->g.size - w->g.header - (w->lost && !w->uncounted ? w->g.long_size : 0);
}

int subbuf_write_end(struct subbuf_writer *w)
{
	uint64_t last = w->ts;
	int ret;
	uint8_t *data;
	uint64_t word;

	if (!w->open && !w->lost)
		return 0;
	if (w->open)
		w->ts = w->begin;
	data = w->buf + w->g.header;
	word = w->pos;
	/* What gets more later is put together once more: all but a number of lost events. */
	memset(data + w->pos, 0,
	       MIN(w->g.size - w->g.header - w->pos, w->later ? w->g.long_size : UINT32_MAX));
	if (w->lost)
		word |= LOST;
	if (w->lost && !w->uncounted) {
		word |= LOST_STORED;
		put_long(data + w->pos, &w->g, w->lost_count);
	}
	memset(w->buf, 0, w->g.header);
	memcpy(w->buf, &w->ts, sizeof(w->ts));
	put_long(w->buf + 8, &w->g, word);
	w->pos = w->later = 0;
	w->open = w->lost = w->uncounted = false;
	w->lost_count = 0;
	w->emitted++;
	ret = w->emit(w->arg, w->buf);
	w->ts = last;
	return ret;
}

int subbuf_write_lost(struct subbuf_writer *w, uint64_t count)
{
	int ret = w->open ? subbuf_write_end(w) : 0;

	w->lost = true;
	w->uncounted |= !count;
	if (__builtin_add_overflow(w->lost_count, count, &w->lost_count))
		w->uncounted = true;
	return ret;
}

/* Bytes that an event takes, without a time extend. */
static inline uint32_t event_size(uint32_t len)
{
	return len && len % 4 == 0 && len <= MAX_SHORT ? 4 + len : 8 + ((len + 3) & ~3u);
}

static uint32_t put_head(uint8_t *to, uint32_t type, uint64_t delta)
{
	const uint32_t head = (uint32_t)delta << (32 - DELTA_BITS) | type;

	memcpy(to, &head, sizeof(head));
	return sizeof(head);
}

/* The header of an event, and what fills its last word up; where its data go. */
static inline uint8_t *put_event(uint8_t *to, uint64_t delta, uint32_t len)
{
	const uint32_t padded = (len + 3) & ~3u, with_length = len + 4;

	if (event_size(len) == 4 + len)
		return to + put_head(to, len / 4, delta);
	to += put_head(to, 0, delta);
	memcpy(to, &with_length, sizeof(with_length));
	if (len % 4)
		memset(to + padded, 0, 4);
	return to + 4;
}

uint32_t subbuf_put(uint8_t *to, uint32_t delta, const void *data, uint32_t len)
{
	memcpy(put_event(to, delta, len), data, len);
	return event_size(len);
}

static bool record_fits(const struct subbuf_writer *w, uint64_t ts, uint32_t size)
{
	uint64_t delta = ts - w->ts;

	if (ts < w->ts || delta >> EXTEND_BITS)
		return false;
	return (uint64_t)size + (delta >> DELTA_BITS ? 8 : 0) <= subbuf_room(w) - w->pos - w->later;
}

int subbuf_write(struct subbuf_writer *w, uint64_t ts, const void *data, uint32_t len)
{
	uint8_t *to;
	const int ret = subbuf_reserve(w, ts, len, len, &to);

	if (!ret)
		memcpy(to, data, len);
	return ret;
}

int subbuf_reserve(struct subbuf_writer *w, uint64_t ts, uint32_t len, uint32_t later,
		   uint8_t **data)
{
	const uint32_t size = event_size(later);
	uint64_t delta;
	uint32_t more;
	uint8_t *to;
	int ret = 0;

	if (later > CAPTURE_MAX_SUBBUF)
		return -EMSGSIZE;
	if (w->open && !record_fits(w, ts, size))
		ret = subbuf_write_end(w);
	if (ret)
		return ret;
	if (!w->open) {
		if (size > subbuf_room(w))
			return -EMSGSIZE;
		w->open = true;
		w->begin = w->ts = ts;
	}
	to = w->buf + w->g.header + w->pos;
	delta = ts - w->ts;
	more = (uint32_t)(delta >> DELTA_BITS);
	if (more) {
		to += put_head(to, TYPE_EXTEND, delta);
		memcpy(to, &more, sizeof(more));
		to += sizeof(more);
		w->pos += 8;
		delta = 0;
	}
	*data = put_event(to, delta, len);
	w->pos += event_size(len);
	w->later += size - event_size(len);
	w->ts = ts;
	return 0;
}
