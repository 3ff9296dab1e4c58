/* SPDX-License-Identifier: GPL-2.0-or-later */
/* steal.c: who has the CPU that vCPUs want. */
#include "kvmft/steal.h"

#define CPUS_MAX 65536u

const char *const steal_kind_names[] = {
	[STEAL_VM] = "vm",	   [STEAL_TASK] = "task",	[STEAL_IDLE] = "idle",
	[STEAL_UNKNOWN] = "unknown", [STEAL_IRQ] = "interrupt", [STEAL_SOFTIRQ] = "softirq",
	[STEAL_THROTTLED] = "throttled", NULL
};

void steal_free(struct steal *s)
{
	u64map_free(&s->cell_at);
	u64map_free(&s->vcpu_at);
	free(s->cell);
	free(s->vcpu);
	free(s->cpu);
}

/* ---- cells ---- */

static uint64_t steal_cell_key(struct steal *s, const struct steal_cell *c)
{
	if (!s->ncell)
		hash_key_init(&s->key);
	return hash_bytes(&s->key, c, offsetof(struct steal_cell, comm) + sizeof(c->comm));
}

/* task: NULL, none is known. */
static void steal_add_time(struct steal *s, uint32_t vm, enum steal_kind kind,
			   const struct steal_task *task, uint64_t ns)
{
	struct steal_cell want = { .vm = vm, .kind = kind, .by = STEAL_NONE };
	uint64_t *at;

	if (vm == STEAL_NONE || !ns)
		return;
	if (kind == STEAL_TASK)
		want.by = s->vm_of(s->ctx, task);
	if (want.by != STEAL_NONE)
		want.kind = STEAL_VM;
	else if (kind == STEAL_TASK)
		memcpy(want.comm, task->comm, sizeof(want.comm));
	if (kind == STEAL_TASK && s->ncell >= (want.by == STEAL_NONE ? 1 : 10) * STEAL_CELLS &&
	    !u64map_get(&s->cell_at, steal_cell_key(s, &want), NULL))
		want = (struct steal_cell){ .vm = vm, .kind = kind, .by = STEAL_NONE,
					    .comm = "(others)" };
	at = xu64map_at(&s->cell_at, steal_cell_key(s, &want));
	if (!*at) {
		xarray_add(&s->cell, &s->ncell, &s->cell_cap, &want, sizeof(want));
		*at = s->ncell;
	}
	s->cell[*at - 1].ns += ns;
}

/* ---- queues ---- */

/* NULL: an impossible number. */
static struct steal_cpu *steal_cpu_at(struct steal *s, uint32_t cpu)
{
	if (cpu >= CPUS_MAX)
		return NULL;
	for (; s->ncpu <= cpu; s->ncpu++)
		xarray_grow(&s->cpu, s->ncpu, &s->cpu_cap, sizeof(*s->cpu));
	return &s->cpu[cpu];
}

static struct steal_vcpu *steal_vcpu_of(const struct steal *s, uint32_t tid, uint64_t t)
{
	uint64_t at;

	return u64map_get(&s->vcpu_at, tid, &at) && t >= s->vcpu[at].from ? &s->vcpu[at] : NULL;
}

/* Until t, task had the CPU that v waits for; NULL: not known. */
static void steal_waited(struct steal *s, struct steal_vcpu *v, const struct steal_task *task,
			 uint64_t t)
{
	enum steal_kind kind = !task ? STEAL_UNKNOWN : task->tid ? STEAL_TASK : STEAL_IDLE;

	if (t <= v->since)
		return;
	steal_add_time(s, v->vm, kind, task, t - v->since);
	v->since = t;
}

static void steal_queue_leave(struct steal *s, struct steal_vcpu *v)
{
	if (v->state != STEAL_WAITS)
		return;
	if (v->after)
		s->vcpu[v->after - 1].before = v->before;
	*(v->before ? &s->vcpu[v->before - 1].after : &s->cpu[v->cpu].queue) = v->after;
	v->state = STEAL_UNSEEN;
}

static void steal_queue_enter(struct steal *s, struct steal_vcpu *v, uint32_t cpu, uint64_t t)
{
	struct steal_cpu *c = steal_cpu_at(s, cpu);

	if (!c)
		return;
	v->state = STEAL_WAITS;
	v->since = t;
	v->cpu = cpu;
	v->before = 0;
	v->after = c->queue;
	c->queue = (uint32_t)(v - s->vcpu) + 1;
	if (v->after)
		s->vcpu[v->after - 1].before = c->queue;
}

/* ---- whose threads ---- */

void steal_vcpu(struct steal *s, uint32_t tid, uint32_t vm, uint64_t from)
{
	struct steal_vcpu *v =
		xu64map_elem(&s->vcpu_at, tid, &s->vcpu, &s->vcpu_cap, sizeof(*v));

	/* A thread of another VM: the id was reused. */
	if (v->look && v->vm != vm)
		steal_queue_leave(s, v);
	if (!v->look || v->vm != vm) {
		v->state = STEAL_UNSEEN;
		v->from = from;
	}
	v->tid = tid;
	v->vm = vm;
	v->look = s->look + 1;
}

void steal_looked(struct steal *s)
{
	s->look++;
	for (size_t i = 0; i < s->vcpu_at.n; i++)
		if (s->vcpu[i].look != s->look) {
			steal_queue_leave(s, &s->vcpu[i]);
			s->vcpu[i].vm = STEAL_NONE;
			s->vcpu[i].state = STEAL_UNSEEN;
		}
}

/* ---- events ---- */

static void steal_at(struct steal *s, uint64_t t)
{
	s->now = MAX(s->now, t);
	s->begin = s->begin ?: s->now;
}

void steal_switch(struct steal *s, uint32_t cpu, uint64_t t, const struct steal_task *prev,
		  bool sleeps, const struct steal_task *next)
{
	struct steal_cpu *c = steal_cpu_at(s, cpu);
	struct steal_vcpu *p = steal_vcpu_of(s, prev->tid, t);
	struct steal_vcpu *n = steal_vcpu_of(s, next->tid, t);
	bool known;

	steal_at(s, t);
	if (!c)
		return;
	/* Nobody else ran there since the last switch, or, before the first one, since it waits. */
	known = !c->known || c->task.tid == prev->tid;
	for (uint32_t i = c->queue; i; i = s->vcpu[i - 1].after)
		if (&s->vcpu[i - 1] != p)
			steal_waited(s, &s->vcpu[i - 1], known ? prev : NULL, t);
	c->known = true;
	c->task = *next;
	if (n && prev->tid != next->tid) {
		/* It was moved, or woken, unseen. */
		if (n->state == STEAL_WAITS && n->cpu != cpu)
			steal_waited(s, n, NULL, t);
		s->odd += n->state == STEAL_RUNS || (n->state == STEAL_SLEEPS && n->heard) ||
			  (n->state == STEAL_WAITS && n->cpu != cpu);
		steal_queue_leave(s, n);
		n->state = STEAL_RUNS;
	}
	if (!p)
		return;
	s->odd += p->state == STEAL_WAITS || p->state == STEAL_SLEEPS;
	steal_queue_leave(s, p);
	p->begin[0] = p->begin[1] = 0;
	p->state = STEAL_SLEEPS;
	if (!sleeps && p->vm != STEAL_NONE)
		steal_queue_enter(s, p, cpu, t);
}

void steal_wake(struct steal *s, uint32_t cpu, uint64_t t, uint32_t tid)
{
	struct steal_vcpu *v = steal_vcpu_of(s, tid, t);

	steal_at(s, t);
	if (v)
		v->heard = true;
	/* Waking a thread that is awake changes nothing, and one that was not seen may be. */
	if (!v || v->state != STEAL_SLEEPS || v->vm == STEAL_NONE)
		return;
	steal_queue_enter(s, v, cpu, t);
}

void steal_move(struct steal *s, uint32_t cpu, uint64_t t, uint32_t tid)
{
	struct steal_vcpu *v = steal_vcpu_of(s, tid, t);
	struct steal_cpu *c;

	steal_at(s, t);
	if (!v || v->state != STEAL_WAITS)
		return;
	c = &s->cpu[v->cpu];
	steal_waited(s, v, c->known ? &c->task : NULL, t);
	steal_queue_leave(s, v);
	steal_queue_enter(s, v, cpu, t);
}

void steal_irq(struct steal *s, uint64_t t, uint32_t tid, bool soft, bool end)
{
	struct steal_vcpu *v = steal_vcpu_of(s, tid, t);
	uint64_t ns;

	steal_at(s, t);
	if (!v)
		return;
	if (!end) {
		v->begin[soft] = t;
		return;
	}
	ns = v->begin[soft] && t > v->begin[soft] ? t - v->begin[soft] : 0;
	v->begin[soft] = 0;
	/* An interrupt within a softirq is not the softirq's time. */
	if (!soft && v->begin[1])
		v->begin[1] += ns;
	steal_add_time(s, v->vm, soft ? STEAL_SOFTIRQ : STEAL_IRQ, NULL, ns);
}

void steal_throttled(struct steal *s, uint32_t vm, uint64_t ns)
{
	steal_add_time(s, vm, STEAL_THROTTLED, NULL, ns);
}

void steal_gap(struct steal *s)
{
	for (size_t i = 0; i < s->vcpu_at.n; i++) {
		steal_queue_leave(s, &s->vcpu[i]);
		s->vcpu[i].state = STEAL_UNSEEN;
		s->vcpu[i].begin[0] = s->vcpu[i].begin[1] = 0;
	}
	for (size_t i = 0; i < s->ncpu; i++)
		s->cpu[i].known = false;
	s->gaps++;
}

void steal_read(struct steal *s, uint64_t t)
{
	steal_at(s, t);
	for (size_t i = 0; i < s->vcpu_at.n; i++) {
		struct steal_vcpu *v = &s->vcpu[i];

		/* Where no switch was seen yet, the first one will say who it was. */
		if (v->state == STEAL_WAITS && s->cpu[v->cpu].known)
			steal_waited(s, v, &s->cpu[v->cpu].task, s->now);
	}
}

bool steal_bound(const struct steal *s)
{
	return s->gaps + s->odd > s->gaps_shown;
}

void steal_interval(struct steal *s)
{
	for (size_t i = 0; i < s->ncell; i++)
		s->cell[i].shown = s->cell[i].ns;
	s->begin = s->now;
	s->gaps_shown = s->gaps + s->odd;
}
