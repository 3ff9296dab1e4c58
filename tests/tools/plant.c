/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plant: makes guests of the rig late. In the guest it asks for things that the host is slow
 * with:
 *
 *   plant port MS              reads the clock's port, which QEMU emulates, again and again for MS
 *   plant cpuid MS             runs CPUID every 5 ms, for MS
 *   plant nap MS EVERY         sleeps for EVERY ms, again and again for MS
 *   plant read FILE MS NAP     reads the beginning of FILE every NAP ms, for MS
 *   plant touch FILE N MS LONG MARKER
 *                              maps FILE, and N times, MS apart, changes pages of the next Nth part of it, until
 *                              LONG ms have passed (0: only one page); writes "begin" and "end" to MARKER
 *   plant work MS N MARKER     works for about MS, N times, between such markers
 *   plant mark FILE TEXT       writes TEXT to FILE in one write, as a program to its trace_marker
 *   plant clock MARKER         writes "boot SECONDS", as it is then, ten times: what relates its clock to another one
 *
 * On the host it is in the guest's way:
 *
 *   plant flood MS N           floods the loopback network for MS, N times, MS apart. On stderr, "at SECONDS" for
 *                              each tells when it began, since boot
 *   plant pageout PID FILE     writes to swap what PID has mapped of FILE
 */
#include <arpa/inet.h>
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define RTC_DATA 0x71
#define PAGE	 4096u
#define PART_MIN (4u << 20) /* bytes: more than the host reads ahead or maps around */
#define FLOOD_PORT 9
#define LISTENERS 100 /* each gets a copy of every packet */

static unsigned long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000u + (unsigned long long)ts.tv_nsec;
}

static unsigned long long now_ms(void)
{
	return now_ns() / 1000000;
}

static void nap(unsigned long ms)
{
	usleep((useconds_t)ms * 1000);
}

static int mark(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* ---- in the guest ---- */

static int reads(const char *path, off_t at, size_t n, unsigned long ms, unsigned long every)
{
	unsigned long long end = now_ms() + ms;
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = fd < 0 ? -errno : 0;
	char buf[64];

	while (!ret && now_ms() < end) {
		if (pread(fd, buf, n, at) != (ssize_t)n)
			ret = -errno;
		if (every)
			nap(every);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

static int port(char **arg)
{
	return reads("/dev/port", RTC_DATA, 1, strtoul(arg[0], NULL, 10), 0);
}

static int read_file(char **arg)
{
	return reads(arg[0], 0, 4, strtoul(arg[1], NULL, 10), strtoul(arg[2], NULL, 10));
}

static int cpuids(char **arg)
{
	unsigned long long end = now_ms() + strtoul(arg[0], NULL, 10);
	unsigned int a, b, c, d;

	for (; now_ms() < end; nap(5))
		__cpuid(0, a, b, c, d);
	return 0;
}

static int naps(char **arg)
{
	unsigned long long end = now_ms() + strtoul(arg[0], NULL, 10);
	unsigned long every = strtoul(arg[1], NULL, 10);

	while (now_ms() < end)
		nap(every);
	return 0;
}

/* Fails if all pages were changed too early: what is planted would be too short. */
static int touch_for(volatile char *p, size_t len, unsigned long ms)
{
	unsigned long long end = now_ms() + ms;
	size_t at = 0;

	do {
		if (at >= len)
			return -ENOSPC;
		p[at]++;
		at += PAGE;
	} while (now_ms() < end);
	return 0;
}

static int touch(char **arg)
{
	unsigned long n = strtoul(arg[1], NULL, 10), ms = strtoul(arg[2], NULL, 10),
		      length = strtoul(arg[3], NULL, 10);
	int fd = open(arg[0], O_RDWR | O_CLOEXEC), ret = 0;
	volatile char *p;
	struct stat st;
	size_t part;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	part = n ? (size_t)st.st_size / n / PAGE * PAGE : 0;
	if (part < PART_MIN)
		return -EINVAL;
	p = mmap(NULL, n * part, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -errno;
	for (unsigned long i = 0; i < n && !ret; i++) {
		ret = mark(arg[4], "begin");
		if (!ret)
			ret = touch_for(p + i * part, part, length);
		if (!ret)
			ret = mark(arg[4], "end");
		nap(ms);
	}
	return ret;
}

static void rounds(unsigned long n)
{
	for (volatile unsigned long i = 0; i < n; i++)
		;
}

/* The shortest of some runs, in ns: the work without what else the machine does. */
static unsigned long long least(unsigned long n)
{
	unsigned long long best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		unsigned long long begin = now_ns(), took;

		rounds(n);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best;
}

static int work(char **arg)
{
	unsigned long ms = strtoul(arg[0], NULL, 10), n = strtoul(arg[1], NULL, 10), many = 1000;
	int ret = 0;

	while (least(many) < ms * 250000)
		many *= 2;
	many = (unsigned long)((unsigned long long)many * ms * 1000000 / least(many));
	for (unsigned long i = 0; i < n && !ret; i++) {
		ret = mark(arg[2], "begin");
		rounds(many);
		if (!ret)
			ret = mark(arg[2], "end");
		nap(20);
	}
	return ret;
}

static int mark_file(char **arg)
{
	return mark(arg[0], arg[1]);
}

static int clocks(char **arg)
{
	struct timespec ts;
	char text[64];
	int ret = 0;

	for (int i = 0; i < 10 && !ret; i++) {
		nap(5);
		clock_gettime(CLOCK_BOOTTIME, &ts);
		snprintf(text, sizeof(text), "boot %lld.%06ld", (long long)ts.tv_sec, ts.tv_nsec / 1000);
		ret = mark(arg[0], text);
	}
	return ret;
}

/* ---- on the host ---- */

static int loopback_up(int fd)
{
	struct ifreq r = { .ifr_name = "lo" };

	if (ioctl(fd, SIOCGIFFLAGS, &r))
		return -errno;
	r.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &r) ? -errno : 0;
}

/* Nobody reads the packets; those beyond the buffers are dropped. */
static int flood(char **arg)
{
	unsigned long ms = strtoul(arg[0], NULL, 10), n = strtoul(arg[1], NULL, 10);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(FLOOD_PORT) };
	int in[LISTENERS], out = socket(AF_INET, SOCK_DGRAM, 0), one = 1, ret;
	char text[64] = "";

	if (out < 0 || setsockopt(out, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)))
		return -errno;
	ret = loopback_up(out);
	for (int i = 0; i < LISTENERS && !ret; i++) {
		in[i] = socket(AF_INET, SOCK_DGRAM, 0);
		if (in[i] < 0 || setsockopt(in[i], SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		    bind(in[i], (struct sockaddr *)&to, sizeof(to)))
			ret = -errno;
	}
	to.sin_addr.s_addr = htonl(0x7fffffff); /* the loopback's broadcast */
	for (unsigned long i = 0; i < n && !ret; i++) {
		unsigned long long end = now_ms() + ms;
		struct timespec boot;

		clock_gettime(CLOCK_BOOTTIME, &boot);
		fprintf(stderr, "at %.6f\n", (double)boot.tv_sec + (double)boot.tv_nsec / 1e9);
		while (now_ms() < end)
			(void)sendto(out, text, sizeof(text), 0, (struct sockaddr *)&to, sizeof(to));
		nap(ms);
	}
	return ret;
}

/* The first call only marks pages as cold, so call it several times. */
static int pageout_range(int pid, void *begin, size_t len)
{
	struct iovec v = { begin, len };
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), ret = 0;

	if (fd < 0)
		return -errno;
	for (int i = 0; i < 4 && !ret; i++) {
		if (syscall(SYS_process_madvise, fd, &v, 1, MADV_PAGEOUT, 0) < 0)
			ret = -errno;
		nap(300);
	}
	close(fd);
	return ret;
}

static int pageout(char **arg)
{
	unsigned long from, to;
	char path[64], line[512];
	int ret = -ENOENT;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/maps", arg[0]);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (ret == -ENOENT && fgets(line, sizeof(line), f))
		if (strstr(line, arg[1]) && sscanf(line, "%lx-%lx ", &from, &to) == 2)
			ret = pageout_range(atoi(arg[0]), (void *)from, to - from);
	fclose(f);
	return ret;
}

static const struct {
	const char *name;
	int args;
	int (*run)(char **arg);
} plants[] = {
	{ "port", 1, port },	 { "cpuid", 1, cpuids },   { "nap", 2, naps },
	{ "read", 3, read_file }, { "touch", 5, touch },   { "work", 3, work },
	{ "mark", 2, mark_file }, { "flood", 2, flood },   { "pageout", 2, pageout },
	{ "clock", 1, clocks },
};

int main(int argc, char **argv)
{
	int ret = -EINVAL;

	for (size_t i = 0; argc > 1 && i < sizeof(plants) / sizeof(plants[0]); i++)
		if (!strcmp(argv[1], plants[i].name) && argc == plants[i].args + 2)
			ret = plants[i].run(argv + 2);
	if (ret)
		fprintf(stderr, "plant: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
