/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btf.h: where the members of one of the kernel's structures are, from its BTF: the description of
 * its types in /sys/kernel/btf/vmlinux (Documentation/bpf/btf.rst of Linux).
 */
#pragma once

#include "kvmft/util.h"

/*
 * Byte offsets of n members of `struct name` into offset[]. Members of anonymous structures within
 * it are not looked for. data may be anything. -EPROTO: no BTF, or damaged; -ENOTSUP: it has kinds
 * of types that are not known here; -ENOENT: no such structure, or it lacks one of them, or that is
 * a bit field.
 */
int btf_offsets(const void *data, size_t size, const char *name, const char *const *member,
		size_t n, uint32_t *offset) __must_check;
