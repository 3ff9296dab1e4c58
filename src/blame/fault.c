/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault.c: what the first walk found out about exits for memory, if the host was recorded with the
 * events for that.
 */
#include "priv.h"

#define FAULTS_MAX (1u << 19) /* kept; the kinds of later ones are not named */

static uint64_t key_of(int64_t vm, int64_t vcpu, uint64_t begin)
{
	return begin ^ ((uint64_t)vm << 12 | (uint64_t)vcpu) << 44;
}

bool blame_knows_faults(const struct blame *b)
{
	static const enum event_role need[] = { EV_PAGE_FAULT, EV_SPTE, EV_UNMAP, EV_PAGE_ALLOC,
						EV_MMIO };

	for (size_t i = 0; i < ARRAY_SIZE(need); i++)
		if (!event_format(tl_source(b->t, 0)->fmt, need[i]))
			return false;
	return true;
}

int blame_fault(struct blame *b, const struct lat_case *c)
{
	if (!lat_mem_kind(c->kind) || b->fault.n >= FAULTS_MAX)
		return 0;
	return u64map_put(&b->fault, key_of(c->vm, c->vcpu, c->begin), c->kind);
}

uint32_t blame_fault_kind(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t exit)
{
	uint64_t kind = 0;

	u64map_get(&b->fault, key_of(vm, vcpu, exit), &kind);
	return (uint32_t)kind;
}
