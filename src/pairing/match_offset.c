/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * match_offset.c: the TSC offsets of a guest whose VM is known, if the captures have none, or not
 * of all vCPUs.
 */
#include "kvmft/pairing.h"
#include "kvmft/exit_names.h"
#include "kvmft/guest_time.h"
#include "kvmft/timeline.h"
#include "kvmft/tsc_rate.h"

#include <inttypes.h>

#include "match.h"

#define ENOUGH 4096 /* events of a CPU */

/* ---- the ratio of a guest's TSC to the host's, if the host did not record it ---- */

/*
 * KVM scales the TSC of a guest that was promised another frequency than the host's
 * (arch/x86/kvm/x86.c, set_tsc_khz()), by guest kHz / host kHz, both whole numbers. So two files
 * with exact kHz give the ratio as well. KVM tolerates a difference of up to 250 parts per million
 * (the default of tsc_tolerance_ppm).
 */

#define TOLERANCE_PPM 250

/* Ratio and fraction bits of a VM, given or as known to the host. */
static struct tsc_map match_scale(const struct matcher *m, size_t vm)
{
	const struct tsc_map *map = m->scale ?: epoch_vm_first_map(m->map->vm[vm].epochs);

	return map ? *map : (struct tsc_map){ 0 };
}

/* To a kHz or so, and not taken from a guest. */
static bool is_exact(const struct tsc_rate *r)
{
	return r->source && !r->supposed && r->max - r->min <= 2;
}

/* What the guest says itself; else what KVM told it, which the host may have seen. */
static int guest_rate(const struct matcher *m, const struct capture *guest, struct tsc_rate *r)
{
	for (size_t i = 0; i < guest->npvclock; i++)
		if (tsc_rate_of_pvclock(guest->pvclock[i].pv.mul, guest->pvclock[i].pv.shift, r))
			return 0;
	tsc_rate_said(guest, r);
	if (is_exact(r) || m->map->nvm > 1) /* it is not known whose record that would be */
		return 0;
	return tsc_rate_scan(m->map->cap, m->map->fmt, r);
}

int match_scales(const struct matcher *m, size_t vm, const struct capture *guest,
		 struct tsc_map map[MATCH_SCALES], size_t *n)
{
	static const int rounding[MATCH_SCALES - 1] = { 0, 1, -1 }; /* of the guest's kHz */
	const struct capture *host = m->map->cap;
	struct tsc_rate of_host, of_guest = { 0 };
	unsigned __int128 apart;
	int ret;

	*n = 0;
	map[0] = match_scale(m, vm);
	tsc_rate_said(host, &of_host);
	if (!m->scale && !map[0].ratio && host->tsc_khz && is_exact(&of_host)) {
		ret = guest_rate(m, guest, &of_guest);
		if (ret)
			return ret;
	}
	apart = MAX(of_guest.khz, of_host.khz) - MIN(of_guest.khz, of_host.khz);
	for (size_t i = 0; i < ARRAY_SIZE(rounding) && is_exact(&of_guest) &&
			   apart * 1000000 > (unsigned __int128)of_host.khz * TOLERANCE_PPM;
	     i++) {
		struct tsc_map *s = &map[(*n)++];
		uint64_t khz = of_guest.khz + (uint64_t)rounding[i];

		*s = (struct tsc_map){ .frac = exit_tsc_frac(exit_isa_of_vendor(host->vendor)) };
		s->ratio = (uint64_t)(((unsigned __int128)khz << s->frac) / host->tsc_khz);
	}
	map[(*n)++] = match_scale(m, vm);
	return 0;
}

/* ---- vCPUs about which nothing is known, beside others about which everything is ---- */

/* An offset that fits another vCPU of the VM usually fits this one as well. */
static bool same_as_another(const struct matcher *m, const struct solve *s, size_t at, size_t vm,
			    struct solve_result *r)
{
	const struct epoch_vm *e = m->map->vm[vm].epochs;

	for (size_t i = 0; e && i < e->n; i++) {
		const struct epoch_vcpu *v = e->vcpus[i];

		if (!v->n || !v->v[v->n - 1].has_map)
			continue;
		*r = (struct solve_result){ .found = true, .offset = v->v[v->n - 1].map.offset };
		r->offset_lo = r->offset_hi = r->offset;
		solve_count(s, at, r, &r->inside, &r->outside);
		if (!r->outside && r->inside)
			return true;
	}
	return false;
}

static int solve_unknown(struct matcher *m, struct solve *s, struct match *out)
{
	int ret = 0;

	for (size_t i = 0; i < solve_vcpus(s) && !ret; i++) {
		uint32_t id = solve_vcpu_id(s, i);
		struct solve_result r;

		if (epoch_vm_has_map(m->map->vm[out->vm].epochs, id))
			continue;
		if (same_as_another(m, s, i, out->vm, &r))
			ret = solution_add(&out->sol, id, &r);
		else
			ret = solution_find_vcpu(s, id, &out->sol);
	}
	return ret;
}

/* What is not found stays without a place, and is reported so. */
static int fill_unknown(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			struct match *out, struct kvmft_err *err)
{
	struct tsc_map map = match_scale(m, out->vm);
	struct solve *s;
	bool any = false;
	int ret;

	for (size_t i = 0; i < cap->nstream; i++)
		any |= cap->stream[i].nsub &&
		       !epoch_vm_has_map(m->map->vm[out->vm].epochs,
					 cap_vcpu_of_cpu(cap, cap->stream[i].cpu));
	if (!any || !own_tsc_is_exact(cap))
		return 0;
	ret = match_runs(m, err);
	if (ret)
		return ret;
	out->sol.map = map;
	ret = solve_captures(&map, m->map, out->vm, m->runs, cap, fmt, &s);
	ret = ret ?: solve_unknown(m, s, out);
	ret = ret ?: solution_fill(&out->sol, m->map, out->vm);
	solve_free(s);
	return ret ? err_set(err, -ret, "cannot read %s: %s", cap->path, strerror(-ret)) : 0;
}

/* ---- nothing is known about any ---- */

static int no_offset(const struct matcher *m, const struct capture *g, const struct match *r,
		     struct kvmft_err *err)
{
	const struct solution_vcpu *o = NULL; /* one of several that several offsets fit */
	const char *label = m->map->vm[r->vm].label, *offset = pairing_offset_name(m->map->cap);

	for (size_t i = 0; i < r->sol.n_own && !o; i++)
		o = r->sol.own[i].r.equal ? &r->sol.own[i] : NULL;
	if (!r->sol.r.found)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and the events do not tell it: "
				"%s; give it with --tsc-offset N",
				g->path, offset, label, r->sol.r.why);
	if (r->sol.r.equal)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and %" PRIu64 " others fit the "
				"events as well as the best: record longer, or give --tsc-offset N",
				g->path, offset, label, r->sol.r.equal);
	if (o)
		return err_lack(
			err, EDOM,
			"%s: the %s of %s is not recorded, and for vCPU %" PRIu32 " %" PRIu64
			" others fit as well as the best: record longer, or give --tsc-offset N",
			g->path, offset, label, o->id, o->r.equal);
	if (r->sol.missed_why)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and the events do not tell that "
				"of vCPU %" PRIu32 ": %s; see kvmft verify --solve",
				g->path, offset, label, r->sol.missed, r->sol.missed_why);
	return err_lack(err, EDOM,
			"%s: the %s of %s is not recorded, and no offset fits all events: %" PRIu64
			" of %" PRIu64 " are outside with the best; see kvmft verify --solve",
			g->path, offset, label, r->outside, r->checked);
}

/* The guest may show better which threads are a VM. */
static int correct_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			   struct match *out, struct kvmft_err *err)
{
	const struct hostmap_vm *vm = &m->map->vm[out->vm];
	bool lacks = !out->solved;

	/* What was concluded only from ids and wake-ups may be wrong. */
	if (out->by == MATCH_BY_USER || vm->cap ||
	    (vm->basis != HOSTMAP_BY_WAKES && vm->basis != HOSTMAP_BY_IDS))
		return 0;
	/* Does some vCPU have events of the guest, but no thread that was seen to run it? */
	for (size_t i = 0; i < cap->nstream && !lacks; i++)
		lacks = cap->stream[i].nsub &&
			!hostmap_vcpu(m->map, out->vm, cap_vcpu_of_cpu(cap, cap->stream[i].cpu));
	if (!lacks)
		return 0;
	return MIN(match_threads(m, cap, fmt, out, err), 0);
}

/*
 * Do the events contradict recorded offsets? A guest whose TSC is not KVM's has one in debugfs all
 * the same. The first events of each CPU show it, unless they are from before the host's.
 */
static int is_contradicted(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			   struct trial *t, struct kvmft_err *err)
{
	int ret = match_runs(m, err);

	if (ret || !match_has_runs(m, t->vm))
		return ret;
	t->enough = ENOUGH;
	ret = match_try(m, t, cap, fmt, err);
	if (!ret && !t->checked) {
		t->enough = 0;
		ret = match_try(m, t, cap, fmt, err);
	}
	return ret ?: match_contradicts(t);
}

/* 1: the events decide on another offset. */
static int solve_instead(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			 struct match *out, struct kvmft_err *err)
{
	struct trial known = { .vm = out->vm }, t = { .vm = out->vm };
	int ret = m->undecided_ok || m->growing || !own_tsc_is_exact(cap)
			  ? 0
			  : is_contradicted(m, cap, fmt, &known, err);

	if (ret <= 0)
		return ret;
	m->solve = true;
	ret = match_try(m, &t, cap, fmt, err);
	m->solve = false;
	if (!ret && match_fits(&t)) {
		solution_free(&out->sol);
		match_take(m, out, &t, out->by);
		out->against = known.outside ?: 1;
		out->against_of = known.checked;
		ret = 1;
	}
	solution_free(&t.sol);
	return ret;
}

int match_find_offset(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		      struct match *out, struct kvmft_err *err)
{
	struct trial t = { .vm = out->vm };
	bool all_known = m->solve;
	int ret;

	if (!m->solve && match_is_known(m->map, out->vm, cap)) {
		ret = solve_instead(m, cap, fmt, out, err);
		return ret ? MIN(ret, 0) : fill_unknown(m, cap, fmt, out, err);
	}
	if (out->solved)
		return correct_threads(m, cap, fmt, out, err);
	solution_free(&out->sol);
	m->solve = true;
	ret = match_try(m, &t, cap, fmt, err);
	m->solve = all_known;
	if (!ret) {
		match_take(m, out, &t, out->by);
		ret = correct_threads(m, cap, fmt, out, err);
	}
	if (!ret && !out->solved && !m->undecided_ok)
		ret = no_offset(m, cap, out, err);
	return ret;
}
