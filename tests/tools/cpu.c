/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpu.c: what a command costs: runs it with its output thrown away and prints its CPU time in us (user
 * and system) and its highest resident memory in KB.
 *
 *   cpu COMMAND [ARGUMENT...]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long us(struct timeval t)
{
	return t.tv_sec * 1000000ll + t.tv_usec;
}

int main(int argc, char **argv)
{
	struct rusage use;
	int status;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null >= 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2)
			execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) != pid)
		return 1;
	printf("%lld %ld\n", us(use.ru_utime) + us(use.ru_stime), use.ru_maxrss);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
