/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arm64.c: hosts that are arm64. An exit has two fields that say why: what kind it is
 * (ARM_EXCEPTION_* of arch/arm64/include/asm/kvm_asm.h), and for a trap the class of the exception,
 * bits 31-26 of ESR_EL2 (ESR_ELx_EC_* of arch/arm64/include/asm/esr.h), which is left over from an
 * earlier one in exits of other kinds. Up to Linux 5.3 they were called idx and exit_reason, and up
 * to 4.8 a trap was 1, so kinds are known by their names. Neither event has the vCPU.
 *
 * Of a GIC's interrupts the private ones of vCPUs and the lines of devices have an event. Those
 * that vCPUs send each other (SGIs), and messages through an ITS (LPIs), have none.
 */
#include "arch.h"

static const char *const machines[] = { "aarch64", NULL };
static const struct event_def arm64_exit = {
	"kvm", "kvm_exit", "ret|idx esr_ec|exit_reason vcpu_pc vcpu_id",
};

#define EC(number, name) { EXIT_TRAP | (number), name }

static const struct exit_entry names[] = {
	{ 0, "IRQ" }, { 1, "SERROR" }, { 2, "TRAP" }, { 3, "ILLEGAL" },
	{ 0xbadca11, "HYP_GONE" },
	EC(0x00, "UNKNOWN"), EC(0x01, "WFx"), EC(0x03, "CP15_32"), EC(0x04, "CP15_64"),
	EC(0x05, "CP14_MR"), EC(0x06, "CP14_LS"), EC(0x07, "FP_ASIMD"), EC(0x08, "CP10_ID"),
	EC(0x09, "PAC"), EC(0x0a, "OTHER"), EC(0x0c, "CP14_64"), EC(0x0d, "BTI"),
	EC(0x0e, "ILL"), EC(0x11, "SVC32"), EC(0x12, "HVC32"), EC(0x13, "SMC32"),
	EC(0x15, "SVC64"), EC(0x16, "HVC64"), EC(0x17, "SMC64"), EC(0x18, "SYS64"),
	EC(0x19, "SVE"), EC(0x1a, "ERET"), EC(0x1c, "FPAC"), EC(0x1d, "SME"),
	EC(0x1f, "IMP_DEF"), EC(0x20, "IABT_LOW"), EC(0x21, "IABT_CUR"), EC(0x22, "PC_ALIGN"),
	EC(0x24, "DABT_LOW"), EC(0x25, "DABT_CUR"), EC(0x26, "SP_ALIGN"), EC(0x27, "MOPS"),
	EC(0x28, "FP_EXC32"), EC(0x2c, "FP_EXC64"), EC(0x2d, "GCS"), EC(0x2f, "SERROR"),
	EC(0x30, "BREAKPT_LOW"), EC(0x31, "BREAKPT_CUR"), EC(0x32, "SOFTSTP_LOW"),
	EC(0x33, "SOFTSTP_CUR"), EC(0x34, "WATCHPT_LOW"), EC(0x35, "WATCHPT_CUR"),
	EC(0x38, "BKPT32"), EC(0x3a, "VECTOR32"), EC(0x3c, "BRK64"),
};

/* Numbers of Arm's BSA: timers of EL2, virtual ones of EL1 and EL2, physical of EL1. */
static bool arm64_is_timer(unsigned int intid)
{
	return intid == 26 || intid == 27 || intid == 28 || intid == 30;
}

/* As Linux guests call them (drivers/clocksource/arm_arch_timer.c, arch/arm64/kernel/smp.c). */
static bool intid_handles(unsigned int intid, const char *name)
{
	return arm64_is_timer(intid) == !strcmp(name, "arch_timer") && strncmp(name, "IPI", 3);
}

static const struct event_irqs gic = {
	.accept = EV_VGIC, .numbers = 1020, .device = 0, .system = 1020, .shared = 32,
	.listed = true, .is_timer = arm64_is_timer, .handles = intid_handles,
	.no_deadlines = "the timer of an arm64 guest is set without an exit, so no event has its "
			"deadlines",
	.untold = "the host has no events of interrupts that vCPUs send each other, or of messages "
		  "through an ITS: their handlers count as without an interrupt",
};

/* The guest waits for an interrupt (WFI), or for an event as one that spins does (WFE). */
const struct event_arch event_arch_arm64 = {
	.name = "arm64", .machine = machines, .exit = &arm64_exit, .isa = EXIT_ISA_ARM64,
	.own = true,
	.reason = names, .nreason = ARRAY_SIZE(names), .prefix = "", .probe = { 0, "IRQ" },
	.trap = { 2, "TRAP" }, .halt = EXIT_TRAP | 0x01,
	.intr = 0, .fault = EXIT_TRAP | 0x24, .pause = UINT32_MAX,
	.nested = { EXIT_TRAP | 0x1a /* ERET */ },
	.traced = "after the host's interrupts were served", /* arch/arm64/kvm/arm.c */
	.perf_before = true, /* tools/perf/arch/arm64/util/kvm-stat.c */
	.irqs = &gic,
};
