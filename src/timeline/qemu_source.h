/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_source.h: a trace of QEMU as a source of the time line; private to src/timeline.
 *
 * Its events get formats and records like those of the kernel, so that filters and outputs need not
 * know the difference. Times are converted with the host capture's own readings of the clock, and
 * what is slightly out of order comes out in order.
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/hostmap.h"
#include "kvmft/qemu.h"
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

/* The fields of such a record as QEMU's format shows them. */
void qtypes_print(const struct qtypes *t, const struct rec *rec, struct sbuf *out);

/* ---- which device a guest rings by writing to an address: QEMU registers an ioeventfd ---- */

struct qdevices {
	struct qdevice {
		uint64_t addr, from; /* host TSC, cycles */
		uint64_t seq;	     /* among all */
		int64_t vm;	     /* -1: unknown */
		int64_t fd;	     /* -1: not registered any more */
		char *name;
	} *v;
	size_t n, cap;
	struct u64map region; /* address: index + 1 into name */
	char **name;
	size_t nname, name_cap;
};

/* After the last one: the names. */
void qdevices_name(struct qdevices *d);
/* Sets the device of an event of the host that has a doorbell's address. */
void qdevices_item(const struct qdevices *d, struct tl_item *item);
void qdevices_free(struct qdevices *d);

/* ---- what QEMU's back end ftrace wrote to the trace marker, among what others wrote ---- */

struct qmarker {
	const struct hostmap *map;
	const struct qevents *(*get)(void *arg); /* NULL: it was called */
	void *arg;
	const struct qevents *events;
	struct qtypes types;
	const struct fmt_event *print; /* the host's ftrace:print */
	uint32_t text;		       /* where its text begins */
	struct rec rec;
	uint8_t *data;
	uint64_t met;
};

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

/* ---- a trace ---- */

/*
 * When the events of a QEMU happened whose clock nobody read, from those of the host about the same
 * things. Zero-initialised.
 */
struct qplace {
	uint64_t pairs;		/* what it is based on; 0: it was not found */
	const char *why;	/* then: why not; NULL: it was not tried */
	uint64_t first, last;	/* of the host's events, TSC */
	struct clock_sample *v; /* what the clock showed, and when: for clock_pieces_init() */
	size_t n;
	uint32_t khz, slew_ppb;
};

/* Searches the whole trace. 0 (p->pairs or p->why) or -errno. */
int qplace_find(struct qplace *p, struct hostmap *map, int64_t vm, struct qtrace *trace,
		struct kvmft_err *err) __must_check;
void qplace_free(struct qplace *p);

struct qclock {
	struct cap_pieces pieces;
	int error; /* why it cannot be used; 0: it can */
};

struct qsource {
	const struct hostmap *map;
	struct qtrace *trace;
	struct qtypes types;
	struct capture cap; /* what outputs need to know of a source */
	struct cap_damage damage;
	struct qclock clock[3]; /* by enum qtrace_clock */
	uint64_t begin, end;	/* of the host's recording, TSC */
	int64_t vm;
	struct qheld **heap, *out;
	size_t n;
	struct qplace placed;		    /* for a clock that nobody read */
	uint64_t seq, file_host, last_host; /* of the event before, in the file and handed out */
	bool last_outside, file_end;
	struct tl_qemu_report report;
	struct loghist around; /* of placed events */
};

/* err: what is missing. vm: index into the host map, -1 = by the events' threads. */
int qsource_new(const struct hostmap *map, const struct tl_qemu *q, struct qsource **out,
		struct kvmft_err *err) __must_check;
/*
 * If the host capture has no readings of its clock: searches for what both sides show. To be called
 * before anything else. 0, even if nothing was found; -errno.
 */
int qsource_place(struct qsource *s, struct hostmap *map, struct kvmft_err *err) __must_check;
void qsource_free(struct qsource *s); /* NULL is fine */
/* Walks all of it for registrations of ioeventfds. */
int qsource_devices(struct qsource *s, struct qdevices *d) __must_check;

/* From the beginning. */
int qsource_start(struct qsource *s) __must_check;
/*
 * The next event or gap by host TSC, in *item (except src): 1, 0 at the end, -errno. What happened
 * outside the host's recording is left out.
 */
int qsource_next(struct qsource *s, struct tl_item *item) __must_check;
void qsource_report(const struct qsource *s, struct tl_qemu_report *r);
