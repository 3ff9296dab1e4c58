/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ticker: a constant load for as long as it runs: sleeps, and works a little at each wake-up.
 *
 *   ticker US
 *
 * Every US it executes CPUID a few times, which exits on any machine.
 */
#include <cpuid.h>
#include <stdlib.h>
#include <time.h>

#define TIMES 4

int main(int argc, char **argv)
{
	long us = argc > 1 ? atol(argv[1]) : 0;
	const struct timespec nap = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	unsigned int a, b, c, d;

	if (us <= 0)
		return 2;
	for (;;) {
		for (int i = 0; i < TIMES; i++)
			__cpuid(0, a, b, c, d);
		nanosleep(&nap, NULL);
	}
}
