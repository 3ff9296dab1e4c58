/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tinyvm64.c: a KVM guest of a few instructions on an arm64 host, without QEMU.
 *
 *   tinyvm64 [--code HEX [--irq] [--pause-io S]] [ROUNDS]
 *
 * A vCPU that keeps making exits: a hypercall (PSCI_VERSION), a read of an ID register, a store of
 * the guest's counter to an address without memory. Prints its thread and how many rounds it saw.
 * Exit 77 when there is no /dev/kvm.
 *
 * --code HEX    runs these instructions (14000000: b .) for ever, where a kernel's code is: at
 *               0xffffffc080000000, x19 the address without memory; the first line is then "pid P",
 *               and the thread is called as cloud-hypervisor's.
 * --irq         an interrupt is pending from the start.
 * --pause-io S  rests so many seconds over each access.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define RAM	 0x80000000u
#define RAM_SIZE 0x10000u
#define DOORBELL 0x10000000u
#define KERNEL	 0xffffffc000000000ull /* where --code has its physical address 0 */
#define TABLE	 0x1000u		/* its table of translations, in RAM */
#define CORE(reg) \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | (offsetof(struct kvm_regs, reg) / sizeof(uint32_t)))

static const uint32_t code[] = {
	0x52b08000, /* again: mov w0, #0x84000000 */
	0xd4000002, /* hvc #0 */
	0xd5380402, /* mrs x2, id_aa64pfr0_el1 */
	0xd53be043, /* mrs x3, cntvct_el0 */
	0xf9000263, /* str x3, [x19] */
	0x17fffffb, /* b again */
};

static void die(const char *what)
{
	fprintf(stderr, "tinyvm64: %s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == EACCES || errno == ENODEV ? 77 : 1);
}

static void set(int vcpu, uint64_t id, uint64_t value)
{
	struct kvm_one_reg r = { .id = id, .addr = (uintptr_t)&value };

	if (ioctl(vcpu, KVM_SET_ONE_REG, &r))
		die("KVM_SET_ONE_REG");
}

/* One table of 1 GiB blocks for the upper half of 39 bits of address: devices, and RAM. */
static void translate(int vcpu, void *ram)
{
	uint64_t *table = (uint64_t *)(void *)((char *)ram + TABLE);

	table[256] = 0x405;			 /* a block, accessed, attributes 1 */
	table[258] = RAM | 0x701;		 /* ... shared, attributes 0 */
	set(vcpu, ARM64_SYS_REG(3, 0, 10, 2, 0), 0xff);		   /* MAIR_EL1 */
	set(vcpu, ARM64_SYS_REG(3, 0, 2, 0, 2), 0xb5190080);	   /* TCR_EL1 */
	set(vcpu, ARM64_SYS_REG(3, 0, 2, 0, 1), RAM + TABLE);	   /* TTBR1_EL1 */
	set(vcpu, ARM64_SYS_REG(3, 0, 1, 0, 0), 0x30d00800 | 0x1005); /* SCTLR_EL1 */
	set(vcpu, CORE(regs.pc), KERNEL + RAM);
	set(vcpu, CORE(regs.regs[19]), KERNEL + DOORBELL);
}

static int vcpu_new(int vm)
{
	struct kvm_vcpu_init init;
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);

	if (vcpu < 0 || ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init))
		die("KVM_CREATE_VCPU");
	init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
	if (ioctl(vcpu, KVM_ARM_VCPU_INIT, &init))
		die("KVM_ARM_VCPU_INIT");
	set(vcpu, CORE(regs.pc), RAM);
	set(vcpu, CORE(regs.regs[19]), DOORBELL);
	return vcpu;
}

/* "14000000d503207f": ends at the first character that is not hex. */
static void code_put(void *ram, const char *hex)
{
	char word[9] = "";

	for (size_t i = 0; i < RAM_SIZE / 4 && strlen(hex) >= 8 * (i + 1); i++) {
		uint32_t v;

		memcpy(word, hex + 8 * i, 8);
		v = (uint32_t)strtoul(word, NULL, 16);
		memcpy((char *)ram + 4 * i, &v, 4);
	}
	prctl(PR_SET_NAME, "vcpu0");
	printf("pid %d\n", getpid());
	fflush(stdout);
}

static const struct option options[] = {
	{ "code", required_argument, NULL, 'c' },
	{ "irq", no_argument, NULL, 'i' },
	{ "pause-io", required_argument, NULL, 'p' },
	{ NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	struct kvm_irq_level line = { .irq = KVM_ARM_IRQ_TYPE_CPU << KVM_ARM_IRQ_TYPE_SHIFT, .level = 1 };
	const char *own = NULL;
	unsigned int pause = 0;
	int c, irq = 0;

	while ((c = getopt_long(argc, argv, "c:ip:", options, NULL)) != -1) {
		switch (c) {
		case 'c': own = optarg; break;
		case 'i': irq = 1; break;
		case 'p': pause = (unsigned int)strtoul(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	unsigned long rounds = optind < argc ? strtoul(argv[optind], NULL, 10) : 100, seen = 0;
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0), vcpu;
	struct kvm_userspace_memory_region m = { .guest_phys_addr = RAM, .memory_size = RAM_SIZE };
	struct kvm_run *run;
	void *ram;

	if (vm < 0)
		die("/dev/kvm");
	ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ram == MAP_FAILED)
		die("mmap");
	memcpy(ram, code, sizeof(code));
	if (own)
		code_put(ram, own);
	m.userspace_addr = (uintptr_t)ram;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &m))
		die("KVM_SET_USER_MEMORY_REGION");
	vcpu = vcpu_new(vm);
	if (own)
		translate(vcpu, ram);
	run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		   MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		die("mmap");
	if (irq && ioctl(vm, KVM_IRQ_LINE, &line))
		die("KVM_IRQ_LINE");
	while (own || seen < rounds) {
		if (ioctl(vcpu, KVM_RUN, 0) && errno != EINTR)
			die("KVM_RUN");
		if (run->exit_reason == KVM_EXIT_MMIO && run->mmio.phys_addr == DOORBELL)
			seen += !pause || !sleep(pause);
		else if (run->exit_reason != KVM_EXIT_INTR)
			return fprintf(stderr, "tinyvm64: exit %u\n", run->exit_reason), 1;
	}
	printf("%d %lu\n", getpid(), seen);
	return 0;
}
