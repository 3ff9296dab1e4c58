/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exit_names.c: names of exit reasons, from the format of the traced kernel, else from the tables
 * of the architectures.
 */
#include "arch.h"

#define MAX_TABLES     8 /* of one format text; Linux has two, PVM's kernels three */
#define MAX_KINDS      8 /* of arm64's exits; Linux has four, and one far off */

/* KVM_EXIT_*, by number */
static const char *const userspace_names[] = {
	"UNKNOWN", "EXCEPTION", "IO", "HYPERCALL", "DEBUG", "HLT", "MMIO", "IRQ_WINDOW_OPEN",
	"SHUTDOWN", "FAIL_ENTRY", "INTR", "SET_TPR", "TPR_ACCESS", "S390_SIEIC", "S390_RESET",
	"DCR", "NMI", "INTERNAL_ERROR", "OSI", "PAPR_HCALL", "S390_UCONTROL", "WATCHDOG",
	"S390_TSCH", "EPR", "SYSTEM_EVENT", "S390_STSI", "IOAPIC_EOI", "HYPERV", "ARM_NISV",
	"X86_RDMSR", "X86_WRMSR", "DIRTY_RING_FULL", "AP_RESET_HOLD", "X86_BUS_LOCK", "XEN",
	"RISCV_SBI", "RISCV_CSR", "NOTIFY", "LOONGARCH_IOCSR", "MEMORY_FAULT",
};

const char *exit_entry_name(const struct exit_entry *t, size_t n, uint32_t reason)
{
	size_t at = COUNT_BEFORE(i, n, t[i].reason < reason);

	return at < n && t[at].reason == reason ? t[at].name : NULL;
}

/* NULL: unknown. at: its index in the list, may be NULL. */
static const struct event_arch *arch_of(enum exit_isa isa, size_t *at)
{
	const struct event_arch *a;
	size_t i = 0;

	while ((a = event_arch(i)) && a->isa != isa)
		i++;
	if (at)
		*at = i;
	return a;
}

/* From the nth table of a field, "a|b": whichever the event has. */
static const char *sym_nth(const struct fmt_event *ev, const char *names, int nth, uint32_t value)
{
	char name[32];

	for (;; names++) {
		size_t n = strcspn(names, "| ");
		const char *s;

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		s = fmt_symbol(ev, name, (unsigned int)nth, value);
		names += n;
		if (s || *names != '|')
			return s;
	}
}

void exit_names_init(struct exit_names *n, const struct fmt_event *ev, const char *vendor)
{
	const struct event_arch *a = ev ? event_arch_of_exit(ev) : NULL;
	size_t at;
	const char *s;

	n->ev = ev;
	n->own = a && a->own;
	n->isa = n->own ? a->isa : exit_isa_of_vendor(vendor);
	for (size_t i = 0; i < EXIT_ARCHS; i++)
		n->nth[i] = -1;
	/* Which kind a table belongs to, from its contents: the order is up to the kernel. */
	for (int nth = 0; ev && nth < MAX_TABLES; nth++)
		for (size_t i = 0; (a = event_arch(i)) && i < EXIT_ARCHS; i++) {
			s = sym_nth(ev, a->exit->fields, nth, a->probe.reason);
			if (!s || (a->probe.name && strcmp(s, a->probe.name)))
				continue;
			n->nth[i] = nth;
			break;
		}
	/* The number of traps changed: it is the one that the format names so. */
	a = arch_of(n->isa, &at);
	n->trap = a->trap.name ? a->trap.reason : UINT64_MAX;
	for (uint32_t i = 0; a->trap.name && n->nth[at] >= 0 && i < MAX_KINDS; i++) {
		s = sym_nth(ev, a->exit->fields, n->nth[at], i);
		if (s && !strcmp(s, a->trap.name)) {
			n->trap = i;
			break;
		}
	}
}

struct exit_why exit_why(const struct exit_names *n, uint64_t first, uint64_t second)
{
	if (!n->own)
		return (struct exit_why){ exit_isa(n, second), (uint32_t)first };
	return (struct exit_why){
		n->isa,
		(uint32_t)first == n->trap ? EXIT_TRAP | (uint32_t)second
					   : exit_first(first) & ~EXIT_TRAP,
	};
}

enum exit_kind exit_kind(struct exit_why why)
{
	const struct event_arch *a = arch_of(why.isa, NULL);
	uint32_t key = exit_reason_key(why.isa, why.reason);

	if (!a || key == UINT32_MAX)
		return EXIT_KIND_OTHER;
	if (key == a->halt)
		return EXIT_KIND_HALT;
	if (key == a->intr)
		return EXIT_KIND_INTR;
	if (key == a->fault)
		return EXIT_KIND_FAULT;
	for (size_t i = 0; i < ARRAY_SIZE(a->async) && a->async[i]; i++)
		if (key == a->async[i])
			return EXIT_KIND_ASYNC;
	return key == a->pause ? EXIT_KIND_PAUSE : EXIT_KIND_OTHER;
}

bool exit_enters_guest(struct exit_why why)
{
	const struct event_arch *a = arch_of(why.isa, NULL);
	uint32_t key = exit_reason_key(why.isa, why.reason);

	for (size_t i = 0; a && i < ARRAY_SIZE(a->nested) && a->nested[i]; i++)
		if (key == a->nested[i])
			return true;
	return false;
}

bool exit_is_log_full(struct exit_why why)
{
	const struct event_arch *a = arch_of(why.isa, NULL);

	return a && a->log_full && exit_reason_key(why.isa, why.reason) == a->log_full;
}

uint8_t exit_tsc_frac(enum exit_isa isa)
{
	const struct event_arch *a = arch_of(isa, NULL);

	return a && a->tsc_frac ? a->tsc_frac : event_arch(0)->tsc_frac;
}

const char *exit_module(size_t i, enum exit_isa *isa)
{
	const struct event_arch *a = event_arch(i);

	*isa = a ? a->isa : EXIT_ISA_NONE;
	return !a ? NULL : a->module ?: "";
}

uint32_t exit_reason_flags(enum exit_isa isa, uint64_t reason)
{
	return isa == EXIT_ISA_VMX ? (uint32_t)reason & ~EXIT_VMX_BASIC : 0;
}

char *exit_flags_text(uint32_t flags, char *buf, size_t size)
{
	const struct event_arch *vmx = arch_of(EXIT_ISA_VMX, NULL);
	const char *sep = "", *name;
	size_t at = 0;
	int n;

	buf[0] = '\0';
	for (uint32_t bit = 16; bit < 32 && at < size; bit++) {
		if (!(flags >> bit & 1))
			continue;
		name = exit_entry_name(vmx->flag, vmx->nflag, bit);
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
	size_t at;
	const struct event_arch *a = arch_of(isa, &at);
	uint32_t key = exit_reason_key(isa, reason);
	bool trap = a && a->trap.name && key & EXIT_TRAP;
	const char *name = NULL;

	if (a && n->nth[at] >= 0)
		name = trap ? sym_nth(n->ev, event_def_field(a->exit, 1), 0, key & ~EXIT_TRAP)
			    : sym_nth(n->ev, a->exit->fields, n->nth[at], key);
	return name || !a ? name : exit_entry_name(a->reason, a->nreason, key);
}

char *exit_reason_text(const struct exit_names *n, enum exit_isa isa, uint64_t reason, char *buf,
		       size_t size)
{
	const char *name = exit_reason_name(n, isa, reason);
	const struct event_arch *a = arch_of(isa, NULL);
	uint32_t key = exit_reason_key(isa, reason);
	bool trap = a && a->trap.name && key & EXIT_TRAP;

	if (name)
		snprintf(buf, size, "%s%s", trap ? "TRAP:" : "", name);
	else if (trap)
		snprintf(buf, size, "TRAP:0x%x", key & ~EXIT_TRAP);
	else if (a)
		snprintf(buf, size, "%s0x%x", a->prefix, key);
	else
		snprintf(buf, size, "isa%u:0x%x", (unsigned int)isa, key);
	return buf;
}

const char *exit_traced(enum exit_isa isa)
{
	const struct event_arch *a = arch_of(isa, NULL);

	return a ? a->traced : NULL;
}

bool exit_perf_before(enum exit_isa isa)
{
	const struct event_arch *a = arch_of(isa, NULL);

	return a && a->perf_before;
}

const char *exit_userspace_name(uint32_t reason)
{
	return reason < ARRAY_SIZE(userspace_names) ? userspace_names[reason] : NULL;
}
