/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault.c: what the first walk found out about exits for memory, if the host was recorded with the
 * events for that; and about windows in which the guest did not run.
 */
#include "priv.h"
#include "kvmft/ksyms.h"

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

/* ---- windows ---- */

static uint64_t first_key(const struct blame *b, int64_t vm, uint32_t injected, uint64_t rip)
{
	const uint64_t all[] = { (uint64_t)vm << 32 | injected, rip };

	return hash_bytes(&b->halt_key, all, sizeof(all)) | 1ull << 63;
}

/* Whether that address is where the kernel goes with an interrupt, or an exception. */
static bool is_first(const struct ksyms *k, uint64_t rip)
{
	const struct ksym *f = k ? ksyms_find(k, rip) : NULL;

	return f && ((rip == f->addr && !strncmp(f->name, "asm_", 4)) ||
		     (rip % 8 == 0 && strstr(f->name, "irq_entries_start")));
}

/*
 * With an injection, a guest goes on at the first instruction of a handler. If it left right there
 * it did nothing. Without symbols that address shows by itself: it is met again and again when the
 * host has to take an interrupt at once.
 */
int blame_window_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i,
		      enum exit_kind kind, uint64_t rip)
{
	uint64_t what = BLAME_MOVED, *n;

	if (!l->entry || l->gen != b->gen || b->empty.n >= FAULTS_MAX)
		return 0;
	if (l->cpu == i->cpu) {
		if (!l->injected || kind != EXIT_KIND_INTR || b->first.n >= FAULTS_MAX)
			return 0;
		what = first_key(b, i->vm, l->injected, rip);
		n = u64map_at(&b->first, what);
		if (!n)
			return -ENOMEM;
		*n += 1 + is_first(b->map->vm[i->vm].syms, rip);
	}
	return u64map_put(&b->empty, key_of(i->vm, i->vcpu, l->entry), what);
}

int blame_exit_ends(struct blame *b, const struct blame_left *l, const struct tl_item *i)
{
	if (l->cpu == i->cpu || b->empty.n >= FAULTS_MAX)
		return 0;
	return u64map_put(&b->empty, key_of(i->vm, i->vcpu, l->exit), BLAME_MOVED);
}

enum blame_empty blame_window_is(const struct blame *b, int64_t vm, int64_t vcpu, uint64_t begin)
{
	uint64_t what, n;

	if (!u64map_get(&b->empty, key_of(vm, vcpu, begin), &what))
		return BLAME_RAN;
	if (what == BLAME_MOVED)
		return BLAME_MOVED;
	return u64map_get(&b->first, what, &n) && n > 1 ? BLAME_NOTHING : BLAME_RAN;
}
