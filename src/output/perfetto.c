/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto.c: a time line as a native trace for ui.perfetto.dev and trace processor: what goes
 * where.
 *
 * All events of hosts and guests are ftrace events of their machine, as Perfetto's own recorder
 * writes them: readers make CPUs, thread states and interrupts from these. In addition there are
 * tracks of what only a host with its guests can show:
 *
 * 	vCPUs of vm1	vCPU 0		slices: in the guest, or the exit, by its reason, until the
 * 					next entry; within, the vCPU's thread blocked or preempted
 * 			spikes		slices: what was late in the guest, by its cause
 * 	host		CPU 0		slices: the vCPU that is in its guest; interrupt vectors
 * 			lost events	counter
 * 	guest vm1	CPU 0		slices: interrupts
 * 			block I/O	slices: requests, from their issue to their completion
 * 			lost events
 * 	what must be said of all times, if anything must
 *
 * Arrows follow an interrupt. Events of QEMU's own traces, which have no CPU, are
 * instants on tracks of their threads.
 */

#include "kvmft/blame.h"
#include "perfetto.h"

/*
 * ---- interrupts on their way into a guest, for the arrows that follow them ----
 *
 * The vCPU's APIC accepts it, the host injects it, the guest's handler begins; or a line of the
 * vCPU's GIC goes up, and the handler begins.
 */

/* ---- of an APIC ---- */

static struct pf_irqs *irqs_of(struct pf *p, int64_t vm, uint64_t vcpu)
{
	uint64_t key = (uint64_t)vm << 32 | (uint32_t)vcpu;
	struct pf_irqs **slot =
		xu64map_elem(&p->irqs_of, key, &p->irqs, &p->irqs_cap, sizeof(*slot));

	if (!*slot)
		*slot = xcalloc(1, sizeof(**slot) + p->irq_kind->numbers * sizeof((*slot)->of[0]));
	return *slot;
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
 * Where none is said to be, one that could go in with an entry has, even if nobody saw its handler.
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

static void pf_irq_host(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	const struct hostmap *map = tl_hostmap(o->t);
	uint64_t vector, again = 0, vcpu = (uint64_t)i->vcpu, flow = 0;
	bool accept = e->role == EV_ACCEPT;
	struct pf *p = o->priv;
	struct pf_irq *irq;
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
	if (accept) {
		flow = flow_accept(p, q, vector);
	} else if ((irq = irq_of(p, q, vector, true))) {
		/* The last one was, and another waits: its handler was not seen. */
		if (irq->injected && irq->next && !(evinfo_u64(e, i, 2, &again) && again))
			(void)flow_take(irq);
		irq->flow = flow = irq->flow ?: ++p->next_flow;
		irq->injected = true;
	}
	pf_instant(o, t, e, i, flow);
}

/* The highest vector of several devices is first; whose it is was learnt when it was alone. */
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
static void pf_irq_line(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	const struct hostmap *map = tl_hostmap(o->t);
	ssize_t vm = i->vm < 0 && !i->src->link ? hostmap_task_vm(map, i->tid) : (ssize_t)i->vm;
	uint64_t vcpu, number, level;
	struct pf *p = o->priv;
	struct pf_irqs *q;
	struct pf_track *t;

	if (vm < 0 || !evinfo_u64(e, i, 0, &vcpu) || !evinfo_u64(e, i, 1, &number) ||
	    !evinfo_u64(e, i, 2, &level) || number >= p->irq_kind->numbers)
		return;
	vm = (ssize_t)map->vm[vm].of;
	if (number >= p->irq_kind->shared) {
		const struct hostmap_vm *v = &map->vm[vm];

		if (v->several)
			return;
		vcpu = v->threads != HOSTMAP_END ? map->thread[v->threads].vcpu : vcpu;
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

/* ---- either ---- */

/* A handler begins in a guest: *flow is what it ends, or stays as it is. */
static void pf_irq_arrives(struct pf *p, const struct tl_item *i, const struct evinfo *e,
			   uint64_t number, uint64_t *flow)
{
	struct pf_irqs *q = irqs_of(p, i->vm, (uint64_t)i->vcpu);
	char name[64] = "";

	if (p->irq_kind->listed) {
		uint64_t key = (uint64_t)i->vm << 32 | (uint32_t)number, known = UINT64_MAX,
			 line = 0;
		unsigned int found = 0;

		if (e->role != EV_IRQ_ENTRY)
			return;
		q->handled = true;
		(void)fmt_str(&e->type->f[1], i->rec, name, sizeof(name));
		/* The line behind a handler: it went in, and may be its, by what was learnt. */
		u64map_get(&p->irq_number, key, &known);
		for (unsigned int n = 0; q->listed && n < p->irq_kind->numbers; n++) {
			if (!is_in(p, &q->of[n], n, name))
				continue;
			line = n;
			found = n == known ? 1 : found + 1;
			if (n == known)
				break;
		}
		if (found > 1)
			lines_drop(p, q, UINT64_MAX, name);
		if (found != 1)
			return;
		*flow = listed_take(p, q, &q->of[line]);
		xu64map_put(&p->irq_number, key, line);
		return;
	}
	/* What arrives in the guest: the flow to end, 0 = none. */
	if (!is_posted(p, q))
		*flow = flow_take(&q->of[e->role == EV_IRQ_ENTRY ? q->device : number & 0xff]);
	else
		*flow = e->role == EV_IRQ_ENTRY ? device_end(p, q, (uint32_t)number)
						: listed_take(p, q, &q->of[number & 0xff]);
}

/*
 * What came late in the guests, and why: a slice for each spike, named by its
 * cause, with where its time went as arguments.
 *
 * vCPUs of vm1	spikes		side by side where they overlap
 */

#define ROWS 64u /* side by side: more than any guest has at once */

COMPARE_BY(by_begin, struct blame_spike *, ->begin);

static uint64_t khz_of(const struct out *o)
{
	return tl_hostmap(o->t)->cap->tsc_khz;
}

static void pf_put_spike(struct out *o, struct pf *p, const struct blame_spike *s, uint32_t row)
{
	_cleanup_(sbuf_free) struct sbuf notes = { 0 };
	struct pf_event e = { .type = PF_BEGIN, .name = blame_causes[s->cause].name,
			      .notes = &notes };
	uint64_t begin, end;
	struct pf_track *t;
	const char *unit;
	char name[2 * BLAME_NAME];

	if (!out_clock_value(&o->clock, s->begin, s->vcpu, &begin) ||
	    !out_clock_value(&o->clock, s->end, s->vcpu, &end))
		return;
	t = pf_track(o, p, PF_SPIKES, tl_hostmap(o->t)->vm[s->vm].of, row);
	unit = khz_of(o) ? "ns" : "cycles";
	pf_note_str(&notes, "late", blame_whats[s->what].name);
	if (s->of[0])
		pf_note_str(&notes, "of", s->of);
	pf_note_u64(&notes, "vcpu", (uint64_t)s->vcpu);
	pf_note_str(&notes, "cause", blame_causes[s->cause].help);
	if (!s->sure && s->cause > CAUSE_LOST)
		pf_note_str(&notes, "sure", "no");
	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *part = &s->part[i];

		snprintf(name, sizeof(name), "%s%s%s, %s", blame_causes[part->cause].name,
			 part->name[0] ? ": " : "", part->name, unit);
		pf_note_u64(&notes, name,
			    khz_of(o) ? tsc_cycles_to_ns(part->time, khz_of(o)) : part->time);
	}
	xsbuf_text(&notes);
	p->now = begin;
	pf_put(o, p, t, &e);
	p->now = end;
	pf_put(o, p, t, &(struct pf_event){ .type = PF_END });
}

void out_perfetto_spikes(struct out *o, const struct blame_spike *spikes, size_t n)
{
	size_t nvm = tl_hostmap(o->t)->nvm;
	_cleanup_free_ const struct blame_spike **s = xcalloc(n + 1, sizeof(*s));
	_cleanup_free_ uint64_t(*busy)[ROWS] = xcalloc(nvm + 1, sizeof(*busy));
	struct pf *p = o->priv;
	uint64_t now = p->now;

	for (size_t i = 0; i < n; i++)
		s[i] = &spikes[i];
	array_sort(s, n, by_begin);
	for (size_t i = 0; i < n; i++) {
		uint64_t *of;
		uint32_t row;

		if (s[i]->vm < 0 || (size_t)s[i]->vm >= nvm)
			continue;
		of = busy[tl_hostmap(o->t)->vm[s[i]->vm].of];
		row = 0; /* the first one that is free then */
		while (row < ROWS && of[row] > s[i]->begin)
			row++;
		if (row == ROWS)
			continue;
		of[row] = s[i]->end;
		pf_put_spike(o, p, s[i], row);
	}
	p->now = now;
}

#define NO_PLACE "their CPUs are numbered 1024 or higher, which Perfetto does not have"

static struct pf_track *cpu_track(struct out *o, const struct tl_item *i)
{
	if (i->cpu == TL_NO_CPU) /* a thread of QEMU, 0: unknown which */
		return pf_track(o, o->priv, PF_THREAD, i->src->index, (uint32_t)MAX(i->tid, 0));
	return pf_track(o, o->priv, PF_CPU, i->src->index, i->cpu);
}

/* Where an event without a place of its own is shown. */
static struct pf_track *event_track(struct out *o, const struct tl_item *i)
{
	if (!i->src->guest && i->vm >= 0 && i->vcpu >= 0)
		return pf_track(o, o->priv, PF_VCPU, (size_t)i->vm, (uint32_t)i->vcpu);
	return cpu_track(o, i);
}

/* ---- slices ---- */

static void slice_begin(struct out *o, struct pf_track *t, enum pf_slice what, struct pf_event *e)
{
	if (t->depth == PF_DEPTH) /* nothing nests so deep: shown as an instant */
		e->type = PF_INSTANT;
	else
		t->open[t->depth++] = what;
	pf_put(o, o->priv, t, e);
}

static void slices_end(struct out *o, struct pf_track *t, unsigned int depth)
{
	while (t->depth > depth) {
		t->depth--;
		pf_put(o, o->priv, t, &(struct pf_event){ .type = PF_END });
	}
}

/* Ends the innermost slice of that kind, and all within it; none if there is none. */
static void slice_end(struct out *o, struct pf_track *t, enum pf_slice what)
{
	for (unsigned int d = t->depth; d; d--)
		if (t->open[d - 1] == what) {
			slices_end(o, t, d - 1);
			return;
		}
}

static bool slice_is_open(const struct pf_track *t, enum pf_slice what)
{
	for (unsigned int d = t->depth; d; d--)
		if (t->open[d - 1] == what)
			return true;
	return false;
}

/* ---- events with a meaning ---- */

/* name: a constant. */
static void pf_time_slice(struct out *o, struct pf_track *t, enum pf_slice what, const char *name)
{
	struct pf_event e = { .type = PF_BEGIN, .name = name, .iid = pf_name(o, o->priv, name) };

	slice_begin(o, t, what, &e);
}

/*
 * What a vCPU does is what is open on two tracks, and ends with the slices around it: a vcpu_turn
 * beside them would keep the same a second time, to be looked up for each event.
 */
static void kvm_entry(struct out *o, const struct tl_item *i, struct pf_cpu *c)
{
	struct pf *p = o->priv;
	struct pf_track *t, *cpu;
	struct pf_event e = { .type = PF_BEGIN };
	char name[128];

	if (i->vm < 0) /* nobody knows whose it is */
		return;
	t = event_track(o, i);
	cpu = cpu_track(o, i);
	c->vcpu = t;
	slices_end(o, t, 0);
	slice_end(o, cpu, PF_GUEST);
	/* On the track of the CPU: the vCPU that it runs. */
	if (!t->ran_iid) {
		snprintf(name, sizeof(name), "%s vCPU %lld", tl_hostmap(o->t)->vm[i->vm].label,
			 (long long)i->vcpu);
		e.name = name;
		t->ran_iid = pf_name(o, p, name);
	}
	e.iid = t->ran_iid;
	slice_begin(o, cpu, PF_GUEST, &e);
	pf_time_slice(o, t, PF_GUEST, "guest");
	if (p->irqs_listed) {
		struct pf_irqs *q = irqs_of(p, i->vm, (uint64_t)i->vcpu);

		for (unsigned int n = 0; q && q->listed && n < p->irq_kind->numbers; n++) {
			if (!q->of[n].flow || q->of[n].injected)
				continue;
			q->of[n].injected = true;
			q->of[n].entered = i->host;
		}
	}
}

/* The name of the reason as a number: each is made once. */
static uint64_t reason_iid(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf *p = o->priv;
	char reason[EXIT_NAME_MAX];
	uint64_t why = 0, isa = 0, key, iid;

	evinfo_u64(e, i, 0, &why);
	evinfo_u64(e, i, 1, &isa);
	key = (uint64_t)i->src->index << 48 | (isa & 0xffff) << 32 | (uint32_t)why;
	if (u64map_get(&p->reason_iid, key, &iid))
		return iid;
	if (!evinfo_reason(e, i, reason, sizeof(reason)))
		return 0;
	iid = pf_name(o, p, reason);
	if (iid && p->reason_iid.n < 4096)
		xu64map_put(&p->reason_iid, key, iid);
	return iid;
}

static void kvm_exit(struct out *o, const struct tl_item *i, const struct evinfo *e,
		    struct pf_cpu *c)
{
	struct pf_event ev = { .type = PF_BEGIN, .info = e, .item = i };
	struct pf_track *t, *cpu;

	if (i->vm < 0)
		return;
	t = event_track(o, i);
	cpu = cpu_track(o, i);
	ev.iid = reason_iid(o, i, e);
	if (!ev.iid)
		return;
	c->vcpu = t;
	slice_end(o, cpu, PF_GUEST);
	slices_end(o, t, 0); /* also of one whose entry was lost */
	slice_begin(o, t, PF_EXIT, &ev);
}

/* ---- what the scheduler does to a vCPU's thread ---- */

static struct pf_track *pf_vcpu_of(struct out *o, const struct tl_item *i, uint64_t tid)
{
	const struct hostmap *map = tl_hostmap(o->t);
	const struct hostmap_thread *t;

	if (i->src->guest || i->src->link || !(int32_t)tid)
		return NULL;
	t = hostmap_thread(map, (int32_t)tid);
	if (!t || t->vm == HOSTMAP_END)
		return NULL;
	return pf_track(o, o->priv, PF_VCPU, map->vm[t->vm].of, t->vcpu);
}

static void sched_switch(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	uint64_t prev = 0, next = 0, state = 0;
	struct pf_track *t;

	evinfo_u64(e, i, 0, &prev);
	evinfo_u64(e, i, 1, &state);
	evinfo_u64(e, i, 2, &next);
	t = pf_vcpu_of(o, i, prev);
	if (t) {
		t->waiting = !event_task_sleeps(state);
		slice_end(o, t, PF_OFF);
		pf_time_slice(o, t, PF_OFF, t->waiting ? "preempted" : "blocked");
	}
	t = pf_vcpu_of(o, i, next);
	if (t) {
		t->waiting = false;
		slice_end(o, t, PF_OFF);
	}
}

static void irq_entry(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	bool vector = e->role == EV_VECTOR_ENTRY;
	enum pf_slice what = vector ? PF_VECTOR : PF_IRQ;
	struct pf_event ev = { .type = PF_BEGIN };
	struct pf_track *t;
	uint64_t number = 0;
	char name[128];

	if (!vector && !i->src->guest) /* readers of the trace have it from the event */
		return;
	evinfo_u64(e, i, 0, &number);
	if (vector) {
		const char *full = fmt_name(e->ev);

		snprintf(name, sizeof(name), "%.*s", (int)(strlen(full) - strlen("_entry")), full);
	} else {
		char *end = name + snprintf(name, 64, "irq %u ", (uint32_t)number);

		if (!fmt_str(&e->type->f[1], i->rec, end, 64) || !*end)
			end[-1] = '\0';
	}
	ev.name = name;
	if (i->src->guest && i->vm >= 0) {
		pf_irq_arrives(o->priv, i, e, number, &ev.flow);
		ev.flow_ends = true;
	}
	t = cpu_track(o, i);
	/* None interrupts its own kind: a recorder without ends has only beginnings to show. */
	t->no_ends |= slice_is_open(t, what);
	slice_end(o, t, what);
	if (t->no_ends)
		ev.type = PF_INSTANT;
	if (t->no_ends)
		pf_put(o, o->priv, t, &ev);
	else
		slice_begin(o, t, what, &ev);
}

/* ---- block I/O ---- */

enum { IO_DEV, IO_SECTOR, IO_RWBS = 4 }; /* of EV_RQ_ISSUE */

static void io_issue(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_event ev = { .type = PF_BEGIN, .info = e, .item = i };
	struct pf_io *io = ((struct pf *)o->priv)->io[i->src->index];
	uint64_t dev = 0, sector = 0;
	char rwbs[16];
	uint32_t n = 0;

	while (n < PF_IO_TRACKS && io[n].on)
		n++;
	if (n == PF_IO_TRACKS || !evinfo_u64(e, i, IO_DEV, &dev) ||
	    !evinfo_u64(e, i, IO_SECTOR, &sector))
		return;
	if (!fmt_str(&e->type->f[IO_RWBS], i->rec, rwbs, sizeof(rwbs)))
		strcpy(rwbs, "request");
	ev.name = rwbs;
	io[n] = (struct pf_io){ true, dev, sector };
	slice_begin(o, pf_track(o, o->priv, PF_IO, i->src->index, n), PF_REQUEST, &ev);
}

/* One whose issue was not seen has no slice. */
static void io_complete(struct out *o, const struct tl_item *i, const struct evinfo *e)
{
	struct pf_io *io = ((struct pf *)o->priv)->io[i->src->index];
	uint64_t dev = 0, sector = 0;

	evinfo_u64(e, i, IO_DEV, &dev);
	evinfo_u64(e, i, IO_SECTOR, &sector);
	for (uint32_t n = 0; n < PF_IO_TRACKS; n++)
		if (io[n].on && io[n].dev == dev && io[n].sector == sector) {
			io[n].on = false;
			slice_end(o, pf_track(o, o->priv, PF_IO, i->src->index, n), PF_REQUEST);
			return;
		}
}

/* ---- the event ---- */

static void put_meaning(struct out *o, const struct tl_item *i, const struct evinfo *e,
		       struct pf_cpu *c)
{
	const struct pf *p = o->priv;

	switch (e->role) {
	case EV_SWITCH: sched_switch(o, i, e); break;
	case EV_WAKING:
	case EV_WAKEUP: {
		struct pf_track *t;
		uint64_t pid = 0;

		/* It could go on: from now on it waits for a CPU. */
		evinfo_u64(e, i, 0, &pid);
		t = pf_vcpu_of(o, i, pid);
		if (t && !t->waiting && slice_is_open(t, PF_OFF)) {
			t->waiting = true;
			slice_end(o, t, PF_OFF);
			pf_time_slice(o, t, PF_OFF, "waiting for a CPU");
		}
		break;
	}
	case EV_IRQ_ENTRY:
	case EV_VECTOR_ENTRY: irq_entry(o, i, e); break;
	case EV_IRQ_EXIT:
	case EV_VECTOR_EXIT: {
		bool vector = e->role == EV_VECTOR_EXIT;

		/* Its entry may have made neither a slice nor a track. */
		if (vector || i->src->guest)
			slice_end(o, cpu_track(o, i), vector ? PF_VECTOR : PF_IRQ);
		break;
	}
	case EV_RQ_ISSUE: io_issue(o, i, e); break;
	case EV_RQ_COMPLETE: io_complete(o, i, e); break;
	default: break;
	}
	if (i->src->guest)
		return;
	switch (e->role) {
	case EV_ENTRY: kvm_entry(o, i, c); break;
	case EV_EXIT: kvm_exit(o, i, e, c); break;
	case EV_ACCEPT:
	case EV_INJECT: pf_irq_host(o, i, e); break;
	case EV_VGIC:
		if (p->irq_kind->listed)
			pf_irq_line(o, i, e);
		break;
	default: break;
	}
}

/* A track with an event on it: an empty one is not shown. */
static void pf_put_remark(struct out *o)
{
	struct pf *p = o->priv;
	struct pf_track *t = pf_track(o, p, PF_REMARK, 0, p->nremark++);

	pf_put(o, p, t, &(struct pf_event){ .type = PF_INSTANT, .name = p->remark.s });
	sbuf_reset(&p->remark);
}

static void perfetto_item(struct out *o, const struct tl_item *i)
{
	struct pf *p = o->priv;
	uint64_t t;

	if (out_item_time(o, i, &t))
		p->now = t; /* otherwise it is at its neighbour's place */
	if (p->remark.len)
		pf_put_remark(o);
	if (i->kind == TL_EVENT) {
		const struct pf_type *type = NULL;
		struct pf *pf = o->priv;
		struct pf_cpu *c;

		if (i->ev)
			type = pf_type(pf, i);
		if (i->cpu == TL_NO_CPU) {
			if (type)
				pf_instant(o, cpu_track(o, i), type->info, i, 0);
			return;
		}
		if (!pf_has_cpu(i)) {
			o->left_out++;
			return;
		}
		c = pf_cpu(pf, i);
		pf_ftrace(o, pf, c, type, i);
		if (pf->irqs_listed && i->src->guest && i->vm >= 0 && !i->unplaced) {
			uint64_t slack = tl_hostmap(o->t)->vm[i->vm].uncertain;
			struct pf_irqs *q = irqs_of(pf, i->vm, (uint64_t)i->vcpu);

			/*
			 * A guest that goes on with its interrupts on has taken what went in, as
			 * far as its stamps can be told from those of the entry.
			 */
			if (q->listed && !(fmt_flags(i->src->fmt, i->rec) & FLAG_BUSY) &&
			    i->host > slack)
				lines_drop(pf, q, i->host - slack, NULL);
		}
		if (type && type->info->role != EV_NONE)
			put_meaning(o, i, type->info, c);
	} else {
		struct pf_track *cpu = cpu_track(o, i);
		struct pf_track *lost = pf_track(o, o->priv, PF_LOST, i->src->index, 0);
		struct pf_cpu *c = pf_has_cpu(i) ? pf_cpu(o->priv, i) : NULL;
		char name[64];

		/* Lost events: the state of this CPU is not known now, and the counter rises. */
		if (i->kind == TL_DAMAGE)
			snprintf(name, sizeof(name), "DAMAGED sub-buffer %llu",
				 (unsigned long long)i->lost);
		else if (i->lost)
			snprintf(name, sizeof(name), "LOST %llu EVENTS", (unsigned long long)i->lost);
		else
			snprintf(name, sizeof(name), i->gap ? "NOT RECORDED" : "LOST EVENTS, number unknown");
		if (c) {
			pf_ftrace_lost(p, c);
			if (c->vcpu)
				slices_end(o, c->vcpu, 0);
			c->vcpu = NULL;
		}
		slices_end(o, cpu, 0);
		pf_put(o, p, cpu, &(struct pf_event){ .type = PF_INSTANT, .name = name });
		/* A loss of unknown size shows as one, so that it is seen. */
		p->lost[i->src->index] += i->kind == TL_GAP && i->lost ? i->lost : !i->gap;
		pf_put(o, p, lost,
		       &(struct pf_event){ .type = PF_COUNTER,
					   .value = (int64_t)p->lost[i->src->index] });
	}
}

static void perfetto_epoch(struct out *o, const struct out_epoch *e)
{
	struct pf *p = o->priv;
	struct pf_track *t;
	uint64_t v;

	if (e->first || !out_clock_value(&o->clock, e->host, -1, &v))
		return;
	t = pf_track(o, p, PF_VCPU, e->vm, e->vcpu);
	p->now = v;
	pf_put(o, p, t,
	       &(struct pf_event){
		       .type = PF_INSTANT,
		       .name = TEXTF("EPOCH: TSC offset %lld, pvclock record %u",
				     (long long)e->e->map.offset,
				     e->e->has_pv ? e->e->pv.version : 0) });
	if (e->src->guest)
		pf_machine_epoch(o, p, e);
}

static void perfetto_begin(struct out *o)
{
	struct pf *p = xcalloc(1, sizeof(*p));

	o->priv = p;
	p->lost = xcalloc(tl_sources(o->t) + 1, sizeof(*p->lost));
	p->io = xcalloc(tl_sources(o->t) + 1, sizeof(*p->io));
	hash_key_init(&p->name_key);
	out_clock_remark(&o->clock, &p->remark);
	p->irq_kind = event_irqs(tl_hostmap(o->t)->fmt);
	pf_machines_init(o, p);
	pf_head(o, p);
	pf_machines_head(o, p);
	/* The counters start at 0, and show that nothing was lost if they stay there. */
	for (size_t i = 0; i < tl_sources(o->t); i++)
		pf_track(o, p, PF_LOST, i, 0);
}

static void perfetto_end(struct out *o)
{
	struct pf *p = o->priv;

	pf_ftrace_flush(o, p);
	pf_machines_end(o, p);
	if (o->left_out) {
		sbuf_addf(&p->remark, "%llu events ARE LEFT OUT: " NO_PLACE,
			  (unsigned long long)o->left_out);
		pf_put_remark(o);
	}
	evinfos_free(&p->types);
	sbuf_free(&p->remark);
	sbuf_free(&p->scratch);
	for (size_t i = 0; i < p->by_place.n; i++)
		free(p->track[i]);
	for (size_t i = 0; i < p->irqs_of.n; i++)
		free(p->irqs[i]);
	for (size_t i = 0; i < p->type_of.n; i++)
		pf_type_free(p->type[i]);
	for (size_t i = 0; i < p->cpu_of.n; i++)
		sbuf_free(&p->cpu[i].event);
	free(p->info);
	free(p->track);
	free(p->irqs);
	free(p->type);
	free(p->cpu);
	free(p->lost);
	free(p->io);
	u64map_free(&p->by_place);
	u64map_free(&p->irqs_of);
	u64map_free(&p->irq_number);
	u64map_free(&p->type_of);
	u64map_free(&p->cpu_of);
	u64map_free(&p->entered);
	u64map_free(&p->name_of);
	u64map_free(&p->info_of);
	u64map_free(&p->reason_iid);
	pf_machines_free(p);
	free(p);
	o->priv = NULL;
}

const struct out_format out_perfetto = {
	.name = "perfetto",
	.binary = true,
	.only_ns = true,
	.no_place = NO_PLACE,
	.begin = perfetto_begin,
	.item = perfetto_item,
	.epoch = perfetto_epoch,
	.alignment = pf_machine_alignment,
	.end = perfetto_end,
};
