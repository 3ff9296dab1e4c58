/* SPDX-License-Identifier: GPL-2.0-or-later */
/* judge.c: what the end of the walk shows, what was not recorded, and the verdict. */
#include "room.h"

#include "kvmft/proof.h"

#define OFF_PPM	   500u /* KVM itself does not scale for less than 250 */
#define DRIFT_PPB  1000000u
#define APART_NS   100000u
#define READS_S	   1000u
#define READS_LESS 100u /* ... if they take a tenth of a CPU */
#define LATE_LEAST 10u /* and half of all: a vCPU that waits for a CPU is late with some */
#define WALL_NS	   2000000000u /* without NTP a guest begins with the RTC's whole seconds */

const char *const clock_verdicts[] = { "well", "ill", "unknown" };
const char *const clock_words[] = { "well", "ILL", "cannot tell" };

#define SET_CLOCK "KVM_SET_CLOCK before vCPUs run, with KVM_GET_CLOCK of when they stopped"

const struct clock_rule clock_rules[CLOCK_FINDINGS] = {
	[CLOCK_SKEW] = { "offset-skew", false, true, "%v is %c %t %o%s%W",
			 "give all vCPUs one TSC: KVM_VCPU_TSC_OFFSET, or IA32_TSC of all within a second" },
	[CLOCK_TSC_JUMP] = { "tsc-jump", false, true, "the TSC of %v was set %d by %c at %f%w%x",
			     "write TSCs only before the guest runs, with what they had then" },
	[CLOCK_TSC_SET] = { "tsc-set", true, false,
			    "the TSC of %v was set %d by %c at %f%w%x, or a snapshot was loaded into it",
			    "none if it was a snapshot; a recording from when it was made on tells" },
	[CLOCK_FORWARDS] = { "kvmclock-forwards", false, true, "kvmclock jumped by +%n at %a%k", SET_CLOCK },
	[CLOCK_BACKWARDS] = { "kvmclock-backwards", false, true,
			      "kvmclock went backwards by %n at %a%k: the guest had run until %f", SET_CLOCK },
	[CLOCK_STOOD] = { "kvmclock-stood", false, true,
			  "kvmclock stood still for %n at %a%k: the guest did not run since %f",
			  "set the guest's time after a stop: guest-set-time of qemu-ga, or chronyc makestep" },
	[CLOCK_SET_BACK] = { "kvmclock-set-back", false, true,
			     "kvmclock was set back by %n at %a%k: whether the guest ran until then is not recorded",
			     "record kvm_entry and kvm_exit as well: they show whether the guest has seen it" },
	[CLOCK_ANEW] = { "kvmclock-anew", false, true,
			 "kvmclock began when this VM was made, at %a, but its memory had record %T of another one: "
			 "restored without its clock", SET_CLOCK },
	[CLOCK_NO_MASTER] = { "no-master-clock", false, true, "no master clock%s%m",
			      "give all vCPUs one TSC, and the host clocksource tsc" },
	[CLOCK_DIFFERS] = { "kvmclock-differs", false, true, "kvmclock of %v is %n %t that of %o%s",
			    "as for no-master-clock" },
	[CLOCK_FREQUENCY] = { "frequency", false, false, "%F",
			      "KVM_SET_TSC_KHZ on a host that can scale, or what the guest is told as it is" },
	[CLOCK_READS] = { "reads-exit", false, true, "clock reads exit: %E",
			  "a clocksource that does not exit: kvm-clock, tsc, or Hyper-V's TSC page" },
	[CLOCK_DEADLINES] = { "deadline-past", false, true,
			      "%v set %N of %A timers to a time that its TSC had passed, by up to %n",
			      "compare the guest's TSC with what its timers were set by before it was moved" },
	[CLOCK_STOPPED] = { "guest-stopped", true, false, "the guest was told that it had been stopped, at %f%x",
			    "none: so its watchdogs know" },
	[CLOCK_RESTORED] = { "restored", true, false,
			     "a snapshot was loaded into it, at %f: its memory had record %T, not %R|"
			     "it was restored, or came from another host, at %f: its memory had record %T",
			     "none; record where it comes from, too, to know what its clocks were" },
	[CLOCK_WALL] = { "wall-clock", false, false, "its CLOCK_REALTIME is %n %t the host's at %f",
			 "guest-set-time of qemu-ga, or chronyc makestep in the guest" },
	[CLOCK_SOURCE] = { "clocksource", false, false,
			   "its clocksource changed from %i while it recorded|"
			   "its clocksource is %i: reading the time exits",
			   "dmesg of the guest says why tsc or kvm-clock was not taken, or given up" },
	[CLOCK_SCHED] = { "sched-clock", false, false,
			  "its sched_clock() is %n %t what its constants make of the kvmclock that it had",
			  "as for kvmclock-forwards: printk, trace clocks and the scheduler jump with it" },
	[CLOCK_FOREIGN] = { "foreign-tsc", true, false, "its TSC %i",
			    "none if it is not; if it may not be, a capture of the guest in x86-tsc tells" },
};

static struct clock_vcpu *first_with_record(struct clock_vm *vm)
{
	for (size_t i = 0; i < vm->n; i++)
		if (vm->vcpu[i].was.has_pv)
			return &vm->vcpu[i];
	return NULL;
}

/* What a guest, or a record, makes of its TSC is not what it is, by more than errors. */
static void frequency(const struct clockcheck *c, struct clock_vm *vm, const struct clock_vcpu *v,
		     uint64_t told, bool own)
{
	uint64_t real = clock_vcpu_khz(c, v), off = real > told ? real - told : told - real;
	uint64_t slack = 3 + real * OFF_PPM / 1000000 +
			 (c->cap->tsc_khz_max ? c->cap->tsc_khz_max - c->cap->tsc_khz_min : 0);
	const struct clock_seen *before = clock_seen_of(vm, CLOCK_FREQUENCY, -1);
	struct clock_seen s = { .is = CLOCK_FREQUENCY, .vcpu = v->id, .count = 1, .told = told,
				.real = real, .all = own };

	if (!real || !told || off <= slack ||
	    (before && before->told == told && before->real == real))
		return;
	s.amount = (int64_t)((__int128)((int64_t)(real - told)) * 1000000000 / (int64_t)told);
	clock_found(vm, &s);
}

/* The host's clocks are read along with its TSC, which KVM's record makes the guest's of. */
static void drift(const struct clockcheck *c, struct clock_vm *vm)
{
	const struct clock_vcpu *v = first_with_record(vm);
	const struct clock_bracket *a = c->cap->bracket, *b = a;
	const struct tsc_map *map = v && c->cap->nbracket ? clock_vcpu_map(v) : NULL;
	uint64_t from, to;

	b += c->cap->nbracket - (map != NULL);
	if (!map || c->cap->unit_ns || !c->cap->tsc_khz || a->tsc >= b->tsc ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(map, a->tsc), &from) ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(map, b->tsc), &to))
		return;
	for (size_t i = 0; i < CLOCK_DRIFTS; i++) {
		int64_t theirs = (int64_t)(i ? b->real - a->real : b->boot - a->boot), ppb;
		uint64_t width = tsc_cycles_to_ns(a->width + b->width, c->cap->tsc_khz) + 2;

		if (theirs <= 0 || width * 1000 > (uint64_t)theirs)
			continue;
		ppb = (int64_t)(((__int128)(to - from) - theirs) * 1000000000 / theirs);
		if (clock_size(ppb) > DRIFT_PPB) /* the host was suspended, or its clock was set */
			continue;
		vm->drift[i].ppb = ppb;
		vm->drift[i].off = (uint64_t)((__int128)width * 1000000000 / theirs) + 1;
	}
}

/* Both have run since the other one's record came, so both had their last one. */
static void differs(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
		    const struct clock_vcpu *ref)
{
	uint64_t a, b, tsc, slack;

	if (!ref || v == ref || v->skew || !v->was.has_pv || v->was.from < c->lost_to ||
	    ref->was.from < c->lost_to || !v->was.has_map || !ref->was.has_map ||
	    v->entry <= ref->was.from || ref->entry <= v->was.from)
		return;
	tsc = tsc_to_guest(&ref->was.map, vm->last);
	if (pvclock_to_ns(&ref->was.pv, tsc, &a) ||
	    pvclock_to_ns(&v->was.pv, tsc_to_guest(&v->was.map, vm->last), &b))
		return;
	slack = APART_NS +
		clock_tolerance(&v->was.pv, &ref->was.pv, a - MIN(a, v->was.pv.system_time)) +
		clock_tolerance(&v->was.pv, &ref->was.pv, a - MIN(a, ref->was.pv.system_time));
	if ((a > b ? a - b : b - a) <= slack)
		return;
	clock_found(vm, &(struct clock_seen){ .is = CLOCK_DIFFERS, .vcpu = v->id, .than = ref->id,
		.amount = (int64_t)(b - a), .from = MAX(v->was.from, ref->was.from) });
}

static void each_vcpu(const struct clockcheck *c, struct clock_vm *vm)
{
	const struct clock_vcpu *ref = first_with_record(vm);

	vm->ref = NULL;
	for (size_t i = 0; i < vm->n; i++) {
		struct clock_vcpu *v = &vm->vcpu[i];
		uint64_t told;

		clock_skew(c, vm, v, c->until, true);
		if (v->was.has_pv && v->was.from >= c->lost_to &&
		    !pvclock_khz(v->was.pv.mul, v->was.pv.shift, &told))
			frequency(c, vm, v, told, false);
		frequency(c, vm, v, clock_vcpu_khz(c, &vm->vcpu[0]), true);
		if (!c->cap->unit_ns)
			differs(c, vm, v, ref);
		if (v->late >= LATE_LEAST && v->late * 2 >= v->timers)
			clock_found(vm, &(struct clock_seen){ .is = CLOCK_DEADLINES, .vcpu = v->id,
				.count = v->late, .all = v->timers,
				.amount = (int64_t)MIN(v->worst, (uint64_t)INT64_MAX) });
	}
}

/* ---- with captures of guests ---- */

static void wall_clock(const struct clockcheck *c, struct clock_vm *vm, const struct tl_source *s)
{
	_cleanup_(cap_pieces_free) struct cap_pieces p = { 0 };
	const size_t n = s->cap->nbracket;
	const struct clock_bracket *b = n ? &s->cap->bracket[n - 1] : NULL;
	const struct epoch_vcpu *v = epoch_vm_or_first(tl_hostmap(c->t)->vm[s->vm].epochs, -1);
	uint64_t lo, hi, first, last;
	int64_t ns;

	if (!b || !s->gtime || cap_pieces_init(&p, c->cap, CAP_CLOCK_REALTIME) ||
	    !epoch_result_usable(guest_time_tsc_to_host(s->gtime, v, b->tsc, &lo, &hi)) ||
	    clock_pieces_to_ns(&p.pieces, lo, &first, &last) < 0)
		return;
	vm->recorded |= EVID_WALL;
	ns = (int64_t)(b->real - first);
	if (clock_size(ns) >= WALL_NS)
		clock_found(vm, &(struct clock_seen){ .is = CLOCK_WALL, .vcpu = -1,
						      .amount = ns, .from = lo });
}

/* What its kernel takes the TSC for, and reads the time by. */
static void clock_source(const struct clockcheck *c, struct clock_vm *vm, const struct tl_source *s)
{
	static const char *const fast[] = { "kvm-clock", "tsc", "hyperv_clocksource_tsc_page",
					    "arch_sys_counter", NULL };
	struct clock_seen f = { .is = CLOCK_SOURCE, .vcpu = -1 };
	const char *by = s->cap->tsc_khz_source;
	const char *now = s->cap->end_clocksource ?: s->cap->clocksource;

	if (by && vm->n && strcmp(by, "measured"))
		frequency(c, vm, &vm->vcpu[0], s->cap->tsc_khz, true);
	if (!now)
		return;
	if (s->cap->clocksource && strcmp(now, s->cap->clocksource)) {
		f.real = 1;
		snprintf(f.what, sizeof(f.what), "%.27s to %.27s", s->cap->clocksource, now);
		clock_found(vm, &f);
	}
	for (size_t i = 0; fast[i]; i++)
		if (!strcmp(fast[i], now))
			return;
	f.real = 0;
	snprintf(f.what, sizeof(f.what), "%s", now);
	clock_found(vm, &f);
}

/* By its constants, and the record that it had, as long as it has no other. */
static void sched_clock(struct clock_vm *vm, const struct tl_source *s)
{
	const struct capture *cap = s->cap;
	struct clock_seen f = { .is = CLOCK_SCHED, .vcpu = -1 };
	uint64_t ns, past;

	vm->recorded |= cap->sched_is_tsc ? EVID_SCHED : 0;
	if (!cap->has_sched_offset || cap->sched_is_tsc || !cap->npvclock || !cap->tsc_khz)
		return;
	vm->sched = cap;
	for (size_t i = 0; i < cap->nsample; i++) {
		const struct cap_clock_sample *at = &cap->sample[i];
		const struct pvclock *pv = &cap->pvclock[0].pv;
		bool local = !strcmp(at->clock, "local");

		if ((!local && !cap->has_kernel_sched_offset) || pvclock_to_ns(pv, at->tsc, &ns))
			continue;
		past = clock_size((int64_t)(ns - pv->system_time));
		ns -= (uint64_t)cap->kvm_sched_clock_offset;
		ns += local ? 0 : (uint64_t)cap->kernel_sched_offset;
		vm->recorded |= EVID_SCHED;
		if (clock_size((int64_t)(at->ns - ns)) > clock_tolerance(pv, pv, past) +
		    tsc_cycles_to_ns(at->width, cap->tsc_khz))
			f.amount = (int64_t)(at->ns - ns);
	}
	if (f.amount)
		clock_found(vm, &f);
}

/*
 * The TSC of a guest with TDX, or Secure TSC of SNP, is not KVM's: what KVM says of it, and of a
 * kvmclock by it, is of no clock that the guest reads. A guest that sets its timers to the past by
 * that has another TSC, too, for it knows its own. If its events fit KVM's offset, it is KVM's.
 */
static void foreign_tsc(const struct clockcheck *c, struct clock_vm *vm)
{
	struct clock_seen s = { .is = CLOCK_FOREIGN, .vcpu = -1 };
	struct win_stats own = { 0 };
	bool solved = tl_hostmap(c->t)->vm[vm->vm].has_forced, timers = false;
	size_t n = 0;

	for (size_t i = 0; i < vm->n; i++)
		timers |= vm->vcpu[i].late >= LATE_LEAST &&
			  vm->vcpu[i].late * 10 >= vm->vcpu[i].timers * 9;
	if (c->w)
		win_total(c->w, (int64_t)vm->vm, &own);
	vm->doubtful = own.outside || clock_seen_of(vm, CLOCK_TSC_SET, -1);
	vm->foreign = solved || vm->is_tdx ||
		      ((vm->is_sev || timers) && (!own.inside || own.outside));
	for (size_t i = 0; i < vm->nseen && vm->foreign; i++)
		if (vm->seen[i].is > CLOCK_DEADLINES || vm->seen[i].is == CLOCK_READS)
			vm->seen[n++] = vm->seen[i];
	if (!vm->foreign)
		return;
	vm->nseen = n;
	snprintf(s.what, sizeof(s.what), "%s",
		 vm->is_tdx ? "is not KVM's: it exits by TDCALL"
		 : solved   ? "is not KVM's: its events contradict KVM's offset"
		 : timers   ? "may not be KVM's: by its offset, timers are set to the past"
			    : "may not be KVM's: it exits by VMGEXIT");
	clock_found(vm, &s);
}

/* ---- the end ---- */

static void finish_vm(struct clockcheck *c, struct clock_vm *vm)
{
	bool mismatch = vm->master.tracked && vm->master.matched != vm->master.vcpus;
	uint32_t events = evidence_recorded(c->cap, tl_hostmap(c->t)->fmt, false, c->seen);
	bool offsets = vm->n > 0, rate = false;
	uint64_t khz = c->cap->tsc_khz, ns = khz ? tsc_cycles_to_ns(vm->last - vm->first, khz) : 0;

	for (size_t i = 0; i < vm->n; i++)
		if (!clock_vcpu_by_id(vm, vm->vcpu[i].id)->was.has_pv && !vm->anew)
			clock_adopt(&vm->vcpu[i], UINT64_MAX);
	if (c->until == UINT64_MAX) {
		const struct cap_vm *cap = tl_hostmap(c->t)->vm[vm->vm].cap;

		/* What debugfs said at the end holds also where nothing says since when. */
		for (size_t i = 0; cap && i < cap->nvcpu; i++) {
			const struct cap_vcpu *e = &cap->vcpu[i];
			const struct tsc_map map = { .offset = e->end_offset, .ratio = e->end_ratio,
						     .frac = e->end_ratio ? e->frac : 0 };
			struct clock_vcpu *v = e->has_end ? clock_vcpu_by_id(vm, e->id) : NULL;

			if (!v || tsc_map_check(&map))
				continue;
			v->last = map;
			v->last_at = e->end_tsc;
		}
	}
	for (size_t i = 0; i < vm->n; i++) /* by an offset that another may have replaced */
		if (!clock_map_holds(c, &vm->vcpu[i]))
			vm->vcpu[i].late = 0;
	each_vcpu(c, vm);
	drift(c, vm);
	for (size_t i = 0; i < CLOCK_TIMERS && ns; i++) {
		struct clock_seen s = { .is = CLOCK_READS, .vcpu = -1, .count = vm->read[i].n,
					.all = vm->last - vm->first, .spent = vm->read[i].spent };
		uint64_t limit = s.spent >= s.all / 10 ? READS_LESS : READS_S;

		snprintf(s.what, sizeof(s.what), "%s", clock_reads[i].name);
		if (s.count >= limit && (__int128)s.count * 1000000000 >= (__int128)ns * limit)
			clock_found(vm, &s);
	}
	/* No event says that there is no master clock: if this remains, KVM turns it off. */
	if ((vm->master.known ? vm->master.off : mismatch) && vm->last > vm->master.told_at &&
	    vm->master.told_at >= c->lost_to)
		clock_master(vm, true, vm->master.told_at, true);
	foreign_tsc(c, vm);
	for (size_t i = 1; i < tl_sources(c->t); i++) {
		const struct tl_source *s = tl_source(c->t, i);

		if (!s->guest || tl_hostmap(c->t)->vm[s->vm].of != vm->vm)
			continue;
		wall_clock(c, vm, s);
		clock_source(c, vm, s);
		sched_clock(vm, s);
	}
	for (size_t i = 0; i < vm->n; i++) {
		offsets &= clock_vcpu_map(&vm->vcpu[i]) != NULL && !vm->foreign;
		rate |= clock_vcpu_khz(c, &vm->vcpu[i]) != 0 && !vm->foreign;
	}
	events &= ~(uint32_t)(EVID_OFFSETS | EVID_RATE | (c->no_rip ? EVID_RUN : 0));
	vm->recorded |= events | (offsets ? EVID_OFFSETS : 0) | (rate ? EVID_RATE : 0) |
			(first_with_record(vm) ? EVID_RECORD : 0) | (vm->blind ? 0 : EVID_BEFORE);
}

void clockcheck_finish(struct clockcheck *c)
{
	struct tl_loss loss;

	tl_loss(tl_source(c->t, 0), &loss);
	c->lossy |= loss.total || loss.unknown;
	for (size_t i = 0; i < c->n; i++)
		finish_vm(c, &c->vm[i]);
}

bool clockcheck_shown(const struct clockcheck *c, size_t vm)
{
	const struct hostmap_vm *v = &tl_hostmap(c->t)->vm[vm];

	return v->of == vm && !v->empty && c->vm[vm].n && (c->only < 0 || (size_t)c->only == vm);
}

uint32_t clockcheck_lacks(const struct clock_vm *vm, enum clock_finding is)
{
	if (clock_seen_of(vm, is, -1))
		return 0;
	return evidence_rule("clock", clock_rules[is].id)->needs & ~vm->recorded;
}

enum clock_verdict clockcheck_verdict(const struct clockcheck *c, const struct clock_vm *vm)
{
	for (size_t i = 0; i < vm->nseen; i++)
		if (!clock_rules[vm->seen[i].is].note)
			return CLOCK_ILL;
	for (int k = 0; k < CLOCK_FINDINGS; k++)
		if (clock_rules[k].must && clockcheck_lacks(vm, (enum clock_finding)k))
			return CLOCK_UNKNOWN;
	return c->lossy || c->stray || vm->doubtful || !vm->first ? CLOCK_UNKNOWN : CLOCK_WELL;
}
