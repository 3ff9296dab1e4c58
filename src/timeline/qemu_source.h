/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_source.h: a trace of QEMU as a source of the time line; private to src/timeline.
 *
 * Its events get formats and records like those of the kernel, so that filters and outputs need not
 * know the difference. Times are converted with the host capture's own readings of the clock, and
 * what is slightly out of order comes out in order.
 */
#pragma once

#include "kvmft/qemu_trace.h"
#include "kvmft/ring.h"
#include "kvmft/timeline.h"

/* ---- formats and records for QEMU's events, like the kernel's ---- */

struct qtypes {
	struct fmt *fmt;
	struct qtype {
		const struct qev *ev; /* NULL: text or numbers only */
		char *name;
	} *v; /* by event id - 1 */
	size_t n, cap;
	struct hash_key key;
	struct u64map by_key;
};

/* ---- which device a guest rings by writing to an address: QEMU registers an ioeventfd ---- */

struct qdevices {
	struct qdevice {
		uint64_t addr, from; /* host TSC, cycles */
		uint64_t before;     /* index + 1 of the previous one with this address */
		int64_t vm;	     /* -1: unknown */
		int64_t fd;	     /* -1: not registered any more */
		char *name;
	} *v;
	size_t n, cap;
	struct u64map last;   /* address: index of its last registration */
	struct u64map region; /* address: index + 1 into name */
	char **name;
	size_t nname, name_cap;
	struct { /* the host's kvm_fast_mmio (Intel) and kvm_mmio (AMD); NULL: it has none */
		const struct fmt_event *ev;
		struct fmt_field gpa;
	} bell[2];
};

/* After the last one: the names. */
void qdevices_name(struct qdevices *d);
/* Which events of the host have a doorbell's address; for qdevices_item(). fmt is borrowed. */
void qdevices_bells(struct qdevices *d, const struct fmt *fmt);
/* Sets the device of an event that is such a one. */
void qdevices_item(const struct qdevices *d, struct tl_item *item);
void qdevices_free(struct qdevices *d);

/* ---- what QEMU's back end ftrace wrote to the trace marker, among what others wrote ---- */

struct qmarker;

/*
 * Borrows map, and what get(arg) returns at the first marker; NULL when the host's capture has
 * none.
 */
struct qmarker *qmarker_new(const struct hostmap *map, const struct qevents *(*get)(void *arg),
			    void *arg);
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

/* ---- a trace ---- */

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
