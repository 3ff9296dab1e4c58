/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream.c: the events of one CPU of one capture, or of one QEMU, each at its place on the first
 * host's TSC.
 */

#include "priv.h"

/* ---- places ---- */

static struct tl_stamps stamps_of(const struct timeline *t, const struct tl_source *src,
				  uint32_t cpu)
{
	struct tl_stamps c = { .gtime = src->gtime, .link = src->link };

	if (src->gtime)
		c.epochs =
			epoch_vm_find(t->map->vm[src->vm].epochs, cap_vcpu_of_cpu(src->cap, cpu));
	if (!src->guest && !src->link && !src->alone)
		c.own = t->map->own;
	return c;
}

/* The first and the last cycle that the stamp may stand for; false: unknown. */
static bool stamp_range(const struct tl_stamps *c, uint64_t ts, uint64_t *lo, uint64_t *hi)
{
	uint64_t width = 0;
	bool ok = true;

	*lo = ts;
	if (c->gtime)
		return epoch_result_usable(guest_time_to_host(c->gtime, c->epochs, c->after,
							      ts, lo, hi));
	if (c->link)
		ok = migrate_to_line(c->link, ts, lo);
	else if (c->own)
		ok = own_tsc_place(c->own, ts, lo, &width);
	*hi = *lo + width;
	return ok;
}

struct first_placed {
	const struct tl_stamps *stamps;
	uint64_t host;
};

static int see_placed(void *arg, const struct rec *rec)
{
	struct first_placed *f = arg;
	uint64_t lo, hi;

	if (!stamp_range(f->stamps, rec->ts, &lo, &hi))
		return 0;
	f->host = lo;
	return 1;
}

/*
 * Nothing before it has a place: takes that of the first one after it, found by a walk of its own,
 * which few captures need; else the host's beginning.
 */
static void place_as_next(struct tl_stream *s)
{
	struct first_placed f = { .stamps = &s->stamps, .host = s->begin };

	(void)!rstream_each(s->src->cap, s->r.s, see_placed, &f);
	s->at.host = f.host;
	s->placed = true;
}

static void place(struct tl_stream *s, uint64_t ts)
{
	uint64_t lo, hi;
	bool ok;

	s->stamps.after = s->placed ? s->at.host : 0;
	ok = stamp_range(&s->stamps, ts, &lo, &hi);
	/* A stamp before its predecessor on the same CPU cannot be right, either. */
	ok &= !s->placed || lo >= s->at.host;
	s->at.unplaced = !ok;
	s->at.width = ok ? hi - lo : 0;
	if (ok)
		s->at.host = lo;
	else if (!s->placed && s->stamps.gtime)
		place_as_next(s);
	s->placed |= ok;
}

/* A gap begins at the event before it and ends where the next sub-buffer begins. */
static void place_gap(struct tl_stream *s)
{
	uint64_t begin = s->at.host;
	bool first = !s->placed;

	place(s, s->r.gap_to);
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

/* What came after the mark was removed before it could be given out. */
static bool is_behind(const struct tl_stream *s, const struct tl_mark *m, uint64_t stamp)
{
	return m->next ? stamp > m->next : s->src->cap->first_segment > m->segment;
}

/* Then there is a gap, of unknown size, up to the first event that is left. */
static bool begins_late(struct tl_stream *s, enum rkind k)
{
	const struct tl_mark *m = s->skip.mark;
	uint64_t begin;

	if (!m || s->skip.seen)
		return false;
	s->skip.seen = true;
	if (k != R_EVENT || !is_behind(s, m, s->r.rec.ts))
		return false;
	place(s, m->n ? m->stamp : m->next ?: s->r.rec.ts);
	begin = s->at.host;
	place(s, s->r.rec.ts);
	s->at.width = s->at.host - begin;
	s->at.host = begin;
	s->at.unplaced = false;
	s->at.kind = TL_GAP;
	s->r.lost = 0;
	s->stamp = m->next ?: s->r.rec.ts - 1;
	s->missing = true;
	return true;
}

/* Most events that follow are near this one, whose place is known. */
static void line_begin(struct tl_stream *s, uint64_t ts)
{
	if (!s->stamps.gtime || s->skip.mark || s->at.unplaced || ts - s->line.from < s->line.len)
		return;
	if (!guest_time_line(s->stamps.gtime, s->stamps.epochs, ts, &s->line))
		s->line.len = 0;
}

bool tl_stream_any(struct tl_stream *s, bool have, uint64_t *key)
{
	s->plain = false;
	if (s->src->qemu)
		return qemu_next(s, key);
	have |= s->missing;
	s->missing = false;
	do {
		enum rkind k = have ? R_EVENT : rstream_next(&s->r);

		have = false;
		if (begins_late(s, k))
			break;
		switch (k) {
		case R_EVENT:
			s->at.kind = TL_EVENT;
			tl_stream_look(s);
			place(s, s->stamp = s->r.rec.ts);
			line_begin(s, s->stamp);
			break;
		case R_GAP:
			s->at.kind = TL_GAP;
			place_gap(s);
			s->stamp = s->r.gap_to;
			break;
		case R_DAMAGE:
			s->at.kind = TL_DAMAGE;
			s->at.width = 0;
			if (!s->placed)
				s->at.host = s->begin;
			break;
		case R_END:
		default:
			/*
			 * Old segments are removed while it is followed: the rest is found next
			 * time.
			 */
			if (s->r.error && !(s->skip.mark && s->r.error == -ENOENT))
				s->src->error = s->r.error;
			s->ended = !s->r.error;
			return false;
		}
		/* Up to the beginning of the window; damage is reported wherever it is found. */
	} while ((s->at.host + s->at.width < s->from && s->at.kind != TL_DAMAGE) ||
		 tl_mark_passed(&s->skip, s->stamp));
	s->at.odd = true;
	/* Before a window begins events are left out, and then something may be read. */
	s->plain = (!s->converts || !s->from) && s->line.len && s->at.kind == TL_EVENT &&
		   !s->at.unplaced && !s->at.width;
	/* Where it ends is not known before that is due. */
	*key = s->at.host + (s->missing ? s->at.width : 0);
	return true;
}

/* A stamp without a place on the host is not known to be before anything. */
static bool is_before(void *arg, uint64_t ts)
{
	const struct tl_stream *s = arg;
	uint64_t lo, hi;

	return stamp_range(&s->stamps, ts, &lo, &hi) && hi < s->from;
}

int tl_stream_open(struct timeline *t, struct tl_source *src, const struct cap_stream *cs)
{
	struct tl_stream *s = &t->stream[t->nstream];
	int ret;

	s->src = src;
	s->fmt = src->fmt;
	s->comms = src->comms;
	s->item = (struct tl_item){
		.src = src, .guest = src->guest, .cpu = cs->cpu,
		.vcpu = -1, .vm = -1, .tid = -1, .rec = &s->rec,
	};
	if (src->guest)
		s->item.vcpu = cap_vcpu_of_cpu(src->cap, cs->cpu);
	if (src->guest && src->vm != HOSTMAP_END)
		s->item.vm = (int64_t)t->map->vm[src->vm].of;
	s->stamps = stamps_of(t, src, cs->cpu);
	s->item.around = s->stamps.own ? own_tsc_around(s->stamps.own) : 0;
	s->converts = s->stamps.gtime || s->stamps.link || s->stamps.own;
	if (t->marks) {
		s->converts = true; /* more is needed than the stamp */
		s->skip.mark = tl_mark_of(t->marks, src, cs->cpu);
		if (!s->skip.mark)
			return -ENOMEM;
	}
	if (!s->converts)
		s->line.len = UINT64_MAX;
	s->from = t->from;
	s->begin = src->alone ? 0 : t->map->cap->begin_tsc;
	ret = rstream_open(&s->r, src->cap, cs);
	s->r.holes = !src->guest && (src->link ? src->link->map : t->map)->holes;
	t->nstream += !ret;
	if (!ret && t->from)
		ret = rstream_seek_by(&s->r, is_before, s);
	if (!ret && s->skip.mark && s->skip.mark->n)
		ret = rstream_seek(&s->r, s->skip.mark->stamp);
	return ret;
}

int tl_stream_open_qemu(struct timeline *t, struct tl_source *src)
{
	t->stream[t->nstream++] =
		(struct tl_stream){ .src = src, .from = t->from, .converts = true };
	return qsource_start(src->qemu);
}

/* ---- the end ---- */

/* When the recorder said that it stopped, in cycles of the source's machine. */
static bool said_end(const struct timeline *t, const struct tl_source *s, uint64_t *host)
{
	const struct epoch_vcpu *e =
		s->gtime ? epoch_vm_or_first(t->map->vm[s->vm].epochs, -1) : NULL;
	uint64_t lo;

	*host = s->cap->stop_tsc;
	if (s->alone && (s->cap->unit_ns || !cap_in_tsc(s->cap)))
		return false;
	if (!s->cap->stop_tsc || s->link)
		return s->cap->stop_tsc && migrate_to_line(s->link, s->cap->stop_tsc, host);
	return !s->gtime ||
	       (e && epoch_result_usable(epoch_guest_to_host(e, s->cap->stop_tsc, &lo, host)));
}

int tl_source_end(const struct timeline *t, const struct tl_source *s, uint64_t *host)
{
	int any = 0;

	if (said_end(t, s, host))
		return 1;
	*host = 0;
	for (size_t i = 0; i < s->cap->nstream; i++) {
		const struct cap_stream *cs = &s->cap->stream[i];
		const struct tl_stamps c = stamps_of(t, s, cs->cpu);
		uint64_t ts, lo, hi;
		int ret = rstream_end(s->cap, cs, &ts);

		if (ret)
			return ret;
		if (!ts || !stamp_range(&c, ts, &lo, &hi))
			continue;
		*host = MAX(*host, hi);
		any = 1;
	}
	return any;
}
