/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slow.h: a second decoder of sub-buffers, written from the description of the format alone, byte by
 * byte and without any thought of speed. The fast one must agree with it on every page.
 */
#ifndef KVMFT_TESTS_SLOW_H
#define KVMFT_TESTS_SLOW_H

#include "kvmft/ring.h"

struct slow_event {
	uint64_t ts;
	size_t at; /* of the payload in the page */
	size_t len;
	unsigned int id;
};

struct slow_page {
	bool refused;  /* the header cannot be right */
	bool broken;   /* the walk met something impossible, after the events that are there */
	bool lost, counted;
	uint64_t lost_count;
	size_t n;
	struct slow_event ev[CAPTURE_MAX_SUBBUF / 8];
};

/* n bytes, the lowest first, put together one by one. */
static inline uint64_t slow_number(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v += (uint64_t)p[i] << 8 * i;
	return v;
}

static inline void slow_decode(const uint8_t *page, const struct subbuf_geom *g,
			       struct slow_page *out)
{
	uint64_t commit = slow_number(page + 8, g->long_size) % ((uint64_t)1 << 32);
	uint64_t now = slow_number(page, 8), len = commit % ((uint64_t)1 << 30);
	uint64_t end = g->header + len, at = g->header;

	out->n = 0;
	out->broken = false;
	out->lost = commit >= (uint64_t)1 << 31;
	out->counted = out->lost && commit / ((uint64_t)1 << 30) % 2;
	out->refused = end > g->size ||
		       (commit / ((uint64_t)1 << 30) % 2 && end + g->long_size > g->size);
	if (out->refused)
		return;
	out->lost_count = out->counted ? slow_number(page + end, g->long_size) : 0;
	while (at < end) {
		uint64_t word, type, delta, more = 0, size;

		if (end - at < 4)
			goto broken;
		word = slow_number(page + at, 4);
		type = word % 32;
		delta = word / 32;
		if (type == 29 && delta == 0)
			return;
		if (type == 0 || type >= 29) {
			if (end - at < 8)
				goto broken;
			more = slow_number(page + at + 4, 4);
		}
		if (type == 30) {
			now += more * 134217728 + delta;
			at += 8;
			continue;
		}
		if (type == 31) {
			uint64_t low = (more * 134217728 + delta) % ((uint64_t)1 << 59), was = now;

			now = now / ((uint64_t)1 << 59) * ((uint64_t)1 << 59) + low;
			if (now < was && was - now > (uint64_t)1 << 58)
				now += (uint64_t)1 << 59;
			at += 8;
			continue;
		}
		/* type 29 and 0: a length that counts itself, then the rest up to whole words */
		if (type == 29 || type == 0) {
			if (more < (type ? 4 : 6) || more > end - at - 4)
				goto broken;
			size = 4 + (more + 3) / 4 * 4;
			if (size > end - at)
				size = end - at;
		} else {
			more = 4 + 4 * type;
			size = more;
			if (size > end - at)
				goto broken;
		}
		now += delta;
		if (type != 29) {
			struct slow_event *e = &out->ev[out->n++];

			e->ts = now;
			e->at = at + (type ? 4 : 8);
			e->len = more - 4;
			e->id = (unsigned int)slow_number(page + e->at, 2);
		}
		at += size;
	}
	return;
broken:
	out->broken = true;
}

/* Whether the fast decoder sees the same; `slow` is only space. */
static inline bool slow_agrees(const uint8_t *page, const struct subbuf_geom *g,
			       struct slow_page *slow)
{
	struct subbuf sb;
	struct rec rec = { 0 };
	size_t n = 0;
	int ret;

	slow_decode(page, g, slow);
	ret = subbuf_begin(&sb, page, g);
	if (ret || slow->refused)
		return ret && slow->refused;
	if (sb.lost != slow->lost || sb.lost_counted != slow->counted ||
	    sb.lost_count != slow->lost_count)
		return false;
	while ((ret = subbuf_next(&sb, &rec)) > 0) {
		const struct slow_event *e = &slow->ev[n++];

		if (n > slow->n || rec.ts != e->ts || rec.data != page + e->at || rec.len != e->len ||
		    rec.id != e->id)
			return false;
	}
	return n == slow->n && (ret < 0) == slow->broken;
}

/*
 * Changes 1 to 4 places of a page: a bit, a byte, or a whole word that tends to be a length or a
 * time. *seed is the state of its random numbers.
 */
static inline void slow_mutate(uint8_t *page, uint32_t size, uint64_t *seed)
{
	static const uint32_t words[] = { 0, 1, 4, 29, 30, 31, 61, 0xffffffff, 0xfffffffc, 0x80000000,
					  0xc0000000, 1u << 30, 0x3f, 0x7fffffff };
	unsigned int n;

	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	for (n = 1 + (*seed >> 60) % 4; n; n--) {
		uint32_t r, at;

		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		r = (uint32_t)(*seed >> 32);
		at = (r >> 4) % size;
		if (r % 32 == 0) { /* the header, which a random place hardly meets */
			at = 8 + r / 32 % 8;
			page[at] = (uint8_t)(*seed >> 24);
		} else if (r % 16 < 9) {
			page[at] ^= (uint8_t)(1u << (*seed >> 20) % 8);
		} else if (r % 16 < 12) {
			page[at] = (uint8_t)(*seed >> 24);
		} else {
			uint32_t w = words[(*seed >> 16) % ARRAY_SIZE(words)];

			at = at / 4 * 4;
			if (size - at >= 4)
				__builtin_memcpy(page + at, &w, 4);
		}
	}
}

#endif
