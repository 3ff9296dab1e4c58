/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.c: counts KVM's events about the vCPUs.
 *
 * The ring is small and overwritten, and each look reads only as much as 0.4 % of a CPU allows: a
 * guest with half a million exits a second costs no more than one with ten thousand. Counts need no
 * order, and a part of exits that repeat shows as much as all of them. How many were lost or not
 * read is known, and included in rates. Where that is not enough, the kernel counts. kvm_entry is
 * not asked for: its RIP is that of the exit before it, or an interrupt's handler.
 */
#include "room.h"

#define RING_KB_ALL 512u   /* of all CPUs together ... */
#define RING_KB_MIN 32u	   /* ... and of one at least */
#define MSR_TIMER   0x6e0u /* IA32_TSC_DEADLINE, and the initial count of an x2APIC's timer */
#define MSR_TMICT   0x838u
#define GIC_SHARED  32u /* from here on interrupts are not a CPU's own */

#define KEYS	     "common_pid,exit_reason,guest_rip"
#define CELLS_VCPU   2048u
#define CELLS_MIN    4096u
#define CELLS_MAX    131072u /* TRACING_MAP_BITS_MAX of kernel/trace/tracing_map.h */
#define SOME	     8u	     /* as a filter, which each exit of any vCPU has to pass */
#define ENOUGH_EXITS 100u    /* that were read of a vCPU: no more need to be counted */

/* The most frequent first. */
static const enum event_role roles[] = {
	EV_EXIT,   EV_USER_EXIT, EV_PIO,	  EV_MMIO,	  EV_MSR,
	EV_INJECT, EV_ACCEPT,	 EV_APICV_ACCEPT, EV_PAGE_FAULT,  EV_FAST_MMIO,
	EV_EOI,	   EV_PV_EOI,	 EV_WFX,	  EV_GUEST_FAULT, EV_VGIC,
};

/* ---- what an event says ---- */

/* Exits that the host causes, at any instruction; so do those of a wait for a lock. */
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

/* n exits of a vCPU. */
static void watch_exit(struct stuck *s, struct stuck_vcpu *c, struct exit_why w, uint64_t rip,
		       uint64_t n)
{
	/* On arm64 the event that follows tells a guest that waits from one that spins. */
	c->exit = STUCK_REASON(w.isa, w.reason);
	if (!exit_is_halt(w) || !s->ev.wfx)
		stuck_count_n(&c->obs, what_exit(w), c->exit, rip, n);
}

/* What an exit was for comes after it, or before: SVM's fast path until 6.12. */
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

struct stuck_vcpu *stuck_vcpu_find(const struct stuck *s, const struct vm *vm, uint64_t id)
{
	const struct stuck_vcpu *v = s->vcpu;
	const size_t at = COUNT_BEFORE(i, s->n, v[i].vm < vm ||
				       (v[i].vm == vm && v[i].vcpu->id < id));

	return at < s->n && s->vcpu[at].vm == vm && s->vcpu[at].vcpu->id == id ? &s->vcpu[at]
									       : NULL;
}

/* An interrupt for the vCPU with the id f[0]: of the VM of the thread that it came from. */
static void take_irq(struct stuck *s, enum stuck_what what, const struct rec *rec,
		    const uint64_t f[3])
{
	const struct stuck_vcpu *from = of_thread(s, &s->vm_of, rec);
	const struct vm *vm = from ? from->vm : s->vms->n == 1 ? s->vms->vm : s->only;
	struct stuck_vcpu *c = stuck_vcpu_find(s, vm, f[0]);

	if (!c)
		return;
	c->irq_ns = MAX(c->irq_ns, rec->ts);
	stuck_count(&c->obs, what, f[1], 0);
}

void stuck_watch_take(struct stuck *s, const struct event_type *e, const struct rec *rec)
{
	const enum event_role role = e->role;
	struct stuck_vcpu *c;
	uint64_t f[3];

	if (!e->have)
		return;
	c = of_thread(s, &s->by_tid, rec);
	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		f[i] = event_u64(e, i, rec);
	/* Where interrupts are posted, that one was accepted also means that the guest got it. */
	if (role == EV_ACCEPT || role == EV_APICV_ACCEPT)
		take_irq(s, role == EV_ACCEPT ? STUCK_ACCEPT : STUCK_INJECT, rec, f);
	/* A GIC's private interrupt is for the vCPU it names; whether that takes it is unknown. */
	if (role == EV_VGIC && f[2] && f[1] < GIC_SHARED)
		take_irq(s, STUCK_INJECT, rec, f);
	if (!c)
		return;
	switch (role) {
	case EV_EXIT: {
		struct exit_why w = exit_why(&s->ev.names, f[0], f[1]);

		c->rip = f[2];
		c->exit_what = what_exit(w);
		c->open = c->exit_what == STUCK_EXIT;
		if (c->open && c->ahead) {
			c->open = c->ahead = false;
			stuck_count(&c->obs, STUCK_UPKEEP, STUCK_REASON(w.isa, w.reason), c->rip);
		} else {
			watch_exit(s, c, w, c->rip, 1);
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
	case EV_INJECT: stuck_count(&c->obs, STUCK_INJECT, f[0], 0); break;
	default: break;
	}
}

/* ---- reading ---- */

static uint64_t cpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int stuck_watch_read(struct stuck *s, uint64_t ns, bool last)
{
	struct stuck_events *ev = &s->ev;
	uint64_t until = cpu_now_ns() + ns;
	int ret = last ? kinst_events_disable(s->k) : 0;
	bool all = last;
	size_t got = 1;

	/* A sub-buffer of each CPU in turn: what a look does not get to is for the next. */
	for (; got && !ret && (all || cpu_now_ns() < until); all = false) {
		got = 0;
		for (size_t i = 0; i < ev->cpus.n && !ret; i++) {
			struct subbuf sb;
			struct rec rec;
			ssize_t n;
			int fd;

			if (got && !all && cpu_now_ns() >= until)
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
			/* What cannot be read counts as lost: only a part is needed. */
			if (n > 0 && !subbuf_begin(&sb, ev->buf, &ev->geom))
				while (subbuf_next(&sb, &rec) > 0) {
					ev->read++;
					stuck_watch_take(
						s, event_type_of(fmt_by_id(ev->fmt, rec.id)), &rec);
				}
			ret = (int)MIN(n, 0);
			got += (size_t)MAX(n, 0);
		}
	}
	return err_why(s->err, ret, "cannot read the ring");
}

/* Counts those that were not read, too. */
static uint64_t lost_events(const struct stuck *s, bool *unread)
{
	uint64_t left = 0, n = session_lost(s->k, &s->ev.cpus, &left);

	*unread |= left != 0;
	return n + left;
}

/*
 * ---- exits counted by the kernel, by thread, reason and RIP, in a hist trigger ----
 *
 * The ring has what a look could read of it: of a guest that exits rarely too little, if the CPU
 * that it runs on has others that exit all the time. A map counts each exit of those it was made
 * for, whatever the others do. But it takes 1,120 instructions of a vCPU for each (the ring: 660),
 * and has 131,072 cells at most, of which one guest that works fills 2,000 in 5 s. So it is made
 * for vCPUs that the ring shows too little of, and these do not exit often.
 */

static const char *hist_lacks(const struct stuck *s)
{
	const struct fmt_event *ev = s->ev.exit;
	struct fmt_field f;

	if (!kfeat_have(s->t, "hist-triggers"))
		return "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)";
	if (!ev || !fmt_field(ev, "exit_reason", &f) || !fmt_field(ev, "guest_rip", &f))
		return "kvm_exit of this kernel has not the fields exit_reason and guest_rip";
	return NULL;
}

/* Counts the exits of the n marked vCPUs, or of all, from now on. */
static int hist_begin(struct stuck *s, size_t n, bool all, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *before = " if ";
	uint64_t cells = CELLS_MIN;
	int ret;

	while (cells < n * CELLS_VCPU && cells < CELLS_MAX)
		cells *= 2;
	sbuf_addf(&b, "hist:keys=" KEYS ":size=%" PRIu64, cells);
	for (size_t i = 0; i < s->n && !all; i++)
		if (s->vcpu[i].obs.exact) {
			sbuf_addf(&b, "%scommon_pid==%" PRIu32, before, s->vcpu[i].vcpu->tid);
			before = "||";
		}
	ret = kinst_trigger_add(s->k, "kvm", event_name(EV_EXIT), xsbuf_text(&b), err);
	s->hist = !ret;
	s->hist_ns = util_now_ns();
	return ret;
}

static size_t stuck_mark(struct stuck *s, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct stuck_obs *o = &s->vcpu[i].obs;
		uint64_t seen = o->count[STUCK_SAMPLE] + o->count[STUCK_HLT] + o->count[STUCK_EXIT];

		/* One that sleeps elsewhere does not exit. */
		o->exact = s->vcpu[i].vcpu->tid && (all || (n < SOME && seen < ENOUGH_EXITS &&
							    o->at[STUCK_AT_CPU] > o->looks / 4));
		n += o->exact;
	}
	return n;
}

static void stuck_unmark(struct stuck *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->vcpu[i].obs.exact = false;
}

void stuck_hist_some(struct stuck *s)
{
	struct kvmft_err none = { .text = "" };
	bool unread = false;
	size_t n;

	/* Most events were lost so far, or not read. */
	if (hist_lacks(s) || lost_events(s, &unread) <= s->ev.read)
		return;
	n = stuck_mark(s, false);
	/* The ring goes on without it. */
	if (n && hist_begin(s, n, false, &none))
		stuck_unmark(s);
}

static int hist_count(void *ctx, const struct khist_entry *e)
{
	struct stuck *s = ctx;
	uint64_t tid, reason, rip, n, at;
	struct stuck_vcpu *c;

	if (!khist_get(e, "common_pid", &tid) || !khist_get(e, "exit_reason", &reason) ||
	    !khist_get(e, "guest_rip", &rip) || !khist_get(e, "hitcount", &n))
		return -EBADMSG;
	if (!u64map_get(&s->by_tid, tid, &at))
		return 0;
	c = &s->vcpu[at];
	watch_exit(s, c, exit_why(&s->ev.names, reason, session_isa(&s->ev.names)), rip, n);
	return 0;
}

int stuck_hist_read(struct stuck *s)
{
	if (!s->hist)
		return 0;
	s->hist_end_ns = util_now_ns();
	if (s->hist_end_ns - s->hist_ns >= s->ns / 4) {
		struct khist h;
		int ret;

		for (size_t i = 0; i < s->n; i++)
			if (s->vcpu[i].obs.exact)
				stuck_count_none(&s->vcpu[i].obs, STUCK_SAMPLE, STUCK_EXIT);
		khist_begin(&h, KEYS, hist_count, s);
		ret = kinst_hist_walk(s->k, "kvm", event_name(EV_EXIT), &h);
		for (size_t i = 0; i < s->n; i++)
			s->vcpu[i].obs.exits_ns = s->hist_end_ns - s->hist_ns;
		if (!ret && h.dropped)
			s->note("the kernel's map was full: %" PRIu64 " of %" PRIu64
				" exits were not counted",
				h.dropped, h.hits);
		return err_why(s->err, ret, "cannot read the counts of kvm_exit");
	}
	/* Creating it took too long: the ring covers more time. */
	stuck_unmark(s);
	return 0;
}

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

void stuck_watch_events(struct stuck *s)
{
	struct stuck_events *ev = &s->ev;

	ev->exit = event_find(ev->fmt, EV_EXIT, 1)->ev;
	ev->wfx = event_find(ev->fmt, EV_WFX, 1)->ev;
	exit_names_init(&ev->names, ev->exit, NULL);
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
	_cleanup_(kevent_list_free) struct kevent_list all = { 0 };
	struct stuck_events *ev = &s->ev;
	bool counted = s->c->engine == STUCK_ENGINE_HIST;
	int ret = kevent_kvm_check(s->t, s->err);

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
	stuck_watch_events(s);
	s->blind = tells_no_exits() || !ev->exit;
	ret = make_instance(s);
	if (ret)
		return ret;
	if (counted) {
		const char *why = hist_lacks(s);

		ret = why ? err_lack(s->err, ENOTSUP, "--engine hist: %s", why)
			  : hist_begin(s, stuck_mark(s, true), true, s->err);
	}
	if (ret)
		return ret;
	ev->geom = subbuf_geom_here(kinst_subbuf_size(s->k));
	ev->buf = xmalloc(ev->geom.size);
	ret = kinst_tracing(s->k, true, s->err);
	return ret ?: kinst_events_enable(s->k, s->err);
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
