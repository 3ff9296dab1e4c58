/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * powerpc.c: hosts that are POWER, with KVM-HV, whose events are of a system of their own. The
 * reason of an exit is the vector of the interrupt that ended it (arch/powerpc/kvm/trace_book3s.h).
 */
#include "arch.h"

static const char *const machines[] = { "ppc64le", NULL };
static const struct event_def power_exit = {
	"kvm_hv", "kvm_guest_exit", "trap - pc vcpu_id",
};
static const struct event_def power_entry = {
	"kvm_hv", "kvm_guest_enter", "vcpu_id pc",
};

static const struct exit_entry names[] = {
	{ 0x100, "SYSTEM_RESET" }, { 0x200, "MACHINE_CHECK" }, { 0x300, "DATA_STORAGE" },
	{ 0x380, "DATA_SEGMENT" }, { 0x400, "INST_STORAGE" }, { 0x480, "INST_SEGMENT" },
	{ 0x500, "EXTERNAL" }, { 0x501, "EXTERNAL_LEVEL" }, { 0x502, "EXTERNAL_HV" },
	{ 0x600, "ALIGNMENT" }, { 0x700, "PROGRAM" }, { 0x800, "FP_UNAVAIL" },
	{ 0x900, "DECREMENTER" }, { 0x980, "HV_DECREMENTER" }, { 0xc00, "SYSCALL" },
	{ 0xd00, "TRACE" }, { 0xe00, "H_DATA_STORAGE" }, { 0xe20, "H_INST_STORAGE" },
	{ 0xe40, "H_EMUL_ASSIST" }, { 0xea0, "H_VIRT" }, { 0xf00, "PERFMON" }, { 0xf20, "ALTIVEC" },
	{ 0xf40, "VSX" }, { 0xf80, "H_FAC_UNAVAIL" },
};

const struct event_arch event_arch_power = {
	.name = "ppc64le", .machine = machines, .exit = &power_exit, .entry = &power_entry,
	.isa = EXIT_ISA_POWER, .own = true, .names_only = true,
	.reason = names, .nreason = ARRAY_SIZE(names), .prefix = "", .probe = { 0x500, "EXTERNAL" },
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX,
};
