/* SPDX-License-Identifier: GPL-2.0-or-later */
/* table.c: the tables of a latency analysis: groups, their times, and the worst cases. */
#include "priv.h"

const char *lat_word_text(const char *word)
{
	const char *colon = word ? strstr(word, ": ") : NULL;

	return colon ? colon + 2 : word;
}

/* So many of a table, and GROUPS_VM of a VM, however hostile the capture; the rest are one. */
#define GROUPS_MAX 1024
#define GROUPS_VM  32
#define OTHERS	   (1ull << 63) /* no VM's */

struct lat_group *lat_group_get(struct lat *l, enum lat_table_id id, int64_t vm, uint64_t key,
				uint32_t *index)
{
	struct lat_table *t = &l->table[id];
	const uint64_t both[] = { (uint64_t)vm, key }, rest[] = { (uint64_t)vm ^ OTHERS, 0 };
	uint32_t *of_vm = &l->vm_groups[id * (l->map->nvm + 1) + (size_t)(vm + 1)];
	uint64_t k, at;
	struct lat_group *g;
	bool seen, others;

	k = hash_bytes(&l->group_key, both, sizeof(both));
	seen = u64map_get(&l->group_at[id], k, &at);
	others = !seen && t->ngroup >= GROUPS_MAX && *of_vm >= GROUPS_VM;
	if (others) {
		k = hash_bytes(&l->group_key, rest, sizeof(rest));
		seen = u64map_get(&l->group_at[id], k, &at);
	}
	if (!seen) {
		at = t->ngroup;
		g = xarray_grow(&t->group, t->ngroup, &t->group_cap, sizeof(*g));
		xu64map_put(&l->group_at[id], k, at);
		t->ngroup++;
		g->vm = vm;
		g->others = others;
		++*of_vm;
	}
	*index = (uint32_t)at;
	return &t->group[at];
}

struct lat_group *lat_group_named(struct lat *l, enum lat_table_id id, int64_t vm, uint64_t key,
				  uint32_t *index, const char *format, ...)
{
	struct lat_group *g = lat_group_get(l, id, vm, key, index);
	va_list ap;

	va_start(ap, format);
	if (!g->name[0])
		vsnprintf(g->name, sizeof(g->name), format, ap);
	va_end(ap);
	return g;
}

void lat_stage_add(struct lat_group *g, unsigned int stage, uint64_t time)
{
	if (!g->stage[stage])
		g->stage[stage] = xcalloc(1, sizeof(*g->stage[stage]));
	loghist_add(g->stage[stage], time);
}

/* worst[] is a heap with the shortest on top during the walk. */
static void heap_down(struct lat_case *c, size_t n, size_t i)
{
	for (;;) {
		size_t least = i, kid = 2 * i + 1;
		struct lat_case swap;

		if (kid < n && c[kid].time < c[least].time)
			least = kid;
		if (kid + 1 < n && c[kid + 1].time < c[least].time)
			least = kid + 1;
		if (least == i)
			return;
		swap = c[i];
		c[i] = c[least];
		c[least] = swap;
		i = least;
	}
}

bool lat_case_told(const struct lat *l, enum lat_table_id id, uint64_t time)
{
	const struct lat_table *t = &l->table[id];

	return l->o.each || (l->o.worst && time >= l->o.than_ns &&
			     (t->nworst < l->o.worst || time > t->worst[0].time));
}

/* Of a trace.dat it may yet be seen: then only what others are told has it left out. */
static void case_untold(const struct lat *l, enum lat_table_id id, struct lat_case *c)
{
	c->known &= ~l->untold[id].stages;
	if (l->untold[id].causes >> c->cause & 1)
		c->cause = l->table[id].desc->cause_untold;
}

void lat_table_untold(struct lat *l, enum lat_table_id id)
{
	struct lat_table *t = &l->table[id];

	for (size_t i = 0; i < t->nworst; i++)
		case_untold(l, id, &t->worst[i]);
	for (size_t i = 0; i < t->ngroup; i++) {
		struct lat_group *g = &t->group[i];

		for (unsigned int s = 0; s < LAT_STAGES; s++) {
			if (!(l->untold[id].stages >> s & 1))
				continue;
			loghist_free(g->stage[s]);
			free(g->stage[s]);
			g->stage[s] = NULL;
		}
		for (unsigned int c = 0; c < LAT_CAUSES; c++) {
			if (!(l->untold[id].causes >> c & 1))
				continue;
			g->cause[t->desc->cause_untold] += g->cause[c];
			g->cause[c] = 0;
		}
	}
}

void lat_case_add(struct lat *l, enum lat_table_id id, struct lat_group *g, struct lat_case *c)
{
	struct lat_table *t;

	lat_stage(c, 0, c->time); /* of every table that is the total */
	if (l->o.cases_only) {
		l->o.each(l->o.ctx, id, c);
		return;
	}
	for (unsigned int s = 0; s < LAT_STAGES; s++)
		if (c->known >> s & 1)
			lat_stage_add(g, s, c->stage_time[s]);
	g->cause[c->cause]++;
	if (!g->end || c->time > g->longest) {
		g->longest = c->time;
		g->begin = c->begin;
		g->end = c->end;
	}
	t = &l->table[id];
	if (c->time >= l->o.than_ns && l->o.worst) {
		if (t->nworst < l->o.worst) {
			t->worst[t->nworst++] = *c;
			if (t->nworst == l->o.worst)
				for (size_t i = t->nworst / 2 + 1; i--;)
					heap_down(t->worst, t->nworst, i);
		} else if (c->time > t->worst[0].time) {
			t->worst[0] = *c;
			heap_down(t->worst, t->nworst, 0);
		}
	}
	if (!l->o.each)
		return;
	case_untold(l, id, c);
	l->o.each(l->o.ctx, id, c);
}

COMPARE(longer, struct lat_case, ORDER(y->time, x->time) ?: ORDER(x->begin, y->begin));

static int cases_by_time(const void *a, const void *b)
{
	const struct lat_group *x = a, *y = b;
	unsigned __int128 p = x->stage[0] ? x->stage[0]->sum : 0,
			  q = y->stage[0] ? y->stage[0]->sum : 0;

	return ORDER(x->rest, y->rest) ?: ORDER(q, p) ?: strcmp(x->name, y->name);
}

void lat_table_sort(struct lat_table *t)
{
	_cleanup_free_ uint32_t *now = xcalloc(t->ngroup ?: 1, sizeof(*now));

	for (size_t i = 0; i < t->ngroup; i++) {
		t->group[i].order = (uint32_t)i;
		if (!t->group[i].others)
			continue;
		t->group[i].rest = false;
		strcpy(t->group[i].name, "(others)"); /* so far it had that of its latest */
	}
	if (t->ngroup && !t->desc->in_order)
		array_sort(t->group, t->ngroup, cases_by_time);
	for (size_t i = 0; i < t->ngroup; i++)
		now[t->group[i].order] = (uint32_t)i;
	for (size_t i = 0; i < t->nworst; i++)
		t->worst[i].group = now[t->worst[i].group];
	array_sort(t->worst, t->nworst, longer);
}
