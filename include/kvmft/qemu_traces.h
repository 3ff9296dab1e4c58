/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_traces.h: traces of QEMU, on a timeline or alone: option --qemu. */
#pragma once

#include "kvmft/pairing.h"
#include "kvmft/qemu_trace.h"

struct qemu_traces {
	struct qevents *events; /* NULL: none at hand */
	bool found;		/* ... they were not named by the user */
	bool looked;		/* none need be looked for */
	char *refused;		/* why a file that was found is not used; NULL: none */
	note_fn *note;		/* the caller's */
};

/* How a trace is printed without a capture of its host. */
struct qemu_alone {
	struct qtrace *t; /* at its beginning */
	FILE *f;
	bool json; /* an object per line, else text */
	/* times as in the file, by this clock; QTRACE_NO_CLOCK: since the first one */
	enum qtrace_clock clock;
	uint64_t most; /* events, then it ends */
};

/*
 * Adds the traces FILE[:FORMAT[:VM]] to the time line. events: the trace-events-all to use, NULL =
 * look for one; only once, if several time lines get them. To be freed with qemu_traces_free()
 * after the time line, also after a failure.
 */
int qemu_traces_add(struct qemu_traces *q, struct pairing *p, const struct str_list *traces,
		    const char *events, struct kvmft_err *err) __must_check;
/*
 * Prints trace FILE[:FORMAT], without a host, as `how` says, except for its t. *complete: false if
 * something of it is missing. To be freed in the same way.
 */
int qemu_traces_alone(struct qemu_traces *q, const char *trace, const char *events,
		      const struct qemu_alone *how, bool quiet, bool *complete,
		      struct kvmft_err *err) __must_check;
void qemu_traces_free(struct qemu_traces *q);
/*
 * After the walk: notes about each trace; quiet: only what is wrong. False: some
 * trace has no place at all.
 */
bool qemu_traces_summary(const struct qemu_traces *q, const struct timeline *t, bool quiet);
