/* SPDX-License-Identifier: GPL-2.0-or-later */
/* event_sets.c: what is recorded by default. */
#include "kvmft/event_sets.h"

#include <stddef.h>

/* Everything that the analyses use, and nothing that only repeats it (kvm_cr, kvm_pic_set_irq). */
const char *const event_set_host[] = {
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
	"kvm:kvm_irq_line",
	"kvm:vgic_update_irq_pending",
	"kvm:kvm_timer_hrtimer_expire",
	NULL,
};

/* What shows why a vCPU waited for memory, and nothing more frequent than faults. */
const char *const event_set_mem[] = {
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
const char *const event_set_io[] = {
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

/* Where packets were. The tasks that read them: who was woken, and when it ran. */
#define NET_CALLS(name) "syscalls:sys_enter_" name, "syscalls:sys_exit_" name
#define NET_BOTH                                                                      \
	"net:net_dev_queue", "net:net_dev_start_xmit", "net:netif_receive_skb",       \
		"net:napi_gro_receive_entry", "napi:napi_poll", "skb:consume_skb",    \
		"skb:kfree_skb", "skb:skb_copy_datagram_iovec", "sched:sched_switch", \
		"sched:sched_waking", "sched:sched_wakeup", NET_CALLS("sendto"),      \
		NET_CALLS("sendmsg"), NET_CALLS("sendmmsg"), NET_CALLS("recvfrom"),   \
		NET_CALLS("recvmsg"), NET_CALLS("recvmmsg")

const char *const event_set_net_host[] = {
	NET_BOTH,
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

const char *const event_set_net_guest[] = {
	NET_BOTH,
	"net:net_dev_xmit",
	"irq:irq_handler_entry",
	"irq:irq_handler_exit",
	"irq:softirq_raise",
	"irq:softirq_entry",
	"irq:softirq_exit",
	NULL,
};

const char *const event_set_clock[] = {
	"kvm:kvm_write_tsc_offset",
	"kvm:kvm_track_tsc",
	"kvm:kvm_update_master_clock",
	"kvm:kvm_pvclock_update",
	NULL,
};

const char *const event_set_guest[] = {
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
	"irq_vectors:local_timer_entry",
	"irq_vectors:local_timer_exit",
	"irq_vectors:reschedule_entry",
	"irq_vectors:reschedule_exit",
	"irq_vectors:call_function_entry",
	"irq_vectors:call_function_exit",
	"irq_vectors:call_function_single_entry",
	"irq_vectors:call_function_single_exit",
	"irq_vectors:irq_work_entry",
	"irq_vectors:irq_work_exit",
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
