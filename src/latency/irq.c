/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * irq.c: an interrupt from its source on the host to the end of its handler in the guest.
 *
 *   raised      kvm_msi_set_irq, kvm_set_irq or kvm_apic_ipi of the thread that accepts it next
 *   accepted    kvm_apic_accept_irq: pending in the vCPU's APIC (posted: kvm_apicv_accept_irq)
 *   injected    kvm_inj_virq: goes in with the next entry; posted ones have none
 *   entered     kvm_entry: the guest can take it
 *   handled     irq_vectors:*_entry of its vector, or irq_handler_entry of a device, in the guest
 *
 * Of a GIC, whose numbers are INTIDs:
 *
 *   raised      kvm_irq_line or kvm_set_irq, where it is a device's
 *   accepted    vgic_update_irq_pending, level 1
 *   injected    by kvm_entry, into a list register
 *   handled     irq_handler_entry in the guest
 *
 * Of AVIC: kvm_avic_incomplete_ipi, the CPU has set an IPI pending but its target does not run;
 * kvm_avic_ga_log, so has the IOMMU, and the vector is not told; kvm_avic_doorbell, the vCPU runs
 * and is told. What comes from CPU or IOMMU to one that runs makes no event of the host at all.
 *
 * Before Linux 5.17 nothing shows that an interrupt is posted: there it is one where KVM was never
 * seen to inject any.
 *
 * An APIC holds a vector once: what is accepted again before it was injected is coalesced, and
 * where it is posted, before its handler. The events of devices' handlers tell the guest's
 * interrupt number and not the vector; which is which is learnt from what was injected last, and
 * handlers that stay ambiguous are left out and counted.
 *
 * A handler ends a chain only if it can be of it: the guest takes what goes in at once, with
 * interrupts off until the handler begins. What halts (where it is posted or listed, twice), takes
 * another interrupt, or shows interrupts on since is past it: the handler was not traced, and a
 * later one is another interrupt's.
 */
#include "priv.h"

/* Of common_flags (include/linux/trace_events.h). */
#define FLAG_BUSY   0x49 /* interrupts off, in one, or in an NMI */
#define DM_KICK     3    /* delivery mode APIC_DM_REMRD */
#define EOI_ENTRIES 4    /* of the guest from the end of interrupt to the handler */

/* ---- how chains end: measured, or closed for a reason that is counted ---- */

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

static void chain_close(struct lat_vcpu *v, struct irq_chain *c)
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

static bool is_device(const struct lat *l, unsigned int vector)
{
	return vector >= l->irqs->device && vector < l->irqs->system;
}

/* Host TSC at which it went in: a running guest takes what is posted at once. */
static uint64_t chain_in(const struct irq_chain *c)
{
	return c->entered ? c->t_entry : c->t_accept;
}

/* The handler's events of a vector; devices' share irq_handler_entry, which does not have it. */
static struct lat_handler *handler_of(struct lat *l, size_t vm, unsigned int vector)
{
	struct lat_guest *g = &l->guest[vm];

	g->handler = g->handler ?: xcalloc(l->irqs->numbers, sizeof(*g->handler));
	return &g->handler[is_device(l, vector) ? 0 : vector];
}

/*
 * It went in, and no handler was seen. A recorder enables and disables events one by one, and not
 * all: the guest should have traced its handler only between the first and the last event of that.
 */
static void chain_unhandled(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	const struct lat_guest *g = &l->guest[v->vm];
	struct lat_handler *h = handler_of(l, v->vm, c->vector);
	uint64_t in = chain_in(c);

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

/* Posted, and its handler, which the guest traces, not begun: a further one is coalesced. */
static bool chain_pending(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	const struct lat_guest *g = &l->guest[v->vm];
	const struct lat_handler *h = g->src ? handler_of(l, v->vm, c->vector) : NULL;

	return h && h->begun && chain_in(c) >= h->begin && chain_in(c) < g->stop;
}

/* It was posted, the guest ran, and took it without an exit. */
static void chain_taken(struct irq_chain *c)
{
	c->entered = true;
	c->t_entry = c->t_inject = MAX(c->t_accept, c->t_notify);
	c->masked = 0;
	c->robbed = c->spent[VS_WAITING] + c->spent[VS_PREEMPTED];
	memset(c->spent, 0, sizeof(c->spent));
}

/* Counts what became of it. */
static void chain_count(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct lat_group *g;

	if (!c->entered && c->posted && c->at_accept == VS_GUEST)
		chain_taken(c);
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

static void chain_end(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	chain_count(l, v, c);
	chain_close(v, c);
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
		chain_end(l, v, c);
	}
}

void lat_irq_forget(struct lat *l, struct lat_vcpu *v)
{
	for (int vec = -1; (vec = lat_chain_next(v, vec)) >= 0;) {
		lat_count(l, v, LAT_T_IRQ, IRQ_CUT);
		chain_close(v, &v->chain[vec]);
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
				chain_end(l, v, c);
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

static struct irq_chain *chain_at(struct lat_vcpu *v, unsigned int vector)
{
	v->chain = v->chain ?: xcalloc(v->numbers, sizeof(*v->chain));
	return &v->chain[vector];
}

/* ---- the source ---- */

/* Threads without the VMM's ioctls (vhost, irqfd's work, host interrupts) only use an irqfd. */
static bool by_irqfd(const struct lat_in *in)
{
	const struct tl_source *host = in->i->src;
	const char *comm = tl_comm(host, in->i->tid);

	return lat_in_interrupt(in) || !strncmp(comm, "vhost-", 6) || !strncmp(comm, "kworker/", 8);
}

/* Of the event's thread, or of the interrupt in it; an idle thread is one for each CPU. */
static struct lat_raised *raised_at(struct lat *l, const struct lat_in *in)
{
	uint32_t key = in->i->tid > 0 ? (uint32_t)in->i->tid : in->i->cpu;
	bool interrupt = lat_in_interrupt(in);

	return &l->raised[interrupt][key % ARRAY_SIZE(l->raised[interrupt])];
}

static bool raised_here(const struct lat *l, const struct lat_raised *r, const struct lat_in *in)
{
	return r->valid && r->gen == l->cpu_gen && r->tid == in->i->tid && r->cpu == in->i->cpu;
}

void lat_irq_raised(struct lat *l, const struct lat_in *in)
{
	struct lat_raised *r = raised_at(l, in);

	switch (in->kind) {
	case EV_SET_IRQ: /* a line that goes down raises none */
		if (in->f[1])
			break;
		r->valid &= !raised_here(l, r, in);
		return;
	case EV_MSI:
	case EV_IPI:
	case EV_AVIC_IPI:
	case EV_HV_IPI: break;
	case EV_AVIC_SLOW: r->slow = true; return;
	case EV_ACCEPT: /* one message may go to several vCPUs */
	case EV_APICV_ACCEPT:
	case EV_DOORBELL:
	case EV_VGIC:
	/* Before its accept, the kick of a vCPU wakes its thread, and others take the CPU. */
	case EV_WAKING:
	case EV_WAKEUP: return;
	case EV_SWITCH: r->valid &= !event_task_sleeps(in->f[1]); return;
	default:
		if (raised_here(l, r, in))
			r->valid = false;
		return;
	}
	/* A line that is routed to a message makes both events: it began with the first. */
	if (in->kind == EV_MSI && raised_here(l, r, in) && r->line && r->vector < 0) {
		r->line = false;
		r->source = r->source == SRC_LINE ? SRC_MSI : r->source;
		return;
	}
	*r = (struct lat_raised){
		.valid = true, .line = in->kind == EV_SET_IRQ, .tid = in->i->tid,
		.cpu = in->i->cpu, .gen = l->cpu_gen,
		.source = in->kind == EV_MSI	   ? (by_irqfd(in) ? SRC_IRQFD : SRC_MSI)
			  : in->kind != EV_SET_IRQ ? SRC_IPI
			  : by_irqfd(in)	   ? SRC_IRQFD
						   : SRC_LINE,
		.avic = in->kind == EV_AVIC_IPI,
		.vector = in->kind == EV_AVIC_IPI ? (int)(in->f[0] & 0xff) : -1,
		.did = lat_wait_did(l, in), .t = in->t,
	};
	r->has_wake = lat_worker_raises(l, in->i->tid, &r->wake);
}

/* The vCPU of an APIC; NULL when it never runs in this capture (whose ids are not trusted). */
static struct lat_vcpu *apic_vcpu(struct lat *l, size_t vm, uint32_t id)
{
	bool runs = u64map_get(&l->vcpu_at, (uint64_t)vm << 32 | id, NULL);

	return runs || hostmap_vcpu(l->map, vm, id) ? lat_vcpu_get(l, vm, id) : NULL;
}

/* ---- accepted, injected, entered ---- */

static void chain_open(struct lat *l, struct lat_vcpu *v, struct irq_chain *c, uint16_t vector,
		       const struct lat_in *in)
{
	const struct lat_raised *r;
	struct lat_raised *raised = raised_at(l, in);

	if (c->open)
		chain_end(l, v, c);
	lat_count(l, v, LAT_T_IRQ, IRQ_ACCEPTED);
	/*
	 * The message that is accepted may go to several vCPUs, with one vector. NULL: unknown;
	 * where messages are not recorded, it is not known to be of the line that was raised last.
	 */
	if (!raised_here(l, raised, in) || (raised->line && !(l->recorded & EVID_RAISE))) {
		r = NULL;
	} else {
		if (raised->vector < 0)
			raised->vector = vector;
		r = raised->vector == vector ? raised : NULL;
	}

	memset(c, 0, sizeof(*c));
	c->open = true;
	c->vector = vector;
	c->irq = -1;
	c->source = r ? r->source : SRC_UNKNOWN;
	c->t_source = r ? r->t : in->t;
	c->by = r ? r->tid : 0;
	c->did = r ? r->did : 0;
	c->has_wake = r && r->has_wake;
	c->wake = r ? r->wake : 0;
	c->slow = r && r->slow;
	c->t_accept = in->t;
	c->at_accept = v->state;
	c->entries = v->entries;
	lat_times_at(v, in->t, c->spent);
	lat_timer_accept(l, v, c);
	v->open[vector / 64] |= 1ull << vector % 64;
	lat_irq_due(v, c);
	if (l->o.want[LAT_WAIT])
		lat_wait_accept(l, v, c);
}

/*
 * KVM tells what a message of the SynIC or a synthetic timer was after the APIC has accepted it, in
 * the same turn of the vCPU: it is what was accepted last since its exit.
 */
void lat_irq_hyperv(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	bool expired = in->kind == EV_HV_EXPIRED, accepted = !expired || !in->f[2];
	struct irq_chain *c = NULL;

	for (int i = lat_chain_next(v, -1); i >= 0 && accepted; i = lat_chain_next(v, i))
		if (v->chain[i].t_accept > (c ? c->t_accept : v->exit) && !v->chain[i].injected &&
		    (expired || (uint64_t)i == in->f[2]))
			c = &v->chain[i];
	if (c)
		c->source = expired ? SRC_STIMER : SRC_SYNIC;
	if (expired)
		lat_stimer_expired(l, v, c, in->f[1]);
}

static bool posts_untold(const struct lat *l)
{
	return !lat_decoder_has(l->dec[0], EV_APICV_ACCEPT) &&
	       lat_decoder_has(l->dec[0], EV_INJECT);
}

/* Intel's notification was sent before this; AMD's doorbell follows, if any. */
static void chain_posted(struct lat *l, struct lat_vcpu *v, struct irq_chain *c,
			 const struct lat_in *in)
{
	c->posted = true;
	c->t_notify = l->svm ? 0 : in->t;
	lat_irq_due(v, c);
	lat_count(l, v, LAT_T_IRQ, IRQ_POSTED);
}

void lat_irq_accept(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	uint8_t vector = (uint8_t)in->f[1];
	struct lat_guest *g;
	struct irq_chain *c;
	struct lat_vcpu *v;

	v = vm >= 0 ? apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]) : NULL;
	if (!v)
		return;
	g = &l->guest[v->vm];
	/* Another vCPU gave up a lock that this one halts for (KVM_HC_KICK_CPU). */
	if (in->has & 4 && (in->f[2] >> 8 & 7) == DM_KICK)
		v->kicked = v->kicked ?: in->t;
	/* NMI, INIT and SIPI are no interrupts with a vector. */
	if (in->has & 4 && (in->f[2] >> 8 & 7) > 1 && (in->f[2] >> 8 & 7) != 7)
		return;
	c = chain_at(v, vector);
	if (in->kind == EV_APICV_ACCEPT) {
		const struct lat_raised *r = raised_at(l, in);

		v->rings = true;
		v->posted_by = in->i->tid;
		v->posted = vector;
		/* By AVIC it is pending without having been accepted. */
		if (!raised_here(l, r, in) || !r->avic || r->vector != vector) {
			if (!c->open)
				lat_count(l, v, LAT_T_IRQ, IRQ_POSTED_ALONE);
			else if (!c->posted)
				chain_posted(l, v, c, in);
			return;
		}
	}
	if (c->open && !c->injected &&
	    (!c->posted || (!c->entered && c->at_accept > VS_GUEST) ||
	     chain_pending(l, v, c))) {
		lat_count(l, v, LAT_T_IRQ, IRQ_COALESCED);
		return;
	}
	chain_open(l, v, c, vector, in);
	c->posted = posts_untold(l) && !g->injects;
	if (in->kind == EV_APICV_ACCEPT)
		chain_posted(l, v, c, in);
	if (g->apicv.now) {
		lat_count(l, v, LAT_T_IRQ, IRQ_INHIBITED);
		v->next_inhibited = v->is_inhibited ? v->next_inhibited : g->inhibited;
		g->inhibited = v->is_inhibited ? g->inhibited : v;
		v->is_inhibited = true;
	}
	v->met[vector / 64] |= 1ull << vector % 64;
}

/* The vCPU that took the last such one, or the only one; *homeless: the first, until told. */
static struct lat_vcpu *shared_vcpu(struct lat *l, size_t vm, uint16_t number, bool *homeless)
{
	const struct hostmap_vm *of = &l->map->vm[l->map->vm[vm].of];
	uint64_t id;

	*homeless = false;
	if (u64map_get(&l->irq_vcpu, (uint64_t)vm << 32 | number, &id) && id != UINT64_MAX)
		return lat_vcpu_get(l, vm, (uint32_t)id);
	*homeless = of->several;
	if (!l->guest[vm].home && of->threads != HOSTMAP_END)
		l->guest[vm].home = lat_vcpu_get(l, vm, l->map->thread[of->threads].vcpu);
	return l->guest[vm].home ? lat_vcpu_get(l, vm, l->guest[vm].home->id) : NULL;
}

/* A line of a GIC goes up or down: private ones are levels; of others it is not said. */
void lat_irq_line(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	uint16_t number = (uint16_t)MIN(in->f[1], UINT16_MAX);
	bool shared = number >= l->irqs->shared, homeless = false;
	struct irq_chain *c;
	struct lat_vcpu *v;

	if (vm < 0 || number >= l->irqs->numbers)
		return;
	v = shared ? shared_vcpu(l, (size_t)vm, number, &homeless)
		   : apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]);
	if (!v)
		return;
	c = chain_at(v, number);
	if (!in->f[2]) {
		raised_at(l, in)->valid = false;
		if (c->open && !c->entered && !shared)
			chain_end(l, v, c);
		return;
	}
	if (c->open && (!c->entered || (!c->homeless && chain_pending(l, v, c)))) {
		if (shared)
			lat_count(l, v, LAT_T_IRQ, IRQ_COALESCED);
		return;
	}
	chain_open(l, v, c, number, in);
	c->listed = true;
	c->homeless = homeless;
}

static void spent_since_accept(struct lat_vcpu *v, struct irq_chain *c, uint64_t t)
{
	uint64_t now[VS_STATES];

	lat_times_at(v, t, now);
	for (unsigned int s = 0; s < VS_STATES; s++)
		c->spent[s] = now[s] - c->spent[s];
	c->masked = c->passed_over ? now[VS_GUEST] - c->masked : 0;
}

void lat_irq_inject(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	uint8_t vector = (uint8_t)in->f[0];
	struct irq_chain *c;

	if (in->has & 2 && in->f[1])
		return; /* a software interrupt of the guest */
	c = chain_at(v, vector);
	l->guest[v->vm].injects = true;
	if (c->open && c->posted && posts_untold(l)) {
		/* It was not posted after all; if it seemed to be in, since when is not known. */
		c->early = c->entered;
		c->posted = c->entered = false;
	}
	if (c->open && c->injected) {
		lat_count(l, v, LAT_T_IRQ, IRQ_REINJECTED);
		return;
	}
	if (c->open && c->entered) /* posted, and taken without a handler: this is another one */
		chain_end(l, v, c);
	if (!c->open) { /* accepted before the capture, or by the PIC, which has no such event */
		chain_open(l, v, c, vector, in);
		c->early = !(v->met[vector / 64] >> vector % 64 & 1);
	}
	v->met[vector / 64] |= 1ull << vector % 64;
	c->injected = true;
	c->t_inject = in->t;
	lat_irq_due(v, c);
	spent_since_accept(v, c, in->t);
	lat_irq_passed(l, v, in->t, vector, PAST_ALL);
}

static uint64_t robbed_until(const struct lat_vcpu *v, uint64_t t)
{
	uint64_t now[VS_STATES];

	lat_times_at(v, t, now);
	return now[VS_WAITING] + now[VS_PREEMPTED];
}

/* Passes the entry on to the chains that it matters to. Without a guest, a timer ends here. */
void lat_irq_entry(struct lat *l, struct lat_vcpu *v, uint64_t t)
{
	for (unsigned int w = 0; w < ARRAY_SIZE(v->next) && w * 64 < v->numbers; w++) {
		struct irq_chain *chain = v->chain + w * 64;
		uint64_t due = v->next[w];

		v->next[w] = 0;
		for (; due; due &= due - 1) {
			struct irq_chain *c = &chain[__builtin_ctzll(due)];
			uint64_t now[VS_STATES];

			/* It goes in; or is in, and the vCPU ends it and goes on. */
			if (c->entered && c->t_eoi && ++c->eoi_entries > EOI_ENTRIES) {
				chain_end(l, v, c);
				continue;
			}
			if (c->t_eoi)
				lat_irq_due(v, c);
			if (c->entered)
				continue;
			if (c->injected) {
				c->entered = true;
				c->t_entry = t;
			} else if (c->posted || c->listed) {
				/*
				 * A running guest takes a posted one at once, any other at the
				 * entry.
				 */
				c->entered = true;
				c->t_entry = t;
				c->t_inject = t;
				spent_since_accept(v, c, t);
			} else if (!c->passed_over) {
				c->passed_over = true;
				lat_times_at(v, t, now);
				c->masked = now[VS_GUEST];
			}
			if (c->entered)
				c->robbed = robbed_until(v, t);
			/* Linux has no event for the handlers of Hyper-V's timers. */
			if (c->entered && c->stimer) {
				lat_timer_fired(l, v, c);
				c->is_timer = false;
			}
			if (!c->entered || l->guest[v->vm].src)
				continue;
			/* Nothing will show that a listed one ended. */
			if (c->listed)
				chain_end(l, v, c);
			else
				lat_timer_fired(l, v, c);
		}
	}
}

void lat_irq_eoi(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	struct lat_vcpu *v = vm >= 0 ? apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]) : NULL;
	uint8_t vector = (uint8_t)in->f[1];
	struct irq_chain *c = v && v->chain ? &v->chain[vector] : NULL;

	if (v && v->running.open && v->running.vector == vector && !v->running.t_eoi) {
		v->running.t_eoi = in->t;
		return;
	}
	if (!c || !c->open || !c->entered || c->t_eoi)
		return;
	c->t_eoi = in->t;
	lat_irq_due(v, c);
	if (!l->guest[vm].src)
		chain_end(l, v, c);
}

/* ---- AVIC ---- */

/* The IOMMU posted an interrupt to v, whose thread is woken for it. */
static void ga_log(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct irq_chain *c = chain_at(v, 0);

	lat_count(l, v, LAT_T_IRQ, IRQ_GA_LOGS);
	if (c->open && !c->entered) {
		lat_count(l, v, LAT_T_IRQ, IRQ_COALESCED);
		return;
	}
	raised_at(l, in)->valid = false;
	chain_open(l, v, c, 0, in);
	c->source = SRC_GA_LOG;
	chain_posted(l, v, c, in);
}

void lat_irq_avic(struct lat *l, const struct lat_in *in)
{
	struct lat_vcpu *to = NULL;
	struct irq_chain *c;
	uint64_t known;
	int64_t vm;

	if (in->kind == EV_WAKEUP) { /* of whom it was for: which VM that number is */
		to = lat_vcpu_of_tid(l, in->i->src, (int32_t)in->f[0]);
		if (to && l->ga_tid == in->i->tid && to->id == l->ga_vcpu && !lat_in_interrupt(in))
			xu64map_put(&l->ga_vm, l->ga_vmid, to->vm);
		l->ga_tid = 0;
		return;
	}
	if (in->kind == EV_GA_LOG) {
		l->ga_tid = in->i->tid;
		l->ga_vmid = in->f[0];
		l->ga_vcpu = (uint32_t)in->f[1];
		vm = u64map_get(&l->ga_vm, in->f[0], &known) ? (int64_t)known : lat_vm_of(l, in);
		to = vm >= 0 ? apic_vcpu(l, (size_t)vm, l->ga_vcpu) : NULL;
		if (to)
			ga_log(l, to, in);
		else
			l->table[LAT_T_IRQ].count[IRQ_GA_ALONE]++;
		return;
	}
	/* The doorbell, of what its thread posted before. */
	vm = lat_vm_of(l, in);
	to = vm >= 0 ? apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]) : NULL;
	if (!to || !to->rings || to->posted_by != in->i->tid) {
		l->table[LAT_T_IRQ].count[IRQ_BELL_ALONE]++;
		return;
	}
	to->rings = false;
	lat_count(l, to, LAT_T_IRQ, IRQ_DOORBELLS);
	c = &to->chain[to->posted];
	if (!c->open || c->entered || c->rung) /* it is in its handler, or was posted before */
		return;
	c->rung = true;
	c->t_notify = in->t;
	if (l->guest[vm].src || c->at_accept != VS_GUEST)
		return;
	/* Without a guest nothing more will show of it. */
	chain_taken(c);
	lat_timer_fired(l, to, c);
	chain_end(l, to, c);
}

void lat_irq_inhibit(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	struct lat_guest *g = vm >= 0 ? &l->guest[vm] : NULL;
	struct lat_apicv *a;
	bool known, before;

	if (!g)
		return;
	a = &g->apicv;
	known = g->apicv_gen == l->cpu_gen + 1;
	/* What else is in force now was so before. */
	before = !known && in->has & 2 && in->f[0] & ~(1ull << (in->f[1] & 63));
	if (before || (!a->now && in->f[0])) {
		a->since = before ? MAX(l->begin, l->blind_until) : in->t;
		a->before = before;
		a->times++;
	} else if (a->now && !in->f[0]) {
		a->cycles += in->t - a->since;
		/* From now on the CPU delivers what is pending. */
		for (struct lat_vcpu *v = g->inhibited; v; v = v->next_inhibited) {
			v->is_inhibited = false;
			for (int vec = -1; (vec = lat_chain_next(v, vec)) >= 0;)
				if (!v->chain[vec].injected && !v->chain[vec].posted) {
					chain_posted(l, v, &v->chain[vec], in);
					v->chain[vec].t_notify = 0;
				}
		}
		g->inhibited = NULL;
	}
	if (in->f[0] && !g->is_inhibited) {
		g->is_inhibited = true;
		g->next_inhibited = l->inhibited;
		l->inhibited = g;
	}
	g->apicv_gen = l->cpu_gen + 1;
	a->now = in->f[0];
	a->ever |= in->f[0];
}

/* ---- the guest ---- */

/* name: of the handler. */
static bool awaits_handler(const struct lat *l, const struct lat_vcpu *v, unsigned int vec,
			   const char *name)
{
	const struct irq_chain *c = &v->chain[vec];

	return (is_device(l, vec) || c->source == SRC_GA_LOG) && c->open &&
	       (c->entered || c->posted) && !c->handled && !c->homeless &&
	       (!l->irqs->handles || l->irqs->handles(vec, name));
}

/* Of APICs, which have vectors of their own, the guest's number means another one on each vCPU. */
static uint64_t irq_key(const struct lat *l, const struct lat_vcpu *v, int32_t irq)
{
	return ((uint64_t)v->vm << 32 | (uint32_t)irq) << 8 ^
	       (l->irqs->shared < l->irqs->numbers ? 0 : v->id);
}

/*
 * The vector behind interrupt number irq of the guest: learnt, or else the one that went in last.
 * KVM injects one with each entry; posted ones may go in together, and are then ambiguous: -1.
 */
static int device_vector(struct lat *l, struct lat_vcpu *v, int32_t irq, const char *name)
{
	uint64_t key = irq_key(l, v, irq), known, last = 0;
	int found = -1;

	if (!v->chain)
		return -1;
	if (u64map_get(&l->irq_vector, key, &known) &&
	    awaits_handler(l, v, (unsigned int)known, name))
		return (int)known;
	for (int vec = -1; (vec = lat_chain_next(v, vec)) >= 0;) {
		if (!awaits_handler(l, v, (unsigned int)vec, name) ||
		    chain_in(&v->chain[vec]) < last)
			continue;
		found = chain_in(&v->chain[vec]) == last ? -1 : vec;
		last = chain_in(&v->chain[vec]);
	}
	if (found > 0)
		xu64map_put(&l->irq_vector, key, (uint64_t)found);
	return found;
}

/* A handler without an interrupt on its vCPU: that was not known, or was a wrong one. */
static void irq_stray(struct lat *l, struct lat_vcpu *v, int32_t irq, const char *name)
{
	struct lat_vcpu *home = l->guest[v->vm].home;
	uint64_t key = (uint64_t)v->vm << 32, known, id;
	int found = -1;

	/* A shared line has several handlers: the first one ends the chain. */
	if (v->running.open)
		return;
	lat_count(l, v, LAT_T_IRQ, IRQ_STRAY);
	/* A request that it ends must not be taken for one of the device before it. */
	if (irq >= 0 && irq != v->last_device.irq && strncmp(name, "IPI", 3))
		v->has_last = false;
	if (!home || !home->chain || irq < 0)
		return;
	if (u64map_get(&l->irq_vector, irq_key(l, v, irq), &known)) {
		found = home->chain[known].homeless && home->chain[known].open ? (int)known : -1;
		if (found < 0 && u64map_get(&l->irq_vcpu, key | known, &id) && id != v->id) {
			xu64map_put(&l->irq_vcpu, key | known, UINT64_MAX);
			return;
		}
	} else {
		for (int vec = -1; (vec = lat_chain_next(home, vec)) >= 0;)
			if (home->chain[vec].homeless && l->irqs->handles((unsigned int)vec, name))
				found = found == -1 ? vec : -2;
	}
	if (found < 0)
		return;
	xu64map_put(&l->irq_vector, irq_key(l, v, irq), (uint64_t)found);
	xu64map_put(&l->irq_vcpu, key | (unsigned int)found, v->id);
	chain_end(l, home, &home->chain[found]);
}

static void handler_begin(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	bool device = in->kind != EV_VECTOR_ENTRY;
	char name[24] = "";
	struct lat_handler *h;
	struct irq_chain *c;
	int vec;

	if (device && l->irqs->handles)
		lat_decode_text(l->dec[in->i->src->index], in, name, sizeof(name));
	vec = device ? device_vector(l, v, (int32_t)in->f[0], name) : (uint8_t)in->f[0];
	h = handler_of(l, v->vm, device ? l->irqs->device : (unsigned int)vec);
	l->table[LAT_T_IRQ].count[IRQ_UNMATCHED] += h->unmatched;
	l->table[LAT_T_IRQ].count[IRQ_ENDED] += h->ended;
	*h = (struct lat_handler){ .begun = true, .begin = h->begun ? h->begin : in->t,
				   .last = in->t, .untraced = h->untraced };
	if (!l->begun || in->t > l->stop) /* the host saw nothing of it */
		return;
	c = vec >= 0 && v->chain ? &v->chain[vec] : NULL;
	if (!c || !c->open || c->handled || (!c->entered && !c->posted)) {
		irq_stray(l, v, device ? (int32_t)in->f[0] : -1, name);
		return;
	}
	if (!c->entered) /* posted into a guest that ran: it never left */
		chain_taken(c);
	c->handled = true;
	c->t_handler = in->t;
	c->robbed = MIN(robbed_until(v, in->t) - c->robbed, in->t - c->t_entry);
	if (device) {
		c->irq = (int32_t)in->f[0];
		lat_decode_text(l->dec[in->i->src->index], in, c->name, sizeof(c->name));
		if (l->o.want[LAT_WAIT])
			memcpy(lat_wait_device(l, v, c)->name, c->name, sizeof(c->name));
		if (!l->irqs->is_timer(c->vector)) {
			v->last_device = *c;
			v->has_last = true;
		}
	} else {
		const char *event = fmt_name(in->i->ev);
		size_t n = MIN((size_t)(strrchr(event, '_') - event), sizeof(c->name) - 1);

		memcpy(c->name, event, n);
		c->name[n] = '\0';
	}
	/* The APIC may accept the vector again while it runs: the chain moves out of its place. */
	if (v->running.open)
		chain_count(l, v, &v->running);
	v->running = *c;
	chain_close(v, c);
	lat_timer_fired(l, v, &v->running);
}

void lat_irq_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (in->i->unplaced)
		return;
	switch (in->kind) {
	case EV_VECTOR_ENTRY:
	case EV_IRQ_ENTRY: handler_begin(l, v, in); break;
	case EV_VECTOR_EXIT:
	case EV_IRQ_EXIT: {
		struct irq_chain *c = &v->running;

		if (!c->open || (in->kind == EV_VECTOR_EXIT ? c->vector != (uint8_t)in->f[0]
							    : c->irq != (int32_t)in->f[0]))
			return;
		c->t_end = in->t;
		c->open = false;
		chain_count(l, v, c);
		break;
	}
	default: {
		bool on = !(fmt_flags(in->i->src->fmt, in->i->rec) & FLAG_BUSY);

		/*
		 * Where interrupts are on the guest has taken what had gone in before. It switches
		 * tasks with interrupts off, but not in a handler: what was injected it has taken,
		 * and what is posted may still wait.
		 */
		if (in->t > l->stop || (!on && in->kind != EV_SWITCH))
			return;
		lat_irq_passed(l, v, in->t, -1, on ? PAST_ALL : PAST_INJECTED);
		break;
	}
	}
}
