/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * procs: processes of known behaviour, for guests of the rig.
 *
 *   procs SECONDS DISK
 *   procs NAME DISK
 *
 * Starts them all, each under a name of its own, ends them after that time, and prints "NAME US" for each: the CPU
 * time that the kernel counted for it and its children. With a name: becomes that one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *disk, *self;

static int64_t now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static void burn(int64_t us)
{
	int64_t end = now_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (now_us(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void duty(int64_t busy, int64_t idle)
{
	for (;;) {
		burn(busy);
		if (idle)
			usleep((useconds_t)idle);
	}
}

static void *all(void *arg)
{
	(void)arg;
	duty(1000, 0);
	return NULL;
}

static void half(void) { duty(10000, 10000); }
static void tenth(void) { duty(2000, 18000); }
static void sleeper(void) { duty(100, 20000); }

static void threads(void)
{
	pthread_t t;

	for (int i = 0; i < 2; i++)
		pthread_create(&t, NULL, all, NULL);
	duty(1000, 0);
}

static void reader(void)
{
	void *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open(disk, O_RDONLY | O_DIRECT);

	for (off_t at = 0;; at += 4096) {
		if (pread(fd, page, 4096, at % (32 << 20)) < 4096)
			exit(1);
		burn(300);
	}
}

static void memory(void)
{
	for (;;) {
		char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < 4 << 20; i += 4096)
			p[i] = 1;
		munmap(p, 4 << 20);
		usleep(10000);
	}
}

static void forks(void)
{
	for (;;) {
		pid_t pid = fork();

		if (!pid) {
			burn(3000);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* Becomes another program, which is this one, and does so again. */
static void execs(void)
{
	burn(150000);
	execl(self, self, "execs", disk, (char *)NULL);
	_exit(1);
}

/* Two that hand a byte to each other, without an exit where they share a CPU. */
static void pipes(void)
{
	int a[2], b[2];
	char c = 0;

	if (pipe(a) || pipe(b))
		exit(1);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "pong");
		while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1)
			;
		_exit(0);
	}
	for (;;) {
		if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1)
			exit(1);
		usleep(500);
	}
}

/* Two on CPUs of their own that wake each other: each waits for the other CPU. */
static void handoff(void)
{
	int a[2], b[2];
	bool second;
	cpu_set_t cpu;
	char c = 0;

	if (pipe(a) || pipe(b))
		exit(1);
	second = !fork();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&cpu);
	CPU_SET(second, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		exit(1);
	while (second ? read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1
		      : write(a[1], &c, 1) == 1 && read(b[0], &c, 1) == 1)
		burn(200);
	exit(1);
}

static void spin(void) { all(NULL); }

static const struct {
	const char *name;
	void (*run)(void);
	int nice;
} list[] = {
	{ "alpha", spin, 0 }, { "beta", spin, 5 }, { "threads", threads, 5 },	{ "half", half, 0 },
	{ "tenth", tenth, 0 }, { "sleeper", sleeper, 0 }, { "reader", reader, 0 }, { "memory", memory, 0 },
	{ "forks", forks, 0 }, { "execs", execs, 0 }, { "ping", pipes, 0 },
	/* not started with the others */
	{ "handoff", handoff, 0 },
};
#define N (sizeof(list) / sizeof(list[0]) - 1)

static void become(size_t i)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, list[i].name);
	if (setpriority(PRIO_PROCESS, 0, list[i].nice))
		_exit(1);
	list[i].run();
}

int main(int argc, char **argv)
{
	pid_t pid[N];

	if (argc != 3)
		return 2;
	self = argv[0];
	disk = argv[2];
	for (size_t i = 0; i <= N; i++)
		if (!strcmp(argv[1], list[i].name))
			become(i);
	for (size_t i = 0; i < N; i++) {
		pid[i] = fork();
		/* Without an exec: programs take seconds to load there. */
		if (!pid[i])
			become(i);
	}
	usleep((useconds_t)(atof(argv[1]) * 1000000));
	for (size_t i = 0; i < N; i++)
		kill(pid[i], SIGKILL);
	for (size_t i = 0; i < N; i++) {
		struct rusage u;
		int status;

		wait4(pid[i], &status, 0, &u);
		printf("%s %lld\n", list[i].name,
		       (long long)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
			       u.ru_stime.tv_usec);
		if (!WIFSIGNALED(status))
			return 1;
	}
	return 0;
}
