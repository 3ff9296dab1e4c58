/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_diff_boot.c: the bootstrap of `kvmft diff` on data of which the truth is known: how often it
 * calls an alarm where nothing changed, and whether it finds what did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kvmft/diff.h"

#define MOST 128
#define ROWS 20

struct world {
	uint64_t state;
	double num[2][ROWS][MOST], den[2][ROWS][MOST];
	struct boot_row row[ROWS];
};

/* 0 <= x < 1 (xorshift64*) */
static double uniform(struct world *w)
{
	w->state ^= w->state >> 12;
	w->state ^= w->state << 25;
	w->state ^= w->state >> 27;
	return (double)(w->state * 0x2545f4914f6cdd1d >> 11) / 9007199254740992.0;
}

/* A sum of uniform numbers: of mean 0 and variance 1, nearly normal. */
static double gauss(struct world *w)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform(w);
	return sum;
}

/* Events of a mean rate: by counting those of many small chances, or their limit. */
static double poisson(struct world *w, double mean)
{
	double n = 0, p = mean / 64;

	if (mean > 32) {
		n = mean;
		for (double x = mean, i = 0; i < 30; i++) /* root */
			p = x = (x + mean / x) / 2;
		n += p * gauss(w);
		return n < 0 ? 0 : (double)(int64_t)(n + 0.5);
	}
	for (int i = 0; i < 64; i++)
		n += uniform(w) < p;
	return n;
}

enum how {
	STEADY, /* events one by one */
	BURSTS, /* some 4 slices on, 12 off, ten times as many when on */
	RARE,	/* one in some slices */
	TIMES,	/* mean of times of which few are very long */
	HOWS,
};

/* One side of a row; factor 1 where nothing changed. */
static void make(struct world *w, size_t r, int side, size_t n, enum how how, double factor)
{
	bool on = uniform(w) < 0.25;

	for (size_t i = 0; i < n; i++) {
		double *num = &w->num[side][r][i], *den = &w->den[side][r][i];

		*den = 0.01;
		on = on ? uniform(w) > 0.25 : uniform(w) < 1.0 / 12;
		if (how == STEADY)
			*num = poisson(w, 20.0 * factor);
		else if (how == BURSTS)
			*num = poisson(w, on ? 50.0 * factor : 5.0 * factor);
		else if (how == RARE)
			*num = poisson(w, 0.3 * factor);
		else
			*den = 10 + poisson(w, 10);
		if (how != TIMES)
			continue;
		*num = 0;
		for (int k = 0; k < (int)*den; k++)
			*num += (uniform(w) < 0.01 ? 5000 : 100 + 50 * uniform(w)) * factor;
	}
	w->row[r].side[side] =
		(struct boot_side){ .num = w->num[side][r], .den = w->den[side][r], .n = n };
}

static double den_of(const struct boot_side *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->den[i];
	return sum;
}

/* All kinds of rows, of which `changed` one kind. */
static void make_pair(struct world *w, uint64_t seed, size_t n0, size_t n1, int changed,
		      double factor)
{
	memset(w, 0, sizeof(*w));
	w->state = seed * 0x9e3779b97f4a7c15 + 1;
	for (size_t r = 0; r < ROWS; r++) {
		enum how how = (enum how)(r % HOWS);

		make(w, r, 0, n0, how, 1);
		make(w, r, 1, n1, how, (int)how == changed ? factor : 1);
		for (int s = 0; s < 2; s++)
			w->row[r].side[s].least = 1 / den_of(&w->row[r].side[s]);
	}
}

#define PAIRS 50

/* In how many percent of the pairs some row of the kind (-1: any) is said to have changed. */
static unsigned int alarms(size_t n0, size_t n1, int changed, double factor, int kind)
{
	struct world *w = calloc(1, sizeof(*w));
	const struct boot_opts o = { .rounds = 400 };
	unsigned int found = 0;

	assert_non_null(w);
	for (unsigned int k = 0; k < PAIRS; k++) {
		bool any = false;

		make_pair(w, k + 1, n0, n1, changed, factor);
		boot_test(w->row, ROWS, &o);
		for (size_t r = 0; r < ROWS; r++)
			any |= w->row[r].surely > 0 && (kind < 0 || (int)(r % HOWS) == kind);
		found += any;
	}
	free(w);
	found *= 100 / PAIRS;
	print_message("%zu and %zu slices, kind %d times %.2f: found in %u %%\n", n0, n1, changed,
		      factor, found);
	return found;
}

/* Nothing changed: no row of 20 may say so, but in 5 % of the pairs. */
static void test_no_alarm(void **state __unused_arg)
{
	unsigned int n = alarms(64, 64, -1, 1, -1);

	n += alarms(120, 120, -1, 1, -1);
	n += alarms(70, 127, -1, 1, -1);
	n += alarms(40, 100, -1, 1, -1);
	assert_in_range(n, 0, 20); /* of four times 100 */
}

static void test_power(void **state __unused_arg)
{
	assert_in_range(alarms(64, 64, STEADY, 1.25, STEADY), 95, 100);
	assert_in_range(alarms(64, 64, STEADY, 0.5, STEADY), 100, 100);
	assert_in_range(alarms(120, 120, BURSTS, 10, BURSTS), 90, 100);
	assert_in_range(alarms(100, 100, RARE, 4, RARE), 95, 100);
	assert_in_range(alarms(100, 100, TIMES, 2, TIMES), 95, 100);
}

/* The level is that of all rows together: the same change is less sure among many. */
static void test_level(void **state __unused_arg)
{
	struct world *w = calloc(1, sizeof(*w));
	struct boot_opts o = { .rounds = 1000, .level = 0.05 };
	struct boot_row few, many, strict;

	assert_non_null(w);
	make_pair(w, 77, 64, 64, STEADY, 1.3);
	boot_test(w->row, 1, &o);
	few = w->row[0];
	boot_test(w->row, ROWS, &o);
	many = w->row[0];
	o.level = 0.001;
	boot_test(w->row, ROWS, &o);
	strict = w->row[0];
	assert_true(few.surely > many.surely && many.surely > strict.surely);
	assert_true(few.value[1] - few.value[0] > few.surely);
	/* and the same again is the same */
	boot_test(w->row, ROWS, &o);
	assert_memory_equal(&w->row[0].surely, &strict.surely, sizeof(double));
	o.seed = 5;
	boot_test(w->row, ROWS, &o);
	assert_memory_not_equal(&w->row[0].surely, &strict.surely, sizeof(double));
	free(w);
}

/* Sides without noise, without events, of one slice. */
static void test_edges(void **state __unused_arg)
{
	static const double one[4] = { 1, 1, 1, 1 }, two[4] = { 2, 2, 2, 2 }, none[4];
	struct boot_row r[4] = {
		{ .side = { { one, one, 4, 0.1 }, { one, one, 4, 0.1 } } },
		{ .side = { { one, one, 4, 0.01 }, { two, one, 4, 0.01 } } },
		{ .side = { { none, one, 4, 0.01 }, { two, one, 4, 0.01 } } },
		{ .side = { { none, none, 4, 0 }, { one, none, 4, 0 } } },
	};
	struct boot_row single = { .side = { { one, one, 1, 0.1 }, { two, one, 1, 0.1 } } };

	boot_test(r, 4, &(struct boot_opts){ .rounds = 100 });
	assert_true(r[0].surely <= 0 && r[0].chance > 0.9);
	assert_true(r[1].surely > 0.5 && r[2].surely > 1.5);
	assert_true(r[3].surely <= 0 && r[3].chance > 0.9);
	boot_test(&single, 1, &(struct boot_opts){ .rounds = 10 });
	boot_test(NULL, 0, &(struct boot_opts){ .rounds = 10 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_alarm),
		cmocka_unit_test(test_power),
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
