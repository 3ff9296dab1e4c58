/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inst_read.c: what can be read from an instance of our own: descriptors to drain it, its counters,
 * its settings, and who has it open. Below the instance's descriptor, not with libtracefs, because
 * the confined recorder cannot use paths.
 */
#include "priv.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>

#include "kvmft/util.h"

#define HOLDERS_MAX 5

const char *kinst_name(const struct kinst *k)
{
	return k->name;
}

const char *kinst_clock(const struct kinst *k)
{
	return k->clock;
}

uint32_t kinst_subbuf_size(const struct kinst *k)
{
	return k->subbuf_size;
}

uint64_t kinst_buffer_kb(const struct kinst *k)
{
	return k->buffer_kb;
}

int kinst_dirfd(const struct kinst *k)
{
	return k->dirfd;
}

ssize_t kinst_read(const struct kinst *k, const char *file, size_t max, char **out)
{
	return file_read_all(k->dirfd, file, max, out);
}

int kinst_raw_open(struct kinst *k, uint32_t cpu, bool nonblock, struct kvmft_err *err)
{
	char path[64];
	int fd, got;

	snprintf(path, sizeof(path), "per_cpu/cpu%" PRIu32 "/trace_pipe_raw", cpu);
	fd = openat(k->dirfd, path, O_RDONLY | O_CLOEXEC | (nonblock ? O_NONBLOCK : 0));
	if (fd >= 0)
		return fd;
	got = errno;
	return err_why(err, got, "cannot open %s/%s", k->name, path);
}

/* ---- per_cpu/cpuN/stats ---- */

/* "now ts: 1234567" (cycles) or "now ts: 12.345678" (a clock of ns). 0 = not there. */
static uint64_t stats_time(const char *text, const char *name, uint64_t *step)
{
	const char *p = strstr(text, name);
	unsigned long long whole, micro = 0;
	char *end;

	*step = 0;
	if (!p)
		return 0;
	p += strlen(name);
	errno = 0;
	whole = strtoull(p, &end, 10);
	if (errno || end == p)
		return 0;
	*step = 1;
	if (*end != '.')
		return whole;
	micro = strtoull(end + 1, NULL, 10);
	*step = 1000;
	if (__builtin_mul_overflow(whole, 1000000ull, &whole) ||
	    __builtin_add_overflow(whole, micro, &whole) ||
	    __builtin_mul_overflow(whole, 1000ull, &whole))
		whole = 0;
	return whole;
}

int kstats_parse(const char *text, struct kstats *s)
{
	const struct {
		const char *name;
		uint64_t *v;
		bool needed;
	} field[] = {
		{ "entries", &s->entries, true },
		{ "overrun", &s->overrun, true },
		{ "commit overrun", &s->commit_overrun, false },
		{ "bytes", &s->bytes, false },
		{ "dropped events", &s->dropped, false },
		{ "read events", &s->read, true },
	};
	uint64_t step;

	*s = (struct kstats){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		int err = ktext_number(text, field[i].name, field[i].v);

		if (err && (field[i].needed || err != -ENOENT))
			return err == -ENOENT ? -EINVAL : err;
	}
	s->oldest = stats_time(text, "\noldest event ts:", &step);
	s->now = stats_time(text, "\nnow ts:", &s->now_step);
	return 0;
}

int kinst_stats(const struct kinst *k, uint32_t cpu, struct kstats *s, char **text)
{
	_cleanup_free_ char *got = NULL;
	ssize_t n;
	int err = 0;

	if (text)
		*text = NULL;
	n = kinst_read(k, TEXTF("per_cpu/cpu%" PRIu32 "/stats", cpu), KFILE_MAX, &got);
	if (n < 0)
		return (int)n;
	if (s)
		err = kstats_parse(got, s);
	if (!err && text) {
		*text = got;
		got = NULL;
	}
	return err;
}

/* ---- who has it open ---- */

/* Does a link of this process lead into the instance, under whatever mount point? */
static bool process_holds(int procfd, const char *pid, const char *name)
{
	_cleanup_dir_ DIR *dir = dir_open(procfd, TEXTF("%s/fd", pid));
	const char *want = TEXTF("/instances/%s/", name);
	struct dirent *e;
	bool found = false;
	char link[512];

	while (dir && !found && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		found = strstr(link, want) != NULL;
	}
	return found;
}

void kinst_holders(const char *name, struct sbuf *b)
{
	_cleanup_dir_ DIR *dir = dir_open(AT_FDCWD, "/proc");
	unsigned int found = 0;
	struct dirent *e;

	while (dir && found < HOLDERS_MAX && (e = readdir(dir))) {
		char comm[64] = "?";

		if (!isdigit((unsigned char)e->d_name[0]) ||
		    !process_holds(dirfd(dir), e->d_name, name))
			continue;
		if (file_read_line(dirfd(dir), TEXTF("%s/comm", e->d_name), comm, sizeof(comm)))
			strcpy(comm, "?");
		str_printable(comm);
		sbuf_addf(b, "%s%s %s", b->len ? ", " : "", e->d_name, comm);
		found++;
	}
}
