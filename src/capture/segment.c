/* SPDX-License-Identifier: GPL-2.0-or-later */
/* segment.c: the directories segNNNNNN of a capture being written, and what becomes of old ones. */
#include "kvmft/stream.h"
#include "reader.h"

#include <fcntl.h>
#include <sys/stat.h>

void capw_removed_close(struct capw_removed *x)
{
	for (size_t i = 0; i < x->n; i++)
		close(x->fd[i]);
	free(x->fd);
	*x = (struct capw_removed){ 0 };
}

/*
 * Keeps a file open that is about to be unlinked. Without a free descriptor, the unlink frees it at
 * once, which is slow.
 */
static void hold_open(int dirfd, const char *name, struct capw_removed *x)
{
	int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && array_add(&x->fd, &x->n, &x->cap, &fd, sizeof(fd)))
		close(fd);
}

/* Unlinks the data files; anything else was not made by us and stays. */
static int unlink_data(DIR *dir, uint64_t *freed, struct capw_removed *x)
{
	struct dirent *e;
	struct stat st;
	int ret = 0;

	while ((e = readdir(dir))) {
		if (strncmp(e->d_name, "cpu", 3) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		hold_open(dirfd(dir), e->d_name, x);
		if (!unlinkat(dirfd(dir), e->d_name, 0))
			*freed += (uint64_t)st.st_size;
		else if (!ret)
			ret = -errno;
	}
	closedir(dir);
	return ret;
}

static void segment_name(char *buf, size_t size, unsigned int segment)
{
	snprintf(buf, size, "seg%06u", segment);
}

int capw_segment_make(const struct capw *w, unsigned int segment)
{
	const struct stream_head h = { .type = STREAM_SEGMENT, .segment = segment };
	char name[32];

	if (capw_stream(w))
		return stream_out_put(capw_stream(w), &h, NULL, 0);
	segment_name(name, sizeof(name), segment);
	return mkdirat(capw_dirfd(w), name, 0700) && errno != EEXIST ? -errno : 0;
}

int capw_segment_remove(struct capw *w, unsigned int segment, uint64_t *freed,
			struct capw_removed *x)
{
	char name[32];
	DIR *dir;
	int ret;

	*freed = 0;
	segment_name(name, sizeof(name), segment);
	dir = dir_open(capw_dirfd(w), name);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	ret = unlink_data(dir, freed, x);
	if (!ret && unlinkat(capw_dirfd(w), name, AT_REMOVEDIR))
		ret = -errno;
	return ret;
}

int capw_kept_add(struct capw_kept *k, uint32_t segment, const char *by)
{
	const uint8_t none = 0;
	uint8_t i = 0, *was;

	/* Names without end, of a hostile sender, share the last place. */
	while (i < CAPW_ORIGINS - 1 && strcmp(k->of[i].name, by) && (!i || k->of[i].name[0]))
		i++;
	if (i && !k->of[i].name[0])
		snprintf(k->of[i].name, sizeof(k->of[i].name), "%s", by);
	while (k->n <= segment)
		if (array_add(&k->origin, &k->n, &k->cap, &none, sizeof(none)))
			return -ENOMEM;
	was = &k->origin[segment];
	if (*was)
		k->of[*was - 1].count--;
	*was = i + 1;
	k->of[i].count++;
	k->of[i].oldest = MIN(k->of[i].oldest, segment);
	return 0;
}

bool capw_kept_over(struct capw_kept *k, uint64_t own, uint64_t others, uint32_t *segment)
{
	uint64_t total = 0;
	size_t most = 0;

	for (size_t i = 0; i < CAPW_ORIGINS; i++) {
		while (k->of[i].count && k->origin[k->of[i].oldest] != i + 1)
			k->of[i].oldest++;
		total += i ? k->of[i].count : 0;
		if (i && (!most || k->of[i].count > k->of[most].count ||
			  (k->of[i].count == k->of[most].count &&
			   k->of[i].oldest < k->of[most].oldest)))
			most = i;
	}
	if (k->of[0].count > own)
		most = 0;
	else if (total <= others)
		return false;
	*segment = k->of[most].oldest;
	k->origin[*segment] = 0;
	k->of[most].count--;
	return true;
}

void capw_kept_free(struct capw_kept *k)
{
	free(k->origin);
	k->origin = NULL;
}
