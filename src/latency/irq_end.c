/* SPDX-License-Identifier: GPL-2.0-or-later */
/* irq_end.c: how the chains of irq.c end: measured, or closed for a reason that is counted. */
#include "priv.h"

enum {
	ST_TOTAL, ST_WAKE, ST_RAISE, ST_NOTIFY, ST_DELIVER, ST_MASKED, ST_OFFCPU, ST_ENTER,
	ST_GUEST, ST_HANDLER,
	ST_EOI
};
enum { BY_NOTHING, BY_KICK, BY_HALT, BY_KERNEL, BY_VMM, BY_OFFCPU, BY_MASKED, BY_GUEST, BY_RAISE };
enum { BY_SLOW = BY_RAISE + 1, BY_NOTIFY };

const struct lat_desc lat_desc_irq = {
	.name = "irq",
	.kind = LAT_IRQ,
	.title = "interrupts, from the source on the host to the guest's handler",
	.key = "Interrupt",
	.stage = { "total", "wake", "raise", "notify", "deliver", "masked", "off-cpu", "enter",
		   "guest", "handler", "eoi" },
	.stage_help = {
		"from the source to the first event of the handler (without a guest: to the entry)",
		"before it: the VMM's thread that raised it had waited for a CPU; no part of the total",
		"from the source to the APIC of the vCPU, or the GIC",
		"of one that is posted: from there until the vCPU was told, by a doorbell of AVIC",
		"from there to the injection, but for the two parts that follow",
		"... the guest ran with interrupts off",
		"the vCPU's thread wanted a CPU and had none: before the injection, or after the entry",
		"from the injection to the entry of the guest",
		"from the entry to the handler, but for that",
		"in the handler",
		"from the handler's start to the end of interrupt (EOI)",
	},
	.crosses = 1u << ST_TOTAL | 1u << ST_GUEST | 1u << ST_EOI,
	.parts = 1u << ST_RAISE | 1u << ST_NOTIFY | 1u << ST_DELIVER | 1u << ST_MASKED |
		 1u << ST_OFFCPU | 1u << ST_ENTER | 1u << ST_GUEST,
	.cause = (const char *const[LAT_CAUSES]){ "", "kick: kick out of the guest", "wakeup: wake-up of a halted vCPU",
		   "kvm: vCPU busy in KVM", "vmm: vCPU busy in the VMM",
		   "off_cpu: vCPU off its CPU", "irqs_off: interrupts off in the guest",
		   "guest: late in the guest", "source: late at the source",
		   "slow_path: its targets looked for one by one (AVIC)",
		   "notification: late notification of the vCPU" },
	/* The first is the sum of those up to "open at the end". */
	.count = { "accepted", "measured", "never_injected: never injected",
		   "no_handler: injected, handler not seen",
		   "ended: ended (EOI) before a handler was seen",
		   "untraced: of vectors that the guest did not trace",
		   "outside_guest: outside the guest's capture",
		   "vcpu_unknown: for an unknown vCPU",
		   "begun_before: begun before the host's capture", "cut: cut by lost events",
		   "open: open at the end", "coalesced", "injected_again: injected again",
		   "posted", "handler_alone: handlers without an interrupt of the host",
		   "doorbells: doorbells of AVIC",
		   "doorbell_alone: doorbells without their interrupt",
		   "ga_logs: from the IOMMU's log",
		   "ga_log_alone: entries of the IOMMU's log for an unknown vCPU",
		   "incomplete_ipis: IPIs that AVIC left to KVM",
		   "unaccelerated: accesses to the APIC that AVIC left to KVM",
		   "posted_alone: posted without having been accepted",
		   "inhibited: accepted while APICv was inhibited" },
};

int lat_chain_next(const struct lat_vcpu *v, int vector)
{
	for (unsigned int next = (unsigned int)(vector + 1); next < v->numbers;
	     next = (next | 63) + 1) {
		uint64_t bits = v->open[next / 64] >> next % 64;

		if (bits)
			return (int)(next + (unsigned int)__builtin_ctzll(bits));
	}
	return -1;
}

void lat_chain_close(struct lat_vcpu *v, struct irq_chain *c)
{
	c->open = false;
	v->open[c->vector / 64] &= ~(1ull << c->vector % 64);
	v->next[c->vector / 64] &= ~(1ull << c->vector % 64);
}

static uint32_t cause_of(const struct irq_chain *c, const uint64_t *stage, uint64_t total)
{
	uint64_t host = stage[ST_DELIVER];

	if (stage[ST_MASKED] > total / 2)
		return BY_MASKED;
	if (stage[ST_OFFCPU] > total / 2)
		return BY_OFFCPU;
	if (stage[ST_GUEST] > total / 2)
		return BY_GUEST;
	if (stage[ST_RAISE] > total / 2)
		return c->slow ? BY_SLOW : BY_RAISE;
	if (stage[ST_NOTIFY] > total / 2)
		return BY_NOTIFY;
	if (host <= total / 2)
		return BY_NOTHING;
	if (c->spent[VS_USER] > c->spent[VS_KERNEL] && c->spent[VS_USER] > c->spent[VS_HALTED] &&
	    c->spent[VS_USER] > c->spent[VS_GUEST])
		return BY_VMM;
	switch (c->at_accept) {
	case VS_HALTED: return BY_HALT;
	/* Once it has left its guest it is not the kick that takes long. */
	case VS_GUEST: return c->spent[VS_KERNEL] > c->spent[VS_GUEST] ? BY_KERNEL : BY_KICK;
	case VS_USER: return BY_VMM;
	default: return BY_KERNEL;
	}
}

static void chain_stages(const struct lat *l, const struct irq_chain *c, struct lat_case *k)
{
	uint64_t offcpu = c->spent[VS_WAITING] + c->spent[VS_PREEMPTED];
	uint64_t deliver = c->t_inject - c->t_accept;
	uint64_t notify = MIN(MAX(c->t_notify, c->t_accept), c->t_inject) - c->t_accept;

	k->begin = c->t_source;
	k->end = c->handled ? c->t_handler : c->t_entry;
	if (c->has_wake)
		lat_stage(k, ST_WAKE, lat_span(l, c->wake));
	lat_stage(k, ST_RAISE, lat_span(l, c->t_accept - c->t_source));
	if (c->t_notify)
		lat_stage(k, ST_NOTIFY, lat_span(l, notify));
	deliver -= notify;
	lat_stage(k, ST_MASKED, lat_span(l, MIN(c->masked, deliver)));
	lat_stage(k, ST_OFFCPU, lat_span(l, MIN(offcpu, deliver - MIN(c->masked, deliver))));
	lat_stage(k, ST_DELIVER,
		  lat_span(l, deliver) - k->stage_time[ST_MASKED] - k->stage_time[ST_OFFCPU]);
	lat_stage(k, ST_ENTER, lat_span(l, c->t_entry - c->t_inject));
	if (c->handled) {
		uint64_t robbed = lat_span(l, c->robbed);

		lat_stage(k, ST_OFFCPU, k->stage_time[ST_OFFCPU] + robbed);
		lat_stage(k, ST_GUEST, lat_span(l, c->t_handler - c->t_entry) - robbed);
		if (c->t_end)
			lat_stage(k, ST_HANDLER, lat_span(l, c->t_end - c->t_handler));
		if (c->t_eoi > c->t_handler)
			lat_stage(k, ST_EOI, lat_span(l, c->t_eoi - c->t_handler));
	} else if (c->t_eoi > c->t_entry) {
		lat_stage(k, ST_EOI, lat_span(l, c->t_eoi - c->t_entry));
	}
	k->time = lat_span(l, k->end - k->begin);
	k->cause = cause_of(c, k->stage_time, k->time);
}

/* ---- closed ---- */

bool lat_is_device(const struct lat *l, unsigned int vector)
{
	return vector >= l->irqs->device && vector < l->irqs->system;
}

uint64_t lat_chain_in(const struct irq_chain *c)
{
	return c->entered ? c->t_entry : c->t_accept;
}

/* The handler's events of a vector; devices' share irq_handler_entry, which does not have it. */
static struct lat_handler *handler_of(struct lat *l, size_t vm, unsigned int vector)
{
	struct lat_guest *g = &l->guest[vm];

	g->handler = g->handler ?: xcalloc(l->irqs->numbers, sizeof(*g->handler));
	return &g->handler[lat_is_device(l, vector) ? 0 : vector];
}

void lat_handler_seen(struct lat *l, size_t vm, unsigned int vector, uint64_t t)
{
	struct lat_handler *h = handler_of(l, vm, vector);

	l->table[LAT_T_IRQ].count[IRQ_UNMATCHED] += h->unmatched;
	l->table[LAT_T_IRQ].count[IRQ_ENDED] += h->ended;
	h->unmatched = h->ended = 0;
	if (!h->begun)
		h->begin = t;
	h->begun = true;
	h->last = t;
}

/*
 * It went in, and no handler was seen. A recorder enables and disables events one by one, and not
 * all: the guest should have traced its handler only between the first and the last event of that.
 */
static void chain_unhandled(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	const struct lat_guest *g = &l->guest[v->vm];
	struct lat_handler *h = handler_of(l, v->vm, c->vector);
	uint64_t in = lat_chain_in(c);

	if (!lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	if (!g->begun || in < g->begin || in >= g->stop)
		lat_count(l, v, LAT_T_IRQ, IRQ_OUTSIDE);
	else if (!h->begun || in < h->begin)
		h->untraced++;
	else if (in < h->last)
		lat_count(l, v, LAT_T_IRQ, c->t_eoi ? IRQ_ENDED : IRQ_UNMATCHED);
	else if (c->t_eoi)
		h->ended++;
	else
		h->unmatched++;
}

bool lat_chain_pending(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	const struct lat_guest *g = &l->guest[v->vm];
	const struct lat_handler *h = g->src ? handler_of(l, v->vm, c->vector) : NULL;

	return h && h->begun && lat_chain_in(c) >= h->begin && lat_chain_in(c) < g->stop;
}

void lat_chain_taken(struct irq_chain *c)
{
	c->entered = true;
	c->t_entry = c->t_inject = MAX(c->t_accept, c->t_notify);
	c->masked = 0;
	c->robbed = c->spent[VS_WAITING] + c->spent[VS_PREEMPTED];
	memset(c->spent, 0, sizeof(c->spent));
}

void lat_chain_count(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct lat_group *g;

	if (!c->entered && c->posted && c->at_accept == VS_GUEST)
		lat_chain_taken(c);
	if (c->homeless) {
		lat_count(l, v, LAT_T_IRQ, IRQ_HOMELESS);
		return;
	}
	if (c->early || !c->entered) {
		lat_count(l, v, LAT_T_IRQ, c->early ? IRQ_BEFORE : IRQ_LOST);
		return;
	}
	if (l->guest[v->vm].src && !c->handled) {
		chain_unhandled(l, v, c);
		return;
	}
	/* Accepted before the vCPU's thread was seen again: it may have been off its CPU. */
	if (c->spent[VS_UNKNOWN]) {
		lat_count(l, v, LAT_T_IRQ, v->cut ? IRQ_CUT : IRQ_BEFORE);
		return;
	}
	lat_count(l, v, LAT_T_IRQ, IRQ_MEASURED);
	if (!l->o.want[LAT_IRQ] || !lat_wanted(l, k.vm, k.vcpu))
		return;
	/* A device's vector differs from vCPU to vCPU. */
	g = lat_group_get(l, LAT_T_IRQ, k.vm,
			  c->irq >= 0 ? 1ull << 32 | (uint32_t)c->irq : c->vector, &k.group);
	chain_stages(l, c, &k);
	if (c->irq < 0 || lat_case_named(l, &k)) { /* the name of a vector may be known only now */
		static const char *const source[] = { "",	"MSI ",	  "line ",   "IPI ",
						      "irqfd ", "SynIC ", "stimer ", "GA log " };

		if (c->irq >= 0)
			snprintf(g->name, sizeof(g->name), "%sirq %d%s%s", source[c->source],
				 c->irq, c->name[0] ? " " : "", c->name);
		else if (c->name[0])
			snprintf(g->name, sizeof(g->name), "%s%u %s", source[c->source], c->vector,
				 c->name);
		else if (c->source == SRC_GA_LOG)
			snprintf(g->name, sizeof(g->name), "GA log");
		else if (!g->name[0])
			snprintf(g->name, sizeof(g->name), "%s%u", source[c->source], c->vector);
	}
	if (lat_case_named(l, &k))
		snprintf(k.what, sizeof(k.what), "%.40s to vCPU %u%s", g->name, v->id,
			 c->posted ? ", posted" : "");
	lat_case_add(l, LAT_T_IRQ, g, &k);
}

void lat_chain_end(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	lat_chain_count(l, v, c);
	lat_chain_close(v, c);
}

void lat_irq_passed(struct lat *l, struct lat_vcpu *v, uint64_t t, int except, enum lat_past what)
{
	uint64_t slack = l->guest[v->vm].uncertain;
	int vec = l->guest[v->vm].src ? -1 : v->numbers;

	while ((vec = lat_chain_next(v, vec)) >= 0) {
		struct irq_chain *c = &v->chain[vec];
		bool again = c->halted;

		if (!c->entered || c->vector == except || c->homeless || c->t_entry >= t ||
		    t - c->t_entry <= slack)
			continue;
		/*
		 * What is posted waits for the guest's interrupts to be on: only behind the HLT
		 * that follows STI, and on arm64 not even then. The first halt proves nothing.
		 */
		if (!c->injected && what != PAST_ALL) {
			c->halted |= what == PAST_HALT;
			if (!again || what != PAST_HALT)
				continue;
		}
		lat_chain_end(l, v, c);
	}
}

void lat_irq_forget(struct lat *l, struct lat_vcpu *v)
{
	for (int vec = -1; (vec = lat_chain_next(v, vec)) >= 0;) {
		lat_count(l, v, LAT_T_IRQ, IRQ_CUT);
		lat_chain_close(v, &v->chain[vec]);
	}
	lat_count_add(l, v->vm, v->id, LAT_T_IRQ, IRQ_CUT, v->running.open);
	v->running.open = v->rings = false;
	v->has_last = false;
	memset(v->met, 0, sizeof(v->met));
}

void lat_irq_finish(struct lat *l)
{
	/* Without a guest, an interrupt that went in is measured, even if its end is not seen. */
	for (size_t k = 0; k < l->nvcpu; k++) {
		struct lat_vcpu *v = l->vcpu[k];

		for (int vec = -1; (vec = lat_chain_next(v, vec)) >= 0;) {
			struct irq_chain *c = &v->chain[vec];

			if (c->entered && !l->guest[v->vm].src)
				lat_chain_end(l, v, c);
			else
				lat_count(l, v, LAT_T_IRQ, IRQ_OPEN);
		}
		lat_count_add(l, v->vm, v->id, LAT_T_IRQ, IRQ_OPEN, v->running.open);
	}
	for (size_t vm = 0; vm < l->map->nvm; vm++) {
		const struct lat_handler *h = l->guest[vm].handler;
		_cleanup_(sbuf_free) struct sbuf names = { 0 }, text = { 0 };

		/* Behind a handler's last event the guest's capture is over, for that vector. */
		for (unsigned int vec = 0; h && vec < l->irqs->numbers; vec++) {
			l->table[LAT_T_IRQ].count[IRQ_OUTSIDE] += h[vec].unmatched + h[vec].ended;
			l->table[LAT_T_IRQ].count[IRQ_UNTRACED] += h[vec].untraced;
			if (!h[vec].untraced || h[vec].begun)
				continue;
			if (vec)
				sbuf_addf(&names, "%s%u", names.len ? ", " : "", vec);
			else
				sbuf_add(&names, "those of devices");
			sbuf_addf(&names, " (%llu)", (unsigned long long)h[vec].untraced);
		}
		if (!names.len || !l->o.want[LAT_IRQ])
			continue;
		sbuf_addf(&text, "%s has no handler events of these vectors: %s",
			  l->map->vm[vm].label, xsbuf_text(&names));
		lat_note_add(l, xsbuf_text(&text));
	}
}
