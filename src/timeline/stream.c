/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream.c: the events of one CPU of one capture, or of one QEMU, each at its place on the first
 * host's TSC.
 */
#include "kvmft/comms.h"
#include "priv.h"

/*
 * Nothing stands before it that has a place: that of the first one after it, found by a walk of its
 * own, which few captures need; else the host's beginning.
 */
static void place_as_next(struct tl_stream *s)
{
	struct rstream r;
	uint64_t lo, hi;
	enum rkind k;

	s->at.host = s->begin;
	s->placed = true;
	if (rstream_open(&r, s->src->cap, s->r.s))
		return;
	while ((k = rstream_next(&r)) != R_END)
		if (k == R_EVENT &&
		    epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, r.rec.ts, &lo, &hi))) {
			s->at.host = lo;
			break;
		}
	rstream_close(&r);
}

static void place(struct tl_stream *s, uint64_t ts)
{
	uint64_t lo = ts, hi = ts;
	bool ok = true;

	if (s->gtime) {
		ok = epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, ts, &lo, &hi));
	} else if (s->link) {
		ok = migrate_to_line(s->link, ts, &lo);
		hi = lo;
	} else if (s->own) {
		ok = own_tsc_place(s->own, ts, &lo, &hi);
		hi += lo;
	}
	/* A stamp before its predecessor on the same CPU cannot be right either. */
	if (ok && s->placed && lo < s->at.host) {
		s->src->backwards++;
		ok = false;
	}
	s->at.unplaced = !ok;
	s->at.width = ok ? hi - lo : 0;
	if (ok)
		s->at.host = lo;
	else if (!s->placed && s->gtime)
		place_as_next(s);
	s->placed |= ok;
}

/* A gap begins at the event before it and ends where the next sub-buffer begins. */
static void place_gap(struct tl_stream *s)
{
	uint64_t begin = s->at.host;
	bool first = !s->placed;

	place(s, s->r.sb.ts);
	if (first)
		begin = s->at.host; /* nothing before it on this CPU */
	s->at.width = s->at.host - begin;
	s->at.host = begin;
	s->at.unplaced = false;
}

static bool qemu_next(struct tl_stream *s, uint64_t *key)
{
	int ret;

	do {
		ret = qsource_next(s->src->qemu, &s->item);
		if (ret < 0)
			s->src->error = ret;
		if (ret <= 0)
			return false;
	} while (s->item.host + s->item.width < s->from);
	*key = s->item.host;
	return true;
}

static inline void look_at(struct tl_stream *s)
{
	s->at.kind = TL_EVENT;
	s->at.ev = fmt_by_id(s->fmt, s->r.rec.id);
	s->at.tid = fmt_pid(s->fmt, &s->r.rec);
	s->at.rare = comms_wants(s->src->comms, &s->r.rec);
}

/* By everything that there is; have: rstream_next() has given an event. */
static __attribute__((noinline)) bool next_rare(struct tl_stream *s, bool have, uint64_t *key)
{
	if (s->src->qemu)
		return qemu_next(s, key);
	do {
		enum rkind k = have ? R_EVENT : rstream_next(&s->r);

		have = false;
		switch (k) {
		case R_EVENT:
			look_at(s);
			place(s, s->r.rec.ts);
			break;
		case R_GAP:
			s->at.kind = TL_GAP;
			place_gap(s);
			break;
		case R_DAMAGE:
			s->at.kind = TL_DAMAGE;
			s->at.width = 0;
			if (!s->placed)
				s->at.host = s->begin;
			break;
		case R_END:
		default:
			if (s->r.error)
				s->src->error = s->r.error;
			return false;
		}
		/* Until the window begins; damage is told wherever it is met. */
	} while (s->at.host + s->at.width < s->from && s->at.kind != TL_DAMAGE);
	*key = s->at.host;
	return true;
}

/* Mostly it is an event of the first host, no earlier than the one before, and of the window. */
bool tl_stream_next(void *stream, uint64_t *key)
{
	struct tl_stream *s = stream;
	uint64_t ts;

	if (s->odd || !rstream_next_plain(&s->r))
		return next_rare(s, false, key);
	ts = s->r.rec.ts;
	if (ts < s->at.host || ts < s->from)
		return next_rare(s, true, key);
	look_at(s);
	s->at.host = *key = ts;
	s->at.width = 0;
	s->at.unplaced = false;
	s->placed = true;
	return true;
}

static bool host_before(void *arg, uint64_t ts)
{
	const struct tl_stream *s = arg;

	uint64_t width = 0;

	if (s->link && !migrate_to_line(s->link, ts, &ts))
		return false;
	if (s->own && !own_tsc_place(s->own, ts, &ts, &width))
		return false;
	return ts + width < s->from;
}

/* A stamp that has no place on the host yet is not known to be before anything. */
static bool guest_before(void *arg, uint64_t ts)
{
	const struct tl_stream *s = arg;
	uint64_t lo, hi;

	return epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, ts, &lo, &hi)) &&
	       hi < s->from;
}

int tl_stream_open(struct timeline *t, struct tl_source *src, const struct cap_stream *cs)
{
	struct tl_stream *s = &t->stream[t->nstream];
	int ret;

	s->src = src;
	s->fmt = src->fmt;
	s->item = (struct tl_item){ .src = src, .cpu = cs->cpu, .vcpu = -1, .vm = -1, .tid = -1, .rec = &s->rec };
	if (src->guest)
		s->item.vcpu = cap_vcpu_of_cpu(src->cap, cs->cpu);
	if (src->guest && !src->alone) {
		s->item.vm = (int64_t)t->map->vm[src->vm].of;
		s->gtime = t->gtime[src->index];
		s->epochs = epoch_vm_find(t->map->vm[src->vm].epochs, (uint32_t)s->item.vcpu);
	}
	s->link = src->link;
	if (!src->guest && !src->link && !src->alone)
		s->own = t->map->own;
	s->item.around = s->own ? own_tsc_around(s->own) : 0;
	s->odd = s->gtime || s->link || s->own;
	s->from = t->from;
	s->begin = src->alone ? 0 : t->map->cap->begin_tsc;
	ret = rstream_open(&s->r, src->cap, cs);
	t->nstream += !ret;
	if (!ret && t->from)
		ret = rstream_seek_by(&s->r, s->gtime ? guest_before : host_before, s);
	return ret;
}

int tl_stream_open_qemu(struct timeline *t, struct tl_source *src)
{
	t->stream[t->nstream++] = (struct tl_stream){ .src = src, .from = t->from, .odd = true };
	return qsource_start(src->qemu);
}
