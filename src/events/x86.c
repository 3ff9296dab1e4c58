/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86.c: hosts that are x86: with VMX, with SVM, and with PVM, which needs no extension. Names of
 * exit reasons are VMX_EXIT_REASONS and SVM_EXIT_REASONS of
 * arch/x86/include/uapi/asm/{vmx,svm}.h as Linux 6.18 has them.
 * tests/unit/test_events_exit_names.c compares the tables with the text that such a kernel exports.
 */
#include "arch.h"

static const char *const x86_machines[] = { "x86_64", "i386", "i486", "i586", "i686", NULL };
static const struct event_def x86_exit = {
	"kvm", "kvm_exit", "exit_reason isa guest_rip vcpu_id",
};

/* Linux guests (arch/x86/include/asm/irq_vectors.h): from here on vectors are the kernel's own. */
#define TIMER_VECTOR 0xec

static bool x86_is_timer(unsigned int vector)
{
	return vector == TIMER_VECTOR;
}

static const struct event_irqs x86_irqs = {
	.accept = EV_ACCEPT, .numbers = 256, .device = 0x20, .system = TIMER_VECTOR, .shared = 256,
	.is_timer = x86_is_timer,
};

#define X86 .machine = x86_machines, .exit = &x86_exit, .irqs = &x86_irqs

/* Of Intel and others. */
static const struct exit_entry vmx_names[] = { VMX_EXIT_CODES };

/* Bit numbers of VMX flags: Intel SDM vol. 3, "Basic VM-Exit Information" */
static const struct exit_entry vmx_flags[] = {
	{ 26, "BUS_LOCK" }, { 27, "SGX_ENCLAVE" }, { 28, "PENDING_MTF" }, { 29, "SMI_FROM_ROOT" },
	{ 31, "FAILED_VMENTRY" },
};

const struct event_arch event_arch_vmx = {
	.name = "x86-vmx", X86, .isa = EXIT_ISA_VMX,
	.vendor = { "GenuineIntel", "CentaurHauls", "  Shanghai  " },
	.reason = vmx_names, .nreason = ARRAY_SIZE(vmx_names),
	.flag = vmx_flags, .nflag = ARRAY_SIZE(vmx_flags),
	.prefix = "", .probe = { 12, "HLT" }, .halt = 12, .intr = 1, .fault = 48, .pause = 40,
	.async = { 52 /* PREEMPTION_TIMER */ }, .nested = { 20, 24 /* VMLAUNCH, VMRESUME */ },
	.log_full = 62, .tsc_frac = 48, .module = "kvm_intel",
};

/* Of AMD and Hygon. */
static const struct exit_entry svm_names[] = { SVM_EXIT_CODES };

const struct event_arch event_arch_svm = {
	.name = "x86-svm", X86, .isa = EXIT_ISA_SVM, .vendor = { "AuthenticAMD", "HygonGenuine" },
	.reason = svm_names, .nreason = ARRAY_SIZE(svm_names),
	.prefix = "", .probe = { 0x78, "hlt" }, .halt = 0x78, .intr = 0x60, .fault = 0x400,
	.pause = 0x77, .async = { 0x61, 0x62 /* NMI, SMI */ },
	.nested = { 0x80 /* VMRUN */ }, .tsc_frac = 32, .module = "kvm_amd",
};

/* PVM is outside Linux and moved its codes around: only the kernel that was traced has names. */
const struct event_arch event_arch_pvm = {
	.name = "x86-pvm", X86, .isa = EXIT_ISA_PVM,
	.prefix = "pvm:", .probe = { 2u << 16, NULL }, /* its hypercall */
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX,
	.module = "kvm_pvm",
};
