/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_tsc.c - TSC offset and scaling against vectors and against themselves */
#include "clock_vectors.h"

#include "kvmft/clock.h"
#include "lib/kernel_params.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const uint64_t ratios48[] = {
	0, 1ULL << 48, 227682669269131ULL, 347976254708315ULL, 54129803213587ULL,
	3ULL << 47, (1ULL << 48) - 1, (1ULL << 48) + 1, 7, UINT64_MAX,
};

/* ---- vectors ---- */

static void check_kind(const struct vector *v)
{
	static const struct {
		const char *kind;
		unsigned int in, out;
	} known[] = {
		{ "ratio", 3, 1 }, { "tsc_fwd", 4, 1 }, { "tsc_inv", 4, 2 },
		{ "pv_params", 1, 2 }, { "pv_khz", 2, 1 }, { "pv_fwd", 5, 1 }, { "pv_inv", 5, 1 },
		{ "c2n_params", 1, 2 },
		{ "c2n_fwd", 4, 1 }, { "c2n_inv", 4, 1 }, { "raw_fwd", 6, 1 }, { "raw_inv", 6, 1 },
		{ "chain", 9, 2 },
	};
	size_t i;

	for (i = 0; i < LEN(known); i++)
		if (!strcmp(known[i].kind, v->kind))
			break;
	if (i == LEN(known))
		fail_msg("line %u: no test knows the kind %s", v->line, v->kind);
	assert_int_equal(v->n_in, known[i].in);
	assert_int_equal(v->n_out, known[i].out);
}

static void test_vectors_all_known(void **state)
{
	(void)state;
	assert_int_equal(vectors_each(NULL, check_kind), 2046);
}

static void ratio(const struct vector *v)
{
	uint64_t r = 0;

	assert_int_equal(tsc_ratio_from_khz(v->in[0], v->in[1], (uint8_t)v->in[2], &r), 0);
	vector_expect(v, "ratio", r, v->out[0]);
}

static struct tsc_map map_of(const uint64_t *in)
{
	return (struct tsc_map){ .offset = in[0], .ratio = in[1], .frac = (uint8_t)in[2] };
}

static void fwd(const struct vector *v)
{
	struct tsc_map m = map_of(v->in + 1);

	assert_int_equal(tsc_map_check(&m), 0);
	vector_expect(v, "guest", tsc_to_guest(&m, v->in[0]), v->out[0]);
}

static void inv(const struct vector *v)
{
	struct tsc_map m = map_of(v->in + 1);
	uint64_t lo = 0, hi = 0;

	assert_int_equal(tsc_to_host(&m, v->in[0], &lo, &hi), 0);
	vector_expect(v, "lo", lo, v->out[0]);
	vector_expect(v, "hi", hi, v->out[1]);
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("ratio", ratio), 24);
	assert_int_equal(vectors_each("tsc_fwd", fwd), 240);
	assert_int_equal(vectors_each("tsc_inv", inv), 246);
}

/* ---- rules ---- */

static void test_check(void **state)
{
	static const struct {
		struct tsc_map m;
		int err;
	} t[] = {
		{ { 0, 0, 0 }, 0 }, { { 5, 1, 0 }, 0 }, { { 0, 2, 0 }, -EINVAL },
		{ { 0, 0, 32 }, 0 }, { { 0, 0xffffffffffULL, 32 }, 0 },
		{ { 0, 0x10000000000ULL, 32 }, -ERANGE }, { { 0, UINT64_MAX, 48 }, 0 },
		{ { 0, 0, 47 }, -EINVAL }, { { 0, 0, 64 }, -EINVAL }, { { 0, 1, 255 }, -EINVAL },
	};
	size_t i;

	(void)state;
	for (i = 0; i < LEN(t); i++)
		assert_int_equal(tsc_map_check(&t[i].m), t[i].err);
}

static void test_unscaled(void **state)
{
	struct tsc_map none = { 7, 0, 0 }, one = { 7, 1, 0 }, svm = { 7, 1ULL << 32, 32 };
	struct tsc_map vmx = { 7, 1ULL << 48, 48 }, half = { 7, 1ULL << 47, 48 };
	struct tsc_map half32 = { 7, 1ULL << 31, 32 };
	uint64_t lo, hi;

	(void)state;
	assert_true(tsc_map_equal(&none, &one) && tsc_map_equal(&svm, &vmx));
	assert_false(tsc_map_equal(&none, &half));
	assert_false(tsc_map_equal(&half32, &half));	/* not promised to be found equal */
	assert_true(tsc_map_unscaled(&svm) && !tsc_map_unscaled(&half));
	assert_int_equal(tsc_to_guest(&one, UINT64_MAX), 6);
	assert_int_equal(tsc_to_host(&vmx, 6, &lo, &hi), 0);
	assert_int_equal(lo, UINT64_MAX);
	assert_int_equal(hi, UINT64_MAX);
}

/* The range is exactly the set of host TSCs that read the value. */
static void check_preimage(const struct tsc_map *m, uint64_t guest)
{
	uint64_t x = guest - m->offset, lo, hi;
	int err = tsc_to_host(m, guest, &lo, &hi);

	if (err) {
		/* even the largest host TSC reads less: (2^64 - 1) * ratio >> frac < x */
		assert_int_equal(err, -ERANGE);
		assert_true((((unsigned __int128)UINT64_MAX * m->ratio) >> m->frac) < x);
		return;
	}
	if (hi + 1 == lo && lo) {
		/* in 128 bits, where a ratio over one does not wrap */
		assert_true((((unsigned __int128)lo * m->ratio) >> m->frac) > x);
		assert_true((((unsigned __int128)(lo - 1) * m->ratio) >> m->frac) < x);
		return;
	}
	assert_true(lo <= hi);
	assert_int_equal(tsc_to_guest(m, lo), guest);
	assert_int_equal(tsc_to_guest(m, hi), guest);
	if (lo)
		assert_true(tsc_to_guest(m, lo - 1) != guest);
	if (hi != UINT64_MAX)
		assert_true(tsc_to_guest(m, hi + 1) != guest);
}

static void test_preimage(void **state)
{
	uint64_t seed = 1;
	size_t i;
	int k;

	(void)state;
	for (i = 0; i < LEN(ratios48); i++) {
		for (k = 0; k < 3000; k++) {
			struct tsc_map m = { prng(&seed), ratios48[i], 48 };
			uint64_t host = prng_any(&seed), lo, hi, guest = tsc_to_guest(&m, host);

			check_preimage(&m, prng(&seed));
			check_preimage(&m, m.offset + prng_any(&seed));
			/* beyond this the scaled value wraps, which the inverse does not consider */
			if (((unsigned __int128)host * m.ratio) >> 112)
				continue;
			assert_int_equal(tsc_to_host(&m, guest, &lo, &hi), 0);
			assert_true(lo <= host && host <= hi);
		}
	}
}

static void test_monotone(void **state)
{
	struct tsc_map m = { 0, 227682669269131ULL, 48 };
	uint64_t seed = 2;
	int k;

	(void)state;
	for (k = 0; k < 10000; k++) {
		uint64_t a = prng_any(&seed), b = a + prng(&seed) % 5, alo, ahi, blo, bhi;

		if (b < a)
			continue;
		assert_true(tsc_to_guest(&m, a) <= tsc_to_guest(&m, b));
		if (tsc_to_host(&m, b, &blo, &bhi) || a == b)
			continue;
		assert_int_equal(tsc_to_host(&m, a, &alo, &ahi), 0);
		assert_true(alo <= blo && ahi <= bhi);
		if (b == a + 1)		/* no gap, no overlap */
			assert_int_equal(ahi + 1, blo);
	}
}

static void test_out_of_range(void **state)
{
	struct tsc_map m = { 0, 1, 48 };
	uint64_t lo = 11, hi = 12;

	(void)state;
	assert_int_equal(tsc_to_host(&m, UINT64_MAX, &lo, &hi), -ERANGE);
	assert_int_equal(tsc_to_host(&m, 1ULL << 16, &lo, &hi), -ERANGE);
	assert_true(lo == 11 && hi == 12);
	/* the last value of all: its range is cut at the end of the host TSC */
	assert_int_equal(tsc_to_host(&m, (1ULL << 16) - 1, &lo, &hi), 0);
	assert_int_equal(lo, 0xffffULL << 48);
	assert_int_equal(hi, UINT64_MAX);
}

static void test_ratio_errors(void **state)
{
	uint64_t r = 1;

	(void)state;
	assert_int_equal(tsc_ratio_from_khz(1, 0, 48, &r), -EINVAL);
	assert_int_equal(tsc_ratio_from_khz(1, 1, 0, &r), -EINVAL);
	assert_int_equal(tsc_ratio_from_khz(1, 1, 200, &r), -EINVAL);
	assert_int_equal(tsc_ratio_from_khz(UINT64_MAX, 1, 48, &r), -ERANGE);
	assert_int_equal(r, 1);
	assert_int_equal(tsc_ratio_from_khz(UINT64_MAX, UINT64_MAX, 48, &r), 0);
	assert_int_equal(r, 1ULL << 48);
}

static void test_ns(void **state)
{
	static const uint64_t edge[] = { 0, 1, 999999, 18446744073709, 18446744073710, UINT64_MAX - 1,
					 UINT64_MAX };
	static const uint64_t rate[] = { 1, 2, 3, 1000000, 2596081, UINT32_MAX, (1ull << 44) - 1 };
	uint64_t seed = 3;

	(void)state;
	for (size_t k = 0; k < LEN(rate); k++)
		for (size_t i = 0; i < LEN(edge); i++)
			assert_int_equal(tsc_khz_divide(edge[i], rate[k], tsc_khz_inverse(rate[k])),
					 edge[i] / rate[k]);
	for (size_t i = 0; i < 300000; i++) {
		uint64_t khz = 1 + prng_any(&seed) % UINT32_MAX, inverse = tsc_khz_inverse(khz);
		uint64_t whole = prng_any(&seed) / khz * khz;

		assert_int_equal(tsc_khz_divide(whole, khz, inverse), whole / khz);
		assert_int_equal(tsc_khz_divide(whole - 1, khz, inverse), (whole - 1) / khz);
		whole = prng_any(&seed);
		assert_int_equal(tsc_khz_divide(whole, khz, inverse), whole / khz);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors_all_known),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_unscaled),
		cmocka_unit_test(test_preimage),
		cmocka_unit_test(test_monotone),
		cmocka_unit_test(test_out_of_range),
		cmocka_unit_test(test_ratio_errors),
		cmocka_unit_test(test_ns),
	};

	return cmocka_run_group_tests_name("clock tsc", tests, NULL, NULL);
}
