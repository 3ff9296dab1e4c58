/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_block.c: sub-buffers out of the samples of a perf.data.
 *
 * The scan finds how many blocks each stream has, and where some of them begin. A block is made on
 * demand: its samples are read again, sorted, and written as the kernel would have done. Both
 * follow the same rule for where a block ends, so that only a place has to be remembered, and not
 * for every block.
 */
#include "perfdata.h"

#define AHEAD (32u << 10) /* bytes read at once: usually enough for one block */

/* ---- where a block ends ---- */

bool pd_block_takes(const struct perfdata *p, struct pd_block *b, const struct pd_at *at,
		    uint64_t time, uint32_t cost)
{
	const struct subbuf_geom *g = &p->w.g;
	uint32_t room = g->size - g->header - g->long_size;

	b->full = b->n &&
		  (b->cost + cost > room || MAX(b->max, time) - MIN(b->min, time) >= PD_SPAN_MAX);
	if (b->full)
		return false;
	if (b->has_end && time < b->end_max)
		b->has_end = false; /* older than what would be before the end */
	if (!b->has_end && b->n && b->cost >= room / 4 * 3 && time >= b->max) {
		b->has_end = true;
		b->end = *at;
		b->end_n = b->n;
		b->end_cost = b->cost;
		b->end_max = b->max;
		b->after_min = b->after_max = time;
	}
	b->after_min = MIN(b->after_min, time);
	b->after_max = MAX(b->after_max, time);
	b->min = b->n ? MIN(b->min, time) : time;
	b->max = b->n ? MAX(b->max, time) : time;
	b->cost += cost;
	b->n++;
	return true;
}

void pd_block_turn(struct pd_block *b)
{
	struct pd_block next = { 0 };

	if (b->full && b->has_end) {
		next.n = b->n - b->end_n;
		next.cost = b->cost - b->end_cost;
		next.min = b->after_min;
		next.max = b->after_max;
	}
	*b = next;
}

void pd_block_lose(struct pd_block *b, uint64_t count, uint64_t time)
{
	b->lost = true;
	b->uncounted |= !count || __builtin_add_overflow(b->lost_n, count, &b->lost_n);
	b->lost_time = time;
}

uint64_t pd_lost(const struct pd_record *r)
{
	struct cursor c = r->body;
	uint64_t count;

	return cur_skip(&c, 8) || cur_u64(&c, &count) ? 0 : count;
}

uint64_t pd_key(const struct perfdata *p, const struct pd_facts *f)
{
	return p->by_thread ? (uint64_t)f->cpu << 32 | (uint32_t)f->tid : f->cpu;
}

/* ---- making one ---- */

/* Keeps the data of a sample, because what is loaded changes with the next one. */
static int keep(struct perfdata *p, const struct pd_sample *s)
{
	struct pd_event *e = array_grow(&p->ev, p->nev, &p->ev_cap, sizeof(*e));

	if (!e)
		return -ENOMEM;
	if (s->raw_len > p->w.g.size - p->raw_len)
		return -EIO; /* together they cost more than their data: the file was changed
			      * meanwhile */
	*e = (struct pd_event){
		.time = s->f.time, .seq = (uint32_t)p->nev, .at = p->raw_len, .len = s->raw_len
	};
	memcpy(p->raw + p->raw_len, s->raw, s->raw_len);
	p->raw_len += s->raw_len;
	p->nev++;
	return 0;
}

static int event_cmp(const void *a, const void *b)
{
	const struct pd_event *x = a, *y = b;

	return ORDER(x->time, y->time) ?: ORDER(x->seq, y->seq);
}

static void sort(struct perfdata *p)
{
	for (size_t i = 1; i < p->nev; i++)
		if (p->ev[i].time < p->ev[i - 1].time) {
			qsort(p->ev, p->nev, sizeof(*p->ev), event_cmp);
			return;
		}
}

static int emit(void *arg __unused_arg, const void *buf __unused_arg)
{
	return 0; /* it stays where it was made */
}

int pd_writer_init(struct perfdata *p)
{
	struct subbuf_geom g = p->w.g;

	return subbuf_writer_init(&p->w, &g, emit, NULL);
}

static int write_block(struct perfdata *p, const struct pd_block *b)
{
	uint64_t before = p->w.emitted;
	int ret = 0;

	sort(p);
	p->w.ts = b->lost_time; /* of a block without events */
	if (b->lost)
		ret = subbuf_write_lost(&p->w, b->uncounted ? 0 : b->lost_n);
	for (size_t i = 0; i < p->nev && !ret; i++)
		ret = subbuf_write(&p->w, p->ev[i].time, p->raw + p->ev[i].at, p->ev[i].len);
	ret = ret ?: subbuf_write_end(&p->w);
	return ret || p->w.emitted == before + 1 ? ret : -EBADMSG;
}

/* A walk over the records of a stream. */
struct walk {
	struct pd_at at;
	struct pd_run run; /* that at is in; next: the one after it, 0: none */
	uint32_t next;
};

/* The next record of the stream at or after w->at, which becomes its place: 1, 0 at the end. */
static int next_record(struct perfdata *p, uint32_t stream, struct walk *w, struct pd_record *r)
{
	struct pd_at *at = &w->at;

	while (w->next) {
		uint64_t end = at->file - at->in + w->run.len;
		int ret = 0;

		if (pd_run_has(&w->run, stream))
			ret = pd_record(p, at->file, end, AHEAD, r);
		if (ret)
			return ret;
		*at = (struct pd_at){ .file = end, .run = w->next };
		w->next = pd_run_get(&p->runs, at->run, &w->run);
	}
	return 0;
}

static void skip_record(struct pd_at *at, const struct pd_record *r)
{
	at->file += r->len;
	at->in += (uint32_t)r->len;
}

static bool is_of(const struct perfdata *p, const struct pd_stream *s, const struct pd_facts *f)
{
	return f->has_cpu && f->cpu == s->cpu && (!p->by_thread || f->tid == s->tid);
}

/* One record for the block: 1; 0: the block ended before it; -errno. */
static int block_record(struct perfdata *p, const struct pd_stream *s, struct pd_block *b,
			const struct pd_at *at, struct pd_record *r)
{
	struct pd_sample smp;
	struct pd_facts f;
	int ret;

	if (r->type == PD_LOST) {
		pd_trailer(p, r, &f);
		if (!is_of(p, s, &f))
			return 1;
		if (b->n)
			return 0;
		pd_block_lose(b, pd_lost(r), f.time);
		return 1;
	}
	if (r->type != PD_SAMPLE)
		return 1;
	ret = pd_sample(p, r, &smp);
	if (ret <= 0 || !is_of(p, s, &smp.f)) /* the scan has reported what is broken */
		return 1;
	if (!pd_block_takes(p, b, at, smp.f.time, pd_cost(smp.raw_len)))
		return 0;
	ret = keep(p, &smp);
	return ret ?: 1;
}

/* Goes over block next_n of the stream, and makes it if asked to. */
static int next_block(struct perfdata *p, uint32_t stream, bool make)
{
	struct pd_stream *s = &p->stream[stream];
	struct walk w = { .at = s->next };
	struct pd_block b = { 0 };
	struct pd_record r;
	int ret;

	p->nev = p->raw_len = 0;
	w.next = pd_run_get(&p->runs, w.at.run, &w.run);
	while ((ret = next_record(p, stream, &w, &r)) > 0) {
		ret = block_record(p, s, &b, &w.at, &r);
		if (ret <= 0)
			break;
		skip_record(&w.at, &r);
	}
	if (ret < 0)
		return ret;
	if (b.full && b.has_end) {
		w.at = b.end;
		p->nev = b.end_n;
	}
	s->next = w.at;
	s->next_n++;
	return make ? write_block(p, &b) : 0;
}

int pd_make(void *perfdata, uint64_t stream, uint64_t idx, const uint8_t **buf)
{
	struct perfdata *p = perfdata;
	struct pd_stream *s = &p->stream[stream];
	uint64_t from = idx / p->stride;
	int ret = 0;

	*buf = p->w.buf;
	if (p->made_stream == stream && p->made == idx)
		return 0;
	if (from > s->nmark)
		return -EIO;
	if (s->next_n > idx || s->next_n < from * p->stride) {
		s->next = from ? s->mark[from - 1] : s->begin;
		s->next_n = from * p->stride;
	}
	while (s->next_n < idx && !ret)
		ret = next_block(p, (uint32_t)stream, false);
	ret = ret ?: next_block(p, (uint32_t)stream, true);
	p->made_stream = ret ? UINT32_MAX : (uint32_t)stream;
	p->made = idx;
	return ret;
}

void pd_free(void *perfdata)
{
	struct perfdata *p = perfdata;

	for (size_t i = 0; i < p->nstream; i++)
		free(p->stream[i].mark);
	free(p->stream);
	sbuf_free(&p->runs.text);
	free(p->layout);
	free(p->ids);
	free(p->window);
	free(p->ev);
	free(p->raw);
	subbuf_writer_free(&p->w);
	free(p);
}
