/* SPDX-License-Identifier: GPL-2.0-or-later */
/* record.h: one recording of this machine, as host or guest, into a capture. */
#pragma once

#include "kvmft/util.h"

enum record_marker { RECORD_MARKER_COMMAND, RECORD_MARKER_ALL, RECORD_MARKER_NONE };
extern const char *const record_marker_choices[];

enum record_as { RECORD_AS_HOST, RECORD_AS_GUEST, RECORD_AS_BOTH };
extern const char *const record_as_choices[];

enum record_profile { RECORD_LEAN, RECORD_DEFAULT, RECORD_FULL };
extern const char *const record_profile_choices[];

/* What a recording has done so far, reported once a second. */
struct record_progress {
	uint64_t elapsed_ns;	  /* since the events were switched on */
	uint64_t left_ns;	  /* of the duration; UINT64_MAX: it has none */
	uint64_t per_second;	  /* events produced in the last second */
	uint64_t lost;		  /* events, so far */
	uint64_t bytes;		  /* of data on the disk, or sent */
	bool sent;
	const char *waits_for;	  /* a trigger; NULL: for a signal */
};

/* What a recorder reports to its controller. */
enum record_news {
	RECORD_NEWS_LIVE,     /* all events are on */
	RECORD_NEWS_COMMAND,  /* COMMAND ended, with this status of waitpid() */
	RECORD_NEWS_FIRED,    /* a flight recorder has a reason to write out its ring */
	RECORD_NEWS_WRITTEN,  /* ... and has done so */
	RECORD_NEWS_PROGRESS, /* once a second */
};

/*
 * A recorder that takes orders, one per line: "start" lets COMMAND run, "snapshot" writes out the
 * ring of a flight recorder, "alive" only says that the controller is there, "stop" and end of file
 * end the recording.
 */
struct record_control {
	bool on;
	int fd;		 /* borrowed; where orders come from */
	bool outlive;	 /* the end of COMMAND does not end the recording */
	/* May be NULL. status: for RECORD_NEWS_COMMAND; p: for RECORD_NEWS_PROGRESS. */
	void (*news)(void *ctx, enum record_news what, int status,
		     const struct record_progress *p);
	void *ctx;
};

struct record_config {
	const char *output, *output_dir, *clock, *rotate, *trigger;
	struct str_list events, vms, pids, vcpus, sdt, stacks;
	int marker; /* enum record_marker, -1 = not given */
	int profile; /* enum record_profile, likewise: the default, if no events are named */
	int as;	    /* enum record_as, -1 = detect */
	struct str_list qemu, monitors;
	struct opt_u64 buffer, duration, max_size, min_free, keep;
	struct opt_u64 keep_captures; /* of --output-dir: what keep says */
	struct opt_u64 flush, before;
	bool sync, symbols, guest_processes;
	bool force, quiet, flight;
	void (*progress)(const struct record_progress *p); /* may be NULL */
	struct record_control control;
};

/*
 * Records until a signal, the duration, a limit or the end of command (NULL-terminated; empty if
 * there is none) ends it, and leaves the machine as it was. An exit code, or -errno with err set. c
 * is completed with what the place of the capture implies.
 */
int record_run(struct record_config *c, char **command, note_fn *note,
	       struct kvmft_err *err) __must_check;
