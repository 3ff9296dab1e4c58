/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu.c: measures a command: runs it, discards its output, and prints its CPU time (user and
 * system) in us and its peak resident memory in KB; with --wall also the elapsed time in us.
 *
 *   cpu [--wall] COMMAND [ARGUMENT...]
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long us(struct timeval t)
{
	return t.tv_sec * 1000000ll + t.tv_usec;
}

int main(int argc, char **argv)
{
	bool wall = argc > 1 && !strcmp(argv[1], "--wall");
	struct timespec from, to;
	struct rusage use;
	int status;
	pid_t pid;

	argv += wall;
	if (argc - wall < 2)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &from);
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null >= 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2)
			execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) != pid)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%lld %ld", us(use.ru_utime) + us(use.ru_stime), use.ru_maxrss);
	if (wall)
		printf(" %lld", (to.tv_sec - from.tv_sec) * 1000000ll + (to.tv_nsec - from.tv_nsec) / 1000);
	putchar('\n');
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
