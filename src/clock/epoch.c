/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epoch.c: replays clock events of a VM into one list of epochs per vCPU.
 *
 * The offset before the first event is known from that event itself, the ratio only from debugfs,
 * and the pvclock record only from the moment it is announced.  An epoch may therefore start out
 * without map or without record; fill_map() supplies the map backwards once it is learned.
 */
#include "kvmft/epoch.h"
#include "kvmft/util.h"

struct epoch_vm *epoch_vm_new(uint64_t watch_from)
{
	struct epoch_vm *vm = calloc(1, sizeof(*vm));

	if (vm)
		vm->watch_from = watch_from;
	return vm;
}

void epoch_vm_free(struct epoch_vm *vm)
{
	size_t i;

	if (!vm)
		return;
	for (i = 0; i < vm->n; i++) {
		free(vm->vcpus[i]->v);
		free(vm->vcpus[i]);
	}
	free(vm->vcpus);
	free(vm);
}

/* Place of @id in the sorted list: of the vCPU if it exists, else where it belongs. */
static size_t vcpu_place(const struct epoch_vm *vm, uint32_t id)
{
	return COUNT_BEFORE(i, vm->n, vm->vcpus[i]->id < id);
}

const struct epoch_vcpu *epoch_vm_find(const struct epoch_vm *vm, uint32_t id)
{
	size_t at = vcpu_place(vm, id);

	return at < vm->n && vm->vcpus[at]->id == id ? vm->vcpus[at] : NULL;
}

const struct epoch_vcpu *epoch_vm_or_first(const struct epoch_vm *vm, int64_t id)
{
	const struct epoch_vcpu *v = vm && id >= 0 ? epoch_vm_find(vm, (uint32_t)id) : NULL;

	return v ?: vm && vm->n ? vm->vcpus[0] : NULL;
}

bool epoch_vm_has_map(const struct epoch_vm *vm, uint32_t id)
{
	const struct epoch_vcpu *c = vm ? epoch_vm_find(vm, id) : NULL;

	for (size_t i = 0; c && i < c->n; i++)
		if (c->v[i].has_map)
			return true;
	return false;
}

const struct tsc_map *epoch_vm_first_map(const struct epoch_vm *vm)
{
	for (size_t i = 0; vm && i < vm->n; i++)
		if (vm->vcpus[i]->n && vm->vcpus[i]->v[0].has_map)
			return &vm->vcpus[i]->v[0].map;
	return NULL;
}

/* Make sure that @more epochs can be added without allocating. */
static int reserve(struct epoch_vcpu *c, size_t more)
{
	return array_grow(&c->v, c->n + more - 1, &c->room, sizeof(*c->v)) ? 0 : -ENOMEM;
}

static struct epoch *newest(const struct epoch_vcpu *c)
{
	return c->n ? &c->v[c->n - 1] : NULL;
}

/*
 * Start epoch @e (its from is set); room must be reserved. Of two changes at the same stamp only
 * the outcome of the last was ever in force.
 */
static void push(const struct epoch_vm *vm, struct epoch_vcpu *c, struct epoch e)
{
	struct epoch *last = newest(c);

	if (e.from < vm->watch_from)
		e.from = vm->watch_from;
	if (last && last->from >= e.from) {
		e.from = last->from;
		*last = e;
		return;
	}
	c->v[c->n++] = e;
}

static int find_or_add(struct epoch_vm *vm, uint32_t id, struct epoch_vcpu **out)
{
	size_t at = vcpu_place(vm, id), i;
	struct epoch_vcpu *c;

	if (at < vm->n && vm->vcpus[at]->id == id) {
		*out = vm->vcpus[at];
		return 0;
	}
	if (!array_grow(&vm->vcpus, vm->n, &vm->room, sizeof(struct epoch_vcpu *)))
		return -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c || reserve(c, 1)) {
		free(c);
		return -ENOMEM;
	}
	c->id = id;
	if (vm->has_pv) /* a new vCPU shares the record of its VM */
		push(vm, c, (struct epoch){ .from = vm->pv_from, .pv = vm->pv, .has_pv = true });
	for (i = vm->n++; i > at; i--)
		vm->vcpus[i] = vm->vcpus[i - 1];
	vm->vcpus[at] = c;
	*out = c;
	return 0;
}

/* No map is known yet: @map holds from the start of the watch.  Room for one must be reserved. */
static void fill_map(const struct epoch_vm *vm, struct epoch_vcpu *c, const struct tsc_map *map)
{
	size_t i;

	if (!c->n || c->v[0].from > vm->watch_from) {
		for (i = c->n++; i > 0; i--)
			c->v[i] = c->v[i - 1];
		c->v[0] = (struct epoch){ .from = vm->watch_from };
	}
	for (i = 0; i < c->n; i++) {
		c->v[i].map = *map;
		c->v[i].has_map = true;
	}
}

static void doubt(struct epoch_vcpu *c, unsigned int note)
{
	c->notes |= note;
	if (c->n)
		newest(c)->doubtful = true;
}

/* Take note of an event's stamp. */
static int advance(struct epoch_vm *vm, uint64_t host)
{
	if (host < vm->last_event)
		return -EINVAL;
	vm->last_event = host;
	return 0;
}

int epoch_vm_read(struct epoch_vm *vm, uint32_t id, uint64_t at, const struct tsc_map *map)
{
	struct epoch_vcpu *c;
	int err = tsc_map_check(map);

	err = err ?: find_or_add(vm, id, &c);
	if (err)
		return err;
	if (c->has_read || c->has_write)
		return -EINVAL;
	err = reserve(c, 1);
	if (err)
		return err;
	fill_map(vm, c, map);
	c->has_read = c->read_pending = true;
	c->read_at = at;
	c->read_offset = map->offset;
	return 0;
}

/*
 * KVM makes a vCPU with offset 0 and reports that as the previous one of its first write: before
 * that there was no vCPU. @fresh: nothing is known about it; else at most what was read after this
 * write.
 */
static bool is_birth(const struct epoch_vcpu *c, bool fresh, uint64_t host, uint64_t prev)
{
	return !prev && !c->has_write &&
	       (fresh || (c->n == 1 && c->read_pending && host <= c->read_at));
}

/*
 * An event says that the offset was @prev until @host.  What debugfs said must be the offset in
 * force at read_at; the event and the read race, so an event stamped a little before the read may
 * still find the value that was read.
 */
static void check_previous(struct epoch_vcpu *c, uint64_t host, uint64_t prev)
{
	struct epoch *last = newest(c);
	bool early = c->read_pending && host <= c->read_at;
	size_t i;

	if (c->read_pending && (!early || (!c->has_write && prev == c->read_offset))) {
		c->read_pending = false;
		if (last->map.offset != c->read_offset)
			doubt(c, EPOCH_NOTE_READ_MISMATCH);
	}
	if (last->map.offset == prev)
		return;
	if (early && !c->has_write) {
		/* debugfs was read after this event: it described the time since, not before */
		for (i = 0; i < c->n; i++)
			c->v[i].map.offset = prev;
		return;
	}
	doubt(c, c->has_write ? EPOCH_NOTE_CHAIN_BROKEN : EPOCH_NOTE_READ_MISMATCH);
}

int epoch_vm_write_offset(struct epoch_vm *vm, uint32_t id, uint64_t host, uint64_t prev,
			  uint64_t next)
{
	struct tsc_map assumed = { .offset = prev };
	struct epoch_vcpu *c;
	struct epoch e;
	bool fresh = !epoch_vm_find(vm, id), birth;
	int err = host < vm->last_event ? -EINVAL : find_or_add(vm, id, &c);

	err = err ?: reserve(c, 2);
	err = err ?: advance(vm, host);
	if (err)
		return err;
	birth = is_birth(c, fresh, host, prev);
	if (!c->n || !newest(c)->has_map) {
		fill_map(vm, c, &assumed);
		c->notes |= EPOCH_NOTE_RATIO_UNKNOWN;
	}
	check_previous(c, host, prev);
	if (birth) { /* whatever was assumed about the time before is void */
		c->v[0] = *newest(c);
		c->v[0].from = host;
		c->n = 1;
	}
	c->has_write = true;
	e = *newest(c);
	if (e.map.offset == next && !e.doubtful)
		return 0;
	e.has_pv = e.has_pv && prev == next && e.map.offset == next;
	e.from = host;
	e.map.offset = next;
	e.doubtful = false;
	push(vm, c, e);
	return 0;
}

int epoch_vm_track(struct epoch_vm *vm, uint64_t host, bool use_master_clock)
{
	int err = advance(vm, host);

	if (!err && vm->master == EPOCH_MASTER_UNKNOWN)
		vm->master = use_master_clock ? EPOCH_MASTER_ON : EPOCH_MASTER_OFF;
	return err;
}

int epoch_vm_master_clock(struct epoch_vm *vm, uint64_t host, bool use_master_clock)
{
	int err = advance(vm, host);

	if (err)
		return err;
	vm->master = use_master_clock ? EPOCH_MASTER_ON : EPOCH_MASTER_OFF;
	vm->master_changes++;
	if (!use_master_clock)
		vm->has_pv = false;
	return 0;
}

/* Room for one more epoch is reserved. */
static void announce(const struct epoch_vm *vm, struct epoch_vcpu *c, uint64_t host,
		     const struct pvclock *pv)
{
	struct epoch e = c->n ? *newest(c) : (struct epoch){ 0 };

	if (e.has_pv && pvclock_same_body(&e.pv, pv))
		return;
	e.from = host;
	e.pv = *pv;
	e.has_pv = true;
	push(vm, c, e);
}

/* Epochs of all vCPUs, for 300 MB: a file may claim thousands of vCPUs, and records without end. */
#define ANNOUNCED_MAX (1u << 22)

static int announce_to_all(struct epoch_vm *vm, uint64_t host, const struct pvclock *pv)
{
	size_t i;
	int err;

	if (vm->has_pv && !pvclock_same_body(&vm->pv, pv))
		vm->announced += vm->n;
	if (vm->announced > ANNOUNCED_MAX)
		return -ENOMEM;
	for (i = 0; i < vm->n; i++) {
		err = reserve(vm->vcpus[i], 1);
		if (err)
			return err;
	}
	for (i = 0; i < vm->n; i++)
		announce(vm, vm->vcpus[i], host, pv);
	if (!vm->has_pv || !pvclock_same_body(&vm->pv, pv))
		vm->pv_from = host;
	vm->pv = *pv;
	vm->has_pv = true;
	return 0;
}

int epoch_vm_pvclock(struct epoch_vm *vm, uint32_t id, uint64_t host, const struct pvclock *pv)
{
	struct epoch_vcpu *c;
	int bad = pvclock_check(pv);
	int err = host < vm->last_event ? -EINVAL : find_or_add(vm, id, &c);

	if (err)
		return err;
	if (bad) {
		c->notes |= EPOCH_NOTE_BAD_RECORD;
		return bad;
	}
	if (pv->flags & PVCLOCK_TSC_STABLE) {
		err = announce_to_all(vm, host, pv);
	} else {
		err = reserve(c, 1);
		if (!err) {
			c->notes |= EPOCH_NOTE_UNSTABLE;
			vm->has_pv = false;
			announce(vm, c, host, pv);
		}
	}
	if (err)
		return err;
	if (pv->version < c->pv_version)
		c->notes |= EPOCH_NOTE_GUEST_RESET;
	c->pv_version = pv->version;
	return advance(vm, host);
}

static bool same_scaling(const struct tsc_map *a, const struct tsc_map *b)
{
	struct tsc_map x = *a, y = *b;

	x.offset = y.offset = 0;
	return tsc_map_equal(&x, &y);
}

/*
 * A record is made for the frequency of the guest's TSC, so it changes with the ratio, and KVM
 * announces it before the guest runs. Is e's of the ratio of `to`, if that at kHz `khz` was of
 * `from`'s? -1: neither. KVM computes with whole kHz.
 */
static int record_is_of(const struct epoch *e, uint64_t khz, const struct tsc_map *from,
			const struct tsc_map *to)
{
	unsigned __int128 got, want, off = 2 * ((unsigned __int128)from->ratio + to->ratio);
	uint64_t mine;

	if (pvclock_khz(e->pv.mul, e->pv.shift, &mine))
		return -1;
	if (mine + 2 >= khz && mine <= khz + 2)
		return 0;
	got = (unsigned __int128)mine * from->ratio;
	want = (unsigned __int128)khz * to->ratio;
	return (got > want ? got - want : want - got) <= off ? 1 : -1;
}

/*
 * The ratio at the end is another one. No event says when it changed, but the records around it
 * do: from the first change of the offset on between the last one of the old ratio and the first
 * one of the new, as a VMM sets both while the guest does not run. Where the offset did not change
 * there, the time between both is in doubt. False: the records do not say.
 */
static bool date_scaling(const struct epoch_vm *vm, struct epoch_vcpu *c, const struct tsc_map *map)
{
	size_t last = SIZE_MAX, first = SIZE_MAX;
	struct tsc_map old = c->v[0].map;
	uint64_t khz;

	if (old.frac != map->frac || !old.ratio || !map->ratio)
		return false;
	khz = (uint64_t)(((unsigned __int128)vm->khz * old.ratio) >> old.frac);
	if (khz && c->has_read) /* the old one was in force then */
		last = (size_t)MAX(epoch_index(c, c->read_at), 0L);
	for (size_t i = 0; i < c->n; i++) {
		int of;

		if (!c->v[i].has_pv)
			continue;
		if (!khz && pvclock_khz(c->v[i].pv.mul, c->v[i].pv.shift, &khz))
			return false;
		of = record_is_of(&c->v[i], khz, &old, map);
		if (of < 0 || (!of && first != SIZE_MAX))
			return false;
		if (of)
			first = MIN(first, i);
		else
			last = last == SIZE_MAX ? i : MAX(last, i);
	}
	if (first == SIZE_MAX || last >= first) /* SIZE_MAX: no word of the old one */
		return false;
	for (size_t i = last + 1; i < c->n; i++) {
		c->v[i].map.ratio = map->ratio;
		c->v[i].doubtful |= i + 1 < first;
	}
	c->v[last].doubtful |= first == last + 1;
	return true;
}

int epoch_vm_check_end(struct epoch_vm *vm, uint32_t id, const struct tsc_map *map)
{
	unsigned int before, found = 0;
	struct epoch_vcpu *c;
	size_t i;
	int err = tsc_map_check(map);

	err = err ?: find_or_add(vm, id, &c);
	err = err ?: reserve(c, 1);
	if (err)
		return err;
	if (!c->n || !newest(c)->has_map) {
		fill_map(vm, c, map);
		c->has_read = true;
	}
	before = c->notes;
	if (c->read_pending && c->has_write && newest(c)->map.offset != c->read_offset)
		doubt(c, EPOCH_NOTE_READ_MISMATCH);
	c->read_pending = false;
	if (newest(c)->map.offset != map->offset) {
		found |= EPOCH_NOTE_LOST_EVENTS;
		doubt(c, EPOCH_NOTE_LOST_EVENTS);
	}
	if (c->notes & EPOCH_NOTE_RATIO_UNKNOWN) {
		/* Only one ratio was ever observed: it is the best guess for all epochs. */
		for (i = 0; i < c->n; i++) {
			c->v[i].map.ratio = map->ratio;
			c->v[i].map.frac = map->frac;
		}
		c->notes &= ~(unsigned int)EPOCH_NOTE_RATIO_UNKNOWN;
	} else if (!same_scaling(&newest(c)->map, map) && !date_scaling(vm, c, map)) {
		found |= EPOCH_NOTE_RATIO_CHANGED;
		c->notes |= EPOCH_NOTE_RATIO_CHANGED;
		for (i = 0; i < c->n; i++)
			c->v[i].doubtful = true;
	}
	return (int)(found | (c->notes & ~before));
}
