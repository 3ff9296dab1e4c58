/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpus.c: lists of CPU numbers, as /sys/devices/system/cpu and per_cpu/ show them.
 */
#include "priv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define KCPU_MAX 8191 /* the kernel's own NR_CPUS limit is 8192 */

static const char *const cpu_file[] = {
	[KCPU_POSSIBLE] = "/sys/devices/system/cpu/possible",
	[KCPU_PRESENT] = "/sys/devices/system/cpu/present",
	[KCPU_ONLINE] = "/sys/devices/system/cpu/online",
};

static int cpus_add(struct kcpus *c, uint32_t cpu)
{
	return array_add(&c->cpu, &c->n, &c->cap, &cpu, sizeof(cpu));
}

void kcpus_free(struct kcpus *c)
{
	free(c->cpu);
	*c = (struct kcpus){ 0 };
}

/* Digits at *s, which moves behind them. */
static int number(const char **s, uint32_t *v)
{
	uint32_t n = 0;

	if (!isdigit((unsigned char)**s))
		return -EINVAL;
	for (; isdigit((unsigned char)**s); (*s)++) {
		n = n * 10 + (uint32_t)(**s - '0');
		if (n > KCPU_MAX)
			return -ERANGE;
	}
	*v = n;
	return 0;
}

static int parse_range(const char **s, struct kcpus *c)
{
	uint32_t from, to;
	int err = number(s, &from);

	if (err)
		return err;
	to = from;
	if (**s == '-') {
		(*s)++;
		err = number(s, &to);
		if (err)
			return err;
	}
	/* The kernel's lists ascend; anything else is not one. */
	if (to < from || (c->n && c->cpu[c->n - 1] >= from))
		return -EINVAL;
	for (; from <= to; from++) {
		err = cpus_add(c, from);
		if (err)
			return err;
	}
	return 0;
}

int kcpus_parse(const char *text, struct kcpus *c)
{
	int err;

	*c = (struct kcpus){ 0 };
	for (;;) {
		err = parse_range(&text, c);
		if (err || *text != ',')
			break;
		text++;
	}
	if (*text == '\n')
		text++;
	if (!err && *text)
		err = -EINVAL;
	if (err)
		kcpus_free(c);
	return err;
}

int kcpus_read(enum kcpu_set set, struct kcpus *c)
{
	_cleanup_free_ char *text = NULL;
	ssize_t got = file_read_all(AT_FDCWD, cpu_file[set], KFILE_MAX, &text);

	*c = (struct kcpus){ 0 };
	return got < 0 ? (int)got : kcpus_parse(text, c);
}

COMPARE_BY(cpu_cmp, uint32_t, );

int kinst_cpus(const struct kinst *k, struct kcpus *c)
{
	int fd = openat(k->dirfd, "per_cpu", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *e;
	DIR *dir;
	int err = 0;

	*c = (struct kcpus){ 0 };
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err && (e = readdir(dir))) {
		const char *s = e->d_name + 3;
		uint32_t cpu;

		if (str_starts(e->d_name, "cpu") && !number(&s, &cpu) && !*s)
			err = cpus_add(c, cpu);
	}
	closedir(dir);
	if (err)
		kcpus_free(c);
	else if (c->n)
		qsort(c->cpu, c->n, sizeof(c->cpu[0]), cpu_cmp);
	return err;
}
