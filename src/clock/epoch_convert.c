/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epoch_convert.c: conversions through a vCPU's epochs.
 *
 * Neighbouring epochs that agree in what a conversion needs count as one span, so that a new
 * pvclock record does not make guest TSC conversions ambiguous. Towards the host every span is
 * tried; a candidate is its preimage, cut to the span's host interval.
 */
#include "kvmft/epoch.h"
#include "kvmft/util.h"
#include "wide.h"

long epoch_index(const struct epoch_vcpu *c, uint64_t host)
{
	return (long)COUNT_BEFORE(i, c->n, c->v[i].from <= host) - 1;
}

/*
 * The last epoch has no end, but host TSCs do: guest TSCs older than the newest offset would
 * otherwise come out of the wrapping subtraction as host TSCs in the far future, and look like a
 * second place. 2^60 cycles are seven years at 5 GHz.
 */
#define LAST_EPOCH_CYCLES (1ULL << 60)

/* Epochs [first, end) as one, in force at host TSCs [from, to]. */
struct span {
	size_t first, end;
	uint64_t from, to;
	const struct tsc_map *map;
	const struct pvclock *pv; /* NULL: not requested, or none */
	bool borrowed;
};

/* One possible host time of a value. */
struct candidate {
	struct span span;
	uint64_t lo, hi;
	unsigned int count; /* separate places found so far */
	bool doubtful, borrowed;
};

static bool same_map(const struct epoch *a, const struct epoch *b)
{
	return a->has_map && b->has_map && tsc_map_equal(&a->map, &b->map);
}

/* Record in force in epoch @i, or the first one announced later under the same map; else NULL. */
static const struct pvclock *record_of(const struct epoch_vcpu *c, size_t i, bool *borrowed)
{
	size_t k;

	for (k = i; k < c->n && same_map(&c->v[i], &c->v[k]); k++) {
		if (!c->v[k].has_pv)
			continue;
		*borrowed = k != i;
		return &c->v[k].pv;
	}
	return NULL;
}

/* The span that begins with epoch @i; with @pv it also agrees in the record. */
static struct span span_at(const struct epoch_vcpu *c, size_t i, bool pv)
{
	struct span s = { .first = i, .from = c->v[i].from, .map = &c->v[i].map };
	const struct pvclock *other;
	bool borrowed = false;
	size_t k;

	if (pv)
		s.pv = record_of(c, i, &s.borrowed);
	for (k = i + 1; k < c->n && same_map(&c->v[i], &c->v[k]); k++) {
		if (!pv)
			continue;
		other = record_of(c, k, &borrowed);
		if (!s.pv != !other || (other && !pvclock_same_body(s.pv, other)))
			break;
		/* the borrowed part is a span of its own, so that its results are marked */
		if (borrowed != s.borrowed)
			break;
	}
	s.end = k;
	if (k < c->n)
		s.to = c->v[k].from - 1;
	else
		s.to = s.from < UINT64_MAX - LAST_EPOCH_CYCLES ? s.from + LAST_EPOCH_CYCLES
							       : UINT64_MAX;
	return s;
}

static u128 scaled(const struct tsc_map *m, uint64_t host)
{
	return tsc_map_unscaled(m) ? host : ((u128)host * m->ratio) >> m->frac;
}

/*
 * Host TSCs of the guest TSCs [a, b] within span @s; false if there are none. Comparing scaled
 * values needs no division and rejects most spans.
 */
static bool guest_in_span(const struct span *s, uint64_t a, uint64_t b, uint64_t *lo, uint64_t *hi)
{
	uint64_t xa = a - s->map->offset, xb = b - s->map->offset, unused;

	if (xb < xa || xb < scaled(s->map, s->from) || xa > scaled(s->map, s->to))
		return false;
	if (tsc_to_host(s->map, a, lo, &unused))
		return false;
	if (a == b)
		*hi = unused;
	else if (tsc_to_host(s->map, b, &unused, hi))
		*hi = UINT64_MAX;
	if (*hi < *lo)
		*hi = *lo;
	if (*lo < s->from)
		*lo = s->from;
	if (*hi > s->to)
		*hi = s->to;
	return *lo <= *hi;
}

static bool any_doubtful(const struct epoch_vcpu *c, const struct span *s, uint64_t lo, uint64_t hi)
{
	size_t i;

	for (i = s->first; i < s->end; i++) {
		uint64_t to = i + 1 < c->n ? c->v[i + 1].from - 1 : UINT64_MAX;

		if (c->v[i].doubtful && c->v[i].from <= hi && to >= lo)
			return true;
	}
	return false;
}

/* Join [lo, hi] to what was found: touching ranges are one place, separate ones two. */
static void add_candidate(struct candidate *k, const struct epoch_vcpu *c, const struct span *s,
			  uint64_t lo, uint64_t hi)
{
	if (k->count && k->hi + 1 == lo && k->span.end == s->first) {
		k->hi = hi;
	} else {
		k->count++;
		k->lo = lo;
		k->hi = hi;
		k->span = *s;
	}
	k->span.end = s->end;
	k->doubtful |= (c->notes & EPOCH_NOTE_RATIO_UNKNOWN) || any_doubtful(c, s, lo, hi);
	k->borrowed |= s->borrowed;
}

static enum epoch_result judge(const struct candidate *k)
{
	if (k->count != 1)
		return k->count ? EPOCH_AMBIGUOUS : EPOCH_NONE;
	return k->doubtful ? EPOCH_DOUBTFUL : k->borrowed ? EPOCH_BORROWED : EPOCH_EXACT;
}

static enum epoch_result find_guest(const struct epoch_vcpu *c, uint64_t guest, bool pv,
				    struct candidate *k)
{
	uint64_t lo, hi;
	struct span s;
	size_t i;

	*k = (struct candidate){ 0 };
	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	for (i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, pv);
		if (guest_in_span(&s, guest, guest, &lo, &hi))
			add_candidate(k, c, &s, lo, hi);
	}
	/* Does one that no epoch accepts belong to a time before the first? */
	if (!k->count && !tsc_to_host(&c->v[0].map, guest, &lo, &hi) && lo < c->v[0].from)
		return EPOCH_BEFORE_FIRST;
	return judge(k);
}

/* Stores [a, b], if there is a result. */
static enum epoch_result give(enum epoch_result r, uint64_t a, uint64_t b, uint64_t *lo,
			      uint64_t *hi)
{
	if (epoch_result_usable(r)) {
		*lo = a;
		*hi = b;
	}
	return r;
}

enum epoch_result epoch_guest_to_host(const struct epoch_vcpu *c, uint64_t guest, uint64_t *lo,
				      uint64_t *hi)
{
	struct candidate k;
	enum epoch_result r = find_guest(c, guest, false, &k);

	return give(r, k.lo, k.hi, lo, hi);
}

bool epoch_guest_line(const struct epoch_vcpu *c, uint64_t guest, struct epoch_line *line)
{
	uint64_t below = UINT64_MAX, above = UINT64_MAX, first, last;
	size_t found = 0;
	struct span s;

	if (!c || !c->n || !c->v[0].has_map)
		return false;
	for (size_t i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, false);
		if (!tsc_map_unscaled(s.map))
			return false;
		/* Its guest TSCs, which may wrap: so only distances are compared. */
		first = s.map->offset + s.from;
		last = s.map->offset + s.to;
		if (guest - first <= last - first) {
			found++;
			line->offset = s.map->offset;
			below = MIN(below, guest - first);
			above = MIN(above, last - guest);
		} else {
			below = MIN(below, guest - last - 1);
			above = MIN(above, first - guest - 1);
		}
	}
	line->from = guest - below;
	line->len = below + above; /* not the last one: that would be 0 if it were all of them */
	return found == 1;
}

/* Cut the guest TSCs [*a, *b] to those read in span @s, given their host TSCs [lo, hi] there. */
static void cut_guest(const struct span *s, uint64_t lo, uint64_t hi, uint64_t *a, uint64_t *b)
{
	uint64_t first = tsc_to_guest(s->map, lo), last = tsc_to_guest(s->map, hi);

	if (lo == s->from && first > *a && first <= *b)
		*a = first;
	if (hi == s->to && last < *b && last >= *a)
		*b = last;
}

/* kvmclock [ns] in every span with a record; the guest TSCs go to @glo, @ghi. */
static enum epoch_result find_kvmclock(const struct epoch_vcpu *c, uint64_t ns, struct candidate *k,
				       uint64_t *glo, uint64_t *ghi)
{
	uint64_t lo, hi, a, b;
	bool any = false;
	struct span s;
	size_t i;

	*k = (struct candidate){ 0 };
	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	for (i = 0; i < c->n; i = s.end) {
		s = span_at(c, i, true);
		any |= s.pv != NULL;
		if (!s.pv || pvclock_to_tsc_range(s.pv, ns, &a, &b))
			continue;
		if (b < a)
			b = a;
		if (!guest_in_span(&s, a, b, &lo, &hi))
			continue;
		add_candidate(k, c, &s, lo, hi);
		cut_guest(&s, lo, hi, &a, &b);
		*glo = k->lo == lo ? a : *glo;
		*ghi = b;
	}
	return any ? judge(k) : EPOCH_NO_RECORD;
}

enum epoch_result epoch_kvmclock_to_host(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					 uint64_t *hi)
{
	uint64_t a = 0, b = 0;
	struct candidate k;
	enum epoch_result r = find_kvmclock(c, ns, &k, &a, &b);

	return give(r, k.lo, k.hi, lo, hi);
}

enum epoch_result epoch_kvmclock_to_guest(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					  uint64_t *hi)
{
	uint64_t a = 0, b = 0;
	struct candidate k;
	enum epoch_result r = find_kvmclock(c, ns, &k, &a, &b);

	if (epoch_result_usable(r) && b < a) /* two touching places under different maps */
		return EPOCH_AMBIGUOUS;
	return give(r, a, b, lo, hi);
}

/* Epoch in force at @host in *i, with the result its map deserves. */
static enum epoch_result at_host(const struct epoch_vcpu *c, uint64_t host, size_t *i)
{
	long idx;

	if (!c || !c->n || !c->v[0].has_map)
		return EPOCH_NO_MAP;
	idx = epoch_index(c, host);
	if (idx < 0)
		return EPOCH_BEFORE_FIRST;
	*i = (size_t)idx;
	if (c->v[idx].doubtful || (c->notes & EPOCH_NOTE_RATIO_UNKNOWN))
		return EPOCH_DOUBTFUL;
	return EPOCH_EXACT;
}

enum epoch_result epoch_host_to_guest(const struct epoch_vcpu *c, uint64_t host, uint64_t *guest)
{
	size_t i;
	enum epoch_result r = at_host(c, host, &i);

	if (epoch_result_usable(r))
		*guest = tsc_to_guest(&c->v[i].map, host);
	return r;
}

/* Apply the record of epoch @i to a guest TSC; @r is what is known about the epoch. */
static enum epoch_result read_record(const struct epoch_vcpu *c, size_t i, uint64_t guest,
				     enum epoch_result r, uint64_t *ns)
{
	bool borrowed = false;
	const struct pvclock *pv = record_of(c, i, &borrowed);

	if (!pv)
		return EPOCH_NO_RECORD;
	if (pvclock_to_ns(pv, guest, ns))
		return EPOCH_RANGE;
	return r == EPOCH_EXACT && borrowed ? EPOCH_BORROWED : r;
}

enum epoch_result epoch_host_to_kvmclock(const struct epoch_vcpu *c, uint64_t host, uint64_t *ns)
{
	size_t i;
	enum epoch_result r = at_host(c, host, &i);

	if (!epoch_result_usable(r))
		return r;
	return read_record(c, i, tsc_to_guest(&c->v[i].map, host), r, ns);
}

enum epoch_result epoch_guest_to_kvmclock(const struct epoch_vcpu *c, uint64_t guest, uint64_t *ns)
{
	struct candidate k;
	enum epoch_result r = find_guest(c, guest, false, &k);
	long i;

	if (!epoch_result_usable(r))
		return r;
	/* the host cycles of one guest TSC may straddle a new record; its first cycle decides */
	i = epoch_index(c, k.lo);
	return read_record(c, (size_t)i, guest, r, ns);
}
