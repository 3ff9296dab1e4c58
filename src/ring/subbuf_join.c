/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * subbuf_join.c: one sub-buffer from two halves, as the kernel hands them to a reader that comes
 * before a sub-buffer is full.
 */
#include "kvmft/ring.h"

#define DELTA_BITS  27
#define EXTEND	    30
#define EXTEND_SIZE 8u
#define EXTEND_MAX  (1ull << (DELTA_BITS + 32))

/* After the events of a sub-buffer just begun: the stamp of the last one. */
static int walk(struct subbuf *sb)
{
	struct rec rec;
	int ret;

	while ((ret = subbuf_next(sb, &rec)) > 0)
		;
	return ret;
}

static size_t extend(uint8_t *p, uint64_t delta, const struct subbuf_geom *g)
{
	const uint32_t low = (uint32_t)delta & ((1u << DELTA_BITS) - 1);
	const uint32_t word[] = {
		g->big_endian ? (uint32_t)EXTEND << DELTA_BITS | low : low << 5 | EXTEND,
		(uint32_t)(delta >> DELTA_BITS),
	};

	if (!delta)
		return 0;
	memcpy(p, word, sizeof(word));
	return sizeof(word);
}

int subbuf_join(void *page, const void *more, const struct subbuf_geom *g)
{
	uint8_t *data = (uint8_t *)page + g->header;
	struct subbuf a, b;
	size_t len, add;
	uint64_t from;
	uint32_t commit;

	if (subbuf_begin(&a, page, g) || subbuf_begin(&b, more, g))
		return -EBADMSG;
	len = (size_t)(a.end - data);
	add = (size_t)(b.end - b.p);
	from = b.ts;
	if (walk(&a))
		return -EBADMSG;
	if (b.lost || a.lost_counted || g->swap || from < a.ts || from - a.ts >= EXTEND_MAX ||
	    len + EXTEND_SIZE + add > g->size - g->header)
		return -ENOSPC;
	/* Unused room at the end would end the walk: the events go where it ended. */
	len = (size_t)(a.p - data);
	len += extend(data + len, from - a.ts, g);
	memcpy(data + len, b.p, add);
	len += add;
	commit = (uint32_t)len | (a.lost ? 1u << 31 : 0);
	/* The length is in the low half of the commit word; the rest of it stays. */
	memcpy((uint8_t *)page + sizeof(uint64_t) +
		       (g->big_endian ? g->long_size - sizeof(uint32_t) : 0),
	       &commit, sizeof(commit));
	return (int)len;
}
