/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_steal.c: --steal. The scheduler's events, as exits_drain.c reads them, are fed to
 * exits/steal.c in time order.
 *
 * All switches are needed of the CPUs on which vCPUs may run: while one waits, any thread may take
 * its CPU, and which CPU that is changes. Wake-ups, moves and interrupts matter of vCPUs' threads
 * only: the kernel's filter lets through a few ranges of thread ids that have them all. While there
 * are no VMs, nothing passes.
 */
#include "exits.h"

#include <sched.h>

#define RANGES	  8u
#define NOTHING	  "0"
#define LONG_BITS (8 * sizeof(long))

static const struct {
	const char *sys, *name;
	const char *field; /* that has the thread, or the CPU */
	bool must;
} steal_events[] = {
	{ "sched", "sched_wakeup", "pid", true },
	{ "sched", "sched_migrate_task", "pid", true },
#define BOTH(sys, name) { sys, name "_entry", "common_pid", false }, \
			{ sys, name "_exit", "common_pid", false }
	BOTH("irq", "irq_handler"),
	BOTH("irq", "softirq"),
	BOTH("irq_vectors", "local_timer"),
	BOTH("irq_vectors", "reschedule"),
	BOTH("irq_vectors", "call_function"),
	BOTH("irq_vectors", "call_function_single"),
	BOTH("irq_vectors", "irq_work"),
	{ "sched", "sched_switch", "CPU", true },
};

struct exits_steal {
	struct sbuf filter; /* those that are set */
	unsigned long may[CAPTURE_MAX_CPUS / LONG_BITS]; /* CPUs on which vCPUs may run */
	struct u64map cgroup_at; /* by directory and VM: the last look at it, its throttled time */
	void *cgroup;
	size_t cgroup_cap;
	struct hash_key key;
	uint64_t look;
	struct u64map unknown; /* VMs whose vCPUs' threads are not known, as told */
	uint32_t vm;	     /* that they are looked at for */
	struct u64map vm_of; /* of threads that took time and are not vCPUs; or STEAL_NONE */
};

/* ---- limits of cgroups, each once for a VM ---- */

static void steal_cgroup(void *ctx, const char *dir)
{
	struct exits_run *x = ctx;
	struct exits_steal *d = x->steal;
	struct {
		uint64_t look, ns;
	} *c;
	const uint64_t key = hash_bytes(&d->key, dir, strlen(dir)) ^ d->vm;
	uint64_t n, ns;

	c = xu64map_elem(&d->cgroup_at, key, &d->cgroup, &d->cgroup_cap, sizeof(*c));
	if (c->look == d->look || !vm_cgroup_throttled(dir, &n, &ns))
		return;
	if (c->look && ns > c->ns)
		steal_throttled(&x->taken, d->vm, ns - c->ns);
	c->look = d->look;
	c->ns = ns;
}

void exits_steal_limits(struct exits_run *x)
{
	struct exits_steal *d = x->steal;

	d->look++;
	for (size_t i = 0; i < x->taken.vcpu_at.n; i++) {
		const struct steal_vcpu *v = &x->taken.vcpu[i];
		_cleanup_close_ int dir = -1;

		if (v->vm == STEAL_NONE)
			continue;
		d->vm = v->vm;
		dir = open(TEXTF("/proc/%u/task/%u", v->tid, v->tid),
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir >= 0)
			vm_cgroups(dir, steal_cgroup, x);
	}
}

/* ---- whose threads ---- */

static bool steal_may_run(const struct exits_steal *d, uint32_t cpu)
{
	return cpu < CAPTURE_MAX_CPUS && d->may[cpu / LONG_BITS] >> cpu % LONG_BITS & 1;
}

COMPARE_BY(by_id, uint32_t,);

/* Sorted numbers as a filter: at most RANGES of them, which may let others through, too. */
static void steal_ranges_text(struct sbuf *b, const char *field, const uint32_t *v, size_t n)
{
	size_t k = RANGES + 1;

	for (uint32_t gap = 1; k > RANGES; gap *= 2) {
		sbuf_reset(b);
		k = 0;
		for (size_t i = 0; i < n; i++, k++) {
			size_t from = i;

			while (i + 1 < n && v[i + 1] - v[i] <= gap)
				i++;
			sbuf_addf(b, "%s(%s >= %" PRIu32 " && %s <= %" PRIu32 ")", k ? " || " : "",
				  field, v[from], field, v[i]);
		}
	}
}

static int steal_filter(struct exits_run *x, const uint32_t *tid, size_t n, const uint32_t *cpu,
		  size_t ncpu)
{
	_cleanup_(kevent_list_free) struct kevent_list list = { 0 };
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, all = { 0 };
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steal_events) && !ret; i++) {
		const char *f = steal_events[i].field;
		bool cpus = !strcmp(f, "CPU");

		if (!kevent_list_has(&x->events, steal_events[i].sys, steal_events[i].name))
			continue;
		steal_ranges_text(&b, f, cpus ? cpu : tid, cpus ? ncpu : n);
		sbuf_addf(&all, "%s;", b.s ?: "");
		ret = b.error ?: kevent_list_add(&list, steal_events[i].sys, steal_events[i].name,
						 !n ? NOTHING : b.s);
	}
	if (!ret && x->steal->filter.s && all.s && !strcmp(x->steal->filter.s, all.s))
		return 0;
	sbuf_reset(&x->steal->filter);
	sbuf_add(&x->steal->filter, all.s ?: "");
	return ret ? err_set(x->err, ENOMEM, "out of memory")
		   : kinst_events_add(x->k, &list, x->err);
}

int exits_steal_look(struct exits_run *x)
{
	struct exits_steal *d = x->steal;
	const struct exits *e = &x->table;
	_cleanup_free_ uint32_t *tid = NULL, *cpu = NULL;
	size_t n = 0, cap = 0, ncpu = 0, cpu_cap = 0;
	uint64_t from;
	int ret;

	memset(d->may, 0, sizeof(d->may));
	for (size_t i = 0; i < x->vms->n; i++) {
		const struct vm *vm = &x->vms->vm[i];
		bool lacks = false;
		uint64_t told;

		for (size_t k = 0; k < vm->n_vcpus; k++) {
			const struct vm_vcpu *v = &vm->vcpu[k];
			uint32_t id = v->tid;
			unsigned long may[ARRAY_SIZE(d->may)] = { 0 };
			uint64_t at;

			lacks |= !id && v->tid_source != VM_TID_NEVER_RAN;
			if (!id || !u64map_get(&e->by_tid, id, &at) ||
			    !exits_wanted(x, e, &e->thread[at]))
				continue;
			xarray_add(&tid, &n, &cap, &id, sizeof(id));
			(void)!sched_getaffinity((pid_t)id, sizeof(may), (cpu_set_t *)may);
			for (size_t w = 0; w < ARRAY_SIZE(may); w++)
				d->may[w] |= may[w];
		}
		told = hash_bytes(&d->key, vm->sel, strlen(vm->sel));
		lacks &= !x->target.pid || x->target.pid == vm->pid;
		if (!lacks || u64map_get(&d->unknown, told, NULL))
			continue;
		xu64map_put(&d->unknown, told, 0);
		x->note("what is taken from VM %s is not counted: the threads of its vCPUs are not "
			"known (kvmft list)", vm->sel);
	}
	for (uint32_t i = 0; i < CAPTURE_MAX_CPUS; i++)
		if (steal_may_run(d, i))
			xarray_add(&cpu, &ncpu, &cpu_cap, &i, sizeof(*cpu));
	if (n)
		qsort(tid, n, sizeof(*tid), by_id);
	/* Ids may have been given to others. */
	u64map_free(&d->vm_of);
	d->vm_of = (struct u64map){ 0 };
	ret = steal_filter(x, tid, n, cpu, ncpu);
	from = exits_steal_now(x);
	for (size_t i = 0; i < n; i++) {
		uint64_t at = 0;

		(void)u64map_get(&e->by_tid, tid[i], &at);
		steal_vcpu(&x->taken, tid[i], e->thread[at].vm, from);
	}
	steal_looked(&x->taken);
	exits_steal_limits(x);
	return ret;
}

/* A thread of a VMM works for its VM, if that has one only. */
static uint32_t steal_whose(void *ctx, const struct steal_task *task)
{
	struct exits_run *x = ctx;
	const struct exits *e = &x->table;
	uint64_t vm = STEAL_NONE, at;
	const struct vm *of;
	struct vm_task t;
	uint64_t start;

	if (u64map_get(&e->by_tid, task->tid, &at) && e->thread[at].vm != EXITS_NONE &&
	    !e->vm[e->thread[at].vm].ended)
		return e->thread[at].vm;
	if (u64map_get(&x->steal->vm_of, task->tid, &vm))
		return (uint32_t)vm;
	of = vm_task_read(task->tid, &t, &start) ? NULL : vm_list_only(x->vms, t.tgid);
	if (of)
		vm = exits_vm_find(e, of->sel);
	xu64map_put(&x->steal->vm_of, task->tid, vm);
	return (uint32_t)vm;
}

int exits_steal_begin(struct exits_run *x)
{
	int ret = 0;

	x->steal = xcalloc(1, sizeof(*x->steal));
	x->taken.vm_of = steal_whose;
	x->taken.ctx = x;
	hash_key_init(&x->steal->key);
	for (size_t i = 0; i < ARRAY_SIZE(steal_events) && !ret; i++) {
		const char *sys = steal_events[i].sys, *name = steal_events[i].name;

		if (kevent_exists(x->t, sys, name))
			ret = kevent_list_add(&x->events, sys, name, NOTHING);
		else if (steal_events[i].must)
			return err_lack(x->err, ENOENT, "this kernel has no event %s:%s", sys,
					name);
	}
	return ret ? err_set(x->err, ENOMEM, "out of memory") : 0;
}

/* ---- events ---- */

uint64_t exits_steal_now(const struct exits_run *x)
{
	struct timespec ts = { 0 };

	if (x->clock && strcmp(x->clock, "local"))
		clock_gettime(strcmp(x->clock, "mono") ? CLOCK_MONOTONIC_RAW : CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void steal_take_switch(struct steal *s, const struct live_item *i,
			      const struct event_type *e)
{
	struct steal_task prev = { .tid = (uint32_t)event_u64(e, 0, &i->rec) };
	struct steal_task next = { .tid = (uint32_t)event_u64(e, 2, &i->rec) };

	fmt_str(&e->f[4], &i->rec, prev.comm, sizeof(prev.comm));
	fmt_str(&e->f[3], &i->rec, next.comm, sizeof(next.comm));
	steal_switch(s, i->cpu, i->ts, &prev, event_task_sleeps(event_u64(e, 1, &i->rec)), &next);
}

void exits_steal_take(struct exits_run *x, const struct live_item *i)
{
	const struct event_type *e;
	struct steal *s = &x->taken;
	uint32_t by;

	if (i->kind != R_EVENT || i->late) {
		steal_gap(s);
		return;
	}
	e = event_type_of(fmt_by_id(x->fmt, i->rec.id));
	by = (uint32_t)fmt_pid(x->fmt, &i->rec);
	switch (e->role) {
	case EV_SWITCH: steal_take_switch(s, i, e); break;
	case EV_WAKEUP:
		steal_wake(s, e->have > 1 ? (uint32_t)event_u64(e, 1, &i->rec) : i->cpu, i->ts,
			   (uint32_t)event_u64(e, 0, &i->rec));
		break;
	case EV_MOVE:
		/* It was let go to other CPUs, whose switches are not recorded yet. */
		if (!steal_may_run(x->steal, (uint32_t)event_u64(e, 1, &i->rec)) &&
		    u64map_get(&s->vcpu_at, event_u64(e, 0, &i->rec), NULL)) {
			steal_gap(s);
			x->rescan_ns = 1;
		}
		steal_move(s, (uint32_t)event_u64(e, 1, &i->rec), i->ts,
			   (uint32_t)event_u64(e, 0, &i->rec));
		break;
	case EV_IRQ_ENTRY:
	case EV_VECTOR_ENTRY: steal_irq(s, i->ts, by, false, false); break;
	case EV_IRQ_EXIT:
	case EV_VECTOR_EXIT: steal_irq(s, i->ts, by, false, true); break;
	case EV_SOFTIRQ_ENTRY: steal_irq(s, i->ts, by, true, false); break;
	case EV_SOFTIRQ_EXIT: steal_irq(s, i->ts, by, true, true); break;
	default: break;
	}
}

void exits_steal_end(struct exits_run *x)
{
	if (!x->steal)
		return;
	steal_free(&x->taken);
	u64map_free(&x->steal->vm_of);
	u64map_free(&x->steal->unknown);
	u64map_free(&x->steal->cgroup_at);
	free(x->steal->cgroup);
	sbuf_free(&x->steal->filter);
	free(x->steal);
}
