/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tinyvm: the smallest real VM, for tests that need KVM exits of known kind and number.
 *
 * Every vCPU runs real-mode code that loops: `out` to port 0x80 (one kvm_pio), a store to an
 * address without memory (one kvm_mmio write), `hlt`. There is no interrupt controller, so hlt
 * exits to user space (KVM_EXIT_HLT) and one loop is over. After all loops a line per vCPU says
 * what was counted: `vcpu 0 io=1000 mmio=1000 hlt=1000`.
 *
 *   tinyvm [--iterations N] [--ms M] [--vcpus N] [--first-id I] [--stride S] [--name X]
 *	    [--cpuid C] [--brackets] [--pause US] [--pause-io US] [--spin-io] [--vfork-io]
 *	    [--code HEX [--long] [--irqchip] [--msi] [--no-page]] [--block MS --msi --ms M]
 *
 * --iterations N  loops per vCPU (default 1000); --ms M instead loops for M milliseconds.
 * --first-id, --stride  vcpu ids I, I+S, I+2S ... (default 0 and 1): ids with gaps.
 * --brackets  a line `io BEFORE AFTER` for each `out`: CLOCK_MONOTONIC_RAW in ns around its KVM_RUN.
 * --pause US  rests so long after each loop: a rate that a busy machine changes little.
 * --pause-io US  rests so long over each access to a port; --spin-io  computes over the first one for ever;
 * --vfork-io  waits there for a child, in state D, that does nothing.
 * --decoy F  over the first access to a port it maps a file F in place of struct kvm_run.
 * --name X  is not used: it is there to be found in the command line.
 * --cpuid C  before each loop, C cpuid instructions: exits that KVM handles by itself. The lines at
 *   the end then also have the CPU time of the vCPU's thread in its fastest loop: `loop_ns=123`.
 * --code HEX  runs these bytes at 0x1000 in place of the loop, e.g. ebfe: `jmp .`.
 * --long  in 64-bit mode, where a kernel's code is: at 0xffffffff81001000.
 * --irqchip  with KVM's interrupt controllers: hlt stays in the kernel until an interrupt comes.
 * --msi  ... and that comes every 10 ms for the first vCPU, vector 0x40.
 * --block MS  takes these interrupts, with an x2APIC, and writes to a port in each; in the twentieth it blocks
 *   them for so long (KVM_GUESTDBG_BLOCKIRQ), which inhibits APICv: `block BEFORE AFTER BEFORE AFTER`, the times in
 *   CLOCK_MONOTONIC_RAW around the calls that begin and end it.
 * --no-page  the first page that the guest touches never comes: nobody reads the userfaultfd.
 * First output line, before any guest code runs: `pid P vm-fd F tids T...`. Then it waits for a
 * newline or end of file on stdin when --wait is given. Exit 77 when there is no /dev/kvm.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_VCPUS 64
#define CODE_AT	  0x1000
#define MEM_SIZE  0x10000 /* [0x20000] beyond it is "MMIO" */
#define TABLES_AT 0x8000  /* of --long: three pages */
#define KERNEL_AT 0xffffffff81000000ull

static const uint8_t code[] = {
	0xb8, 0x00, 0x20, /*       mov $0x2000, %ax */
	0x8e, 0xd8,	  /*       mov %ax, %ds     */
	0xb0, 0x42,	  /*       mov $0x42, %al   */
	0xe6, 0x80,	  /* loop: out %al, $0x80   */
	0xa2, 0x00, 0x00, /*       mov %al, (0)     */
	0xf4,		  /*       hlt              */
	0xeb, 0xf8,	  /*       jmp loop         */
};

/* The same with a loop of cpuid in front; the count is put in at CPUID_COUNT. */
static const uint8_t cpuid_code[] = {
	0xb8, 0x00, 0x20,		    /*       mov $0x2000, %ax */
	0x8e, 0xd8,			    /*       mov %ax, %ds     */
	0x66, 0xbe, 0x00, 0x00, 0x00, 0x00, /* loop: mov $C, %esi     */
	0x66, 0x31, 0xc0,		    /* next: xor %eax, %eax   */
	0x0f, 0xa2,			    /*       cpuid            */
	0x66, 0x4e,			    /*       dec %esi         */
	0x75, 0xf7,			    /*       jnz next         */
	0xe6, 0x80,			    /*       out %al, $0x80   */
	0xa2, 0x00, 0x00,		    /*       mov %al, (0)     */
	0xf4,				    /*       hlt              */
	0xeb, 0xe9,			    /*       jmp loop         */
};
#define CPUID_COUNT 7

/*
 * Waits for interrupts; their handler. What one touches on its way is there before the first: the vector of one whose
 * delivery faults is lost in Bochs.
 */
static const uint8_t wait_code[] = {
	0x50, 0x58,	  /*       push %ax, pop %ax */
	0xa0, 0x00, 0x00, /*       mov (0), %al      */
	0xfb, 0xf4,	  /* loop: sti, hlt          */
	0xeb, 0xfc,	  /*       jmp loop          */
};
static const uint8_t handler_code[] = {
	0xe6, 0x80,			    /* out %al, $0x80        */
	0x66, 0xb9, 0x0b, 0x08, 0x00, 0x00, /* mov $0x80b, %ecx: EOI */
	0x66, 0x31, 0xc0,		    /* xor %eax, %eax        */
	0x66, 0x31, 0xd2,		    /* xor %edx, %edx        */
	0x0f, 0x30,			    /* wrmsr                 */
	0xcf,				    /* iret                  */
};
#define HANDLER_AT 0x1100
#define MSI_VECTOR 0x40
#ifndef KVM_GUESTDBG_BLOCKIRQ
#define KVM_GUESTDBG_BLOCKIRQ 0x00100000
#endif

struct vcpu {
	pthread_t thread;
	pthread_barrier_t *start;
	int fd;
	struct kvm_run *run;
	unsigned long id;
	uint64_t iterations, ms, pause_us, io_us, io, mmio, hlt, loop_ns;
	pid_t tid;
	bool failed, brackets, spin_io, vfork_io;
	uint64_t block_us;
	const char *decoy;
	int run_size;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "tinyvm: %s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == EACCES || errno == ENODEV ? 77 : 1);
}

static void rest(uint64_t us)
{
	const struct timespec ts = { .tv_sec = (time_t)(us / 1000000),
				     .tv_nsec = (long)(us % 1000000 * 1000) };

	nanosleep(&ts, NULL);
}

static void decoy_map(struct vcpu *v)
{
	int fd = open(v->decoy, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *p;

	munmap(v->run, (size_t)v->run_size);
	if (fd < 0 || ftruncate(fd, MEM_SIZE))
		die(v->decoy);
	p = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die(v->decoy);
	p[8] = KVM_EXIT_IO;
	for (;;)
		pause();
}

static void block(struct vcpu *v)
{
	struct kvm_guest_debug on = { .control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_BLOCKIRQ }, off = { 0 };
	uint64_t t[4];

	t[0] = clock_ns(CLOCK_MONOTONIC_RAW);
	if (ioctl(v->fd, KVM_SET_GUEST_DEBUG, &on))
		die("KVM_SET_GUEST_DEBUG");
	t[1] = clock_ns(CLOCK_MONOTONIC_RAW);
	rest(v->block_us);
	t[2] = clock_ns(CLOCK_MONOTONIC_RAW);
	if (ioctl(v->fd, KVM_SET_GUEST_DEBUG, &off))
		die("KVM_SET_GUEST_DEBUG");
	t[3] = clock_ns(CLOCK_MONOTONIC_RAW);
	printf("block %llu %llu %llu %llu\n", (unsigned long long)t[0], (unsigned long long)t[1],
	       (unsigned long long)t[2], (unsigned long long)t[3]);
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;
	uint64_t end, before, begin, took;

	v->tid = (pid_t)syscall(SYS_gettid);
	if (v->pause_us)
		prctl(PR_SET_TIMERSLACK, 1);
	pthread_barrier_wait(v->start); /* main prints the thread ids */
	pthread_barrier_wait(v->start); /* go */
	end = now_ms() + v->ms;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while (v->ms ? now_ms() < end : v->hlt < v->iterations) {
		before = v->brackets ? clock_ns(CLOCK_MONOTONIC_RAW) : 0;
		if (ioctl(v->fd, KVM_RUN, 0) && errno != EINTR) {
			v->failed = true;
			break;
		}
		if (v->brackets && v->run->exit_reason == KVM_EXIT_IO)
			printf("io %llu %llu\n", (unsigned long long)before,
			       (unsigned long long)clock_ns(CLOCK_MONOTONIC_RAW));
		switch (v->run->exit_reason) {
		case KVM_EXIT_IO:
			v->io++;
			while (v->spin_io)
				__asm__ volatile("");
			if (v->vfork_io && !vfork()) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (;;)
					pause();
			}
			if (v->decoy)
				decoy_map(v);
			if (v->block_us && v->io == 20)
				block(v);
			if (v->io_us)
				rest(v->io_us);
			break;
		case KVM_EXIT_MMIO: v->mmio++; break;
		case KVM_EXIT_HLT:
			v->hlt++;
			took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
			begin += took;
			if (!v->loop_ns || took < v->loop_ns)
				v->loop_ns = took;
			if (v->pause_us)
				rest(v->pause_us);
			break;
		case KVM_EXIT_INTR: break;
		default:
			fprintf(stderr, "tinyvm: vcpu %lu: exit reason %u\n", v->id,
				v->run->exit_reason);
			v->failed = true;
			return NULL;
		}
	}
	return NULL;
}

/* The first 2 MiB at 0 and at KERNEL_AT. */
static void tables_put(uint8_t *mem)
{
	uint64_t *t = (uint64_t *)(void *)(mem + TABLES_AT);

	t[0] = t[511] = TABLES_AT + 0x1000 + 3;
	t[512] = t[512 + 510] = TABLES_AT + 0x2000 + 3;
	t[1024] = t[1024 + (KERNEL_AT >> 21) % 512] = 0x83;
}

static void long_mode(struct kvm_sregs *s)
{
	struct kvm_segment seg = { .limit = 0xffffffff, .selector = 0x10, .type = 3, .present = 1,
				   .db = 1, .s = 1, .g = 1 };

	s->ds = s->es = s->ss = seg;
	seg.selector = 8;
	seg.type = 11;
	seg.db = 0;
	seg.l = 1;
	s->cs = seg;
	s->cr3 = TABLES_AT;
	s->cr4 = 0x20;	      /* PAE */
	s->cr0 = 0x80000011;  /* PG, ET, PE */
	s->efer = 0x500;      /* LMA, LME */
}

/* All that this host supports: without it newer kernels refuse long mode. */
static void cpuid_set(int kvm, int vcpu)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entry[256];
	} c = { .head.nent = 256 };

	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &c) || ioctl(vcpu, KVM_SET_CPUID2, &c))
		die("KVM_SET_CPUID2");
}

static void vcpu_create(int kvm, int vm, struct vcpu *v, bool in_long, bool x2apic)
{
	struct kvm_regs regs = { .rip = CODE_AT + (in_long ? KERNEL_AT : 0), .rflags = 2 };
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_sregs sregs;

	v->fd = ioctl(vm, KVM_CREATE_VCPU, v->id);
	if (v->fd < 0 || size < 0)
		die("KVM_CREATE_VCPU");
	v->run_size = size;
	v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->run == MAP_FAILED)
		die("mmap of kvm_run");
	if (ioctl(v->fd, KVM_GET_SREGS, &sregs))
		die("KVM_GET_SREGS");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (in_long || x2apic)
		cpuid_set(kvm, v->fd);
	if (in_long)
		long_mode(&sregs);
	if (x2apic)
		sregs.apic_base |= 0xc00;
	if (ioctl(v->fd, KVM_SET_SREGS, &sregs))
		die("KVM_SET_SREGS");
	if (ioctl(v->fd, KVM_SET_REGS, &regs))
		die("KVM_SET_REGS");
}

/* "ebfe": ends at the first character that is not hex. */
static void code_put(uint8_t *p, const char *hex)
{
	char byte[3] = "";

	for (size_t i = 0; i < MEM_SIZE - CODE_AT && hex[2 * i] && hex[2 * i + 1]; i++) {
		memcpy(byte, hex + 2 * i, 2);
		p[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
}

/* From the second page of the code on: pages that are present cause no fault. */
static void page_take(char *p)
{
	struct uffdio_register r = { .range = { (uintptr_t)p, MEM_SIZE },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &r))
		die("userfaultfd");
}

/* An enabled local APIC, which has to be there for --msi. */
static void apic_enable(int vcpu)
{
	struct kvm_lapic_state apic;

	if (ioctl(vcpu, KVM_GET_LAPIC, &apic))
		die("KVM_GET_LAPIC");
	apic.regs[0xf0] = (char)0xff; /* spurious vector; bit 8 switches it on */
	apic.regs[0xf1] |= 1;
	if (ioctl(vcpu, KVM_SET_LAPIC, &apic))
		die("KVM_SET_LAPIC");
}

/* Until the vCPU's thread ends: it waits in its guest, and looks at the time after an interrupt only. */
static void msi_send(int vm, pthread_t until)
{
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = MSI_VECTOR };

	while (pthread_tryjoin_np(until, NULL)) {
		if (ioctl(vm, KVM_SIGNAL_MSI, &msi) < 0)
			die("KVM_SIGNAL_MSI");
		rest(10000);
	}
}

struct vm_plan {
	uint32_t cpuid;
	const char *code;
	bool irqchip, no_page, msi, in_long, block;
};

static int vm_create(int kvm, const struct vm_plan *plan)
{
	uint32_t cpuid = plan->cpuid;
	struct kvm_userspace_memory_region mem = { .memory_size = MEM_SIZE };
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	void *p;

	if (vm < 0)
		die("KVM_CREATE_VM");
	/* Intel without unrestricted guest runs real mode with a TSS; elsewhere this is refused */
	(void)ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	p = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap of guest memory");
	memcpy((char *)p + CODE_AT, cpuid ? cpuid_code : code,
	       cpuid ? sizeof(cpuid_code) : sizeof(code));
	if (cpuid)
		memcpy((char *)p + CODE_AT + CPUID_COUNT, &cpuid, sizeof(cpuid));
	if (plan->block) {
		memcpy((char *)p + CODE_AT, wait_code, sizeof(wait_code));
		memcpy((char *)p + HANDLER_AT, handler_code, sizeof(handler_code));
		((char *)p)[4 * MSI_VECTOR + 1] = HANDLER_AT >> 8;
	}
	if (plan->code)
		code_put((uint8_t *)p + CODE_AT, plan->code);
	if (plan->in_long)
		tables_put(p);
	if (plan->no_page)
		page_take(p);
	if ((plan->irqchip || plan->msi) && ioctl(vm, KVM_CREATE_IRQCHIP, 0))
		die("KVM_CREATE_IRQCHIP");
	mem.userspace_addr = (uintptr_t)p;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &mem))
		die("KVM_SET_USER_MEMORY_REGION");
	return vm;
}

static const struct option options[] = {
	{ "iterations", required_argument, NULL, 'i' }, { "ms", required_argument, NULL, 'm' },
	{ "vcpus", required_argument, NULL, 'n' },	{ "first-id", required_argument, NULL, 'f' },
	{ "stride", required_argument, NULL, 's' },	{ "name", required_argument, NULL, 'N' },
	{ "wait", no_argument, NULL, 'w' },		{ "cpuid", required_argument, NULL, 'c' },
	{ "brackets", no_argument, NULL, 'b' },		{ "pause", required_argument, NULL, 'p' },
	{ "msi", no_argument, NULL, 'S' },
	{ "code", required_argument, NULL, 'C' },	{ "irqchip", no_argument, NULL, 'I' },
	{ "no-page", no_argument, NULL, 'P' },		{ "pause-io", required_argument, NULL, 'o' },
	{ "long", no_argument, NULL, 'l' },
	{ "spin-io", no_argument, NULL, 'Z' },		{ "vfork-io", no_argument, NULL, 'V' },
	{ "decoy", required_argument, NULL, 'd' },	{ "block", required_argument, NULL, 'k' },
	{ NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	unsigned long n = 1, first = 0, stride = 1, iterations = 1000, ms = 0, pause_us = 0,
		      pause_io = 0, block_ms = 0;
	struct vm_plan plan = { 0 };
	const char *decoy = NULL;
	static struct vcpu vcpu[MAX_VCPUS];
	pthread_barrier_t start;
	bool wait = false, brackets = false, spin_io = false, vfork_io = false;
	int c, kvm, vm, ret = 0;

	while ((c = getopt_long(argc, argv, "i:m:n:f:s:N:wbc:p:C:IPSo:ZVld:k:", options, NULL)) != -1) {
		switch (c) {
		case 'i': iterations = strtoul(optarg, NULL, 0); break;
		case 'm': ms = strtoul(optarg, NULL, 0); break;
		case 'n': n = strtoul(optarg, NULL, 0); break;
		case 'f': first = strtoul(optarg, NULL, 0); break;
		case 's': stride = strtoul(optarg, NULL, 0); break;
		case 'N': break;
		case 'w': wait = true; break;
		case 'b': brackets = true; break;
		case 'p': pause_us = strtoul(optarg, NULL, 0); break;
		case 'c': plan.cpuid = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 'o': pause_io = strtoul(optarg, NULL, 0); break;
		case 'C': plan.code = optarg; break;
		case 'I': plan.irqchip = true; break;
		case 'S': plan.msi = true; break;
		case 'P': plan.no_page = true; break;
		case 'l': plan.in_long = true; break;
		case 'd': decoy = optarg; break;
		case 'k': block_ms = strtoul(optarg, NULL, 0); plan.block = true; break;
		case 'Z': spin_io = true; break;
		case 'V': vfork_io = true; break;
		default: return 2;
		}
	}
	if (n < 1 || n > MAX_VCPUS)
		return 2;
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		die("/dev/kvm");
	vm = vm_create(kvm, &plan);
	pthread_barrier_init(&start, NULL, (unsigned int)n + 1);
	for (unsigned long i = 0; i < n; i++) {
		vcpu[i] = (struct vcpu){ .start = &start, .id = first + i * stride,
					 .iterations = iterations, .ms = ms, .pause_us = pause_us, .io_us = pause_io,
					 .brackets = brackets, .spin_io = spin_io, .vfork_io = vfork_io,
					 .decoy = decoy, .block_us = block_ms * 1000 };
		vcpu_create(kvm, vm, &vcpu[i], plan.in_long, plan.block);
		if (plan.msi)
			apic_enable(vcpu[i].fd);
		if (pthread_create(&vcpu[i].thread, NULL, vcpu_main, &vcpu[i]))
			die("pthread_create");
	}
	pthread_barrier_wait(&start);
	printf("pid %d vm-fd %d tids", (int)getpid(), vm);
	for (unsigned long i = 0; i < n; i++)
		printf(" %d", (int)vcpu[i].tid);
	printf("\n");
	fflush(stdout);
	while (wait && (c = getchar()) != EOF && c != '\n')
		;
	pthread_barrier_wait(&start);
	for (unsigned long i = 0; i < n; i++) {
		if (plan.msi && !i)
			msi_send(vm, vcpu[i].thread);
		else
			pthread_join(vcpu[i].thread, NULL);
		printf("vcpu %lu io=%llu mmio=%llu hlt=%llu", vcpu[i].id,
		       (unsigned long long)vcpu[i].io, (unsigned long long)vcpu[i].mmio,
		       (unsigned long long)vcpu[i].hlt);
		if (plan.cpuid)
			printf(" loop_ns=%llu", (unsigned long long)vcpu[i].loop_ns);
		printf("\n");
		ret |= vcpu[i].failed;
	}
	return ret;
}
