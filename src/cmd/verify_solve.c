/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify_solve.c: the offset that the data themselves ask for, and what it says about the one used.
 */
#include "verify.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Ratio and offset that were in force first; vCPUs of a VM share the ratio. */
static void known_map(struct verify *v, struct verify_guest *g)
{
	const struct epoch_vm *e = v->p.map->vm[g->g->vm].epochs;

	for (size_t i = 0; e && i < e->n && !g->has_map; i++) {
		if (!e->vcpus[i]->n || !e->vcpus[i]->v[0].has_map)
			continue;
		g->map = e->vcpus[i]->v[0].map;
		g->has_map = true;
	}
}

static bool fits(const struct solve_result *r)
{
	return r->found && r->outside <= r->inside / 16;
}

/* Too many events of some vCPU contradict what serves the others, or have no place. */
static bool need_own(const struct solve *s, const struct solve_result *all)
{
	bool need = !all->found;

	for (size_t i = 0; i < solve_vcpus(s) && !need; i++) {
		uint64_t inside, outside;

		solve_count(s, i, all, &inside, &outside);
		need = outside > inside / 16 || solve_leaves(s, solve_vcpu_id(s, i), all);
	}
	return need;
}

/* Where one offset does not serve all events, several may, one after the other. */
static int solve_over_time(struct solve *s, struct verify_vcpu *o)
{
	int ret;

	if (fits(&o->r) && !solve_leaves(s, o->id, &o->r))
		return 0;
	o->part = calloc(SOLVE_PARTS, sizeof(*o->part));
	if (!o->part)
		return -ENOMEM;
	ret = solve_run_parts(s, o->id, o->part, &o->nparts);
	if (o->nparts == 1 && fits(&o->r))
		o->nparts = 0; /* what it leaves has no place */
	for (size_t i = 0; i < o->nparts; i++)
		if (!i || o->part[i].r.inside > o->r.inside)
			o->r = o->part[i].r;
	return ret;
}

/*
 * vCPUs may have offsets of their own: a guest wrote the TSC of one, or they were plugged in at
 * different times. Then each is solved alone.
 */
static int solve_own(struct verify_guest *g, struct solve *s)
{
	struct verify_vcpu *most = NULL, *slot;
	int ret = 0;

	if (!need_own(s, &g->solution))
		return 0;
	for (size_t i = 0; i < solve_vcpus(s) && !ret; i++) {
		struct verify_vcpu o = { .id = solve_vcpu_id(s, i), .r = g->solution };

		if (solve_vcpus(s) > 1)
			ret = solve_run(s, o.id, &o.r);
		/* Two vCPUs of which nothing fits: it is not the time, but the wrong VM or rate. */
		if (!ret && (g->n_own || i < 2))
			ret = solve_over_time(s, &o);
		slot = o.r.found ? array_grow(&g->own, g->n_own, &g->own_cap, sizeof(*slot)) : NULL;
		if (!slot) {
			free(o.part);
			ret = o.r.found && !ret ? -ENOMEM : ret;
			continue;
		}
		*slot = o;
		g->n_own++;
	}
	for (size_t i = 0; i < g->n_own; i++)
		if (!most || g->own[i].r.inside > most->r.inside)
			most = &g->own[i];
	/* What has most witnesses is taken for those vCPUs that say nothing. */
	if (most)
		g->solution = most->r;
	return ret;
}

/* The moment between two parts of a vCPU. */
static uint64_t change_of(const struct verify_vcpu *o, size_t part)
{
	uint64_t from = o->part[part - 1].host_last, to = o->part[part].host_first;

	return from + (to - from) / 2;
}

static int use_own(struct verify *v, struct verify_guest *g, const struct verify_vcpu *o)
{
	struct tsc_map map = g->map;
	int ret;

	map.offset = o->nparts ? o->part[0].r.offset : o->r.offset;
	ret = hostmap_force_vcpu(v->p.map, g->g->vm, o->id, 0, &map);
	for (size_t i = 1; i < o->nparts && !ret; i++) {
		map.offset = o->part[i].r.offset;
		ret = hostmap_force_vcpu(v->p.map, g->g->vm, o->id, change_of(o, i), &map);
	}
	return ret;
}

int verify_use_solution(struct verify *v, struct verify_guest *g)
{
	struct tsc_map map = g->map;
	int ret;

	if (g->solution.found)
		map.offset = g->solution.offset;
	ret = hostmap_force_map(v->p.map, g->g->vm, g->g->c.cap->ncpu, &map);
	for (size_t i = 0; i < g->n_own && !ret; i++)
		ret = use_own(v, g, &g->own[i]);
	return ret;
}

int verify_solve(struct verify *v, struct verify_guest *g, struct kvmft_err *err)
{
	const struct capture *cap = g->g->c.cap;
	struct solve *s = NULL;
	int ret;

	known_map(v, g);
	g->has_solution = true;
	if (!cap->clock || strcmp(cap->clock, "x86-tsc")) {
		g->solution.why = "only captures in guest TSC can be solved: record the guest with --clock x86-tsc";
		return 0;
	}
	ret = solve_new(&g->map, &s);
	if (!ret)
		ret = solve_add_host(s, v->p.map, g->g->vm, err);
	if (!ret)
		ret = solve_add_guest(s, cap, g->g->c.fmt);
	if (!ret)
		ret = solve_run(s, SOLVE_ALL, &g->solution);
	if (!ret)
		ret = solve_own(g, s);
	solve_free(s);
	if (ret && !err->text[0])
		err_set(err, -ret, "cannot solve %s: %s", cap->path, strerror(-ret));
	return ret;
}

/* How many other places there are. */
static void unique_text(const struct verify *v, const struct solve_result *r, struct sbuf *b)
{
	char span[32];

	sbuf_add(b, "of all offsets in a range of ");
	if (v->khz)
		sbuf_add(b, str_ns(span, sizeof(span), out_cycles_to_ns(r->span, v->khz)));
	else
		sbuf_addf(b, "%" PRIu64 " cycles", r->span);
	if (r->pairs)
		sbuf_addf(b, ", which %" PRIu64 " deadline writes leave,", r->pairs);
	if (r->equal)
		sbuf_addf(b, "%s %" PRIu64 " others do as well: NOT unique; record longer",
			  r->pairs ? "" : ",", r->equal);
	else if (r->has_next)
		sbuf_addf(b, " the next best one, %+" PRId64 " cycles away, leaves %" PRIu64 " of %" PRIu64
			      " events outside: unique",
			  r->next_distance, r->next_outside, r->next_inside + r->next_outside);
	else
		sbuf_addf(b, " every other one leaves more than %u %% of the events outside: unique",
			  r->tolerance * 100 / 64);
}

/* Moving all guest times by a shift means another offset: the one used, minus the scaled shift. */
static uint64_t shifted(const struct tsc_map *m, uint64_t offset, int64_t shift)
{
	struct tsc_map scale = { .ratio = m->ratio, .frac = m->frac };

	return shift < 0 ? offset + tsc_to_guest(&scale, 0 - (uint64_t)shift)
			 : offset - tsc_to_guest(&scale, (uint64_t)shift);
}

static int offset_reason(struct verify *v, struct verify_guest *g)
{
	const struct solve_result *r = &g->solution;
	struct sbuf b = { 0 };

	if (v->solved) {
		sbuf_addf(&b, "solved: TSC offset %" PRId64, (int64_t)r->offset);
		if (g->a.kind == ALIGN_OK)
			sbuf_addf(&b, "; any from %" PRId64 " to %" PRId64 " leaves no event outside",
				  (int64_t)shifted(&g->map, r->offset, g->a.shift_hi),
				  (int64_t)shifted(&g->map, r->offset, g->a.shift_lo));
	} else if (r->outside > r->inside / 16) {
		sbuf_addf(&b, "no offset fits all the time: TSC offset %" PRId64 " is right for %" PRIu64 " of %" PRIu64
			      " events",
			  (int64_t)r->offset, r->inside, r->inside + r->outside);
		if (g->has_map && g->map.offset - r->offset + (r->offset - r->offset_lo) <=
				  r->offset_hi - r->offset_lo)
			sbuf_add(&b, ", which is the one used");
	} else {
		sbuf_addf(&b, "the data ask for TSC offset %" PRId64 " (%" PRIu64 " of %" PRIu64
			      " events inside)",
			  (int64_t)r->offset, r->inside, r->inside + r->outside);
		if (g->has_map) {
			sbuf_add(&b, ": the one used is wrong by about ");
			pairing_add_cycles(&b, (int64_t)(g->map.offset - r->offset), v->khz);
		}
	}
	return verify_reason(g, &b);
}

static void compare_used(const struct verify *v, const struct verify_guest *g, const struct verify_vcpu *o,
			 struct sbuf *b)
{
	const struct epoch_vcpu *e = epoch_vm_find(v->p.map->vm[g->g->vm].epochs, o->id);
	uint64_t used;

	if (!e || !e->n || !e->v[0].has_map)
		return;
	used = e->v[0].map.offset;
	if (used - o->r.offset_lo <= o->r.offset_hi - o->r.offset_lo) {
		sbuf_add(b, ", as was used");
		return;
	}
	sbuf_add(b, ": the one used is wrong by about ");
	pairing_add_cycles(b, (int64_t)(used - o->r.offset), v->khz);
}

/* One line for each of its offsets. */
static int parts_reason(struct verify *v, struct verify_guest *g, const struct verify_vcpu *o)
{
	struct sbuf b = { 0 };
	int ret;

	sbuf_addf(&b, "vCPU %" PRIu32 ": ", o->id);
	if (o->nparts > 1)
		sbuf_addf(&b, "its TSC offset changed%s", o->nparts > 2 ? ", several times" : "");
	else
		sbuf_add(&b, "no offset fits all the time");
	ret = verify_reason(g, &b);
	for (size_t i = 0; i < o->nparts && !ret; i++) {
		const struct solve_part *p = &o->part[i];

		sbuf_addf(&b, "vCPU %" PRIu32 ": %sTSC offset %" PRId64 ", from ", o->id,
			  v->solved ? "solved: " : "the data ask for ", (int64_t)p->r.offset);
		verify_time(v, p->host_first, &b);
		sbuf_add(&b, " to ");
		verify_time(v, p->host_last, &b);
		sbuf_addf(&b, " (%" PRIu64 " of %" PRIu64 " events inside, as with any from %" PRId64
			  " to %" PRId64 ")",
			  p->r.inside, p->r.events, (int64_t)p->r.offset_lo, (int64_t)p->r.offset_hi);
		ret = verify_reason(g, &b);
	}
	return ret;
}

static int own_reason(struct verify *v, struct verify_guest *g, const struct verify_vcpu *o)
{
	const struct solve_result *r = &o->r;
	struct sbuf b = { 0 };

	sbuf_addf(&b, "vCPU %" PRIu32 ": %sTSC offset %" PRId64, o->id,
		  r->outside > r->inside / 16 ? "no offset fits all the time; best is "
		  : v->solved		      ? "solved: "
					      : "the data ask for ",
		  (int64_t)r->offset);
	if (!v->solved)
		compare_used(v, g, o, &b);
	sbuf_addf(&b, " (%" PRIu64 " of %" PRIu64 " events inside, as with any from %" PRId64 " to %" PRId64 "); ",
		  r->inside, r->inside + r->outside, (int64_t)r->offset_lo, (int64_t)r->offset_hi);
	unique_text(v, r, &b);
	return verify_reason(g, &b);
}

/* Of each vCPU that has its own. */
static int own_reasons(struct verify *v, struct verify_guest *g)
{
	int ret = 0;

	for (size_t i = 0; i < g->n_own && !ret; i++)
		ret = g->own[i].nparts ? parts_reason(v, g, &g->own[i]) : own_reason(v, g, &g->own[i]);
	return ret;
}

/* Not found, but bounded on one side. */
static int most_reason(struct verify_guest *g)
{
	struct sbuf b = { 0 };

	sbuf_addf(&b, "deadline writes that both sides traced say that it is at most %" PRId64,
		  (int64_t)g->solution.at_most);
	return verify_reason(g, &b);
}

int verify_solution_reasons(struct verify *v, struct verify_guest *g)
{
	const struct solve_result *r = &g->solution;
	struct sbuf b = { 0 };
	int ret;

	if (!g->has_solution)
		return 0;
	if (!r->found) {
		sbuf_addf(&b, "%s: %s", v->solved ? "not solved" : "no offset found", r->why);
		ret = verify_reason(g, &b);
		return ret || !r->has_most ? ret : most_reason(g);
	}
	if (g->n_own)
		return own_reasons(v, g);
	ret = offset_reason(v, g);
	if (ret)
		return ret;
	unique_text(v, r, &b);
	return verify_reason(g, &b);
}
