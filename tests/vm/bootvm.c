/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bootvm: a VMM whose guest boots in a second, and whose boot can be delayed where those of others are.
 *
 *   bootvm DISK [OPTION]...
 *
 * Its guest spins, touches 16 pages, reads four times from DISK, by the ports of IDE and an interrupt each, and writes
 * 0x42 to port 0x80: the end.
 *   --spin N       so many turns, a hundred million by default
 *   --sleep MS     before the VM is made
 *   --fill MS      the pages come by a userfaultfd, each so much later
 *   --memory FILE  the pages are those of FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE  4096u
#define SLOT  0x10000u /* bytes of each of two: the code, and 16 pages at 0x80000 */
#define CODE  0x1000u
#define IDE   0x1f7
#define IRQ   14

extern const char guest[], guest_end[];
__asm__(".pushsection .rodata\n"
	".code16\n"
	"guest:\n"
	"	cli\n"
	"	movw $(0x1000 + isr - guest), 0x1d8\n" /* vector 0x76 */
	"	movw $0, 0x1da\n"
	"	mov $0x11, %al; out %al, $0x20; out %al, $0xa0\n" /* both PICs, from 8 and 0x70 on */
	"	mov $0x08, %al; out %al, $0x21; mov $0x70, %al; out %al, $0xa1\n"
	"	mov $4, %al; out %al, $0x21; mov $2, %al; out %al, $0xa1\n"
	"	mov $1, %al; out %al, $0x21; out %al, $0xa1\n"
	"	mov $0xfb, %al; out %al, $0x21; mov $0xbf, %al; out %al, $0xa1\n"
	"	mov 0x7004, %ecx\n"
	"1:	dec %ecx; jnz 1b\n"
	"	mov $0x8000, %ax; mov %ax, %es; xor %di, %di; mov $16, %cx\n"
	"2:	movb $1, %es:(%di); add $0x1000, %di; loop 2b\n"
	"	mov $4, %bl; mov $0x1f7, %dx\n"
	"3:	mov $0x20, %al; out %al, %dx\n"
	"4:	cli; cmpb $0, 0x7000; jne 5f; sti; hlt; jmp 4b\n"
	"5:	movb $0, 0x7000; dec %bl; jnz 3b\n"
	"	mov $0x42, %al; out %al, $0x80\n"
	"6:	hlt; jmp 6b\n"
	"isr:	push %ax; movb $1, 0x7000; mov $0x20, %al; out %al, $0xa0; out %al, $0x20; pop %ax; iret\n"
	"guest_end:\n"
	".code64\n"
	".popsection\n");

static int vm, disk, uffd;
static int requests[2];
static useconds_t fill_us;

static void die(const char *what)
{
	fprintf(stderr, "bootvm: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *read_disk(void *arg)
{
	char *to = aligned_alloc(PAGE, PAGE), byte;

	for (off_t at = 0; read(requests[0], &byte, 1) == 1; at += 0x100000) {
		struct kvm_irq_level irq = { .irq = IRQ, .level = 1 };

		if (pread(disk, to, PAGE, at) != (ssize_t)PAGE || ioctl(vm, KVM_IRQ_LINE, &irq))
			die("a request");
		irq.level = 0;
		ioctl(vm, KVM_IRQ_LINE, &irq);
	}
	return arg;
}

static void *fill(void *arg)
{
	struct uffd_msg m;

	while (read(uffd, &m, sizeof(m)) == sizeof(m)) {
		struct uffdio_zeropage z = {
			.range = { m.arg.pagefault.address & ~(uint64_t)(PAGE - 1), PAGE },
		};

		usleep(fill_us);
		if (ioctl(uffd, UFFDIO_ZEROPAGE, &z))
			die("UFFDIO_ZEROPAGE");
	}
	return arg;
}

static void run_thread(void *(*what)(void *))
{
	pthread_t t;

	if (pthread_create(&t, NULL, what, NULL))
		die("thread");
}

static uint8_t *slot(uint32_t n, uint64_t at, int fd)
{
	struct kvm_userspace_memory_region r = { .slot = n, .guest_phys_addr = at, .memory_size = SLOT };
	uint8_t *p = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	r.userspace_addr = (uintptr_t)p;
	if (p == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &r))
		die("memory");
	return p;
}

int main(int argc, char **argv)
{
	struct uffdio_register watched = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	struct kvm_regs r = { .rip = CODE, .rflags = 2, .rsp = 0x8000 };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vcpu, file = -1;
	struct kvm_sregs s;
	struct kvm_run *run;
	uint32_t spin = 100000000;
	uint8_t *code, *pages;

	disk = argc > 1 ? open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
	if (kvm < 0 || disk < 0 || pipe(requests))
		die("/dev/kvm, or the disk");
	for (int i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--sleep"))
			usleep((useconds_t)atoi(argv[i + 1]) * 1000);
		else if (!strcmp(argv[i], "--fill"))
			fill_us = (useconds_t)atoi(argv[i + 1]) * 1000;
		else if (!strcmp(argv[i], "--spin"))
			spin = (uint32_t)atoi(argv[i + 1]);
		else
			file = open(argv[i + 1], O_RDONLY | O_CLOEXEC);
	}
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0 || ioctl(vm, KVM_CREATE_IRQCHIP, 0))
		die("KVM_CREATE_VM");
	code = slot(0, 0, -1);
	memcpy(code + CODE, guest, (size_t)(guest_end - guest));
	memcpy(code + 0x7004, &spin, sizeof(spin));
	pages = slot(1, 0x80000, file);
	watched.range = (struct uffdio_range){ (uintptr_t)pages, SLOT };
	if (fill_us) {
		uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
		if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &watched))
			die("userfaultfd");
		run_thread(fill);
	}
	run_thread(read_disk);
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (vcpu < 0 || run == MAP_FAILED || ioctl(vcpu, KVM_GET_SREGS, &s))
		die("vCPU");
	s.cs.base = s.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &s) || ioctl(vcpu, KVM_SET_REGS, &r))
		die("registers");
	for (;;) {
		if (ioctl(vcpu, KVM_RUN, 0) && errno != EINTR)
			die("KVM_RUN");
		if (run->exit_reason != KVM_EXIT_IO) {
			fprintf(stderr, "bootvm: exit %u\n", run->exit_reason);
			return 1;
		}
		if (run->io.port == 0x80)
			return 0;
		if (run->io.port == IDE && write(requests[1], "", 1) != 1)
			die("a request");
	}
}
