/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loghist.c: a log-linear histogram of u64 values in limited memory.
 *
 * With S = LOGHIST_STEPS = 32, values below 2 * S have a bucket each. From there on every power
 * of two is cut into S buckets of equal width:
 *
 *	64..127      32 buckets of width 2
 *	128..255     32 buckets of width 4
 *	2^e..2^(e+1) 32 buckets of width w = 2^(e-5), so any value v in them is >= 32 * w
 *
 * A percentile answers with the middle of the bucket that holds the wanted rank. It is at most
 * w / 2 away from the value, which is at most v / 64. n, sum, min and max are kept exactly.
 */
#include "kvmft/util.h"

unsigned int loghist_index(uint64_t v)
{
	unsigned int shift;

	if (v < LOGHIST_STEPS)
		return (unsigned int)v;
	/*
	 * The top set bit and the LOGHIST_BITS bits below it stay; the lower `shift` bits are
	 * dropped.
	 */
	shift = 63 - (unsigned int)__builtin_clzll(v) - LOGHIST_BITS;
	return shift * LOGHIST_STEPS + (unsigned int)(v >> shift);
}

void loghist_bounds(unsigned int bucket, uint64_t *lo, uint64_t *hi)
{
	unsigned int shift = bucket < LOGHIST_STEPS ? 0 : bucket / LOGHIST_STEPS - 1;
	uint64_t top = bucket - shift * LOGHIST_STEPS;

	*lo = top << shift;
	*hi = *lo + (((uint64_t)1 << shift) - 1);
}

uint32_t *loghist_bucket(struct loghist_rows *h, size_t bucket)
{
	uint8_t *at = &h->at[bucket / LOGHIST_STEPS];

	if (!*at) {
		h->row = xmem(realloc(h->row, (h->n + 1u) * sizeof(*h->row)));
		memset(h->row[h->n], 0, sizeof(*h->row));
		*at = ++h->n;
	}
	return &h->row[*at - 1][bucket % LOGHIST_STEPS];
}

void loghist_free(struct loghist *h)
{
	free(h ? h->rows.row : NULL);
	if (h)
		memset(h, 0, sizeof(*h));
}

void loghist_add(struct loghist *h, uint64_t v)
{
	h->min = h->n ? MIN(h->min, v) : v;
	h->max = MAX(h->max, v);
	h->n++;
	h->sum += v;
	++*loghist_bucket(&h->rows, loghist_index(v));
}

uint64_t loghist_percentile(const struct loghist *h, uint64_t num, uint64_t den)
{
	uint64_t lo, hi, rank, seen = 0;
	unsigned int i;

	if (!h->n || !num)
		return h->min;
	if (num >= den)
		return h->max;
	/* Nearest rank: the smallest value with at least num/den of all values at or below it. */
	rank = (uint64_t)(((unsigned __int128)h->n * num + den - 1) / den);
	for (i = 0; i < LOGHIST_BUCKETS - 1; i++) {
		seen += loghist_count(h, i);
		if (seen >= rank)
			break;
	}
	loghist_bounds(i, &lo, &hi);
	return MIN(MAX(lo + (hi - lo) / 2, h->min), h->max);
}

uint64_t loghist_mean(const struct loghist *h)
{
	return h->n ? (uint64_t)((h->sum + h->n / 2) / h->n) : 0;
}

void loghist_rows_add(struct loghist_rows *to, const struct loghist_rows *from)
{
	for (size_t o = 0; o < ARRAY_SIZE(from->at); o++)
		for (size_t i = 0; from->at[o] && i < LOGHIST_STEPS; i++)
			*loghist_bucket(to, o * LOGHIST_STEPS + i) += from->row[from->at[o] - 1][i];
}

void loghist_merge(struct loghist *to, const struct loghist *from)
{
	if (!from->n)
		return;
	to->min = to->n ? MIN(to->min, from->min) : from->min;
	to->max = MAX(to->max, from->max);
	to->n += from->n;
	to->sum += from->sum;
	loghist_rows_add(&to->rows, &from->rows);
}
