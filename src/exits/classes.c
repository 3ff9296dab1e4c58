/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * classes.c: the table of event classes, and those whose clock starts at the exit and stops at the
 * entry. Anything more complex is a file class_NAME.c and a line here.
 */
#include "class.h"

enum class_mark class_end_entry(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY ? MARK_YES : MARK_NO;
}

/* ---- CPUID instructions, by leaf and subleaf ---- */

/* By Intel's and AMD's manuals; for other leaves ECX is whatever was left in it. */
static bool has_subleaves(uint32_t leaf)
{
	switch (leaf) {
	case 0x4: case 0x7: case 0xb: case 0xd: case 0xf: case 0x10: case 0x12: case 0x14:
	case 0x17: case 0x18: case 0x1b: case 0x1d: case 0x1e: case 0x1f:
	case 0x20: case 0x23: case 0x24: case 0x27: case 0x28:
	case 0x8000001d: case 0x80000020: case 0x80000026:
		return true;
	default:
		return false;
	}
}

static enum class_mark cpuid_begin(const struct class_event *e, uint64_t *key)
{
	uint32_t leaf = (uint32_t)e->v[0];

	*key = (has_subleaves(leaf) ? e->v[1] << 32 : 0) | leaf;
	return e->tp ? MARK_NO : MARK_AT_EXIT;
}

static void cpuid_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			   size_t size)
{
	if (has_subleaves((uint32_t)key))
		snprintf(buf, size, "0x%x:%u", (uint32_t)key, (uint32_t)(key >> 32));
	else
		snprintf(buf, size, "0x%x", (uint32_t)key);
}

static const struct event_class cpuid = {
	.name = "cpuid",
	.title = "CPUID",
	.tp = { { "kvm_cpuid", { "function", "index" } } },
	.exact = { cpuid_begin, class_end_entry },
	.describe = cpuid_describe,
};

/*
 * ---- doorbells: writes to device memory that an ioeventfd takes at once, by address ----
 *
 * Only VMX has kvm_fast_mmio; there is no kvm_mmio for such an access, so it is in no other table
 * but that of exits (EPT_MISCONFIG).
 */

static enum class_mark fast_mmio_begin(const struct class_event *e, uint64_t *key)
{
	*key = e->v[0];
	return e->tp ? MARK_NO : MARK_AT_EXIT;
}

static void fast_mmio_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			       size_t size)
{
	snprintf(buf, size, "0x%llx:F", (unsigned long long)key);
}

static const struct event_class fast_mmio = {
	.name = "fast-mmio",
	.title = "Fast MMIO",
	.tp = { { "kvm_fast_mmio", { "gpa" } } },
	.exact = { fast_mmio_begin, class_end_entry },
	.describe = fast_mmio_describe,
};

/*
 * ---- faults on guest memory, by page ----
 *
 * With EPT and NPT the address is guest physical, with shadow paging it is virtual; the event does
 * not say which. Accesses to device memory are no page faults: see mmio and fast-mmio.
 */

#define PAGE_SHIFT 12

static enum class_mark page_fault_begin(const struct class_event *e, uint64_t *key)
{
	*key = e->v[0] >> PAGE_SHIFT;
	return e->tp ? MARK_NO : MARK_AT_EXIT;
}

static void page_fault_describe(const struct exit_names *names __unused_arg, uint64_t key,
				char *buf, size_t size)
{
	snprintf(buf, size, "0x%llx", (unsigned long long)(key << PAGE_SHIFT));
}

static const struct event_class page_fault = {
	.name = "page-fault",
	.title = "Page Fault",
	.tp = { { "kvm_page_fault", { "fault_address" } } },
	.exact = { page_fault_begin, class_end_entry },
	.describe = page_fault_describe,
};

/* ---- hypercalls, by number: those of KVM, Hyper-V and Xen have nothing in common ---- */

enum { TP_KVM, TP_HV, TP_XEN };

#define KIND_SHIFT 56

static enum class_mark hypercall_begin(const struct class_event *e, uint64_t *key)
{
	*key = (uint64_t)e->tp << KIND_SHIFT | (e->v[0] & ((1ull << KIND_SHIFT) - 1));
	return e->tp > TP_XEN ? MARK_NO : MARK_AT_EXIT;
}

static void hypercall_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			       size_t size)
{
	static const char *const prefix[] = { [TP_KVM] = "", [TP_HV] = "hv:", [TP_XEN] = "xen:" };

	snprintf(buf, size, "%s0x%llx", prefix[(key >> KIND_SHIFT) % ARRAY_SIZE(prefix)],
		 (unsigned long long)(key & ((1ull << KIND_SHIFT) - 1)));
}

static const struct event_class hypercall = {
	.name = "hypercall",
	.title = "Hypercall",
	.tp = {
		[TP_KVM] = { "kvm_hypercall", { "nr" } },
		[TP_HV] = { "kvm_hv_hypercall", { "code" } },
		[TP_XEN] = { "kvm_xen_hypercall", { "nr" } },
	},
	.exact = { hypercall_begin, class_end_entry },
	.describe = hypercall_describe,
};

/*
 * ---- interrupts injected into the guest, by vector ----
 *
 * From kvm_inj_virq to the entry that delivers it. Posted interrupts are not injected and leave no
 * such event.
 */

#define SOFT (1u << 8) /* INTn of the guest, not an interrupt */

static enum class_mark inject_begin(const struct class_event *e, uint64_t *key)
{
	/* v[2]: up to Linux 5.10 the only field, the vector, was named irq */
	*key = ((e->has & 1 ? e->v[0] : e->v[2]) & 0xff) | (e->v[1] ? SOFT : 0);
	return e->tp ? MARK_NO : MARK_KEY;
}

static void inject_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			    size_t size)
{
	snprintf(buf, size, "0x%02x%s", (uint32_t)key & 0xff, key & SOFT ? ":soft" : "");
}

static const struct event_class inject = {
	.name = "inject",
	.title = "Injected IRQ",
	.tp = { { "kvm_inj_virq", { "vector", "soft", "irq" } } },
	.exact = { inject_begin, class_end_entry },
	.describe = inject_describe,
};

/* ---- why KVM_RUN returned, by reason: KVM_EXIT_*, or the errno that it failed with ---- */

#define FAILED (1ull << 32)

static enum class_mark userspace_begin(const struct class_event *e, uint64_t *key)
{
	int32_t ret = (int32_t)e->v[1];

	*key = ret < 0 ? FAILED | (uint32_t)-ret : (uint32_t)e->v[0];
	return e->tp ? MARK_NO : MARK_AT_EXIT;
}

static void userspace_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			       size_t size)
{
	const char *name = key & FAILED ? NULL : exit_userspace_name((uint32_t)key);

	if (name)
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "%s%u", key & FAILED ? "errno " : "", (uint32_t)key);
}

static const struct event_class userspace = {
	.name = "userspace",
	.title = "KVM_RUN returned",
	.tp = { { "kvm_userspace_exit", { "reason", "errno" } } },
	.exact = { userspace_begin, class_end_entry },
	.describe = userspace_describe,
};

/* ---- entries, where nothing tells how they end, by vCPU ---- */

static enum class_mark entry_begin(const struct class_event *e, uint64_t *key)
{
	*key = (uint32_t)e->v[0];
	return e->tp ? MARK_NO : MARK_KEY;
}

static enum class_mark no_end(const struct class_event *e __unused_arg,
			      uint64_t *key __unused_arg)
{
	return MARK_NO;
}

static void entry_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			   size_t size)
{
	snprintf(buf, size, "vCPU %u", (uint32_t)key);
}

static const struct event_class entry = {
	.name = "entry",
	.title = "VM-ENTRY",
	.tp = { { "kvm_entry", { "vcpu_id", NULL, "rip" } } },
	.counts = true,
	.exact = { entry_begin, no_end },
	.describe = entry_describe,
};

/* ---- all of them, in the order of help ---- */

static const struct event_class *const classes[] = {
	&class_vmexit, &class_mmio, &class_ioport, &class_msr, &hypercall,
	&cpuid,	       &page_fault, &fast_mmio,	   &inject,    &userspace,
	&entry,
};

const char *class_name_at(size_t i)
{
	return i < ARRAY_SIZE(classes) ? classes[i]->name : NULL;
}

const struct event_class *class_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (!strcmp(classes[i]->name, name))
			return classes[i];
	return NULL;
}

const struct event_class *class_recorded(const struct fmt *fmt)
{
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (!classes[i]->optional && fmt_find(fmt, "kvm", classes[i]->tp[0].name))
			return classes[i];
	return NULL;
}

const char *class_name(const struct event_class *c)
{
	return c->name;
}

const char *class_title(const struct event_class *c)
{
	return c->title;
}

bool class_has_perf(const struct event_class *c)
{
	return c->perf.begin;
}
