/* SPDX-License-Identifier: GPL-2.0-or-later */
/* events.h: what the files about declarations share; private to src/qemu. */
#ifndef KVMFT_QEMU_EVENTS_PRIV_H
#define KVMFT_QEMU_EVENTS_PRIV_H

#include "kvmft/qemu_events.h"

/*
 * format.c: one format, literals and macros, up to a comma or the end; *p moves past it. The text
 * without quotes, escapes and macros goes to *out. -EBADMSG with *why; -ENOMEM.
 */
int qev_format_parse(const char **p, const char *end, char **out, const char **why) __must_check;
/* Whether qev_print() can use the format: known conversions, one for each argument. */
bool qev_format_fits(const struct qev *e);

#endif
