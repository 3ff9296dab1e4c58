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
		ret = solve_add_guest(s, cap);
	if (!ret)
		ret = solve_run(s, &g->solution);
	solve_free(s);
	if (ret && !err->text[0])
		err_set(err, -ret, "cannot solve %s: %s", cap->path, strerror(-ret));
	return ret;
}

/* How many other places there are. */
static int unique_reason(const struct verify *v, struct verify_guest *g)
{
	const struct solve_result *r = &g->solution;
	struct sbuf b = { 0 };
	char span[32];

	if (v->khz)
		sbuf_addf(&b, "of all offsets in a range of %s",
			  str_ns(span, sizeof(span), out_cycles_to_ns(r->span, v->khz)));
	else
		sbuf_addf(&b, "of all offsets in a range of %" PRIu64 " cycles", r->span);
	if (r->equal)
		sbuf_addf(&b, ", %" PRIu64 " others do as well: NOT unique; record longer", r->equal);
	else if (r->has_next)
		sbuf_addf(&b, " the next best one, %+" PRId64 " cycles away, leaves %" PRIu64 " of %" PRIu64
			      " events outside: unique",
			  r->next_distance, r->next_outside, r->next_inside + r->next_outside);
	else
		sbuf_addf(&b, " every other one leaves more than %u %% of the events outside: unique",
			  r->tolerance * 100 / 64);
	return verify_reason(g, &b);
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

int verify_solution_reasons(struct verify *v, struct verify_guest *g)
{
	const struct solve_result *r = &g->solution;
	struct sbuf b = { 0 };
	int ret;

	if (!g->has_solution)
		return 0;
	if (!r->found) {
		sbuf_addf(&b, "%s: %s", v->solved ? "not solved" : "no offset found", r->why);
		return verify_reason(g, &b);
	}
	ret = offset_reason(v, g);
	return ret ? ret : unique_reason(v, g);
}
