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
#include <poll.h>
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

static int record_place_take(struct record *r, struct kvmft_err *err)
{
	return record_to_stream(r->c) ? 0 : capw_name_take(&r->place.name, err);
}

/* By the watcher, when told to: see record_watch_tell(). */
static int record_place_done(struct record *r, struct kvmft_err *err)
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

/*
 * What happens if the recorder is killed.
 *
 * Its instance is left behind. The kernel's dead-man switch (free_buffer, see kernel/inst.c) stops
 * tracing in it at once, but the events stay enabled, at a tenth of a microsecond for each that
 * fires. So a small process, forked before anything is made, sleeps in read() on a pipe whose other
 * end only the recorder has. End of file means that the recorder is gone: its instance is removed,
 * which disables the events, and the watcher ends. If it was killed as well, the next start or
 * `kvmft reset` removes the instance.
 */

/*
 * Pauses grow, because looking for who has an instance open takes a while on a machine with many
 * processes.
 */
#define WATCH_END    'q'
#define PAUSE_US     (10 * 1000)
#define PAUSE_MAX_US (640 * 1000)
#define PAUSES_MAX   90 /* of the longest: after a minute, cleaning up is left to others */

/* Is there nothing of the recorder left to remove? */
static bool watch_cleaned(struct record *r, const struct kowner *recorder)
{
	struct kreset found = { 0 };
	bool done;

	if (kowner_alive(recorder)) /* it is still closing its files */
		return false;
	(void)!kreset_sweep_of(r->t, recorder, false, &found, NULL);
	done = !found.busy;
	kreset_free(&found);
	return done;
}

static void watch_clean(struct record *r, const struct kowner *recorder)
{
	unsigned int pause = PAUSE_US;

	for (int more = PAUSES_MAX; !watch_cleaned(r, recorder) && more;
	     more -= pause == PAUSE_MAX_US) {
		usleep(pause);
		pause = MIN(2 * pause, (unsigned int)PAUSE_MAX_US);
	}
}

struct answer {
	int ret;
	struct kvmft_err err;
	char aside[CAPW_NAME_SIZE];
};

/* a: what has failed so far. */
static void watch_obey(struct record *r, char stage, struct answer a, int to)
{
	if (!a.ret)
		a.ret = stage == RECORD_LIVE ? record_place_take(r, &a.err)
					     : record_place_done(r, &a.err);
	memcpy(a.aside, r->place.name.aside, sizeof(a.aside));
	(void)!full_write(to, &a, sizeof(a),
			  NULL); /* without a recorder there is end of file, too */
}

static void watch_main(struct record *r, int from, int to, void *recorder)
{
	/* Of its own, because what is locked is the recorder's descriptor. */
	const int place = openat(r->place.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int keep[] = { from, to, ktracefs_dirfd(r->t), place };
	struct answer confined = { .err = { .text = "" } };
	char byte = 0;
	ssize_t n;

	r->place.dir = r->place.name.dir = place;
	record_detach("kvmft-watch", keep, ARRAY_SIZE(keep));
	confined.ret = record_confine_watch(r, &confined.err);
	do {
		n = read(from, &byte, 1);
		if (n == 1 && byte != WATCH_END)
			watch_obey(r, byte, confined, to);
	} while ((n < 0 && errno == EINTR) || (n == 1 && byte != WATCH_END));
	capw_name_drop(&r->place.name);
	if (n == 0)
		watch_clean(r, recorder);
}

int record_watch_start(struct record *r)
{
	struct kowner self;
	int ret = kowner_self(&self);

	if (ret)
		return err_why(r->err, ret, "cannot read /proc/self/stat");
	return record_helper_start(r, &r->watch, watch_main, &self);
}

int record_watch_tell(struct record *r, enum record_stage stage)
{
	struct pollfd p = { .fd = r->watch.from, .events = POLLIN };
	char byte = (char)stage;
	struct answer a;
	int ret = full_write(r->watch.to, &byte, 1, NULL);

	if (!ret && !poll(&p, 1, RECORD_PATIENCE_MS))
		r->note("waiting for kvmft-watch (process %d), which names captures and removes "
			"old ones", r->watch.pid);
	if (ret || read(r->watch.from, &a, sizeof(a)) != sizeof(a))
		return err_set(r->err, EPIPE, "the process kvmft-watch was killed: %s%s",
			       stage == RECORD_LIVE ? "it names the capture"
						    : "old captures stay where ",
			       stage == RECORD_LIVE ? "" : capw_path(r->w));
	memcpy(r->place.name.aside, a.aside, sizeof(a.aside));
	r->place.name.aside[sizeof(a.aside) - 1] = '\0';
	if (a.ret)
		*r->err = a.err;
	return a.ret;
}

void record_watch_end(struct record *r)
{
	const char end = WATCH_END;

	if (r->watch.to >= 0 && write(r->watch.to, &end, 1) < 0)
		errno = 0; /* it was killed */
	record_helper_end(r, &r->watch, "kvmft-watch");
}
