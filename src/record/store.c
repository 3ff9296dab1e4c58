/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store.c: the capture as a place with limits: its size, the free space that must remain,
 * segments, and how many of them are kept.
 */
#include "record.h"

#include <sys/eventfd.h>

#define META_RESERVE	  (64u << 10) /* for the last lines, on a disk that the data filled ... */
#define META_RESERVE_CPU  512u	      /* ... which has some for each CPU */
#define SMALLEST_SEGMENT  RECORD_SMALLEST_SEGMENT
#define END_FILES	  RECORD_END_FILES
#define FLUSH_NS	  1000000000ull

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
		return err_usage(r->err, "option --keep needs --rotate or --flight-recorder");
	if (c->keep.set && !c->keep.v)
		return err_usage(r->err, "option --keep: must be at least 1");
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

static int store_open(void *ctx, unsigned int segment, unsigned int cpu)
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

/*
 * A flight recorder's last segment is removed when the next is written, others earlier if room is
 * needed.
 */
static bool goes_later(const struct record *r)
{
	return r->c->flight && (r->c->keep.v == 1 || ring_fits(r));
}

/* If the new one cannot be made, that must not cost the old one: the new one first. */
static int store_next(void *ctx, unsigned int segment, uint64_t *freed)
{
	struct record *r = ctx;
	int ret = capw_segment_make(r->w, segment);
	uint32_t old;

	if (ret || !r->c->keep.set)
		return ret;
	ret = capw_kept_add(&r->kept, segment, r->flight.by);
	if (ret || goes_later(r) || !capw_kept_over(&r->kept, r->c->keep.v, r->c->keep.v, &old))
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
	s->min_free = r->c->min_free.set ? r->c->min_free.v + END_FILES : 0;
	s->dirfd = capw_dirfd(r->w);
	s->stream = r->out.stream;
	s->ctx = r;
	s->open = store_open;
	s->next = store_next;
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

void record_store_no_more_data(struct record *r)
{
	if (r->c->min_free.set)
		r->store.min_free = r->c->min_free.v;
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
