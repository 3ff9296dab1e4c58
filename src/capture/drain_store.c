/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drain_store.c: how much may be written, and into which segment.
 *
 * All limits are kept by reservation before the write, in whole sub-buffers and under one lock, so
 * they hold to within one sub-buffer for all CPUs together, however many threads write at a time.
 */
#include "kvmft/drain.h"

#include <sys/statvfs.h>

#define DISK_BLOCK 4096u /* how much more than its length a file may take on disk */

int drain_store_init(struct drain_store *s)
{
	int ret = -pthread_mutex_init(&s->lock, NULL);

	return ret ?: -pthread_cond_init(&s->none_opening, NULL);
}

void drain_store_free(struct drain_store *s)
{
	pthread_cond_destroy(&s->none_opening);
	pthread_mutex_destroy(&s->lock);
}

void drain_wake(struct drain_store *s)
{
	uint64_t one = 1;

	/* The counter cannot overflow here, so the write cannot fail in a way that matters. */
	if (s->wake_fd >= 0 && write(s->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void drain_set_stop(struct drain_store *s, enum drain_stop why)
{
	int expected = DRAIN_RUNNING;

	if (atomic_compare_exchange_strong(&s->stop, &expected, (int)why))
		drain_wake(s);
}

/* Under the lock, which is released while it waits. */
static int segment_begin(struct drain_store *s)
{
	unsigned int segment = atomic_load(&s->segment);
	uint64_t freed = 0;
	int ret;

	/*
	 * A thread could bring back the directory of a segment that others have left and removed
	 * meanwhile.
	 */
	while (s->opening)
		pthread_cond_wait(&s->none_opening, &s->lock);
	if (segment++ != atomic_load(&s->segment))
		return 0; /* another thread was quicker */
	ret = s->next ? s->next(s->ctx, segment, &freed) : 0;
	s->fresh = true;
	if (ret)
		return ret;
	s->used -= MIN(freed, s->used);
	s->segment_used = 0;
	atomic_store(&s->segment, segment);
	drain_wake(s);
	return 0;
}

/* Finishes the beginning of a segment when nobody has to wait for it. */
static void store_unlock(struct drain_store *s)
{
	bool fresh = s->fresh;

	s->fresh = false;
	pthread_mutex_unlock(&s->lock);
	if (fresh && s->began)
		s->began(s->ctx);
}

int drain_rotate(struct drain_store *s)
{
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	if (s->segment_used)
		ret = segment_begin(s);
	store_unlock(s);
	return ret;
}

void drain_freed(struct drain_store *s, uint64_t bytes)
{
	pthread_mutex_lock(&s->lock);
	s->used -= MIN(bytes, s->used);
	pthread_mutex_unlock(&s->lock);
}

/* What may be written before the file system has less than min_free, including writes under way. */
static uint64_t room_on_disk(const struct drain_store *s, size_t n)
{
	struct statvfs vfs;
	uint64_t avail;

	if (!s->min_free || fstatvfs(s->dirfd, &vfs))
		return n;
	avail = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	return avail > s->min_free + s->in_flight ? avail - s->min_free - s->in_flight : 0;
}

bool drain_room(const struct drain_store *s, size_t n)
{
	size_t blocks = n + DISK_BLOCK;

	return room_on_disk(s, blocks) >= blocks;
}

static ssize_t reserve(struct drain_store *s, size_t n)
{
	uint64_t room = n, limit;
	int stop = atomic_load(&s->stop);

	if (stop == DRAIN_MAX_SIZE || stop == DRAIN_MIN_FREE)
		return 0;
	if (s->rotate_bytes) {
		while (s->segment_used && s->segment_used + s->subbuf > s->rotate_bytes) {
			int ret = segment_begin(s);

			if (ret)
				return ret;
		}
		room = MIN(room, MAX(s->rotate_bytes - s->segment_used, (uint64_t)s->subbuf));
		room -= room % s->subbuf;
	}
	limit = s->max_bytes ? s->max_bytes - MIN(s->used, s->max_bytes) : room;
	if (limit < room)
		drain_set_stop(s, DRAIN_MAX_SIZE);
	room = MIN(room, limit);
	limit = room_on_disk(s, (size_t)room);
	if (limit < room)
		drain_set_stop(s, DRAIN_MIN_FREE);
	room = MIN(room, limit);
	return (ssize_t)(room - room % s->subbuf);
}

/*
 * The data file of this segment; the one of an earlier segment is closed. Not under the lock: on a
 * busy file system, creating a file may take as long as the ring of another CPU takes to fill up.
 */
static int store_file(struct drain_cpu *c, unsigned int segment)
{
	struct drain_store *s = c->store;
	int fd = s->stream ? -1 : s->open(s->ctx, segment, c->cpu);

	pthread_mutex_lock(&s->lock);
	if (!--s->opening)
		pthread_cond_broadcast(&s->none_opening);
	pthread_mutex_unlock(&s->lock);
	if (fd < 0 && !s->stream)
		return fd;
	util_close_fd(&c->dst);
	c->dst = fd;
	c->segment = segment;
	c->off = 0;
	return 0;
}

ssize_t drain_reserve(struct drain_cpu *c, size_t n)
{
	struct drain_store *s = c->store;
	unsigned int segment;
	ssize_t room;
	bool missing;
	int ret;

	pthread_mutex_lock(&s->lock);
	room = n ? reserve(s, n) : 0;
	segment = atomic_load(&s->segment);
	missing = room >= 0 && ((c->dst < 0 && !s->stream) || c->segment != segment);
	s->opening += missing;
	if (room > 0) {
		s->used += (uint64_t)room;
		s->in_flight += (uint64_t)room;
		s->segment_used += (uint64_t)room;
	}
	store_unlock(s);
	ret = missing ? store_file(c, segment) : 0;
	if (ret && room > 0)
		drain_settle(c, (size_t)room, 0);
	return ret ?: room;
}

void drain_settle(struct drain_cpu *c, size_t granted, size_t written)
{
	struct drain_store *s = c->store;

	pthread_mutex_lock(&s->lock);
	s->in_flight -= granted;
	/*
	 * A segment that has begun meanwhile has its own count; used may have been freed below
	 * this.
	 */
	s->used -= MIN((uint64_t)(granted - written), s->used);
	s->segment_used -= MIN((uint64_t)(granted - written), s->segment_used);
	pthread_mutex_unlock(&s->lock);
}
