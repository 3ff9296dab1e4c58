/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kclock.h: the trace clocks of this kernel beside its TSC, and the line behind its mono_raw.
 *
 * local, global and perf cannot be read from user space. A marker written to an instance that uses
 * such a clock can be: its stamp lies between two readings of the TSC.
 */
#pragma once

#include "kvmft/kernel.h"

/* The clock showed ns at some TSC within [tsc, tsc + width]. */
struct kclock_sample {
	uint64_t tsc, width, ns;
};

/*
 * The tightest of tries (1 to 256) readings of trace clock `clock`, which must count ns. They are
 * made in k, an instance of our own in which nothing else may be recorded meanwhile: its clock is
 * `clock` from here on, which empties its ring if that is a change, and the markers stay in it
 * until the clock is set again (kinst_set_clock()). -EINVAL: no such clock here; -ENOTSUP: no TSC,
 * no trace_marker or no option raw; -ENODATA: the kernel printed no readable stamp.
 */
int kclock_sample(struct kinst *k, const char *clock, unsigned int tries, struct kclock_sample *out,
		  struct kvmft_err *err) __must_check;

/* Stamp of marker number n in the text of `trace` with option raw. Pure. -ENOENT: none. */
int kclock_parse_marker(const char *text, uint64_t n, uint64_t *ts) __must_check;

/* ---- the line of CLOCK_MONOTONIC_RAW, as the kernel keeps it ---- */

struct kmono_raw {
	struct mono_raw line; /* over cycles of the current clocksource */
	const char *symbol;   /* where it was read; static text */
};

/* The smallest mask of a counter that never wraps: arm64's has 56 bits or more. */
#define KCYCLES_MASK_MIN ((1ull << 56) - 1)

/*
 * What the kernel shows to all processes for reading clocks: the first record that fits, which the
 * caller has to verify. -ENOENT: none; -EAGAIN: it keeps changing.
 */
typedef bool kmono_raw_fits_fn(const struct kmono_raw *r, const void *arg);
/* The same in n words of such a page. Pure. */
int kvvar_find(const uint64_t *word, size_t n, struct kmono_raw *r, kmono_raw_fits_fn *fits,
	       const void *arg) __must_check;

/*
 * The variables to read through a kprobe, for those who read more in the same shot. The result is
 * consistent in itself, no more: mono_raw_learn() checks it.
 */
#define KTK_ARGS 84
/* Fills arg[KTK_ARGS]; the texts live in where[KTK_ARGS]. */
void kmono_raw_args(struct kread_arg *arg, char (*where)[32]);
/* After kread_symbols(): 0, -ENOENT, -EAGAIN. Pure. */
int kmono_raw_take(const struct kread_arg *arg, struct kmono_raw *r) __must_check;
