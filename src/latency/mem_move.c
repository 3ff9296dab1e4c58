/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem_move.c: what the move of a VM to another VMM, here or on another host, cost its vCPUs: the
 * rounds in which their writes were logged, the time in which they ran nowhere, and the stalls for
 * memory that they had afterwards.
 *
 * A round begins when a page is write-protected that was in this round already: the VMM asks what
 * was written once a round, and protects what it is told.
 *
 * A VM has come from another one that has its UUID, or its name, if its TSC goes on from where the
 * other's was, which that of a VM that was started anew does not.
 */
#include "mem.h"

#include <strings.h>

#define SEEN_MAX   (1u << 20) /* words of 64 pages, of a round */
#define ROUNDS_MAX 40u	      /* later ones are one row */

enum row { ROW_ROUND, ROW_BLACKOUT, ROW_GUEST, ROW_AFTER };

static struct lat_group *row(struct lat *l, int64_t vm, enum row kind, uint32_t n, uint32_t *at)
{
	return lat_group_get(l, LAT_T_MEM_MOVE, vm, (uint64_t)kind << 32 | n, at);
}

/* ---- rounds ---- */

/* word: NULL if there is no room for it. */
static int find_word(struct mem_move *m, uint64_t at)
{
	if (m->word && m->at == at)
		return 0;
	m->word = NULL;
	if (m->seen.n >= SEEN_MAX && !u64map_get(&m->seen, at, NULL))
		return 0;
	m->word = u64map_at(&m->seen, at);
	m->at = at;
	return m->word ? 0 : -ENOMEM;
}

int mem_move_protected(struct lat *l, int64_t vm, uint64_t gfn)
{
	struct mem_move *m = &l->mem->move[vm];
	uint64_t bit = 1ull << (gfn & 63);
	int ret = find_word(m, gfn >> 6);

	if (!ret && m->word && (!m->round || *m->word & bit)) {
		m->round++;
		u64map_free(&m->seen);
		m->word = NULL;
		ret = find_word(m, gfn >> 6);
	}
	if (!ret && m->word)
		*m->word |= bit;
	return ret;
}

/* ---- a vCPU that comes ---- */

static bool same_guest(const struct lat *l, size_t a, size_t b)
{
	const struct cap_vm *x = l->map->vm[a].cap, *y = l->map->vm[b].cap;

	if (!x || !y)
		return false;
	if (x->uuid && y->uuid)
		return !strcasecmp(x->uuid, y->uuid);
	return x->name && y->name && !strcmp(x->name, y->name);
}

static bool tsc_of(const struct lat *l, const struct lat_vcpu *v, uint64_t host, uint64_t *tsc)
{
	return epoch_result_usable(epoch_host_to_guest(
		epoch_vm_find(l->map->vm[v->vm].epochs, v->id), host, tsc));
}

/* The vCPU that it was before the move; NULL: it did not move. */
static const struct lat_vcpu *came_from(const struct lat *l, const struct lat_vcpu *v,
					const struct lat_in *in)
{
	const struct lat_vcpu *last = NULL;
	uint64_t before, now;

	if (v->host && v->host != in->i->src)
		return v->exit && v->base != VS_GUEST ? v : NULL;
	for (size_t i = 0; i < l->nvcpu && !v->entries; i++) {
		const struct lat_vcpu *a = l->vcpu[i];

		if (a->id == v->id && a->vm != v->vm && a->exit && a->base != VS_GUEST &&
		    a->base != VS_UNKNOWN && same_guest(l, a->vm, v->vm) &&
		    (!last || a->exit > last->exit))
			last = a;
	}
	if (!last || !tsc_of(l, last, last->exit, &before) || !tsc_of(l, v, in->t, &now))
		return NULL;
	return (int64_t)(now - before) >= 0 ? last : NULL;
}

/* A host's CLOCK_REALTIME at a TSC value, by the nearest reading. */
static bool day_of(const struct tl_source *s, uint64_t tsc, int64_t *ns)
{
	const struct capture *cap = s->cap;
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < cap->nbracket && cap->tsc_khz; i++) {
		const struct clock_bracket *b = &cap->bracket[i];
		uint64_t off = tsc > b->tsc ? tsc - b->tsc : b->tsc - tsc;
		__int128 span = (__int128)off * 1000000 / cap->tsc_khz;

		if (off >= best || !b->real)
			continue;
		best = off;
		*ns = (int64_t)(b->real + (tsc > b->tsc ? span : -span));
	}
	return best != UINT64_MAX;
}

/* How long it ran nowhere, by CLOCK_REALTIME of both hosts. */
static bool by_day(const struct lat_vcpu *from, const struct lat_in *in, uint64_t *ns)
{
	uint64_t left = from->exit, came = in->t;
	const struct tl_source *a = from->host, *b = in->i->src;
	int64_t x, y;

	if ((a->link && !migrate_from_line(a->link, left, &left)) ||
	    (b->link && !migrate_from_line(b->link, came, &came)) || !day_of(a, left, &x) ||
	    !day_of(b, came, &y) || y < x)
		return false;
	*ns = (uint64_t)(y - x);
	return true;
}

static int blackout(struct lat *l, const struct lat_vcpu *v, enum row kind, struct lat_case *c)
{
	struct lat_group *g = row(l, c->vm, kind, v->id, &c->group);

	if (!g)
		return -ENOMEM;
	snprintf(g->name, sizeof(g->name), "%s, vCPU %u",
		 kind == ROW_GUEST ? "of it in its TSC" : "blackout", v->id);
	snprintf(c->what, sizeof(c->what), "%s", g->name);
	lat_stage(c, 0, c->time);
	l->table[LAT_T_MEM_MOVE].count[0]++;
	return lat_case_add(l, LAT_T_MEM_MOVE, g, c);
}

/* Before the entry is taken for one. */
int mem_move_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct lat_vcpu *from =
		l->o.mem_by >> MEM_BY_move & 1 ? came_from(l, v, in) : NULL;
	struct lat_case c = { .vm = (int64_t)v->vm, .vcpu = v->id, .end = in->t };
	bool other_host = v->host && v->host != in->i->src;
	uint64_t ns;
	int ret;

	if (!from || !lat_wanted(l, c.vm, v->id))
		return 0;
	l->mem->move[v->vm].arrived = true;
	c.begin = MIN(from->exit, in->t);
	c.time = lat_span(l, in->t - c.begin);
	/* The guest's TSC shows only what it was set to on the other side. */
	if (!other_host || !by_day(from, in, &ns))
		return blackout(l, v, other_host ? ROW_GUEST : ROW_BLACKOUT, &c);
	ret = blackout(l, v, ROW_GUEST, &c);
	c.time = l->khz ? ns : c.time;
	return ret ?: blackout(l, v, ROW_BLACKOUT, &c);
}

/* ---- stalls ---- */

static struct lat_group *row_of(struct lat *l, const struct lat_case *c, enum mem_kind kind,
				uint32_t *at)
{
	const struct mem_move *m = &l->mem->move[c->vm];
	struct lat_group *g = NULL;

	if (kind == MEM_DIRTY && m->round) {
		g = row(l, c->vm, ROW_ROUND, MIN(m->round, ROUNDS_MAX), at);
		if (g)
			snprintf(g->name, sizeof(g->name), "round %u%s", MIN(m->round, ROUNDS_MAX),
				 m->round < ROUNDS_MAX ? "" : " and later");
	} else if (m->arrived) {
		g = row(l, c->vm, ROW_AFTER, (uint32_t)kind, at);
		if (g)
			snprintf(g->name, sizeof(g->name), "then %s", mem_kind_name(kind));
	}
	return g;
}

int mem_move_stall(struct lat *l, const struct lat_case *c, enum mem_kind kind)
{
	uint32_t at;
	struct lat_group *g = row_of(l, c, kind, &at);

	return g ? mem_add(l, LAT_T_MEM_MOVE, g, c, kind) : 0;
}

void mem_move_free(struct lat *l)
{
	for (size_t i = 0; l->mem->move && i < l->map->nvm; i++)
		u64map_free(&l->mem->move[i].seen);
	free(l->mem->move);
}
