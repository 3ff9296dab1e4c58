/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_pieces.c - piecewise clocks: bounds must hold against a simulated, steered clock */
#include "clock_vectors.h"

#include "kvmft/clock.h"

#define KHZ	2500000U		/* 0.4 ns a cycle */
#define SEC	(KHZ * 1000ULL)
#define N	40

/*
 * A clock whose rate changes by up to @slew parts per 10^9 at each sample and that is set by
 * step_ns after sample step_at.  true_ns() is the truth the maps are measured against.
 */
struct sim {
	struct clock_sample v[N];
	uint64_t tsc[N];		/* true moments of the samples */
	double rate[N];			/* ns per cycle after sample i; a test may use doubles */
	uint64_t base[N];
	uint64_t set_tsc;
	int64_t step_ns;
};

static uint64_t true_ns(const struct sim *s, uint64_t tsc)
{
	int i = 0;
	uint64_t ns;

	while (i + 1 < N && s->tsc[i + 1] <= tsc)
		i++;
	ns = s->base[i] + (uint64_t)((double)(tsc - s->tsc[i]) * s->rate[i]);
	return tsc >= s->set_tsc ? ns + (uint64_t)s->step_ns : ns;
}

static void sim_init(struct sim *s, uint64_t seed, uint32_t width, uint32_t slew, int64_t step)
{
	uint64_t tsc = 1ULL << 44, ns = 1700000000000000000ULL;
	int i;

	memset(s, 0, sizeof(*s));
	s->step_ns = step;
	s->set_tsc = UINT64_MAX;
	for (i = 0; i < N; i++) {
		uint64_t len = SEC - 1000 + prng(&seed) % 2000;
		int64_t ppb = slew ? (int64_t)(prng(&seed) % slew) : 0;

		s->tsc[i] = tsc;
		s->base[i] = ns;
		s->rate[i] = 0.4 * (1.0 + 1e-9 * (double)ppb);
		ns += (uint64_t)((double)len * s->rate[i]);
		tsc += len;
		if (step && i == N / 2)
			s->set_tsc = s->tsc[i] + len / 3;
	}
	for (i = 0; i < N; i++) {
		uint64_t before = width ? prng(&seed) % width : 0;

		s->v[i].tsc_before = s->tsc[i] - before;
		s->v[i].tsc_after = s->tsc[i] + (width ? prng(&seed) % width : 0);
		s->v[i].ns = true_ns(s, s->tsc[i]);
	}
}

/* Every true pair must lie in both ranges; returns the widest forward range seen. */
static uint64_t check_truth(const struct sim *s, const struct clock_pieces *p, uint64_t seed)
{
	uint64_t worst = 0, lo, hi, tsc, ns;
	int k;

	for (k = 0; k < 20000; k++) {
		tsc = prng_between(&seed, s->v[0].tsc_after, s->v[N - 1].tsc_before);
		ns = true_ns(s, tsc);
		assert_int_equal(clock_pieces_to_ns(p, tsc, &lo, &hi), 0);
		assert_in_range(ns, lo, hi);
		if (hi - lo > worst)
			worst = hi - lo;
		assert_int_equal(clock_pieces_to_tsc(p, ns, &lo, &hi), 0);
		assert_in_range(tsc, lo, hi);
	}
	return worst;
}

static void test_straight(void **state)
{
	struct clock_pieces p;
	struct sim s;
	uint64_t lo, hi;

	(void)state;
	sim_init(&s, 10, 0, 0, 0);
	assert_int_equal(clock_pieces_mark_steps(s.v, N, KHZ, 500, NULL), 0);
	assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
	assert_true(check_truth(&s, &p, 11) <= 2);
	assert_int_equal(clock_pieces_to_ns(&p, s.tsc[7], &lo, &hi), 0);
	assert_in_range(s.v[7].ns, lo, hi);
	/* a ns is 2.5 cycles: the way back is a few cycles wide, not more */
	assert_int_equal(clock_pieces_to_tsc(&p, s.v[7].ns, &lo, &hi), 0);
	assert_true(hi - lo <= 10);
}

static void test_brackets(void **state)
{
	struct clock_pieces p;
	struct sim s;
	uint64_t worst;

	(void)state;
	sim_init(&s, 12, 400, 0, 0);
	assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
	worst = check_truth(&s, &p, 13);
	/* half of at most 800 cycles either side, 0.4 ns each */
	assert_true(worst > 100 && worst <= 2 * 160 + 3);
}

/* The rate changes at the samples, so the chords are right with the brackets alone ... */
static void test_rates(void **state)
{
	struct clock_pieces p;
	struct sim s;

	(void)state;
	sim_init(&s, 14, 100, 500000, 0);
	assert_int_equal(clock_pieces_mark_steps(s.v, N, KHZ, 501, NULL), 0);
	assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
	check_truth(&s, &p, 15);
}

/* ... and without every other sample it changes within the interval: slew_ppb must cover it. */
static void test_slew(void **state)
{
	struct clock_sample half[N / 2];
	struct clock_pieces p;
	uint64_t seed = 17, lo, hi, tsc;
	struct sim s;
	int i, k, outside = 0;

	(void)state;
	sim_init(&s, 16, 100, 20000, 0);
	for (i = 0; i < N / 2; i++)
		half[i] = s.v[2 * i];
	assert_int_equal(clock_pieces_init(&p, half, N / 2, KHZ, 20000), 0);
	for (k = 0; k < 20000; k++) {
		tsc = prng_between(&seed, half[0].tsc_after, half[N / 2 - 1].tsc_before);
		assert_int_equal(clock_pieces_to_ns(&p, tsc, &lo, &hi), 0);
		assert_in_range(true_ns(&s, tsc), lo, hi);
		assert_int_equal(clock_pieces_to_tsc(&p, true_ns(&s, tsc), &lo, &hi), 0);
		assert_in_range(tsc, lo, hi);
	}
	/* the brackets alone would have been wrong */
	assert_int_equal(clock_pieces_init(&p, half, N / 2, KHZ, 0), 0);
	for (k = 0; k < 2000; k++) {
		tsc = prng_between(&seed, half[0].tsc_after, half[N / 2 - 1].tsc_before);
		assert_int_equal(clock_pieces_to_ns(&p, tsc, &lo, &hi), 0);
		outside += true_ns(&s, tsc) < lo || true_ns(&s, tsc) > hi;
	}
	assert_true(outside > 0);
}

static void test_step(void **state)
{
	static const int64_t steps[] = { 5000000000, 300000000, -300000000, -5000000000, 5000000 };
	uint64_t seed = 18, lo, hi, tsc;
	struct clock_pieces p;
	int64_t largest;
	struct sim s;
	size_t i;
	int k, ret, twice;

	(void)state;
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		sim_init(&s, 19 + i, 200, 1000, steps[i]);
		assert_int_equal(clock_pieces_mark_steps(s.v, N, KHZ, 500, &largest), 1);
		assert_true(s.v[N / 2].step);
		assert_true(largest - steps[i] > -600000 && largest - steps[i] < 600000);
		assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
		for (k = twice = 0; k < 20000; k++) {
			tsc = prng_between(&seed, s.v[0].tsc_after, s.v[N - 1].tsc_before);
			assert_int_equal(clock_pieces_to_ns(&p, tsc, &lo, &hi), 0);
			assert_in_range(true_ns(&s, tsc), lo, hi);
			ret = clock_pieces_to_tsc(&p, true_ns(&s, tsc), &lo, &hi);
			if (ret == -ENOTUNIQ) {
				twice++;
				continue;
			}
			assert_int_equal(ret, 0);
			assert_in_range(tsc, lo, hi);
		}
		/* only a clock set back shows a time twice */
		assert_true(steps[i] < 0 ? twice > 0 : twice == 0);
	}
}

static void test_outside(void **state)
{
	struct clock_pieces p;
	struct sim s;
	uint64_t lo, hi, first, last, i;

	(void)state;
	sim_init(&s, 30, 100, 0, 0);
	assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
	for (i = 1; i < 100; i++) {
		uint64_t d = i * SEC;

		assert_int_equal(clock_pieces_to_ns(&p, s.tsc[0] - d, &lo, &hi), 1);
		assert_in_range(s.base[0] - i * 1000000000, lo, hi);
		assert_int_equal(clock_pieces_to_ns(&p, s.tsc[N - 1] + d, &lo, &hi), 1);
		assert_in_range(s.base[N - 1] + i * 1000000000, lo, hi);
		assert_true(hi - lo < 100 * 3 * (i + 1));
		assert_int_equal(clock_pieces_to_tsc(&p, lo, &first, &last), 1);
		assert_in_range(s.tsc[N - 1] + d, first, last);
	}
	assert_int_equal(clock_pieces_to_ns(&p, UINT64_MAX, &lo, &hi), -ERANGE);
	assert_int_equal(clock_pieces_to_ns(&p, 0, &lo, &hi), 1);
	assert_int_equal(clock_pieces_to_tsc(&p, 0, &lo, &hi), -ERANGE);
	/* a step at either end leaves only the nominal rate */
	s.v[0].step = s.v[N - 2].step = true;
	assert_int_equal(clock_pieces_init(&p, s.v, N, KHZ, 0), 0);
	assert_int_equal(clock_pieces_to_ns(&p, s.tsc[0] - SEC, &lo, &hi), 1);
	assert_in_range(s.base[0] - 1000000000, lo, hi);
	assert_int_equal(clock_pieces_to_ns(&p, s.tsc[N - 1] + SEC, &lo, &hi), 1);
	assert_in_range(s.base[N - 1] + 1000000000, lo, hi);
	assert_int_equal(clock_pieces_to_tsc(&p, s.base[N - 1] + 9000000000, &lo, &hi), 1);
	assert_in_range(s.tsc[N - 1] + 9 * SEC, lo, hi);
	assert_int_equal(clock_pieces_to_tsc(&p, s.base[0] - 9000000000, &lo, &hi), 1);
	assert_in_range(s.tsc[0] - 9 * SEC, lo, hi);
}

static void test_init_refuses(void **state)
{
	struct clock_sample good[3] = { { 100, 110, 5, false }, { 200, 210, 50, false },
					{ 300, 310, 90, false } }, v[3];
	struct clock_pieces p;

	(void)state;
	memcpy(v, good, sizeof(v));
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), 0);
	assert_int_equal(clock_pieces_init(&p, v, 1, KHZ, 0), -EINVAL);
	assert_int_equal(clock_pieces_init(&p, v, 3, 0, 0), -EINVAL);
	assert_int_equal(clock_pieces_mark_steps(v, 3, 0, 500, NULL), -EINVAL);
	v[1].tsc_after = 199;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EINVAL);
	v[1].tsc_after = 300;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EDOM);
	memcpy(v, good, sizeof(v));
	v[2].ns = 50;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EDOM);
	v[1].step = true;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), 0);
	v[2].ns = 1ULL << 62;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), 0);
	v[2].ns = (1ULL << 62) + 50;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EDOM);
	memcpy(v, good, sizeof(v));
	v[2].ns = 50 + (101ULL << 20);
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EDOM);
	memcpy(v, good, sizeof(v));
	v[2].tsc_before = v[2].tsc_after = UINT64_MAX;
	assert_int_equal(clock_pieces_init(&p, v, 3, KHZ, 0), -EDOM);
}

/* Whatever init accepts must convert without undefined behaviour, and never return lo > hi. */
static void test_hostile(void **state)
{
	uint64_t seed = 31, lo, hi;
	int k, i, accepted = 0;

	(void)state;
	for (k = 0; k < 60000; k++) {
		struct clock_sample v[3];
		struct clock_pieces p;
		int64_t largest;

		for (i = 0; i < 3; i++) {
			v[i].tsc_before = prng_any(&seed);
			v[i].tsc_after = v[i].tsc_before + (prng_any(&seed) >> 20);
			v[i].ns = prng_any(&seed);
			v[i].step = prng(&seed) & 1;
		}
		if (k % 3)
			clock_pieces_mark_steps(v, 3, (uint32_t)prng_any(&seed) | 1,
						(uint32_t)prng_any(&seed), &largest);
		if (clock_pieces_init(&p, v, 3, (uint32_t)prng_any(&seed) | 1,
				      (uint32_t)prng_any(&seed)))
			continue;
		accepted++;
		for (i = 0; i < 8; i++) {
			if (clock_pieces_to_ns(&p, prng_any(&seed), &lo, &hi) >= 0)
				assert_true(lo <= hi);
			if (clock_pieces_to_tsc(&p, prng_any(&seed), &lo, &hi) >= 0)
				assert_true(lo <= hi);
		}
		clock_pieces_to_ns(&p, UINT64_MAX, &lo, &hi);
		clock_pieces_to_tsc(&p, UINT64_MAX, &lo, &hi);
		clock_pieces_to_ns(&p, 0, &lo, &hi);
		clock_pieces_to_tsc(&p, 0, &lo, &hi);
	}
	assert_true(accepted > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_straight),
		cmocka_unit_test(test_brackets),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_slew),
		cmocka_unit_test(test_step),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_init_refuses),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("clock pieces", tests, NULL, NULL);
}
