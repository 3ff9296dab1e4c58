/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ksyms_priv.h: what the files about symbols share; private to src/util. */
#ifndef KVMFT_UTIL_KSYMS_PRIV_H
#define KVMFT_UTIL_KSYMS_PRIV_H

#include "kvmft/ksyms.h"

/* Of packed symbols. */
#define KSYMS_HEAD "kvmft-symbols 2\n"
#define KSYMS_BASE 36u

/* A copy of a module's name that stays where it is. NULL: out of memory. */
const char *ksyms_keep_module(struct ksyms *k, const char *s, size_t n);
/* ksyms_finish() without functions. */
void ksyms_finish_modules(struct ksyms *k);

struct ksym *ksyms_packed_find(const struct ksyms *k, uint64_t addr);
void ksyms_packed_drop(struct ksyms *k, const char *module);
void ksyms_packed_free(struct ksyms_packed *p);

#endif
