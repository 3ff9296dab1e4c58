/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loongarch.c: hosts that are LoongArch. The reason of an exit is the code of the exception (Ecode
 * of CSR.ESTAT, EXCCODE_* of arch/loongarch/include/asm/loongarch.h), 0 an interrupt. The guest is
 * entered by kvm_reenter after what KVM itself did, by kvm_enter from user space. No event has the
 * vCPU.
 */
#include "arch.h"

static const char *const machines[] = { "loongarch64", NULL };
static const struct event_def loong_exit = { "kvm", "kvm_exit", "reason - pc" };
static const struct event_def loong_entry = { "kvm", "kvm_reenter", NULL };

static const struct exit_entry names[] = {
	{ 0, "INT" }, { 1, "TLBL" }, { 2, "TLBS" }, { 3, "TLBI" }, { 4, "TLBM" }, { 5, "TLBNR" },
	{ 6, "TLBNX" }, { 7, "TLBPE" }, { 8, "ADE" }, { 9, "ALE" }, { 10, "BCE" }, { 11, "SYS" },
	{ 12, "BP" }, { 13, "INE" }, { 14, "IPE" }, { 15, "FPDIS" }, { 16, "LSXDIS" },
	{ 17, "LASXDIS" }, { 18, "FPE" }, { 19, "WATCH" }, { 20, "BTDIS" }, { 21, "BTE" },
	{ 22, "GSPR" }, { 23, "HVC" }, { 24, "GCM" }, { 25, "SE" }, { 64, "IDLE" }, { 65, "CACHE" },
};

const struct event_arch event_arch_loong = {
	.name = "loongarch64", .machine = machines, .exit = &loong_exit, .entry = &loong_entry,
	.isa = EXIT_ISA_LOONG, .own = true, .names_only = true,
	.reason = names, .nreason = ARRAY_SIZE(names), .prefix = "", .probe = { 64, "IDLE" },
	.halt = UINT32_MAX, .intr = UINT32_MAX, .fault = UINT32_MAX, .pause = UINT32_MAX,
};
