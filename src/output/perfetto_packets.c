/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_packets.c: packets of a Perfetto trace. Field numbers are those of perfetto's
 * protos/perfetto/trace: trace.proto, trace_packet.proto, clock_snapshot.proto,
 * interned_data.proto and track_event/ *.proto.
 *
 * Tracks are named ones and not threads: they tell of the host's threads and of the guests' CPUs
 * alike, and arrows lead from one to the other. So all are the first machine's.
 */
#include "perfetto.h"

enum {
	/* TracePacket */
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
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

enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };			       /* sequence_flags */
enum { REALTIME = 1, MONOTONIC = 3, MONOTONIC_RAW = 5, BOOTTIME = 6 }; /* BuiltinClock */
enum { ORDER_BY_RANK = 3 };					       /* ChildTracksOrdering */

#define SEQUENCE  1
#define MAX_NAMES 65536 /* that have a number; others are written in full */
#define ROOM	  128	/* of an event without texts and fields */

static size_t packet_begin(struct sbuf *b, uint64_t flags)
{
	size_t mark = pb_begin(b, PF_PACKET);

	pb_u64(b, PACKET_SEQUENCE_ID, SEQUENCE);
	pb_u64(b, PACKET_SEQUENCE_FLAGS, flags);
	return mark;
}

/* ---- clocks ---- */

/* The output's clock among Perfetto's, which show all times; others are the trace's own. */
static uint64_t clock_id(enum out_clock_kind kind)
{
	switch (kind) {
	case OUT_CLOCK_MONO_RAW: return MONOTONIC_RAW;
	case OUT_CLOCK_MONO: return MONOTONIC;
	case OUT_CLOCK_REALTIME: return REALTIME;
	default: return BOOTTIME;
	}
}

static uint64_t reading(uint64_t clock, const struct clock_bracket *r)
{
	switch (clock) {
	case MONOTONIC_RAW: return r->mono_raw;
	case MONOTONIC: return r->mono;
	case REALTIME: return r->real;
	default: return r->boot;
	}
}

static void put_clock(struct sbuf *b, uint64_t id, uint64_t ns)
{
	size_t mark = pb_begin(b, SNAPSHOT_CLOCK);

	pb_u64(b, CLOCK_ID, id);
	pb_u64(b, CLOCK_TIME, ns);
	pb_end(b, mark);
}

/* All stamps are called BOOTTIME, as in Perfetto's recorder. */
void pf_head(struct out *o, struct pf *p)
{
	const struct capture *cap = tl_hostmap(o->t)->cap;
	const struct clock_bracket *r = NULL;
	struct sbuf *b = &o->line;
	size_t packet, mark;

	packet = packet_begin(b, STATE_CLEARED);
	mark = pb_begin(b, PACKET_DEFAULTS);
	pb_u64(b, DEFAULTS_CLOCK_ID, BOOTTIME);
	pb_end(b, mark);
	pb_end(b, packet);
	if (cap->nbracket && cap->clock && !strcmp(cap->clock, "x86-tsc") &&
	    o->clock.kind != OUT_CLOCK_KVMCLOCK)
		r = cap->bracket;
	/* One reading of all clocks, for the time of day; with more of them times would jump. */
	packet = packet_begin(b, 0);
	mark = pb_begin(b, PACKET_CLOCK_SNAPSHOT);
	put_clock(b, BOOTTIME, r ? r->boot : 0);
	if (r) {
		put_clock(b, MONOTONIC, r->mono);
		put_clock(b, MONOTONIC_RAW, r->mono_raw);
		put_clock(b, REALTIME, r->real);
	}
	pb_u64(b, SNAPSHOT_PRIMARY, r ? clock_id(o->clock.kind) : BOOTTIME);
	pb_end(b, mark);
	pb_end(b, packet);
	if (r && o->clock.kind == OUT_CLOCK_NS) {
		uint64_t base = o->clock.base;
		uint64_t khz = o->clock.khz;

		/* ns since the beginning become CLOCK_BOOTTIME by the first reading of both. */
		if (base >= r->tsc)
			p->add = r->boot + tsc_cycles_to_ns(base - r->tsc, khz);
		else
			p->add = r->boot - tsc_cycles_to_ns(r->tsc - base, khz);
	} else if (r) {
		p->add = r->boot - reading(clock_id(o->clock.kind), r);
	}
}

/* ---- tracks ---- */

static void track_name(const struct out *o, enum pf_kind kind, size_t source, uint32_t number,
		       char *buf, size_t size)
{
	const struct pf *p = o->priv;
	const struct hostmap *map = tl_hostmap(o->t);
	const struct tl_source *s = NULL;
	const struct hostmap_thread *t;

	if (kind != PF_VM && kind != PF_VCPU && kind != PF_SPIKES && kind != PF_REMARK)
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
	case PF_SPIKES: snprintf(buf, size, "spikes"); break;
	case PF_TASKS: snprintf(buf, size, "tasks"); break;
	case PF_IO: snprintf(buf, size, "block I/O %u", number); break;
	case PF_THREAD: snprintf(buf, size, "%s %u", tl_comm(s, (int32_t)number), number); break;
	case PF_LOST: snprintf(buf, size, "lost events"); break;
	case PF_REMARK: snprintf(buf, size, "%s", p->remark.s ?: ""); break;
	}
}

static const struct {
	enum pf_kind parent; /* 0 = none; of the same source */
	uint64_t rank;	     /* among its siblings; the number is added */
} place[] = {
	[PF_SOURCE] = { 0, 0 },
	[PF_CPU] = { PF_SOURCE, 1 },
	[PF_VM] = { 0, 0 },
	[PF_VCPU] = { PF_VM, 1000 },
	[PF_TASKS] = { PF_SOURCE, 100000 },
	[PF_THREAD] = { PF_TASKS, 0 },
	[PF_LOST] = { PF_SOURCE, 0 },
	[PF_REMARK] = { 0, 0 },
	[PF_IO] = { PF_SOURCE, 90000 },
	[PF_SPIKES] = { PF_VM, 0 },
};

struct pf_track *pf_track(struct out *o, struct pf *p, enum pf_kind kind, size_t source,
			  uint32_t number)
{
	uint64_t key = (uint64_t)kind << 56 | (uint64_t)source << 32 | number;
	struct pf_track *t,
		**slot = xu64map_elem(&p->by_place, key, &p->track, &p->track_cap, sizeof(*slot));
	const struct pf_track *parent;
	struct sbuf *b;
	size_t packet, mark, counter;
	char name[256];

	if (*slot)
		return *slot;
	*slot = t = xcalloc(1, sizeof(*t));
	t->uuid = ++p->next_uuid; /* small: it is in each event */
	parent = NULL;
	b = &o->line;
	if (place[kind].parent)
		parent = pf_track(o, o->priv, place[kind].parent, source, 0);
	track_name(o, kind, source, number, name, sizeof(name));
	packet = packet_begin(b, 0);
	mark = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
	pb_u64(b, TRACK_UUID, t->uuid);
	if (parent) {
		pb_u64(b, TRACK_PARENT, parent->uuid);
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

uint64_t pf_name(struct out *o, struct pf *p, const char *name)
{
	uint64_t hash = hash_bytes(&p->name_key, name, strlen(name)), iid;
	size_t packet, mark;

	if (u64map_get(&p->name_of, hash, &iid))
		return iid;
	if (p->name_of.n == MAX_NAMES)
		return 0;
	iid = p->name_of.n + 1;
	xu64map_put(&p->name_of, hash, iid);
	packet = packet_begin(&o->line, NEEDS_STATE);
	mark = pb_begin(&o->line, PACKET_INTERNED);
	put_interned(&o->line, INTERNED_EVENT, iid, name);
	pb_end(&o->line, mark);
	pb_end(&o->line, packet);
	return iid;
}

/* A name is not needed by events that have one of their own. */
static const struct pf_info *info_of(struct out *o, struct pf *p, const struct pf_event *e)
{
	uint64_t key = (uint64_t)(uintptr_t)e->info;
	size_t n = p->info_of.n;
	struct pf_info *x = xu64map_elem(&p->info_of, key, &p->info, &p->info_cap, sizeof(*x));

	if (p->info_of.n > n) {
		uint64_t iid;
		size_t packet, mark, i;
		const char *field;

		x->name = e->iid || e->name ? 0 : pf_name(o, p, e->info->name);
		/* The number of the name of an event type's first field. */
		iid = p->next_field + 1;
		packet = packet_begin(&o->line, NEEDS_STATE);
		mark = pb_begin(&o->line, PACKET_INTERNED);
		for (i = 0; (field = fmt_field_name(e->info->ev, i)); i++)
			put_interned(&o->line, INTERNED_ANNOTATION, iid + i, field);
		pb_end(&o->line, mark);
		pb_end(&o->line, packet);
		p->next_field += i;
		x->field = iid;
	}
	return x;
}

/* ---- arguments ---- */

void pf_note_str(struct sbuf *b, const char *name, const char *text)
{
	size_t mark = pb_begin(b, EVENT_ANNOTATION);

	pb_str(b, NOTE_NAME, name);
	pb_str(b, NOTE_STRING, text);
	pb_end(b, mark);
}

void pf_note_u64(struct sbuf *b, const char *name, uint64_t v)
{
	size_t mark = pb_begin(b, EVENT_ANNOTATION);

	pb_str(b, NOTE_NAME, name);
	pb_u64(b, NOTE_UINT, v);
	pb_end(b, mark);
}

static char *pf_put_value(char *q, const struct fmt_value *v)
{
	switch (v->kind) {
	case FMT_SIGNED: *q++ = PB_TAG(NOTE_INT, PB_VARINT); break;
	case FMT_UNSIGNED: *q++ = PB_TAG(NOTE_UINT, PB_VARINT); break;
	case FMT_POINTER: *q++ = PB_TAG(NOTE_POINTER, PB_VARINT); break;
	case FMT_STRING: return pf_put_text(q, NOTE_STRING, v->p, v->len);
	default: return pf_put_array(q, NOTE_STRING, v);
	}
	return pb_put_varint(q, v->num);
}

static void pf_put_fields(struct sbuf *b, const struct tl_item *i, const struct pf_info *x)
{
	const size_t room = ROOM + MAX((size_t)i->rec->len, (size_t)PF_ARRAY_ROOM);
	const struct fmt_field *at;
	struct fmt_value v;
	size_t mark;

	for (size_t k = fmt_common_fields(i->ev); (at = fmt_field_at(i->ev, k)); k++) {
		char *q, *note;

		if (!sbuf_room(b, room))
			return;
		fmt_value(at, i->rec, &v);
		if (v.kind == FMT_ABSENT)
			continue;
		q = b->s + b->len;
		*q++ = PB_TAG(EVENT_ANNOTATION, PB_BYTES);
		note = q++;
		*q++ = PB_TAG(NOTE_IID, PB_VARINT);
		q = pb_put_varint(q, x->field + k);
		b->len = (size_t)(pb_put_len(note, pf_put_value(q, &v)) - b->s);
	}
	if (i->unplaced) {
		mark = pb_begin(b, EVENT_ANNOTATION);
		pb_str(b, NOTE_NAME, "unplaced");
		pb_u64(b, NOTE_BOOL, 1);
		pb_end(b, mark);
	}
}

void pf_put(struct out *o, struct pf *p, const struct pf_track *t, const struct pf_event *e)
{
	const struct pf_info *x = NULL;
	struct sbuf *b = &o->line;
	uint64_t iid = e->iid;
	size_t packet, inner;
	char *event, *q;
	char *text;
	static const char head[] = { PB_TAG(PACKET_SEQUENCE_ID, PB_VARINT), SEQUENCE,
				     PB_TAG(PACKET_SEQUENCE_FLAGS, PB_VARINT), NEEDS_STATE,
				     PB_TAG(PACKET_TIMESTAMP, PB_VARINT) };

	if (!iid && e->name)
		iid = pf_name(o, p, e->name);
	if (e->info) {
		x = info_of(o, p, e);
		iid = iid || e->name ? iid : x->name;
	}
	if (!sbuf_room(b, ROOM))
		return;
	packet = b->len + 1; /* where its length goes */
	q = b->s + b->len;
	*q = PB_TAG(PF_PACKET, PB_BYTES);
	/* An event's packet up to its texts and fields; *event: where its length goes. */
	text = q + 2;
	memcpy(text, head, sizeof(head));
	text = pb_put_varint(text + sizeof(head), p->now + p->add);
	*text++ = PB_TAG(PACKET_TRACK_EVENT, PB_BYTES);
	event = text++;
	*text++ = PB_TAG(EVENT_TYPE, PB_VARINT);
	*text++ = (char)e->type;
	*text++ = PB_TAG(EVENT_TRACK, PB_VARINT);
	text = pb_put_varint(text, t->uuid);
	if (iid) {
		*text++ = PB_TAG(EVENT_NAME_IID, PB_VARINT);
		text = pb_put_varint(text, iid);
	}
	if (e->type == PF_COUNTER) {
		text = pb_put_varint(text, EVENT_VALUE << 3 | PB_VARINT);
		text = pb_put_varint(text, (uint64_t)e->value);
	}
	if (e->flow) {
		text = pb_put_varint(text, (e->flow_ends ? EVENT_FLOW_END : EVENT_FLOW) << 3 |
						   PB_FIXED64);
		for (int k = 0; k < 8; k++)
			*text++ = (char)(e->flow >> 8 * k);
	}
	q = text;
	inner = (size_t)(event - b->s);
	b->len = (size_t)(q - b->s);
	/* What is not as long as it is known to be. */
	if (!iid && (e->name || e->info))
		pb_str(b, EVENT_NAME, e->name ?: e->info->name);
	if (x)
		pf_put_fields(b, e->item, x);
	if (e->notes)
		sbuf_add_mem(b, e->notes->s, e->notes->len);
	if (!sbuf_room(b, 2 * PB_VARINT_MAX))
		return;
	q = pb_put_len(b->s + inner, b->s + b->len);
	b->len = (size_t)(pb_put_len(b->s + packet, q) - b->s);
}

void pf_instant(struct out *o, const struct pf_track *t, const struct evinfo *e,
	       const struct tl_item *i, uint64_t flow)
{
	pf_put(o, o->priv, t,
	       &(struct pf_event){ .type = PF_INSTANT, .info = e, .item = i, .flow = flow });
}
