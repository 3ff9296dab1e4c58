/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto.c: a time line as a native trace for ui.perfetto.dev: what goes onto which track.
 *
 *	host		CPU 0		slices: the task, or the vCPU that is in its guest;
 *interrupts lost events	counter vCPUs of vm1	vCPU 0		slices: exits, by their
 *reasons, until the next entry guest vm1	CPU 0		slices: the task, within it
 *interrupts tasks		a track for each, slices while it runs lost events what must be said
 *of all times, if anything must
 *
 * All other events are instants, on the vCPU's track when its thread causes them, else on the
 * CPU's. Arrows follow an interrupt: the vCPU's APIC accepts it, the host injects it, the guest's
 * handler begins.
 */
#include "perfetto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIRST_DEVICE_VECTOR 0x20 /* of Linux guests: arch/x86/include/asm/irq_vectors.h */
#define LAST_DEVICE_VECTOR  0xeb

static struct pf_track *cpu_track(struct out *o, const struct tl_item *i)
{
	if (i->cpu == TL_NO_CPU) /* a thread of QEMU, 0: nobody knows which */
		return pf_track(o, o->priv, PF_THREAD, i->src->index, (uint32_t)MAX(i->tid, 0));
	return pf_track(o, o->priv, PF_CPU, i->src->index, i->cpu);
}

/* Where an event is shown that has no place of its own. */
static struct pf_track *event_track(struct out *o, const struct tl_item *i)
{
	if (!i->src->guest && i->vm >= 0 && i->vcpu >= 0)
		return pf_track(o, o->priv, PF_VCPU, (size_t)i->vm, (uint32_t)i->vcpu);
	return cpu_track(o, i);
}

/* ---- slices ---- */

static int slice_begin(struct out *o, struct pf_track *t, enum pf_slice what, struct pf_event *e)
{
	if (!t)
		return -ENOMEM;
	if (t->depth == PF_DEPTH) /* nothing nests so deep: shown as an instant */
		e->type = PF_INSTANT;
	else
		t->open[t->depth++] = what;
	return pf_put(o, o->priv, t, e);
}

static int slices_end(struct out *o, struct pf_track *t, unsigned int depth)
{
	int ret = 0;

	while (t->depth > depth && !ret) {
		t->depth--;
		ret = pf_put(o, o->priv, t, &(struct pf_event){ .type = PF_END });
	}
	return ret;
}

/* Ends the innermost slice of that kind, and all within it; none when there is none. */
static int slice_end(struct out *o, struct pf_track *t, enum pf_slice what)
{
	if (!t)
		return -ENOMEM;
	for (unsigned int d = t->depth; d; d--)
		if (t->open[d - 1] == what)
			return slices_end(o, t, d - 1);
	return 0;
}

static int instant(struct out *o, struct pf_track *t, const struct evinfo *e,
		   const struct tl_item *i, uint64_t flow)
{
	return t ? pf_put(o, o->priv, t,
			  &(struct pf_event){
				  .type = PF_INSTANT, .info = e, .item = i, .flow = flow })
		 : -ENOMEM;
}

/* ---- interrupts on their way ---- */

static struct pf_irqs *irqs_of(struct pf *p, int64_t vm, uint64_t vcpu)
{
	uint64_t at, key = (uint64_t)vm << 32 | (uint32_t)vcpu;
	struct pf_irqs **slot, *q;

	if (u64map_get(&p->irqs_of, key, &at))
		return p->irqs[at];
	slot = array_grow(&p->irqs, p->nirqs, &p->irqs_cap, sizeof(*slot));
	q = calloc(1, sizeof(*q));
	if (!slot || !q || u64map_put(&p->irqs_of, key, p->nirqs)) {
		free(q);
		return NULL;
	}
	*slot = q;
	p->nirqs++;
	return q;
}

/*
 * The flow of an interrupt that the host has in hand, begun here if it is new: also when the last
 * one of its vector was injected and never seen in the guest, which may not be recording.
 */
static uint64_t flow_of(struct pf *p, struct pf_irqs *q, uint64_t vector, bool inject)
{
	if (vector > 255)
		return 0;
	if (!q->flow[vector] || q->injected[vector])
		q->flow[vector] = ++p->next_flow;
	q->injected[vector] = inject;
	if (vector >= FIRST_DEVICE_VECTOR && vector <= LAST_DEVICE_VECTOR)
		q->device = (unsigned int)vector;
	return q->flow[vector];
}

static int host_irq(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf *p = o->priv;
	uint64_t vector, vcpu = (uint64_t)i->vcpu;
	bool accept = e->role == EV_ACCEPT;
	struct pf_irqs *q;

	/* The APIC that accepts may be that of another vCPU than the one that sends. */
	if (i->vm < 0 || !evinfo_u64(e, i, accept ? 1 : 0, &vector) ||
	    (accept && !evinfo_u64(e, i, 0, &vcpu)))
		return instant(o, event_track(o, i), e, i, 0);
	q = irqs_of(p, i->vm, vcpu);
	return q ? instant(o, event_track(o, i), e, i, flow_of(p, q, vector, !accept)) : -ENOMEM;
}

/* What arrives in the guest: the flow to end, 0 = none. */
static uint64_t flow_end(struct pf_irqs *q, enum event_role role, uint64_t number)
{
	unsigned int vector = role == EV_IRQ_ENTRY ? q->device : (unsigned int)(number & 0xff);
	uint64_t flow = q->flow[vector];

	q->flow[vector] = 0;
	q->injected[vector] = false;
	return flow;
}

/* ---- events with a meaning ---- */

/*
 * What a vCPU does is what is open on two tracks, and ends with the slices around it: a vcpu_turn
 * beside them would be the same a second time, to be looked up for each event.
 */
static int kvm_entry(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_track *t = event_track(o, i), *cpu = cpu_track(o, i);
	char name[128];
	int ret;

	if (!t || !cpu)
		return -ENOMEM;
	if (i->vm < 0) /* nobody knows whose it is */
		return instant(o, t, e, i, 0);
	ret = slice_end(o, t, PF_EXIT);
	ret = ret ? ret : slice_end(o, cpu, PF_GUEST);
	snprintf(name, sizeof(name), "%s vCPU %lld", tl_hostmap(o->t)->vm[i->vm].label,
		 (long long)i->vcpu);
	return ret ? ret : slice_begin(o, cpu, PF_GUEST, &(struct pf_event){
				.type = PF_BEGIN, .name = name, .info = e, .item = i });
}

static int kvm_exit(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_track *t = event_track(o, i);
	struct pf *p = o->priv;
	char reason[EXIT_NAME_MAX];
	int ret;

	if (!t || i->vm < 0 || !evinfo_reason(&p->types, e, i, reason, sizeof(reason)))
		return instant(o, t, e, i, 0);
	ret = slice_end(o, cpu_track(o, i), PF_GUEST);
	if (!ret)
		ret = slice_end(o, t, PF_EXIT); /* its entry was lost */
	return ret ? ret : slice_begin(o, t, PF_EXIT, &(struct pf_event){
				.type = PF_BEGIN, .name = reason, .info = e, .item = i });
}

static int sched_switch(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_track *cpu = cpu_track(o, i), *t;
	uint64_t prev = 0, next = 0;
	char name[64];
	int ret;

	if (!cpu)
		return -ENOMEM;
	evinfo_u64(e, i, 0, &prev);
	evinfo_u64(e, i, 2, &next);
	ret = slices_end(o, cpu, 0);
	if (!ret && (uint32_t)prev) {
		t = pf_track(o, o->priv, PF_THREAD, i->src->index, (uint32_t)prev);
		ret = slice_end(o, t, PF_TASK);
	}
	if (ret || !(uint32_t)next)
		return ret;
	snprintf(name, sizeof(name), "%s %u", tl_comm(i->src, (int32_t)next), (uint32_t)next);
	ret = slice_begin(o, cpu, PF_TASK, &(struct pf_event){ .type = PF_BEGIN, .name = name,
							       .info = e, .item = i });
	t = pf_track(o, o->priv, PF_THREAD, i->src->index, (uint32_t)next);
	snprintf(name, sizeof(name), "CPU %u", i->cpu);
	return ret ? ret : slice_begin(o, t, PF_TASK, &(struct pf_event){ .type = PF_BEGIN,
									  .name = name });
}

static enum pf_slice irq_slice(enum event_role role)
{
	if (role == EV_VECTOR_ENTRY || role == EV_VECTOR_EXIT)
		return PF_VECTOR;
	return role == EV_SOFTIRQ_ENTRY || role == EV_SOFTIRQ_EXIT ? PF_SOFTIRQ : PF_IRQ;
}

static int irq_entry(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_event ev = { .type = PF_BEGIN, .info = e, .item = i };
	uint64_t number = 0;
	struct pf_irqs *q;
	char name[128];

	evinfo_u64(e, i, 0, &number);
	if (e->role == EV_VECTOR_ENTRY) {
		const char *full = fmt_name(e->ev);

		snprintf(name, sizeof(name), "%.*s", (int)(strlen(full) - strlen("_entry")), full);
	} else {
		snprintf(name, sizeof(name), "%s %u", e->role == EV_IRQ_ENTRY ? "irq" : "softirq",
			 (uint32_t)number);
	}
	ev.name = name;
	if (i->src->guest && i->vm >= 0 && e->role != EV_SOFTIRQ_ENTRY) {
		q = irqs_of(o->priv, i->vm, (uint64_t)i->vcpu);
		if (!q)
			return -ENOMEM;
		ev.flow = flow_end(q, e->role, number);
		ev.flow_ends = true;
	}
	return slice_begin(o, cpu_track(o, i), irq_slice(e->role), &ev);
}

static int put_event(struct out *o, const struct tl_item *i)
{
	struct pf *p = o->priv;
	const struct evinfo *e;

	if (!i->ev) {
		struct pf_track *t = event_track(o, i);

		return t ? pf_put(o, p, t,
				  &(struct pf_event){ .type = PF_INSTANT, .name = "(no format)" })
			 : -ENOMEM;
	}
	e = evinfo_get(&p->types, i);
	if (!e)
		return -ENOMEM;
	switch (e->role) {
	case EV_ENTRY:
		return i->src->guest ? instant(o, cpu_track(o, i), e, i, 0) : kvm_entry(o, i, e);
	case EV_EXIT:
		return i->src->guest ? instant(o, cpu_track(o, i), e, i, 0) : kvm_exit(o, i, e);
	case EV_ACCEPT:
	case EV_INJECT:
		return i->src->guest ? instant(o, cpu_track(o, i), e, i, 0) : host_irq(o, i, e);
	case EV_SWITCH: return sched_switch(o, i, e);
	case EV_IRQ_ENTRY:
	case EV_VECTOR_ENTRY:
	case EV_SOFTIRQ_ENTRY: return irq_entry(o, i, e);
	case EV_IRQ_EXIT:
	case EV_VECTOR_EXIT:
	case EV_SOFTIRQ_EXIT: return slice_end(o, cpu_track(o, i), irq_slice(e->role));
	default: return instant(o, event_track(o, i), e, i, 0);
	}
}

/* Lost events: what is open on this CPU is not known any more, and the counter rises. */
static int put_gap(struct out *o, const struct tl_item *i)
{
	struct pf_track *cpu = cpu_track(o, i);
	struct pf_track *lost = pf_track(o, o->priv, PF_LOST, i->src->index, 0);
	struct pf *p = o->priv;
	char name[64];
	int ret;

	if (!cpu || !lost)
		return -ENOMEM;
	if (i->kind == TL_DAMAGE)
		snprintf(name, sizeof(name), "DAMAGED sub-buffer %llu",
			 (unsigned long long)i->lost);
	else if (i->lost)
		snprintf(name, sizeof(name), "LOST %llu EVENTS", (unsigned long long)i->lost);
	else
		snprintf(name, sizeof(name), "LOST EVENTS, number unknown");
	ret = slices_end(o, cpu, 0);
	ret = ret ? ret : pf_put(o, p, cpu, &(struct pf_event){ .type = PF_INSTANT, .name = name });
	/* A loss of unknown size shows as one, so that it is seen. */
	p->lost[i->src->index] += i->kind == TL_GAP && i->lost ? i->lost : 1;
	return ret ? ret : pf_put(o, p, lost, &(struct pf_event){
				.type = PF_COUNTER, .value = (int64_t)p->lost[i->src->index] });
}

/* A track with an event on it: one without is not shown. */
static int put_remark(struct out *o)
{
	struct pf *p = o->priv;
	struct pf_track *t = pf_track(o, p, PF_REMARK, 0, 0);
	int ret = t ? pf_put(o, p, t, &(struct pf_event){ .type = PF_INSTANT, .name = p->remark.s })
		    : -ENOMEM;

	sbuf_reset(&p->remark);
	return ret;
}

static int perfetto_item(struct out *o, const struct tl_item *i)
{
	struct pf *p = o->priv;
	uint64_t t;
	int ret = 0;

	if (out_item_time(o, i, &t))
		p->now = t; /* else it stands at its neighbour's place */
	if (p->remark.len)
		ret = put_remark(o);
	if (ret)
		return ret;
	return i->kind == TL_EVENT ? put_event(o, i) : put_gap(o, i);
}

static int perfetto_epoch(struct out *o, const struct out_epoch *e)
{
	struct pf *p = o->priv;
	struct pf_track *t;
	char name[96];
	uint64_t v;

	if (e->first || !out_clock_value(&o->clock, e->host, -1, &v))
		return 0;
	t = pf_track(o, p, PF_VCPU, e->src->vm, e->vcpu);
	if (!t)
		return -ENOMEM;
	p->now = v;
	snprintf(name, sizeof(name), "EPOCH: TSC offset %lld, pvclock record %u",
		 (long long)e->e->map.offset, e->e->has_pv ? e->e->pv.version : 0);
	return pf_put(o, p, t, &(struct pf_event){ .type = PF_INSTANT, .name = name });
}

static int perfetto_begin(struct out *o)
{
	struct pf *p = calloc(1, sizeof(*p));
	int ret = 0;

	if (!p)
		return -ENOMEM;
	o->priv = p;
	p->lost = calloc(tl_sources(o->t) + 1, sizeof(*p->lost));
	if (!p->lost || evinfos_init(&p->types, o->t))
		return -ENOMEM;
	out_clock_remark(&o->clock, &p->remark);
	ret = pf_head(o, p);
	/* The counters start at 0, and tell that nothing was lost where they stay there. */
	for (size_t i = 0; i < tl_sources(o->t) && !ret; i++)
		ret = pf_track(o, p, PF_LOST, i, 0) ? 0 : -ENOMEM;
	return ret;
}

static int perfetto_end(struct out *o)
{
	struct pf *p = o->priv;

	if (!p)
		return 0;
	evinfos_free(&p->types);
	sbuf_free(&p->remark);
	for (size_t i = 0; i < p->ntrack; i++)
		free(p->track[i]);
	for (size_t i = 0; i < p->nirqs; i++)
		free(p->irqs[i]);
	free(p->track);
	free(p->irqs);
	free(p->lost);
	u64map_free(&p->by_uuid);
	u64map_free(&p->irqs_of);
	u64map_free(&p->iid);
	free(p);
	o->priv = NULL;
	return 0;
}

const struct out_format out_perfetto = {
	.name = "perfetto",
	.help = "a trace for ui.perfetto.dev",
	.binary = true,
	.only_ns = true,
	.begin = perfetto_begin,
	.item = perfetto_item,
	.epoch = perfetto_epoch,
	.end = perfetto_end,
};
