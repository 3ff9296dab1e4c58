/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_marker.h: recognizing what QEMU's back end ftrace wrote to the trace marker among what
 * others wrote. Private to src/timeline.
 */
#ifndef KVMFT_TIMELINE_QEMU_MARKER_H
#define KVMFT_TIMELINE_QEMU_MARKER_H

#include "kvmft/timeline.h"

struct qmarker;

/*
 * Borrows map, and what get(arg) returns at the first marker; *out is NULL when the host's capture
 * has none. 0 or -errno.
 */
int qmarker_new(const struct hostmap *map, const struct qevents *(*get)(void *arg), void *arg,
		struct qmarker **out, struct kvmft_err *err) __must_check;
void qmarker_free(struct qmarker *m); /* NULL is fine */
/*
 * Turns a host's item that is QEMU's marker into the event that it reports, valid until the next
 * call; others stay unchanged. 0, -ENOMEM, -E2BIG.
 */
int qmarker_resolve(struct qmarker *m, struct tl_item *item) __must_check;
/* That a marker is. */
const struct fmt_event *qmarker_event(const struct qmarker *m);
/* Events that were resolved since qmarker_restart(). */
uint64_t qmarker_met(const struct qmarker *m);
void qmarker_restart(struct qmarker *m);

const struct fmt *qmarker_fmt(const struct qmarker *m);
void qmarker_print(const struct qmarker *m, const struct tl_item *item, struct sbuf *out);

#endif
