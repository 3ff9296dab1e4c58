/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * chunks.c: compressed chunks in their order, unpacked ahead by a thread while what they hold is
 * printed.
 *
 * A capture has one such thread, made when a stream has read its first chunks: a look at a few
 * events costs none. Each stream has a ring of buffers: chunk x goes to buffer x % nslot. The
 * thread fills those behind the one that is in use and then sleeps until some ring is half empty:
 * waking it takes longer than unpacking a chunk does. For the same reason, who would have to wait
 * for a chunk unpacks another one meanwhile.
 */
#include "reader.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define ROOM_ALL     (4u << 20) /* of all rings of a capture */
/* ... of hundreds of CPUs: in parts of less each chunk would be unpacked several times */
#define ROOM_MANY    (11u << 20)
#define SLOTS_MAX    16u
#define SLOTS_MIN    3u /* one in use, one ready, one that is filled */
#define READS_BEFORE 3u

struct cap_chunks {
	const struct capture *c;
	const struct cap_stream *s;
	struct cap_chunks *other; /* of the same capture */
	uint64_t size;		  /* of a buffer */
	size_t nslot;
	uint8_t *mem;
	int ret[SLOTS_MAX];
	size_t reads;
	bool alone; /* no thread unpacks it: at is in the first buffer, and have is at + 1 */
	/*
	 * Under the lock where there is a thread; chunks from at to have - 1 are in the ring, or
	 * somebody is unpacking them, which are `filling` chunks.
	 */
	size_t at, have;
	bool ready[SLOTS_MAX];
	unsigned int filling;
};

struct cap_ahead {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	pthread_t thread;
	bool runs, failed, ending;
	bool idle; /* it waits for work */
	struct cap_chunks *first;
	struct cap_unpacker *unpacker; /* the thread's */
};

/* Without a thread the first buffer will do, which stays in the cache. */
static size_t slot_of(const struct cap_chunks *k, size_t x)
{
	return k->alone ? 0 : x % k->nslot;
}

static uint8_t *buf_of(const struct cap_chunks *k, size_t x)
{
	return k->mem + slot_of(k, x) * k->size;
}

static void unpack(struct cap_unpacker **u, struct cap_chunks *k, size_t x)
{
	const struct cap_extent *e = &k->s->ext[x];
	uint8_t *buf = buf_of(k, x);
	int ret = cap_unpack_at(u, e, 0, buf, (size_t)e->len);

	if (ret == -EBADMSG) { /* as in capture_read_subbufs() */
		memset(buf, 0xff, (size_t)e->len);
		ret = 0;
	}
	k->ret[slot_of(k, x)] = ret;
}

/* ---- the thread ---- */

static bool has_room(const struct cap_chunks *k)
{
	return !k->alone && k->have < k->s->next && k->have - k->at < k->nslot;
}

/* The ring that is empty first. */
static struct cap_chunks *most_urgent(const struct cap_ahead *a)
{
	struct cap_chunks *best = NULL;

	for (struct cap_chunks *k = a->first; k; k = k->other)
		if (has_room(k) && (!best || k->have - k->at < best->have - best->at))
			best = k;
	return best;
}

/* Unpacks the next chunk of k, with the lock held, but not meanwhile. */
static void fill(struct cap_ahead *a, struct cap_chunks *k, struct cap_unpacker **u)
{
	size_t x = k->have++;

	k->ready[slot_of(k, x)] = false;
	k->filling++;
	pthread_mutex_unlock(&a->lock);
	unpack(u, k, x);
	pthread_mutex_lock(&a->lock);
	k->filling--;
	k->ready[slot_of(k, x)] = true;
}

static void *ahead_thread(void *arg)
{
	struct cap_ahead *a = arg;
	struct cap_chunks *k;

	pthread_mutex_lock(&a->lock);
	while (!a->ending) {
		k = most_urgent(a);
		a->idle = !k;
		if (!k) {
			pthread_cond_wait(&a->work, &a->lock);
			continue;
		}
		fill(a, k, &a->unpacker);
		pthread_cond_signal(&a->done); /* costs nothing where nobody waits */
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static bool several_cpus(void)
{
	cpu_set_t cpus;

	return !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1;
}

static void ahead_start(struct cap_ahead *a)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	a->runs = several_cpus() && !pthread_create(&a->thread, NULL, ahead_thread, a);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	a->failed = !a->runs;
}

static void ahead_end(struct cap_ahead *a)
{
	if (a->runs) {
		pthread_mutex_lock(&a->lock);
		a->ending = true;
		pthread_cond_signal(&a->work);
		pthread_mutex_unlock(&a->lock);
		pthread_join(a->thread, NULL);
	}
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->work);
	pthread_cond_destroy(&a->done);
	cap_unpacker_free(a->unpacker);
	free(a);
}

static struct cap_ahead *ahead_of(const struct capture *c)
{
	struct cap_ahead **a = &cap_priv(c)->ahead;

	if (!*a) {
		*a = calloc(1, sizeof(**a));
		if (!*a)
			return NULL;
		pthread_mutex_init(&(*a)->lock, NULL);
		pthread_cond_init(&(*a)->work, NULL);
		pthread_cond_init(&(*a)->done, NULL);
	}
	return *a;
}

/* ---- who reads ---- */

int capture_chunks_open(const struct capture *c, const struct cap_stream *s,
			struct cap_chunks **out)
{
	uint64_t size = 0, n = MAX(c->nstream, (size_t)1);
	struct cap_ahead *a;
	struct cap_chunks *k;

	*out = NULL;
	for (size_t i = 0; i < s->next; i++) {
		if (!s->ext[i].packed || s->ext[i].len > ROOM_MANY / n)
			return 0;
		size = MAX(size, s->ext[i].len);
	}
	if (!size)
		return 0;
	a = ahead_of(c);
	k = a ? calloc(1, sizeof(*k)) : NULL;
	if (!k)
		return -ENOMEM;
	*k = (struct cap_chunks){ .c = c,
				  .s = s,
				  .size = size,
				  .nslot = (size_t)MIN(ROOM_ALL / n / size, (uint64_t)SLOTS_MAX),
				  .alone = true };
	k->nslot = MIN(MAX(k->nslot, (size_t)1), s->next);
	k->mem = malloc((size_t)(k->nslot * size));
	if (!k->mem) {
		free(k);
		return -ENOMEM;
	}
	pthread_mutex_lock(&a->lock);
	k->other = a->first;
	a->first = k;
	pthread_mutex_unlock(&a->lock);
	*out = k;
	return 0;
}

void capture_chunks_close(struct cap_chunks *k)
{
	struct cap_ahead *a = k ? cap_priv(k->c)->ahead : NULL;
	struct cap_chunks **at;

	if (!k)
		return;
	pthread_mutex_lock(&a->lock);
	for (at = &a->first; *at != k;)
		at = &(*at)->other;
	*at = k->other;
	while (k->filling)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
	if (!a->first) {
		cap_priv(k->c)->ahead = NULL;
		ahead_end(a);
	}
	free(k->mem);
	free(k);
}

/* The ring begins anew where it does not go on. */
static void go_to(struct cap_ahead *a, struct cap_chunks *k, size_t x)
{
	if (x < k->at || x > k->have) {
		while (k->filling)
			pthread_cond_wait(&a->done, &a->lock);
		k->have = x;
	}
	k->at = x;
}

/* Chunk x is in its buffer, and those behind it will be. */
static void get_ahead(struct cap_ahead *a, struct cap_chunks *k, size_t x)
{
	struct cap_chunks *other;

	pthread_mutex_lock(&a->lock);
	go_to(a, k, x);
	if (a->idle && has_room(k) && k->have - k->at <= k->nslot / 2)
		pthread_cond_signal(&a->work);
	while (k->have <= x || !k->ready[slot_of(k, x)]) {
		other = k->have <= x ? k : most_urgent(a);
		if (other)
			fill(a, other, &cap_priv(k->c)->unpacker);
		else
			pthread_cond_wait(&a->done, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
}

/* From now on it belongs to the thread. */
static void hand_over(struct cap_ahead *a, struct cap_chunks *k, size_t x)
{
	if (!a->runs && !a->failed)
		ahead_start(a);
	if (!a->runs)
		return;
	pthread_mutex_lock(&a->lock);
	k->at = k->have = x;
	k->alone = false;
	pthread_mutex_unlock(&a->lock);
}

static void get(struct cap_ahead *a, struct cap_chunks *k, size_t x)
{
	if (k->alone && k->nslot >= SLOTS_MIN && k->reads++ == READS_BEFORE)
		hand_over(a, k, x);
	if (!k->alone) {
		get_ahead(a, k, x);
	} else if (x < k->at || x >= k->have) {
		unpack(&cap_priv(k->c)->unpacker, k, x);
		k->at = x;
		k->have = x + 1;
	}
}

ssize_t capture_chunks_read(struct cap_chunks *k, uint64_t idx, uint8_t **buf)
{
	uint64_t off;
	const struct cap_extent *e = cap_extent_of(k->c, k->s, idx, &off);
	size_t x;

	if (!e)
		return 0;
	x = (size_t)(e - k->s->ext);
	get(cap_priv(k->c)->ahead, k, x);
	if (k->ret[slot_of(k, x)])
		return k->ret[slot_of(k, x)];
	*buf = buf_of(k, x) + off;
	return (ssize_t)((e->len - off) / k->c->subbuf_size);
}
