/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockcheck.c: from a host's events to what happened to each vCPU's clock; then what the end of
 * the walk shows, what was not recorded, and the verdict.
 *
 * A guest sees what KVM does to its clock only where it runs: a TSC that is written before a reset,
 * or one by one while no vCPU runs, is no finding. So a write waits for the next entry.
 */
#include "kvmft/clockcheck.h"
#include "kvmft/exit_names.h"
#include "kvmft/proof.h"

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

/* Adds it, and takes over what it says. */
static void clock_found(struct clock_vm *vm, const struct clock_seen *what)
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

static bool ran_since(const struct clock_vcpu *v, uint64_t since)
{
	return v->entry >= since || v->entry > v->exit;
}

/* Whether the map in force at the end is known to be, in spite of what was lost. */
static bool clock_map_holds(const struct clockcheck *c, const struct clock_vcpu *v)
{
	const struct tsc_map *map = clock_vcpu_map(v);

	return map && (offset_since(v) >= c->lost_to ||
		       (v->last_at && tsc_map_equal(map, &v->last)));
}

/* Since when, unless a write may have been lost. */
static const struct tsc_map *map_heard(const struct clockcheck *c, struct clock_vcpu *v,
				       uint64_t host)
{
	const struct tsc_map *map;

	clock_advance(v, host);
	map = clock_vcpu_map(v);
	return map && v->epochs->v[v->at].from <= host && offset_since(v) >= c->lost_to ? map
											: NULL;
}

static const struct tsc_map *map_for_skew(const struct clockcheck *c, struct clock_vcpu *v,
					  uint64_t host)
{
	return v->last_at ? &v->last : map_heard(c, v, host);
}

/* Of a vCPU that has run with it, or could at the end: is its TSC that of the VM's first one? */
static void clock_skew(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
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
static void check_jump(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
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

/* How far two records may be apart, in ns, if nothing happened that long after the older. */
static uint64_t clock_tolerance(const struct pvclock *a, const struct pvclock *b, uint64_t ns)
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

/* Whether it is off, by an event of then, or as it remains; sure: a guest sees it. */
static void clock_master(struct clock_vm *vm, bool off, uint64_t host, bool sure)
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

/* A record that it had by then, known without an event: as a capture of its guest has it. */
static void clock_adopt(struct clock_vcpu *v, uint64_t host)
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
static void check_restore(const struct clockcheck *c, struct clock_vm *vm,
			  const struct clock_vcpu *v, const struct pvclock *pv, uint64_t host)
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
		check_restore(c, vm, v, pv, host);
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
		check_restore(c, vm, v, &pv, i->host);
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

	check_jump(c, vm, v, tl_field(i, 1));
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

/* ---- at the end ---- */

#define OFF_PPM	   500u /* KVM itself does not scale for less than 250 */
#define DRIFT_PPB  1000000u
#define APART_NS   100000u
#define READS_S	   1000u
#define READS_LESS 100u /* ... if they take a tenth of a CPU */
#define LATE_LEAST 10u /* and half of all: a vCPU that waits for a CPU is late with some */
#define WALL_NS	   2000000000u /* without NTP a guest begins with the RTC's whole seconds */

const char *const clock_verdicts[] = { "well", "ill", "unknown" };
const char *const clock_words[] = { "well", "ILL", "cannot tell" };

#define SET_CLOCK "KVM_SET_CLOCK before vCPUs run, with KVM_GET_CLOCK of when they stopped"

const struct clock_rule clock_rules[CLOCK_FINDINGS] = {
	[CLOCK_SKEW] = { "offset-skew", false, true, "%v is %c %t %o%s%W",
			 "give all vCPUs one TSC: KVM_VCPU_TSC_OFFSET, or IA32_TSC of all within a second" },
	[CLOCK_TSC_JUMP] = { "tsc-jump", false, true, "the TSC of %v was set %d by %c at %f%w%x",
			     "write TSCs only before the guest runs, with what they had then" },
	[CLOCK_TSC_SET] = { "tsc-set", true, false,
			    "the TSC of %v was set %d by %c at %f%w%x, or a snapshot was loaded into it",
			    "none if it was a snapshot; a recording from when it was made on tells" },
	[CLOCK_FORWARDS] = { "kvmclock-forwards", false, true, "kvmclock jumped by +%n at %a%k", SET_CLOCK },
	[CLOCK_BACKWARDS] = { "kvmclock-backwards", false, true,
			      "kvmclock went backwards by %n at %a%k: the guest had run until %f", SET_CLOCK },
	[CLOCK_STOOD] = { "kvmclock-stood", false, true,
			  "kvmclock stood still for %n at %a%k: the guest did not run since %f",
			  "set the guest's time after a stop: guest-set-time of qemu-ga, or chronyc makestep" },
	[CLOCK_SET_BACK] = { "kvmclock-set-back", false, true,
			     "kvmclock was set back by %n at %a%k: whether the guest ran until then is not recorded",
			     "record kvm_entry and kvm_exit as well: they show whether the guest has seen it" },
	[CLOCK_ANEW] = { "kvmclock-anew", false, true,
			 "kvmclock began when this VM was made, at %a, but its memory had record %T of another one: "
			 "restored without its clock", SET_CLOCK },
	[CLOCK_NO_MASTER] = { "no-master-clock", false, true, "no master clock%s%m",
			      "give all vCPUs one TSC, and the host clocksource tsc" },
	[CLOCK_DIFFERS] = { "kvmclock-differs", false, true, "kvmclock of %v is %n %t that of %o%s",
			    "as for no-master-clock" },
	[CLOCK_FREQUENCY] = { "frequency", false, false, "%F",
			      "KVM_SET_TSC_KHZ on a host that can scale, or what the guest is told as it is" },
	[CLOCK_READS] = { "reads-exit", false, true, "clock reads exit: %E",
			  "a clocksource that does not exit: kvm-clock, tsc, or Hyper-V's TSC page" },
	[CLOCK_DEADLINES] = { "deadline-past", false, true,
			      "%v set %N of %A timers to a time that its TSC had passed, by up to %n",
			      "compare the guest's TSC with what its timers were set by before it was moved" },
	[CLOCK_STOPPED] = { "guest-stopped", true, false, "the guest was told that it had been stopped, at %f%x",
			    "none: so its watchdogs know" },
	[CLOCK_RESTORED] = { "restored", true, false,
			     "a snapshot was loaded into it, at %f: its memory had record %T, not %R|"
			     "it was restored, or came from another host, at %f: its memory had record %T",
			     "none; record where it comes from, too, to know what its clocks were" },
	[CLOCK_WALL] = { "wall-clock", false, false, "its CLOCK_REALTIME is %n %t the host's at %f",
			 "guest-set-time of qemu-ga, or chronyc makestep in the guest" },
	[CLOCK_SOURCE] = { "clocksource", false, false,
			   "its clocksource changed from %i while it recorded|"
			   "its clocksource is %i: reading the time exits",
			   "dmesg of the guest says why tsc or kvm-clock was not taken, or given up" },
	[CLOCK_SCHED] = { "sched-clock", false, false,
			  "its sched_clock() is %n %t what its constants make of the kvmclock that it had",
			  "as for kvmclock-forwards: printk, trace clocks and the scheduler jump with it" },
	[CLOCK_FOREIGN] = { "foreign-tsc", true, false, "its TSC %i",
			    "none if it is not; if it may not be, a capture of the guest in x86-tsc tells" },
};

static struct clock_vcpu *first_with_record(struct clock_vm *vm)
{
	for (size_t i = 0; i < vm->n; i++)
		if (vm->vcpu[i].was.has_pv)
			return &vm->vcpu[i];
	return NULL;
}

/* What a guest, or a record, makes of its TSC is not what it is, by more than errors. */
static void check_frequency(const struct clockcheck *c, struct clock_vm *vm,
			    const struct clock_vcpu *v, uint64_t told, bool own)
{
	uint64_t real = clock_vcpu_khz(c, v), off = real > told ? real - told : told - real;
	uint64_t slack = 3 + real * OFF_PPM / 1000000 +
			 (c->cap->tsc_khz_max ? c->cap->tsc_khz_max - c->cap->tsc_khz_min : 0);
	const struct clock_seen *before = clock_seen_of(vm, CLOCK_FREQUENCY, -1);
	struct clock_seen s = { .is = CLOCK_FREQUENCY, .vcpu = v->id, .count = 1, .told = told,
				.real = real, .all = own };

	if (!real || !told || off <= slack ||
	    (before && before->told == told && before->real == real))
		return;
	s.amount = (int64_t)((__int128)((int64_t)(real - told)) * 1000000000 / (int64_t)told);
	clock_found(vm, &s);
}

/* The host's clocks are read along with its TSC, which KVM's record makes the guest's of. */
static void check_drift(const struct clockcheck *c, struct clock_vm *vm)
{
	const struct clock_vcpu *v = first_with_record(vm);
	const struct clock_bracket *a = c->cap->bracket, *b = a;
	const struct tsc_map *map = v && c->cap->nbracket ? clock_vcpu_map(v) : NULL;
	uint64_t from, to;

	b += c->cap->nbracket - (map != NULL);
	if (!map || c->cap->unit_ns || !c->cap->tsc_khz || a->tsc >= b->tsc ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(map, a->tsc), &from) ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(map, b->tsc), &to))
		return;
	for (size_t i = 0; i < CLOCK_DRIFTS; i++) {
		int64_t theirs = (int64_t)(i ? b->real - a->real : b->boot - a->boot), ppb;
		uint64_t width = tsc_cycles_to_ns(a->width + b->width, c->cap->tsc_khz) + 2;

		if (theirs <= 0 || width * 1000 > (uint64_t)theirs)
			continue;
		ppb = (int64_t)(((__int128)(to - from) - theirs) * 1000000000 / theirs);
		if (clock_size(ppb) > DRIFT_PPB) /* the host was suspended, or its clock was set */
			continue;
		vm->drift[i].ppb = ppb;
		vm->drift[i].off = (uint64_t)((__int128)width * 1000000000 / theirs) + 1;
	}
}

/* Both have run since the other one's record came, so both had their last one. */
static void check_vcpus(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
			const struct clock_vcpu *ref)
{
	uint64_t a, b, tsc, slack;

	if (!ref || v == ref || v->skew || !v->was.has_pv || v->was.from < c->lost_to ||
	    ref->was.from < c->lost_to || !v->was.has_map || !ref->was.has_map ||
	    v->entry <= ref->was.from || ref->entry <= v->was.from)
		return;
	tsc = tsc_to_guest(&ref->was.map, vm->last);
	if (pvclock_to_ns(&ref->was.pv, tsc, &a) ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(&v->was.map, vm->last), &b))
		return;
	slack = APART_NS +
		clock_tolerance(&v->was.pv, &ref->was.pv, a - MIN(a, v->was.pv.system_time)) +
		clock_tolerance(&v->was.pv, &ref->was.pv, a - MIN(a, ref->was.pv.system_time));
	if ((a > b ? a - b : b - a) <= slack)
		return;
	clock_found(vm, &(struct clock_seen){ .is = CLOCK_DIFFERS, .vcpu = v->id, .than = ref->id,
		.amount = (int64_t)(b - a), .from = MAX(v->was.from, ref->was.from) });
}

static void each_vcpu(const struct clockcheck *c, struct clock_vm *vm)
{
	const struct clock_vcpu *ref = first_with_record(vm);

	vm->ref = NULL;
	for (size_t i = 0; i < vm->n; i++) {
		struct clock_vcpu *v = &vm->vcpu[i];
		uint64_t told;

		clock_skew(c, vm, v, c->until, true);
		if (v->was.has_pv && v->was.from >= c->lost_to &&
		    !pvclock_khz(v->was.pv.mul, v->was.pv.shift, &told))
			check_frequency(c, vm, v, told, false);
		check_frequency(c, vm, v, clock_vcpu_khz(c, &vm->vcpu[0]), true);
		if (!c->cap->unit_ns)
			check_vcpus(c, vm, v, ref);
		if (v->late >= LATE_LEAST && v->late * 2 >= v->timers)
			clock_found(vm, &(struct clock_seen){ .is = CLOCK_DEADLINES, .vcpu = v->id,
				.count = v->late, .all = v->timers,
				.amount = (int64_t)MIN(v->worst, (uint64_t)INT64_MAX) });
	}
}

/* ---- with captures of guests ---- */

static void wall_clock(const struct clockcheck *c, struct clock_vm *vm, const struct tl_source *s)
{
	_cleanup_(cap_pieces_free) struct cap_pieces p = { 0 };
	const size_t n = s->cap->nbracket;
	const struct clock_bracket *b = n ? &s->cap->bracket[n - 1] : NULL;
	const struct epoch_vcpu *v = epoch_vm_or_first(tl_hostmap(c->t)->vm[s->vm].epochs, -1);
	uint64_t lo, hi, first, last;
	int64_t ns;

	if (!b || !s->gtime || cap_pieces_init(&p, c->cap, CAP_CLOCK_REALTIME) ||
	    !epoch_result_usable(guest_time_tsc_to_host(s->gtime, v, b->tsc, &lo, &hi)) ||
	    clock_pieces_to_ns(&p.pieces, lo, &first, &last) < 0)
		return;
	vm->recorded |= EVID_WALL;
	ns = (int64_t)(b->real - first);
	if (clock_size(ns) >= WALL_NS)
		clock_found(vm, &(struct clock_seen){ .is = CLOCK_WALL, .vcpu = -1,
						      .amount = ns, .from = lo });
}

/* What its kernel takes the TSC for, and reads the time by. */
static void clock_source(const struct clockcheck *c, struct clock_vm *vm, const struct tl_source *s)
{
	static const char *const fast[] = { "kvm-clock", "tsc", "hyperv_clocksource_tsc_page",
					    "arch_sys_counter", NULL };
	struct clock_seen f = { .is = CLOCK_SOURCE, .vcpu = -1 };
	const char *by = s->cap->tsc_khz_source;
	const char *now = s->cap->end_clocksource ?: s->cap->clocksource;

	if (by && vm->n && strcmp(by, "measured"))
		check_frequency(c, vm, &vm->vcpu[0], s->cap->tsc_khz, true);
	if (!now)
		return;
	if (s->cap->clocksource && strcmp(now, s->cap->clocksource)) {
		f.real = 1;
		snprintf(f.what, sizeof(f.what), "%.27s to %.27s", s->cap->clocksource, now);
		clock_found(vm, &f);
	}
	for (size_t i = 0; fast[i]; i++)
		if (!strcmp(fast[i], now))
			return;
	f.real = 0;
	snprintf(f.what, sizeof(f.what), "%s", now);
	clock_found(vm, &f);
}

/* By its constants, and the record that it had, as long as it has no other. */
static void sched_clock(struct clock_vm *vm, const struct tl_source *s)
{
	const struct capture *cap = s->cap;
	struct clock_seen f = { .is = CLOCK_SCHED, .vcpu = -1 };
	uint64_t ns, past;

	vm->recorded |= cap->sched_is_tsc ? EVID_SCHED : 0;
	if (!cap->has_sched_offset || cap->sched_is_tsc || !cap->npvclock || !cap->tsc_khz)
		return;
	vm->sched = cap;
	for (size_t i = 0; i < cap->nsample; i++) {
		const struct cap_clock_sample *at = &cap->sample[i];
		const struct pvclock *pv = &cap->pvclock[0].pv;
		bool local = !strcmp(at->clock, "local");

		if ((!local && !cap->has_kernel_sched_offset) || pvclock_to_ns(pv, at->tsc, &ns))
			continue;
		past = clock_size((int64_t)(ns - pv->system_time));
		ns -= (uint64_t)cap->kvm_sched_clock_offset;
		ns += local ? 0 : (uint64_t)cap->kernel_sched_offset;
		vm->recorded |= EVID_SCHED;
		if (clock_size((int64_t)(at->ns - ns)) > clock_tolerance(pv, pv, past) +
		    tsc_cycles_to_ns(at->width, cap->tsc_khz))
			f.amount = (int64_t)(at->ns - ns);
	}
	if (f.amount)
		clock_found(vm, &f);
}

/*
 * The TSC of a guest with TDX, or Secure TSC of SNP, is not KVM's: what KVM says of it, and of a
 * kvmclock by it, is of no clock that the guest reads. A guest that sets its timers to the past by
 * that has another TSC, too, for it knows its own. If its events fit KVM's offset, it is KVM's.
 */
static void foreign_tsc(const struct clockcheck *c, struct clock_vm *vm)
{
	struct clock_seen s = { .is = CLOCK_FOREIGN, .vcpu = -1 };
	struct win_stats own = { 0 };
	bool solved = tl_hostmap(c->t)->vm[vm->vm].has_forced, timers = false;
	size_t n = 0;

	for (size_t i = 0; i < vm->n; i++)
		timers |= vm->vcpu[i].late >= LATE_LEAST &&
			  vm->vcpu[i].late * 10 >= vm->vcpu[i].timers * 9;
	if (c->w)
		win_total(c->w, (int64_t)vm->vm, &own);
	vm->doubtful = own.outside || clock_seen_of(vm, CLOCK_TSC_SET, -1);
	vm->foreign = solved || vm->is_tdx ||
		      ((vm->is_sev || timers) && (!own.inside || own.outside));
	for (size_t i = 0; i < vm->nseen && vm->foreign; i++)
		if (vm->seen[i].is > CLOCK_DEADLINES || vm->seen[i].is == CLOCK_READS)
			vm->seen[n++] = vm->seen[i];
	if (!vm->foreign)
		return;
	vm->nseen = n;
	snprintf(s.what, sizeof(s.what), "%s",
		 vm->is_tdx ? "is not KVM's: it exits by TDCALL"
		 : solved   ? "is not KVM's: its events contradict KVM's offset"
		 : timers   ? "may not be KVM's: by its offset, timers are set to the past"
			    : "may not be KVM's: it exits by VMGEXIT");
	clock_found(vm, &s);
}

/* ---- the end ---- */

static void finish_vm(struct clockcheck *c, struct clock_vm *vm)
{
	bool mismatch = vm->master.tracked && vm->master.matched != vm->master.vcpus;
	uint32_t events = evidence_recorded(c->cap, tl_hostmap(c->t)->fmt, false, c->seen);
	bool offsets = vm->n > 0, rate = false;
	uint64_t khz = c->cap->tsc_khz, ns = khz ? tsc_cycles_to_ns(vm->last - vm->first, khz) : 0;

	for (size_t i = 0; i < vm->n; i++)
		if (!clock_vcpu_by_id(vm, vm->vcpu[i].id)->was.has_pv && !vm->anew)
			clock_adopt(&vm->vcpu[i], UINT64_MAX);
	if (c->until == UINT64_MAX) {
		const struct cap_vm *cap = tl_hostmap(c->t)->vm[vm->vm].cap;

		/* What debugfs said at the end holds also where nothing says since when. */
		for (size_t i = 0; cap && i < cap->nvcpu; i++) {
			const struct cap_vcpu *e = &cap->vcpu[i];
			const struct tsc_map map = { .offset = e->end_offset, .ratio = e->end_ratio,
						     .frac = e->end_ratio ? e->frac : 0 };
			struct clock_vcpu *v = e->has_end ? clock_vcpu_by_id(vm, e->id) : NULL;

			if (!v || tsc_map_check(&map))
				continue;
			v->last = map;
			v->last_at = e->end_tsc;
		}
	}
	for (size_t i = 0; i < vm->n; i++) /* by an offset that another may have replaced */
		if (!clock_map_holds(c, &vm->vcpu[i]))
			vm->vcpu[i].late = 0;
	each_vcpu(c, vm);
	check_drift(c, vm);
	for (size_t i = 0; i < CLOCK_TIMERS && ns; i++) {
		struct clock_seen s = { .is = CLOCK_READS, .vcpu = -1, .count = vm->read[i].n,
					.all = vm->last - vm->first, .spent = vm->read[i].spent };
		uint64_t limit = s.spent >= s.all / 10 ? READS_LESS : READS_S;

		snprintf(s.what, sizeof(s.what), "%s", clock_reads[i].name);
		if (s.count >= limit && (__int128)s.count * 1000000000 >= (__int128)ns * limit)
			clock_found(vm, &s);
	}
	/* No event says that there is no master clock: if this remains, KVM turns it off. */
	if ((vm->master.known ? vm->master.off : mismatch) && vm->last > vm->master.told_at &&
	    vm->master.told_at >= c->lost_to)
		clock_master(vm, true, vm->master.told_at, true);
	foreign_tsc(c, vm);
	for (size_t i = 1; i < tl_sources(c->t); i++) {
		const struct tl_source *s = tl_source(c->t, i);

		if (!s->guest || tl_hostmap(c->t)->vm[s->vm].of != vm->vm)
			continue;
		wall_clock(c, vm, s);
		clock_source(c, vm, s);
		sched_clock(vm, s);
	}
	for (size_t i = 0; i < vm->n; i++) {
		offsets &= clock_vcpu_map(&vm->vcpu[i]) != NULL && !vm->foreign;
		rate |= clock_vcpu_khz(c, &vm->vcpu[i]) != 0 && !vm->foreign;
	}
	events &= ~(uint32_t)(EVID_OFFSETS | EVID_RATE | (c->no_rip ? EVID_RUN : 0));
	vm->recorded |= events | (offsets ? EVID_OFFSETS : 0) | (rate ? EVID_RATE : 0) |
			(first_with_record(vm) ? EVID_RECORD : 0) | (vm->blind ? 0 : EVID_BEFORE);
}

void clockcheck_finish(struct clockcheck *c)
{
	struct tl_loss loss;

	tl_loss(tl_source(c->t, 0), &loss);
	c->lossy |= loss.total || loss.unknown;
	for (size_t i = 0; i < c->n; i++)
		finish_vm(c, &c->vm[i]);
}

bool clockcheck_shown(const struct clockcheck *c, size_t vm)
{
	const struct hostmap_vm *v = &tl_hostmap(c->t)->vm[vm];

	return v->of == vm && !v->empty && c->vm[vm].n && (c->only < 0 || (size_t)c->only == vm);
}

uint32_t clockcheck_lacks(const struct clock_vm *vm, enum clock_finding is)
{
	if (clock_seen_of(vm, is, -1))
		return 0;
	return evidence_rule("clock", clock_rules[is].id)->needs & ~vm->recorded;
}

enum clock_verdict clockcheck_verdict(const struct clockcheck *c, const struct clock_vm *vm)
{
	for (size_t i = 0; i < vm->nseen; i++)
		if (!clock_rules[vm->seen[i].is].note)
			return CLOCK_ILL;
	for (int k = 0; k < CLOCK_FINDINGS; k++)
		if (clock_rules[k].must && clockcheck_lacks(vm, (enum clock_finding)k))
			return CLOCK_UNKNOWN;
	return c->lossy || c->stray || vm->doubtful || !vm->first ? CLOCK_UNKNOWN : CLOCK_WELL;
}
