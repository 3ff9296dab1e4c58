/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_packets.c: packets of a Perfetto trace. Field numbers are those of perfetto's
 * protos/perfetto/trace: trace.proto, trace_packet.proto, clock_snapshot.proto,
 * interned_data.proto, track_event/ *.proto, ps/process_tree.proto, remote_clock_sync.proto,
 * generic_kernel, and of protos/perfetto/common: system_info.proto, trace_attributes.proto.
 *
 * Tracks are named ones and not threads: they tell of the host's threads and of the guests' CPUs
 * alike, and arrows lead from one to the other. So all are the first machine's.
 *
 * The host and its guests are machines, each with CPUs, tasks and clocks of its own.
 * All stamps of a guest are on the host's time line, exactly. So what the trace calls BOOTTIME of a
 * guest is the host's, which a RemoteClockSync of equal readings states: nothing is left to
 * assumption. What the guest's own clocks read at some moments, such as its TSC at the beginning of
 * each epoch, is also there, in the table clock_snapshot.
 */
#include "perfetto.h"

#include <ctype.h>

enum {
	/* TracePacket */
	PROCESS_TREE = 2, PACKET_CLOCK_SNAPSHOT = 6, PACKET_TIMESTAMP = 8, PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11, PACKET_INTERNED = 12, PACKET_SEQUENCE_FLAGS = 13, SYSTEM_INFO = 45,
	PACKET_DEFAULTS = 59, PACKET_TRACK_DESCRIPTOR = 60, MACHINE_ID = 98, CLOCK_SYNC = 107,
	TASK_RENAME = 120, ATTRIBUTES = 126,
	/* TracePacketDefaults */
	DEFAULTS_CLOCK_ID = 58,
	/* ClockSnapshot and its Clock */
	SNAPSHOT_CLOCK = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIME = 2,
	/* TrackDescriptor */
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PARENT = 5, TRACK_COUNTER = 8, TRACK_ORDERING = 11,
	TRACK_RANK = 12,
	/* TrackEvent */
	EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK = 11,
	EVENT_NAME = 23, EVENT_VALUE = 30, EVENT_FLOW = 47, EVENT_FLOW_END = 48,
	/* InternedData, and each of its names */
	INTERNED_EVENT = 2, INTERNED_ANNOTATION = 3, INTERNED_IID = 1, INTERNED_NAME = 2,
	/* DebugAnnotation */
	NOTE_IID = 1, NOTE_BOOL = 2, NOTE_UINT = 3, NOTE_INT = 4, NOTE_STRING = 6, NOTE_POINTER = 7,
	NOTE_NAME = 10,
	/* CounterDescriptor */
	COUNTER_UNIT = 3, UNIT_COUNT = 2,
	/* SystemInfo and Utsname */
	INFO_UTSNAME = 1, INFO_CPUS = 8, INFO_NAME = 17, UTS_SYSNAME = 1, UTS_RELEASE = 3,
	UTS_MACHINE = 4,
	/* ProcessTree and its Process and Thread */
	TREE_PROCESS = 1, TREE_THREAD = 2, PROCESS_PID = 1, PROCESS_CMDLINE = 3,
	PROCESS_IS_COMM = 9, THREAD_TID = 1, THREAD_NAME = 2, THREAD_TGID = 3,
	/* GenericKernelTaskRenameEvent */
	RENAME_TID = 1, RENAME_COMM = 2,
	/* RemoteClockSync and its SyncedClocks */
	SYNCED_CLOCKS = 1, SYNC_CLIENT = 2, SYNC_HOST = 3,
	/* TraceAttributes and its Attribute */
	ATTRIBUTE = 1, ATTRIBUTE_KEY = 1, ATTRIBUTE_LONG = 2, ATTRIBUTE_STRING = 3,
};

enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };			       /* sequence_flags */
enum { REALTIME = 1, MONOTONIC = 3, MONOTONIC_RAW = 5, BOOTTIME = 6, TSC = 9 }; /* BuiltinClock */
enum { ORDER_BY_RANK = 3 };					       /* ChildTracksOrdering */

#define SEQUENCE  1
#define MAX_NAMES 65536 /* that have a number; others are written in full */

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

static uint64_t bracket_reading(uint64_t clock, const struct clock_bracket *r)
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
		uint64_t base = o->clock.base, khz = o->clock.khz;

		/* ns since the beginning become CLOCK_BOOTTIME by the first reading of both. */
		if (base >= r->tsc)
			p->add = r->boot + tsc_cycles_to_ns(base - r->tsc, khz);
		else
			p->add = r->boot - tsc_cycles_to_ns(r->tsc - base, khz);
	} else if (r) {
		p->add = r->boot - bracket_reading(clock_id(o->clock.kind), r);
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

static void pf_put_fields(struct sbuf *b, const struct tl_item *i, const struct pf_info *x)
{
	const struct fmt_field *at;
	struct fmt_value v;
	size_t mark;

	for (size_t k = fmt_common_fields(i->ev); (at = fmt_field_at(i->ev, k)); k++) {
		fmt_value(at, i->rec, &v);
		if (v.kind == FMT_ABSENT)
			continue;
		mark = pb_begin(b, EVENT_ANNOTATION);
		pb_u64(b, NOTE_IID, x->field + k);
		switch (v.kind) {
		case FMT_SIGNED: pb_u64(b, NOTE_INT, v.num); break;
		case FMT_UNSIGNED: pb_u64(b, NOTE_UINT, v.num); break;
		case FMT_POINTER: pb_u64(b, NOTE_POINTER, v.num); break;
		case FMT_STRING: pb_str_mem(b, NOTE_STRING, v.p, v.len); break;
		default: pf_put_array(b, NOTE_STRING, &v); break;
		}
		pb_end(b, mark);
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
	size_t packet, event;

	if (!iid && e->name)
		iid = pf_name(o, p, e->name);
	if (e->info) {
		x = info_of(o, p, e);
		iid = iid || e->name ? iid : x->name;
	}
	packet = packet_begin(b, NEEDS_STATE);
	pb_u64(b, PACKET_TIMESTAMP, p->now + p->add);
	event = pb_begin(b, PACKET_TRACK_EVENT);
	pb_u64(b, EVENT_TYPE, e->type);
	pb_u64(b, EVENT_TRACK, t->uuid);
	if (iid)
		pb_u64(b, EVENT_NAME_IID, iid);
	if (e->type == PF_COUNTER)
		pb_s64(b, EVENT_VALUE, e->value);
	if (e->flow)
		pb_fixed64(b, e->flow_ends ? EVENT_FLOW_END : EVENT_FLOW, e->flow);
	if (!iid && (e->name || e->info))
		pb_str(b, EVENT_NAME, e->name ?: e->info->name);
	if (x)
		pf_put_fields(b, e->item, x);
	if (e->notes)
		sbuf_add_mem(b, e->notes->s, e->notes->len);
	pb_end(b, event);
	pb_end(b, packet);
}

void pf_instant(struct out *o, const struct pf_track *t, const struct evinfo *e,
	       const struct tl_item *i, uint64_t flow)
{
	pf_put(o, o->priv, t,
	       &(struct pf_event){ .type = PF_INSTANT, .info = e, .item = i, .flow = flow });
}

/* ---- machines ---- */

#define MS_NS 1000000

/* Begins a packet of that machine; ends with pb_end(m->to, mark). */
static size_t pf_packet(struct pf_machine *m)
{
	size_t mark = pb_begin(m->to, PF_PACKET);

	if (m->id)
		pb_u64(m->to, MACHINE_ID, m->id);
	return mark;
}

/* ---- who there is ---- */

void pf_machines_init(struct out *o, struct pf *p)
{
	const struct hostmap *map = tl_hostmap(o->t);
	size_t n = tl_sources(o->t);

	p->machine = xcalloc(n + 1, sizeof(*p->machine));
	p->of = xcalloc(n + 1, sizeof(struct pf_machine *));
	for (size_t i = 0; i < n; i++) {
		struct tl_source *s = tl_source(o->t, i);
		struct pf_machine *m = s->qemu ? p->machine : NULL;

		/* An earlier capture of the same guest. */
		for (size_t k = 0; s->guest && !s->alone && k < p->nmachine && !m; k++)
			if (p->machine[k].src->guest &&
			    map->vm[p->machine[k].src->vm].of == map->vm[s->vm].of)
				m = &p->machine[k];
		if (!m) {
			m = &p->machine[p->nmachine];
			*m = (struct pf_machine){ .id = (uint32_t)p->nmachine, .src = s,
						  .remote = p->nmachine, .to = &o->line };
			p->nmachine++;
		}
		p->of[i] = m;
	}
}

void pf_machines_free(struct pf *p)
{
	free(p->machine);
	free(p->of);
}

/* ---- tasks ---- */

static void put_process(struct sbuf *b, int32_t pid, const char *name)
{
	size_t mark = pb_begin(b, TREE_PROCESS);

	pb_s64(b, PROCESS_PID, pid);
	if (name) {
		pb_str(b, PROCESS_CMDLINE, name);
		pb_u64(b, PROCESS_IS_COMM, 1);
	}
	pb_end(b, mark);
}

static void pf_put_thread(struct sbuf *b, int32_t tid, int32_t tgid, const char *name)
{
	size_t mark = pb_begin(b, TREE_THREAD);

	pb_s64(b, THREAD_TID, tid);
	if (name)
		pb_str(b, THREAD_NAME, name);
	pb_s64(b, THREAD_TGID, tgid);
	pb_end(b, mark);
}

/* Names that are known from elsewhere than the events, and whose threads they are. */
static void put_tasks(struct out *o, struct pf_machine *m)
{
	const struct capture *cap = m->src->cap;
	size_t begin = m->to->len, packet = pf_packet(m), mark = pb_begin(m->to, PROCESS_TREE);
	bool empty;
	const struct hostmap *map = tl_hostmap(o->t);
	const struct hostmap_thread *th;

	/* VMMs and their vCPUs are known in every capture of a host. */
	for (size_t v = 0; !m->remote && !m->src->guest && v < map->nvm; v++) {
		const struct hostmap_vm *vm = &map->vm[v];

		if (vm->of != v || vm->pid <= 0)
			continue;
		put_process(m->to, vm->pid, vm->cap ? vm->cap->vmm : NULL);
		hostmap_each_thread(map, v, th) {
			if (th->tid > 0 && th->tid != vm->pid)
				pf_put_thread(m->to, th->tid, vm->pid, TEXTF("vCPU %u", th->vcpu));
		}
	}
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];

		if (t->tid > 0 && t->tgid == t->tid)
			put_process(m->to, t->tgid, t->comm);
		else if (t->tid > 0 && t->tgid > 0)
			pf_put_thread(m->to, t->tid, t->tgid, t->comm);
	}
	empty = m->to->len == mark;
	pb_end(m->to, mark);
	pb_end(m->to, packet);
	if (empty && !m->to->error)
		m->to->len = begin;
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];

		if (t->tid <= 0 || t->tgid > 0 || !t->comm)
			continue;
		packet = pf_packet(m);
		mark = pb_begin(m->to, TASK_RENAME);
		pb_s64(m->to, RENAME_TID, t->tid);
		pb_str(m->to, RENAME_COMM, t->comm);
		pb_end(m->to, mark);
		pb_end(m->to, packet);
	}
}

/* ---- clocks ---- */

struct reading {
	uint32_t clock;
	uint64_t value;
};

static void put_readings(struct sbuf *b, uint64_t boot, const struct reading *r, size_t n)
{
	put_clock(b, BOOTTIME, boot);
	for (size_t i = 0; i < n; i++)
		put_clock(b, r[i].clock, r[i].value);
}

/*
 * What a guest's clocks read at a time of the trace, as a synchronisation. That takes two readings,
 * each with the delay on the way between; without one, it is 0.
 */
static void put_clocks(struct pf_machine *m, uint64_t t, const struct reading *r, size_t n)
{
	size_t packet, mark, one, inner;

	if (t < m->synced) /* readers do not use a clock any more that goes back */
		return;
	m->synced = t;
	packet = pf_packet(m);
	mark = pb_begin(m->to, CLOCK_SYNC);
	for (int k = 0; k < 2; k++) {
		one = pb_begin(m->to, SYNCED_CLOCKS);
		inner = pb_begin(m->to, SYNC_CLIENT);
		put_readings(m->to, t, r, k ? 0 : n);
		pb_end(m->to, inner);
		inner = pb_begin(m->to, SYNC_HOST);
		put_readings(m->to, t, NULL, 0);
		pb_end(m->to, inner);
		pb_end(m->to, one);
	}
	pb_end(m->to, mark);
	pb_end(m->to, packet);
}

/* The vCPU whose TSC stands for the machine's; NULL: nothing is known about it. */
static const struct epoch_vcpu *pf_clock_vcpu(const struct out *o, const struct pf_machine *m)
{
	const struct epoch_vm *vm;

	if (!m->src->guest || m->src->alone)
		return NULL;
	vm = tl_hostmap(o->t)->vm[m->src->vm].epochs;
	return vm && vm->n ? vm->vcpus[0] : NULL;
}

/* The place of `t` on the trace's time line. False: the output's clock shows nothing there. */
static bool trace_time(const struct out *o, const struct pf *p, uint64_t host, uint64_t *t)
{
	if (!out_clock_value(&o->clock, host, -1, t))
		return false;
	*t += p->add;
	return *t && *t <= INT64_MAX;
}

/* The guest's own readings of its clocks, at the first place before t where there are any. */
static void put_guest_readings(struct out *o, struct pf *p, struct pf_machine *m, uint64_t t)
{
	const struct capture *cap = m->src->cap;
	const struct clock_bracket *b = cap->bracket;
	struct reading r[4];
	uint64_t lo, hi, at;

	if (m->read || !cap->nbracket || !m->src->gtime)
		return;
	if (!epoch_result_usable(guest_time_tsc_to_host(m->src->gtime, pf_clock_vcpu(o, m),
							b->tsc + b->width / 2, &lo, &hi)) ||
	    !trace_time(o, p, lo, &at)) {
		m->read = true;
		return;
	}
	if (at > t)
		return;
	m->read = true;
	r[0] = (struct reading){ TSC, b->tsc + b->width / 2 };
	r[1] = (struct reading){ MONOTONIC, b->mono };
	r[2] = (struct reading){ MONOTONIC_RAW, b->mono_raw };
	r[3] = (struct reading){ REALTIME, b->real };
	put_clocks(m, at, r, ARRAY_SIZE(r));
}

void pf_machine_epoch(struct out *o, struct pf *p, const struct out_epoch *e)
{
	struct pf_machine *m = p->of[e->src->index];
	const struct epoch_vcpu *v = pf_clock_vcpu(o, m);
	uint64_t t;

	if (!m->remote || !v || v->id != e->vcpu || !e->e->has_map || e->first ||
	    !trace_time(o, p, e->host, &t))
		return;
	put_guest_readings(o, p, m, t);
	put_clocks(m, t, &(struct reading){ TSC, tsc_to_guest(&e->e->map, e->host) }, 1);
}

void pf_machines_end(struct out *o, struct pf *p)
{
	for (size_t i = 0; i < p->nmachine; i++)
		if (p->machine[i].remote)
			put_guest_readings(o, p, &p->machine[i], UINT64_MAX);
}

/* ---- attributes ---- */

static size_t pf_attribute(struct sbuf *b, const char *key)
{
	size_t mark = pb_begin(b, ATTRIBUTE);

	pb_str(b, ATTRIBUTE_KEY, key);
	return mark;
}

static void pf_put_number(struct sbuf *b, const char *key, int64_t v)
{
	size_t mark = pf_attribute(b, key);

	pb_s64(b, ATTRIBUTE_LONG, v);
	pb_end(b, mark);
}

void pf_machine_alignment(struct out *o, const struct out_alignment *a)
{
	struct pf_machine *m = ((struct pf *)o->priv)->of[a->src->index];
	size_t packet, mark, text;

	packet = pf_packet(m);
	mark = pb_begin(m->to, ATTRIBUTES);
	text = pf_attribute(m->to, "kvmft.alignment");
	pb_str(m->to, ATTRIBUTE_STRING, a->text);
	pb_end(m->to, text);
	pf_put_number(m->to, "kvmft.events_checked", (int64_t)a->checked);
	pf_put_number(m->to, "kvmft.events_outside", (int64_t)a->outside);
	if (a->bounded) { /* of the guest's stamps: how far they may be too late, too early */
		pf_put_number(m->to, "kvmft.slack_early_ns", a->early_ns);
		pf_put_number(m->to, "kvmft.slack_late_ns", a->late_ns);
	}
	pb_end(m->to, mark);
	pb_end(m->to, packet);
}

void pf_machines_head(struct out *o, struct pf *p)
{
	for (size_t i = 0; i < p->nmachine; i++) {
		struct pf_machine *m = &p->machine[i];
		const struct capture *cap = m->src->cap;
		size_t packet = pf_packet(m), mark = pb_begin(m->to, SYSTEM_INFO), uts;
		const char *release = cap->uname;

		/* "Linux 6.1.0 #1 SMP": the first word that begins with a digit is the release. */
		while (release && *release && !isdigit((unsigned char)*release)) {
			release += strcspn(release, " ");
			release += strspn(release, " ");
		}
		if (release && *release) {
			uts = pb_begin(m->to, INFO_UTSNAME);
			pb_str(m->to, UTS_SYSNAME, "Linux");
			pb_str_mem(m->to, UTS_RELEASE, release, strcspn(release, " "));
			if (cap->arch)
				pb_str(m->to, UTS_MACHINE, cap->arch);
			pb_end(m->to, uts);
		}
		if (cap->ncpu)
			pb_u64(m->to, INFO_CPUS, cap->ncpu);
		pb_str(m->to, INFO_NAME, m->src->label);
		pb_end(m->to, mark);
		pb_end(m->to, packet);
		put_tasks(o, m);
		if (m->remote) {
			uint64_t host = o->clock.base + (o->clock.khz ?: MS_NS), t, tsc = 0;
			const struct epoch_vcpu *v = pf_clock_vcpu(o, m);
			bool known;

			/* 1 ms after the begin: readers take a reading of 0 for none. */
			if (!trace_time(o, p, host, &t))
				t = p->add + MS_NS;
			known = v && epoch_result_usable(epoch_host_to_guest(v, host, &tsc)) &&
				!(tsc >> 63);
			put_clocks(m, t, &(struct reading){ TSC, tsc }, known);
		}
	}
}
