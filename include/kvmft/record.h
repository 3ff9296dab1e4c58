/* SPDX-License-Identifier: GPL-2.0-or-later */
/* record.h: one recording of this machine, as host or guest, into a capture. */
#pragma once

#include "kvmft/util.h"

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
	const char *output, *clock, *rotate, *trigger;
	struct str_list events, vms, pids, vcpus, sdt, stacks;
	int profile; /* enum record_profile, -1 = not given: the default, if no events are named */
	int as;	    /* enum record_as, -1 = detect */
	struct str_list qemu, monitors;
	struct opt_u64 buffer, duration, max_size, min_free, keep;
	struct opt_u64 keep_captures; /* of -o DIR/: what keep says */
	struct opt_u64 flush, before;
	bool sync, symbols, guest_processes;
	bool force, quiet, flight;
	void (*progress)(const struct record_progress *p); /* may be NULL */
	struct record_control control;
};

bool record_in_dir(const struct record_config *c); /* -o DIR/ */
/*
 * Records until a signal, the duration, a limit or the end of command (NULL-terminated; empty if
 * there is none) ends it, and leaves the machine as it was. An exit code, or -errno with err set. c
 * is completed with what the place of the capture implies.
 */
int record_run(struct record_config *c, char **command, note_fn *note,
	       struct kvmft_err *err) __must_check;

/*
 * ---- how `kvmft record --guest` tells a `kvmft record --remote` at the other end of a connection
 * what to record ----
 *
 * The options do not go on the command line, where shells on the way would take them apart, but
 * through standard input, as lines:
 *
 *   kvmft-remote version=1
 *   arg TEXT		one word of the command line, as in a value of meta
 *   drop		the program's own file is to be removed: it was brought for this
 *   spool DIR		orders and stream go through files in a directory that is made for this,
 *			not through standard input and output: see remote_spool()
 *   run
 *
 * Orders follow there: see struct record_control.
 */

#define REMOTE_VERSION	1
#define REMOTE_MAX_ARGS 256
#define REMOTE_MAX	(64u << 10) /* bytes, of all lines */

struct remote_words {
	char **v; /* NULL after the last one; it owns the texts */
	size_t n, cap;
	bool drop;
	char *spool; /* NULL = none */
};

int remote_words_add(struct remote_words *w, const char *word) __must_check;
void remote_words_free(struct remote_words *w);
void remote_put(struct sbuf *text, const struct remote_words *w); /* appends the lines to text */
/* Reads them, and not a byte more. 0 or -errno with err set. */
int remote_get(int fd, struct remote_words *w, struct kvmft_err *err) __must_check;

/*
 * For a peer that can only use files, such as a guest agent: makes the directory with the files
 * SPOOL_ORDERS, to which orders are appended, and SPOOL_STREAM, from which the stream is read. From
 * now on a separate process passes these on to and from this one's standard input and output. The
 * order "read N" says that N bytes of the stream are no longer needed; at most SPOOL_WINDOW are
 * ever kept. Everything is removed once it has been read, or after SPOOL_PATIENCE_NS without an
 * order.
 */
#define SPOOL_ORDERS	  "orders"
#define SPOOL_STREAM	  "stream"
#define SPOOL_WINDOW	  (8u << 20)
#define SPOOL_PATIENCE_NS 30000000000ull
int remote_spool(const char *dir, struct kvmft_err *err) __must_check;
