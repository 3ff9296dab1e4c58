/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ioreads: reads a disk, past the page cache, each time into memory of its own that nothing else touches.
 *
 *   ioreads DISK COUNT BYTES STRIDE PAGES
 *
 * Writes to file PAGES, line by line, the addresses in this machine's physical memory that will be read into. When
 * its standard input ends it reads: COUNT times BYTES, STRIDE apart. Prints a line "NUMBER BEFORE AFTER" for each: the
 * TSC before and after the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE	  4096u
#define COUNT_MAX 10000u
#define PRESENT	  (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap.rst */
#define FRAME	  ((UINT64_C(1) << 55) - 1)

static int fail(const char *what)
{
	fprintf(stderr, "ioreads: %s: %s\n", what, strerror(errno));
	return 1;
}

static int tell_pages(const char *path, const char *buf, size_t size)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	FILE *f = fopen(path, "w");

	if (fd < 0 || !f)
		return fail("pagemap");
	for (size_t at = 0; at < size; at += PAGE) {
		uint64_t entry;

		if (pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)(buf + at) / PAGE * 8)) != 8 ||
		    !(entry & PRESENT) || !(entry & FRAME))
			return fail("no page frame is told");
		fprintf(f, "%" PRIx64 "\n", (entry & FRAME) * PAGE);
	}
	close(fd);
	return fclose(f) ? fail(path) : 0;
}

int main(int argc, char **argv)
{
	static uint64_t stamp[COUNT_MAX][2];
	size_t count, bytes, stride;
	char *buf, end;
	int fd;

	if (argc != 6)
		return 2;
	count = strtoul(argv[2], NULL, 0);
	bytes = strtoul(argv[3], NULL, 0);
	stride = strtoul(argv[4], NULL, 0);
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0 || !count || count > COUNT_MAX || !bytes || bytes % PAGE)
		return fail(argv[1]);
	buf = mmap(NULL, count * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED || mlock(buf, count * bytes))
		return fail("memory");
	memset(buf, 0x5a, count * bytes);
	if (tell_pages(argv[5], buf, count * bytes))
		return 1;
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
	for (size_t i = 0; i < count; i++) {
		stamp[i][0] = __rdtsc();
		if (pread(fd, buf + i * bytes, bytes, (off_t)(i * stride)) != (ssize_t)bytes)
			return fail("pread");
		stamp[i][1] = __rdtsc();
	}
	for (size_t i = 0; i < count; i++)
		printf("%zu %" PRIu64 " %" PRIu64 "\n", i, stamp[i][0], stamp[i][1]);
	return 0;
}
