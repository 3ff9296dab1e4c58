/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_apart.c: whose samples are kept separately.
 *
 * Cells for each vCPU would take memory without limit on hosts with thousands. Tables of all and of
 * VMs do not need them: there a VM's vCPUs share theirs. If tables of less are requested, some
 * hundred vCPUs have cells of their own; a table of others makes the capture be walked again, with
 * them and those whose turn is next kept separately. So memory stays the same, and a report of
 * 4,096 vCPUs takes nine walks.
 *
 * A walk finds the same threads and vCPUs each time, so those of the first stay.
 */
#include "report_priv.h"

#define CACHED 1024 /* VMs and vCPUs whose cells have a full cache */

/* Whether a table needs more than the sums of VMs. */
static bool filter_is_fine(const struct report_filter *f)
{
	return f->vcpu >= 0 || f->tid || f->pid;
}

/* Index into of_vm. */
static size_t vm_slot(const struct report *r, const struct rvcpu *v)
{
	return v->vm < 0 ? r->map->nvm : (size_t)v->vm;
}

enum rshare apart_first(struct report *r)
{
	if (!(r->opts.vcpus || r->vms_later) || r->napart >= r->apart_max)
		return SHARE_VM;
	r->napart++;
	return SHARE_OWN;
}

int apart_give(struct report *r, struct rvcpu *v)
{
	struct cells *own = NULL, **at = &own;

	if (v->share != SHARE_OWN)
		at = v->share == SHARE_VM ? &r->of_vm[vm_slot(r, v)] : &r->none;
	v->owner = !*at && v->share != SHARE_NONE;
	if (!*at)
		*at = cells_new(r->nvcpu >= CACHED);
	if (!*at) {
		v->owner = false;
		return -ENOMEM;
	}
	(*at)->closed = v->share == SHARE_NONE;
	v->cells = *at;
	return 0;
}

void apart_free(struct report *r)
{
	for (size_t i = 0; i < r->nvcpu; i++) {
		struct rvcpu *v = r->vcpu[i];

		if (v->owner)
			cells_free(v->cells);
		v->owner = false;
		v->cells = NULL;
	}
	if (r->of_vm)
		memset(r->of_vm, 0, (r->map->nvm + 1) * sizeof(struct cells *));
	cells_free(r->none);
	r->none = NULL;
}

/* ---- what the cells show ---- */

/*
 * A table of f is made of whole cells: a vCPU's own, and those of VMs if all that share them match.
 */
static int cells_tell(const struct report *r, const struct report_filter *f, bool *tell)
{
	_cleanup_free_ bool *hit = calloc(r->map->nvm + 1, sizeof(*hit));

	*tell = true;
	if (!hit)
		return -ENOMEM;
	for (size_t i = vcpu_first(r, f); i < r->nvcpu && *tell; i = vcpu_next(r, f, i)) {
		const struct rvcpu *v = r->vcpu[i];

		if (v->share == SHARE_OWN || !report_matches(r, f, i))
			continue;
		*tell = v->share != SHARE_NONE;
		hit[vm_slot(r, v)] = true;
	}
	for (size_t i = vcpu_first(r, f); i < r->nvcpu && *tell; i = vcpu_next(r, f, i)) {
		const struct rvcpu *v = r->vcpu[i];

		if (v->share == SHARE_VM && hit[vm_slot(r, v)])
			*tell = report_matches(r, f, i);
	}
	return 0;
}

static void set_apart(struct report *r, struct rvcpu *v)
{
	v->share = SHARE_OWN;
	r->napart++;
}

/* Those after vCPU number `from` in the tables: of its VM, then of the VMs that follow. */
static void set_next_apart(struct report *r, size_t from)
{
	for (size_t vm = vm_slot(r, r->vcpu[from]); vm <= r->map->nvm; vm++, from = 0) {
		for (size_t i = from; i < r->nvcpu; i++) {
			struct rvcpu *v = r->vcpu[i];

			if (r->napart >= r->apart_max)
				return;
			if (v->sampled && v->share != SHARE_OWN && vm_slot(r, v) == vm)
				set_apart(r, v);
		}
	}
}

/* Chooses who shares what, so that the cells of the next walk contain what f asks for. */
static void choose_shares(struct report *r, const struct report_filter *f)
{
	size_t n = 0, first = 0;
	bool many;

	for (size_t i = r->nvcpu; i-- > 0;) {
		if (!report_matches(r, f, i))
			continue;
		first = i;
		n++;
	}
	many = n > r->apart_max || !filter_is_fine(f);
	r->napart = 0;
	for (size_t i = 0; i < r->nvcpu; i++) {
		struct rvcpu *v = r->vcpu[i];
		bool match = report_matches(r, f, i);

		v->share = many && filter_is_fine(f) && !match ? SHARE_NONE : SHARE_VM;
		if (!many && match)
			set_apart(r, v);
	}
	if (!many)
		set_next_apart(r, first);
}

/* ---- again ---- */

static void forget_thread(struct rthread *t)
{
	struct rsplit *split = t->split;

	*t = (struct rthread){ .tid = t->tid, .v = t->first, .first = t->first, .split = split };
	if (split)
		*split = (struct rsplit){ .in_user = false };
}

static int walk_again(struct report *r)
{
	const struct report_totals tot = r->tot;
	struct cell_budget *b = &r->budget;
	struct kvmft_err err = { .text = "" };
	int ret = 0;

	apart_free(r);
	b->used = b->hist_used = 0;
	b->crowded = b->no_hist = 0;
	for (size_t i = 0; i < r->nthread; i++)
		forget_thread(r->thread[i]);
	for (size_t i = 0; i < r->nvcpu && !ret; i++) {
		struct rvcpu *v = r->vcpu[i];

		v->sampled = false;
		v->windows = 0;
		v->guest = 0;
		ret = apart_give(r, v);
	}
	memset(r->gap_to, 0, r->cap->nstream * sizeof(*r->gap_to));
	ret = ret ?: report_walk(r, &err);
	r->tot = tot;
	if ((b->crowded || b->no_hist) && !r->told_crowded) {
		report_remark(
			r,
			"more keys than are kept in memory: in tables of vCPUs, samples are in one "
			"row, (others), or rows have no percentiles");
		r->told_crowded = true;
	}
	return ret;
}

static int link_vcpus(struct report *r)
{
	const size_t nvm = r->map->nvm + 1;

	r->first_vcpu = malloc(nvm * sizeof(*r->first_vcpu));
	if (!r->first_vcpu)
		return -ENOMEM;
	memset(r->first_vcpu, 0xff, nvm * sizeof(*r->first_vcpu));
	for (size_t i = r->nvcpu; i-- > 0;) {
		size_t *first = &r->first_vcpu[vm_slot(r, r->vcpu[i])];

		r->vcpu[i]->next = *first;
		*first = i;
	}
	return 0;
}

int apart_for(struct report *r, const struct report_filter *f)
{
	bool tell;
	int ret = r->first_vcpu ? 0 : link_vcpus(r);

	ret = ret ?: cells_tell(r, f, &tell);
	if (ret || tell)
		return ret;
	choose_shares(r, f);
	return walk_again(r);
}
