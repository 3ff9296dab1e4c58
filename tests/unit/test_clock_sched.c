/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_sched.c - cyc2ns, a line over the TSC */
#include "clock_vectors.h"

#include "kvmft/clock.h"
#include "lib/kernel_params.h"

static void params(const struct vector *v)
{
	uint32_t mult = 0;
	uint8_t shift = 0;

	assert_int_equal(cyc2ns_params((uint32_t)v->in[0], &mult, &shift), 0);
	vector_expect(v, "mult", mult, v->out[0]);
	vector_expect(v, "shift", shift, v->out[1]);
}

static struct cyc2ns line_of(const struct vector *v)
{
	return (struct cyc2ns){ .mult = (uint32_t)v->in[1], .shift = (uint8_t)v->in[2],
				.offset = v->in[3] };
}

static void fwd(const struct vector *v)
{
	struct cyc2ns c = line_of(v);

	vector_expect(v, "ns", cyc2ns_to_ns(&c, v->in[0]), v->out[0]);
}

static void inv(const struct vector *v)
{
	struct cyc2ns c = line_of(v);
	uint64_t lo = 0, hi = 0;

	assert_int_equal(cyc2ns_to_tsc_range(&c, v->in[0], &lo, &hi), 0);
	vector_expect(v, "lo", lo, v->out[0]);
	assert_true(hi >= lo);
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("c2n_params", params), 56);
	assert_int_equal(vectors_each("c2n_fwd", fwd), 109);
	assert_int_equal(vectors_each("c2n_inv", inv), 93);
}

static void test_check(void **state)
{
	struct cyc2ns c = { .mult = 1, .shift = 32 };
	uint32_t mult;
	uint8_t shift;

	(void)state;
	assert_int_equal(cyc2ns_check(&c), 0);
	c.shift = 33;
	assert_int_equal(cyc2ns_check(&c), -EINVAL);
	c.shift = 0;
	c.mult = 0;
	assert_int_equal(cyc2ns_check(&c), -EINVAL);
	assert_int_equal(cyc2ns_params(0, &mult, &shift), -EINVAL);
	assert_int_equal(cyc2ns_params(1, &mult, &shift), 0);
	assert_int_equal(cyc2ns_params(UINT32_MAX, &mult, &shift), 0);
}

static void test_inverse(void **state)
{
	uint64_t seed = 7, lo, hi;
	int k;

	(void)state;
	for (k = 0; k < 30000; k++) {
		uint32_t khz = (uint32_t)prng_between(&seed, k % 2 ? 1000 : 1000000, 6000000);
		uint64_t tsc = prng_any(&seed) >> 11, ns;
		struct cyc2ns c = { .offset = prng(&seed) };

		assert_int_equal(cyc2ns_params(khz, &c.mult, &c.shift), 0);
		ns = cyc2ns_to_ns(&c, tsc);
		assert_int_equal(cyc2ns_to_tsc_range(&c, ns, &lo, &hi), 0);
		assert_true(lo <= tsc && tsc <= hi);
		assert_int_equal(cyc2ns_to_ns(&c, hi), ns);
		assert_int_equal(cyc2ns_to_ns(&c, lo), ns);
		assert_true(cyc2ns_to_ns(&c, hi + 1) - ns - 1 < 1ULL << 63);
		if (lo)
			assert_true(cyc2ns_to_ns(&c, lo - 1) != ns);
	}
}

static void test_range(void **state)
{
	struct cyc2ns c = { .offset = 10, .mult = 1, .shift = 32 };
	uint64_t lo = 4, hi = 5;

	(void)state;
	assert_int_equal(cyc2ns_to_tsc_range(&c, 9, &lo, &hi), -ERANGE);	/* wraps to 2^64 - 1 ns */
	assert_int_equal(cyc2ns_to_tsc_range(&c, UINT64_MAX, &lo, &hi), -ERANGE);
	assert_int_equal(cyc2ns_to_tsc_range(&c, 10 + (1ULL << 32), &lo, &hi), -ERANGE);
	assert_true(lo == 4 && hi == 5);
	assert_int_equal(cyc2ns_to_tsc_range(&c, 10 + (1ULL << 32) - 1, &lo, &hi), 0);
	assert_int_equal(lo, 0xffffffffULL << 32);
	assert_int_equal(hi, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_inverse),
		cmocka_unit_test(test_range),
	};

	return cmocka_run_group_tests_name("clock sched", tests, NULL, NULL);
}
