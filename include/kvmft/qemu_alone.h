/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_alone.h: the events of a QEMU trace without a capture of its host. */
#pragma once

#include "kvmft/qemu_trace.h"

struct qemu_alone {
	struct qtrace *t; /* at its beginning */
	FILE *f;
	bool json;  /* an object per line, else text */
	/* times as in the file, by this clock; QTRACE_NO_CLOCK: since the first one */
	enum qtrace_clock clock;
	uint64_t most; /* events, then it ends */
};

/*
 * Prints all of it; losses in their place. 0 or -errno, that of a failed read or write; -EDOM: the
 * file has another clock.
 */
int qemu_alone_print(const struct qemu_alone *o) __must_check;
