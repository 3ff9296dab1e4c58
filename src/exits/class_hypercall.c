/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_hypercall.c: hypercalls of KVM and Hyper-V guests, by number: the exit to the entry.
 *
 * The numbers of the two are unrelated; those of Hyper-V are written "hv:0x..". Xen's, which have a
 * third numbering, are "xen:0x..".
 */
#include "class.h"

#include <stdio.h>

enum { TP_KVM, TP_HV, TP_XEN };

#define KIND_SHIFT 56

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp > TP_XEN)
		return MARK_NO;
	*key = (uint64_t)e->tp << KIND_SHIFT | (e->v[0] & ((1ull << KIND_SHIFT) - 1));
	return MARK_AT_EXIT;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	static const char *const prefix[] = { [TP_KVM] = "", [TP_HV] = "hv:", [TP_XEN] = "xen:" };

	snprintf(buf, size, "%s0x%llx", prefix[(key >> KIND_SHIFT) % ARRAY_SIZE(prefix)],
		 (unsigned long long)(key & ((1ull << KIND_SHIFT) - 1)));
}

const struct event_class class_hypercall = {
	.name = "hypercall",
	.title = "Hypercall",
	.tp = {
		[TP_KVM] = { "kvm_hypercall", { "nr" } },
		[TP_HV] = { "kvm_hv_hypercall", { "code" } },
		[TP_XEN] = { "kvm_xen_hypercall", { "nr" } },
	},
	.exact = { begin, class_end_entry },
	.describe = describe,
};
