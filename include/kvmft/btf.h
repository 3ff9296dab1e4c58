/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btf.h: where the members of one of the kernel's structures are, from its BTF: the description of
 * its types in /sys/kernel/btf/vmlinux (Documentation/bpf/btf.rst of Linux). That of a module, in
 * /sys/kernel/btf/MODULE, continues the kernel's: names at offsets below the length of its names
 * are there.
 */
#pragma once

#include "kvmft/util.h"

struct btf_text {
	const void *p;
	size_t n;
};

/*
 * Byte offsets of n members of `struct name` into offset[]. base: the kernel's, if data are a
 * module's; NULL: none. Members of anonymous structures within
 * it are not looked for. Both may be anything. -EPROTO: no BTF, or damaged; -ENOTSUP: it has kinds
 * of types that are not known here; -ENOENT: no such structure, or it lacks one of them, or that is
 * a bit field.
 */
int btf_offsets(const struct btf_text *data, const struct btf_text *base, const char *name,
		const char *const *member, size_t n, uint32_t *offset) __must_check;
