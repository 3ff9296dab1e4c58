/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_binary.c: which program a QEMU is, of which version, and with which trace back ends it
 * was built. QEMU has no command for the latter, so its file and its process are examined.
 */
#include "kvmft/qemu.h"
#include "kvmft/vm.h"

#include <sys/mman.h>

#define BINARY_MAX  (1u << 30)
#define MAPS_MAX    (4u << 20)
#define VERSION_MAX 200
#define PATIENCE_MS 200

/* The head of `qemu-system-x86_64 --version`. */
static const char version_mark[] = "QEMU emulator version ";

/* Texts that only this back end brings into the program. */
static const struct {
	const char *backend, *text;
} marks[] = {
	{ "log", "trace:PATTERN" },   /* a line of `-d help` */
	{ "simple", "trace-file" },   /* the command of HMP */
	{ "ftrace", "trace_marker" }, /* the file that it writes to */
	{ "syslog", "openlog" },      /* the function of libc */
};
static void add_backend(struct mon_program *m, const char *backend, const char *how)
{
	sbuf_addf(&m->backends, "%s%s", m->backends.len ? "," : "", backend);
	sbuf_addf(&m->found, "%s%s:%s", m->found.len ? "," : "", backend, how);
}
static void look_at_file(const char *p, size_t n, struct mon_program *m)
{
	/* A note of provider qemu: "stapsdt", three addresses, the provider's name. */
	static const char owner[] = "stapsdt", provider[] = "qemu";
	const size_t at = sizeof(owner) + 3 * sizeof(uint64_t), whole = at + sizeof(provider);
	const char *v = memmem(p, n, version_mark, strlen(version_mark)), *end = p + n, *q = p;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (memmem(p, n, marks[i].text, strlen(marks[i].text)))
			add_backend(m, marks[i].backend, "text");
	while ((q = memmem(q, (size_t)(end - q), owner, sizeof(owner))) &&
	       (size_t)(end - q) >= whole && memcmp(q + at, provider, sizeof(provider)))
		q++;
	if (q && (size_t)(end - q) >= whole)
		add_backend(m, "dtrace", "note");
	if (v) {
		v += sizeof(version_mark) - 1;
		for (size_t left = (size_t)(p + n - v), i = 0; i < left && i < VERSION_MAX; i++) {
			if ((unsigned char)v[i] < ' ')
				break;
			sbuf_addc(&m->version, v[i]);
		}
		if (m->version.s)
			str_printable(m->version.s);
	}
}

int mon_program_read(uint32_t pid, struct mon_program *m)
{
	_cleanup_close_ int procfd = vm_proc_open(NULL);
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *maps = NULL;
	unsigned int patience = PATIENCE_MS;
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
	sbuf_add(&m->path, link);
	/*
	 * Through /proc, so that it is the running file, even if another has its name now. One that
	 * others can change may end while it is read, or be as large as they like.
	 */
	snprintf(name, sizeof(name), "/proc/%u/exe", pid);
	fd = file_open_regular(name, true);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || (uint64_t)st.st_size > BINARY_MAX)
		return -EFBIG;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	look_at_file(p, (size_t)st.st_size, m);
	munmap(p, (size_t)st.st_size);
	/* LTTng's may also be loaded later */
	if (vm_proc_memory(procfd, pid, "maps", MAPS_MAX, &patience, &maps) >= 0 &&
	    strstr(maps, "/liblttng-ust.so"))
		add_backend(m, "ust", "library");
	return m->path.error ?: m->backends.error;
}

void mon_program_free(struct mon_program *m)
{
	sbuf_free(&m->path);
	sbuf_free(&m->version);
	sbuf_free(&m->backends);
	sbuf_free(&m->found);
}
