/* SPDX-License-Identifier: GPL-2.0-or-later */
/* arch.c: the kinds of hosts whose events are understood. */
#include "arch.h"

extern const struct event_arch event_arch_vmx, event_arch_svm, event_arch_pvm, event_arch_arm64,
	event_arch_riscv, event_arch_power, event_arch_loong;

static const struct event_arch *const archs[] = {
	&event_arch_vmx, &event_arch_svm, &event_arch_pvm, &event_arch_arm64,
	&event_arch_riscv, &event_arch_power, &event_arch_loong,
};

const struct event_arch *event_arch(size_t i)
{
	return i < ARRAY_SIZE(archs) ? archs[i] : NULL;
}

static bool has_machine(const struct event_arch *a, const char *machine)
{
	for (size_t i = 0; a->machine[i]; i++)
		if (!strcmp(a->machine[i], machine))
			return true;
	return false;
}

int event_arch_check(const struct capture *cap, const struct fmt *fmt, struct kvmft_err *err)
{
	const struct fmt_event *exit = fmt ? event_format(fmt, EV_EXIT) : NULL;
	const struct event_arch *a = exit ? event_arch_of_exit(exit) : NULL;
	char known[64] = "";
	size_t n = 0;

	if (a && a->names_only)
		return err_set(err, ENOTSUP, "%s was recorded on %s, of whose events only the names "
			       "of exits are known: `kvmft report -i %s` has them, `kvmft merge %s` "
			       "lists all", cap->path, a->name, cap->path, cap->path);
	for (size_t i = 0; (a = event_arch(i)) && n < sizeof(known); i++) {
		if (!cap->arch || has_machine(a, cap->arch))
			return 0;
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", a->name);
	}
	return err_set(err, ENOTSUP, "%s was recorded on %s, and the meaning of KVM's events is "
		       "only known for %s: `kvmft merge %s` lists them", cap->path, cap->arch, known,
		       cap->path);
}

bool event_kernel(const struct capture *cap, unsigned int *major, unsigned int *minor)
{
	const char *p = cap->uname;

	for (; p && *p; p++)
		if ((p == cap->uname || p[-1] == ' ') && sscanf(p, "%u.%u", major, minor) == 2)
			return true;
	return false;
}

/*
 * What inhibits APICv or AVIC, by bit (arch/x86/include/asm/kvm_host.h: enum kvm_apicv_inhibit).
 * The first four are the same in all that have the event; most had other bits before Linux 6.10.
 */
void event_apicv_inhibits(const struct capture *cap, uint64_t bits, struct sbuf *b)
{
	static const char *const names[] = {
		"DISABLED", "HYPERV", "ABSENT", "BLOCKIRQ", "PHYSICAL_ID_ALIASED",
		"APIC_ID_MODIFIED", "APIC_BASE_MODIFIED", "NESTED", "IRQWIN", "PIT_REINJ", "SEV",
		"LOGICAL_ID_ALIASED", "PHYSICAL_ID_TOO_BIG",
	};
	unsigned int major, minor, known = 0;

	if (event_kernel(cap, &major, &minor))
		known = major > 6 || (major == 6 && minor >= 10) ? ARRAY_SIZE(names) : 4;
	for (unsigned int bit = 0; bit < 64; bit++) {
		if (!(bits >> bit & 1))
			continue;
		if (bit < known)
			sbuf_add(b, names[bit]);
		else
			sbuf_addf(b, "bit %u", bit);
		if (bits >> bit >> 1)
			sbuf_add(b, ", ");
	}
}

/* In the exit handler: of VMX from Linux 4 to 5.9, of SVM to 6.11. */
bool event_exit_late(const struct capture *cap, uint32_t isa)
{
	unsigned int major, minor;

	if (!event_kernel(cap, &major, &minor))
		return isa == EXIT_ISA_SVM || isa == EXIT_ISA_VMX; /* perhaps */
	if (major < 4)
		return false;
	return (isa == EXIT_ISA_SVM && (major < 6 || (major == 6 && minor < 12))) ||
	       (isa == EXIT_ISA_VMX && (major == 4 || (major == 5 && minor < 10)));
}

const struct event_irqs *event_irqs(const struct fmt *fmt)
{
	const struct fmt_event *ev = event_format(fmt, EV_EXIT);
	const struct event_arch *a = ev ? event_arch_of_exit(ev) : NULL;

	return a ? a->irqs : archs[0]->irqs;
}

static const struct event_arch *of_vendor(const char *vendor)
{
	const struct event_arch *a;

	for (size_t i = 0; vendor && (a = event_arch(i)); i++)
		for (size_t k = 0; k < ARRAY_SIZE(a->vendor); k++)
			if (a->vendor[k] && !strcmp(a->vendor[k], vendor))
				return a;
	return NULL;
}

bool exit_halt_field(const char *machine, const char *vendor, char field[32], uint32_t *value)
{
	const struct event_arch *a = of_vendor(vendor);
	const char *names;

	for (size_t i = 0; !a && i < ARRAY_SIZE(archs); i++)
		if (archs[i]->own && has_machine(archs[i], machine))
			a = archs[i];
	if (!a || a->halt == UINT32_MAX || !has_machine(a, machine))
		return false;
	*value = a->halt & ~EXIT_TRAP;
	names = event_def_field(a->exit, a->own);
	snprintf(field, 32, "%.*s", (int)strcspn(names, "| "), names);
	return true;
}

enum exit_isa exit_isa_of_vendor(const char *vendor)
{
	const struct event_arch *a = of_vendor(vendor);

	return a ? a->isa : archs[0]->isa;
}
