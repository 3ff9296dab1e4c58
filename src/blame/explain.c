/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain.c: the second walk. Before each event, every spike in progress gets the time since the
 * previous event, as a part of what its vCPU did then (spend.c). The latency analyses know what a
 * vCPU does (latency/vcpu.c); what is noted here is why it was left, and what the host's CPU does.
 */
#include "priv.h"
#include "kvmft/ksyms.h"

/* ---- the names of kinds and causes, and which cause a spike is due to ---- */

const struct blame_name blame_whats[BLAME_WHATS] = {
	[BLAME_TIMER] = { "timer", "a timer interrupt came after its deadline" },
	[BLAME_HRTIMER] = { "hrtimer", "a high-resolution timer of the guest's kernel was late" },
	[BLAME_IRQ] = { "irq", "an interrupt, from its source to its handler" },
	[BLAME_IO] = { "io", "a block request, from its issue to its completion" },
	[BLAME_WAKEUP] = { "wakeup", "a task was woken and waited for a CPU" },
	[BLAME_READY] = { "ready", "a task lost its CPU and waited to run again" },
	[BLAME_STALL] = { "stall", "the vCPU exited, or woke from a halt, and was not re-entered" },
	[BLAME_TIMERLAT] = { "timerlat", "the guest's timerlat tracer measured it" },
	[BLAME_NOISE] = { "noise", "the guest's osnoise tracer measured it" },
	[BLAME_EVENT] = { "event", "the time between two events" },
	[BLAME_MOMENT] = { "moment", "nothing was late: what the vCPU did around that time" },
};

const struct blame_name blame_causes[BLAME_CAUSES] = {
	[CAUSE_UNKNOWN] = { "unknown", "the captures do not show it", "unknown" },
	[CAUSE_LOST] = { "lost", "events were lost there", "unknown" },
	[CAUSE_HOST_TASK] = { "host-task", "another task had the vCPU's CPU", "the host" },
	[CAUSE_SIBLING] = { "sibling", "another vCPU of this VM had its CPU", "the host" },
	[CAUSE_HOST_IRQ] = { "host-irq", "the host served an interrupt or softirq", "the host" },
	[CAUSE_THROTTLED] = { "throttled", "it could run, but its CPU was idle: a limit of its cgroup",
			      "the host" },
	[CAUSE_STOPPED] = { "stopped", "its thread was stopped by a signal", "the host" },
	[CAUSE_MIGRATED] = { "migrated", "the host moved it to another CPU", "the host" },
	[CAUSE_EXIT_KERNEL] = { "exit-kernel", "KVM took long to handle an exit", "KVM" },
	[CAUSE_EXIT_USER] = { "exit-user", "the VMM took long to handle an exit, on a CPU", "the VMM" },
	[CAUSE_VMM] = { "vmm", "in the VMM: its thread slept, or another one worked", "the VMM" },
	[CAUSE_PAGE_FAULT] = { "page-fault", "guest memory had to be mapped", "KVM" },
	[CAUSE_DISK] = { "disk", "the host's disk", "the host" },
	[CAUSE_HALT_WAKE] = { "halt-wake", "a vCPU that had slept was on its way into its guest", "the host" },
	[CAUSE_HOST_TIMER] = { "host-timer", "the host's own timer came late", "the host" },
	[CAUSE_LOCK_HOLDER] = { "lock-holder", "it waited for a lock, spinning or halted", "the guest's kernel" },
	[CAUSE_GUEST_IRQS_OFF] = { "guest-irqs-off", "the guest ran without taking its interrupt",
				   "the guest's kernel" },
	[CAUSE_GUEST_HANDLER] = { "guest-handler", "the guest served interrupts or softirqs", "the guest's kernel" },
	[CAUSE_GUEST_SCHED] = { "guest-sched", "the guest had not switched to the task yet", "the guest's kernel" },
	[CAUSE_GUEST_SLEEP] = { "guest-sleep", "the guest or its program slept", "the program" },
	[CAUSE_GUEST_CODE] = { "guest-code", "the guest ran this code itself", "the program" },
};

/*
 * The largest cause; unknown if the unknown part is larger. It is sure if the alignment's error
 * could not make another one as large, nor what a machine below may have taken, no event was lost,
 * and all was recorded that would show another cause. How long a vCPU stood still, the host says.
 */
void blame_judge(struct blame_spike *s, const uint64_t *offs)
{
	uint64_t off = s->what == BLAME_STALL || s->vm < 0 ? 0 : offs[s->vm];
	uint64_t sum[BLAME_CAUSES] = { 0 }, unknown, second = 0;
	enum blame_cause best = CAUSE_UNKNOWN;
	uint32_t lacks = 0;

	off += off == UINT64_MAX ? 0 : s->grain * s->nparts;
	for (size_t i = 0; i < s->nparts; i++)
		sum[s->part[i].cause] += s->part[i].time;
	unknown = sum[CAUSE_UNKNOWN] + sum[CAUSE_LOST];
	for (unsigned int c = CAUSE_LOST + 1; c < BLAME_CAUSES; c++) {
		if (sum[c] <= sum[best] && best != CAUSE_UNKNOWN)
			second = MAX(second, sum[c]);
		else if (sum[c]) {
			second = best == CAUSE_UNKNOWN ? second : MAX(second, sum[best]);
			best = (enum blame_cause)c;
		}
	}
	if (best == CAUSE_UNKNOWN || sum[best] <= unknown)
		best = sum[CAUSE_LOST] > sum[CAUSE_UNKNOWN] ? CAUSE_LOST : CAUSE_UNKNOWN;
	s->cause = best;
	s->cause_time = sum[best];
	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *p = &s->part[i];

		lacks |= p->cause == best ? p->lacks : 0;
		s->needs |= p->cause == best || p->cause == CAUSE_UNKNOWN ? p->lacks : 0;
	}
	s->sure = !s->holes && best > CAUSE_LOST && !sum[CAUSE_LOST] && !lacks &&
		  off != UINT64_MAX && sum[best] > off + s->dark &&
		  sum[best] - off - s->dark > second + unknown + off + s->dark;
}

/* What the first walk knows of exits for memory, and of windows without the guest running. */

#define FAULTS_MAX (1u << 19) /* of a VM, kept; the kinds of later ones are not named */

static uint64_t vcpu_key_of(int64_t vm, int64_t vcpu, uint64_t begin)
{
	return begin ^ ((uint64_t)vm << 12 | (uint64_t)vcpu) << 44;
}

bool blame_knows_faults(const struct blame *b)
{
	static const enum event_role need[] = { EV_PAGE_FAULT, EV_SPTE, EV_UNMAP, EV_PAGE_ALLOC,
						EV_MMIO };

	for (size_t i = 0; i < ARRAY_SIZE(need); i++)
		if (!event_format(tl_source(b->t, 0)->fmt, need[i]))
			return false;
	return true;
}

void blame_fault(struct blame *b, const struct lat_case *c)
{
	if (!lat_mem_kind(c->kind) || c->vm < 0 || b->kept[c->vm].faults >= FAULTS_MAX)
		return;
	b->kept[c->vm].faults++;
	xu64map_put(&b->fault, vcpu_key_of(c->vm, c->vcpu, c->begin), c->kind);
}

uint32_t blame_fault_kind(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t exit)
{
	uint64_t kind = 0;

	u64map_get(&b->fault, vcpu_key_of(vm, vcpu, exit), &kind);
	return (uint32_t)kind;
}

/* ---- windows ---- */

/*
 * With an injection, a guest goes on at the first instruction of a handler. If it left right there
 * it did nothing. Without symbols that address shows by itself: it is met again and again when the
 * host has to take an interrupt at once.
 */
void blame_window_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i,
		      enum exit_kind kind, uint64_t rip)
{
	const uint64_t first[] = { (uint64_t)i->vm << 32 | l->injected, rip };
	const struct ksyms *k = b->map->vm[i->vm].syms;
	const struct ksym *f;
	uint64_t what = BLAME_MOVED, *n;

	if (!l->entry || l->gen != b->gen || b->kept[i->vm].windows >= FAULTS_MAX)
		return;
	if (l->cpu == i->cpu) {
		if (!l->injected || kind != EXIT_KIND_INTR)
			return;
		what = hash_bytes(&b->halt_key, first, sizeof(first)) | 1ull << 63;
		n = xu64map_at(&b->first, what);
		/* Is that where the kernel goes with an interrupt, or an exception? */
		f = k ? ksyms_find(k, rip) : NULL;
		++*n;
		if (f && ((rip == f->addr && !strncmp(f->name, "asm_", 4)) ||
			  (rip % 8 == 0 && strstr(f->name, "irq_entries_start"))))
			++*n;
	}
	b->kept[i->vm].windows++;
	xu64map_put(&b->empty, vcpu_key_of(i->vm, i->vcpu, l->entry), what);
}

void blame_exit_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i)
{
	if (l->cpu == i->cpu || b->kept[i->vm].windows >= FAULTS_MAX)
		return;
	b->kept[i->vm].windows++;
	xu64map_put(&b->empty, vcpu_key_of(i->vm, i->vcpu, l->exit), BLAME_MOVED);
}

enum blame_empty blame_window_is(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t begin)
{
	uint64_t what, n;

	if (!u64map_get(&b->empty, vcpu_key_of(vm, vcpu, begin), &what))
		return BLAME_RAN;
	if (what == BLAME_MOVED)
		return BLAME_MOVED;
	return u64map_get(&b->first, what, &n) && n > 1 ? BLAME_NOTHING : BLAME_RAN;
}

#define CPUS_MAX 65536u /* a capture with more is not trusted */

int blame_again(struct blame *b, struct kvmft_err *err)
{
	struct lat_opts lo = { .vm = -1, .vcpu = -1, .states_only = true };
	size_t room = b->by_reason ? BLAME_PARTS * 4 : BLAME_PARTS;
	struct lat *again;
	int ret;

	b->order = xcalloc(b->n + 1, sizeof(*b->order));
	b->active = xcalloc(b->n + 1, sizeof(*b->active));
	b->part = xcalloc(b->n + 1, (room + 1) * sizeof(*b->part));
	for (size_t i = 0; i < b->n; i++) {
		size_t k = i;

		b->v[i].part = b->part + i * (room + 1);
		b->v[i].room = room;
		for (; k && b->v[b->order[k - 1]].begin > b->v[i].begin; k--)
			b->order[k] = b->order[k - 1];
		b->order[k] = i;
	}
	ret = lat_new(b->t, &lo, &again, err);
	if (ret)
		return ret;
	b->lost_to = b->overwritten_to = 0;
	b->gaps = 1;
	b->found = b->lat; /* its notes are still needed */
	b->lat = again;
	return 0;
}

/* From the start: what a vCPU does during a spike, such as a halt, may have begun long before. */
bool blame_window(const struct blame *b, uint64_t *from, uint64_t *to)
{
	*from = 0;
	*to = 0;
	for (size_t i = 0; i < b->n; i++)
		*to = MAX(*to, b->v[i].end);
	return b->n;
}

/* A page that is taken from a guest is missed by all of its vCPUs at once. */
static void spike_with(const struct blame *b, struct blame_spike *s)
{
	uint64_t at;
	const struct blame_vcpu *v;

	if (s->what != BLAME_STALL ||
	    !u64map_get(&b->vcpu_at, (uint64_t)s->vm << 32 | (uint32_t)s->vcpu, &at))
		return;
	v = &b->vcpu[at];
	if (v->faulted != b->gaps || v->device)
		return;
	s->page = v->page;
	s->fetched = v->fetched;
	for (size_t i = 0; i < b->vcpu_at.n; i++) {
		const struct blame_vcpu *w = &b->vcpu[i];

		s->with += w != v && w->vm == s->vm && w->faulted == b->gaps &&
			   w->page == v->page && w->at < s->end && (!w->over || w->over > s->begin);
	}
}

/* Attributes the time of all spikes up to `to`, also of those that begin before that. */
static __attribute__((noinline)) void pass_any(struct blame *b, uint64_t to)
{
	for (; b->next < b->n && b->v[b->order[b->next]].begin < to; b->next++) {
		struct blame_spike *s = &b->v[b->order[b->next]];

		s->since = s->begin;
		s->on = s->vcpu;
		s->running = s->what == BLAME_NOISE ||
			     (s->what == BLAME_EVENT && s->tid);
		b->active[b->nactive++] = b->order[b->next];
	}
	b->begins = b->next < b->n ? b->v[b->order[b->next]].begin : UINT64_MAX;
	for (size_t i = 0; i < b->nactive; i++) {
		struct blame_spike *s = &b->v[b->active[i]];

		if (s->accepted < to)
			blame_spend(b, s, s->accepted);
		blame_spend(b, s, to);
		if (s->since < s->end)
			continue;
		spike_with(b, s);
		blame_settle(b, s);
		b->active[i--] = b->active[--b->nactive];
	}
}

/* Most of the time there is none. */
static inline void explain_pass(struct blame *b, uint64_t to)
{
	if (b->nactive || b->begins < to)
		pass_any(b, to);
}

/* An entry if why is NULL, or an exit. An interrupt does not change what the guest spins on. */
static void exits_over(struct blame *b, const struct tl_item *i, const struct exit_why *why,
		       uint64_t rip)
{
	enum exit_kind kind = why ? exit_kind(*why) : EXIT_KIND_INTR;
	const struct ksyms *syms = b->map->vm[i->vm].syms;
	const struct ksym *f = why && syms ? ksyms_find(syms, rip) : NULL;

	for (size_t k = 0; k < b->nactive; k++) {
		struct blame_spike *s = &b->v[b->active[k]];

		if (s->vm != i->vm || s->on != i->vcpu)
			continue;
		blame_exit_over(b, s);
		blame_spun_over(b, s, kind == EXIT_KIND_PAUSE);
		if (s->masked && f && strstr(f->name, "lock_slowpath")) /* where it waits for a lock */
			blame_masked_over(b, s, true);
		if (kind != EXIT_KIND_INTR)
			blame_masked_over(b, s, kind == EXIT_KIND_HALT &&
							blame_lock_halt(b, s->vm, rip));
	}
}

/* The lock is free, and so is the vCPU that halted for it: from here on it is to wake up. */
static void note_kick(struct blame *b, const struct tl_item *i)
{
	struct blame_vcpu *v;
	int64_t target;
	uint64_t at;

	if (i->vm >= 0 && i->vcpu >= 0 && blame_kick(i, &target) &&
	    u64map_get(&b->vcpu_at, (uint64_t)i->vm << 32 | (uint32_t)target, &at)) {
		v = &b->vcpu[at];
		v->kicked = true;
		v->kicker = (uint32_t)i->vcpu;
		for (size_t k = 0; k < b->nactive; k++) {
			struct blame_spike *s = &b->v[b->active[k]];

			if (s->vm == i->vm && s->on == target)
				blame_halt_over(b, s, v);
		}
		v->freed = true;
	}
}

static void note_host(struct blame *b, enum event_role r, const struct tl_item *i)
{
	struct exit_why why = { 0 };
	struct blame_vcpu *v;

	if (i->vm < 0 || i->vcpu < 0)
		return;
	v = xu64map_elem(&b->vcpu_at, (uint64_t)i->vm << 32 | (uint32_t)i->vcpu, &b->vcpu,
			 &b->vcpu_cap, sizeof(*v));
	v->cpu = i->cpu;
	if (r == EV_EXIT)
		why = exit_why(&i->src->exits, tl_field(i, 0), tl_field(i, 1));
	if (b->nactive && (r == EV_EXIT || r == EV_ENTRY))
		exits_over(b, i, r == EV_EXIT ? &why : NULL, tl_field(i, 2));
	switch (r) {
	case EV_ENTRY:
		v->in_irq = false;
		v->over = i->host;
		v->empty = blame_window_is(b, i->vm, i->vcpu, i->host);
		break;
	case EV_EXIT:
		*v = (struct blame_vcpu){ .cpu = i->cpu, .why = why, .at = i->host, .vm = i->vm,
					  .left = b->gaps };
		v->has_rip = event_type_of(i->ev)->f[2].size;
		v->rip = tl_field(i, 2);
		break;
	case EV_USER_EXIT:
		v->user = true;
		v->user_reason = (uint32_t)tl_field(i, 0);
		break;
	case EV_PAGE_FAULT: /* the error code as the processor has it: EPT's, or a page fault's */
		v->faulted = b->gaps;
		v->page = tl_field(i, 0) & ~0xfffull;
		v->fetched = tl_field(i, 1) & (v->why.isa == EXIT_ISA_VMX ? 4u : 16u);
		break;
	case EV_PLE:
		v->window = (uint32_t)tl_field(i, 0);
		v->wider = (uint32_t)tl_field(i, 1);
		break;
	case EV_ASYNC_TOLD:
	case EV_ASYNC_READY:
		for (size_t k = 0; k < b->nactive; k++) {
			struct blame_spike *s = &b->v[b->active[k]];
			uint64_t token = (uint32_t)tl_field(i, 0) + 1ull;

			if (s->vm == i->vm && r == EV_ASYNC_READY && s->fetch == token)
				s->fetch = 0;
			else if (s->vm == i->vm && r == EV_ASYNC_TOLD && s->on == i->vcpu &&
				 s->running)
				s->fetch = token;
		}
		break;
	case EV_PIO:
		v->what = b->by_reason ? NULL : "port";
		v->address = tl_field(i, 1);
		break;
	case EV_MMIO:
	case EV_FAST_MMIO:
		v->device = true;
		v->what = b->by_reason ? NULL : "at";
		v->address = tl_field(i, r == EV_MMIO);
		break;
	default: break;
	}
}

static struct blame_cpu *cpu_here(struct blame *b, uint32_t cpu)
{
	struct blame_cpu *c = &b->cpu[cpu];

	if (c->gaps != b->gaps)
		*c = (struct blame_cpu){ .gaps = b->gaps };
	return c;
}

static void note_cpu(struct blame *b, enum event_role r, const struct tl_item *i)
{
	struct blame_cpu *c;

	if (i->cpu >= CPUS_MAX || !event_handler_ends(i->src->fmt, i->ev, b->seen[0]))
		return;
	for (; b->ncpu <= i->cpu; b->ncpu++)
		xarray_grow(&b->cpu, b->ncpu, &b->cpu_cap, sizeof(*b->cpu));
	c = cpu_here(b, i->cpu);
	switch (r) {
	case EV_IRQ_ENTRY:
		c->irqs++;
		c->irq = tl_field(i, 0);
		c->vector = NULL;
		if (!fmt_str(&event_type_of(i->ev)->f[1], i->rec, c->handler, sizeof(c->handler)))
			c->handler[0] = '\0';
		break;
	/* The host's own: its local timer, calls of other CPUs. */
	case EV_VECTOR_ENTRY:
		c->irqs++;
		c->irq = 1ull << 33 | i->rec->id;
		c->vector = i->ev;
		break;
	case EV_VECTOR_EXIT:
	case EV_IRQ_EXIT: c->irqs -= c->irqs > 0; break;
	case EV_SOFTIRQ_ENTRY:
		c->softirqs++;
		c->softirq = tl_field(i, 0);
		break;
	case EV_SOFTIRQ_EXIT: c->softirqs -= c->softirqs > 0; break;
	case EV_CPU_IDLE:
		c->slept = tl_field(i, 0) != UINT32_MAX;
		if (c->slept)
			c->idle_state = (uint32_t)tl_field(i, 0);
		break;
	default: break;
	}
}

/* The waiting task moved to another vCPU. */
static void spike_to_vcpu(struct blame *b, struct blame_spike *s, int64_t vcpu)
{
	if (vcpu != s->on)
		blame_settle(b, s);
	s->on = vcpu;
}

/* Where the task of a spike is now. */
static void follow_task(struct blame *b, enum event_role r, const struct tl_item *i)
{
	/* For a switch the one that leaves, else the one that is woken. */
	int32_t tid = (int32_t)tl_field(i, 0);

	for (size_t k = 0; k < b->nactive; k++) {
		struct blame_spike *s = &b->v[b->active[k]];

		if (!s->tid || s->vm != i->vm)
			continue;
		if (r == EV_SWITCH && s->tid == (int32_t)tl_field(i, 2)) {
			spike_to_vcpu(b, s, i->vcpu);
			s->running = true;
			s->asleep = false;
		} else if (r == EV_SWITCH && s->tid == tid) {
			s->running = false;
			s->asleep = event_task_sleeps(tl_field(i, 1));
		} else if (r != EV_SWITCH && s->asleep && s->tid == tid) {
			s->asleep = false;
			spike_to_vcpu(b, s, blame_vcpu_of(b, i, tl_field(i, 1), s->on));
		}
	}
}

void blame_explain(void *blame, const struct tl_item *i)
{
	struct blame *b = blame;

	if (i->src->qemu || i->marker)
		return;
	explain_pass(b, i->host);
	if (b->below && !i->src->guest && i->cpu < b->ncpu) {
		struct blame_cpu *c = cpu_here(b, i->cpu);

		c->heard = MAX(c->heard, i->host);
	}
	b->now = MAX(b->now, i->host);
	/* Of a guest it hides less: which task ran. */
	if (i->kind != TL_EVENT && (!i->src->guest || b->alone)) {
		if (i->src->guest || i->gap != GAP_OFF) { /* no spike is over a ring that is off */
			uint64_t *to = i->gap == GAP_OVERWRITTEN ? &b->overwritten_to : &b->lost_to;

			*to = MAX(*to, i->host + i->width);
		}
		for (size_t k = 0; k < b->nactive; k++) {
			blame_exit_over(b, &b->v[b->active[k]]);
			b->v[b->active[k]].fetch = 0;
		}
		b->gaps++;
	}
	lat_feed(b->lat, i);
	if (i->kind == TL_EVENT) {
		enum event_role r = blame_role(i);

		if (i->src->guest) {
			if (i->vm >= 0 && i->vcpu >= 0 && !i->unplaced)
				blame_vcpu_learn(b, i);
			if (r == EV_SWITCH || r == EV_WAKEUP || r == EV_WAKEUP_NEW)
				follow_task(b, r, i);
			return;
		}
		if (b->nactive) {
			uint64_t at;

			/* Where kvm_exit is traced late, the host's handler came before it. */
			if (i->vm >= 0 && i->vcpu >= 0 && event_in_interrupt(i->src->fmt, i->rec) &&
			    u64map_get(&b->vcpu_at, (uint64_t)i->vm << 32 | (uint32_t)i->vcpu, &at))
				b->vcpu[at].in_irq = true;
		}
		switch (r) {
		case EV_VECTOR_ENTRY:
		case EV_VECTOR_EXIT:
		case EV_IRQ_ENTRY:
		case EV_IRQ_EXIT:
		case EV_SOFTIRQ_ENTRY:
		case EV_SOFTIRQ_EXIT:
		case EV_CPU_IDLE: note_cpu(b, r, i); break;
		case EV_ACCEPT: note_kick(b, i); break;
		default: note_host(b, r, i);
		}
	}
}

static int part_larger(const void *x, const void *y)
{
	const struct blame_part *p = x, *q = y;

	return ORDER(q->time, p->time);
}

int blame_explained(struct blame *b, const uint64_t *off)
{
	uint32_t lacks = 0;

	explain_pass(b, UINT64_MAX);
	for (size_t i = 0; i < b->n; i++) {
		struct blame_spike *s = &b->v[i];

		array_sort(s->part, s->nparts, part_larger);
		if (off)
			blame_judge(s, off);
		s->sure &= !b->alone; /* whatever its parts say */
		lacks |= s->needs;
	}
	if (lacks) {
		sbuf_add(&b->remedy, "what was not recorded, or would make it sure: ");
		evidence_remedy(lacks, &b->remedy);
	}
	if (!capture_all_cpus(tl_source(b->t, 0)->cap))
		sbuf_addf(&b->remedy, "%sall CPUs: one has no events (trace-cmd record -M leaves some out)",
			  lacks ? ", " : "what would make it sure: ");
	lat_finish(b->lat);
	return b->remedy.error;
}
