/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_pvclock.c - kvmclock against vectors, its inverse against brute force */
#include "clock_vectors.h"

#include "kvmft/clock.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- vectors ---- */

static void params(const struct vector *v)
{
	uint32_t mul = 0;
	int8_t shift = 0;

	assert_int_equal(pvclock_params_from_khz((uint32_t)v->in[0], &mul, &shift), 0);
	vector_expect(v, "mul", mul, v->out[0]);
	vector_expect(v, "shift", (uint64_t)(int64_t)shift, v->out[1]);
}

static void khz(const struct vector *v)
{
	uint64_t k = 0;

	assert_int_equal(pvclock_khz((uint32_t)v->in[0], (int8_t)(int64_t)v->in[1], &k), 0);
	vector_expect(v, "khz", k, v->out[0]);
}

static struct pvclock record_of(const struct vector *v)
{
	return (struct pvclock){
		.tsc_timestamp = v->in[1], .system_time = v->in[2],
		.mul = (uint32_t)v->in[3], .shift = (int8_t)(int64_t)v->in[4],
	};
}

static void fwd(const struct vector *v)
{
	struct pvclock pv = record_of(v);
	uint64_t ns = 0;

	vector_expect(v, "return value", (uint64_t)pvclock_to_ns(&pv, v->in[0], &ns), 0);
	vector_expect(v, "ns", ns, v->out[0]);
}

static void inv(const struct vector *v)
{
	struct pvclock pv = record_of(v);
	uint64_t lo = 0, hi = 0, ns = 0;

	vector_expect(v, "return value",
		      (uint64_t)pvclock_to_tsc_range(&pv, v->in[0], &lo, &hi), 0);
	vector_expect(v, "lo", lo, v->out[0]);
	assert_int_equal(pvclock_to_ns(&pv, lo, &ns), 0);
	vector_expect(v, "range not empty", hi >= lo, ns == v->in[0]);
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("pv_params", params), 65);
	assert_int_equal(vectors_each("pv_khz", khz), 65);
	assert_int_equal(vectors_each("pv_fwd", fwd), 320);
	assert_int_equal(vectors_each("pv_inv", inv), 517);
}

/* ---- rules ---- */

static void test_check(void **state)
{
	struct pvclock pv = { .version = 2, .mul = 1, .shift = -31 }, other;
	uint64_t x = 5;

	(void)state;
	assert_int_equal(pvclock_check(&pv), 0);
	pv.shift = 31;
	assert_int_equal(pvclock_check(&pv), 0);
	pv.shift = 32;
	assert_int_equal(pvclock_check(&pv), -EDOM);
	pv.shift = INT8_MIN;
	assert_int_equal(pvclock_check(&pv), -EDOM);
	assert_int_equal(pvclock_to_ns(&pv, 0, &x), -EDOM);
	assert_int_equal(pvclock_to_tsc_range(&pv, 0, &x, &x), -EDOM);
	pv.mul = 0;
	assert_int_equal(pvclock_check(&pv), -EINVAL);
	assert_int_equal(pvclock_to_ns(&pv, 0, &x), -EINVAL);
	assert_int_equal(pvclock_to_tsc_range(&pv, 0, &x, &x), -EINVAL);
	pv.version = 3;
	assert_int_equal(pvclock_check(&pv), -EAGAIN);
	pv.version = 0;
	assert_int_equal(pvclock_check(&pv), -ENODATA);
	assert_int_equal(x, 5);

	other = pv;
	other.version = 8;
	other.flags = PVCLOCK_GUEST_STOPPED;
	assert_true(pvclock_same_body(&pv, &other));
	other.shift++;
	assert_false(pvclock_same_body(&pv, &other));
}

static void test_range_errors(void **state)
{
	struct pvclock pv = { .tsc_timestamp = 1ULL << 40, .system_time = 1000,
			      .mul = 1U << 31, .shift = 0 };
	uint64_t x = 5, y = 6;

	(void)state;
	/* 2000 cycles are 1000 ns: back to zero and not further */
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp - 2001, &x), 0);
	assert_int_equal(x, 0);
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp - 2002, &x), -ERANGE);
	/* half the range of the TSC and no more */
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + INT64_MAX, &x), 0);
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + INT64_MAX + 1, &x), -ERANGE);
	pv.system_time = UINT64_MAX;
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + 1, &x), 0);
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + 2, &x), -ERANGE);
	assert_int_equal(pvclock_to_tsc_range(&pv, 0, &x, &y), -ERANGE);
	assert_int_equal(pvclock_to_tsc_range(&pv, UINT64_MAX, &x, &y), 0);
	assert_int_equal(x, pv.tsc_timestamp - 1);
	assert_int_equal(y, pv.tsc_timestamp + 1);
	/* before guest TSC zero */
	pv.system_time = 1ULL << 50;
	assert_int_equal(pvclock_to_tsc_range(&pv, 0, &x, &y), -ERANGE);
	/* shift out of the top */
	pv.shift = 31;
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + (1ULL << 33) - 1, &x), 0);
	assert_int_equal(pvclock_to_ns(&pv, pv.tsc_timestamp + (1ULL << 33), &x), -EOVERFLOW);
	assert_int_equal(pvclock_to_tsc_range(&pv, UINT64_MAX, &x, &y), -EOVERFLOW);
	/* extremes of everything at once */
	pv = (struct pvclock){ .tsc_timestamp = 0, .system_time = 0, .mul = 1, .shift = -31 };
	assert_int_equal(pvclock_to_tsc_range(&pv, UINT64_MAX, &x, &y), -ERANGE);
	pv = (struct pvclock){ .tsc_timestamp = UINT64_MAX, .system_time = UINT64_MAX, .mul = 1,
			       .shift = -31 };
	assert_int_equal(pvclock_to_tsc_range(&pv, 0, &x, &y), -ERANGE);
	pv.mul = UINT32_MAX;
	pv.shift = 31;
	assert_int_equal(pvclock_to_ns(&pv, 0, &x), -ERANGE);
}

/* lo and hi are the edges of the set of TSCs that read ns, found by looking beside them. */
static void check_inverse(const struct pvclock *pv, uint64_t ns)
{
	uint64_t lo, hi, v;
	int err = pvclock_to_tsc_range(pv, ns, &lo, &hi);

	if (err) {
		assert_true(err == -ERANGE || err == -EOVERFLOW);
		return;
	}
	if (!pvclock_to_ns(pv, lo, &v))
		assert_true(hi + 1 == lo ? v > ns : v == ns);
	if (lo && !pvclock_to_ns(pv, lo - 1, &v))
		assert_true(v < ns);
	if (hi != UINT64_MAX && !pvclock_to_ns(pv, hi + 1, &v))
		assert_true(v > ns);
	if (hi >= lo && !pvclock_to_ns(pv, hi, &v))
		assert_int_equal(v, ns);
	if (pv->shift <= 0)
		assert_true(hi >= lo);
}

static void test_inverse(void **state)
{
	uint64_t seed = 4, tsc, ns, next;
	int k;

	(void)state;
	for (k = 0; k < 60000; k++) {
		struct pvclock pv = {
			.tsc_timestamp = prng_any(&seed), .system_time = prng_any(&seed),
			.mul = (uint32_t)prng(&seed) | (k % 2 ? 1U << 31 : 1),
			.shift = (int8_t)(int)(prng(&seed) % (k % 3 ? 7 : 63)),
		};

		pv.shift = (int8_t)(pv.shift - (k % 3 ? 3 : 31));
		check_inverse(&pv, prng_any(&seed));
		check_inverse(&pv, pv.system_time + prng(&seed) % 8 - 4);
		tsc = pv.tsc_timestamp + prng(&seed) % 4096 - 2048;
		if (pvclock_to_ns(&pv, tsc, &ns))
			continue;
		check_inverse(&pv, ns);
		if (tsc != UINT64_MAX && !pvclock_to_ns(&pv, tsc + 1, &next))
			assert_true(next >= ns);
	}
}

static void test_params_round_trip(void **state)
{
	uint64_t seed = 5, back;
	uint32_t mul;
	int8_t shift;
	int k;

	(void)state;
	assert_int_equal(pvclock_params_from_khz(0, &mul, &shift), -EINVAL);
	assert_int_equal(pvclock_khz(0, 0, &back), -EINVAL);
	assert_int_equal(pvclock_khz(1, -32, &back), -EDOM);
	assert_int_equal(pvclock_khz(1, INT8_MIN, &back), -EDOM);
	assert_int_equal(pvclock_khz(1, -31, &back), -ERANGE);
	for (k = 0; k < 20000; k++) {
		uint32_t f = (uint32_t)prng_between(&seed, 500000, 6000000);

		assert_int_equal(pvclock_params_from_khz(f, &mul, &shift), 0);
		assert_true(mul >> 31);			/* full precision */
		assert_int_equal(pvclock_khz(mul, shift, &back), 0);
		assert_true(back <= f && f - back < 8);
	}
	assert_int_equal(pvclock_params_from_khz(1, &mul, &shift), 0);
	assert_int_equal(pvclock_params_from_khz(UINT32_MAX, &mul, &shift), 0);
}

/* One-second drift of the parameters stays under the half ppb that is claimed for them. */
static void test_params_precision(void **state)
{
	static const uint32_t f[] = { 1000000, 2596146, 2494140, 3792873, 4000001, 5199999 };
	struct pvclock pv = { 0 };
	uint64_t ns;
	size_t i;

	(void)state;
	for (i = 0; i < LEN(f); i++) {
		assert_int_equal(pvclock_params_from_khz(f[i], &pv.mul, &pv.shift), 0);
		assert_int_equal(pvclock_to_ns(&pv, f[i] * 1000000ULL, &ns), 0);
		assert_true(ns >= 1000000000000ULL - 500 && ns <= 1000000000000ULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_range_errors),
		cmocka_unit_test(test_inverse),
		cmocka_unit_test(test_params_round_trip),
		cmocka_unit_test(test_params_precision),
	};

	return cmocka_run_group_tests_name("clock pvclock", tests, NULL, NULL);
}
