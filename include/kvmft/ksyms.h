/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms.h: names for the addresses of a kernel, from the text of its /proc/kallsyms or a part of
 * that. The text may be of a file that anybody made.
 */
#ifndef KVMFT_KSYMS_H
#define KVMFT_KSYMS_H

#include "kvmft/util.h"

/* More than the largest function of a kernel: farther behind a symbol is none of it. */
#define KSYM_REACH (1u << 20)

struct ksym {
	uint64_t addr;
	const char *name, *module; /* printable; module "" = the kernel itself */
	char type;
	bool used; /* the caller's */
};

struct ksyms {
	char *text; /* what names are in */
	struct ksym *v; /* by address; of those that share one the first in the text */
	size_t n, cap;
};

/*
 * Reads a text of len bytes, which is copied. Lines that are not of kallsyms, data symbols, and
 * symbols without an address (hidden by kptr_restrict) are left out. 0 or -ENOMEM; ksyms_free()
 * frees it.
 */
int ksyms_parse(struct ksyms *k, const char *text, size_t len) __must_check;
/* The function that contains an address; NULL: not known. */
struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr);
void ksyms_free(struct ksyms *k);

#endif
