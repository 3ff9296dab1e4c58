/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rate.h: the TSC frequency of a capture: as its user says (--tsc-khz), or as found in it. */
#pragma once

#include "kvmft/pairing.h"

/* Whether it is possible. 0, or -EINVAL with err. */
int rate_check(const struct opt_u64 *khz, struct kvmft_err *err) __must_check;
/*
 * From now on the capture has a TSC frequency: as given, or as found in it, which a note says
 * unless quiet. That nothing gives it is always noted, with what follows from that: `then`, NULL:
 * the caller says so. 0, -errno.
 */
int rate_of_capture(struct capture *cap, const struct fmt *fmt, const struct opt_u64 *khz,
		    bool quiet, const char *then, note_fn *note,
		    struct kvmft_err *err) __must_check;
/* The same for the host of p, whose guests may help, too; before traces of QEMU are added. */
int rate_of_pairing(struct pairing *p, const struct opt_u64 *khz, bool quiet, const char *then,
		    note_fn *note, struct kvmft_err *err) __must_check;
/* As another capture of the same file has it. */
void rate_like(struct capture *cap, const struct capture *other);
/* Only what was given. */
int rate_given(struct capture *cap, const struct opt_u64 *khz, struct kvmft_err *err) __must_check;
