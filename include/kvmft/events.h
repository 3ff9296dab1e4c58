/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * events.h: which events mean something, what role each plays, and what its fields have been
 * called.
 *
 * Everything that looks for an event asks here, by its role. The answer is where the fields of that
 * role are in the capture at hand: they move, come and go with the kernel.
 */
#pragma once

#include "kvmft/ring.h"

/* Each role is followed by its fields, in the order of struct event_type. */
enum event_role {
	EV_NONE,
	/* a host's, in the thread of the vCPU */
	EV_ENTRY,	/* vcpu_id, rip */
	EV_EXIT,	/* exit_reason, isa, guest_rip, vcpu_id */
	EV_NESTED_EXIT, /* exit_reason, isa; of a guest's guest: does not end a turn */
	EV_USER_EXIT,	/* reason, errno */
	EV_VCPU_WAKEUP, /* ns, waited */
	EV_HALT_POLL,	/* grow */
	EV_PIO,		/* rw (0: in), port, val, size */
	EV_MMIO,	/* type, gpa, val */
	EV_FAST_MMIO,	/* gpa */
	EV_MSR,		/* write, ecx, data */
	EV_PAGE_FAULT,	/* fault_address, error_code */
	EV_GUEST_FAULT, /* ipa; the same on arm64, devices' addresses too */
	EV_WFX,		/* is_wfe (it spins; 0: it waits), vcpu_pc; arm64: what such an exit is */
	EV_INJECT,	/* vector, soft, reinjected */
	EV_INJECT_FAULT, /* exception */
	EV_PLE,		/* old, new; how long a vCPU may spin before it exits */
	EV_IOCTL,	/* cmd */
	EV_CR3,		/* cr3, cpl, rsp, code, modes, fs; of record --guest-processes */
	/* ... and in any thread of its VM */
	EV_SET_IRQ,	 /* gsi, level */
	EV_MSI,		 /* address, data */
	EV_IPI,		 /* icr_low, dest_id */
	EV_HV_IPI,	 /* vector; by a hypercall of Hyper-V; two events, as the next */
	EV_HV_TIMER,	 /* vcpu_id, timer_index, time_now, count: a synthetic timer is set */
	EV_HV_EXPIRED,	 /* vcpu_id, timer_index, msg_send_result (0: was accepted, before this) */
	EV_HV_SYNIC,	 /* vcpu_id, sint, vector; likewise, a message of the SynIC */
	EV_ACCEPT,	 /* apicid, vec, dm */
	EV_VGIC,	 /* vcpu_id, irq, level; arm64: the vCPU is right for its own irqs */
	EV_APICV_ACCEPT, /* apicid, vec */
	EV_APICV_INHIBIT, /* inhibits (bits), reason (a bit's number): event_apicv_inhibits() */
	EV_DOORBELL,	 /* vcpuid; AVIC: a vCPU that runs is told of what was just posted */
	EV_GA_LOG,	 /* vmid (AVIC's own), vcpuid; the IOMMU posted to one that does not run */
	EV_AVIC_IPI,	 /* icrl, id; the CPU could not deliver it by itself */
	EV_AVIC_SLOW,	 /* icrl; its targets are looked for one by one */
	EV_AVIC_ACCESS,	 /* offset, rw; to the APIC, which exits */
	EV_EOI,		 /* apicid, vector */
	EV_PV_EOI,	 /* apicid, vector */
	EV_IRQ_LINE,	 /* irq_num, level; a line of a GIC, by an ioctl */
	/* changes of a guest's clock */
	EV_TSC_OFFSET,	 /* vcpu_id, previous_tsc_offset, next_tsc_offset */
	EV_TRACK_TSC,	 /* vcpu_id, use_master_clock, nr_vcpus_matched_tsc, online_vcpus,
			    host_clock */
	EV_MASTER_CLOCK, /* use_master_clock, host_clock */
	EV_PVCLOCK,	 /* vcpu_id, version, tsc_timestamp, system_time, tsc_to_system_mul,
			    tsc_shift, flags */
	/* a host's or a guest's */
	EV_SWITCH,	   /* prev_pid, prev_state, next_pid, next_comm, prev_comm */
	EV_WAKING,	   /* pid */
	EV_WAKEUP,	   /* pid, target_cpu, comm */
	EV_WAKEUP_NEW,	   /* pid, target_cpu, comm */
	EV_MOVE,	   /* pid, dest_cpu; a task gets another CPU's queue */
	EV_EXEC,	   /* pid; a program becomes another one */
	EV_NEWTASK,	   /* pid, clone_flags */
	EV_RQ_ISSUE,	   /* dev, sector, nr_sector, bytes, rwbs */
	EV_RQ_COMPLETE,	   /* dev, sector, nr_sector, rwbs */
	EV_IRQ_ENTRY,	   /* irq, name */
	EV_IRQ_EXIT,	   /* irq */
	EV_SOFTIRQ_ENTRY,  /* vec */
	EV_SOFTIRQ_EXIT,   /* vec */
	EV_VECTOR_ENTRY,   /* vector; all of irq_vectors, a list that grows with the kernel */
	EV_VECTOR_EXIT,	   /* vector */
	EV_CPU_IDLE,	   /* state (UINT32_MAX: it left it), cpu_id */
	EV_HRTIMER_START,  /* hrtimer, expires */
	EV_HRTIMER_CANCEL, /* hrtimer */
	EV_HRTIMER_EXPIRE, /* hrtimer, now, function */
	EV_READ_MSR,	   /* msr, val */
	EV_WRITE_MSR,	   /* msr, val */
	EV_PRINT,	   /* buf; what a program wrote to trace_marker */
	/* what the guest's own latency tracers report, in ns, when it is over */
	EV_TIMERLAT,	   /* timer_latency, context */
	EV_TIMERLAT_ENTRY, /* ... in the ring of the tracer itself */
	EV_NOISE_SAMPLE,   /* duration */
	EV_NOISE_THREAD,   /* duration, pid */
	EV_NOISE_IRQ,	   /* duration, desc */
	EV_NOISE_SOFTIRQ,  /* duration, vector */
	EV_NOISE_NMI,	   /* duration */
	/* a host's memory, in any thread */
	EV_SPTE,       /* gfn, level, old_spte, new_spte; a change of KVM's page tables */
	EV_FAST_FAULT, /* cr2_or_gpa, error_code, old_spte, new_spte; only a permission bit was
			  * missing */
	EV_UNMAP,      /* start, end; addresses of the VMM that KVM must forget */
	EV_PAGE_ALLOC, /* pfn, order, gfp_flags */
	EV_BIO,	       /* dev, sector, nr_sector, rwbs */
	EV_FILE_PAGE,  /* pfn; a page of a file is read or created */
	EV_SWAP_OUT,   /* pfn */
	EV_COMPACTION, /* zone_start */
	EV_RECLAIM,    /* order; by the thread itself */
	EV_MIGRATED,   /* succeeded */
	EV_COLLAPSE,   /* status; of small pages, by khugepaged */
	EV_FILE_DIRTY, /* ino; a page of a file, that was clean */
	EV_ASYNC,      /* gva, gfn; another thread is to fetch the page */
	EV_FETCHED,    /* address, gva; ... and has it */
	EV_ASYNC_TOLD, /* token; the guest is told that a page is not there, and may go on */
	EV_ASYNC_READY, /* token; ... that it is */
	EV_HUGETLB,    /* none; a kprobe of that name, see kvmft-latency(1) */
	EV_USERFAULT,  /* likewise */
	/* what any thread of a host does */
	EV_SYSCALL,	 /* id, args: of these the second */
	EV_USER_FAULT,	 /* address; a page fault of the program itself */
	EV_KERNEL_FAULT, /* address; ... of the kernel, mostly in a system call */
	/* a host's or a guest's network; skbaddr: where the packet is in its kernel */
	EV_SOFTIRQ_RAISE, /* vec */
	EV_NET_QUEUE,	  /* skbaddr, len, name; to a device's queue */
	EV_NET_START,	  /* skbaddr, len, queue_mapping, name; to its driver */
	EV_NET_XMIT,	  /* skbaddr, rc; the driver is back */
	EV_NET_ENTRY,	  /* skbaddr, len, queue_mapping, name; received, before it is shared out */
	EV_NET_RECEIVE,	  /* skbaddr, len, name; ... and after */
	EV_GRO,		  /* skbaddr, len, queue_mapping, name; received, before it is merged */
	EV_NAPI_POLL,	  /* napi, work, budget, dev_name; a poll is over */
	EV_SKB_COPY,	  /* skbaddr, len; to a program */
	EV_SKB_FREE,	  /* skbaddr */
	EV_SKB_DROP,	  /* skbaddr */
	/* of probes at EV_NET_START, EV_NET_ENTRY and EV_GRO; several events, not found either */
	EV_NET_HEAD, /* skbaddr, len, data_len, head; head: bytes from the IP header on */
	/* of system calls; each is several events, which event_find() does not find */
	EV_CALL_SEND,	 /* fd, len; sendto, sendmsg, sendmmsg begin; len: of sendto */
	EV_CALL_RECEIVE, /* fd; recvfrom, recvmsg, recvmmsg begin */
	EV_CALL_END,	 /* ret; of any of them */
	/* QEMU's own */
	EV_QEMU_READ,  /* req, sector, nsectors; of virtio_blk */
	EV_QEMU_WRITE, /* req, sector, nsectors */
	EV_QEMU_DONE,  /* req */
	EV_ROLES,
};

#define EVENT_FIELDS 7 /* the most fields of any role */

/* What an event of one capture is. */
struct event_type {
	const struct fmt_event *ev;	  /* of its formats; NULL: it has none such */
	enum event_role role;
	uint8_t have;			  /* so many of its fields, from the first on, are there */
	enum { ENDS_UNKNOWN, ENDS_NOT, ENDS } ends; /* event_handler_ends() */
	struct fmt_field f[EVENT_FIELDS]; /* as above; size 0 if the kernel lacks it */
	/* Of n: a record that long has the first n, as fmt_number() reads them; 0: it may not. */
	uint32_t plain[EVENT_FIELDS + 1];
};

/* "kvm_exit"; "_entry" for EV_VECTOR_ENTRY, whose names end in it. */
const char *event_name(enum event_role role);
/* The name of field number i, up to a blank: "a|b" for one that had several; NULL past the last. */
const char *event_field(enum event_role role, size_t i);
#define EVENT_FIELD(name) (int)strcspn(name, " "), name /* for %.*s */
/* The format of the role's event; NULL: not in the capture. Not for the roles with many events. */
const struct fmt_event *event_format(const struct fmt *fmt, enum event_role role);
/*
 * The same with its fields; one without ev if the capture has none or that lacks one of its first
 * `need` fields.
 */
const struct event_type *event_find(const struct fmt *fmt, enum event_role role, size_t need);
/* For event_type_of(): looks for it. */
const struct event_type *event_type_new(const struct fmt_event *ev);
/* What an event is, as long as its format lives; NULL has no role either. */
static inline const struct event_type *event_type_of(const struct fmt_event *ev)
{
	const struct event_type *t = ev ? ((const struct fmt_line *)ev)->meaning : NULL;

	return t ?: event_type_new(ev);
}

/* The role of an event; EV_NONE: none. */
static inline enum event_role event_role_of(const struct fmt_event *ev)
{
	return event_type_of(ev)->role;
}

/*
 * Of an event by which a handler begins: whether the one by which it ends was recorded, too;
 * without that it would never end. seen: by role; NULL: it is enough that fmt has that event.
 */
bool event_handler_ends(const struct fmt *fmt, const struct fmt_event *ev,
			const bool seen[EV_ROLES]);

/*
 * Whether the capture's architecture is known, if it names one: 0; -ENOTSUP with err, which says
 * what can be done with the capture. fmt: of its events; NULL: it is enough that the
 * names of its exits are known.
 */
int event_arch_check(const struct capture *cap, const struct fmt *fmt,
		     struct kvmft_err *err) __must_check;

/* "6.1" of the recorded kernel's "Linux NAME 6.1.0-13-amd64 ..." or bare release; false: not known. */
bool event_kernel(const struct capture *cap, unsigned int *major, unsigned int *minor);
/* What inhibits APICv or AVIC by these bits: "PIT_REINJ, bit 14". */
void event_apicv_inhibits(const struct capture *cap, uint64_t bits, struct sbuf *b);
/*
 * Whether an exit of that isa (exit_names.h) is traced only when the host's interrupts were served,
 * so that they look like the guest's time; on x86 it may be where the kernel is not known, which is
 * true, too.
 */
bool event_exit_late(const struct capture *cap, uint32_t isa);

/*
 * What a host's events say about interrupts of its guests. An interrupt has a number: the vector
 * of an APIC, the INTID of a GIC.
 */
struct event_irqs {
	enum event_role accept;	 /* it is pending at the vCPU */
	uint16_t numbers;	 /* of a vCPU, from 0 */
	uint16_t device, system; /* from one up to the other the handler has another number */
	uint16_t shared;	 /* from here on they are the VM's, and no event has the vCPU */
	bool listed;		 /* they go in with the next entry; no event shows their end */
	bool (*is_timer)(unsigned int number);
	/* Whether a handler of that name in the guest may be that number's; NULL: any. */
	bool (*handles)(unsigned int number, const char *name);
	const char *no_deadlines; /* why the timer's are in no event; NULL: they are */
	const char *untold;	  /* interrupts that are in no event; NULL: none */
};

/* By its kvm_exit; those of x86 where that is not clear. Never NULL. */
const struct event_irqs *event_irqs(const struct fmt *fmt);

/*
 * Whether the prev_state of a sched_switch is a sleep: a bit of TASK_REPORT (linux/sched.h), or
 * 0x80, which is TASK_IDLE (0x402 before Linux 4.14). A thread that was preempted has 0x100, or an
 * older kernel's higher bit.
 */
static inline bool event_task_sleeps(uint64_t prev_state)
{
	return prev_state & 0xff;
}

#define EVENT_TASK_INTERRUPTIBLE 1u /* ... which signals end, and only that */

/* Was it made in an interrupt, a softirq or an NMI? Then its thread is only who was interrupted. */
static inline bool event_in_interrupt(const struct fmt *fmt, const struct rec *rec)
{
	return fmt_flags(fmt, rec) & 0x58; /* TRACE_FLAG_HARDIRQ, _SOFTIRQ, _NMI */
}

/* Field number i of a record of that type; 0 if the kernel or the record lacks it. */
static inline uint64_t event_u64(const struct event_type *e, size_t i, const struct rec *rec)
{
	uint64_t v;

	return fmt_u64(&e->f[i], rec, &v) ? v : 0;
}

/* What an EV_PVCLOCK says. */
static inline struct pvclock event_pvclock(const struct event_type *e, const struct rec *rec)
{
	return (struct pvclock){
		.version = (uint32_t)event_u64(e, 1, rec),
		.tsc_timestamp = event_u64(e, 2, rec), .system_time = event_u64(e, 3, rec),
		.mul = (uint32_t)event_u64(e, 4, rec), .shift = (int8_t)event_u64(e, 5, rec),
		.flags = (uint8_t)event_u64(e, 6, rec),
	};
}
