/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.c: what happens if the recorder is killed.
 *
 * Its instance is left behind. The kernel's dead-man switch (free_buffer, see kernel/inst.c) stops
 * tracing in it at once, but the events stay enabled, at a tenth of a microsecond for each that
 * fires. So a small process, forked before anything is made, sleeps in read() on a pipe whose other
 * end only the recorder has. End of file means that the recorder is gone: its instance is removed,
 * which disables the events, and the watcher ends. If it was killed as well, the next start or
 * `kvmft reset` removes the instance.
 */
#include "record.h"

#include <fcntl.h>
#include <poll.h>

/*
 * Pauses grow, because looking for who has an instance open takes a while on a machine with many
 * processes.
 */
#define WATCH_END    'q'
#define PAUSE_US     (10 * 1000)
#define PAUSE_MAX_US (640 * 1000) /* after 5 s in all, cleaning up is left to others */

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

	for (int more = 8; !watch_cleaned(r, recorder) && more; more -= pause == PAUSE_MAX_US) {
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
