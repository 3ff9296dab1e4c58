/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cputime COMMAND...: runs it without its output and prints its CPU time (children included) and its
 * wall time in microseconds. SIGINT is passed on.
 *
 * cputime --mark FILE: appends the time since boot in microseconds as a line.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t child;

static void pass_on(int sig)
{
	if (child > 0)
		kill(child, sig);
}

static long long us(struct timeval t)
{
	return t.tv_sec * 1000000ll + t.tv_usec;
}

static int mark(const char *path)
{
	FILE *f = fopen(path, "a");
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return !f || fprintf(f, "%lld\n", t.tv_sec * 1000000ll + t.tv_nsec / 1000) < 0 || fclose(f);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = pass_on };
	struct timespec a, b;
	struct rusage ru;
	int status;

	if (argc < 2)
		return 2;
	if (argc == 3 && !strcmp(argv[1], "--mark"))
		return mark(argv[2]);
	clock_gettime(CLOCK_MONOTONIC, &a);
	child = fork();
	if (!child) {
		int null = open("/dev/null", O_WRONLY);

		signal(SIGINT, SIG_DFL); /* a shell's background job would have it ignored */
		dup2(null, 1);
		dup2(null, 2);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	sigaction(SIGINT, &sa, NULL);
	while (wait4(child, &status, 0, &ru) < 0)
		;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%lld %lld\n", us(ru.ru_utime) + us(ru.ru_stime),
	       (b.tv_sec - a.tv_sec) * 1000000ll + (b.tv_nsec - a.tv_nsec) / 1000);
	return 0;
}
