/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_x86.c: the guest of x86-64. It gets another TSC offset in the middle of its rounds. A
 * second VM's TSC has three quarters of the host's rate, if this CPU can do that.
 */
#include "guest.h"

#if defined(__x86_64__)
#include <sched.h>

/* Since Linux 5.16; headers may be older. */
#ifndef KVM_VCPU_TSC_CTRL
#define KVM_VCPU_TSC_CTRL   0
#define KVM_VCPU_TSC_OFFSET 0
#endif

#define MSR_TSC	   0x10
#define SEG_MMIO   0xe000u /* nothing is there */
#define PORT_ROUND 0x80u
#define PORT_END   0x81u
#define IRQ_VECTOR 0x20u

const unsigned int arch_runs = 1;
const uint64_t arch_memory = 0;
const char arch_no_kvm[] = "modprobe kvm_intel or kvm_amd";

/* Real mode; ds, cs and ss at the vCPU's memory, di where the next stamp goes. */
#define STAMP                                                                   \
	0x0f, 0x31, /* rdtsc; mov %eax, (%di); mov %edx, 4(%di); add $8, %di */ \
		0x66, 0x89, 0x05, 0x66, 0x89, 0x55, 0x04, 0x83, 0xc7, 0x08
#define AT_COST 0x00u
#define AT_LOOP 0x28u
#define AT_IRQ	0x9cu
static const uint8_t code[] = {
	/* cost: si rounds of COST_EXITS */
	0xbd, COST_EXITS, 0x00,	 /*	  mov $COST_EXITS, %bp */
	STAMP, 0x66, 0x31, 0xc0, /* 1: xor %eax, %eax */
	0x0f, 0xa2,		 /*	  cpuid */
	0x4d,			 /*	  dec %bp */
	0x75, 0xf8,		 /*	  jnz 1b */
	STAMP, 0x4e,		 /*	  dec %si */
	0x75, 0xda,		 /*	  jnz cost */
	0xe6, PORT_END,		 /*	  out %al, $PORT_END */
	/* loop: until the log is full; halts if si is not 0 */
	STAMP, 0x66, 0xb9, 0xe8, 0x03, 0x00, 0x00, /*	  mov $1000, %ecx */
	0x66, 0x49,				   /* 1: dec %ecx */
	0x75, 0xfc,				   /*	  jnz 1b */
	0x66, 0x31, 0xc0,			   /*	  xor %eax, %eax */
	0x0f, 0xa2,				   /*	  cpuid */
	STAMP, 0x66, 0xb9, 0x1b, 0x00, 0x00, 0x00, /*	  mov $0x1b, %ecx: the APIC's base */
	0x0f, 0x32,				   /*	  rdmsr */
	STAMP, 0xe6, PORT_ROUND,		   /*	  out %al, $PORT_ROUND */
	STAMP, 0x26, 0xa2, 0x00, 0x00,		   /*	  mov %al, %es:0 */
	STAMP, 0x85, 0xf6,			   /*	  test %si, %si */
	0x74, 0x03,				   /*	  jz 2f */
	0xfb, 0xf4, 0xfa,			   /*	  sti; hlt; cli */
	STAMP,					   /* 2: */
	0x81, 0xff, LOG_END & 0xff, LOG_END >> 8,  /*  cmp $LOG_END, %di */
	0x72, 0x8e,				   /*	  jb loop */
	0xe6, PORT_END,				   /*	  out %al, $PORT_END */
	/* irq: the interrupt controller needs no end of interrupt */
	0xcf, /*	  iret */
};

/* The TSC offset as KVM has it: since Linux 5.16. */
static int offset_attr(const struct vcpu *v, unsigned long request, int i)
{
	struct kvm_device_attr a = { .group = KVM_VCPU_TSC_CTRL,
				     .attr = KVM_VCPU_TSC_OFFSET,
				     .addr = (uintptr_t)&v->truth->offset[i] };

	return ioctl(v->fd, request, &a);
}

int arch_create(struct run *r)
{
	int fd = ioctl(r->kvm, KVM_CREATE_VM, 0);

	/* Intel without unrestricted guests runs real mode with a TSS; elsewhere it is refused. */
	if (fd >= 0)
		(void)!ioctl(fd, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	return fd;
}

/* The old interrupt controller: an interrupt that is taken is over. */
int arch_vm(struct tiny_vm *vm)
{
	struct kvm_irqchip chip = { .chip_id = KVM_IRQCHIP_PIC_MASTER };

	if (ioctl(vm->fd, KVM_CREATE_IRQCHIP, 0) || ioctl(vm->fd, KVM_GET_IRQCHIP, &chip))
		return fails(vm->all, "KVM_CREATE_IRQCHIP");
	chip.chip.pic.irq_base = IRQ_VECTOR;
	chip.chip.pic.auto_eoi = 1;
	chip.chip.pic.imr = (uint8_t) ~(1u << IRQ);
	return ioctl(vm->fd, KVM_SET_IRQCHIP, &chip) ? fails(vm->all, "KVM_SET_IRQCHIP") : 0;
}

int arch_vcpu(struct vcpu *v)
{
	struct kvm_segment seg = {
		.base = v->id * VCPU_MEM, .limit = 0xffff, .type = 3, .present = 1, .s = 1
	};
	struct kvm_sregs s;

	seg.selector = (uint16_t)(seg.base >> 4);
	if (ioctl(v->fd, KVM_GET_SREGS, &s))
		return fails(v->vm->all, "KVM_GET_SREGS");
	s.ds = s.ss = s.cs = s.es = seg;
	s.cs.type = 11;
	s.es.selector = SEG_MMIO;
	s.es.base = SEG_MMIO << 4;
	s.idt.base = seg.base;
	s.idt.limit = 0x3ff;
	if (ioctl(v->fd, KVM_SET_SREGS, &s))
		return fails(v->vm->all, "KVM_SET_SREGS");
	/* Others than the first would wait to be started by it. */
	if (ioctl(v->fd, KVM_SET_MP_STATE, &(struct kvm_mp_state){ KVM_MP_STATE_RUNNABLE }))
		return fails(v->vm->all, "KVM_SET_MP_STATE");
	memcpy(v->mem + CODE_AT, code, sizeof(code));
	memcpy(v->mem + IRQ_VECTOR * 4 + IRQ * 4, (uint16_t[]){ CODE_AT + AT_IRQ, seg.selector },
	       4);
	return 0;
}

int arch_others(struct run *r)
{
	struct truth *t = r->truth;
	int ret;

	t->host_khz = (uint64_t)MAX(ioctl(r->vm[0].vcpu[0].fd, KVM_GET_TSC_KHZ, 0), 0);
	t->vm[0].khz = t->host_khz;
	ret = vm_new(r, 1, 1);
	/* Not every CPU can do that. */
	t->vm[1].khz = t->host_khz / 4 * 3;
	if (!ret && (ioctl(r->kvm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_CONTROL) <= 0 ||
		     ioctl(r->vm[1].vcpu[0].fd, KVM_SET_TSC_KHZ, t->vm[1].khz)))
		t->vm[1].vcpus = 0;
	for (size_t i = 0; i < TRUTH_VMS && !ret; i++)
		for (uint32_t k = 0; k < t->vm[i].vcpus; k++)
			r->vm[i].vcpu[k].truth->has_offset =
				!offset_attr(&r->vm[i].vcpu[k], KVM_GET_DEVICE_ATTR, 0);
	return ret;
}

int arch_begin(struct vcpu *v, uint64_t cost)
{
	struct kvm_regs regs = { .rip = CODE_AT + (cost ? AT_COST : AT_LOOP),
				 .rsp = 0xff0, .rdi = LOG_AT,
				 .rsi = cost ?: v->halts, .rflags = 2 };

	return ioctl(v->fd, KVM_SET_REGS, &regs) ? fails(v->vm->all, "KVM_SET_REGS") : 0;
}

enum guest_exit arch_exit(const struct vcpu *v)
{
	switch (v->run->exit_reason) {
	case KVM_EXIT_IO: return v->run->io.port == PORT_END ? GUEST_END : GUEST_ROUND;
	case KVM_EXIT_MMIO:
	case KVM_EXIT_INTR: return GUEST_ELSE;
	default: return GUEST_OTHER;
	}
}

/* Ten seconds later: no stamp of the guest is there twice. */
static int offset_change(struct vcpu *v)
{
	struct truth_vcpu *t = v->truth;
	uint64_t ahead = v->vm->truth->khz * 10000;
	uint64_t room[(sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)) / 8] = { 0 };
	struct kvm_msrs *m = (struct kvm_msrs *)room;

	t->changed = true;
	if (t->has_offset) {
		t->offset[1] = t->offset[0] + ahead;
		return offset_attr(v, KVM_SET_DEVICE_ATTR, 1) ? fails(v->vm->all, "TSC offset") : 0;
	}
	m->nmsrs = 1;
	m->entries[0].index = MSR_TSC;
	if (ioctl(v->fd, KVM_GET_MSRS, m) != 1)
		return fails(v->vm->all, "KVM_GET_MSRS");
	m->entries[0].data += ahead;
	return ioctl(v->fd, KVM_SET_MSRS, m) != 1 ? fails(v->vm->all, "KVM_SET_MSRS") : 0;
}

/* vCPU 1 follows vCPU 0. */
int arch_round(struct vcpu *v)
{
	struct run *r = v->vm->all;
	bool half = v->halts ? v->rounds == ROUNDS / 2 || util_now_ns() - v->since > HALF_NS
			     : atomic_load(&r->halved);

	if (!half || v->truth->changed || v->vm != &r->vm[0])
		return 0;
	if (v->halts) {
		v->truth->before = v->truth->n + v->rounds * TRUTH_STEPS;
		r->cpu = MAX(sched_getcpu(), 0);
		atomic_store(&r->halved, true);
	}
	share_cpu(r);
	return offset_change(v);
}

int arch_again(struct vcpu *v __unused_arg)
{
	return 0;
}

void arch_kick(const struct run *r)
{
	struct kvm_irq_level line = { .irq = IRQ, .level = 1 };

	(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE, &line);
	line.level = 0;
	(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE, &line);
}
#endif
