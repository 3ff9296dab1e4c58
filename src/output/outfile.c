/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outfile.c: new files of a reader, and the process that names them.
 *
 * That process, kvmft-output, gets only a number and the name of a guest for each file, and repeats
 * the checks that the reader has made in order to report to the user: the reader may have been
 * taken over.
 */
#include "kvmft/results.h"

#include <ctype.h>
#include <limits.h>
#include <poll.h>
#include <sys/prctl.h>

#define WRITE_MS 20

struct outfile {
	const char *path; /* of the command line */
	const char *base; /* its last step */
	bool force;
	int dir;
	int to, from; /* pipes to kvmft-output */
	struct newfile *file;
	size_t n;
};

/* One file is finished. */
struct request {
	uint32_t file;
	char name[NAME_MAX + 1]; /* of the guest; "" = none */
};

static char *name_beside(const char *base, const char *name)
{
	const char *dot = name ? strrchr(base, '.') : NULL;
	size_t stem = dot && dot != base ? (size_t)(dot - base) : strlen(base);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *text;

	sbuf_add_mem(&b, base, stem);
	if (name)
		sbuf_addc(&b, '-');
	for (; name && *name; name++)
		sbuf_addc(&b, isalnum((unsigned char)*name) || strchr("._-", *name) ? *name : '_');
	sbuf_add(&b, base + stem);
	text = xsbuf_take(&b);
	return text;
}

char *outfile_name(const struct outfile *o, const char *name)
{
	_cleanup_free_ char *base = name_beside(o->base, name);
	size_t dir = (size_t)(o->base - o->path);
	char *path = base ? xmalloc(dir + strlen(base) + 1) : NULL;

	if (!path)
		return NULL;
	memcpy(path, o->path, dir);
	strcpy(path + dir, base);
	return path;
}

/* ---- kvmft-output ---- */

static void close_files(struct outfile *o)
{
	for (size_t i = 0; i < o->n; i++)
		newfile_close(&o->file[i]);
}

static _Noreturn void keeper_main(struct outfile *o, int in, int out)
{
	int *keep = xmalloc((o->n + 3) * sizeof(*keep));
	struct pollfd p = { .fd = in, .events = POLLIN };
	struct request r;

	for (size_t i = 0; i < o->n; i++)
		keep[i] = o->file[i].fd;
	memcpy(keep + o->n, (const int[]){ in, out, o->dir }, 3 * sizeof(*keep));
	fds_keep(keep, o->n + 3);
	free(keep);
	memory_out_is(NULL, NULL); /* what the reader did not write yet is the reader's */
	(void)setsid(); /* a Ctrl-C is for the reader alone */
	(void)prctl(PR_SET_NAME, "kvmft-output");
	(void)prctl(PR_SET_DUMPABLE, 0);
	for (int sig = 1; sig < SIGRTMIN; sig++)
		(void)signal(sig, SIG_IGN);
	for (;;) {
		int ret;
		_cleanup_free_ char *base = NULL;
		unsigned int flags = o->force ? NEWFILE_REPLACE : 0;

		/* What replaces a file must be on the disk before it has its name. */
		while (o->force && !poll(&p, 1, WRITE_MS))
			for (size_t i = 0; i < o->n; i++)
				(void)sync_file_range(o->file[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		if (read(in, &r, sizeof(r)) != sizeof(r))
			break;
		if (r.file >= o->n) {
			ret = -EINVAL;
		} else {
			r.name[NAME_MAX] = '\0';
			base = name_beside(o->base, *r.name ? r.name : NULL);
			if (!faccessat(o->dir, base, F_OK, AT_SYMLINK_NOFOLLOW))
				flags |= NEWFILE_SYNC;
			ret = newfile_commit(&o->file[r.file], base, flags);
		}

		if (full_write(out, &ret, sizeof(ret), NULL))
			break;
	}
	close_files(o);
	_exit(0);
}

static int keeper_start(struct outfile *o)
{
	int end[2];
	pid_t pid = fork_piped(end);

	if (!pid)
		keeper_main(o, end[1], end[0]);
	o->to = end[0];
	o->from = end[1];
	if (pid < 0)
		return pid;
	/* They are its own now; ours are closed but not removed. */
	for (size_t i = 0; i < o->n; i++)
		o->file[i].temp[0] = '\0';
	return 0;
}

/* ---- the reader ---- */

/* 0, or why the file cannot get that name. */
static int cannot_create(const struct outfile *o, const char *base, const char *path, int ret,
			 struct kvmft_err *err)
{
	if (ret && newfile_check(o->dir, base, true) == -EINVAL)
		return err_set(err, EEXIST,
			       "cannot replace %s: it is not a plain file (-o - is "
			       "standard output, if the format allows it)",
			       path);
	return ret ? err_set(err, -ret, "cannot create %s: %s%s", path, strerror(-ret),
			     ret == -EEXIST ? " (use --force to replace it)" : "")
		   : 0;
}

int outfile_open(const char *path, bool force, size_t n, struct outfile **out,
		 struct kvmft_err *err)
{
	struct outfile *o;
	int ret;

	*out = NULL;
	if (!path)
		return 0;
	*out = o = xcalloc(1, sizeof(*o));
	*o = (struct outfile){ .path = path, .force = force, .to = -1, .from = -1 };
	o->dir = capw_file_parent_open(o->path, &o->base, err);
	if (o->dir < 0)
		return o->dir;
	o->file = xcalloc(n, sizeof(*o->file));
	for (o->n = 0; o->n < n; o->n++)
		o->file[o->n] = (struct newfile){ .dir = o->dir, .fd = -1 };
	ret = newfile_check(o->dir, o->base, o->force);
	for (size_t i = 0; i < o->n && !ret; i++)
		ret = newfile_open(&o->file[i], o->dir, 0600);
	ret = cannot_create(o, o->base, o->path, ret, err);
	if (ret)
		return ret;
	ret = keeper_start(o);
	return ret ? err_why(err, ret, "cannot start the process that names %s", o->path) : 0;
}

const char *outfile_path(const struct outfile *o)
{
	return o->path;
}

int outfile_fd(const struct outfile *o, size_t i)
{
	return o->file[i].fd;
}

static int check_input(const struct outfile *o, const char *base, const char *path,
		       const char *input, struct kvmft_err *err)
{
	if (!file_is_part(o->dir, base, input))
		return 0;
	return err_set(err, EEXIST, "%s is, or is in, %s, which is being read: choose another "
	                            "name", path,
		       input);
}

int outfile_check(const struct outfile *o, const char *name, const struct timeline *t,
		  const char *extra, struct kvmft_err *err)
{
	_cleanup_free_ char *path = NULL, *base = NULL;
	int ret = 0;

	if (!o)
		return 0;
	path = outfile_name(o, name);
	base = name_beside(o->base, name);
	for (size_t i = 0; i < tl_sources(t) && !ret; i++)
		ret = check_input(o, base, path, tl_source(t, i)->cap->path, err);
	if (!ret && extra)
		ret = check_input(o, base, path, extra, err);
	if (ret)
		return ret;
	return cannot_create(o, base, path, newfile_check(o->dir, base, o->force), err);
}

int outfile_commit(struct outfile *o, size_t i, const char *name, struct kvmft_err *err)
{
	_cleanup_free_ char *path = NULL, *base = NULL;
	struct request r = { .file = (uint32_t)i };
	int done;

	if (!o)
		return 0;
	path = outfile_name(o, name);
	if (name && strlen(name) >= sizeof(r.name))
		return err_why(err, ENAMETOOLONG, "cannot create %s", path);
	if (name)
		strcpy(r.name, name);
	/* Not -EPIPE, which is said of a reader who has seen enough. */
	if (full_write(o->to, &r, sizeof(r), NULL) ||
	    read(o->from, &done, sizeof(done)) != sizeof(done))
		return err_set(err, EIO, "cannot create %s: kvmft-output, which names it, was "
				         "killed", path);
	base = name_beside(o->base, name);
	return cannot_create(o, base, path, done, err);
}

void outfile_close(struct outfile *o)
{
	char end;

	if (!o)
		return;
	util_close_fd(&o->to);
	/* Waits until it has removed what is not complete. */
	while (o->from >= 0 && read(o->from, &end, 1) < 0 && errno == EINTR)
		;
	util_close_fd(&o->from);
	close_files(o);
	free(o->file);
	util_close_fd(&o->dir);
	free(o);
}
