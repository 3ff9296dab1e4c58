/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_fast_mmio.c: doorbells: writes to device memory that an ioeventfd takes at once, by
 * address.
 *
 * VMX alone has kvm_fast_mmio; there is no kvm_mmio for such an access, so it is in no other table
 * but that of exits (EPT_MISCONFIG).
 */
#include "class.h"

#include <stdio.h>

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp)
		return MARK_NO;
	*key = e->v[0];
	return MARK_AT_EXIT;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%llx:F", (unsigned long long)key);
}

const struct event_class class_fast_mmio = {
	.name = "fast-mmio",
	.title = "Fast MMIO",
	.tp = { { "kvm_fast_mmio", { "gpa" } } },
	.exact = { begin, class_end_entry },
	.describe = describe,
};
