/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * merge_spikes.h: spikes for a trace, found in a process of its own (many.h) while the time line is
 * written: both take about as long.
 */
#ifndef KVMFT_CMD_MERGE_SPIKES_H
#define KVMFT_CMD_MERGE_SPIKES_H

#include "kvmft/output.h"
#include "kvmft/pairing.h"
#include "many.h"

/* There: the longest ones in [from, to], host TSC, onto rows. 0 or -errno with err. */
int merge_spikes_find(struct pairing *p, uint64_t from, uint64_t to, bool judge, struct sbuf *rows,
		      struct kvmft_err *err) __must_check;
/*
 * Here: waits for them, and writes them behind all items; if they have no causes yet, by the
 * windows of all items (else w is NULL). 0 or -errno with err.
 */
int merge_spikes_put(struct many *m, struct out *o, const struct pairing *p,
		     const struct windows *w, struct kvmft_err *err) __must_check;

#endif
