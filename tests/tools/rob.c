/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rob: takes CPU time from others, and prints how much.
 *
 *   rob stop PID MS TIMES      stops a process for MS, TIMES times
 *   rob busy NAME CPU MS TIMES is busy on CPU for MS, TIMES times, before all others there (SCHED_FIFO)
 *
 * In between it sleeps for twice as long. The only line is "sum_us=N longest_us=N": for stop from before
 * SIGSTOP to after SIGCONT, for busy while it was. On stderr, "at SECONDS" for each tells when it began, since boot.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "kvmft/util.h"

static uint64_t now_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static void nap(uint64_t us)
{
	struct timespec ts = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000) };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int stop(pid_t pid, uint64_t us, uint64_t *took)
{
	uint64_t begin = now_us(CLOCK_MONOTONIC);

	if (kill(pid, SIGSTOP))
		return -errno;
	nap(us);
	if (kill(pid, SIGCONT))
		return -errno;
	*took = now_us(CLOCK_MONOTONIC) - begin;
	return 0;
}

static void busy(uint64_t us, uint64_t *took)
{
	uint64_t begin = now_us(CLOCK_MONOTONIC);

	do
		*took = now_us(CLOCK_MONOTONIC) - begin;
	while (*took < us);
}

static int be_thief(const char *name, const char *cpu)
{
	struct sched_param param = { .sched_priority = 1 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(strtoul(cpu, NULL, 10) % CPU_SETSIZE, &set);
	if (prctl(PR_SET_NAME, name) || sched_setaffinity(0, sizeof(set), &set) ||
	    sched_setscheduler(0, SCHED_FIFO, &param))
		return -errno;
	return 0;
}

int main(int argc, char **argv)
{
	bool stops = argc == 5 && !strcmp(argv[1], "stop");
	uint64_t us, times, sum = 0, longest = 0;
	int ret;

	if (!stops && (argc != 6 || strcmp(argv[1], "busy"))) {
		fputs("usage: rob stop PID MS TIMES | rob busy NAME CPU MS TIMES\n", stderr);
		return 2;
	}
	us = strtoul(argv[argc - 2], NULL, 10) * 1000;
	times = strtoul(argv[argc - 1], NULL, 10);
	ret = stops ? 0 : be_thief(argv[2], argv[3]);
	for (uint64_t i = 0; i < times && !ret; i++) {
		uint64_t took = 0, at;

		nap(us * 2);
		at = now_us(CLOCK_BOOTTIME);
		if (stops)
			ret = stop((pid_t)strtoul(argv[2], NULL, 10), us, &took);
		else
			busy(us, &took);
		fprintf(stderr, "at %.6f\n", (double)at / 1e6);
		sum += took;
		longest = MAX(longest, took);
	}
	if (ret) {
		fprintf(stderr, "rob: %s\n", strerror(-ret));
		return 1;
	}
	printf("sum_us=%llu longest_us=%llu\n", (unsigned long long)sum, (unsigned long long)longest);
	return 0;
}
