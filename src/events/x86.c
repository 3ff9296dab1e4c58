/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86.c: what hosts that are x86 have in common, and those with PVM, which need no extension. */
#include "x86.h"

const char *const x86_machines[] = { "x86_64", "i386", "i486", "i586", "i686", NULL };
const struct event_def x86_exit = {
	"kvm", "kvm_exit", { "exit_reason", "isa", "guest_rip", "vcpu_id" },
};

/* Linux guests (arch/x86/include/asm/irq_vectors.h): from here on vectors are the kernel's own. */
#define TIMER_VECTOR 0xec

static bool x86_is_timer(unsigned int vector)
{
	return vector == TIMER_VECTOR;
}

const struct event_irqs x86_irqs = {
	.accept = EV_ACCEPT, .numbers = 256, .device = 0x20, .system = TIMER_VECTOR, .shared = 256,
	.is_timer = x86_is_timer,
};

/* PVM is outside Linux and moved its codes around: only the kernel that was traced has names. */
const struct event_arch event_arch_pvm = {
	.name = "x86-pvm", X86, .isa = EXIT_ISA_PVM,
	.prefix = "pvm:", .probe = { 2u << 16, NULL }, /* its hypercall */
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX,
	.module = "kvm_pvm",
};
