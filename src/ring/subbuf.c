/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * subbuf.c: a bounds-checked walk over one ring buffer sub-buffer.
 *
 * Layout (kernel/trace/ring_buffer.c, include/linux/ring_buffer.h):
 *
 *   offset           size          content
 *   0                8             time stamp, base of the deltas that follow
 *   8                sizeof(long)  commit word: bit 31 events were lost before this sub-buffer,
 *                                  bit 30 their number is stored behind the data, rest = length
 *   header           length        events
 *   header + length  sizeof(long)  number of lost events (bits 31 and 30 both set)
 *
 * An event is a u32 of 5 bits type_len and 27 bits time delta, then, by type_len:
 *
 *   0        u32 length (counts itself), length - 4 bytes of payload
 *   1..28    type_len * 4 bytes of payload
 *   29       delta 0: rest is unused; else a discarded event: u32 length (counts itself)
 *   30       time extend: u32 more significant bits of the delta
 *   31       absolute stamp: u32 more significant bits; replaces the low 59 bits of the time
 *
 * Every step consumes at least 4 bytes, so the walk always ends.
 */
#include "kvmft/ring.h"

#define SB_LOST	       (1u << 31)
#define SB_LOST_STORED (1u << 30)
#define SB_TS	       8 /* bytes of the time stamp in front of the commit word */

#define TYPE_PADDING 29
#define TYPE_EXTEND  30
#define TYPE_STAMP   31

#define DELTA_BITS     27
#define STAMP_BITS 59
#define STAMP_MASK ((1ull << STAMP_BITS) - 1)

static inline uint64_t get_long(const void *p, const struct subbuf_geom *g)
{
	return g->long_size == 8 ? load_u64(p) : load_u32(p);
}

int subbuf_begin(struct subbuf *sb, const void *buf, const struct subbuf_geom *g)
{
	const uint8_t *b = buf;
	uint64_t word, len, room;

	if ((g->long_size != 4 && g->long_size != 8) || g->header < SB_TS + g->long_size ||
	    g->size < g->header)
		return -EBADMSG;
	/*
	 * Only 32 bits of the commit word mean anything: the kernel adds its flag 1 << 31 as a
	 * signed int, so all higher bits of a 64-bit word are set if events were lost.
	 */
	word = (uint32_t)get_long(b + SB_TS, g);
	len = word & ~(uint64_t)(SB_LOST | SB_LOST_STORED);
	room = g->size - g->header;
	if (len > room)
		return -EBADMSG;
	if ((word & SB_LOST_STORED) && room - len < g->long_size)
		return -EBADMSG;

	sb->ts = load_u64(b);
	sb->lost = word & SB_LOST;
	sb->lost_counted = sb->lost && (word & SB_LOST_STORED);
	sb->lost_count = 0;
	sb->end = b + g->header + len;
	if (sb->lost_counted)
		sb->lost_count = get_long(sb->end, g);
	subbuf_walk(sb, b + g->header, sb->end);
	/* The last event is like the others, if there is something to read behind it. */
	if (sb->last_head && g->size - g->header - (size_t)(sb->end - sb->p) >= 4)
		sb->last_head += 4;
	return 0;
}

/* The u32 after an event header, if it is still inside the data. */
static inline int get_word(const struct subbuf *sb, size_t left, uint32_t *v)
{
	if (left < 8)
		return -EBADMSG;
	*v = load_u32(sb->p + 4);
	return 0;
}

/* Events that only move time or fill space: 1 = continue with the next event, 0 = end. */
static int step_time(struct subbuf *sb, uint32_t type, uint32_t delta, size_t left)
{
	uint32_t word;
	uint64_t ts;

	if (type == TYPE_PADDING && !delta)
		return 0;
	if (get_word(sb, left, &word))
		return -EBADMSG;
	switch (type) {
	case TYPE_PADDING:
		if (word < 4 || word > left - 4)
			return -EBADMSG;
		sb->ts += delta;
		word = (word + 3) & ~3u;
		sb->p += 4 + MIN((size_t)word, left - 4);
		return 1;
	case TYPE_EXTEND: sb->ts += ((uint64_t)word << DELTA_BITS) + delta; break;
	default:
		/*
		 * The low 59 bits come from the event, the top 5 from the running time. After a
		 * wrap of the low bits that would be 2^59 in the past: carry instead
		 * (ring_buffer.c, rb_fix_abs_ts()).
		 */
		ts = (sb->ts & ~STAMP_MASK) |
		     ((((uint64_t)word << DELTA_BITS) + delta) & STAMP_MASK);
		if (ts < sb->ts && sb->ts - ts > 1ull << (STAMP_BITS - 1))
			ts += 1ull << STAMP_BITS;
		sb->ts = ts;
		break;
	}
	sb->p += 8;
	return 1;
}

int subbuf_next_slow(struct subbuf *sb, struct rec *rec)
{
	for (;;) {
		size_t left = (size_t)(sb->end - sb->p);
		uint32_t head, type, delta, len, step, word;

		if (left < 4) /* at most a few bytes of rounding: nothing fits here */
			return left ? -EBADMSG : 0;
		head = load_u32(sb->p);
		type = head & 31;
		delta = head >> 5;

		if (type >= TYPE_PADDING) {
			int ret = step_time(sb, type, delta, left);

			if (ret <= 0)
				return ret;
			continue;
		}
		if (type) {
			len = type * 4;
			step = 4 + len;
			if (step > left)
				return -EBADMSG;
			rec->data = sb->p + 4;
		} else {
			if (get_word(sb, left, &word) || word < 6 || word > left - 4)
				return -EBADMSG;
			len = word - 4;
			step = (uint32_t)MIN((size_t)(4 + ((word + 3) & ~3u)), left);
			rec->data = sb->p + 8;
		}
		sb->ts += delta;
		sb->p += step;
		subbuf_ahead(sb);
		rec->ts = sb->ts;
		rec->len = len;
		rec->id = load_u16(rec->data);
		return 1;
	}
}

/* One sub-buffer from two halves, as the kernel hands them to a reader that came early. */
int subbuf_join(void *page, const void *more, const struct subbuf_geom *g)
{
	uint8_t *data = (uint8_t *)page + g->header;
	struct subbuf a, b;
	size_t len, add;
	uint64_t from;
	uint32_t delta[2], commit;
	struct rec rec;
	int ret;

	if (subbuf_begin(&a, page, g) || subbuf_begin(&b, more, g))
		return -EBADMSG;
	len = (size_t)(a.end - data);
	add = (size_t)(b.end - b.p);
	from = b.ts;
	while ((ret = subbuf_next(&a, &rec)) > 0)
		;
	if (ret)
		return -EBADMSG;
	if (b.lost || a.lost_counted || from < a.ts || from - a.ts >= 1ull << (DELTA_BITS + 32) ||
	    len + sizeof(delta) + add > g->size - g->header)
		return -ENOSPC;
	/* Unused room at the end would end the walk: the events go where it ended. */
	len = (size_t)(a.p - data);
	if (from != a.ts) {
		delta[0] = (uint32_t)((from - a.ts) << 5 | TYPE_EXTEND);
		delta[1] = (uint32_t)((from - a.ts) >> DELTA_BITS);
		memcpy(data + len, delta, sizeof(delta));
		len += sizeof(delta);
	}
	memcpy(data + len, b.p, add);
	len += add;
	commit = (uint32_t)len | (a.lost ? 1u << 31 : 0);
	/* The length is in the low half of the commit word; the rest of it stays. */
	memcpy((uint8_t *)page + sizeof(uint64_t), &commit, sizeof(commit));
	return (int)len;
}
