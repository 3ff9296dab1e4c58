/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cpus.c: lists of CPU numbers, as /sys/devices/system/cpu and per_cpu/ show them. */
#include "priv.h"

#include <ctype.h>
#include <fcntl.h>

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

static int parse_range(const char **s, struct kcpus *c)
{
	uint64_t from, to;
	int err = 0;

	if (!take_u64(s, KCPU_MAX, &from))
		return isdigit((unsigned char)**s) ? -ERANGE : -EINVAL;
	to = from;
	if (**s == '-' && (++*s, !take_u64(s, KCPU_MAX, &to)))
		return isdigit((unsigned char)**s) ? -ERANGE : -EINVAL;
	/* The kernel's lists ascend; anything else is not one. */
	if (to < from || (c->n && c->cpu[c->n - 1] >= from))
		return -EINVAL;
	for (; from <= to && !err; from++)
		err = cpus_add(c, (uint32_t)from);
	return err;
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
	_cleanup_dir_ DIR *dir = dir_open(k->dirfd, "per_cpu");
	struct dirent *e;
	int err = 0;

	*c = (struct kcpus){ 0 };
	if (!dir)
		return -errno;
	while (!err && (e = readdir(dir))) {
		const char *s = e->d_name + 3;
		uint64_t cpu;

		if (str_starts(e->d_name, "cpu") && take_u64(&s, KCPU_MAX, &cpu) && !*s)
			err = cpus_add(c, (uint32_t)cpu);
	}
	if (err)
		kcpus_free(c);
	else if (c->n)
		qsort(c->cpu, c->n, sizeof(c->cpu[0]), cpu_cmp);
	return err;
}
