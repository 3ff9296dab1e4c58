/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_inject.c: interrupts injected into the guest, by vector: from kvm_inj_virq to the entry
 * that delivers it. Posted interrupts are not injected and leave no such event.
 */
#include "class.h"

#include <stdio.h>

#define SOFT (1u << 8) /* INTn of the guest, not an interrupt */

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp)
		return MARK_NO;
	/* v[2]: up to Linux 5.10 the only field, the vector, was named irq */
	*key = (e->has & 1 ? e->v[0] : e->v[2]) & 0xff;
	if (e->v[1])
		*key |= SOFT;
	return MARK_KEY;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%02x%s", (uint32_t)key & 0xff, key & SOFT ? ":soft" : "");
}

const struct event_class class_inject = {
	.name = "inject",
	.title = "Injected IRQ",
	.tp = { { "kvm_inj_virq", { "vector", "soft", "irq" } } },
	.exact = { begin, class_end_entry },
	.describe = describe,
};
