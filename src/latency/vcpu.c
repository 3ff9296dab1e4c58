/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vcpu.c: what each vCPU's thread does at any time, from the events of the host.
 *
 * The thread is in the guest, in KVM, in the VMM, or halted (base), unless the scheduler says that
 * it is off its CPU while it wants one, or was stopped by a signal: then it is robbed. A thread
 * that sleeps keeps its base: a sleeping VMM is still the VMM's time. Without sched events of the
 * host nothing is ever robbed.
 */

#include "kvmft/exit_names.h"
#include "priv.h"

/* ---- stolen time: which task of the guest it hit, and what ran on the host instead ---- */

/*
 * Threads that work for a VM and are not vCPUs: the VMM's own, and vhost's. What they do
 * for a guest cannot begin before they have a CPU: when they were woken, and when they ran.
 *
 * Only threads that the capture names are known, not those that ended before it did.
 */

#define WORKERS_MOST 512u /* of a VM, that are looked at for a doorbell */

struct lat_workers {
	struct lat_worker *w;
	size_t cap;
	struct u64map at; /* tid → index */
};

void lat_workers_new(struct lat *l)
{
	const struct capture *cap = tl_source(l->t, 0)->cap;

	l->workers = xcalloc(1, sizeof(*l->workers));
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];
		int64_t vm = hostmap_task_vm(l->map, t->tid);
		struct lat_worker *w;

		/* vhost's own thread is not one of the VMM. */
		if (l->some_switches && t->comm && str_starts(t->comm, "vhost-") &&
		    t->tid == t->tgid)
			continue;
		if (vm < 0 || t->tid <= 0 || hostmap_thread(l->map, t->tid) ||
		    u64map_get(&l->workers->at, (uint32_t)t->tid, NULL))
			continue;
		w = xu64map_elem(&l->workers->at, (uint32_t)t->tid, &l->workers->w,
				 &l->workers->cap, sizeof(*w));
		w->vm = (size_t)vm;
		w->next = l->guest[vm].worker;
		l->guest[vm].worker = (uint32_t)(w - l->workers->w) + 1;
	}
}

static struct lat_worker *worker_at(const struct lat *l, size_t i)
{
	struct lat_worker *w = &l->workers->w[i];

	if (w->gen != l->cpu_gen)
		*w = (struct lat_worker){ .vm = w->vm, .next = w->next, .gen = l->cpu_gen };
	return w;
}

static struct lat_worker *worker_of(const struct lat *l, uint64_t tid)
{
	uint64_t at;

	return u64map_get(&l->workers->at, (uint32_t)tid, &at) ? worker_at(l, at) : NULL;
}

void lat_worker_wake(struct lat *l, const struct lat_in *in)
{
	struct lat_worker *w = worker_of(l, in->f[0]);

	if (!w || w->running || w->waiting)
		return;
	w->waiting = true;
	w->woken = in->t;
}

void lat_worker_switch(struct lat *l, const struct lat_in *in)
{
	struct lat_worker *prev = worker_of(l, in->f[0]), *next = worker_of(l, in->f[2]);

	if (prev) {
		prev->running = prev->fresh = false;
		prev->seen = true;
		prev->waiting = !event_task_sleeps(in->f[1]); /* it lost its CPU, and wants one */
		prev->woken = in->t;
	}
	if (!next)
		return;
	next->running = next->seen = true;
	next->ran = in->t;
	if (!next->waiting)
		return;
	next->waiting = false;
	next->fresh = true;
	lat_io_worker_runs(l, next);
}

/* How long the thread had waited for its CPU, if it raises its first interrupt since. */
bool lat_worker_raises(struct lat *l, int32_t tid, uint64_t *waited)
{
	struct lat_worker *w = worker_of(l, (uint32_t)tid);

	if (!w || !w->fresh)
		return false;
	w->fresh = false;
	*waited = w->ran - w->woken;
	return true;
}

/*
 * A doorbell was rung in the exit at `exit`. When did a thread of the VM that waited then, or was
 * woken since, get a CPU? 0: none did yet; UINT64_MAX: unknown, because one was running, or after
 * a gap may have been, and may have noticed it at once.
 */
uint64_t lat_worker_ran(const struct lat *l, size_t vm, uint64_t exit)
{
	uint64_t first = 0;

	for (uint32_t at = l->guest[vm].worker, n = 0; at; n++) {
		const struct lat_worker *w = worker_at(l, at - 1);

		if (n == WORKERS_MOST)
			return UINT64_MAX;
		at = w->next;
		if ((w->running && w->ran < exit) || (!w->seen && l->cpu_gen))
			return UINT64_MAX;
		if (w->ran >= exit && (!first || w->ran < first))
			first = w->ran;
	}
	return first;
}

uint64_t lat_worker_since(const struct lat *l, int32_t tid)
{
	const struct lat_worker *w = worker_of(l, (uint32_t)tid);

	return w && w->running ? w->ran : 0;
}

void lat_workers_free(struct lat *l)
{
	if (!l->workers)
		return;
	free(l->workers->w);
	u64map_free(&l->workers->at);
	free(l->workers);
}

enum { HIT_TASK, HIT_IRQ, HIT_SOFTIRQ, HIT_LOCK, HIT_IDLE, HIT_UNKNOWN, HIT_UNSEEN };

const struct lat_desc lat_desc_sched = {
	.name = "sched",
	.kind = LAT_SCHED,
	.title = "time in which vCPUs wanted a CPU and had none, by the guest's task",
	.key = "Guest task",
	.stage = { "total", "preempted", "waiting" },
	.stage_help = { "from losing the CPU, or waking, to having one again",
			"after another thread took its CPU", "from the wake-up to a CPU" },
	.parts = 1u << 1 | 1u << 2,
	.cause = (const char *const[LAT_CAUSES]){ "task", "interrupt", "softirq",
						  "preemption_off: lock or preemption off", "idle",
						  "unknown", "not_recorded: not recorded" },
	.cause_untold = HIT_UNSEEN,
	.count = { "intervals", "outside_guest: outside the guest's capture",
		   "no_task: of an unknown guest task", "cut: cut by lost events",
		   "open: open at the end" },
};

const struct lat_desc lat_desc_stealer = {
	.name = "stealer",
	.kind = LAT_SCHED,
	.title = "who ran on the host meanwhile",
	.key = "Host task",
	.stage = { "total" },
	.stage_help = { "on the CPU that a vCPU wanted" },
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "slices", "unknown: of unknown tasks",
		   "several: of several tasks, of which the first and the last are named" },
};

enum { STEALER_SLICES, STEALER_UNKNOWN, STEALER_SEVERAL };

#define TID_MASK 0x3fffffu /* PID_MAX_LIMIT of the kernel (include/linux/threads.h), less one */

/* Time without a task has its own keys, outside those of tasks and of idle (from 1 << 40). */
static const struct {
	uint64_t key;
	const char *name;
} no_task[] = {
	[HIT_UNKNOWN] = { 1ull << 41, "(not known)" },
	[HIT_UNSEEN] = { 1ull << 42, "(guest not recorded)" },
};

struct lat_group *lat_hit_group(struct lat *l, enum lat_table_id id, const struct lat_vcpu *v,
				uint64_t t, struct lat_case *c)
{
	const struct lat_guest *seen = &l->guest[v->vm];
	uint32_t cause = HIT_UNKNOWN;
	uint64_t key = v->guest_tid ? (uint64_t)(uint32_t)v->guest_tid : (1ull << 40) + v->id;
	struct lat_group *g;
	bool known;

	if (!seen->begun || t < seen->begin || t >= seen->stop)
		cause = HIT_UNSEEN;
	/* Without its switches, the last task that was seen may be gone. */
	else if (v->guest_known && (!seen->src || l->seen[seen->src->index][EV_SWITCH]))
		/* The preempt count of the task's last event, of which tracing itself is 1. */
		cause = v->irq_depth		? HIT_IRQ
			: v->softirq_depth	? HIT_SOFTIRQ
			: !v->guest_tid		? HIT_IDLE
			: v->guest_preempt > 1 && !v->in_user ? HIT_LOCK
							       : HIT_TASK;
	c->cause = cause;
	known = cause < HIT_UNKNOWN;
	g = lat_group_get(l, id, c->vm, known ? key : no_task[cause].key, &c->group);
	g->rest = cause == HIT_UNKNOWN;
	if (!known) /* unseen: by a guest that was recorded, at another time */
		snprintf(g->name, sizeof(g->name), "%s",
			 cause == HIT_UNSEEN && l->guest[v->vm].src ? "(outside its capture)"
								    : no_task[cause].name);
	else if (v->guest_tid)
		snprintf(g->name, sizeof(g->name), "%s-%d",
			 tl_comm(l->guest[v->vm].src, v->guest_tid), v->guest_tid);
	else
		snprintf(g->name, sizeof(g->name), "<idle>/%u", v->id);
	return g;
}

static bool vcpu_wanted(const struct lat *l, const struct lat_vcpu *v)
{
	return l->o.want[LAT_SCHED] && !l->o.cases_only && lat_wanted(l, (int64_t)v->vm, v->id);
}

static int thief_name(const struct lat *l, int32_t tid, char *buf, size_t size)
{
	if (!tid)
		return snprintf(buf, size, "(nobody)");
	return snprintf(buf, size, "%.15s-%d", tl_comm(tl_source(l->t, 0), tid), tid);
}

static void lat_thief(struct lat *l, struct lat_vcpu *v, const struct lat_cpu *c, uint64_t t)
{
	uint64_t from = v->thief_since;
	/* Of a CPU that others may have had only what was seen: who was first, and who was last. */
	bool known = c && c->known && (!c->perhaps || from <= c->since || c->left == t);
	bool several = known && (c->tid != c->last || (c->perhaps && c->tid));
	bool first = known && from <= c->since, more;
	uint64_t key = known ? (uint32_t)c->last & TID_MASK : 1ull << 52;
	struct lat_case k;
	struct lat_group *g;
	int n = 0;

	v->thief_since = t;
	if (several && t > from && lat_wanted(l, (int64_t)v->vm, v->id))
		l->unseen_switches = true;
	if (!vcpu_wanted(l, v))
		return;
	k = (struct lat_case){
		.begin = from, .end = t, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, t - from),
	};
	if (!k.time && known)
		return;
	l->table[LAT_T_STEALER].count[STEALER_SLICES]++;
	l->table[LAT_T_STEALER].count[STEALER_UNKNOWN] += !known;
	l->table[LAT_T_STEALER].count[STEALER_SEVERAL] += known && c->tid != c->last;
	/* What ran on c: the first and the last together, if some came between unseen. */
	if (several)
		key |= first ? 1ull << 51 | (uint64_t)((uint32_t)c->tid & TID_MASK) << 24
			     : 1ull << 50;
	g = lat_group_get(l, LAT_T_STEALER, -1, key, &k.group);
	g->rest = !known || (!several && !c->tid);
	if (!known)
		snprintf(g->name, sizeof(g->name), "(not known)");
	else if (several && first)
		n = thief_name(l, c->tid, g->name, sizeof(g->name));
	more = known && !(several && first && c->tid == c->last);
	if (several)
		n += snprintf(g->name + n, sizeof(g->name) - (size_t)n, "%s...%s", n ? " " : "",
			      more ? " " : "");
	if (more)
		thief_name(l, c->last, g->name + n, sizeof(g->name) - (size_t)n);
	snprintf(k.what, sizeof(k.what), "%.60s", g->name);
	lat_case_add(l, LAT_T_STEALER, g, &k);
}

#define CPUS_MAX    65536u /* a capture with more is not trusted */
#define LAT_QUEUE   64u
#define TASK_STOPPED 0x0cu /* prev_state: __TASK_STOPPED, __TASK_TRACED, stopped by others */
#define TASK_ENDED   0x70u /* EXIT_DEAD, EXIT_ZOMBIE; before 4.14 TASK_DEAD */

const char *const vs_names[VS_STATES] = {
	[VS_UNKNOWN] = "unknown", [VS_GUEST] = "guest",	   [VS_KERNEL] = "kernel",
	[VS_USER] = "vmm",	  [VS_HALTED] = "halted", [VS_WAITING] = "waiting",
	[VS_PREEMPTED] = "preempted",
};

void lat_times_at(const struct lat_vcpu *v, uint64_t t, uint64_t time[VS_STATES])
{
	memcpy(time, v->time, sizeof(v->time));
	time[v->state] += t > v->since ? t - v->since : 0;
}

static void set_state(const struct lat *l, struct lat_vcpu *v, enum vs_state s, uint64_t t)
{
	lat_timer_tick(v, t);
	if (!v->seen) {
		v->seen = true;
		v->first = v->since = l->begin; /* of the capture: unknown until now */
	}
	v->time[v->state] += t - v->since;
	v->since = t;
	v->last = t;
	if (v->state == VS_UNKNOWN)
		v->known = t;
	v->state = s;
}

static bool vcpu_robbed(const struct lat_vcpu *v)
{
	return v->state == VS_WAITING || v->state == VS_PREEMPTED;
}

uint64_t lat_slept(const struct lat_vcpu *v, uint64_t t)
{
	return v->slept + (v->asleep_since && t > v->asleep_since ? t - v->asleep_since : 0);
}

static void sleep_end(struct lat_vcpu *v, uint64_t t)
{
	v->slept = lat_slept(v, t);
	v->asleep_since = 0;
}

static void set_base(const struct lat *l, struct lat_vcpu *v, enum vs_state base, uint64_t t)
{
	v->base = base;
	v->asleep = false;
	sleep_end(v, t);
	set_state(l, v, base, t);
}

static struct lat_cpu *cpu_now(const struct lat *l, size_t cpu)
{
	struct lat_cpu *c = &l->cpu[cpu];

	c->known = c->known && c->gen == l->cpu_gen;
	return c;
}

/* NULL: an impossible number. */
static struct lat_cpu *lat_cpu_at(struct lat *l, uint32_t cpu)
{
	if (cpu >= CPUS_MAX)
		return NULL;
	for (; l->ncpu <= cpu; l->ncpu++)
		xarray_grow(&l->cpu, l->ncpu, &l->cpu_cap, sizeof(*l->cpu));
	return cpu_now(l, cpu);
}

static void queue_leave(struct lat *l, struct lat_vcpu *v)
{
	if (!v->queued)
		return;
	if (v->after)
		v->after->before = v->before;
	*(v->before ? &v->before->after : &l->cpu[v->steal_cpu].queue) = v->after;
	l->cpu[v->steal_cpu].nqueue--;
	v->queued = false;
}

/* v was robbed of its CPU in [v->steal_begin, t]. */
static void robbed_end(struct lat *l, struct lat_vcpu *v, uint64_t t)
{
	struct lat_case c = {
		.begin = v->steal_begin, .end = t, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, t - v->steal_begin),
	};
	struct lat_group *g;

	lat_thief(l, v, v->queued ? cpu_now(l, v->steal_cpu) : NULL, t);
	if (vcpu_wanted(l, v)) {
		g = lat_hit_group(l, LAT_T_SCHED, v, v->steal_begin, &c);
		l->table[LAT_T_SCHED].count[SCHED_INTERVALS]++;
		l->table[LAT_T_SCHED].count[SCHED_UNSEEN] += c.cause == HIT_UNSEEN;
		l->table[LAT_T_SCHED].count[SCHED_NO_TASK] += c.cause == HIT_UNKNOWN;
		snprintf(c.what, sizeof(c.what), "%.40s on vCPU %u", g->name, v->id);
		lat_stage(&c, v->state == VS_PREEMPTED ? 1 : 2, c.time);
		lat_case_add(l, LAT_T_SCHED, g, &c);
	}
	v->off[v->noff++ % LAT_OFF] = (struct lat_off){ v->steal_begin, t };
	queue_leave(l, v);
}

bool lat_off_cpu(const struct lat_vcpu *v, uint64_t from, uint64_t to, uint64_t *off)
{
	if (v->cut && (from < v->known || v->state == VS_UNKNOWN))
		return false;
	*off = vcpu_robbed(v) && to > MAX(from, v->steal_begin) ? to - MAX(from, v->steal_begin)
								: 0;
	for (uint64_t i = v->noff; i && v->noff - i < LAT_OFF; i--) {
		const struct lat_off *o = &v->off[(i - 1) % LAT_OFF];

		if (o->end <= from)
			return true;
		if (MIN(o->end, to) > MAX(o->begin, from))
			*off += MIN(o->end, to) - MAX(o->begin, from);
	}
	return v->noff <= LAT_OFF;
}

/* An event of the thread itself: it is on a CPU, whatever the scheduler's events said. */
void lat_vcpu_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	enum exit_kind kind;

	v->tid = in->i->tid;
	/* It went to another CPU, unseen. */
	if (v->cpu != in->i->cpu && v->host == in->i->src && !vcpu_robbed(v))
		v->state = VS_UNKNOWN;
	v->cpu = in->i->cpu;
	if (in->kind == EV_ENTRY || in->kind == EV_EXIT)
		v->host = in->i->src;
	if (vcpu_robbed(v))
		robbed_end(l, v, in->t);
	switch (in->kind) {
	case EV_ENTRY:
		v->entries++;
		if (v->in_fault && in->t > v->exit)
			v->faulted += in->t - v->exit;
		v->in_fault = false;
		set_base(l, v, VS_GUEST, in->t);
		break;
	case EV_EXIT:
		v->exit = in->t;
		v->in_user = in->has & 4 && ksyms_is_user(in->f[2]);
		kind = (enum exit_kind)(in->f[3] & ~LAT_EXIT_LOG_FULL);
		v->in_fault = kind == EXIT_KIND_FAULT;
		set_base(l, v, kind == EXIT_KIND_HALT ? VS_HALTED : VS_KERNEL, in->t);
		break;
	case EV_MMIO:
	case EV_FAST_MMIO: /* a device */
		v->in_fault = false;
		set_state(l, v, v->base, in->t);
		break;
	case EV_NESTED_EXIT: /* its own guest halts: KVM reports that, or sleeps until the
			      * wake-up */
		set_base(l, v, VS_KERNEL, in->t);
		break;
	case EV_USER_EXIT: set_base(l, v, VS_USER, in->t); break;
	case EV_VCPU_WAKEUP: set_base(l, v, VS_KERNEL, in->t); break;
	default: set_state(l, v, v->base, in->t);
	}
}

static void vcpu_rob(struct lat *l, struct lat_vcpu *v, enum vs_state s, uint32_t cpu, uint64_t t)
{
	struct lat_cpu *c;

	if (vcpu_robbed(v) || v->base == VS_UNKNOWN)
		return;
	set_state(l, v, s, t);
	v->steal_begin = v->thief_since = t;
	v->steal_cpu = cpu;
	v->from = -1;
	c = lat_cpu_at(l, cpu);
	v->queued = c && c->nqueue < LAT_QUEUE;
	if (!v->queued)
		return;
	v->before = NULL;
	v->after = c->queue;
	if (c->queue)
		c->queue->before = v;
	c->queue = v;
	c->nqueue++;
}

struct lat_vcpu *lat_vcpu_of_tid(struct lat *l, const struct tl_source *s, int32_t tid)
{
	const struct migrate *link = s->link;
	const struct hostmap_thread *th =
		tid > 0 ? hostmap_thread(link ? link->map : l->map, tid) : NULL;

	return th ? lat_vcpu_get(l, link ? link->vm[th->vm] : th->vm, th->vcpu) : NULL;
}

void lat_vcpu_switch(struct lat *l, const struct lat_in *in)
{
	struct lat_vcpu *prev = lat_vcpu_of_tid(l, in->i->src, (int32_t)in->f[0]);
	struct lat_vcpu *next = lat_vcpu_of_tid(l, in->i->src, (int32_t)in->f[2]);
	struct lat_cpu *c = lat_cpu_at(l, in->i->cpu);

	if (!c)
		return;
	if (c->known && !in->i->src->link) {
		const char *last = tl_comm(in->i->src, c->last);

		/* A CPU that goes offline does not say that its stopper gave way to idle. */
		l->some_switches |= c->last != (int32_t)in->f[0] &&
				    (in->f[0] || !str_starts(last, "migration/"));
		c->last = (int32_t)in->f[0];
		c->left = in->t;
	}
	if (next) {
		next->from = (int32_t)in->f[0];
		next->cpu = in->i->cpu;
	}
	if (next && vcpu_robbed(next))
		robbed_end(l, next, in->t);
	if (next && next->base != VS_UNKNOWN) {
		next->asleep = false;
		sleep_end(next, in->t);
		set_state(l, next, next->base, in->t);
	}
	/* The CPUs are those of the first host. */
	if (!(in->i->src->link)) {
		int32_t tid = (int32_t)in->f[2];

		/* Another thread takes a CPU that robbed vCPUs wait for. */
		for (struct lat_vcpu *v = c->queue; v; v = v->after)
			lat_thief(l, v, c, in->t);
		/* Who gets a CPU has it until a switch, if all its switches are there. */
		*c = (struct lat_cpu){ .tid = tid,
				       .last = tid, .since = in->t, .known = true,
				       .gen = l->cpu_gen, .queue = c->queue,
				       .nqueue = c->nqueue,
				       .perhaps =
					       l->some_switches &&
					       !u64map_get(&l->workers->at, (uint32_t)tid, NULL) &&
					       !(tid > 0 && hostmap_thread(l->map, tid)) };
	}
	if (!prev)
		return;
	/* It had a CPU, nobody knows since when. */
	if (vcpu_robbed(prev)) {
		lat_count(l, prev, LAT_T_SCHED, SCHED_CUT);
		queue_leave(l, prev);
		prev->state = VS_UNKNOWN;
		prev->cut = true;
	}
	/* A thread that a signal stops in its sleep goes on sleeping. */
	if (in->f[1] & TASK_ENDED) { /* what follows is nobody's time */
		set_base(l, prev, VS_UNKNOWN, in->t);
	} else if (event_task_sleeps(in->f[1] & ~(uint64_t)TASK_STOPPED) ||
		   (in->f[1] & TASK_STOPPED && prev->base == VS_HALTED)) {
		prev->asleep = true;
		prev->asleep_since = in->t;
		prev->waker = 0;
	} else {
		vcpu_rob(l, prev, VS_PREEMPTED, in->i->cpu, in->t);
	}
	prev->stopped = in->f[1] & TASK_STOPPED;
}

/* In an interrupt it is not the thread that wakes; sched_wakeup often comes in one. */
void lat_vcpu_woken_by(struct lat_vcpu *v, const struct lat_in *in)
{
	if (v->asleep_since && !v->waker && !lat_in_interrupt(in))
		v->waker = in->i->tid;
}

void lat_vcpu_wake(struct lat *l, const struct lat_in *in)
{
	struct lat_vcpu *v = lat_vcpu_of_tid(l, in->i->src, (int32_t)in->f[0]);
	bool told = v && v->state == VS_PREEMPTED && v->stopped;

	/* A stopped thread is continued, and waits for a CPU like others from here on. */
	if (told) {
		robbed_end(l, v, in->t);
		set_state(l, v, v->base, in->t);
		v->stopped = false;
	}
	/* Waking a thread that is awake changes nothing. */
	if (!v || !(v->asleep || told))
		return;
	lat_vcpu_woken_by(v, in);
	sleep_end(v, in->t);
	vcpu_rob(l, v, VS_WAITING, in->has & 2 ? (uint32_t)in->f[1] : in->i->cpu, in->t);
}

/* What the guest does on this vCPU. */
void lat_vcpu_guest(const struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct tl_source *s = in->i->src;

	/* The upper half is of migration, since 5.12 (tracing_gen_ctx_irq_test()). */
	v->guest_preempt = fmt_preempt(s->fmt, in->i->rec) & 15;
	if (in->kind == EV_SWITCH) {
		v->guest_known = true;
		v->guest_tid = (int32_t)in->f[2];
		v->irq_depth = v->softirq_depth = 0;
		v->guest_preempt = 0; /* what held it back was the scheduler's own lock */
	} else if (!v->guest_known && !event_in_interrupt(s->fmt, in->i->rec)) {
		v->guest_known = true;
		v->guest_tid = in->i->tid;
	}
	switch (in->kind) {
	case EV_VECTOR_ENTRY:
	case EV_IRQ_ENTRY:
		v->irq_depth += event_handler_ends(s->fmt, in->i->ev, l->seen[s->index]);
		break;
	case EV_VECTOR_EXIT:
	case EV_IRQ_EXIT: v->irq_depth -= v->irq_depth > 0; break;
	case EV_SOFTIRQ_ENTRY:
		v->softirq_depth += event_handler_ends(s->fmt, in->i->ev, l->seen[s->index]);
		break;
	case EV_SOFTIRQ_EXIT: v->softirq_depth -= v->softirq_depth > 0; break;
	default: break;
	}
}

bool lat_vcpu_now(const struct lat *l, size_t vm, uint32_t vcpu, struct lat_now *now)
{
	const struct lat_cpu *c = NULL;
	const struct lat_vcpu *v;
	uint64_t at;
	bool old;

	if (!u64map_get(&l->vcpu_at, (uint64_t)vm << 32 | vcpu, &at))
		return false;
	v = l->vcpu[at];
	if (vcpu_robbed(v) && v->steal_cpu < l->ncpu)
		c = cpu_now(l, v->steal_cpu);
	old = c && c->known && c->perhaps && c->since < v->steal_begin;
	*now = (struct lat_now){
		.state = v->state, .base = v->base, .asleep = v->asleep,
		.stopped = v->state == VS_PREEMPTED && v->stopped,
		.thief_known = c && c->known && !old, .thief = c && !old ? c->last : 0,
		.perhaps = c && c->known && c->perhaps, .from = v->from,
		.thief_cpu = (uint32_t)v->steal_cpu, .cpu = v->cpu,
		.task_known = v->guest_known, .task = v->guest_tid,
		.in_handler = v->irq_depth || v->softirq_depth,
	};
	return true;
}

/* Events were lost: nothing is known any more. */
void lat_vcpu_forget(struct lat *l, struct lat_vcpu *v)
{
	if (vcpu_robbed(v))
		lat_count(l, v, LAT_T_SCHED, SCHED_CUT);
	queue_leave(l, v);
	if (v->seen)
		set_state(l, v, VS_UNKNOWN, MAX(l->now, v->since));
	v->base = VS_UNKNOWN;
	v->cut = true;
	v->asleep = false;
	v->asleep_since = 0;
	v->in_fault = false;
}

/* What was in progress lasted until the capture ended. */
void lat_vcpu_finish(struct lat *l, struct lat_vcpu *v)
{
	l->table[LAT_T_SCHED].count[SCHED_OPEN] +=
		vcpu_robbed(v) && lat_wanted(l, (int64_t)v->vm, v->id);
	if (v->seen && l->end > v->since)
		set_state(l, v, v->state, l->end);
}
