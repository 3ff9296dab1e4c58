/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_live.h: counts live how often, and why, the guests of this machine exit, and prints that.
 */
#pragma once

#include "kvmft/util.h"

enum exits_engine_choice { EXITS_ENGINE_AUTO, EXITS_ENGINE_KERNEL, EXITS_ENGINE_USER };

struct exits_config {
	struct opt_u64 duration, pid, vcpu, tid, interval, count, map_size;
	const char *tids, *vm, *file;
	bool alltids, time, latency, top, verbose, per_vm;
	int format; /* enum exits_format, -1 = not given */
	int engine; /* enum exits_engine_choice, -1 = not given */
};

/* Can path be replaced by a table? 0 or -errno with err set. */
int exits_file_check(const char *path, struct kvmft_err *err) __must_check;

/* Until a signal, the duration or the count ends it. An exit code, or -errno with err set. */
int exits_live_run(const struct exits_config *c, note_fn *note, struct kvmft_err *err) __must_check;
