/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostmap.c: threads, vCPUs, VMs, and the epochs of their clocks.
 *
 * Which vCPU a thread runs is decided by its kvm_entry, or else by debugfs and /proc as recorded;
 * its VM by the recorded vCPU list, or else by its process, or else by what the events show
 * (vmgroup.c). Clock events carry a vCPU id but no VM: the emitting thread's process is the VM.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "priv.h"
#include "kvmft/events.h"
#include "kvmft/own_tsc.h"

#define MAX_CLOCK_EVENTS (1u << 22) /* a hostile file must not take all memory */

struct hostmap_event {
	uint64_t ts;
	enum event_role kind;
	int32_t tid;
	ssize_t vm; /* -1: not known yet */
	uint32_t vcpu;
	uint64_t prev, next;
	bool use_master;
	struct pvclock pv;
};

static const enum event_role clock_events[] = { EV_TSC_OFFSET, EV_TRACK_TSC, EV_MASTER_CLOCK,
						EV_PVCLOCK };

struct scan {
	struct hostmap *m;
	struct event_type entry, exit, clock[ARRAY_SIZE(clock_events)];
	int32_t last_tid; /* of the last entry of the stream */
};

static void scan_init(struct scan *s, struct hostmap *m)
{
	s->m = m;
	event_find(m->fmt, EV_ENTRY, 0, &s->entry);
	event_find(m->fmt, EV_EXIT, 0, &s->exit);
	for (size_t k = 0; k < ARRAY_SIZE(clock_events); k++)
		event_find(m->fmt, clock_events[k], 0, &s->clock[k]);
}

/* ---- VMs and threads ---- */

static ssize_t vm_by_pid(const struct hostmap *m, int32_t pid)
{
	ssize_t found = -1;

	for (size_t i = 0; i < m->nvm; i++) {
		if (m->vm[i].pid != pid || m->vm[i].of != i)
			continue;
		if (found >= 0)
			return -2; /* two VMs in one process: only debugfs can tell them apart */
		found = (ssize_t)i;
	}
	return found;
}

ssize_t hostmap_vm_add(struct hostmap *m, const struct cap_vm *cap, int32_t pid)
{
	struct hostmap_vm *vm = array_grow(&m->vm, m->nvm, &m->vm_cap, sizeof(*vm));

	if (!vm)
		return -ENOMEM;
	vm->cap = cap;
	vm->pid = pid;
	vm->of = m->nvm;
	vm->next = HOSTMAP_END;
	vm->first = UINT64_MAX;
	vm->threads = HOSTMAP_END;
	m->nvm++;
	if (cap || pid)
		hostmap_vm_label(m, m->nvm - 1);
	return (ssize_t)m->nvm - 1;
}

static int thread_set(struct hostmap *m, int32_t tid, size_t vm, uint32_t vcpu)
{
	uint64_t at;
	struct hostmap_thread *t;

	if (u64map_get(&m->by_tid, (uint32_t)tid, &at)) {
		/*
		 * Recorded with several vCPUs: the last counts until its kvm_entry says otherwise.
		 */
		m->thread[at].vcpu = vcpu;
		return 0;
	}
	t = array_grow(&m->thread, m->nthread, &m->thread_cap, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct hostmap_thread){ .tid = tid, .vm = vm, .vcpu = vcpu };
	return u64map_put(&m->by_tid, (uint32_t)tid, m->nthread++);
}

/*
 * The process that a thread works for: its own; for vhost-PID, a kernel thread
 * (drivers/vhost/vhost.c), PID.
 */
static uint32_t works_for(const struct cap_task *t)
{
	static const char vhost[] = "vhost-";
	uint32_t pid = (uint32_t)t->tgid;

	if (t->comm && !strncmp(t->comm, vhost, sizeof(vhost) - 1) && t->tgid == t->tid)
		pid = (uint32_t)strtoul(t->comm + sizeof(vhost) - 1, NULL, 10);
	return pid ? pid : (uint32_t)t->tgid;
}

static int map_known(struct hostmap *m)
{
	const struct capture *c = m->cap;
	int ret = 0;

	for (size_t i = 0; i < c->ntask && !ret; i++)
		if (c->task[i].tgid)
			ret = u64map_put(&m->tgid_of, (uint32_t)c->task[i].tid,
					 works_for(&c->task[i]));
	for (size_t i = 0; i < c->nvm && !ret; i++) {
		ssize_t vm = hostmap_vm_add(m, &c->vm[i], c->vm[i].pid);

		if (vm < 0)
			return (int)vm;
		for (size_t k = 0; k < c->vm[i].nvcpu && !ret; k++)
			if (c->vm[i].vcpu[k].tid > 0)
				ret = thread_set(m, c->vm[i].vcpu[k].tid, (size_t)vm,
						 c->vm[i].vcpu[k].id);
	}
	return ret;
}

static int32_t process_of(const struct hostmap *m, int32_t tid)
{
	uint64_t tgid;

	/* Unknown: a single-threaded VMM, or its main thread. */
	return u64map_get(&m->tgid_of, (uint32_t)tid, &tgid) ? (int32_t)tgid : tid;
}

ssize_t hostmap_task_vm(const struct hostmap *m, int32_t tid)
{
	return MAX(vm_by_pid(m, process_of(m, tid)), (ssize_t)-1);
}

/* The VM of an emitting thread; -1 if unknown. */
static ssize_t vm_of_tid(const struct hostmap *m, int32_t tid)
{
	const struct hostmap_thread *t = hostmap_thread(m, tid);

	return t && t->vm != HOSTMAP_END ? (ssize_t)t->vm : hostmap_task_vm(m, tid);
}

static int scan_entry(struct scan *s, const struct rec *rec)
{
	struct hostmap *m = s->m;
	int32_t tid = fmt_pid(m->fmt, rec);
	uint64_t vcpu, at;
	ssize_t vm;

	if (tid <= 0 || !fmt_u64(m->fmt, &s->entry.f[0], rec, &vcpu) || vcpu > UINT32_MAX)
		return 0;
	if (u64map_get(&m->by_tid, (uint32_t)tid, &at)) {
		m->thread[at].vcpu = (uint32_t)vcpu;
		return 0;
	}
	vm = vm_of_tid(m, tid);
	if (vm < 0 && vm_by_pid(m, process_of(m, tid)) == -2)
		return 0; /* ambiguous: leave the thread without a VM */
	return thread_set(m, tid, vm < 0 ? HOSTMAP_END : (size_t)vm, (uint32_t)vcpu);
}

/* ---- clock events ---- */

static int scan_clock(struct scan *s, size_t k, const struct rec *rec)
{
	const struct event_type *ev = &s->clock[k];
	struct hostmap *m = s->m;
	struct hostmap_event *e;
	uint64_t width;

	if (m->nevent >= MAX_CLOCK_EVENTS)
		return -E2BIG;
	e = array_grow(&m->event, m->nevent, &m->event_cap, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->ts = rec->ts;
	if (m->own && !own_tsc_place(m->own, rec->ts, &e->ts, &width))
		return 0; /* its time is not on the line */
	e->kind = clock_events[k];
	e->tid = fmt_pid(m->fmt, rec);
	e->vm = -1;
	switch (e->kind) {
	case EV_TSC_OFFSET:
		e->vcpu = (uint32_t)event_u64(m->fmt, ev, 0, rec);
		e->prev = event_u64(m->fmt, ev, 1, rec);
		e->next = event_u64(m->fmt, ev, 2, rec);
		break;
	case EV_TRACK_TSC:
		e->vcpu = (uint32_t)event_u64(m->fmt, ev, 0, rec);
		e->use_master = event_u64(m->fmt, ev, 1, rec) != 0;
		break;
	case EV_MASTER_CLOCK: e->use_master = event_u64(m->fmt, ev, 0, rec) != 0; break;
	case EV_PVCLOCK:
		e->vcpu = (uint32_t)event_u64(m->fmt, ev, 0, rec);
		e->pv.version = (uint32_t)event_u64(m->fmt, ev, 1, rec);
		e->pv.tsc_timestamp = event_u64(m->fmt, ev, 2, rec);
		e->pv.system_time = event_u64(m->fmt, ev, 3, rec);
		e->pv.mul = (uint32_t)event_u64(m->fmt, ev, 4, rec);
		e->pv.shift = (int8_t)event_u64(m->fmt, ev, 5, rec);
		e->pv.flags = (uint8_t)event_u64(m->fmt, ev, 6, rec);
		break;
	default: break;
	}
	m->nevent++;
	return 0;
}

static int scan_event(void *arg, const struct rec *rec)
{
	struct scan *s = arg;
	const struct fmt_event *ev = fmt_by_id(s->m->fmt, rec->id);
	struct hostmap *m = s->m;

	if (!ev)
		return 0;
	if (ev == s->entry.ev) {
		int32_t tid = fmt_pid(m->fmt, rec);

		m->entries++;
		if (tid == s->last_tid)
			return 0; /* the usual case: nothing new */
		s->last_tid = tid;
		return scan_entry(s, rec);
	}
	if (ev == s->exit.ev) {
		m->exits++;
		return 0;
	}
	for (size_t k = 0; k < ARRAY_SIZE(s->clock); k++)
		if (ev == s->clock[k].ev)
			return scan_clock(s, k, rec);
	return 0;
}

COMPARE_BY(event_cmp, struct hostmap_event, .ts);

/* ---- epochs ---- */

static const struct cap_vcpu *cap_vcpu(const struct hostmap_vm *vm, uint32_t id)
{
	for (size_t i = 0; vm->cap && i < vm->cap->nvcpu; i++)
		if (vm->cap->vcpu[i].id == id)
			return &vm->cap->vcpu[i];
	return NULL;
}

static uint64_t vcpu_key(size_t vm, uint32_t vcpu)
{
	return (uint64_t)vm << 32 | vcpu;
}

/*
 * A software KVM prints offsets that it never applies. debugfs, read before and after, is the
 * witness: it said the same both times, and not what the last event claims.
 */
static bool offset_ignored(const struct hostmap *m, const struct hostmap_event *e)
{
	const struct cap_vcpu *v = cap_vcpu(&m->vm[e->vm], e->vcpu);
	uint64_t last;

	if (m->vm[e->vm].moved || !v || !v->has_offset || !v->has_end || v->offset != v->end_offset)
		return false;
	return u64map_get(&m->last_write, vcpu_key((size_t)e->vm, e->vcpu), &last) &&
	       m->event[last].next != v->end_offset;
}

static int feed_event(struct hostmap *m, size_t vm, const struct hostmap_event *e)
{
	struct epoch_vm *ep = m->vm[vm].epochs;
	int ret;

	switch (e->kind) {
	case EV_TSC_OFFSET:
		if (offset_ignored(m, e))
			return 0;
		return epoch_vm_write_offset(ep, e->vcpu, e->ts, e->prev, e->next);
	case EV_TRACK_TSC: return epoch_vm_track(ep, e->ts, e->use_master);
	case EV_MASTER_CLOCK: return epoch_vm_master_clock(ep, e->ts, e->use_master);
	case EV_PVCLOCK:
		ret = epoch_vm_pvclock(ep, e->vcpu, e->ts, &e->pv);
		/* The engine notes a refused record; it is no reason to give up. */
		return ret == -ENOMEM ? ret : 0;
	default: return -EINVAL;
	}
}

static void set_ratio(const struct hostmap_vm *v, struct tsc_map *map)
{
	if (!v->scale)
		return;
	map->ratio = v->scale->ratio;
	map->frac = v->scale->frac;
}

static int feed_reads(struct hostmap *m, size_t vm, bool end)
{
	const struct cap_vm *c = m->vm[vm].cap;
	int ret = 0;

	for (size_t i = 0; c && i < c->nvcpu && ret >= 0; i++) {
		const struct cap_vcpu *v = &c->vcpu[i];
		struct tsc_map map = { .offset = v->offset, .ratio = v->ratio, .frac = v->frac };

		set_ratio(&m->vm[vm], &map);
		if (!end && v->has_offset)
			ret = epoch_vm_read(m->vm[vm].epochs, v->id, v->tsc, &map);
		if (end && v->has_end) {
			map.offset = v->end_offset;
			map.ratio = v->end_ratio;
			set_ratio(&m->vm[vm], &map);
			ret = epoch_vm_check_end(m->vm[vm].epochs, v->id, &map);
		}
		if (ret == -EINVAL)
			ret = 0; /* nonsense in the file: this vCPU stays without a map */
	}
	for (size_t i = 0; !end && i < m->vm[vm].n_own && (ret >= 0 || ret == -EINVAL); i++)
		if (!m->vm[vm].own[i].from)
			ret = epoch_vm_read(m->vm[vm].epochs, m->vm[vm].own[i].vcpu, 0,
					    &m->vm[vm].own[i].map);
	return ret < 0 && ret != -EINVAL ? ret : 0;
}

static const struct tsc_map *forced_of(const struct hostmap_vm *v, uint32_t vcpu)
{
	for (size_t i = 0; i < v->n_own; i++)
		if (v->own[i].vcpu == vcpu && !v->own[i].from)
			return &v->own[i].map;
	return &v->forced;
}

/* Changes that were forced, from number *next on, as far as they come before `until`. */
static int feed_changes(struct hostmap *m, size_t vm, size_t *next, uint64_t until)
{
	const struct hostmap_vm *v = &m->vm[vm];
	int ret = 0;

	for (; *next < v->n_own && v->own[*next].from <= until && !ret; ++*next) {
		const struct hostmap_forced *f = &v->own[*next];
		const struct epoch_vcpu *e = epoch_vm_find(v->epochs, f->vcpu);

		if (f->from && e && e->n)
			ret = epoch_vm_write_offset(v->epochs, f->vcpu, f->from,
						    e->v[e->n - 1].map.offset, f->map.offset);
	}
	return ret;
}

static int feed_forced(struct hostmap *m, size_t vm)
{
	struct hostmap_vm *v = &m->vm[vm];
	const struct hostmap_thread *t;
	int ret = 0;

	for (uint32_t id = 0; id < v->forced_vcpus && !ret; id++)
		ret = epoch_vm_read(v->epochs, id, 0, forced_of(v, id));
	hostmap_each_thread(m, vm, t) {
		if (ret || t->vcpu < v->forced_vcpus)
			continue;
		ret = epoch_vm_read(v->epochs, t->vcpu, 0, forced_of(v, t->vcpu));
		ret = ret == -EINVAL ? 0 : ret; /* two threads of one vCPU */
	}
	return ret;
}

/* Of the VM, or read inside the guest for this capture of it. */
static bool event_concerns(const struct hostmap *m, const struct hostmap_event *e, size_t vm)
{
	return e->vm == (ssize_t)vm || (e->vm >= 0 && e->vm == (ssize_t)m->vm[vm].of);
}

static int build_epochs(struct hostmap *m, size_t vm)
{
	bool forced = m->vm[vm].has_forced;
	size_t change = 0;
	int ret;

	epoch_vm_free(m->vm[vm].epochs);
	m->vm[vm].epochs = epoch_vm_new(forced ? 0 : m->cap->begin_tsc);
	if (!m->vm[vm].epochs)
		return -ENOMEM;
	m->vm[vm].epochs->khz = m->cap->tsc_khz;
	ret = forced ? feed_forced(m, vm) : feed_reads(m, vm, false);
	for (size_t i = 0; i < m->nevent && !ret; i++) {
		ret = feed_changes(m, vm, &change, m->event[i].ts);
		if (!ret && event_concerns(m, &m->event[i], vm) &&
		    !(forced && m->event[i].kind == EV_TSC_OFFSET))
			ret = feed_event(m, vm, &m->event[i]);
	}
	if (!ret)
		ret = feed_changes(m, vm, &change, UINT64_MAX);
	return ret || forced || m->vm[m->vm[vm].of].moved ? ret : feed_reads(m, vm, true);
}

void hostmap_chain(struct hostmap *m)
{
	for (size_t i = 0; i < m->nvm; i++)
		m->vm[i].threads = HOSTMAP_END;
	for (size_t i = m->nthread; i-- > 0;) {
		struct hostmap_thread *t = &m->thread[i];

		if (t->vm == HOSTMAP_END)
			continue;
		t->next = m->vm[t->vm].threads;
		m->vm[t->vm].threads = i;
	}
}

/* Orders the events and notes each vCPU's last write; their VMs are known. */
static int sort_events(struct hostmap *m)
{
	int ret = 0;

	if (m->nevent)
		qsort(m->event, m->nevent, sizeof(*m->event), event_cmp);
	for (size_t i = 0; i < m->nevent && !ret; i++) {
		const struct hostmap_event *e = &m->event[i];

		if (e->kind == EV_TSC_OFFSET && e->vm >= 0)
			ret = u64map_put(&m->last_write, vcpu_key((size_t)e->vm, e->vcpu), i);
	}
	return ret;
}

static int build_all(struct hostmap *m)
{
	int ret = sort_events(m);

	for (size_t i = 0; i < m->nvm && !ret; i++)
		ret = build_epochs(m, i);
	return ret;
}

int hostmap_build(struct hostmap *m)
{
	hostmap_chain(m);
	for (size_t i = 0; i < m->nevent; i++)
		m->event[i].vm = vm_of_tid(m, m->event[i].tid);
	return build_all(m);
}

static bool same_event(const struct hostmap_event *a, const struct hostmap_event *b)
{
	return a->ts == b->ts && a->kind == b->kind && a->tid == b->tid && a->vcpu == b->vcpu;
}

/* Searches n in time order, from number *at on; the next one asked for is no earlier. */
static bool has_event(const struct hostmap *m, size_t n, size_t *at, const struct hostmap_event *e)
{
	while (*at < n && m->event[*at].ts < e->ts)
		++*at;
	for (size_t i = *at; i < n && m->event[i].ts == e->ts; i++)
		if (same_event(&m->event[i], e))
			return true;
	return false;
}

int hostmap_inherit(struct hostmap *m, const struct hostmap *before)
{
	const size_t n = m->nevent;
	size_t at = 0;

	for (size_t i = 0; i < before->nevent; i++) {
		const struct hostmap_event *e = &before->event[i];

		/* Those without a thread were not recorded: whoever added them does so again. */
		if (e->tid <= 0 || has_event(m, n, &at, e) || m->nevent >= MAX_CLOCK_EVENTS)
			continue;
		if (array_add(&m->event, &m->nevent, &m->event_cap, e, sizeof(*e)))
			return -ENOMEM;
		m->event[m->nevent - 1].vm = vm_of_tid(m, e->tid);
	}
	return m->nevent == n ? 0 : build_all(m);
}

static int clock_new(struct hostmap *m)
{
	int ret;

	if (!m->cap->clock || !strcmp(m->cap->clock, "x86-tsc"))
		return 0;
	m->own = calloc(1, sizeof(*m->own));
	ret = m->own ? own_tsc_init(m->own, m->cap, NULL) : -ENOMEM;
	if (ret) {
		free(m->own);
		m->own = NULL;
	}
	return ret == -ENOMEM ? ret : 0;
}

int hostmap_clock(const struct hostmap *m, struct kvmft_err *err)
{
	struct own_tsc own = { 0 };
	int ret = m->own ? 0 : own_tsc_init(&own, m->cap, err);

	own_tsc_free(&own);
	return ret;
}

int hostmap_known(const struct capture *cap, const struct fmt *fmt, struct hostmap **out)
{
	struct hostmap *m = calloc(1, sizeof(*m));
	int ret;

	*out = NULL;
	if (!m)
		return -ENOMEM;
	m->cap = cap;
	m->fmt = fmt;
	ret = clock_new(m);
	ret = ret ? ret : map_known(m);
	hostmap_chain(m);
	if (ret) {
		hostmap_free(m);
		return ret;
	}
	*out = m;
	return 0;
}

int hostmap_new(const struct capture *cap, const struct fmt *fmt, struct hostmap **out,
		struct kvmft_err *err)
{
	struct hostmap *m;
	struct scan s;
	int ret;

	ret = hostmap_known(cap, fmt, &m);
	*out = NULL;
	if (ret)
		return err_set(err, -ret, "out of memory");
	scan_init(&s, m);
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		s.last_tid = -1;
		ret = rstream_each(cap, &cap->stream[i], scan_event, &s);
	}
	if (!ret)
		ret = vmgroup_make(m);
	if (!ret)
		ret = hostmap_build(m);
	if (ret) {
		hostmap_free(m);
		return err_set(err, -ret, "cannot read the host capture %s: %s", cap->path,
			       strerror(-ret));
	}
	*out = m;
	return 0;
}

void hostmap_free(struct hostmap *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nvm; i++) {
		epoch_vm_free(m->vm[i].epochs);
		free(m->vm[i].own);
	}
	free(m->vm);
	free(m->thread);
	free(m->event);
	u64map_free(&m->by_tid);
	u64map_free(&m->tgid_of);
	u64map_free(&m->last_write);
	own_tsc_free(m->own);
	free(m->own);
	free(m);
}

int hostmap_add_side(struct hostmap *m, size_t vm, size_t *out)
{
	const struct hostmap_vm *first;
	size_t last = m->vm[vm].of, n = 2;
	ssize_t at = hostmap_vm_add(m, m->vm[vm].cap, m->vm[vm].pid);

	if (at < 0)
		return (int)at;
	for (; m->vm[last].next != HOSTMAP_END; last = m->vm[last].next)
		n++;
	first = &m->vm[m->vm[vm].of];
	m->vm[last].next = (size_t)at;
	m->vm[at].of = first->of;
	snprintf(m->vm[at].label, sizeof(m->vm[at].label), "%.54s#%zu", first->label, n);
	*out = (size_t)at;
	return build_epochs(m, (size_t)at);
}

const struct hostmap_thread *hostmap_thread(const struct hostmap *m, int32_t tid)
{
	uint64_t at;

	return u64map_get(&m->by_tid, (uint32_t)tid, &at) ? &m->thread[at] : NULL;
}

const struct hostmap_thread *hostmap_vcpu(const struct hostmap *m, size_t vm, uint32_t id)
{
	const struct hostmap_thread *t;

	hostmap_each_thread(m, vm, t)
		if (t->vcpu == id)
			return t;
	return NULL;
}

/* An event that is in no stream of the capture; for all captures of the VM. */
static int add_event(struct hostmap *m, size_t vm, const struct hostmap_event *e)
{
	struct hostmap_event *slot = array_grow(&m->event, m->nevent, &m->event_cap, sizeof(*slot));
	int ret;

	if (!slot)
		return -ENOMEM;
	*slot = *e;
	m->nevent++;
	ret = sort_events(m);
	for (; !ret && vm != HOSTMAP_END; vm = m->vm[vm].next)
		ret = build_epochs(m, vm);
	return ret;
}

int hostmap_add_pvclock(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t guest_tsc,
			const struct pvclock *pv)
{
	const struct epoch_vcpu *v = epoch_vm_find(m->vm[vm].epochs, vcpu);
	uint64_t lo, hi;

	if (!epoch_result_usable(epoch_guest_to_host(v, guest_tsc, &lo, &hi)))
		return -ESRCH;
	return hostmap_add_pvclock_at(m, vm, vcpu, lo, pv);
}

int hostmap_add_pvclock_at(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t host,
			   const struct pvclock *pv)
{
	struct hostmap_event e = {
		.ts = host, .kind = EV_PVCLOCK, .vm = (ssize_t)vm, .vcpu = vcpu, .pv = *pv,
	};

	return add_event(m, vm, &e);
}

int hostmap_add_offset_at(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t host, uint64_t prev,
			  uint64_t next)
{
	struct hostmap_event e = {
		.ts = host,
		.kind = EV_TSC_OFFSET,
		.vm = (ssize_t)vm,
		.vcpu = vcpu,
		.prev = prev,
		.next = next,
	};

	m->vm[vm].moved = true;
	return add_event(m, vm, &e);
}

int hostmap_add_foreign(struct hostmap *m, const struct hostmap_vm *vm, size_t *out)
{
	ssize_t at = hostmap_vm_add(m, vm->cap, -1);

	if (at < 0)
		return (int)at;
	memcpy(m->vm[at].label, vm->label, sizeof(vm->label));
	*out = (size_t)at;
	return 0;
}

int hostmap_force_vcpu(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t from,
		       const struct tsc_map *map)
{
	struct hostmap_vm *v = &m->vm[vm];
	size_t i = v->n_own;

	if (!array_grow(&v->own, v->n_own, &v->own_cap, sizeof(*v->own)))
		return -ENOMEM;
	for (; i && v->own[i - 1].from > from; i--)
		v->own[i] = v->own[i - 1];
	v->own[i] = (struct hostmap_forced){ .vcpu = vcpu, .from = from, .map = *map };
	v->n_own++;
	return build_epochs(m, vm);
}

int hostmap_set_scale(struct hostmap *m, const struct tsc_map *scale)
{
	for (size_t i = 0; i < m->nvm; i++)
		m->vm[i].scale = scale;
	return hostmap_build(m);
}

int hostmap_force_map(struct hostmap *m, size_t vm, size_t n, const struct tsc_map *map)
{
	m->vm[vm].n_own = 0;
	m->vm[vm].has_forced = true;
	m->vm[vm].forced = *map;
	m->vm[vm].forced_vcpus = MIN(n, (size_t)CAPTURE_MAX_CPUS);
	return build_epochs(m, vm);
}
