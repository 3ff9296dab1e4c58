/* SPDX-License-Identifier: GPL-2.0-or-later */
/* advise.c: what `kvmft advise` can say, what that needs, and what a host's events say it costs. */
#include "kvmft/advise.h"
#include "kvmft/exit_names.h"

#define EXITS \
	(EVID_RUN | EVID_SWITCH) /* how much CPU time they took, without what their thread waited */
#define PLACE "taskset -cp CPU TID of each vCPU; together not more of them than CPUs"
#define PIN   "<vcpupin vcpu='N' cpuset='CPU'/>"

const struct advice_rule advice_rules[ADVICE_RULES] = {
	[ADVICE_CLOCK_READS] = { "clock-reads", ADVICE_CPU, false,
				 EXITS | EVID_MSR | EVID_PIO | EVID_MMIO, EV_NONE, NULL,
				 "reads of clocks exit",
				 "-cpu host, clocksource=kvm-clock in the guest; Windows: hv-time; -machine hpet=off",
				 "<timer name='hpet' present='no'/>; <timer name='hypervclock' present='yes'/>",
				 NULL, NULL, "virt/kvm/x86/timekeeping.rst" },
	[ADVICE_TICK] = { "tick", ADVICE_CPU, false, EXITS, EV_SET_IRQ, NULL,
			  "a PIT, HPET or RTC that ticks wakes an idle guest",
			  "-cpu host, for its tsc-deadline timer; Windows: hv-stimer; microvm: pit=off,rtc=off",
			  "<feature policy='require' name='tsc-deadline'/>; <timer name='hpet' present='no'/>",
			  NULL, NULL, "virt/kvm/x86/timekeeping.rst" },
	[ADVICE_XAPIC] = { "xapic", ADVICE_CPU, true, EXITS | EVID_MMIO, EV_NONE, NULL,
			   "the local APIC is reached through memory", "-cpu ...,+x2apic",
			   "<feature policy='require' name='x2apic'/>", NULL, NULL,
			   "virt/kvm/x86/cpuid.rst" },
	[ADVICE_APICV] = { "apicv-off", ADVICE_CPU, true, EXITS | EVID_MSR, EV_NONE, NULL,
			   "the processor does not serve the local APIC itself", NULL, NULL,
			   "modprobe kvm_intel enable_apicv=1, or kvm_amd avic=1, while no VM runs",
			   "AVIC is given up where something inhibits it: kvm_apicv_inhibit_changed",
			   "admin-guide/kernel-parameters.txt" },
	[ADVICE_POLL_WASTE] = { "poll-waste", ADVICE_CPU, false, EXITS | EVID_HALT, EV_NONE, NULL,
				"halted vCPUs poll in vain before they sleep", NULL, NULL,
				"echo 0 > /sys/module/kvm/parameters/halt_poll_ns, or a fraction of what it is",
				"short halts end a wake-up later", "virt/kvm/halt-polling.rst" },
	[ADVICE_POLL_OFF] = { "poll-off", ADVICE_WAIT, true,
			      EVID_SWITCH | EVID_WAKEUP | EVID_HALT | EVID_RUN, EV_NONE, NULL,
			      "halts of less than 50 us sleep, and wait to be woken", NULL, NULL,
			      "echo 200000 > /sys/module/kvm/parameters/halt_poll_ns",
			      "CPU time while a vCPU polls", "virt/kvm/halt-polling.rst" },
	[ADVICE_DEVICE] = { "vmm-device", ADVICE_CPU, true,
			    EXITS | EVID_USER | EVID_MMIO | EVID_PIO, EV_NONE, NULL,
			    "devices are served by the VMM in the thread of the vCPU",
			    "virtio devices with ioeventfd=on, vhost=on for networks, in the place of emulated ones",
			    "<driver name='vhost' ioeventfd='on'/>", NULL, NULL,
			    "virt/kvm/api.rst (KVM_IOEVENTFD)" },
	[ADVICE_SERIAL] = { "serial", ADVICE_CPU, false, EXITS | EVID_PIO, EV_NONE, NULL,
			    "a serial or debug port is written byte by byte",
			    "-device virtio-serial -device virtconsole,chardev=...; quiet in the guest's command line",
			    "<console type='pty'><target type='virtio'/></console>", NULL,
			    "what is printed before the driver is there is missing",
			    "admin-guide/serial-console.rst" },
	[ADVICE_SMALL_PAGES] = { "small-pages", ADVICE_CPU, true, EXITS, EV_SPTE, "-e mem",
				 "memory is mapped in pages of 4 KiB, one fault each",
				 "-object memory-backend-memfd,id=m,size=...,hugetlb=on -machine memory-backend=m",
				 "<memoryBacking><hugepages/></memoryBacking>",
				 "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
				 "memory that is reserved, or wasted",
				 "admin-guide/mm/hugetlbpage.rst, transhuge.rst" },
	[ADVICE_NX_PAGES] = { "nx-huge-pages", ADVICE_CPU, true, EXITS, EV_PAGE_FAULT, NULL,
			      "huge pages are split where the guest executes", NULL, NULL,
			      "echo never > /sys/module/kvm/parameters/nx_huge_pages",
			      "on CPUs with the erratum a guest can stop the host",
			      "admin-guide/hw-vuln/multihit.rst" },
	[ADVICE_DIRTY_LOG] = { "dirty-log", ADVICE_CPU, false, EXITS, EV_FAST_FAULT, "-e mem",
			       "writes are logged page by page",
			       "end what asks for it: migrate_cancel, or the dirty rate or display that does",
			       "virsh domjobabort DOMAIN", NULL, "whatever asked for it",
			       "virt/kvm/api.rst (KVM_GET_DIRTY_LOG)" },
	[ADVICE_PAUSE] = { "pause", ADVICE_CPU, true, EXITS, EV_NONE, NULL,
			   "vCPUs spin on locks whose holders do not run", NULL, PIN, PLACE, NULL,
			   "virt/kvm/vcpu-requests.rst" },
	[ADVICE_EMULATOR] = { "emulator-shares", ADVICE_WAIT, false, EVID_SWITCH | EVID_WAKEUP,
			      EV_NONE, NULL,
			      "vCPUs wait for a CPU that other threads of their own VM use",
			      "taskset -cp CPUS TID of its other threads, to CPUs without vCPUs",
			      "<emulatorpin cpuset='CPUS'/>, <iothreadpin iothread='N' cpuset='CPUS'/>",
			      NULL, NULL, "admin-guide/cgroup-v2.rst" },
	[ADVICE_CROWDED] = { "crowded", ADVICE_WAIT, false, EVID_SWITCH | EVID_WAKEUP, EV_NONE,
			     NULL, "vCPUs wait for a CPU that others use", NULL, PIN, PLACE,
			     "CPUs that idle", "admin-guide/cgroup-v2.rst" },
	[ADVICE_THROTTLED] = { "throttled", ADVICE_WAIT, false, EVID_SWITCH, EV_NONE, NULL,
			       "vCPUs that could run do not, on CPUs that idle", NULL,
			       "virsh schedinfo DOMAIN --live --set vcpu_quota=-1",
			       "echo max > cpu.max of its cgroup", "what the limit was for",
			       "scheduler/sched-bwc.rst" },
	[ADVICE_IDLE_DEEP] = { "idle-deep", ADVICE_WAIT, true, EVID_SWITCH | EVID_WAKEUP,
			       EV_CPU_IDLE, NULL,
			       "vCPUs wait for a CPU that wakes from idle state 2 or deeper", NULL,
			       NULL, "cpupower -c CPUS idle-set -D 10",
			       "power, and less turbo for others", "admin-guide/pm/cpuidle.rst" },
	[ADVICE_MIGRATES] = { "migrates", ADVICE_COUNT, false, EVID_RUN, EV_NONE, NULL,
			      "vCPUs move from CPU to CPU", NULL, PIN,
			      "taskset -cp CPU TID of each vCPU", "CPUs that idle",
			      "admin-guide/cgroup-v2.rst" },
	[ADVICE_CLOCKS] = { "clocks", ADVICE_COUNT, false, 0, EV_NONE, NULL, "its clocks are ill",
			    NULL, NULL, "`kvmft clock` says what happened and what to do", NULL,
			    "virt/kvm/x86/timekeeping.rst" },
};

#define FIRMWARE  (1ull << 32) /* it reads clocks and ports to wait, and not for long */
#define SHORT_NS  50000u
#define DEEP	  2u
#define PER_S	  20u	/* what happens less often is not worth a setting */
#define MOVES_N	  100u	/* in all */
#define MOVES	  50u	/* a second; fewer are the scheduler's business */
#define QUANTILE  2576u /* of 99 %, in thousandths */
#define SLICE_MIN (1ull << 20)
#define NOT_IDLE  0xffffffffu /* by cpu_idle's end */
#define UNKNOWN	  0xfffffffeu

struct advise_vcpu {
	uint64_t entry, exit; /* stamps of its last ones; 0: none, or events are missing since */
	uint64_t off;	      /* since when it has no CPU; 0: it has one */
	uint64_t gone;	      /* for how long it had none since that exit */
	uint64_t woken;	      /* when, since it has none; 0: it sleeps, or was not asleep */
	uint64_t least;	      /* time from a halt to its sleep */
	uint64_t ticked;      /* since when it works for a tick; 0: it does not */
	uint64_t ticks;	      /* what that took before */
	uint64_t isa, key;    /* what its exit reaches, ... */
	enum event_role role; /* ... by which event */
	uint64_t taker;	      /* why it waits: for which thread, or idle state */
	uint32_t cpu, idle;   /* of its last entry; state of the CPU that it was woken on */
	enum advice is, wait; /* what its exit is for; why it waits. ADVICE_RULES: nothing */
	bool placed, halted, user, fault, brief;
	uint64_t gaps; /* how many there had been when it was seen last */
};

/* Exits by what they are, and by the first event in them that says more. */
static const struct {
	enum event_role role;
	uint64_t isa, from, to;
	enum { READS = 1, WRITES, BOTH } how;
	enum advice is;
} advise_exits[] = {
	{ EV_EXIT, EXIT_ISA_VMX, 40, 40, BOTH, ADVICE_PAUSE },
	{ EV_EXIT, EXIT_ISA_SVM, 0x77, 0x77, BOTH, ADVICE_PAUSE },
	{ EV_EXIT, EXIT_ISA_VMX, 62, 62, BOTH, ADVICE_DIRTY_LOG }, /* its log of pages is full */
	{ EV_EXIT, EXIT_ISA_VMX, 7, 7, BOTH, ADVICE_APICV },	   /* interrupt windows */
	{ EV_EXIT, EXIT_ISA_SVM, 0x64, 0x64, BOTH, ADVICE_APICV },
	{ EV_MSR, 0, 0x808, 0x808, WRITES, ADVICE_APICV }, /* TPR, EOI, self-IPI of the x2APIC */
	{ EV_MSR, 0, 0x80b, 0x80b, WRITES, ADVICE_APICV },
	{ EV_MSR, 0, 0x83f, 0x83f, WRITES, ADVICE_APICV },
	{ EV_MMIO, 0, 0xfee00000, 0xfee00fff, BOTH, ADVICE_XAPIC },
	{ EV_PIO, 0, 0x3f8, 0x3ff, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x2f8, 0x2ff, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x3e8, 0x3ef, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x2e8, 0x2ef, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0xe9, 0xe9, BOTH, ADVICE_SERIAL },
	{ EV_PIO, 0, 0x402, 0x402, BOTH, ADVICE_SERIAL },
	{ EV_MMIO, 0, 0, UINT64_MAX, BOTH, ADVICE_DEVICE },
	{ EV_PIO, 0, 0, UINT64_MAX, BOTH, ADVICE_DEVICE },
};

/* ---- sums ---- */

static void advise_charge(struct advise_vm *vm, enum advice is, enum event_role role, uint64_t key,
			  uint64_t cycles, uint64_t at)
{
	struct advice_sum *s;
	struct advice_key *k;

	if (!vm->first || at < vm->first) /* what came before it first ran is no part of the time */
		return;
	s = vm->sum[is] = vm->sum[is] ?: xcalloc(1, sizeof(*s));
	k = s->key;
	/* Slices become twice as long when all are full. */
	for (; (at - vm->first) / vm->slice >= ADVICE_SLICES; vm->slice *= 2)
		for (int r = 0; r < ADVICE_SUMS; r++)
			for (size_t i = 0; vm->sum[r] && i < ADVICE_SLICES; i++) {
				uint64_t *v = vm->sum[r]->slice;

				v[i] = i < ADVICE_SLICES / 2 ? v[2 * i] + v[2 * i + 1] : 0;
			}
	s->n++;
	s->spent += cycles;
	s->slice[(at - vm->first) / vm->slice] += cycles;
	while (k < s->key + s->nkeys && (k->key != key || k->role != role))
		k++;
	if (k == s->key + ADVICE_KEYS)
		k--;
	if (k == s->key + s->nkeys)
		s->key[s->nkeys++] = (struct advice_key){ .role = role, .key = key };
	k->n++;
	k->spent += cycles;
}

const struct advice_sum *advice_sum_of(const struct advise_vm *vm, enum advice is)
{
	static const struct advice_sum none;

	return vm->sum[is] ?: &none;
}

/* ---- exits ---- */

static void exit_is(struct advise_vcpu *v, enum event_role role, uint64_t what, uint64_t isa,
		    bool write)
{
	unsigned int clock = clock_read_kind(role, what, isa, write);

	v->role = role;
	v->key = what;
	if (clock && clock <= CLOCK_TIMERS) {
		v->is = ADVICE_CLOCK_READS;
		v->key = clock - 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(advise_exits) && v->is == ADVICE_RULES; i++)
		if (advise_exits[i].role == role && isa == advise_exits[i].isa &&
		    what >= advise_exits[i].from && what <= advise_exits[i].to &&
		    advise_exits[i].how & (write ? WRITES : READS))
			v->is = advise_exits[i].is;
}

static void advise_exit(struct advise_vm *vm, struct advise_vcpu *v, const struct tl_item *i)
{
	const struct event_type *e = event_type_of(i->ev);
	uint64_t reason = tl_field(i, 0), isa = tl_field(i, 1);

	if (v->entry)
		vm->guest += i->host - v->entry;
	v->entry = v->gone = 0;
	v->exit = i->host;
	v->is = ADVICE_RULES;
	v->isa = isa;
	v->user = v->fault = v->brief = false;
	v->halted = isa == EXIT_ISA_VMX ? reason == 12 : isa == EXIT_ISA_SVM && reason == 0x78;
	if (v->halted && v->ticked) /* what it was woken for is done */
		advise_charge(vm, ADVICE_TICK, EV_NONE, 0, v->ticks + i->host - v->ticked, i->host);
	v->ticked = v->halted ? 0 : v->ticked;
	if (e->f[2].size && tl_field(i, 2) < FIRMWARE)
		v->exit = 0;
	else
		exit_is(v, EV_EXIT, reason, isa, false);
}

static void advise_entry(struct advise_vm *vm, struct advise_vcpu *v, const struct tl_item *i)
{
	uint64_t spent = v->exit ? i->host - v->exit : 0;

	spent -= MIN(spent, v->gone);
	if (v->placed && v->cpu != i->cpu)
		advise_charge(vm, ADVICE_MIGRATES, EV_NONE, 0, 0, i->host);
	v->placed = true;
	v->cpu = i->cpu;
	if (v->exit && v->halted && vm->tick && vm->tick > v->exit) {
		v->ticked = i->host;
		v->ticks = spent;
		vm->tick = 0;
	}
	if (v->exit)
		advise_charge(vm, ADVICE_ALL_EXITS, EV_NONE, 0, spent, i->host);
	if (v->exit && v->is != ADVICE_RULES && (v->is != ADVICE_DEVICE || v->user))
		advise_charge(vm, v->is, v->role, v->key, spent, i->host);
	if (v->brief && v->woken)
		advise_charge(vm, ADVICE_POLL_OFF, EV_NONE, 0, i->host - v->woken, i->host);
	v->woken = 0;
	v->entry = i->host;
	v->exit = 0;
}

/* ---- CPUs ---- */

static struct advise_vcpu *advise_vcpu_of(struct advise *a, int32_t tid, struct advise_vm **vm)
{
	const struct hostmap *m = tl_hostmap(a->t);
	const struct hostmap_thread *t = hostmap_thread(m, tid);
	size_t of = t && t->vm < a->n ? m->vm[t->vm].of : a->n;
	struct clock_vcpu *v =
		of < a->n && !t->floats ? clock_vcpu_by_id(&a->clocks->vm[of], t->vcpu) : NULL;
	struct advise_vcpu *one;

	*vm = v ? &a->vm[of] : NULL;
	if (!v)
		return NULL;
	one = &(*vm)->vcpu[v - a->clocks->vm[of].vcpu];
	if (one->gaps != a->gaps) { /* what was going on may have ended in one */
		one->entry = one->exit = one->off = one->woken = one->gone = one->ticked = 0;
		one->wait = ADVICE_RULES;
		one->gaps = a->gaps;
	}
	if ((*vm)->gaps != a->gaps)
		(*vm)->tick = 0;
	(*vm)->gaps = a->gaps;
	return one;
}

/* It waits for that thread, which has its CPU. */
static void wait_for(const struct advise *a, const struct advise_vm *vm, struct advise_vcpu *v,
		     int32_t tid)
{
	const struct hostmap *m = tl_hostmap(a->t);
	ssize_t of = hostmap_task_vm(m, tid);

	v->taker = (uint32_t)tid;
	v->wait = ADVICE_EMULATOR;
	if (hostmap_thread(m, tid) || of < 0 || &a->vm[m->vm[of].of] != vm)
		v->wait = ADVICE_CROWDED;
}

/*
 * Threads of others may switch unrecorded: only those before and after a vCPU are known, and
 * whether a CPU is idle. One that a vCPU is woken on must be known to be busy.
 */
static void advise_switch(struct advise *a, const struct tl_item *i)
{
	int32_t prev = (int32_t)tl_field(i, 0), next = (int32_t)tl_field(i, 2);
	bool sleeps = event_task_sleeps(tl_field(i, 1));
	struct advise_vm *vm;
	struct advise_vcpu *v = advise_vcpu_of(a, prev, &vm);
	enum event_role by = EV_SWITCH;
	uint64_t took;

	if (v) {
		v->off = i->host;
		v->woken = 0;
		v->wait = sleeps ? ADVICE_RULES : ADVICE_THROTTLED;
		if (!sleeps && next)
			wait_for(a, vm, v, next);
		took = i->host - v->exit;
		if (v->halted && v->exit && sleeps && !v->gone) {
			v->least = v->least ? MIN(v->least, took) : took;
			if (took > 2 * v->least)
				advise_charge(vm, ADVICE_POLL_WASTE, EV_NONE, 0,
					      took - 2 * v->least, i->host);
		}
	}
	v = advise_vcpu_of(a, next, &vm);
	if (!v || !v->off)
		return;
	v->gone += i->host - v->off;
	took = i->host - MAX(v->off, v->woken);
	if (v->woken && v->idle >= DEEP && v->idle < UNKNOWN) {
		v->wait = ADVICE_IDLE_DEEP;
		v->taker = v->idle;
		by = EV_CPU_IDLE;
	} else if (v->woken && v->idle == NOT_IDLE && prev) {
		wait_for(a, vm, v, prev);
	}
	if (v->wait != ADVICE_RULES) {
		by = v->wait == ADVICE_THROTTLED ? EV_NONE : by;
		advise_charge(vm, v->wait, by, by ? v->taker : 0, took, i->host);
		advise_charge(vm, ADVICE_ALL_WAITS, EV_NONE, 0, took, i->host);
	}
	v->off = 0;
}

/* ---- the walk ---- */

struct advise *advise_new(struct clockcheck *c)
{
	struct advise *a = xcalloc(1, sizeof(*a));
	const char *nx;

	a->clocks = c;
	a->t = c->t;
	a->cap = c->cap;
	nx = advise_param(a, "kvm", "nx_huge_pages");
	a->nx = nx && (*nx == 'Y' || *nx == '1');
	a->vm = xcalloc(c->n + 1, sizeof(*a->vm));
	for (; a->n < c->n; a->n++) {
		struct advise_vm *vm = &a->vm[a->n];

		vm->slice = SLICE_MIN;
		vm->n = c->vm[a->n].n;
		vm->vcpu = xcalloc(vm->n + 1, sizeof(*vm->vcpu));
		for (size_t i = 0; i < vm->n; i++)
			vm->vcpu[i].is = vm->vcpu[i].wait = ADVICE_RULES;
	}
	return a;
}

void advise_free(struct advise *a)
{
	for (size_t i = 0; a && a->vm && i <= a->n; i++) {
		free(a->vm[i].vcpu);
		for (int r = 0; r < ADVICE_SUMS; r++)
			free(a->vm[i].sum[r]);
	}
	free(a ? a->vm : NULL);
	free(a ? a->idle : NULL);
	free(a);
}

static void advise_idle(struct advise *a, uint64_t cpu, uint32_t state)
{
	while (a->ncpu <= cpu && cpu < CAPTURE_MAX_CPUS) {
		xarray_grow(&a->idle, a->ncpu, &a->cpu_cap, sizeof(*a->idle));
		a->idle[a->ncpu++] = UNKNOWN;
	}
	if (cpu < a->ncpu)
		a->idle[cpu] = state;
}

void advise_feed(void *advise, const struct tl_item *i)
{
	struct advise *a = advise;
	struct advise_vm *vm;
	struct advise_vcpu *v;
	enum event_role role;
	uint64_t old, how, what, nx;
	ssize_t of;

	if (i->kind != TL_EVENT && !i->src->index) {
		/* Events are missing: what was going on is not known to have ended as it seems. */
		a->gaps++;
		for (size_t k = 0; k < a->ncpu; k++)
			a->idle[k] = UNKNOWN;
	}
	if (i->kind != TL_EVENT || i->src->index || !i->ev || i->marker)
		return;
	role = event_role_of(i->ev);
	how = tl_field(i, 0);
	what = tl_field(i, 1);
	switch (role) {
	case EV_SWITCH: advise_switch(a, i); return;
	case EV_WAKEUP:
		v = advise_vcpu_of(a, (int32_t)how, &vm);
		if (!v || !v->off || v->wait != ADVICE_RULES || v->woken)
			return;
		v->woken = i->host;
		v->idle = what < a->ncpu ? a->idle[what] : UNKNOWN;
		return;
	case EV_CPU_IDLE: advise_idle(a, what, (uint32_t)how); return;
	case EV_SET_IRQ:
	case EV_APICV_INHIBIT:
		of = hostmap_task_vm(tl_hostmap(a->t), i->tid);
		if (of < 0)
			return;
		vm = &a->vm[tl_hostmap(a->t)->vm[of].of];
		if (role == EV_APICV_INHIBIT) {
			if (!vm->inhibits || vm->inhibit_gaps != a->gaps)
				vm->inhibited = i->host;
			vm->inhibit_gaps = a->gaps;
			vm->inhibits = how;
		} else if (what && (how == 0 || how == 2 || how == 8)) { /* PIT, HPET or RTC */
			vm->tick = i->host;
			vm->gaps = a->gaps;
		}
		return;
	default: break;
	}
	v = advise_vcpu_of(a, i->tid, &vm);
	if (!v)
		return;
	if (role == EV_ENTRY || role == EV_EXIT) {
		vm->first = vm->first ?: i->host;
		vm->last = i->host;
	}
	switch (role) {
	case EV_ENTRY: advise_entry(vm, v, i); break;
	case EV_EXIT: advise_exit(vm, v, i); break;
	case EV_MSR:
	case EV_PIO:
	case EV_MMIO:
		if (v->exit && (v->is == ADVICE_RULES || v->is == ADVICE_APICV))
			exit_is(v, role, what, 0, role == EV_MMIO ? how == 2 : how != 0);
		break;
	case EV_USER_EXIT: v->user = true; break;
	case EV_PAGE_FAULT: /* the code as the processor has it: EPT's, or a page fault's */
		nx = v->isa == EXIT_ISA_VMX ? 4 | 8 : 16 | 1;
		v->fault = v->exit != 0;
		if (v->fault && v->is == ADVICE_RULES && a->nx && (what & nx) == nx)
			v->is = ADVICE_NX_PAGES;
		v->role = EV_NONE;
		v->key = 0;
		break;
	case EV_SPTE:
		if (v->fault && v->is == ADVICE_RULES && what == 1 && tl_field(i, 3) & 1 &&
		    !(tl_field(i, 2) & 1))
			v->is = ADVICE_SMALL_PAGES;
		break;
	case EV_FAST_FAULT: /* it may be read, and written if it were not logged */
		old = tl_field(i, 2);
		if (v->fault && old & 1 && ~old & tl_field(i, 3) & 2)
			v->is = ADVICE_DIRTY_LOG;
		break;
	case EV_VCPU_WAKEUP: v->brief = what && how < SHORT_NS; break;
	default: break;
	}
}

const char *advise_param(const struct advise *a, const char *module, const char *name)
{
	for (size_t i = 0; i < a->cap->nparam; i++)
		if (!strcmp(a->cap->param[i].module, module) &&
		    !strcmp(a->cap->param[i].name, name))
			return a->cap->param[i].value;
	return NULL;
}

/* ---- the end ---- */

void advise_finish(struct advise *a)
{
	const struct fmt *fmt = tl_hostmap(a->t)->fmt;

	a->recorded = evidence_recorded(a->cap, fmt, false, a->clocks->seen);
	for (int r = EV_NONE + 1; r < EV_ROLES; r++)
		a->has[r] = a->cap->is_tracedat ? a->clocks->seen[r]
						: event_format(fmt, (enum event_role)r) != NULL;
}

bool advise_known(const struct advise *a, size_t vm, enum advice is)
{
	const struct advice_rule *rule = &advice_rules[is];
	const char *polls = advise_param(a, "kvm", "halt_poll_ns");

	if ((is == ADVICE_POLL_WASTE || is == ADVICE_POLL_OFF) && !polls)
		return false;
	if (is == ADVICE_NX_PAGES && !advise_param(a, "kvm", "nx_huge_pages"))
		return false;
	if (is == ADVICE_CLOCKS)
		return clockcheck_verdict(a->clocks, &a->clocks->vm[vm]) != CLOCK_UNKNOWN;
	return !(rule->needs & ~a->recorded) && (rule->also == EV_NONE || a->has[rule->also]);
}

/* How far its mean may be off, in millionths: full slices are a sample, at most 100 CPUs each. */
static uint64_t advise_unsure(const struct advise_vm *vm, const struct advice_sum *s, size_t full)
{
	uint64_t part[ADVICE_SLICES], mean = 0, squares = 0;

	for (size_t i = 0; i < full; i++) {
		part[i] = (uint64_t)MIN((unsigned __int128)s->slice[i] * 1000000 / vm->slice,
					(unsigned __int128)100000000);
		mean += part[i];
	}
	if (full < 2)
		return 1000000;
	mean /= full;
	for (size_t i = 0; i < full; i++)
		squares += part[i] > mean ? (part[i] - mean) * (part[i] - mean)
					  : (mean - part[i]) * (mean - part[i]);
	return u64_root(squares / (full * (full - 1))) * QUANTILE / 1000;
}

void advise_mean(const struct advise *a, size_t at, enum advice sum, struct advice_cost *cost)
{
	const struct advise_vm *vm = &a->vm[at];
	const struct advice_sum *s = advice_sum_of(vm, sum);
	uint64_t span = vm->last - vm->first, khz = a->cap->tsc_khz;
	uint64_t ns = khz ? tsc_cycles_to_ns(span, khz) : 0, off;

	*cost = (struct advice_cost){ .count = s->n };
	if (!span)
		return;
	off = advise_unsure(vm, s, MIN(span / vm->slice, (uint64_t)ADVICE_SLICES));
	off = off / 1000 + 1;
	cost->per_s = ns ? (uint64_t)((unsigned __int128)s->n * 1000000000 / ns) : 0;
	cost->pm = (uint64_t)((unsigned __int128)s->spent * 1000 / span);
	cost->low = cost->pm - MIN(cost->pm, off);
	cost->high = cost->pm + off;
}

void advise_cost(const struct advise *a, size_t at, enum advice is, struct advice_cost *cost)
{
	const struct clock_vm *clocks = &a->clocks->vm[at];
	const char *polls = advise_param(a, "kvm", "halt_poll_ns");
	uint64_t ill = 0;

	advise_mean(a, at, is, cost);
	for (size_t k = 0; is == ADVICE_CLOCKS && k < clocks->nseen; k++)
		ill += !clock_rules[clocks->seen[k].is].note && clocks->seen[k].is != CLOCK_READS;
	if (is == ADVICE_CLOCKS)
		cost->count = ill;
	cost->speaks = cost->count && advise_known(a, at, is);
	if (is == ADVICE_MIGRATES)
		cost->speaks &= cost->count >= MOVES_N && cost->per_s >= MOVES * a->vm[at].n;
	else if (advice_rules[is].cost != ADVICE_COUNT)
		cost->speaks &= cost->pm >= ADVISE_LEAST;
	if (advice_rules[is].cost == ADVICE_CPU)
		cost->speaks &= cost->per_s >= PER_S || !a->cap->tsc_khz;
	if (cost->speaks && (is == ADVICE_POLL_WASTE || is == ADVICE_POLL_OFF))
		cost->speaks = !strcmp(polls, "0") == (is == ADVICE_POLL_OFF);
	cost->vague = cost->speaks && advice_rules[is].cost != ADVICE_COUNT &&
		      cost->low < ADVISE_LEAST;
	cost->speaks &= !cost->vague;
}
