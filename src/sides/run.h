/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run.h: what the files that run a recording of several machines share. */
#ifndef KVMFT_SIDES_RUN_H
#define KVMFT_SIDES_RUN_H

#include "kvmft/vm.h"
#include "sides.h"

#define SIDES_SECOND 1000000000ull
#define SIDE_BEGIN_NS (60 * SIDES_SECOND) /* of a guest that is to begin */

struct sides {
	const struct sides_config *c;
	struct record_config *host;
	char **argv;
	note_fn *note;
	struct kvmft_err *err;
	struct side_spec *spec;
	size_t nspec;
	struct side *side; /* the host, then the guests */
	size_t n;
	int parent, dir, file, sigfd;
	struct vm_list *vms;
	char *base, *shown; /* "run", "run/" */
	const char *why;    /* it ends; NULL = not yet */
	pid_t reader;	    /* 0 = gone, or none */
	int reader_status;
	struct snapshots snapshots;
	bool all_live, command_done, told_alone;
	bool reader_killed, blame_killed; /* by the second signal */
	uint64_t live_ns, tick_ns;
	mode_t umask;
};

/* All that return an int: 0 or a negative errno, with x->err set. */

/* The session's directory, and the file in it that says what belongs together. */
int sides_make_dir(struct sides *x) __must_check;

/* Nothing was recorded, or it was not meant to be kept: removes all traces of it. */
void sides_remove_dir(struct sides *x);

/* How a side ended, in the session's file. */
void sides_put_end(struct sides *x, const struct side *s);

/* Starts the processes of a side; it reports when it records. */
int sides_start_host(struct sides *x) __must_check;
int sides_start_guest(struct sides *x, struct side *s) __must_check;

/* From here on signals come through a descriptor. */
int sides_open_signals(struct sides *x) __must_check;
void sides_take_signals(struct sides *x);

/* Waits for whatever comes first, at most a second, and handles it. */
int sides_wait_once(struct sides *x) __must_check;

#endif
