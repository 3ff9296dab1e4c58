/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_binary.c: which program a QEMU is, and which trace back ends it was built with, as far
 * as its file tells: QEMU has no command that says so.
 */
#include "internal.h"
#include "monitor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BINARY_MAX (1u << 30)

/* Texts that a back end brings into the program and nothing else does. */
static const struct {
	const char *backend, *text;
} marks[] = {
	{ "log", "trace:PATTERN" },	      /* a line of `-d help` */
	{ "simple", "trace-file" },	      /* the command of HMP */
	{ "ftrace", "trace_marker" },	      /* the file that it writes to */
	{ "syslog", "openlog" },	      /* the function of libc */
	{ "dtrace", ".note.stapsdt" },	      /* the section of its probes */
	{ "ust", "liblttng-ust" },	      /* the library */
};

static void add_backends(const char *p, size_t n, struct sbuf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (memmem(p, n, marks[i].text, strlen(marks[i].text)))
			sbuf_addf(out, "%s%s", out->len ? "," : "", marks[i].backend);
}

int mon_binary(const struct vm_roots *given, uint32_t pid, struct sbuf *path,
	       struct sbuf *backends)
{
	struct vm_roots roots = vm_roots_fill(given);
	_cleanup_close_ int procfd = vm_proc_open(&roots);
	_cleanup_close_ int fd = -1;
	char name[64], link[4096];
	struct stat st;
	ssize_t n;
	void *p;

	if (procfd < 0)
		return procfd;
	snprintf(name, sizeof(name), "%u/exe", pid);
	n = readlinkat(procfd, name, link, sizeof(link) - 1);
	if (n <= 0)
		return -errno;
	link[n] = '\0';
	sbuf_add(path, link);
	/* Through /proc, so that it is the file that runs, also when another has its name now. */
	fd = openat(procfd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || (uint64_t)st.st_size > BINARY_MAX)
		return -EFBIG;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	add_backends(p, (size_t)st.st_size, backends);
	munmap(p, (size_t)st.st_size);
	return path->error ? path->error : backends->error;
}
