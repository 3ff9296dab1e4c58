/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86_svm.c: hosts with SVM, of AMD and Hygon. */
#include "x86.h"

static const struct exit_entry svm_names[] = { SVM_EXIT_CODES };

const struct event_arch event_arch_svm = {
	.name = "x86-svm", X86, .isa = EXIT_ISA_SVM, .vendor = { "AuthenticAMD", "HygonGenuine" },
	.reason = svm_names, .nreason = ARRAY_SIZE(svm_names),
	.prefix = "", .probe = { 0x78, "hlt" }, .halt = 0x78, .intr = 0x60, .fault = 0x400,
	.pause = 0x77, .async = { 0x61, 0x62 /* NMI, SMI */ },
	.nested = { 0x80 /* VMRUN */ }, .tsc_frac = 32, .module = "kvm_amd",
};
