/* SPDX-License-Identifier: GPL-2.0-or-later */
/* others.c: kinds of hosts of which the names of exits are known, and no more. */
#include "arch.h"

/* None of their exits is known to be a halt, an interrupt, a fault or a spin. */
#define NAMES_ONLY(of)                                                                   \
	.machine = of##_machines, .exit = &of##_exit, .own = true, .names_only = true,   \
	.reason = of##_names, .nreason = ARRAY_SIZE(of##_names), .prefix = "",           \
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX

/*
 * RISC-V. The reason of an exit is scause: its highest bit is that of an interrupt, the rest the
 * cause's number (RISC-V's privileged architecture, "Supervisor Cause Register"; EXC_* and IRQ_* of
 * arch/riscv/include/asm/csr.h). No event has the vCPU.
 */
static const char *const riscv_machines[] = { "riscv64", NULL };
static const struct event_def riscv_exit = { "kvm", "kvm_exit", "scause - sepc" };

#define IRQ(number, name) { EXIT_IRQ | (number), name }

static const struct exit_entry riscv_names[] = {
	{ 0, "INST_MISALIGNED" }, { 1, "INST_ACCESS" }, { 2, "INST_ILLEGAL" }, { 3, "BREAKPOINT" },
	{ 4, "LOAD_MISALIGNED" }, { 5, "LOAD_ACCESS" }, { 6, "STORE_MISALIGNED" },
	{ 7, "STORE_ACCESS" }, { 8, "SYSCALL" }, { 9, "HYPERVISOR_SYSCALL" },
	{ 10, "SUPERVISOR_SYSCALL" }, { 12, "INST_PAGE_FAULT" }, { 13, "LOAD_PAGE_FAULT" },
	{ 15, "STORE_PAGE_FAULT" }, { 18, "SOFTWARE_CHECK" }, { 20, "INST_GUEST_PAGE_FAULT" },
	{ 21, "LOAD_GUEST_PAGE_FAULT" }, { 22, "VIRTUAL_INST_FAULT" },
	{ 23, "STORE_GUEST_PAGE_FAULT" },
	IRQ(1, "IRQ_S_SOFT"), IRQ(2, "IRQ_VS_SOFT"), IRQ(5, "IRQ_S_TIMER"), IRQ(6, "IRQ_VS_TIMER"),
	IRQ(9, "IRQ_S_EXT"), IRQ(10, "IRQ_VS_EXT"), IRQ(12, "IRQ_S_GEXT"), IRQ(13, "IRQ_PMU_OVF"),
};

const struct event_arch event_arch_riscv = {
	.name = "riscv64", .isa = EXIT_ISA_RISCV,
	NAMES_ONLY(riscv),
};

/*
 * POWER, with KVM-HV, whose events are of a system of their own. The reason of an exit is the
 * vector of the interrupt that ended it (arch/powerpc/kvm/trace_book3s.h).
 */
static const char *const power_machines[] = { "ppc64le", NULL };
static const struct event_def power_exit = {
	"kvm_hv", "kvm_guest_exit", "trap - pc vcpu_id",
};
static const struct event_def power_entry = {
	"kvm_hv", "kvm_guest_enter", "vcpu_id pc",
};

static const struct exit_entry power_names[] = {
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
	.name = "ppc64le", .isa = EXIT_ISA_POWER, .entry = &power_entry,
	.probe = { 0x500, "EXTERNAL" },
	NAMES_ONLY(power),
};

/*
 * LoongArch. The reason of an exit is the code of the exception (Ecode of CSR.ESTAT, EXCCODE_* of
 * arch/loongarch/include/asm/loongarch.h), 0 an interrupt. The guest is entered by kvm_reenter
 * after what KVM itself did, by kvm_enter from user space. No event has the vCPU.
 */
static const char *const loong_machines[] = { "loongarch64", NULL };
static const struct event_def loong_exit = { "kvm", "kvm_exit", "reason - pc" };
static const struct event_def loong_entry = { "kvm", "kvm_reenter", NULL };

static const struct exit_entry loong_names[] = {
	{ 0, "INT" }, { 1, "TLBL" }, { 2, "TLBS" }, { 3, "TLBI" }, { 4, "TLBM" }, { 5, "TLBNR" },
	{ 6, "TLBNX" }, { 7, "TLBPE" }, { 8, "ADE" }, { 9, "ALE" }, { 10, "BCE" }, { 11, "SYS" },
	{ 12, "BP" }, { 13, "INE" }, { 14, "IPE" }, { 15, "FPDIS" }, { 16, "LSXDIS" },
	{ 17, "LASXDIS" }, { 18, "FPE" }, { 19, "WATCH" }, { 20, "BTDIS" }, { 21, "BTE" },
	{ 22, "GSPR" }, { 23, "HVC" }, { 24, "GCM" }, { 25, "SE" }, { 64, "IDLE" }, { 65, "CACHE" },
};

const struct event_arch event_arch_loong = {
	.name = "loongarch64", .isa = EXIT_ISA_LOONG, .entry = &loong_entry,
	.probe = { 64, "IDLE" },
	NAMES_ONLY(loong),
};
