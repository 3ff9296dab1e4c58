/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge.c: a verdict in words: what it rests on, where to look, what to record.
 */
#include "kvmft/verify.h"

#include <errno.h>
#include <inttypes.h>

int verify_reason(struct verify_guest *g, struct sbuf *b)
{
	char **slot = array_grow(&g->reason, g->nreason, &g->reason_cap, sizeof(*slot));
	char *text = sbuf_take(b);

	if (!slot || !text) {
		free(text);
		return -ENOMEM;
	}
	*slot = text;
	g->nreason++;
	return 0;
}

void verify_time(const struct verify *v, uint64_t host, struct sbuf *b)
{
	uint64_t begin = v->host_first, ns;

	if (!v->khz || host < begin) {
		sbuf_addf(b, "host TSC %" PRIu64, host);
		return;
	}
	ns = tsc_cycles_to_ns(host - begin, v->khz);
	sbuf_addf(b, "%" PRIu64 ".%06" PRIu64 " s (host TSC %" PRIu64 ")", ns / 1000000000,
		  ns % 1000000000 / 1000, host);
}

/* The map that the host recorded for all vCPUs while the guest's events happened; NULL: there is no such one. */
static const struct tsc_map *recorded_map(const struct verify_guest *g)
{
	const struct pairing_recorded *r = g->g->recorded;
	const struct tsc_map *map = NULL;

	for (size_t i = 0; i < g->g->nrecorded; i++) {
		if (r[i].from > g->last)
			continue;
		if (i + 1 < g->g->nrecorded && r[i + 1].vcpu == r[i].vcpu && r[i + 1].from <= g->first)
			continue;
		if (!r[i].sure || (map && !tsc_map_equal(map, &r[i].map)))
			return NULL;
		map = &r[i].map;
	}
	return map;
}

/*
 * What was given by hand against what the host recorded: by how many cycles guest times would have to
 * be moved. Windows leave some room to either side; the record leaves none. NULL: they are the same, or
 * it is not one number.
 */
static const struct tsc_map *off_record(const struct verify *v, const struct verify_guest *g, int64_t *by)
{
	const struct tsc_map *given = &v->p.map->vm[g->g->vm].forced, *map = recorded_map(g);
	struct tsc_map shifted;
	uint64_t host, hi;

	if (g->solved || !map)
		return NULL;
	shifted = *map;
	shifted.offset = given->offset;
	if (!tsc_map_equal(&shifted, given) || tsc_to_host(map, tsc_to_guest(given, g->first), &host, &hi))
		return NULL;
	*by = (int64_t)(host - g->first);
	return *by ? map : NULL;
}

/* The windows hold for both, so it is the record that decides. */
static bool record_contradicts(const struct verify *v, const struct verify_guest *g)
{
	int64_t by;

	return off_record(v, g, &by) && by >= g->a.shift_lo && by <= g->a.shift_hi;
}

static int record_reason(const struct verify *v, struct verify_guest *g)
{
	struct sbuf b = { 0 };
	const struct tsc_map *map;
	int64_t by;

	map = off_record(v, g, &by);
	if (!map)
		return 0;
	sbuf_addf(&b, "the host recorded TSC offset %" PRId64 ": by that, guest times would be moved by ",
		  (int64_t)map->offset);
	pairing_add_cycles(&b, by, v->khz);
	return verify_reason(g, &b);
}

/* ", 4617 not checkable: 12 before or after the host's recording, ..." */
static void add_unchecked(const struct align *a, struct sbuf *b)
{
	uint64_t rest = a->total.unchecked - a->apart;

	if (!a->total.unchecked)
		return;
	sbuf_addf(b, "; not checkable: ");
	if (a->apart)
		sbuf_addf(b, "%" PRIu64 " outside of the host's recording", a->apart);
	if (rest)
		sbuf_addf(b, "%s%" PRIu64 " (%u %%) in it", a->apart ? ", " : "", rest, 100 - a->share);
}

/* vCPUs of which nothing could be checked, by number. */
static int blind_reason(const struct verify *v, struct verify_guest *g)
{
	struct sbuf b = { 0 };

	if (!g->a.vcpus_blind)
		return 0;
	for (size_t k = 0; k < win_count(v->w); k++) {
		const struct win_vcpu *c = win_vcpu(v->w, k);

		if (c->vm == g->g->vm && !c->s.checked && c->s.unchecked)
			sbuf_addf(&b, "%s %" PRIu32, b.len ? "," : "not checked at all: vCPU", c->vcpu);
	}
	sbuf_addf(&b, ": %s", g->a.windows ? "no entry or exit of it on the host while its guest had events" :
					     "the host shows no entries and exits");
	return verify_reason(g, &b);
}

/*
 * The slack is that of one shift of all vCPUs, from the offsets used. Where these were found in the events each
 * vCPU may be off by as much as the search left open.
 */
static uint64_t bound(const struct verify *v, const struct verify_guest *g)
{
	uint64_t slack = (uint64_t)MAX(-g->a.shift_lo, g->a.shift_hi);

	return MAX(slack, v->p.map->vm[g->g->vm].uncertain);
}

static int aligned(struct verify *v, struct verify_guest *g)
{
	const struct align *a = &g->a;
	struct sbuf b = { 0 };
	int ret;

	sbuf_add(&b, "aligned within ");
	pairing_add_magnitude(&b, bound(v, g), v->khz);
	ret = verify_reason(g, &b);
	sbuf_addf(&b, "all %" PRIu64 " guest events that could be checked lie in the %" PRIu64
		      " entry..exit windows of their vCPUs", a->total.checked, a->windows);
	add_unchecked(a, &b);
	if (!ret)
		ret = verify_reason(g, &b);
	if (!ret)
		ret = blind_reason(v, g);
	sbuf_add(&b, "moved by more than ");
	pairing_add_cycles(&b, a->shift_lo, v->khz);
	sbuf_add(&b, " or ");
	pairing_add_cycles(&b, a->shift_hi, v->khz);
	sbuf_add(&b, ", one of them would not");
	return ret ? ret : verify_reason(g, &b);
}

/* Where the outside events are: that tells a wrong offset from a missed change of it. */
static int misaligned_where(struct verify *v, struct verify_guest *g)
{
	const struct align *a = &g->a;
	struct sbuf b = { 0 };

	if (a->vcpus_bad == 1 && a->vcpus > 1)
		sbuf_addf(&b, "only vCPU %" PRIu32 " of %zu is concerned: its offset differs", a->bad_vcpu,
			  a->vcpus);
	else
		sbuf_addf(&b, "%zu of %zu vCPUs are concerned", a->vcpus_bad, a->vcpus);
	sbuf_add(&b, "; from ");
	verify_time(v, a->bad_from, &b);
	sbuf_add(&b, " to ");
	verify_time(v, a->bad_to, &b);
	/* Of a wrong constant some are outside, here and there; after a change, most. */
	if (a->bad_after_good > 50 && a->total.outside * 4 > a->bad_inside - a->bad_after_good)
		sbuf_addf(&b, "; the %" PRIu64 " events before that were inside: the offset changed, or host "
			      "events were lost, at that time", a->bad_after_good);
	return verify_reason(g, &b);
}

/* What is wrong, if it can be told: a constant, or the rate. */
static int misaligned_by(struct verify *v, struct verify_guest *g)
{
	const struct align *a = &g->a;
	struct sbuf b = { 0 };

	if (g->sol.r.found && !g->sol.r.outside && g->has_map)
		return 0; /* the solution says it better */
	if (a->has_shift && (a->shift_lo > 0 || a->shift_hi < 0)) {
		sbuf_add(&b, "the offset is wrong: all events would be inside if guest times were moved by ");
		pairing_add_cycles(&b, a->shift_lo, v->khz);
		sbuf_add(&b, " to ");
		pairing_add_cycles(&b, a->shift_hi, v->khz);
	} else if (a->has_drift && (a->drift_lo > 0 || a->drift_hi < 0) && a->drift_lo <= a->drift_hi) {
		sbuf_addf(&b, "the rate is wrong: guest times drift by %+" PRId64 " to %+" PRId64
			      " parts per 10^9 (see --tsc-ratio)",
			  -a->drift_hi, -a->drift_lo);
	} else {
		sbuf_add(&b, "no single shift of all guest times mends it");
	}
	return verify_reason(g, &b);
}

static int misaligned(struct verify *v, struct verify_guest *g)
{
	const struct align *a = &g->a;
	struct sbuf b = { 0 };
	int ret;

	if (!a->total.checked && verify_elsewhere(v, g)) {
		sbuf_add(&b, "misaligned: the guest's events are placed outside of the time that the host recorded");
		return verify_reason(g, &b);
	}
	if (!a->total.outside && record_contradicts(v, g)) {
		sbuf_add(&b, "misaligned: the windows hold, but the TSC offset is not the one that the host recorded, "
			     "for which they hold as well");
		return verify_reason(g, &b);
	}
	if (!a->total.outside) {
		sbuf_add(&b, "misaligned: guest events come before the host events that they follow from");
		return verify_reason(g, &b);
	}
	sbuf_addf(&b, "misaligned: %" PRIu64 " of %" PRIu64 " guest events lie outside of their vCPU's "
		      "windows, by up to ", a->total.outside, a->total.checked);
	pairing_add_magnitude(&b, (uint64_t)a->total.outside_max, v->khz);
	ret = verify_reason(g, &b);
	if (!ret)
		ret = misaligned_by(v, g);
	return ret ? ret : misaligned_where(v, g);
}

bool verify_elsewhere(const struct verify *v, const struct verify_guest *g)
{
	return g->a.windows && g->first && (g->last < v->host_first || g->first > v->host_last);
}

static void unknown_cause(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct hostmap *map = v->p.map;

	if (!map->entries || !map->exits)
		sbuf_addf(b, "the host capture has %" PRIu64 " kvm_entry and %" PRIu64 " kvm_exit events: record "
			     "the host with -e kvm:kvm_entry -e kvm:kvm_exit (some software KVMs never emit them)",
			  map->entries, map->exits);
	else if (!g->a.windows)
		sbuf_addf(b, "the host capture shows no entries and exits of the vCPUs of %s: it did not run then, "
			     "or GUEST=SEL names the wrong VM",
			  map->vm[g->g->vm].label);
	else if (!g->src->events)
		sbuf_add(b, "the guest capture is empty: record events that happen in the guest, such as sched:* "
			    "and irq_vectors:*");
	else if (g->src->unplaced == g->src->events)
		sbuf_add(b, "no stamp of the guest can be converted: the captures do not tell the TSC offset of its "
			    "vCPUs, or another one; give --tsc-offset N (kvmft list and debugfs show it), or use "
			    "--solve");
	else if (g->solved && !solution_is_sure(verify_solution(g)))
		sbuf_add(b, "the offset, which only the events tell, is not the only one that would do: "
			    "record longer, or give --tsc-offset N");
	else if (g->a.total.checked && g->a.share < ALIGN_MIN_SHARE)
		sbuf_addf(b, "that is %u %% of those in the host's recording, where %u %% are needed; "
			     "they fit", g->a.share, ALIGN_MIN_SHARE);
	else if (verify_elsewhere(v, g))
		sbuf_add(b, "the guest's events lie outside of the time that the host recorded: not recorded at the "
			    "same time, or the offset is wrong; --solve tells");
	else
		sbuf_add(b, "too few guest events stand between an entry and an exit of their vCPU: record longer, "
			    "with events that are frequent in the guest (sched:*, irq_vectors:*, timer:*)");
}

static int unknown(struct verify *v, struct verify_guest *g)
{
	struct sbuf b = { 0 };
	int ret;

	sbuf_addf(&b, "cannot tell: %" PRIu64 " guest events could be checked", g->a.total.checked);
	add_unchecked(&g->a, &b);
	ret = verify_reason(g, &b);
	unknown_cause(v, g, &b);
	if (!ret)
		ret = verify_reason(g, &b);
	return ret ? ret : blind_reason(v, g);
}

/* Deadlines are unique, so their order counts; that of values which repeat may be an accident. */
static int pair_reason(struct verify *v, struct verify_guest *g)
{
	const struct pair_stats *s = pairs_get(v->pairs, g->g->vm, PAIR_DEADLINE);
	struct sbuf b = { 0 };

	if (!s || !s->violations)
		return 0;
	sbuf_addf(&b, "%" PRIu64 " of %" PRIu64 " deadline writes are seen by the guest before the host serves "
		      "them, by up to ",
		  s->violations, s->n);
	pairing_add_magnitude(&b, (uint64_t)-s->min, v->khz);
	return verify_reason(g, &b);
}

/*
 * Windows say nothing against it, but order does. A few may be accidents: a deadline that was written
 * twice, of which a capture holds one.
 */
static bool pairs_contradict(const struct verify *v, const struct verify_guest *g)
{
	const struct pair_stats *s = pairs_get(v->pairs, g->g->vm, PAIR_DEADLINE);

	return s && s->violations > s->n / 100;
}

static int other_reasons(struct verify *v, struct verify_guest *g)
{
	struct sbuf b = { 0 };
	int ret = 0;

	if (g->src->unplaced && g->src->unplaced < g->src->events) {
		sbuf_addf(&b, "%" PRIu64 " of its stamps could not be placed and were left out", g->src->unplaced);
		ret = verify_reason(g, &b);
	}
	if (!ret && !v->complete) {
		sbuf_add(&b, "a capture is incomplete (see above): what was lost could not be checked");
		ret = verify_reason(g, &b);
	}
	return ret;
}

int verify_reasons(struct verify *v, struct verify_guest *g)
{
	int ret;

	if (g->a.kind != ALIGN_BAD && pairs_contradict(v, g))
		g->a.kind = ALIGN_BAD;
	if (g->a.kind == ALIGN_OK && record_contradicts(v, g))
		g->a.kind = ALIGN_BAD;
	if (g->a.kind == ALIGN_OK)
		ret = aligned(v, g);
	else if (g->a.kind == ALIGN_BAD)
		ret = misaligned(v, g);
	else
		ret = unknown(v, g);
	if (!ret)
		ret = verify_solution_reasons(v, g);
	if (!ret)
		ret = record_reason(v, g);
	if (!ret)
		ret = pair_reason(v, g);
	return ret ? ret : other_reasons(v, g);
}
