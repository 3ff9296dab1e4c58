/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epochs.c: the epochs of each vCPU's clock, from the clock events of the host, from what was read
 * beside them, and from what other captures and the user say. Clock events carry a vCPU id but no
 * VM: the emitting thread's process is the VM.
 */

#include <strings.h>

#include "kvmft/events.h"
#include "kvmft/hostmap.h"
#include "priv.h"

struct hostmap_event {
	uint64_t ts;
	enum event_role kind;
	int32_t tid;
	ssize_t vm;   /* -1: not known yet */
	size_t later; /* 1 and the number of the VM's next one; 0: none */
	uint32_t vcpu;
	uint64_t prev, next;
	bool use_master;
	struct pvclock pv;
};

void hostmap_clock_event(struct hostmap *m, const struct event_type *ev, const struct rec *rec)
{
	struct hostmap_event *e;
	uint64_t width;

	e = xarray_grow(&m->event, m->nevent, &m->event_cap, sizeof(*e));
	e->ts = rec->ts;
	if (m->own && !own_tsc_place(m->own, rec->ts, &e->ts, &width))
		return; /* its time is not on the line */
	e->kind = ev->role;
	e->tid = fmt_pid(m->fmt, rec);
	e->vm = -1;
	switch (e->kind) {
	case EV_TSC_OFFSET:
		e->vcpu = (uint32_t)event_u64(ev, 0, rec);
		e->prev = event_u64(ev, 1, rec);
		e->next = event_u64(ev, 2, rec);
		break;
	case EV_MASTER_CLOCK: e->use_master = event_u64(ev, 0, rec) != 0; break;
	case EV_PVCLOCK:
		e->vcpu = (uint32_t)event_u64(ev, 0, rec);
		e->pv = event_pvclock(ev, rec);
		break;
	default: break;
	}
	m->nevent++;
}

COMPARE_BY(event_cmp, struct hostmap_event, .ts);
COMPARE_BY(forced_cmp, struct hostmap_forced, .from);

static uint64_t vcpu_key(size_t vm, uint32_t vcpu)
{
	return (uint64_t)vm << 32 | vcpu;
}

/*
 * A software KVM prints offsets that it never applies. debugfs, read before and after, is the
 * witness: it said the same both times, and not what the last event claims.
 */
static bool offset_ignored(const struct hostmap *m, const struct hostmap_event *e)
{
	const struct cap_vm *vm = m->vm[e->vm].cap;
	const struct cap_vcpu *v = NULL;
	uint64_t last;

	for (size_t i = 0; vm && i < vm->nvcpu && !v; i++)
		v = vm->vcpu[i].id == e->vcpu ? &vm->vcpu[i] : NULL;
	return !m->vm[e->vm].moved && v && v->has_offset && v->has_end &&
	       v->offset == v->end_offset &&
	       u64map_get(&m->last_write, vcpu_key((size_t)e->vm, e->vcpu), &last) &&
	       m->event[last].next != v->end_offset;
}

/* In the order of time, so that only nonsense is refused: a record, or a map, from the file. */
static void feed_event(struct hostmap *m, size_t vm, const struct hostmap_event *e)
{
	struct epoch_vm *ep = m->vm[vm].epochs;

	if (e->kind == EV_MASTER_CLOCK)
		(void)epoch_vm_master_clock(ep, e->ts, e->use_master);
	else if (e->kind == EV_PVCLOCK)
		(void)epoch_vm_pvclock(ep, e->vcpu, e->ts, &e->pv);
	else if (!offset_ignored(m, e))
		(void)epoch_vm_write_offset(ep, e->vcpu, e->ts, e->prev, e->next);
}

static void set_ratio(const struct hostmap_vm *v, struct tsc_map *map)
{
	if (!v->scale)
		return;
	map->ratio = v->scale->ratio;
	map->frac = v->scale->frac;
}

/* What was read; of nonsense in the file the vCPU stays without a map. */
static void feed_reads(struct hostmap *m, size_t vm, bool end)
{
	const struct hostmap_vm *h = &m->vm[vm];

	for (size_t i = 0; h->cap && i < h->cap->nvcpu; i++) {
		const struct cap_vcpu *v = &h->cap->vcpu[i];
		struct tsc_map map = { .offset = v->offset, .ratio = v->ratio, .frac = v->frac };

		set_ratio(h, &map);
		if (!end && v->has_offset)
			(void)epoch_vm_read(h->epochs, v->id, v->tsc, &map);
		if (end && v->has_again)
			epoch_vm_check_read(h->epochs, v->id, v->again_tsc, v->again_offset);
		if (end && v->has_end) {
			map.offset = v->end_offset;
			map.ratio = v->end_ratio;
			set_ratio(h, &map);
			(void)epoch_vm_check_end(h->epochs, v->id, &map);
		}
	}
	for (size_t i = 0; !end && i < h->n_own && !h->own[i].from; i++)
		(void)epoch_vm_read(h->epochs, h->own[i].vcpu, 0, &h->own[i].map);
}

static const struct tsc_map *forced_of(const struct hostmap_vm *v, uint32_t vcpu)
{
	for (size_t i = 0; i < v->n_own && !v->own[i].from; i++)
		if (v->own[i].vcpu == vcpu)
			return &v->own[i].map;
	return &v->forced;
}

/* Changes that were forced, from number *next on, as far as they come before `until`. */
static void feed_changes(struct hostmap *m, size_t vm, size_t *next, uint64_t until)
{
	const struct hostmap_vm *v = &m->vm[vm];

	for (; *next < v->n_own && v->own[*next].from <= until; ++*next) {
		const struct hostmap_forced *f = &v->own[*next];
		const struct epoch_vcpu *e = epoch_vm_find(v->epochs, f->vcpu);

		if (f->from && e && e->n)
			(void)epoch_vm_write_offset(v->epochs, f->vcpu, f->from,
						    e->v[e->n - 1].map.offset, f->map.offset);
	}
}

void hostmap_epochs(struct hostmap *m, size_t vm)
{
	bool forced = m->vm[vm].has_forced;
	size_t change = 0, own, first;
	struct hostmap_vm *v = &m->vm[vm];
	const struct hostmap_thread *t;

	epoch_vm_free(v->epochs);
	v->epochs = epoch_vm_new(forced ? 0 : m->cap->begin_tsc);
	v->epochs->khz = m->cap->tsc_khz;
	for (uint32_t id = 0; forced && id < v->forced_vcpus; id++)
		(void)epoch_vm_read(v->epochs, id, 0, forced_of(v, id));
	if (forced)
		hostmap_each_thread(m, vm, t)
			if (t->vcpu >= v->forced_vcpus) /* refused: two threads of one vCPU */
				(void)epoch_vm_read(v->epochs, t->vcpu, 0, forced_of(v, t->vcpu));
	if (!forced)
		feed_reads(m, vm, false);
	/* Of the VM, or read inside the guest for this capture of it. */
	own = v->first_event;
	first = v->of != vm ? m->vm[v->of].first_event : 0;
	while (own || first) {
		size_t *at = own && (!first || own < first) ? &own : &first;
		const struct hostmap_event *e = &m->event[*at - 1];

		*at = e->later;
		feed_changes(m, vm, &change, e->ts);
		if (!(forced && e->kind == EV_TSC_OFFSET))
			feed_event(m, vm, e);
	}
	feed_changes(m, vm, &change, UINT64_MAX);
	if (!forced && !m->vm[v->of].moved)
		feed_reads(m, vm, true);
}

/* Orders the events, links those of a VM and notes each vCPU's last write; their VMs are known. */
static void sort_events(struct hostmap *m)
{
	array_sort(m->event, m->nevent, event_cmp);
	for (size_t i = 0; i < m->nevent; i++) {
		const struct hostmap_event *e = &m->event[i];

		if (e->kind == EV_TSC_OFFSET && e->vm >= 0)
			xu64map_put(&m->last_write, vcpu_key((size_t)e->vm, e->vcpu), i);
	}
	for (size_t i = 0; i < m->nvm; i++)
		m->vm[i].first_event = 0;
	for (size_t i = m->nevent; i--;) {
		struct hostmap_event *e = &m->event[i];

		if (e->vm < 0)
			continue;
		e->later = m->vm[e->vm].first_event;
		m->vm[e->vm].first_event = i + 1;
	}
}

static void build_all(struct hostmap *m)
{
	sort_events(m);
	for (size_t i = 0; i < m->nvm; i++)
		hostmap_epochs(m, i);
}

void hostmap_build(struct hostmap *m)
{
	hostmap_chain(m);
	for (size_t i = 0; i < m->nevent; i++)
		m->event[i].vm = hostmap_vm_of(m, m->event[i].tid);
	build_all(m);
}

COMPARE(same_event, struct hostmap_event,
	ORDER(x->ts, y->ts) ?: ORDER(x->kind, y->kind) ?: ORDER(x->tid, y->tid)
				?: ORDER(x->vcpu, y->vcpu));

void hostmap_inherit(struct hostmap *m, const struct hostmap *before)
{
	const size_t n = m->nevent;
	_cleanup_free_ struct hostmap_event *have = xcalloc(n + 1, sizeof(*have));

	for (size_t i = 0; i < n; i++)
		have[i] = m->event[i];
	array_sort(have, n, same_event);
	for (size_t i = 0; i < before->nevent; i++) {
		const struct hostmap_event *e = &before->event[i];

		/*
		 * Events without a thread were not recorded but added; the same code adds them
		 * again.
		 */
		if (e->tid <= 0 || bsearch(e, have, n, sizeof(*e), same_event))
			continue;
		xarray_add(&m->event, &m->nevent, &m->event_cap, e, sizeof(*e));
		m->event[m->nevent - 1].vm = hostmap_vm_of(m, e->tid);
	}
	if (m->nevent > n)
		build_all(m);
}

void hostmap_rebuild(struct hostmap *m, size_t vm)
{
	array_sort(m->vm[vm].own, m->vm[vm].n_own, forced_cmp);
	sort_events(m);
	for (; vm != HOSTMAP_END; vm = m->vm[vm].next)
		hostmap_epochs(m, vm);
}

static void hostmap_add_pvclock(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t host,
			const struct pvclock *pv)
{
	struct hostmap_event e = { host, EV_PVCLOCK, .vm = (ssize_t)vm, .vcpu = vcpu, .pv = *pv };

	xarray_add(&m->event, &m->nevent, &m->event_cap, &e, sizeof(e));
}

/*
 * A record that the guest read before the host was recorded holds from the first moment that the
 * host shows: a new one in between would have needed a write to a TSC, or a new master clock.
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

void hostmap_add_records(struct hostmap *m, size_t vm, const struct capture *guest,
			 const struct guest_time *g)
{
	uint64_t tsc = guest->nbracket ? guest->bracket[0].tsc : guest->begin_tsc, lo, hi;

	for (size_t i = 0; i < guest->npvclock; i++) {
		uint32_t vcpu = cap_vcpu_of_cpu(guest, guest->pvclock[i].cpu);
		const struct epoch_vcpu *v = epoch_vm_find(m->vm[vm].epochs, vcpu);

		if (epoch_result_usable(guest_time_tsc_to_host(g, v, tsc, &lo, &hi)) ||
		    read_before(v, tsc, &lo))
			hostmap_add_pvclock(m, vm, vcpu, lo, &guest->pvclock[i].pv);
	}
	if (guest->npvclock)
		hostmap_rebuild(m, vm);
}

void hostmap_force_vcpu(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t from,
		       const struct tsc_map *map)
{
	struct hostmap_vm *v = &m->vm[vm];
	struct hostmap_forced f = { .vcpu = vcpu, .from = from, .map = *map };

	xarray_add(&v->own, &v->n_own, &v->own_cap, &f, sizeof(f));
}

void hostmap_set_scale(struct hostmap *m, const struct tsc_map *scale)
{
	for (size_t i = 0; i < m->nvm; i++)
		m->vm[i].scale = scale;
	hostmap_build(m);
}

void hostmap_force_map(struct hostmap *m, size_t vm, size_t n, const struct tsc_map *map)
{
	m->vm[vm].n_own = 0;
	m->vm[vm].has_forced = true;
	m->vm[vm].forced = *map;
	m->vm[vm].forced_vcpus = MIN(n, (size_t)CAPTURE_MAX_CPUS);
	hostmap_epochs(m, vm);
}

/*
 * ---- links a second host to the first by the TSC of a guest that moved ----
 *
 * With guest = own(host 2) and guest = line(host 1's scale) one follows from the other exactly. An
 * offset that KVM writes on host 2 later changes the guest's TSC by the same on either scale.
 */

bool migrate_to_line(const struct migrate *g, uint64_t host, uint64_t *line)
{
	uint64_t last;

	return !tsc_to_host(&g->line, tsc_to_guest(&g->own, host), line, &last);
}

bool migrate_from_line(const struct migrate *g, uint64_t line, uint64_t *host)
{
	uint64_t last;

	return !tsc_to_host(&g->own, tsc_to_guest(&g->line, line), host, &last);
}

/* ---- when it came ---- */

/* The first entry of any vCPU of a VM. */
struct first_entry {
	const struct hostmap *map;
	size_t vm;
	uint16_t id;
	uint64_t ts;
	uint32_t vcpu;
};

/* 1: nothing after it in its stream can be earlier. */
static int see_entry(void *arg, const struct rec *rec)
{
	struct first_entry *f = arg;
	const struct hostmap_thread *t;

	if (rec->ts >= f->ts)
		return 1;
	t = rec->id == f->id ? hostmap_thread(f->map, fmt_pid(f->map->fmt, rec)) : NULL;
	if (t && t->vm == f->vm) {
		f->ts = rec->ts;
		f->vcpu = t->vcpu;
	}
	return 0;
}

static int find_arrival(struct migrate *g, size_t vm, uint32_t *vcpu)
{
	const struct fmt_event *entry = event_format(g->map->fmt, EV_ENTRY);
	struct first_entry f = {
		.map = g->map, .vm = vm, .id = entry ? fmt_id(entry) : 0, .ts = UINT64_MAX
	};
	int ret = 0;

	for (size_t i = 0; entry && i < g->map->cap->nstream && ret >= 0; i++)
		ret = rstream_each(g->map->cap, &g->map->cap->stream[i], see_entry, &f);
	g->arrival = f.ts;
	*vcpu = f.vcpu;
	return ret < 0 ? ret : f.ts != UINT64_MAX ? 0 : -ENODATA;
}

/* ---- its clocks ---- */

/* The maps on both sides of the move; false if one is unknown. */
static bool find_maps(struct migrate *g, const struct epoch_vm *before,
		      const struct epoch_vm *after, uint32_t vcpu)
{
	const struct epoch_vcpu *a = epoch_vm_find(before, vcpu), *b = epoch_vm_find(after, vcpu);
	long at = b ? epoch_index(b, g->arrival) : -1;

	if (!a || !a->n || !a->v[a->n - 1].has_map || at < 0 || !b->v[at].has_map)
		return false;
	g->line = a->v[a->n - 1].map;
	g->own = b->v[at].map;
	return migrate_to_line(g, g->arrival, &g->from);
}

int migrate_new(struct hostmap *m, size_t vm, const struct hostmap *map, struct migrate **out,
		struct kvmft_err *err)
{
	struct migrate *g = xcalloc(1, sizeof(*g));
	const char *path = map->cap->path, *label = m->vm[vm].label;
	const struct cap_vm *a = m->vm[vm].cap;
	const struct epoch_vm *after;
	ssize_t there = -1;
	uint32_t vcpu = 0;
	int ret;

	*out = g;
	g->map = map;
	/* The same VM there, by UUID or name. */
	for (size_t i = 0; a && i < map->nvm && there < 0; i++) {
		const struct cap_vm *b = map->vm[i].cap;

		if (b && (a->uuid && b->uuid ? !strcasecmp(a->uuid, b->uuid)
					     : a->name && b->name && !strcmp(a->name, b->name)))
			there = (ssize_t)i;
	}
	if (there < 0)
		return err_set(err, ENOENT, "host capture %s has no VM with the UUID or name of %s",
			       path, label);
	ret = find_arrival(g, (size_t)there, &vcpu);
	if (ret == -ENODATA)
		return err_set(err, ENODATA,
			       "host capture %s has no kvm_entry of %s: it never ran there", path,
			       label);
	if (ret)
		return err_set(err, -ret, "cannot read the host capture %s: %s", path,
			       strerror(-ret));
	if (!find_maps(g, m->vm[vm].epochs, map->vm[there].epochs, vcpu))
		return err_set(err, ENODATA,
			       "the TSC offset of %s is not known on both hosts, so its guest's "
			       "TSC cannot link them",
			       label);
	g->vm = xcalloc(map->nvm, sizeof(*g->vm));
	for (size_t i = 0; i < map->nvm; i++)
		g->vm[i] = i == (size_t)there ? vm : hostmap_add_foreign(m, &map->vm[i]);
	after = map->vm[there].epochs;
	for (size_t i = 0; after && i < after->n; i++) {
		const struct epoch_vcpu *b = after->vcpus[i];
		const struct epoch_vcpu *c = epoch_vm_find(m->vm[vm].epochs, b->id);
		uint64_t offset = g->line.offset;
		long at = epoch_index(b, g->arrival);

		if (c && c->n && c->v[c->n - 1].has_map)
			offset = c->v[c->n - 1].map.offset;
		for (size_t k = at < 0 ? 0 : (size_t)at; k < b->n; k++) {
			const struct epoch *e = &b->v[k];
			uint64_t next = g->line.offset + (e->map.offset - g->own.offset);
			struct hostmap_event moved = { g->from,		  EV_TSC_OFFSET,
						       .vm = (ssize_t)vm, .vcpu = b->id,
						       .prev = offset,	  .next = next };

			/* One epoch of the new host, as events on the first one's scale. */
			if (e->from > g->arrival && !migrate_to_line(g, e->from, &moved.ts))
				continue;
			if (e->has_map && next != offset) {
				m->vm[vm].moved = true;
				xarray_add(&m->event, &m->nevent, &m->event_cap, &moved,
					   sizeof(moved));
			}
			offset = e->has_map ? next : offset;
			if (e->has_pv)
				hostmap_add_pvclock(m, vm, b->id, moved.ts, &e->pv);
		}
	}
	hostmap_rebuild(m, vm);
	return 0;
}

void migrate_free(struct migrate *g)
{
	if (g)
		free(g->vm);
	free(g);
}
