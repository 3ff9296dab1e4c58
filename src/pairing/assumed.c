/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * assumed.c: what was concluded because it was not recorded: which threads are a VM, which VM a
 * guest's capture belongs to, the offset by which its stamps were moved. It is reported, so that it
 * can be contradicted.
 */
#include "kvmft/pairing.h"

#include <inttypes.h>

static const char *const basis_texts[] = {
	[HOSTMAP_BY_WAKES] = ", one VM since they wake each other",
	[HOSTMAP_BY_IDS] = ", taken for one VM by their ids",
	[HOSTMAP_BY_GUEST] = ", the threads that fit its events",
};

/* "pid:152 (tids:213,215, one VM since they wake each other)" */
static void add_vm(const struct hostmap *map, const struct match *m, struct sbuf *b)
{
	const struct hostmap_vm *vm = &map->vm[map->vm[m->vm].of];
	const char *basis = vm->basis < ARRAY_SIZE(basis_texts) ? basis_texts[vm->basis] : NULL;

	sbuf_add(b, vm->label);
	if (vm->basis == HOSTMAP_RECORDED)
		return;
	sbuf_add(b, " (");
	if (hostmap_vm_tids(map, vm->of, b))
		b->error = -ENOMEM;
	sbuf_addf(b, "%s)", basis ?: "");
}

static void add_pairing(const struct hostmap *map, const struct match *m, struct sbuf *b)
{
	if (m->by == MATCH_ONLY_VM) {
		add_vm(map, m, b);
		sbuf_add(b, ": the only VM there");
	} else if (m->by == MATCH_BY_EVENTS) {
		add_vm(map, m, b);
		sbuf_addf(b, ": all %" PRIu64 " events fit", m->checked);
		if (m->others)
			sbuf_addf(b, "; in the next best VM %" PRIu64 " of %" PRIu64 " are outside",
				  m->others_outside, m->others);
		else
			sbuf_add(b, ", and no other VM");
	}
}

static void add_bound(const struct hostmap *map, const struct solution *s, struct sbuf *b)
{
	sbuf_add(b, "+-");
	pairing_add_magnitude(b, solution_bound(s), map->cap);
}

static void add_ratio(const struct tsc_map *m, struct sbuf *b)
{
	if (m->ratio && m->ratio != 1ull << m->frac)
		sbuf_addf(b, ", TSC ratio %" PRIu64 "/%u", m->ratio, m->frac);
}

static void add_offset(const struct hostmap *map, const struct solution *s, struct sbuf *b)
{
	if (!s->n_own) {
		sbuf_addf(b, "%s %" PRId64 " ", pairing_offset_name(map->cap),
			  (int64_t)s->r.offset);
		add_bound(map, s, b);
		sbuf_addf(b, ", found in %" PRIu64 " events", s->r.inside + s->r.outside);
		add_ratio(&s->map, b);
		return;
	}
	sbuf_addf(b, "%ss found in the events:", pairing_offset_name(map->cap));
	for (size_t i = 0; i < s->n_own; i++) {
		const struct solution_vcpu *o = &s->own[i];

		sbuf_addf(b, "%s vCPU %" PRIu32 " %" PRId64, i ? "," : "", o->id,
			  (int64_t)o->r.offset);
	}
	sbuf_add(b, ", each ");
	add_bound(map, s, b);
	add_ratio(&s->map, b);
}

static void tell(const char *path, struct sbuf *b, note_fn *note)
{
	if (b->len || b->error)
		note("%s: %s", path, b->error ? "out of memory" : b->s);
	sbuf_reset(b);
}

void pairing_tell_match(const struct hostmap *map, const struct capture *guest,
			const struct match *m, note_fn *note)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	add_pairing(map, m, &b);
	tell(guest->path, &b, note);
	if (m->against && m->against_of)
		sbuf_addf(&b, "the recorded %s is not the guest's: %" PRIu64 " of %" PRIu64
			  " events contradict it", pairing_offset_name(map->cap), m->against,
			  m->against_of);
	else if (m->against)
		sbuf_addf(&b, "the recorded %s is not the guest's: with it no event is between an "
			  "entry and an exit", pairing_offset_name(map->cap));
	tell(guest->path, &b, note);
	if (m->solved || m->sol.n_own)
		add_offset(map, &m->sol, &b);
	tell(guest->path, &b, note);
}

void pairing_tell_assumed(const struct pairing *p, note_fn *note)
{
	for (size_t i = 0; i < p->nguest; i++)
		pairing_tell_match(p->map, p->guest[i].c.cap, &p->guest[i].match, note);
}
