/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * processes.h: what the address spaces of guests got of their vCPUs, from the host alone, and what
 * their tasks got, where a guest recorded itself.
 *
 * An address space is a value of CR3, which `kvmft record --guest-processes` has of each exit. All
 * times are host cycles in which the guest's code ran, but for those of exits. Between an exit and
 * the next one nothing shows which address space runs: with the same one at both ends that is who
 * ran; else it is taken for the later one, and is not certain. See kvmft-report(1).
 */
#pragma once

#include "kvmft/exit_names.h"
#include "kvmft/timeline.h"

#define PROCESS_REASONS 8 /* of a row, the first ones; others are in the last */

enum process_kind {
	PROCESS_SPACE,	/* id: CR3 without the bits that are no address */
	PROCESS_IDLE,	/* halted, or in an interrupt meanwhile */
	PROCESS_KERNEL, /* kernel threads, which have no address space of their own */
	PROCESS_NESTED, /* the guest runs a guest of its own */
	PROCESS_TASK,	/* id: thread of the guest, by its sched_switch; 0: its idle ones */
};

struct process_row {
	enum process_kind kind;
	size_t vm;	 /* index into the host map */
	uint64_t id;
	uint32_t number; /* from 1, of the address spaces of its VM, as they were seen first */
	const char *name; /* PROCESS_TASK: its comm; PROCESS_SPACE: of most exits, if known; NULL */
	/* Of its exits, those whose task is known, and those that were in a task of that name. */
	uint64_t judged, agree;
	uint64_t cpu, least, most; /* most: without what processes_unknown() says */
	uint64_t exits, faults;	   /* faults: of memory that the host had not mapped */
	uint64_t spent;		   /* in exits that do not halt, without: */
	uint64_t stolen;	   /* its vCPU had no CPU although it wanted one */
	size_t nreasons;
	struct process_reason {
		struct exit_why why;
		uint64_t n;
	} reason[PROCESS_REASONS];
	uint64_t other_reasons;
};

struct process_vm {
	uint64_t guest;	   /* all that its guest ran, as far as it is known */
	uint64_t unknown;  /* it may have run, but no event says in which address space */
	uint64_t exits;
	uint64_t blind;	   /* exits without CR3 */
	uint64_t sealed;   /* ... with registers that are encrypted: SEV-ES, SEV-SNP */
	uint64_t shadowed; /* ... whose CR3 is KVM's own, because there is no nested paging */
	uint64_t missed;   /* exits without an entry before */
	uint64_t judged, agree; /* exits whose task is known; whose row has its name */
	uint64_t crowded;  /* exits of rows for which there was no memory */
	uint32_t spaces;   /* how many it had */
	bool tables;	   /* the user's CR3 is another one than the kernel's (KPTI): in one row */
};

struct processes {
	struct process_row *row; /* by VM, kind and time: after processes_finish() */
	size_t n, cap;
	struct process_vm *vm; /* by index into the host map */
	size_t nvm;
	bool has_cr3, has_switch; /* what the host's capture has */
};

/* t is borrowed. only: that VM of the host map, -1: all. */
void processes_new(struct timeline *t, int64_t only, struct processes **out);
/* Each item of the time line, in its order; and all of them once more after processes_again(). */
void processes_feed(struct processes *p, const struct tl_item *item);
void processes_again(struct processes *p);
/* Sorts rows and gives names, which are borrowed from the time line. */
void processes_finish(struct processes *p);
void processes_free(struct processes *p); /* NULL is fine */
