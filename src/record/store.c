/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store.c: where a recording goes: its place in a directory, or standard output; its limits and
 * segments, and what becomes of old ones.
 */
#include "record.h"

#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>

/*
 * Where a recording goes. One named capture, or, for cron and timers, the next one in a
 * directory (-o DIR/) that one recorder at a time has to itself.
 *
 * The recorder itself can do nothing there once it records. The watcher gives the capture its name,
 * and removes old ones when it is complete.
 */

#define DEFAULT_OUTPUT	"kvmft.data"
#define STAMPS_A_SECOND 100

#define END_FILES	 (128u << 10) /* names of tasks, written together with the data */
#define SMALLEST_SEGMENT (64u << 10)
#define LEAST_ROOM	 (END_FILES + SMALLEST_SEGMENT)
#define FREE_SHARE	 20 /* of the file system, or half of what is free */

bool record_to_stream(const struct record_config *c)
{
	return c->output && !strcmp(c->output, "-");
}

bool record_in_dir(const struct record_config *c)
{
	return c->output && strrchr(c->output, '/') && !strrchr(c->output, '/')[1];
}

int record_place_check(struct record_config *c, struct kvmft_err *err)
{
	const char *what;

	if (record_in_dir(c) && !isatty(STDERR_FILENO))
		c->quiet = true;
	if (c->keep.set && !c->keep.v)
		return err_usage(err, "option --keep: must be at least 1");
	if (record_in_dir(c)) {
		c->keep_captures = c->keep;
		c->keep.set = false;
	}
	if (!record_to_stream(c))
		return 0;
	what = c->min_free.set ? "--min-free"
	       : c->keep.set   ? "--keep"
	       : c->sync       ? "--sync"
			       : NULL;
	if (what)
		return err_usage(
			err,
			"%s needs a directory, which -o - does not have: use kvmft receive, if "
			"it has this option",
			what);
	if (c->stacks.n)
		return err_usage(
			err, "--stacks reads the data again at the end, which is not possible with "
			     "-o -: record into a directory");
	if (isatty(STDOUT_FILENO))
		return err_usage(
			err, "-o - writes a stream of bytes, and standard output is a terminal: "
			     "kvmft record -o - ... | kvmft receive -o DIR");
	return 0;
}

static uint64_t free_bytes(int dir)
{
	struct statvfs vfs;

	return fstatvfs(dir, &vfs) ? UINT64_MAX : (uint64_t)vfs.f_bavail * vfs.f_frsize;
}

/* --min-free: is there any room above it? */
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
	_cleanup_free_ char *dir = strdup(r->c->output);
	struct sbuf shown = { 0 };

	if (!dir)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t len = strlen(dir); len > 1 && dir[len - 1] == '/'; len--)
		dir[len - 1] = '\0';
	sbuf_addf(&shown, "%s%s", dir, strcmp(dir, "/") ? "/" : "");
	r->place.shown = sbuf_take(&shown);
	if (!r->place.shown)
		return err_set(r->err, ENOMEM, "out of memory");
	r->place.dir = capw_dir_open(dir, r->err);
	if (r->place.dir == -ENOENT)
		return err_set(r->err, ENOENT, "%s: no such directory: mkdir -p makes it; without the "
			       "/ at its end it is a new capture", r->c->output);
	if (r->place.dir < 0)
		return r->place.dir;
	if (!faccessat(r->place.dir, "meta", F_OK, 0))
		return err_usage(r->err, "-o %s: %s is a capture; -o %s --force replaces it",
				 r->c->output, dir, dir);
	/* Released when the descriptor is closed, so also when this process is killed. */
	if (!flock(r->place.dir, LOCK_EX | LOCK_NB)) {
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
	if (errno == EWOULDBLOCK)
		return err_set(
			r->err, EBUSY,
			"another kvmft still records into %s: nothing was recorded this time; "
			"record for a shorter time, or less often (if none does, a user who may "
			"read it has locked it: chmod 700)",
			dir);
	return err_why(r->err, errno, "cannot lock %s", dir);
}

int record_place_open(struct record *r)
{
	int ret;
	uint64_t have, least;
	struct statvfs vfs;
	const char *now;
	char size[32];

	if (record_to_stream(r->c))
		return 0;
	ret = record_in_dir(r->c) ? open_dir(r) : open_named(r);
	/* An instance takes time and memory: not for nothing. */
	if (!ret && faccessat(r->place.dir, ".", W_OK, 0))
		return err_why(r->err, errno, "cannot make directory %s%s", r->place.shown,
			       r->place.name.name);
	if (ret)
		return ret;
	have = free_bytes(r->place.dir);
	/* Unless somebody said when it is enough. */
	if (r->c->min_free.set)
		r->place.min_free = r->c->min_free.v;
	else if (!r->place.limited && !fstatvfs(r->place.dir, &vfs))
		r->place.min_free = MIN((uint64_t)vfs.f_blocks * vfs.f_frsize / FREE_SHARE,
					(have - MIN(have, (uint64_t)LEAST_ROOM)) / 2);
	least = r->place.min_free + LEAST_ROOM;
	now = r->place.name.name;
	/* Room for what it may take, or 5/4 of the last: old captures go for it now. */
	if (r->c->keep_captures.set) {
		uint64_t usual = r->c->max_size.set ? r->c->max_size.v
						    : capw_stamp_usage(r->place.dir, now) / 4 * 5;
		const uint64_t want[] = { MAX(least, r->place.min_free + usual), least };

		for (size_t i = 0; i < ARRAY_SIZE(want) && !ret; i++)
			ret = have >= want[i] ? 1
					      : capw_stamp_room(r->place.dir, now,
								r->c->keep_captures.v - 1,
								want[i] - have, r->err);
		ret = MIN(ret, 0);
	}
	have = free_bytes(r->place.dir);
	if (ret || !r->c->min_free.set || have >= least)
		return ret;
	return err_set(r->err, ENOSPC,
		       "nothing was recorded: %s are free where %s%s is, which leaves no room "
		       "above --min-free",
		       str_bytes(size, sizeof(size), have), r->place.shown,
		       record_in_dir(r->c) ? "" : r->place.name.name);
}

void record_place_free(struct record *r)
{
	capw_close(r->w);
	stream_out_free(r->out.stream);
	util_close_fd(&r->out.signals);
	util_close_fd(&r->place.dir);
	free(r->place.shown);
}

/*
 * A recording that goes to standard output, as a stream.
 *
 * There is no directory then: no name to take, no disk to fill, nothing to read again. A reader
 * that is slow or gone only makes the rings overflow. At the end what they hold is still sent, with
 * a message about what is being waited for.
 */

#define PATIENCE_NS 1000000000ull

/* From any thread, one at a time. While it records, waiting costs events, which are counted. */
static bool store_patient(void *ctx, uint64_t queued __unused_arg)
{
	struct record *r = ctx;
	struct signalfd_siginfo si;
	uint64_t now = util_now_ns();

	if (!atomic_load(&r->out.ending))
		return true;
	r->out.since = r->out.since ?: now;
	if (!r->out.told && now - r->out.since > PATIENCE_NS && !r->c->quiet) {
		r->out.told = true;
		r->note("waiting for the reader of standard output, to send what is left; Ctrl-C "
			"again gives that up");
	}
	while (read(r->out.signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo != SIGUSR1 && (!r->c->control.on || si.ssi_signo == SIGTERM))
			return false;
	return true;
}

int record_capture_create(struct record *r)
{
	int ret;

	if (!record_to_stream(r->c))
		return capw_create(&r->place.name, &r->w, r->err);
	ret = stream_out_new(STDOUT_FILENO, &r->out.stream);
	if (!ret)
		ret = r->out.signals = signal_fd_open(0);
	ret = MIN(ret, 0);
	if (!ret)
		stream_out_patience(r->out.stream, store_patient, r);
	ret = ret ?: capw_create_stream(r->out.stream, &r->w);
	return err_why(r->err, ret, "cannot write to standard output");
}

/* If nothing comes for long, a reader cannot tell a quiet machine from a dead one. */
int record_stream_tick(struct record *r)
{
	const struct stream_head h = { .type = STREAM_ALIVE };
	uint64_t bytes = r->out.stream ? stream_out_bytes(r->out.stream) : 0;
	bool quiet = r->out.stream && bytes == r->out.bytes;

	r->out.bytes = bytes;
	return quiet ? record_stream_error(r, stream_out_put(r->out.stream, &h, NULL, 0)) : 0;
}

int record_stream_error(struct record *r, int ret)
{
	if (!ret || !r->out.stream)
		return ret;
	if (ret == -ECANCELED)
		return err_set(r->err, ECANCELED,
			       "given up: not all was sent; what was sent can be read at the receiver");
	if (ret == -EPIPE)
		return err_set(r->err, EPIPE, "the reader of standard output went away; what it got "
					      "can be read");
	return err_why(r->err, ret, "cannot write to standard output");
}

int record_stream_end(struct record *r)
{
	return r->out.stream ? record_stream_error(r, stream_out_end(r->out.stream)) : 0;
}

/* The capture's limits: its size, space that stays free, segments and how many are kept. */

#define META_RESERVE	 (64u << 10) /* for the last lines, on a disk that the data filled ... */
#define META_RESERVE_CPU 512u	     /* ... which has some for each CPU */
#define FLUSH_NS	 1000000000ull

/* "10M" is a size and "10m" a time; a bare number could be either. */
static int rotate_parse(struct record *r)
{
	const char *text = r->c->rotate;
	size_t len = strlen(text);
	bool is_size = len && strchr("KMGkgB", text[len - 1]);

	if (is_size && !parse_size(text, &r->store.rotate_bytes)) {
		if (r->store.rotate_bytes >= SMALLEST_SEGMENT)
			return 0;
		return err_usage(r->err,
				 "option --rotate: a segment of %s is too small: at least 64K",
				 text);
	}
	if (!is_size && len && strchr("smh", text[len - 1]) &&
	    !parse_duration(text, &r->rotate_ns) && r->rotate_ns)
		return 0;
	return err_usage(
		r->err,
		"option --rotate: '%s' is neither a size such as 100M nor a time such as 10m",
		text);
}

int record_store_check(struct record *r)
{
	const struct record_config *c = r->c;

	if (c->rotate && c->flight)
		return err_usage(r->err,
				 "--rotate is not for --flight-recorder: each time the ring is "
				 "written out makes a segment");
	if (c->keep.set && !c->rotate && !c->flight)
		return err_usage(r->err, "option --keep needs -o DIR/, --rotate or "
					 "--flight-recorder");
	if (c->flight && (c->flush.set || c->sync))
		return err_usage(
			r->err,
			"--flush and --sync are not for --flight-recorder, whose ring is written out "
			"when something happens");
	r->flush_ns = c->flight ? 0 : c->flush.set ? c->flush.v : FLUSH_NS;
	if (c->sync && !r->flush_ns)
		return err_usage(r->err, "--sync needs a --flush above 0");
	return c->rotate ? rotate_parse(r) : 0;
}

/* ---- what the store needs, from any thread ---- */

static int segment_open(void *ctx, unsigned int segment, unsigned int cpu)
{
	struct record *r = ctx;

	return capw_data_open(r->w, segment, cpu);
}

/* The whole ring of all CPUs, which is what a flight recorder writes out. */
static bool ring_fits(const struct record *r)
{
	const struct drain_store *s = &r->store;
	uint64_t bytes = r->ncpu * (record_ring_bytes(r) + s->subbuf);

	return (!s->max_bytes || s->used + bytes <= s->max_bytes) && drain_room(s, bytes);
}

/* If the new one cannot be made, that must not cost the old one: the new one first. */
static int segment_next(void *ctx, unsigned int segment, uint64_t *freed)
{
	struct record *r = ctx;
	int ret = capw_segment_make(r->w, segment);
	uint32_t old;

	if (ret || !r->c->keep.set)
		return ret;
	ret = capw_kept_add(&r->kept, segment, r->flight.by);
	/* A flight recorder's last segment goes with its next one, others if room is needed. */
	if (ret || (r->c->flight && (r->c->keep.v == 1 || ring_fits(r))) ||
	    !capw_kept_over(&r->kept, r->c->keep.v, r->c->keep.v, &old))
		return ret;
	ret = capw_segment_remove(r->w, old, freed, &r->removed);
	/* If the free space on the disk is checked, it has to be there. */
	if (r->store.min_free)
		capw_removed_close(&r->removed);
	return ret;
}

static int remove_old(struct record *r, uint32_t segment)
{
	struct capw_removed x = { 0 };
	uint64_t freed = 0;
	int ret = capw_segment_remove(r->w, segment, &freed, &x);

	capw_removed_close(&x);
	drain_freed(&r->store, freed);
	return ret;
}

int record_store_written(struct record *r, unsigned int segment)
{
	uint32_t old;
	int ret = r->c->keep.set ? capw_kept_add(&r->kept, segment, r->flight.by) : 0;

	while (!ret && r->c->keep.set && capw_kept_over(&r->kept, r->c->keep.v, r->c->keep.v, &old))
		ret = remove_old(r, old);
	return ret;
}

bool record_store_room(struct record *r)
{
	uint32_t old;

	while (r->c->keep.set && !ring_fits(r) && capw_kept_over(&r->kept, UINT64_MAX, 0, &old))
		if (remove_old(r, old))
			return false;
	return !r->c->keep.set || !r->flight.by[0] || ring_fits(r);
}

/* Under its lock again, because the next one may begin now. */
static void store_began(void *ctx)
{
	struct record *r = ctx;
	struct capw_removed x;

	pthread_mutex_lock(&r->store.lock);
	x = r->removed;
	r->removed = (struct capw_removed){ 0 };
	pthread_mutex_unlock(&r->store.lock);
	capw_removed_close(&x);
}

int record_store_open(struct record *r)
{
	struct drain_store *s = &r->store;
	int ret;

	/* Not every file system can do this; then a full disk costs the end of meta. */
	(void)!capw_reserve(r->w, META_RESERVE + META_RESERVE_CPU * r->ncpu_max);
	r->drain = calloc(r->ncpu_max, sizeof(*r->drain));
	r->seen = calloc(r->ncpu_max, sizeof(*r->seen));
	if (!r->drain || !r->seen)
		return err_set(r->err, ENOMEM, "out of memory");
	s->subbuf = kinst_subbuf_size(r->k);
	s->max_bytes = r->c->max_size.set ? r->c->max_size.v : 0;
	s->min_free = r->place.min_free ? r->place.min_free + END_FILES : 0;
	s->dirfd = capw_dirfd(r->w);
	s->stream = r->out.stream;
	s->ctx = r;
	s->open = segment_open;
	s->next = segment_next;
	s->began = store_began;
	s->events = record_loss_events;
	s->join = record_loss_join;
	s->sync = r->c->sync;
	s->moved = record_loss_look;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return err_why(r->err, errno, "eventfd");
	ret = r->c->keep.set && !r->c->flight ? capw_kept_add(&r->kept, 0, "") : 0;
	ret = ret ?: drain_store_init(s) ?: -pthread_mutex_init(&r->meta_lock, NULL);
	ret = ret ?: drain_signal_init();
	if (ret)
		return err_why(r->err, ret, "cannot prepare the recording");
	r->store_ready = true;
	return 0;
}

void record_store_add(struct record *r, struct sbuf *line)
{
	pthread_mutex_lock(&r->meta_lock);
	if (!line->error) {
		if (r->later.len)
			sbuf_addc(&r->later, '\n');
		sbuf_add_mem(&r->later, line->s, line->len);
	}
	pthread_mutex_unlock(&r->meta_lock);
	sbuf_free(line);
	drain_wake(&r->store);
}

int record_store_news(struct record *r)
{
	unsigned int segment = atomic_load(&r->store.segment);
	int ret = 0;

	while (r->segments_told < segment && !ret) {
		meta_begin(&r->line, "segment");
		meta_u64(&r->line, "n", ++r->segments_told);
		meta_u64(&r->line, "tsc", krdtsc_now());
		ret = record_put(r);
	}
	if (ret)
		return ret; /* what is for later stays there */
	pthread_mutex_lock(&r->meta_lock);
	if (r->later.len) {
		sbuf_add_mem(&r->line, r->later.s, r->later.len);
		sbuf_reset(&r->later);
	}
	pthread_mutex_unlock(&r->meta_lock);
	return r->line.len ? record_put(r) : 0;
}

void record_store_close(struct record *r)
{
	for (size_t i = 0; i < r->ncpu; i++) {
		drain_close(&r->drain[i]);
		util_close_fd(&r->drain[i].src);
	}
	capw_removed_close(&r->removed);
	free(r->drain);
	free(r->seen);
	if (r->store_ready) {
		drain_store_free(&r->store);
		pthread_mutex_destroy(&r->meta_lock);
	}
	util_close_fd(&r->store.wake_fd);
	sbuf_free(&r->later);
	capw_kept_free(&r->kept);
}
