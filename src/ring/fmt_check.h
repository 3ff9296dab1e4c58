/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_check.h: the gate in front of libtraceevent; private to src/ring.
 */
#ifndef KVMFT_RING_FMT_CHECK_H
#define KVMFT_RING_FMT_CHECK_H

#include "fmt_priv.h"

/* True when e->print has the grammar of fmt_check.c, bounded in depth and length. */
bool fmt_print_ok(const struct fmt_event *e);

#endif
