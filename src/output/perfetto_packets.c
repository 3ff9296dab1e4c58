/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_packets.c: packets of a Perfetto trace. Field numbers are those of perfetto's
 * protos/perfetto/trace: trace.proto, trace_packet.proto, clock_snapshot.proto,
 * interned_data.proto and track_event/ *.proto.
 *
 * Tracks are named ones and not processes and threads: those are known by pid, and host and
 * guests have the same numbers for different ones.
 */
#include "perfetto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/pb.h"

enum {
	TRACE_PACKET = 1,
	/* TracePacket */
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CLOCK_ID = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
	/* TracePacketDefaults */
	DEFAULTS_CLOCK_ID = 58,
	/* ClockSnapshot and its Clock */
	SNAPSHOT_CLOCK = 1,
	SNAPSHOT_PRIMARY = 2,
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	/* TrackDescriptor */
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_ORDERING = 11,
	TRACK_RANK = 12,
	/* TrackEvent */
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_VALUE = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	/* InternedData, and each of its names */
	INTERNED_EVENT = 2,
	INTERNED_ANNOTATION = 3,
	INTERNED_IID = 1,
	INTERNED_NAME = 2,
	/* DebugAnnotation */
	NOTE_IID = 1,
	NOTE_BOOL = 2,
	NOTE_UINT = 3,
	NOTE_INT = 4,
	NOTE_STRING = 6,
	NOTE_POINTER = 7,
	NOTE_NAME = 10,
	/* CounterDescriptor */
	COUNTER_UNIT = 3,
	UNIT_COUNT = 2,
};

enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };	      /* sequence_flags */
enum { REALTIME = 1, MONOTONIC = 3, MONOTONIC_RAW = 5, BOOTTIME = 6 }; /* BuiltinClock */
enum { ORDER_BY_RANK = 3 };			      /* ChildTracksOrdering */

#define SEQUENCE 1
#define SHOWN	 32 /* elements of an array */

static size_t packet_begin(struct sbuf *b, uint64_t flags)
{
	size_t mark = pb_begin(b, TRACE_PACKET);

	pb_u64(b, PACKET_SEQUENCE_ID, SEQUENCE);
	pb_u64(b, PACKET_SEQUENCE_FLAGS, flags);
	return mark;
}

/* ---- clocks ---- */

/* Which of Perfetto's clocks the times are of; what has none counts as the trace's own. */
static uint64_t clock_id(enum out_clock_kind kind)
{
	switch (kind) {
	case OUT_CLOCK_MONO_RAW: return MONOTONIC_RAW;
	case OUT_CLOCK_MONO: return MONOTONIC;
	case OUT_CLOCK_REALTIME: return REALTIME;
	default: return BOOTTIME;
	}
}

static void put_clock(struct sbuf *b, uint64_t id, uint64_t ns)
{
	size_t mark = pb_begin(b, SNAPSHOT_CLOCK);

	pb_u64(b, CLOCK_ID, id);
	pb_u64(b, CLOCK_TIME, ns);
	pb_end(b, mark);
}

/*
 * One reading of all clocks, so that viewers can show the time of day. With more of them, times
 * would jump where the next one begins.
 */
static void put_snapshot(struct out *o, const struct clock_bracket *r)
{
	struct sbuf *b = &o->line;
	size_t packet = packet_begin(b, 0), mark = pb_begin(b, PACKET_CLOCK_SNAPSHOT);

	put_clock(b, BOOTTIME, r->boot);
	put_clock(b, MONOTONIC, r->mono);
	put_clock(b, MONOTONIC_RAW, r->mono_raw);
	put_clock(b, REALTIME, r->real);
	pb_u64(b, SNAPSHOT_PRIMARY, BOOTTIME);
	pb_end(b, mark);
	pb_end(b, packet);
}

/* ns since the beginning become CLOCK_BOOTTIME by the first reading of both. */
static uint64_t boot_at_base(const struct out *o, const struct clock_bracket *r)
{
	uint64_t base = o->clock.base, khz = o->clock.khz;

	if (base >= r->tsc)
		return r->boot + tsc_cycles_to_ns(base - r->tsc, khz);
	return r->boot - tsc_cycles_to_ns(r->tsc - base, khz);
}

int pf_head(struct out *o, struct pf *p)
{
	const struct capture *cap = tl_hostmap(o->t)->cap;
	struct sbuf *b = &o->line;
	size_t packet, mark;

	packet = packet_begin(b, STATE_CLEARED);
	mark = pb_begin(b, PACKET_DEFAULTS);
	pb_u64(b, DEFAULTS_CLOCK_ID, clock_id(o->clock.kind));
	pb_end(b, mark);
	pb_end(b, packet);
	if (cap->nbracket && cap->clock && !strcmp(cap->clock, "x86-tsc") &&
	    o->clock.kind != OUT_CLOCK_KVMCLOCK) {
		put_snapshot(o, &cap->bracket[0]);
		if (o->clock.kind == OUT_CLOCK_NS)
			p->add = boot_at_base(o, &cap->bracket[0]);
	}
	return b->error;
}

/* ---- tracks ---- */

static uint64_t uuid_of(enum pf_kind kind, size_t source, uint32_t number)
{
	return (uint64_t)kind << 56 | (uint64_t)source << 32 | number;
}

static void track_name(const struct out *o, enum pf_kind kind, size_t source, uint32_t number,
		       char *buf, size_t size)
{
	const struct pf *p = o->priv;
	const struct hostmap *map = tl_hostmap(o->t);
	const struct tl_source *s = NULL;
	const struct hostmap_thread *t;

	if (kind != PF_VM && kind != PF_VCPU && kind != PF_REMARK)
		s = tl_source(o->t, source);
	switch (kind) {
	case PF_SOURCE:
		snprintf(buf, size, "%s%s", s->guest && !s->alone ? "guest " : "", s->label);
		break;
	case PF_CPU: snprintf(buf, size, "CPU %u", number); break;
	case PF_VM: snprintf(buf, size, "vCPUs of %s", map->vm[source].label); break;
	case PF_VCPU:
		t = hostmap_vcpu(map, source, number);
		snprintf(buf, size, "vCPU %u, thread %d", number, t ? t->tid : 0);
		break;
	case PF_TASKS: snprintf(buf, size, "tasks"); break;
	case PF_THREAD: snprintf(buf, size, "%s %u", tl_comm(s, (int32_t)number), number); break;
	case PF_LOST: snprintf(buf, size, "lost events"); break;
	case PF_REMARK: snprintf(buf, size, "%s", p->remark.s ? p->remark.s : ""); break;
	}
}

static const struct {
	enum pf_kind parent; /* 0 = none; of the same source */
	uint64_t rank;	     /* among its siblings; the number is added */
} place[] = {
	[PF_SOURCE] = { 0, 0 },		    [PF_CPU] = { PF_SOURCE, 1 },
	[PF_VM] = { 0, 0 },		    [PF_VCPU] = { PF_VM, 0 },
	[PF_TASKS] = { PF_SOURCE, 100000 }, [PF_THREAD] = { PF_TASKS, 0 },
	[PF_LOST] = { PF_SOURCE, 0 },	    [PF_REMARK] = { 0, 0 },
};

static int put_track(struct out *o, struct pf *p, enum pf_kind kind, size_t source, uint32_t number)
{
	enum pf_kind parent = place[kind].parent;
	struct sbuf *b = &o->line;
	size_t packet, mark, counter;
	char name[256];

	if (parent && !pf_track(o, p, parent, source, 0))
		return -ENOMEM;
	track_name(o, kind, source, number, name, sizeof(name));
	packet = packet_begin(b, 0);
	mark = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
	pb_u64(b, TRACK_UUID, uuid_of(kind, source, number));
	if (parent) {
		pb_u64(b, TRACK_PARENT, uuid_of(parent, source, 0));
		pb_u64(b, TRACK_RANK, MIN(place[kind].rank + number, (uint64_t)INT32_MAX));
	} else {
		pb_u64(b, TRACK_ORDERING, ORDER_BY_RANK);
	}
	pb_str(b, TRACK_NAME, name);
	if (kind == PF_LOST) {
		counter = pb_begin(b, TRACK_COUNTER);
		pb_u64(b, COUNTER_UNIT, UNIT_COUNT);
		pb_end(b, counter);
	}
	pb_end(b, mark);
	pb_end(b, packet);
	return b->error;
}

struct pf_track *pf_track(struct out *o, struct pf *p, enum pf_kind kind, size_t source,
			  uint32_t number)
{
	uint64_t uuid = uuid_of(kind, source, number), at;
	struct pf_track **slot, *t;

	if (u64map_get(&p->by_uuid, uuid, &at))
		return p->track[at];
	if (put_track(o, p, kind, source, number))
		return NULL;
	slot = array_grow(&p->track, p->ntrack, &p->track_cap, sizeof(*slot));
	t = calloc(1, sizeof(*t));
	if (!slot || !t || u64map_put(&p->by_uuid, uuid, p->ntrack)) {
		free(t);
		return NULL;
	}
	t->uuid = uuid;
	*slot = t;
	p->ntrack++;
	return t;
}

/* ---- events ---- */

static void put_interned(struct sbuf *b, uint32_t what, uint64_t iid, const char *name)
{
	size_t mark = pb_begin(b, what);

	pb_u64(b, INTERNED_IID, iid);
	pb_str(b, INTERNED_NAME, name);
	pb_end(b, mark);
}

/* The number of an event type's name, which its first packet brings along; 0 = out of memory. */
static uint64_t name_iid(struct out *o, struct pf *p, const struct evinfo *e)
{
	uint64_t iid, key = (uint64_t)(uintptr_t)e;
	const char *field;
	size_t mark, i;

	if (u64map_get(&p->iid, key, &iid))
		return iid;
	iid = p->next_iid + 1;
	mark = pb_begin(&o->line, PACKET_INTERNED);
	put_interned(&o->line, INTERNED_EVENT, iid, e->name);
	for (i = 0; (field = fmt_field_name(e->ev, i)); i++)
		put_interned(&o->line, INTERNED_ANNOTATION, iid + i, field);
	pb_end(&o->line, mark);
	p->next_iid += i + 1;
	return u64map_put(&p->iid, key, iid) ? 0 : iid;
}

static void put_array(struct sbuf *b, const struct fmt *f, const struct fmt_value *v)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	for (uint32_t i = 0; i < v->len && i < SHOWN; i++) {
		sbuf_add(&text, i ? " 0x" : "0x");
		sbuf_add_hex(&text, fmt_element(f, v, i));
	}
	pb_str(b, NOTE_STRING, text.s ? text.s : "");
}

static void put_fields(struct sbuf *b, const struct tl_item *i, uint64_t iid)
{
	const struct fmt_field *fld;
	struct fmt_value v;

	for (size_t k = fmt_common_fields(i->ev); (fld = fmt_field_at(i->ev, k)); k++) {
		size_t mark;

		fmt_value(tl_fmt(i), fld, i->rec, &v);
		if (v.kind == FMT_ABSENT)
			continue;
		mark = pb_begin(b, EVENT_ANNOTATION);
		pb_u64(b, NOTE_IID, iid + k);
		switch (v.kind) {
		case FMT_SIGNED: pb_s64(b, NOTE_INT, (int64_t)v.num); break;
		case FMT_UNSIGNED: pb_u64(b, NOTE_UINT, v.num); break;
		case FMT_POINTER: pb_u64(b, NOTE_POINTER, v.num); break;
		case FMT_STRING: pb_str_mem(b, NOTE_STRING, v.p, v.len); break;
		default: put_array(b, tl_fmt(i), &v); break;
		}
		pb_end(b, mark);
	}
	if (i->unplaced) {
		size_t mark = pb_begin(b, EVENT_ANNOTATION);

		pb_str(b, NOTE_NAME, "unplaced");
		pb_u64(b, NOTE_BOOL, 1);
		pb_end(b, mark);
	}
}

int pf_put(struct out *o, struct pf *p, const struct pf_track *t, const struct pf_event *e)
{
	struct sbuf *b = &o->line;
	size_t packet, mark;
	uint64_t iid = 0;

	packet = packet_begin(b, NEEDS_STATE);
	pb_u64(b, PACKET_TIMESTAMP, p->now + p->add);
	if (e->info) {
		iid = name_iid(o, p, e->info);
		if (!iid)
			return -ENOMEM;
	}
	mark = pb_begin(b, PACKET_TRACK_EVENT);
	pb_u64(b, EVENT_TYPE, e->type);
	pb_u64(b, EVENT_TRACK, t->uuid);
	if (e->name)
		pb_str(b, EVENT_NAME, e->name);
	else if (iid)
		pb_u64(b, EVENT_NAME_IID, iid);
	if (e->type == PF_COUNTER)
		pb_s64(b, EVENT_VALUE, e->value);
	if (e->flow)
		pb_fixed64(b, e->flow_ends ? EVENT_FLOW_END : EVENT_FLOW, e->flow);
	if (iid)
		put_fields(b, e->item, iid);
	pb_end(b, mark);
	pb_end(b, packet);
	return b->error;
}
