/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * oom.c: for LD_PRELOAD. Of what the program itself allocates, the OOM_AT-th is refused; without it, how many there
 * were is in the file of descriptor 9 at the end, which the program may close. What libraries allocate for themselves
 * is not touched. With NOTES_FAIL its standard error cannot be rewound.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static uintptr_t begin, end;
static unsigned long asked, at;
static char *told; /* SIZE bytes of the file */

#define SIZE 32

static int program(struct dl_phdr_info *i, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	for (int k = 0; k < i->dlpi_phnum; k++)
		if (i->dlpi_phdr[k].p_type == PT_LOAD) {
			begin = begin ? begin : i->dlpi_addr + i->dlpi_phdr[k].p_vaddr;
			end = i->dlpi_addr + i->dlpi_phdr[k].p_vaddr + i->dlpi_phdr[k].p_memsz;
		}
	return 1; /* the first one is the program */
}

static __attribute__((constructor)) void count(void)
{
	const char *s = getenv("OOM_AT");

	at = s ? strtoul(s, NULL, 10) : 0;
	dl_iterate_phdr(program, NULL);
	if (at || ftruncate(9, SIZE))
		return;
	told = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 9, 0);
	if (told == MAP_FAILED)
		told = NULL;
}

static __attribute__((destructor)) void tell(void)
{
	if (told)
		snprintf(told, SIZE, "%lu\n", asked);
}

static int refused(const void *from)
{
	if ((uintptr_t)from < begin || (uintptr_t)from >= end ||
	    __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) != at)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t n)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

off_t lseek(int fd, off_t offset, int whence)
{
	if (fd == STDERR_FILENO && whence == SEEK_SET && getenv("NOTES_FAIL")) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_lseek, fd, offset, whence);
}

off_t lseek64(int, off_t, int) __attribute__((alias("lseek")));

char *strdup(const char *s)
{
	char *copy = refused(__builtin_return_address(0)) ? NULL : __libc_malloc(strlen(s) + 1);

	return copy ? strcpy(copy, s) : NULL;
}
