/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracefs.c: finding (or mounting) tracefs, saying precisely why there is none, and reading
 * the files of its top level. The top level is only ever read; not by libtracefs, which opens by
 * path, as the confined recorder cannot, and takes files of any size.
 */

#include <sys/mount.h>
#include <sys/vfs.h>
#include <tracefs.h>

#include "kvmft/util.h"
#include "priv.h"

#define TRACEFS_FS_MAGIC 0x74726163 /* TRACEFS_MAGIC of linux/magic.h */
#define TRACEFS_HOME	 "/sys/kernel/tracing"

static const char *const tracefs_place[] = { TRACEFS_HOME, "/sys/kernel/debug/tracing" };

const char *kernel_lockdown(char *buf, size_t size)
{
	char line[128];

	if (file_read_line(AT_FDCWD, "/sys/kernel/security/lockdown", line, sizeof(line)) ||
	    ktext_chosen(line, buf, size) || !strcmp(buf, "none"))
		return NULL;
	return buf;
}

static int tracefs_use(struct ktracefs *t, const char *path, struct kvmft_err *err)
{
	int errnum;

	t->path = strdup(path);
	if (!t->path)
		return err_set(err, ENOMEM, "out of memory");
	t->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dirfd < 0) {
		errnum = errno;
		return err_lack(err, errnum, "cannot open %s: %s%s", path, strerror(errnum),
				errnum == EACCES ? " (run as root)" : "");
	}
	if (tracefs_set_tracing_dir(t->path))
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int tracefs_find(struct ktracefs *t, unsigned int flags, struct kvmft_err *err)
{
	const char *path = NULL;
	int got = -ENOENT, errnum;
	char mode[32];

	for (size_t i = 0; i < ARRAY_SIZE(tracefs_place) && !path; i++) {
		struct statfs st;
		/* Looking at the second is enough to make the kernel mount it there, if it can. */
		int looked = statfs(tracefs_place[i], &st) ? -errno : 0;

		if (!looked && (unsigned long)st.f_type == TRACEFS_FS_MAGIC)
			path = tracefs_place[i];
		else if (looked == -EACCES)
			got = looked;
	}
	if (path)
		got = 0;

	if (got == -EACCES)
		return err_lack(err, EACCES, "tracefs: Permission denied (run as root)");
	if (got && (flags & KTRACEFS_MOUNT)) {
		errnum = mount("nodev", TRACEFS_HOME, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			       NULL)
				 ? errno
				 : 0;
		if (errnum == ENODEV || errnum == ENOENT)
			return err_lack(err, ENOENT,
					"this kernel has no tracefs (CONFIG_TRACING), or "
					"/sys is not mounted");
		if (errnum)
			return err_lack(err, errnum, "cannot mount tracefs on %s: %s%s",
					TRACEFS_HOME, strerror(errnum),
					errnum == EPERM ? " (run as root)" : "");
		t->mounted = true;
		path = TRACEFS_HOME;
	}
	if (!path)
		return err_lack(err, ENOENT,
				"tracefs is not mounted (as root: mount -t tracefs nodev %s)",
				TRACEFS_HOME);
	got = tracefs_use(t, path, err);
	if (got || ktracefs_has(t, "trace_clock"))
		return got;
	/* Under lockdown=confidentiality tracefs mounts, but stays empty. */
	if (kernel_lockdown(mode, sizeof(mode)))
		return err_lack(err, EPERM,
				"%s is empty: the kernel is locked down (%s); boot "
				"without lockdown=%s",
				t->path, mode, mode);
	return err_lack(err, ENOENT, "%s has no trace_clock: this kernel was built without tracing",
			t->path);
}

int ktracefs_open(const char *dir, unsigned int flags, struct ktracefs **out, struct kvmft_err *err)
{
	struct ktracefs *t = calloc(1, sizeof(*t));
	int got;

	*out = NULL;
	if (!t)
		return err_set(err, ENOMEM, "out of memory");
	t->dirfd = -1;
	got = dir ? tracefs_use(t, dir, err) : tracefs_find(t, flags, err);
	if (got) {
		ktracefs_close(t);
		return got;
	}
	*out = t;
	return 0;
}

void ktracefs_close(struct ktracefs *t)
{
	if (!t)
		return;
	tracefs_set_tracing_dir(NULL);
	util_close_fd(&t->dirfd);
	free(t->path);
	free(t);
}

const char *ktracefs_path(const struct ktracefs *t)
{
	return t->path;
}

int ktracefs_dirfd(const struct ktracefs *t)
{
	return t->dirfd;
}

bool ktracefs_mounted(const struct ktracefs *t)
{
	return t->mounted;
}

bool kfile_exists(int dirfd, const char *file)
{
	struct stat st;

	return !fstatat(dirfd, file, &st, 0);
}

bool ktracefs_has(const struct ktracefs *t, const char *file)
{
	return kfile_exists(t->dirfd, file);
}

ssize_t ktracefs_read(const struct ktracefs *t, const char *file, size_t max, char **out)
{
	return file_read_all(t->dirfd, file, max, out);
}

int ktracefs_text(const struct ktracefs *t, const char *file, char **text)
{
	ssize_t got = ktracefs_read(t, file, KFILE_MAX, text);

	return got < 0 ? (int)got : 0;
}

/* ---- trace_clock ---- */

int ktracefs_clock_check(const struct ktracefs *t, const char *name, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(sbuf_free) struct sbuf list = { 0 };
	char *save, *word;
	int got = ktracefs_text(t, "trace_clock", &text);

	if (got)
		return err_why(err, got, "cannot read %s/trace_clock", t->path);
	for (word = strtok_r(text, " \t\n[]", &save); word;
	     word = strtok_r(NULL, " \t\n[]", &save)) {
		if (!strcmp(word, name))
			return 0;
		sbuf_addf(&list, "%s%s", list.len ? " " : "", word);
	}
	if (!strcmp(name, "x86-tsc"))
		return err_lack(err, EINVAL,
				"no trace clock x86-tsc: this is not an x86 kernel "
				"(it has: %s)",
				list.s ?: "");
	return err_lack(err, EINVAL, "this kernel has no trace clock %s (it has: %s)", name,
			list.s ?: "");
}

/*
 * ---- the one place that writes to the kernel, and the journal that undoes writes ----
 *
 * Not libtracefs: it opens by path, which the confined recorder cannot, knows no undo, and its
 * plain write truncates, which would empty a shared list such as kprobe_events.
 */

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

int knob_write(struct kjournal *j, int dirfd, const char *file, const char *text, const char *undo)
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
