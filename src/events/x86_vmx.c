/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_vmx.c: hosts with VMX, of Intel and others. */
#include "x86.h"

static const struct exit_entry vmx_names[] = {
	{ 0, "EXCEPTION_NMI" }, { 1, "EXTERNAL_INTERRUPT" }, { 2, "TRIPLE_FAULT" },
	{ 3, "INIT_SIGNAL" }, { 4, "SIPI_SIGNAL" }, { 7, "INTERRUPT_WINDOW" },
	{ 8, "NMI_WINDOW" }, { 9, "TASK_SWITCH" }, { 10, "CPUID" }, { 12, "HLT" },
	{ 13, "INVD" }, { 14, "INVLPG" }, { 15, "RDPMC" }, { 16, "RDTSC" }, { 18, "VMCALL" },
	{ 19, "VMCLEAR" }, { 20, "VMLAUNCH" }, { 21, "VMPTRLD" }, { 22, "VMPTRST" },
	{ 23, "VMREAD" }, { 24, "VMRESUME" }, { 25, "VMWRITE" }, { 26, "VMOFF" }, { 27, "VMON" },
	{ 28, "CR_ACCESS" }, { 29, "DR_ACCESS" }, { 30, "IO_INSTRUCTION" }, { 31, "MSR_READ" },
	{ 32, "MSR_WRITE" }, { 33, "INVALID_STATE" }, { 34, "MSR_LOAD_FAIL" },
	{ 36, "MWAIT_INSTRUCTION" }, { 37, "MONITOR_TRAP_FLAG" }, { 39, "MONITOR_INSTRUCTION" },
	{ 40, "PAUSE_INSTRUCTION" }, { 41, "MCE_DURING_VMENTRY" }, { 43, "TPR_BELOW_THRESHOLD" },
	{ 44, "APIC_ACCESS" }, { 45, "EOI_INDUCED" }, { 46, "GDTR_IDTR" }, { 47, "LDTR_TR" },
	{ 48, "EPT_VIOLATION" }, { 49, "EPT_MISCONFIG" }, { 50, "INVEPT" }, { 51, "RDTSCP" },
	{ 52, "PREEMPTION_TIMER" }, { 53, "INVVPID" }, { 54, "WBINVD" }, { 55, "XSETBV" },
	{ 56, "APIC_WRITE" }, { 57, "RDRAND" }, { 58, "INVPCID" }, { 59, "VMFUNC" },
	{ 60, "ENCLS" }, { 61, "RDSEED" }, { 62, "PML_FULL" }, { 63, "XSAVES" },
	{ 64, "XRSTORS" }, { 67, "UMWAIT" }, { 68, "TPAUSE" }, { 74, "BUS_LOCK" },
	{ 75, "NOTIFY" }, { 77, "TDCALL" }, { 84, "MSR_READ_IMM" }, { 85, "MSR_WRITE_IMM" },
};

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
