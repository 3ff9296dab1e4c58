/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epoch.c: replays clock events of a VM into one list of epochs per vCPU.
 *
 * The offset before the first event is known from that event itself, the ratio only from debugfs,
 * and the pvclock record only from the moment it is announced.  An epoch may therefore start out
 * without map or without record; fill_map() supplies the map backwards once it is learned.
 */
#include "kvmft/clock.h"
#include "wide.h"

struct epoch_vm *epoch_vm_new(uint64_t watch_from)
{
	struct epoch_vm *vm = xcalloc(1, sizeof(*vm));

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
static void epoch_reserve(struct epoch_vcpu *c, size_t more)
{
	(void)xarray_grow(&c->v, c->n + more - 1, &c->room, sizeof(*c->v));
}

static struct epoch *newest_epoch(const struct epoch_vcpu *c)
{
	return c->n ? &c->v[c->n - 1] : NULL;
}

/*
 * Start epoch @e (its from is set); room must be reserved. Of two changes at the same stamp only
 * the outcome of the last was ever in force.
 */
static void epoch_push(const struct epoch_vm *vm, struct epoch_vcpu *c, struct epoch e)
{
	struct epoch *last = newest_epoch(c);

	if (e.from < vm->watch_from)
		e.from = vm->watch_from;
	if (last && last->from >= e.from) {
		e.from = last->from;
		*last = e;
		return;
	}
	c->v[c->n++] = e;
}

/* With room for that many more epochs. */
static struct epoch_vcpu *find_or_add(struct epoch_vm *vm, uint32_t id, size_t more)
{
	size_t at = vcpu_place(vm, id), i;
	struct epoch_vcpu *c;

	if (at < vm->n && vm->vcpus[at]->id == id) {
		epoch_reserve(vm->vcpus[at], more);
		return vm->vcpus[at];
	}
	(void)xarray_grow(&vm->vcpus, vm->n, &vm->room, sizeof(struct epoch_vcpu *));
	c = xcalloc(1, sizeof(*c));
	epoch_reserve(c, more + 1);
	c->id = id;
	if (vm->has_pv) /* a new vCPU shares the record of its VM */
		epoch_push(vm, c,
			   (struct epoch){ .from = vm->pv_from, .pv = vm->pv, .has_pv = true });
	for (i = vm->n++; i > at; i--)
		vm->vcpus[i] = vm->vcpus[i - 1];
	return vm->vcpus[at] = c;
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

static void vcpu_doubt(struct epoch_vcpu *c, unsigned int note)
{
	c->notes |= note;
	if (c->n)
		newest_epoch(c)->doubtful = true;
}

/* Take note of an event's stamp. */
static int vm_advance(struct epoch_vm *vm, uint64_t host)
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

	if (err)
		return err;
	c = find_or_add(vm, id, 1);
	if (c->has_read || c->has_write)
		return -EINVAL;
	fill_map(vm, c, map);
	c->has_read = c->read_pending = true;
	c->read_at = at;
	c->read_offset = map->offset;
	return 0;
}

/*
 * An event says that the offset was @prev until @host.  What debugfs said must be the offset in
 * force at read_at; the event and the read race, so an event stamped a little before the read may
 * still find the value that was read.
 */
static void check_previous(struct epoch_vcpu *c, uint64_t host, uint64_t prev)
{
	struct epoch *last = newest_epoch(c);
	bool early = c->read_pending && host <= c->read_at;
	size_t i;

	if (c->read_pending && (!early || (!c->has_write && prev == c->read_offset))) {
		c->read_pending = false;
		if (last->map.offset != c->read_offset)
			vcpu_doubt(c, EPOCH_NOTE_READ_MISMATCH);
	}
	if (last->map.offset == prev)
		return;
	if (early && !c->has_write) {
		/* debugfs was read after this event: it described the time since, not before */
		for (i = 0; i < c->n; i++)
			c->v[i].map.offset = prev;
		return;
	}
	vcpu_doubt(c, c->has_write ? EPOCH_NOTE_CHAIN_BROKEN : EPOCH_NOTE_READ_MISMATCH);
}

int epoch_vm_write_offset(struct epoch_vm *vm, uint32_t id, uint64_t host, uint64_t prev,
			  uint64_t next)
{
	struct tsc_map assumed = { .offset = prev };
	struct epoch_vcpu *c;
	struct epoch e;
	bool fresh = !epoch_vm_find(vm, id), birth;
	int err = vm_advance(vm, host);

	if (err)
		return err;
	c = find_or_add(vm, id, 2);
	/*
	 * KVM makes a vCPU with offset 0 and reports that as the previous one of its first write:
	 * before that there was no vCPU. @fresh: nothing is known about it; else at most what was
	 * read after this write.
	 */
	birth = !prev && !c->has_write &&
		(fresh || (c->n == 1 && c->read_pending && host <= c->read_at));
	if (!c->n || !newest_epoch(c)->has_map) {
		fill_map(vm, c, &assumed);
		c->notes |= EPOCH_NOTE_RATIO_UNKNOWN;
	}
	check_previous(c, host, prev);
	if (birth) { /* whatever was assumed about the time before is void */
		c->v[0] = *newest_epoch(c);
		c->v[0].from = host;
		c->n = 1;
	}
	c->has_write = true;
	e = *newest_epoch(c);
	if (e.map.offset == next && !e.doubtful)
		return 0;
	e.has_pv = e.has_pv && prev == next && e.map.offset == next;
	e.from = host;
	e.map.offset = next;
	e.doubtful = false;
	epoch_push(vm, c, e);
	return 0;
}

int epoch_vm_master_clock(struct epoch_vm *vm, uint64_t host, bool use_master_clock)
{
	int err = vm_advance(vm, host);

	if (err)
		return err;
	if (!use_master_clock)
		vm->has_pv = false;
	return 0;
}

/* Room for one more epoch is reserved. NULL: what it is from now on is not known. */
static void record_announce(const struct epoch_vm *vm, struct epoch_vcpu *c, uint64_t host,
			    const struct pvclock *pv)
{
	struct epoch e = c->n ? *newest_epoch(c) : (struct epoch){ 0 };

	if (pv ? e.has_pv && pvclock_same_body(&e.pv, pv) : !e.has_pv)
		return;
	e.from = host;
	e.has_pv = pv;
	e.pv = pv ? *pv : e.pv;
	epoch_push(vm, c, e);
}

int epoch_vm_pvclock(struct epoch_vm *vm, uint32_t id, uint64_t host, const struct pvclock *pv)
{
	struct epoch_vcpu *c;
	bool news;
	int err;

	if (host < vm->last_event)
		return -EINVAL;
	c = find_or_add(vm, id, 1);
	err = pvclock_check(pv);
	if (err)
		return err;
	vm->last_event = host;
	if (vm->announced > EPOCH_ANNOUNCED_MAX)
		return 0;
	if (!(pv->flags & PVCLOCK_TSC_STABLE)) {
		vm->has_pv = false;
		record_announce(vm, c, host, pv);
		return 0;
	}
	news = !vm->has_pv || !pvclock_same_body(&vm->pv, pv);
	vm->announced += news ? vm->n : 0;
	vm->has_pv = vm->announced <= EPOCH_ANNOUNCED_MAX;
	for (size_t i = 0; i < vm->n; i++) {
		epoch_reserve(vm->vcpus[i], 1);
		record_announce(vm, vm->vcpus[i], host, vm->has_pv ? pv : NULL);
	}
	if (news)
		vm->pv_from = host;
	vm->pv = *pv;
	return 0;
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

void epoch_vm_check_read(struct epoch_vm *vm, uint32_t id, uint64_t at, uint64_t offset)
{
	struct epoch_vcpu *c;
	long i;

	if (!epoch_vm_find(vm, id))
		return;
	c = find_or_add(vm, id, 1);
	i = epoch_index(c, at);
	/* An event and a read of the same moment may come in either order. */
	for (long k = MAX(i - 1, 0); i < 0 || k <= i + 1; k++)
		if (i < 0 || (k < (long)c->n && c->v[k].map.offset == offset))
			return;
	c->notes |= EPOCH_NOTE_LOST_EVENTS;
	for (uint64_t old = c->v[i].map.offset; i < (long)c->n && c->v[i].map.offset == old; i++)
		c->v[i].doubtful = true;
}

int epoch_vm_check_end(struct epoch_vm *vm, uint32_t id, const struct tsc_map *map)
{
	unsigned int before, found = 0;
	struct tsc_map last = *map;
	struct epoch_vcpu *c;
	size_t i;
	int err = tsc_map_check(map);

	if (err)
		return err;
	c = find_or_add(vm, id, 1);
	if (!c->n || !newest_epoch(c)->has_map) {
		fill_map(vm, c, map);
		c->has_read = true;
	}
	before = c->notes;
	if (c->read_pending && c->has_write && newest_epoch(c)->map.offset != c->read_offset)
		vcpu_doubt(c, EPOCH_NOTE_READ_MISMATCH);
	c->read_pending = false;
	last.offset = newest_epoch(c)->map.offset;
	if (last.offset != map->offset) {
		found |= EPOCH_NOTE_LOST_EVENTS;
		vcpu_doubt(c, EPOCH_NOTE_LOST_EVENTS);
	}
	if (c->notes & EPOCH_NOTE_RATIO_UNKNOWN) {
		/* Only one ratio was ever observed: it is the best guess for all epochs. */
		for (i = 0; i < c->n; i++) {
			c->v[i].map.ratio = map->ratio;
			c->v[i].map.frac = map->frac;
		}
		c->notes &= ~(unsigned int)EPOCH_NOTE_RATIO_UNKNOWN;
	} else if (!tsc_map_equal(&newest_epoch(c)->map, &last) && !date_scaling(vm, c, map)) {
		found |= EPOCH_NOTE_RATIO_CHANGED;
		c->notes |= EPOCH_NOTE_RATIO_CHANGED;
		for (i = 0; i < c->n; i++)
			c->v[i].doubtful = true;
	}
	return (int)(found | (c->notes & ~before));
}

/*
 * Conversions through a vCPU's epochs.
 *
 * Neighbouring epochs that agree in what a conversion needs count as one span, so that a new
 * pvclock record does not make guest TSC conversions ambiguous. Towards the host every span is
 * tried; a candidate is its preimage, cut to the span's host interval.
 */

long epoch_index(const struct epoch_vcpu *c, uint64_t host)
{
	return (long)COUNT_BEFORE(i, c->n, c->v[i].from <= host) - 1;
}

/*
 * The last epoch has no end, but host TSCs do: guest TSCs older than the newest offset would
 * otherwise come out of the wrapping subtraction as host TSCs in the far future, and look like a
 * second place. 2^60 cycles are seven years at 5 GHz.
 */
#define LAST_EPOCH_CYCLES (1ULL << 60)

/* Epochs [first, end) as one, in force at host TSCs [from, to]. */
struct span {
	size_t first, end;
	uint64_t from, to;
	const struct tsc_map *map;
	const struct pvclock *pv; /* NULL: not requested, or none */
	bool borrowed;
};

/* One possible host time of a value. */
struct candidate {
	struct span span;
	uint64_t lo, hi;
	unsigned int count; /* separate places found so far */
	bool doubtful, borrowed;
};

static bool same_map(const struct epoch *a, const struct epoch *b)
{
	return a->has_map && b->has_map && tsc_map_equal(&a->map, &b->map);
}

/* Record in force in epoch @i, or the first one announced later under the same map; else NULL. */
static const struct pvclock *record_of(const struct epoch_vcpu *c, size_t i, bool *borrowed)
{
	size_t k;

	for (k = i; k < c->n && same_map(&c->v[i], &c->v[k]); k++) {
		if (!c->v[k].has_pv)
			continue;
		*borrowed = k != i;
		return &c->v[k].pv;
	}
	return NULL;
}

/* The span that begins with epoch @i; with @pv it also agrees in the record. */
static struct span span_at(const struct epoch_vcpu *c, size_t i, bool pv)
{
	struct span s = { .first = i, .from = c->v[i].from, .map = &c->v[i].map };
	const struct pvclock *other;
	bool borrowed = false;
	size_t k;

	if (pv)
		s.pv = record_of(c, i, &s.borrowed);
	for (k = i + 1; k < c->n && same_map(&c->v[i], &c->v[k]); k++) {
		if (!pv)
			continue;
		other = record_of(c, k, &borrowed);
		if (!s.pv != !other || (other && !pvclock_same_body(s.pv, other)))
			break;
		/* the borrowed part is a span of its own, so that its results are marked */
		if (borrowed != s.borrowed)
			break;
	}
	s.end = k;
	if (k < c->n)
		s.to = c->v[k].from - 1;
	else
		s.to = s.from < UINT64_MAX - LAST_EPOCH_CYCLES ? s.from + LAST_EPOCH_CYCLES
							       : UINT64_MAX;
	return s;
}

static u128 epoch_scaled(const struct tsc_map *m, uint64_t host)
{
	return tsc_map_unscaled(m) ? host : ((u128)host * m->ratio) >> m->frac;
}

/*
 * Host TSCs of the guest TSCs [a, b] within span @s; false if there are none. Comparing scaled
 * values needs no division and rejects most spans.
 */
static bool guest_in_span(const struct span *s, uint64_t a, uint64_t b, uint64_t *lo, uint64_t *hi)
{
	uint64_t xa = a - s->map->offset, xb = b - s->map->offset, unused;

	if (xb < xa || xb < epoch_scaled(s->map, s->from) || xa > epoch_scaled(s->map, s->to))
		return false;
	if (tsc_to_host(s->map, a, lo, &unused))
		return false;
	if (a == b)
		*hi = unused;
	else if (tsc_to_host(s->map, b, &unused, hi))
		*hi = UINT64_MAX;
	if (*hi < *lo)
		*hi = *lo;
	if (*lo < s->from)
		*lo = s->from;
	if (*hi > s->to)
		*hi = s->to;
	return *lo <= *hi;
}

/* Join [lo, hi] to what was found: touching ranges are one place, separate ones two. */
static void add_candidate(struct candidate *k, const struct epoch_vcpu *c, const struct span *s,
			  uint64_t lo, uint64_t hi)
{
	if (k->count && k->hi + 1 == lo && k->span.end == s->first) {
		k->hi = hi;
	} else {
		k->count++;
		k->lo = lo;
		k->hi = hi;
		k->span = *s;
	}
	k->span.end = s->end;
	k->doubtful |= (c->notes & EPOCH_NOTE_RATIO_UNKNOWN) != 0;
	for (size_t i = s->first; i < s->end; i++) {
		uint64_t to = i + 1 < c->n ? c->v[i + 1].from - 1 : UINT64_MAX;

		k->doubtful |= c->v[i].doubtful && c->v[i].from <= hi && to >= lo;
	}
	k->borrowed |= s->borrowed;
}

static enum epoch_result epoch_judge(const struct candidate *k)
{
	if (k->count != 1)
		return k->count ? EPOCH_AMBIGUOUS : EPOCH_NONE;
	return k->doubtful ? EPOCH_DOUBTFUL : k->borrowed ? EPOCH_BORROWED : EPOCH_EXACT;
}

static enum epoch_result find_guest(const struct epoch_vcpu *c, uint64_t guest, struct candidate *k)
{
	uint64_t lo, hi;
	struct span s;
	size_t i;

	*k = (struct candidate){ 0 };
	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	for (i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, false);
		if (guest_in_span(&s, guest, guest, &lo, &hi))
			add_candidate(k, c, &s, lo, hi);
	}
	/* Does one that no epoch accepts belong to a time before the first? */
	if (!k->count && !tsc_to_host(&c->v[0].map, guest, &lo, &hi) && lo < c->v[0].from)
		return EPOCH_BEFORE_FIRST;
	return epoch_judge(k);
}

/* Stores [a, b], if there is a result. */
static enum epoch_result range_give(enum epoch_result r, uint64_t a, uint64_t b, uint64_t *lo,
				    uint64_t *hi)
{
	if (epoch_result_usable(r)) {
		*lo = a;
		*hi = b;
	}
	return r;
}

enum epoch_result epoch_guest_to_host(const struct epoch_vcpu *c, uint64_t guest, uint64_t *lo,
				      uint64_t *hi)
{
	struct candidate k;
	enum epoch_result r = find_guest(c, guest, &k);

	return range_give(r, k.lo, k.hi, lo, hi);
}

bool epoch_guest_line(const struct epoch_vcpu *c, uint64_t guest, struct epoch_line *line)
{
	uint64_t below = UINT64_MAX, above = UINT64_MAX, first, last;
	size_t found = 0;
	struct span s;

	if (!c || !c->n || !c->v[0].has_map)
		return false;
	for (size_t i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, false);
		if (!tsc_map_unscaled(s.map))
			return false;
		/* Its guest TSCs, which may wrap: so only distances are compared. */
		first = s.map->offset + s.from;
		last = s.map->offset + s.to;
		if (guest - first <= last - first) {
			found++;
			line->offset = s.map->offset;
			below = MIN(below, guest - first);
			above = MIN(above, last - guest);
		} else {
			below = MIN(below, guest - last - 1);
			above = MIN(above, first - guest - 1);
		}
	}
	line->from = guest - below;
	line->len = below + above; /* not the last one: that would be 0 if it were all of them */
	return found == 1;
}

/* kvmclock [ns] in every span with a record; the guest TSCs go to @glo, @ghi. */
static enum epoch_result find_kvmclock(const struct epoch_vcpu *c, uint64_t ns, struct candidate *k,
				       uint64_t *glo, uint64_t *ghi)
{
	uint64_t lo, hi, a, b, first, last;
	bool any = false;
	struct span s;
	size_t i;

	*k = (struct candidate){ 0 };
	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	for (i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, true);
		any |= s.pv != NULL;
		if (!s.pv || pvclock_to_tsc_range(s.pv, ns, &a, &b))
			continue;
		if (b < a)
			b = a;
		if (!guest_in_span(&s, a, b, &lo, &hi))
			continue;
		add_candidate(k, c, &s, lo, hi);
		/* Of [a, b], those read in this span, which has the host's TSCs [lo, hi] there. */
		first = tsc_to_guest(s.map, lo);
		last = tsc_to_guest(s.map, hi);
		if (lo == s.from && first > a && first <= b)
			a = first;
		if (hi == s.to && last < b && last >= a)
			b = last;
		*glo = k->lo == lo ? a : *glo;
		*ghi = b;
	}
	return any ? epoch_judge(k) : EPOCH_NO_RECORD;
}

enum epoch_result epoch_kvmclock_to_host(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					 uint64_t *hi)
{
	uint64_t a = 0, b = 0;
	struct candidate k;
	enum epoch_result r = find_kvmclock(c, ns, &k, &a, &b);

	return range_give(r, k.lo, k.hi, lo, hi);
}

enum epoch_result epoch_kvmclock_to_guest(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					  uint64_t *hi)
{
	uint64_t a = 0, b = 0;
	struct candidate k;
	enum epoch_result r = find_kvmclock(c, ns, &k, &a, &b);

	if (epoch_result_usable(r) && b < a) /* two touching places under different maps */
		return EPOCH_AMBIGUOUS;
	return range_give(r, a, b, lo, hi);
}

/* Epoch in force at @host in *i, with the result its map deserves. */
static enum epoch_result at_host(const struct epoch_vcpu *c, uint64_t host, size_t *i)
{
	long idx;

	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	idx = epoch_index(c, host);
	if (idx < 0)
		return EPOCH_BEFORE_FIRST;
	*i = (size_t)idx;
	if (c->v[idx].doubtful || (c->notes & EPOCH_NOTE_RATIO_UNKNOWN))
		return EPOCH_DOUBTFUL;
	return EPOCH_EXACT;
}

enum epoch_result epoch_host_to_guest(const struct epoch_vcpu *c, uint64_t host, uint64_t *guest)
{
	size_t i;
	enum epoch_result r = at_host(c, host, &i);

	if (epoch_result_usable(r))
		*guest = tsc_to_guest(&c->v[i].map, host);
	return r;
}

/* Apply the record of epoch @i to a guest TSC; @r is what is known about the epoch. */
static enum epoch_result read_record(const struct epoch_vcpu *c, size_t i, uint64_t guest,
				     enum epoch_result r, uint64_t *ns)
{
	bool borrowed = false;
	const struct pvclock *pv = record_of(c, i, &borrowed);

	if (!pv)
		return EPOCH_NO_RECORD;
	if (pvclock_to_ns(pv, guest, ns))
		return EPOCH_RANGE;
	return r == EPOCH_EXACT && borrowed ? EPOCH_BORROWED : r;
}

enum epoch_result epoch_host_to_kvmclock(const struct epoch_vcpu *c, uint64_t host, uint64_t *ns)
{
	size_t i;
	enum epoch_result r = at_host(c, host, &i);

	if (!epoch_result_usable(r))
		return r;
	return read_record(c, i, tsc_to_guest(&c->v[i].map, host), r, ns);
}

enum epoch_result epoch_guest_to_kvmclock(const struct epoch_vcpu *c, uint64_t guest, uint64_t *ns)
{
	struct candidate k;
	enum epoch_result r = find_guest(c, guest, &k);
	long i;

	if (!epoch_result_usable(r))
		return r;
	/* the host cycles of one guest TSC may straddle a new record; its first cycle decides */
	i = epoch_index(c, k.lo);
	return read_record(c, (size_t)i, guest, r, ns);
}
