/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_source.h: a trace of QEMU as a source of the time line; private to src/timeline.
 *
 * Its events get formats and records like those of the kernel, so that filters and outputs need not
 * know the difference. Times are converted with the host capture's own readings of the clock, and
 * what is slightly out of order comes out in order.
 */
#ifndef KVMFT_TIMELINE_QEMU_SOURCE_H
#define KVMFT_TIMELINE_QEMU_SOURCE_H

#include "kvmft/timeline.h"
#include "qemu_devices.h"

struct qsource;

/* err: what is missing. vm: index into the host map, -1 = by the events' threads. */
int qsource_new(const struct hostmap *map, const struct tl_qemu *q, struct qsource **out,
		struct kvmft_err *err) __must_check;
/*
 * If the host capture has no readings of its clock: searches for what both sides show. To be called
 * before anything else. 0, even if nothing was found; -errno.
 */
int qsource_place(struct qsource *s, struct hostmap *map, struct kvmft_err *err) __must_check;
void qsource_free(struct qsource *s); /* NULL is fine */
const struct capture *qsource_capture(const struct qsource *s);
const struct fmt *qsource_fmt(const struct qsource *s);
/* Walks all of it for registrations of ioeventfds. */
int qsource_devices(struct qsource *s, struct qdevices *d) __must_check;

/* From the beginning. */
int qsource_start(struct qsource *s) __must_check;
/*
 * The next event or gap by host TSC, in *item (except src): 1, 0 at the end, -errno. What happened
 * outside the host's recording is left out.
 */
int qsource_next(struct qsource *s, struct tl_item *item) __must_check;
void qsource_print(const struct qsource *s, const struct tl_item *item, struct sbuf *out);
void qsource_report(const struct qsource *s, struct tl_qemu_report *r);

#endif
