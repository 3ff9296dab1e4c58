/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_svm.c: hosts with SVM, of AMD and Hygon. */
#include "x86.h"

static const struct exit_entry svm_names[] = {
	{ 0x0, "read_cr0" }, { 0x2, "read_cr2" }, { 0x3, "read_cr3" }, { 0x4, "read_cr4" },
	{ 0x8, "read_cr8" }, { 0x10, "write_cr0" }, { 0x12, "write_cr2" }, { 0x13, "write_cr3" },
	{ 0x14, "write_cr4" }, { 0x18, "write_cr8" }, { 0x20, "read_dr0" }, { 0x21, "read_dr1" },
	{ 0x22, "read_dr2" }, { 0x23, "read_dr3" }, { 0x24, "read_dr4" }, { 0x25, "read_dr5" },
	{ 0x26, "read_dr6" }, { 0x27, "read_dr7" }, { 0x30, "write_dr0" }, { 0x31, "write_dr1" },
	{ 0x32, "write_dr2" }, { 0x33, "write_dr3" }, { 0x34, "write_dr4" },
	{ 0x35, "write_dr5" }, { 0x36, "write_dr6" }, { 0x37, "write_dr7" }, { 0x40, "DE excp" },
	{ 0x41, "DB excp" }, { 0x43, "BP excp" }, { 0x44, "OF excp" }, { 0x45, "BR excp" },
	{ 0x46, "UD excp" }, { 0x47, "NM excp" }, { 0x48, "DF excp" }, { 0x4a, "TS excp" },
	{ 0x4b, "NP excp" }, { 0x4c, "SS excp" }, { 0x4d, "GP excp" }, { 0x4e, "PF excp" },
	{ 0x50, "MF excp" }, { 0x51, "AC excp" }, { 0x52, "MC excp" }, { 0x53, "XF excp" },
	{ 0x60, "interrupt" }, { 0x61, "nmi" }, { 0x62, "smi" }, { 0x63, "init" },
	{ 0x64, "vintr" }, { 0x65, "cr0_sel_write" }, { 0x66, "read_idtr" },
	{ 0x67, "read_gdtr" }, { 0x68, "read_ldtr" }, { 0x69, "read_rt" },
	{ 0x6a, "write_idtr" }, { 0x6b, "write_gdtr" }, { 0x6c, "write_ldtr" },
	{ 0x6d, "write_rt" }, { 0x6e, "rdtsc" }, { 0x6f, "rdpmc" }, { 0x70, "pushf" },
	{ 0x71, "popf" }, { 0x72, "cpuid" }, { 0x73, "rsm" }, { 0x74, "iret" },
	{ 0x75, "swint" }, { 0x76, "invd" }, { 0x77, "pause" }, { 0x78, "hlt" },
	{ 0x79, "invlpg" }, { 0x7a, "invlpga" }, { 0x7b, "io" }, { 0x7c, "msr" },
	{ 0x7d, "task_switch" }, { 0x7e, "ferr_freeze" }, { 0x7f, "shutdown" },
	{ 0x80, "vmrun" }, { 0x81, "hypercall" }, { 0x82, "vmload" }, { 0x83, "vmsave" },
	{ 0x84, "stgi" }, { 0x85, "clgi" }, { 0x86, "skinit" }, { 0x87, "rdtscp" },
	{ 0x88, "icebp" }, { 0x89, "wbinvd" }, { 0x8a, "monitor" }, { 0x8b, "mwait" },
	{ 0x8d, "xsetbv" }, { 0x8f, "write_efer_trap" }, { 0x90, "write_cr0_trap" },
	{ 0x94, "write_cr4_trap" }, { 0x98, "write_cr8_trap" }, { 0xa2, "invpcid" },
	{ 0xa5, "buslock" }, { 0xa6, "idle-halt" }, { 0x400, "npf" },
	{ 0x401, "avic_incomplete_ipi" }, { 0x402, "avic_unaccelerated_access" },
	{ 0x403, "vmgexit" }, { 0x80000001, "vmgexit_mmio_read" },
	{ 0x80000002, "vmgexit_mmio_write" }, { 0x80000003, "vmgexit_nmi_complete" },
	{ 0x80000004, "vmgexit_ap_hlt_loop" }, { 0x80000005, "vmgexit_ap_jump_table" },
	{ 0x80000010, "vmgexit_page_state_change" }, { 0x80000011, "vmgexit_guest_request" },
	{ 0x80000012, "vmgexit_ext_guest_request" }, { 0x80000013, "vmgexit_ap_creation" },
	{ 0x8000fffd, "vmgexit_hypervisor_feature" }, { 0xffffffff, "invalid_guest_state" },
};

const struct event_arch event_arch_svm = {
	.name = "x86-svm", X86, .isa = EXIT_ISA_SVM, .vendor = { "AuthenticAMD", "HygonGenuine" },
	.reason = svm_names, .nreason = ARRAY_SIZE(svm_names),
	.prefix = "", .probe = { 0x78, "hlt" }, .halt = 0x78, .intr = 0x60, .fault = 0x400,
	.pause = 0x77, .async = { 0x61, 0x62 /* NMI, SMI */ },
	.nested = { 0x80 /* VMRUN */ }, .tsc_frac = 32, .module = "kvm_amd",
};
