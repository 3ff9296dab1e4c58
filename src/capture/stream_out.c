/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream_out.c: writes a capture as a stream.
 *
 * Frames of data are written by the threads that drain the rings, under one lock. They wait for the
 * reader; meanwhile the rings may overflow, which is counted. What the main thread writes is
 * queued, so that it never waits: the next writer, or a thread that exists for that, writes it
 * first. The descriptor is shared with other programs and so stays as it is, blocking or not:
 * before each write it is polled.
 */
#include "kvmft/stream.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define QUEUE_MAX   (64u << 20)
#define PIPE_WANTED (1u << 20)
#define POLL_MS	    100

struct stream_out {
	int fd;
	pthread_mutex_t writing; /* whose frame is being written; before `lock` */
	pthread_mutex_t lock;	 /* of what follows */
	pthread_cond_t news;	 /* something was queued, or the end */
	struct sbuf queue;
	int error; /* of the first write that failed, sticky */
	bool ending, thread;
	bool (*patient)(void *ctx, uint64_t queued);
	void *ctx;
	pthread_t writer;
	_Atomic bool abandoned;
	_Atomic uint64_t bytes;
};

static uint64_t stream_out_queued(struct stream_out *s, int *error)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->queue.len;
	*error = s->error;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static int stream_broken(struct stream_out *s, int error)
{
	pthread_mutex_lock(&s->lock);
	s->error = s->error ?: error;
	error = s->error;
	pthread_mutex_unlock(&s->lock);
	return error;
}

/* ---- what waits for the reader; under `writing` ---- */

/*
 * Waits until the output accepts something. Signals come often while a recording ends
 * (drain_join()).
 */
static int stream_ready(struct stream_out *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	uint64_t asked = util_now_ns();

	while (!atomic_load(&s->abandoned)) {
		int n = poll(&p, 1, POLL_MS), error;

		if (n > 0 && p.revents & POLLOUT)
			return 0;
		if (n > 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!s->patient || util_now_ns() - asked < POLL_MS * 1000000ull)
			continue;
		asked = util_now_ns();
		if (!s->patient(s->ctx, stream_out_queued(s, &error)))
			atomic_store(&s->abandoned, true);
	}
	return -ECANCELED;
}

/* A pipe that is ready takes PIPE_BUF bytes without blocking, a socket more. */
static int put_bytes(struct stream_out *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		int ret = stream_ready(s);
		ssize_t n = ret ? -1 : write(s->fd, p, MIN(len, (size_t)PIPE_BUF));

		if (n < 0 && (ret || (errno != EINTR && errno != EAGAIN)))
			return ret ?: -errno;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
			atomic_fetch_add(&s->bytes, (uint64_t)n);
		}
	}
	return 0;
}

/* What was queued goes first. */
static int put_queue(struct stream_out *s)
{
	struct sbuf mine;
	int ret;

	pthread_mutex_lock(&s->lock);
	mine = s->queue;
	s->queue = (struct sbuf){ 0 };
	ret = s->error ?: mine.error;
	pthread_mutex_unlock(&s->lock);
	ret = ret ?: put_bytes(s, mine.s, mine.len);
	sbuf_free(&mine);
	return ret;
}

/* ---- the thread that writes if no other does ---- */

static void *writer_run(void *arg)
{
	struct stream_out *s = arg;
	bool end = false;

	while (!end) {
		int ret;

		pthread_mutex_lock(&s->lock);
		while (!s->queue.len && !s->ending)
			pthread_cond_wait(&s->news, &s->lock);
		end = s->ending;
		pthread_mutex_unlock(&s->lock);
		pthread_mutex_lock(&s->writing);
		ret = put_queue(s);
		pthread_mutex_unlock(&s->writing);
		if (ret)
			(void)!stream_broken(s, ret);
		end |= ret != 0;
	}
	return NULL;
}

/* ---- the doors ---- */

int stream_out_new(int fd, struct stream_out **out)
{
	struct stream_out *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->fd = fd;
	pthread_mutex_init(&s->writing, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	(void)fcntl(fd, F_SETPIPE_SZ, PIPE_WANTED);
	sbuf_addf(&s->queue, STREAM_HELLO "version=%d capture=1\n", STREAM_VERSION);
	if (s->queue.error) {
		stream_out_free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

int stream_out_start(struct stream_out *s)
{
	int ret = thread_start(&s->writer, writer_run, s, 0);

	s->thread = !ret;
	return ret;
}

int stream_out_put(struct stream_out *s, const struct stream_head *h, const void *data, size_t len)
{
	struct stream_head head = *h;
	int ret;

	head.mark = STREAM_MARK;
	head.len = len;
	pthread_mutex_lock(&s->lock);
	ret = s->error;
	if (!ret && s->queue.len + sizeof(head) + len > QUEUE_MAX)
		ret = -ENOBUFS;
	if (!ret) {
		sbuf_add_mem(&s->queue, &head, sizeof(head));
		sbuf_add_mem(&s->queue, data, len);
		ret = s->queue.error;
	}
	pthread_cond_signal(&s->news);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

static int begin_frame(struct stream_out *s, const struct stream_head *h, uint64_t len)
{
	struct stream_head head = *h;
	int ret;

	head.mark = STREAM_MARK;
	head.len = len;
	pthread_mutex_lock(&s->writing);
	ret = put_queue(s);
	return ret ?: put_bytes(s, &head, sizeof(head));
}

static int end_frame(struct stream_out *s, int ret)
{
	if (ret)
		ret = stream_broken(s, ret);
	pthread_mutex_unlock(&s->writing);
	return ret;
}

int stream_out_write(struct stream_out *s, const struct stream_head *h, const struct iovec *v,
		     int nv)
{
	uint64_t len = 0;
	int ret;

	for (int i = 0; i < nv; i++)
		len += v[i].iov_len;
	ret = begin_frame(s, h, len);
	for (int i = 0; i < nv && !ret; i++)
		ret = put_bytes(s, v[i].iov_base, v[i].iov_len);
	return end_frame(s, ret);
}

int stream_out_pipe(struct stream_out *s, const struct stream_head *h, int pipe, size_t len,
		    void *buf, size_t size, size_t *left)
{
	int ret = begin_frame(s, h, len);

	*left = len;
	while (*left && !ret) {
		ssize_t n = read(pipe, buf, MIN(*left, size));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return end_frame(s, n < 0 ? -errno : -EIO);
		*left -= (size_t)n;
		ret = put_bytes(s, buf, (size_t)n);
	}
	return end_frame(s, ret);
}

void stream_out_patience(struct stream_out *s, bool (*patient)(void *ctx, uint64_t queued),
			 void *ctx)
{
	s->patient = patient;
	s->ctx = ctx;
}

uint64_t stream_out_bytes(const struct stream_out *s)
{
	return atomic_load(&s->bytes);
}

/* The frame under way belongs to the queue, which is already empty. */
static bool stream_idle(struct stream_out *s)
{
	if (pthread_mutex_trylock(&s->writing))
		return false;
	pthread_mutex_unlock(&s->writing);
	return true;
}

static int wait_queue(struct stream_out *s)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int error = 0;

	while ((stream_out_queued(s, &error) || !stream_idle(s)) && !error)
		nanosleep(&nap, NULL);
	return error;
}

int stream_out_end(struct stream_out *s)
{
	const struct stream_head h = { .type = STREAM_END };
	uint64_t total;
	int ret = wait_queue(s);

	if (ret)
		return ret;
	total = stream_out_bytes(s);
	ret = stream_out_put(s, &h, &total, sizeof(total));
	return ret ?: wait_queue(s);
}

void stream_out_free(struct stream_out *s)
{
	if (!s)
		return;
	atomic_store(&s->abandoned, true);
	if (s->thread) {
		pthread_mutex_lock(&s->lock);
		s->ending = true;
		pthread_cond_signal(&s->news);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->writer, NULL);
	}
	sbuf_free(&s->queue);
	pthread_cond_destroy(&s->news);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->writing);
	free(s);
}
