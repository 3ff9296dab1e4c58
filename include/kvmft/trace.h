/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.h: prints events of this machine live, one per line, in the requested clock. */
#pragma once

#include "kvmft/util.h"

struct trace_config {
	struct str_list events, vms, pids;
	const char *clock, *kvmclock, *guest_capture, *pvclock;
	struct opt_u64 clock_offset, count, duration, buffer;
	bool tsc, longer;
	unsigned int width; /* of lines: longer ones are cut; 0 = none are */
	bool color;
};

/*
 * Until a signal, the duration, the count or its reader ends it. An exit code, or -errno with err
 * set.
 */
int trace_run(const struct trace_config *c, note_fn *note, struct kvmft_err *err) __must_check;
