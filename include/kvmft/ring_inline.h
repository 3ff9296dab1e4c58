/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ring_inline.h: the steps of walks that ring.h declares, inline for speed. Included only by
 * ring.h.
 */
#pragma once

#include "kvmft/ring.h"

static inline void subbuf_ahead(struct subbuf *sb)
{
	sb->head = (uintptr_t)sb->p <= sb->last_head ? load_u32(sb->p) : 0;
}

static inline void subbuf_walk(struct subbuf *sb, const uint8_t *p, const uint8_t *end)
{
	sb->p = p;
	sb->end = end;
	sb->last_head = end - p < 4 ? 0 : (uintptr_t)end - 4;
	subbuf_ahead(sb);
}

/*
 * Where an event is depends on the length of the one before it: this chain of loads is what a walk
 * costs. So the next head is read as soon as this one's length is known, by an address of base and
 * index; the next p is computed separately, which the empty asm ensures: otherwise the compiler
 * would make one address for both.
 */
static inline __must_check bool subbuf_next_fast(struct subbuf *sb, struct rec *rec)
{
	const uint8_t *p = sb->p;
	uint32_t head = sb->head;
	size_t words = head & 31, same = words; /* of payload */
	uintptr_t next;

	__asm__("" : "+r"(same));
	next = (uintptr_t)p + 4 + 4 * same;
	if (words - 1 >= 28 || next > sb->last_head)
		return false;
	sb->head = load_u32(p + 4 + 4 * words);
	/*
	 * Hardware prefetching stops at the end of a page, and forgets a stream that waits for
	 * others.
	 */
	__builtin_prefetch(p + 1536);
	rec->data = p + 4;
	rec->len = (uint32_t)(4 * words);
	rec->id = load_u16(p + 4);
	rec->ts = sb->ts += head >> 5;
	sb->p = (const uint8_t *)next;
	return true;
}

static inline __must_check int subbuf_next(struct subbuf *sb, struct rec *rec)
{
	if (subbuf_next_fast(sb, rec))
		return 1;
	/*
	 * Copies: only their addresses leave this function, so that the walk may stay in registers.
	 */
	struct subbuf rest = *sb;
	struct rec found = { .len = 0 };
	int ret = subbuf_next_slow(&rest, &found);

	*sb = rest;
	*rec = found;
	return ret;
}

static inline bool subbuf_sparse(const struct subbuf *sb, const struct subbuf_geom *g)
{
	return (size_t)(sb->end - sb->p) < g->size / 8;
}

static inline __must_check bool rstream_next_fast(struct rstream *r)
{
	return r->open && subbuf_next_fast(&r->sb, &r->rec);
}

static inline enum rkind rstream_next(struct rstream *r)
{
	return rstream_next_fast(r) ? R_EVENT : rstream_next_slow(r);
}

static inline int rstream_each(const struct capture *cap, const struct cap_stream *s,
			       int (*use)(void *arg, const struct rec *rec), void *arg)
{
	struct rstream r;
	enum rkind k;
	int ret = rstream_open(&r, cap, s);

	if (ret)
		return ret;
	while (!ret && (k = rstream_subbuf(&r)) != R_END) {
		struct subbuf sb = r.sb; /* a copy, so that the walk may stay in registers */
		struct rec rec;
		int more = 0;

		while (!ret && k == R_EVENT && (more = subbuf_next(&sb, &rec)) > 0)
			ret = use(arg, &rec);
		if (more < 0)
			rstream_damage(&r);
	}
	ret = ret ?: r.error;
	rstream_close(&r);
	return ret;
}

static inline ssize_t rmerge_at(const struct rmerge *m, uint32_t rank, uint64_t *key)
{
	if (rank & RMERGE_ENDED)
		return -1;
	*key = m->key[rank];
	return (ssize_t)rank;
}

static inline ssize_t rmerge_peek(const struct rmerge *m, uint64_t *key)
{
	return rmerge_at(m, m->rank, key);
}

static inline uint64_t rmerge_word(uint64_t above, size_t i)
{
	return ~(above << RMERGE_INDEX | i);
}

/*
 * At node *at, which becomes the one above: best of the sources that the new word has met, it not
 * included. Those are known before the word is, so that this chain of comparisons does not wait for
 * it.
 */
static inline uint64_t rmerge_match(uint64_t *node, size_t *at, uint64_t best, uint64_t word)
{
	uint64_t other = node[*at ^ 1];

	*at /= 2;
	best = MAX(best, other);
	node[*at] = MAX(best, word);
	return best;
}

/* Source i plays again, with another distance of its key from the base. The new rank. */
static inline uint32_t rmerge_play(struct rmerge *m, uint32_t i, uint64_t above)
{
	uint64_t word = rmerge_word(above, i), *node = m->node, best;
	size_t at = m->leaf + i;

	node[at] = word;
	best = rmerge_match(node, &at, 0, word);
	while (at >= 8) {
		best = rmerge_match(node, &at, best, word);
		best = rmerge_match(node, &at, best, word);
		best = rmerge_match(node, &at, best, word);
	}
	while (at > 1)
		best = rmerge_match(node, &at, best, word);
	word = MAX(best, word);
	if (word <= RMERGE_FAR_WORD)
		return rmerge_rebase(m);
	return m->rank = (uint32_t)~word & ((1u << RMERGE_INDEX) - 1);
}

static inline uint64_t *rmerge_key(struct rmerge *m)
{
	return &m->key[m->rank];
}

static inline uint32_t rmerge_put(struct rmerge *m, uint32_t win, uint64_t key)
{
	m->key[win] = key;
	if (key - m->base < RMERGE_FAR)
		return rmerge_play(m, win, key - m->base);
	return rmerge_put_far(m, win);
}

static inline ssize_t rmerge_pop(struct rmerge *m, ssize_t win, rmerge_next *next, uint64_t *key)
{
	uint64_t after;
	uint32_t rank;

	if (win < 0)
		return -1;
	if (next(m->src[win], &after))
		rank = rmerge_put(m, (uint32_t)win, after);
	else
		rank = rmerge_end(m);
	return rmerge_at(m, rank, key);
}

static inline const struct fmt_event *fmt_by_id(const struct fmt *f, uint16_t id)
{
	return ((const struct fmt_quick *)f)->by_id[id];
}

static inline const char *fmt_title(const struct fmt_event *e, size_t *len)
{
	*len = ((const struct fmt_line *)e)->title_len;
	return ((const struct fmt_line *)e)->title;
}

static inline size_t fmt_titled_room(const struct fmt_event *e, const struct rec *rec)
{
	const struct fmt_line *l = (const struct fmt_line *)e;

	if (!l->step || rec->len < l->need)
		return 0;
	return l->lead_len + l->room + l->room_len * rec->len;
}

static inline void fmt_print_titled(const struct fmt_event *e, const struct rec *rec, char *p,
				    struct sbuf *out)
{
	const struct fmt_line *l = (const struct fmt_line *)e;

	__builtin_memcpy(p, l->lead, FMT_LEAD);
	if (l->lead_len > FMT_LEAD)
		__builtin_memcpy(p + FMT_LEAD, l->lead + FMT_LEAD, l->lead_len - FMT_LEAD);
	l->first(l->step, rec->data, p + l->lead_len, rec, out);
}

/* Whether fmt_number() reads it, from records that are long enough: what fmt_u64() gives. */
static inline bool fmt_numbers(const struct fmt_field *fld)
{
	return !fld->is_array &&
	       (fld->size == 1 || fld->size == 2 || fld->size == 4 || fld->size == 8);
}

static inline uint64_t fmt_number(const struct fmt_field *fld, const struct rec *rec)
{
	const uint8_t *p = rec->data + fld->off;

	switch (fld->size) {
	case 1: return fld->is_signed ? (uint64_t)(int8_t)*p : *p;
	case 2: return fld->is_signed ? (uint64_t)(int16_t)load_u16(p) : load_u16(p);
	case 4: return fld->is_signed ? (uint64_t)(int32_t)load_u32(p) : load_u32(p);
	default: return load_u64(p);
	}
}

static inline bool fmt_u64(const struct fmt_field *fld, const struct rec *rec, uint64_t *v)
{
	if (!fmt_numbers(fld) || fld->off + (uint32_t)fld->size > rec->len)
		return false;
	*v = fmt_number(fld, rec);
	return true;
}

static inline int32_t fmt_pid(const struct fmt *f, const struct rec *rec)
{
	uint32_t end = ((const struct fmt_quick *)f)->pid_end;
	struct rec other;

	if (end <= rec->len)
		return (int32_t)load_u32(rec->data + end - 4);
	other = *rec; /* only its address leaves the function */
	return fmt_pid_slow(f, &other);
}
