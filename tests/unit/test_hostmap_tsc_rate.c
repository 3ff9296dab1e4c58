/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_hostmap_tsc_rate.c: tests of src/hostmap/tsc_rate.c: that the frequency comes back which KVM computed records
 * and ratios from, and that nonsense does not.
 */
#include "clock_vectors.h"

#include "kvmft/hostmap.h"
#include "lib/kernel_params.h"

static void test_pvclock(void **state __unused_arg)
{
	uint64_t seed = 1;

	for (unsigned int i = 0; i < 200000; i++) {
		uint64_t khz = prng_between(&seed, i % 2 ? 400000 : 1000, i % 2 ? 6000000 : 20000000);
		struct tsc_rate r;
		uint32_t mul;
		int8_t shift;

		assert_int_equal(pvclock_params_from_khz((uint32_t)khz, &mul, &shift), 0);
		assert_true(tsc_rate_of_pvclock(mul, shift, &r));
		assert_int_equal(r.khz, khz);
		assert_int_equal(r.min, khz);
		assert_int_equal(r.max, khz);
		assert_int_equal(tsc_rate_ppm(&r), 0);
	}
}

static void test_scaled(void **state __unused_arg)
{
	uint64_t seed = 2;

	for (unsigned int i = 0; i < 100000; i++) {
		uint64_t host = prng_between(&seed, 400000, 6000000), guest;
		uint64_t user = prng_between(&seed, 400000, 6000000);
		struct tsc_map map = { .frac = i % 2 ? 48 : 32 };
		struct tsc_rate r, g;
		uint32_t mul;
		int8_t shift;

		assert_int_equal(tsc_ratio_from_khz(user, host, map.frac, &map.ratio), 0);
		guest = (uint64_t)((unsigned __int128)host * map.ratio >> map.frac);
		assert_int_equal(pvclock_params_from_khz((uint32_t)guest, &mul, &shift), 0);
		assert_true(tsc_rate_of_pvclock(mul, shift, &g));
		assert_true(tsc_rate_of_guest(&g, &map, &r));
		assert_in_range(host, r.min, r.max);
		/* a kHz of the guest's either way, in those of the host */
		assert_true(r.max - r.min <= 2 * host / user + 3);
		assert_false(r.supposed);
	}
}

static void test_nonsense(void **state __unused_arg)
{
	struct tsc_rate r, g = { 0 };
	uint64_t seed = 3;

	assert_false(tsc_rate_of_pvclock(0, 0, &r));
	assert_false(tsc_rate_of_guest(&g, NULL, &r));
	for (unsigned int i = 0; i < 200000; i++) {
		uint32_t mul = (uint32_t)prng_between(&seed, 0, UINT32_MAX);
		int8_t shift = (int8_t)prng_between(&seed, 0, 255);
		struct tsc_map map = { .ratio = prng_between(&seed, 0, UINT32_MAX) << i % 33,
				       .frac = (uint8_t)prng_between(&seed, 0, 70) };

		if (!tsc_rate_of_pvclock(mul, shift, &g))
			continue;
		assert_true(g.min && g.min <= g.khz && g.khz <= g.max && g.max <= UINT32_MAX);
		assert_true(tsc_rate_of_guest(&g, NULL, &r));
		assert_true(r.supposed);
		if (tsc_rate_of_guest(&g, &map, &r))
			assert_true(r.min && r.min <= r.khz && r.khz <= r.max && r.max <= UINT32_MAX);
	}
}

static void test_use(void **state __unused_arg)
{
	struct capture cap = { .clock = (char *)(uintptr_t)"x86-tsc", .has_tsc2nsec = true };
	struct tsc_rate r = { 0 };

	tsc_rate_use(&cap, &r);
	assert_true(cap.tsc_khz == 0 && !cap.tsc_khz_source && cap.has_tsc2nsec);
	r = (struct tsc_rate){ .source = TSC_RATE_READINGS, .khz = 1000000, .min = 999000, .max = 1001000 };
	assert_int_equal(tsc_rate_ppm(&r), 1000);
	tsc_rate_use(&cap, &r);
	assert_string_equal(cap.tsc_khz_source, "readings of CLOCK_MONOTONIC_RAW");
	tsc_rate_said(&cap, &r);
	assert_true(r.source == TSC_RATE_CAPTURE && r.min == 999000 && r.max == 1001000);
	assert_true(cap.has_tsc2nsec);
	r = (struct tsc_rate){ .source = TSC_RATE_GIVEN, .khz = 5, .min = 5, .max = 5 };
	tsc_rate_use(&cap, &r);
	assert_true(cap.tsc_khz == 5 && !cap.has_tsc2nsec);
	free(cap.tsc_khz_source);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pvclock),
		cmocka_unit_test(test_scaled),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
