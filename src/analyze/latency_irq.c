/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency_irq.c: an interrupt from its source on the host to the end of its handler in the guest.
 *
 *   raised      kvm_msi_set_irq, kvm_set_irq or kvm_apic_ipi of the thread that accepts it next
 *   accepted    kvm_apic_accept_irq: pending in the vCPU's APIC (posted: kvm_apicv_accept_irq)
 *   injected    kvm_inj_virq: goes in with the next entry; posted ones have none
 *   entered     kvm_entry: the guest can take it
 *   handled     irq_vectors:*_entry of its vector, or irq_handler_entry of a device, in the guest
 *
 * An APIC holds a vector once: what is accepted again before it was injected is coalesced. The events
 * of devices' handlers tell the guest's interrupt number and not the vector; which is which is learnt
 * from what was injected last, and handlers that stay ambiguous are left out and counted.
 */
#include "latency_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIRST_SYSTEM_VECTOR 0xec /* LOCAL_TIMER_VECTOR: above are the kernel's own */
#define FIRST_DEVICE_VECTOR 0x20
/* Of common_flags (include/linux/trace_events.h). */
#define FLAG_HARDIRQ 0x08
#define FLAG_SOFTIRQ 0x10

enum { ST_TOTAL, ST_WAKE, ST_RAISE, ST_DELIVER, ST_MASKED, ST_OFFCPU, ST_ENTER, ST_GUEST, ST_HANDLER, ST_EOI };
enum { BY_NOTHING, BY_KICK, BY_HALT, BY_KERNEL, BY_VMM, BY_OFFCPU, BY_MASKED, BY_GUEST, BY_RAISE };

const struct lat_desc lat_desc_irq = {
	.name = "irq",
	.title = "interrupts, from the source on the host to the guest's handler",
	.key = "Interrupt",
	.stage = { "total", "wake", "raise", "deliver", "masked", "off-cpu", "enter", "guest", "handler", "eoi" },
	.stage_help = {
		"from the source to the first event of the handler (without a guest: to the entry)",
		"before it: the VMM's thread that raised it had waited for a CPU; no part of the total",
		"from the source to the APIC of the vCPU",
		"from there to the injection, less the two parts that follow",
		"... the guest ran with interrupts off",
		"... the vCPU's thread wanted a CPU and had none",
		"from the injection to the entry of the guest",
		"from the entry to the handler",
		"in the handler",
		"from the handler's begin to the end of interrupt",
	},
	.crosses = 1u << ST_TOTAL | 1u << ST_GUEST | 1u << ST_EOI,
	.parts = 1u << ST_RAISE | 1u << ST_DELIVER | 1u << ST_MASKED | 1u << ST_OFFCPU | 1u << ST_ENTER |
		 1u << ST_GUEST,
	.cause = { "", "kick out of the guest", "wake-up of a halted vCPU", "vCPU busy in KVM",
		   "vCPU busy in the VMM", "vCPU off its CPU", "interrupts off in the guest",
		   "late in the guest", "late at the source" },
	/* The first is the sum of those up to "open at the end". */
	.count = { "accepted", "measured", "never injected", "injected, handler not seen",
		   "of vectors that the guest did not trace", "outside the guest's capture",
		   "cut by lost events", "open at the end", "coalesced",
		   "injected again", "posted", "handlers without an interrupt of the host" },
};

static struct irq_chain *chain_at(struct lat_vcpu *v, uint8_t vector)
{
	if (!v->chain)
		v->chain = calloc(IRQ_VECTORS, sizeof(*v->chain));
	return v->chain ? &v->chain[vector] : NULL;
}

static void chain_close(struct lat_vcpu *v, struct irq_chain *c)
{
	c->open = false;
	v->open[c->vector / 64] &= ~(1ull << c->vector % 64);
}

static uint64_t *irq_count(struct lat *l, unsigned int which)
{
	return &l->table[LAT_T_IRQ].count[which];
}

/* ---- the source ---- */

/*
 * Who may only use an irqfd: the ioctls are the VMM's, so not vhost's threads, not a work item of irqfd itself
 * (virt/kvm/eventfd.c: irqfd_inject), and not an interrupt of the host. The VMM's own threads may use either.
 */
static bool by_irqfd(const struct lat_in *in)
{
	const struct tl_source *host = in->i->src;
	const char *comm = tl_comm(host, in->i->tid);

	return fmt_flags(host->fmt, in->i->rec) & (FLAG_HARDIRQ | FLAG_SOFTIRQ) || !strncmp(comm, "vhost-", 6) ||
	       !strncmp(comm, "kworker/", 8);
}

void lat_irq_raised(struct lat *l, const struct lat_in *in)
{
	switch (in->kind) {
	case LE_MSI:
	case LE_SET_IRQ:
	case LE_IPI: break;
	case LE_ACCEPT: /* one message may go to several vCPUs */
	case LE_APICV_ACCEPT: return;
	default:
		if (in->i->tid == l->raised.tid)
			l->raised.valid = false;
		return;
	}
	/* A line that is routed to a message makes both events: it began with the first. */
	if (in->kind == LE_MSI && l->raised.valid && l->raised.line && l->raised.tid == in->i->tid &&
	    l->raised.cpu == in->i->cpu && l->raised.vector < 0) {
		l->raised.line = false;
		l->raised.source = l->raised.source == SRC_LINE ? SRC_MSI : l->raised.source;
		return;
	}
	l->raised.valid = true;
	l->raised.line = in->kind == LE_SET_IRQ;
	l->raised.tid = in->i->tid;
	l->raised.cpu = in->i->cpu;
	l->raised.vector = -1;
	l->raised.t = in->t;
	l->raised.has_wake = lat_worker_raises(l, in->i->tid, &l->raised.wake);
	if (in->kind == LE_IPI)
		l->raised.source = SRC_IPI;
	else if (by_irqfd(in))
		l->raised.source = SRC_IRQFD;
	else
		l->raised.source = in->kind == LE_MSI ? SRC_MSI : SRC_LINE;
}

/* The vCPU that an APIC belongs to; NULL when it never runs in this capture (whose ids are not trusted). */
static struct lat_vcpu *apic_vcpu(struct lat *l, size_t vm, uint32_t id)
{
	uint64_t at;

	if (u64map_get(&l->vcpu_at, (uint64_t)vm << 32 | id, &at))
		return l->vcpu[at];
	return hostmap_vcpu(l->map, vm, id) ? lat_vcpu_get(l, vm, id) : NULL;
}

/* ---- accepted, injected, entered ---- */

/* One message may go to several vCPUs, with one vector. */
static bool is_raised(struct lat *l, const struct lat_in *in, uint8_t vector)
{
	if (!l->raised.valid || l->raised.tid != in->i->tid || l->raised.cpu != in->i->cpu)
		return false;
	if (l->raised.vector < 0)
		l->raised.vector = vector;
	return l->raised.vector == vector;
}

static void chain_open(struct lat *l, struct lat_vcpu *v, struct irq_chain *c, uint8_t vector,
		       const struct lat_in *in)
{
	bool raised = is_raised(l, in, vector);

	memset(c, 0, sizeof(*c));
	c->open = true;
	c->vector = vector;
	c->irq = -1;
	c->source = raised ? l->raised.source : SRC_UNKNOWN;
	c->t_source = raised ? l->raised.t : in->t;
	c->has_wake = raised && l->raised.has_wake;
	c->wake = l->raised.wake;
	c->t_accept = in->t;
	c->at_accept = v->state;
	c->entries = v->entries;
	lat_times_at(v, in->t, c->spent);
	lat_timer_accept(l, v, c);
	v->open[vector / 64] |= 1ull << vector % 64;
}

static int chain_end(struct lat *l, struct lat_vcpu *v, struct irq_chain *c);

int lat_irq_accept(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	uint8_t vector = (uint8_t)in->f[1];
	struct irq_chain *c;
	struct lat_vcpu *v;
	int ret = 0;

	/* NMI, INIT and SIPI are no interrupts with a vector. */
	if (vm < 0 || (in->has & 4 && (in->f[2] >> 8 & 7) > 1 && (in->f[2] >> 8 & 7) != 7))
		return 0;
	v = apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]);
	if (!v)
		return 0;
	c = chain_at(v, vector);
	if (!c)
		return -ENOMEM;
	if (in->kind == LE_APICV_ACCEPT) {
		if (c->open && !c->posted) {
			c->posted = true;
			*irq_count(l, IRQ_POSTED) += 1;
		}
		return 0;
	}
	if (c->open && !c->injected && !c->posted) {
		c->coalesced++;
		*irq_count(l, IRQ_COALESCED) += 1;
		return 0;
	}
	if (c->open)
		ret = chain_end(l, v, c);
	*irq_count(l, IRQ_ACCEPTED) += 1;
	chain_open(l, v, c, vector, in);
	return ret;
}

static void spent_since_accept(struct lat_vcpu *v, struct irq_chain *c, uint64_t t)
{
	uint64_t now[VS_STATES];

	lat_times_at(v, t, now);
	for (unsigned int s = 0; s < VS_STATES; s++)
		c->spent[s] = now[s] - c->spent[s];
	/* It was entered without the interrupt: KVM could not inject it. Before that, it was kicked. */
	if (c->first_entry)
		c->masked = MIN(c->spent[VS_GUEST], t - c->first_entry);
}

int lat_irq_inject(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	uint8_t vector = (uint8_t)in->f[0];
	struct irq_chain *c;
	int ret;

	if (in->has & 2 && in->f[1])
		return 0; /* a software interrupt of the guest */
	c = chain_at(v, vector);
	if (!c)
		return -ENOMEM;
	if (c->open && c->injected) {
		c->reinjected++;
		*irq_count(l, IRQ_REINJECTED) += 1;
		return 0;
	}
	if (c->open && c->entered) { /* posted, and taken without a handler: this is another one */
		ret = chain_end(l, v, c);
		if (ret)
			return ret;
	}
	if (!c->open) { /* accepted before the capture, or by the PIC, which has no such event */
		*irq_count(l, IRQ_ACCEPTED) += 1;
		l->raised.valid = false;
		chain_open(l, v, c, vector, in);
	}
	c->injected = true;
	c->t_inject = in->t;
	spent_since_accept(v, c, in->t);
	return 0;
}

static void chain_entered(struct lat_vcpu *v, struct irq_chain *c, uint64_t t)
{
	if (c->injected) {
		c->entered = true;
		c->t_entry = t;
	} else if (c->posted) {
		/* A running guest takes it at once, any other at the entry. */
		c->entered = true;
		c->t_entry = t;
		c->t_inject = t;
		spent_since_accept(v, c, t);
	} else if (!c->first_entry) {
		c->first_entry = t;
	}
}

/* Tells all open chains of the entry; few are. Without a guest this is as far as a timer is seen. */
int lat_irq_entry(struct lat *l, struct lat_vcpu *v, uint64_t t)
{
	int ret = 0;

	for (unsigned int w = 0; w < ARRAY_SIZE(v->open); w++)
		for (uint64_t bits = v->open[w]; bits && !ret; bits &= bits - 1) {
			struct irq_chain *c = &v->chain[w * 64 + (unsigned int)__builtin_ctzll(bits)];

			if (c->entered)
				continue;
			chain_entered(v, c, t);
			if (c->entered && !l->guest[v->vm].src)
				ret = lat_timer_fired(l, v, c);
		}
	return ret;
}

int lat_irq_eoi(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);
	struct lat_vcpu *v = vm >= 0 ? apic_vcpu(l, (size_t)vm, (uint32_t)in->f[0]) : NULL;
	uint8_t vector = (uint8_t)in->f[1];
	struct irq_chain *c = v && v->chain ? &v->chain[vector] : NULL;

	if (v && v->running.open && v->running.vector == vector && !v->running.t_eoi) {
		v->running.t_eoi = in->t;
		return 0;
	}
	if (!c || !c->open || !c->entered || c->t_eoi)
		return 0;
	c->t_eoi = in->t;
	return l->guest[vm].src ? 0 : chain_end(l, v, c);
}

/* ---- the end ---- */

static uint32_t cause_of(const struct irq_chain *c, const uint64_t *ns, uint64_t total)
{
	uint64_t host = ns[ST_DELIVER];

	if (ns[ST_MASKED] > total / 2)
		return BY_MASKED;
	if (ns[ST_OFFCPU] > total / 2)
		return BY_OFFCPU;
	if (ns[ST_GUEST] > total / 2)
		return BY_GUEST;
	if (ns[ST_RAISE] > total / 2)
		return BY_RAISE;
	if (host <= total / 2)
		return BY_NOTHING;
	if (c->spent[VS_USER] > c->spent[VS_KERNEL] && c->spent[VS_USER] > c->spent[VS_HALTED])
		return BY_VMM;
	switch (c->at_accept) {
	case VS_HALTED: return BY_HALT;
	case VS_GUEST: return BY_KICK;
	case VS_USER: return BY_VMM;
	default: return BY_KERNEL;
	}
}

static void chain_stages(const struct lat *l, const struct irq_chain *c, struct lat_case *k)
{
	uint64_t offcpu = c->spent[VS_WAITING] + c->spent[VS_PREEMPTED];
	uint64_t deliver = c->t_inject - c->t_accept;

	k->begin = c->t_source;
	k->end = c->handled ? c->t_handler : c->t_entry;
	if (c->has_wake)
		lat_stage(k, ST_WAKE, lat_ns(l, c->wake));
	lat_stage(k, ST_RAISE, lat_ns(l, c->t_accept - c->t_source));
	lat_stage(k, ST_MASKED, lat_ns(l, MIN(c->masked, deliver)));
	lat_stage(k, ST_OFFCPU, lat_ns(l, MIN(offcpu, deliver - MIN(c->masked, deliver))));
	lat_stage(k, ST_DELIVER, lat_ns(l, deliver) - k->stage_ns[ST_MASKED] - k->stage_ns[ST_OFFCPU]);
	lat_stage(k, ST_ENTER, lat_ns(l, c->t_entry - c->t_inject));
	if (c->handled) {
		lat_stage(k, ST_GUEST, lat_ns(l, c->t_handler - c->t_entry));
		if (c->t_end)
			lat_stage(k, ST_HANDLER, lat_ns(l, c->t_end - c->t_handler));
		if (c->t_eoi > c->t_handler)
			lat_stage(k, ST_EOI, lat_ns(l, c->t_eoi - c->t_handler));
	} else if (c->t_eoi > c->t_entry) {
		lat_stage(k, ST_EOI, lat_ns(l, c->t_eoi - c->t_entry));
	}
	k->ns = lat_ns(l, k->end - k->begin);
	lat_stage(k, ST_TOTAL, k->ns);
	k->cause = cause_of(c, k->stage_ns, k->ns);
}

static void group_name(struct lat_group *g, const struct irq_chain *c)
{
	static const char *const source[] = { "", "MSI ", "line ", "IPI ", "irqfd " };

	if (c->irq >= 0)
		snprintf(g->name, sizeof(g->name), "%sirq %d%s%s", source[c->source], c->irq,
			 c->name[0] ? " " : "", c->name);
	else if (c->name[0])
		snprintf(g->name, sizeof(g->name), "%s%u %s", source[c->source], c->vector, c->name);
	else if (!g->name[0])
		snprintf(g->name, sizeof(g->name), "%s%u", source[c->source], c->vector);
}

static bool is_device(unsigned int vector)
{
	return vector >= FIRST_DEVICE_VECTOR && vector < FIRST_SYSTEM_VECTOR;
}

/* The handler's events of a vector; devices' share irq_handler_entry, which does not tell it. */
static struct lat_handler *handler_of(struct lat *l, size_t vm, unsigned int vector)
{
	struct lat_guest *g = &l->guest[vm];

	if (!g->handler)
		g->handler = calloc(IRQ_VECTORS, sizeof(*g->handler));
	return g->handler ? &g->handler[is_device(vector) ? 0 : vector] : NULL;
}

static int handler_seen(struct lat *l, size_t vm, unsigned int vector, uint64_t t)
{
	struct lat_handler *h = handler_of(l, vm, vector);

	if (!h)
		return -ENOMEM;
	*irq_count(l, IRQ_UNMATCHED) += h->unmatched;
	h->unmatched = 0;
	if (!h->begun)
		h->begin = t;
	h->begun = true;
	h->last = t;
	return 0;
}

/*
 * It went in, and no handler was seen. A recorder enables and disables events one by one, and not all: only
 * between the first and the last event of its handler the guest should have told of it.
 */
static int chain_unhandled(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	const struct lat_guest *g = &l->guest[v->vm];
	struct lat_handler *h = handler_of(l, v->vm, c->vector);

	if (!h)
		return -ENOMEM;
	if (!g->begun || c->t_entry < g->begin || c->t_entry >= g->stop)
		*irq_count(l, IRQ_OUTSIDE) += 1;
	else if (!h->begun || c->t_entry < h->begin)
		h->untraced++;
	else if (c->t_entry < h->last)
		*irq_count(l, IRQ_UNMATCHED) += 1;
	else
		h->unmatched++;
	return 0;
}

static int chain_count(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct lat_group *g;

	if (!c->entered) {
		*irq_count(l, IRQ_LOST) += 1;
		return 0;
	}
	if (l->guest[v->vm].src && !c->handled)
		return chain_unhandled(l, v, c);
	*irq_count(l, IRQ_MEASURED) += 1;
	if (!l->o.want[LAT_IRQ] || !lat_wanted(l, k.vm, k.vcpu))
		return 0;
	/* A device's vector is another one on each vCPU. */
	g = lat_group_get(l, LAT_T_IRQ, k.vm, c->irq >= 0 ? 1ull << 32 | (uint32_t)c->irq : c->vector, &k.group);
	if (!g)
		return 0;
	group_name(g, c);
	chain_stages(l, c, &k);
	snprintf(k.what, sizeof(k.what), "%.40s to vCPU %u%s", g->name, v->id, c->posted ? ", posted" : "");
	return lat_case_add(l, LAT_T_IRQ, g, &k);
}

static int chain_end(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	int ret = chain_count(l, v, c);

	chain_close(v, c);
	return ret;
}

/* ---- the guest ---- */

static bool awaits_handler(const struct lat_vcpu *v, unsigned int vec)
{
	const struct irq_chain *c = &v->chain[vec];

	return is_device(vec) && c->open && (c->entered || c->posted) && !c->handled;
}

/* A running guest takes what is posted at once. */
static uint64_t went_in(const struct irq_chain *c)
{
	return c->entered ? c->t_entry : c->t_accept;
}

/*
 * The vector behind interrupt number irq of the guest: learnt, or else the one that went in last. KVM
 * injects one with each entry; posted ones may go in together, and are then ambiguous: -1.
 */
static int device_vector(struct lat *l, struct lat_vcpu *v, int32_t irq)
{
	uint64_t key = ((uint64_t)v->vm << 32 | (uint32_t)irq) << 8 ^ v->id, known, last = 0;
	int found = -1;

	if (!v->chain)
		return -1;
	if (u64map_get(&l->irq_vector, key, &known) && awaits_handler(v, (unsigned int)known))
		return (int)known;
	for (unsigned int w = 0; w < ARRAY_SIZE(v->open); w++)
		for (uint64_t bits = v->open[w]; bits; bits &= bits - 1) {
			unsigned int vec = w * 64 + (unsigned int)__builtin_ctzll(bits);

			if (!awaits_handler(v, vec) || went_in(&v->chain[vec]) < last)
				continue;
			found = went_in(&v->chain[vec]) == last ? -1 : (int)vec;
			last = went_in(&v->chain[vec]);
		}
	if (found >= 0 && u64map_put(&l->irq_vector, key, (uint64_t)found))
		return -1;
	return found;
}

/* The APIC may accept the vector again while its handler runs: the chain moves out of its place. */
static int handler_takes(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	int ret = v->running.open ? chain_count(l, v, &v->running) : 0;

	v->running = *c;
	chain_close(v, c);
	return ret ? ret : lat_timer_fired(l, v, &v->running);
}

static int handler_begin(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	bool device = in->kind != LE_VECTOR_ENTRY;
	int vec = device ? device_vector(l, v, (int32_t)in->f[0]) : (uint8_t)in->f[0];
	struct irq_chain *c;

	if (handler_seen(l, v->vm, device ? FIRST_DEVICE_VECTOR : (unsigned int)vec, in->t))
		return -ENOMEM;
	c = vec >= 0 && v->chain ? &v->chain[vec] : NULL;
	if (!c || !c->open || c->handled || (!c->entered && !c->posted)) {
		/* A shared line has several handlers: only its first is the end of the way. */
		if (!v->running.open)
			*irq_count(l, IRQ_STRAY) += 1;
		return 0;
	}
	if (!c->entered) { /* posted into a guest that ran: it never left */
		c->entered = true;
		c->t_entry = c->t_inject = c->t_accept;
		memset(c->spent, 0, sizeof(c->spent));
	}
	c->handled = true;
	c->t_handler = in->t;
	if (device) {
		c->irq = (int32_t)in->f[0];
		lat_decode_text(l->dec[in->i->src->index], in, c->name, sizeof(c->name));
		v->last_device = *c;
		v->has_last = true;
	} else {
		const char *name = fmt_name(in->i->ev);

		snprintf(c->name, sizeof(c->name), "%.*s", (int)(strrchr(name, '_') - name), name);
	}
	return handler_takes(l, v, c);
}

static int handler_end(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct irq_chain *c = &v->running;

	if (!c->open || (in->kind == LE_VECTOR_EXIT ? c->vector != (uint8_t)in->f[0] : c->irq != (int32_t)in->f[0]))
		return 0;
	c->t_end = in->t;
	c->open = false;
	return chain_count(l, v, c);
}

int lat_irq_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (in->i->unplaced)
		return 0;
	switch (in->kind) {
	case LE_VECTOR_ENTRY:
	case LE_IRQ_ENTRY: return handler_begin(l, v, in);
	case LE_VECTOR_EXIT:
	case LE_IRQ_EXIT: return handler_end(l, v, in);
	default: return 0;
	}
}

void lat_irq_forget(struct lat *l, struct lat_vcpu *v)
{
	for (unsigned int w = 0; w < ARRAY_SIZE(v->open); w++) {
		*irq_count(l, IRQ_CUT) += (uint64_t)__builtin_popcountll(v->open[w]);
		for (uint64_t bits = v->open[w]; bits; bits &= bits - 1)
			v->chain[w * 64 + (unsigned int)__builtin_ctzll(bits)].open = false;
		v->open[w] = 0;
	}
	*irq_count(l, IRQ_CUT) += v->running.open;
	v->running.open = false;
	v->has_last = false;
}

/* Without a guest an interrupt that went in is measured, even if its end is not seen. */
static int finish_vcpu(struct lat *l, struct lat_vcpu *v)
{
	int ret = 0;

	for (unsigned int w = 0; w < ARRAY_SIZE(v->open); w++)
		for (uint64_t bits = v->open[w]; bits && !ret; bits &= bits - 1) {
			struct irq_chain *c = &v->chain[w * 64 + (unsigned int)__builtin_ctzll(bits)];

			if (c->entered && !l->guest[v->vm].src)
				ret = chain_end(l, v, c);
			else
				*irq_count(l, IRQ_OPEN) += 1;
		}
	*irq_count(l, IRQ_OPEN) += v->running.open;
	return ret;
}

/* After the last event of a handler the guest's capture is over, for that vector. */
static int finish_guest(struct lat *l, size_t vm)
{
	const struct lat_handler *h = l->guest[vm].handler;
	struct sbuf names = { 0 };
	int ret;

	for (unsigned int vec = 0; h && vec < IRQ_VECTORS; vec++) {
		*irq_count(l, IRQ_OUTSIDE) += h[vec].unmatched;
		*irq_count(l, IRQ_UNTRACED) += h[vec].untraced;
		if (!h[vec].untraced || h[vec].begun)
			continue;
		if (vec)
			sbuf_addf(&names, "%s%u", names.len ? ", " : "", vec);
		else
			sbuf_add(&names, "those of devices");
		sbuf_addf(&names, " (%llu)", (unsigned long long)h[vec].untraced);
	}
	ret = names.error;
	if (!ret && names.len && l->o.want[LAT_IRQ]) {
		struct sbuf text = { 0 };

		sbuf_addf(&text, "%s has no handler events of these vectors: %s", l->map->vm[vm].label, names.s);
		ret = text.error ? text.error : lat_note_add(l, text.s);
		sbuf_free(&text);
	}
	sbuf_free(&names);
	return ret;
}

int lat_irq_finish(struct lat *l)
{
	int ret = 0;

	for (size_t k = 0; k < l->nvcpu && !ret; k++)
		ret = finish_vcpu(l, l->vcpu[k]);
	for (size_t vm = 0; vm < l->map->nvm && !ret; vm++)
		ret = finish_guest(l, vm);
	return ret;
}
