/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_collect.c: what solve.c works with: windows of vCPUs, events of their guest, and pairs of
 * both, from the host's threads and a guest's capture; thinned where there are too many.
 */
#include "solve.h"
#include "kvmft/timeline.h"
#include "kvmft/hostmap.h"

#define MAX_EVENTS (1u << 19)

void solve_new(const struct tsc_map *map, struct solve **out)
{
	struct solve *s = xcalloc(1, sizeof(*s));

	*out = s;
	s->map = *map;
	s->map.offset = 0;
	s->stride = 1;
}

static struct solve_vcpu *vcpu_at(struct solve *s, uint32_t id)
{
	struct solve_vcpu *v;

	for (size_t i = 0; i < s->nv; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	v = xarray_grow(&s->v, s->nv, &s->vcap, sizeof(*v));
	v->id = id;
	s->nv++;
	return v;
}

void solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	s->windows += run_list_add(&v->w, entry, exit, s->min_gap);
	/* Windows with short gaps are joined until there are half as many. */
	for (bool many = s->windows >= RUNS_MAX; many; many = s->windows > RUNS_MAX / 2) {
		s->min_gap = s->min_gap ? s->min_gap * 2 : 1024;
		s->windows = 0;
		for (size_t i = 0; i < s->nv; i++) {
			run_list_join(&s->v[i].w, s->min_gap);
			s->windows += s->v[i].w.n;
		}
	}
}

void solve_clear_windows(struct solve *s, uint32_t vcpu)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	s->windows -= v->w.n;
	s->scaled = false; /* others would be scaled twice, unless the ratio is 1 */
	v->w.n = v->ntid = v->np = 0;
}

COMPARE_BY(by_from, struct vcpu_run, .from);

/* Windows of another thread of the vCPU, at whatever time. */
static void add_runs(struct solve *s, uint32_t vcpu, const struct run_list *l)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	struct run_list old = v->w;

	if (!l->n)
		return;
	if (!old.n || old.v[old.n - 1].to < l->v[0].from) {
		for (size_t i = 0; i < l->n; i++)
			solve_add_window(s, vcpu, l->v[i].from, l->v[i].to);
		return;
	}
	v->w = (struct run_list){ 0 };
	s->windows -= old.n;
	for (size_t i = 0; i < l->n; i++)
		xarray_add(&old.v, &old.n, &old.cap, &l->v[i], sizeof(l->v[i]));
	array_sort(old.v, old.n, by_from);
	for (size_t i = 0; i < old.n; i++)
		solve_add_window(s, vcpu, old.v[i].from, old.v[i].to);
	free(old.v);
}

/* When the host handled the write of that deadline by the vCPU; 0 if unknown. */
static uint64_t deadline_of(const struct solve *s, uint32_t vcpu, const struct runs *runs,
			    uint64_t value)
{
	uint64_t host = 0;

	for (size_t k = 0; k < s->nv; k++)
		for (size_t i = 0; s->v[k].id == vcpu && i < s->v[k].ntid && !host; i++)
			host = runs_deadline(runs, s->v[k].tid[i], value);
	return host;
}

void solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	uint64_t left = 0;

	if (s->seen++ % s->stride)
		return;
	for (size_t i = 0; i < s->nv && s->events >= MAX_EVENTS; i++) { /* drops every other one */
		struct solve_vcpu *o = &s->v[i];

		for (size_t k = 0; k < o->ne / 2; k++)
			o->e[k] = o->e[2 * k];
		left += o->ne /= 2;
	}
	if (s->events >= MAX_EVENTS) {
		s->stride *= 2;
		s->events = left;
	}
	s->events++;
	xarray_add(&v->e, &v->ne, &v->ecap, &guest, sizeof(guest));
}

void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	const struct solve_pair p = { .later = (int64_t)(guest - tsc_to_guest(&s->map, host)) };

	if (v->np < MAX_EVENTS) /* it only helps */
		xarray_add(&v->p, &v->np, &v->pcap, &p, sizeof(p));
}

size_t solve_vcpus(const struct solve *s)
{
	return s->nv;
}

uint32_t solve_vcpu_id(const struct solve *s, size_t i)
{
	return s->v[i].id;
}

void solve_free(struct solve *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nv; i++) {
		free(s->v[i].w.v);
		free(s->v[i].tid);
		free(s->v[i].e);
		free(s->v[i].p);
	}
	free(s->v);
	free(s->ev);
	free(s->order);
	free(s->cell);
	free(s);
}

/* ---- from captures ---- */

void solve_add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	const struct run_list *l = runs_of(runs, tid);
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	xarray_add(&v->tid, &v->ntid, &v->tidcap, &tid, sizeof(tid));
	if (l)
		add_runs(s, vcpu, l);
}

struct guest_side {
	struct solve *s;
	const struct runs *runs;
	const struct fmt *fmt;
	struct msr_pair_events msr;
	struct own_tsc own;
	uint32_t vcpu; /* of the stream */
};

static int guest_event(void *arg, const struct rec *rec)
{
	const struct guest_side *g = arg;
	enum msr_pair kind;
	uint64_t value, host, ts, width;

	if (!own_tsc_place(&g->own, rec->ts, &ts, &width))
		return 0;
	if (g->runs->ndeadline &&
	    msr_pair_match(&g->msr, fmt_by_id(g->fmt, rec->id), rec, &kind, &value) &&
	    kind == MSR_PAIR_DEADLINE && (host = deadline_of(g->s, g->vcpu, g->runs, value)))
		solve_add_pair(g->s, g->vcpu, host, ts);
	solve_add_event(g->s, g->vcpu, ts);
	return 0;
}

int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt)
{
	struct guest_side g = { .s = s, .runs = runs, .fmt = fmt };
	int ret = own_tsc_init(&g.own, cap, NULL);

	msr_pair_events_init(&g.msr, fmt, true);
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		g.vcpu = cap_vcpu_of_cpu(cap, cap->stream[i].cpu);
		ret = rstream_each(cap, &cap->stream[i], guest_event, &g);
	}
	own_tsc_free(&g.own);
	return ret;
}

int solve_captures(const struct tsc_map *scale, const struct hostmap *map, size_t vm,
		   const struct runs *runs, const struct capture *cap, const struct fmt *fmt,
		   struct solve **out)
{
	const struct hostmap_thread *t;

	solve_new(scale, out);
	hostmap_each_thread(map, vm, t)
		solve_add_thread(*out, t->vcpu, runs, t->tid);
	return solve_add_guest(*out, runs, cap, fmt);
}
