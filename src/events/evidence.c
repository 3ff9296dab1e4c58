/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evidence.c: the table of what must have been recorded before an answer may name a cause. */
#include "kvmft/evidence.h"
#include "kvmft/capture.h"
#include "kvmft/ring.h"

/*
 * By bit. All of the roles are needed, or one of them. With TOGETHER, one is enough where it is
 * only known what was seen: who records one of these records the others.
 */
static const struct {
	bool guest;
	enum { ALL, ANY, TOGETHER } need;
	enum event_role role[4];
	const char *name;  /* in messages and JSON */
	const char *rival; /* who may have been it, if nothing shows that */
	const char *more;  /* what to record besides the default; NULL: nothing */
} events[EVIDENCE_BITS] = {
	{ false, ALL, { EV_SWITCH }, "sched:sched_switch", "the scheduler",
	  "-e sched:sched_switch" },
	{ false, ALL, { EV_WAKEUP }, "sched:sched_wakeup", "the scheduler",
	  "-e sched:sched_wakeup" },
	{ false, ALL, { EV_USER_EXIT }, "kvm:kvm_userspace_exit", "the VMM", NULL },
	{ false, ALL, { EV_VCPU_WAKEUP }, "kvm:kvm_vcpu_wakeup", "polling", NULL },
	{ false, TOGETHER, { EV_MMIO, EV_FAST_MMIO }, "kvm:kvm_mmio, kvm:kvm_fast_mmio", "a device",
	  NULL },
	{ false, ANY, { EV_ACCEPT, EV_VGIC }, "kvm:kvm_apic_accept_irq", "a lock", NULL },
	{ false, ALL, { EV_VECTOR_ENTRY, EV_VECTOR_EXIT, EV_SOFTIRQ_ENTRY, EV_SOFTIRQ_EXIT },
	  "irq_vectors:*, irq:softirq_*", "an interrupt of the host",
	  "-e 'irq_vectors:*' -e irq:softirq_entry -e irq:softirq_exit" },
	{ false, ALL, { EV_RQ_ISSUE, EV_RQ_COMPLETE }, "block:block_rq_*", "the host's disk",
	  "-e block:block_rq_issue -e block:block_rq_complete" },
	{ true, ALL, { EV_SWITCH }, "sched:sched_switch", "a task of the guest", NULL },
	{ true, ALL, { EV_WAKEUP }, "sched:sched_wakeup", "the guest's scheduler", NULL },
	{ true, ALL, { EV_IRQ_ENTRY, EV_IRQ_EXIT, EV_SOFTIRQ_ENTRY, EV_SOFTIRQ_EXIT }, "irq:*",
	  "a handler of the guest", NULL },
	{ false, ALL, { EV_NONE }, "kvm:*", "the host", NULL },
	{ false, ALL, { EV_WAKING }, "sched:sched_waking", "the scheduler", "-e io" },
	{ false, TOGETHER, { EV_BIO, EV_FILE_PAGE, EV_USER_FAULT, EV_KERNEL_FAULT },
	  "block:block_bio_queue, filemap:*, exceptions:*", "memory", "-e io" },
	{ false, ALL, { EV_INJECT }, "kvm:kvm_inj_virq", "KVM", NULL },
	{ false, TOGETHER, { EV_MSI, EV_IPI, EV_SET_IRQ },
	  "kvm:kvm_msi_set_irq, kvm_apic_ipi, kvm_set_irq", "its source", NULL },
	{ false, ALL, { EV_CALL_RECEIVE }, "syscalls:sys_enter_recv*", "a task of the host", "-e net" },
	{ true, ALL, { EV_CALL_RECEIVE }, "syscalls:sys_enter_recv*", "a task of the guest", "-e net" },
	{ false, ALL, { EV_TSC_OFFSET }, "kvm:kvm_write_tsc_offset", "a write to its TSC", NULL },
	{ false, ALL, { EV_PVCLOCK }, "kvm:kvm_pvclock_update", "its kvmclock", NULL },
	{ false, ALL, { EV_MASTER_CLOCK, EV_TRACK_TSC }, "kvm:kvm_update_master_clock, kvm_track_tsc",
	  "the master clock", NULL },
	{ false, ALL, { EV_ENTRY, EV_EXIT }, "kvm:kvm_entry, kvm_exit", "its guest", NULL },
	{ false, ALL, { EV_MSR }, "kvm:kvm_msr", "an MSR", NULL },
	{ false, ALL, { EV_PIO }, "kvm:kvm_pio", "a port", NULL },
	{ false, ALL, { EV_NONE }, "TSC offsets", "its TSC", NULL },
	{ false, ALL, { EV_NONE }, "TSC frequency", "its TSC", NULL },
	{ true, ALL, { EV_NONE }, "pvclock record", "its kvmclock", NULL },
	{ true, ALL, { EV_NONE }, "clocks", "its clocks", NULL },
	{ true, ALL, { EV_NONE }, "pvclock record of before", "its kvmclock", NULL },
	{ false, TOGETHER, { EV_INJECT, EV_APICV_ACCEPT }, "kvm:kvm_inj_virq, kvm_apicv_accept_irq",
	  "a guest that works", NULL },
	{ true, ALL, { EV_NONE }, "sched_clock", "its clocks", NULL },
	{ false, ALL, { EV_ASYNC_TOLD, EV_ASYNC_READY },
	  "kvm:kvm_async_pf_not_present, kvm_async_pf_ready", "a sleep", NULL },
};

#define SCHED (EVID_SWITCH | EVID_WAKEUP)
#define PATH  (SCHED | EVID_WAKING | EVID_MMIO) /* of what a VMM does since the doorbell */
#define TAKEN (EVID_ACCEPT | EVID_INJECT | EVID_GUEST_IRQ) /* an interrupt, by its guest */
#define WOKEN (EVID_GUEST_SWITCH | EVID_GUEST_WAKEUP)
#define SETS_CLOCK (EVID_OFFSET | EVID_PVCLOCK | EVID_BEFORE)
#define TELLS (EVID_SWITCH | EVID_USER) /* the kernel, the VMM and others apart */

static const struct evidence_rule rules[] = {
	{ "blame", "host-task", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "blame", "sibling", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "blame", "throttled", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "blame", "stopped", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "blame", "migrated", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "blame", "host-irq", "an interrupt of the host", EVID_SWITCH | EVID_USER, EVID_IRQ,
	  "its thread left its CPU" },
	{ "blame", "exit-kernel", "KVM", EVID_SWITCH | EVID_USER, EVID_IRQ,
	  "its thread left its CPU" },
	{ "blame", "exit-user", "the VMM", EVID_SWITCH | EVID_USER, EVID_IRQ,
	  "its thread left its CPU" },
	{ "blame", "vmm", "the VMM", SCHED | EVID_USER, 0, NULL },
	{ "blame", "request", "the VMM", EVID_BLOCK | EVID_ACCEPT, 0, NULL },
	{ "blame", "disk", "the host's disk", EVID_BLOCK | EVID_ACCEPT, 0, NULL },
	{ "blame", "page-fault", "memory", EVID_SWITCH | EVID_USER | EVID_MMIO, 0,
	  "kvm_mmio: it is a device's" },
	{ "blame", "page fetched", "memory", EVID_ASYNC | EVID_GUEST_SWITCH, 0, NULL },
	{ "blame", "halt-wake", "its wake-up", SCHED, 0, NULL },
	/* of a request: when the host had it; of io and hrtimer: when the host was done */
	{ "blame", "io", "the VMM, the host's disk", EVID_MMIO | EVID_ACCEPT | EVID_GUEST_IRQ, 0,
	  NULL },
	{ "blame", "halt-wake of io", "a device, a timer of the host, its wake-up",
	  SCHED | EVID_ACCEPT | EVID_GUEST_IRQ, 0, NULL },
	{ "blame", "host-timer", "the host's timer", SCHED | EVID_ACCEPT, 0, NULL },
	{ "blame", "lock-holder", "a lock", EVID_SWITCH | EVID_USER, 0, NULL },
	{ "blame", "guest-irqs-off", "the guest", EVID_GUEST_IRQ, EVID_SWITCH,
	  "it executed nothing between its entry and its exit" },
	{ "blame", "guest-handler", "a handler of the guest", EVID_GUEST_IRQ, 0,
	  "it executed nothing between its entry and its exit" },
	{ "blame", "guest-sched", "the guest's scheduler", EVID_GUEST_SWITCH | EVID_GUEST_IRQ, 0,
	  "it executed nothing between its entry and its exit" },
	{ "blame", "guest-sleep", "a sleep", EVID_GUEST_SWITCH | EVID_GUEST_WAKEUP, 0, NULL },
	{ "blame", "guest-code", "the guest", EVID_GUEST_SWITCH | EVID_GUEST_IRQ, 0,
	  "it executed nothing between its entry and its exit" },
	/* besides: while halted; while a thread slept; if exits are traced late; of over a tick */
	{ "blame", "halt", "a halt", EVID_ACCEPT, 0, NULL },
	{ "blame", "awake", "its wake-up", EVID_HALT, 0, NULL },
	{ "blame", "asleep", "a sleep", EVID_WAKEUP, 0, NULL },
	{ "blame", "late exit", "the guest", EVID_SWITCH, EVID_IRQ, NULL },
	{ "blame", "long exit", "KVM", EVID_IRQ, 0, NULL },
	{ "split", "kernel", "KVM", TELLS, 0, NULL },
	{ "split", "user", "the VMM", TELLS | EVID_WAKEUP, 0, NULL },
	{ "split", "poll", "polling", EVID_SWITCH | EVID_HALT, 0, NULL },
	{ "split", "blocked", "a sleep", SCHED | EVID_USER, 0, NULL },
	{ "split", "runnable", "the scheduler", SCHED, 0, NULL },
	{ "split", "preempted", "the scheduler", EVID_SWITCH, 0, NULL },
	/* what is kernel there: without sched_switch, a halt is that whatever else is missing */
	{ "split", "halted", "blocked or waiting", TELLS | EVID_HALT, 0, NULL },
	{ "split", "asleep", "a halt", SCHED, 0, NULL },
	/* states, stages and causes of latency; others are between two of its own events */
	{ "vcpu", "kernel", "KVM", TELLS, 0, NULL },
	{ "vcpu", "vmm", "the VMM", TELLS, 0, NULL },
	{ "vcpu", "halted", "a halt", SCHED, 0, NULL },
	{ "vcpu", "waiting", "the scheduler", SCHED, 0, NULL },
	{ "vcpu", "preempted", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "irq", "wake", "the scheduler", SCHED, 0, NULL },
	{ "irq", "raise", "its source", EVID_RAISE, 0, NULL },
	{ "irq", "late at the source", "its source", EVID_RAISE, 0, NULL },
	{ "irq", "deliver", "KVM", SCHED, 0, NULL },
	{ "irq", "off-cpu", "the scheduler", SCHED, 0, NULL },
	{ "irq", "guest", "the guest", SCHED, 0, NULL },
	{ "irq", "kick out of the guest", "KVM", SCHED, 0, NULL },
	{ "irq", "wake-up of a halted vCPU", "its wake-up", SCHED | EVID_HALT, 0, NULL },
	{ "irq", "vCPU busy in KVM", "KVM", SCHED | EVID_USER, 0, NULL },
	{ "irq", "vCPU busy in the VMM", "the VMM", SCHED | EVID_USER, 0, NULL },
	{ "irq", "vCPU off its CPU", "the scheduler", SCHED, 0, NULL },
	{ "irq", "interrupts off in the guest", "the guest", EVID_SWITCH, 0, NULL },
	{ "irq", "late in the guest", "the guest", SCHED, 0, NULL },
	{ "sched", "total", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "sched", "preempted", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "sched", "waiting", "the scheduler", SCHED, 0, NULL },
	{ "sched", "task", "a handler of the guest", EVID_GUEST_IRQ, 0, NULL },
	{ "sched", "lock or preemption off", "a handler of the guest", EVID_GUEST_IRQ, 0, NULL },
	{ "sched", "idle", "a handler of the guest", EVID_GUEST_IRQ, 0, NULL },
	{ "stealer", "total", "the scheduler", EVID_SWITCH, 0, NULL },
	{ "timer", "off-cpu", "the scheduler", SCHED, 0, NULL },
	{ "timer", "late on the host", "the host", SCHED, 0, NULL },
	{ "timer", "late in the guest", "the guest", SCHED, 0, NULL },
	{ "timer", "vCPU off its CPU", "the scheduler", SCHED, 0, NULL },
	{ "hrtimer", "expire", "the host", EVID_HOST, 0, NULL },
	{ "hrtimer", "deliver", "the host", EVID_HOST, 0, NULL },
	{ "hrtimer", "masked", "the host", EVID_HOST, 0, NULL },
	{ "hrtimer", "enter", "the host", EVID_HOST, 0, NULL },
	{ "hrtimer", "guest", "the host", EVID_HOST, 0, NULL },
	{ "hrtimer", "off-cpu", "the scheduler", SCHED, 0, NULL },
	{ "hrtimer", "late on the host", "the host", SCHED, 0, NULL },
	{ "hrtimer", "late in the guest", "the guest", SCHED, 0, NULL },
	{ "hrtimer", "vCPU off its CPU", "the scheduler", SCHED, 0, NULL },
	{ "task", "waiting", "the guest's scheduler", EVID_GUEST_WAKEUP, 0, NULL },
	{ "task", "stolen", "the host", EVID_HOST, 0, NULL },
	{ "handler", "stolen", "the host", EVID_HOST, 0, NULL },
	{ "io", "submit", "the host", EVID_HOST | EVID_MMIO, 0, NULL },
	{ "io", "host", "the host", EVID_HOST | EVID_MMIO | EVID_ACCEPT | EVID_RAISE, 0, NULL },
	{ "io", "deliver", "the host", EVID_HOST | EVID_ACCEPT | EVID_RAISE, 0, NULL },
	{ "io", "vmm-wait", "the scheduler", SCHED | EVID_USER | EVID_MMIO, 0, NULL },
	{ "io", "disk", "the host's disk", EVID_BLOCK, 0, NULL },
	{ "io", "vmm-cpu", "the scheduler", PATH, 0, NULL },
	{ "io", "vmm-fault", "memory", PATH | EVID_PATH, 0, NULL },
	{ "io", "vmm-lock", "a lock", PATH, 0, NULL },
	{ "io", "vmm-disk", "the host's disk", PATH | EVID_PATH, 0, NULL },
	{ "io", "vmm-sleep", "a sleep", PATH | EVID_PATH, 0, NULL },
	{ "io", "faults", "memory", EVID_SWITCH | EVID_MMIO, 0, NULL },
	{ "mem", "kernel", "KVM", TELLS, 0, NULL },
	{ "mem", "asleep", "a sleep", SCHED, 0, NULL },
	{ "mem", "off-cpu", "the scheduler", SCHED, 0, NULL },
	{ "mem", "vmm", "the VMM", TELLS, 0, NULL },
	{ "mem", "told", "the host", EVID_ASYNC, 0, NULL },
	{ "net-rx", "wake", "the scheduler", SCHED, 0, NULL },
	{ "net-rx", "notify", "the host", EVID_ACCEPT | EVID_RAISE, 0, NULL },
	{ "net-rx", "deliver", "KVM", TAKEN | EVID_RAISE, 0, NULL },
	{ "net-rx", "napi", "the guest", TAKEN, 0, NULL },
	{ "net-rx", "stack", "the guest", WOKEN, 0, NULL },
	{ "net-rx", "run", "the guest's scheduler", WOKEN, 0, NULL },
	{ "net-rx", "ask", "a task of the guest", WOKEN | EVID_GUEST_CALLS, 0, NULL },
	{ "net-rx", "read", "a task of the guest", WOKEN | EVID_GUEST_CALLS, 0, NULL },
	{ "net-tx", "doorbell", "the host", EVID_MMIO, 0, NULL },
	{ "net-tx", "wake", "the scheduler", SCHED | EVID_MMIO, 0, NULL },
	{ "net-tx", "take", "the host", EVID_MMIO, 0, NULL },
	{ "net-tx", "stack", "the host", SCHED, 0, NULL },
	{ "net-tx", "run", "the scheduler", SCHED, 0, NULL },
	{ "net-tx", "ask", "a task of the host", SCHED | EVID_CALLS, 0, NULL },
	{ "net-tx", "read", "a task of the host", SCHED | EVID_CALLS, 0, NULL },
	/* what a vCPU of a recording is, by its absence: that it takes interrupts, see stuck -i */
	{ "stuck", "spinning", "the guest", EVID_TAKES, 0, "it takes interrupts" },
	{ "stuck", "exit-loop", "the guest", EVID_TAKES, 0, "interrupts of a device come for it" },
	/* what it may also have been */
	{ "stuck", "starved", "the scheduler", SCHED, 0, NULL },
	{ "stuck", "throttled", "the scheduler", SCHED, 0, NULL },
	{ "stuck", "stopped", "a signal", EVID_SWITCH, 0, NULL },
	{ "stuck", "blocked", "a sleep", TELLS, 0, NULL },
	{ "stuck", "vmm", "the VMM", TELLS, 0, NULL },
	/* findings of `kvmft clock` */
	{ "clock", "offset-skew", "its TSC", EVID_OFFSET | EVID_OFFSETS, 0, NULL },
	{ "clock", "tsc-jump", "its TSC", EVID_OFFSET | EVID_RUN, 0, NULL },
	{ "clock", "tsc-set", "its TSC", EVID_OFFSET | EVID_RUN, 0, NULL },
	{ "clock", "kvmclock-forwards", "its kvmclock", SETS_CLOCK, 0, NULL },
	{ "clock", "kvmclock-backwards", "its kvmclock", SETS_CLOCK | EVID_RUN, 0, NULL },
	{ "clock", "kvmclock-stood", "its kvmclock", SETS_CLOCK | EVID_RUN, 0, NULL },
	{ "clock", "kvmclock-set-back", "its kvmclock", SETS_CLOCK, 0, NULL },
	{ "clock", "kvmclock-anew", "its kvmclock", EVID_OFFSET | EVID_PVCLOCK | EVID_MASTER, 0, NULL },
	{ "clock", "no-master-clock", "the master clock", EVID_PVCLOCK | EVID_MASTER, 0, NULL },
	{ "clock", "kvmclock-differs", "its kvmclock", EVID_OFFSET | EVID_PVCLOCK | EVID_RUN, 0, NULL },
	{ "clock", "frequency", "its TSC", EVID_RATE | EVID_RECORD, 0, NULL },
	{ "clock", "reads-exit", "its guest", EVID_RUN | EVID_MSR | EVID_PIO | EVID_MMIO, 0, NULL },
	{ "clock", "deadline-past", "its TSC", EVID_OFFSETS | EVID_MSR, 0, NULL },
	{ "clock", "guest-stopped", "its kvmclock", EVID_PVCLOCK, 0, NULL },
	{ "clock", "restored", "its kvmclock", EVID_OFFSET | EVID_PVCLOCK, 0, NULL },
	{ "clock", "wall-clock", "its clocks", EVID_OFFSETS | EVID_WALL, 0, NULL },
	{ "clock", "clocksource", "its clocks", EVID_WALL, 0, NULL },
	{ "clock", "sched-clock", "its clocks", EVID_SCHED, 0, NULL },
	{ "clock", "foreign-tsc", "its TSC", EVID_RUN, 0, NULL },
};

const struct evidence_rule *evidence_at(size_t i)
{
	return i < ARRAY_SIZE(rules) ? &rules[i] : NULL;
}

const struct evidence_rule *evidence_rule(const char *of, const char *what)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(rules) && (strcmp(rules[i].of, of) || strcmp(rules[i].what, what)))
		i++;
	return evidence_at(i);
}

static bool role_shown(const struct fmt *fmt, enum event_role role, const bool *seen)
{
	if (seen)
		return seen[role];
	for (size_t i = 0; role == EV_VECTOR_EXIT && fmt_at(fmt, i); i++)
		if (!event_handler_ends(fmt, fmt_at(fmt, i), NULL))
			return false;
	for (size_t i = 0; fmt_at(fmt, i); i++)
		if (event_role_of(fmt_at(fmt, i)) == role)
			return true;
	return false;
}

uint32_t evidence_recorded(const struct capture *cap, const struct fmt *fmt, bool guest,
			   const bool seen[EV_ROLES])
{
	bool arm64 = cap->arch && !strcmp(cap->arch, "aarch64");
	uint32_t has = 0;

	for (size_t i = 0; i < EVIDENCE_BITS; i++) {
		bool all = true, one = false;

		if (events[i].guest != guest)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(events[i].role) && events[i].role[k]; k++) {
			enum event_role role = events[i].role[k];
			bool is;

			if (arm64 && 1u << i == EVID_TAKES)
				role = EV_VGIC;
			is = role_shown(fmt, role, cap->is_tracedat ? seen : NULL);

			/* KVM does not have these there. */
			is |= arm64 && (role == EV_FAST_MMIO || role == EV_INJECT ||
					role == EV_MSI || role == EV_IPI);
			all &= is;
			one |= is;
		}
		if (events[i].need == ANY || (events[i].need == TOGETHER && cap->is_tracedat))
			all = one;
		if (all)
			has |= 1u << i;
	}
	return has;
}

struct woken_cpus {
	const struct fmt *fmt;
	struct u64map recorded;		 /* threads with events that are about them alone */
	int32_t last;			 /* ... of which the last one seen */
	bool any;			 /* a wakeup, of whatever CPU */
	bool empty[CAPTURE_MAX_CPUS];	 /* by CPU; of these: */
	uint8_t times[CAPTURE_MAX_CPUS]; /* as a target: 0, 1 or more */
	struct {
		int32_t tid;
		uint32_t cpu;
	} woken[1024];
	size_t n;
};

static inline int see_target(void *arg, const struct rec *rec)
{
	struct woken_cpus *w = arg;
	int32_t tid = fmt_pid(w->fmt, rec);
	const struct event_type *e = event_type_of(fmt_by_id(w->fmt, rec->id));
	bool wakes = (e->role == EV_WAKEUP || e->role == EV_WAKEUP_NEW) && e->have >= 2;
	bool about_others = wakes || e->role == EV_SWITCH;
	uint64_t cpu, woken;

	w->any |= wakes;
	if (wakes && fmt_u64(&e->f[1], rec, &cpu) && cpu < CAPTURE_MAX_CPUS && w->empty[cpu]) {
		w->times[cpu] |= (uint8_t)(w->times[cpu] << 1 | 1);
		if (w->n < ARRAY_SIZE(w->woken) && fmt_u64(&e->f[0], rec, &woken)) {
			w->woken[w->n].tid = (int32_t)woken;
			w->woken[w->n++].cpu = (uint32_t)cpu;
		}
	}
	if (!about_others && tid != w->last)
		xu64map_put(&w->recorded, (uint32_t)tid, 1);
	w->last = about_others ? w->last : tid;
	return 0;
}

static int find_unrecorded(struct capture *cap, const struct fmt *fmt)
{
	_cleanup_free_ struct woken_cpus *w = xcalloc(1, sizeof(*w));
	bool empty = false, any;
	int ret = 0;

	for (size_t i = 0; i < cap->nstream && cap->is_tracedat; i++)
		empty |= w->empty[cap->stream[i].cpu] = !cap->stream[i].nsub && !cap->stream[i].cut;
	if (!empty)
		return 0;
	w->fmt = fmt;
	any = event_find(fmt, EV_WAKEUP, 2)->ev || event_find(fmt, EV_WAKEUP_NEW, 2)->ev;
	for (size_t i = 0; i < cap->nstream && !ret && any; i++)
		ret = rstream_each(cap, &cap->stream[i], see_target, w);
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		struct cap_stream *s = &cap->stream[i];
		size_t known = 0;
		uint64_t one;

		if (!w->empty[s->cpu])
			continue;
		s->doubtful = !w->any || w->times[s->cpu] > 1;
		for (size_t k = 0; k < w->n; k++)
			known += w->woken[k].cpu == s->cpu &&
				 u64map_get(&w->recorded, (uint32_t)w->woken[k].tid, &one);
		if (known > 1)
			capture_left_out(cap, s);
	}
	u64map_free(&w->recorded);
	return ret;
}

int evidence_open(const char *path, struct capture **cap, struct fmt **fmt, struct kvmft_err *err)
{
	int ret = capture_open(path, cap, err);

	if (ret)
		return ret;
	*fmt = fmt_load(*cap);
	return find_unrecorded(*cap, *fmt);
}

void evidence_names(uint32_t lacks, const char *between, struct sbuf *b)
{
	for (const char *gap = ""; lacks; lacks &= lacks - 1, gap = between) {
		size_t i = (size_t)__builtin_ctz(lacks);

		sbuf_addf(b, "%s%s %s", gap, events[i].guest ? "guest" : "host", events[i].name);
	}
}

void evidence_json(const char *key, uint32_t lacks, struct json *j)
{
	json_put_array(j, key);
	for (; lacks; lacks &= lacks - 1) {
		_cleanup_(sbuf_free) struct sbuf name = { 0 };

		evidence_names(lacks & -lacks, "", &name);
		json_str(j, xsbuf_text(&name));
	}
	json_array_end(j);
}

void evidence_candidates(const struct evidence_rule *r, uint32_t lacks, char *buf, size_t size)
{
	const char *name[EVIDENCE_BITS + 1] = { r->who };
	size_t n = 1, len;

	for (size_t i = 0; i < EVIDENCE_BITS; i++) {
		size_t k = 0;

		while (k < n && strcmp(name[k], events[i].rival))
			k++;
		if (lacks >> i & 1 && k == n)
			name[n++] = events[i].rival;
	}
	snprintf(buf, size, "not recorded: ");
	for (size_t i = 0; i < n; i++) {
		len = strlen(buf);
		snprintf(buf + len, size - len, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", name[i]);
	}
}

void evidence_remedy(uint32_t lacks, struct sbuf *b)
{
	bool host = false, guest = false;

	for (size_t i = 0; i < EVIDENCE_BITS; i++) {
		host |= lacks >> i & 1 && !events[i].guest;
		guest |= lacks >> i & 1 && events[i].guest;
	}
	if (host) {
		sbuf_add(b, "`kvmft record -e default");
		for (size_t i = 0; i < EVIDENCE_BITS; i++)
			if (lacks >> i & 1 && events[i].more)
				sbuf_addf(b, " %s", events[i].more);
		sbuf_add(b, "` on the host");
	}
	if (guest)
		sbuf_addf(b, "%s`kvmft record` in the guest", host ? ", " : "");
}
