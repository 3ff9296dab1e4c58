/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_page_fault.c: faults on guest memory, by page: the exit to the entry.
 *
 * With EPT and NPT the address is guest physical, with shadow paging it is virtual; the event does
 * not tell which. Accesses to device memory are no page faults: see mmio and fast-mmio.
 */
#include "class.h"

#include <stdio.h>

#define PAGE_SHIFT 12

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp)
		return MARK_NO;
	*key = e->v[0] >> PAGE_SHIFT;
	return MARK_AT_EXIT;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%llx", (unsigned long long)(key << PAGE_SHIFT));
}

const struct event_class class_page_fault = {
	.name = "page-fault",
	.title = "Page Fault",
	.tp = { { "kvm_page_fault", { "fault_address" } } },
	.exact = { begin, class_end_entry },
	.describe = describe,
};
