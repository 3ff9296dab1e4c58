/* SPDX-License-Identifier: GPL-2.0-or-later */
/* solution.c: which vCPUs, and which stretches of time, are solved together. */
#include "kvmft/proof.h"

/* Those outside are few enough to be accidents. */
static bool shift_serves(uint64_t inside, uint64_t outside)
{
	return outside <= inside / 64;
}

void solution_add(struct solution *out, uint32_t vcpu, const struct solve_result *r)
{
	struct solution_vcpu o = { .id = vcpu, .r = *r };

	if (r->found)
		xarray_add(&out->own, &out->n_own, &out->own_cap, &o, sizeof(o));
}

/*
 * vCPUs may have offsets of their own: a guest wrote the TSC of one, or they were plugged in at
 * different times. Then each is solved separately.
 */
static void find_own(struct solve *s, struct solution *out)
{
	const struct solution_vcpu *most = NULL;

	for (size_t i = 0; i < solve_vcpus(s); i++) {
		struct solve_result r = out->r;
		uint32_t id = solve_vcpu_id(s, i);
		struct solve_counts c = { 0 };

		if (solve_vcpus(s) > 1)
			solve_run(s, id, &r);
		if (r.found && shift_serves(r.inside, r.outside))
			solve_count(s, i, &r, &c);
		if (!r.found || c.left) {
			out->missed = id;
			out->missed_why = r.found ? "it seems to have changed meanwhile" : r.why;
		}
		solution_add(out, id, &r);
		if (r.found)
			out->own[out->n_own - 1].left = c.left;
	}
	for (size_t i = 0; i < out->n_own; i++)
		if (!most || out->own[i].r.inside > most->r.inside)
			most = &out->own[i];
	/* The offset with most witnesses is used for vCPUs that show nothing. */
	if (most)
		out->r = most->r;
}

static bool has_own(const struct solution *s, uint32_t vcpu)
{
	for (size_t i = 0; i < s->n_own; i++)
		if (s->own[i].id == vcpu)
			return true;
	return false;
}

void solution_find(struct solve *s, const struct tsc_map *map, struct solution *out)
{
	struct solve_counts c, all = { .from = INT64_MAX, .to = INT64_MIN };
	const char *why;
	uint32_t sought;
	bool need_own;

	solve_run(s, SOLVE_ALL, &out->r);
	need_own = !out->r.found;
	out->tried = true;
	out->map = *map;
	/* Too many events of some vCPU contradict what fits the others, or have no place. */
	for (size_t i = 0; i < solve_vcpus(s) && !need_own; i++) {
		solve_count(s, i, &out->r, &c);
		need_own = !shift_serves(c.inside, c.outside) || c.left;
	}
	if (need_own)
		find_own(s, out);
	/*
	 * The offset used for a vCPU that could not be solved separately may not fit it: contradict
	 * its events, or move all of them out of the host's recording.
	 */
	for (size_t i = 0; i < solve_vcpus(s); i++) {
		solve_count(s, i, &out->r, &c);
		all.from = MIN(all.from, c.from);
		all.to = MAX(all.to, c.to);
	}
	sought = out->missed;
	why = out->missed_why;
	if (!why || !has_own(out, sought))
		out->missed_why = NULL;
	for (size_t i = 0; out->r.found && i < solve_vcpus(s); i++) {
		uint32_t id = solve_vcpu_id(s, i);
		uint64_t wrong, absent;

		solve_count(s, i, &out->r, &c);
		absent = solve_absent(s, i, &c, &all);
		wrong = c.outside + absent;
		if (has_own(out, id) || (!out->n_own && !absent))
			continue;
		out->rest += c.inside + wrong;
		out->rest_outside += wrong;
		if (!wrong)
			continue;
		out->missed = id;
		out->missed_why =
			why && sought == id ? why : "none of the other vCPUs' offsets fits it";
	}
}

void solution_find_vcpu(struct solve *s, size_t i, struct solution *out)
{
	struct solve_counts c;
	struct solve_result r;

	solve_run(s, solve_vcpu_id(s, i), &r);
	solve_count(s, i, &r, &c);
	if (!r.outside && !r.equal && !c.left)
		solution_add(out, solve_vcpu_id(s, i), &r);
}

void solution_count(const struct solution *s, uint64_t *events, uint64_t *outside)
{
	*events = s->rest;
	*outside = s->rest_outside;
	if (!s->n_own && s->r.found) {
		*events += s->r.inside + s->r.outside;
		*outside += s->r.outside;
	}
	for (size_t i = 0; i < s->n_own; i++) {
		const struct solution_vcpu *o = &s->own[i];

		*events += o->r.inside + o->r.outside + o->left;
		*outside += o->r.outside + o->left;
	}
}

bool solution_is_sure(const struct solution *s)
{
	uint64_t events, outside;

	for (size_t i = 0; i < s->n_own; i++)
		if (s->own[i].r.equal)
			return false;
	solution_count(s, &events, &outside);
	return s->r.found && !s->r.equal && events && !outside;
}

uint64_t solution_bound(const struct solution *s)
{
	const struct tsc_map scale = { .ratio = s->map.ratio, .frac = s->map.frac };
	uint64_t most = 0, lo, hi;

	for (size_t i = 0; i < (s->n_own ?: (size_t)s->r.found); i++) {
		const struct solve_result *r = s->n_own ? &s->own[i].r : &s->r;

		most = MAX(most, MAX(r->offset_hi - r->offset, r->offset - r->offset_lo));
	}
	if (!most)
		return 0;
	return tsc_to_host(&scale, most, &lo, &hi) ? UINT64_MAX / 4 : MAX(hi, lo);
}

void solution_fill(const struct solution *s, struct hostmap *m, size_t vm)
{
	const uint64_t bound = solution_bound(s);
	struct tsc_map map = s->map;

	if (s->n_own && bound)
		m->vm[vm].uncertain = bound;
	for (size_t i = 0; i < s->n_own; i++) {
		map.offset = s->own[i].r.offset;
		hostmap_force_vcpu(m, vm, s->own[i].id, 0, &map);
	}
	hostmap_rebuild(m, vm);
}

void solution_force(const struct solution *s, struct hostmap *m, size_t vm, size_t ncpu)
{
	struct tsc_map map = s->map;

	/* In host cycles: at least 1, for an offset that is not known. */
	m->vm[vm].uncertain = MAX(solution_bound(s), UINT64_C(1));
	map.offset = s->r.offset;
	hostmap_force_map(m, vm, ncpu, &map);
	solution_fill(s, m, vm);
}

void solution_free(struct solution *s)
{
	free(s->own);
	memset(s, 0, sizeof(*s));
}
