/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tinyvm64.c: a KVM guest of a few instructions on an arm64 host, without QEMU.
 *
 *   tinyvm64 [ROUNDS]
 *
 * A vCPU that does again and again what its host has to do for it: a hypercall (the version of PSCI), a
 * read of an ID register, a store to an address where there is no memory, of the counter as the guest
 * sees it. Prints its thread and how many rounds it saw. Exit 77 when there is no /dev/kvm.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RAM	 0x80000000u
#define RAM_SIZE 0x10000u
#define DOORBELL 0x10000000u
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

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100, seen = 0;
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
	m.userspace_addr = (uintptr_t)ram;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &m))
		die("KVM_SET_USER_MEMORY_REGION");
	vcpu = vcpu_new(vm);
	run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		   MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		die("mmap");
	while (seen < rounds) {
		if (ioctl(vcpu, KVM_RUN, 0) && errno != EINTR)
			die("KVM_RUN");
		if (run->exit_reason == KVM_EXIT_MMIO && run->mmio.phys_addr == DOORBELL)
			seen++;
		else if (run->exit_reason != KVM_EXIT_INTR)
			return fprintf(stderr, "tinyvm64: exit %u\n", run->exit_reason), 1;
	}
	printf("%d %lu\n", getpid(), seen);
	return 0;
}
