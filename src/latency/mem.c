/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem.c: stalls of a vCPU for memory, from the exit to the entry that follows, and what was seen of
 * them: by the vCPU's own thread, and what other threads took from the guest before. Tables of them
 * by kind, and by vCPU, guest task, address, host thread and time; a VM that moves.
 */
#include "priv.h"

#include <strings.h>

enum mem_kind {
	MEM_UNKNOWN, MEM_TOUCH, MEM_MAP, MEM_SPLIT, MEM_COLLAPSE, MEM_COW, MEM_DIRTY,
	MEM_ACCESS, MEM_USERFAULT, MEM_SWAP, MEM_FILE, MEM_COMPACTION, MEM_RECLAIM,
	MEM_MIGRATION, MEM_VMM, MEM_HOST, MEM_ALREADY, MEM_NX, MEM_WRITEBACK, MEM_ASYNC,
	MEM_KINDS
};

#define MEM_LEVELS 3 /* pages of 4 KiB, 2 MiB, 1 GiB */
#define MEM_ALLOCS 16

/* Who took a page. */
struct mem_by {
	int32_t tid;
	int64_t vm; /* -1: unknown */
	uint64_t pfn; /* the host's page */
	bool same;	    /* ... as is mapped now */
	bool swapped;
	bool split; /* KVM itself, to map it in small pages */
};

/* By VM. */
struct mem_move {
	struct u64map seen; /* gfn >> 6 -> bit per page that was write-protected in this round */
	uint64_t at, *word; /* that of the last page: at, and its bits; NULL: none */
	uint32_t round;	    /* 0: none began */
	bool arrived;	    /* it came from another VMM */
};

struct mem_taken {
	struct u64map by_page; /* VM, level, gfn */
	struct u64map by_pfn;  /* of the host, to the key of by_page; if swaps */
	bool swaps;	       /* a page was written to swap */
	struct u64map small;   /* how many 4 KiB pages of by_page are in each 2 MiB, by its key */
	uint64_t last, *count; /* that of the last page: its key, and how many; NULL: none */
	uint8_t levels[2];     /* bit per level that ever occurred: of a known VM, of an unknown
			        * one */
	uint64_t forgotten;    /* pages that there was no room for */
};

/* An entry of KVM's page tables came: from what, to what. */
struct mem_spte {
	uint64_t gfn, old, now;
	unsigned int level;
};

/* What was seen of a vCPU since its exit, which clears what is before begin. */
struct mem_stall {
	bool open, fault, device;
	bool retried;	 /* it ended with nothing mapped: the guest may fault again at once */
	bool again;	 /* this is what followed that */
	bool doubt;	 /* a fault for the same page followed, for no known reason */
	bool pml;	 /* the exit was for the log of dirty pages, which is full */
	bool tdp;	 /* the address is one of the guest's memory */
	bool has_addr, write;
	/* by its own thread */
	bool fast, fast_write;		 /* a bit of the entry was all that lacked */
	bool split, mapped, any_spte;	 /* a huge page became a table; the page was mapped */
	bool unmapped;			 /* the host made KVM forget a page of the VMM */
	bool block, file, compacted, reclaimed, migrated, userfault, hugetlb;
	bool dirtied;	     /* it made a clean page of a file dirty */
	int32_t filler;	     /* who filled the page in that another thread fetched; 0: not known */
	bool async, arrived; /* another thread fetched the page for it; and was done */
	bool was_taken;
	unsigned int nalloc;
	uint64_t addr;
	uint64_t begin, end;
	uint64_t base[VS_STATES], base_slept; /* what the vCPU had done before */
	uint64_t spent[VS_STATES], slept;     /* ... and did meanwhile, after mem_spent() */
	int32_t waker;			      /* who woke it last */
	struct mem_spte spte;		      /* mapped: the entry of the page */
	struct mem_by by;		      /* was_taken: it was this one */
	struct { uint64_t pfn, order; bool clear; } alloc[MEM_ALLOCS]; /* a ring */
};

struct mem_vcpu {
	struct mem_stall now, before; /* before: one that was retried, not measured yet */
};

#define MEM_SEVERAL 1u

struct lat_mem {
	struct mem_taken taken;
	bool *tdp; /* by VM: its page tables make EV_SPTE */
	struct mem_move *move; /* likewise */
	bool fetches; /* EV_ASYNC was seen */
	struct u64map asked; /* gfn -> the vCPU that waits for it, or MEM_SEVERAL */
	struct u64map told;    /* VM << 32 | token -> when its guest was told that a page lacks */
	uint64_t told_from;    /* the last gap: what began before it is not timed */
	struct u64map filler;  /* ... -> who woke them after a userfaultfd */
	struct u64map fetcher; /* threads that fetch pages for vCPUs -> FETCH_ of what they met */
	bool blind; /* events of the host were lost: so may be what was taken */
	bool has[EV_ROLES]; /* events that the capture can have */
	uint64_t slice; /* cycles; 0: not yet known */
	struct u64map collapser; /* threads that made small pages into huge ones */
};

#define SPTE_PRESENT  (1ull << 11) /* SPTE_MMU_PRESENT_MASK, Linux 5.12 and later */
#define SPTE_WRITABLE (1ull << 1)
#define SPTE_DIRTY    (1ull << 9) /* of EPT */
#define SPTE_PFN(e)   ((e) >> 12 & ((1ull << 40) - 1))
static bool spte_present(uint64_t e)
{
	return e & SPTE_PRESENT;
}
/* ... but without any right: so a page is watched where the CPU notes no accesses (access log). */
static bool spte_watched(uint64_t e)
{
	return !(e & 7);
}
/* An entry that maps a page, and not a table. */
static bool spte_leaf(uint64_t e, unsigned int level)
{
	return spte_present(e) && (level == 1 || e >> 7 & 1);
}

/* The host's page that was mapped. */
static uint64_t mem_pfn(const struct mem_stall *s)
{
	return SPTE_PFN(s->spte.now) + (s->addr >> 12) - s->spte.gfn;
}

enum { MEM_STALLS, MEM_MEASURED, MEM_NOT_TOLD, MEM_CUT, MEM_OPEN, MEM_DEVICE, MEM_FORGOTTEN,
       MEM_TOLD, MEM_TOLD_ALONE };

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
static enum mem_kind mem_again(const struct lat *l, const struct lat_vcpu *v,
			       const struct mem_stall *s, bool fresh)
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
static enum mem_kind mem_had(const struct lat *l, const struct lat_vcpu *v,
			     const struct mem_stall *s)
{
	if (s->hugetlb)
		return MEM_TOUCH;
	if (!l->mem->has[EV_USERFAULT])
		return MEM_UNKNOWN;
	return s->spte.level == 1 || l->mem->has[EV_HUGETLB] || v->host->cap->no_hugetlb ?
		       MEM_MAP :
		       MEM_UNKNOWN;
}

static enum mem_kind mem_first(const struct lat *l, const struct lat_vcpu *v,
			       const struct mem_stall *s, bool fresh, bool clear)
{
	const struct lat_mem *m = l->mem;

	if (m->blind || m->taken.forgotten || !m->has[EV_PAGE_ALLOC] || !m->has[EV_UNMAP])
		return MEM_UNKNOWN;
	if (!fresh)
		return mem_had(l, v, s);
	return clear ? MEM_TOUCH : MEM_UNKNOWN;
}

static enum mem_kind mem_mapped(const struct lat *l, const struct lat_vcpu *v,
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
		       mem_again(l, v, s, fresh && !clear) :
		       mem_first(l, v, s, fresh, clear);
}

static enum mem_kind mem_kind(const struct lat *l, const struct lat_vcpu *v,
			      const struct mem_stall *s)
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
		return mem_mapped(l, v, s);
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
 * What the move of a VM to another VMM, here or on another host, cost its vCPUs: the
 * rounds in which their writes were logged, the time in which they ran nowhere, and the stalls for
 * memory that they had afterwards.
 *
 * A round begins when a page is write-protected that was in this round already: the VMM asks what
 * was written once a round, and protects what it is told.
 *
 * A VM has come from another one that has its UUID, or its name, if its TSC goes on from where the
 * other's was, which that of a VM that was started anew does not.
 */

#define SEEN_MAX   (1u << 20) /* words of 64 pages, of a round */
#define ROUNDS_MAX 40u	      /* later ones are one row */

static const char *mem_kind_name(enum mem_kind kind);

enum row { ROW_ROUND, ROW_BLACKOUT, ROW_GUEST, ROW_AFTER };

static struct lat_group *mem_row(struct lat *l, int64_t vm, enum row kind, uint32_t n, uint32_t *at)
{
	return lat_group_get(l, LAT_T_MEM_MOVE, vm, (uint64_t)kind << 32 | n, at);
}

/* ---- rounds ---- */

/* word: NULL if there is no room for it. */
static void mem_find_word(struct mem_move *m, uint64_t at)
{
	if (m->word && m->at == at)
		return;
	m->word = NULL;
	if (m->seen.n >= SEEN_MAX && !u64map_get(&m->seen, at, NULL))
		return;
	m->word = xu64map_at(&m->seen, at);
	m->at = at;
}

/* A page of the VM may not be written any more. */
static void mem_move_protected(struct lat *l, int64_t vm, uint64_t gfn)
{
	struct mem_move *m = &l->mem->move[vm];
	uint64_t bit = 1ull << (gfn & 63);

	mem_find_word(m, gfn >> 6);
	if (m->word && (!m->round || *m->word & bit)) {
		m->round++;
		u64map_free(&m->seen);
		m->word = NULL;
		mem_find_word(m, gfn >> 6);
	}
	if (m->word)
		*m->word |= bit;
}

/* ---- a vCPU that comes ---- */

static bool same_guest(const struct lat *l, size_t a, size_t b)
{
	const struct cap_vm *x = l->map->vm[a].cap, *y = l->map->vm[b].cap;

	if (!x || !y)
		return false;
	if (x->uuid && y->uuid)
		return !strcasecmp(x->uuid, y->uuid);
	return x->name && y->name && !strcmp(x->name, y->name);
}

static bool tsc_of(const struct lat *l, const struct lat_vcpu *v, uint64_t host, uint64_t *tsc)
{
	return epoch_result_usable(epoch_host_to_guest(
		epoch_vm_find(l->map->vm[v->vm].epochs, v->id), host, tsc));
}

/* The vCPU that it was before the move; NULL: it did not move. */
static const struct lat_vcpu *came_from(const struct lat *l, const struct lat_vcpu *v,
					const struct lat_in *in)
{
	const struct lat_vcpu *last = NULL;
	uint64_t before, now;

	if (v->host && v->host != in->i->src)
		return v->exit && v->base != VS_GUEST ? v : NULL;
	for (size_t vm = 0; vm < l->map->nvm && l->map->vm[v->vm].cap && !v->entries; vm++) {
		const struct lat_vcpu *a;

		if (vm == v->vm || !same_guest(l, vm, v->vm) ||
		    !u64map_get(&l->vcpu_at, (uint64_t)vm << 32 | v->id, &before))
			continue;
		a = l->vcpu[before];
		if (a->exit && a->base != VS_GUEST && a->base != VS_UNKNOWN &&
		    (!last || a->exit > last->exit))
			last = a;
	}
	if (!last || !tsc_of(l, last, last->exit, &before) || !tsc_of(l, v, in->t, &now))
		return NULL;
	return (int64_t)(now - before) >= 0 ? last : NULL;
}

/* A host's CLOCK_REALTIME at a TSC value, by the nearest reading. */
static bool day_of(const struct tl_source *s, uint64_t tsc, int64_t *ns)
{
	const struct capture *cap = s->cap;
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < cap->nbracket && cap->tsc_khz; i++) {
		const struct clock_bracket *b = &cap->bracket[i];
		uint64_t off = tsc > b->tsc ? tsc - b->tsc : b->tsc - tsc;
		__int128 span = (__int128)off * 1000000 / cap->tsc_khz;

		if (off >= best || !b->real)
			continue;
		best = off;
		*ns = (int64_t)(b->real + (tsc > b->tsc ? span : -span));
	}
	return best != UINT64_MAX;
}

/* How long it ran nowhere, by CLOCK_REALTIME of both hosts. */
static bool by_day(const struct lat_vcpu *from, const struct lat_in *in, uint64_t *ns)
{
	uint64_t left = from->exit, came = in->t;
	const struct tl_source *a = from->host, *b = in->i->src;
	int64_t x, y;

	if ((a->link && !migrate_from_line(a->link, left, &left)) ||
	    (b->link && !migrate_from_line(b->link, came, &came)) || !day_of(a, left, &x) ||
	    !day_of(b, came, &y) || y < x)
		return false;
	*ns = (uint64_t)(y - x);
	return true;
}

static void mem_blackout(struct lat *l, const struct lat_vcpu *v, enum row kind, struct lat_case *c)
{
	struct lat_group *g = mem_row(l, c->vm, kind, v->id, &c->group);

	snprintf(g->name, sizeof(g->name), "%s, vCPU %u",
		 kind == ROW_GUEST ? "of it in its TSC" : "blackout", v->id);
	snprintf(c->what, sizeof(c->what), "%s", g->name);
	l->table[LAT_T_MEM_MOVE].count[0]++;
	lat_case_add(l, LAT_T_MEM_MOVE, g, c);
}

/* Before the entry is taken for one. */
static void mem_move_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct lat_vcpu *from = l->o.mem_by >> MEM_BY_move & 1 ? came_from(l, v, in) : NULL;
	struct lat_case c = { .vm = (int64_t)v->vm, .vcpu = v->id, .end = in->t };
	bool other_host = v->host && v->host != in->i->src;
	uint64_t ns;

	if (!from || !lat_wanted(l, c.vm, v->id))
		return;
	l->mem->move[v->vm].arrived = true;
	c.begin = MIN(from->exit, in->t);
	c.time = lat_span(l, in->t - c.begin);
	/* The guest's TSC shows only what it was set to on the other side. */
	if (!other_host || !by_day(from, in, &ns)) {
		mem_blackout(l, v, other_host ? ROW_GUEST : ROW_BLACKOUT, &c);
		return;
	}
	mem_blackout(l, v, ROW_GUEST, &c);
	c.time = l->khz ? ns : c.time;
	mem_blackout(l, v, ROW_BLACKOUT, &c);
}

/* ---- stalls ---- */

static struct lat_group *row_of(struct lat *l, const struct lat_case *c, uint32_t *at)
{
	enum mem_kind kind = (enum mem_kind)c->kind;
	const struct mem_move *m = &l->mem->move[c->vm];
	struct lat_group *g = NULL;

	if (kind == MEM_DIRTY && m->round) {
		g = mem_row(l, c->vm, ROW_ROUND, MIN(m->round, ROUNDS_MAX), at);
		snprintf(g->name, sizeof(g->name), "round %u%s", MIN(m->round, ROUNDS_MAX),
			 m->round < ROUNDS_MAX ? "" : " and later");
	} else if (m->arrived) {
		g = mem_row(l, c->vm, ROW_AFTER, (uint32_t)kind, at);
		snprintf(g->name, sizeof(g->name), "then %s", mem_kind_name(kind));
	}
	return g;
}

enum { ST_TOTAL, ST_KVM, ST_ASLEEP, ST_OFFCPU, ST_VMM, ST_AGAIN, ST_TOLD };

const struct lat_desc lat_desc_mem = {
	.name = "mem",
	.kind = LAT_MEM,
	.title = "vCPUs that waited for memory, by why",
	.key = "Kind",
	.stage = { "total", "kernel", "asleep", "off-cpu", "vmm", "again", "told" },
	.stage_help = { "from the exit to the entry", "KVM and the host's memory management ran",
			"the vCPU's thread slept in the kernel, or in the VMM",
			"it wanted a CPU and had none", "in the VMM",
			"in the guest, until it faulted for the same page again",
			"of pages that others fetch meanwhile, no part of the total: from when the guest "
			"was told that one is not there to when it is" },
	.parts = 1u << ST_KVM | 1u << ST_ASLEEP | 1u << ST_OFFCPU | 1u << ST_VMM | 1u << ST_AGAIN,
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "stalls", "measured", "unknown: of unknown cause", "cut: cut by lost events",
		   "open: open at the end", "device: accesses to devices, no stalls",
		   "forgotten: pages taken, forgotten for lack of room",
		   "told: async page faults that the guest was told of",
		   "told_alone: ... and of which the beginning or the end was not seen" },
};

/* By enum mem_kind: why, and the causes of the same stalls in other tables. */
static const char *const mem_kinds[LAT_CAUSES] = {
	"unknown", "touch: first touch", "map: mapped first", "split: huge page split",
	"collapse: huge page collapse", "copy_on_write: copy-on-write", "dirty_log: dirty log",
	"access_log: access log", "userfaultfd", "swap_in: swap-in", "file: file read",
	"compaction", "reclaim", "migration: page migration", "refault_vmm: refault, VMM",
	"refault_host: refault, host", "mapped_already: mapped already", "nx: NX huge page",
	"writeback", "fetched: fetched meanwhile",
};
static const char *const no_kind[LAT_CAUSES] = { "" };

/* The stalls of LAT_T_MEM once more. */
#define BY(id_, name_, title_, key_, kinds_)                                               \
	const struct lat_desc lat_desc_mem_##id_ = {                                       \
		.name = name_, .kind = LAT_MEM, .title = title_, .key = key_,              \
		.stage = { "total" },                                                      \
		.stage_help = { "from the exit to the entry" },                            \
		.cause = kinds_,                                                           \
		.count = { "stalls" },                                                     \
		.in_order = MEM_BY_##id_ >= MEM_BY_time,                                   \
	}
BY(vcpu, "mem-vcpu", "the same by vCPU", "vCPU", mem_kinds);
BY(task, "mem-task", "the same by the guest's task", "Guest task", mem_kinds);
BY(gpa, "mem-gpa", "the same by address of the guest", "Guest addresses", mem_kinds);
BY(thread, "mem-thread", "which host thread had taken the page, or was waited for", "Host thread",
   mem_kinds);
BY(time, "mem-time", "the same by time", "From", mem_kinds);
BY(move, "mem-move", "rounds of the dirty log; of VMs that moved, blackout and then", "What",
   no_kind);

static const char *mem_kind_name(enum mem_kind kind)
{
	return kind == MEM_UNKNOWN ? "(unknown)" : lat_word_text(mem_kinds[kind]);
}

const char *lat_mem_kind(uint32_t kind)
{
	return kind != MEM_UNKNOWN && kind < MEM_KINDS ? mem_kind_name(kind) : NULL;
}

const char *const lat_mem_by_names[] = { "vcpu", "task", "gpa", "thread", "time", "move", NULL };

_Static_assert(MEM_KINDS <= LAT_CAUSES, "kinds are causes");
_Static_assert(LAT_T_MEM_MOVE - LAT_T_MEM_VCPU == MEM_BY_move, "order of tables");

/* Once more, in another table: its total only, and not among the worst. */
static void mem_add(struct lat *l, enum lat_table_id id, struct lat_group *g,
		    const struct lat_case *c)
{
	l->table[id].count[0]++;
	g->cause[c->kind]++;
	g->cause_time[c->kind] += c->time;
	if (!g->end || c->time > g->longest) {
		g->longest = c->time;
		g->begin = c->begin;
		g->end = c->end;
	}
	lat_stage_add(g, ST_TOTAL, c->time);
}

/* 1, 2 or 5 times a power of ten, so that there are 10 to 25 of them. */
static uint64_t slice_of(const struct lat *l)
{
	uint64_t whole = l->stop == UINT64_MAX || l->stop <= l->begin ?
				 0 :
				 lat_span(l, l->stop - l->begin),
		 s = 1;

	if (!whole)
		return l->khz ? 1000000000u : 1ull << 32;
	for (unsigned int i = 0; whole / s > 25; i++)
		s = i % 3 == 1 ? s / 2 * 5 : s * 2;
	return s;
}

static void stalls_others(struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			  const struct lat_case *c)
{
	uint32_t by = l->o.mem_by, at;
	struct lat_case k = *c;
	struct lat_group *g;

	if (by >> MEM_BY_vcpu & 1)
		mem_add(l, LAT_T_MEM_VCPU,
			lat_group_named(l, LAT_T_MEM_VCPU, c->vm, (uint64_t)c->vcpu, &at,
					"%" PRId64, c->vcpu),
			c);
	if (by >> MEM_BY_task & 1)
		mem_add(l, LAT_T_MEM_TASK, lat_hit_group(l, LAT_T_MEM_TASK, v, c->begin, &k), c);
	if (by >> MEM_BY_gpa & 1) {
		uint64_t grain = l->o.grain ?: LAT_GRAIN, n = s->addr / grain;
		bool known = s->tdp && s->has_addr;

		g = lat_group_named(l, LAT_T_MEM_GPA, c->vm, known ? n : UINT64_MAX >> 11, &at,
				    known ? "0x%" PRIx64 "-0x%" PRIx64 : "(not known)", n * grain,
				    n * grain + grain - 1);
		g->rest = !known;
		mem_add(l, LAT_T_MEM_GPA, g, c);
	}
	if (by >> MEM_BY_thread & 1) {
		/* Who took the page; or who woke the vCPU, if it slept. */
		bool taken = s->was_taken && s->by.vm >= 0;
		int32_t tid = s->filler ?: taken ? s->by.tid : s->waker;

		if (s->filler || taken || (s->slept && s->waker > 0))
			mem_add(l, LAT_T_MEM_THREAD,
				lat_group_named(l, LAT_T_MEM_THREAD, -1,
						(uint64_t)v->host->index << 32 | (uint32_t)tid, &at,
						"%.15s-%d", tl_comm(v->host, tid), tid),
				c);
	}
	if (by >> MEM_BY_time & 1) {
		uint64_t n, from;

		l->mem->slice = l->mem->slice ?: slice_of(l);
		n = lat_span(l, c->end - l->begin) / l->mem->slice;
		from = n * l->mem->slice;
		mem_add(l, LAT_T_MEM_TIME,
			lat_group_named(l, LAT_T_MEM_TIME, c->vm, n, &at,
					l->khz ? "%" PRIu64 ".%06" PRIu64 " s" : "%" PRIu64,
					l->khz ? from / 1000000000u : from,
					from % 1000000000u / 1000),
			c);
	}
	g = by >> MEM_BY_move & 1 ? row_of(l, c, &at) : NULL;
	if (g)
		mem_add(l, LAT_T_MEM_MOVE, g, c);
}

/* At the end: spent and slept become what the vCPU did meanwhile. */
static void mem_spent(const struct lat_vcpu *v, struct mem_stall *s)
{
	uint64_t at[VS_STATES];

	lat_times_at(v, s->end, at);
	for (unsigned int i = 0; i < VS_STATES; i++)
		s->spent[i] = at[i] - s->base[i];
	s->slept = lat_slept(v, s->end) - s->base_slept;
	s->waker = v->waker;
}

static void mem_measured(struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s)
{
	enum mem_kind kind = mem_kind(l, v, s);
	struct lat_case c = {
		.begin = s->begin, .end = s->end, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, s->end - s->begin), .kind = kind,
	};
	struct lat_group *g = lat_group_named(l, LAT_T_MEM, c.vm, kind, &c.group, "%s",
					      mem_kind_name(kind));
	uint64_t user, more, kernel;

	lat_count(l, v, LAT_T_MEM, MEM_MEASURED);
	if (kind == MEM_UNKNOWN)
		lat_count(l, v, LAT_T_MEM, MEM_NOT_TOLD);
	g->rest = kind == MEM_UNKNOWN;
	/* Sleep counts as what the thread did before. */
	user = s->spent[VS_USER] - MIN(s->spent[VS_USER], s->slept);
	more = s->slept - MIN(s->slept, s->spent[VS_USER]);
	kernel = s->spent[VS_KERNEL] + s->spent[VS_HALTED];
	lat_stage(&c, ST_KVM, lat_span(l, kernel - MIN(kernel, more)));
	lat_stage(&c, ST_ASLEEP, lat_span(l, s->slept));
	lat_stage(&c, ST_OFFCPU, lat_span(l, s->spent[VS_WAITING] + s->spent[VS_PREEMPTED]));
	if (s->spent[VS_USER])
		lat_stage(&c, ST_VMM, lat_span(l, user));
	if (s->again)
		lat_stage(&c, ST_AGAIN, lat_span(l, s->spent[VS_GUEST]));
	if (!lat_case_told(l, LAT_T_MEM, c.time))
		c.what[0] = '\0';
	else if (s->has_addr)
		snprintf(c.what, sizeof(c.what), "%s, 0x%" PRIx64 " of vCPU %u",
			 mem_kind_name(kind), s->addr, v->id);
	else
		snprintf(c.what, sizeof(c.what), "%s, vCPU %u", mem_kind_name(kind), v->id);
	lat_case_add(l, LAT_T_MEM, g, &c);
	stalls_others(l, v, s, &c);
}

/* EV_ASYNC_TOLD, EV_ASYNC_READY. */
static void mem_told(struct lat *l, const struct lat_vcpu *v, const struct lat_in *in)
{
	uint64_t key = (uint64_t)v->vm << 32 | (uint32_t)in->f[0], since;
	bool ready = in->kind == EV_ASYNC_READY, full = l->mem->told.n == SEEN_MAX;
	bool begun = u64map_take(&l->mem->told, key, &since);
	bool told = ready && begun && since >= l->mem->told_from;
	struct lat_group *g;
	uint32_t at;

	if (!ready && !full)
		xu64map_put(&l->mem->told, key, in->t);
	if (ready || begun || full)
		lat_count(l, v, LAT_T_MEM, told ? MEM_TOLD : MEM_TOLD_ALONE);
	if (!told || !lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	g = lat_group_named(l, LAT_T_MEM, (int64_t)v->vm, MEM_ASYNC, &at, "%s",
			    mem_kind_name(MEM_ASYNC));
	lat_stage_add(g, ST_TOLD, lat_span(l, in->t - since));
}

void lat_mem_notes(struct lat *l)
{
	const struct lat_mem *m = l->mem;

	if (!m->has[EV_MMIO])
		lat_note_add(l, "the host capture has no kvm:kvm_mmio: accesses to devices "
				"count as stalls for memory; it is in kvmft record's default "
				"events");
	if (!m->has[EV_SPTE] || !m->has[EV_PAGE_ALLOC] || !m->has[EV_UNMAP])
		lat_note_add(l, "the host capture lacks events that tell why memory had to be "
				"waited for: record them with `kvmft record -e default -e mem`");
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

static uint64_t gfn_base(uint64_t gfn, unsigned int level)
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
		++*small_of(m, page_key_of(vm, 2, gfn_base(gfn, 2)));
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
		    !u64map_get(&m->by_page, page_key_of(vm, level, gfn_base(gfn, level)), &val))
			continue;
		by->tid = (int32_t)(val & (SWAPPED - 1));
		by->pfn = (val >> PFN_SHIFT) + gfn - gfn_base(gfn, level);
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
	uint64_t huge = page_key_of(vm, 2, gfn_base(gfn, 2)), *left;

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
	for (size_t i = 0; l->mem->move && i < l->map->nvm; i++)
		u64map_free(&l->mem->move[i].seen);
	free(l->mem->move);
	free(l->mem->tdp);
	free(l->mem);
}

static bool vcpu_stalls(const struct lat_vcpu *v)
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
	if (!vcpu_stalls(v))
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
	if (vcpu_stalls(v))
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

static bool spte_covers(const struct mem_spte *e, const struct mem_stall *s)
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
static bool spte_protects(const struct mem_spte *e)
{
	uint64_t gone = e->old & ~e->now;

	if (!spte_leaf(e->old, e->level) || !spte_leaf(e->now, e->level) || spte_watched(e->now))
		return false;
	return SPTE_PFN(e->old) == SPTE_PFN(e->now) && (gone & SPTE_WRITABLE || gone == SPTE_DIRTY);
}

static void mem_spte_set(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct mem_spte e = { in->f[0], in->f[2], in->f[3], (unsigned int)in->f[1] };
	int64_t vm = lat_vm_of(l, in);

	if (in->has != 15 || !e.level || e.level > 5)
		return;
	if (vm >= 0)
		l->mem->tdp[vm] = true;
	if (vcpu_stalls(v)) {
		v->stall->now.any_spte = true;
		if (spte_covers(&e, &v->stall->now)) {
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
	if (vm >= 0 && spte_protects(&e))
		mem_move_protected(l, vm, e.gfn);
	else if (spte_leaf(e.now, e.level))
		mem_taken_back(&l->mem->taken, mem_place(l, in->i->src, vm), e.level, e.gfn);
	else if (spte_leaf(e.old, e.level) && !spte_present(e.now) &&
		 !(e.level == 1 && vcpu_stalls(v) && spte_covers(&e, &v->stall->now)))
		/* A fault that takes the huge page away maps small ones, this and then others. */
		mem_taken_add(&l->mem->taken, mem_place(l, in->i->src, vm), e.level, e.gfn,
			      SPTE_PFN(e.old), in->i->tid,
			      vcpu_stalls(v) && !v->stall->now.unmapped &&
				      spte_covers(&e, &v->stall->now));
}

static uint64_t mem_fetcher(const struct lat_in *in)
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
	return vcpu_stalls(v) && v->stall->now.async && v->stall->now.addr >> 12 == gfn;
}

/* Another thread fetches that page for it. */
static void fetch_asked(struct lat *l, struct lat_vcpu *v, uint64_t gfn)
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
			fetch_asked(l, v, in->f[1]);
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

static void fetch_begins(struct lat *l, const struct lat_in *in)
{
	uint64_t *met = xu64map_at(&l->mem->fetcher, mem_fetcher(in));

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
static void fetch_ends(struct lat *l, const struct lat_in *in)
{
	uint64_t met = 0, filler = 0, by = 0, gfn = in->f[1] >> 12;
	struct mem_stall *s;
	size_t n;

	u64map_take(&l->mem->asked, gfn, &by);
	u64map_get(&l->mem->fetcher, mem_fetcher(in), &met);
	u64map_del(&l->mem->fetcher, mem_fetcher(in));
	u64map_get(&l->mem->filler, mem_fetcher(in), &filler);
	u64map_del(&l->mem->filler, mem_fetcher(in));
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
		mem_spte_set(l, v, in);
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
		fetch_ends(l, in);
	else if (lat_in_interrupt(in))
		return;
	else if (vcpu_stalls(v))
		own_fault(l, v, in);
	else if (!v && l->mem->fetches)
		fetch_begins(l, in);
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
