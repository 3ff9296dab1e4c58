/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rmerge.c: any number of ordered sources as one, through a tournament tree of losers.
 *
 * Leaf i sits at position leaf + i of an implicit binary tree; node p keeps the source that lost
 * there, and the overall winner is kept apart. Replacing the winner's item replays only its path
 * to the root: log2(n) comparisons, no matter what the other sources hold.
 */
#include "kvmft/ring.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A source in the tournament is its key and its rank: the index. An ended source has the highest key and
 * ENDED in its rank. Of equal keys the lower index wins: leaves are in order of their index, so at each
 * node that is the side of the left child.
 */
#define ENDED RMERGE_ENDED

struct rmerge {
	struct rmerge_first first; /* first: see ring.h */
	size_t n, leaf; /* leaf: position of leaf 0, a power of two */
	/* Losers, [1 .. leaf-1]. Two arrays: compilers move pairs through vector registers and stall. */
	uint64_t *loser_key;
	uint32_t *loser_rank;
	struct rmerge_src src[];
};

#define KEY_ENDED (UINT64_MAX - 1) /* so that adding 1 does not wrap */

/* The next item of source i: m->first becomes it. */
static inline void pull(struct rmerge *m, uint32_t i)
{
	m->first.rank = i;
	if (i < m->n && m->src[i].next(m->src[i].src, &m->first.key)) {
		m->first.key = MIN(m->first.key, KEY_ENDED - 1);
	} else {
		m->first.key = KEY_ENDED;
		m->first.rank |= ENDED;
	}
}

/*
 * The match at node `at / 2` of what comes from position `at`: *key and *rank become those of the winner,
 * the loser's stay at the node. Who wins is anybody's guess, so there is no branch on it.
 */
static inline void play(uint64_t *loser_key, uint32_t *loser_rank, size_t at, uint64_t *key,
			uint32_t *rank)
{
	uint64_t k = loser_key[at / 2], lost = 0 - (uint64_t)(k < *key + (at & 1)), dk;
	uint32_t r = loser_rank[at / 2], dr;

	dk = (k ^ *key) & lost;
	dr = (r ^ *rank) & (uint32_t)lost;
	loser_key[at / 2] = k ^ dk;
	loser_rank[at / 2] = r ^ dr;
	*key ^= dk;
	*rank ^= dr;
}

/*
 * Leaves join one by one, those without a source as ended. A node keeps who comes first: its other half
 * has nobody yet, and the last one of the halves to come plays on.
 */
static void play_all(struct rmerge *m)
{
	uint64_t key;
	uint32_t rank;
	size_t at;

	for (size_t node = 1; node < m->leaf; node++)
		m->loser_rank[node] = UINT32_MAX;
	for (uint32_t i = 0; i < m->leaf; i++) {
		pull(m, i);
		key = m->first.key;
		rank = m->first.rank;
		for (at = m->leaf + i; at > 1 && m->loser_rank[at / 2] != UINT32_MAX; at /= 2)
			play(m->loser_key, m->loser_rank, at, &key, &rank);
		if (at > 1) {
			m->loser_key[at / 2] = key;
			m->loser_rank[at / 2] = rank;
		} else {
			m->first = (struct rmerge_first){ key, rank };
		}
	}
}

int rmerge_new(struct rmerge **out, const struct rmerge_src *src, size_t n)
{
	struct rmerge *m;
	size_t i;

	if (n >= ENDED / 2 || n > SIZE_MAX / (4 * sizeof(*src)))
		return -EINVAL;
	m = calloc(1, sizeof(*m) + n * sizeof(*src));
	if (!m)
		return -ENOMEM;
	m->n = n;
	for (m->leaf = 1; m->leaf < n; m->leaf *= 2)
		;
	m->loser_key = calloc(m->leaf, sizeof(*m->loser_key));
	m->loser_rank = calloc(m->leaf, sizeof(*m->loser_rank));
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

void rmerge_pop(struct rmerge *m)
{
	uint64_t *loser_key = m->loser_key, key;
	uint32_t *loser_rank = m->loser_rank, rank = m->first.rank;
	size_t at = m->leaf + rank;

	if (rank & ENDED)
		return;
	pull(m, rank);
	key = m->first.key;
	rank = m->first.rank;
	for (; at > 1; at /= 2)
		play(loser_key, loser_rank, at, &key, &rank);
	m->first.key = key;
	m->first.rank = rank;
}

void rmerge_free(struct rmerge *m)
{
	if (!m)
		return;
	free(m->loser_key);
	free(m->loser_rank);
	free(m);
}
