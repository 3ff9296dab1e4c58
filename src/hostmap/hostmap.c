/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostmap.c: threads, vCPUs and VMs of a host capture.
 *
 * Which vCPU a thread runs is decided by its kvm_entry, or else by debugfs and /proc as recorded;
 * its VM by the recorded vCPU list, or else by its process, or else by what the events show
 * (vmgroup.c).
 */

#include "priv.h"
#include "kvmft/hostmap.h"
#include "kvmft/vmsel.h"
#include "kvmft/events.h"

static const enum event_role clock_events[] = { EV_TSC_OFFSET, EV_MASTER_CLOCK, EV_PVCLOCK };

#define NO_EVENT UINT32_MAX

struct scan {
	struct hostmap *m;
	const struct event_type *entry;
	uint32_t entry_id, exit_id; /* NO_EVENT: there is none */
	uint64_t clock_ids;	    /* bit (id % 64) of each of clock_events */
	int32_t last_tid;	    /* of the last entry of the stream */
	struct hostmap_thread *t;   /* ... NULL: none that the map knows */
};

static uint32_t event_id_of(const struct fmt_event *ev)
{
	return ev ? (uint32_t)fmt_id(ev) : NO_EVENT;
}

/* ---- VMs and threads ---- */

static ssize_t vm_by_pid(const struct hostmap *m, int32_t pid)
{
	ssize_t found = -1;
	uint64_t i;

	if (!u64map_get(&m->by_pid, (uint32_t)pid, &i))
		return -1;
	for (; i != HOSTMAP_END; i = m->vm[i].same) {
		if (m->vm[i].pid != pid || m->vm[i].of != i)
			continue;
		if (found >= 0)
			return -2; /* two VMs in one process: only debugfs can tell them apart */
		found = (ssize_t)i;
	}
	return found;
}

void hostmap_vm_pid(struct hostmap *m, size_t vm, int32_t pid)
{
	uint64_t same = HOSTMAP_END;

	m->vm[vm].pid = pid;
	if (!pid)
		return;
	(void)u64map_get(&m->by_pid, (uint32_t)pid, &same);
	m->vm[vm].same = same;
	xu64map_put(&m->by_pid, (uint32_t)pid, vm);
}

size_t hostmap_vm_add(struct hostmap *m, const struct cap_vm *cap, int32_t pid)
{
	struct hostmap_vm *vm = xarray_grow(&m->vm, m->nvm, &m->vm_cap, sizeof(*vm));

	vm->cap = cap;
	vm->of = m->nvm;
	vm->next = vm->same = HOSTMAP_END;
	vm->threads = HOSTMAP_END;
	hostmap_vm_pid(m, m->nvm, pid);
	m->nvm++;
	if (cap || pid)
		hostmap_vm_label(m, m->nvm - 1);
	return m->nvm - 1;
}

static void thread_set(struct hostmap *m, int32_t tid, size_t vm, uint32_t vcpu)
{
	uint64_t at;
	struct hostmap_thread *t;

	if (u64map_get(&m->by_tid, (uint32_t)tid, &at)) {
		/*
		 * Recorded with several vCPUs: the last counts until its kvm_entry says otherwise.
		 */
		m->thread[at].vcpu = vcpu;
		return;
	}
	t = xarray_grow(&m->thread, m->nthread, &m->thread_cap, sizeof(*t));
	*t = (struct hostmap_thread){ .tid = tid, .vm = vm, .vcpu = vcpu, .first = UINT64_MAX };
	m->near[(uint32_t)tid % HOSTMAP_NEAR] = (uint32_t)m->nthread + 1;
	xu64map_put(&m->by_tid, (uint32_t)tid, m->nthread++);
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

ssize_t hostmap_vm_of(const struct hostmap *m, int32_t tid)
{
	const struct hostmap_thread *t = hostmap_thread(m, tid);

	return t && t->vm != HOSTMAP_END ? (ssize_t)t->vm : hostmap_task_vm(m, tid);
}

void hostmap_ran(struct hostmap *m, int32_t tid, uint32_t vcpu)
{
	thread_set(m, tid, HOSTMAP_END, vcpu);
}

/*
 * Another thread than that of the stream's last entry. arm64's entries do not say which vCPU they
 * are of, but the names of threads may; else each thread is a vCPU that has its number.
 */
static void scan_thread(struct scan *s, const struct rec *rec)
{
	const struct event_type *entry = s->entry;
	struct hostmap *m = s->m;
	int32_t tid = s->last_tid = fmt_pid(m->fmt, rec);
	const struct cap_task *task;
	uint32_t number = 0;
	uint64_t vcpu, at;
	ssize_t vm;

	s->t = NULL;
	if (tid <= 0)
		return;
	if (u64map_get(&m->by_tid, (uint32_t)tid, &at))
		s->t = &m->thread[at];
	if (entry->f[0].size) {
		if (!fmt_u64(&entry->f[0], rec, &vcpu) || vcpu > UINT32_MAX)
			return;
	} else if (s->t) {
		return;
	} else {
		task = cap_task(m->cap, tid);
		vcpu = task && vmsel_vcpu(task->comm, &number) ? number : (uint32_t)tid;
	}
	if (s->t) {
		s->t->floats |= s->t->first != UINT64_MAX && s->t->vcpu != vcpu;
		s->t->vcpu = (uint32_t)vcpu;
		return;
	}
	vm = hostmap_vm_of(m, tid);
	if (vm < 0 && vm_by_pid(m, process_of(m, tid)) == -2)
		return; /* ambiguous: leave the thread without a VM */
	thread_set(m, tid, vm < 0 ? HOSTMAP_END : (size_t)vm, (uint32_t)vcpu);
	s->t = &m->thread[m->nthread - 1];
}

/* Not inline, with a copy of the event, so that the walk keeps its own in registers. */
static __attribute__((noinline)) void scan_other(struct scan *s, struct rec rec)
{
	const struct event_type *e = event_type_of(fmt_by_id(s->m->fmt, rec.id));

	if (rec.id == s->entry_id)
		scan_thread(s, &rec);
	for (size_t k = 0; k < ARRAY_SIZE(clock_events); k++)
		if (e->role == clock_events[k])
			hostmap_clock_event(s->m, e, &rec);
}

/* The thread of the last entry is there again: does it enter another vCPU? */
static inline bool scan_floats(const struct scan *s, const struct rec *rec)
{
	uint64_t vcpu;

	return s->t && fmt_u64(&s->entry->f[0], rec, &vcpu) && vcpu != s->t->vcpu;
}

static inline int scan_event(void *arg, const struct rec *rec)
{
	struct scan *s = arg;

	s->m->events++;
	if (rec->id == s->entry_id) {
		s->m->entries++;
		if (fmt_pid(s->m->fmt, rec) != s->last_tid || scan_floats(s, rec))
			scan_other(s, *rec);
		if (s->t) {
			s->t->first = MIN(s->t->first, rec->ts);
			s->t->last = MAX(s->t->last, rec->ts);
		}
	} else if (rec->id == s->exit_id) {
		s->m->exits++;
	} else if (s->clock_ids >> (rec->id % 64) & 1) {
		scan_other(s, *rec);
	}
	return 0;
}

void hostmap_chain(struct hostmap *m)
{
	u64map_free(&m->by_vcpu);
	for (size_t i = 0; i < m->nvm; i++) {
		m->vm[i].threads = HOSTMAP_END;
		m->vm[i].several = false;
	}
	for (size_t i = m->nthread; i-- > 0;) {
		struct hostmap_thread *t = &m->thread[i];
		struct hostmap_vm *v = t->vm == HOSTMAP_END ? NULL : &m->vm[t->vm];

		if (!v)
			continue;
		v->several |= v->threads != HOSTMAP_END && m->thread[v->threads].vcpu != t->vcpu;
		t->next = v->threads;
		v->threads = i;
		xu64map_put(&m->by_vcpu, (uint64_t)t->vm << 32 | t->vcpu, i); /* the first stays */
	}
}

int hostmap_clock(const struct hostmap *m, struct kvmft_err *err)
{
	_cleanup_(own_tsc_free) struct own_tsc own = { 0 };

	return m->own ? 0 : own_tsc_init(&own, m->cap, err);
}

void hostmap_known(const struct capture *cap, const struct fmt *fmt, struct hostmap **out)
{
	struct hostmap *m = xcalloc(1, sizeof(*m));

	*out = m;
	m->cap = cap;
	m->fmt = fmt;
	if (cap->clock && !cap_in_tsc(cap)) {
		m->own = xcalloc(1, sizeof(*m->own));
		if (own_tsc_init(m->own, cap, NULL)) {
			free(m->own);
			m->own = NULL;
		}
	}
	for (size_t i = 0; i < cap->ntask; i++) {
		static const char vhost[] = "vhost-";
		const struct cap_task *t = &cap->task[i];
		uint32_t pid = (uint32_t)t->tgid;

		/* vhost-PID, a kernel thread (drivers/vhost/vhost.c), works for PID. */
		if (t->comm && !strncmp(t->comm, vhost, sizeof(vhost) - 1) && t->tgid == t->tid)
			pid = (uint32_t)strtoul(t->comm + sizeof(vhost) - 1, NULL, 10);
		if (t->tgid)
			xu64map_put(&m->tgid_of, (uint32_t)t->tid, pid ?: (uint32_t)t->tgid);
	}
	for (size_t i = 0; i < cap->nvm; i++) {
		const struct cap_vm *c = &cap->vm[i];
		size_t vm = hostmap_vm_add(m, c, c->pid);

		for (size_t k = 0; k < c->nvcpu; k++)
			if (c->vcpu[k].tid > 0)
				thread_set(m, c->vcpu[k].tid, vm, c->vcpu[k].id);
	}
	hostmap_chain(m);
}

int hostmap_new(const struct capture *cap, const struct fmt *fmt, struct hostmap **out,
		struct kvmft_err *err)
{
	const struct fmt_event *ev;
	struct hostmap *m;
	struct scan s;
	int ret = 0;

	*out = NULL;
	hostmap_known(cap, fmt, &m);
	s = (struct scan){ .m = m };
	s.entry = event_find(fmt, EV_ENTRY, 0);
	s.entry_id = event_id_of(s.entry->ev);
	s.exit_id = event_id_of(event_format(fmt, EV_EXIT));
	for (size_t k = 0; k < ARRAY_SIZE(clock_events) && !cap->unit_ns; k++) /* cycles */
		if ((ev = event_format(fmt, clock_events[k])))
			s.clock_ids |= 1ull << (fmt_id(ev) % 64);
	capture_skip_text(cap, true);
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		s.last_tid = -1;
		s.t = NULL;
		ret = rstream_each(cap, &cap->stream[i], scan_event, &s);
	}
	capture_skip_text(cap, false);
	m->holes = cap->is_tracedat && capture_missing(cap, m->events);
	ret = ret ?: hostmap_group(m);
	if (ret) {
		hostmap_free(m);
		return err_set(err, -ret, "cannot read the host capture %s: %s", cap->path,
			       strerror(-ret));
	}
	hostmap_build(m);
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
	u64map_free(&m->by_pid);
	u64map_free(&m->by_tid);
	u64map_free(&m->by_vcpu);
	u64map_free(&m->tgid_of);
	u64map_free(&m->last_write);
	own_tsc_free(m->own);
	free(m->own);
	free(m);
}

size_t hostmap_add_side(struct hostmap *m, size_t vm)
{
	const struct hostmap_vm *first;
	size_t last = m->vm[vm].of, n = 2, at = hostmap_vm_add(m, m->vm[vm].cap, m->vm[vm].pid);

	for (; m->vm[last].next != HOSTMAP_END; last = m->vm[last].next)
		n++;
	first = &m->vm[m->vm[vm].of];
	m->vm[last].next = at;
	m->vm[at].of = first->of;
	snprintf(m->vm[at].label, sizeof(m->vm[at].label), "%.54s#%zu", first->label, n);
	hostmap_epochs(m, at);
	return at;
}

const struct hostmap_thread *hostmap_thread_far(const struct hostmap *m, int32_t tid)
{
	uint64_t at;

	return u64map_get(&m->by_tid, (uint32_t)tid, &at) ? &m->thread[at] : NULL;
}

const struct hostmap_thread *hostmap_vcpu(const struct hostmap *m, size_t vm, uint32_t id)
{
	const uint64_t key = (uint64_t)m->vm[vm].of << 32 | id;
	uint64_t at;

	return u64map_get(&m->by_vcpu, key, &at) ? &m->thread[at] : NULL;
}

size_t hostmap_add_foreign(struct hostmap *m, const struct hostmap_vm *vm)
{
	size_t at = hostmap_vm_add(m, vm->cap, -1);

	memcpy(m->vm[at].label, vm->label, sizeof(vm->label));
	return at;
}

/*
 * ---- tid → name ----
 *
 * The kernel's saved_cmdlines has few entries, so sched_switch and sched_wakeup, if recorded,
 * correct and complete it as the walk proceeds.
 */

/* Which of their fields are the pid and the name. */
static const struct {
	enum event_role role;
	size_t pid, comm;
} learn_from[] = {
	{ EV_SWITCH, 2, 3 },
	{ EV_SWITCH, 0, 4 },
	{ EV_WAKEUP, 0, 2 },
	{ EV_WAKEUP_NEW, 0, 2 },
};

/* Whether that is new. */
static bool comms_set(struct tl_comms *c, int32_t tid, const char *name)
{
	size_t n = str_cut(name, COMM_LEN - 1);
	struct comm *m;

	if (tid <= 0 || !name[0])
		return false;
	m = xu64map_elem(&c->by_tid, (uint32_t)tid, &c->v, &c->cap, sizeof(*m));
	m->tid = tid;
	c->near[(uint32_t)tid % COMMS_NEAR] = (uint32_t)(m - c->v) + 1;
	if (!strncmp(m->name, name, n) && !m->name[n])
		return false;
	memset(m->name, 0, sizeof(m->name));
	memcpy(m->name, name, n);
	return true;
}

struct tl_comms *comms_new(const struct capture *cap, const struct fmt *fmt)
{
	struct tl_comms *c = xcalloc(1, sizeof(*c));

	c->fmt = fmt;
	if (cap->ntask)
		xdone(u64map_reserve(&c->by_tid, cap->ntask));
	for (size_t i = 0; i < cap->ntask; i++)
		if (cap->task[i].comm)
			(void)comms_set(c, cap->task[i].tid, cap->task[i].comm);
	for (size_t i = 0; i < ARRAY_SIZE(learn_from); i++)
		comms_also(c, event_format(fmt, learn_from[i].role));
	return c;
}

void comms_also(struct tl_comms *c, const struct fmt_event *ev)
{
	if (ev)
		c->ids |= 1ull << (fmt_id(ev) % 64);
}

/* Most events name a task as the last one did. */
static bool comms_known(struct tl_comms *c, const struct fmt_field *comm, const struct rec *rec,
			uint64_t pid)
{
	const char *name = (const char *)rec->data + comm->off;
	uint32_t at = c->near[pid % COMMS_NEAR];
	const struct comm *m = &c->v[at - 1];

	if (!at || m->tid != (int32_t)pid || comm->is_dynamic || comm->size != COMM_LEN ||
	    comm->off + (uint32_t)COMM_LEN > rec->len)
		return false;
	return !memcmp(m->name, name, COMM_LEN) || !strncmp(m->name, name, COMM_LEN - 1);
}

bool comms_learn(struct tl_comms *c, const struct rec *rec)
{
	const struct event_type *e = event_type_of(fmt_by_id(c->fmt, rec->id));
	char name[COMM_LEN];
	bool changed = false;
	uint64_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(learn_from); i++) {
		const struct fmt_field *comm = &e->f[learn_from[i].comm];

		/* The idle task's name is never asked for: it is the most frequent one. */
		if (e->role != learn_from[i].role ||
		    !fmt_u64(&e->f[learn_from[i].pid], rec, &pid) || !pid ||
		    comms_known(c, comm, rec, pid) || !fmt_str(comm, rec, name, sizeof(name)))
			continue;
		changed |= comms_set(c, (int32_t)pid, name);
	}
	return changed;
}

/*
 * What the older one has learned is newer than what was noted when the recording began, which is
 * all that the new one has.
 */
void comms_inherit(struct tl_comms *c, const struct tl_comms *from)
{
	for (size_t i = 0; i < from->by_tid.n; i++)
		(void)comms_set(c, from->v[i].tid, from->v[i].name);
}

const char *comms_get(const struct tl_comms *c, int32_t tid)
{
	uint64_t at;

	if (tid == 0)
		return "<idle>";
	return u64map_get(&c->by_tid, (uint32_t)tid, &at) ? c->v[at].name : "<...>";
}

void comms_free(struct tl_comms *c)
{
	if (!c)
		return;
	free(c->v);
	u64map_free(&c->by_tid);
	free(c);
}
