/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem.h: what the files of the memory analysis share.
 *
 *   mem.c        a stall from exit to entry, what was seen meanwhile, of what kind it was,
 *                and pages that were taken from a guest
 *   mem_table.c  its tables; a VM that moves: its rounds, blackout, and what came after
 */
#pragma once

#include "priv.h"

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
static inline bool spte_present(uint64_t e)
{
	return e & SPTE_PRESENT;
}
/* ... but without any right: so a page is watched where the CPU notes no accesses (access log). */
static inline bool spte_watched(uint64_t e)
{
	return !(e & 7);
}
/* An entry that maps a page, and not a table. */
static inline bool spte_leaf(uint64_t e, unsigned int level)
{
	return spte_present(e) && (level == 1 || e >> 7 & 1);
}
enum mem_kind mem_kind(const struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s);

/* The host's page that was mapped. */
static inline uint64_t mem_pfn(const struct mem_stall *s)
{
	return SPTE_PFN(s->spte.now) + (s->addr >> 12) - s->spte.gfn;
}

/* mem_table.c */
/* A page of the VM may not be written any more. */
void mem_move_protected(struct lat *l, int64_t vm, uint64_t gfn);
void mem_move_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void mem_move_free(struct lat *l);

/* mem_table.c */
/* EV_ASYNC_TOLD, EV_ASYNC_READY. */
void mem_told(struct lat *l, const struct lat_vcpu *v, const struct lat_in *in);
/* At the end: spent and slept become what the vCPU did meanwhile. */
void mem_spent(const struct lat_vcpu *v, struct mem_stall *s);
void mem_measured(struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s);

enum { MEM_STALLS, MEM_MEASURED, MEM_NOT_TOLD, MEM_CUT, MEM_OPEN, MEM_DEVICE, MEM_FORGOTTEN,
       MEM_TOLD, MEM_TOLD_ALONE };
