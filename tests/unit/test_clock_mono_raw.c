/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_mono_raw.c - CLOCK_MONOTONIC_RAW, a line over the clocksource */
#include "clock_vectors.h"

#include "kvmft/clock.h"

static struct mono_raw record_of(const struct vector *v)
{
	return (struct mono_raw){
		.last = v->in[1], .mult = (uint32_t)v->in[2], .shift = (uint8_t)v->in[3],
		.nsec = v->in[4], .base = v->in[5],
	};
}

static void fwd(const struct vector *v)
{
	struct mono_raw r = record_of(v);
	uint64_t ns = 0;

	assert_int_equal(mono_raw_to_ns(&r, v->in[0], &ns), 0);
	vector_expect(v, "ns", ns, v->out[0]);
}

static void inv(const struct vector *v)
{
	struct mono_raw r = record_of(v);
	uint64_t lo = 0, hi = 0;

	assert_int_equal(mono_raw_to_cyc_range(&r, v->in[0], &lo, &hi), 0);
	vector_expect(v, "lo", lo, v->out[0]);
}

/* A line fits a bracket that holds the reading, give or take 1 ns, and no other. */
static void test_fits(void **state)
{
	struct mono_raw r = { .last = 1000, .nsec = 5, .base = 500, .mult = 6462355, .shift = 24 };
	uint64_t ns = 0;

	(void)state;
	assert_int_equal(mono_raw_to_ns(&r, 50000, &ns), 0);
	assert_true(mono_raw_fits(&r, 49900, 50100, ns));
	assert_true(mono_raw_fits(&r, 50000, 50000, ns));
	assert_true(mono_raw_fits(&r, 50000, 50000, ns + 1));
	assert_true(mono_raw_fits(&r, 50000, 50000, ns - 1));
	assert_false(mono_raw_fits(&r, 50000, 50000, ns + 2));
	assert_false(mono_raw_fits(&r, 50000, 50000, ns - 2));
	assert_false(mono_raw_fits(&r, 50010, 50100, ns));
	assert_false(mono_raw_fits(&r, 40000, 49990, ns));
	r.mult = 0;
	assert_false(mono_raw_fits(&r, 0, UINT64_MAX, ns));
	r = (struct mono_raw){ .last = 0, .base = UINT64_MAX - 5, .mult = 1u << 23, .shift = 23 };
	assert_true(mono_raw_fits(&r, 0, 5, UINT64_MAX));
	assert_false(mono_raw_fits(&r, 0, 6, UINT64_MAX)); /* past the end: not a reading */
	assert_false(mono_raw_fits(&r, 0, 5, 0));
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("raw_fwd", fwd), 142);
	assert_int_equal(vectors_each("raw_inv", inv), 115);
}

static void test_check(void **state)
{
	struct mono_raw r = { .mult = 1, .shift = 32 };

	(void)state;
	assert_int_equal(mono_raw_check(&r), 0);
	r.shift = 33;
	assert_int_equal(mono_raw_check(&r), -EINVAL);
	r.shift = 0;
	r.mult = 0;
	assert_int_equal(mono_raw_check(&r), -EINVAL);
}

/* clocksource kvm-clock: cyc is kvmclock ns and the line has slope one. */
static void test_kvm_clock(void **state)
{
	struct mono_raw r = { .last = 1000, .mult = 8388608, .shift = 23, .nsec = 5, .base = 77 };
	uint64_t v, hi;

	(void)state;
	assert_int_equal(mono_raw_to_ns(&r, 1500, &v), 0);
	assert_int_equal(v, 577);
	assert_int_equal(mono_raw_to_ns(&r, 923, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(mono_raw_to_ns(&r, 922, &v), -ERANGE);
	assert_int_equal(mono_raw_to_cyc_range(&r, 0, &v, &hi), 0);
	assert_int_equal(v, 923);
}

static void check_inverse(const struct mono_raw *r, uint64_t ns)
{
	uint64_t lo, hi, v;

	if (mono_raw_to_cyc_range(r, ns, &lo, &hi))
		return;
	if (!mono_raw_to_ns(r, lo, &v))
		assert_true(hi + 1 == lo ? v > ns : v == ns);
	if (lo && !mono_raw_to_ns(r, lo - 1, &v))
		assert_true(v < ns);
	if (hi >= lo && !mono_raw_to_ns(r, hi, &v))
		assert_int_equal(v, ns);
	if (hi != UINT64_MAX && !mono_raw_to_ns(r, hi + 1, &v))
		assert_true(v > ns);
}

static void test_inverse(void **state)
{
	uint64_t seed = 8, ns, cyc;
	int k;

	(void)state;
	for (k = 0; k < 60000; k++) {
		struct mono_raw r = {
			.last = prng_any(&seed), .nsec = prng_any(&seed), .base = prng_any(&seed),
			.mult = (uint32_t)prng_any(&seed) | 1, .shift = (uint8_t)(prng(&seed) % 33),
		};

		check_inverse(&r, prng_any(&seed));
		cyc = r.last + prng(&seed) % 1000000 - 500000;
		if (!mono_raw_to_ns(&r, cyc, &ns))
			check_inverse(&r, ns);
	}
}

/* Any record of one line converts like any other: what makes one enough for a whole trace. */
static void test_any_record(void **state)
{
	struct mono_raw a = { .last = 320501855875415, .mult = 6462355, .shift = 24,
			      .nsec = 15641142627354139, .base = 407116000000000 };
	uint64_t seed = 9, x, y;
	int k;

	(void)state;
	for (k = 0; k < 1000; k++) {
		struct mono_raw b = a;
		uint64_t d = prng(&seed) >> 24, cyc = a.last + (prng(&seed) >> 24);
		unsigned __int128 sum = (unsigned __int128)d * a.mult + a.nsec;

		b.last += d;	/* a later tick: full seconds go to base, the rest stays in nsec */
		b.base += (uint64_t)(sum >> 24) / 1000000000 * 1000000000;
		b.nsec = (uint64_t)(sum - ((unsigned __int128)(b.base - a.base) << 24));
		assert_int_equal(mono_raw_to_ns(&a, cyc, &x), 0);
		assert_int_equal(mono_raw_to_ns(&b, cyc, &y), 0);
		assert_int_equal(x, y);
	}
}

static void test_extremes(void **state)
{
	struct mono_raw r = { .last = UINT64_MAX, .mult = UINT32_MAX, .shift = 0,
			      .nsec = UINT64_MAX, .base = UINT64_MAX };
	uint64_t v = 3, w = 4, hi;

	(void)state;
	assert_int_equal(mono_raw_to_ns(&r, 0, &v), -ERANGE);
	assert_int_equal(mono_raw_to_ns(&r, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(mono_raw_to_cyc_range(&r, 0, &v, &hi), 0);
	r.shift = 32;
	r.mult = 1;
	assert_int_equal(mono_raw_to_cyc_range(&r, 0, &v, &hi), -ERANGE);
	r.last = r.base = r.nsec = 0;
	assert_int_equal(mono_raw_to_cyc_range(&r, UINT64_MAX, &w, &hi), -ERANGE);
	assert_int_equal(mono_raw_to_ns(&r, UINT64_MAX, &v), 0);
	assert_int_equal(v, UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_kvm_clock),
		cmocka_unit_test(test_inverse),
		cmocka_unit_test(test_any_record),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests_name("clock mono_raw", tests, NULL, NULL);
}
