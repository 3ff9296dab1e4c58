/* SPDX-License-Identifier: GPL-2.0-or-later */
/* roles.c: the table of events that mean something. */
#include "arch.h"

/* EV_EXIT comes from the architectures. */
static const struct event_def roles[EV_ROLES] = {
	[EV_ENTRY] = { "kvm", "kvm_entry", "vcpu_id rip" },
	[EV_NESTED_EXIT] = { "kvm", "kvm_nested_vmexit", "exit_reason isa" },
	[EV_USER_EXIT] = { "kvm", "kvm_userspace_exit", "reason errno" },
	[EV_VCPU_WAKEUP] = { "kvm", "kvm_vcpu_wakeup", "ns waited" },
	[EV_HALT_POLL] = { "kvm", "kvm_halt_poll_ns", "grow" },
	[EV_PIO] = { "kvm", "kvm_pio", "rw port val size" },
	[EV_MMIO] = { "kvm", "kvm_mmio", "type gpa val" },
	[EV_FAST_MMIO] = { "kvm", "kvm_fast_mmio", "gpa" },
	[EV_MSR] = { "kvm", "kvm_msr", "write ecx data" },
	[EV_PAGE_FAULT] = { "kvm", "kvm_page_fault", "fault_address error_code" },
	[EV_GUEST_FAULT] = { "kvm", "kvm_guest_fault", "ipa" },
	[EV_WFX] = { "kvm", "kvm_wfx_arm64", "is_wfe vcpu_pc" },
	/* irq: to Linux 5.10 */
	[EV_INJECT] = { "kvm", "kvm_inj_virq", "vector|irq soft reinjected" },
	[EV_INJECT_FAULT] = { "kvm", "kvm_inj_exception", "exception" },
	[EV_PLE] = { "kvm", "kvm_ple_window_update", "old new" },
	[EV_IOCTL] = { "syscalls", "sys_enter_ioctl", "cmd" },
	[EV_CR3] = { "kvmft", "guest_cr3", "cr3 cpl rsp code modes fs" },
	[EV_SET_IRQ] = { "kvm", "kvm_set_irq", "gsi level" },
	[EV_MSI] = { "kvm", "kvm_msi_set_irq", "address data" },
	[EV_IPI] = { "kvm", "kvm_apic_ipi", "icr_low dest_id" },
	[EV_HV_IPI] = { "kvm", "kvm_hv_send_ipi|kvm_hv_send_ipi_ex", "vector" },
	[EV_HV_TIMER] = { "kvm", "kvm_hv_stimer_start_one_shot|kvm_hv_stimer_start_periodic",
			  "vcpu_id timer_index time_now count|exp_time" },
	[EV_HV_EXPIRED] = { "kvm", "kvm_hv_stimer_expiration",
			    "vcpu_id timer_index msg_send_result" },
	[EV_HV_SYNIC] = { "kvm", "kvm_hv_synic_set_irq", "vcpu_id sint vector" },
	[EV_ACCEPT] = { "kvm", "kvm_apic_accept_irq", "apicid vec dm" },
	[EV_VGIC] = { "kvm", "vgic_update_irq_pending", "vcpu_id irq level" },
	[EV_APICV_ACCEPT] = { "kvm", "kvm_apicv_accept_irq", "apicid vec" },
	[EV_APICV_INHIBIT] = { "kvm", "kvm_apicv_inhibit_changed", "inhibits reason" },
	[EV_DOORBELL] = { "kvm", "kvm_avic_doorbell", "vcpuid" },
	[EV_GA_LOG] = { "kvm", "kvm_avic_ga_log", "vmid vcpuid" },
	[EV_AVIC_IPI] = { "kvm", "kvm_avic_incomplete_ipi", "icrl id" },
	[EV_AVIC_SLOW] = { "kvm", "kvm_avic_kick_vcpu_slowpath", "icrl" },
	[EV_AVIC_ACCESS] = { "kvm", "kvm_avic_unaccelerated_access", "offset rw" },
	[EV_EOI] = { "kvm", "kvm_eoi", "apicid vector" },
	[EV_PV_EOI] = { "kvm", "kvm_pv_eoi", "apicid vector" },
	[EV_IRQ_LINE] = { "kvm", "kvm_irq_line", "irq_num level" },
	[EV_TSC_OFFSET] = { "kvm", "kvm_write_tsc_offset",
			    "vcpu_id previous_tsc_offset next_tsc_offset" },
	[EV_TRACK_TSC] = { "kvm", "kvm_track_tsc",
			   "vcpu_id use_master_clock nr_vcpus_matched_tsc online_vcpus host_clock" },
	[EV_MASTER_CLOCK] = { "kvm", "kvm_update_master_clock",
			      "use_master_clock host_clock" },
	[EV_PVCLOCK] = { "kvm", "kvm_pvclock_update",
			 "vcpu_id version tsc_timestamp system_time tsc_to_system_mul tsc_shift flags" },
	[EV_SWITCH] = { "sched", "sched_switch",
			"prev_pid prev_state next_pid next_comm prev_comm" },
	[EV_WAKING] = { "sched", "sched_waking", "pid" },
	[EV_WAKEUP] = { "sched", "sched_wakeup", "pid target_cpu comm" },
	[EV_WAKEUP_NEW] = { "sched", "sched_wakeup_new", "pid target_cpu comm" },
	[EV_MOVE] = { "sched", "sched_migrate_task", "pid dest_cpu" },
	[EV_EXEC] = { "sched", "sched_process_exec", "pid" },
	[EV_NEWTASK] = { "task", "task_newtask", "pid clone_flags" },
	[EV_RQ_ISSUE] = { "block", "block_rq_issue",
			  "dev sector nr_sector bytes rwbs" },
	[EV_RQ_COMPLETE] = { "block", "block_rq_complete",
			     "dev sector nr_sector rwbs" },
	[EV_IRQ_ENTRY] = { "irq", "irq_handler_entry", "irq name" },
	[EV_IRQ_EXIT] = { "irq", "irq_handler_exit", "irq" },
	[EV_SOFTIRQ_ENTRY] = { "irq", "softirq_entry", "vec" },
	[EV_SOFTIRQ_EXIT] = { "irq", "softirq_exit", "vec" },
	[EV_VECTOR_ENTRY] = { "irq_vectors", "*_entry", "vector" },
	[EV_VECTOR_EXIT] = { "irq_vectors", "*_exit", "vector" },
	[EV_CPU_IDLE] = { "power", "cpu_idle", "state cpu_id" },
	[EV_HRTIMER_START] = { "timer", "hrtimer_start", "hrtimer expires" },
	[EV_HRTIMER_CANCEL] = { "timer", "hrtimer_cancel", "hrtimer" },
	[EV_HRTIMER_EXPIRE] = { "timer", "hrtimer_expire_entry", "hrtimer now function" },
	[EV_READ_MSR] = { "msr", "read_msr", "msr val" },
	[EV_WRITE_MSR] = { "msr", "write_msr", "msr val" },
	[EV_PRINT] = { "ftrace", "print", "buf" },
	[EV_TIMERLAT] = { "osnoise", "timerlat_sample", "timer_latency context" },
	[EV_TIMERLAT_ENTRY] = { "ftrace", "timerlat", "timer_latency context" },
	[EV_NOISE_SAMPLE] = { "osnoise", "sample_threshold", "duration" },
	[EV_NOISE_THREAD] = { "osnoise", "thread_noise", "duration pid" },
	[EV_NOISE_IRQ] = { "osnoise", "irq_noise", "duration desc" },
	[EV_NOISE_SOFTIRQ] = { "osnoise", "softirq_noise", "duration vector" },
	[EV_NOISE_NMI] = { "osnoise", "nmi_noise", "duration" },
	[EV_SPTE] = { "kvmmmu", "kvm_tdp_mmu_spte_changed",
		      "gfn level old_spte new_spte" },
	[EV_FAST_FAULT] = { "kvmmmu", "fast_page_fault",
			    "cr2_or_gpa|gva error_code old_spte new_spte" },
	[EV_UNMAP] = { "kvm", "kvm_unmap_hva_range", "start end" },
	[EV_PAGE_ALLOC] = { "kmem", "mm_page_alloc", "pfn order gfp_flags" },
	[EV_BIO] = { "block", "block_bio_queue", "dev sector nr_sector rwbs" },
	[EV_FILE_PAGE] = { "filemap", "mm_filemap_add_to_page_cache", "pfn" },
	[EV_SWAP_OUT] = { "vmscan", "mm_vmscan_write_folio", "pfn" },
	[EV_COMPACTION] = { "compaction", "mm_compaction_begin", "zone_start" },
	[EV_RECLAIM] = { "vmscan", "mm_vmscan_direct_reclaim_begin", "order" },
	[EV_MIGRATED] = { "migrate", "mm_migrate_pages", "succeeded" },
	[EV_FILE_DIRTY] = { "writeback", "writeback_dirty_folio", "ino" },
	[EV_ASYNC] = { "kvm", "kvm_try_async_get_page", "gva gfn" },
	[EV_FETCHED] = { "kvm", "kvm_async_pf_completed", "address gva" },
	[EV_ASYNC_TOLD] = { "kvm", "kvm_async_pf_not_present", "token" },
	[EV_ASYNC_READY] = { "kvm", "kvm_async_pf_ready", "token" },
	[EV_COLLAPSE] = { "huge_memory", "mm_collapse_huge_page", "status" },
	[EV_HUGETLB] = { "kprobes", "hugetlb_fault" },
	[EV_USERFAULT] = { "kprobes", "handle_userfault" },
	[EV_SYSCALL] = { "raw_syscalls", "sys_enter", "id args" },
	[EV_USER_FAULT] = { "exceptions", "page_fault_user", "address" },
	[EV_KERNEL_FAULT] = { "exceptions", "page_fault_kernel", "address" },
	[EV_SOFTIRQ_RAISE] = { "irq", "softirq_raise", "vec" },
	[EV_NET_QUEUE] = { "net", "net_dev_queue", "skbaddr len name" },
	[EV_NET_START] = { "net", "net_dev_start_xmit",
			   "skbaddr len queue_mapping name" },
	[EV_NET_XMIT] = { "net", "net_dev_xmit", "skbaddr rc" },
	[EV_NET_ENTRY] = { "net", "netif_receive_skb_entry",
			   "skbaddr len queue_mapping name" },
	[EV_NET_RECEIVE] = { "net", "netif_receive_skb", "skbaddr len name" },
	[EV_GRO] = { "net", "napi_gro_receive_entry",
		     "skbaddr len queue_mapping name" },
	[EV_NAPI_POLL] = { "napi", "napi_poll", "napi work budget dev_name" },
	[EV_SKB_COPY] = { "skb", "skb_copy_datagram_iovec", "skbaddr len" },
	[EV_SKB_FREE] = { "skb", "consume_skb", "skbaddr" },
	[EV_SKB_DROP] = { "skb", "kfree_skb", "skbaddr" },
	/* kvmft's own: record -e net-id */
	[EV_NET_HEAD] = { "kvmft",
			  "net_ip4_start|net_ip4_entry|net_ip4_gro|"
			  "net_ip6_start|net_ip6_entry|net_ip6_gro",
			  "skbaddr len data_len head" },
	[EV_CALL_SEND] = { "syscalls", "sys_enter_sendto|sys_enter_sendmsg|sys_enter_sendmmsg",
			   "fd len" },
	[EV_CALL_RECEIVE] = { "syscalls",
			      "sys_enter_recvfrom|sys_enter_recvmsg|sys_enter_recvmmsg", "fd" },
	[EV_CALL_END] = { "syscalls",
			  "sys_exit_sendto|sys_exit_sendmsg|sys_exit_sendmmsg|"
			  "sys_exit_recvfrom|sys_exit_recvmsg|sys_exit_recvmmsg", "ret" },
	[EV_QEMU_READ] = { "qemu", "virtio_blk_handle_read", "req sector nsectors" },
	[EV_QEMU_WRITE] = { "qemu", "virtio_blk_handle_write", "req sector nsectors" },
	[EV_QEMU_DONE] = { "qemu", "virtio_blk_req_complete", "req" },
};

/* The i-th event that can have that role; NULL past the last. */
static const struct event_def *def_at(enum event_role role, size_t i)
{
	const struct event_arch *a;

	if (role == EV_EXIT)
		return (a = event_arch(i)) ? a->exit : NULL;
	if (!i)
		return &roles[role];
	for (size_t k = 0; role == EV_ENTRY && (a = event_arch(k)); k++)
		if (a->entry && !--i)
			return a->entry;
	return NULL;
}

const char *event_name(enum event_role role)
{
	const char *name = def_at(role, 0)->name;

	return name + (name[0] == '*');
}

const char *event_def_field(const struct event_def *d, size_t i)
{
	const char *f = d->fields, *blank;

	for (; f && i; i--) {
		blank = strchr(f, ' ');
		f = blank ? blank + 1 : NULL;
	}
	return f;
}

const char *event_field(enum event_role role, size_t i)
{
	return event_def_field(def_at(role, 0), i);
}

/* The first of the names in "a|b" that the event has. */
static bool field_of(const struct fmt_event *ev, const char *names, struct fmt_field *f)
{
	char name[32];

	for (;; names++) {
		size_t n = strcspn(names, "| ");

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		if (fmt_field(ev, name, f))
			return true;
		names += n;
		if (*names != '|')
			return false;
	}
}

static bool is_def(const struct fmt_event *ev, const struct event_def *d)
{
	const char *have = fmt_name(ev), *want = d->name;
	size_t n = strlen(have), end;

	if (strcmp(fmt_sys(ev), d->sys))
		return false;
	for (; want[0] != '*'; want++) {
		end = strcspn(want, "|");
		if (n == end && !strncmp(have, want, n))
			return true;
		want += end;
		if (!*want)
			return false;
	}
	end = strlen(++want);
	return n > end && !strcmp(have + n - end, want);
}

const struct fmt_event *event_format(const struct fmt *fmt, enum event_role role)
{
	const struct fmt_event *ev = NULL;
	const struct event_def *d;

	for (size_t i = 0; !ev && (d = def_at(role, i)); i++)
		ev = fmt_find(fmt, d->sys, d->name);
	return ev;
}

/* x86 comes first in the list, and its exit_reason is another field of old arm64 kernels. */
const struct event_arch *event_arch_of_exit(const struct fmt_event *ev)
{
	const struct event_arch *a, *found = NULL;
	struct fmt_field f;

	for (size_t i = 0; (a = event_arch(i)); i++)
		if ((!found || found->exit != a->exit) && field_of(ev, a->exit->fields, &f))
			found = a;
	return found;
}

const struct event_type *event_type_new(const struct fmt_event *ev)
{
	static const struct event_type none = { .plain = { 1 } };
	const struct event_def *d = NULL, *of;
	const struct event_arch *a;
	const char *names;
	struct event_type *t;

	if (!ev)
		return &none;
	t = xcalloc(1, sizeof(*t));
	fmt_event_means(ev, t);
	t->ev = ev;
	t->plain[0] = 1;
	for (int r = EV_NONE + 1; r < EV_ROLES && !d; r++)
		for (size_t i = 0; !d && (of = def_at((enum event_role)r, i)); i++)
			if (is_def(ev, of)) {
				t->role = (enum event_role)r;
				d = of;
			}
	a = t->role == EV_EXIT ? event_arch_of_exit(ev) : NULL;
	d = a ? a->exit : d;
	for (size_t i = 0; d && i < EVENT_FIELDS && (names = event_def_field(d, i)); i++) {
		struct fmt_field *f = &t->f[i];

		if (field_of(ev, names, f) && t->have == i)
			t->have++;
		/* Of a system call's arguments the second tells what a futex() is for. */
		if (t->role == EV_SYSCALL && f->is_array && f->elem && f->size >= 2 * f->elem) {
			f->off += f->elem;
			f->size = f->elem;
			f->is_array = false;
		}
		if (t->plain[i] && fmt_numbers(f))
			t->plain[i + 1] = MAX(t->plain[i], (uint32_t)f->off + f->size);
	}
	return t;
}

const struct event_type *event_find(const struct fmt *fmt, enum event_role role, size_t need)
{
	const struct event_type *t = event_type_of(event_format(fmt, role));

	return t->have >= need ? t : event_type_of(NULL);
}

/* Of all vectors at once: each would look through all events for its end. */
static void vectors_end(const struct fmt *fmt)
{
	_cleanup_(u64map_free) struct u64map ends = { 0 };
	const struct fmt_event *ev;
	struct hash_key key;

	hash_key_init(&key);
	for (size_t i = 0; (ev = fmt_at(fmt, i)); i++)
		if (event_role_of(ev) == EV_VECTOR_EXIT) {
			size_t n = strlen(fmt_name(ev)) - strlen("_exit");

			xu64map_put(&ends, hash_bytes(&key, fmt_name(ev), n), 1);
		}
	for (size_t i = 0; (ev = fmt_at(fmt, i)); i++)
		if (event_role_of(ev) == EV_VECTOR_ENTRY) {
			struct event_type *t = ((const struct fmt_line *)ev)->meaning;
			size_t n = strlen(fmt_name(ev)) - strlen("_entry");
			uint64_t name = hash_bytes(&key, fmt_name(ev), n);

			t->ends = u64map_get(&ends, name, NULL) ? ENDS : ENDS_NOT;
		}
}

/* The role of the end is the one after that of the beginning. */
bool event_handler_ends(const struct fmt *fmt, const struct fmt_event *ev,
			const bool seen[EV_ROLES])
{
	enum event_role r = event_role_of(ev);
	const struct event_type *t = event_type_of(ev);

	if (r != EV_IRQ_ENTRY && r != EV_SOFTIRQ_ENTRY && r != EV_VECTOR_ENTRY)
		return true;
	if (seen && !seen[r + 1])
		return false;
	if (r == EV_VECTOR_ENTRY && t->ends == ENDS_UNKNOWN)
		vectors_end(fmt);
	return t->ends != ENDS_NOT;
}
