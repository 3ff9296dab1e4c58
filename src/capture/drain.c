/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drain.c: the recording threads.
 *
 * splice() lets the kernel hand whole pages from the ring to the file through a pipe: no copy, no
 * walk over events. Three facts shape the code. The sub-buffer being written is never spliced, so
 * the end is fetched with read(). A splice() that returns 0 does not mean end of file. And old
 * kernels do not wake sleeping readers when tracing stops, so the threads are woken by a signal,
 * repeated until each one has finished.
 */

#include <sys/statvfs.h>
#include <sys/uio.h>

#include "kvmft/drain.h"
#include "kvmft/stream.h"

/*
 * ---- how much may be written, and into which segment ----
 *
 * All limits are kept by reservation before the write, in whole sub-buffers and under one lock, so
 * they hold to within one sub-buffer for all CPUs together, however many threads write at a time.
 */

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

/* Sets the reason to stop unless there is one, and wakes the one that waits for it. */
static void drain_set_stop(struct drain_store *s, enum drain_stop why)
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

static ssize_t store_reserve(struct drain_store *s, size_t n)
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

/* So many of the granted bytes were written. */
static void drain_settle(struct drain_cpu *c, size_t granted, size_t written)
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

/*
 * Permission to write up to n bytes (whole sub-buffers) to c->dst, the file of their
 * segment. The bytes granted, 0 if a limit forbids more (then stop is set), or -errno.
 */
static ssize_t drain_reserve(struct drain_cpu *c, size_t n)
{
	struct drain_store *s = c->store;
	unsigned int segment;
	ssize_t room;
	bool missing;
	int ret;

	pthread_mutex_lock(&s->lock);
	room = n ? store_reserve(s, n) : 0;
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

#define PIPE_WANTED (1u << 20) /* the most that needs no privilege by default */
#define PIPE_SLOT   4096u
#define TAIL_LENGTH ((1u << 30) - 1) /* of a commit word: see src/ring/subbuf.c */

static void drain_fail(struct drain_cpu *c, int error, bool is_write)
{
	if (!c->error) {
		c->error = error;
		c->error_is_write = is_write;
	}
	drain_set_stop(c->store, DRAIN_ERROR);
}

/* ---- from the pipe to the file ---- */

static void drain_drop(struct drain_cpu *c)
{
	c->dropped++;
	if (c->store->events)
		c->dropped_events += c->store->events(c->store->ctx, c->tmp);
}

/* Only a part of it was seen: nobody knows how many events were in it. */
static void drain_lose(struct drain_cpu *c)
{
	c->dropped++;
	c->uncounted++;
}

/* Reads from the pipe until tmp, which already has `have` bytes, is one sub-buffer. */
static int drain_fill(struct drain_cpu *c, size_t have)
{
	while (have < c->store->subbuf) {
		ssize_t got = read(c->pipe[0], c->tmp + have, c->store->subbuf - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		have += (size_t)got;
	}
	return 0;
}

/*
 * A failed write may have left a part of a sub-buffer in the file and the rest in the pipe: cuts
 * the file to whole ones, and counts what was in the broken one. Returns what is left in the pipe.
 */
static size_t drain_mend(struct drain_cpu *c, size_t part, size_t left)
{
	if (part) {
		ssize_t got = full_pread(c->dst, c->tmp, part, c->off);

		left -= MIN(c->store->subbuf - part, left);
		if (got == (ssize_t)part && !drain_fill(c, part))
			drain_drop(c);
		else
			drain_lose(c);
	}
	if (ftruncate(c->dst, (off_t)c->off) || lseek(c->dst, (off_t)c->off, SEEK_SET) < 0)
		drain_fail(c, -errno, true);
	return left;
}

/* Copies n bytes, whole sub-buffers, from pipe to file. Returns how many were left in the pipe. */
static size_t drain_copy(struct drain_cpu *c, size_t n)
{
	while (n) {
		size_t done = 0;
		int ret = drain_fill(c, 0);

		if (ret) {
			drain_fail(c, ret, false);
			return 0; /* the pipe cannot be trusted any more */
		}
		n -= c->store->subbuf;
		ret = full_write(c->dst, c->tmp, c->store->subbuf, &done);
		if (ret) {
			drain_fail(c, ret, true);
			drain_drop(c);
			(void)drain_mend(c, 0, 0);
			return n;
		}
		c->off += c->store->subbuf;
	}
	return 0;
}

static struct stream_head frame_head(const struct drain_cpu *c, enum stream_type type)
{
	return (struct stream_head){
		.type = (uint16_t)type, .cpu = c->cpu, .segment = c->segment,
	};
}

/*
 * The same, to a stream. If that breaks, part of a sub-buffer may have gone there: its events
 * cannot be counted, and its rest is taken from the pipe.
 */
static size_t drain_send(struct drain_cpu *c, size_t n)
{
	const struct stream_head h = frame_head(c, STREAM_DATA);
	size_t left, part;
	int ret = stream_out_pipe(c->store->stream, &h, c->pipe[0], n, c->tmp, c->store->subbuf,
				    &left);

	part = left % c->store->subbuf;
	c->off += n - left - (part ? c->store->subbuf - part : 0);
	if (!ret)
		return 0;
	drain_fail(c, ret, true);
	if (part && !drain_fill(c, c->store->subbuf - part))
		drain_lose(c);
	return left - part;
}

/* Moves n bytes, whole sub-buffers, from pipe to file. Returns how many were left in the pipe. */
static size_t drain_put(struct drain_cpu *c, size_t n)
{
	size_t left = n;

	if (c->store->stream)
		return drain_send(c, n);
	while (left && !c->copy) {
		ssize_t put = splice(c->pipe[0], NULL, c->dst, NULL, left, SPLICE_F_MOVE);

		if (put > 0) {
			left -= (size_t)put;
		} else if (put < 0 && errno == EINTR) {
			continue;
		} else if (put < 0 && errno == EINVAL && left == n) {
			c->copy = true; /* this file system cannot splice */
		} else {
			size_t part = (n - left) % c->store->subbuf;

			drain_fail(c, put < 0 ? -errno : -EIO, true);
			c->off += n - left - part;
			return drain_mend(c, part, left);
		}
	}
	c->off += n - left;
	return left ? drain_copy(c, left) : 0;
}

/* Moves n bytes from the pipe to their file; what does not fit is counted and dropped. */
static void drain_pipe_out(struct drain_cpu *c, size_t n)
{
	while (n && !c->error) {
		ssize_t room = drain_reserve(c, n);
		uint64_t before = c->off;

		if (room < 0)
			drain_fail(c, (int)room, true);
		if (room <= 0)
			break;
		n -= (size_t)room;
		n += drain_put(c, (size_t)room);
		c->bytes += c->off - before;
		drain_settle(c, (size_t)room, (size_t)(c->off - before));
	}
	for (; n; n -= c->store->subbuf) {
		int ret = drain_fill(c, 0);

		if (ret) {
			drain_fail(c, ret, false);
			return;
		}
		drain_drop(c);
	}
}

/* ---- what is in the sub-buffer being written by the kernel ---- */

/* c->tmp has a sub-buffer: 1 if its events are in the file now, 0 if not, or -errno. */
static int tail_join(struct drain_cpu *c)
{
	const size_t head = sizeof(uint64_t) + sizeof(long);
	const struct drain_store *s = c->store;
	uint32_t from;
	size_t n;
	off_t at;
	int len;

	if (!s->join || !c->tail_end || c->tail_end != c->off || c->tail_segment != c->segment ||
	    c->tail_segment != atomic_load(&s->segment))
		return 0;
	from = load_u32(c->tail + sizeof(uint64_t)) & TAIL_LENGTH;
	len = s->join(s->ctx, c->tail, c->tmp);
	if (len < 0)
		return 0;
	from = MIN(from, (uint32_t)len);
	n = (uint32_t)len - from;
	from += (uint32_t)head;
	if (s->stream) {
		const struct stream_head h = frame_head(c, STREAM_TAIL);
		const struct iovec v[] = {
			{ c->tail, head }, { &from, sizeof(from) }, { c->tail + from, n }
		};

		return stream_out_write(s->stream, &h, v, ARRAY_SIZE(v)) ?: 1;
	}
	/* The length, at its front, is written last: whenever we are killed, the file is intact. */
	errno = 0;
	at = (off_t)(c->tail_end - s->subbuf);
	if (pwrite(c->dst, c->tail + from, n, at + (off_t)from) == (ssize_t)n) {
		ssize_t done = pwrite(c->dst, c->tail, head, at);

		if (done == (ssize_t)head)
			return 1;
	}
	return errno ? -errno : -EIO;
}

/* ---- from the kernel to the pipe ---- */

/* One splice from the kernel; > 0 bytes moved, 0 nothing now, -errno. */
static ssize_t drain_splice(struct drain_cpu *c, unsigned int flags)
{
	ssize_t n = splice(c->src, NULL, c->pipe[1], NULL, c->pipe_size, SPLICE_F_MOVE | flags);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (n > 0) {
		uint64_t took = util_now_ns();

		/* Timed: if the ring gets full meanwhile, the output is to blame. */
		drain_pipe_out(c, (size_t)n);
		took = util_now_ns() - took;
		c->write_ns += took;
		c->write_max_ns = MAX(c->write_max_ns, took);
		if (c->store->moved)
			c->store->moved(c->store->ctx, c);
	}
	return n;
}

/*
 * One sub-buffer by read(), which also returns what is in the one being written. The same results
 * as drain_splice().
 */
static ssize_t drain_read(struct drain_cpu *c)
{
	uint32_t subbuf = c->store->subbuf;
	ssize_t n, room;
	int ret;

	n = read(c->src, c->tmp, subbuf);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (n && n != subbuf)
		return -EMSGSIZE; /* not a source of whole sub-buffers */
	if (!n)
		return 0;
	ret = c->error ? 0 : tail_join(c);
	if (ret > 0)
		return n;
	room = c->error || ret ? 0 : drain_reserve(c, subbuf);
	ret = room < 0 ? (int)room : ret;
	if (room > 0) {
		const struct stream_head h = frame_head(c, STREAM_DATA);
		const struct iovec v = { c->tmp, c->store->subbuf };

		/* Moves the sub-buffer in tmp to its file. */
		ret = c->store->stream ? stream_out_write(c->store->stream, &h, &v, 1)
				       : full_write(c->dst, c->tmp, c->store->subbuf, NULL);
		drain_settle(c, subbuf, ret ? 0 : subbuf);
	}
	if (room > 0 && !ret) {
		c->off += subbuf;
		c->bytes += subbuf;
		/* It can be appended to until something else follows it. */
		c->tail_end = 0;
		c->tail = c->tail ?: malloc(subbuf);
		if (!c->tail)
			return n;
		memcpy(c->tail, c->tmp, subbuf);
		c->tail_end = c->off;
		c->tail_segment = c->segment;
		return n;
	}
	drain_drop(c);
	if (ret) {
		drain_fail(c, ret, true);
		if (c->dst >= 0)
			(void)drain_mend(c, 0, 0);
	}
	return n;
}

/* Once a limit is reached nothing more is taken: what stays in the kernel is counted there. */
static bool drain_limited(const struct drain_cpu *c)
{
	int stop = atomic_load(&c->store->stop);

	return c->error || stop == DRAIN_MAX_SIZE || stop == DRAIN_MIN_FREE;
}

static ssize_t drain_complete(struct drain_cpu *c, uint64_t limit)
{
	uint64_t taken = 0;
	ssize_t n = 1;

	while (n > 0 && taken < limit && !drain_limited(c)) {
		n = drain_splice(c, SPLICE_F_NONBLOCK);
		taken += n > 0 ? (uint64_t)n : 0;
	}
	return n;
}

int drain_now(struct drain_cpu *c, uint64_t limit)
{
	ssize_t n = drain_complete(c, limit);

	/* One read() returns the one being written; on a busy CPU, reading on might never end. */
	if (n >= 0 && !drain_limited(c))
		n = drain_read(c);
	if (n < 0)
		drain_fail(c, (int)n, false);
	return c->error;
}

/* What the threads left: the sub-buffer being written by the kernel, and on old kernels more. */
static int drain_rest(struct drain_cpu *c)
{
	int fl = fcntl(c->src, F_GETFL);
	unsigned int zeros = 0;
	ssize_t n;

	if (fl < 0 || fcntl(c->src, F_SETFL, fl | O_NONBLOCK) < 0)
		return -errno;
	n = drain_complete(c, UINT64_MAX);
	/* A read() may return 0 with data still to come: believe it the third time. */
	while (n >= 0 && zeros < 3 && !drain_limited(c)) {
		n = drain_read(c);
		zeros = n ? 0 : zeros + 1;
	}
	if (c->store->moved)
		c->store->moved(c->store->ctx, c);
	return n < 0 ? (int)n : 0;
}

/* All that there is now, at the pace of drain_flush(). */
static ssize_t drain_all(struct drain_cpu *c)
{
	int fl = fcntl(c->src, F_GETFL);
	ssize_t n = drain_complete(c, UINT64_MAX);

	if (n < 0 || drain_limited(c))
		return n;
	/* On an empty ring a read() that may sleep would not return. */
	if (fl < 0 || fcntl(c->src, F_SETFL, fl | O_NONBLOCK) < 0)
		return -errno;
	n = drain_read(c);
	if (fcntl(c->src, F_SETFL, fl) < 0)
		return -errno;
	if (n > 0 && c->store->moved)
		c->store->moved(c->store->ctx, c);
	if (n >= 0 && c->store->sync && c->dst >= 0 && fdatasync(c->dst))
		drain_fail(c, -errno, true);
	return n;
}

/* ---- threads ---- */

static void *drain_thread(void *arg)
{
	struct timespec nap = { .tv_nsec = 5 * 1000 * 1000 };
	struct drain_cpu *c = arg;

	while (!atomic_load(&c->stopping) && !drain_limited(c)) {
		int flush = atomic_exchange(&c->flush, DRAIN_FLUSH_NONE);
		ssize_t n = flush ? 1 : drain_splice(c, 0);

		/* More than fits into the pipe: do not wait for a half-full ring again. */
		if (flush || n == (ssize_t)c->pipe_size) {
			ssize_t more = flush == DRAIN_FLUSH_ALL ? drain_all(c)
								: drain_complete(c, UINT64_MAX);

			n = more < 0 ? more : 1;
		}
		if (n < 0)
			drain_fail(c, (int)n, false);
		else if (n == 0 && !atomic_load(&c->stopping) && !atomic_load(&c->flush))
			nanosleep(&nap, NULL); /* a source that returns 0 at once must not make
					        * us spin */
	}
	atomic_store(&c->done, true);
	return NULL;
}

static void drain_noop(int sig __unused_arg)
{
}

int drain_signal_init(void)
{
	struct sigaction sa = { .sa_handler = drain_noop };

	sigemptyset(&sa.sa_mask);
	return sigaction(DRAIN_SIGNAL, &sa, NULL) < 0 ? -errno : 0;
}

/*
 * The pipe is as large as this user may have it: above the limit for all pipes of a user, a new one
 * has two slots and may not grow. Newer kernels limit a splice() to the free bytes of a pipe,
 * although a slot can hold more; with less than a sub-buffer it fails with EINVAL.
 */
int drain_open(struct drain_cpu *c)
{
	uint32_t subbuf = c->store->subbuf;
	unsigned int want = PIPE_WANTED;
	int size;

	c->pipe[0] = c->pipe[1] = c->dst = -1;
	c->tmp = malloc(subbuf);
	if (!c->tmp)
		return -ENOMEM;
	if (pipe2(c->pipe, O_CLOEXEC) < 0) {
		c->pipe[0] = c->pipe[1] = -1;
		return -errno;
	}
	while (fcntl(c->pipe[1], F_SETPIPE_SZ, want) < 0) {
		if (errno != EPERM && errno != EBUSY && errno != ENOMEM)
			return -errno;
		want /= 2;
		if (want < MAX(subbuf, PIPE_SLOT))
			break;
	}
	size = fcntl(c->pipe[1], F_GETPIPE_SZ);
	if (size < 0 || (uint32_t)size < subbuf)
		return -ENOBUFS;
	/* Older kernels count slots. */
	c->pipe_size = (size_t)size / PIPE_SLOT * subbuf;
	return (int)drain_reserve(c, 0);
}

void drain_close(struct drain_cpu *c)
{
	if (!c->store)
		return;
	util_close_fd(&c->pipe[0]);
	util_close_fd(&c->pipe[1]);
	util_close_fd(&c->dst);
	free(c->tmp);
	free(c->tail);
	c->tmp = c->tail = NULL;
}

int drain_start(struct drain_cpu *c)
{
	int ret = thread_start(&c->thread, drain_thread, c, DRAIN_SIGNAL);

	c->started = ret == 0;
	return ret;
}

static void drain_kick(struct drain_cpu *c)
{
	if (c->started && !atomic_load(&c->done))
		pthread_kill(c->thread, DRAIN_SIGNAL);
}

void drain_flush(struct drain_cpu *cpu, size_t n, enum drain_flush what)
{
	for (size_t i = 0; i < n; i++) {
		atomic_store(&cpu[i].flush, what);
		drain_kick(&cpu[i]);
	}
}

/*
 * Signals every unfinished thread until all are done, because a single signal could come just too
 * early.
 */
void drain_join(struct drain_cpu *cpu, size_t n)
{
	struct timespec nap = { .tv_nsec = 1000 * 1000 };

	for (size_t i = 0; i < n; i++)
		atomic_store(&cpu[i].stopping, true);
	for (size_t i = 0; i < n; i++) {
		while (cpu[i].started && !atomic_load(&cpu[i].done)) {
			for (size_t k = i; k < n; k++)
				drain_kick(&cpu[k]);
			nanosleep(&nap, NULL);
		}
		if (cpu[i].started)
			pthread_join(cpu[i].thread, NULL);
		cpu[i].started = false;
	}
}

int drain_finish(struct drain_cpu *cpu, size_t n)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int ret = cpu[i].tmp ? drain_rest(&cpu[i]) : 0;

		if (ret)
			drain_fail(&cpu[i], ret, false);
		first = first ?: cpu[i].error;
	}
	return first;
}
