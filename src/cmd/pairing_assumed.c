/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairing_assumed.c: what nobody recorded and was concluded instead: which threads are a VM, which VM a
 * guest's capture is of, by which offset its stamps were moved. Said, so that it can be contradicted.
 */
#include "pairing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "kvmft/output.h"

static const char *const basis_texts[] = {
	[HOSTMAP_BY_WAKES] = ", one VM since they wake each other",
	[HOSTMAP_BY_IDS] = ", taken for one VM by their ids",
	[HOSTMAP_BY_GUEST] = ", the threads that fit its events",
};

/* "pid:152 (tids:213,215, one VM since they wake each other)" */
static void add_vm(const struct pairing *p, const struct pairing_guest *g, struct sbuf *b)
{
	const struct hostmap_vm *vm = &p->map->vm[p->map->vm[g->vm].of];
	const char *basis = vm->basis < ARRAY_SIZE(basis_texts) ? basis_texts[vm->basis] : NULL;

	sbuf_add(b, vm->label);
	if (vm->basis == HOSTMAP_RECORDED)
		return;
	sbuf_add(b, " (");
	if (hostmap_vm_tids(p->map, vm->of, b))
		b->error = -ENOMEM;
	sbuf_addf(b, "%s)", basis ? basis : "");
}

static void add_pairing(const struct pairing *p, const struct pairing_guest *g, struct sbuf *b)
{
	const struct match *m = &g->match;

	if (m->by == MATCH_ONLY_VM) {
		add_vm(p, g, b);
		sbuf_add(b, ": the only VM there");
	} else if (m->by == MATCH_BY_EVENTS) {
		add_vm(p, g, b);
		sbuf_addf(b, ": all %" PRIu64 " events fit", m->checked);
		if (m->others)
			sbuf_addf(b, "; in the next best VM %" PRIu64 " of %" PRIu64 " are outside", m->others_outside,
				  m->others);
		else
			sbuf_add(b, ", and no other VM");
	}
}

/* Half of it, in the unit of both. */
static void add_bound(const struct pairing *p, uint64_t width, struct sbuf *b)
{
	sbuf_add(b, "+-");
	pairing_add_magnitude(b, width / 2 + width % 2, p->host.cap->tsc_khz);
}

static void add_offset(const struct pairing *p, const struct solution *s, struct sbuf *b)
{
	if (!s->n_own) {
		sbuf_addf(b, "TSC offset %" PRId64 " ", (int64_t)s->r.offset);
		add_bound(p, solution_width(s), b);
		sbuf_addf(b, ", found in %" PRIu64 " events", s->r.inside + s->r.outside);
		return;
	}
	sbuf_add(b, "TSC offsets found in the events:");
	for (size_t i = 0; i < s->n_own; i++) {
		const struct solution_vcpu *o = &s->own[i];

		sbuf_addf(b, "%s vCPU %" PRIu32 " %" PRId64, i ? "," : "", o->id,
			  (int64_t)(o->nparts ? o->part[0].r.offset : o->r.offset));
		for (size_t k = 1; k < o->nparts; k++)
			sbuf_addf(b, " then %" PRId64, (int64_t)o->part[k].r.offset);
	}
	sbuf_add(b, ", each ");
	add_bound(p, solution_width(s), b);
}

static void tell(const char *path, struct sbuf *b)
{
	if (b->len || b->error)
		cli_note("%s: %s", path, b->error ? "out of memory" : b->s);
	sbuf_reset(b);
}

void pairing_tell_assumed(const struct pairing *p)
{
	struct sbuf b = { 0 };

	for (size_t i = 0; i < p->nguest; i++) {
		const struct pairing_guest *g = &p->guest[i];

		add_pairing(p, g, &b);
		tell(g->c.cap->path, &b);
		if (g->match.solved || g->match.sol.n_own)
			add_offset(p, &g->match.sol, &b);
		tell(g->c.cap->path, &b);
	}
	sbuf_free(&b);
}
