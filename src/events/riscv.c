/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * riscv.c: hosts that are RISC-V. The reason of an exit is scause: its highest bit is that of an
 * interrupt, the rest the cause's number (RISC-V's privileged architecture, "Supervisor Cause
 * Register"; EXC_* and IRQ_* of arch/riscv/include/asm/csr.h). No event has the vCPU.
 */
#include "arch.h"

static const char *const machines[] = { "riscv64", NULL };
static const struct event_def riscv_exit = { "kvm", "kvm_exit", "scause - sepc" };

#define IRQ(number, name) { EXIT_IRQ | (number), name }

static const struct exit_entry names[] = {
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
	.name = "riscv64", .machine = machines, .exit = &riscv_exit, .isa = EXIT_ISA_RISCV,
	.own = true, .names_only = true,
	.reason = names, .nreason = ARRAY_SIZE(names), .prefix = "",
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX,
};
