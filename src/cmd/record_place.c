/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record_place.c: where a recording goes. One named capture, or, for cron and timers, the next one
 * in a directory of its own (--output-dir), which one recorder at a time has to itself.
 */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#define DEFAULT_OUTPUT	"kvmft.data"
#define STAMPS_A_SECOND 100

int record_place_options(struct record_opts *o, struct kvmft_err *err)
{
	if (o->output && o->output_dir)
		return err_usage(err, "--output and --output-dir exclude each other");
	if (o->output_dir && !isatty(STDERR_FILENO))
		o->quiet = true;
	if (!o->keep_captures.set)
		return 0;
	if (!o->output_dir)
		return err_usage(err, "--keep-captures goes with --output-dir");
	if (!o->keep_captures.v)
		return err_usage(err, "--keep-captures 0 would remove the capture that is made");
	return 0;
}

/* Released when the descriptor is closed, so also when this process is killed. */
static int place_lock(struct record *r, const char *dir)
{
	if (!flock(r->place, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		return err_set(r->err, EBUSY,
			       "another kvmft still records into %s: nothing was recorded this time; "
			       "record for a shorter time, or less often", dir);
	return err_set(r->err, errno, "cannot lock %s: %s", dir, strerror(errno));
}

/* Before the new one is made: there are never more of them than asked for. */
static int place_prune(struct record *r)
{
	if (!r->o->keep_captures.set)
		return 0;
	return capw_stamp_prune(r->place, r->o->keep_captures.v - 1, NULL, r->err);
}

static int place_next(struct record *r, const char *dir)
{
	char name[CAPW_STAMP_SIZE];
	int64_t now = time(NULL);
	int ret = -EEXIST;

	for (unsigned int n = 0; ret == -EEXIST && n < STAMPS_A_SECOND; n++) {
		ret = capw_stamp_name(now, n, name, sizeof(name));
		if (ret)
			return err_set(r->err, -ret, "cannot name a capture by the time of the clock");
		ret = capw_create_at(r->place, dir, name, 0, &r->w, r->err);
	}
	if (!ret)
		r->err->text[0] = '\0'; /* of names that were taken */
	return ret;
}

/* A capture that --force replaces gives its room back first: then the drain itself sees what is left. */
static int output_named(struct record *r, const char *path)
{
	unsigned int flags = r->o->force ? CAPW_FORCE : 0;
	_cleanup_close_ int parent = -1;
	int ret = 0;

	if (!r->o->output)
		flags |= CAPW_ROTATE_OLD;
	if (!r->o->force) {
		parent = capw_parent_open(path, r->err);
		ret = parent < 0 ? parent : record_store_room(r, parent, path);
	}
	return ret ? ret : capw_create(path, flags, &r->w, r->err);
}

int record_output(struct record *r)
{
	_cleanup_free_ char *dir = NULL;
	int ret;

	if (!r->o->output_dir)
		return output_named(r, r->o->output ? r->o->output : DEFAULT_OUTPUT);
	dir = strdup(r->o->output_dir);
	if (!dir)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t len = strlen(dir); len > 1 && dir[len - 1] == '/'; len--)
		dir[len - 1] = '\0';
	r->place = capw_dir_open(dir, r->err);
	if (r->place < 0)
		return r->place;
	ret = place_lock(r, dir);
	ret = ret ? ret : place_prune(r);
	ret = ret ? ret : record_store_room(r, r->place, dir);
	return ret ? ret : place_next(r, dir);
}
