/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * switches.c: two processes that only wake each other, on one CPU.
 *
 *   switches TURNS
 *
 * Begins when a line comes. Each turn is two switches and two wake-ups. Prints the CPU time of both
 * in ns for each switch.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long used(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000ll +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000ll;
}

int main(int argc, char **argv)
{
	long turns = argc > 1 ? atol(argv[1]) : 0;
	int to[2], from[2];
	cpu_set_t one;
	char c = 0;
	pid_t pid;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (turns < 1 || sched_setaffinity(0, sizeof(one), &one) || pipe(to) || pipe(from))
		return 1;
	pid = fork();
	if (pid < 0 || (pid && read(0, &c, 1) != 1))
		return 1;
	for (long i = 0; i < turns; i++)
		if (pid ? write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1
			: read(to[0], &c, 1) != 1 || write(from[1], &c, 1) != 1)
			return 1;
	if (!pid)
		return 0;
	waitpid(pid, NULL, 0);
	printf("%lld\n", (used(RUSAGE_SELF) + used(RUSAGE_CHILDREN)) / (2 * turns));
	return 0;
}
