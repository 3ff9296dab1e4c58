/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rmerge.c: any number of ordered sources as one, through a tournament tree.
 *
 * Leaf i is at position leaf + i of an implicit binary tree; node p keeps the best of the sources
 * below it. Replacing the winner's item replays only its path to the root: log2(n) matches,
 * whatever the other sources hold. A tree of losers would need fewer instructions, but each match
 * would wait for the one below it and all for the new item; here the other sides of the path are
 * compared with each other while that is still being read.
 */
#include "kvmft/ring.h"

/* Plays all sources below a node; the word of the winner. */
static uint64_t play_all(struct rmerge *m, size_t node)
{
	uint64_t a, b;

	if (node >= m->leaf) {
		size_t i = node - m->leaf;
		bool ended = i >= m->n || !m->src[i];

		a = b = rmerge_word(ended ? RMERGE_FAR + 1 : MIN(m->key[i] - m->base, RMERGE_FAR),
				    i);
	} else {
		a = play_all(m, 2 * node);
		b = play_all(m, 2 * node + 1);
	}
	m->node[node] = MAX(a, b);
	return MAX(a, b);
}

uint32_t rmerge_rebase(struct rmerge *m)
{
	uint64_t first;

	m->base = UINT64_MAX;
	for (size_t i = 0; i < m->n; i++)
		if (m->src[i])
			m->base = MIN(m->base, m->key[i]);
	first = ~play_all(m, 1);
	m->rank = (uint32_t)first & ((1u << RMERGE_INDEX) - 1);
	if (first >> RMERGE_INDEX > RMERGE_FAR)
		m->rank |= RMERGE_ENDED;
	return m->rank;
}

uint32_t rmerge_put_far(struct rmerge *m, uint32_t i)
{
	if (m->key[i] < m->base) /* which that of a source in order never is */
		return rmerge_rebase(m);
	return rmerge_play(m, i, RMERGE_FAR);
}

uint32_t rmerge_end(struct rmerge *m)
{
	m->src[m->rank] = NULL;
	return rmerge_play(m, m->rank, RMERGE_FAR + 1);
}

int rmerge_new(struct rmerge **out, rmerge_next *next, void *const *src, size_t n)
{
	struct rmerge *m;

	if (n > 1u << RMERGE_INDEX)
		return -EINVAL;
	m = xcalloc(1, sizeof(*m) + n * sizeof(*src));
	m->n = n;
	for (m->leaf = 2; m->leaf < n;) /* each has a neighbour */
		m->leaf *= 2;
	m->node = xcalloc(2 * m->leaf, sizeof(*m->node));
	m->key = xcalloc(n + 1, sizeof(*m->key));
	for (size_t i = 0; i < n; i++)
		m->src[i] = next(src[i], &m->key[i]) ? src[i] : NULL;
	rmerge_rebase(m);
	*out = m;
	return 0;
}

void rmerge_free(struct rmerge *m)
{
	if (!m)
		return;
	free(m->node);
	free(m->key);
	free(m);
}
