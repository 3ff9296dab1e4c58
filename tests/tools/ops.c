/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops: the same operation again and again, for guests whose exits per operation are compared.
 *
 *   ops DISK MORE LENGTH STRETCHES
 *
 * An operation begins with a write to a port that no device has, of the number of the stretch of LENGTH operations that
 * it is in. It executes CPUID 12 to 20 times, works and sleeps a little, and reads a page of DISK. In each third stretch
 * each 20th executes CPUID MORE times besides. After so many stretches it ends.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PORT 0x5a0

static void exits(long n)
{
	unsigned int a, b, c, d;

	while (n-- > 0)
		__cpuid(0, a, b, c, d);
}

int main(int argc, char **argv)
{
	int fd = argc == 5 ? open(argv[1], O_RDONLY | O_DIRECT) : -1;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int port = open("/dev/port", O_WRONLY);
	unsigned int seed = 1;
	long more, length, all;

	if (fd < 0 || port < 0 || page == MAP_FAILED) {
		perror("ops");
		return 2;
	}
	more = atol(argv[2]);
	length = atol(argv[3]);
	all = length * atol(argv[4]);
	for (long n = 0; n < all; n++) {
		unsigned char stretch = (unsigned char)(n / length);

		if (pwrite(port, &stretch, 1, PORT) != 1)
			return 1;
		exits(12 + rand_r(&seed) % 9);
		if (n % 20 == 19 && stretch % 3 == 2)
			exits(more);
		for (volatile int i = 0; i < 20000; i++)
			;
		if (pread(fd, page, 4096, rand_r(&seed) % 8192 * 4096L) != 4096)
			return 1;
		usleep(500 + (useconds_t)rand_r(&seed) % 1000);
	}
	return 0;
}
