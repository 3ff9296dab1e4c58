/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.c: counts KVM's events about the vCPUs.
 *
 * The ring is small and overwritten, and each look reads only as much as 0.4 % of a CPU allows: a
 * guest with half a million exits a second costs no more than one with ten thousand. Counts need no
 * order, and a part of exits that repeat shows as much as all of them. How many were lost or not
 * read is known, and included in rates. Where that is not enough, hist.c counts. kvm_entry is not
 * asked for: its RIP is that of the exit before it, or an interrupt's handler.
 */
#include "room.h"

#define RING_KB_ALL 512u   /* of all CPUs together ... */
#define RING_KB_MIN 32u	   /* ... and of one at least */
#define MSR_TIMER   0x6e0u /* IA32_TSC_DEADLINE, and the initial count of an x2APIC's timer */
#define MSR_TMICT   0x838u
#define GIC_SHARED  32u /* from here on interrupts are not a CPU's own */

/* The most frequent first. */
static const enum event_role roles[] = {
	EV_EXIT,   EV_USER_EXIT, EV_PIO,	  EV_MMIO,	  EV_MSR,
	EV_INJECT, EV_ACCEPT,	 EV_APICV_ACCEPT, EV_PAGE_FAULT,  EV_FAST_MMIO,
	EV_EOI,	   EV_PV_EOI,	 EV_WFX,	  EV_GUEST_FAULT, EV_VGIC,
};

/* ---- setting up ---- */

static bool tells_no_exits(void)
{
#ifdef __x86_64__
	struct stat st;

	return stat("/sys/module/kvm_intel", &st) && stat("/sys/module/kvm_amd", &st);
#else
	return false;
#endif
}

void stuck_watch_roles(struct stuck *s)
{
	struct stuck_events *ev = &s->ev;

	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (!event_find(ev->fmt, roles[i], 1, &ev->of[roles[i]]))
			ev->of[roles[i]].ev = NULL;
	exit_names_init(&ev->names, ev->of[EV_EXIT].ev, NULL);
}

static int find_watched(struct stuck *s)
{
	_cleanup_(kevent_list_free) struct kevent_list all = { 0 };
	struct stuck_events *ev = &s->ev;
	int ret = kevent_kvm_check(s->t, s->err);
	bool counted = s->c->engine == STUCK_ENGINE_HIST;

	for (size_t i = 0; i < ARRAY_SIZE(roles) && !ret; i++) {
		/* kvm_exit is there, whatever its fields are called. */
		const char *name = event_name(roles[i]);

		if (!kevent_exists(s->t, "kvm", name))
			continue;
		if (kevent_list_add(&all, "kvm", name, NULL) ||
		    (!(counted && roles[i] == EV_EXIT) &&
		     kevent_list_add(&ev->list, "kvm", name, NULL)))
			ret = err_set(s->err, ENOMEM, "out of memory");
	}
	ret = ret ?: session_formats(s->t, &all, &ev->fmt, s->err);
	if (ret)
		return ret;
	stuck_watch_roles(s);
	s->blind = tells_no_exits() || !ev->of[EV_EXIT].ev;
	return 0;
}

static int make_instance(struct stuck *s)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct stuck_events *ev = &s->ev;
	_cleanup_free_ uint32_t *tid = NULL;
	int ret = kcpus_read(KCPU_POSSIBLE, &ev->cpus);
	size_t n;

	if (ret)
		return err_why(s->err, ret, "cannot read the list of CPUs");
	ev->mono = !ktracefs_clock_check(s->t, "mono", NULL);
	c.clock = ev->mono ? "mono" : NULL;
	c.record_cmd = false;
	c.buffer_kb = MAX(RING_KB_ALL / MAX(ev->cpus.n, (size_t)1), (size_t)RING_KB_MIN);
	/* All threads of a VM: its interrupts come from others than its vCPUs. */
	n = 0;
	ret = s->only ? vm_thread_ids(NULL, s->only->pid, &tid, &n) : 0;
	if (ret) {
		ret = err_why(s->err, ret, "cannot list the threads of %u", s->only->pid);
	} else {
		c.pid = (const int32_t *)tid;
		c.npid = n;
		c.event_fork = n != 0;
		ret = 0;
	}
	ret = ret ?: kinst_create(s->t, &c, &s->k, s->err);
	ret = ret ?: kinst_events_add(s->k, &ev->list, s->err);
	return ret ?: session_raw_open(s->k, &ev->cpus, &ev->raw, s->err);
}

int stuck_watch_begin(struct stuck *s)
{
	struct stuck_events *ev = &s->ev;
	int ret = find_watched(s);

	ret = ret ?: make_instance(s);
	if (ret)
		return ret;
	if (s->c->engine == STUCK_ENGINE_HIST)
		ret = stuck_hist_all(s);
	if (ret)
		return ret;
	ev->geom = subbuf_geom_here(kinst_subbuf_size(s->k));
	ev->buf = xmalloc(ev->geom.size);
	ret = kinst_tracing(s->k, true, s->err);
	return ret ?: kinst_events_enable(s->k, s->err);
}

/* ---- what an event says ---- */

/*
 * Exits that the host caused: they may come at any instruction. So do those of a guest that waits
 * for a lock.
 */
static enum stuck_what what_exit(struct exit_why w)
{
	switch (exit_kind(w)) {
	case EXIT_KIND_HALT: return STUCK_HLT;
	case EXIT_KIND_INTR:
	case EXIT_KIND_PAUSE:
	case EXIT_KIND_ASYNC: return STUCK_SAMPLE;
	default: return STUCK_EXIT;
	}
}

static struct stuck_vcpu *of_thread(struct stuck *s, const struct u64map *map,
				    const struct rec *rec)
{
	int32_t tid = fmt_pid(s->ev.fmt, rec);
	uint64_t at;

	return tid > 0 && u64map_get(map, (uint32_t)tid, &at) ? &s->vcpu[at] : NULL;
}

/* An interrupt for the vCPU with that id: of the VM of the thread that it came from. */
static struct stuck_vcpu *vcpu_by_id(struct stuck *s, const struct rec *rec, uint64_t id)
{
	const struct stuck_vcpu *from = of_thread(s, &s->vm_of, rec);
	const struct vm *vm = from ? from->vm : s->vms->n == 1 ? s->vms->vm : s->only;

	for (size_t i = 0; i < s->n; i++)
		if (s->vcpu[i].vm == vm && s->vcpu[i].vcpu->id == id)
			return &s->vcpu[i];
	return NULL;
}

void stuck_watch_exit(struct stuck *s, struct stuck_vcpu *c, struct exit_why w, uint64_t rip,
		      uint64_t n)
{
	/* On arm64 the event that follows tells a guest that waits from one that spins. */
	c->exit = STUCK_REASON(w.isa, w.reason);
	if (!exit_is_halt(w) || !s->ev.of[EV_WFX].ev)
		stuck_count_n(&c->obs, what_exit(w), c->exit, rip, n);
}

/*
 * What an exit was for comes after it, or before: SVM's fast path was traced so until 6.12. A timer
 * of the guest's, for instance.
 */
static void take_access(struct stuck_vcpu *c, enum stuck_what what, uint64_t a, uint64_t b)
{
	bool upkeep = stuck_is_upkeep(what, a, b);

	if (upkeep)
		c->ahead = !c->open;
	if (upkeep && c->open) {
		stuck_count_n(&c->obs, STUCK_EXIT, c->exit, c->rip, -1ull);
		stuck_count(&c->obs, STUCK_UPKEEP, c->exit, c->rip);
	}
	c->open = false;
	stuck_count(&c->obs, what, a, b);
}

static void take_irq(struct stuck *s, enum stuck_what what, const struct rec *rec,
		    const uint64_t f[3])
{
	struct stuck_vcpu *c = vcpu_by_id(s, rec, f[0]);

	if (!c)
		return;
	c->irq_ns = MAX(c->irq_ns, rec->ts);
	stuck_count(&c->obs, what, f[1], 0);
}

static void watch_count(struct stuck *s, enum event_role role, const struct rec *rec)
{
	struct stuck_vcpu *c = of_thread(s, &s->by_tid, rec);
	uint64_t f[3];

	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		f[i] = event_u64(&s->ev.of[role], i, rec);
	/*
	 * Where interrupts are posted, the event that one was accepted also means that the guest
	 * got it.
	 */
	if (role == EV_ACCEPT || role == EV_APICV_ACCEPT)
		take_irq(s, role == EV_ACCEPT ? STUCK_ACCEPT : STUCK_INJECT, rec, f);
	/*
	 * What a GIC has is for the vCPU it names if it is private; whether the guest takes it is
	 * in no event.
	 */
	if (role == EV_VGIC && f[2] && f[1] < GIC_SHARED)
		take_irq(s, STUCK_INJECT, rec, f);
	if (!c)
		return;
	switch (role) {
	case EV_EXIT: {
		const struct event_type *e = &s->ev.of[EV_EXIT];
		struct exit_why w =
			exit_why(&s->ev.names, event_u64(e, 0, rec), event_u64(e, 1, rec));

		c->rip = event_u64(e, 2, rec);
		c->exit_what = what_exit(w);
		c->open = c->exit_what == STUCK_EXIT;
		if (c->open && c->ahead) {
			c->open = c->ahead = false;
			stuck_count(&c->obs, STUCK_UPKEEP, STUCK_REASON(w.isa, w.reason), c->rip);
		} else {
			stuck_watch_exit(s, c, w, c->rip, 1);
		}
		break;
	}
	case EV_USER_EXIT: stuck_count(&c->obs, STUCK_TO_USER, f[0], 0); break;
	case EV_PIO: take_access(c, STUCK_PIO, f[1], f[0] != 0); break;
	case EV_MMIO: take_access(c, STUCK_MMIO, f[1], f[0] == 2); break;
	case EV_FAST_MMIO: take_access(c, STUCK_MMIO, f[0], 1); break;
	case EV_WFX: stuck_count(&c->obs, f[0] ? STUCK_SAMPLE : STUCK_HLT, c->exit, f[1]); break;
	case EV_GUEST_FAULT:
	case EV_PAGE_FAULT: take_access(c, STUCK_FAULT, f[0], 0); break;
	case EV_MSR:
		if (f[0] && f[2] && (f[1] == MSR_TIMER || f[1] == MSR_TMICT))
			c->timer_ns = MAX(c->timer_ns, rec->ts);
		take_access(c, STUCK_MSR, f[1], f[0] != 0);
		break;
	case EV_EOI:
	case EV_PV_EOI: stuck_count(&c->obs, STUCK_EOI, f[1], 0); break;
	case EV_ACCEPT:
	case EV_APICV_ACCEPT:
	case EV_VGIC: break;
	default: stuck_count(&c->obs, STUCK_INJECT, f[0], 0); break;
	}
}

void stuck_watch_take(struct stuck *s, enum event_role role, const struct rec *rec)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (role == roles[i] && s->ev.of[role].ev)
			watch_count(s, role, rec);
}

/* ---- reading ---- */

static void watch_walk(struct stuck *s)
{
	struct stuck_events *ev = &s->ev;
	struct subbuf sb;
	struct rec rec;

	/* What cannot be read counts as lost: only a part is needed. */
	if (subbuf_begin(&sb, ev->buf, &ev->geom))
		return;
	while (subbuf_next(&sb, &rec) > 0) {
		const struct fmt_event *e = fmt_by_id(ev->fmt, rec.id);

		ev->read++;
		if (e)
			stuck_watch_take(s, event_role_of(e), &rec);
	}
}

static uint64_t cpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A sub-buffer of each CPU in turn: what one look does not get to is left to the next, or lost. */
static int read_pass(struct stuck *s, uint64_t until, bool all, size_t *got)
{
	struct stuck_events *ev = &s->ev;
	int ret = 0;

	*got = 0;
	for (size_t i = 0; i < ev->cpus.n && !ret; i++) {
		ssize_t n;
		int fd;

		if (*got && !all && cpu_now_ns() >= until)
			break;
		/* One sub-buffer: its size, 0 when there is none, -errno. */
		fd = ev->raw[ev->next_cpu++ % ev->cpus.n];
		do {
			n = read(fd, s->ev.buf, s->ev.geom.size);
		} while (n < 0 && errno == EINTR);
		if (n < 0)
			n = errno == EAGAIN ? 0 : -errno;
		else
			n = n && (size_t)n != s->ev.geom.size ? -EMSGSIZE : n;
		if (n > 0)
			watch_walk(s);
		ret = (int)MIN(n, 0);
		*got += (size_t)MAX(n, 0);
	}
	return ret;
}

int stuck_watch_read(struct stuck *s, uint64_t ns, bool last)
{
	uint64_t until = cpu_now_ns() + ns;
	int ret = last ? kinst_events_disable(s->k) : 0;
	bool all = last;
	size_t got = 1;

	while (got && !ret && (all || cpu_now_ns() < until)) {
		ret = read_pass(s, until, all, &got);
		all = false;
	}
	return err_why(s->err, ret, "cannot read the ring");
}

/* Counts those that were not read, too. */
static uint64_t lost_events(const struct stuck *s, bool *unread)
{
	struct kstats st;
	uint64_t n = 0;

	for (size_t i = 0; i < s->ev.cpus.n; i++) {
		if (kinst_stats(s->k, s->ev.cpus.cpu[i], &st, NULL))
			continue;
		n += st.overrun + st.commit_overrun + st.dropped + st.entries;
		*unread |= st.entries != 0;
	}
	return n;
}

bool stuck_watch_lossy(const struct stuck *s)
{
	bool unread = false;

	return lost_events(s, &unread) > s->ev.read;
}

void stuck_watch_end(struct stuck *s)
{
	struct stuck_events *ev = &s->ev;

	if (s->k)
		s->lost += lost_events(s, &s->unread);
	session_raw_close(ev->raw, ev->cpus.n);
	ev->raw = NULL;
	kinst_end(s->k, s->note);
	s->k = NULL;
}
