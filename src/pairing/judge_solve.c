/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge_solve.c: the offset that the data themselves ask for, and what it says about the one used.
 */
#include "kvmft/verify.h"

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

const struct solution *verify_solution(const struct verify_guest *g)
{
	return g->sol.tried ? &g->sol : &g->g->match.sol;
}

int verify_solve(struct verify *v, struct verify_guest *g, struct kvmft_err *err)
{
	const struct capture *cap = g->g->c.cap;
	struct solve *s = NULL;
	int ret = v->runs ? 0 : runs_collect(v->p.map, &v->runs, err);

	known_map(v, g);
	if (ret)
		return ret;
	if (!cap->clock || strcmp(cap->clock, "x86-tsc")) {
		g->sol.tried = true;
		g->sol.r.why = "only captures in guest TSC can be solved: record the guest with --clock x86-tsc";
		return 0;
	}
	ret = solve_new(&g->map, &s);
	if (!ret)
		ret = solve_add_host(s, v->p.map, g->g->vm, v->runs);
	if (!ret)
		ret = solve_add_guest(s, v->runs, cap, g->g->c.fmt);
	if (!ret)
		ret = solution_find(s, &g->map, &g->sol);
	solve_free(s);
	return ret ? err_set(err, -ret, "cannot solve %s: %s", cap->path, strerror(-ret)) : 0;
}

/* How many other places there are. */
static void unique_text(const struct verify *v, const struct solve_result *r, struct sbuf *b)
{
	char span[32];

	sbuf_add(b, "of all offsets in a range of ");
	if (v->khz)
		sbuf_add(b, str_ns(span, sizeof(span), tsc_cycles_to_ns(r->span, v->khz)));
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
		sbuf_add(b, " every other one leaves more events outside: unique");
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
	const struct solve_result *r = &verify_solution(g)->r;
	const struct tsc_map *m = &verify_solution(g)->map;
	struct sbuf b = { 0 };

	if (g->solved) {
		sbuf_addf(&b, "solved: TSC offset %" PRId64, (int64_t)r->offset);
		if (m->ratio && m->ratio != 1ull << m->frac)
			sbuf_addf(&b, ", TSC ratio %" PRIu64 "/%u", m->ratio, m->frac);
		if (g->a.kind == ALIGN_OK)
			sbuf_addf(&b, "; any from %" PRId64 " to %" PRId64 " leaves no event outside",
				  (int64_t)shifted(&verify_solution(g)->map, r->offset, g->a.shift_hi),
				  (int64_t)shifted(&verify_solution(g)->map, r->offset, g->a.shift_lo));
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

static void compare_used(const struct verify *v, const struct verify_guest *g, const struct solution_vcpu *o,
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
static int parts_reason(struct verify *v, struct verify_guest *g, const struct solution_vcpu *o)
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
			  g->solved ? "solved: " : "the data ask for ", (int64_t)p->r.offset);
		verify_time(v, p->host_first, &b);
		sbuf_add(&b, " to ");
		verify_time(v, p->host_last, &b);
		sbuf_addf(&b, " (%" PRIu64 " of %" PRIu64 " events inside, as with others from %" PRId64
			  " to %" PRId64 ")",
			  p->r.inside, p->r.events, (int64_t)p->r.offset_lo, (int64_t)p->r.offset_hi);
		ret = verify_reason(g, &b);
	}
	return ret;
}

static int own_reason(struct verify *v, struct verify_guest *g, const struct solution_vcpu *o)
{
	const struct solve_result *r = &o->r;
	struct sbuf b = { 0 };

	sbuf_addf(&b, "vCPU %" PRIu32 ": %sTSC offset %" PRId64, o->id,
		  r->outside > r->inside / 16 ? "no offset fits all the time; best is "
		  : g->solved		      ? "solved: "
					      : "the data ask for ",
		  (int64_t)r->offset);
	if (!g->solved)
		compare_used(v, g, o, &b);
	sbuf_addf(&b, " (%" PRIu64 " of %" PRIu64 " events inside, as with others from %" PRId64 " to %" PRId64 "); ",
		  r->inside, r->inside + r->outside, (int64_t)r->offset_lo, (int64_t)r->offset_hi);
	unique_text(v, r, &b);
	return verify_reason(g, &b);
}

/* One that has none: it was given that of another. */
static int missed_reason(struct verify_guest *g)
{
	const struct solution *sol = verify_solution(g);
	struct sbuf b = { 0 };

	sbuf_addf(&b, "vCPU %" PRIu32 ": no offset found: %s", sol->missed, sol->missed_why);
	return verify_reason(g, &b);
}

/* Of each vCPU that has its own. */
static int own_reasons(struct verify *v, struct verify_guest *g)
{
	const struct solution *sol = verify_solution(g);
	int ret = 0;

	for (size_t i = 0; i < sol->n_own && !ret; i++)
		ret = sol->own[i].nparts ? parts_reason(v, g, &sol->own[i]) : own_reason(v, g, &sol->own[i]);
	return ret || !sol->missed_why ? ret : missed_reason(g);
}

/* Not found, but bounded on one side. */
static int most_reason(struct verify_guest *g)
{
	struct sbuf b = { 0 };

	sbuf_addf(&b, "deadline writes that both sides traced say that it is at most %" PRId64,
		  (int64_t)verify_solution(g)->r.at_most);
	return verify_reason(g, &b);
}

int verify_solution_reasons(struct verify *v, struct verify_guest *g)
{
	const struct solve_result *r = &verify_solution(g)->r;
	struct sbuf b = { 0 };
	int ret;

	if (!verify_solution(g)->tried)
		return 0;
	if (!r->found) {
		sbuf_addf(&b, "%s: %s", g->solved ? "not solved" : "no offset found", r->why);
		ret = verify_reason(g, &b);
		return ret || !r->has_most ? ret : most_reason(g);
	}
	if (verify_solution(g)->n_own)
		return own_reasons(v, g);
	ret = offset_reason(v, g);
	if (ret)
		return ret;
	unique_text(v, r, &b);
	return verify_reason(g, &b);
}
