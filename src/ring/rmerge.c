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

struct leaf {
	struct rmerge_src src;
	uint64_t key;
	bool ended;
};

struct rmerge {
	size_t n, winner;
	size_t *loser; /* [1 .. n-1] */
	struct leaf leaf[];
};

/* Ended sources lose against all others; equal keys go to the lower index. */
static bool beats(const struct rmerge *m, size_t a, size_t b)
{
	const struct leaf *x = &m->leaf[a], *y = &m->leaf[b];

	if (x->ended != y->ended)
		return y->ended;
	if (x->ended || x->key == y->key)
		return a < b;
	return x->key < y->key;
}

static void pull(struct leaf *l)
{
	l->ended = !l->src.next(l->src.src, &l->key);
}

/* Plays all matches bottom up; win[] holds the winner of each node while that lasts. */
static int play_all(struct rmerge *m)
{
	size_t n = m->n, i, *win = calloc(2 * n, sizeof(*win));

	if (!win)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		win[n + i] = i;
	for (i = n - 1; i > 0; i--) {
		size_t a = win[2 * i], b = win[2 * i + 1];
		bool first = beats(m, a, b);

		win[i] = first ? a : b;
		m->loser[i] = first ? b : a;
	}
	m->winner = n > 1 ? win[1] : 0;
	free(win);
	return 0;
}

int rmerge_new(struct rmerge **out, const struct rmerge_src *src, size_t n)
{
	struct rmerge *m;
	size_t i;
	int ret;

	if (n > SIZE_MAX / (4 * sizeof(struct leaf)))
		return -EINVAL;
	m = calloc(1, sizeof(*m) + n * sizeof(struct leaf));
	if (!m)
		return -ENOMEM;
	m->n = n;
	m->loser = calloc(n + 1, sizeof(*m->loser));
	if (!m->loser) {
		free(m);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		m->leaf[i].src = src[i];
		pull(&m->leaf[i]);
	}
	ret = n ? play_all(m) : 0;
	if (ret) {
		rmerge_free(m);
		return ret;
	}
	*out = m;
	return 0;
}

ssize_t rmerge_peek(const struct rmerge *m, uint64_t *key)
{
	if (!m->n || m->leaf[m->winner].ended)
		return -1;
	*key = m->leaf[m->winner].key;
	return (ssize_t)m->winner;
}

void rmerge_pop(struct rmerge *m)
{
	size_t w = m->winner, node;

	if (!m->n || m->leaf[w].ended)
		return;
	pull(&m->leaf[w]);
	for (node = (m->n + w) / 2; node > 0; node /= 2) {
		size_t other = m->loser[node];

		if (beats(m, other, w)) {
			m->loser[node] = w;
			w = other;
		}
	}
	m->winner = w;
}

void rmerge_free(struct rmerge *m)
{
	if (!m)
		return;
	free(m->loser);
	free(m);
}
