/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * merge_qemu.h: option --qemu of `kvmft merge` and `kvmft latency`, traces of QEMU on the time
 * line.
 */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/pairing.h"
#include "kvmft/qemu_alone.h"

struct merge_qemu {
	struct qevents *events; /* NULL: none at hand */
	bool found;		/* ... they were not named by the user */
	bool looked;		/* none need be looked for */
	char *refused;		/* why a file that was found is not used; NULL: none */
};

/*
 * Adds the traces FILE[:FORMAT[:VM]] to the time line. events: the trace-events-all to use, NULL =
 * look for one; only once, if several time lines get them. To be freed with merge_qemu_free() after
 * the time line, also after a failure.
 */
int merge_qemu_add(struct merge_qemu *q, struct pairing *p, const struct str_list *traces,
		   const char *events, struct kvmft_err *err) __must_check;
/*
 * Prints trace FILE[:FORMAT], without a host, as `how` says, except for its t. *complete: false if
 * something of it is missing. To be freed in the same way.
 */
int merge_qemu_alone(struct merge_qemu *q, const char *trace, const char *events,
		     const struct qemu_alone *how, bool quiet, bool *complete,
		     struct kvmft_err *err) __must_check;
void merge_qemu_free(struct merge_qemu *q);
/*
 * After the walk: lines on standard error about each trace; quiet: only what is wrong. False: some
 * trace has no place at all.
 */
bool merge_qemu_summary(const struct merge_qemu *q, const struct timeline *t, bool quiet);
