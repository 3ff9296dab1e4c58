/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plant: makes a guest of the rig need what the host is slow with.
 *
 *   plant port MS          reads the clock's port, which QEMU emulates, again and again for MS
 *   plant touch FILE N MS  maps FILE and reads N of its pages, MS apart, each far from the others
 *   plant mark FILE TEXT   writes TEXT to FILE in one write, as a program to its trace_marker
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RTC_DATA 0x71
#define FAR	 (4u << 20) /* bytes: more than the host reads ahead or maps around */

static unsigned long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long long)ts.tv_sec * 1000 + (unsigned long long)ts.tv_nsec / 1000000;
}

static int port(unsigned long ms)
{
	unsigned long long end = now_ms() + ms;
	int fd = open("/dev/port", O_RDONLY | O_CLOEXEC), ret = fd < 0 ? -errno : 0;
	char c;

	while (!ret && now_ms() < end)
		if (pread(fd, &c, 1, RTC_DATA) != 1)
			ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

static int touch(const char *path, unsigned long n, unsigned long ms)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	volatile const char *p;

	if (fd < 0)
		return -errno;
	p = mmap(NULL, n * FAR, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -errno;
	for (unsigned long i = 0; i < n; i++) {
		(void)p[i * FAR];
		usleep((useconds_t)ms * 1000);
	}
	return 0;
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

int main(int argc, char **argv)
{
	int ret = -EINVAL;

	if (argc == 3 && !strcmp(argv[1], "port"))
		ret = port(strtoul(argv[2], NULL, 10));
	else if (argc == 5 && !strcmp(argv[1], "touch"))
		ret = touch(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	else if (argc == 4 && !strcmp(argv[1], "mark"))
		ret = mark(argv[2], argv[3]);
	if (ret)
		fprintf(stderr, "plant: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
