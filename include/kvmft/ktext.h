/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ktext.h: texts of the kernel, from its files or a capture. */
#pragma once

#include "kvmft/util.h"

/* events/header_page: how sub-buffers of the default size are laid out, bytes. */
struct ktext_page {
	uint32_t long_size, header, size; /* 4 or 8; before the data; of all of it */
};

/* False if it does not say. */
bool ktext_page(const char *text, struct ktext_page *p);
/* The name in [brackets] of trace_clock, or of /sys/kernel/security/lockdown; -EINVAL: none. */
int ktext_chosen(const char *text, char *buf, size_t size) __must_check;
/* What stands behind "KEY:" and blanks on the line of text that begins so; NULL: no such line. */
const char *ktext_value(const char *text, const char *key);
/* The same as a decimal number, also with " kB". -ENOENT: no line; -EINVAL: no number; -ERANGE. */
int ktext_number(const char *text, const char *key, uint64_t *v) __must_check;
