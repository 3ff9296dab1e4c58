/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairing.h: what merge, verify and latency share: opening one host capture with its guests,
 * finding out which guest is which VM, and saying how well they align.
 */
#ifndef KVMFT_CMD_PAIRING_H
#define KVMFT_CMD_PAIRING_H

#include "kvmft/cli.h"
#include "kvmft/match.h"
#include "kvmft/timeline.h"
#include "kvmft/windows.h"

/* Options about the clock of all guests, for a member `m` of that type in struct st. */
struct pairing_clock {
	struct opt_u64 tsc_offset;
	const char *tsc_ratio;
	bool solve;
};

#define PAIRING_CLOCK_OPTIONS(st, m)                                                                \
	OPTION(0, "tsc-offset", OPT_BITS, st, m.tsc_offset, "N",                                    \
	       "the guest's TSC offset, instead of what the captures say"),                         \
	OPTION(0, "tsc-ratio", OPT_STR, st, m.tsc_ratio, "R/F",                                     \
	       "the guest's TSC scaling ratio and its fraction bits"),                              \
	OPTION(0, "solve", OPT_FLAG, st, m.solve, NULL,                                             \
	       "find the TSC offset in the events, whatever the captures say")

struct pairing_capture {
	struct capture *cap;
	struct fmt *fmt;
};

struct pairing_guest {
	struct pairing_capture c;
	size_t vm; /* index into the host map */
	struct match match; /* why it is that VM, and its offsets where the events told them */
	/* Under a forced map: what the host recorded, vCPU by vCPU, each until the next one of the same vCPU. */
	struct pairing_recorded {
		uint32_t vcpu;
		bool sure;     /* has a map, and nothing puts it in doubt */
		uint64_t from; /* host TSC */
		struct tsc_map map;
	} *recorded;
	size_t nrecorded, recorded_cap;
};

struct pairing {
	struct pairing_capture host;
	struct pairing_guest *guest;
	size_t nguest;
	struct hostmap *map;
	struct matcher matcher;
	struct tsc_map forced; /* given by hand, for all guests */
	bool has_forced;
	struct pairing_host {
		struct pairing_capture c;
		struct hostmap *map;
		struct migrate *link;
	} *later; /* hosts that the VM moved to, in that order */
	size_t nlater;
	struct timeline *t;
	uint64_t begin; /* host TSC: the host's recording began, or earlier a guest with a TSC map given by hand */
	bool alone; /* host is the only capture, and may be a guest's: see tl_new_alone() */
};

/* What must be known of the host's vCPUs; with guests it is always all. */
enum pairing_need {
	PAIRING_LINES,	/* nothing: its events are only shown */
	PAIRING_VCPUS,	/* which vCPU an event's thread runs */
	PAIRING_CLOCKS, /* and what its clock was */
};

struct pairing_opts {
	const struct pairing_clock *clock; /* given by hand; NULL: what the captures say */
	bool undecided_ok; /* guests may stay without offsets that can be relied on: the caller tells */
	enum pairing_need need;
};

/*
 * Opens everything: guests are the operands GUEST[=SEL]. The time line is not started, so that it can be given a
 * window first: tl_start() is the caller's. What is not needed is left out where it would cost a walk over the
 * whole capture.
 */
int pairing_prepare(struct pairing *p, const char *host, char **guests, size_t n,
		    const struct pairing_opts *o, struct kvmft_err *err) __must_check;
/* The same and starts the time line. */
int pairing_open(struct pairing *p, const char *host, char **guests, size_t n,
		 const struct pairing_opts *o, struct kvmft_err *err) __must_check;
/* What was concluded for want of a record: lines on standard error. */
void pairing_tell_assumed(const struct pairing *p);
/* The same of one guest. */
void pairing_tell_match(const struct hostmap *map, const struct capture *guest, const struct match *m);
/* Hosts that the guests' VM, which must be one, moved to: after pairing_prepare(). */
int pairing_add_hosts(struct pairing *p, const struct opt_list *hosts, struct kvmft_err *err) __must_check;
/* One capture, host or guest, in any trace clock. */
int pairing_open_alone(struct pairing *p, const char *path, struct kvmft_err *err);
void pairing_close(struct pairing *p);

/* --tsc-offset and --tsc-ratio; *given tells whether there was any. */
int pairing_parse_map(const struct opt_u64 *offset, const char *ratio, struct tsc_map *map,
		      bool *given, struct kvmft_err *err);

struct pairing_loss {
	uint64_t total;
	bool unknown;
};

/* After the walk: nothing of the source was lost, damaged or unreadable; of a trace of QEMU all has a place. */
bool pairing_source_complete(const struct tl_source *s);

/* Lost events of a source after the walk: in-band counts and counters, each counted once. */
void pairing_loss(const struct tl_source *s, struct pairing_loss *loss);
/* The same from what a walk over all of the capture saw: events, in-band losses. */
void pairing_loss_of(const struct capture *cap, uint64_t events, uint64_t lost, bool lost_unknown,
		     struct pairing_loss *loss);

/*
 * After the walk: a line on standard error for each source, with its losses and damage; quiet: only
 * for those that lack something. Whether all were complete.
 */
bool pairing_summary(const struct timeline *t, bool quiet);

/* "+59094 cycles (+24.165 us)"; khz 0: cycles alone. */
void pairing_add_cycles(struct sbuf *b, int64_t cycles, uint64_t khz);
/* The same without signs. */
void pairing_add_magnitude(struct sbuf *b, uint64_t cycles, uint64_t khz);

/* One line: how well the VM's guest events lie in their windows, in cycles and us. */
void pairing_alignment_text(const struct hostmap *map, const struct windows *w, int64_t vm,
			    struct sbuf *out);

#endif
