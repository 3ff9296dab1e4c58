/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_vmx.c: hosts with VMX, of Intel and others. */
#include "x86.h"

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
