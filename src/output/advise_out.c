/* SPDX-License-Identifier: GPL-2.0-or-later */
/* advise_out.c: what `kvmft advise` says: by cost, with its evidence and what to type. */
#include "kvmft/results.h"

#include "kvmft/table.h"

#define KEYS_SHOWN 3u

/* The rules that speak of a VM, the dearest first. */
struct advice_list {
	enum advice is[ADVICE_RULES];
	struct advice_cost cost[ADVICE_RULES]; /* by rule */
	size_t n;
	bool vague; /* there are such */
};

static void advice_list(const struct advise *a, size_t vm, struct advice_list *l)
{
	l->n = 0;
	l->vague = false;
	for (int r = 0; r < ADVICE_RULES; r++) {
		size_t at = l->n;

		advise_cost(a, vm, (enum advice)r, &l->cost[r]);
		l->vague |= l->cost[r].vague;
		if (!l->cost[r].speaks)
			continue;
		for (; at && l->cost[l->is[at - 1]].pm < l->cost[r].pm; at--)
			l->is[at] = l->is[at - 1];
		l->is[at] = (enum advice)r;
		l->n++;
	}
}

bool advise_shown(const struct advise *a, size_t vm)
{
	return clockcheck_shown(a->clocks, vm) && a->vm[vm].last > a->vm[vm].first;
}

/* The parts are of the least length, and few. */
static bool is_short(const struct advise_vm *v)
{
	return (v->last - v->first) / v->slice < ADVICE_SLICES / 2;
}

static void add_pm(struct sbuf *b, enum advice is, uint64_t pm)
{
	if (advice_rules[is].cost == ADVICE_WAIT)
		sbuf_addf(b, "%" PRIu64, pm);
	else
		sbuf_addf(b, "%" PRIu64 ".%" PRIu64, pm / 10, pm % 10);
}

/* Its keys, the dearest first: at most KEYS_SHOWN of them. */
static size_t advice_keys(const struct advice_sum *s, const struct advice_key *out[KEYS_SHOWN])
{
	size_t n = 0;

	for (size_t i = 0; i < s->nkeys; i++) {
		const struct advice_key *k = &s->key[i];
		size_t at = n;

		if (k->role == EV_NONE)
			continue;
		for (; at && out[at - 1]->spent < k->spent; at--)
			if (at < KEYS_SHOWN)
				out[at] = out[at - 1];
		if (at < KEYS_SHOWN) {
			out[at] = k;
			n += n < KEYS_SHOWN;
		}
	}
	return n;
}

static void advice_add_key(const struct advise *a, enum advice is, const struct advice_sum *s,
			   const struct advice_key *k, struct sbuf *b)
{
	if (k == &s->key[ADVICE_KEYS - 1])
		sbuf_add(b, "others");
	else if (is == ADVICE_CLOCK_READS)
		sbuf_add(b, clock_reads[k->key].name);
	else if (k->role == EV_SWITCH)
		sbuf_add(b, tl_comm(tl_source(a->t, 0), (int32_t)k->key));
	else if (k->role == EV_CPU_IDLE)
		sbuf_addf(b, "state %" PRIu64, k->key);
	else
		sbuf_addf(b, "%s%#" PRIx64,
			  k->role == EV_MSR    ? "msr "
			  : k->role == EV_PIO  ? "port "
			  : k->role == EV_EXIT ? "exit "
					       : "",
			  k->key);
}

static void add_sentence(const struct advise *a, size_t vm, enum advice is,
			 const struct advice_cost *cost, struct sbuf *b)
{
	static const struct {
		enum advice is;
		const char *module, *name;
	} params[] = { /* what the host's modules were set to, where that matters */
		{ ADVICE_APICV, "kvm_intel", "enable_apicv" },
		{ ADVICE_APICV, "kvm_amd", "avic" },
		{ ADVICE_POLL_WASTE, "kvm", "halt_poll_ns" },
		{ ADVICE_POLL_OFF, "kvm", "halt_poll_ns" },
		{ ADVICE_NX_PAGES, "kvm", "nx_huge_pages" },
	};
	const struct clock_vm *clocks = &a->clocks->vm[vm];
	const struct advise_vm *v = &a->vm[vm];
	const struct advice_sum *s = advice_sum_of(v, is);
	const struct advice_key *key[KEYS_SHOWN];
	size_t nkeys = advice_keys(s, key);

	sbuf_add(b, advice_rules[is].what);
	for (size_t i = 0; i < ARRAY_SIZE(params); i++) {
		const char *value = advise_param(a, params[i].module, params[i].name);

		if (params[i].is == is && value)
			sbuf_addf(b, " (%s.%s=%.20s)", params[i].module, params[i].name, value);
	}
	if (is == ADVICE_APICV && v->inhibits && v->inhibit_gaps == a->gaps) {
		sbuf_add(b, " (inhibited"); /* "for 812 ms by PIT_REINJ)" */
		if (a->cap->tsc_khz && v->last > v->inhibited)
			sbuf_addf(b, " for %" PRIu64 " ms",
				  tsc_cycles_to_ns(v->last - v->inhibited, a->cap->tsc_khz) /
					  1000000);
		sbuf_add(b, " by ");
		event_apicv_inhibits(a->cap, v->inhibits, b);
		sbuf_addc(b, ')');
	}
	for (size_t k = 0; is == ADVICE_CLOCKS && k < clocks->nseen; k++)
		if (!clock_rules[clocks->seen[k].is].note && clocks->seen[k].is != CLOCK_READS)
			sbuf_addf(b, " %s", clock_rules[clocks->seen[k].is].id);
	if (is == ADVICE_CLOCKS)
		return;
	sbuf_addf(b, ": %" PRIu64 " times", s->n);
	if (cost->per_s)
		sbuf_addf(b, ", %" PRIu64 "/s", cost->per_s);
	for (size_t k = 0; k < nkeys; k++) {
		sbuf_add(b, k ? ", " : " (");
		advice_add_key(a, is, s, key[k], b);
		sbuf_addf(b, " %" PRIu64, key[k]->n);
	}
	sbuf_add(b, nkeys ? ")" : "");
	if (advice_rules[is].cost == ADVICE_COUNT)
		return;
	sbuf_add(b, ": ");
	add_pm(b, is, cost->pm);
	if (advice_rules[is].cost == ADVICE_WAIT) {
		sbuf_add(b, " ms per second");
		return;
	}
	sbuf_add(b, " % of a CPU");
	if (v->guest)
		sbuf_addf(b, ", %" PRIu64 " ms per second of its guest's time",
			  (uint64_t)((unsigned __int128)s->spent * 1000 / v->guest));
}

static void add_saving(enum advice is, const struct advice_cost *cost, struct sbuf *b)
{
	if (advice_rules[is].cost == ADVICE_COUNT) {
		sbuf_add(b, "what that costs is not known");
		return;
	}
	sbuf_add(b, advice_rules[is].some ? "saves at most " : "saves ");
	if (!advice_rules[is].some) {
		add_pm(b, is, cost->low);
		sbuf_add(b, " to ");
	}
	add_pm(b, is, cost->high);
	sbuf_add(b, advice_rules[is].cost == ADVICE_WAIT ? " ms per second" : " % of a CPU");
}

/* What is not judged, and how to record what that needs. */
static void add_unjudged(const struct advise *a, size_t vm, struct sbuf *b)
{
	const char *how = NULL, *comma;
	uint32_t lacks = 0;
	size_t n = 0;
	bool params = false;

	for (int r = 0; r < ADVICE_CLOCKS; r++) {
		const struct advice_rule *rule = &advice_rules[r];
		bool also = rule->also != EV_NONE && !a->has[rule->also];

		if (advise_known(a, vm, (enum advice)r))
			continue;
		sbuf_addf(b, "%s%s", n++ ? ", " : "  not judged: ", rule->id);
		lacks |= rule->needs & ~a->recorded;
		how = also && rule->how ? rule->how : how;
		params |= !also && !(rule->needs & ~a->recorded);
	}
	sbuf_add(b, n ? "\n  not recorded: " : "");
	evidence_names(lacks, ", ", b);
	comma = lacks ? ", " : "";
	for (int r = 0; r < ADVICE_CLOCKS; r++) {
		enum event_role also = advice_rules[r].also;

		if (also == EV_NONE || a->has[also])
			continue;
		sbuf_addf(b, "%shost %s", comma, event_name(also));
		comma = ", ";
	}
	if (params)
		sbuf_addf(b, "%sparameters of KVM's modules", comma);
	if (n)
		sbuf_add(b, "\n  record it with ");
	if (n && (how || !lacks))
		sbuf_addf(b, "`kvmft record -e default%s%s` on the host", how ? " " : "",
			  how ?: "");
	else if (n)
		evidence_remedy(lacks, b);
	sbuf_add(b, n ? "\n" : "");
	if (!advise_known(a, vm, ADVICE_CLOCKS))
		sbuf_add(b, "  not judged: clocks: `kvmft clock` says what that takes\n");
}

static void advise_text(const struct advise *a, unsigned int width, struct sbuf *b)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct advise_vm *v = &a->vm[i];
		struct advice_list l;
		size_t from;

		if (!advise_shown(a, i))
			continue;
		advice_list(a, i, &l);
		sbuf_addf(b, "%s: ", tl_hostmap(a->t)->vm[i].label);
		if (a->cap->tsc_khz) {
			uint64_t ms =
				tsc_cycles_to_ns(v->last - v->first, a->cap->tsc_khz) / 1000000;

			sbuf_addf(b, "%" PRIu64 ".%03" PRIu64 " s of %zu vCPU%s: ", ms / 1000,
				  ms % 1000, v->n, v->n == 1 ? "" : "s");
		}
		if (l.n)
			sbuf_addf(b, "%zu to change\n", l.n);
		else if (is_short(v))
			sbuf_add(b, "too short to judge\n");
		else
			sbuf_addf(b, "nothing to change that %s %u.%u %% of a CPU or more\n",
				  l.vague ? "surely costs" : "costs", ADVISE_LEAST / 10, ADVISE_LEAST % 10);
		from = b->len;
		for (size_t k = 0; k < l.n; k++) {
			const struct advice_rule *rule = &advice_rules[l.is[k]];
			const struct advice_cost *cost = &l.cost[l.is[k]];

			sbuf_addf(b, "  %zu. ", k + 1);
			add_sentence(a, i, l.is[k], cost, b);
			if (rule->qemu)
				sbuf_addf(b, "\n      QEMU: %s", rule->qemu);
			if (rule->libvirt)
				sbuf_addf(b, "\n      libvirt: %s", rule->libvirt);
			if (rule->host)
				sbuf_addf(b, "\n      host: %s", rule->host);
			sbuf_addf(b, "\n      %s: ", rule->id);
			add_saving(l.is[k], cost, b);
			if (rule->risk)
				sbuf_addf(b, "; may cost: %s", rule->risk);
			sbuf_addf(b, "\n      see Documentation/%s\n", rule->source);
		}
		for (int r = 0; r < ADVICE_RULES; r++) {
			if (!l.cost[r].vague)
				continue;
			sbuf_addf(b, "  not sure: %s: ", advice_rules[r].id);
			add_pm(b, (enum advice)r, l.cost[r].low);
			sbuf_add(b, " to ");
			add_pm(b, (enum advice)r, l.cost[r].high);
			sbuf_addf(b, "%s: record for longer\n",
				  advice_rules[r].cost == ADVICE_WAIT ? " ms per second"
								      : " % of a CPU");
		}
		add_unjudged(a, i, b);
		text_wrap(b, from, "      ", width);
	}
	if (a->clocks->lossy)
		sbuf_add(b, "events were lost: what they would have cost is not known\n");
}

static void advise_json(const struct advise *a, struct sbuf *b)
{
	uint64_t khz = a->cap->tsc_khz;
	struct json j;

	json_line_begin(&j, b);
	json_put_bool(&j, "lost", a->clocks->lossy);
	json_put_array(&j, "vms");
	for (size_t i = 0; i < a->n; i++) {
		const struct advise_vm *v = &a->vm[i];
		struct advice_list l;

		if (!advise_shown(a, i))
			continue;
		advice_list(a, i, &l);
		json_object_begin(&j);
		json_put_str(&j, "vm", tl_hostmap(a->t)->vm[i].label);
		json_put_u64(&j, "vcpus", v->n);
		json_put_known_u64(&j, "ns", khz,
				   khz ? tsc_cycles_to_ns(v->last - v->first, khz) : 0);
		json_put_bool(&j, "too_short", is_short(v));
		json_put_array(&j, "advice");
		for (size_t k = 0; k < l.n; k++) {
			const struct advice_rule *rule = &advice_rules[l.is[k]];
			const struct advice_cost *cost = &l.cost[l.is[k]];
			const struct advice_sum *s = advice_sum_of(v, l.is[k]);
			_cleanup_(sbuf_free) struct sbuf why = { 0 };
			bool known = rule->cost != ADVICE_COUNT;

			add_sentence(a, i, l.is[k], cost, &why);
			json_object_begin(&j);
			json_put_str(&j, "id", rule->id);
			json_put_str(&j, "of",
				     known ? rule->cost == ADVICE_WAIT ? "wait" : "cpu" : NULL);
			json_put_u64(&j, "count", cost->count);
			json_put_known_u64(&j, "spent_ns", known && khz,
					   khz ? tsc_cycles_to_ns(s->spent, khz) : 0);
			json_put_known_u64(&j, "permille", known, cost->pm);
			json_put_known_u64(&j, "saves_least", known && !rule->some, cost->low);
			json_put_known_u64(&j, "saves_most", known, cost->high);
			json_put_str(&j, "why", why.s);
			json_put_str(&j, "qemu", rule->qemu);
			json_put_str(&j, "libvirt", rule->libvirt);
			json_put_str(&j, "host", rule->host);
			json_put_str(&j, "may_cost", rule->risk);
			json_object_end(&j);
		}
		json_array_end(&j);
		json_put_array(&j, "not_sure");
		for (int r = 0; r < ADVICE_RULES; r++)
			if (l.cost[r].vague)
				json_str(&j, advice_rules[r].id);
		json_array_end(&j);
		json_put_array(&j, "not_judged");
		for (int r = 0; r < ADVICE_RULES; r++)
			if (!advise_known(a, i, (enum advice)r))
				json_str(&j, advice_rules[r].id);
		json_array_end(&j);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_line_end(&j);
}

enum advise_kept advise_predicted(const struct advise *const a[2], const size_t vm[2],
				  enum advice is, struct sbuf *b)
{
	static const char *const words[] = { "as foretold", "not as foretold", "cannot tell" };
	bool waits = advice_rules[is].cost == ADVICE_WAIT;
	enum advice all = waits ? ADVICE_ALL_WAITS : ADVICE_ALL_EXITS;
	struct advice_cost told, was, now;
	enum advise_kept kept;
	int64_t low, high;

	advise_mean(a[0], vm[0], is, &told);
	advise_mean(a[0], vm[0], all, &was);
	advise_mean(a[1], vm[1], all, &now);
	low = (int64_t)(was.low - now.high);
	high = (int64_t)(was.high - now.low);
	/* Of what is replaced by something else, less may be saved. */
	if (low > (int64_t)told.high || high < (int64_t)(advice_rules[is].some ? 0 : told.low))
		kept = ADVISE_OTHERWISE;
	else
		kept = high - low > (int64_t)told.pm ? ADVISE_CANNOT_TELL : ADVISE_AS_FORETOLD;
	sbuf_addf(b, "%s: foretold that it ", advice_rules[is].id);
	add_saving(is, &told, b);
	sbuf_addf(b, "; all %s take %s", waits ? "waits" : "exits", low < 0 ? "-" : "");
	add_pm(b, is, clock_size(low));
	sbuf_add(b, high < 0 ? " to -" : " to ");
	add_pm(b, is, clock_size(high));
	sbuf_addf(b, " %s less: %s\n", waits ? "ms per second" : "% of a CPU", words[kept]);
	return kept;
}

static void advise_metrics(const struct advise *a, struct sbuf *b)
{
	const struct hostmap_vm *vms = tl_hostmap(a->t)->vm;

	metric_head(b, "kvmft_advice_cost", "gauge",
		    "Of a setting, in CPUs, or seconds of waiting a second.");
	for (size_t i = 0; i < MIN(a->n, (size_t)METRICS_VMS); i++) {
		struct advice_list l;

		if (!advise_shown(a, i))
			continue;
		advice_list(a, i, &l);
		for (size_t k = 0; k < l.n; k++) {
			uint64_t pm = l.cost[l.is[k]].pm;

			if (advice_rules[l.is[k]].cost == ADVICE_COUNT)
				continue;
			metric_of_vm(b, "kvmft_advice_cost", vms, &vms[i], "rule",
				     advice_rules[l.is[k]].id);
			sbuf_addf(b, "%" PRIu64 ".%03" PRIu64 "\n", pm / 1000, pm % 1000);
		}
	}
	sbuf_add(b, "# EOF\n");
}

void advise_print(const struct advise *a, const char *format, unsigned int width,
		  struct sbuf *b)
{
	if (!strcmp(format, "text"))
		advise_text(a, width, b);
	else
		(strcmp(format, "json") ? advise_metrics : advise_json)(a, b);
}
