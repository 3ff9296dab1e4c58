/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify_judge.c: the facts for a verdict on each guest, and the verdict in words: what it is based
 * on, where to look, what to record.
 */
#include "kvmft/pairing.h"

#include "kvmft/hostmap.h"

/* ---- lines of text ---- */

/* Ends a line of g->reasons. */
static void judge_end(struct sbuf *b)
{
	sbuf_addc(b, '\0');
}

const char *verify_reason(const struct verify_guest *g, const char *after)
{
	const char *next = after ? after + strlen(after) + 1 : g->reasons.s;

	return next && next < g->reasons.s + g->reasons.len ? next : NULL;
}

/* "1.234567 s (host TSC 4711)", counted from the host's first event. */
static void add_time(const struct verify *v, uint64_t host, struct sbuf *b)
{
	uint64_t ns;

	if (!v->khz || host < v->host_first) {
		sbuf_addf(b, "host TSC %" PRIu64, host);
		return;
	}
	ns = tsc_cycles_to_ns(host - v->host_first, v->khz);
	sbuf_addf(b, "%" PRIu64 ".%06" PRIu64 " s (host TSC %" PRIu64 ")", ns / 1000000000,
		  ns % 1000000000 / 1000, host);
}

/* ---- facts ---- */

/* The one map that the host recorded for all vCPUs during the guest's events, or NULL. */
static const struct tsc_map *recorded_map(const struct verify_guest *g)
{
	const struct pairing_recorded *r = g->g->recorded;
	const struct tsc_map *map = NULL;

	for (size_t i = 0; i < g->g->nrecorded; i++) {
		bool followed = i + 1 < g->g->nrecorded && r[i + 1].vcpu == r[i].vcpu;

		if (r[i].from > g->last || (followed && r[i + 1].from <= g->first))
			continue;
		if (!r[i].sure || (map && !tsc_map_equal(map, &r[i].map)))
			return NULL;
		map = &r[i].map;
	}
	return map;
}

/*
 * What was given by hand compared with what the host recorded: by how many cycles guest times would
 * have to be moved. Windows leave some room on either side; the record leaves none. NULL: they are
 * the same, or it is not one number.
 */
static const struct tsc_map *off_record(const struct verify *v, const struct verify_guest *g,
					int64_t *by)
{
	const struct tsc_map *given = &v->p->map->vm[g->g->vm].forced, *map = recorded_map(g);
	struct tsc_map shifted;
	uint64_t host, hi;

	if (g->solved || !map)
		return NULL;
	shifted = *map;
	shifted.offset = given->offset;
	if (!tsc_map_equal(&shifted, given) ||
	    tsc_to_host(map, tsc_to_guest(given, g->first), &host, &hi))
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

/* The guest's events were placed where the host did not record, although it has windows. */
static bool is_of_other_host(const struct verify *v, const struct verify_guest *g)
{
	return g->a.windows && g->first && (g->last < v->host_first || g->first > v->host_last);
}

static const struct msr_pair_stats *guest_deadlines(const struct verify *v,
						    const struct verify_guest *g)
{
	return msr_pairs_get(v->pairs, g->g->vm, MSR_PAIR_DEADLINE);
}

const struct solution *verify_solution(const struct verify_guest *g)
{
	return g->sol.tried ? &g->sol : &g->g->match.sol;
}

/* Looks for the guest's offset in the data: g->sol. */
static int look_for_offset(struct verify *v, struct verify_guest *g, struct kvmft_err *err)
{
	const struct capture *cap = g->g->c.cap;
	const struct tsc_map none = { 0 }, *scale;
	struct solve *s = NULL;
	int ret = v->runs ? 0 : runs_collect(v->p->map, &v->runs, err);

	g->used = epoch_vm_first_map(v->p->map->vm[g->g->vm].epochs);
	scale = g->used ?: &none;
	if (ret)
		return ret;
	if (!own_tsc_is_exact(cap)) {
		g->sol.tried = true;
		g->sol.r.why = "only stamps in guest TSC show an offset: record the guest with "
			       "--clock x86-tsc";
		return 0;
	}
	ret = solve_captures(scale, v->p->map, g->g->vm, v->runs, cap, g->g->c.fmt, &s);
	if (!ret)
		solution_find(s, scale, &g->sol);
	solve_free(s);
	return ret ? err_set(err, -ret, "cannot solve %s: %s", cap->path, strerror(-ret)) : 0;
}

/* ---- offsets that the events ask for ---- */

/* How many other places there are. */
static void add_unique(const struct verify *v, const struct solve_result *r, struct sbuf *b)
{
	char span[32];

	sbuf_add(b, "of all offsets within ");
	if (v->khz)
		sbuf_add(b, str_ns(span, sizeof(span), tsc_cycles_to_ns(r->span, v->khz)));
	else
		sbuf_addf(b, "%" PRIu64 " cycles", r->span);
	if (r->pairs)
		sbuf_addf(b, ", the range that %" PRIu64 " deadline writes leave,", r->pairs);
	if (r->equal)
		sbuf_addf(b, "%s %" PRIu64 " others fit as well: NOT unique; record longer",
			  r->pairs ? "" : ",", r->equal);
	else if (r->has_next)
		sbuf_addf(b,
			  " the next best, %+" PRId64 " cycles away, leaves %" PRIu64
			  " of %" PRIu64 " events outside: unique",
			  r->next_distance, r->next_outside, r->next_inside + r->next_outside);
	else
		sbuf_add(b, " all others leave more events outside: unique");
	judge_end(b);
}

/* Moving all guest times by a shift means another offset: the one used, minus the scaled shift. */
static int64_t offset_shifted(const struct tsc_map *m, uint64_t offset, int64_t shift)
{
	struct tsc_map scale = { .ratio = m->ratio, .frac = m->frac };
	uint64_t by = tsc_to_guest(&scale, clock_size(shift));

	return (int64_t)(shift < 0 ? offset + by : offset - by);
}

/* Is the offset among those that fit as well as the one found? */
static bool does_as_well(uint64_t offset, const struct solve_result *r)
{
	return offset - r->offset_lo <= r->offset_hi - r->offset_lo;
}

static void add_wrong(const struct verify *v, uint64_t used, const struct solve_result *r,
		      struct sbuf *b)
{
	sbuf_add(b, ": the one used is wrong by about ");
	pairing_add_cycles(b, (int64_t)(used - r->offset), v->p->host.cap);
}

static bool fits_in_part(const struct solve_result *r)
{
	return r->outside > r->inside / 16;
}

static void solution_reasons(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct solution *s = verify_solution(g);

	if (!s->tried)
		return;
	if (!s->r.found) {
		sbuf_addf(b, "%s: %s", g->solved ? "not solved" : "no offset found", s->r.why);
		judge_end(b);
		if (s->r.has_most) {
			sbuf_addf(
				b,
				"deadline writes that both sides traced say that it is at most %" PRId64,
				(int64_t)s->r.at_most);
			judge_end(b);
		}
		return;
	}
	if (!s->n_own) {
		const struct solve_result *r = &s->r;
		const struct tsc_map *m = &s->map;
		int64_t offset = (int64_t)r->offset;

		/* One for all vCPUs. */
		if (g->solved) {
			sbuf_addf(b, "solved: %s %" PRId64, pairing_offset_name(v->p->host.cap),
				  offset);
			pairing_add_ratio(b, m);
			if (g->verdict == ALIGN_OK)
				sbuf_addf(b,
					  "; any from %" PRId64 " to %" PRId64
					  " leaves no event outside",
					  offset_shifted(m, r->offset, g->a.shift_hi),
					  offset_shifted(m, r->offset, g->a.shift_lo));
		} else if (fits_in_part(r)) {
			sbuf_addf(b,
				  "no offset fits all the time: %s %" PRId64
				  " is right for %" PRIu64 " of %" PRIu64 " events",
				  pairing_offset_name(v->p->host.cap), offset, r->inside,
				  r->inside + r->outside);
			if (g->used && does_as_well(g->used->offset, r))
				sbuf_add(b, ", which is the one used");
		} else {
			sbuf_addf(b,
				  "the data ask for %s %" PRId64 " (%" PRIu64 " of %" PRIu64
				  " events inside)",
				  pairing_offset_name(v->p->host.cap), offset, r->inside,
				  r->inside + r->outside);
			if (g->used)
				add_wrong(v, g->used->offset, r, b);
		}
		judge_end(b);
		add_unique(v, r, b);
		return;
	}
	for (size_t i = 0; i < s->n_own; i++) { /* vCPUs with an offset of their own */
		const uint32_t id = s->own[i].id;
		const struct epoch_vcpu *e = epoch_vm_find(v->p->map->vm[g->g->vm].epochs, id);
		const struct solve_result *r = &s->own[i].r;

		sbuf_addf(b, "vCPU %" PRIu32 ": %sTSC offset %" PRId64, id,
			  fits_in_part(r) ? "no offset fits all the time; best is "
			  : g->solved	  ? "solved: "
					  : "the data ask for ",
			  (int64_t)r->offset);
		if (!g->solved && e && e->n && e->v[0].has_map) {
			if (does_as_well(e->v[0].map.offset, r))
				sbuf_add(b, ", as was used");
			else
				add_wrong(v, e->v[0].map.offset, r, b);
		}
		sbuf_addf(b,
			  " (%" PRIu64 " of %" PRIu64 " events inside, as with others from %" PRId64
			  " to %" PRId64 "); ",
			  r->inside, r->inside + r->outside, (int64_t)r->offset_lo,
			  (int64_t)r->offset_hi);
		add_unique(v, r, b);
	}
	if (s->missed_why) { /* it was given that of another */
		sbuf_addf(b, "vCPU %" PRIu32 ": no offset found: %s", s->missed, s->missed_why);
		judge_end(b);
	}
}

/* ---- what the windows say ---- */

/* ", 4617 not checkable: 12 before or after the host's recording, ..." */
static void add_unchecked(const struct align *a, struct sbuf *b)
{
	uint64_t rest = a->total.unchecked - a->total.apart;

	if (!a->total.unchecked)
		return;
	sbuf_addf(b, "; not checkable: ");
	if (a->total.apart)
		sbuf_addf(b, "%" PRIu64 " outside of the host's recording", a->total.apart);
	if (rest)
		sbuf_addf(b, "%s%" PRIu64 " (%" PRIu64 " %%) in it", a->total.apart ? ", " : "",
			  rest, (rest * 200 / (a->total.checked + rest) + 1) / 2);
}

/* vCPUs without anything to check, by number. */
static void blind_reason(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const char *before = "not checked at all: vCPU";

	if (!g->a.vcpus_blind)
		return;
	win_each_vcpu(v->w, g->g->vm, c) {
		if (c->s.checked || !c->s.unchecked)
			continue;
		sbuf_addf(b, "%s %" PRIu32, before, c->vcpu);
		before = ",";
	}
	sbuf_addf(b, ": %s",
		  g->a.windows ? "no entry or exit of it on the host while its guest had events"
			       : "the host shows no entries and exits");
	judge_end(b);
}

static void judge_aligned(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct align *a = &g->a;
	/*
	 * The slack is that of one shift of all vCPUs, from the offsets used. Where these were
	 * found in the events each vCPU may be off by as much as the search left open.
	 */
	uint64_t slack = (uint64_t)MAX(-a->shift_lo, a->shift_hi);

	sbuf_add(b, "aligned within ");
	pairing_add_magnitude(b, MAX(slack, v->p->map->vm[g->g->vm].uncertain), v->p->host.cap);
	judge_end(b);
	sbuf_addf(b,
		  "all %" PRIu64 " guest events that could be checked lie in the %" PRIu64
		  " entry..exit windows of their vCPUs",
		  a->total.checked, a->windows);
	add_unchecked(a, b);
	judge_end(b);
	blind_reason(v, g, b);
	sbuf_add(b, "moved by more than ");
	pairing_add_cycles(b, a->shift_lo, v->p->host.cap);
	sbuf_add(b, " or ");
	pairing_add_cycles(b, a->shift_hi, v->p->host.cap);
	sbuf_add(b, ", one of them would lie outside");
	judge_end(b);
}

/* What is wrong, if that can be said: a constant, or the rate. */
static void outside_why(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct align *a = &g->a;

	if (g->sol.r.found && !g->sol.r.outside && g->used)
		return; /* the solution says it better */
	if (a->has_shift && (a->shift_lo > 0 || a->shift_hi < 0)) {
		sbuf_add(
			b,
			"the offset is wrong: all events would be inside if guest times were moved "
			"by ");
		pairing_add_cycles(b, a->shift_lo, v->p->host.cap);
		sbuf_add(b, " to ");
		pairing_add_cycles(b, a->shift_hi, v->p->host.cap);
	} else if (a->has_drift && (a->drift_lo > 0 || a->drift_hi < 0) &&
		   a->drift_lo <= a->drift_hi) {
		sbuf_addf(b,
			  "the rate is wrong: guest times drift by %+" PRId64 " to %+" PRId64
			  " parts per 10^9 (see --tsc-ratio)",
			  -a->drift_hi, -a->drift_lo);
	} else {
		sbuf_add(b, "no single shift of all guest times fixes it");
	}
	judge_end(b);
}

static void judge_misaligned(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct align *a = &g->a;

	sbuf_add(b, "misaligned: ");
	if (!a->total.checked && is_of_other_host(v, g))
		sbuf_add(
			b,
			"the guest's events are placed outside of the time that the host recorded");
	else if (!a->total.outside && record_contradicts(v, g))
		sbuf_add(b, "the windows hold, but the TSC offset is not the one that the host "
			    "recorded, for which they hold as well");
	else if (!a->total.outside)
		sbuf_add(b, "guest events come before the host events that they follow from");
	if (a->total.outside) {
		sbuf_addf(b,
			  "%" PRIu64 " of %" PRIu64 " guest events lie outside of their vCPU's "
			  "windows, by up to ",
			  a->total.outside, a->total.checked);
		pairing_add_magnitude(b, (uint64_t)a->total.outside_max, v->p->host.cap);
	}
	judge_end(b);
	if (a->total.outside) {
		outside_why(v, g, b);
		/*
		 * Where the outside events are: that distinguishes a wrong offset from a missed
		 * change of it.
		 */
		if (a->vcpus_bad == 1 && a->vcpus > 1)
			sbuf_addf(b, "only vCPU %" PRIu32 " of %zu is affected: its offset differs",
				  a->bad_vcpu, a->vcpus);
		else
			sbuf_addf(b, "%zu of %zu vCPUs are affected", a->vcpus_bad, a->vcpus);
		sbuf_add(b, "; from ");
		add_time(v, a->bad_from, b);
		sbuf_add(b, " to ");
		add_time(v, a->bad_to, b);
		/*
		 * With a wrong constant some are outside, here and there; after a change, most are.
		 */
		if (a->bad_after_good > 50 &&
		    a->total.outside * 4 > a->bad_inside - a->bad_after_good)
			sbuf_addf(b,
				  "; the %" PRIu64
				  " events before that were inside: the offset changed, or "
				  "host events were lost, at that time",
				  a->bad_after_good);
		judge_end(b);
	}
}

static void judge_unknown(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct hostmap *map;

	sbuf_addf(b, "cannot tell: %" PRIu64 " guest events could be checked", g->a.total.checked);
	add_unchecked(&g->a, b);
	judge_end(b);
	map = v->p->map;
	if (!map->entries || !map->exits)
		sbuf_addf(b,
			  "the host capture has %" PRIu64 " kvm_entry and %" PRIu64
			  " kvm_exit events: record the host with -e kvm:kvm_entry -e kvm:kvm_exit "
			  "(some software KVMs never emit them)",
			  map->entries, map->exits);
	else if (!g->a.windows)
		sbuf_addf(
			b,
			"the host capture shows no entries and exits of the vCPUs of %s: it did not "
			"run then, or GUEST=SEL names the wrong VM",
			map->vm[g->g->vm].label);
	else if (!g->src->events)
		sbuf_add(
			b,
			"the guest capture is empty: record events that happen in the guest, such as "
			"sched:* and irq_vectors:*");
	else if (g->src->unplaced == g->src->events)
		sbuf_add(b,
			 "no stamp of the guest can be converted: the captures have no TSC offset "
			 "of its vCPUs, or a wrong one; give --tsc-offset N (kvmft list and "
			 "debugfs show it), or use --solve");
	else if (g->solved && verify_solution(g)->missed_why)
		sbuf_add(b, "the events do not tell the offset of each vCPU; one may have changed "
			    "meanwhile: record the host with kvmft, which notes such changes");
	else if (g->solved && !solution_is_sure(verify_solution(g)))
		sbuf_add(b,
			 "the offset, known only from the events, is not the only one that fits: "
			 "record longer, or give --tsc-offset N");
	else if (g->a.total.checked && g->a.share < ALIGN_MIN_SHARE)
		sbuf_addf(b,
			  "that is %u %% of those in the host's recording, where %u %% are needed; "
			  "they fit",
			  g->a.share, ALIGN_MIN_SHARE);
	else if (is_of_other_host(v, g))
		sbuf_add(b,
			 "the guest's events lie outside of the time that the host recorded: not "
			 "recorded at the same time, or the offset is wrong; --solve tells");
	else
		sbuf_add(b, "too few guest events lie between an entry and an exit of their vCPU: "
			    "record longer, with events that are frequent in the guest (sched:*, "
			    "irq_vectors:*, timer:*)");
	judge_end(b);
	blind_reason(v, g, b);
}

/* ---- all together ---- */

static void other_reasons(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const struct msr_pair_stats *s = guest_deadlines(v, g);
	int64_t by;
	const struct tsc_map *record = off_record(v, g, &by);

	if (record) {
		sbuf_addf(b,
			  "the host recorded TSC offset %" PRId64 ": by that, guest times would be "
			  "moved by ",
			  (int64_t)record->offset);
		pairing_add_cycles(b, by, v->p->host.cap);
		judge_end(b);
	}
	if (s && s->violations) {
		sbuf_addf(b,
			  "%" PRIu64 " of %" PRIu64 " deadline writes are seen by the guest before "
			  "the host serves them, by up to ",
			  s->violations, s->n);
		pairing_add_magnitude(b, (uint64_t)-s->min, v->p->host.cap);
		judge_end(b);
	}
	if (g->src->unplaced && g->src->unplaced < g->src->events) {
		sbuf_addf(b, "%" PRIu64 " of its stamps could not be placed and were left out",
			  g->src->unplaced);
		judge_end(b);
	}
	if (!v->complete) {
		sbuf_add(b,
			 "a capture is incomplete (see above): what was lost could not be checked");
		judge_end(b);
	}
}

static int judge_guest(struct verify *v, struct verify_guest *g, struct kvmft_err *err)
{
	static void (*const say[])(const struct verify *, const struct verify_guest *,
				   struct sbuf *) = {
		[ALIGN_OK] = judge_aligned,
		[ALIGN_BAD] = judge_misaligned,
		[ALIGN_UNKNOWN] = judge_unknown,
	};
	int ret = 0;

	align_measure(v->w, g->g->vm, &g->a);
	/* By how much? The windows alone only know that for small errors. */
	if (!g->solved && !g->g->match.sol.tried && (g->a.total.outside || is_of_other_host(v, g)))
		ret = look_for_offset(v, g, err);
	if (ret)
		return ret;
	g->verdict = proof_judge(&(struct proof_facts){
		.windows = &g->a,
		.deadlines = guest_deadlines(v, g),
		.solved = g->solved ? verify_solution(g) : NULL,
		.elsewhere = g->sol.r.found && g->used,
		.off_record = record_contradicts(v, g),
	});
	say[g->verdict](v, g, &g->reasons);
	solution_reasons(v, g, &g->reasons);
	other_reasons(v, g, &g->reasons);
	(void)xsbuf_text(&g->reasons);
	return 0;
}

int verify_judge(struct verify *v, struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < v->p->nguest && !ret; i++)
		ret = judge_guest(v, &v->guest[i], err);
	return ret;
}
