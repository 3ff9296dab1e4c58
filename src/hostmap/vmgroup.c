/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmgroup.c: vCPU threads without a VM become VMs, by what their host capture shows of them.
 *
 * In this order: threads of one process (saved tgids, task_newtask with CLONE_THREAD) belong
 * together; so do those that wake each other outside interrupts, as vCPUs that send interrupts to
 * each other do; the rest are joined in the order of thread ids, because a VMM creates its threads
 * one after the other. Two threads that ran the same vCPU id at the same time are never joined:
 * those are two VMs. If they ran it one after the other, the VM was restarted with another VMM. But
 * threads of which each runs several ids take any vCPU in turn.
 */
#include "priv.h"
#include "kvmft/hostmap.h"
#include "kvmft/events.h"

#define CLONE_THREAD 0x10000 /* include/uapi/linux/sched.h */
#define MIN_WAKES    2
#define MAX_STEPS    (1u << 20)
#define PID_REACH \
	4096 /* the thread id of a VMM's first vCPU is at most this far above its
			   * PID */

struct member {
	size_t thread; /* index into the host map */
	int32_t tid, tgid;
	uint32_t vcpu;
	uint64_t first, last; /* entries, host stamps */
	/* A group is a ring through `next`; its member `group` represents it and knows its size. */
	size_t group, next, size;
	bool by_pid, by_wakes, floats;
	/*
	 * Of a group: its VMM, found by a thread of that name that wakes vCPUs or is woken by them.
	 */
	int32_t named, vmm;
	uint64_t vmm_wakes;
};

struct edge {
	size_t a, b;
	uint64_t n;
};

struct grouping {
	struct hostmap *m;
	struct tl_comms *comms;
	struct member *v; /* by tid */
	size_t n;
	struct u64map at;     /* tid → index into v */
	struct u64map parent; /* thread → the thread of the same process that made it */
	struct u64map wakes;  /* a << 32 | b → count, a < b */
	struct u64map others; /* index << 32 | tid of another → how often one woke the other */
	struct u64map runs;   /* group << 32 | vCPU id → the last member that ran it */
	bool unsure;	      /* it would matter when threads ran, and is not known */
	uint64_t steps;	      /* cost of joining, so that a capture takes time only in proportion
			       * to its size */
	int32_t *pid;	      /* that may be VMMs', by their task names; sorted */
	size_t npid;
};

COMPARE_BY(member_cmp, struct member, .tid);

/* Where switches are only those of VMs that the recorder knew, none tells of the others. */
bool hostmap_by_entries(const struct capture *cap, const struct fmt *fmt)
{
	return (cap->some_switches ||
		(!event_format(fmt, EV_WAKEUP) && !event_format(fmt, EV_SWITCH))) &&
	       !event_format(fmt, EV_WAKING) && !event_format(fmt, EV_WAKEUP_NEW) &&
	       !event_format(fmt, EV_NEWTASK);
}

static struct member *member_of(const struct grouping *g, uint64_t tid)
{
	uint64_t at;

	return u64map_get(&g->at, tid, &at) ? &g->v[at] : NULL;
}

static int group_see(void *arg, const struct rec *rec)
{
	struct grouping *g = arg;
	const struct event_type *e;
	const struct member *a, *b;
	uint64_t tid, flags, waker, *n;

	if (!comms_wants(g->comms, rec))
		return 0;
	e = event_type_of(fmt_by_id(g->m->fmt, rec->id));
	if ((e->role == EV_WAKING || e->role == EV_WAKEUP) && !event_in_interrupt(g->m->fmt, rec) &&
	    fmt_u64(&e->f[0], rec, &tid)) {
		waker = (uint32_t)fmt_pid(g->m->fmt, rec);
		a = member_of(g, waker);
		b = member_of(g, tid);
		n = NULL;
		if (a && b && a != b)
			n = xu64map_at(&g->wakes, (uint64_t)(MIN(a, b) - g->v) << 32 |
							  (uint64_t)(MAX(a, b) - g->v));
		else if (!a != !b)
			n = xu64map_at(&g->others, (uint64_t)((a ?: b) - g->v) << 32 |
							   (uint32_t)(a ? tid : waker));
		if (n)
			++*n;
	}
	if (e->role == EV_NEWTASK && fmt_u64(&e->f[0], rec, &tid) &&
	    fmt_u64(&e->f[1], rec, &flags) && (flags & CLONE_THREAD))
		xu64map_put(&g->parent, tid, (uint32_t)fmt_pid(g->m->fmt, rec));
	(void)comms_learn(g->comms, rec);
	return 0;
}

/* ---- groups ---- */

/*
 * Can the members of group b also be in group a? At the same time no two threads of a VM run one
 * vCPU; one after the other only if `again` allows it.
 */
static bool group_fits(struct grouping *g, size_t a, size_t b, bool again)
{
	uint64_t other;
	size_t i = b;

	do {
		const struct member *x = &g->v[i], *y;

		g->steps++;
		if (u64map_get(&g->runs, (uint64_t)a << 32 | x->vcpu, &other)) {
			y = &g->v[other];
			/* They took it in turn: then their times mean nothing. */
			if (x->floats && y->floats) {
				i = x->next;
				continue;
			}
			g->unsure |= again && x->first > x->last;
			if (!again || (x->first <= y->last && y->first <= x->last))
				return false;
		}
		i = x->next;
	} while (i != b);
	return true;
}

/* The smaller one goes into the larger one. Whether they are one group now. */
static bool groups_join(struct grouping *g, size_t i, size_t k, bool again)
{
	size_t a = g->v[i].group, b = g->v[k].group, swap = a, next;

	if (a == b)
		return true;
	if (g->v[a].size < g->v[b].size) {
		a = b;
		b = swap;
	}
	if (g->steps > MAX_STEPS + g->n * 64 || !group_fits(g, a, b, again))
		return false;
	i = b;
	do {
		struct member *x = &g->v[i];
		uint64_t key = (uint64_t)a << 32 | x->vcpu, other;

		if (!u64map_get(&g->runs, key, &other) || g->v[other].last < x->last)
			xu64map_put(&g->runs, key, i);
		x->group = a;
		i = x->next;
	} while (i != b);
	next = g->v[a].next;
	g->v[a].next = g->v[b].next;
	g->v[b].next = next;
	g->v[a].size += g->v[b].size;
	return true;
}

/* The process of a thread, if that was recorded. */
static int32_t tid_process(const struct grouping *g, int32_t tid)
{
	uint64_t up;

	for (int i = 0; i < 8; i++) {
		if (u64map_get(&g->m->tgid_of, (uint32_t)tid, &up))
			return (int32_t)up;
		if (!u64map_get(&g->parent, (uint32_t)tid, &up))
			return i ? tid : 0;
		tid = (int32_t)up;
	}
	return 0;
}

/* A vCPU that was unplugged and plugged in again is another thread of the same process. */
static void join_processes(struct grouping *g)
{
	_cleanup_(u64map_free) struct u64map first = { 0 };
	uint64_t other;

	for (size_t i = 0; i < g->n; i++) {
		struct member *v = &g->v[i];

		v->tgid = tid_process(g, v->tid);
		if (!v->tgid)
			continue;
		if (u64map_get(&first, (uint32_t)v->tgid, &other))
			v->by_pid = groups_join(g, other, i, true);
		else
			xu64map_put(&first, (uint32_t)v->tgid, i);
	}
}

COMPARE(edge_cmp, struct edge, ORDER(y->n, x->n) ?: ORDER(x->a, y->a) ?: ORDER(x->b, y->b));

static bool other_process(const struct member *a, const struct member *b)
{
	return a->tgid && b->tgid && a->tgid != b->tgid;
}

static void join_wakers(struct grouping *g)
{
	_cleanup_free_ struct edge *e = xcalloc(g->wakes.n + 1, sizeof(*e));
	size_t n = 0;

	for (size_t i = 0; i < g->wakes.cap; i++)
		if (g->wakes.slot[i].used && g->wakes.slot[i].val >= MIN_WAKES) {
			e[n].a = g->wakes.slot[i].key >> 32;
			e[n].b = g->wakes.slot[i].key & UINT32_MAX;
			e[n++].n = g->wakes.slot[i].val;
		}
	array_sort(e, n, edge_cmp);
	for (size_t i = 0; i < n; i++) {
		struct member *a = &g->v[e[i].a], *b = &g->v[e[i].b];

		if (!other_process(a, b) && groups_join(g, e[i].a, e[i].b, false))
			a->by_wakes = b->by_wakes = true;
	}
}

/* A vCPU whose number is its thread's tells no VM from the next one. */
static bool is_alone(const struct member *v)
{
	return !v->by_pid && !v->by_wakes && !v->tgid && v->vcpu != (uint32_t)v->tid;
}

/* ---- VMs ---- */

/* PID of "vhost-PID" and "kvm-pit/PID", threads that the kernel names so; 0. */
static int32_t named_pid(const char *comm)
{
	static const char *const prefix[] = { "vhost-", "kvm-pit/" };

	for (size_t i = 0; i < ARRAY_SIZE(prefix); i++)
		if (!strncmp(comm, prefix[i], strlen(prefix[i])))
			return (int32_t)strtoul(comm + strlen(prefix[i]), NULL, 10);
	return 0;
}

static bool is_vmm(const char *comm)
{
	return !strncmp(comm, "qemu-", 5) || !strcmp(comm, "kvm");
}

COMPARE_BY(pid_cmp, int32_t, );

/*
 * That of a group: else the one candidate PID between the previous group's last thread and this
 * one's first; 0 if there are none or several.
 */
static int32_t guess_pid(const struct grouping *g, const struct member *first)
{
	const struct member *group = &g->v[first->group];
	int32_t before = first > g->v ? first[-1].tid : 0;
	size_t at;

	if (group->named)
		return group->named;
	if (group->vmm && group->vmm <= first->tid)
		return group->vmm;
	before = MAX(before, first->tid - PID_REACH);
	at = COUNT_BEFORE(i, g->npid, g->pid[i] <= before);
	if (at == g->npid || g->pid[at] > first->tid)
		return 0;
	for (size_t i = at + 1; i < g->npid && g->pid[i] <= first->tid; i++)
		if (g->pid[i] != g->pid[at])
			return 0;
	return g->pid[at];
}

/* A PID that was guessed for two VMs belongs to neither. */
static void drop_doubles(struct grouping *g, size_t first_vm)
{
	struct u64map owner = { 0 };

	for (size_t i = first_vm; i < g->m->nvm; i++) {
		struct hostmap_vm *vm = &g->m->vm[i];
		uint64_t other;

		if (vm->pid <= 0 || vm->basis == HOSTMAP_BY_PROCESS)
			continue;
		if (!u64map_get(&owner, (uint32_t)vm->pid, &other)) {
			xu64map_put(&owner, (uint32_t)vm->pid, i);
			continue;
		}
		vm->pid = g->m->vm[other].pid = 0;
	}
	u64map_free(&owner);
	hostmap_chain(g->m);
	for (size_t i = first_vm; i < g->m->nvm; i++)
		hostmap_vm_label(g->m, i);
}

/* first: the member with the lowest thread id of its group. */
static void make_vm(struct grouping *g, size_t first)
{
	size_t i = first, at = hostmap_vm_add(g->m, NULL, g->v[first].tgid);
	struct hostmap_vm *vm = &g->m->vm[at];

	if (!vm->pid)
		hostmap_vm_pid(g->m, at, guess_pid(g, &g->v[first]));
	do {
		struct member *v = &g->v[i];

		g->m->thread[v->thread].vm = at;
		vm->basis = MAX(vm->basis, v->by_pid || v->tgid ? HOSTMAP_BY_PROCESS
					   : v->by_wakes	? HOSTMAP_BY_WAKES
								: HOSTMAP_BY_IDS);
		i = v->next;
	} while (i != first);
	if (g->n == 1)
		vm->basis = HOSTMAP_BY_PROCESS;
}

static int make_groups(struct grouping *g)
{
	size_t first_vm = g->m->nvm;
	int ret = 0;

	for (size_t i = 0; i < g->m->cap->nstream && g->comms->ids && !ret; i++)
		ret = rstream_each(g->m->cap, &g->m->cap->stream[i], group_see, g);
	if (ret)
		return ret;
	join_processes(g);
	if (g->unsure)
		return -EAGAIN;
	join_wakers(g);
	/* Joins each thread of which nothing else is known to the one before it. */
	for (size_t i = 1; i < g->n; i++)
		if ((is_alone(&g->v[i]) || is_alone(&g->v[i - 1])) &&
		    !other_process(&g->v[i - 1], &g->v[i]))
			(void)groups_join(g, i - 1, i, false);
	/* PIDs that tasks name outright, and tasks with the name of a VMM that run no vCPU. */
	g->pid = xcalloc(g->comms->by_tid.n + 1, sizeof(*g->pid));
	for (size_t i = 0; i < g->comms->by_tid.n; i++) {
		const struct comm *c = &g->comms->v[i];

		if (named_pid(c->name) > 0)
			g->pid[g->npid++] = named_pid(c->name);
		else if (is_vmm(c->name) && !member_of(g, (uint32_t)c->tid))
			g->pid[g->npid++] = c->tid;
	}
	array_sort(g->pid, g->npid, pid_cmp);
	for (size_t i = 0; i < g->others.cap; i++)
		if (g->others.slot[i].used) {
			struct member *group = &g->v[g->v[g->others.slot[i].key >> 32].group];
			int32_t tid = (int32_t)(g->others.slot[i].key & UINT32_MAX);
			uint64_t wakes = g->others.slot[i].val;
			const char *comm = comms_get(g->comms, tid);

			/*
			 * Does a thread connected with a group belong to its VMM? The oldest that
			 * often does is the main thread.
			 */
			if (wakes >= MIN_WAKES) {
				if (named_pid(comm) > 0)
					group->named = named_pid(comm);
				if (is_vmm(comm) && wakes >= group->vmm_wakes / 16) {
					if (!group->vmm || tid < group->vmm ||
					    group->vmm_wakes < wakes / 16)
						group->vmm = tid;
					group->vmm_wakes = MAX(group->vmm_wakes, wakes);
				}
			}
		}
	for (size_t i = 0; i < g->n; i++)
		if (g->m->thread[g->v[i].thread].vm == HOSTMAP_END)
			make_vm(g, i);
	drop_doubles(g, first_vm);
	return 0;
}

int hostmap_group(struct hostmap *m)
{
	struct grouping g = { .m = m };
	int ret = 0;

	g.v = xcalloc(m->nthread + 1, sizeof(*g.v));
	for (size_t i = 0; i < m->nthread; i++) {
		const struct hostmap_thread *t = &m->thread[i];

		if (t->vm == HOSTMAP_END)
			g.v[g.n++] = (struct member){ i,
						      t->tid,
						      .vcpu = t->vcpu,
						      .floats = t->floats,
						      .first = t->first,
						      .last = t->last };
	}
	array_sort(g.v, g.n, member_cmp);
	for (size_t i = 0; i < g.n; i++) {
		g.v[i].group = g.v[i].next = i;
		g.v[i].size = 1;
		xu64map_put(&g.at, (uint32_t)g.v[i].tid, i);
		xu64map_put(&g.runs, (uint64_t)i << 32 | g.v[i].vcpu, i);
	}
	if (g.n) {
		g.comms = comms_new(m->cap, m->fmt);
		/* Events that show who belongs together, beside those that name tasks. */
		comms_also(g.comms, event_format(m->fmt, EV_WAKING));
		comms_also(g.comms, event_format(m->fmt, EV_WAKEUP));
		comms_also(g.comms, event_format(m->fmt, EV_NEWTASK));
		ret = make_groups(&g);
	}
	comms_free(g.comms);
	u64map_free(&g.at);
	u64map_free(&g.parent);
	u64map_free(&g.wakes);
	u64map_free(&g.others);
	u64map_free(&g.runs);
	free(g.v);
	free(g.pid);
	return ret;
}
