/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem_taken.c: pages that a guest had and that were taken out of KVM's page tables, and by whom,
 * until they are mapped again.
 *
 * KVM's event of a change names the page of the guest, but not its VM. That is the VM of the thread
 * that made the change, or the only one; with several, what a thread of none of them took is
 * remembered as belonging to an unknown one.
 */
#include "mem.h"

#define TAKEN_MAX (1u << 20)

/* A value of the map: who, the host's page, whether that was written to swap, or split by KVM. */
#define TID_BITS  22
#define PFN_SHIFT (TID_BITS + 2)
#define SWAPPED	  (1ull << TID_BITS)
#define SPLIT	  (SWAPPED << 1)

static uint64_t key_of(int64_t vm, unsigned int level, uint64_t gfn)
{
	return ((uint64_t)(vm + 1) & 0xffff) << 48 | (uint64_t)(level & 7) << 45 |
	       (gfn & ((1ull << 45) - 1));
}

static uint64_t base(uint64_t gfn, unsigned int level)
{
	return gfn & ~((1ull << 9 * (level - 1)) - 1);
}

/* How many small pages of a huge one's key were taken; NULL: out of memory. */
static uint64_t *small_of(struct mem_taken *m, uint64_t huge)
{
	if (!m->count || m->last != huge)
		m->count = u64map_at(&m->small, huge);
	m->last = huge;
	return m->count;
}

int mem_taken_add(struct mem_taken *m, int64_t vm, unsigned int level, uint64_t gfn, uint64_t pfn,
		  int32_t tid, bool split)
{
	uint64_t key = key_of(vm, level, gfn), *val, *n;
	size_t before = m->by_page.n;

	if (before >= TAKEN_MAX && !u64map_get(&m->by_page, key, NULL)) {
		m->forgotten++;
		return 0;
	}
	m->levels[vm < 0] |= (uint8_t)(1u << level);
	val = u64map_at(&m->by_page, key);
	if (!val)
		return -ENOMEM;
	*val = pfn << PFN_SHIFT | (split ? SPLIT : 0) | ((uint64_t)(uint32_t)tid & (SWAPPED - 1));
	if (level == 1 && m->by_page.n != before) {
		n = small_of(m, key_of(vm, 2, base(gfn, 2)));
		if (!n)
			return -ENOMEM;
		(*n)++;
	}
	return m->swaps ? u64map_put(&m->by_pfn, pfn, key) : 0;
}

/* Most hosts never swap: only the first page that is written asks who had it. */
static int find_by_pfn(struct mem_taken *m)
{
	for (size_t i = 0; i < m->by_page.cap && !m->swaps; i++) {
		const struct u64map_slot *s = &m->by_page.slot[i];
		uint64_t *key = s->used ? u64map_at(&m->by_pfn, s->val >> PFN_SHIFT) : NULL;

		if (s->used && !key)
			return -ENOMEM;
		if (key) /* of several any, but always the same */
			*key = MAX(*key, s->key);
	}
	m->swaps = true;
	return 0;
}

int mem_taken_swapped(struct mem_taken *m, uint64_t pfn)
{
	uint64_t key, val;

	if (find_by_pfn(m))
		return -ENOMEM;
	if (!u64map_get(&m->by_pfn, pfn, &key) || !u64map_get(&m->by_page, key, &val) ||
	    val >> PFN_SHIFT != pfn)
		return 0;
	return u64map_put(&m->by_page, key, val | SWAPPED);
}

bool mem_taken_find(const struct mem_taken *m, int64_t vm, uint64_t gfn, struct mem_by *by)
{
	for (unsigned int level = 1; level <= MEM_LEVELS && m->by_page.n; level++) {
		uint64_t val;

		if (!(m->levels[vm < 0] >> level & 1) ||
		    !u64map_get(&m->by_page, key_of(vm, level, base(gfn, level)), &val))
			continue;
		by->tid = (int32_t)(val & (SWAPPED - 1));
		by->pfn = (val >> PFN_SHIFT) + gfn - base(gfn, level);
		by->swapped = val & SWAPPED;
		by->split = val & SPLIT;
		return true;
	}
	return false;
}

static bool drop(struct mem_taken *m, uint64_t key)
{
	uint64_t val, at;

	if (!u64map_take(&m->by_page, key, &val))
		return false;
	if (m->swaps && u64map_get(&m->by_pfn, val >> PFN_SHIFT, &at) && at == key)
		u64map_del(&m->by_pfn, val >> PFN_SHIFT);
	return true;
}

static void drop_small(struct mem_taken *m, int64_t vm, uint64_t gfn, uint64_t n)
{
	uint64_t huge = key_of(vm, 2, base(gfn, 2)), *left;

	for (uint64_t i = 0; i < n; i++)
		if (drop(m, key_of(vm, 1, gfn + i))) {
			left = small_of(m, huge);
			if (left && !--*left) {
				u64map_del(&m->small, huge);
				m->count = NULL;
			}
		}
}

/* A huge page brings back the small ones below it. */
void mem_taken_back(struct mem_taken *m, int64_t vm, unsigned int level, uint64_t gfn)
{
	if (!m->by_page.n || !(m->levels[vm < 0] >> level & 1 || level == 2))
		return;
	if (level == 1) {
		drop_small(m, vm, gfn, 1);
		return;
	}
	drop(m, key_of(vm, level, gfn));
	if (level == 2 && u64map_get(&m->small, key_of(vm, 2, gfn), NULL))
		drop_small(m, vm, gfn, 512);
}

void mem_taken_free(struct mem_taken *m)
{
	u64map_free(&m->by_page);
	u64map_free(&m->by_pfn);
	u64map_free(&m->small);
}
