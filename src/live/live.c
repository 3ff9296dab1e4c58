/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live.c: what commands that watch events live have in common: formats, descriptors, signals and
 * output, and sub-buffers as they are read from the kernel, merged over CPUs within a bounded
 * window.
 *
 * Each CPU has a queue of sub-buffers. What may be given out is bounded by a horizon: the newest
 * stamp that any CPU had shown at the end of the *previous* read. An event below it was reserved
 * before that read ended, so it is in its queue by now, unless its writer was held up between
 * reserving and committing for longer than an interval. A CPU whose queue is full has more in the
 * kernel: nothing newer than its last event may pass then.
 *
 * Output goes through poll() and write() in small pieces, so that a signal is obeyed even if nobody
 * reads the pipe behind standard output, and a reader that goes away is noticed even if no event
 * comes.
 */
#include "kvmft/live.h"

#include <limits.h>
#include <poll.h>
#include <sys/signalfd.h>

#define QUEUE_BYTES_CPU (8u << 20)  /* at most, per CPU ... */
#define SPARE_BLOCKS	32
#define QUEUE_BYTES_ALL (64u << 20) /* ... and together; a CPU gets at least two sub-buffers */

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
	int *raw; /* descriptors of the CPUs, if they are its own; nraw */
	size_t nraw;
	bool by_cpu; /* items come CPU by CPU, now that of `at`, and not in time order */
	size_t at;
	struct live_block *spare;
	size_t nspare;
	struct rmerge *merge;
	bool pending; /* the winner was given out and is to be dropped */
	uint64_t newest, horizon, given;
	struct live_totals totals;
};

int live_new(uint32_t subbuf_size, bool in_order, struct live **out)
{
	struct live *l;

	if (subbuf_size < 64 || subbuf_size > CAPTURE_MAX_SUBBUF)
		return -EINVAL;
	l = xcalloc(1, sizeof(*l));
	l->geom = subbuf_geom_here(subbuf_size);
	l->by_cpu = !in_order;
	*out = l;
	return 0;
}

void live_add_cpu(struct live *l, uint32_t cpu, int fd)
{
	struct live_cpu *c = xcalloc(1, sizeof(*c));

	c->l = l;
	c->cpu = c->item.cpu = cpu;
	c->fd = fd;
	xarray_add(&l->cpu, &l->n, &l->cap, &c, sizeof(c));
}

/* ---- from the kernel into the queues ---- */

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

/* One sub-buffer: 1, 0 if there is none now, -errno. */
static int cpu_fetch(struct live_cpu *c)
{
	struct live_block *b = c->l->spare;
	struct subbuf sb;
	struct rec rec;
	ssize_t n;
	int got;

	/* Memory that is new costs its pages: as much again as all that is done with it. */
	if (b) {
		c->l->spare = b->next;
		c->l->nspare--;
	} else if (!(b = malloc(sizeof(*b) + c->l->geom.size))) {
		return -ENOMEM;
	}
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
	/* Its newest stamp, if that matters; one that is unreadable is reported later. */
	c->sparse = false;
	if (subbuf_begin(&sb, b->data, &c->l->geom))
		return 1;
	c->sparse = subbuf_sparse(&sb, &c->l->geom);
	c->last = MAX(c->last, sb.ts);
	while (!c->l->by_cpu && subbuf_next(&sb, &rec) > 0)
		c->last = MAX(c->last, rec.ts);
	return 1;
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

void live_free(struct live *l)
{
	struct live_block *b;

	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		while (l->cpu[i]->head)
			block_drop(l->cpu[i]);
		free(l->cpu[i]);
	}
	while ((b = l->spare)) {
		l->spare = b->next;
		free(b);
	}
	rmerge_free(l->merge);
	session_raw_close(l->raw, l->nraw);
	free(l->cpu);
	free(l);
}

static void item_set(struct live_cpu *c, enum rkind kind, uint64_t ts)
{
	c->item = (struct live_item){ .kind = kind, .cpu = c->cpu, .ts = ts };
	c->have = true;
}

/* Makes the next item of this CPU current: false if its queue is empty. */
static bool cpu_pull(struct live_cpu *c)
{
	int got;

	while (c->head) {
		if (!c->open) {
			if (subbuf_begin(&c->sb, c->head->data, &c->l->geom)) {
				block_drop(c);
				item_set(c, R_DAMAGE, c->item.ts);
				return true;
			}
			c->open = true;
			if (!c->sb.lost)
				continue;
			item_set(c, R_GAP, c->sb.ts);
			c->item.lost = c->sb.lost_counted ? c->sb.lost_count : 0;
			return true;
		}
		/* Not by item_set(): copies cost more than all the rest of an event. */
		got = subbuf_next(&c->sb, &c->item.rec);
		if (got > 0) {
			c->item.kind = R_EVENT;
			c->item.ts = c->item.rec.ts;
			c->item.lost = 0;
			c->have = true;
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

int live_read(struct live *l, bool last)
{
	uint64_t before = l->by_cpu ? 0 : l->newest;
	size_t bytes = MIN((size_t)QUEUE_BYTES_CPU, QUEUE_BYTES_ALL / MAX(l->n, (size_t)1));
	size_t limit = MAX(bytes / l->geom.size, (size_t)2);
	bool full = false;
	int first = 0, got;

	drop_given(l);
	/*
	 * Reads what came until `before`, and more, up to a sparse sub-buffer: unless that is the
	 * first, which is the rest of what the previous reading ended with.
	 */
	for (size_t i = 0; i < l->n; i++) {
		struct live_cpu *c = l->cpu[i];
		bool enough = false;

		got = 1;
		for (size_t n = 0; got > 0 && !enough && c->blocks < limit; n++) {
			got = cpu_fetch(c);
			enough = n && c->sparse && c->last > (last ? UINT64_MAX : before);
		}
		/* Full says "perhaps more": the next read will know. */
		c->full = c->blocks >= limit;
		l->newest = MAX(l->newest, c->last);
		first = first ?: MIN(got, 0);
	}
	l->horizon = last ? UINT64_MAX : before;
	for (size_t i = 0; i < l->n; i++) {
		if (!l->cpu[i]->full)
			continue;
		full = true;
		l->horizon = MIN(l->horizon, l->cpu[i]->last);
	}
	l->at = 0;
	rmerge_free(l->merge);
	l->merge = NULL;
	got = l->by_cpu ? 0 : rmerge_new(&l->merge, cpu_next, (void *const *)l->cpu, l->n);
	if (first || got)
		return first ?: got;
	return full;
}

const struct live_item *live_next(struct live *l)
{
	struct live_totals *t = &l->totals;
	struct live_item *i;
	uint64_t key;
	ssize_t w;

	while (l->by_cpu && l->at < l->n && !cpu_pull(l->cpu[l->at]))
		l->at++;
	if (l->by_cpu) {
		i = l->at < l->n ? &l->cpu[l->at]->item : NULL;
	} else {
		drop_given(l);
		w = l->merge ? rmerge_peek(l->merge, &key) : -1;
		i = w < 0 ? NULL : &l->cpu[w]->item;
		l->pending = i != NULL;
	}
	if (!i)
		return NULL;
	i->late = !l->by_cpu && i->ts < l->given;
	l->given = i->late || l->by_cpu ? l->given : i->ts;
	t->late += i->late;
	if (i->kind == R_EVENT) {
		t->events++;
	} else if (i->kind == R_DAMAGE) {
		t->damaged++;
	} else {
		t->gaps++;
		t->lost += i->lost;
		t->lost_unknown |= !i->lost;
	}
	return i;
}

const struct live_totals *live_totals(const struct live *l)
{
	return &l->totals;
}

#define DEFAULT_BUFFER_KB 4096u
#define MIN_BUFFER_KB	  512u
#define FREE_MEMORY_SHARE 20u /* the rings of all CPUs take at most 1/20 of what is free */

int session_formats(struct ktracefs *t, const struct kevent_list *list, struct fmt **fmt,
		    struct kvmft_err *err)
{
	struct capture cap = { .long_size = sizeof(long) };
	int ret = 0;

	cap.format = xcalloc(MAX(list->n, (size_t)1), sizeof(*cap.format));
	for (; cap.nformat < list->n && !ret; cap.nformat++) {
		const struct kevent *e = &list->v[cap.nformat];
		struct cap_format *f = &cap.format[cap.nformat];

		*f = (struct cap_format){ .sys = e->sys, .name = e->name }; /* fmt_load() copies */
		ret = kevent_format(t, e->sys, e->name, &f->text);
		if (ret)
			err_why(err, ret, "cannot read the format of %s:%s", e->sys, e->name);
		else
			f->len = strlen(f->text);
	}
	if (!ret)
		*fmt = fmt_load(&cap);
	for (size_t i = 0; i < cap.nformat; i++)
		free(cap.format[i].text);
	free(cap.format);
	return ret;
}

/* ---- the ring ---- */

uint64_t session_buffer_kb(size_t ncpu)
{
	long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t share;

	if (pages <= 0 || size <= 0)
		return MIN_BUFFER_KB;
	share = (uint64_t)pages * (uint64_t)size / 1024 / FREE_MEMORY_SHARE / MAX(ncpu, (size_t)1);
	return MAX(MIN(share, (uint64_t)DEFAULT_BUFFER_KB), (uint64_t)MIN_BUFFER_KB);
}

void session_raw_close(int *raw, size_t n)
{
	for (size_t i = 0; raw && i < n; i++)
		if (raw[i] >= 0)
			close(raw[i]);
	free(raw);
}

int session_raw_open(struct kinst *k, const struct kcpus *cpus, int **raw, struct kvmft_err *err)
{
	*raw = xmalloc(MAX(cpus->n, (size_t)1) * sizeof(**raw));
	for (size_t i = 0; i < cpus->n; i++)
		(*raw)[i] = -1;
	for (size_t i = 0; i < cpus->n; i++) {
		(*raw)[i] = kinst_raw_open(k, cpus->cpu[i], true, err);
		if ((*raw)[i] < 0)
			return (*raw)[i];
	}
	return 0;
}

int live_open(struct kinst *k, const struct kcpus *cpus, bool in_order, struct live **live,
	      struct kvmft_err *err)
{
	int ret = live_new(kinst_subbuf_size(k), in_order, live);

	if (ret)
		return err_why(err, ret, "cannot read the ring");
	(*live)->nraw = cpus->n;
	ret = session_raw_open(k, cpus, &(*live)->raw, err);
	for (size_t i = 0; i < cpus->n && !ret; i++)
		live_add_cpu(*live, cpus->cpu[i], (*live)->raw[i]);
	return ret;
}

uint64_t session_lost(struct kinst *k, const struct kcpus *cpus, uint64_t *left)
{
	uint64_t lost = 0;
	struct kstats s;

	for (size_t i = 0; i < cpus->n; i++)
		if (kinst_stats(k, cpus->cpu[i], &s, NULL) == 0) {
			lost += s.overrun + s.commit_overrun + s.dropped;
			if (left)
				*left += s.entries;
		}
	return lost;
}

/* ---- signals, output ---- */

int session_signals(struct kvmft_err *err)
{
	int fd = signal_fd_open(0);

	return fd < 0 ? err_why(err, fd, "cannot wait for signals") : fd;
}

void session_signals_end(int *fd)
{
	struct signalfd_siginfo si;
	sigset_t set;

	if (*fd < 0)
		return;
	while (read(*fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		; /* what they were to end has ended */
	util_close_fd(fd);
	signal_ends(&set);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int session_write(int signal_fd, const char *text, size_t n, enum session_write *how,
		  struct kvmft_err *err)
{
	size_t at = 0, piece = PIPE_BUF;
	struct stat st;

	/* How much can be written without blocking when poll() says "writable". */
	if (fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode))
		piece = SIZE_MAX;
	*how = SESSION_WRITTEN;
	while (at < n) {
		struct pollfd p[2] = { { .fd = STDOUT_FILENO, .events = POLLOUT },
				       { .fd = signal_fd, .events = POLLIN } };
		ssize_t got;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_why(err, errno, "cannot wait");
		if (!p[0].revents && p[1].revents) {
			*how = SESSION_SIGNAL; /* nobody reads: what is left is not wanted */
			return 0;
		}
		if (!p[0].revents)
			continue;
		got = write(STDOUT_FILENO, text + at, MIN(n - at, piece));
		if (got < 0 && errno == EPIPE) {
			*how = SESSION_READER_GONE;
			return 0;
		}
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return err_why(err, errno, "cannot write");
		at += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

enum exit_isa session_isa(const struct exit_names *n)
{
	const char *module;
	enum exit_isa isa;
	struct stat st;

	for (size_t i = 0; (module = exit_module(i, &isa)); i++) {
		if (module[0] && !stat(TEXTF("/sys/module/%s", module), &st))
			return isa;
	}
	return n->isa;
}
