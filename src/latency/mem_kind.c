/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem_kind.c: of what kind a stall for memory was, by what was seen while it lasted.
 *
 * Each kind has events that prove it. If one of them is missing, because the capture has no such
 * events or they do not agree, the kind is not told.
 */
#include "mem.h"

/*
 * The bit by which KVM marks that it took the right to write itself: EPT_SPTE_MMU_WRITABLE,
 * DEFAULT_SPTE_MMU_WRITABLE (arch/x86/kvm/mmu/spte.h).
 */
#define MMU_WRITABLE (1ull << 58 | 1ull << 10)

/* The memory that was mapped was allocated meanwhile; *clear: as memory that nobody had before. */
static bool is_new(const struct mem_stall *s, bool *clear)
{
	uint64_t pfn = mem_pfn(s);

	for (unsigned int i = 0; i < s->nalloc && i < MEM_ALLOCS; i++)
		if (pfn - s->alloc[i].pfn < 1ull << (s->alloc[i].order & 31)) {
			*clear = s->alloc[i].clear;
			return true;
		}
	return false;
}

/* Kinds of a page that was read from a disk. */
static enum mem_kind read_in(const struct lat_mem *m, const struct mem_stall *s)
{
	if (s->file)
		return MEM_FILE;
	return m->has[EV_FILE_PAGE] ? MEM_SWAP : MEM_UNKNOWN;
}

/* Kinds of an entry that was present: what it lacked. */
static enum mem_kind changed(const struct mem_stall *s)
{
	uint64_t old = s->spte.old, now = s->spte.now;

	if (!spte_leaf(old, s->spte.level))
		return MEM_COLLAPSE; /* a table gave way to a page */
	if (s->dirtied && s->write)
		return MEM_WRITEBACK;
	if (SPTE_PFN(old) == SPTE_PFN(now) && spte_watched(old))
		return MEM_ACCESS;
	if (SPTE_PFN(old) != SPTE_PFN(now) || old & SPTE_WRITABLE || !(now & SPTE_WRITABLE))
		return MEM_UNKNOWN;
	return old & MMU_WRITABLE ? MEM_DIRTY : MEM_UNKNOWN;
}

/* Kinds of a page that had been mapped and was taken. */
static enum mem_kind again(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			   bool fresh)
{
	/* Perhaps another VM's page of the same number, if it is not the host's same page. */
	if (s->by.vm < 0 && (!s->by.same || fresh))
		return MEM_UNKNOWN;
	if (s->by.swapped && fresh)
		return MEM_SWAP;
	if (s->by.split && !fresh)
		return MEM_SPLIT;
	if (!strncmp(tl_comm(v->host, s->by.tid), "kvm-nx-lpage-re", 15))
		return MEM_NX;
	if (u64map_get(&l->mem->collapser, (uint32_t)s->by.tid, NULL))
		return MEM_COLLAPSE;
	return lat_task_vm(l, v->host, s->by.tid) == (int64_t)v->vm ? MEM_VMM : MEM_HOST;
}

/*
 * It was not allocated meanwhile. What hugetlbfs gives never is: without a probe it cannot be told
 * from a huge page that the VMM had.
 */
static enum mem_kind had(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s)
{
	if (s->hugetlb)
		return MEM_TOUCH;
	return s->spte.level == 1 || l->mem->has[EV_HUGETLB] || v->host->cap->no_hugetlb ?
		       MEM_MAP :
		       MEM_UNKNOWN;
}

static enum mem_kind first(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			   bool fresh, bool clear)
{
	const struct lat_mem *m = l->mem;

	if (m->blind || m->taken.forgotten || !m->has[EV_PAGE_ALLOC])
		return MEM_UNKNOWN;
	if (!fresh)
		return had(l, v, s);
	return clear ? MEM_TOUCH : MEM_UNKNOWN;
}

static enum mem_kind mapped(const struct lat *l, const struct lat_vcpu *v,
			    const struct mem_stall *s)
{
	bool clear = false, fresh = is_new(s, &clear);

	if (spte_present(s->spte.old))
		return changed(s);
	if (s->block)
		return read_in(l->mem, s);
	if (s->dirtied && s->write)
		return MEM_WRITEBACK;
	if (s->unmapped && s->write && fresh)
		return s->migrated ? MEM_MIGRATION : MEM_COW;
	if (s->unmapped)
		return MEM_UNKNOWN;
	/* Nobody outside the VM takes a page for good. */
	return s->was_taken && !(s->by.vm < 0 && ((fresh && clear) || s->hugetlb)) ?
		       again(l, v, s, fresh && !clear) :
		       first(l, v, s, fresh, clear);
}

enum mem_kind mem_kind(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s)
{
	if (s->userfault)
		return MEM_USERFAULT;
	if (s->pml)
		return MEM_DIRTY;
	if (s->compacted)
		return MEM_COMPACTION;
	if (s->reclaimed)
		return MEM_RECLAIM;
	if (s->async && !s->arrived && !s->mapped)
		return MEM_ASYNC;
	if (s->fast)
		return s->fast_write ? MEM_DIRTY : MEM_ACCESS;
	if (s->split)
		return MEM_SPLIT;
	if (s->mapped)
		return mapped(l, v, s);
	if (s->block)
		return read_in(l->mem, s);
	/* KVM was to try again, and the guest did something else. */
	if (s->unmapped && s->write && s->nalloc && !s->migrated)
		return MEM_COW;
	/* Nothing had to be changed, which is only known if changes are recorded. */
	if (s->doubt || !s->tdp || !s->has_addr || s->any_spte || s->unmapped)
		return MEM_UNKNOWN;
	return l->mem->tdp[v->vm] && l->mem->has[EV_FAST_FAULT] ? MEM_ALREADY : MEM_UNKNOWN;
}
