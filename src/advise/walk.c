/* SPDX-License-Identifier: GPL-2.0-or-later */
/* walk.c: from a host's events to what each rule's exits and waits cost. */
#include "kvmft/advise.h"
#include "kvmft/exit_names.h"

#include <inttypes.h>

#define FIRMWARE  (1ull << 32) /* it reads clocks and ports to wait, and not for long */
#define SHORT_NS  50000u
#define DEEP	  2u
#define PER_S	  20u	/* what happens less often is not worth a setting */
#define MOVES_N	  100u	/* in all */
#define MOVES	  50u	/* a second; fewer are the scheduler's business */
#define QUANTILE  2576u /* of 99 %, in thousandths */
#define SLICE_MIN (1ull << 20)
#define NOT_IDLE  0xffffffffu

struct advise_vcpu {
	uint32_t id;
	int32_t tid;
	uint64_t entry, exit; /* stamps of its last ones; 0: none, or events are missing since */
	uint64_t off,
		gone;	/* since when it has no CPU, 0: it has one; for how long since that exit */
	uint64_t woken; /* when, since it has none; 0: it sleeps, or was not asleep */
	uint64_t least; /* time from a halt to its sleep */
	uint64_t isa, key;
	uint32_t cpu;
	enum advice is, wait;	/* what its exit is for; why it waits. ADVICE_RULES: nothing */
	char by[40], taker[40]; /* what it reaches; who has its CPU, */
	uint64_t taken_by;	/* ... by number */
	uint64_t ticked,
		ticks; /* since when it works for a tick, 0: it does not; what that took before */
	bool placed, halted, user, fault, brief;
};

struct advise_cpu {
	int32_t tid;
	uint32_t idle; /* state; NOT_IDLE */
};

/* Exits by what they are, and by the first event in them that says more. */
static const struct {
	enum event_role role;
	uint64_t isa, from, to;
	enum { READS = 1, WRITES, BOTH } how;
	enum advice is;
} advise_exits[] = {
	{ EV_EXIT, EXIT_ISA_VMX, 40, 40, BOTH, ADVICE_PAUSE },
	{ EV_EXIT, EXIT_ISA_SVM, 0x77, 0x77, BOTH, ADVICE_PAUSE },
	{ EV_EXIT, EXIT_ISA_VMX, 62, 62, BOTH, ADVICE_DIRTY_LOG }, /* its log of pages is full */
	{ EV_EXIT, EXIT_ISA_VMX, 7, 7, BOTH, ADVICE_APICV },	   /* interrupt windows */
	{ EV_EXIT, EXIT_ISA_SVM, 0x64, 0x64, BOTH, ADVICE_APICV },
	{ EV_MSR, 0, 0x808, 0x808, WRITES, ADVICE_APICV }, /* TPR, EOI, self-IPI of the x2APIC */
	{ EV_MSR, 0, 0x80b, 0x80b, WRITES, ADVICE_APICV },
	{ EV_MSR, 0, 0x83f, 0x83f, WRITES, ADVICE_APICV },
	{ EV_MMIO, 0, 0xfee00000, 0xfee00fff, BOTH, ADVICE_XAPIC },
	{ EV_PIO, 0, 0x3f8, 0x3ff, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x2f8, 0x2ff, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x3e8, 0x3ef, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x2e8, 0x2ef, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0xe9, 0xe9, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x402, 0x402, BOTH, ADVICE_SERIAL },
	{ EV_MMIO, 0, 0, UINT64_MAX, BOTH, ADVICE_DEVICE },
	{ EV_PIO, 0, 0, UINT64_MAX, BOTH, ADVICE_DEVICE },
};

/* ---- sums ---- */

static void advise_charge(struct advise_vm *vm, enum advice is, uint64_t key, const char *name,
			  uint64_t cycles, uint64_t at)
{
	struct advice_sum *s = &vm->sum[is];
	struct advice_key *k = s->key;

	if (!vm->first || at < vm->first) /* what came before it first ran is no part of the time */
		return;
	/* Slices become twice as long when all are full. */
	for (; (at - vm->first) / vm->slice >= ADVICE_SLICES; vm->slice *= 2)
		for (int r = 0; r < ADVICE_SUMS; r++)
			for (size_t i = 0; i < ADVICE_SLICES; i++)
				vm->sum[r].slice[i] = i < ADVICE_SLICES / 2
							      ? vm->sum[r].slice[2 * i] +
									vm->sum[r].slice[2 * i + 1]
							      : 0;
	s->n++;
	s->spent += cycles;
	s->slice[(at - vm->first) / vm->slice] += cycles;
	while (k < s->key + s->nkeys && (k->key != key || strcmp(k->name, name)))
		k++;
	if (k == s->key + ADVICE_KEYS)
		k--;
	if (k == s->key + s->nkeys) {
		s->nkeys++;
		k->key = key;
		snprintf(k->name, sizeof(k->name), "%s", s->nkeys == ADVICE_KEYS ? "others" : name);
	}
	k->n++;
	k->spent += cycles;
}

/* ---- exits ---- */

static struct advise_vcpu *advise_vcpu_by_id(struct advise_vm *vm, int64_t id)
{
	size_t at = COUNT_BEFORE(i, vm->n, vm->vcpu[i].id < id);

	return at < vm->n && vm->vcpu[at].id == id ? &vm->vcpu[at] : NULL;
}

static void exit_is(struct advise_vcpu *v, enum event_role role, uint64_t what, uint64_t isa,
		    bool write)
{
	unsigned int clock = clock_read_kind(role, what, isa, write);

	v->key = what;
	if (clock && clock <= CLOCK_TIMERS)
		v->is = ADVICE_CLOCK_READS;
	for (size_t i = 0; i < ARRAY_SIZE(advise_exits) && v->is == ADVICE_RULES; i++)
		if (advise_exits[i].role == role && isa == advise_exits[i].isa &&
		    what >= advise_exits[i].from && what <= advise_exits[i].to &&
		    advise_exits[i].how & (write ? WRITES : READS))
			v->is = advise_exits[i].is;
	snprintf(v->by, sizeof(v->by), "%s%#" PRIx64,
		 role == EV_MSR	   ? "msr "
		 : role == EV_PIO  ? "port "
		 : role == EV_EXIT ? "exit "
				   : "",
		 what);
	if (v->is == ADVICE_CLOCK_READS)
		snprintf(v->by, sizeof(v->by), "%s", clock_reads[clock - 1].name);
}

static void advise_exit(struct advise *a, struct advise_vm *vm, struct advise_vcpu *v,
			const struct tl_item *i)
{
	const struct event_type *e = &a->clocks->type[EV_EXIT];
	uint64_t reason = event_u64(e, 0, i->rec), isa = event_u64(e, 1, i->rec);

	if (v->entry)
		vm->guest += i->host - v->entry;
	v->entry = v->gone = 0;
	v->exit = i->host;
	v->is = ADVICE_RULES;
	v->isa = isa;
	v->user = v->fault = v->brief = false;
	v->halted = isa == EXIT_ISA_VMX ? reason == 12 : isa == EXIT_ISA_SVM && reason == 0x78;
	if (v->halted && v->ticked) /* what it was woken for is done */
		advise_charge(vm, ADVICE_TICK, 0, "", v->ticks + i->host - v->ticked, i->host);
	v->ticked = v->halted ? 0 : v->ticked;
	if (e->f[2].size && event_u64(e, 2, i->rec) < FIRMWARE)
		v->exit = 0;
	else
		exit_is(v, EV_EXIT, reason, isa, false);
}

static void advise_access(const struct advise *a, struct advise_vcpu *v, enum event_role role,
			  const struct tl_item *i)
{
	const struct event_type *e = &a->clocks->type[role];
	uint64_t how = event_u64(e, 0, i->rec), what = event_u64(e, 1, i->rec);

	if (v->exit && (v->is == ADVICE_RULES || v->is == ADVICE_APICV))
		exit_is(v, role, what, 0, role == EV_MMIO ? how == 2 : how != 0);
}

/* Error codes are as the processor has them: EPT's exit qualification, or that of a page fault. */
static void advise_fault(struct advise *a, struct advise_vcpu *v, const struct tl_item *i)
{
	uint64_t code = event_u64(&a->clocks->type[EV_PAGE_FAULT], 1, i->rec);
	bool vmx = v->isa == EXIT_ISA_VMX;
	const char *nx = advise_param(a, "kvm", "nx_huge_pages");

	v->fault = v->exit != 0;
	if (v->fault && v->is == ADVICE_RULES && code & (vmx ? 4u : 16u) &&
	    code & (vmx ? 8u : 1u) && nx && (*nx == 'Y' || *nx == '1'))
		v->is = ADVICE_NX_PAGES;
	v->by[0] = '\0';
	v->key = 0;
}

static void advise_entry(struct advise_vm *vm, struct advise_vcpu *v, const struct tl_item *i)
{
	uint64_t spent = v->exit ? i->host - v->exit : 0;

	spent -= MIN(spent, v->gone);
	if (v->placed && v->cpu != i->cpu)
		advise_charge(vm, ADVICE_MIGRATES, 0, "", 0, i->host);
	v->placed = true;
	v->cpu = i->cpu;
	if (v->exit && v->halted && vm->tick && vm->tick > v->exit) {
		v->ticked = i->host;
		v->ticks = spent;
		vm->tick = 0;
	}
	if (v->exit)
		advise_charge(vm, ADVICE_ALL_EXITS, 0, "", spent, i->host);
	if (v->exit && v->is != ADVICE_RULES && (v->is != ADVICE_DEVICE || v->user))
		advise_charge(vm, v->is, v->key, v->by, spent, i->host);
	if (v->brief && v->woken)
		advise_charge(vm, ADVICE_POLL_OFF, 0, "", i->host - v->woken, i->host);
	v->woken = 0;
	v->entry = i->host;
	v->exit = 0;
}

/* ---- CPUs ---- */

static struct advise_cpu *advise_cpu_at(struct advise *a, uint64_t cpu)
{
	while (a->ncpu <= cpu && cpu < CAPTURE_MAX_CPUS) {
		if (!array_grow(&a->cpu, a->ncpu, &a->cpu_cap, sizeof(*a->cpu)))
			return NULL;
		a->cpu[a->ncpu++] = (struct advise_cpu){ -1, NOT_IDLE };
	}
	return cpu < a->ncpu ? &a->cpu[cpu] : NULL;
}

static struct advise_vcpu *advise_vcpu_of(struct advise *a, int32_t tid, struct advise_vm **vm)
{
	const struct hostmap *m = tl_hostmap(a->t);
	const struct hostmap_thread *t = hostmap_thread(m, tid);

	if (!t || t->floats || t->vm >= a->n)
		return NULL;
	*vm = &a->vm[m->vm[t->vm].of];
	return advise_vcpu_by_id(*vm, t->vcpu);
}

/* Whom it waits for, who has the CPU that it is to run on. */
static enum advice wait_for(struct advise *a, struct advise_vm *vm, struct advise_vcpu *v,
			    int32_t tid, const struct tl_item *i)
{
	const struct hostmap *m = tl_hostmap(a->t);
	ssize_t of = hostmap_task_vm(m, tid);

	snprintf(v->taker, sizeof(v->taker), "%s", tid ? tl_comm(i->src, tid) : "");
	str_printable(v->taker);
	v->taken_by = (uint64_t)(uint32_t)tid;
	if (!tid)
		return ADVICE_THROTTLED;
	if (hostmap_thread(m, tid) || of < 0 || &a->vm[m->vm[of].of] != vm)
		return ADVICE_CROWDED;
	return ADVICE_EMULATOR;
}

static int advise_switch(struct advise *a, const struct tl_item *i)
{
	const struct event_type *e = &a->clocks->type[EV_SWITCH];
	int32_t prev = (int32_t)event_u64(e, 0, i->rec), next = (int32_t)event_u64(e, 2, i->rec);
	bool sleeps = event_task_sleeps(event_u64(e, 1, i->rec));
	struct advise_cpu *cpu = advise_cpu_at(a, i->cpu);
	struct advise_vm *vm;
	struct advise_vcpu *v = advise_vcpu_of(a, prev, &vm);

	if (!cpu)
		return i->cpu < CAPTURE_MAX_CPUS ? -ENOMEM : 0;
	cpu->tid = next;
	if (v) {
		v->off = i->host;
		v->woken = 0;
		v->wait = ADVICE_RULES;
		if (!sleeps)
			v->wait = wait_for(a, vm, v, next, i);
		if (v->halted && v->exit && sleeps && !v->gone) {
			uint64_t took = i->host - v->exit;

			v->least = v->least ? MIN(v->least, took) : took;
			if (took > 2 * v->least)
				advise_charge(vm, ADVICE_POLL_WASTE, 0, "", took - 2 * v->least,
					      i->host);
		}
	}
	v = advise_vcpu_of(a, next, &vm);
	if (!v || !v->off)
		return 0;
	v->gone += i->host - v->off;
	if (v->wait != ADVICE_RULES) {
		uint64_t took = i->host - MAX(v->off, v->woken);

		advise_charge(vm, v->wait, v->taken_by, v->taker, took, i->host);
		advise_charge(vm, ADVICE_ALL_WAITS, 0, "", took, i->host);
	}
	v->off = 0;
	return 0;
}

static int advise_wake(struct advise *a, const struct tl_item *i)
{
	const struct event_type *e = &a->clocks->type[EV_WAKEUP];
	struct advise_cpu *cpu = advise_cpu_at(a, event_u64(e, 1, i->rec));
	struct advise_vm *vm;
	struct advise_vcpu *v = advise_vcpu_of(a, (int32_t)event_u64(e, 0, i->rec), &vm);

	if (!v || !v->off || v->wait != ADVICE_RULES || v->woken || !cpu)
		return 0;
	v->woken = i->host;
	if (cpu->tid > 0)
		v->wait = wait_for(a, vm, v, cpu->tid, i);
	else if (!cpu->tid && cpu->idle != NOT_IDLE && cpu->idle >= DEEP) {
		v->wait = ADVICE_IDLE_DEEP;
		v->taken_by = cpu->idle;
		snprintf(v->taker, sizeof(v->taker), "state %u", cpu->idle);
	}
	return 0;
}

/* ---- the walk ---- */

int advise_new(struct clockcheck *c, struct advise **out)
{
	const struct hostmap *m = tl_hostmap(c->t);
	const struct hostmap_thread *thread;
	struct advise *a = calloc(1, sizeof(*a));
	int ret = a ? 0 : -ENOMEM;

	*out = a;
	if (ret)
		return ret;
	a->clocks = c;
	a->t = c->t;
	a->cap = c->cap;
	a->vm = calloc(m->nvm + 1, sizeof(*a->vm));
	for (; a->vm && a->n < m->nvm; a->n++) {
		struct advise_vm *vm = &a->vm[a->n];

		vm->slice = SLICE_MIN;
		if (m->vm[a->n].of != a->n)
			continue;
		hostmap_each_thread(m, a->n, thread) {
			size_t at = COUNT_BEFORE(i, vm->n, vm->vcpu[i].id < thread->vcpu);

			if (at < vm->n && vm->vcpu[at].id == thread->vcpu)
				continue;
			if (!array_grow(&vm->vcpu, vm->n, &vm->cap, sizeof(*vm->vcpu)))
				return -ENOMEM;
			memmove(vm->vcpu + at + 1, vm->vcpu + at,
				(vm->n++ - at) * sizeof(*vm->vcpu));
			vm->vcpu[at] = (struct advise_vcpu){ .id = thread->vcpu,
							     .tid = thread->tid,
							     .is = ADVICE_RULES,
							     .wait = ADVICE_RULES };
		}
	}
	return a->vm ? 0 : -ENOMEM;
}

void advise_free(struct advise *a)
{
	for (size_t i = 0; a && i < a->n; i++)
		free(a->vm[i].vcpu);
	free(a ? a->vm : NULL);
	free(a ? a->cpu : NULL);
	free(a);
}

/* Events are missing: what was going on is not known to have ended as it seems. */
static void advise_gap(struct advise *a)
{
	for (size_t i = 0; i < a->n; i++) {
		for (size_t k = 0; k < a->vm[i].n; k++) {
			struct advise_vcpu *v = &a->vm[i].vcpu[k];

			v->entry = v->exit = v->off = v->woken = v->gone = v->ticked = 0;
			v->wait = ADVICE_RULES;
		}
		a->vm[i].tick = 0;
	}
	for (size_t i = 0; i < a->ncpu; i++)
		a->cpu[i] = (struct advise_cpu){ -1, NOT_IDLE };
}

int advise_feed(struct advise *a, const struct tl_item *i)
{
	struct advise_vm *vm = i->vm >= 0 && (size_t)i->vm < a->n ? &a->vm[i->vm] : NULL;
	struct advise_vcpu *v = vm ? advise_vcpu_by_id(vm, i->vcpu) : NULL;
	const struct event_type *e;
	struct advise_cpu *cpu;
	enum event_role role;
	uint64_t gsi;
	ssize_t of;

	if (i->src->index)
		return 0;
	if (i->kind != TL_EVENT) {
		advise_gap(a);
		return 0;
	}
	if (!i->ev || i->marker)
		return 0;
	role = (enum event_role)a->clocks->role[i->rec->id];
	e = &a->clocks->type[role];
	switch (role) {
	case EV_SWITCH: return advise_switch(a, i);
	case EV_WAKEUP: return advise_wake(a, i);
	case EV_SET_IRQ: /* of a PIT, an HPET or an RTC */
		of = hostmap_task_vm(tl_hostmap(a->t), i->tid);
		gsi = event_u64(e, 0, i->rec);
		if (of >= 0 && event_u64(e, 1, i->rec) && (gsi == 0 || gsi == 2 || gsi == 8))
			a->vm[tl_hostmap(a->t)->vm[of].of].tick = i->host;
		return 0;
	case EV_CPU_IDLE:
		cpu = advise_cpu_at(a, event_u64(e, 1, i->rec));
		if (cpu)
			cpu->idle = (uint32_t)event_u64(e, 0, i->rec);
		return 0;
	default: break;
	}
	if (!v)
		return 0;
	if (role == EV_ENTRY || role == EV_EXIT) {
		vm->first = vm->first ?: i->host;
		vm->last = i->host;
	}
	switch (role) {
	case EV_ENTRY: advise_entry(vm, v, i); break;
	case EV_EXIT: advise_exit(a, vm, v, i); break;
	case EV_MSR:
	case EV_PIO:
	case EV_MMIO: advise_access(a, v, role, i); break;
	case EV_USER_EXIT: v->user = true; break;
	case EV_PAGE_FAULT: advise_fault(a, v, i); break;
	case EV_SPTE:
		if (v->fault && v->is == ADVICE_RULES && event_u64(e, 1, i->rec) == 1 &&
		    event_u64(e, 3, i->rec) & 1 && !(event_u64(e, 2, i->rec) & 1))
			v->is = ADVICE_SMALL_PAGES;
		break;
	case EV_FAST_FAULT: /* only a page that may be written, and is not while it is logged */
		if (v->fault && ~event_u64(e, 2, i->rec) & event_u64(e, 3, i->rec) & 2)
			v->is = ADVICE_DIRTY_LOG;
		break;
	case EV_VCPU_WAKEUP:
		v->brief = event_u64(e, 1, i->rec) && event_u64(e, 0, i->rec) < SHORT_NS;
		break;
	default: break;
	}
	return 0;
}

const char *advise_param(const struct advise *a, const char *module, const char *name)
{
	for (size_t i = 0; i < a->cap->nparam; i++)
		if (!strcmp(a->cap->param[i].module, module) &&
		    !strcmp(a->cap->param[i].name, name))
			return a->cap->param[i].value;
	return NULL;
}

/* ---- the end ---- */

void advise_finish(struct advise *a)
{
	const struct fmt *fmt = tl_hostmap(a->t)->fmt;

	a->recorded = evidence_recorded(a->cap, fmt, false, a->clocks->seen);
	for (int r = 0; r < EV_ROLES; r++)
		a->has[r] =
			a->cap->is_tracedat ? a->clocks->seen[r] : a->clocks->type[r].ev != NULL;
}

bool advise_known(const struct advise *a, enum advice is)
{
	const struct advice_rule *rule = &advice_rules[is];
	const char *polls = advise_param(a, "kvm", "halt_poll_ns");

	if ((is == ADVICE_POLL_WASTE || is == ADVICE_POLL_OFF) && !polls)
		return false;
	if (is == ADVICE_NX_PAGES && !advise_param(a, "kvm", "nx_huge_pages"))
		return false;
	return !(rule->needs & ~a->recorded) && (rule->also == EV_NONE || a->has[rule->also]);
}

/*
 * How far its mean may be off, in millionths: the full slices are a sample. A slice of more than a
 * hundred CPUs counts as that many.
 */
static uint64_t advise_unsure(const struct advise_vm *vm, const struct advice_sum *s, size_t full)
{
	uint64_t part[ADVICE_SLICES], mean = 0, squares = 0;

	for (size_t i = 0; i < full; i++) {
		part[i] = (uint64_t)MIN((unsigned __int128)s->slice[i] * 1000000 / vm->slice,
					(unsigned __int128)100000000);
		mean += part[i];
	}
	if (full < 2)
		return 1000000;
	mean /= full;
	for (size_t i = 0; i < full; i++)
		squares += part[i] > mean ? (part[i] - mean) * (part[i] - mean)
					  : (mean - part[i]) * (mean - part[i]);
	return u64_root(squares / (full * (full - 1))) * QUANTILE / 1000;
}

void advise_mean(const struct advise *a, size_t at, enum advice sum, struct advice_cost *cost)
{
	const struct advise_vm *vm = &a->vm[at];
	const struct advice_sum *s = &vm->sum[sum];
	uint64_t span = vm->last - vm->first, khz = a->cap->unit_ns ? 1000000 : a->cap->tsc_khz;
	uint64_t ns = khz ? tsc_cycles_to_ns(span, khz) : 0, off;

	*cost = (struct advice_cost){ .count = s->n };
	if (!span)
		return;
	off = advise_unsure(vm, s, MIN(span / vm->slice, (uint64_t)ADVICE_SLICES));
	off = off / 1000 + 1;
	cost->per_s = ns ? (uint64_t)((unsigned __int128)s->n * 1000000000 / ns) : 0;
	cost->pm = (uint64_t)((unsigned __int128)s->spent * 1000 / span);
	cost->low = cost->pm - MIN(cost->pm, off);
	cost->high = cost->pm + off;
}

void advise_cost(const struct advise *a, size_t at, enum advice is, uint64_t least,
		 struct advice_cost *cost)
{
	const struct clock_vm *clocks = &a->clocks->vm[at];
	const char *polls = advise_param(a, "kvm", "halt_poll_ns");
	uint64_t ill = 0;

	advise_mean(a, at, is, cost);
	for (size_t k = 0; is == ADVICE_CLOCKS && k < clocks->nseen; k++)
		ill += !clock_rules[clocks->seen[k].is].note && clocks->seen[k].is != CLOCK_READS;
	if (is == ADVICE_CLOCKS)
		cost->count = ill;
	cost->speaks = cost->count && advise_known(a, is);
	if (is == ADVICE_MIGRATES)
		cost->speaks &= cost->count >= MOVES_N && cost->per_s >= MOVES * a->vm[at].n;
	else if (advice_rules[is].cost != ADVICE_COUNT)
		cost->speaks &= cost->pm >= least;
	if (advice_rules[is].cost == ADVICE_CPU)
		cost->speaks &= cost->per_s >= PER_S || !a->cap->tsc_khz;
	if (cost->speaks && (is == ADVICE_POLL_WASTE || is == ADVICE_POLL_OFF))
		cost->speaks = !strcmp(polls, "0") == (is == ADVICE_POLL_OFF);
	cost->vague = cost->speaks && advice_rules[is].cost != ADVICE_COUNT && cost->low < least;
	cost->speaks &= !cost->vague;
}
