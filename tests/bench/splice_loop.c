/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * splice_loop: the least that a recorder can do, as the measure of ours: a thread per CPU that
 * splices trace_pipe_raw of an instance through a pipe into a file, until SIGINT.
 *
 *   splice_loop INSTANCE DIR NCPU SUBBUF
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_CPUS 256

struct cpu {
	pthread_t thread;
	int src, dst, pipe[2];
	size_t batch;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void *loop(void *arg)
{
	struct cpu *c = arg;

	while (!stop) {
		ssize_t n = splice(c->src, NULL, c->pipe[1], NULL, c->batch, SPLICE_F_MOVE);

		while (n > 0) {
			ssize_t put = splice(c->pipe[0], NULL, c->dst, NULL, (size_t)n, SPLICE_F_MOVE);

			if (put <= 0)
				return NULL;
			n -= put;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	static struct cpu cpu[MAX_CPUS];
	int n = argc == 5 ? atoi(argv[3]) : 0;
	char path[4096];
	sigset_t set;

	if (n < 1 || n > MAX_CPUS)
		return 2;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/trace_pipe_raw", argv[1], i);
		cpu[i].src = open(path, O_RDONLY | O_CLOEXEC);
		snprintf(path, sizeof(path), "%s/cpu%d", argv[2], i);
		cpu[i].dst = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (cpu[i].src < 0 || cpu[i].dst < 0 || pipe2(cpu[i].pipe, O_CLOEXEC))
			return 1;
		(void)fcntl(cpu[i].pipe[1], F_SETPIPE_SZ, 1 << 20);
		cpu[i].batch = (size_t)fcntl(cpu[i].pipe[1], F_GETPIPE_SZ) / 4096 * (size_t)atoi(argv[4]);
		if (pthread_create(&cpu[i].thread, NULL, loop, &cpu[i]))
			return 1;
	}
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	while (!stop)
		pause();
	for (int i = 0; i < n; i++) {
		pthread_kill(cpu[i].thread, SIGUSR1);
		pthread_join(cpu[i].thread, NULL);
	}
	return 0;
}
