/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.c: the VMs of `kvmft check --prove`. Their guest reads its TSC after each of a few things
 * that make it exit, and keeps what it read: the truth that a recording is held against.
 *
 * The first VM has two vCPUs. vCPU 0 halts in each round and is woken by an interrupt, vCPU 1
 * computes. When half of vCPU 0's rounds are over, both get another TSC offset, and one CPU for
 * both. The second VM's TSC has three quarters of the host's rate, if this CPU can do that.
 */
#include "prove.h"

#if defined(__x86_64__)
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kvmft/kernel.h"

/* Since Linux 5.16; headers may be older. */
#ifndef KVM_VCPU_TSC_CTRL
#define KVM_VCPU_TSC_CTRL   0
#define KVM_VCPU_TSC_OFFSET 0
#endif

#define MSR_TSC	    0x10
#define CODE_AT	    0x1000u
#define LOG_AT	    0x2000u
#define LOG_END	    0xf000u
#define VCPU_MEM    0x10000u /* each has its own; nothing is at SEG_MMIO */
#define SEG_MMIO    0xe000u
#define COST_EXITS  200u /* of code[] */
#define COST_ROUNDS 10u
#define PORT_ROUND  0x80u
#define PORT_END    0x81u
#define KICK_NS	    1000000
#define ROUNDS	    ((LOG_END - LOG_AT) / 8 / TRUTH_STEPS) /* that have room */
#define HALF_NS	    2000000000ull
#define IRQ	    1u
#define IRQ_VECTOR  0x20u

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
};

static int fails(struct run *r, const char *what)
{
	return err_set(&r->truth->err, errno, "%s: %s", what, strerror(errno));
}

/* ---- making them ---- */

/* The TSC offset as KVM has it: since Linux 5.16. */
static int offset_attr(const struct vcpu *v, unsigned long request, int i)
{
	struct kvm_device_attr a = { .group = KVM_VCPU_TSC_CTRL,
				     .attr = KVM_VCPU_TSC_OFFSET,
				     .addr = (uintptr_t)&v->truth->offset[i] };

	return ioctl(v->fd, request, &a);
}

static int vcpu_regs(struct vcpu *v, uint64_t at, uint64_t si)
{
	struct kvm_regs regs = {
		.rip = CODE_AT + at, .rsp = 0xff0, .rdi = LOG_AT, .rsi = si, .rflags = 2
	};

	return ioctl(v->fd, KVM_SET_REGS, &regs) ? fails(v->vm->all, "KVM_SET_REGS") : 0;
}

static int vcpu_make(struct tiny_vm *vm, struct vcpu *v)
{
	int size = ioctl(vm->all->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_segment seg = {
		.base = v->id * VCPU_MEM, .limit = 0xffff, .type = 3, .present = 1, .s = 1
	};
	struct kvm_sregs s;

	seg.selector = (uint16_t)(seg.base >> 4);
	v->fd = ioctl(vm->fd, KVM_CREATE_VCPU, (unsigned long)v->id);
	if (v->fd < 0 || size < 0)
		return fails(vm->all, "KVM_CREATE_VCPU");
	v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->run == MAP_FAILED || ioctl(v->fd, KVM_GET_SREGS, &s))
		return fails(vm->all, "struct kvm_run");
	s.ds = s.ss = s.cs = s.es = seg;
	s.cs.type = 11;
	s.es.selector = SEG_MMIO;
	s.es.base = SEG_MMIO << 4;
	s.idt.base = seg.base;
	s.idt.limit = 0x3ff;
	if (ioctl(v->fd, KVM_SET_SREGS, &s))
		return fails(vm->all, "KVM_SET_SREGS");
	/* Others than the first would wait to be started by it. */
	if (ioctl(v->fd, KVM_SET_MP_STATE, &(struct kvm_mp_state){ KVM_MP_STATE_RUNNABLE }))
		return fails(vm->all, "KVM_SET_MP_STATE");
	memcpy(v->mem + CODE_AT, code, sizeof(code));
	memcpy(v->mem + IRQ_VECTOR * 4 + IRQ * 4, (uint16_t[]){ CODE_AT + AT_IRQ, seg.selector },
	       4);
	return 0;
}

static int vm_new(struct run *r, size_t i, uint32_t vcpus)
{
	struct tiny_vm *vm = &r->vm[i];
	struct kvm_userspace_memory_region mem = { .memory_size = (uint64_t)vcpus * VCPU_MEM };
	struct kvm_irqchip chip = { .chip_id = KVM_IRQCHIP_PIC_MASTER };
	int ret;

	vm->all = r;
	vm->truth = &r->truth->vm[i];
	vm->fd = ioctl(r->kvm, KVM_CREATE_VM, 0);
	if (vm->fd < 0)
		return fails(r, "KVM_CREATE_VM");
	/* Intel without unrestricted guests runs real mode with a TSS; elsewhere it is refused. */
	(void)!ioctl(vm->fd, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	vm->mem = mmap(NULL, mem.memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (vm->mem == MAP_FAILED)
		return fails(r, "memory of the guest");
	mem.userspace_addr = (uintptr_t)vm->mem;
	if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &mem))
		return fails(r, "KVM_SET_USER_MEMORY_REGION");
	/* The old interrupt controller: an interrupt that is taken is over. */
	if (ioctl(vm->fd, KVM_CREATE_IRQCHIP, 0) || ioctl(vm->fd, KVM_GET_IRQCHIP, &chip))
		return fails(r, "KVM_CREATE_IRQCHIP");
	chip.chip.pic.irq_base = IRQ_VECTOR;
	chip.chip.pic.auto_eoi = 1;
	chip.chip.pic.imr = (uint8_t) ~(1u << IRQ);
	ret = ioctl(vm->fd, KVM_SET_IRQCHIP, &chip) ? fails(r, "KVM_SET_IRQCHIP") : 0;
	for (uint32_t id = 0; id < vcpus && !ret; id++) {
		struct vcpu *v = &vm->vcpu[id];

		*v = (struct vcpu){ .vm = vm,
				    .truth = &vm->truth->vcpu[id], .id = id,
				    .halts = !i && !id,
				    .mem = vm->mem + (size_t)id * VCPU_MEM };
		ret = vcpu_make(vm, v);
	}
	vm->truth->fd = vm->fd;
	vm->truth->khz = ret ? 0 : (uint64_t)MAX(ioctl(vm->vcpu[0].fd, KVM_GET_TSC_KHZ, 0), 0);
	vm->truth->vcpus = ret ? 0 : vcpus;
	return ret;
}

/* ---- running them ---- */

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

/* Within a round; vCPU 1 follows vCPU 0. 0; -ECANCELED: the guest has run for long enough. */
static int round_done(struct vcpu *v)
{
	struct run *r = v->vm->all;
	cpu_set_t one;
	bool half = v->halts ? ++v->rounds == ROUNDS / 2 || util_now_ns() - v->since > HALF_NS
			     : ++v->rounds && atomic_load(&r->halved);

	if (util_now_ns() - v->since > 2 * HALF_NS)
		return -ECANCELED;
	if (!half || v->truth->changed || v->vm != &r->vm[0])
		return 0;
	if (v->halts) {
		v->truth->before = v->truth->n + v->rounds * TRUTH_STEPS;
		r->cpu = MAX(sched_getcpu(), 0);
		atomic_store(&r->halved, true);
	}
	CPU_ZERO(&one);
	CPU_SET((size_t)r->cpu, &one);
	(void)!sched_setaffinity(0, sizeof(one), &one);
	return offset_change(v);
}

/* Until the guest says that it has come to its end, or time is over. */
static int vcpu_run(struct vcpu *v)
{
	int ret = 0;

	v->rounds = 0;
	while (!ret) {
		if (ioctl(v->fd, KVM_RUN, 0) && errno != EINTR)
			return fails(v->vm->all, "KVM_RUN");
		switch (v->run->exit_reason) {
		case KVM_EXIT_IO:
			if (v->run->io.port == PORT_END)
				return 0;
			ret = round_done(v);
			break;
		case KVM_EXIT_MMIO:
		case KVM_EXIT_INTR: break;
		default:
			return err_set(&v->vm->all->truth->err, ENOTSUP,
				       "this machine's KVM does not run the guest: exit reason %u",
				       v->run->exit_reason);
		}
	}
	return ret;
}

/* Cycles of the cheapest exit there is, the best of some rounds. */
static int cost(struct vcpu *v, uint64_t *best)
{
	int ret = vcpu_regs(v, AT_COST, COST_ROUNDS);
	uint64_t at[2];

	ret = ret ?: vcpu_run(v);
	for (size_t i = 0; i < COST_ROUNDS && !ret; i++) {
		memcpy(at, v->mem + LOG_AT + i * sizeof(at), sizeof(at));
		if (!*best || (at[1] - at[0]) / COST_EXITS < *best)
			*best = (at[1] - at[0]) / COST_EXITS;
	}
	return ret;
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;
	struct run *r = v->vm->all;
	uint64_t n;
	int ret = v->halts ? cost(v, &r->truth->bare) : 0;

	/* vCPU 0 has its thread before the recording begins. */
	if (v->halts) {
		atomic_store(&r->bared, true);
		while (!atomic_load(&r->begun))
			usleep(1000);
		ret = ret ?: cost(v, &r->truth->traced);
	}
	v->since = util_now_ns();
	do {
		ret = ret ?: vcpu_regs(v, AT_LOOP, v->halts);
		ret = ret ?: vcpu_run(v);
		if (ret && ret != -ECANCELED)
			break;
		/* The last round may not be over. */
		n = MIN((v->rounds ? v->rounds - 1 : 0) * TRUTH_STEPS, TRUTH_STAMPS - v->truth->n);
		memcpy(v->truth->stamp + v->truth->n, v->mem + LOG_AT, n * sizeof(uint64_t));
		v->truth->n += n;
	} while (!ret && !v->halts && v->vm == &r->vm[0] && !atomic_load(&r->over));
	if (v->halts)
		atomic_store(&r->over, true);
	if (ret && ret != -ECANCELED)
		r->truth->ret = ret;
	return NULL;
}

/* Interrupts for the halted vCPU, and when each was sent. */
static void kick(struct run *r)
{
	const struct timespec pause = { .tv_nsec = KICK_NS };
	struct truth *t = r->truth;

	while (!atomic_load(&r->over)) {
		struct kvm_irq_level line = { .irq = IRQ, .level = 1 };

		nanosleep(&pause, NULL);
		if (t->kicks < TRUTH_KICKS)
			t->kick[t->kicks++] = krdtsc_now();
		(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE, &line);
		line.level = 0;
		(void)!ioctl(r->vm[0].fd, KVM_IRQ_LINE, &line);
	}
}

static int vcpu_start(struct vcpu *v)
{
	int ret = -pthread_create(&v->thread, NULL, vcpu_main, v);

	if (!ret)
		(void)!pthread_setname_np(v->thread, v->id ? "CPU 1/KVM" : "CPU 0/KVM");
	return ret;
}

/* Their threads end by themselves. What vCPU 1 does not do is missing in the truth. */
static int run_all(struct run *r, int ready, int go)
{
	struct vcpu *first = &r->vm[0].vcpu[0], *second = &r->vm[0].vcpu[1],
		    *other = &r->vm[1].vcpu[0];
	int ret = vcpu_start(first);
	char byte = 0;

	if (ret)
		return ret;
	while (!atomic_load(&r->bared))
		usleep(1000);
	if (full_write(ready, "+", 1, NULL) || read(go, &byte, 1) != 1)
		return -EPIPE;
	atomic_store(&r->begun, true);
	ret = vcpu_start(second);
	kick(r);
	pthread_join(first->thread, NULL);
	if (ret)
		return ret;
	pthread_join(second->thread, NULL);
	if (r->truth->vm[1].vcpus && !r->truth->ret) {
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
				"cannot open /dev/kvm: %s: run as root where KVM is: modprobe "
				"kvm_intel or kvm_amd; in a VM, its host must allow nested VMs",
				strerror(errno));
	ret = vm_new(&r, 0, 2);
	t->host_khz = t->vm[0].khz;
	ret = ret ?: vm_new(&r, 1, 1);
	/* Not every CPU can do that. */
	t->vm[1].khz = t->host_khz / 4 * 3;
	if (!ret && (ioctl(r.kvm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_CONTROL) <= 0 ||
		     ioctl(r.vm[1].vcpu[0].fd, KVM_SET_TSC_KHZ, t->vm[1].khz)))
		t->vm[1].vcpus = 0;
	for (size_t i = 0; i < TRUTH_VMS && !ret; i++)
		for (uint32_t k = 0; k < t->vm[i].vcpus; k++)
			r.vm[i].vcpu[k].truth->has_offset =
				!offset_attr(&r.vm[i].vcpu[k], KVM_GET_DEVICE_ATTR, 0);
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
			"there is no guest for this architecture yet: x86-64 only");
}
#endif
