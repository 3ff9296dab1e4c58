/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exit_names.h: what the number in exit_reason of kvm_exit (and kvm_nested_vmexit) means.
 *
 * A reason is a number of an instruction set: 7 is INTERRUPT_WINDOW of VMX and nothing of SVM. So
 * everything here goes by the pair (isa, reason); names are only for people, since they changed
 * between kernels. The traced kernel knows its names best, so they come from its own format text,
 * or else from the tables of its architecture.
 */
#pragma once

#include "kvmft/ring.h"

/* Values of the field isa: KVM_ISA_VMX, KVM_ISA_SVM (arch/x86/kvm/trace.h); 3 is PVM's own. */
enum exit_isa {
	EXIT_ISA_NONE,
	EXIT_ISA_VMX,
	EXIT_ISA_SVM,
	EXIT_ISA_PVM,
	/* their events have no such field */
	EXIT_ISA_ARM64 = 1 << 30, EXIT_ISA_RISCV, EXIT_ISA_POWER, EXIT_ISA_LOONG,
};

#define EXIT_NAME_MAX 64 /* bytes that hold any text made here */
#define EXIT_ARCHS    8	 /* at most */
/* Of arm64: the reason is a trap, and the rest of the number is its exception class. */
#define EXIT_TRAP     (1u << 31)
/* Of RISC-V: an interrupt, and the rest of the number is which. */
#define EXIT_IRQ      (1u << 30)

struct exit_names {
	const struct fmt_event *ev; /* borrowed; NULL: only the tables below are used */
	enum exit_isa isa;	    /* of events that have none */
	bool own;		    /* this event has none, and its second field is of a trap */
	uint64_t trap;		    /* the kind of exits that is a trap; UINT64_MAX: none */
	int nth[EXIT_ARCHS];	    /* which symbol table of the format; -1 = none */
};

/*
 * ev: the kvm_exit of the kernel that was traced, NULL when its format is not at hand. vendor: of
 * the CPU ("GenuineIntel", "AuthenticAMD", "HygonGenuine"), NULL or "" when unknown; it counts
 * only for x86 events without the field isa (Linux before 2.6.39), and means VMX when unknown.
 */
void exit_names_init(struct exit_names *n, const struct fmt_event *ev, const char *vendor);

/* The instruction set of a vendor's CPUs: VMX where it is unknown or NULL. */
enum exit_isa exit_isa_of_vendor(const char *vendor);

/* Bits of the fraction of a TSC ratio there, those of VMX where it is unknown. */
uint8_t exit_tsc_frac(enum exit_isa isa);
/*
 * The name of the KVM module of the i-th kind, "" if it has none, and in *isa what it is for; NULL
 * past the last.
 */
const char *exit_module(size_t i, enum exit_isa *isa);

/*
 * For a filter of kvm_exit: the field, in newer kernels, that tells a guest's halts, and its value
 * then, on machines of a name (`uname -m`) with CPUs of a vendor. false: not known.
 */
bool exit_halt_field(const char *machine, const char *vendor, char field[32], uint32_t *value);

/* The value of the field isa, or the one for events without it (0). */
static inline enum exit_isa exit_isa(const struct exit_names *n, uint64_t isa)
{
	return isa ? (enum exit_isa)(uint32_t)isa : n->isa;
}

/*
 * Why a guest exited, from the first two fields of EV_EXIT (EV_NESTED_EXIT), 0 for one that the
 * event lacks: reason and isa on x86; on arm64 a number made of both, see EXIT_TRAP; on RISC-V of
 * the first, see EXIT_IRQ.
 */
struct exit_why {
	enum exit_isa isa;
	uint32_t reason;
};
struct exit_why exit_why(const struct exit_names *n, uint64_t first, uint64_t second);

/* The first field in 32 bits, whose sizes differ: of 64 the highest becomes EXIT_IRQ. */
static inline uint32_t exit_first(uint64_t first)
{
	return (uint32_t)first | (first >> 63 ? EXIT_IRQ : 0);
}

/* When kvm_exit is traced, if all kernels do it alike; NULL: that depends on the kernel. */
const char *exit_traced(enum exit_isa isa);

/* Whether perf kvm takes the time from the entry before the exit for the exit's own. */
bool exit_perf_before(enum exit_isa isa);

#define EXIT_VMX_BASIC 0xffffu

/*
 * The number by which exits are counted. VMX keeps the basic reason (bits 0-15) apart from flags
 * (bits 16-31, Intel SDM vol. 3 "Basic VM-Exit Information"); SVM and PVM have no flags: bit 31 of
 * a GHCB code belongs to it, and SVM's -1 is 0xffffffff.
 */
static inline uint32_t exit_reason_key(enum exit_isa isa, uint64_t reason)
{
	return isa == EXIT_ISA_VMX ? (uint32_t)reason & EXIT_VMX_BASIC : (uint32_t)reason;
}
/* What kind of exit that is; unknown for PVM. */
enum exit_kind {
	EXIT_KIND_OTHER,
	EXIT_KIND_HALT,	 /* the guest executed HLT, or WFI (on arm64 WFE looks the same) */
	EXIT_KIND_INTR,	 /* the host has an interrupt */
	EXIT_KIND_FAULT, /* memory that the host has not mapped; a device's looks the same */
	EXIT_KIND_PAUSE, /* it spins on a lock */
	EXIT_KIND_ASYNC, /* else: nothing that the guest did */
};
enum exit_kind exit_kind(struct exit_why why);
static inline bool exit_is_halt(struct exit_why why)
{
	return exit_kind(why) == EXIT_KIND_HALT;
}

/* The guest enters one of its own. */
bool exit_enters_guest(struct exit_why why);
/* The log of pages that the guest wrote to is full. */
bool exit_is_log_full(struct exit_why why);

/* The flag bits, in place: 0 except for VMX. */
uint32_t exit_reason_flags(enum exit_isa isa, uint64_t reason);
/* "FAILED_VMENTRY BUS_LOCK": names of flags, or numbers for those without; "" for 0. */
char *exit_flags_text(uint32_t flags, char *buf, size_t size);

/*
 * The kernel's name of a reason or of a trap's class, without flags, else the table's, else NULL.
 */
const char *exit_reason_name(const struct exit_names *n, enum exit_isa isa, uint64_t reason);
/*
 * The name, with "TRAP:" before that of a trap, or a number: "0x4e", "pvm:0x20000", "TRAP:0x2b";
 * for an unknown isa N "isaN:0x7". Flags are ignored. buf of EXIT_NAME_MAX bytes suffices; returns
 * buf.
 */
char *exit_reason_text(const struct exit_names *n, enum exit_isa isa, uint64_t reason, char *buf,
		       size_t size);
/* The name of kvm_userspace_exit's reason (KVM_EXIT_* of linux/kvm.h), NULL when it has none. */
const char *exit_userspace_name(uint32_t reason);

/* Of a hypercall or MSR of Hyper-V, by Microsoft's specification; NULL: it has none. */
const char *hyperv_call_name(uint32_t code);
const char *hyperv_msr_name(uint32_t msr);
