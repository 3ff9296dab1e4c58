/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exit_names.c: names of exit reasons, from the format of the kernel that was traced, else from the
 * tables of the architectures.
 */
#include "arch.h"

#include <stdio.h>
#include <string.h>

#define MAX_TABLES     8 /* of one format text; Linux has two, PVM's kernels three */

/* KVM_EXIT_*, by number */
static const char *const userspace_names[] = {
	"UNKNOWN", "EXCEPTION", "IO", "HYPERCALL", "DEBUG", "HLT", "MMIO", "IRQ_WINDOW_OPEN",
	"SHUTDOWN", "FAIL_ENTRY", "INTR", "SET_TPR", "TPR_ACCESS", "S390_SIEIC", "S390_RESET",
	"DCR", "NMI", "INTERNAL_ERROR", "OSI", "PAPR_HCALL", "S390_UCONTROL", "WATCHDOG",
	"S390_TSCH", "EPR", "SYSTEM_EVENT", "S390_STSI", "IOAPIC_EOI", "HYPERV", "ARM_NISV",
	"X86_RDMSR", "X86_WRMSR", "DIRTY_RING_FULL", "AP_RESET_HOLD", "X86_BUS_LOCK", "XEN",
	"RISCV_SBI", "RISCV_CSR", "NOTIFY", "LOONGARCH_IOCSR", "MEMORY_FAULT",
};

static const char *lookup(const struct exit_entry *t, size_t n, uint32_t reason)
{
	size_t at = COUNT_BEFORE(i, n, t[i].reason < reason);

	return at < n && t[at].reason == reason ? t[at].name : NULL;
}

/* NULL: of none that we know. */
static const struct event_arch *arch_of(enum exit_isa isa)
{
	const struct event_arch *a;

	for (size_t i = 0; (a = event_arch(i)); i++)
		if (a->isa == isa)
			return a;
	return NULL;
}

/* Whose the table is, by what stands in it, as the order is up to the kernel. */
static void find_table(struct exit_names *n, int nth)
{
	const struct event_arch *a;

	for (size_t i = 0; (a = event_arch(i)); i++) {
		const char *s = fmt_symbol(n->ev, a->exit->field[0], (unsigned int)nth,
					   a->probe.reason);

		if (!s || (a->probe.name && strcmp(s, a->probe.name)))
			continue;
		n->nth[a->isa] = nth;
		return;
	}
}

void exit_names_init(struct exit_names *n, const struct fmt_event *ev, const char *vendor)
{
	n->ev = ev;
	n->isa = exit_isa_of_vendor(vendor);
	for (int i = 0; i < EXIT_ISAS; i++)
		n->nth[i] = -1;
	for (int i = 0; ev && i < MAX_TABLES; i++)
		find_table(n, i);
}

uint32_t exit_reason_flags(enum exit_isa isa, uint64_t reason)
{
	return isa == EXIT_ISA_VMX ? (uint32_t)reason & ~EXIT_VMX_BASIC : 0;
}

char *exit_flags_text(uint32_t flags, char *buf, size_t size)
{
	const char *sep = "", *name;
	size_t at = 0;
	int n;

	buf[0] = '\0';
	for (uint32_t bit = 16; bit < 32 && at < size; bit++) {
		if (!(flags >> bit & 1))
			continue;
		name = lookup(event_arch_vmx.flag, event_arch_vmx.nflag, bit);
		if (name)
			n = snprintf(buf + at, size - at, "%s%s", sep, name);
		else
			n = snprintf(buf + at, size - at, "%s0x%x", sep, 1u << bit);
		at += n > 0 ? (size_t)n : 0;
		sep = " ";
	}
	return buf;
}

const char *exit_reason_name(const struct exit_names *n, enum exit_isa isa, uint64_t reason)
{
	const struct event_arch *a = arch_of(isa);
	uint32_t key = exit_reason_key(isa, reason);
	const char *name = NULL;

	if (a && n->nth[isa] >= 0)
		name = fmt_symbol(n->ev, a->exit->field[0], (unsigned int)n->nth[isa], key);
	return name || !a ? name : lookup(a->reason, a->nreason, key);
}

char *exit_reason_text(const struct exit_names *n, enum exit_isa isa, uint64_t reason, char *buf,
		       size_t size)
{
	const char *name = exit_reason_name(n, isa, reason);
	const struct event_arch *a = arch_of(isa);
	uint32_t key = exit_reason_key(isa, reason);

	if (name)
		snprintf(buf, size, "%s", name);
	else if (a)
		snprintf(buf, size, "%s0x%x", a->prefix, key);
	else
		snprintf(buf, size, "isa%u:0x%x", (unsigned int)isa, key);
	return buf;
}

const char *exit_reason_hint(enum exit_isa isa, uint64_t reason)
{
	const struct event_arch *a = arch_of(isa);

	return a && a->hint ? a->hint((uint32_t)reason) : NULL;
}

const char *exit_userspace_name(uint32_t reason)
{
	return reason < ARRAY_SIZE(userspace_names) ? userspace_names[reason] : NULL;
}
