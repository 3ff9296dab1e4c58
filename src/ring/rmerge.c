/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rmerge.c: any number of ordered sources as one, through a tournament tree of losers.
 *
 * Leaf i sits at position n + i of an implicit binary tree; node p keeps the source that lost
 * there, and the overall winner is kept apart. Replacing the winner's item replays only its path
 * to the root: log2(n) comparisons, no matter what the other sources hold.
 */
#include "kvmft/ring.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A source in the tournament is its key and its rank: the index, so that equal keys go to the lower
 * one. An ended source has the highest key and ENDED in its rank.
 */
#define ENDED (1u << 31)

struct rmerge {
	size_t n;
	uint64_t key; /* of the winner */
	uint32_t rank;
	/* Losers, [1 .. n-1]. Two arrays: compilers move pairs through vector registers and stall. */
	uint64_t *loser_key;
	uint32_t *loser_rank;
	struct rmerge_src src[];
};

static inline uint32_t pull(const struct rmerge *m, uint32_t i, uint64_t *key)
{
	if (m->src[i].next(m->src[i].src, key))
		return i;
	*key = UINT64_MAX;
	return i | ENDED;
}

/*
 * One match at a node: *key and *rank become those of the winner, the loser's stay at the node. Who
 * wins is anybody's guess, so there is no branch on it.
 */
static inline void play(struct rmerge *m, size_t node, uint64_t *key, uint32_t *rank)
{
	uint64_t k = m->loser_key[node], dk;
	uint32_t r = m->loser_rank[node], dr;
	uint64_t lost = (k < *key) | ((k == *key) & (r < *rank));

	dk = (k ^ *key) & (0 - lost);
	dr = (r ^ *rank) & (uint32_t)(0 - lost);
	m->loser_key[node] = k ^ dk;
	m->loser_rank[node] = r ^ dr;
	*key ^= dk;
	*rank ^= dr;
}

/*
 * Sources join one by one. An empty node keeps who comes first: its other half has nobody yet, and
 * the last one of the halves to come plays on.
 */
static void play_all(struct rmerge *m)
{
	uint64_t key;
	uint32_t rank;
	size_t node;

	for (node = 1; node < m->n; node++)
		m->loser_rank[node] = UINT32_MAX;
	for (uint32_t i = 0; i < m->n; i++) {
		rank = pull(m, i, &key);
		for (node = (m->n + i) / 2; node > 0; node /= 2) {
			if (m->loser_rank[node] == UINT32_MAX) {
				m->loser_key[node] = key;
				m->loser_rank[node] = rank;
				break;
			}
			play(m, node, &key, &rank);
		}
		if (!node) {
			m->key = key;
			m->rank = rank;
		}
	}
}

int rmerge_new(struct rmerge **out, const struct rmerge_src *src, size_t n)
{
	struct rmerge *m;
	size_t i;

	if (n >= ENDED || n > SIZE_MAX / (4 * sizeof(*src)))
		return -EINVAL;
	m = calloc(1, sizeof(*m) + n * sizeof(*src));
	if (!m)
		return -ENOMEM;
	m->n = n;
	m->loser_key = calloc(n + 1, sizeof(*m->loser_key));
	m->loser_rank = calloc(n + 1, sizeof(*m->loser_rank));
	if (!m->loser_key || !m->loser_rank) {
		rmerge_free(m);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++)
		m->src[i] = src[i];
	play_all(m);
	*out = m;
	return 0;
}

ssize_t rmerge_peek(const struct rmerge *m, uint64_t *key)
{
	if (!m->n || m->rank & ENDED)
		return -1;
	*key = m->key;
	return (ssize_t)m->rank;
}

void rmerge_pop(struct rmerge *m)
{
	uint32_t rank = m->rank;
	size_t node = (m->n + rank) / 2;
	uint64_t key;

	if (!m->n || rank & ENDED)
		return;
	for (rank = pull(m, rank, &key); node > 0; node /= 2)
		play(m, node, &key, &rank);
	m->key = key;
	m->rank = rank;
}

void rmerge_free(struct rmerge *m)
{
	if (!m)
		return;
	free(m->loser_key);
	free(m->loser_rank);
	free(m);
}
