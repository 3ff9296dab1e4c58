/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rings.c: sub-buffers as they are read from the kernel, merged over CPUs within a bounded window.
 *
 * Each CPU has a queue of sub-buffers. What may be given out is bounded by a horizon: the newest
 * stamp that any CPU had shown at the end of the *previous* read. An event below it was reserved
 * before that read ended, so it is in its queue by now, unless its writer was held up between
 * reserving and committing for longer than an interval. A CPU whose queue is full has more in the
 * kernel: nothing newer than its last event may pass then.
 */
#include "kvmft/live.h"

#define QUEUE_BYTES_CPU (8u << 20)  /* at most, per CPU ... */
#define QUEUE_BYTES_ALL (64u << 20) /* ... and together; a CPU gets at least two sub-buffers */
#define SPARE_BLOCKS	32

struct live_block {
	struct live_block *next;
	uint8_t data[];
};

struct live_cpu {
	struct live *l;
	uint32_t cpu;
	int fd;
	struct live_block *head, *tail;
	size_t blocks;
	bool full;	/* the kernel has more than the queue takes */
	bool sparse;	/* the sub-buffer read last was */
	uint64_t last;	/* newest stamp in the queue so far */
	struct subbuf sb; /* walk over head, when open */
	bool open, have;
	struct live_item item; /* valid when have */
};

struct live {
	struct subbuf_geom geom;
	struct live_cpu **cpu;
	size_t n, cap;
	struct live_block *spare;
	size_t nspare;
	struct rmerge *merge;
	bool pending;	  /* the winner was given out and is to be dropped */
	uint64_t newest, horizon, given;
	struct live_totals totals;
};

int live_new(uint32_t subbuf_size, struct live **out)
{
	struct live *l;

	if (subbuf_size < 64 || subbuf_size > CAPTURE_MAX_SUBBUF)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->geom = subbuf_geom_here(subbuf_size);
	*out = l;
	return 0;
}

static void blocks_free(struct live_block *b)
{
	while (b) {
		struct live_block *next = b->next;

		free(b);
		b = next;
	}
}

void live_free(struct live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		blocks_free(l->cpu[i]->head);
		free(l->cpu[i]);
	}
	blocks_free(l->spare);
	rmerge_free(l->merge);
	free(l->cpu);
	free(l);
}

int live_add_cpu(struct live *l, uint32_t cpu, int fd)
{
	struct live_cpu **slot = array_grow(&l->cpu, l->n, &l->cap, sizeof(*slot));
	struct live_cpu *c = calloc(1, sizeof(*c));

	if (!slot || !c) {
		free(c);
		return -ENOMEM;
	}
	c->l = l;
	c->cpu = cpu;
	c->fd = fd;
	*slot = c;
	l->n++;
	return 0;
}

/* ---- from the kernel into the queues ---- */

static struct live_block *block_get(struct live *l)
{
	struct live_block *b = l->spare;

	if (!b)
		return malloc(sizeof(*b) + l->geom.size);
	l->spare = b->next;
	l->nspare--;
	return b;
}

static void block_put(struct live *l, struct live_block *b)
{
	if (l->nspare >= SPARE_BLOCKS) {
		free(b);
		return;
	}
	b->next = l->spare;
	l->spare = b;
	l->nspare++;
}

/*
 * The newest stamp of a sub-buffer, and how full it is; an unreadable one is reported when it is
 * given out.
 */
static void scan_newest(struct live_cpu *c, const struct live_block *b)
{
	struct subbuf sb;
	struct rec rec;

	c->sparse = false;
	if (subbuf_begin(&sb, b->data, &c->l->geom))
		return;
	c->sparse = subbuf_sparse(&sb, &c->l->geom);
	c->last = MAX(c->last, sb.ts);
	while (subbuf_next(&sb, &rec) > 0)
		c->last = MAX(c->last, rec.ts);
}

/* One sub-buffer: 1, 0 if there is none now, -errno. */
static int cpu_fetch(struct live_cpu *c)
{
	struct live_block *b = block_get(c->l);
	ssize_t n;
	int got;

	if (!b)
		return -ENOMEM;
	do {
		n = read(c->fd, b->data, c->l->geom.size);
	} while (n < 0 && errno == EINTR);
	got = n < 0 ? -errno : 0;
	if (n != (ssize_t)c->l->geom.size) {
		block_put(c->l, b);
		if (n > 0)
			return -EMSGSIZE;
		/* 0 is not the end of such a file: what comes next is not committed yet. */
		return got == -EAGAIN ? 0 : got;
	}
	b->next = NULL;
	if (c->tail)
		c->tail->next = b;
	else
		c->head = b;
	c->tail = b;
	c->blocks++;
	scan_newest(c, b);
	return 1;
}

static size_t queue_limit(const struct live *l)
{
	size_t bytes = MIN((size_t)QUEUE_BYTES_CPU, QUEUE_BYTES_ALL / MAX(l->n, (size_t)1));

	return MAX(bytes / l->geom.size, (size_t)2);
}

/*
 * Reads what came until `before`, and more, up to a sparse sub-buffer: unless that is the first,
 * which is the rest of what the previous reading ended with.
 */
static int cpu_read(struct live_cpu *c, size_t limit, uint64_t before)
{
	bool enough = false;
	int got = 1;

	for (size_t n = 0; got > 0 && !enough && c->blocks < limit; n++) {
		got = cpu_fetch(c);
		enough = n && c->sparse && c->last > before;
	}
	/* Full says "perhaps more": the next read will know. */
	c->full = c->blocks >= limit;
	c->l->newest = MAX(c->l->newest, c->last);
	return got < 0 ? got : 0;
}

/* ---- out of the queues ---- */

static void block_drop(struct live_cpu *c)
{
	struct live_block *b = c->head;

	c->head = b->next;
	if (!c->head)
		c->tail = NULL;
	c->blocks--;
	c->open = false;
	block_put(c->l, b);
}

static void item_set(struct live_cpu *c, enum rkind kind, uint64_t ts)
{
	c->item = (struct live_item){ .kind = kind, .cpu = c->cpu, .ts = ts };
	c->have = true;
}

/* Opens the next sub-buffer; true if that alone is already something to give out. */
static bool block_open(struct live_cpu *c)
{
	if (subbuf_begin(&c->sb, c->head->data, &c->l->geom)) {
		block_drop(c);
		item_set(c, R_DAMAGE, c->item.ts);
		return true;
	}
	c->open = true;
	if (!c->sb.lost)
		return false;
	item_set(c, R_GAP, c->sb.ts);
	c->item.lost = c->sb.lost_counted ? c->sb.lost_count : 0;
	return true;
}

/* Makes the next item of this CPU current: false if its queue is empty. */
static bool cpu_pull(struct live_cpu *c)
{
	struct rec rec;
	int got;

	while (c->head) {
		if (!c->open) {
			if (block_open(c))
				return true;
			continue;
		}
		got = subbuf_next(&c->sb, &rec);
		if (got > 0) {
			item_set(c, R_EVENT, rec.ts);
			c->item.rec = rec;
			return true;
		}
		block_drop(c);
		if (got < 0) {
			item_set(c, R_DAMAGE, c->sb.ts);
			return true;
		}
	}
	return false;
}

/* A source of the merge: ends, until the next live_read(), at the horizon. */
static bool cpu_next(void *src, uint64_t *key)
{
	struct live_cpu *c = src;

	if ((!c->have && !cpu_pull(c)) || c->item.ts > c->l->horizon)
		return false;
	*key = c->item.ts;
	return true;
}

static void drop_given(struct live *l)
{
	uint64_t key;
	ssize_t w;

	if (!l->pending)
		return;
	l->pending = false;
	w = rmerge_peek(l->merge, &key);
	l->cpu[w]->have = false;
	(void)rmerge_pop(l->merge, w, cpu_next, &key);
}

static int merge_new(struct live *l)
{
	rmerge_free(l->merge);
	l->merge = NULL;
	return rmerge_new(&l->merge, cpu_next, (void *const *)l->cpu, l->n);
}

int live_read(struct live *l, bool last)
{
	uint64_t before = l->newest;
	size_t limit = queue_limit(l);
	bool full = false;
	int first = 0, got;

	drop_given(l);
	for (size_t i = 0; i < l->n; i++) {
		got = cpu_read(l->cpu[i], limit, last ? UINT64_MAX : before);
		first = first ?: got;
	}
	l->horizon = last ? UINT64_MAX : before;
	for (size_t i = 0; i < l->n; i++) {
		if (!l->cpu[i]->full)
			continue;
		full = true;
		l->horizon = MIN(l->horizon, l->cpu[i]->last);
	}
	got = merge_new(l);
	if (first || got)
		return first ?: got;
	return full;
}

static void count(struct live *l, const struct live_item *i)
{
	struct live_totals *t = &l->totals;

	t->late += i->late;
	switch (i->kind) {
	case R_EVENT: t->events++; break;
	case R_DAMAGE: t->damaged++; break;
	default:
		t->gaps++;
		t->lost += i->lost;
		t->lost_unknown |= !i->lost;
	}
}

int live_next(struct live *l, struct live_item *item)
{
	uint64_t key;
	ssize_t w;

	if (!l->merge)
		return 0;
	drop_given(l);
	w = rmerge_peek(l->merge, &key);
	if (w < 0)
		return 0;
	l->pending = true;
	*item = l->cpu[w]->item;
	item->late = key < l->given;
	l->given = MAX(l->given, key);
	count(l, item);
	return 1;
}

const struct live_totals *live_totals(const struct live *l)
{
	return &l->totals;
}
