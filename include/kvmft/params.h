/* SPDX-License-Identifier: GPL-2.0-or-later */
/* params.h: clock parameters given by hand, as several commands take them. */
#ifndef KVMFT_PARAMS_H
#define KVMFT_PARAMS_H

#include "kvmft/clock.h"
#include "kvmft/util.h"

#define PARAMS_MAX_NUMBERS 5

/*
 * "N,N,..." of min to max (at most PARAMS_MAX_NUMBERS) 64-bit numbers into v; returns how many
 * there were. form is what a message says was expected. -EINVAL: usage; -ENOMEM.
 */
int params_numbers(const char *option, const char *text, const char *form, int min, int max,
		   uint64_t *v, struct kvmft_err *err) __must_check;

/* --pvclock TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]; without FLAGS the record is PVCLOCK_TSC_STABLE. */
int params_pvclock(const char *text, struct pvclock *pv, struct kvmft_err *err) __must_check;

#endif
