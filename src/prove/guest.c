/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.c: the VMs of `kvmft check --prove`. Their guest reads its counter after each of a few
 * things that make it exit, and keeps what it read: the truth that a recording is held against.
 *
 * The first VM has two vCPUs. vCPU 0 halts in each round and is woken by an interrupt, vCPU 1
 * computes. When half of that is over, both get another offset of their counters, and one CPU for
 * both.
 */
#include "prove.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kvmft/kernel.h"

/* Since Linux 5.16; headers may be older. */
#ifndef KVM_VCPU_TSC_CTRL
#define KVM_VCPU_TSC_CTRL   0
#define KVM_VCPU_TSC_OFFSET 0
#endif

#define CODE_AT	    0x1000u
#define LOG_AT	    0x2000u
#define LOG_END	    0xf000u
#define VCPU_MEM    0x10000u /* each has its own */
#define COST_EXITS  200u     /* of code[] */
#define COST_ROUNDS 10u
#define KICK_NS	    1000000
#define ROUNDS	    ((LOG_END - LOG_AT) / 8 / TRUTH_STEPS) /* that have room */
#define HALF_NS	    2000000000ull

#ifdef __x86_64__
#define RUNS	   1u
#define MEMORY_AT  0u
#define NO_KVM	   "modprobe kvm_intel or kvm_amd"
#define MSR_TSC	   0x10
#define SEG_MMIO   0xe000u /* nothing is there */
#define PORT_ROUND 0x80u
#define PORT_END   0x81u
#define EXIT_ROUND KVM_EXIT_IO
#define IS_END(r)  ((r)->io.port == PORT_END)
#define LINE	   1u
#define IRQ_VECTOR 0x20u
#else
#define RUNS	   2u
#define MEMORY_AT  0x80000000u
#define NO_KVM	   "KVM is in kernels that were entered at EL2"
#define MMIO_ROUND 0x10000000u /* nothing is there */
#define EXIT_ROUND KVM_EXIT_MMIO
#define IS_END(r)  ((r)->mmio.phys_addr != MMIO_ROUND)
#define LINE	   (KVM_ARM_IRQ_TYPE_CPU << KVM_ARM_IRQ_TYPE_SHIFT)
#define READINGS   100
#define CORE(reg)                                              \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
	 (offsetof(struct kvm_regs, regs.reg) / sizeof(uint32_t)))
#endif

struct vcpu {
	struct tiny_vm *vm;
	struct truth_vcpu *truth;
	struct kvm_run *run;
	pthread_t thread;
	uint8_t *mem;
	unsigned int id;
	bool halts;	/* in each round */
	size_t rounds;	/* of which the guest has kept the stamps */
	uint64_t since; /* CLOCK_MONOTONIC, ns */
	int fd;
};

struct tiny_vm {
	struct run *all;
	struct truth_vm *truth;
	struct vcpu vcpu[TRUTH_VCPUS];
	uint8_t *mem;
	int fd;
};

struct run {
	struct truth *truth;
	struct tiny_vm vm[TRUTH_VMS];
	int kvm;
	atomic_bool bared, begun; /* of the first VM: the exit was measured, it is recorded */
	atomic_bool halved, over; /* ... of vCPU 0's rounds */
	int cpu;		  /* then: of both its vCPUs */
	pthread_barrier_t both;
};

static int run_err(struct run *r, const char *what)
{
	return err_set(&r->truth->err, errno, "%s: %s", what, strerror(errno));
}

static void share_cpu(struct run *r)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)r->cpu, &one);
	(void)!sched_setaffinity(0, sizeof(one), &one);
}

static void line_set(const struct run *r, uint32_t level)
{
	(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE,
		     &(struct kvm_irq_level){ .irq = LINE, .level = level });
}

static int vm_new(struct run *r, size_t i, uint32_t vcpus);

#ifdef __x86_64__
/* ---- x86: the offset changes within the rounds; a second VM's TSC has another rate ---- */

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

static int arch_vm(struct tiny_vm *vm)
{
	struct kvm_irqchip chip = { .chip_id = KVM_IRQCHIP_PIC_MASTER };

	vm->fd = ioctl(vm->all->kvm, KVM_CREATE_VM, 0);
	if (vm->fd < 0)
		return run_err(vm->all, "KVM_CREATE_VM");
	/* Intel without unrestricted guests runs real mode with a TSS; elsewhere it is refused. */
	(void)!ioctl(vm->fd, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	/* The old interrupt controller: an interrupt that is taken is over. */
	if (ioctl(vm->fd, KVM_CREATE_IRQCHIP, 0) || ioctl(vm->fd, KVM_GET_IRQCHIP, &chip))
		return run_err(vm->all, "KVM_CREATE_IRQCHIP");
	chip.chip.pic.irq_base = IRQ_VECTOR;
	chip.chip.pic.auto_eoi = 1;
	chip.chip.pic.imr = (uint8_t) ~(1u << LINE);
	return ioctl(vm->fd, KVM_SET_IRQCHIP, &chip) ? run_err(vm->all, "KVM_SET_IRQCHIP") : 0;
}

static int arch_vcpu(struct vcpu *v)
{
	struct kvm_segment seg = {
		.base = v->id * VCPU_MEM, .limit = 0xffff, .type = 3, .present = 1, .s = 1
	};
	struct kvm_sregs s;

	seg.selector = (uint16_t)(seg.base >> 4);
	if (ioctl(v->fd, KVM_GET_SREGS, &s))
		return run_err(v->vm->all, "KVM_GET_SREGS");
	s.ds = s.ss = s.cs = s.es = seg;
	s.cs.type = 11;
	s.es.selector = SEG_MMIO;
	s.es.base = SEG_MMIO << 4;
	s.idt.base = seg.base;
	s.idt.limit = 0x3ff;
	if (ioctl(v->fd, KVM_SET_SREGS, &s))
		return run_err(v->vm->all, "KVM_SET_SREGS");
	/* Others than the first would wait to be started by it. */
	if (ioctl(v->fd, KVM_SET_MP_STATE, &(struct kvm_mp_state){ KVM_MP_STATE_RUNNABLE }))
		return run_err(v->vm->all, "KVM_SET_MP_STATE");
	memcpy(v->mem + CODE_AT, code, sizeof(code));
	memcpy(v->mem + IRQ_VECTOR * 4 + LINE * 4, (uint16_t[]){ CODE_AT + AT_IRQ, seg.selector },
	       4);
	return 0;
}

static int arch_others(struct run *r)
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

static int arch_begin(struct vcpu *v, uint64_t cost)
{
	struct kvm_regs regs = { .rip = CODE_AT + (cost ? AT_COST : AT_LOOP),
				 .rsp = 0xff0, .rdi = LOG_AT,
				 .rsi = cost ?: v->halts, .rflags = 2 };

	return ioctl(v->fd, KVM_SET_REGS, &regs) ? run_err(v->vm->all, "KVM_SET_REGS") : 0;
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
		return offset_attr(v, KVM_SET_DEVICE_ATTR, 1) ? run_err(v->vm->all, "TSC offset")
							      : 0;
	}
	m->nmsrs = 1;
	m->entries[0].index = MSR_TSC;
	if (ioctl(v->fd, KVM_GET_MSRS, m) != 1)
		return run_err(v->vm->all, "KVM_GET_MSRS");
	m->entries[0].data += ahead;
	return ioctl(v->fd, KVM_SET_MSRS, m) != 1 ? run_err(v->vm->all, "KVM_SET_MSRS") : 0;
}

/* vCPU 1 follows vCPU 0. */
static int arch_round(struct vcpu *v)
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

#define arch_again(v) 0 /* it runs but once */
#else
/*
 * ---- arm64: the counter is the host's plus an offset that all vCPUs of a VM share, and that no
 * event and no file tells. So it runs twice, with the offset that KVM gave it and with one that is
 * ten seconds ahead: two captures of one VM. There are no ports, no MSRs and no other rate. ----
 */

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

	return ioctl(v->fd, KVM_SET_ONE_REG, &r) ? run_err(v->vm->all, "KVM_SET_ONE_REG") : 0;
}

/* The VM's type is the number of its bits of address: some CPUs have fewer than KVM's 40. */
static int arch_vm(struct tiny_vm *vm)
{
	int bits = ioctl(vm->all->kvm, KVM_CHECK_EXTENSION, KVM_CAP_ARM_VM_IPA_SIZE);

	vm->fd = ioctl(vm->all->kvm, KVM_CREATE_VM, (unsigned long)MAX(MIN(bits, 40), 0));
	return vm->fd < 0 ? run_err(vm->all, "KVM_CREATE_VM") : 0;
}

/*
 * Its translation leaves all addresses as they are, in blocks of 1 GiB: without one, what it stores
 * would go past the caches, from which it is read here.
 */
static int arch_vcpu(struct vcpu *v)
{
	const uint64_t mem = MEMORY_AT + v->id * VCPU_MEM;
	const struct {
		uint64_t id, value;
	} regs[] = {
		{ ARM64_SYS_REG(3, 0, 10, 2, 0), 0xff },    /* MAIR_EL1: 0 memory, 1 device */
		{ ARM64_SYS_REG(3, 0, 2, 0, 2), 0x803519 }, /* TCR_EL1: 39 bits, 4 KiB, cached */
		{ ARM64_SYS_REG(3, 0, 2, 0, 0), mem },      /* TTBR0_EL1 */
		{ ARM64_SYS_REG(3, 0, 1, 0, 0), 0x30d00800 | 0x1005 }, /* SCTLR_EL1: I, C, M */
		{ CORE(regs[19]), MMIO_ROUND },
		{ CORE(regs[21]), mem + LOG_END },
		{ CORE(regs[22]), v->halts },
	};
	struct kvm_vcpu_init init;
	uint64_t *table = (uint64_t *)(void *)v->mem;
	int ret = 0;

	if (ioctl(v->vm->fd, KVM_ARM_PREFERRED_TARGET, &init))
		return run_err(v->vm->all, "KVM_ARM_PREFERRED_TARGET");
	init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
	if (ioctl(v->fd, KVM_ARM_VCPU_INIT, &init))
		return run_err(v->vm->all, "KVM_ARM_VCPU_INIT");
	memcpy(v->mem + CODE_AT, code, sizeof(code));
	table[0] = 0x405;				/* a block, accessed; of attribute 1 */
	table[MEMORY_AT >> 30] = MEMORY_AT | 0x701; /* ... of attribute 0, shared */
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
			return run_err(v->vm->all, "the guest's counter");
		after = krdtsc_now();
		if (after < before || after - before >= t->offset_width)
			continue;
		t->offset_width = after - before;
		t->offset = value - after;
	}
	return 0;
}

static int arch_others(struct run *r)
{
	struct truth *t = r->truth;
	uint64_t hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	t->host_khz = t->vm[0].khz = t->vm[1].khz = hz / 1000;
	return offset_read(&r->vm[0].vcpu[0], &t->vm[0]);
}

static int arch_begin(struct vcpu *v, uint64_t cost)
{
	const uint64_t mem = MEMORY_AT + v->id * VCPU_MEM;
	int ret;

	/* First its last store has to be over, or KVM would step over the first instruction. */
	v->run->immediate_exit = 1;
	(void)!ioctl(v->fd, KVM_RUN, 0);
	v->run->immediate_exit = 0;
	ret = reg_set(v, CORE(pc), mem + CODE_AT + (cost ? AT_COST : AT_LOOP));
	ret = ret ?: reg_set(v, CORE(regs[20]), mem + LOG_AT);
	return ret ?: reg_set(v, CORE(regs[23]), cost);
}

/* The guest is deaf: a line that is up ends its halts, until it is down again. */
static int arch_round(struct vcpu *v)
{
	if (v->halts)
		line_set(v->vm->all, 0);
	return 0;
}

/* Ten seconds later, while no vCPU runs: no stamp of the guest is there twice. */
static int arch_again(struct vcpu *v)
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
#endif

/* ---- making them ---- */

static int vm_new(struct run *r, size_t i, uint32_t vcpus)
{
	struct tiny_vm *vm = &r->vm[i];
	struct kvm_userspace_memory_region mem = { .guest_phys_addr = MEMORY_AT,
						   .memory_size = (uint64_t)vcpus * VCPU_MEM };
	int size = ioctl(r->kvm, KVM_GET_VCPU_MMAP_SIZE, 0), ret;

	vm->all = r;
	vm->truth = &r->truth->vm[i];
	ret = arch_vm(vm);
	if (ret)
		return ret;
	vm->mem = mmap(NULL, mem.memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (vm->mem == MAP_FAILED)
		return run_err(r, "memory of the guest");
	mem.userspace_addr = (uintptr_t)vm->mem;
	if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &mem))
		return run_err(r, "KVM_SET_USER_MEMORY_REGION");
	for (uint32_t id = 0; id < vcpus && !ret; id++) {
		struct vcpu *v = &vm->vcpu[id];

		*v = (struct vcpu){ .vm = vm,
				    .truth = &vm->truth->vcpu[id], .id = id,
				    .halts = !i && !id,
				    .mem = vm->mem + (size_t)id * VCPU_MEM };
		v->fd = ioctl(vm->fd, KVM_CREATE_VCPU, (unsigned long)id);
		if (v->fd < 0 || size < 0)
			return run_err(r, "KVM_CREATE_VCPU");
		v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
		ret = v->run == MAP_FAILED ? run_err(r, "struct kvm_run") : arch_vcpu(v);
	}
	vm->truth->fd = vm->fd;
	vm->truth->vcpus = ret ? 0 : vcpus;
	return ret;
}

/* ---- running them ---- */

/* Until the guest says that it has come to its end, or time is over: -ECANCELED. */
static int vcpu_run(struct vcpu *v)
{
	uint32_t reason;
	int ret = 0;

	v->rounds = 0;
	while (!ret) {
		if (ioctl(v->fd, KVM_RUN, 0) && errno != EINTR)
			return run_err(v->vm->all, "KVM_RUN");
		reason = v->run->exit_reason;
		if (reason == EXIT_ROUND && IS_END(v->run))
			return 0;
		if (reason == EXIT_ROUND) {
			v->rounds++;
			ret = arch_round(v);
			if (util_now_ns() - v->since > 2 * HALF_NS / RUNS)
				return -ECANCELED;
		} else if (reason != KVM_EXIT_MMIO && reason != KVM_EXIT_INTR) {
			return err_set(&v->vm->all->truth->err, ENOTSUP,
				       "this machine's KVM does not run the guest: exit reason %u",
				       reason);
		}
	}
	return ret;
}

/* Cycles of the cheapest exit there is, the best of some rounds. */
static int exit_cost(struct vcpu *v, uint64_t *best)
{
	int ret = arch_begin(v, COST_ROUNDS);
	uint64_t at[2];

	v->since = util_now_ns();
	ret = ret ?: vcpu_run(v);
	for (size_t i = 0; i < COST_ROUNDS && !ret; i++) {
		memcpy(at, v->mem + LOG_AT + i * sizeof(at), sizeof(at));
		if (!*best || (at[1] - at[0]) / COST_EXITS < *best)
			*best = (at[1] - at[0]) / COST_EXITS;
	}
	return ret;
}

/* vCPU 0 until its log is full, others until vCPU 0 is done. */
static int vcpu_rounds(struct vcpu *v, const atomic_bool *done)
{
	int ret;
	uint64_t n;

	v->since = util_now_ns();
	do {
		ret = arch_begin(v, 0);
		ret = ret ?: vcpu_run(v);
		if (ret && ret != -ECANCELED)
			return ret;
		/* The last round may not be over. */
		n = MIN((v->rounds ? v->rounds - 1 : 0) * TRUTH_STEPS, TRUTH_STAMPS - v->truth->n);
		memcpy(v->truth->stamp + v->truth->n, v->mem + LOG_AT, n * sizeof(uint64_t));
		v->truth->n += n;
	} while (!ret && !v->halts && v->vm == &v->vm->all->vm[0] && !atomic_load(done));
	return 0;
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;
	struct run *r = v->vm->all;
	int ret = v->halts ? exit_cost(v, &r->truth->bare) : 0;

	if (v->halts)
		atomic_store(&r->bared, true);
	while (!atomic_load(&r->begun))
		usleep(1000);
	if (v->halts)
		ret = ret ?: exit_cost(v, &r->truth->traced);
	for (unsigned int i = 0; i < RUNS; i++) {
		if (i) {
			pthread_barrier_wait(&r->both);
			ret = ret ?: arch_again(v);
			v->truth = &r->truth->vm[i].vcpu[v->id];
			pthread_barrier_wait(&r->both);
			share_cpu(r);
		}
		ret = ret ?: vcpu_rounds(v, i + 1 < RUNS ? &r->halved : &r->over);
		if (v->halts)
			atomic_store(i + 1 < RUNS ? &r->halved : &r->over, true);
	}
	if (ret)
		r->truth->ret = ret;
	return NULL;
}

/* Interrupts for the halted vCPU, and when each was sent. */
static void vcpus_kick(struct run *r)
{
	const struct timespec pause = { .tv_nsec = KICK_NS };
	struct truth *t = r->truth;

	while (!atomic_load(&r->over)) {
		nanosleep(&pause, NULL);
		if (t->kicks < TRUTH_KICKS)
			t->kick[t->kicks++] = krdtsc_now();
		line_set(r, 1);
		/* One that wakes by its level is taken back in the next round. */
		if (RUNS == 1)
			line_set(r, 0);
	}
}

static int vcpu_start(struct vcpu *v)
{
	int ret = -pthread_create(&v->thread, NULL, vcpu_main, v);

	if (!ret)
		(void)!pthread_setname_np(v->thread, v->id ? "CPU 1/KVM" : "CPU 0/KVM");
	return ret;
}

/*
 * Their threads end by themselves. What vCPU 1 does not do is missing in the truth. Both are there
 * before the recording begins: entries of arm64 do not say which vCPU it is.
 */
static int run_all(struct run *r, int ready, int go)
{
	struct vcpu *first = &r->vm[0].vcpu[0], *second = &r->vm[0].vcpu[1],
		    *other = &r->vm[1].vcpu[0];
	int ret = -pthread_barrier_init(&r->both, NULL, 2);
	char byte = 0;

	ret = ret ?: vcpu_start(first) ?: vcpu_start(second);
	if (ret)
		return ret;
	while (!atomic_load(&r->bared))
		usleep(1000);
	if (full_write(ready, "+", 1, NULL) || read(go, &byte, 1) != 1)
		return -EPIPE;
	atomic_store(&r->begun, true);
	vcpus_kick(r);
	pthread_join(first->thread, NULL);
	pthread_join(second->thread, NULL);
	if (other->vm && r->truth->vm[1].vcpus && !r->truth->ret) {
		ret = vcpu_start(other);
		if (!ret)
			pthread_join(other->thread, NULL);
	}
	return ret ?: r->truth->ret;
}

int prove_guest(struct truth *t, int ready, int go)
{
	struct run r = { .truth = t, .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	char byte = 0;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (r.kvm < 0)
		return err_lack(&t->err, errno,
				"cannot open /dev/kvm: %s: run as root where KVM is: " NO_KVM
				"; in a VM, its host must allow nested VMs",
				strerror(errno));
	ret = vm_new(&r, 0, 2) ?: arch_others(&r);
	ret = ret ?: run_all(&r, ready, go);
	/* The VMs are there until the recorder has read their offsets again. */
	if (!ret && !full_write(ready, "+", 1, NULL))
		(void)!read(go, &byte, 1);
	return ret;
}
#else
int prove_guest(struct truth *t, int ready __unused_arg, int go __unused_arg)
{
	return err_lack(&t->err, ENOTSUP,
			"there is no guest for this architecture: x86-64 and arm64 only");
}
#endif
