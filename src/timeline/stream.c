/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream.c: the events of one CPU of one capture, or of one QEMU, each at its place on the first
 * host's TSC.
 */

#include "priv.h"

/*
 * How far each stream was given out, for a time line of captures that still grow.
 *
 * Such a time line is made anew, from what the captures are by then, and goes on where the one
 * before it stopped. Stamps of one CPU ascend, whatever became of its files in the meantime: old
 * segments may be gone, the last sub-buffer may hold more. So a stamp, and how many things with it
 * were given out, is a place that stays.
 */

struct tl_marks {
	struct u64map at; /* of a source and its CPU in mark[] */
	struct tl_mark **mark;
	size_t n, cap;
};

void tl_marks_new(struct tl_marks **out)
{
	*out = xcalloc(1, sizeof(**out));
}

void tl_marks_free(struct tl_marks *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->mark[i]);
	free(m->mark);
	u64map_free(&m->at);
	free(m);
}

/* Whether the item with this stamp was given out before. */
static bool tl_mark_passed(struct tl_mark_skip *s, uint64_t stamp)
{
	if (!s->mark || s->resumed)
		return false;
	if (s->mark->n && stamp < s->mark->stamp)
		return true;
	if (s->mark->n > s->skipped && stamp == s->mark->stamp) {
		s->skipped++;
		return true;
	}
	s->resumed = true;
	return false;
}

void tl_mark_given(struct tl_mark *m, uint64_t stamp)
{
	m->n = m->n && m->stamp == stamp ? m->n + 1 : 1;
	m->stamp = stamp;
}

void tl_mark_behind(struct tl_stream *s)
{
	struct tl_mark *m = s->skip.mark;

	m->next = s->ended ? 0 : s->stamp;
	if (s->ended)
		m->segment = s->src->cap->last_segment;
}

void tl_follow(struct timeline *t, struct tl_marks *m, uint64_t to)
{
	t->marks = m;
	t->from = 0;
	t->to = to;
	/* What was removed before the first of these time lines is not missing in them. */
	for (size_t i = 0; i < t->nsrc && !t->inherited; i++) {
		struct tl_source *s = t->src[i];

		s->followed = !s->cap->trimmed;
		s->read_to = s->cap->first_segment;
	}
}

void tl_follow_no_end(struct timeline *t)
{
	for (size_t i = 0; i < t->nsrc; i++)
		t->src[i]->no_end = !t->src[i]->cap->complete;
}

void tl_inherit(struct timeline *t, const struct timeline *before)
{
	hostmap_inherit(t->map, before->map);
	t->inherited = true;
	t->markers = tl_markers(before);
	/* Some of those before may be gone; the others are in the same order. */
	for (size_t i = 0, k = 0; i < t->nsrc; i++) {
		while (k < before->nsrc && before->src[k]->id != t->src[i]->id)
			k++;
		if (k == before->nsrc)
			break;
		t->src[i]->events = before->src[k]->events;
		t->src[i]->gaps = before->src[k]->gaps;
		t->src[i]->lost = before->src[k]->lost;
		t->src[i]->lost_unknown = before->src[k]->lost_unknown;
		t->src[i]->damaged = before->src[k]->damaged;
		t->src[i]->unplaced = before->src[k]->unplaced;
		t->src[i]->error = before->src[k]->error;
		t->src[i]->followed = before->src[k]->followed;
		t->src[i]->missed = before->src[k]->missed;
		t->src[i]->read_to = before->src[k]->cap->last_segment;
		comms_inherit(t->src[i]->comms, before->src[k]->comms);
	}
}

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
		return epoch_result_usable(
			guest_time_to_host(c->gtime, c->epochs, c->after, ts, lo, hi));
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

static void stream_place(struct tl_stream *s, uint64_t ts)
{
	uint64_t lo, hi;
	bool ok;

	s->stamps.after = s->placed ? s->at.host : 0;
	ok = stamp_range(&s->stamps, ts, &lo, &hi);
	/* A stamp before its predecessor on the same CPU cannot be right, either. */
	ok &= !s->placed || lo >= s->at.host;
	s->at.unplaced = !ok;
	s->at.width = ok ? hi - lo : 0;
	if (ok) {
		s->at.host = lo;
	} else if (!s->placed && s->stamps.gtime) {
		struct first_placed f = { .stamps = &s->stamps, .host = s->begin };

		/*
		 * Nothing before it has a place: takes that of the first one after it, found by a
		 * walk of its own, which few captures need; else the host's beginning.
		 */
		(void)!rstream_each(s->src->cap, s->r.s, see_placed, &f);
		s->at.host = f.host;
		s->placed = true;
	}
	s->placed |= ok;
}

/* Other CPUs' events may begin long before a ring that was overwritten. */
static uint64_t source_begin(const struct timeline *t, struct tl_source *src)
{
	for (size_t i = 0; i < src->cap->nstream && !src->begin_known; i++) {
		const struct cap_stream *cs = &src->cap->stream[i];
		const struct tl_stamps c = stamps_of(t, src, cs->cpu);
		struct first_placed f = { .stamps = &c, .host = UINT64_MAX };

		(void)!rstream_each(src->cap, cs, see_placed, &f);
		src->first = i ? MIN(src->first, f.host) : f.host;
	}
	src->begin_known = true;
	return src->first;
}

#define LATE_FLUSHES 10 /* after so many times --flush the recorder has read every ring */

/*
 * A gap from the last event to the end of the source, which others' events may show; perhaps: only
 * what was not read yet is missing, if anything.
 */
static void place_tail(struct tl_stream *s, bool perhaps)
{
	struct tl_source *src = s->src;
	const struct capture *c = src->alone ? src->cap : s->t->map->cap;
	unsigned __int128 flush = (unsigned __int128)src->cap->flush_ns * c->tsc_khz / 1000000;

	/* Once for all of the source: each would look at each. What grows has no end yet. */
	if (!src->end_known && (s->skip.mark || tl_source_end(s->t, src, &src->end) < 0))
		src->end = 0;
	src->end_known = true;
	if (!s->placed)
		s->at.host = s->begin;
	/* Of a CPU that was quiet until its recorder was killed all was read some time before. */
	if (perhaps && flush && flush < src->end / LATE_FLUSHES)
		s->at.host = MAX(s->at.host, src->end - (uint64_t)flush * LATE_FLUSHES);
	s->at.width = src->end - MIN(src->end, s->at.host);
	s->at.unplaced = false;
}

/* A gap begins at the event before it and ends where the next sub-buffer begins. */
static void place_gap(struct tl_stream *s)
{
	const struct capture *c = s->src->cap;
	uint64_t begin = s->at.host;
	bool first = !s->placed;
	size_t at;

	if (s->r.gap_to == UINT64_MAX)
		return place_tail(s, false);
	stream_place(s, s->r.gap_to);
	if (first) /* nothing is left of what this CPU had since others' first events */
		begin = MIN(source_begin(s->t, s->src), s->at.host);
	/* What was overwritten came after the last time when the ring was written out. */
	at = COUNT_BEFORE(i, c->npause, c->pause[i] <= s->at.host);
	if (s->r.why == GAP_OVERWRITTEN && !s->src->guest && at)
		begin = MAX(begin, c->pause[at - 1]);
	s->at.width = s->at.host - begin;
	s->at.host = begin;
	s->at.unplaced = false;
}

/* Then there is a gap, of unknown size, up to the first event that is left. */
static bool begins_late(struct tl_stream *s, enum rkind k)
{
	const struct tl_mark *m = s->skip.mark;
	uint64_t begin;

	if (!m || s->skip.seen)
		return false;
	s->skip.seen = true;
	/* What came after the mark was removed before it could be given out. */
	if (k != R_EVENT ||
	    (m->next ? s->r.rec.ts <= m->next : s->src->cap->first_segment <= m->segment))
		return false;
	stream_place(s, m->n ? m->stamp : m->next ?: s->r.rec.ts);
	begin = s->at.host;
	stream_place(s, s->r.rec.ts);
	s->at.width = s->at.host - begin;
	s->at.host = begin;
	s->at.unplaced = false;
	s->at.kind = TL_GAP;
	s->r.lost = 0;
	s->r.why = GAP_LOST;
	s->stamp = m->next ?: s->r.rec.ts - 1;
	s->missing = true;
	return true;
}

bool tl_stream_any(struct tl_stream *s, bool have, uint64_t *key)
{
	s->plain = false;
	if (s->src->qemu) {
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
			stream_place(s, s->stamp = s->r.rec.ts);
			/* Most events that follow are near this one, whose place is known. */
			if (s->stamps.gtime && !s->skip.mark && !s->at.unplaced &&
			    s->stamp - s->line.from >= s->line.len &&
			    !guest_time_line(s->stamps.gtime, s->stamps.epochs, s->stamp, &s->line))
				s->line.len = 0;
			break;
		case R_GAP:
			s->at.kind = TL_GAP;
			place_gap(s);
			if (s->r.gap_to != UINT64_MAX)
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
			if (s->tail || s->skip.mark || s->r.error ||
			    !(s->r.s->cut || s->r.s->open_end))
				return false;
			s->tail = true;
			s->at.kind = TL_GAP;
			place_tail(s, !s->r.s->cut);
			if (!s->r.s->cut && !s->at.width) /* the last event of all */
				return false;
			s->r.lost = 0;
			s->r.why = s->r.s->cut ? GAP_LOST : GAP_UNREAD;
			break;
		}
		/*
		 * Up to the beginning of the window; damage is reported wherever it is found. Of
		 * what was removed before the first event of all there is nothing to say.
		 */
	} while ((s->at.host + s->at.width < s->from && s->at.kind != TL_DAMAGE) ||
		 (s->at.kind == TL_GAP && s->r.why == GAP_REMOVED && !s->at.width) ||
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

	s->t = t;
	s->src = src;
	s->fmt = src->fmt;
	s->comms = src->comms;
	s->item = (struct tl_item){
		.src = src,
		.guest = src->guest,
		.cpu = cs->cpu,
		.vcpu = -1,
		.vm = -1,
		.tid = -1,
		.rec = &s->rec,
	};
	if (src->guest)
		s->item.vcpu = cap_vcpu_of_cpu(src->cap, cs->cpu);
	if (src->guest && src->vm != HOSTMAP_END)
		s->item.vm = (int64_t)t->map->vm[src->vm].of;
	s->stamps = stamps_of(t, src, cs->cpu);
	s->item.around = s->stamps.own ? own_tsc_around(s->stamps.own) : 0;
	if (!src->guest)
		s->item.around += src->cap->unit_ns || !src->cap->tsc_khz
					  ? src->cap->grain
					  : (src->cap->grain * src->cap->tsc_khz + 999999) /
						    1000000;
	s->converts = s->stamps.gtime || s->stamps.link || s->stamps.own;
	if (t->marks) {
		uint64_t key, at;
		struct tl_mark *mark;

		s->converts = true; /* more is needed than the stamp */
		key = (uint64_t)src->id << 32 | cs->cpu;
		if (u64map_get(&t->marks->at, key, &at)) {
			s->skip.mark = t->marks->mark[at];
		} else {
			mark = xcalloc(1, sizeof(*mark)); /* its address stays: streams have it */
			mark->segment = src->read_to;
			xu64map_put(&t->marks->at, key, t->marks->n);
			xarray_add(&t->marks->mark, &t->marks->n, &t->marks->cap, &mark,
				   sizeof(mark));
			s->skip.mark = mark;
		}
	}
	if (!s->converts)
		s->line.len = UINT64_MAX;
	s->from = t->from;
	s->begin = src->alone ? 0 : t->map->cap->begin_tsc;
	ret = rstream_open(&s->r, src->cap, cs);
	s->r.holes |= !src->guest && (src->link ? src->link->map : t->map)->holes;
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
