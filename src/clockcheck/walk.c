/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * walk.c: from a host's events to what happened to each vCPU's clock.
 *
 * A guest sees what KVM does to its clock only where it runs: a TSC that is written before a reset,
 * or one by one while no vCPU runs, is no finding. So a write waits for the next entry.
 */
#include "room.h"

#include "kvmft/exit_names.h"

#define RESET_RIP 0xfff0u /* where a vCPU begins after a reset */
#define SHORT_NS  1000u	  /* a TSC may be written with what it would be */
#define STOOD_NS  10000000u
#define LATE_NS	  10000000u
#define ANEW_NS	  1000000u
#define FIRMWARE  (1ull << 32) /* RIPs below this are its, which reads clocks in order to wait */
#define INSTRUCTION 15u /* bytes of one, at most */
#define DEADLINE  0x6e0u
#define TDCALL	  77u /* exits of VMX and SVM that only encrypted guests have */
#define VMGEXIT	  0x403u
#define IS_TSC(m) ((m) == 0x10 || (m) == 0x3b) /* IA32_TIME_STAMP_COUNTER, IA32_TSC_ADJUST */

const struct clock_read clock_reads[CLOCK_READ_KINDS] = {
	{ EV_MSR, 0, 0x40000020, 0x40000020, "msr 0x40000020" },
	{ EV_MSR, 0, 0x40000021, 0x40000021, "msr 0x40000021" },
	{ EV_MSR, 0, 0x10, 0x10, "msr 0x10" },
	{ EV_PIO, 0, 0x40, 0x42, "port 0x40 (PIT)" },
	{ EV_PIO, 0, 0x608, 0x60b, "port 0x608 (ACPI PM timer)" },
	{ EV_PIO, 0, 0xb008, 0xb00b, "port 0xb008 (ACPI PM timer)" },
	{ EV_PIO, 0, 0x71, 0x71, "port 0x71 (CMOS)" },
	{ EV_MMIO, 0, 0xfed000f0, 0xfed000f7, "0xfed000f0 (HPET)" },
	{ EV_EXIT, EXIT_ISA_VMX, 16, 16, "rdtsc" },
	{ EV_EXIT, EXIT_ISA_VMX, 51, 51, "rdtscp" },
	{ EV_EXIT, EXIT_ISA_SVM, 0x6e, 0x6e, "rdtsc" },
	{ EV_EXIT, EXIT_ISA_SVM, 0x87, 0x87, "rdtscp" },
	{ EV_MSR, 0, DEADLINE, DEADLINE, "msr 0x6e0" },
	{ EV_EXIT, EXIT_ISA_VMX, 52, 52, "the preemption timer" },
};

unsigned int clock_read_kind(enum event_role role, uint64_t what, uint64_t isa, bool write)
{
	for (unsigned int i = 0; i < CLOCK_READ_KINDS; i++)
		if (clock_reads[i].role == role && what >= clock_reads[i].from &&
		    what <= clock_reads[i].to && isa == clock_reads[i].isa &&
		    write == (clock_reads[i].from == DEADLINE))
			return i + 1;
	return 0;
}

/* ---- who is who ---- */

static void vcpu_add(struct clock_vm *vm, uint32_t id, const struct epoch_vcpu *e)
{
	xarray_add(&vm->vcpu, &vm->n, &vm->cap, &(struct clock_vcpu){ .id = id, .epochs = e },
		   sizeof(*vm->vcpu));
}

COMPARE(by_id_known_first, struct clock_vcpu,
	ORDER(x->id, y->id) ?: ORDER(!x->epochs, !y->epochs));

struct clockcheck *clockcheck_new(struct timeline *t, int64_t vm)
{
	const struct hostmap *m = tl_hostmap(t);
	const struct hostmap_thread *thread;
	struct clockcheck *c = xcalloc(1, sizeof(*c));

	c->t = t;
	c->cap = m->cap;
	c->only = vm;
	c->until = UINT64_MAX;
	c->vm = xcalloc(m->nvm + 1, sizeof(*c->vm));
	for (; c->n < m->nvm; c->n++) {
		const struct epoch_vm *e = m->vm[c->n].epochs;
		struct clock_vm *v = &c->vm[c->n];
		size_t n = 0;

		v->vm = c->n;
		if (m->vm[c->n].of != c->n)
			continue;
		for (size_t i = 0; e && i < e->n; i++)
			vcpu_add(v, e->vcpus[i]->id, e->vcpus[i]);
		hostmap_each_thread(m, c->n, thread)
			vcpu_add(v, thread->vcpu, NULL);
		/* Each once, by id. */
		array_sort(v->vcpu, v->n, by_id_known_first);
		for (size_t i = 0; i < v->n; i++)
			if (!n || v->vcpu[n - 1].id != v->vcpu[i].id)
				v->vcpu[n++] = v->vcpu[i];
		v->n = n;
	}
	c->no_rip = !event_find(m->fmt, EV_ENTRY, 0)->f[1].size;
	return c;
}

void clockcheck_free(struct clockcheck *c)
{
	for (size_t i = 0; c && i < c->n; i++) {
		free(c->vm[i].vcpu);
		free(c->vm[i].apart);
		free(c->vm[i].seen);
	}
	free(c ? c->vm : NULL);
	free(c);
}

struct clock_vcpu *clock_vcpu_by_id(const struct clock_vm *vm, int64_t id)
{
	size_t at = COUNT_BEFORE(i, vm->n, vm->vcpu[i].id < id);
	struct clock_vcpu *v = at < vm->n && vm->vcpu[at].id == id ? &vm->vcpu[at] : NULL;

	if (v && v->anew != vm->anew)
		v->jump.is = v->was.has_pv = false;
	if (v)
		v->anew = vm->anew;
	return v;
}

static struct clock_who clock_writer(const struct tl_item *i, enum event_role event)
{
	struct clock_who w = { .tid = i->tid, .event = event };

	snprintf(w.comm, sizeof(w.comm), "%s", tl_comm(i->src, i->tid));
	return w;
}

static void clock_advance(struct clock_vcpu *v, uint64_t host)
{
	const struct epoch_vcpu *e = v->epochs;

	for (; e && v->at + 1 < e->n && e->v[v->at + 1].from <= host; v->at++)
		if (!e->v[v->at].has_map || e->v[v->at].map.offset != e->v[v->at + 1].map.offset)
			v->same = v->at + 1;
}

const struct tsc_map *clock_vcpu_map(const struct clock_vcpu *v)
{
	const struct epoch *e = v->epochs && v->at < v->epochs->n ? &v->epochs->v[v->at] : NULL;

	return e && e->has_map && !e->doubtful ? &e->map : NULL;
}

const struct tsc_map *clock_vcpu_last(const struct clock_vcpu *v)
{
	return v->last_at ? &v->last : clock_vcpu_map(v);
}

uint64_t clock_vcpu_khz(const struct clockcheck *c, const struct clock_vcpu *v)
{
	const struct tsc_map *now = clock_vcpu_last(v);

	if (c->cap->unit_ns || !c->cap->tsc_khz || !now ||
	    (!v->last_at && v->epochs->notes & EPOCH_NOTE_RATIO_UNKNOWN))
		return 0;
	return tsc_to_guest(now, c->cap->tsc_khz) - now->offset;
}

void clock_found(struct clock_vm *vm, const struct clock_seen *what)
{
	if (vm->nseen < CLOCK_SEEN_MAX)
		xarray_add(&vm->seen, &vm->nseen, &vm->seen_cap, what, sizeof(*what));
	else
		vm->more++;
}

struct clock_seen *clock_seen_of(const struct clock_vm *vm, enum clock_finding is, int64_t vcpu)
{
	for (size_t i = vm->nseen; i--;)
		if (vm->seen[i].is == is && (vcpu < 0 || vm->seen[i].vcpu == vcpu))
			return &vm->seen[i];
	return NULL;
}

/* ---- TSCs ---- */

/* Since when an offset is in force; 0: since before the recording. */
static uint64_t offset_since(const struct clock_vcpu *v)
{
	const struct epoch_vcpu *e = v->epochs;

	return v->same || e->has_write ? e->v[v->same].from : 0;
}

static const struct tsc_map *map_by(struct clock_vcpu *v, uint64_t host)
{
	const struct tsc_map *map;

	clock_advance(v, host);
	map = clock_vcpu_map(v);
	return map && v->epochs->v[v->at].from <= host ? map : NULL;
}

static bool ran_since(const struct clock_vcpu *v, uint64_t since)
{
	return v->entry >= since || v->entry > v->exit;
}

bool clock_map_holds(const struct clockcheck *c, const struct clock_vcpu *v)
{
	const struct tsc_map *map = clock_vcpu_map(v);

	return map && (offset_since(v) >= c->lost_to ||
		       (v->last_at && tsc_map_equal(map, &v->last)));
}

/* Since when, unless a write may have been lost. */
static const struct tsc_map *map_heard(const struct clockcheck *c, struct clock_vcpu *v,
				       uint64_t host)
{
	const struct tsc_map *map = map_by(v, host);

	return map && offset_since(v) >= c->lost_to ? map : NULL;
}

static const struct tsc_map *map_for_skew(const struct clockcheck *c, struct clock_vcpu *v,
					  uint64_t host)
{
	return v->last_at ? &v->last : map_heard(c, v, host);
}

void clock_skew(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
		uint64_t host, bool end)
{
	struct clock_seen *open = v->skew ? &vm->seen[v->skew - 1] : NULL;
	static const struct clock_who nobody;
	const struct clock_who *by = &nobody;
	const struct tsc_map *a, *b;
	struct clock_vcpu *ref;
	bool known; /* ... since when; else the write was not recorded, or not kept */
	uint64_t since;
	int64_t cycles;

	b = map_for_skew(c, v, host);
	if (!b)
		return;
	/* The first one that is known by then. */
	for (ref = vm->ref ?: vm->vcpu; ref < v && !map_for_skew(c, ref, host);)
		ref++;
	vm->ref = ref = MIN(ref, v);
	a = map_for_skew(c, ref, host);
	if (!a || a->ratio != b->ratio || a->frac != b->frac)
		return;
	cycles = (int64_t)(b->offset - a->offset);
	if (open && open->amount == cycles)
		return;
	known = map_heard(c, v, host) && map_heard(c, ref, host);
	since = known ? MAX(offset_since(v), offset_since(ref)) : MAX(v->last_at, ref->last_at);
	if (open)
		open->to = since;
	v->skew = 0;
	if (!cycles)
		return;
	/* Until both have run with it, it may be that the other one is only written later. */
	if (!end && !(ran_since(v, since) && ran_since(ref, since))) {
		if (!v->waits && ran_since(v, since))
			xarray_add(&vm->apart, &vm->napart, &vm->apart_cap, &v, sizeof(*vm->apart));
		v->waits |= ran_since(v, since);
		return;
	}
	if (known)
		by = offset_since(v) >= offset_since(ref) ? &v->writer : &ref->writer;
	clock_found(vm, &(struct clock_seen){ .is = CLOCK_SKEW, .vcpu = v->id, .than = ref->id,
					      .amount = cycles, .from = since, .by = *by });
	v->skew = vm->more ? 0 : vm->nseen;
}

static void take_write(const struct clockcheck *c, struct clock_vm *vm, const struct tl_item *i)
{
	struct clock_vcpu *v = clock_vcpu_by_id(vm, (int64_t)tl_field(i, 0));
	uint64_t prev = tl_field(i, 1), next = tl_field(i, 2);
	const struct epoch_vcpu *known = v ? v->epochs : NULL;

	if (!v || prev == next)
		return;
	clock_advance(v, i->host);
	/* What a software KVM prints and does not apply is in no epoch. */
	if (known && v->at < known->n && known->v[v->at].has_map &&
	    known->v[v->at].map.offset != next)
		return;
	v->writer = clock_writer(i, EV_TSC_OFFSET);
	v->born |= !prev && !v->entered && !(known && known->has_read && known->read_at <= i->host);
	vm->born |= v->born;
	/* After a loss a vCPU of which nothing was seen yet may be a new one. */
	if ((v->born && !v->entered) || MAX(v->entry, v->exit) < c->lost_to)
		return;
	v->jump.unsure &= v->jump.is;
	v->jump.cycles = (int64_t)((v->jump.is ? (uint64_t)v->jump.cycles : 0) + next - prev);
	v->jump.at = i->host;
	v->jump.is = true;
}

/* It runs: what was written is in force, unless that was a reset. */
static void jumped(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
		   uint64_t rip)
{
	uint64_t khz = clock_vcpu_khz(c, v), size = clock_size(v->jump.cycles);
	enum clock_finding is = CLOCK_TSC_JUMP;
	struct clock_seen *s;

	vm->anew += rip == RESET_RIP;
	if (!v->jump.is || c->no_rip || rip == RESET_RIP)
		return;
	v->jump.is = false;
	if (v->jump.at < c->lost_to) /* it may have been reset since */
		return;
	if (khz ? tsc_cycles_to_ns(size, khz) < SHORT_NS : !size)
		return;
	/* Registers go with a snapshot, too. */
	if (v->jump.unsure || (v->rip && v->rip != FIRMWARE && rip - v->rip > INSTRUCTION))
		is = CLOCK_TSC_SET;
	s = clock_seen_of(vm, is, v->id);
	if (s)
		s->count++;
	else
		clock_found(vm, &(struct clock_seen){ .is = is, .vcpu = v->id,
			.from = v->jump.at, .count = 1, .amount = v->jump.cycles,
			.by = v->writer });
}

/* ---- kvmclock ---- */

uint64_t clock_tolerance(const struct pvclock *a, const struct pvclock *b, uint64_t ns)
{
	/* With a master clock it runs like the TSC, else like a clock that NTP steers. */
	if (a->flags & b->flags & PVCLOCK_TSC_STABLE)
		return 20000 + ns / 1000000;
	return 10000000 + ns / 1000;
}

/* Took something the guest's kvmclock forwards or back, from the last record to this? */
static bool clock_changed(const struct clock_vcpu *v, const struct pvclock *pv, int64_t *ns,
			  uint64_t *tolerance)
{
	const struct tsc_map *now = clock_vcpu_map(v);
	uint64_t tsc = pv->tsc_timestamp, was;

	if (v->was.has_map != (now != NULL) ||
	    (now && (now->ratio != v->was.map.ratio || now->frac != v->was.map.frac)))
		return false;
	if (now)
		tsc -= now->offset - v->was.map.offset;
	if (pvclock_to_ns(&v->was.pv, tsc, &was))
		return false;
	*ns = (int64_t)(pv->system_time - was);
	*tolerance = clock_tolerance(&v->was.pv, pv,
				     clock_size((int64_t)(was - v->was.pv.system_time)));
	return clock_size(*ns) > *tolerance;
}

/* Heard of since the last loss, and in the guest. */
static bool is_inside(const struct clockcheck *c, const struct clock_vcpu *v)
{
	return v->entry > v->exit && v->entry >= c->lost_to;
}

/* Set back: has its guest seen that? */
static void set_back(const struct clockcheck *c, const struct clock_vm *vm,
		     const struct clock_vcpu *v, const struct pvclock *pv, uint64_t host,
		     uint64_t tolerance, struct clock_seen *s)
{
	const struct tsc_map *now = clock_vcpu_map(v);
	uint64_t ran = vm->ran, last, next; /* with the old record; 0: nothing shows that */

	s->is = CLOCK_SET_BACK;
	if (vm->inside > is_inside(c, v))
		ran = host;
	if (!now || !ran || ran < c->lost_to || c->cap->unit_ns || !c->seen[EV_ENTRY] ||
	    !c->seen[EV_EXIT] ||
	    (c->lost_to && (vm->heard_from != c->lost_to || vm->heard < vm->n)) ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(&v->was.map, ran), &last) ||
	    pvclock_to_ns(pv, tsc_to_guest(now, host), &next))
		return;
	s->is = CLOCK_STOOD;
	if (next + tolerance < last) {
		s->is = CLOCK_BACKWARDS;
		s->amount = (int64_t)(next - last);
	}
	s->from = ran;
	s->to = host;
}

/* Every vCPU gets a record of what is one change to their VM. */
static bool is_same_change(const struct clock_vm *vm, const struct clock_vcpu *v, int64_t ns,
			   uint64_t tolerance)
{
	for (size_t i = 0; i < vm->nseen; i++) {
		const struct clock_seen *s = &vm->seen[i];

		if (s->is >= CLOCK_FORWARDS && s->is <= CLOCK_SET_BACK && s->at >= v->was.from &&
		    clock_size((int64_t)((uint64_t)s->moved - (uint64_t)ns)) <= 2 * tolerance)
			return true;
	}
	return false;
}

void clock_master(struct clock_vm *vm, bool off, uint64_t host, bool sure)
{
	struct clock_seen *s = clock_seen_of(vm, CLOCK_NO_MASTER, -1);

	s = s && !s->to ? s : NULL;
	if (off && !(vm->master.known && vm->master.off))
		vm->master.since = vm->master.known ? host : 0;
	vm->master.known = true;
	vm->master.off = off;
	if (s && !off)
		s->to = host;
	if (!s && off && sure)
		clock_found(vm, &(struct clock_seen){ .is = CLOCK_NO_MASTER, .vcpu = -1,
			.from = vm->master.since, .by = vm->master.by });
}

void clock_adopt(struct clock_vcpu *v, uint64_t host)
{
	const struct epoch_vcpu *e = v->epochs;

	for (size_t i = 0; e && i < e->n && e->v[i].from < host; i++)
		if (e->v[i].has_pv && e->v[i].has_map)
			v->was = e->v[i];
}

/*
 * Its memory has had another record than what its VM had: it comes from another VM, or is older.
 * KVM says when it makes a VM, whose kvmclock begins then, and counts on until it is set.
 */
static void restored(const struct clockcheck *c, struct clock_vm *vm, const struct clock_vcpu *v,
		     const struct pvclock *pv, uint64_t host)
{
	struct clock_seen s = { .is = CLOCK_RESTORED, .vcpu = -1, .from = host, .at = vm->made,
				.told = pv->version - 2,
				.real = v->was.has_pv ? v->was.pv.version : 0 };
	uint64_t age, ns;

	if (!s.real && vm->made && c->cap->tsc_khz && !c->cap->unit_ns && clock_vcpu_map(v) &&
	    !pvclock_to_ns(pv, tsc_to_guest(clock_vcpu_map(v), host), &ns)) {
		age = tsc_cycles_to_ns(host - vm->made, c->cap->tsc_khz);
		if (clock_size((int64_t)(ns - age)) <= ANEW_NS + age / 1000)
			s.is = CLOCK_ANEW;
	}
	vm->anew++;
	vm->blind = true;
	clock_found(vm, &s);
}

/*
 * The first record of a vCPU here: has its guest had another one, which this replaces? KVM's first
 * one has version 2, and one that was made before the recording is announced again. A VM that has
 * not run yet has it by its VMM.
 */
static void first_record(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
			 const struct pvclock *pv, uint64_t host)
{
	const struct tsc_map *map = clock_vcpu_map(v);
	uint64_t begin = c->cap->begin_tsc ?: vm->first;

	if (vm->anew)
		return;
	clock_adopt(v, host);
	/* One record is given to all that run, one after the other. */
	if (v->was.has_pv || pv->version <= 2 || pvclock_same_body(&vm->pv, pv))
		return;
	if (!v->born)
		vm->blind |= !(map && begin && !c->cap->unit_ns &&
			       (int64_t)(tsc_to_guest(map, begin) - pv->tsc_timestamp) > 0);
	else if (!v->entered)
		restored(c, vm, v, pv, host);
}

static void pvclock_taken(struct clockcheck *c, struct clock_vm *vm, const struct tl_item *i)
{
	const struct event_type *e = event_type_of(i->ev);
	struct clock_vcpu *v = clock_vcpu_by_id(vm, (int64_t)tl_field(i, 0));
	const struct pvclock pv = event_pvclock(e, i->rec);
	const struct tsc_map *map;
	struct clock_seen *told;
	uint64_t tolerance;
	int64_t ns;
	bool known;

	if (!v || pvclock_check(&pv))
		return;
	clock_advance(v, i->host);
	known = v->was.has_pv && v->was.from >= c->lost_to;
	if (v->was.from < c->lost_to) { /* it may have had another one since */
		v->was.has_pv = false;
		vm->blind = true;
	} else if (!known) {
		first_record(c, vm, v, &pv, i->host);
	} else if (pv.version > 2 && pv.version <= v->was.pv.version &&
		   !pvclock_same_body(&v->was.pv, &pv)) {
		restored(c, vm, v, &pv, i->host);
	}
	v = clock_vcpu_by_id(vm, v->id); /* restored: its last record is none of it */
	if (!known && (!v->was.has_pv || v->was.from > v->jump.at))
		v->jump.unsure |= v->jump.is && pv.version > 2 && !v->writer.guest;
	if (v->was.has_pv && !pvclock_same_body(&v->was.pv, &pv) &&
	    clock_changed(v, &pv, &ns, &tolerance) && !is_same_change(vm, v, ns, tolerance)) {
		struct clock_seen s = {
			.is = CLOCK_FORWARDS, .vcpu = -1, .from = i->host, .amount = ns,
			.moved = ns, .at = i->host, .by = vm->master.by,
		};

		if (vm->master.by_at < v->was.from)
			s.by = clock_writer(i, EV_PVCLOCK);
		if (ns < 0)
			set_back(c, vm, v, &pv, i->host, tolerance, &s);
		if (s.is != CLOCK_STOOD || clock_size(ns) >= STOOD_NS)
			clock_found(vm, &s);
	}
	if (pv.flags & PVCLOCK_GUEST_STOPPED &&
	    !(v->was.has_pv && v->was.pv.flags & PVCLOCK_GUEST_STOPPED)) {
		told = clock_seen_of(vm, CLOCK_STOPPED, -1);
		if (told)
			told->count += told->vcpu == v->id;
		else
			clock_found(vm, &(struct clock_seen){ .is = CLOCK_STOPPED, .count = 1,
					      .vcpu = v->id, .from = i->host });
	}
	clock_master(vm, !(pv.flags & PVCLOCK_TSC_STABLE), i->host, true);
	map = clock_vcpu_map(v);
	v->was = (struct epoch){ .from = i->host, .map = map ? *map : v->was.map, .pv = pv,
				 .has_map = map, .has_pv = true };
	vm->pv = pv;
}

/* What KVM says of its master clock: that it looked, and how the vCPUs' TSCs match. */
static void take_master(struct clockcheck *c, struct clock_vm *vm, const struct tl_item *i)
{
	const struct event_type *e = event_type_of(i->ev);
	bool track = e->role == EV_TRACK_TSC;

	vm->master.host_clock = tl_field(i, track ? 4 : 1);
	vm->master.told_at = i->host;
	if (track) {
		vm->master.tracked = e->f[2].size && e->f[3].size;
		vm->master.matched = tl_field(i, 2) + 1;
		vm->master.vcpus = tl_field(i, 3);
		return;
	}
	if (!vm->born)
		vm->made = i->host;
	/* In the thread of a vCPU it only follows from what others did. */
	if (!hostmap_thread(tl_hostmap(c->t), i->tid)) {
		vm->master.by = clock_writer(i, EV_MASTER_CLOCK);
		vm->master.by_at = i->host;
	}
	clock_master(vm, !tl_field(i, 0), i->host, false);
}

/* ---- what a vCPU does ---- */

static void entry_taken(struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
			const struct tl_item *i)
{
	size_t apart;

	jumped(c, vm, v, tl_field(i, 1));
	if (v->read && v->exit && v->exit >= c->lost_to) {
		vm->read[v->read - 1].n++;
		vm->read[v->read - 1].spent += i->host - v->exit;
	}
	v->read = 0;
	vm->inside -= is_inside(c, v);
	v->entry = i->host;
	vm->inside += is_inside(c, v);
	v->entered = true;
	clock_skew(c, vm, v, i->host, false);
	if (v != vm->ref)
		return;
	apart = vm->napart;
	vm->napart = 0;
	for (size_t k = 0; k < apart; k++) {
		vm->apart[k]->waits = false;
		clock_skew(c, vm, vm->apart[k], i->host, false);
	}
}

static void access_taken(struct clockcheck *c, struct clock_vcpu *v, enum event_role role,
			 const struct tl_item *i)
{
	uint64_t how = tl_field(i, 0), what = tl_field(i, 1), khz, ns, deadline;
	bool write = role == EV_MMIO ? how == 2 : how != 0;
	int64_t late;

	clock_advance(v, i->host);
	if (role == EV_MSR && write && what == DEADLINE && (khz = clock_vcpu_khz(c, v)) &&
	    (deadline = tl_field(i, 2))) {
		late = (int64_t)(tsc_to_guest(clock_vcpu_map(v), i->host) - deadline);
		ns = late > 0 ? tsc_cycles_to_ns((uint64_t)late, khz) : 0;
		v->timers++;
		v->late += ns >= LATE_NS;
		v->worst = MAX(v->worst, ns);
	}
	if (role == EV_MSR && write && IS_TSC(what) && v->writer.tid == i->tid && v->jump.is)
		v->writer.guest = true;
	if (!v->read && v->rip >= FIRMWARE && v->exit > v->entry)
		v->read = clock_read_kind(role, what, 0, write);
}

static void vcpu_taken(struct clockcheck *c, struct clock_vm *vm, enum event_role role,
		       const struct tl_item *i)
{
	struct clock_vcpu *v = clock_vcpu_by_id(vm, i->vcpu);
	uint64_t reason, isa;

	if (!v)
		return;
	vm->first = vm->first ?: i->host;
	vm->last = i->host;
	if (vm->heard_from != c->lost_to) {
		vm->heard_from = c->lost_to;
		vm->heard = vm->inside = 0;
	}
	if (role == EV_ENTRY || role == EV_EXIT)
		vm->heard += MAX(v->entry, v->exit) < c->lost_to && i->host >= c->lost_to;
	if (role == EV_ENTRY)
		return entry_taken(c, vm, v, i);
	if (role != EV_EXIT)
		return access_taken(c, v, role, i);
	reason = tl_field(i, 0);
	isa = tl_field(i, 1);
	vm->is_tdx |= isa == EXIT_ISA_VMX && (reason & 0xffff) == TDCALL;
	vm->is_sev |= isa == EXIT_ISA_SVM && reason == VMGEXIT;
	vm->inside -= is_inside(c, v);
	vm->ran = v->exit = i->host;
	v->rip = event_type_of(i->ev)->f[2].size ? tl_field(i, 2) : FIRMWARE;
	v->read = v->rip < FIRMWARE ? 0 : clock_read_kind(EV_EXIT, reason, isa, false);
}

void clockcheck_feed(void *clockcheck, const struct tl_item *i)
{
	struct clockcheck *c = clockcheck;
	struct clock_vm *vm;
	enum event_role role;
	ssize_t at;

	c->newest = MAX(c->newest, i->host);
	if (i->kind != TL_EVENT || i->src->index || !i->ev || i->marker || i->host > c->until) {
		/* A watcher has seen what was removed since, and will see what is not read yet. */
		if (i->kind != TL_EVENT && !i->src->index &&
		    (!c->watch || i->lost ||
		     (i->gap != GAP_REMOVED && i->gap != GAP_UNREAD))) {
			c->lossy = true;
			c->lost_to = MAX(c->lost_to, i->host + i->width);
		}
		return;
	}
	role = event_role_of(i->ev);
	c->seen[role] = true;
	switch (role) {
	case EV_ENTRY:
	case EV_EXIT:
	case EV_MSR:
	case EV_PIO:
	case EV_MMIO:
		if (i->vm >= 0)
			vcpu_taken(c, &c->vm[i->vm], role, i);
		return;
	case EV_TSC_OFFSET:
	case EV_TRACK_TSC:
	case EV_MASTER_CLOCK:
	case EV_PVCLOCK: break;
	default: return;
	}
	at = i->vm >= 0 ? (ssize_t)i->vm : hostmap_task_vm(tl_hostmap(c->t), i->tid);
	if (at < 0 || (size_t)at >= c->n) {
		c->stray = true;
		return;
	}
	vm = &c->vm[at];
	if (role == EV_PVCLOCK)
		pvclock_taken(c, vm, i);
	else if (role == EV_TSC_OFFSET)
		take_write(c, vm, i);
	else
		take_master(c, vm, i);
}
