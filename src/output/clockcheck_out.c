/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clockcheck_out.c: the answer of `kvmft clock`: a sentence for each finding, facts, metrics. */
#include "kvmft/results.h"

#include "kvmft/table.h"

/* ---- words ---- */

/* To the microsecond, or better. */
static void add_ns(struct sbuf *b, int64_t signed_ns)
{
	uint64_t ns = clock_size(signed_ns);

	if (ns >= 1000000000)
		sbuf_addf(b, "%" PRIu64 ".%06" PRIu64 " s", ns / 1000000000, ns / 1000 % 1000000);
	else if (ns >= 1000000)
		sbuf_addf(b, "%" PRIu64 ".%03" PRIu64 " ms", ns / 1000000, ns / 1000 % 1000);
	else
		sbuf_addf(b, "%" PRIu64 ".%03" PRIu64 " us", ns / 1000, ns % 1000);
}

static void clock_add_time(const struct clockcheck *c, struct sbuf *b, const char *word,
			   uint64_t host)
{
	sbuf_addf(b, "%s%s", word, strcmp(out_clock_unit(c->clock), "ns") ? "cycle " : "");
	if (!out_clock_put(c->clock, host, -1, 9, b))
		sbuf_add(b, "an unknown time");
}

static void add_who(struct sbuf *b, const char *before, const struct clock_who *w,
		    const char *after)
{
	if (w->guest)
		sbuf_addf(b, "%sthe guest itself%s", before, after);
	else if (w->tid)
		sbuf_addf(b, "%s%s-%d%s", before, w->comm, w->tid, after);
}

static void add_frequency(const struct clock_vcpu *v, const struct clock_seen *s, struct sbuf *b)
{
	const struct tsc_map *map = v ? clock_vcpu_map(v) : NULL;

	sbuf_addf(b, "vCPU %" PRId64 " %s %" PRIu64 " kHz, its TSC runs at %" PRIu64 " kHz (", s->vcpu,
		  s->all ? "is taken for one of" : "was told", s->told, s->real);
	if (!map)
		sbuf_add(b, "its ratio was changed");
	else if (tsc_map_unscaled(map))
		sbuf_add(b, "not scaled");
	else
		sbuf_addf(b, "ratio %" PRIu64 "/%u", map->ratio, map->frac);
	sbuf_addf(b, "): %s %s ", s->all ? "a clock by it" : "kvmclock", s->amount < 0 ? "loses" : "gains");
	add_ns(b, s->amount);
	sbuf_add(b, " a second");
}

/* "36120/s of msr 0x40000020, 8.2 % of a CPU" */
static void add_exits(const struct clockcheck *c, const struct clock_seen *s, struct sbuf *b)
{
	uint64_t ns = tsc_cycles_to_ns(s->all, c->cap->tsc_khz) ?: 1;
	uint64_t pm = (uint64_t)((unsigned __int128)s->spent * 1000 / (s->all ?: 1));

	sbuf_addf(b, "%" PRIu64 "/s of %s, %" PRIu64 ".%" PRIu64 " %% of a CPU",
		  (uint64_t)((unsigned __int128)s->count * 1000000000 / ns), s->what, pm / 10,
		  pm % 10);
}

/* The sentence of its rule, with its own numbers in place of the letters. */
static void clockcheck_sentence(const struct clockcheck *c, const struct clock_vm *vm,
				const struct clock_seen *s, struct sbuf *b)
{
	const struct clock_vcpu *v = clock_vcpu_by_id(vm, s->vcpu);
	const uint64_t khz = v ? clock_vcpu_khz(c, v) : 0;
	const char *t = clock_rules[s->is].why, *other = strchr(t, '|');

	for (t = other && !s->real ? other + 1 : t; *t && *t != '|'; t++) {
		if (*t != '%') {
			sbuf_addc(b, *t);
			continue;
		}
		switch (*++t) {
		case 'v': sbuf_addf(b, "vCPU %" PRId64, s->vcpu); break;
		case 'o': sbuf_addf(b, "vCPU %" PRIu32, s->than); break;
		case 'c':
			sbuf_addf(b, "%" PRIu64 " cycles", clock_size(s->amount));
			sbuf_add(b, khz ? " (" : "");
			if (khz)
				add_ns(b, tsc_span_ns(s->amount, khz));
			sbuf_add(b, khz ? ")" : "");
			break;
		case 'n': add_ns(b, s->amount); break;
		case 't': sbuf_add(b, s->amount < 0 ? "behind" : "ahead of"); break;
		case 'd': sbuf_add(b, s->amount < 0 ? "back" : "forwards"); break;
		case 'a': clock_add_time(c, b, "", s->at); break;
		case 'f': clock_add_time(c, b, "", s->from); break;
		case 's':
			if (s->from)
				clock_add_time(c, b, " since ", s->from);
			else
				sbuf_add(b, " since before the recording");
			if (s->to)
				clock_add_time(c, b, " until ", s->to);
			break;
		case 'W': add_who(b, ": written by ", &s->by, ""); break;
		case 'w': add_who(b, " by ", &s->by, ""); break;
		case 'k':
			add_who(b, s->by.event == EV_PVCLOCK ? " (kvm_pvclock_update in "
							     : " (kvm_update_master_clock by ",
				&s->by, ")");
			break;
		case 'm':
			if (vm->master.tracked && vm->master.matched != vm->master.vcpus)
				sbuf_addf(b, ": the TSCs of its vCPUs differ (kvm_track_tsc: %" PRIu64 " of %" PRIu64
					  " match)", vm->master.matched, vm->master.vcpus);
			else if (vm->master.tracked && vm->master.host_clock != 1 &&
				 vm->master.host_clock != 3)
				sbuf_add(b, ": the host's clocksource is not its TSC");
			break;
		case 'F': add_frequency(v, s, b); break;
		case 'E': add_exits(c, s, b); break;
		case 'i': sbuf_add(b, s->what); break;
		case 'x':
			if (s->count > 1)
				sbuf_addf(b, ", %" PRIu64 " times", s->count);
			break;
		default:
			sbuf_addf(b, "%" PRIu64, *t == 'N' ? s->count : *t == 'A' ? s->all
					       : *t == 'T' ? s->told : s->real);
			break;
		}
	}
}

/* ---- facts ---- */

struct facts {
	const struct clockcheck *c;
	const struct clock_vm *vm;
};

static void clock_put_signed(struct row *r, const char *name, const char *head, bool known,
			     int64_t v)
{
	if (r->form == ROW_TEXT)
		cell_text(r, 0, head, known ? "%" PRId64 : "-", v);
	else
		row_s64(r, name, known, v);
}

static void clock_put_vcpu(struct row *r, const void *ctx, size_t i)
{
	const struct facts *f = ctx;
	static const struct clock_vcpu none;
	const struct clock_vcpu *v = r->head ? &none : &f->vm->vcpu[i];
	const struct clock_vcpu *first = r->head ? &none : &f->vm->vcpu[0];
	const struct tsc_map *map = r->head || f->vm->foreign ? NULL : clock_vcpu_last(v);
	const struct tsc_map *ref = r->head ? NULL : clock_vcpu_last(first);
	bool skew = map && ref && map->ratio == ref->ratio && map->frac == ref->frac;
	int64_t cycles = skew ? (int64_t)(map->offset - ref->offset) : 0;
	uint64_t khz = map ? clock_vcpu_khz(f->c, v) : 0, told = 0;
	bool is_told = v->was.has_pv && !pvclock_khz(v->was.pv.mul, v->was.pv.shift, &told);

	cell_u64(r, IN_ALL, "vcpu", "vCPU", true, v->id);
	clock_put_signed(r, "tsc_offset", "TSC offset", map, map ? (int64_t)map->offset : 0);
	if (r->form != ROW_TEXT) {
		row_u64(r, "tsc_ratio", map, map ? map->ratio : 0);
		row_u64(r, "tsc_frac", map, map ? map->frac : 0);
	}
	cell_u64(r, IN_ALL, "tsc_khz", "kHz", khz, khz);
	cell_u64(r, IN_ALL, "told_khz", "Told", is_told, told);
	clock_put_signed(r, "skew_cycles", "Skew", skew, cycles);
	clock_put_signed(r, "skew_ns", "ns", skew && khz, tsc_span_ns(cycles, khz));
	cell_u64(r, IN_ALL, "pvclock_version", "Record", v->was.has_pv, v->was.pv.version);
	cell_u64(r, IN_ALL, "pvclock_flags", "Flags", v->was.has_pv, v->was.pv.flags);
}

static struct table clock_table(const struct facts *f, unsigned int width)
{
	return (struct table){ .cells = clock_put_vcpu, .ctx = f, .n = f->vm->n, .width = width };
}

/* ---- text ---- */

static void clockcheck_text(const struct clockcheck *c, unsigned int width, struct sbuf *b)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct facts f = { c, &c->vm[i] };
		const struct table t = clock_table(&f, width);
		const struct clock_vm *vm = f.vm;
		const struct capture *guest = vm->sched;
		bool agree = vm->recorded & EVID_SCHED && !clock_seen_of(vm, CLOCK_SCHED, -1);
		uint32_t lacks = 0;
		size_t from;

		if (!clockcheck_shown(c, i))
			continue;
		sbuf_addf(b, "%s: %s\n", tl_hostmap(c->t)->vm[i].label, clock_words[clockcheck_verdict(c, vm)]);
		from = b->len;
		for (size_t k = 0; k < vm->nseen; k++) {
			const struct clock_rule *rule = &clock_rules[vm->seen[k].is];

			sbuf_add(b, "  ");
			clockcheck_sentence(c, vm, &vm->seen[k], b);
			sbuf_addf(b, "\n      %s: %s\n", rule->id, rule->remedy);
		}
		if (vm->more)
			sbuf_addf(b, "  ... and %zu more\n", vm->more);
		for (size_t k = 0; k < CLOCK_DRIFTS; k++)
			if (vm->drift[k].off && !vm->foreign)
				sbuf_addf(b, "  kvmclock runs %+" PRId64 " ppb (+-%" PRIu64
					  ") against the host's CLOCK_%s\n", vm->drift[k].ppb,
					  vm->drift[k].off, k ? "REALTIME" : "BOOTTIME");
		for (size_t k = CLOCK_TIMERS; k < CLOCK_READ_KINDS && c->cap->tsc_khz; k++) {
			struct clock_seen s = { .count = vm->read[k].n, .spent = vm->read[k].spent,
						.all = vm->last - vm->first };

			if (!s.count)
				continue;
			snprintf(s.what, sizeof(s.what), "%s", clock_reads[k].name);
			sbuf_add(b, "  timers exit: ");
			add_exits(c, &s, b);
			sbuf_addc(b, '\n');
		}
		if (guest)
			sbuf_addf(b, "  its kvm_sched_clock_offset is %" PRId64 " ns",
				  guest->kvm_sched_clock_offset);
		if (guest && guest->has_kernel_sched_offset)
			sbuf_addf(b, ", __sched_clock_offset %" PRId64 " ns", guest->kernel_sched_offset);
		if (guest)
			sbuf_add(b, agree ? ": its trace clocks agree\n" : "\n");
		for (int k = 0; k < CLOCK_FINDINGS; k++) {
			uint32_t needs = clockcheck_lacks(vm, (enum clock_finding)k);

			if (needs)
				sbuf_addf(b, "%s%s", lacks ? ", " : "  not checked: ", clock_rules[k].id);
			lacks |= needs;
		}
		if (lacks) {
			sbuf_add(b, "\n  not recorded: ");
			evidence_names(lacks, ", ", b);
			sbuf_add(b, "\n  record it with ");
			evidence_remedy(lacks, b);
			sbuf_addc(b, '\n');
		}
		if (c->lossy)
			sbuf_add(b, "  events were lost: what they were is not known\n");
		if (!vm->first)
			sbuf_add(b, c->seen[EV_ENTRY]
				 ? "  it did not run while this was recorded, so nobody read its clocks\n"
				 : "  no kvm_entry came: whether it ran, and read its clocks, is not known\n");
		if (c->stray)
			sbuf_add(b, "  clock events of a thread whose VM is not known were left out\n");
		text_wrap(b, from, "      ", width);
		table_text(&t, b);
	}
}

/* ---- for programs ---- */

static void put_members(const struct clockcheck *c, const struct clock_vm *vm,
			const struct clock_seen *s, struct json *j)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };
	bool cycles = s->is <= CLOCK_TSC_SET;
	bool ns = !strcmp(out_clock_unit(c->clock), "ns"), known;
	uint64_t t = 0;

	clockcheck_sentence(c, vm, s, &why);
	json_put_str(j, "id", clock_rules[s->is].id);
	json_put_bool(j, "ill", !clock_rules[s->is].note);
	json_put_known_s64(j, "vcpu", s->vcpu >= 0, s->vcpu);
	known = ns && s->from && out_clock_value(c->clock, s->from, -1, &t);
	json_put_known_u64(j, "from_ns", known, t);
	known = ns && s->to && out_clock_value(c->clock, s->to, -1, &t);
	json_put_known_u64(j, "to_ns", known, t);
	json_put_known_s64(j, "cycles", cycles, s->amount);
	json_put_known_s64(j, "ns", s->amount && !cycles, s->amount);
	json_put_known_u64(j, "count", s->count, s->count);
	json_put_known_s64(j, "tid", s->by.tid && !s->by.guest, s->by.tid);
	json_put_str(j, "comm", s->by.tid && !s->by.guest ? s->by.comm : NULL);
	json_put_str(j, "why", why.s);
	json_put_str(j, "remedy", clock_rules[s->is].remedy);
}

void clockcheck_line(const struct clockcheck *c, const struct clock_vm *vm,
		     const struct clock_seen *s, bool json, struct sbuf *b)
{
	const char *label = tl_hostmap(c->t)->vm[vm->vm].label;
	enum clock_verdict is = clockcheck_verdict(c, vm);
	struct json j;

	if (!json) {
		sbuf_addf(b, "%s: %s", label, s ? "" : clock_words[is]);
		if (s)
			clockcheck_sentence(c, vm, s, b);
		sbuf_addc(b, '\n');
		return;
	}
	json_line_begin(&j, b);
	json_put_str(&j, "vm", label);
	json_put_str(&j, "verdict", clock_verdicts[is]);
	if (s)
		put_members(c, vm, s, &j);
	json_line_end(&j);
}

static void clockcheck_json(const struct clockcheck *c, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_known_u64(&j, "host_khz", c->cap->tsc_khz && !c->cap->unit_ns, c->cap->tsc_khz);
	json_put_bool(&j, "lost", c->lossy || c->stray);
	json_put_array(&j, "vms");
	for (size_t i = 0; i < c->n; i++) {
		const struct facts f = { c, &c->vm[i] };
		const struct table t = clock_table(&f, 0);
		const struct clock_vm *vm = f.vm;
		static const char *const drifts[][2] = { { "boottime_ppb", "boottime_ppb_off" },
							 { "realtime_ppb", "realtime_ppb_off" } };
		static const struct capture none;
		const struct capture *guest = vm->sched ?: &none;
		uint64_t n = 0, spent = 0, khz = c->cap->tsc_khz;
		bool known = khz && !(~vm->recorded & (EVID_RUN | EVID_MSR));

		if (!clockcheck_shown(c, i))
			continue;
		json_object_begin(&j);
		json_put_str(&j, "vm", tl_hostmap(c->t)->vm[i].label);
		json_put_str(&j, "verdict", clock_verdicts[clockcheck_verdict(c, f.vm)]);
		json_put_array(&j, "findings");
		for (size_t k = 0; k < f.vm->nseen; k++) {
			json_object_begin(&j);
			put_members(c, f.vm, &f.vm->seen[k], &j);
			json_object_end(&j);
		}
		json_array_end(&j);
		json_put_u64(&j, "more", f.vm->more);
		if (f.vm->first || c->seen[EV_ENTRY])
			json_put_bool(&j, "ran", f.vm->first != 0);
		else
			json_put_known_u64(&j, "ran", false, 0);
		json_put_object(&j, "needs");
		for (int k = 0; k < CLOCK_FINDINGS; k++) {
			uint32_t lacks = clockcheck_lacks(f.vm, (enum clock_finding)k);

			if (lacks)
				evidence_json(clock_rules[k].id, lacks, &j);
		}
		json_object_end(&j);
		for (size_t k = 0; k < CLOCK_DRIFTS; k++) {
			uint64_t off = vm->foreign ? 0 : vm->drift[k].off;

			json_put_known_s64(&j, drifts[k][0], off, vm->drift[k].ppb);
			json_put_known_u64(&j, drifts[k][1], off, off);
		}
		for (size_t k = CLOCK_TIMERS; k < CLOCK_READ_KINDS; k++) {
			n += vm->read[k].n;
			spent += vm->read[k].spent;
		}
		json_put_known_u64(&j, "timer_exits", known, n);
		json_put_known_u64(&j, "timer_exits_ns", known, known ? tsc_cycles_to_ns(spent, khz) : 0);
		json_put_known_s64(&j, "kvm_sched_clock_offset", vm->sched, guest->kvm_sched_clock_offset);
		json_put_known_s64(&j, "sched_clock_offset", guest->has_kernel_sched_offset,
				   guest->kernel_sched_offset);
		table_json(&t, "vcpus", &j);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_line_end(&j);
}

static void clockcheck_metrics(const struct clockcheck *c, struct sbuf *b)
{
	const struct hostmap_vm *vms = tl_hostmap(c->t)->vm;

	metric_head(b, "kvmft_clock_well", "gauge",
		    "1: the clocks of the VM are right, 0: they are not; none: cannot tell.");
	for (size_t i = 0; i < MIN(c->n, (size_t)METRICS_VMS); i++) {
		enum clock_verdict is = clockcheck_verdict(c, &c->vm[i]);

		if (!clockcheck_shown(c, i) || is == CLOCK_UNKNOWN)
			continue;
		metric_of_vm(b, "kvmft_clock_well", vms, &vms[i], NULL, NULL);
		sbuf_add(b, is == CLOCK_WELL ? "1\n" : "0\n");
	}
	metric_head(b, "kvmft_clock_findings", "gauge", "What is wrong with the clocks of the VM.");
	for (size_t i = 0; i < MIN(c->n, (size_t)METRICS_VMS); i++) {
		uint64_t n[CLOCK_FINDINGS] = { 0 };

		for (size_t k = 0; clockcheck_shown(c, i) && k < c->vm[i].nseen; k++)
			n[c->vm[i].seen[k].is]++;
		for (int k = 0; k < CLOCK_FINDINGS; k++) {
			if (!n[k] || clock_rules[k].note)
				continue;
			metric_of_vm(b, "kvmft_clock_findings", vms, &vms[i], "finding",
				     clock_rules[k].id);
			sbuf_addf(b, "%" PRIu64 "\n", n[k]);
		}
	}
	sbuf_add(b, "# EOF\n");
}

void clockcheck_print(const struct clockcheck *c, const char *format, unsigned int width,
		      struct sbuf *b)
{
	if (!strcmp(format, "text"))
		clockcheck_text(c, width, b);
	else
		(strcmp(format, "json") ? clockcheck_metrics : clockcheck_json)(c, b);
}
