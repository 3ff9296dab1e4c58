/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairing.h: what merge, verify and latency share: opening one host capture with its guests,
 * finding out which guest is which VM, and reporting how well they align.
 */
#pragma once

#include "kvmft/match.h"
#include "kvmft/timeline.h"
#include "kvmft/windows.h"

/* What the user says about the clock of all guests. */
struct pairing_clock {
	struct opt_u64 tsc_offset;
	const char *tsc_ratio;
	bool solve;
};

struct pairing_capture {
	struct capture *cap;
	struct fmt *fmt;
};

struct pairing_guest {
	struct pairing_capture c;
	struct tsc_map scale; /* ratio: of its stamps to the host's, which have another unit */
	size_t vm;	    /* index into the host map */
	struct match match; /* why it is that VM, and its offsets if they are from the events */
	/* With a forced map: what the host recorded, by vCPU, each until its next one. */
	struct pairing_recorded {
		uint32_t vcpu;
		bool sure;     /* has a map, and nothing casts doubt on it */
		uint64_t from; /* host TSC */
		struct tsc_map map;
	} * recorded;
	size_t nrecorded, recorded_cap;
};

struct pairing {
	struct pairing_capture host;
	struct pairing_guest *guest;
	size_t nguest;
	size_t failed; /* the guest at which pairing_prepare() failed, from 1; 0 = none */
	struct hostmap *map;
	struct matcher matcher;
	struct tsc_map forced; /* given by hand, for all guests */
	bool has_forced;
	struct pairing_host {
		struct pairing_capture c;
		struct hostmap *map;
		struct migrate *link;
	} * later; /* hosts that the VM moved to, in that order */
	size_t nlater;
	struct timeline *t;
	uint64_t begin; /* host TSC: when the host began, or a guest with a forced map before it */
	bool alone;	/* host is the only capture, and may be a guest's: see tl_new_alone() */
};

/* What must be known about the host's vCPUs; with guests it is always everything. */
enum pairing_need {
	PAIRING_LINES,	/* nothing: its events are only shown */
	PAIRING_VCPUS,	/* which vCPU an event's thread runs */
	PAIRING_CLOCKS, /* and what its clock was */
};

struct pairing_opts {
	const struct pairing_clock *clock; /* given by hand; NULL: what the captures say */
	const char *naming;		   /* see struct matcher */
	const struct opt_u64 *khz; /* --tsc-khz; NULL, or not set: what the captures say */
	bool undecided_ok; /* guests may stay without a sure offset: the caller reports that */
	bool guest_alone;  /* the only capture may be a guest's; with clocks, as a VM of its own */
	bool growing; /* captures are still written: recorded offsets are not put to the test */
	bool related; /* the host needs another clock than its own: for other traces, or output */
	enum pairing_need need;
};

/*
 * Opens everything: guests are the operands GUEST[=SEL]. The time line is not started, so that it
 * can be given a window first: tl_start() is up to the caller. What is not needed is left out if it
 * would cost a walk over the whole capture.
 */
int pairing_prepare(struct pairing *p, const char *host, char **guests, size_t n,
		    const struct pairing_opts *o, struct kvmft_err *err) __must_check;
/* The same, and starts the time line. */
int pairing_open(struct pairing *p, const char *host, char **guests, size_t n,
		 const struct pairing_opts *o, struct kvmft_err *err) __must_check;
/* Notes what was concluded because nothing recorded it. */
void pairing_tell_assumed(const struct pairing *p, note_fn *note);
/* The same for one guest. */
void pairing_tell_match(const struct hostmap *map, const struct capture *guest,
			const struct match *m, note_fn *note);
/*
 * Hosts that the guests' VM, of which there must be only one, moved to: after pairing_prepare().
 * Without guests it is the VM that sel names, or with "" the only one; NULL: guests are required.
 */
int pairing_add_hosts(struct pairing *p, const struct str_list *hosts, const char *sel,
		      struct kvmft_err *err) __must_check;
/* One capture, host or guest, in any trace clock. */
int pairing_open_alone(struct pairing *p, const char *path, struct kvmft_err *err);
void pairing_close(struct pairing *p);
/* GUEST[=SEL]: *path to be freed; *sel within text, NULL: none. */
void pairing_split(const char *text, char **path, const char **sel);

/* --tsc-offset and --tsc-ratio; *given: whether there was any. */
int pairing_parse_map(const struct opt_u64 *offset, const char *ratio, struct tsc_map *map,
		      bool *given, struct kvmft_err *err);

/*
 * After the walk: a note for each source, with its losses and damage; quiet: only for those that
 * are incomplete. Returns whether all were complete.
 */
bool pairing_summary(const struct timeline *t, bool quiet, note_fn *note);
/* After the walk: 0, or -ENODATA with err: no event of a guest has a place in the host's time. */
int pairing_placed(const struct timeline *t, struct kvmft_err *err) __must_check;

/* "+59094 cycles (+24.165 us)", one of them if the other is unknown or means nothing. */
void pairing_add_cycles(struct sbuf *b, int64_t cycles, const struct capture *host);
/* The same without signs. */
void pairing_add_magnitude(struct sbuf *b, uint64_t cycles, const struct capture *host);
/* ", TSC ratio R/F", if it is scaled. */
void pairing_add_ratio(struct sbuf *b, const struct tsc_map *m);
/* What relates a guest's clock to the host's: "TSC offset", or "clock offset in ns". */
const char *pairing_offset_name(const struct capture *host);

/* One line: how well the VM's guest events lie in their windows, in cycles and us. */
void pairing_alignment_text(const struct hostmap *map, const struct windows *w, int64_t vm,
			    struct sbuf *out);

/* ---- the TSC frequency of a capture: as its user says (--tsc-khz), or as found in it ---- */

/* Whether it is possible. 0, or -EINVAL with err. */
int rate_check(const struct opt_u64 *khz, struct kvmft_err *err) __must_check;
/*
 * From now on the capture has a TSC frequency: as given, or as found in it, which a note says
 * unless quiet. That nothing gives it is always noted, with what follows from that: `then`, NULL:
 * the caller says so. 0, -errno.
 */
int rate_of_capture(struct capture *cap, const struct fmt *fmt, const struct opt_u64 *khz,
		    bool quiet, const char *then, note_fn *note,
		    struct kvmft_err *err) __must_check;
/* The same for the host of p, whose guests may help, too; before traces of QEMU are added. */
int rate_of_pairing(struct pairing *p, const struct opt_u64 *khz, bool quiet, const char *then,
		    note_fn *note, struct kvmft_err *err) __must_check;
/* As another capture of the same file has it. */
void rate_like(struct capture *cap, const struct capture *other);
/* Only what was given. */
int rate_given(struct capture *cap, const struct opt_u64 *khz, struct kvmft_err *err) __must_check;
