/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cntvct.c: in an arm64 guest, tells the host what the guest's counter is.
 *
 *   cntvct ADDRESS COUNT
 *
 * Stores the counter to an address where the guest has nothing, COUNT times, 1 ms apart. Each store is
 * an exit, and the value is in the host's event kvm_mmio: so the host's trace alone says between which
 * of its stamps the guest read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int mem = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	volatile uint64_t *at = MAP_FAILED;

	if (argc != 3)
		return 2;
	if (mem >= 0)
		at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mem,
			  (off_t)strtoull(argv[1], NULL, 0));
	if (at == MAP_FAILED) {
		fprintf(stderr, "cntvct: /dev/mem: %s\n", strerror(errno));
		return 1;
	}
	for (unsigned long n = strtoul(argv[2], NULL, 0); n; n--) {
		uint64_t v;

		nanosleep(&pause, NULL);
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(v) : : "memory");
		*at = v;
	}
	return 0;
}
