/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sides.h: one recording of a host and its guests.
 *
 * The host is recorded by a process of its own. For each guest there are two: one that reaches into
 * it (ssh, kubectl exec, anything that runs a program elsewhere with standard input and output),
 * and one that stores the stream from there, confined, because the guest is hostile. For the
 * contents of the session directory see kvmft-capture(5).
 */
#pragma once

#include "kvmft/record.h"
#include "kvmft/stream.h"

#define SIDES_DEFAULT "kvmft.data" /* the session's name if none is given */
#define SIDES_OVER    5 /* exit status, to record alone, of blame: the budget was exceeded */

struct sides_config {
	struct str_list guests;	 /* NAME[=COMMAND]; NAME=qga:SOCKET */
	struct str_list options; /* words for record in all guests, or NAME:WORDS for one */
	const char *command;	 /* words of the program to run in the guests; NULL = none */
	const char *push; /* a static kvmft to bring along; "": the one beside this; NULL: none */
	struct opt_u64 timeout; /* of a guest that sends nothing before it records; 0: never */
	bool flight; /* of all sides: when one writes out its ring, the others do */
	struct opt_u64 before; /* ... which must reach back this far, ns */
	/*
	 * Words of a command of this program that reads the session while it grows, in its
	 * directory, as ".". It starts when all sides record, and its end ends everything. NULL:
	 * none.
	 */
	const struct remote_words *reader;
	/* A command that ends, run when all sides have written out their rings. NULL: none. */
	const char *after_snapshot;
	const char *on_over; /* for the shell, when that one ends with SIDES_OVER; NULL: nothing */
	bool temp; /* the session is kept in memory, and removed at the end */
	/* Called with what to show: lines[n] replace the last ones. NULL: nothing is shown. */
	void (*show)(const char *const *lines, size_t n);
};

/*
 * Records into a new session directory until a signal, the duration, the end of command on the host
 * (argv, NULL-terminated; empty if there is none) or of all commands in guests ends it. host: how
 * the host is recorded; its output is the name of the directory. The worst exit code of all sides,
 * or -errno with err set.
 */
int sides_record(const struct sides_config *s, struct record_config *host, char **argv,
		 note_fn *note, struct kvmft_err *err) __must_check;

/* A name for a session that is not to be kept, and its removal. */
int sides_temp_name(char *path, size_t size, struct kvmft_err *err) __must_check;
void sides_temp_remove(const char *path);
/* Removes sessions in memory of dead processes (dry_run: names them), a line for each. How many. */
unsigned int sides_temp_sweep(bool dry_run, struct sbuf *text);

struct receive_config {
	const char *output;
	struct opt_u64 max_size, min_free, keep;
	bool force, quiet;
	int in;
	void (*show)(const struct stream_news *n); /* about once a second; NULL: not wanted */
};

/*
 * Stores the stream from in as a capture, until it ends, is cut, or a limit is reached. An exit
 * code, or -errno with err set; err->code says whether something was stored all the same.
 */
int receive_run(const struct receive_config *c, note_fn *note, struct kvmft_err *err) __must_check;
