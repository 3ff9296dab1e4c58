/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_cpuid.c: CPUID instructions, by leaf and subleaf: the exit to the entry.
 */
#include "class.h"

#include <stdio.h>

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp)
		return MARK_NO;
	*key = e->v[1] << 32 | (uint32_t)e->v[0];
	return MARK_AT_EXIT;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%x:%u", (uint32_t)key, (uint32_t)(key >> 32));
}

const struct event_class class_cpuid = {
	.name = "cpuid",
	.title = "CPUID",
	.tp = { { "kvm_cpuid", { "function", "index" } } },
	.exact = { begin, class_end_entry },
	.describe = describe,
};
