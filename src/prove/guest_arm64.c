/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_arm64.c: the guest of arm64. Its counter is the host's plus an offset that all vCPUs of a
 * VM share, and that no event and no file tells. So the first VM runs twice, with the offset that
 * KVM gave it and with one that is ten seconds ahead: two captures of one VM, and the offset of
 * each has to be found in the events. There are no ports and no MSRs, and no other rate.
 */
#include "guest.h"

#if defined(__aarch64__)
#include <sched.h>
#include <stddef.h>

#define MMIO_ROUND 0x10000000u /* nothing is there */
#define MMIO_END   (MMIO_ROUND + 8)
#define TABLE_AT   0u
#define READINGS   100
#define CORE(reg)                                              \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
	 (offsetof(struct kvm_regs, regs.reg) / sizeof(uint32_t)))

const unsigned int arch_runs = 2;
const uint64_t arch_memory = 0x80000000;
const char arch_no_kvm[] = "KVM is in kernels that were entered at EL2";

/* x19: MMIO_ROUND; x20: where the next stamp goes; x21: where the log ends. */
#define STAMP                                        \
	0xd5033fdf,	    /* isb */                \
		0xd53be041, /* mrs x1, cntvct_el0 */ \
		0xf8008681  /* str x1, [x20], #8 */
#define HYPERCALL                                                            \
	0x52b08000,	   /* mov w0, #0x84000000: which version of PSCI? */ \
		0xd4000002 /* hvc #0 */
#define AT_COST 0x00u
#define AT_LOOP 0x38u
static const uint32_t code[] = {
	/* cost: x23 rounds of COST_EXITS */
	0xd2800018 | COST_EXITS << 5, /*	  mov x24, #COST_EXITS */
	STAMP, HYPERCALL,	      /* 1: */
	0xf1000718,		      /*	  subs x24, x24, #1 */
	0x54ffffa1,		      /*	  b.ne 1b */
	STAMP, 0xf10006f7,	      /*	  subs x23, x23, #1 */
	0x54fffe81,		      /*	  b.ne cost */
	0xf900067f,		      /*	  str xzr, [x19, #8] */
	/* loop: until the log is full; halts if x22 is not 0 */
	STAMP, 0xd2807d02,		     /*	  mov x2, #1000 */
	0xf1000442,			     /* 1: subs x2, x2, #1 */
	0x54ffffe1,			     /*	  b.ne 1b */
	0xd5380402,			     /*	  mrs x2, id_aa64pfr0_el1 */
	STAMP, HYPERCALL, STAMP, 0xf900027f, /*	  str xzr, [x19] */
	STAMP, 0xb4000056,		     /*	  cbz x22, 2f */
	0xd503207f,			     /*	  wfi */
	STAMP, 0xeb15029f,		     /* 2: cmp x20, x21 */
	0x54fffce3,			     /*	  b.lo loop */
	0xf900067f,			     /*	  str xzr, [x19, #8] */
};

static int reg_set(const struct vcpu *v, uint64_t id, uint64_t value)
{
	struct kvm_one_reg r = { .id = id, .addr = (uintptr_t)&value };

	return ioctl(v->fd, KVM_SET_ONE_REG, &r) ? fails(v->vm->all, "KVM_SET_ONE_REG") : 0;
}

/* The VM's type is the number of its bits of address: some CPUs have fewer than KVM's 40. */
int arch_create(struct run *r)
{
	int bits = ioctl(r->kvm, KVM_CHECK_EXTENSION, KVM_CAP_ARM_VM_IPA_SIZE);

	return ioctl(r->kvm, KVM_CREATE_VM, (unsigned long)MAX(MIN(bits, 40), 0));
}

/* Without an interrupt controller, a vCPU has a line of its own. */
int arch_vm(struct tiny_vm *vm __unused_arg)
{
	return 0;
}

/*
 * Its translation leaves all addresses as they are, in blocks of 1 GiB: without one, what it stores
 * would go past the caches, from which it is read here.
 */
int arch_vcpu(struct vcpu *v)
{
	const uint64_t mem = arch_memory + v->id * VCPU_MEM;
	const struct {
		uint64_t id, value;
	} regs[] = {
		{ ARM64_SYS_REG(3, 0, 10, 2, 0), 0xff },    /* MAIR_EL1: 0 memory, 1 device */
		{ ARM64_SYS_REG(3, 0, 2, 0, 2), 0x803519 }, /* TCR_EL1: 39 bits, 4 KiB, cached */
		{ ARM64_SYS_REG(3, 0, 2, 0, 0), mem + TABLE_AT },      /* TTBR0_EL1 */
		{ ARM64_SYS_REG(3, 0, 1, 0, 0), 0x30d00800 | 0x1005 }, /* SCTLR_EL1: I, C, M */
		{ CORE(regs[19]), MMIO_ROUND },
		{ CORE(regs[21]), mem + LOG_END },
		{ CORE(regs[22]), v->halts },
	};
	struct kvm_vcpu_init init;
	uint64_t *table = (uint64_t *)(void *)(v->mem + TABLE_AT);
	int ret = 0;

	if (ioctl(v->vm->fd, KVM_ARM_PREFERRED_TARGET, &init))
		return fails(v->vm->all, "KVM_ARM_PREFERRED_TARGET");
	init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
	if (ioctl(v->fd, KVM_ARM_VCPU_INIT, &init))
		return fails(v->vm->all, "KVM_ARM_VCPU_INIT");
	memcpy(v->mem + CODE_AT, code, sizeof(code));
	table[0] = 0x405;				/* a block, accessed; of attribute 1 */
	table[arch_memory >> 30] = arch_memory | 0x701; /* ... of attribute 0, shared */
	for (size_t i = 0; i < ARRAY_SIZE(regs) && !ret; i++)
		ret = reg_set(v, regs[i].id, regs[i].value);
	return ret;
}

/* The guest's counter less the host's: the range that the best of some readings leaves. */
static int offset_read(const struct vcpu *v, struct truth_vm *t)
{
	uint64_t value, before, after;
	struct kvm_one_reg r = { .id = KVM_REG_ARM_TIMER_CNT, .addr = (uintptr_t)&value };

	t->offset_width = UINT64_MAX;
	for (int i = 0; i < READINGS; i++) {
		before = krdtsc_now();
		if (ioctl(v->fd, KVM_GET_ONE_REG, &r))
			return fails(v->vm->all, "the guest's counter");
		after = krdtsc_now();
		if (after < before || after - before >= t->offset_width)
			continue;
		t->offset_width = after - before;
		t->offset = value - after;
	}
	return 0;
}

int arch_others(struct run *r)
{
	struct truth *t = r->truth;
	uint64_t hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	t->host_khz = t->vm[0].khz = t->vm[1].khz = hz / 1000;
	return offset_read(&r->vm[0].vcpu[0], &t->vm[0]);
}

int arch_begin(struct vcpu *v, uint64_t cost)
{
	const uint64_t mem = arch_memory + v->id * VCPU_MEM;
	int ret;

	/* First its last store has to be over, or KVM would step over the first instruction. */
	v->run->immediate_exit = 1;
	(void)!ioctl(v->fd, KVM_RUN, 0);
	v->run->immediate_exit = 0;
	ret = reg_set(v, CORE(pc), mem + CODE_AT + (cost ? AT_COST : AT_LOOP));
	ret = ret ?: reg_set(v, CORE(regs[20]), mem + LOG_AT);
	return ret ?: reg_set(v, CORE(regs[23]), cost);
}

enum guest_exit arch_exit(const struct vcpu *v)
{
	switch (v->run->exit_reason) {
	case KVM_EXIT_MMIO: return v->run->mmio.phys_addr == MMIO_END ? GUEST_END : GUEST_ROUND;
	case KVM_EXIT_INTR: return GUEST_ELSE;
	default: return GUEST_OTHER;
	}
}

static void line_set(const struct run *r, uint32_t level)
{
	struct kvm_irq_level line = { .irq = KVM_ARM_IRQ_TYPE_CPU << KVM_ARM_IRQ_TYPE_SHIFT,
				      .level = level };

	(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE, &line);
}

/* The guest is deaf: a line that is up ends its halts, until it is down again. */
int arch_round(struct vcpu *v)
{
	if (v->halts)
		line_set(v->vm->all, 0);
	return 0;
}

/* Ten seconds later, while no vCPU runs: no stamp of the guest is there twice. */
int arch_again(struct vcpu *v)
{
	struct run *r = v->vm->all;
	struct truth_vm *first = &r->truth->vm[0], *t = &r->truth->vm[1];

	if (!v->halts)
		return 0;
	first->vcpu[0].before = first->vcpu[0].n;
	t->fd = first->fd;
	t->vcpus = first->vcpus;
	r->cpu = MAX(sched_getcpu(), 0);
	return reg_set(v, KVM_REG_ARM_TIMER_CNT, krdtsc_now() + first->offset + first->khz * 10000)
		       ?: offset_read(v, t);
}

void arch_kick(const struct run *r)
{
	line_set(r, 1);
}
#endif
