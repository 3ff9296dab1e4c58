/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solvebench.c: what it costs to solve an offset, by what the stamps are like and how many there are.
 *
 *   solvebench EVENTS...
 *
 * prints for each kind (see lib/solve_load.h) and number the CPU time per event and what came out.
 */
#include <stdio.h>

#include "lib/solve_load.h"

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int measure(const char *kind, size_t events)
{
	struct tsc_map map = { 0 };
	struct solve_result r;
	struct solve *s;
	uint64_t begin;

	solve_new(&map, &s);
	if (solve_load(s, kind, events, 1))
		return 1;
	begin = cpu_ns();
	solve_run(s, SOLVE_ALL, &r);
	begin = cpu_ns() - begin;
	printf("  %-9s %8zu events: %6.0f ns per event, %s\n", kind, events, (double)begin / (double)events,
	       !r.found ? "cannot tell" : r.equal ? "several" : r.offset == SOLVE_LOAD_OFFSET ? "found" :
	       "found about");
	solve_free(s);
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t k = 0; solve_load_kind(k); k++)
		for (int i = 1; i < argc; i++)
			if (measure(solve_load_kind(k), strtoul(argv[i], NULL, 0)))
				return 1;
	return 0;
}
