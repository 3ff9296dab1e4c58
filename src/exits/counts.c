/* SPDX-License-Identifier: GPL-2.0-or-later */
/* counts.c: the table of exits per thread and reason, and a sorted view of it. */
#include "kvmft/exits.h"

/* ---- how long exits took, from events in time order ---- */

static struct exits_open *open_at(struct exits_handling *p, uint32_t tid)
{
	return xu64map_elem(&p->by_tid, tid, &p->v, &p->cap, sizeof(*p->v));
}

void exits_handling_exit(struct exits_handling *p, uint32_t tid, uint64_t ts, uint32_t reason)
{
	struct exits_open *o = open_at(p, tid);

	vcpu_turn_step(&o->turn, TURN_EXIT);
	o->ts = ts;
	o->reason = reason;
}

void exits_handling_entry(struct exits_handling *p, uint32_t tid, uint64_t ts)
{
	struct exits_open *o = open_at(p, tid);

	if (o->turn.state == TURN_OUT && ts >= o->ts)
		exits_time_one(p->e, tid, o->reason, ts - o->ts);
	vcpu_turn_step(&o->turn, TURN_ENTRY);
}

void exits_handling_gap(struct exits_handling *p)
{
	for (size_t i = 0; i < p->by_tid.n; i++)
		p->v[i].turn = (struct vcpu_turn){ 0 };
}

void exits_handling_free(struct exits_handling *p)
{
	free(p->v);
	u64map_free(&p->by_tid);
	*p = (struct exits_handling){ 0 };
}

void exits_free(struct exits *e)
{
	for (size_t i = 0; i < e->nvm; i++) {
		free(e->vm[i].sel);
		free(e->vm[i].name);
		free(e->vm[i].uuid);
	}
	free(e->vm);
	free(e->thread);
	free(e->cell);
	free(e->now.v);
	free(e->shown.v);
	free(e->raw.v);
	free(e->max.v);
	u64map_free(&e->by_tid);
	u64map_free(&e->by_key);
	u64map_free(&e->by_sel);
	*e = (struct exits){ .timed = e->timed, .spreads = e->spreads };
}

/* ---- threads and VMs ---- */

static size_t thread_new(struct exits *e, uint32_t tid, uint32_t older)
{
	struct exits_thread t = {
		.tid = tid, .vm = EXITS_NONE, .vcpu = EXITS_NONE, .older = older,
	};

	xu64map_put(&e->by_tid, tid, e->nthread);
	xarray_add(&e->thread, &e->nthread, &e->thread_cap, &t, sizeof(t));
	return e->nthread - 1;
}

size_t exits_thread(struct exits *e, uint32_t tid)
{
	uint64_t at;

	return u64map_get(&e->by_tid, tid, &at) ? at : thread_new(e, tid, EXITS_NONE);
}

size_t exits_thread_renew(struct exits *e, uint32_t tid)
{
	uint64_t at;

	return thread_new(e, tid, u64map_get(&e->by_tid, tid, &at) ? (uint32_t)at : EXITS_NONE);
}

size_t exits_vm_find(const struct exits *e, const char *sel)
{
	uint64_t at;

	/* The newest: a PID-FD may come again after its VM ended. */
	return e->nvm && u64map_get(&e->by_sel, hash_bytes(&e->key, sel, strlen(sel)), &at) &&
	       !e->vm[at].ended && !strcmp(e->vm[at].sel, sel) ? at : EXITS_NONE;
}

size_t exits_vm(struct exits *e, const char *sel, const char *name, const char *uuid, uint32_t pid)
{
	struct exits_vm new = { .pid = pid };
	size_t at = exits_vm_find(e, sel);

	if (at != EXITS_NONE)
		return at;
	if (!e->nvm)
		hash_key_init(&e->key);
	xu64map_put(&e->by_sel, hash_bytes(&e->key, sel, strlen(sel)), e->nvm);
	new.sel = xstrdup(sel);
	new.name = name ? xstrdup(name) : NULL;
	new.uuid = uuid ? xstrdup(uuid) : NULL;
	xarray_add(&e->vm, &e->nvm, &e->vm_cap, &new, sizeof(new));
	return e->nvm - 1;
}

/* ---- counting ---- */

static uint64_t cell_key(uint32_t thread, uint32_t reason)
{
	return (uint64_t)thread << 32 | reason;
}

static unsigned int exits_width(const struct exits *e)
{
	return e->spreads ? EXITS_BUCKET + EXITS_BUCKETS : e->timed ? EXITS_BUCKET : EXITS_TIMED;
}

/* The source knows a sum of ns for each bucket, too. */
static unsigned int raw_width(const struct exits *e)
{
	return exits_width(e) + (e->spreads ? EXITS_BUCKETS : 0);
}

uint64_t *exits_now(const struct exits *e, size_t cell)
{
	return e->now.v + cell * exits_width(e);
}

static uint64_t *cell_shown(const struct exits *e, size_t cell)
{
	return e->shown.v + cell * exits_width(e);
}

static uint64_t *cell_raw(const struct exits *e, size_t cell)
{
	return e->raw.v + cell * raw_width(e);
}

static void values_grow(const struct exits *e, struct exits_values *v, unsigned int width)
{
	xarray_grow(&v->v, e->n, &v->cap, width * sizeof(uint64_t));
}

static size_t cell_at(struct exits *e, uint32_t thread, uint32_t reason)
{
	uint64_t *at = xu64map_at(&e->by_key, cell_key(thread, reason));
	struct exits_cell *c;

	if (*at)
		return *at - 1;
	c = xarray_grow(&e->cell, e->n, &e->cap, sizeof(*c));
	values_grow(e, &e->now, exits_width(e));
	values_grow(e, &e->shown, exits_width(e));
	values_grow(e, &e->raw, raw_width(e));
	if (e->timed)
		values_grow(e, &e->max, 1);
	*c = (struct exits_cell){ .thread = thread, .reason = reason };
	*at = ++e->n;
	return e->n - 1;
}

static size_t cell_of(struct exits *e, uint32_t tid, uint32_t reason)
{
	return cell_at(e, (uint32_t)exits_thread(e, tid), reason);
}

void exits_add(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n)
{
	size_t at = cell_of(e, tid, reason);

	exits_now(e, at)[EXITS_N] += n;
	e->thread[e->cell[at].thread].exits |= n != 0;
}

/* The cell of the current owner of the tid; a new one begins where the previous one ended. */
static size_t cell_of_raw(struct exits *e, uint32_t tid, uint32_t reason)
{
	uint32_t thread = (uint32_t)exits_thread(e, tid);
	size_t cells = e->n, at = cell_at(e, thread, reason);
	uint64_t old = 0;

	/* Of the threads that had the tid before. */
	for (uint32_t t = e->thread[thread].older; e->n > cells && t != EXITS_NONE && !old;
	     t = e->thread[t].older)
		(void)u64map_get(&e->by_key, cell_key(t, reason), &old);
	if (old)
		memcpy(cell_raw(e, at), cell_raw(e, old - 1), raw_width(e) * sizeof(uint64_t));
	return at;
}

/* The source's value i is n now: how much more it is. Less than before: it counts from 0 again. */
static uint64_t raw_more(struct exits *e, size_t at, unsigned int i, uint64_t n)
{
	uint64_t *raw = &cell_raw(e, at)[i], more = n >= *raw ? n - *raw : n;

	*raw = n;
	return more;
}

void exits_raw(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n)
{
	size_t at = cell_of_raw(e, tid, reason);

	exits_now(e, at)[EXITS_N] += raw_more(e, at, EXITS_N, n);
	e->thread[e->cell[at].thread].exits |= n != 0;
}

void exits_time_raw(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n, uint64_t total)
{
	size_t at = cell_of_raw(e, tid, reason);

	exits_now(e, at)[EXITS_TIMED] += raw_more(e, at, EXITS_TIMED, n);
	exits_now(e, at)[EXITS_TOTAL] += raw_more(e, at, EXITS_TOTAL, total);
}

static void values_clear(struct exits_values *v, size_t n)
{
	if (n)
		memset(v->v, 0, n * sizeof(*v->v));
}

void exits_baseline(struct exits *e)
{
	values_clear(&e->now, e->n * exits_width(e));
	values_clear(&e->shown, e->n * exits_width(e));
	values_clear(&e->max, e->timed ? e->n : 0);
}

void exits_raw_reset(struct exits *e)
{
	values_clear(&e->raw, e->n * raw_width(e));
}

unsigned int exits_bucket(uint64_t ns)
{
	unsigned int k = ns > 1 ? 64 - (unsigned int)__builtin_clzll(ns - 1) : 0;

	return MIN(k, EXITS_BUCKETS - 1u);
}

void exits_time_one(struct exits *e, uint32_t tid, uint32_t reason, uint64_t ns)
{
	if (e->spreads)
		exits_now(e, cell_of(e, tid, reason))[EXITS_BUCKET + exits_bucket(ns)]++;
	exits_time_add(e, tid, reason, 1, ns, ns);
}

void exits_spread_raw(struct exits *e, uint32_t tid, uint32_t reason, unsigned int bucket,
		      uint64_t n, uint64_t total)
{
	size_t at = cell_of_raw(e, tid, reason);
	unsigned int k = EXITS_BUCKET + MIN(bucket, EXITS_BUCKETS - 1u);
	uint64_t *now = exits_now(e, at), more = raw_more(e, at, k, n);

	now[k] += more;
	now[EXITS_TIMED] += more;
	now[EXITS_TOTAL] += raw_more(e, at, k + EXITS_BUCKETS, total);
}

void exits_time_add(struct exits *e, uint32_t tid, uint32_t reason, uint64_t n, uint64_t total,
		    uint64_t max)
{
	size_t at = cell_of(e, tid, reason);

	exits_now(e, at)[EXITS_TIMED] += n;
	exits_now(e, at)[EXITS_TOTAL] += total;
	e->max.v[at] = MAX(e->max.v[at], max);
}

void exits_interval(struct exits *e)
{
	if (e->n)
		memcpy(e->shown.v, e->now.v, e->n * exits_width(e) * sizeof(uint64_t));
	values_clear(&e->max, e->timed ? e->n : 0);
	for (size_t i = 0; i < e->nvm; i++)
		e->vm[i].ended += e->vm[i].ended != 0;
}

bool exits_past(const struct exits *e, const struct exits_thread *t)
{
	return t->vm != EXITS_NONE && e->vm[t->vm].ended > 2;
}

size_t exits_ended(const struct exits *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n; i++) {
		const struct exits_thread *t = &e->thread[e->cell[i].thread];

		n += t->vm != EXITS_NONE && e->vm[t->vm].ended;
	}
	return n;
}

void exits_prune(struct exits *e)
{
	const size_t width = exits_width(e) * sizeof(uint64_t);
	size_t kept = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (exits_past(e, &e->thread[e->cell[i].thread]))
			continue;
		e->cell[kept] = e->cell[i];
		memmove(exits_now(e, kept), exits_now(e, i), width);
		memmove(cell_shown(e, kept), cell_shown(e, i), width);
		memmove(cell_raw(e, kept), cell_raw(e, i), raw_width(e) * sizeof(uint64_t));
		if (e->timed)
			e->max.v[kept] = e->max.v[i];
		kept++;
	}
	e->n = kept;
	u64map_free(&e->by_key);
	for (size_t i = 0; i < kept; i++)
		xu64map_put(&e->by_key, cell_key(e->cell[i].thread, e->cell[i].reason), i + 1);
}

/* ---- views ---- */

static uint64_t cell_value(const struct exits *e, size_t i, unsigned int value, bool whole)
{
	return exits_now(e, i)[value] - (whole ? 0 : cell_shown(e, i)[value]);
}

/* What the indices of the view refer to. */
static const struct exits *view_of(const struct exits_view *v)
{
	return v->sum ?: v->e;
}

static bool view_whole(const struct exits_view *v)
{
	return v->sum || v->whole;
}

static int compare_cells(const void *a, const void *b, void *ctx)
{
	const struct exits_view *v = ctx;
	const struct exits *e = view_of(v);
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct exits_cell *x = &e->cell[i], *y = &e->cell[k];
	uint64_t n = cell_value(e, i, EXITS_N, view_whole(v));
	uint64_t m = cell_value(e, k, EXITS_N, view_whole(v));
	uint32_t tx = e->thread[x->thread].tid, ty = e->thread[y->thread].tid;

	return ORDER(m, n) ?: ORDER(tx, ty) ?: ORDER(x->thread, y->thread)
		?: ORDER(x->reason, y->reason);
}

void exits_view_make(const struct exits *whole_table, enum exits_group group, bool whole,
		     exits_filter filter, const void *ctx, struct exits_view *v)
{
	const struct exits *e;

	*v = (struct exits_view){ .e = whole_table, .whole = whole, .by_vm = group == EXITS_BY_VM };
	if (group != EXITS_BY_THREAD) {
		e = v->e;
		v->sum = xcalloc(1, sizeof(*v->sum));
		v->sum->timed = e->timed;
		v->sum->spreads = e->spreads;
		for (size_t i = 0; i < e->n; i++) {
			const struct exits_thread *t = &e->thread[e->cell[i].thread];
			size_t at;

			if (filter && !filter(ctx, e, t))
				continue;
			/* In a sum by VM, its number plus 1 takes the place of a thread's. */
			at = cell_of(v->sum, v->by_vm && t->vm < EXITS_VMS ? t->vm + 1 : 0,
				     e->cell[i].reason);
			for (unsigned int k = 0; k < exits_width(e); k++)
				exits_now(v->sum, at)[k] += cell_value(e, i, k, v->whole);
			if (e->timed)
				v->sum->max.v[at] = MAX(v->sum->max.v[at], e->max.v[i]);
		}
		filter = NULL;
	}
	e = view_of(v);
	v->cell = xmalloc(MAX(e->n, (size_t)1) * sizeof(*v->cell));
	for (size_t i = 0; i < e->n; i++) {
		uint64_t n = cell_value(e, i, EXITS_N, view_whole(v)), any = n;

		if (!exits_is_exit(e->cell[i].reason)) /* there are only times */
			any = e->timed ? cell_value(e, i, EXITS_TIMED, view_whole(v)) : 0;
		if (!any || (filter && !filter(ctx, e, &e->thread[e->cell[i].thread])))
			continue;
		v->cell[v->n++] = (uint32_t)i;
		v->count += n;
	}
	if (v->n)
		qsort_r(v->cell, v->n, sizeof(*v->cell), compare_cells, v);
}

void exits_view_row(const struct exits_view *v, size_t i, struct exits_row *row)
{
	const struct exits *e = view_of(v);
	const size_t at = v->cell[i];
	const struct exits_cell *c = &e->cell[at];
	bool whole = view_whole(v);

	*row = (struct exits_row){
		.thread = v->sum ? NULL : &e->thread[c->thread], .reason = c->reason,
		.count = cell_value(e, at, EXITS_N, whole),
	};
	if (v->by_vm && e->thread[c->thread].tid)
		row->vm = &v->e->vm[e->thread[c->thread].tid - 1];
	if (e->timed) {
		row->timed = cell_value(e, at, EXITS_TIMED, whole);
		row->total = cell_value(e, at, EXITS_TOTAL, whole);
		row->max = e->max.v[at];
	}
	for (unsigned int k = 0; k < EXITS_BUCKETS && e->spreads; k++)
		row->bucket[k] = cell_value(e, at, EXITS_BUCKET + k, whole);
}

unsigned int exits_row_percentile(const struct exits_row *row, uint64_t num, uint64_t den)
{
	uint64_t all = 0, n = 0;
	unsigned int k;

	for (k = 0; k < EXITS_BUCKETS; k++)
		all += row->bucket[k];
	for (k = 0; all && k < EXITS_BUCKETS; k++) {
		n += row->bucket[k];
		if (n * den >= all * num)
			return k;
	}
	return 0;
}

void exits_view_free(struct exits_view *v)
{
	free(v->cell);
	if (v->sum)
		exits_free(v->sum);
	free(v->sum);
	v->cell = NULL;
	v->sum = NULL;
	v->n = 0;
}
