/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem.c: stalls of a vCPU for memory, from the exit to the entry that follows, and what was seen of
 * them: by the vCPU's own thread, and what other threads took from the guest before.
 */
#include "mem.h"

/*
 * Of what kind a stall for memory was, by what was seen while it lasted.
 *
 * Each kind has events that prove it. If one of them is missing, because the capture has no such
 * events or they do not agree, the kind is unknown.
 */

/* KVM's mark that it took the right to write: EPT_SPTE_MMU_WRITABLE (arch/x86/kvm/mmu/spte.h). */
#define MMU_WRITABLE (1ull << 58 | 1ull << 10)

/* Kinds of a page that was read from a disk. */
static enum mem_kind read_in(const struct lat_mem *m, const struct mem_stall *s)
{
	if (s->file)
		return MEM_FILE;
	return m->has[EV_FILE_PAGE] ? MEM_SWAP : MEM_UNKNOWN;
}

/* Kinds of a page that had been mapped and was taken. */
static enum mem_kind again(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			   bool fresh)
{
	const struct cap_task *task;
	int64_t vm;

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
	/* Without these, it may have been read from swap, written back, or copied. */
	if (!l->mem->has[EV_PAGE_ALLOC] || !l->mem->has[EV_SWAP_OUT] ||
	    !l->mem->has[EV_FILE_DIRTY] || (s->write && !l->mem->has[EV_UNMAP]))
		return MEM_UNKNOWN;
	vm = lat_task_vm(l, v->host, s->by.tid);
	if (vm == (int64_t)v->vm)
		return MEM_VMM;
	/* Of whose process it is a thread may not be recorded. */
	task = cap_task(v->host->cap, s->by.tid);
	return vm >= 0 || (task && task->tgid) ? MEM_HOST : MEM_UNKNOWN;
}

/*
 * It was not allocated meanwhile. What hugetlbfs gives never is: without a probe it cannot be told
 * from a huge page that the VMM had; nor what somebody filled in through a userfaultfd.
 */
static enum mem_kind had(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s)
{
	if (s->hugetlb)
		return MEM_TOUCH;
	if (!l->mem->has[EV_USERFAULT])
		return MEM_UNKNOWN;
	return s->spte.level == 1 || l->mem->has[EV_HUGETLB] || v->host->cap->no_hugetlb ?
		       MEM_MAP :
		       MEM_UNKNOWN;
}

static enum mem_kind first(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			   bool fresh, bool clear)
{
	const struct lat_mem *m = l->mem;

	if (m->blind || m->taken.forgotten || !m->has[EV_PAGE_ALLOC] || !m->has[EV_UNMAP])
		return MEM_UNKNOWN;
	if (!fresh)
		return had(l, v, s);
	return clear ? MEM_TOUCH : MEM_UNKNOWN;
}

static enum mem_kind mapped(const struct lat *l, const struct lat_vcpu *v,
			    const struct mem_stall *s)
{
	bool clear = false, fresh = false;

	/* What was mapped was allocated meanwhile; clear: as memory that nobody had before. */
	for (unsigned int i = 0; i < s->nalloc && i < MEM_ALLOCS && !fresh; i++) {
		fresh = mem_pfn(s) - s->alloc[i].pfn < 1ull << (s->alloc[i].order & 31);
		clear = fresh && s->alloc[i].clear;
	}

	if (spte_present(s->spte.old)) {
		uint64_t old = s->spte.old, now = s->spte.now;

		/* Kinds of an entry that was present: what it lacked. */
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
	if (!l->mem->has[EV_MMIO]) /* it may be a device's */
		return MEM_UNKNOWN;
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

/*
 * Pages that a guest had and that were taken out of KVM's page tables, and by whom,
 * until they are mapped again.
 *
 * KVM's event of a change names the page of the guest, but not its VM. That is the VM of the thread
 * that made the change, or the only one; with several, what a thread of none of them took is
 * remembered as belonging to an unknown one.
 */

#define TAKEN_MAX (1u << 20)

/* A value of the map: who, the host's page, whether that was written to swap, or split by KVM. */
#define TID_BITS  22
#define PFN_SHIFT (TID_BITS + 2)
#define SWAPPED	  (1ull << TID_BITS)
#define SPLIT	  (SWAPPED << 1)

static uint64_t page_key_of(int64_t vm, unsigned int level, uint64_t gfn)
{
	return ((uint64_t)(vm + 1) & 0xffff) << 48 | (uint64_t)(level & 7) << 45 |
	       (gfn & ((1ull << 45) - 1));
}

static uint64_t base(uint64_t gfn, unsigned int level)
{
	return gfn & ~((1ull << 9 * (level - 1)) - 1);
}

/* How many small pages of a huge one's key were taken. */
static uint64_t *small_of(struct mem_taken *m, uint64_t huge)
{
	if (!m->count || m->last != huge)
		m->count = xu64map_at(&m->small, huge);
	m->last = huge;
	return m->count;
}

static void mem_taken_add(struct mem_taken *m, int64_t vm, unsigned int level, uint64_t gfn,
			  uint64_t pfn, int32_t tid, bool split)
{
	uint64_t key = page_key_of(vm, level, gfn), *val;
	size_t before = m->by_page.n;

	if (before >= TAKEN_MAX && !u64map_get(&m->by_page, key, NULL)) {
		m->forgotten++;
		return;
	}
	m->levels[vm < 0] |= (uint8_t)(1u << level);
	val = xu64map_at(&m->by_page, key);
	*val = pfn << PFN_SHIFT | (split ? SPLIT : 0) | ((uint64_t)(uint32_t)tid & (SWAPPED - 1));
	if (level == 1 && m->by_page.n != before)
		++*small_of(m, page_key_of(vm, 2, base(gfn, 2)));
	if (m->swaps)
		xu64map_put(&m->by_pfn, pfn, key);
}

/* The host's page was written to swap. */
static void mem_taken_swapped(struct mem_taken *m, uint64_t pfn)
{
	uint64_t key, val;

	/* Most hosts never swap: only the first page that is written asks who had it. */
	for (size_t i = 0; i < m->by_page.cap && !m->swaps; i++) {
		const struct u64map_slot *s = &m->by_page.slot[i];
		uint64_t *had = s->used ? xu64map_at(&m->by_pfn, s->val >> PFN_SHIFT) : NULL;

		if (had) /* of several any, but always the same */
			*had = MAX(*had, s->key);
	}
	m->swaps = true;
	if (!u64map_get(&m->by_pfn, pfn, &key) || !u64map_get(&m->by_page, key, &val) ||
	    val >> PFN_SHIFT != pfn)
		return;
	xu64map_put(&m->by_page, key, val | SWAPPED);
}

static bool mem_taken_find(const struct mem_taken *m, int64_t vm, uint64_t gfn, struct mem_by *by)
{
	for (unsigned int level = 1; level <= MEM_LEVELS && m->by_page.n; level++) {
		uint64_t val;

		if (!(m->levels[vm < 0] >> level & 1) ||
		    !u64map_get(&m->by_page, page_key_of(vm, level, base(gfn, level)), &val))
			continue;
		by->tid = (int32_t)(val & (SWAPPED - 1));
		by->pfn = (val >> PFN_SHIFT) + gfn - base(gfn, level);
		by->swapped = val & SWAPPED;
		by->split = val & SPLIT;
		return true;
	}
	return false;
}

static bool stall_drop(struct mem_taken *m, uint64_t key)
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
	uint64_t huge = page_key_of(vm, 2, base(gfn, 2)), *left;

	for (uint64_t i = 0; i < n; i++)
		if (stall_drop(m, page_key_of(vm, 1, gfn + i))) {
			left = small_of(m, huge);
			if (!--*left) {
				u64map_del(&m->small, huge);
				m->count = NULL;
			}
		}
}

/* A huge page brings back the small ones below it. */
static void mem_taken_back(struct mem_taken *m, int64_t vm, unsigned int level, uint64_t gfn)
{
	if (!m->by_page.n || !(m->levels[vm < 0] >> level & 1 || level == 2))
		return;
	if (level == 1) {
		drop_small(m, vm, gfn, 1);
		return;
	}
	stall_drop(m, page_key_of(vm, level, gfn));
	if (level == 2 && u64map_get(&m->small, page_key_of(vm, 2, gfn), NULL))
		drop_small(m, vm, gfn, 512);
}

#define GFP_MOVABLE  0x8u /* programs' memory has it, KVM's page tables do not */
#define GFP_ZERO     0x100u
#define ERROR_WRITE  2u /* the same for EPT and NPT */

void lat_mem_new(struct lat *l)
{
	l->mem = xcalloc(1, sizeof(*l->mem));
	l->mem->tdp = xcalloc(l->map->nvm + 1, sizeof(*l->mem->tdp));
	l->mem->move = xcalloc(l->map->nvm + 1, sizeof(*l->mem->move));
	for (unsigned int k = 0; k < EV_ROLES; k++)
		l->mem->has[k] = true;
	for (size_t i = 0; i < l->nsrc; i++) {
		const struct tl_source *s = tl_source(l->t, i);

		for (unsigned int k = 0; k < EV_ROLES && !s->guest && !s->qemu; k++)
			l->mem->has[k] &= lat_decoder_has(l->dec[i], (enum event_role)k);
	}
}

void lat_mem_free(struct lat *l)
{
	for (size_t i = 0; i < l->nvcpu; i++)
		free(l->vcpu[i]->stall);
	if (!l->mem)
		return;
	u64map_free(&l->mem->taken.by_page);
	u64map_free(&l->mem->taken.by_pfn);
	u64map_free(&l->mem->taken.small);
	u64map_free(&l->mem->collapser);
	u64map_free(&l->mem->fetcher);
	u64map_free(&l->mem->filler);
	u64map_free(&l->mem->told);
	u64map_free(&l->mem->asked);
	mem_move_free(l);
	free(l->mem->tdp);
	free(l->mem);
}

static bool stalls(const struct lat_vcpu *v)
{
	return v && v->stall && v->stall->now.open;
}

/* ---- exit, entry ---- */

/* A stall is over: counts it, and measures it unless it was an access to a device. */
static void stall_over(struct lat *l, struct lat_vcpu *v, const struct mem_stall *s)
{
	if (!s->fault || !lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	if (s->device) {
		lat_count(l, v, LAT_T_MEM, MEM_DEVICE);
		return;
	}
	lat_count(l, v, LAT_T_MEM, MEM_STALLS);
	mem_measured(l, v, s);
}

/* The retried stall was not continued: it is over. */
static void stall_settle(struct lat *l, struct lat_vcpu *v)
{
	struct mem_stall *s = &v->stall->before;

	if (!s->retried)
		return;
	s->retried = false;
	stall_over(l, v, s);
}

void lat_mem_exit(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct mem_stall *s;

	v->stall = v->stall ?: xcalloc(1, sizeof(*v->stall));
	s = &v->stall->now;
	if (s->retried) {
		stall_settle(l, v);
		v->stall->before = *s;
	}
	memset(s, 0, offsetof(struct mem_stall, begin));
	s->open = true;
	s->begin = in->t;
	s->tdp = v->in_fault;
	s->pml = in->f[3] & LAT_EXIT_LOG_FULL;
	s->fault = s->pml || (s->tdp && !l->mem->has[EV_PAGE_FAULT]);
	lat_times_at(v, in->t, s->base);
	s->base_slept = lat_slept(v, in->t);
}

/* Ends a stall in progress, counted as `how`; a retried one is measured as far as it went. */
static void end_one(struct lat *l, struct lat_vcpu *v, unsigned int how)
{
	struct mem_stall *s = &v->stall->now;

	stall_settle(l, v);
	if (s->retried && !s->open)
		stall_over(l, v, s);
	s->retried = false;
	if (!s->open)
		return;
	s->open = false;
	if (!s->fault || !lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	lat_count(l, v, LAT_T_MEM, MEM_STALLS);
	lat_count(l, v, LAT_T_MEM, how);
}

void lat_mem_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct mem_stall *s;

	if (!(v->host == in->i->src && v->entries))
		mem_move_entry(l, v, in);
	/* What it waited for on another host is not what it has now. */
	if (v->stall && v->host != in->i->src)
		end_one(l, v, MEM_OPEN);
	if (!stalls(v))
		return;
	s = &v->stall->now;
	s->open = false;
	if (!s->fault) /* an interrupt may come in between */
		return;
	s->end = in->t;
	mem_spent(v, s);
	stall_settle(l, v);
	s->retried = !s->device && s->tdp && s->has_addr && l->mem->tdp[v->vm] && !s->mapped &&
		     !s->fast && !s->split && !s->async;
	if (!(s->retried))
		stall_over(l, v, s);
}

/* An access to a device looks like a fault, and is none. */
void lat_mem_device(struct lat_vcpu *v)
{
	if (stalls(v))
		v->stall->now.device = true;
}

/* ---- what was seen meanwhile ---- */

/* A fault again: KVM gave up the first, as the page changed or was waited for: one stall. */
static void go_on(struct mem_vcpu *m)
{
	struct mem_stall *s = &m->now, *b = &m->before, whole = *b;

	if (!b->retried || b->addr >> 12 != s->addr >> 12)
		return;
	/* Else the page may have been there at first, and the guest ran meanwhile. */
	b->doubt = !b->unmapped && !b->userfault && !b->block && !b->slept;
	if (b->doubt)
		return;
	b->retried = false;
	whole.open = whole.fault = whole.again = true;
	whole.write |= s->write;
	whole.retried = false;
	*s = whole;
}

static bool covers(const struct mem_spte *e, const struct mem_stall *s)
{
	return s->tdp && s->has_addr && s->addr >> 12 >> 9 * (e->level - 1) ==
						e->gfn >> 9 * (e->level - 1);
}

/* A VM's number among those of all hosts, a key of taken pages; vm -1: some VM of that host. */
static int64_t mem_place(const struct lat *l, const struct tl_source *host, int64_t vm)
{
	return host->link ? vm + (int64_t)((l->map->nvm + 1) * host->index) : vm;
}

/* Whether a VM, or an unknown one, lost the page; the same host page proves it was this VM's. */
static bool was_taken(const struct lat *l, const struct tl_source *host, struct mem_stall *s,
		      int64_t vm)
{
	bool other = mem_taken_find(&l->mem->taken, mem_place(l, host, -1), s->addr >> 12, &s->by);

	s->by.vm = -1;
	s->by.same = other && s->by.pfn == mem_pfn(s);
	if (!s->by.same &&
	    mem_taken_find(&l->mem->taken, mem_place(l, host, vm), s->addr >> 12, &s->by)) {
		s->by.vm = vm;
		return true;
	}
	return other;
}

/* A page stays mapped, but the next write to it is noticed: EPT's dirty bit, or W, was cleared. */
static bool protects(const struct mem_spte *e)
{
	uint64_t gone = e->old & ~e->now;

	if (!spte_leaf(e->old, e->level) || !spte_leaf(e->now, e->level) || spte_watched(e->now))
		return false;
	return SPTE_PFN(e->old) == SPTE_PFN(e->now) && (gone & SPTE_WRITABLE || gone == SPTE_DIRTY);
}

static void spte(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct mem_spte e = { in->f[0], in->f[2], in->f[3], (unsigned int)in->f[1] };
	int64_t vm = lat_vm_of(l, in);

	if (in->has != 15 || !e.level || e.level > 5)
		return;
	if (vm >= 0)
		l->mem->tdp[vm] = true;
	if (stalls(v)) {
		v->stall->now.any_spte = true;
		if (covers(&e, &v->stall->now)) {
			if (spte_leaf(e.now, e.level)) {
				v->stall->now.mapped = true;
				v->stall->now.spte = e;
				v->stall->now.was_taken =
					was_taken(l, in->i->src, &v->stall->now, vm);
			} else if (spte_leaf(e.old, e.level) && spte_present(e.now)) {
				v->stall->now.split = true;
			}
		}
	}
	if (e.level > MEM_LEVELS)
		return;
	if (vm >= 0 && protects(&e))
		mem_move_protected(l, vm, e.gfn);
	else if (spte_leaf(e.now, e.level))
		mem_taken_back(&l->mem->taken, mem_place(l, in->i->src, vm), e.level, e.gfn);
	else if (spte_leaf(e.old, e.level) && !spte_present(e.now) &&
		 !(e.level == 1 && stalls(v) && covers(&e, &v->stall->now)))
		/* A fault that takes the huge page away maps small ones, this and then others. */
		mem_taken_add(&l->mem->taken, mem_place(l, in->i->src, vm), e.level, e.gfn,
			      SPTE_PFN(e.old), in->i->tid,
			      stalls(v) && !v->stall->now.unmapped && covers(&e, &v->stall->now));
}

static uint64_t fetcher(const struct lat_in *in)
{
	return (uint64_t)in->i->src->index << 32 | (uint32_t)in->i->tid;
}

static bool is_read(const struct lat *l, const struct lat_in *in)
{
	char rwbs[16];

	lat_decode_text(l->dec[in->i->src->index], in, rwbs, sizeof(rwbs));
	return strchr(rwbs, 'R') != NULL;
}

static bool waits_for(const struct lat_vcpu *v, uint64_t gfn)
{
	return stalls(v) && v->stall->now.async && v->stall->now.addr >> 12 == gfn;
}

/* Another thread fetches that page for it. */
static void asked(struct lat *l, struct lat_vcpu *v, uint64_t gfn)
{
	uint64_t *by = xu64map_at(&l->mem->asked, gfn);

	v->stall->now.async = l->mem->fetches = true;
	if (*by > MEM_SEVERAL && *by != (uintptr_t)v &&
	    waits_for((struct lat_vcpu *)(uintptr_t)*by, gfn))
		*by = MEM_SEVERAL;
	else if (*by != MEM_SEVERAL)
		*by = (uintptr_t)v;
}

static void own_fault(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct mem_stall *s = &v->stall->now;

	switch (in->kind) {
	case EV_PAGE_FAULT:
		if (s->fault && s->has_addr)
			return; /* of several the first one is what the exit was for */
		s->fault = true;
		s->has_addr = in->has & 1;
		s->addr = in->f[0];
		s->write = in->has & 2 && in->f[1] & ERROR_WRITE;
		if (s->tdp && s->has_addr)
			go_on(v->stall);
		break;
	case EV_FAST_FAULT: {
		bool writable = !(in->f[2] & SPTE_WRITABLE) && in->f[3] & SPTE_WRITABLE;

		if ((in->has & 12) != 12 || in->f[2] == in->f[3])
			return;
		s->fast = true;
		s->fast_write |= writable && !spte_watched(in->f[2]);
		break;
	}
	case EV_UNMAP: s->unmapped = true; break;
	case EV_PAGE_ALLOC: {
		unsigned int i = s->nalloc % MEM_ALLOCS;

		if ((in->has & 7) != 7 || !(in->f[2] & GFP_MOVABLE))
			return;
		s->alloc[i].pfn = in->f[0];
		s->alloc[i].order = in->f[1];
		/* Memory for a huge page is cleared by the code that asks for it. */
		s->alloc[i].clear = in->f[2] & GFP_ZERO || in->f[1];
		s->nalloc++;
		break;
	}
	case EV_BIO: s->block |= is_read(l, in); break;
	case EV_FILE_PAGE: s->file = true; break;
	case EV_FILE_DIRTY: s->dirtied = true; break;
	case EV_ASYNC:
		if (s->has_addr && in->f[1] == s->addr >> 12)
			asked(l, v, in->f[1]);
		break;
	case EV_COMPACTION: s->compacted = true; break;
	case EV_RECLAIM: s->reclaimed = true; break;
	case EV_MIGRATED: s->migrated = true; break;
	case EV_USERFAULT: s->userfault = true; break;
	case EV_HUGETLB: s->hugetlb = true; break;
	default: break;
	}
}

/* What a thread that fetches a page for a vCPU met, and the page that it allocated for it. */
#define FETCH_USERFAULT 1u
#define FETCH_BLOCK	2u
#define FETCH_FILE	4u
#define FETCH_CLEAR	8u
#define FETCH_PAGE	16u

static void fetches(struct lat *l, const struct lat_in *in)
{
	uint64_t *met = xu64map_at(&l->mem->fetcher, fetcher(in));

	switch (in->kind) {
	case EV_USERFAULT: *met |= FETCH_USERFAULT; break;
	case EV_BIO: *met |= is_read(l, in) ? FETCH_BLOCK : 0; break;
	case EV_FILE_PAGE: *met |= FETCH_FILE; break;
	case EV_PAGE_ALLOC:
		if ((in->has & 7) == 7 && in->f[2] & GFP_MOVABLE && !in->f[1])
			*met = (*met & (FETCH_CLEAR - 1)) | FETCH_PAGE | in->f[0] << 8 |
			       (in->f[2] & GFP_ZERO ? FETCH_CLEAR : 0);
		break;
	default: break;
	}
}

/* The event names no VM: if two wait for a page of that number, it is for neither. */
static void fetched(struct lat *l, const struct lat_in *in)
{
	uint64_t met = 0, filler = 0, by = 0, gfn = in->f[1] >> 12;
	struct mem_stall *s;
	size_t n;

	u64map_take(&l->mem->asked, gfn, &by);
	u64map_get(&l->mem->fetcher, fetcher(in), &met);
	u64map_del(&l->mem->fetcher, fetcher(in));
	u64map_get(&l->mem->filler, fetcher(in), &filler);
	u64map_del(&l->mem->filler, fetcher(in));
	if (by <= MEM_SEVERAL || !waits_for((struct lat_vcpu *)(uintptr_t)by, gfn))
		return;
	s = &((struct lat_vcpu *)(uintptr_t)by)->stall->now;
	s->arrived = true;
	s->userfault |= met & FETCH_USERFAULT;
	s->block |= met & FETCH_BLOCK;
	s->file |= met & FETCH_FILE;
	if (met & FETCH_PAGE) {
		n = s->nalloc++ % MEM_ALLOCS;
		s->alloc[n].pfn = met >> 8;
		s->alloc[n].order = 0;
		s->alloc[n].clear = met & FETCH_CLEAR;
	}
	s->filler = (int32_t)filler;
}

bool lat_mem_is(enum event_role kind)
{
	return kind == EV_PAGE_FAULT || kind == EV_WAKING ||
	       (kind >= EV_SPTE && kind <= EV_USERFAULT);
}

void lat_mem_event(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct lat_vcpu *woken;

	if (in->kind == EV_SPTE) {
		spte(l, v, in);
		return;
	}
	if (in->kind == EV_WAKING) {
		woken = lat_vcpu_of_tid(l, in->i->src, (int32_t)in->f[0]);
		if (woken)
			lat_vcpu_woken_by(woken, in);
		if (l->mem->fetches) {
			uint64_t key = (uint64_t)in->i->src->index << 32 | (uint32_t)in->f[0];
			uint64_t met;

			/* Who fetches from a userfaultfd is woken by who fills the page in. */
			if (!u64map_get(&l->mem->fetcher, key, &met) || !(met & FETCH_USERFAULT) ||
			    lat_in_interrupt(in))
				return;
			xu64map_put(&l->mem->filler, key, (uint32_t)in->i->tid);
		}
		return;
	}
	if (in->kind == EV_ASYNC_TOLD || in->kind == EV_ASYNC_READY) {
		if (v)
			mem_told(l, v, in);
		return;
	}
	if (in->kind == EV_SWAP_OUT)
		mem_taken_swapped(&l->mem->taken, in->f[0]);
	else if (in->kind == EV_COLLAPSE)
		xu64map_put(&l->mem->collapser, (uint32_t)in->i->tid, 1);
	else if (in->kind == EV_FETCHED)
		fetched(l, in);
	else if (lat_in_interrupt(in))
		return;
	else if (stalls(v))
		own_fault(l, v, in);
	else if (!v && l->mem->fetches)
		fetches(l, in);
}

/* ---- ends ---- */

static void end_all(struct lat *l, unsigned int how)
{
	for (size_t i = 0; i < l->nheard; i++)
		if (l->heard[i]->stall)
			end_one(l, l->heard[i], how);
}

void lat_mem_forget(struct lat *l)
{
	if (!l->mem)
		return;
	l->mem->blind = true;
	l->mem->told_from = l->now;
	end_all(l, MEM_CUT);
}

void lat_mem_finish(struct lat *l)
{
	if (!l->mem)
		return;
	l->table[LAT_T_MEM].count[MEM_FORGOTTEN] = l->mem->taken.forgotten;
	l->table[LAT_T_MEM].count[MEM_TOLD_ALONE] += l->mem->told.n;
	end_all(l, MEM_OPEN);
}
