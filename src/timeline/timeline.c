/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timeline.c: per CPU streams of all captures through one tournament tree.
 * Each stream converts its own stamps as it goes, so the tree only compares numbers. Memory is one
 * batch of sub-buffers per stream, whatever the size of the captures.
 */
#include "kvmft/timeline.h"
#include "priv.h"

static struct tl_source *source_add(struct timeline *t, const struct capture *cap,
				    const struct fmt *fmt, const char *label)
{
	struct tl_source **slot = xarray_grow(&t->src, t->nsrc, &t->src_cap, sizeof(*slot));
	struct tl_source *s = *slot = xcalloc(1, sizeof(*s));

	s->cap = cap;
	s->fmt = fmt;
	s->index = s->id = t->nsrc;
	snprintf(s->label, sizeof(s->label), "%.63s", label);
	t->nsrc++;
	s->comms = comms_new(cap, fmt);
	s->names = s->comms;
	exit_names_init(&s->exits, event_format(fmt, EV_EXIT), cap->vendor);
	return s;
}

static void new_with(struct hostmap *map, const char *label, struct timeline **out)
{
	struct timeline *t = xcalloc(1, sizeof(*t));

	t->map = map;
	t->to = UINT64_MAX;
	source_add(t, map->cap, map->fmt, label);
	*out = t;
}

int tl_new(struct hostmap *map, struct timeline **out, struct kvmft_err *err)
{
	int ret = hostmap_clock(map, err);

	*out = NULL;
	if (!ret)
		new_with(map, "host", out);
	return ret;
}

void tl_new_alone(struct hostmap *map, bool guest, int64_t vm, struct timeline **out)
{
	new_with(map, guest ? "guest" : "host", out);
	(*out)->src[0]->alone = true;
	(*out)->src[0]->guest = guest;
	(*out)->src[0]->vm = vm < 0 ? HOSTMAP_END : (size_t)vm;
}

int tl_add_guest(struct timeline *t, const struct capture *cap, const struct fmt *fmt, size_t vm,
		 struct kvmft_err *err)
{
	const struct hostmap_vm *first = &t->map->vm[t->map->vm[vm].of];
	struct tl_source *s = source_add(t, cap, fmt, t->map->vm[vm].label);
	int ret;

	s->gtime = xcalloc(1, sizeof(*s->gtime));
	s->guest = true;
	s->vm = vm;
	/* Several captures of one VM are told apart by a number after its name. */
	for (size_t i = 0; i < t->nsrc && first->next != HOSTMAP_END; i++)
		if (t->src[i]->guest && t->src[i]->vm == first->of)
			snprintf(t->src[i]->label, TL_MAX_LABEL, "%.54s#1", first->label);
	ret = guest_time_init(s->gtime, cap, err);
	if (ret)
		return ret;
	guest_time_anchor(s->gtime, cap, t->map->cap);
	hostmap_add_records(t->map, vm, cap, s->gtime);
	return 0;
}

void tl_add_host(struct timeline *t, const struct migrate *link)
{
	struct tl_source *s;
	char label[TL_MAX_LABEL];

	snprintf(t->src[0]->label, sizeof(t->src[0]->label), "host#1");
	snprintf(label, sizeof(label), "host#%zu", ++t->nlink + 1);
	s = source_add(t, link->map->cap, link->map->fmt, label);
	s->link = link;
}

int tl_add_qemu(struct timeline *t, const struct tl_qemu *p, struct kvmft_err *err)
{
	struct qsource *q;
	int ret = qsource_new(t->map, p, &q, err);

	ret = ret ?: qsource_place(q, t->map, err);
	if (!ret) {
		struct tl_source *s = source_add(t, &q->cap, q->types.fmt, "qemu");
		unsigned int n = 0;

		/* Threads of a QEMU are the host's, and so are their names. */
		s->qemu = q;
		s->names = t->src[0]->comms;
		/* "qemu", and of several "qemu#1", "qemu#2" */
		for (size_t i = 0; i < t->nsrc; i++)
			n += t->src[i]->qemu != NULL;
		for (size_t i = 0; i < t->nsrc && n == 2; i++)
			if (t->src[i]->qemu)
				snprintf(t->src[i]->label, TL_MAX_LABEL, "qemu#1");
		if (n > 1)
			snprintf(s->label, TL_MAX_LABEL, "qemu#%u", n);
	}
	if (ret) {
		qsource_free(q);
		return ret;
	}
	ret = p->events ? qsource_devices(q, &t->devices) : 0;
	if (!ret)
		qdevices_name(&t->devices);
	if (ret)
		return err_set(err, -ret, "cannot read %s: %s", p->path, strerror(-ret));
	return 0;
}

void tl_add_markers(struct timeline *t, const struct qevents *(*get)(void *arg), void *arg)
{
	for (size_t i = 0; i < t->nsrc; i++) {
		struct tl_source *s = t->src[i];

		if (!s->guest && !s->qemu && !s->marker)
			s->marker = qmarker_new(s->link ? s->link->map : t->map, get, arg);
		if (s->marker)
			comms_also(s->comms, s->marker->print);
	}
}

uint64_t tl_markers(const struct timeline *t)
{
	uint64_t met = t->markers;

	for (size_t i = 0; i < t->nsrc; i++)
		met += t->src[i]->marker ? t->src[i]->marker->met : 0;
	return met;
}

/* ---- all streams ---- */

uint64_t tl_from(const struct timeline *t)
{
	return t->from;
}

void tl_window(struct timeline *t, uint64_t from, uint64_t to)
{
	t->from = from;
	t->to = to;
	for (size_t i = 0; i < t->nsrc; i++)
		t->src[i]->windowed = from || to != UINT64_MAX;
}

static void streams_close(struct timeline *t)
{
	rmerge_free(t->merge);
	t->merge = NULL;
	for (size_t i = 0; i < t->nstream; i++) {
		struct tl_stream *s = &t->stream[i];

		if (s->skip.mark && !t->pending)
			tl_mark_behind(s);
		rstream_close(&s->r);
	}
	free(t->stream);
	t->stream = NULL;
	t->nstream = 0;
	t->pending = false;
}

static void streams_open(struct timeline *t, size_t n)
{
	streams_close(t);
	t->stream = xcalloc(n ?: 1, sizeof(*t->stream));
}

/* A rmerge_next. */
static bool stream_next(void *stream, uint64_t *key)
{
	return tl_stream_any(stream, false, key);
}

static int streams_merge(struct timeline *t, int ret, struct kvmft_err *err)
{
	_cleanup_free_ void **ms = xcalloc(t->nstream + 1, sizeof(*ms));

	t->more_asked = t->devices.n || t->marks;
	for (size_t i = 0; i < t->nsrc; i++)
		t->more_asked |= t->src[i]->qemu != NULL;
	for (size_t i = 0; i < t->nstream; i++)
		ms[i] = &t->stream[i];
	ret = ret ?: rmerge_new(&t->merge, stream_next, ms, t->nstream);
	if (ret)
		return err_set(err, -ret, "cannot open the captures: %s", strerror(-ret));
	for (size_t i = 0; i < t->nsrc; i++)
		t->src[i]->begin = UINT64_MAX;
	for (size_t i = 0; i < t->nstream; i++) {
		const struct tl_stream *s = &t->stream[i];

		if (!s->ended && !s->r.error && s->at.kind == TL_EVENT && !s->at.unplaced)
			s->src->begin = MIN(s->src->begin, s->at.host);
	}
	return 0;
}

/* The host's recording is known to go on after its last event, and to begin before the first. */
static uint64_t first_of(const struct tl_source *s)
{
	uint64_t begin = s->index || s->cap->unit_ns ? 0 : s->cap->begin_tsc;

	return begin ? MIN(begin, s->begin) : s->begin;
}

static uint64_t last_of(const struct timeline *t, const struct tl_source *s)
{
	uint64_t last = s->index || s->cap->unit_ns ? 0 : s->cap->end_tsc;

	for (size_t i = 0; i < t->nstream; i++)
		if (t->stream[i].src == s)
			last = MAX(last, t->stream[i].at.host);
	return last;
}

bool tl_by_stream(const struct timeline *t)
{
	return t->nstream < 2;
}

bool tl_source_overlap(const struct timeline *t, const struct tl_source *a,
		       const struct tl_source *b)
{
	return first_of(a) <= last_of(t, b) && first_of(b) <= last_of(t, a);
}

int tl_start(struct timeline *t, struct kvmft_err *err)
{
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; i < t->nsrc; i++)
		n += t->src[i]->qemu ? 1 : t->src[i]->cap->nstream;
	streams_open(t, n);
	for (size_t i = 0; i < t->nsrc && !ret; i++)
		if (t->src[i]->qemu)
			ret = tl_stream_open_qemu(t, t->src[i]);
	for (size_t i = 0; i < t->nsrc && !ret; i++)
		for (size_t k = 0; k < t->src[i]->cap->nstream && !ret; k++)
			ret = tl_stream_open(t, t->src[i], &t->src[i]->cap->stream[k]);
	return streams_merge(t, ret, err);
}

int tl_start_stream(struct timeline *t, size_t i, size_t k, struct kvmft_err *err)
{
	int ret;

	streams_open(t, 1);
	ret = tl_stream_open(t, t->src[i], &t->src[i]->cap->stream[k]);
	return streams_merge(t, ret, err);
}

void tl_stop(struct timeline *t)
{
	streams_close(t);
	for (size_t i = 0; i < t->nsrc; i++) {
		struct tl_source *s = t->src[i];

		s->events = s->gaps = s->lost = s->damaged = s->unplaced = 0;
		s->lost_unknown = false;
		if (s->marker)
			s->marker->met = 0;
	}
}

int tl_error(const struct timeline *t)
{
	for (size_t i = 0; i < t->nsrc; i++)
		if (t->src[i]->error)
			return t->src[i]->error;
	return 0;
}

static void count_lost(struct tl_source *src, const struct tl_item *gap)
{
	src->gaps++;
	src->lost += gap->lost;
	src->lost_unknown |= !gap->lost && gap->gap == GAP_LOST;
}

static void item_place(const struct tl_stream *s, struct tl_item *item)
{
	item->kind = s->at.kind;
	item->host = s->at.host;
	item->width = s->at.width;
	item->unplaced = s->at.unplaced;
	item->usual = item->kind == TL_EVENT && s->at.ev && !item->unplaced;
}

/* A gap, or damage. */
static struct tl_item *item_other(struct timeline *t, struct tl_stream *s)
{
	struct tl_source *src = s->src;
	struct tl_item *item = &t->other;

	*item = s->item;
	item_place(s, item);
	item->tid = -1;
	item->rec = NULL;
	item->ev = NULL;
	if (!src->guest)
		item->vcpu = item->vm = -1;
	if (item->kind == TL_DAMAGE) {
		item->lost = s->r.damage_index;
		src->damaged++;
		return item;
	}
	item->lost = s->r.lost;
	item->gap = s->r.why;
	src->missed |= s->missing;
	count_lost(src, item);
	return item;
}

static struct tl_item *item_qemu(const struct timeline *t, struct tl_stream *s)
{
	struct tl_source *src = s->src;
	struct tl_item *item = &s->item;

	item->src = src;
	src->renames = t->src[0]->renames; /* the host's names are used */
	if (item->kind != TL_EVENT) {
		count_lost(src, item);
		return item;
	}
	src->events++;
	src->unplaced += item->unplaced;
	return item;
}

/*
 * If that needs no reading, the next winner is found at once, before this one is printed: finding
 * it takes a chain of loads and comparisons, which a processor overlaps with the printing only if
 * it comes first.
 */
static inline void pop_or_later(struct timeline *t, struct tl_stream *s)
{
	uint64_t *key = rmerge_key(t->merge); /* no copy: its address would need a guarded stack */

	if (tl_stream_near(s, key))
		(void)rmerge_put(t->merge, t->merge->rank, *key);
	else
		t->pending = true;
}

/* An event of a capture of which more than its place is needed. */
static int event_asked(struct timeline *t, struct tl_stream *s, const struct tl_item **item)
{
	struct tl_source *src = s->src;
	int ret = 0;

	if (s->at.tid != s->item.tid && !src->guest) { /* usually it stays the same */
		const struct migrate *link = s->stamps.link;
		const struct hostmap_thread *thread =
			hostmap_thread(link ? link->map : t->map, s->at.tid);

		s->item.vcpu = thread && !thread->floats ? (int64_t)thread->vcpu : -1;
		s->item.vm = !thread ? -1 : (int64_t)(link ? link->vm[thread->vm] : thread->vm);
	}
	item_place(s, &s->item);
	s->rec = s->r.rec;
	src->events++;
	src->unplaced += s->item.unplaced;
	s->item.ev = s->at.ev;
	s->item.tid = s->at.tid;
	if (t->devices.n) {
		s->item.device = NULL;
		if (s->item.ev)
			qdevices_item(&t->devices, &s->item);
		s->item.usual &= !s->item.device;
	}
	pop_or_later(t, s);
	*item = &s->item;
	src->renames += comms_feed(src->comms, &s->rec);
	/* One of QEMU's, perhaps: the stream keeps the item as it was recorded. */
	if (src->marker && s->item.ev == src->marker->print) {
		t->other = s->item;
		*item = &t->other;
		ret = qmarker_resolve(src->marker, &t->other);
	}
	return ret < 0 ? ret : 1;
}

/* The current item of the stream, whatever it is. */
static __attribute__((noinline)) int next_any(struct timeline *t, struct tl_stream *s,
					      const struct tl_item **item)
{
	if (s->skip.mark && !s->missing)
		tl_mark_given(s->skip.mark, s->stamp);
	if (!s->src->qemu && s->at.kind == TL_EVENT)
		return event_asked(t, s, item);
	t->pending = true;
	*item = s->src->qemu ? item_qemu(t, s) : item_other(t, s);
	return 1;
}

static __attribute__((noinline)) int next_after(struct timeline *t, const struct tl_item **item)
{
	uint64_t key;

	t->pending = false;
	(void)rmerge_pop(t->merge, t->merge->rank, stream_next, &key);
	return tl_next(t, item);
}

/*
 * There are many events: what most of them do not need is elsewhere, and what they share with the
 * stream's last one stays in the item.
 */
int tl_next(struct timeline *t, const struct tl_item **item)
{
	struct tl_stream *s;
	uint64_t key;
	ssize_t win;

	if (t->pending)
		return next_after(t, item);
	win = rmerge_peek(t->merge, &key);
	if (win < 0 || key > t->to)
		return 0;
	s = &t->stream[win];
	if (t->more_asked || s->at.odd)
		return next_any(t, s, item);
	s->rec = s->r.rec;
	s->item.host = key;
	s->item.ev = s->at.ev;
	s->src->events++;
	*item = &s->item;
	pop_or_later(t, s);
	return 1;
}

int tl_walk_to(struct timeline *t, const struct tl_taker *to, size_t n)
{
	const struct tl_item *item;
	int ret = 0;

	while (!ret && (ret = tl_next(t, &item)) > 0) {
		ret = 0;
		for (size_t i = 0; i < n && !ret; i++)
			if (to[i].ctx && to[i].feed)
				to[i].feed(to[i].ctx, item);
			else if (to[i].ctx)
				ret = to[i].item(to[i].ctx, item);
	}
	return ret;
}

size_t tl_sources(const struct timeline *t)
{
	return t->nsrc;
}

struct tl_source *tl_source(const struct timeline *t, size_t i)
{
	return t->src[i];
}

struct hostmap *tl_hostmap(const struct timeline *t)
{
	return t->map;
}

const char *tl_side(const struct tl_source *s)
{
	return s->qemu ? "qemu" : s->guest ? "guest" : "host";
}

const struct fmt *tl_fmt(const struct tl_item *i)
{
	return i->marker ? i->marker->types.fmt : i->src->fmt;
}

void tl_print_other(const struct tl_item *i, struct sbuf *out)
{
	qtypes_print(i->src->qemu ? &i->src->qemu->types : &i->marker->types, i->rec, out);
}

void tl_qemu_report(const struct tl_source *s, struct tl_qemu_report *r)
{
	qsource_report(s->qemu, r);
}

const char *tl_comm(const struct tl_source *s, int32_t tid)
{
	return comms_get(s->names, tid);
}

void tl_free(struct timeline *t)
{
	if (!t)
		return;
	streams_close(t);
	qdevices_free(&t->devices);
	for (size_t i = 0; i < t->nsrc; i++) {
		comms_free(t->src[i]->comms);
		qsource_free(t->src[i]->qemu);
		qmarker_free(t->src[i]->marker);
		guest_time_free(t->src[i]->gtime);
		free(t->src[i]->gtime);
		free(t->src[i]);
	}
	free(t->src);
	free(t);
}

/* ---- what a source lost, by gaps in its stream and by its counters ---- */

static uint64_t cpu_lost(const struct capture *c, const struct cap_cpustat *st)
{
	uint64_t lost = st->dropped + st->commit_overrun + (c->flight ? 0 : st->overrun);

	/* What a limit left in the ring; a trace.dat's counters are older than its end. */
	return lost + (c->flight || c->is_tracedat ? 0 : st->entries);
}

/* trimmed: what is in removed segments was not counted among the events. */
static void loss_of(const struct capture *cap, bool trimmed, uint64_t events, uint64_t lost,
		    bool lost_unknown, struct tl_loss *loss)
{
	uint64_t counters = 0;
	bool have = false;

	/*
	 * The overrun counter includes what the pages flag; dropped and commit overrun are
	 * separate. What was read from the ring but is not in the files was lost on the way, or cut
	 * off since.
	 */
	for (size_t i = 0; i < cap->ncpu; i++) {
		const struct cap_cpustat *b = &cap->cpu[i].begin, *e = &cap->cpu[i].end;

		if (!e->valid)
			continue;
		have = true;
		counters += cpu_lost(cap, e);
		counters -= b->valid ? cpu_lost(cap, b) : 0;
	}
	/* If segments were removed on purpose, there is no way to tell. */
	if ((cap->complete || cap->is_tracedat) && !trimmed)
		counters += capture_missing(cap, events);
	/* What a flight recorder overwrote is no loss, but a gap within its data is. */
	loss->total = have ? MAX(counters, cap->flight || trimmed ? 0 : lost) : lost;
	loss->unknown = !have && (lost_unknown || !cap->complete);
}

uint64_t tl_missing(const struct tl_source *s)
{
	return s->windowed || s->qemu || !s->cap->is_tracedat ? 0
							      : capture_missing(s->cap, s->events);
}

void tl_loss(const struct tl_source *s, struct tl_loss *loss)
{
	/* Counters are for the whole capture. */
	if (s->windowed)
		*loss = (struct tl_loss){ .total = s->lost, .unknown = s->lost_unknown };
	else
		loss_of(s->cap, s->cap->trimmed && !s->followed, s->events, s->lost,
			s->lost_unknown, loss);
	if (s->no_end)
		loss->unknown = s->lost_unknown;
	loss->unknown |= s->missed && !s->followed;
}

void tl_loss_of(const struct capture *cap, uint64_t events, uint64_t lost, bool lost_unknown,
		struct tl_loss *loss)
{
	loss_of(cap, cap->trimmed, events, lost, lost_unknown, loss);
}

bool tl_source_complete(const struct tl_source *s)
{
	bool damaged = s->damaged;
	struct tl_loss loss;

	for (size_t i = 0; i < s->cap->ndamage; i++)
		damaged |= tl_source_is_damage(s, &s->cap->damage[i]);
	tl_loss(s, &loss);
	return !loss.total && !loss.unknown && !s->error && !damaged && !(s->qemu && s->unplaced);
}
