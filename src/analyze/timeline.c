/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timeline.c: per CPU streams of all captures through one tournament tree.
 * Each stream converts its own stamps as it goes, so the tree only compares numbers. Memory is one
 * batch of sub-buffers per stream, whatever the size of the captures.
 */
#include "kvmft/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "comms.h"
#include "guest_time.h"
#include "qemu_marker.h"
#include "qemu_source.h"

struct tl_stream {
	struct tl_source *src;
	struct rstream r;
	const struct guest_time *gtime;	 /* NULL for the host */
	const struct migrate *link;	 /* of a host that is not the first one */
	const struct epoch_vcpu *epochs; /* guest: of the vCPU that this CPU is */
	int64_t vcpu, vm; /* guest: the CPU's; host: what the thread seen last runs; or -1 */
	uint64_t from; /* of the window, host TSC */
	int32_t tid;   /* host: the thread seen last */
	/* the current item */
	enum tl_kind kind;
	uint64_t host, width;
	bool unplaced;
	bool placed;	/* host is a place, of an event before or of the first one after */
	uint64_t begin; /* of the host's recording */
	struct tl_item item; /* QEMU: all of it */
};

struct timeline {
	struct hostmap *map;
	struct tl_source **src;
	struct guest_time **gtime; /* by source */
	size_t nsrc, src_cap, gtime_cap, nlink;
	struct tl_stream *stream;
	size_t nstream;
	struct rmerge *merge;
	uint64_t from, to; /* host TSC: what is outside is left out */
	struct qdevices devices;
	struct qmarkers markers; /* of the hosts */
	bool pending; /* the winner was handed out and must be popped */
};

static struct tl_source *source_add(struct timeline *t, const struct capture *cap,
				    const struct fmt *fmt, const char *label)
{
	struct tl_source **slot = array_grow(&t->src, t->nsrc, &t->src_cap, sizeof(*slot));
	struct guest_time **gslot = array_grow(&t->gtime, t->nsrc, &t->gtime_cap, sizeof(*gslot));
	struct tl_source *s;

	if (!slot || !gslot)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*slot = s;
	*gslot = NULL;
	s->cap = cap;
	s->fmt = fmt;
	s->index = t->nsrc;
	snprintf(s->label, sizeof(s->label), "%.63s", label);
	t->nsrc++;
	if (comms_new(cap, fmt, &s->comms))
		return NULL;
	s->names = s->comms;
	return s;
}

static int new_with(struct hostmap *map, const char *label, struct timeline **out,
		    struct kvmft_err *err)
{
	struct timeline *t = calloc(1, sizeof(*t));

	*out = NULL;
	if (!t)
		return err_set(err, ENOMEM, "out of memory");
	t->map = map;
	t->to = UINT64_MAX;
	if (!source_add(t, map->cap, map->fmt, label)) {
		tl_free(t);
		return err_set(err, ENOMEM, "out of memory");
	}
	*out = t;
	return 0;
}

int tl_new(struct hostmap *map, struct timeline **out, struct kvmft_err *err)
{
	*out = NULL;
	if (!map->cap->clock || strcmp(map->cap->clock, "x86-tsc"))
		return err_set(err, ENOTSUP,
			       "host capture %s: trace clock %s cannot be put on the host's TSC; record the "
			       "host with --clock x86-tsc (trace-cmd: -C x86-tsc)",
			       map->cap->path, map->cap->clock ? map->cap->clock : "(not said)");
	return new_with(map, "host", out, err);
}

int tl_new_alone(struct hostmap *map, struct timeline **out, struct kvmft_err *err)
{
	bool guest = map->cap->side == CAP_SIDE_GUEST;
	int ret = new_with(map, guest ? "guest" : "host", out, err);

	if (!ret) {
		(*out)->src[0]->alone = true;
		(*out)->src[0]->guest = guest;
	}
	return ret;
}

/* Captures of one VM are told apart by a number behind its name. */
static void label_first(struct timeline *t, size_t vm)
{
	const struct hostmap_vm *first = &t->map->vm[t->map->vm[vm].of];

	for (size_t i = 0; i < t->nsrc && first->next != HOSTMAP_END; i++)
		if (t->src[i]->guest && t->src[i]->vm == first->of)
			snprintf(t->src[i]->label, sizeof(t->src[i]->label), "%.54s#1", first->label);
}

/*
 * A record that the guest read before the host was recorded is that of the first moment of which the host tells: a
 * new one in between would have needed a TSC written, or a new master clock.
 */
static bool read_before(const struct epoch_vcpu *v, uint64_t tsc, uint64_t *host)
{
	for (size_t i = 0; v && i < v->n; i++) {
		const struct epoch *e = &v->v[i];

		if (!e->has_map)
			continue;
		*host = e->from;
		return (int64_t)(tsc_to_guest(&e->map, e->from) - tsc) > 0;
	}
	return false;
}

/* The guest's pvclock records become epochs when the clock needs them. */
static int guest_records(struct timeline *t, const struct guest_time *g, const struct capture *cap,
			 size_t vm)
{
	uint64_t tsc = cap->nbracket ? cap->bracket[0].tsc : cap->begin_tsc, lo, hi;
	int ret = 0;

	for (size_t i = 0; i < cap->npvclock && ret != -ENOMEM; i++) {
		uint32_t vcpu = tl_vcpu_of_cpu(cap, cap->pvclock[i].cpu);
		const struct epoch_vcpu *v = epoch_vm_find(t->map->vm[vm].epochs, vcpu);
		struct pvclock pv = cap_pvclock_record(&cap->pvclock[i]);

		if (epoch_result_usable(guest_time_tsc_to_host(g, v, tsc, &lo, &hi)) || read_before(v, tsc, &lo))
			ret = hostmap_add_pvclock_at(t->map, vm, vcpu, lo, &pv);
	}
	return ret == -ENOMEM ? ret : 0;
}

int tl_add_guest(struct timeline *t, const struct capture *cap, const struct fmt *fmt, size_t vm,
		 struct kvmft_err *err)
{
	struct tl_source *s;
	struct guest_time *g;
	int ret;

	s = source_add(t, cap, fmt, t->map->vm[vm].label);
	g = calloc(1, sizeof(*g));
	if (!s || !g) {
		free(g);
		return err_set(err, ENOMEM, "out of memory");
	}
	t->gtime[s->index] = g;
	s->guest = true;
	s->vm = vm;
	label_first(t, vm);
	ret = guest_time_init(g, cap, err);
	if (ret)
		return ret;
	guest_time_anchor(g, cap, t->map->cap);
	if (guest_records(t, g, cap, vm))
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

int tl_add_host(struct timeline *t, const struct migrate *link, struct kvmft_err *err)
{
	struct tl_source *s;
	char label[TL_MAX_LABEL];

	snprintf(t->src[0]->label, sizeof(t->src[0]->label), "host#1");
	snprintf(label, sizeof(label), "host#%zu", ++t->nlink + 1);
	s = source_add(t, link->map->cap, link->map->fmt, label);
	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	s->link = link;
	return 0;
}

/* "qemu", and of several "qemu#1", "qemu#2". */
static void label_qemu(struct timeline *t, struct tl_source *s)
{
	unsigned int n = 0;

	for (size_t i = 0; i < t->nsrc; i++)
		n += t->src[i]->qemu != NULL;
	for (size_t i = 0; i < t->nsrc && n == 2; i++)
		if (t->src[i]->qemu)
			snprintf(t->src[i]->label, sizeof(t->src[i]->label), "qemu#1");
	if (n > 1)
		snprintf(s->label, sizeof(s->label), "qemu#%u", n);
}

/* Threads of a QEMU are the host's, and so are their names. */
static int add_qemu_source(struct timeline *t, struct qsource *q)
{
	struct tl_source *s = source_add(t, qsource_capture(q), qsource_fmt(q), "qemu");

	if (!s)
		return -ENOMEM;
	s->qemu = q;
	s->names = t->src[0]->comms;
	label_qemu(t, s);
	return 0;
}

int tl_add_qemu(struct timeline *t, const struct tl_qemu *p, struct kvmft_err *err)
{
	struct qsource *q;
	int ret = qsource_new(t->map, p, &q, err);

	if (!ret && add_qemu_source(t, q))
		ret = err_set(err, ENOMEM, "out of memory");
	if (ret) {
		qsource_free(q);
		return ret;
	}
	ret = p->events ? qsource_devices(q, &t->devices) : 0;
	ret = ret ? ret : qdevices_name(&t->devices);
	if (ret)
		return err_set(err, -ret, "cannot read %s: %s", p->path, strerror(-ret));
	qdevices_bells(&t->devices, t->map->fmt);
	return 0;
}

int tl_add_markers(struct timeline *t, const struct qevents *events, struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < t->nsrc && !ret; i++) {
		const struct tl_source *s = t->src[i];

		if (!s->guest && !s->qemu)
			ret = qmarkers_add(&t->markers, s->index, s->link ? s->link->map : t->map, events, err);
	}
	return ret;
}

uint64_t tl_markers(const struct timeline *t)
{
	return qmarkers_met(&t->markers);
}

/* ---- one stream ---- */

/*
 * Nothing stands before it that has a place: that of the first one after it, found by a walk of its
 * own, which few captures need; else the host's beginning.
 */
static void place_as_next(struct tl_stream *s)
{
	struct rstream r;
	uint64_t lo, hi;
	enum rkind k;

	s->host = s->begin;
	s->placed = true;
	if (rstream_open(&r, s->src->cap, s->r.s))
		return;
	while ((k = rstream_next(&r)) != R_END)
		if (k == R_EVENT &&
		    epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, r.rec.ts, &lo, &hi))) {
			s->host = lo;
			break;
		}
	rstream_close(&r);
}

/* By everything that is known of the stream's clock. */
static __attribute__((noinline)) void place_rare(struct tl_stream *s, uint64_t ts)
{
	uint64_t lo = ts, hi = ts;
	bool ok = true;

	if (s->gtime) {
		ok = epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, ts, &lo, &hi));
	} else if (s->link) {
		ok = migrate_to_line(s->link, ts, &lo);
		hi = lo;
	}
	/* A stamp before its predecessor on the same CPU cannot be right either. */
	if (ok && s->placed && lo < s->host) {
		s->src->backwards++;
		ok = false;
	}
	s->unplaced = !ok;
	s->width = ok ? hi - lo : 0;
	if (ok)
		s->host = lo;
	else if (!s->placed && s->gtime)
		place_as_next(s);
	s->placed |= ok;
}

/* Mostly it is a stamp of the first host, no earlier than the one before. */
static inline void place(struct tl_stream *s, uint64_t ts)
{
	if (s->gtime || s->link || ts < s->host) {
		place_rare(s, ts);
		return;
	}
	s->unplaced = false;
	s->width = 0;
	s->host = ts;
	s->placed = true;
}

/* A gap begins at the event before it and ends where the next sub-buffer begins. */
static void place_gap(struct tl_stream *s)
{
	uint64_t begin = s->host;
	bool first = !s->placed;

	place(s, s->r.sb.ts);
	if (first)
		begin = s->host; /* nothing before it on this CPU */
	s->width = s->host - begin;
	s->host = begin;
	s->unplaced = false;
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

static bool stream_next(void *arg, uint64_t *key)
{
	struct tl_stream *s = arg;

	if (s->src->qemu)
		return qemu_next(s, key);
	do {
		switch (rstream_next(&s->r)) {
		case R_EVENT:
			s->kind = TL_EVENT;
			place(s, s->r.rec.ts);
			break;
		case R_GAP:
			s->kind = TL_GAP;
			place_gap(s);
			break;
		case R_DAMAGE:
			s->kind = TL_DAMAGE;
			s->width = 0;
			if (!s->placed)
				s->host = s->begin;
			break;
		case R_END:
		default:
			if (s->r.error)
				s->src->error = s->r.error;
			return false;
		}
		/* Until the window begins; damage is told wherever it is met. */
	} while (s->host + s->width < s->from && s->kind != TL_DAMAGE);
	*key = s->host;
	return true;
}

static bool host_before(void *arg, uint64_t ts)
{
	const struct tl_stream *s = arg;

	if (s->link && !migrate_to_line(s->link, ts, &ts))
		return false;
	return ts < s->from;
}

/* A stamp that has no place on the host yet is not known to be before anything. */
static bool guest_before(void *arg, uint64_t ts)
{
	const struct tl_stream *s = arg;
	uint64_t lo, hi;

	return epoch_result_usable(guest_time_to_host(s->gtime, s->epochs, ts, &lo, &hi)) &&
	       hi < s->from;
}

uint32_t tl_vcpu_of_cpu(const struct capture *cap, uint32_t cpu)
{
	for (size_t i = 0; i < cap->ncpu; i++)
		if (cap->cpu[i].cpu == cpu && cap->cpu[i].has_apicid)
			return cap->cpu[i].apicid;
	return cpu;
}

static int stream_open(struct timeline *t, struct tl_source *src, const struct cap_stream *cs)
{
	struct tl_stream *s = &t->stream[t->nstream];
	int ret;

	s->src = src;
	s->vcpu = s->vm = s->tid = -1;
	if (src->guest)
		s->vcpu = tl_vcpu_of_cpu(src->cap, cs->cpu);
	if (src->guest && !src->alone) {
		s->vm = (int64_t)t->map->vm[src->vm].of;
		s->gtime = t->gtime[src->index];
		s->epochs = epoch_vm_find(t->map->vm[src->vm].epochs, (uint32_t)s->vcpu);
	}
	s->link = src->link;
	s->from = t->from;
	s->begin = src->alone ? 0 : t->map->cap->begin_tsc;
	ret = rstream_open(&s->r, src->cap, cs);
	t->nstream += !ret;
	if (!ret && t->from)
		ret = rstream_seek_by(&s->r, s->gtime ? guest_before : host_before, s);
	return ret;
}

static int stream_open_qemu(struct timeline *t, struct tl_source *src)
{
	t->stream[t->nstream++] = (struct tl_stream){ .src = src, .from = t->from };
	return qsource_start(src->qemu);
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
	for (size_t i = 0; i < t->nstream; i++)
		rstream_close(&t->stream[i].r);
	free(t->stream);
	t->stream = NULL;
	t->nstream = 0;
	t->pending = false;
}

static int streams_open(struct timeline *t, size_t n)
{
	streams_close(t);
	t->stream = calloc(n ? n : 1, sizeof(*t->stream));
	return t->stream ? 0 : -ENOMEM;
}

static int streams_merge(struct timeline *t, int ret, struct kvmft_err *err)
{
	_cleanup_free_ struct rmerge_src *ms = calloc(t->nstream + 1, sizeof(*ms));

	if (!ms)
		ret = -ENOMEM;
	for (size_t i = 0; ms && i < t->nstream; i++)
		ms[i] = (struct rmerge_src){ .next = stream_next, .src = &t->stream[i] };
	if (!ret)
		ret = rmerge_new(&t->merge, ms, t->nstream);
	if (ret)
		return err_set(err, -ret, "cannot open the captures: %s", strerror(-ret));
	return 0;
}

int tl_start(struct timeline *t, struct kvmft_err *err)
{
	size_t n = 0;
	int ret;

	for (size_t i = 0; i < t->nsrc; i++)
		n += t->src[i]->qemu ? 1 : t->src[i]->cap->nstream;
	ret = streams_open(t, n);
	for (size_t i = 0; i < t->nsrc && !ret; i++)
		if (t->src[i]->qemu)
			ret = stream_open_qemu(t, t->src[i]);
	for (size_t i = 0; i < t->nsrc && !ret; i++)
		for (size_t k = 0; k < t->src[i]->cap->nstream && !ret; k++)
			ret = stream_open(t, t->src[i], &t->src[i]->cap->stream[k]);
	return streams_merge(t, ret, err);
}

int tl_start_stream(struct timeline *t, size_t i, size_t k, struct kvmft_err *err)
{
	int ret = streams_open(t, 1);

	if (!ret)
		ret = stream_open(t, t->src[i], &t->src[i]->cap->stream[k]);
	return streams_merge(t, ret, err);
}

void tl_stop(struct timeline *t)
{
	streams_close(t);
	qmarkers_restart(&t->markers);
	for (size_t i = 0; i < t->nsrc; i++) {
		struct tl_source *s = t->src[i];

		s->events = s->gaps = s->lost = s->damaged = s->unplaced = s->backwards = 0;
		s->lost_unknown = false;
		s->error = 0;
	}
}

static void item_fill_other(struct tl_stream *s, struct tl_item *item)
{
	item->tid = -1;
	item->rec = NULL;
	item->ev = NULL;
	if (!s->src->guest)
		item->vcpu = item->vm = -1;
	if (s->kind == TL_DAMAGE) {
		item->lost = s->r.damage_index;
		s->src->damaged++;
		return;
	}
	item->lost = s->r.lost;
	s->src->gaps++;
	s->src->lost += s->r.lost;
	s->src->lost_unknown |= s->r.lost == 0;
}

static void item_fill_qemu(const struct timeline *t, struct tl_stream *s, struct tl_item *item)
{
	struct tl_source *src = s->src;

	*item = s->item;
	item->src = src;
	src->renames = t->src[0]->renames; /* the host's names are used */
	if (item->kind == TL_EVENT) {
		src->events++;
		src->unplaced += item->unplaced;
		return;
	}
	src->gaps++;
	src->lost += item->lost;
	src->lost_unknown |= !item->lost;
}

/* Another thread on a CPU of the host. */
static void stream_thread(const struct timeline *t, struct tl_stream *s, int32_t tid)
{
	const struct hostmap_thread *thread = hostmap_thread(s->link ? s->link->map : t->map, tid);

	s->tid = tid;
	s->vcpu = thread ? (int64_t)thread->vcpu : -1;
	s->vm = thread ? (int64_t)thread->vm : -1;
	if (s->link && thread)
		s->vm = (int64_t)s->link->vm[thread->vm];
}

/* All fields, one by one: this is done for each event. */
static inline void item_fill(const struct timeline *t, struct tl_stream *s, struct tl_item *item)
{
	struct tl_source *src = s->src;

	if (src->qemu) {
		item_fill_qemu(t, s, item);
		return;
	}
	item->around = 0;
	item->device = NULL;
	item->marker = NULL;
	item->kind = s->kind;
	item->src = src;
	item->host = s->host;
	item->width = s->width;
	item->unplaced = s->unplaced;
	item->cpu = s->r.s->cpu;
	item->vcpu = s->vcpu;
	item->vm = s->vm;
	if (s->kind != TL_EVENT) {
		item_fill_other(s, item);
		return;
	}
	src->events++;
	src->unplaced += s->unplaced;
	item->lost = 0;
	item->rec = &s->r.rec;
	item->ev = fmt_by_id(src->fmt, s->r.rec.id);
	item->tid = fmt_pid(src->fmt, &s->r.rec);
	if (item->tid != s->tid && !src->guest) { /* what runs on a CPU mostly stays there for a while */
		stream_thread(t, s, item->tid);
		item->vcpu = s->vcpu;
		item->vm = s->vm;
	}
	if (t->devices.n && item->ev)
		qdevices_item(&t->devices, item);
}

int tl_next(struct timeline *t, struct tl_item *item)
{
	uint64_t key;
	ssize_t win;
	int ret = 0;

	if (t->pending)
		rmerge_pop(t->merge);
	t->pending = false;
	win = rmerge_peek(t->merge, &key);
	if (win < 0 || key > t->to)
		return 0;
	t->pending = true;
	item_fill(t, &t->stream[win], item);
	if (item->kind == TL_EVENT)
		ret = comms_feed(item->src->comms, item->rec);
	item->src->renames += ret > 0;
	if (ret >= 0 && item->kind == TL_EVENT && t->markers.n)
		ret = qmarkers_resolve(&t->markers, item);
	return ret < 0 ? ret : 1;
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
	return i->marker ? qmarker_fmt(i->marker) : i->src->fmt;
}

void tl_print_other(const struct tl_item *i, struct sbuf *out)
{
	if (i->src->qemu)
		qsource_print(i->src->qemu, i, out);
	else
		qmarker_print(i->marker, i, out);
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
	qmarkers_free(&t->markers);
	for (size_t i = 0; i < t->nsrc; i++) {
		comms_free(t->src[i]->comms);
		qsource_free(t->src[i]->qemu);
		free(t->src[i]);
		guest_time_free(t->gtime[i]);
		free(t->gtime[i]);
	}
	free(t->src);
	free(t->gtime);
	free(t);
}
