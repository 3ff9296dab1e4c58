/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evidence.h: what must have been recorded before an answer may name a cause.
 *
 * One table has a rule for each cause of blame, part of report --split, and state, stage or cause
 * of latency. An answer asks it which of its events a capture lacks. If any, it names no cause: it
 * says "not recorded", who it may have been, and how to record it. Manual pages print the table.
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/json.h"

/* Bits: events of a host, and of a guest. */
enum evidence {
	EVID_SWITCH = 1 << 0,
	EVID_WAKEUP = 1 << 1,
	EVID_USER = 1 << 2,
	EVID_HALT = 1 << 3,
	EVID_MMIO = 1 << 4,
	EVID_ACCEPT = 1 << 5,
	EVID_IRQ = 1 << 6,
	EVID_BLOCK = 1 << 7,
	EVID_GUEST_SWITCH = 1 << 8,
	EVID_GUEST_WAKEUP = 1 << 9,
	EVID_GUEST_IRQ = 1 << 10,
	EVID_HOST = 1 << 11, /* any recording of it */
	EVID_WAKING = 1 << 12,
	EVID_PATH = 1 << 13, /* what threads ask a disk, and when they wait for memory */
	EVID_INJECT = 1 << 14,
	EVID_RAISE = 1 << 15,
	EVID_CALLS = 1 << 16, /* to receive */
	EVID_GUEST_CALLS = 1 << 17,
	EVID_OFFSET = 1 << 18,
	EVID_PVCLOCK = 1 << 19,
	EVID_MASTER = 1 << 20,
	EVID_RUN = 1 << 21,
	EVID_MSR = 1 << 22,
	EVID_PIO = 1 << 23,
	/* No events: whoever asks knows whether they are there. */
	EVID_OFFSETS = 1 << 24, /* of all vCPUs of a VM */
	EVID_RATE = 1 << 25,	/* of the host's TSC, and the ratio of the guest's */
	EVID_RECORD = 1 << 26,	/* of pvclock: by its event, or as the guest read it */
	EVID_WALL = 1 << 27,	/* readings of a guest's clocks */
	EVID_BEFORE = 1 << 28,	/* a record, from before the first that changed */
	EVID_TAKES = 1 << 29,	/* that a guest takes interrupts, however it gets them */
	EVID_SCHED = 1 << 30,	/* a guest's constants of it, record and readings */
};
#define EVID_ASYNC (1u << 31) /* when a guest was told of pages that are fetched */
#define EVIDENCE_BITS 32

struct evidence_rule {
	const char *of, *what; /* "blame", "exit-kernel" */
	const char *who;       /* "KVM": what it would be, among other candidates */
	uint32_t needs;	       /* without these it cannot be named, */
	uint32_t sure;	       /* ... without these it is not sure */
	const char *against;   /* what contradicts it; NULL: nothing but another rule's evidence */
};

#define EVIDENCE_TEXT 128 /* that evidence_candidates() fills at most, with its zero byte */

/* The i-th rule; NULL past the last. */
const struct evidence_rule *evidence_at(size_t i);
/* The rule for that answer; NULL: it needs nothing but its own events. */
const struct evidence_rule *evidence_rule(const char *of, const char *what);

/*
 * What a capture of that side can show. By its formats alone if it is kvmft's own or perf's, which
 * have those of the recorded events; trace-cmd writes all those of a system, so of a trace.dat only
 * what was seen counts: `seen`, by enum event_role.
 */
uint32_t evidence_recorded(const struct capture *cap, const struct fmt *fmt, bool guest,
			   const bool seen[EV_ROLES]);

/*
 * A capture, its formats, and which of its CPUs were recorded, to be freed and closed whatever is
 * returned: 0, -errno. trace-cmd records some CPUs only, if asked to, and no option of its file
 * says so. A CPU without events, to which threads that the file does record were woken twice, was
 * not recorded: its stream is cut, with a note. One to which others were woken, of which a filter
 * (-P) may have left out all events, is doubtful, and so is any without events if wakeups were not
 * recorded.
 */
int evidence_open(const char *path, struct capture **cap, struct fmt **fmt,
		  struct kvmft_err *err) __must_check;

/* The names of all of them, as "host sched:sched_switch". */
void evidence_names(uint32_t lacks, const char *between, struct sbuf *b);
/* The same as an array. */
void evidence_json(const char *key, uint32_t lacks, struct json *j);
/* "not recorded: KVM, the VMM or the scheduler": what it may have been, lacking these. */
void evidence_candidates(const struct evidence_rule *r, uint32_t lacks, char *buf, size_t size);
/* "record it with `kvmft record -e default -e ...`", and in the guest what is the guest's. */
void evidence_remedy(uint32_t lacks, struct sbuf *b);
