/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_record.c: the records of a perf.data, one by one.
 *
 *   u32 type, u16 misc, u16 size (of all of it), body
 *
 * The body of a sample is what its event's sample_type asks for, in the order of the list below, of
 * which anything after raw data is ignored here. Other records have their own kind of body, with
 * some of the same facts at its end if the event asks for them. The event is identified by an id,
 * at a place that all events share.
 */
#include "perfdata.h"

/* sample_type */
#define IP	   (1u << 0)
#define TID	   (1u << 1)
#define TIME	   (1u << 2)
#define ADDR	   (1u << 3)
#define READ	   (1u << 4)
#define CALLCHAIN  (1u << 5)
#define ID	   (1u << 6)
#define CPU	   (1u << 7)
#define PERIOD	   (1u << 8)
#define STREAM_ID  (1u << 9)
#define RAW	   (1u << 10)
#define IDENTIFIER (1u << 16)

/* read_format */
#define TIME_ENABLED 0 /* numbers of bits */
#define TIME_RUNNING 1
#define READ_ID	     2
#define GROUP	     3
#define LOST	     4

#define WINDOW	     (128u << 10) /* holds a record of any size */

static const uint32_t in_sample[] = { IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD };
static const uint32_t in_trailer[] = { TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER };

/* Each is 8 bytes long. */
static struct pd_places places(uint64_t type, const uint32_t *order, size_t n)
{
	struct pd_places f = { PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, 0 };

	for (size_t i = 0; i < n; i++) {
		if (!(type & order[i]))
			continue;
		if (order[i] == TID)
			f.tid = f.size;
		if (order[i] == TIME)
			f.time = f.size;
		if (order[i] == CPU)
			f.cpu = f.size;
		if (order[i] == IDENTIFIER || (order[i] == ID && !(type & IDENTIFIER)))
			f.id = f.size;
		f.size += 8;
	}
	return f;
}

void pd_layout_places(struct pd_layout *l)
{
	l->sample = places(l->sample_type, in_sample, ARRAY_SIZE(in_sample));
	l->trailer = places(l->id_all ? l->sample_type : 0, in_trailer, ARRAY_SIZE(in_trailer));
	l->tracepoint &= (l->sample_type & RAW) && l->sample.time != PD_NOWHERE &&
			 l->sample.cpu != PD_NOWHERE;
}

/* n bytes of the file in memory: their address; NULL: they cannot be read, *ret says why. */
static const uint8_t *load(struct perfdata *p, uint64_t at, size_t n, uint64_t end, size_t ahead,
			   int *ret)
{
	uint64_t in = at - p->window_at;
	ssize_t got;

	if (p->plain)
		return p->plain + at; /* the caller knows that it ends by end */
	if (in <= p->window_len && n <= p->window_len - in)
		return p->window + in;
	p->window = p->window ?: malloc(WINDOW);
	*ret = p->window ? -EIO : -ENOMEM;
	if (!p->window)
		return NULL;
	ahead = MIN(MAX(ahead, n), (size_t)WINDOW);
	got = full_pread(p->fd, p->window, (size_t)MIN((uint64_t)ahead, end - at), at);
	p->window_at = at;
	p->window_len = got > 0 ? (size_t)got : 0;
	if (got < 0)
		*ret = (int)got;
	return p->window_len >= n ? p->window : NULL; /* else the file shrank */
}

int pd_record(struct perfdata *p, uint64_t at, uint64_t end, size_t ahead, struct pd_record *r)
{
	const uint8_t *b;
	size_t size;
	int ret = 0;

	if (at >= end)
		return 0;
	if (end - at < PD_RECORD_HEAD)
		return -EBADMSG;
	b = load(p, at, PD_RECORD_HEAD, end, ahead, &ret);
	if (!b)
		return ret;
	size = load_u16(b + 6);
	if (size < PD_RECORD_HEAD || size > end - at)
		return -EBADMSG;
	b = load(p, at, size, end, ahead, &ret);
	if (!b)
		return ret;
	r->type = load_u32(b);
	r->misc = load_u16(b + 4);
	r->body = (struct cursor){ .p = b + PD_RECORD_HEAD, .left = size - PD_RECORD_HEAD };
	r->len = r->more_at = size;
	/* Followed by data that the size does not include. */
	if (r->type == PD_AUXTRACE || r->type == PD_TRACING) {
		uint64_t more = UINT64_MAX;

		if (r->type == PD_TRACING && size >= PD_RECORD_HEAD + 4)
			more = ((uint64_t)load_u32(b + PD_RECORD_HEAD) + 7) & ~(uint64_t)7;
		else if (size >= PD_RECORD_HEAD + 8)
			more = load_u64(b + PD_RECORD_HEAD);

		if (more > end - at - size)
			return -EBADMSG;
		r->len += more;
	}
	return 1;
}

/* With an id that no event has: the first event, as in perf. */
static const struct pd_layout *layout_of(const struct perfdata *p, uint64_t id)
{
	size_t lo = 0, hi = p->nids;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (id > p->ids[mid].last)
			lo = mid + 1;
		else if (id < p->ids[mid].first)
			hi = mid;
		else
			return &p->layout[p->ids[mid].layout];
	}
	return &p->layout[0];
}

/* b: f->size bytes. */
static void facts(const struct pd_places *at, const uint8_t *b, struct pd_facts *f)
{
	*f = (struct pd_facts){ .pid = -1, .tid = -1 };
	if (at->id != PD_NOWHERE)
		f->id = load_u64(b + at->id);
	if (at->tid != PD_NOWHERE) {
		f->pid = (int32_t)load_u32(b + at->tid);
		f->tid = (int32_t)load_u32(b + at->tid + 4);
	}
	f->has_time = at->time != PD_NOWHERE;
	if (f->has_time)
		f->time = load_u64(b + at->time);
	f->has_cpu = at->cpu != PD_NOWHERE;
	if (f->has_cpu)
		f->cpu = load_u32(b + at->cpu);
}

/* Counters: their times, then for each of them a value, an id, and how often it was lost. */
static int skip_read(struct cursor *c, uint64_t format)
{
	uint64_t times = (format >> TIME_ENABLED & 1) + (format >> TIME_RUNNING & 1), n = 1;
	uint64_t each = 1 + (format >> READ_ID & 1) + (format >> LOST & 1);

	if ((format >> GROUP & 1) && cur_u64(c, &n))
		return -EBADMSG;
	if (n > c->left / 8 || 8 * (times + n * each) > c->left)
		return -EBADMSG;
	return cur_skip(c, (size_t)(8 * (times + n * each)));
}

static int skip_callchain(struct cursor *c)
{
	uint64_t n;

	if (cur_u64(c, &n) || n > c->left / 8)
		return -EBADMSG;
	return cur_skip(c, (size_t)n * 8);
}

int pd_sample(const struct perfdata *p, const struct pd_record *r, struct pd_sample *s)
{
	const struct pd_layout *l = &p->layout[0];
	struct cursor c = r->body;
	const uint8_t *b;

	if (p->nids) { /* all layouts have the id at the same place */
		if (c.left < l->sample.id + 8u)
			return -EBADMSG;
		l = layout_of(p, load_u64(c.p + l->sample.id));
	}
	if (!l->tracepoint)
		return 0;
	if (cur_bytes(&c, l->sample.size, &b))
		return -EBADMSG;
	facts(&l->sample, b, &s->f);
	if ((l->sample_type & READ) && skip_read(&c, l->read_format))
		return -EBADMSG;
	if ((l->sample_type & CALLCHAIN) && skip_callchain(&c))
		return -EBADMSG;
	if (cur_u32(&c, &s->raw_len) || cur_bytes(&c, s->raw_len, &s->raw) || s->raw_len < 8)
		return -EBADMSG; /* the fields that all events have take 8 bytes */
	return 1;
}

void pd_trailer(const struct perfdata *p, struct pd_record *r, struct pd_facts *f)
{
	const struct pd_layout *l = &p->layout[0];
	const struct pd_places none = { PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, 0 };
	uint32_t back = (uint32_t)l->trailer.size - l->trailer.id;

	if (p->nids && l->id_all && r->body.left >= back)
		l = layout_of(p, load_u64(r->body.p + r->body.left - back));
	if (r->body.left < l->trailer.size) {
		facts(&none, NULL, f);
		return;
	}
	r->body.left -= l->trailer.size;
	facts(&l->trailer, r->body.p + r->body.left, f);
}
