/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migrate.c: links a second host to the first by the TSC of a guest that moved.
 *
 * With guest = own(host 2) and guest = line(host 1's scale) one follows from the other exactly. An
 * offset that KVM writes on host 2 later changes the guest's TSC by the same on either scale.
 */
#include "kvmft/hostmap.h"

#include <strings.h>

#include "kvmft/events.h"

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

/* ---- who is who ---- */

static bool same_vm(const struct cap_vm *a, const struct cap_vm *b)
{
	if (!a || !b)
		return false;
	if (a->uuid && b->uuid)
		return !strcasecmp(a->uuid, b->uuid);
	return a->name && b->name && !strcmp(a->name, b->name);
}

static ssize_t find_vm(const struct hostmap *m, size_t vm, const struct hostmap *map)
{
	for (size_t i = 0; i < map->nvm; i++)
		if (same_vm(m->vm[vm].cap, map->vm[i].cap))
			return (ssize_t)i;
	return -1;
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

static void add_epochs(const struct migrate *g, struct hostmap *m, size_t vm,
		       const struct epoch_vm *after)
{
	for (size_t i = 0; after && i < after->n; i++) {
		const struct epoch_vcpu *b = after->vcpus[i];
		const struct epoch_vcpu *a = epoch_vm_find(m->vm[vm].epochs, b->id);
		uint64_t offset = g->line.offset;
		long at = epoch_index(b, g->arrival);

		if (a && a->n && a->v[a->n - 1].has_map)
			offset = a->v[a->n - 1].map.offset;
		for (size_t k = at < 0 ? 0 : (size_t)at; k < b->n; k++) {
			const struct epoch *e = &b->v[k];
			uint64_t begin = g->from;
			uint64_t next = g->line.offset + (e->map.offset - g->own.offset);

			/* One epoch of the new host, as events on the first one's scale. */
			if (e->from <= g->arrival || migrate_to_line(g, e->from, &begin)) {
				if (e->has_map && next != offset)
					hostmap_add_offset(m, vm, b->id, begin, offset, next);
				if (e->has_map)
					offset = next;
				if (e->has_pv)
					hostmap_add_pvclock(m, vm, b->id, begin, &e->pv);
			}
		}
	}
	hostmap_rebuild(m, vm);
}

int migrate_new(struct hostmap *m, size_t vm, const struct hostmap *map, struct migrate **out,
		struct kvmft_err *err)
{
	struct migrate *g = xcalloc(1, sizeof(*g));
	const char *path = map->cap->path, *label = m->vm[vm].label;
	ssize_t there = find_vm(m, vm, map);
	uint32_t vcpu = 0;
	int ret;

	*out = g;
	g->map = map;
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
	add_epochs(g, m, vm, map->vm[there].epochs);
	return 0;
}

void migrate_free(struct migrate *g)
{
	if (g)
		free(g->vm);
	free(g);
}
