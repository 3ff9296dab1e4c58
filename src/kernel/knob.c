/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * knob.c: the one place that writes to the kernel, and the journal that undoes writes. Not
 * libtracefs: it opens by path, which the confined recorder cannot, knows no undo, and its plain
 * write truncates, which would empty a shared list such as kprobe_events.
 */
#include "priv.h"

static void entry_free(struct kjournal_entry *e)
{
	free(e->file);
	free(e->undo);
}

static void journal_drop(struct kjournal *j, size_t i)
{
	entry_free(&j->v[i]);
	j->n--;
	memmove(&j->v[i], &j->v[i + 1], (j->n - i) * sizeof(j->v[0]));
}

int knob_write(struct kjournal *j, int dirfd, const char *file, const char *text,
	       const char *undo)
{
	int err;

	if (j && undo) {
		struct kjournal_entry *e = array_grow(&j->v, j->n, &j->cap, sizeof(*e));

		if (!e)
			return -ENOMEM;
		e->dirfd = dirfd;
		e->file = strdup(file);
		e->undo = strdup(undo);
		if (!e->file || !e->undo) {
			entry_free(e);
			return -ENOMEM;
		}
		j->n++;
	}
	err = file_write_text(dirfd, file, text);
	if (err && j && undo)
		journal_drop(j, j->n - 1); /* nothing happened, so there is nothing to undo */
	return err;
}

int kjournal_undo(struct kjournal *j, const char *undo)
{
	for (size_t i = j->n; i-- > 0;) {
		int err;

		if (undo && strcmp(j->v[i].undo, undo))
			continue;
		err = file_write_text(j->v[i].dirfd, j->v[i].file, j->v[i].undo);
		if (!err)
			journal_drop(j, i);
		return err;
	}
	return -ENOENT;
}

int kjournal_close(struct kjournal *j)
{
	int first = 0;

	while (j->n) {
		int err = kjournal_undo(j, NULL);

		if (err) {
			first = first ?: err;
			journal_drop(j, j->n - 1);
		}
	}
	free(j->v);
	*j = (struct kjournal){ 0 };
	return first;
}
