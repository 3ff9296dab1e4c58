/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * classes.c: the event classes, each a section, and the table of them.
 */
#include "report_priv.h"

static enum class_mark class_end_entry(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY ? MARK_YES : MARK_NO;
}

/* A rule for which each event of the class is a sample, of this key. */
#define KEY_RULE(name_, mark_, key_)                                             \
	static enum class_mark name_(const struct class_event *e, uint64_t *key) \
	{                                                                        \
		*key = (key_);                                                   \
		return e->tp < CLASS_ENTRY ? (mark_) : MARK_NO;                  \
	}
/* How a key is written. */
#define DESCRIBE(name_, ...)                                                                       \
	static void name_(const struct exit_names *names __unused_arg, uint64_t key, char *buf,    \
			  size_t size)                                                             \
	{                                                                                          \
		snprintf(buf, size, __VA_ARGS__);                                                  \
	}
#define TP(name_, ...) { name_, { __VA_ARGS__ } }
/* A class of such events, whose time ends with the entry; perf kvm has none of them. */
#define CLASS(id_, name_, title_, mark_, key_, ...)                                        \
	KEY_RULE(id_##_begin, mark_, key_)                                                 \
	static const struct event_class id_ = {                                            \
		.name = name_, .title = title_, .tp = { __VA_ARGS__ },                     \
		.exact = { id_##_begin, class_end_entry }, .describe = id_##_describe,     \
	}

/* ---- why vCPUs exited, and for how long: kvm_exit to kvm_entry, by reason ---- */

#define OF_NESTED (1ull << 63)

/*
 * Key: the isa in the high half, because the numbers of two instruction sets have nothing in
 * common. Flags of VMX are ignored: a failed entry counts under its basic reason. An exit of a
 * guest's own guest is followed by kvm_nested_vmexit.
 */
static enum class_mark class_begin(const struct class_event *e, uint64_t *key)
{
	enum exit_isa isa = (enum exit_isa)(uint32_t)e->v[1];

	*key = OF_NESTED;
	if (e->tp != CLASS_EXIT)
		return e->tp ? MARK_NO : MARK_MORE;
	*key = (uint64_t)(uint32_t)isa << 32 | exit_reason_key(isa, e->v[0]);
	return MARK_KEY;
}

/* perf counts each number separately, including flags. */
static enum class_mark perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != CLASS_EXIT)
		return MARK_NO;
	*key = e->v[1] << 32 | (uint32_t)e->v[0];
	return MARK_KEY;
}

static enum class_mark perf_before_begin(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY ? MARK_YES : MARK_NO;
}

struct exit_why class_vmexit_why(uint64_t key)
{
	return (struct exit_why){ (enum exit_isa)(uint32_t)((key & ~OF_NESTED) >> 32),
				  (uint32_t)key };
}

static void exit_describe(const struct exit_names *names, uint64_t key, char *buf, size_t size)
{
	const struct exit_why why = class_vmexit_why(key);
	uint32_t flags = exit_reason_flags(why.isa, key);
	char name[EXIT_NAME_MAX], text[EXIT_NAME_MAX];

	exit_reason_text(names, why.isa, why.reason, name, sizeof(name));
	snprintf(buf, size, "%s%s%s%s", name, flags ? " " : "",
		 flags ? exit_flags_text(flags, text, sizeof(text)) : "",
		 key & OF_NESTED ? " (L2)" : "");
}

const struct event_class class_vmexit = {
	.name = "vmexit",
	.title = "VM-EXIT",
	.tp = { { .name = "kvm_nested_vmexit" } },
	.optional = true,
	.exact = { class_begin, class_end_entry },
	.perf = { perf_begin, class_end_entry },
	.perf_before = { perf_before_begin, perf_begin },
	.describe = exit_describe,
};

/*
 * Accesses to emulated device memory, by address and direction.
 *
 * kvm_mmio of a write is traced before the device sees it, of a read when its value is there; type
 * 0 only announces that user space has to answer a read (arch/x86/kvm/x86.c). Kernels with the
 * patches of 2012 that perf's first version came with have kvm_mmio_begin and kvm_mmio_done: where
 * a capture has both formats, they are the whole truth.
 */

enum { TP_MMIO, TP_BEGIN, TP_DONE };

enum { TYPE_UNSATISFIED, TYPE_READ, TYPE_WRITE }; /* KVM_TRACE_MMIO_* */

#define HAS_TYPE    (1u << 1)
#define WRITE_BIT   (1ull << 63)
#define BEGIN_DONE  (1u << TP_BEGIN | 1u << TP_DONE)

static bool is_mmio(const struct class_event *e, unsigned int type, uint64_t *key)
{
	if (e->tp != TP_MMIO || e->v[1] != type)
		return false;
	*key = (e->v[0] & ~WRITE_BIT) | (type == TYPE_WRITE ? WRITE_BIT : 0);
	return true;
}

static enum class_mark mmio_perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp == CLASS_EXIT)
		return MARK_YES;
	return is_mmio(e, TYPE_WRITE, key) ? MARK_KEY : MARK_NO;
}

static enum class_mark mmio_begin(const struct class_event *e, uint64_t *key)
{
	bool write = e->has & HAS_TYPE ? e->v[1] == TYPE_WRITE : e->v[2];

	if ((e->tps & BEGIN_DONE) != BEGIN_DONE)
		return is_mmio(e, TYPE_WRITE, key) ? MARK_KEY : MARK_NO;
	*key = (e->v[0] & ~WRITE_BIT) | (write ? WRITE_BIT : 0);
	return e->tp == TP_BEGIN ? MARK_KEY : MARK_NO;
}

static enum class_mark perf_end(const struct class_event *e, uint64_t *key)
{
	if (e->tp == CLASS_ENTRY)
		return MARK_YES;
	return is_mmio(e, TYPE_READ, key) ? MARK_KEY : MARK_NO;
}

static enum class_mark class_end(const struct class_event *e, uint64_t *key)
{
	if (e->tp != CLASS_ENTRY && (e->tps & BEGIN_DONE) == BEGIN_DONE)
		return e->tp == TP_DONE ? MARK_YES : MARK_NO;
	return perf_end(e, key);
}

DESCRIBE(mmio_describe, "0x%llx:%c", (unsigned long long)(key & ~WRITE_BIT),
	 key & WRITE_BIT ? 'W' : 'R')

static const struct event_class class_mmio = {
	.name = "mmio",
	.title = "MMIO Access",
	.tp = {
		[TP_MMIO] = { "kvm_mmio", { "gpa", "type" } },
		[TP_BEGIN] = { "kvm_mmio_begin", { "gpa", "type", "rw" } },
		[TP_DONE] = { "kvm_mmio_done", { "vcpu_id" } },
	},
	.exact = { mmio_begin, class_end },
	.perf = { mmio_perf_begin, perf_end },
	.describe = mmio_describe,
};

/*
 * Accesses to I/O ports, by port and direction.
 *
 * kvm_pio of an OUT is traced before the access. So was that of an IN in kernels whose kvm_pio has
 * no field val; with that field, an IN is traced once its value is known, after user space: its
 * clock started at the exit. kvm_mmio_done of the kernels of 2012 ends both.
 */

enum { TP_PIO, TP_PIO_DONE };

#define HAS_VAL	  (1u << 2)
#define IOPORT_WRITE (1ull << 32)

static enum class_mark ioport_perf_begin(const struct class_event *e, uint64_t *key)
{
	*key = (uint32_t)e->v[0] | (e->v[1] ? IOPORT_WRITE : 0);
	return e->tp == TP_PIO ? MARK_KEY : MARK_NO;
}

static enum class_mark ioport_begin(const struct class_event *e, uint64_t *key)
{
	enum class_mark m = ioport_perf_begin(e, key);

	return m && !e->v[1] && e->has & HAS_VAL ? MARK_AT_EXIT : m;
}

static enum class_mark ioport_end(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY || e->tp == TP_PIO_DONE ? MARK_YES : MARK_NO;
}

DESCRIBE(ioport_describe, "0x%x:%s", (uint32_t)key, key & IOPORT_WRITE ? "POUT" : "PIN")

static const struct event_class class_ioport = {
	.name = "ioport",
	.title = "IO Port Access",
	.tp = {
		[TP_PIO] = { "kvm_pio", { "port", "rw", "val" } },
		[TP_PIO_DONE] = { "kvm_mmio_done", { "vcpu_id" } },
	},
	.exact = { ioport_begin, ioport_end },
	.perf = { ioport_perf_begin, class_end_entry },
	.describe = ioport_describe,
};

/*
 * Accesses to model specific registers, by register and direction.
 *
 * kvm_msr is traced after the access, so its clock started at the exit. (SVM before Linux 6.12 has
 * accesses that come before their kvm_exit: the pairing begins those at kvm_msr.)
 */

#define MSR_WRITE (1ull << 32)
#define MSR_KEY	  ((uint32_t)e->v[0] | (e->v[1] ? MSR_WRITE : 0))

KEY_RULE(msr_begin, MARK_AT_EXIT, MSR_KEY)
KEY_RULE(msr_perf_begin, MARK_KEY, MSR_KEY)
DESCRIBE(msr_describe, "0x%x:%c%s%s", (uint32_t)key, key & MSR_WRITE ? 'W' : 'R',
	 hyperv_msr_name((uint32_t)key) ? " " : "", hyperv_msr_name((uint32_t)key) ?: "")

static const struct event_class class_msr = {
	.name = "msr",
	.title = "MSR Access",
	.tp = { { "kvm_msr", { "ecx", "write" } } },
	.exact = { msr_begin, class_end_entry },
	.perf = { msr_perf_begin, class_end_entry },
	.describe = msr_describe,
};

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

static void cpuid_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			   size_t size)
{
	if (has_subleaves((uint32_t)key))
		snprintf(buf, size, "0x%x:%u", (uint32_t)key, (uint32_t)(key >> 32));
	else
		snprintf(buf, size, "0x%x", (uint32_t)key);
}

CLASS(cpuid, "cpuid", "CPUID", MARK_AT_EXIT,
      (has_subleaves((uint32_t)e->v[0]) ? e->v[1] << 32 : 0) | (uint32_t)e->v[0],
      TP("kvm_cpuid", "function", "index"));

/*
 * ---- doorbells: writes to device memory that an ioeventfd takes at once, by address ----
 *
 * Only VMX has kvm_fast_mmio; there is no kvm_mmio for such an access, so it is in no other table
 * but that of exits (EPT_MISCONFIG).
 */

DESCRIBE(fast_mmio_describe, "0x%llx:F", (unsigned long long)key)
CLASS(fast_mmio, "fast-mmio", "Fast MMIO", MARK_AT_EXIT, e->v[0], TP("kvm_fast_mmio", "gpa"));

/*
 * ---- faults on guest memory, by page ----
 *
 * With EPT and NPT the address is guest physical, with shadow paging it is virtual; the event does
 * not say which. Accesses to device memory are no page faults: see mmio and fast-mmio.
 */

#define PAGE_SHIFT 12

DESCRIBE(page_fault_describe, "0x%llx", (unsigned long long)(key << PAGE_SHIFT))
CLASS(page_fault, "page-fault", "Page Fault", MARK_AT_EXIT, e->v[0] >> PAGE_SHIFT,
      TP("kvm_page_fault", "fault_address"));

/* ---- hypercalls, by number: those of KVM, Hyper-V and Xen have nothing in common ---- */

enum { TP_KVM, TP_HV, TP_XEN };

#define KIND_SHIFT 56

static void hypercall_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			       size_t size)
{
	static const char *const prefix[] = { [TP_KVM] = "", [TP_HV] = "hv:", [TP_XEN] = "xen:" };

	const char *name = key >> KIND_SHIFT == TP_HV ? hyperv_call_name((uint32_t)key) : NULL;

	snprintf(buf, size, "%s0x%llx%s%s", prefix[(key >> KIND_SHIFT) % ARRAY_SIZE(prefix)],
		 (unsigned long long)(key & ((1ull << KIND_SHIFT) - 1)), name ? " " : "",
		 name ?: "");
}

CLASS(hypercall, "hypercall", "Hypercall", MARK_AT_EXIT,
      (uint64_t)e->tp << KIND_SHIFT | (e->v[0] & ((1ull << KIND_SHIFT) - 1)),
      [TP_KVM] = TP("kvm_hypercall", "nr"), [TP_HV] = TP("kvm_hv_hypercall", "code"),
      [TP_XEN] = TP("kvm_xen_hypercall", "nr"));

/*
 * ---- interrupts injected into the guest, by vector ----
 *
 * From kvm_inj_virq to the entry that delivers it. Posted interrupts are not injected and leave no
 * such event.
 */

#define SOFT (1u << 8) /* INTn of the guest, not an interrupt */

/* v[2]: up to Linux 5.10 the only field, the vector, was named irq */
DESCRIBE(inject_describe, "0x%02x%s", (uint32_t)key & 0xff, key & SOFT ? ":soft" : "")
CLASS(inject, "inject", "Injected IRQ", MARK_KEY,
      ((e->has & 1 ? e->v[0] : e->v[2]) & 0xff) | (e->v[1] ? SOFT : 0),
      TP("kvm_inj_virq", "vector", "soft", "irq"));

/* ---- why KVM_RUN returned, by reason: KVM_EXIT_*, or the errno that it failed with ---- */

#define FAILED (1ull << 32)

static void userspace_describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
			       size_t size)
{
	const char *name = key & FAILED ? NULL : exit_userspace_name((uint32_t)key);

	if (name)
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "%s%u", key & FAILED ? "errno " : "", (uint32_t)key);
}

CLASS(userspace, "userspace", "KVM_RUN returned", MARK_AT_EXIT,
      (int32_t)e->v[1] < 0 ? FAILED | -(uint32_t)e->v[1] : (uint32_t)e->v[0],
      TP("kvm_userspace_exit", "reason", "errno"));

/* ---- entries, where nothing tells how they end, by vCPU ---- */

KEY_RULE(entry_begin, MARK_KEY, (uint32_t)e->v[0])
DESCRIBE(entry_describe, "vCPU %u", (uint32_t)key)

static enum class_mark no_end(const struct class_event *e __unused_arg, uint64_t *key __unused_arg)
{
	return MARK_NO;
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
	&class_vmexit, &class_mmio, &class_ioport, &class_msr, &hypercall, &cpuid,
	&page_fault,   &fast_mmio,  &inject,	   &userspace, &entry,
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
