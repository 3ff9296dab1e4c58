/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_check.h: the gate in front of libtraceevent; private to src/ring.
 */
#ifndef KVMFT_RING_FMT_CHECK_H
#define KVMFT_RING_FMT_CHECK_H

#include "fmt_priv.h"

/* True when e->print has the grammar of fmt_check.c, bounded in depth and length. */
bool fmt_print_ok(const struct fmt_event *e);

/* fmt_rewrite.c: adds a print format that has passed, so that libtraceevent cannot misread it. */
void fmt_rewrite(struct sbuf *b, const char *print);
/* What it makes of "{ }", which ends a table before its last entry. */
#define FMT_TABLE_END "KVMFT_TABLE_END"

#endif
