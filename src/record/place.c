/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * place.c: where a recording goes. One named capture, or, for cron and timers, the next one in a
 * directory (--output-dir) that one recorder at a time has to itself.
 *
 * The recorder itself can do nothing there once it records. The watcher gives the capture its name,
 * and removes old ones when it is complete.
 */
#include "record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>

#define DEFAULT_OUTPUT	"kvmft.data"
#define STAMPS_A_SECOND 100

int record_place_options(struct record_config *c, struct kvmft_err *err)
{
	if (c->output && c->output_dir)
		return err_usage(err, "--output and --output-dir exclude each other");
	if (c->output_dir && !isatty(STDERR_FILENO))
		c->quiet = true;
	if (!c->keep_captures.set)
		return 0;
	if (!c->output_dir)
		return err_usage(err, "--keep-captures goes with --output-dir");
	if (!c->keep_captures.v)
		return err_usage(err, "--keep-captures 0 would remove the new capture");
	return 0;
}

/* Released when the descriptor is closed, so also when this process is killed. */
static int place_lock(struct record *r, const char *dir)
{
	if (!flock(r->place.dir, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		return err_set(
			r->err, EBUSY,
			"another kvmft still records into %s: nothing was recorded this time; "
			"record for a shorter time, or less often",
			dir);
	return err_why(r->err, errno, "cannot lock %s", dir);
}

/* ---- room ---- */

static uint64_t free_bytes(int dir)
{
	struct statvfs vfs;

	return fstatvfs(dir, &vfs) ? UINT64_MAX : (uint64_t)vfs.f_bavail * vfs.f_frsize;
}

/*
 * What the new capture may take: as much as it is allowed, or a quarter more than the last one. If
 * there is no room for it, old captures that would be removed at its end are removed now.
 */
static int room_by_pruning(struct record *r, uint64_t least)
{
	const char *now = r->place.name.name;
	uint64_t usual = r->c->max_size.set ? r->c->max_size.v
					    : capw_stamp_usage(r->place.dir, now) / 4 * 5;
	const uint64_t want[] = { MAX(least, r->c->min_free.v + usual), least };
	uint64_t have = free_bytes(r->place.dir);
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(want) && !ret; i++)
		ret = have >= want[i] ? 1 : capw_stamp_room(r->place.dir, now,
							    r->c->keep_captures.v - 1,
							    want[i] - have, r->err);
	return MIN(ret, 0);
}

/* --min-free: is there any room above it? */
static int place_room(struct record *r)
{
	uint64_t least = r->c->min_free.v + RECORD_LEAST_ROOM, have;
	char size[32];
	int ret = r->c->keep_captures.set ? room_by_pruning(r, least) : 0;

	have = free_bytes(r->place.dir);
	if (ret || !r->c->min_free.set || have >= least)
		return ret;
	return err_set(r->err, ENOSPC,
		       "nothing was recorded: %s are free where %s%s is, which leaves no room "
		       "above --min-free",
		       str_bytes(size, sizeof(size), have), r->place.shown,
		       r->c->output_dir ? "" : r->place.name.name);
}

/* ---- the name ---- */

static int name_by_time(struct record *r)
{
	char name[CAPW_STAMP_SIZE];
	int64_t now = time(NULL);
	int ret = -EEXIST;

	for (unsigned int n = 0; ret == -EEXIST && n < STAMPS_A_SECOND; n++) {
		ret = capw_stamp_name(now, n, name, sizeof(name));
		if (ret)
			return err_set(r->err, -ret,
				       "cannot name a capture by the time of the clock");
		ret = capw_name_init(&r->place.name, r->place.dir, r->place.shown, name,
				     CAPW_REFUSE, r->err);
	}
	if (!ret)
		r->err->text[0] = '\0'; /* of names that were taken */
	return ret;
}

static int open_named(struct record *r)
{
	const char *path = r->c->output ?: DEFAULT_OUTPUT;
	enum capw_old old = r->c->force ? CAPW_REPLACE : r->c->output ? CAPW_REFUSE : CAPW_ROTATE;
	_cleanup_free_ char *base = NULL;

	r->place.shown = capw_parent_shown(path);
	if (!r->place.shown)
		return err_set(r->err, ENOMEM, "out of memory");
	r->place.dir = capw_parent_open(path, &base, r->err);
	if (r->place.dir < 0)
		return r->place.dir;
	return capw_name_init(&r->place.name, r->place.dir, r->place.shown, base, old, r->err);
}

static int open_dir(struct record *r)
{
	_cleanup_free_ char *dir = strdup(r->c->output_dir);
	struct sbuf shown = { 0 };
	int ret;

	if (!dir)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t len = strlen(dir); len > 1 && dir[len - 1] == '/'; len--)
		dir[len - 1] = '\0';
	sbuf_addf(&shown, "%s%s", dir, strcmp(dir, "/") ? "/" : "");
	r->place.shown = sbuf_take(&shown);
	if (!r->place.shown)
		return err_set(r->err, ENOMEM, "out of memory");
	r->place.dir = capw_dir_open(dir, r->err);
	if (r->place.dir < 0)
		return r->place.dir;
	ret = place_lock(r, dir);
	return ret ?: name_by_time(r);
}

int record_place_open(struct record *r)
{
	int ret;

	if (record_to_stream(r->c))
		return 0;
	ret = r->c->output_dir ? open_dir(r) : open_named(r);
	/* An instance takes time and memory: not for nothing. */
	if (!ret && faccessat(r->place.dir, ".", W_OK, 0))
		return err_why(r->err, errno, "cannot make directory %s%s", r->place.shown,
			       r->place.name.name);
	return ret ?: place_room(r);
}

/* ---- called by the watcher ---- */

int record_place_take(struct record *r, struct kvmft_err *err)
{
	return record_to_stream(r->c) ? 0 : capw_name_take(&r->place.name, err);
}

int record_place_done(struct record *r, struct kvmft_err *err)
{
	int ret = record_to_stream(r->c) ? 0 : capw_name_done(&r->place.name, err);

	if (ret || !r->c->keep_captures.set)
		return ret;
	return capw_stamp_prune(r->place.dir, r->place.name.name, r->c->keep_captures.v, NULL,
				err);
}

void record_place_free(struct record *r)
{
	util_close_fd(&r->place.dir);
	free(r->place.shown);
	r->place.shown = NULL;
}
