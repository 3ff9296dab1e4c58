/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rmerge.c: any number of ordered sources as one, through a tournament tree of losers.
 *
 * Leaf i is at position leaf + i of an implicit binary tree; node p keeps the source that lost
 * there, and the overall winner is kept separately. Replacing the winner's item replays only its
 * path to the root: log2(n) comparisons, whatever the other sources hold.
 */
#include "kvmft/ring.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A source plays with one word: the distance of its key from the base in the upper bits and, in as
 * many lower bits as there are levels, its index. So of equal keys the lower index wins, and a
 * match is a minimum and a maximum: the winner is unpredictable, and a branch on it would be
 * mispredicted every other time.
 *
 * A key may be too far above the base for that. FAR stands for all of those, and when nothing
 * nearer is left, the smallest of them becomes the base. Keys of one recording are at most weeks
 * apart, so this is rare.
 */
struct rmerge {
	struct rmerge_first first; /* first: see ring.h */
	size_t n, leaf; /* leaf: position of leaf 0, a power of two */
	unsigned int levels;
	uint64_t base, far;
	uint64_t *loser; /* [1 .. leaf-1] */
	uint64_t *key;	 /* of each source's current item */
	struct rmerge_src src[]; /* next: NULL = has ended */
};

/*
 * Words of sources without an item begin with it, those of far ones with the next smaller one: far.
 */
static inline uint64_t ended(const struct rmerge *m)
{
	return UINT64_MAX >> m->levels;
}

static uint64_t word_of(const struct rmerge *m, size_t i)
{
	if (i >= m->n || !m->src[i].next)
		return ended(m) << m->levels | i;
	return MIN(m->key[i] - m->base, m->far) << m->levels | i;
}

/* Plays all sources below a node; the word of the winner. */
static uint64_t play_all(struct rmerge *m, size_t node)
{
	uint64_t a, b;

	if (node >= m->leaf)
		return word_of(m, node - m->leaf);
	a = play_all(m, 2 * node);
	b = play_all(m, 2 * node + 1);
	m->loser[node] = MAX(a, b);
	return MIN(a, b);
}

/* From the smallest key on. */
static __attribute__((noinline)) void rebase(struct rmerge *m)
{
	uint64_t first;

	m->base = UINT64_MAX;
	for (size_t i = 0; i < m->n; i++)
		if (m->src[i].next)
			m->base = MIN(m->base, m->key[i]);
	first = play_all(m, 1);
	m->first.key = m->base;
	m->first.rank = (uint32_t)(first & (m->leaf - 1));
	if (first >> m->levels == ended(m))
		m->first.rank |= RMERGE_ENDED;
}

/* The next item of source i. */
static inline bool pull(struct rmerge *m, size_t i)
{
	bool more = m->src[i].next(m->src[i].src, &m->key[i]);

	if (!more)
		m->src[i].next = NULL;
	return more;
}

int rmerge_new(struct rmerge **out, const struct rmerge_src *src, size_t n)
{
	struct rmerge *m;
	size_t i;

	if (n >= RMERGE_ENDED / 2 || n > SIZE_MAX / (4 * sizeof(*src)))
		return -EINVAL;
	m = calloc(1, sizeof(*m) + n * sizeof(*src));
	if (!m)
		return -ENOMEM;
	m->n = n;
	for (m->leaf = 1; m->leaf < n; m->leaf *= 2)
		m->levels++;
	m->far = ended(m) - 1;
	m->loser = calloc(m->leaf, sizeof(*m->loser));
	m->key = calloc(n + 1, sizeof(*m->key));
	if (!m->loser || !m->key) {
		rmerge_free(m);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		m->src[i] = src[i];
		(void)pull(m, i);
	}
	rebase(m);
	*out = m;
	return 0;
}

void rmerge_pop(struct rmerge *m)
{
	uint64_t *loser = m->loser, above, word;
	uint32_t i = m->first.rank;

	if (i & RMERGE_ENDED)
		return;
	above = pull(m, i) ? m->key[i] - m->base : ended(m);
	if (above >= m->far) {
		/* The end, far, or below the base, which a source in order never is. */
		if (m->src[i].next && m->key[i] < m->base) {
			rebase(m);
			return;
		}
		above = MIN(above, m->src[i].next ? m->far : ended(m));
	}
	word = above << m->levels | i;
	for (size_t at = (m->leaf + i) / 2; at; at /= 2) {
		uint64_t other = loser[at];

		loser[at] = MAX(other, word);
		word = MIN(other, word);
	}
	above = word >> m->levels;
	if (above >= m->far) {
		rebase(m);
		return;
	}
	m->first.key = m->base + above;
	m->first.rank = (uint32_t)(word & (m->leaf - 1));
}

void rmerge_free(struct rmerge *m)
{
	if (!m)
		return;
	free(m->loser);
	free(m->key);
	free(m);
}
