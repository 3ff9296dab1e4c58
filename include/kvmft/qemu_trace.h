/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_trace.h: what QEMU's trace back ends write, one reader each behind one interface.
 *
 * 	simple	binary, formats 0, 2, 3 and 4			CLOCK_MONOTONIC
 * 	log	lines of stderr or -D FILE, old, ISO 8601 and without time	CLOCK_REALTIME
 * 	syslog	lines as syslogd and journalctl write them		CLOCK_REALTIME
 * 	ust	text of babeltrace and babeltrace2			CLOCK_REALTIME
 *
 * QEMU promises stability for none of them. Files may come from anyone: sizes are checked before
 * they are used, anything that is not an event is counted, and a cut end is no failure.
 */
#pragma once

#include "kvmft/qemu_events.h"

enum qtrace_format { QTRACE_AUTO, QTRACE_SIMPLE, QTRACE_LOG, QTRACE_SYSLOG, QTRACE_UST };
extern const char *const qtrace_format_names[]; /* by enum qtrace_format, NULL-terminated */

enum qtrace_clock { QTRACE_NO_CLOCK, QTRACE_MONO, QTRACE_REALTIME };

#define QTRACE_MAX_LINE (64u << 10)
#define QTRACE_MAX_RAW	64

enum qtrace_kind {
	QTRACE_EVENT,
	QTRACE_LOST, /* `lost` events were dropped between the event before it and ns; 0: unknown */
};

/*
 * One thing of a trace, in the order of the file; pointers are valid until the next qtrace_next().
 */
struct qtrace_item {
	enum qtrace_kind kind;
	enum qtrace_clock clock; /* QTRACE_NO_CLOCK: the line has no time */
	uint64_t ns; /* the clock showed ns .. ns + unit - 1: unit is what the format resolves */
	uint64_t unit;
	int32_t tid;	 /* thread, or process in formats without threads; 0 = unknown */
	int32_t cpu;	 /* -1 = unknown */
	const char *name;
	uint32_t name_len;
	const struct qev *ev; /* NULL: not declared in the trace-events-all */
	/* Values of ev's arguments, when has_args. */
	bool has_args;
	struct qev_value arg[QEV_MAX_ARGS];
	/* Text formats: what follows the name, any bytes but newline. NULL: none. */
	const char *text;
	uint32_t text_len;
	/*
	 * simple without a declaration: the arguments as numbers; which are strings is not known.
	 */
	uint64_t raw[QTRACE_MAX_RAW];
	uint32_t nraw;
	uint64_t lost;
};

/* What was seen so far, or is known from the start. */
struct qtrace_stats {
	enum qtrace_format format;
	unsigned int version; /* simple: of the format */
	uint64_t events, lost_records, lost;
	uint64_t undeclared;  /* events that the trace-events-all lacks */
	uint64_t misfits;     /* events whose arguments do not fit their declaration */
	uint64_t foreign;     /* lines that are not events */
	uint64_t folded;      /* syslog: lines left out as repetitions */
	bool truncated;	      /* the end is cut */
	const char *damage;   /* why reading stopped early; NULL: it did not */
};

struct qtrace_options {
	enum qtrace_format format;
	const struct qevents *events; /* borrowed; NULL: none at hand */
	/*
	 * A moment near the trace, CLOCK_REALTIME ns: for time stamps without date or year; 0:
	 * when the file was last written.
	 */
	uint64_t near;
};

struct qtrace;

/*
 * Opens a trace; format QTRACE_AUTO looks at its beginning. Must be a regular file. -errno with
 * err: -ENODATA: no known format.
 */
int qtrace_open(const char *path, const struct qtrace_options *o, struct qtrace **out,
		struct kvmft_err *err) __must_check;
/* 1; 0 at the end; -errno of a failed read. */
int qtrace_next(struct qtrace *t, struct qtrace_item *item) __must_check;
/* To the beginning; the figures start at 0. */
int qtrace_rewind(struct qtrace *t) __must_check;
const struct qtrace_stats *qtrace_stats(const struct qtrace *t);
void qtrace_close(struct qtrace *t); /* NULL is fine */

/*
 * "NAME text" as the ftrace back end writes it to a trace marker: fills name, ev, args and text of
 * *item. False: NAME is not declared in events.
 */
bool qtrace_marker(const struct qevents *events, const char *text, size_t len,
		   struct qtrace_item *item);
