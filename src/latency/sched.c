/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sched.c: stolen time: which task of the guest it hit, and what ran on the host instead. */
#include "priv.h"

/*
 * Threads that work for a VM and are not vCPUs: the VMM's own, and vhost's. What they do
 * for a guest cannot begin before they have a CPU: when they were woken, and when they ran.
 *
 * Only threads that the capture names are known, not those that ended before it did.
 */

struct lat_workers {
	struct lat_worker *w;
	size_t cap;
	struct u64map at; /* tid → index */
	uint32_t gen;	  /* after a gap nothing is known of any */
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

	if (w->gen != l->workers->gen)
		*w = (struct lat_worker){ .vm = w->vm, .next = w->next, .gen = l->workers->gen };
	return w;
}

static struct lat_worker *worker_of(const struct lat *l, uint64_t tid)
{
	uint64_t at;

	return u64map_get(&l->workers->at, (uint32_t)tid, &at) ? worker_at(l, at) : NULL;
}

bool lat_worker_is(const struct lat *l, int32_t tid)
{
	return u64map_get(&l->workers->at, (uint32_t)tid, NULL);
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

	for (uint32_t at = l->guest[vm].worker; at;) {
		const struct lat_worker *w = worker_at(l, at - 1);

		at = w->next;
		if ((w->running && w->ran < exit) || (!w->seen && l->workers->gen))
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

void lat_workers_forget(struct lat *l)
{
	l->workers->gen++;
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

/* What a known task did when it was hit. */
static uint32_t hit_context(const struct lat_vcpu *v)
{
	if (v->irq_depth)
		return HIT_IRQ;
	if (v->softirq_depth)
		return HIT_SOFTIRQ;
	if (!v->guest_tid)
		return HIT_IDLE;
	/*
	 * The preempt count is that of the task's last event, where tracing alone accounts for 1.
	 */
	return v->guest_preempt > 1 && !v->in_user ? HIT_LOCK : HIT_TASK;
}

static uint32_t hit(const struct lat *l, const struct lat_vcpu *v, uint64_t t)
{
	const struct lat_guest *g = &l->guest[v->vm];

	if (!g->begun || t < g->begin || t >= g->stop)
		return HIT_UNSEEN;
	/* Without its switches, the last task that was seen may be gone. */
	if (g->src && !l->seen[g->src->index][EV_SWITCH])
		return HIT_UNKNOWN;
	return v->guest_known ? hit_context(v) : HIT_UNKNOWN;
}

struct lat_group *lat_hit_group(struct lat *l, enum lat_table_id id, const struct lat_vcpu *v,
				uint64_t t, struct lat_case *c)
{
	uint32_t cause = c->cause = hit(l, v, t);
	bool known = cause < HIT_UNKNOWN;
	uint64_t key = v->guest_tid ? (uint64_t)(uint32_t)v->guest_tid : (1ull << 40) + v->id;
	struct lat_group *g = lat_group_get(l, id, c->vm, known ? key : no_task[cause].key,
					    &c->group);

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

static bool wanted(const struct lat *l, const struct lat_vcpu *v)
{
	return l->o.want[LAT_SCHED] && !l->o.cases_only && lat_wanted(l, (int64_t)v->vm, v->id);
}

void lat_stolen(struct lat *l, struct lat_vcpu *v, uint64_t t)
{
	struct lat_case c;
	struct lat_group *g;

	if (!wanted(l, v))
		return;
	c = (struct lat_case){
		.begin = v->steal_begin, .end = t, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, t - v->steal_begin), .known = 1,
	};
	g = lat_hit_group(l, LAT_T_SCHED, v, v->steal_begin, &c);
	l->table[LAT_T_SCHED].count[SCHED_INTERVALS]++;
	l->table[LAT_T_SCHED].count[SCHED_UNSEEN] += c.cause == HIT_UNSEEN;
	l->table[LAT_T_SCHED].count[SCHED_NO_TASK] += c.cause == HIT_UNKNOWN;
	snprintf(c.what, sizeof(c.what), "%.40s on vCPU %u", g->name, v->id);
	c.stage_time[v->state == VS_PREEMPTED ? 1 : 2] = c.time;
	c.known |= v->state == VS_PREEMPTED ? 2 : 4;
	c.stage_time[0] = c.time;
	lat_case_add(l, LAT_T_SCHED, g, &c);
}

static int thief_name(const struct lat *l, int32_t tid, char *buf, size_t size)
{
	if (!tid)
		return snprintf(buf, size, "(nobody)");
	return snprintf(buf, size, "%.15s-%d", tl_comm(tl_source(l->t, 0), tid), tid);
}

/* The last one is not the first, or others may have been between them. */
static bool are_several(const struct lat_cpu *c)
{
	return c->tid != c->last || (c->perhaps && c->tid);
}

/* Of a CPU that others may have had only what was seen: who was first, and who was last. */
static bool is_known(const struct lat_cpu *c, uint64_t from, uint64_t to)
{
	return c && c->known && (!c->perhaps || from <= c->since || c->left == to);
}

/*
 * The group of what ran on c from `from` on. If others followed the first without a recorded
 * switch, only the first, if it was seen to begin, and the last are known: such a time is theirs
 * together.
 */
static struct lat_group *thief_group(struct lat *l, const struct lat_cpu *c, uint64_t from,
				     uint64_t to, uint32_t *index)
{
	bool known = is_known(c, from, to), several = known && are_several(c),
	     first = known && from <= c->since, more;
	uint64_t key = known ? (uint32_t)c->last & TID_MASK : 1ull << 52;
	struct lat_group *g;
	int n = 0;

	if (several)
		key |= first ? 1ull << 51 | (uint64_t)((uint32_t)c->tid & TID_MASK) << 24
			     : 1ull << 50;
	g = lat_group_get(l, LAT_T_STEALER, -1, key, index);
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
	return g;
}

void lat_thief(struct lat *l, struct lat_vcpu *v, const struct lat_cpu *c, uint64_t t)
{
	uint64_t from = v->thief_since;
	bool known = is_known(c, from, t);
	struct lat_case k;
	struct lat_group *g;

	v->thief_since = t;
	if (known && are_several(c) && t > from && lat_wanted(l, (int64_t)v->vm, v->id))
		l->unseen_switches = true;
	if (!wanted(l, v))
		return;
	k = (struct lat_case){
		.begin = from, .end = t, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, t - from), .known = 1,
	};
	if (!k.time && known)
		return;
	l->table[LAT_T_STEALER].count[STEALER_SLICES]++;
	l->table[LAT_T_STEALER].count[STEALER_UNKNOWN] += !known;
	l->table[LAT_T_STEALER].count[STEALER_SEVERAL] += known && c->tid != c->last;
	g = thief_group(l, c, from, t, &k.group);
	snprintf(k.what, sizeof(k.what), "%.60s", g->name);
	k.stage_time[0] = k.time;
	lat_case_add(l, LAT_T_STEALER, g, &k);
}
