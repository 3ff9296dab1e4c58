/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * what.c: which side is recorded, which events, and of which threads; threads that appear later.
 */
#include "record.h"

#include <sched.h>

/* Everything that the analyses use, and nothing that only repeats it (kvm_cr, kvm_pic_set_irq). */
static const char *const set_host[] = {
	"kvm:kvm_entry",
	"kvm:kvm_exit",
	"kvm:kvm_userspace_exit",
	"kvm:kvm_vcpu_wakeup",
	"kvm:kvm_halt_poll_ns",
	/* what an exit was for */
	"kvm:kvm_pio",
	"kvm:kvm_mmio",
	"kvm:kvm_fast_mmio",
	"kvm:kvm_msr",
	"kvm:kvm_hypercall",
	"kvm:kvm_hv_hypercall",
	"kvm:kvm_xen_hypercall",
	"kvm:kvm_cpuid",
	"kvm:kvm_page_fault",
	"kvm:kvm_guest_fault",
	"kvm:kvm_wfx_arm64",
	"kvm:kvm_hvc_arm64",
	"kvm:kvm_sys_access",
	"kvm:kvm_nested_vmexit",
	"kvm:kvm_nested_vmenter",
	"kvm:kvm_nested_vmrun",
	"kvm:kvm_vmgexit_enter",
	"kvm:kvm_vmgexit_exit",
	/* interrupts, from their source to the end */
	"kvm:kvm_set_irq",
	"kvm:kvm_msi_set_irq",
	"kvm:kvm_ioapic_set_irq",
	"kvm:kvm_apic_ipi",
	"kvm:kvm_hv_send_ipi",
	"kvm:kvm_hv_send_ipi_ex",
	"kvm:kvm_hv_stimer_start_one_shot",
	"kvm:kvm_hv_stimer_start_periodic",
	"kvm:kvm_hv_stimer_expiration",
	"kvm:kvm_hv_synic_set_irq",
	"kvm:kvm_apic_accept_irq",
	"kvm:kvm_apicv_accept_irq",
	"kvm:kvm_inj_virq",
	"kvm:kvm_inj_exception",
	"kvm:kvm_eoi",
	"kvm:kvm_pv_eoi",
	"kvm:kvm_ack_irq",
	"kvm:kvm_wait_lapic_expire",
	"kvm:kvm_hv_timer_state",
	"kvm:kvm_pi_irte_update",
	"kvm:kvm_apicv_inhibit_changed",
	"kvm:kvm_apicv_update_request", /* ... before Linux 5.17 */
	"kvm:kvm_ple_window_update",
	"kvm:kvm_async_pf_not_present",
	"kvm:kvm_async_pf_ready",
	"kvm:kvm_avic_doorbell",
	"kvm:kvm_avic_incomplete_ipi",
	"kvm:kvm_avic_unaccelerated_access",
	"kvm:kvm_avic_kick_vcpu_slowpath",
	"kvm:kvm_avic_ga_log",
	"kvm:kvm_irq_line",
	"kvm:vgic_update_irq_pending",
	"kvm:kvm_timer_hrtimer_expire",
	NULL,
};

/* How long the guest ran, why and for how long it exited, and what was injected. */
static const char *const set_lean[] = {
	"kvm:kvm_entry",
	"kvm:kvm_exit",
	"kvm:kvm_inj_virq",
	NULL,
};

/* What shows why a vCPU waited for memory, and nothing more frequent than faults. */
static const char *const set_mem[] = {
	"kvm:kvm_entry",
	"kvm:kvm_exit",
	"kvm:kvm_userspace_exit",
	"kvm:kvm_page_fault",
	"kvm:kvm_mmio",
	"kvm:kvm_fast_mmio",
	"kvm:kvm_unmap_hva_range",
	"kvmmmu:kvm_tdp_mmu_spte_changed",
	"kvmmmu:fast_page_fault",
	"sched:sched_switch",
	"sched:sched_waking",
	"sched:sched_wakeup",
	"kmem:mm_page_alloc/gfp_flags & 8/", /* __GFP_MOVABLE: memory of programs */
	"block:block_bio_queue",
	"filemap:mm_filemap_add_to_page_cache",
	"writeback:writeback_dirty_folio",
	"kvm:kvm_try_async_get_page",
	"kvm:kvm_async_pf_completed",
	"kvm:kvm_async_pf_not_present",
	"kvm:kvm_async_pf_ready",
	"vmscan:mm_vmscan_write_folio",
	"vmscan:mm_vmscan_direct_reclaim_begin",
	"compaction:mm_compaction_begin",
	"migrate:mm_migrate_pages",
	"huge_memory:mm_collapse_huge_page",
	"kprobes:hugetlb_fault", /* if somebody made these probes */
	"kprobes:handle_userfault",
	NULL,
};

/* What threads of a VMM wait for while they work for a guest's request. */
static const char *const set_io[] = {
	"sched:sched_switch",
	"sched:sched_waking",
	"sched:sched_wakeup",
	"block:block_rq_issue",
	"block:block_rq_complete",
	"block:block_bio_queue",
	"filemap:mm_filemap_add_to_page_cache",
	"exceptions:page_fault_user",
	"exceptions:page_fault_kernel",
	"raw_syscalls:sys_enter",
	NULL,
};

#define VECTOR(name) "irq_vectors:" name "_entry", "irq_vectors:" name "_exit"

/* What a VM's boot goes through: its VMM, KVM_CREATE_VM, memory for it, disk, packets. */
static const char *const set_boot[] = {
	"sched:sched_process_exec",
	"sched:sched_switch",
	"sched:sched_waking",
	"sched:sched_wakeup",
	"syscalls:sys_enter_ioctl/cmd == 0xae01 || cmd == 0x4020ae46 || cmd == 0x40a0ae49/",
	"block:block_rq_issue",
	"block:block_rq_complete",
	"net:net_dev_start_xmit",
	"net:netif_receive_skb",
	"irq:irq_handler_entry",
	"irq:irq_handler_exit",
	"irq:softirq_entry",
	"irq:softirq_exit",
	VECTOR("local_timer"),
	NULL,
};

/* Where packets were. The tasks that read them: who was woken, and when it ran. */
#define NET_CALLS(name) "syscalls:sys_enter_" name, "syscalls:sys_exit_" name
static const char *const set_net[] = {
	"net:net_dev_queue",
	"net:net_dev_start_xmit",
	"net:netif_receive_skb",
	"net:napi_gro_receive_entry",
	"napi:napi_poll",
	"skb:consume_skb",
	"skb:kfree_skb",
	"skb:skb_copy_datagram_iovec",
	"sched:sched_switch",
	"sched:sched_waking",
	"sched:sched_wakeup",
	NET_CALLS("sendto"),
	NET_CALLS("sendmsg"),
	NET_CALLS("sendmmsg"),
	NET_CALLS("recvfrom"),
	NET_CALLS("recvmsg"),
	NET_CALLS("recvmmsg"),
	NULL,
};

static const char *const set_net_host[] = {
	"net:netif_receive_skb_entry",
	"kvm:kvm_entry",
	"kvm:kvm_exit",
	"kvm:kvm_pio",
	"kvm:kvm_mmio",
	"kvm:kvm_fast_mmio",
	"kvm:kvm_set_irq",
	"kvm:kvm_msi_set_irq",
	"kvm:kvm_apic_accept_irq",
	"kvm:kvm_apicv_accept_irq",
	"kvm:kvm_inj_virq",
	NULL,
};

static const char *const set_net_guest[] = {
	"net:net_dev_xmit",
	"irq:irq_handler_entry",
	"irq:irq_handler_exit",
	"irq:softirq_raise",
	"irq:softirq_entry",
	"irq:softirq_exit",
	NULL,
};

static const char *const set_clock[] = {
	"kvm:kvm_write_tsc_offset",
	"kvm:kvm_track_tsc",
	"kvm:kvm_update_master_clock",
	"kvm:kvm_pvclock_update",
	NULL,
};

static const char *const set_guest[] = {
	"sched:sched_switch",
	"sched:sched_wakeup",
	"sched:sched_wakeup_new",
	"sched:sched_migrate_task",
	"sched:sched_process_fork",
	"sched:sched_process_exec",
	"sched:sched_process_exit",
	"irq:irq_handler_entry",
	"irq:irq_handler_exit",
	"irq:softirq_entry",
	"irq:softirq_exit",
	"irq:softirq_raise",
	VECTOR("local_timer"),
	VECTOR("reschedule"),
	VECTOR("call_function"),
	VECTOR("call_function_single"),
	VECTOR("irq_work"),
	"timer:hrtimer_start",
	"timer:hrtimer_expire_entry",
	"timer:hrtimer_expire_exit",
	"timer:timer_expire_entry",
	"timer:timer_expire_exit",
	"block:block_rq_insert",
	"block:block_rq_issue",
	"block:block_rq_complete",
	"msr:read_msr",
	"msr:write_msr",
	NULL,
};

/*
 * When threads of VMs have a CPU, and when CPUs are idle: in the default events of a host.
 *
 * The kernel's filter lets only switches and wake-ups of the VMMs' threads through; others cost its
 * evaluation. (set_event_pid would also take KVM's events from vhost, irqfd and interrupts.) The
 * filter is a few ranges of thread ids: those that there are, and those that the kernel gives out
 * next, for threads that come later. When many of these have gone to others, it is written anew.
 */

#define RANGES	  16u  /* each costs every switch of the machine some ns */
#define IDS_BEGIN 300u /* RESERVED_PIDS: where ids begin again */
#define LONG_BITS (8 * sizeof(long))
#define IDS_AHEAD 32768u /* nothing starts more threads between two looks */

static const struct {
	const char *sys, *name, *field[2];
} sched_events[] = {
	{ "sched", "sched_switch", { "prev_pid", "next_pid" } },
	{ "sched", "sched_wakeup", { "pid", NULL } },
	{ "power", "cpu_idle", { "cpu_id", NULL } },
};
#define IDLE (ARRAY_SIZE(sched_events) - 1)

struct ranges {
	struct range {
		uint32_t from, to;
	} * v;
	size_t n, cap;
};

/* ---- ranges, and the filter that they are ---- */

COMPARE_BY(range_cmp, struct range, .from);

static int range_add(struct ranges *l, uint64_t from, uint64_t to)
{
	const struct range x = { (uint32_t)from, (uint32_t)to };

	return array_add(&l->v, &l->n, &l->cap, &x, sizeof(x));
}

/* The next one becomes a part of it, with what is between them. */
static void range_extend(struct ranges *l, size_t i)
{
	l->v[i].to = MAX(l->v[i].to, l->v[i + 1].to);
	l->n--;
	memmove(&l->v[i + 1], &l->v[i + 2], (l->n - i - 1) * sizeof(*l->v));
}

/* Without those that touch; then, while they are too many, the two with the least between them. */
static void ranges_join(struct ranges *l)
{
	array_sort(l->v, l->n, range_cmp);
	for (size_t i = 0; i + 1 < l->n;)
		if (l->v[i + 1].from <= (uint64_t)l->v[i].to + 1)
			range_extend(l, i);
		else
			i++;
	while (l->n > RANGES) {
		size_t least = 0;

		for (size_t i = 1; i + 1 < l->n; i++)
			if (l->v[i + 1].from - l->v[i].to < l->v[least + 1].from - l->v[least].to)
				least = i;
		range_extend(l, least);
	}
}

/* By bisection: a thread that is not in them costs twice the logarithm of their number. */
static void ranges_text(struct sbuf *b, const char *field, const struct range *v, size_t n)
{
	if (n == 1) {
		sbuf_addf(b, "%s >= %u && %s <= %u", field, v->from, field, v->to);
		return;
	}
	sbuf_addf(b, "(%s < %u && (", field, v[n / 2].from);
	ranges_text(b, field, v, n / 2);
	sbuf_addf(b, ")) || (%s >= %u && (", field, v[n / 2].from);
	ranges_text(b, field, v + n / 2, n - n / 2);
	sbuf_add(b, "))");
}

/* In the instance, and in the list of what is recorded. */
static int filter_set(struct record *r, size_t i, const struct ranges *l)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	_cleanup_(kevent_list_free) struct kevent_list one = { 0 };
	int ret;

	for (size_t f = 0;
	     f < ARRAY_SIZE(sched_events[i].field) && sched_events[i].field[f] && l->n; f++) {
		sbuf_add(&b, f ? " || (" : "(");
		ranges_text(&b, sched_events[i].field[f], l->v, l->n);
		sbuf_add(&b, ")");
	}
	if (!l->n && r->started)
		sbuf_add(&b, "0"); /* none from now on */
	ret = b.error ?: kevent_list_add(&one, sched_events[i].sys, sched_events[i].name, b.s);
	ret = ret ? err_set(r->err, -ret, "out of memory") : kinst_events_add(r->k, &one, r->err);
	if (!ret && !r->started &&
	    kevent_list_add(&r->events, sched_events[i].sys, sched_events[i].name, b.s))
		ret = err_set(r->err, ENOMEM, "out of memory");
	return ret;
}

/* ---- whose ids ---- */

/* The newest thread's; 0: unknown. */
static uint32_t newest_id(const struct record *r)
{
	char text[128], *last;
	ssize_t n = pread(r->sched.loadavg, text, sizeof(text) - 1, 0);

	text[MAX(n, (ssize_t)0)] = '\0';
	last = strrchr(text, ' ');
	return last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
}

static uint32_t ids_ahead(const struct record *r)
{
	return MIN(r->sched.id_max / 8, IDS_AHEAD);
}

static int task_add(const struct vm_task *t, void *ctx)
{
	return range_add(ctx, t->tid, t->tid);
}

/* The threads of all VMMs, and the ids that come next. */
static int ids_find(struct record *r, struct ranges *l)
{
	uint32_t newest = newest_id(r), ahead = ids_ahead(r), end = newest + ahead;
	int ret = range_add(l, newest + 1, end);

	if (!ret && end >= r->sched.id_max)
		ret = range_add(l, IDS_BEGIN, IDS_BEGIN + end - r->sched.id_max);
	for (size_t i = 0; i < r->sched.nvmm && !ret; i++) {
		ret = record_look_tasks(r, r->sched.vmm[i], task_add, l);
		ret = ret == -ESRCH ? 0 : ret;
	}
	ranges_join(l);
	r->sched.newest = newest;
	return ret;
}

int record_sched_vmm(struct record *r, uint32_t pid)
{
	for (size_t i = 0; i < r->sched.nvmm; i++)
		if (r->sched.vmm[i] == pid)
			return 0;
	if (r->sched.loadavg < 0 || !pid)
		return 0;
	if (array_add(&r->sched.vmm, &r->sched.nvmm, &r->sched.vmm_cap, &pid, sizeof(pid)))
		return err_set(r->err, ENOMEM, "out of memory");
	if (!r->sched.cpus)
		return 0;
	r->sched.cpus = false; /* its vCPUs may run where no other VM's may */
	return filter_set(r, IDLE, &(struct ranges){ 0 });
}

/* ---- the recorder's ---- */

static int vms_arm(struct record *r, const struct vm_list *list)
{
	unsigned long one[CAPTURE_MAX_CPUS / LONG_BITS], may[ARRAY_SIZE(one)] = { 0 };
	const struct ranges all = { 0 };
	struct ranges ids = { 0 }, cpus = { 0 };
	bool some = !r->tids.n; /* otherwise the instance has a filter by thread already */
	int ret = some ? ids_find(r, &ids) : 0;

	/* Where vCPUs may run; none: anywhere. */
	for (size_t i = 0; i < list->n; i++)
		for (size_t k = 0; k < list->vm[i].n_vcpus; k++) {
			memset(one, 0, sizeof(one));
			if (list->vm[i].vcpu[k].tid)
				(void)!sched_getaffinity((pid_t)list->vm[i].vcpu[k].tid,
							 sizeof(one), (cpu_set_t *)one);
			for (size_t w = 0; w < ARRAY_SIZE(one); w++)
				may[w] |= one[w];
		}
	for (uint32_t c = 0; c < CAPTURE_MAX_CPUS && c < r->ncpu_max && !ret; c++)
		if (may[c / LONG_BITS] >> c % LONG_BITS & 1)
			ret = range_add(&cpus, c, c);
	ranges_join(&cpus);
	if (cpus.n == 1 && !cpus.v[0].from && cpus.v[0].to + 1 >= r->ncpu_max)
		cpus.n = 0;
	err_why(r->err, ret, "cannot look at the threads of VMs");
	for (size_t i = 0; i < ARRAY_SIZE(sched_events) && !ret; i++) {
		/* What was asked for by name has its own filter. An idle CPU's thread is 0. */
		if (kevent_list_has(&r->events, sched_events[i].sys, sched_events[i].name) ||
		    !kevent_exists(r->t, sched_events[i].sys, sched_events[i].name) ||
		    (i == IDLE && !some))
			continue;
		ret = filter_set(r, i, i == IDLE ? &cpus : some ? &ids : &all);
		r->sched.armed |= !ret && some && i != IDLE ? 1u << i : 0;
		r->sched.cpus |= !ret && i == IDLE && cpus.n;
	}
	free(ids.v);
	free(cpus.v);
	return ret;
}

/* Without these events the rest is as good as it was before there was a filter. */
int record_sched_arm(struct record *r)
{
	struct vm_list *list = NULL;
	char text[32];
	int ret;

	if (!r->sched.want)
		return 0;
	r->sched.loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (!file_read_line(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)))
		r->sched.id_max = (uint32_t)strtoul(text, NULL, 10);
	ret = newest_id(r) && r->sched.id_max
		      ? record_look_vms(r, 0, &list, r->err)
		      : err_set(r->err, ENODATA, "cannot read /proc/loadavg");
	for (size_t i = 0; !ret && i < list->n; i++)
		ret = record_sched_vmm(r, list->vm[i].pid);
	ret = ret ?: vms_arm(r, list);
	vm_list_free(list);
	if (ret == -ENOMEM || !ret)
		return ret;
	r->note("switches of VMs' threads are not recorded (-e default -e sched:sched_switch -e "
		"sched:sched_wakeup takes those of all): %.*s",
		(int)strcspn(r->err->text, "\n"), r->err->text);
	r->err->text[0] = '\0';
	return 0;
}

/* Once a second: have many of the ids ahead been given out? */
int record_sched_again(struct record *r)
{
	uint32_t gone = newest_id(r) - r->sched.newest;
	struct ranges ids = { 0 };
	int ret;

	gone += gone > INT32_MAX ? r->sched.id_max : 0; /* they began again */
	if (!r->sched.armed || gone < ids_ahead(r) / 8 || r->blind)
		return 0;
	ret = ids_find(r, &ids);
	for (size_t i = 0; !ret && i < ARRAY_SIZE(sched_events) && !r->blind; i++)
		if (r->sched.armed & 1u << i)
			ret = filter_set(r, i, &ids);
	free(ids.v);
	return err_why(r->err, ret, "cannot follow the threads of VMs");
}

void record_sched_free(struct record *r)
{
	util_close_fd(&r->sched.loadavg);
	free(r->sched.vmm);
}

static const char *const side_names[] = {
	[CAP_SIDE_HOST] = "host",
	[CAP_SIDE_GUEST] = "guest",
	[CAP_SIDE_BOTH] = "host and guest",
};

const char *const record_as_choices[] = {
	[RECORD_AS_HOST] = "host", [RECORD_AS_GUEST] = "guest", [RECORD_AS_BOTH] = "both", NULL,
};

int record_side(struct record *r)
{
	static const unsigned int as[] = {
		[RECORD_AS_HOST] = KFEAT_HOST,
		[RECORD_AS_GUEST] = KFEAT_GUEST,
		[RECORD_AS_BOTH] = KFEAT_HOST | KFEAT_GUEST,
	};
	unsigned int sides = r->c->as < 0 ? 0 : as[r->c->as];
	const char *why = "as asked for";
	int ret = r->c->vms.n ? vm_scan(NULL, &r->vms, r->err) : 0;

	if (ret)
		return ret;
	sides = sides ?: kmachine_sides(NULL, &r->tsc, &why);
	r->side = (sides & KFEAT_HOST ? CAP_SIDE_HOST : 0) |
		  (sides & KFEAT_GUEST ? CAP_SIDE_GUEST : 0);
	if (!r->c->quiet && r->c->as < 0)
		r->note("recording as a %s: %s (--as overrides)", side_names[r->side], why);
	return 0;
}

/* Their order is that of the events in a capture. */
static const struct {
	const char *name;
	const char *const *host, *const *guest;
} sets[] = {
	{ "default", set_host, set_guest },
	{ "mem", set_mem, set_mem },
	{ "io", set_io, NULL },
	{ "net", set_net, set_net },
	{ "net", set_net_host, set_net_guest },
	{ "boot", set_boot, NULL },
	{ "lean", set_lean, set_guest },
};

const char *const record_profile_choices[] = {
	[RECORD_LEAN] = "lean",
	[RECORD_DEFAULT] = "default",
	[RECORD_FULL] = "full",
	NULL,
};

/* The default sets include events of kernels of any age; what this one lacks is left out. */
static int events_add_known(struct record *r, const char *const *set)
{
	bool any = false;
	int ret = 0;

	for (; *set && !ret; set++) {
		_cleanup_free_ char *spec = strdup(*set);
		char *colon = spec ? strchr(spec, ':') : NULL;
		char *filter = colon ? strchr(colon, '/') : NULL;

		if (!colon)
			return -ENOMEM;
		*colon = 0;
		if (filter) {
			*filter++ = 0;
			filter[strcspn(filter, "/")] = 0;
		}
		if (!kevent_exists(r->t, spec, colon + 1))
			continue;
		any = true; /* it may have been requested by name already */
		if (!kevent_list_has(&r->events, spec, colon + 1))
			ret = kevent_list_add(&r->events, spec, colon + 1, filter);
	}
	return !ret && !any ? -ENOENT : ret;
}

int record_events(struct record *r)
{
	bool host = r->side & CAP_SIDE_HOST, guest = r->side & CAP_SIDE_GUEST;
	bool want[ARRAY_SIZE(sets)] = { 0 }, any = false;
	int profile = r->c->profile < 0 && !r->c->events.n ? RECORD_DEFAULT : r->c->profile;
	int ret = 0;

	/* The full one is all sets; that of the lean one has nothing that the default has not. */
	for (size_t s = 0; s < ARRAY_SIZE(sets); s++)
		want[s] = profile == RECORD_FULL ||
			  (profile >= 0 && !strcmp(sets[s].name, record_profile_choices[profile]));

	for (size_t i = 0; i < r->c->events.n && !ret; i++) {
		const char *name = r->c->events.v[i];
		bool ids = !strcmp(name, "net-id"), is_set = false;

		for (size_t s = 0; s < ARRAY_SIZE(sets); s++)
			if (!strcmp(sets[s].name, ids ? "net" : name))
				is_set = want[s] = true;
		r->want_net_id |= ids;
		if (!is_set && strcmp(name, "none") && strcmp(name, RECORD_MARKER))
			ret = kevent_expand(r->t, name, &r->events, r->err);
	}
	for (size_t s = 0; s < ARRAY_SIZE(sets); s++)
		any |= want[s];
	if (!ret && host && any)
		ret = kevent_kvm_check(r->t, r->err);
	if (ret)
		return ret;
	if (profile == RECORD_FULL && host)
		ret = kevent_expand(r->t, "kvm:*", &r->events, r->err);
	if (ret)
		return ret;
	r->sched.want = host && want[0];
	for (size_t s = 0; s < ARRAY_SIZE(sets); s++) {
		if (want[s] && host && sets[s].host)
			ret = events_add_known(r, sets[s].host);
		if (!ret && want[s] && guest && sets[s].guest)
			ret = events_add_known(r, sets[s].guest);
		if (ret && !s)
			return err_lack(r->err, -ret,
					"none of the default %s events exists here: %s",
					side_names[r->side], strerror(-ret));
		if (ret)
			return err_lack(r->err, -ret, "none of the events of %s exists here: %s",
					sets[s].name, strerror(-ret));
	}
	any = false;
	for (size_t i = 0; i < r->events.n; i++)
		any |= !strcmp(r->events.v[i].sys, "kvm");
	if (host && r->events.n && !any && !r->c->quiet)
		r->note("of KVM's events only those of clocks are recorded: -e default adds the rest");
	/* Rare, and without them a change of a guest's clock would go unnoticed. */
	if (host && kevent_exists(r->t, "kvm", "kvm_write_tsc_offset"))
		ret = events_add_known(r, set_clock);
	return ret == -ENOENT ? 0 : ret;
}

/* ---- threads ---- */

/* 1 if it is new, 0 if it was there, or -errno. */
static int tid_note(struct record *r, uint32_t tid)
{
	const int32_t v = (int32_t)tid;

	for (size_t i = 0; i < r->tids.n; i++)
		if (r->tids.v[i] == v)
			return 0;
	if (array_add(&r->tids.v, &r->tids.n, &r->tids.cap, &v, sizeof(v)))
		return err_set(r->err, ENOMEM, "out of memory");
	return 1;
}

/* Once the instance exists, the kernel gets it at once; before, all of them together. */
static int tid_add(struct record *r, uint32_t tid)
{
	int ret = tid_note(r, tid);

	if (ret <= 0 || !r->k)
		return MIN(ret, 0);
	ret = kinst_pid_add(r->k, (int32_t)tid, r->err);
	if (!ret && r->flight.watch)
		ret = kinst_pid_add(r->flight.watch, (int32_t)tid, r->err);
	if (ret != -ESRCH)
		return ret;
	r->err->text[0] = '\0'; /* it existed and is gone */
	return 0;
}

static int tid_of_task(const struct vm_task *t, void *ctx)
{
	return tid_add(ctx, t->tid);
}

static int tids_of_process(struct record *r, uint32_t pid, const char *name, bool again)
{
	int ret = record_look_tasks(r, pid, tid_of_task, r);

	if (ret != -ESRCH)
		return ret;
	return again ? 0 : err_why(r->err, ESRCH, "no process %s", name);
}

static int tids_of_vm(struct record *r, const char *sel, bool again)
{
	const struct vm *vm;
	int ret = vm_list_find(r->vms, sel, &vm, again ? NULL : r->err);

	if (ret)
		return again ? 0 : ret;
	if (!r->c->vcpus.n)
		return tids_of_process(r, vm->pid, sel, again);
	for (size_t i = 0; i < vm->n_vcpus && !ret; i++) {
		bool wanted = false;
		uint64_t n;

		for (size_t k = 0; k < r->c->vcpus.n; k++)
			wanted |= !parse_u64(r->c->vcpus.v[k], &n) && n == vm->vcpu[i].id;
		if (wanted && vm->vcpu[i].tid)
			ret = tid_add(r, vm->vcpu[i].tid);
	}
	return ret;
}

static int tids_look(struct record *r, bool again)
{
	int ret = 0;

	for (size_t i = 0; i < r->c->vms.n && !ret; i++)
		ret = tids_of_vm(r, r->c->vms.v[i], again);
	for (size_t i = 0; i < r->c->pids.n && !ret; i++) {
		const char *text = r->c->pids.v[i];
		uint64_t pid;

		if (parse_u64(text, &pid) || !pid || pid > INT32_MAX)
			return err_usage(r->err, "option --pid: '%s' is not a process id", text);
		ret = tids_of_process(r, (uint32_t)pid, text, again);
	}
	return ret;
}

int record_tids(struct record *r)
{
	int ret;

	if (r->c->vcpus.n && !r->c->vms.n)
		return err_usage(r->err, "option --vcpu needs --vm: which machine's?");
	/* Each --vcpu must exist now: a typing error must not become a capture without events. */
	for (size_t i = 0; i < r->c->vcpus.n; i++) {
		bool found = false;
		uint64_t id;

		if (parse_u64(r->c->vcpus.v[i], &id) || id > UINT32_MAX)
			return err_usage(r->err, "option --vcpu: '%s' is not a vcpu_id",
					 r->c->vcpus.v[i]);
		for (size_t k = 0; k < r->c->vms.n && !found; k++) {
			const struct vm *vm;

			if (vm_list_find(r->vms, r->c->vms.v[k], &vm, NULL))
				continue;
			for (size_t c = 0; c < vm->n_vcpus; c++)
				found |= vm->vcpu[c].id == id;
		}
		if (!found)
			return err_set(r->err, ENOENT, "no vCPU %s in %s (see kvmft list)",
				       r->c->vcpus.v[i], r->c->vms.v[0]);
	}
	ret = tids_look(r, false);
	/* A vCPU that never ran has no thread, and no filter means all: the watcher stands in. */
	if (!ret && r->c->vcpus.n && !r->tids.n)
		ret = MIN(tid_note(r, (uint32_t)r->watch.pid), 0);
	r->stand_in = r->tids.n == 1 && r->tids.v[0] == r->watch.pid;
	return ret;
}

int record_tids_again(struct record *r, bool thorough)
{
	int ret;

	if (!r->tids.n ||
	    (r->c->vcpus.n && !thorough && r->tids.n >= r->c->vcpus.n && !r->stand_in))
		return 0;
	if (r->c->vcpus.n) {
		struct vm_list *now = NULL;

		/* Which thread runs a vCPU is only in debugfs. */
		if (record_look_vms(r, 0, &now, NULL) || r->blind) {
			vm_list_free(now);
			return 0;
		}
		vm_list_free(r->vms);
		r->vms = now;
	}
	ret = tids_look(r, true);
	r->stand_in &= r->tids.n == 1;
	return ret;
}
