/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * boot.h: what a VM's boot, or the start of one that was saved, went through, by its host's events.
 *
 * A walk finds the moments that begin phases, and the event that shows each. What the vCPU that was
 * entered first did in a phase is for blame's second walk to say; before that, it is what the VMM's
 * main thread did.
 */
#pragma once

#include "kvmft/blame.h"

#define BOOT_MARKS 10
extern const char *const boot_names[BOOT_MARKS];

/* A phase, of which `name` says where it begins, or how to record that; or a part of it. */
struct boot_line {
	unsigned int mark;
	size_t vm;	  /* the how manieth that booted */
	const char *part; /* "": the phase itself; "function": what is in the parts as well */
	char name[BLAME_NAME];
	struct boot_cell {
		bool has;
		uint64_t at, time, whole, n; /* ns, from the first phase on; n: exits of it */
	} of[2];
};

struct boot_lines {
	struct boot_line *v;
	size_t n, cap, first; /* first: of the VM that is being told */
	struct sbuf about[2];
	uint64_t wall[2], told[2]; /* ns of all VMs; of these, in parts that are known */
	uint32_t needs;		   /* enum evidence: what would tell more */
};

struct boot_ask {
	int64_t vm;	   /* only this one; -1: all */
	const char *until; /* the event that is the marker, as for pick_add_event(); NULL */
	const char *text;  /* ... or what the guest writes to port 0x3f8; NULL */
	size_t top;	   /* functions of a phase */
};
#define BOOT_TEXT 64u /* its bytes at most */

struct boot;

/* The time line and the options are borrowed. -EINVAL with err: not an event. */
int boot_new(const struct timeline *t, const struct boot_ask *o, struct boot **out,
	     struct kvmft_err *err) __must_check;
void boot_find(void *boot, const struct tl_item *i); /* takes all items, as blame_find() does */
/* After blame_found(): what the second walk has to explain. -ENODATA with err: no VM begins. */
int boot_found(struct boot *b, struct blame *to, struct kvmft_err *err) __must_check;
/* After that walk: rows of that side, 0 or 1, beside those of the other. */
void boot_lines(const struct boot *b, const struct blame *parts, int side, struct boot_lines *rows);
void boot_free(struct boot *b);
