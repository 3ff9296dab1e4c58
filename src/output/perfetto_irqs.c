/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_irqs.c: interrupts on their way into a guest, for the arrows that follow them: the
 * vCPU's APIC accepts it, the host injects it, the guest's handler begins; or a line of the vCPU's
 * GIC goes up, and the handler begins.
 */
#include "perfetto.h"

/* ---- of an APIC ---- */

static struct pf_irqs *irqs_of(struct pf *p, int64_t vm, uint64_t vcpu)
{
	uint64_t key = (uint64_t)vm << 32 | (uint32_t)vcpu;
	struct pf_irqs **slot =
		xu64map_elem(&p->irqs_of, key, &p->irqs, &p->irqs_cap, sizeof(*slot));

	if (slot && !*slot)
		*slot = xcalloc(1, sizeof(**slot) +
					  p->irq_kind->numbers * sizeof((*slot)->of[0]));
	return slot ? *slot : NULL;
}

static uint64_t flow_take(struct pf_irq *irq)
{
	uint64_t flow = irq->flow;

	irq->flow = irq->next;
	irq->next = irq->entered = 0;
	irq->injected = false;
	return flow;
}

static void listed_add(struct pf *p, struct pf_irqs *q)
{
	q->listed++;
	p->irqs_listed++;
}

static uint64_t listed_take(struct pf *p, struct pf_irqs *q, struct pf_irq *irq)
{
	uint64_t flow = flow_take(irq);

	q->listed -= flow != 0;
	p->irqs_listed -= flow != 0;
	return flow;
}

/* The host's processor delivers what is accepted, without an event (APICv, AVIC). */
static bool is_posted(const struct pf *p, const struct pf_irqs *q)
{
	return !p->irq_kind->listed && !q->injects;
}

/* NULL: none has that number. */
static struct pf_irq *irq_of(struct pf *p, struct pf_irqs *q, uint64_t vector, bool inject)
{
	const struct event_irqs *irqs = p->irq_kind;

	if (vector >= irqs->numbers)
		return NULL;
	if (inject && !q->injects) {
		p->irqs_listed -= q->listed;
		q->listed = 0;
		q->injects = true;
	}
	if (vector >= irqs->device && vector < irqs->system && inject)
		q->device = (unsigned int)vector;
	return &q->of[vector];
}

/*
 * One that is pending takes in others; one that was injected no more, its handler comes first.
 * Where none is told to be, one that could go in with an entry has, even if nobody saw its handler.
 */
static uint64_t flow_accept(struct pf *p, struct pf_irqs *q, uint64_t vector)
{
	struct pf_irq *irq = irq_of(p, q, vector, false);
	uint64_t *flow = irq && irq->injected ? &irq->next : irq ? &irq->flow : NULL;

	if (irq && is_posted(p, q)) {
		if (irq->injected)
			(void)listed_take(p, q, irq);
		if (!irq->flow)
			listed_add(p, q);
		flow = &irq->flow;
	}
	if (flow && !*flow)
		*flow = ++p->next_flow;
	return flow ? *flow : 0;
}

/* If the last one was, and another one waits, its handler was not seen: maybe nobody records it. */
static uint64_t flow_inject(struct pf *p, struct pf_irqs *q, uint64_t vector, bool again)
{
	struct pf_irq *irq = irq_of(p, q, vector, true);

	if (!irq)
		return 0;
	if (irq->injected && irq->next && !again)
		(void)flow_take(irq);
	irq->flow = irq->flow ?: ++p->next_flow;
	irq->injected = true;
	return irq->flow;
}

void pf_irq_host(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	const struct hostmap *map = tl_hostmap(o->t);
	uint64_t vector, again = 0, vcpu = (uint64_t)i->vcpu;
	bool accept = e->role == EV_ACCEPT;
	struct pf *p = o->priv;
	struct pf_track *t;
	struct pf_irqs *q;
	ssize_t vm = (ssize_t)i->vm;

	/* The accepting APIC may be that of another vCPU than the sending one, or of none. */
	if (vm < 0 && accept && !i->src->link)
		vm = hostmap_task_vm(map, i->tid);
	if (vm < 0 || !evinfo_u64(e, i, accept ? 1 : 0, &vector) ||
	    (accept && !evinfo_u64(e, i, 0, &vcpu)))
		return;
	vm = (ssize_t)map->vm[vm].of;
	t = pf_track(o, p, PF_VCPU, (size_t)vm, (uint32_t)vcpu);
	q = irqs_of(p, vm, vcpu);
	pf_instant(o, t, e, i,
		       accept ? flow_accept(p, q, vector)
			      : flow_inject(p, q, vector, evinfo_u64(e, i, 2, &again) && again));
}

/*
 * Of several devices the highest vector goes first, and whose it is was learnt when it was alone.
 * A vector may become another device's.
 */
static uint64_t device_end(struct pf *p, struct pf_irqs *q, uint32_t irq)
{
	struct pf_irq *other = NULL, *first = NULL;
	unsigned int others = 0, free = 0;

	for (unsigned int n = p->irq_kind->system; q->listed && n-- > p->irq_kind->device;) {
		struct pf_irq *of = &q->of[n];

		if (!of->flow)
			continue;
		if (of->owner == irq + 1)
			return listed_take(p, q, of);
		if (of->owner && ++others)
			other = of;
		else if (!free++)
			first = of;
	}
	if (free == 1)
		first->owner = irq + 1;
	else if (!free && others == 1)
		other->owner = 0;
	return first ? listed_take(p, q, first) : 0;
}

/* ---- of a GIC ---- */

/*
 * A line goes up, and with the next entry into the vCPU, unless it goes down before. Of lines of
 * devices no event tells the vCPU: they have arrows where there is one.
 */
void pf_irq_line(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	const struct hostmap *map = tl_hostmap(o->t);
	ssize_t vm = i->vm < 0 && !i->src->link ? hostmap_task_vm(map, i->tid) : (ssize_t)i->vm;
	const struct hostmap_thread *thread, *only = NULL;
	uint64_t vcpu, number, level;
	struct pf *p = o->priv;
	struct pf_irqs *q;
	struct pf_track *t;

	if (vm < 0 || !evinfo_u64(e, i, 0, &vcpu) || !evinfo_u64(e, i, 1, &number) ||
	    !evinfo_u64(e, i, 2, &level) || number >= p->irq_kind->numbers)
		return;
	vm = (ssize_t)map->vm[vm].of;
	if (number >= p->irq_kind->shared) {
		hostmap_each_thread(map, (size_t)vm, thread) {
			if (only && only->vcpu != thread->vcpu)
				return;
			only = thread;
		}
		vcpu = only ? only->vcpu : vcpu;
	}
	q = irqs_of(p, vm, vcpu);
	if (!level && number < p->irq_kind->shared && !q->of[number].injected)
		(void)listed_take(p, q, &q->of[number]);
	/* Still up; or up again, as long as no handler was seen, which may not be recorded yet. */
	if (!level || (q->of[number].flow && (q->handled || !q->of[number].injected)))
		return;
	t = pf_track(o, p, PF_VCPU, (size_t)vm, (uint32_t)vcpu);
	(void)listed_take(p, q, &q->of[number]);
	listed_add(p, q);
	pf_instant(o, t, e, i, flow_accept(p, q, number));
}

void pf_irq_enter(struct pf *p, const struct tl_item *i)
{
	struct pf_irqs *q = irqs_of(p, i->vm, (uint64_t)i->vcpu);

	for (unsigned int n = 0; q && q->listed && n < p->irq_kind->numbers; n++) {
		if (!q->of[n].flow || q->of[n].injected)
			continue;
		q->of[n].injected = true;
		q->of[n].entered = i->host;
	}
}

/* Lines that went in, and may be this handler's; or, without a name, any. */
static bool is_in(const struct pf *p, const struct pf_irq *irq, unsigned int number,
		  const char *name)
{
	return irq->injected && (!name || p->irq_kind->handles(number, name));
}

static void lines_drop(struct pf *p, struct pf_irqs *q, uint64_t before, const char *name)
{
	for (unsigned int n = 0; q->listed && n < p->irq_kind->numbers; n++)
		if (is_in(p, &q->of[n], n, name) && q->of[n].entered < before)
			(void)listed_take(p, q, &q->of[n]);
}

/* Of common_flags (include/linux/trace_events.h): interrupts off, in one, or in an NMI. */
#define FLAG_BUSY 0x49

/*
 * A guest that goes on with its interrupts on has taken what went in, as far as its stamps can be
 * told from those of the entry.
 */
void pf_irq_passed(struct out *o, struct pf *p, const struct tl_item *i)
{
	uint64_t slack = tl_hostmap(o->t)->vm[i->vm].uncertain;
	struct pf_irqs *q = irqs_of(p, i->vm, (uint64_t)i->vcpu);

	if (q->listed && !(fmt_flags(i->src->fmt, i->rec) & FLAG_BUSY) && i->host > slack)
		lines_drop(p, q, i->host - slack, NULL);
}

/*
 * The line behind a handler is one that went in and may be its; which of several was learnt from
 * when it was alone. Unless it was, those that may be are over, but have no arrow.
 */
static void line_end(struct pf *p, struct pf_irqs *q, const struct tl_item *i, uint64_t irq,
		    const char *name, uint64_t *flow)
{
	uint64_t key = (uint64_t)i->vm << 32 | (uint32_t)irq, known = UINT64_MAX, number = 0;
	unsigned int found = 0;

	u64map_get(&p->irq_number, key, &known);
	for (unsigned int n = 0; q->listed && n < p->irq_kind->numbers; n++) {
		if (!is_in(p, &q->of[n], n, name))
			continue;
		number = n;
		found = n == known ? 1 : found + 1;
		if (n == known)
			break;
	}
	if (found > 1)
		lines_drop(p, q, UINT64_MAX, name);
	if (found != 1)
		return;
	*flow = listed_take(p, q, &q->of[number]);
	xu64map_put(&p->irq_number, key, number);
}

/* ---- either ---- */

void pf_irq_arrives(struct pf *p, const struct tl_item *i, const struct evinfo *e, uint64_t number,
		   uint64_t *flow)
{
	struct pf_irqs *q = irqs_of(p, i->vm, (uint64_t)i->vcpu);
	char name[64] = "";

	if (p->irq_kind->listed) {
		if (e->role != EV_IRQ_ENTRY)
			return;
		q->handled = true;
		(void)fmt_str(&e->type.f[1], i->rec, name, sizeof(name));
		line_end(p, q, i, number, name, flow);
		return;
	}
	/* What arrives in the guest: the flow to end, 0 = none. */
	if (!is_posted(p, q))
		*flow = flow_take(&q->of[e->role == EV_IRQ_ENTRY ? q->device : number & 0xff]);
	else
		*flow = e->role == EV_IRQ_ENTRY ? device_end(p, q, (uint32_t)number)
						: listed_take(p, q, &q->of[number & 0xff]);
}
