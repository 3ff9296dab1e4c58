/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arch.h: what differs between kinds of hosts; private to this room. A kind is a descriptor
 * (x86.c, arm64.c), and a line in arch.c.
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/exit_codes.h"
#include "kvmft/exit_names.h"

/* name: "*_entry" are all that end in that. field: "a|b" is the first one that the kernel has. */
struct event_def {
	const char *sys, *name;
	const char *fields; /* EVENT_FIELDS at most; "a b|c": b was c, or is in other kernels */
};

/* The names of field number i, up to a blank; NULL past the last. */
const char *event_def_field(const struct event_def *d, size_t i);

/* Of a sorted table; NULL: it has none. */
const char *exit_entry_name(const struct exit_entry *t, size_t n, uint32_t reason);

struct event_arch {
	const char *name;
	const char *const *machine; /* of `uname -m` and `arch=` of captures, NULL last */
	const char *vendor[3];	    /* of its CPUs */
	enum exit_isa isa;	    /* in the events */
	/* EV_EXIT: the reason, and the isa; if `own`, nothing or what `trap` says. */
	const struct event_def *exit;
	bool own; /* that event has no isa: it is this kind's alone */
	bool names_only; /* what else its events mean is not known */
	const struct event_def *entry; /* EV_ENTRY; NULL: as on x86 */
	const struct exit_entry *reason, *flag; /* sorted; flags by number of the bit */
	size_t nreason, nflag;
	const char *prefix;	    /* of numbers that have no name */
	struct exit_entry probe;    /* what only its own table in a format has; no name: any */
	struct exit_entry trap;	    /* the kind of exits whose second field is the reason */
	uint32_t halt;		    /* the guest waits for an interrupt; UINT32_MAX: not known */
	uint32_t intr;		    /* the host has an interrupt; the same */
	uint32_t fault;		    /* memory that is not mapped, or a device; the same */
	uint32_t pause;		    /* the guest spins on a lock; the same */
	uint32_t async[3];	    /* others that may come at any instruction; 0: no more */
	uint32_t nested[2];	    /* the guest enters one of its own; 0: no more */
	uint32_t log_full;	    /* the log of written pages is full; 0: it has none */
	uint8_t tsc_frac;	    /* bits of the fraction of its TSC ratio */
	const char *module;	    /* of KVM, where it has one of its own */
	const char *traced;	    /* exit_traced() */
	bool perf_before;	    /* exit_perf_before() */
	const struct event_irqs *irqs;
};

/* Number i, the usual one of its machines first; NULL past the last. */
const struct event_arch *event_arch(size_t i);
/* The one whose exits have the fields of that format; NULL: none. */
const struct event_arch *event_arch_of_exit(const struct fmt_event *ev);
