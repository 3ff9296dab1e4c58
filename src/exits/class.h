/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class.h: event classes, the things that `kvmft report` can make a table of; private to this room.
 *
 * A class says, in one constant table, which events it uses, at which of them the clock starts and
 * stops, what is counted separately (the key) and how a key is printed. It never sees state:
 * pairing (report_samples.c) is the same for all. A new class is a section of classes.c and a
 * line in its table.
 */
#ifndef KVMFT_EXITS_CLASS_H
#define KVMFT_EXITS_CLASS_H

#include "kvmft/exit_names.h"
#include "kvmft/report.h"

#define CLASS_TPS    4
#define CLASS_FIELDS 4

/* Numbers of the events that every class gets; its own tracepoints are 0, 1, ... */
#define CLASS_ENTRY CLASS_TPS
#define CLASS_EXIT  (CLASS_TPS + 1) /* v: exit_reason, isa (as enum exit_isa) */

/* An event of a vCPU thread, as a class sees it. */
struct class_event {
	unsigned int tp;	  /* index into tp[] of the class, CLASS_ENTRY or CLASS_EXIT */
	unsigned int tps;	  /* bit i: the captured kernel has tp[i] */
	unsigned int has;	  /* bit i: this event has field i */
	uint64_t v[CLASS_FIELDS]; /* the fields; 0 where absent */
};

/* The role of an event in begin() or end(). */
enum class_mark {
	MARK_NO,
	MARK_YES,     /* it is one, but the key is known only at the other end */
	MARK_KEY,     /* it is one, and *key says of what */
	MARK_AT_EXIT, /* begin() only: the key is known now, the clock started at the exit */
	MARK_MORE,    /* begin() only: none, but the key of what is open also has these bits */
};

typedef enum class_mark class_rule(const struct class_event *e, uint64_t *key);

struct class_rules {
	class_rule *begin, *end;
};

struct event_class {
	const char *name, *title;
	/* Of system kvm. The class cannot do without the first one, unless it says so. */
	struct class_tp {
		const char *name;
		const char *field[CLASS_FIELDS];
	} tp[CLASS_TPS];
	bool optional;		 /* it can do without all of tp[] */
	bool counts;		 /* only counts: its events have no end */
	struct class_rules exact;
	struct class_rules perf; /* NULL: perf kvm has no such table */
	struct class_rules perf_before; /* where exit_perf_before(); NULL: as elsewhere */
	void (*describe)(const struct exit_names *names, uint64_t key, char *buf, size_t size);
};

/* Of a key of class_vmexit. */
struct exit_why class_vmexit_why(uint64_t key);

extern const struct event_class class_vmexit;

#endif
