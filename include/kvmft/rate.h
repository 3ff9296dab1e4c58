/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rate.h: how fast the TSC of a capture runs: as its user says (--tsc-khz), or as found in it.
 */
#ifndef KVMFT_RATE_H
#define KVMFT_RATE_H

#include "kvmft/pairing.h"

/* Whether it can be one. 0, or -EINVAL with err. */
int rate_check(const struct opt_u64 *khz, struct kvmft_err *err) __must_check;
/*
 * From now on the capture says how fast its TSC runs: as given, or as found in it, which is told in
 * a line unless quiet; that nothing tells it always is, with what follows from that: `then`, NULL:
 * the caller tells. 0, -errno.
 */
int rate_of_capture(struct capture *cap, const struct fmt *fmt, const struct opt_u64 *khz,
		    bool quiet, const char *then, note_fn *note,
		    struct kvmft_err *err) __must_check;
/* The same of the host of p, of which its guests can tell, too; before traces of QEMU are added. */
int rate_of_pairing(struct pairing *p, const struct opt_u64 *khz, bool quiet, const char *then,
		    note_fn *note, struct kvmft_err *err) __must_check;
/* As another one of the same file says it. */
int rate_like(struct capture *cap, const struct capture *other, struct kvmft_err *err) __must_check;
/* Only what was given. */
int rate_given(struct capture *cap, const struct opt_u64 *khz, struct kvmft_err *err) __must_check;

#endif
