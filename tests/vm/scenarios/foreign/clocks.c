// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints clocks of this machine as TSC:NS, each the best of many readings: CLOCK_MONOTONIC, _RAW and _REALTIME.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct reading {
	uint64_t tsc;
	int64_t ns;
};

static int64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The one of many readings that took the least, its TSC in the middle. */
static struct reading read_clock(clockid_t id)
{
	struct reading best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 2000; i++) {
		uint64_t before = __rdtsc();
		int64_t ns = clock_ns(id);
		uint64_t took = __rdtsc() - before;

		if (took < least) {
			least = took;
			best = (struct reading){ .tsc = before + took / 2, .ns = ns };
		}
	}
	return best;
}

int main(void)
{
	struct reading mono = read_clock(CLOCK_MONOTONIC);
	struct reading raw = read_clock(CLOCK_MONOTONIC_RAW);
	struct reading real = read_clock(CLOCK_REALTIME);

	printf("mono=%ju:%jd raw=%ju:%jd real=%ju:%jd\n", (uintmax_t)mono.tsc, (intmax_t)mono.ns,
	       (uintmax_t)raw.tsc, (intmax_t)raw.ns, (uintmax_t)real.tsc, (intmax_t)real.ns);
	return 0;
}
