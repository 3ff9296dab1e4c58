/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * splice_loop: the least that a recorder can do, as the measure of ours: a thread per CPU that
 * splices trace_pipe_raw of an instance through a pipe into a file, until SIGINT.
 *
 *   splice_loop [--own] INSTANCE DIR NCPU SUBBUF
 *
 * --own: it also makes the instance, with a ring of 8 MiB per CPU, the clock x86-tsc and all events of
 * kvm, and in the end switches them off and removes it, like a recorder that starts from nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int put(const char *instance, const char *file, const char *text)
{
	char path[4096];
	int fd, bad;

	snprintf(path, sizeof(path), "%s/%s", instance, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return 1;
	bad = write(fd, text, strlen(text)) < 0;
	close(fd);
	return bad;
}

static int make(const char *instance, const char *subbuf)
{
	char kb[16];

	snprintf(kb, sizeof(kb), "%d", atoi(subbuf) / 1024);
	if (mkdir(instance, 0700) || put(instance, "tracing_on", "0"))
		return 1;
	(void)put(instance, "buffer_subbuf_size_kb", kb);
	return put(instance, "buffer_size_kb", "8192") || put(instance, "trace_clock", "x86-tsc") ||
	       put(instance, "events/kvm/enable", "1") || put(instance, "tracing_on", "1");
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	bool own = argc > 1 && !strcmp(argv[1], "--own");
	static struct cpu cpu[MAX_CPUS];
	char path[4096];
	sigset_t set;
	int n;

	argc -= own;
	argv += own;
	n = argc == 5 ? atoi(argv[3]) : 0;
	if (n < 1 || n > MAX_CPUS || (own && make(argv[1], argv[4])))
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
		close(cpu[i].src);
	}
	return own && (put(argv[1], "events/kvm/enable", "0") || rmdir(argv[1]));
}
