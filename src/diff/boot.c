/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * boot.c: can a change be chance? A block bootstrap with a correction for the number of rows.
 *
 * What happens in a VM comes in bursts, so neighbouring slices of time are alike. A side is
 * therefore drawn in runs of slices (a circular block bootstrap), some 10 of them. The rounds give
 * each row a standard error; and each round shows by how many standard errors the worst row
 * deviates although nothing changed, since deviations are from the row's own value. A change must
 * exceed the level's quantile of these maxima (Westfall and Young's single step). Because 10 runs
 * give only a rough standard error, normal quantiles are replaced by those of Student's
 * distribution (the first terms of the Cornish-Fisher expansion).
 *
 * The generator is seeded: the same captures give the same answer.
 */
#include "kvmft/diff.h"

#define ROUNDS 2000u
#define SEED   0x6b766d6674ull
#define LEVEL  0.01
#define NORMAL \
	2.576 /* a single row is off by as many standard errors in 1 of 100, if it is normal */

static double boot_size(double v)
{
	return v < 0 ? -v : v;
}

/* How often each of n slices is drawn in this round: n times in all. */
static void weights_draw(double *weight, size_t n, uint64_t *state)
{
	size_t run = MAX(n / BOOT_BLOCKS, (size_t)1), left = n;

	memset(weight, 0, n * sizeof(*weight));
	while (left) {
		uint64_t z = *state += 0x9e3779b97f4a7c15; /* splitmix64 */
		size_t at, take = MIN(run, left);

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		at = (size_t)((z ^ z >> 31) % n);
		for (size_t i = 0; i < take; i++)
			weight[at + i < n ? at + i : at + i - n] += 1;
		left -= take;
	}
}

static double sides_ratio(const struct boot_side *s, const double *weight, double otherwise)
{
	double num = 0, den = 0;

	for (size_t i = 0; i < s->n; i++) {
		num += weight ? weight[i] * s->num[i] : s->num[i];
		den += weight ? weight[i] * s->den[i] : s->den[i];
	}
	return den > 0 ? num / den : otherwise;
}

/* Slices of one length share what is drawn, so that rows keep what they have in common. */
struct drawn {
	size_t n;
	double *weight;
};

#define DRAWN 4

/* That of n slices, or the first that is free. */
static struct drawn *drawn_of(struct drawn *d, size_t n)
{
	while (d->n && d->n != n)
		d++;
	return d;
}

/* The quantile as rare with that many runs as z standard errors are for a normal distribution. */
static double student_quantile(double z, double runs)
{
	double v = 2 * (runs - 1), z3 = z * z * z;

	if (v < 2)
		v = 2;
	return z + (z3 + z) / (4 * v) + (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * v * v);
}

/* The number of runs of the shorter side. */
static double boot_runs_of(const struct boot_row *r)
{
	size_t n = MIN(r->side[0].n, r->side[1].n), run = MAX(n / BOOT_BLOCKS, (size_t)1);

	return (double)n / (double)run;
}

/* By squared deviations. A side that saw no burst of a few is as noisy as both together. */
static void row_error(struct boot_row *r, const double square[2], unsigned int rounds)
{
	double runs = boot_runs_of(r), each[2], den[2] = { 0 }, sum, least, both = 0, v, x;

	for (int s = 0; s < 2; s++) {
		each[s] = square[s] / rounds * runs / (runs > 1 ? runs - 1 : 1);
		for (size_t i = 0; i < r->side[s].n; i++)
			den[s] += r->side[s].den[i];
		both += each[s] * den[s] * (double)r->side[s].n;
	}
	both /= (double)(r->side[0].n + r->side[1].n);
	sum = each[0] + each[1];
	if (den[0] > 0 && den[1] > 0)
		sum = MAX(sum, both * (1 / den[0] + 1 / den[1]));
	least = r->side[0].least * r->side[0].least + r->side[1].least * r->side[1].least;
	v = MAX(sum, least);
	x = v > 1 ? v : 1;
	if (!(v > 0)) {
		r->error = 0;
	} else {
		for (int i = 0; i < 1100; i++) {
			double next = (x + v / x) / 2;

			if (!(next < x))
				break;
			x = next;
		}
		r->error = x;
	}
}

COMPARE_BY(ascending, double, );

/* What the maxima say about a row. */
static void row_judge(struct boot_row *r, const double *most, unsigned int rounds, double level)
{
	unsigned int at = (unsigned int)((double)rounds * (1 - level));
	double diff = boot_size(r->value[1] - r->value[0]), runs = boot_runs_of(r), z, t, hi;

	r->surely = 0;
	r->chance = 1;
	if (!(r->error > 0))
		return;
	/* Rows that never varied have no deviations, but errors all the same. */
	r->critical = student_quantile(MAX(most[MIN(at, rounds - 1)], NORMAL), runs) * r->error;
	diff -= r->critical;
	r->surely = MAX(diff, 0.0);
	t = boot_size(r->value[1] - r->value[0]) / r->error;
	hi = t;
	z = 0;
	for (int i = 0; i < 60; i++) {
		double mid = (z + hi) / 2;

		if (student_quantile(mid, runs) < t)
			z = mid;
		else
			hi = mid;
	}
	for (at = 0; at < rounds && most[at] < z; at++)
		;
	r->chance = (double)(1 + rounds - at) / (double)(1 + rounds);
	if (!(r->surely > 0))
		r->chance = MAX(r->chance, level);
}

void boot_test(struct boot_row *row, size_t n, const struct boot_opts *o)
{
	unsigned int rounds = o->rounds ?: ROUNDS;
	float *dev = xcalloc(n + 1, rounds * sizeof(*dev)); /* deviations: row * rounds + round */
	double *most = xcalloc(rounds, sizeof(*most));
	double(*square)[2] = xcalloc(n + 1, sizeof(*square));
	struct drawn d[2][DRAWN] = { 0 };
	uint64_t state = o->seed ?: SEED;

	for (size_t i = 0; i < n; i++)
		for (int s = 0; s < 2; s++) {
			struct drawn *at = drawn_of(d[s], row[i].side[s].n);

			row[i].value[s] = sides_ratio(&row[i].side[s], NULL, 0);
			at->n = row[i].side[s].n;
			at->weight = at->weight ?: xcalloc(at->n, sizeof(double));
		}
	for (unsigned int k = 0; k < rounds; k++) {
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < DRAWN && d[s][i].n; i++)
				weights_draw(d[s][i].weight, d[s][i].n, &state);
		for (size_t i = 0; i < n; i++) {
			double to[2];

			for (int s = 0; s < 2; s++) {
				const struct boot_side *side = &row[i].side[s];
				const double *drawn = drawn_of(d[s], side->n)->weight;

				to[s] = sides_ratio(side, drawn, row[i].value[s]) - row[i].value[s];
				square[i][s] += to[s] * to[s];
			}
			dev[i * rounds + k] = (float)(to[1] - to[0]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		row_error(&row[i], square[i], rounds);
		for (unsigned int k = 0; k < rounds && row[i].error > 0; k++)
			most[k] = MAX(most[k],
				      boot_size((double)dev[i * rounds + k]) / row[i].error);
	}
	array_sort(most, rounds, ascending);
	for (size_t i = 0; i < n; i++)
		row_judge(&row[i], most, rounds, o->level > 0 ? o->level : LEVEL);
	for (int s = 0; s < 2; s++)
		for (int i = 0; i < DRAWN; i++)
			free(d[s][i].weight);
	free(dev);
	free(square);
	free(most);
}
