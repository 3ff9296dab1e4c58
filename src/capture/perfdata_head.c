/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_head.c: what a perf.data begins with: where its parts are, and how the records of its
 * events are laid out.
 *
 *   "PERFILE2", u64 size of the header, u64 size of an attribute with its ids' section
 *   sections { u64 offset, u64 size }: attributes, records, event types (obsolete)
 *   u64 x 4: bits of the features that are there; their sections, in the order of the bits, stand
 *   behind the records
 *
 * All integers are little-endian; of big-endian machines the magic is reversed: they are refused.
 * A size of 16 is the header of a pipe: all the rest is records then.
 */
#include "perfdata.h"

#include <inttypes.h>

#define HEADER	    104
#define PIPE_HEADER 16
#define ATTR_LEAST  64
#define ATTR_MOST   4096
#define MAX_ATTRS   65536u
#define MAX_LAYOUTS 64u
#define MAX_IDS	    65536u /* ranges */
#define IDS_AT_ONCE 512u

enum { TYPE_TRACEPOINT = 2 };
enum flag { SAMPLE_ID_ALL = 18, USE_CLOCKID = 25, WRITE_BACKWARD = 27 };

bool pd_inside(const struct perfdata *p, const struct pd_section *s)
{
	return s->at <= p->size && s->size <= p->size - s->at;
}

/* ---- the header ---- */

int pd_section(struct cursor *c, struct pd_section *s)
{
	return cur_u64(c, &s->at) || cur_u64(c, &s->size) ? -ENODATA : 0;
}

static int read_header(struct pd_head *h)
{
	struct perfdata *p = h->p;
	struct pd_section types;
	uint8_t b[HEADER];
	struct cursor c;
	uint64_t size;
	ssize_t n = full_pread(p->fd, b, sizeof(b), 0);

	if (n < 0)
		return (int)n;
	if (n && b[0] == '2')
		return err_set(h->err, EPROTONOSUPPORT, CAP_BIG_ENDIAN "perf script shows it");
	c = (struct cursor){ b, (size_t)n };
	if (cur_skip(&c, 8) || cur_u64(&c, &size))
		return err_set(h->err, EBADMSG, "cut in its first bytes");
	h->pipe = size == PIPE_HEADER;
	p->begin = PIPE_HEADER;
	p->end = p->size;
	if (h->pipe)
		return 0;
	if (cur_u64(&c, &h->attr_size) || pd_section(&c, &h->attrs) || pd_section(&c, &h->data) ||
	    pd_section(&c, &types))
		return err_set(h->err, EBADMSG, "cut in its first bytes");
	for (size_t i = 0; i < ARRAY_SIZE(h->bits); i++)
		if (cur_u64(&c, &h->bits[i]))
			return err_set(h->err, EBADMSG, "cut in its first bytes");
	if (size < HEADER || h->attr_size < ATTR_LEAST + 16 || h->attr_size > ATTR_MOST ||
	    !pd_inside(p, &h->attrs))
		return err_set(h->err, EBADMSG,
			       "its header is damaged (size %" PRIu64 ", attributes of %" PRIu64
			       " bytes)",
			       size, h->attr_size);
	h->cut = !h->data.size || !pd_inside(p, &h->data);
	p->begin = MIN(h->data.at, p->size);
	p->end = h->cut ? p->size : h->data.at + h->data.size;
	return 0;
}

/* ---- attributes ---- */

static bool has_flag(uint64_t flags, enum flag bit)
{
	return flags >> bit & 1;
}

static int layout_add(struct perfdata *p, const struct pd_layout *l, uint32_t *which)
{
	for (size_t i = 0; i < p->nlayout; i++)
		if (p->layout[i].sample_type == l->sample_type &&
		    p->layout[i].read_format == l->read_format &&
		    p->layout[i].tracepoint == l->tracepoint && p->layout[i].id_all == l->id_all) {
			*which = (uint32_t)i;
			return 0;
		}
	if (p->nlayout >= MAX_LAYOUTS)
		return -E2BIG;
	*which = (uint32_t)p->nlayout;
	return array_add(&p->layout, &p->nlayout, &p->layout_cap, l, sizeof(*l));
}

/* struct perf_event_attr, as far as present: which layout it asks for. */
static int take_attr(struct pd_head *h, struct cursor c, uint32_t *which)
{
	uint64_t config, period, flags = 0;
	struct pd_layout l = { 0 };
	uint32_t type, size;

	if (cur_u32(&c, &type) || cur_u32(&c, &size) || cur_u64(&c, &config) ||
	    cur_u64(&c, &period) || cur_u64(&c, &l.sample_type) || cur_u64(&c, &l.read_format) ||
	    cur_u64(&c, &flags))
		return -EBADMSG;
	if (has_flag(flags, WRITE_BACKWARD))
		return err_set(
			h->err, EOPNOTSUPP,
			"recorded with perf's option --overwrite, so its events are in reverse "
			"order: record without it");
	h->use_clockid |=
		has_flag(flags, USE_CLOCKID) && !cur_skip(&c, 44) && !cur_u32(&c, &h->clockid);
	l.id_all = has_flag(flags, SAMPLE_ID_ALL);
	l.tracepoint = type == TYPE_TRACEPOINT;
	pd_layout_places(&l);
	h->no_raw |= type == TYPE_TRACEPOINT && !l.tracepoint;
	h->tracepoints |= l.tracepoint;
	return layout_add(h->p, &l, which);
}

/* ... and where its ids are. */
static int read_attr(struct pd_head *h, uint64_t i, uint32_t *which, struct pd_section *ids)
{
	uint8_t b[ATTR_MOST];
	struct cursor end = { b + h->attr_size - 16, 16 };
	ssize_t n = full_pread(h->p->fd, b, h->attr_size, h->attrs.at + i * h->attr_size);

	if (n < 0 || (size_t)n != h->attr_size)
		return n < 0 ? (int)n : -EIO;
	return pd_section(&end, ids)
		       ?: take_attr(h, (struct cursor){ b, h->attr_size - 16 }, which);
}

static int add_id(struct perfdata *p, uint64_t id, uint32_t layout)
{
	const struct pd_ids one = { .first = id, .last = id, .layout = layout };
	struct pd_ids *last = p->nids ? &p->ids[p->nids - 1] : NULL;

	if (last && last->layout == layout && id == last->last + 1) {
		last->last = id;
		return 0;
	}
	if (p->nids >= MAX_IDS)
		return -E2BIG;
	return array_add(&p->ids, &p->nids, &p->ids_cap, &one, sizeof(one));
}

static int read_ids(struct perfdata *p, const struct pd_section *s, uint32_t layout)
{
	uint8_t b[8 * IDS_AT_ONCE];
	int ret = 0;

	if (!pd_inside(p, s))
		return -EBADMSG;
	for (uint64_t at = 0; at < s->size && !ret; at += sizeof(b)) {
		ssize_t n = full_pread(p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size - at),
				       s->at + at);
		struct cursor c = { b, n > 0 ? (size_t)n : 0 };
		uint64_t id;

		ret = n < 0 ? (int)n : 0;
		while (!ret && !cur_u64(&c, &id))
			ret = add_id(p, id, layout);
	}
	return ret;
}

COMPARE_BY(ids_cmp, struct pd_ids, .first);

/* If samples differ, an id must identify them, at a place that they all share. */
static bool ids_agree(const struct perfdata *p)
{
	const struct pd_layout *a = &p->layout[0];

	for (size_t i = 0; i < p->nlayout; i++) {
		const struct pd_layout *l = &p->layout[i];

		if (l->sample.id == PD_NOWHERE || l->sample.id != a->sample.id ||
		    l->id_all != a->id_all ||
		    (l->id_all &&
		     l->trailer.size - l->trailer.id != a->trailer.size - a->trailer.id))
			return false;
	}
	return true;
}

/* An event of a pipe: its attributes, and ids. */
static int pipe_attr(struct pd_head *h, struct cursor c)
{
	uint32_t which, size = c.left >= 8 ? load_u32(c.p + 4) ?: ATTR_LEAST : 0;
	const uint8_t *attr;
	uint64_t id;
	int ret;

	if (size < ATTR_LEAST || cur_bytes(&c, size, &attr))
		return -EBADMSG;
	ret = take_attr(h, (struct cursor){ attr, size }, &which);
	while (!ret && !cur_u64(&c, &id))
		ret = add_id(h->p, id, which);
	return ret;
}

/* Attributes, event formats and features, which are records among the others. */
static int pipe_records(struct pd_head *h)
{
	struct perfdata *p = h->p;
	struct pd_record r;
	uint64_t f;
	int ret = 0;

	for (uint64_t at = p->begin; !ret; at += r.len) {
		struct pd_section s;

		ret = pd_record(p, at, p->end, 0, &r);
		if (ret <= 0)
			return ret == -EBADMSG ? 0 : ret; /* the scan will say so */
		ret = 0;
		if (r.type == PD_ATTR)
			ret = pipe_attr(h, r.body);
		if (r.type == PD_TRACING) {
			s = (struct pd_section){ at + r.more_at, r.len - r.more_at };
			ret = pd_feature(h, PD_TRACING_DATA, &s);
		}
		if (r.type == PD_FEATURE && !cur_u64(&r.body, &f) && f != PD_TRACING_DATA) {
			s = (struct pd_section){ at + 16, r.len - 16 };
			ret = pd_feature(h, f, &s);
		}
	}
	return ret;
}

static int read_attrs(struct pd_head *h)
{
	struct perfdata *p = h->p;
	uint64_t n = h->pipe ? 0 : h->attrs.size / h->attr_size;
	struct pd_section ids;
	uint32_t which;
	int ret = n > MAX_ATTRS ? -E2BIG : h->pipe ? pipe_records(h) : 0;

	for (uint64_t i = 0; i < n && !ret; i++)
		ret = read_attr(h, i, &which, &ids);
	if (!ret && p->nlayout > 1 && !ids_agree(p))
		return err_set(
			h->err, EBADMSG,
			"its samples have several layouts, and nothing says which has which");
	for (uint64_t i = 0; i < n && !ret && p->nlayout > 1; i++) {
		ret = read_attr(h, i, &which, &ids);
		ret = ret ?: read_ids(p, &ids, which);
	}
	p->nids = p->nlayout > 1 ? p->nids : 0;
	if (p->nids)
		qsort(p->ids, p->nids, sizeof(*p->ids), ids_cmp);
	if (ret == -E2BIG)
		return err_set(h->err, E2BIG,
			       "it has more events, or kinds of events, than kvmft reads");
	return ret;
}

int pd_read_head(struct pd_head *h)
{
	int ret = read_header(h);

	return ret ?: read_attrs(h);
}
