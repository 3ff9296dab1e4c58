/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * msr_pairs.c: matches MSR accesses that host and guest both traced, per vCPU and by value.
 *
 * Each vCPU keeps the last few accesses of either side that wait for the other. Deadlines are
 * unique, so any that is still waiting matches. Other values repeat: for them the newest waiting
 * one is meant, and one that waits longer than an access can take was seen by one side only.
 */
#include "kvmft/timeline.h"
#include "kvmft/events.h"

#define WAITING 64 /* accesses remembered per vCPU and side */
/* Cycles between both sides of a repeated value; with more it was another access. */
#define REPEATED_MAX	 (1u << 24) /* some ms, the guest's after the host's */
#define REPEATED_REVERSE (1u << 17) /* some 50 us, which only happens when misaligned */

const char *const msr_pair_names[MSR_PAIR_KINDS] = {
	[MSR_PAIR_DEADLINE] = "tsc_deadline",
	[MSR_PAIR_ICR] = "icr",
	[MSR_PAIR_RDMSR] = "rdmsr_0x11",
};

static const struct {
	uint32_t msr;
	bool write, unique;
} kinds[MSR_PAIR_KINDS] = {
	[MSR_PAIR_DEADLINE] = { 0x6e0, true, true },
	[MSR_PAIR_ICR] = { 0x830, true, false },
	[MSR_PAIR_RDMSR] = { 0x11, false, false },
};

struct access {
	uint64_t host, value;
	enum msr_pair kind;
	bool waits;
};

struct msr_pair_vcpu {
	size_t vm;
	struct {
		struct access a[WAITING];
		size_t next;
	} side[2]; /* 0 host, 1 guest */
};

struct msr_pairs {
	const struct timeline *t;
	struct msr_pair_vcpu *v;
	size_t cap;
	struct u64map by_key;
	struct msr_pair_stats **stats; /* vm * MSR_PAIR_KINDS + kind; NULL = never seen */
	size_t nvm;
};

bool msr_pair_match(bool guest, const struct fmt_event *ev, const struct rec *rec,
		    enum msr_pair *kind, uint64_t *value)
{
	const struct event_type *e = event_type_of(ev);
	uint64_t msr, write = e->role == EV_WRITE_MSR;

	if (guest ? e->role != EV_READ_MSR && !write : e->role != EV_MSR)
		return false;
	if (!fmt_u64(&e->f[!guest], rec, &msr) || !fmt_u64(&e->f[1 + !guest], rec, value) ||
	    (!guest && !fmt_u64(&e->f[0], rec, &write)))
		return false;
	for (int k = 0; k < MSR_PAIR_KINDS; k++) {
		if (kinds[k].msr != (uint32_t)msr || kinds[k].write != !!write)
			continue;
		*kind = (enum msr_pair)k;
		/* Deadline 0 disarms the timer: not unique, and no moment worth knowing. */
		return k != MSR_PAIR_DEADLINE || *value;
	}
	return false;
}

void msr_pairs_new(const struct timeline *t, struct msr_pairs **out)
{
	struct msr_pairs *p = xcalloc(1, sizeof(*p));

	*out = p;
	p->t = t;
	p->nvm = tl_hostmap(t)->nvm;
	p->stats = xcalloc((p->nvm ?: 1) * MSR_PAIR_KINDS, sizeof(*p->stats));
}

/* The newest access waiting on that side for this one; NULL if there is none. */
static struct access *access_partner(struct msr_pair_vcpu *v, int side, const struct access *a)
{
	for (size_t i = 1; i <= WAITING; i++) {
		struct access *o = &v->side[side].a[(v->side[side].next + WAITING - i) % WAITING];

		if (!o->waits || o->kind != a->kind || o->value != a->value)
			continue;
		if (kinds[a->kind].unique ||
		    a->host - o->host <= (side ? REPEATED_REVERSE : REPEATED_MAX))
			return o;
	}
	return NULL;
}

static void access_alone(struct msr_pairs *p, const struct msr_pair_vcpu *v, int side,
			 struct access *a)
{
	struct msr_pair_stats *s = a->waits ? p->stats[v->vm * MSR_PAIR_KINDS + a->kind] : NULL;

	if (s && side)
		s->alone_guest++;
	else if (s)
		s->alone_host++;
	a->waits = false;
}

static void feed_access(struct msr_pairs *p, size_t vm, uint32_t vcpu, int side,
		       const struct access *a)
{
	struct msr_pair_vcpu *v =
		xu64map_elem(&p->by_key, (uint64_t)vm << 32 | vcpu, &p->v, &p->cap, sizeof(*v));
	struct msr_pair_stats **slot = &p->stats[vm * MSR_PAIR_KINDS + a->kind], *s;
	struct access *o;

	s = *slot = *slot ?: xcalloc(1, sizeof(*s));
	v->vm = vm;
	o = access_partner(v, !side, a);
	if (o) {
		int64_t distance = (int64_t)(side ? a->host - o->host : o->host - a->host);

		o->waits = false;
		if (!s->n++ || distance < s->min)
			s->min = distance;
		if (s->n == 1 || distance > s->max)
			s->max = distance;
		if (distance < 0)
			s->violations++;
		else
			loghist_add(&s->late, (uint64_t)distance);
		return;
	}
	o = &v->side[side].a[v->side[side].next++ % WAITING];
	access_alone(p, v, side, o);
	*o = *a;
}

void msr_pairs_feed(void *pairs, const struct tl_item *i)
{
	struct msr_pairs *p = pairs;
	struct access a = { .host = i->host, .waits = true };

	if (i->kind != TL_EVENT || i->vcpu < 0 || i->vm < 0 || i->unplaced ||
	    !msr_pair_match(i->src->guest, i->ev, i->rec, &a.kind, &a.value))
		return;
	if (i->src->guest) {
		feed_access(p, i->src->vm, (uint32_t)i->vcpu, 1, &a);
		return;
	}
	/* The other side may be in any capture of the VM. */
	for (size_t vm = (size_t)i->vm; vm != HOSTMAP_END; vm = tl_hostmap(p->t)->vm[vm].next)
		feed_access(p, vm, (uint32_t)i->vcpu, 0, &a);
}

void msr_pairs_finish(struct msr_pairs *p)
{
	for (size_t k = 0; k < p->by_key.n; k++)
		for (int side = 0; side < 2; side++)
			for (size_t i = 0; i < WAITING; i++)
				access_alone(p, &p->v[k], side, &p->v[k].side[side].a[i]);
}

const struct msr_pair_stats *msr_pairs_get(const struct msr_pairs *p, size_t vm, enum msr_pair kind)
{
	return vm < p->nvm ? p->stats[vm * MSR_PAIR_KINDS + kind] : NULL;
}

bool msr_pairs_possible(const struct msr_pairs *p, size_t vm)
{
	bool host = false, guest = false;

	for (size_t i = 0; i < tl_sources(p->t); i++) {
		const struct tl_source *s = tl_source(p->t, i);

		host |= !s->guest && event_find(s->fmt, EV_MSR, 3)->ev;
		guest |= s->guest && s->vm == vm && (event_find(s->fmt, EV_READ_MSR, 2)->ev ||
						     event_find(s->fmt, EV_WRITE_MSR, 2)->ev);
	}
	return host && guest;
}

void msr_pairs_free(struct msr_pairs *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->stats && i < p->nvm * MSR_PAIR_KINDS; i++) {
		loghist_free(p->stats[i] ? &p->stats[i]->late : NULL);
		free(p->stats[i]);
	}
	free(p->stats);
	free(p->v);
	u64map_free(&p->by_key);
	free(p);
}
