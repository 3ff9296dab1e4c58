/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ktext.h: texts of tracefs that are also in captures, read from either. */
#ifndef KVMFT_KTEXT_H
#define KVMFT_KTEXT_H

#include "kvmft/util.h"

/* events/header_page: how sub-buffers of the default size are laid out, bytes. */
struct ktext_page {
	uint32_t long_size, header, size; /* 4 or 8; before the data; of all of it */
};

/* False if it does not say. */
bool ktext_page(const char *text, struct ktext_page *p);
/* The name in [brackets] of trace_clock, or of /sys/kernel/security/lockdown; -EINVAL: none. */
int ktext_chosen(const char *text, char *buf, size_t size) __must_check;
/*
 * The number of a line "NAME: NUMBER" of per_cpu/cpuN/stats, decimal. -ENOENT: no such line;
 * -EINVAL: no number; -ERANGE.
 */
int ktext_number(const char *text, const char *name, uint64_t *v) __must_check;

#endif
