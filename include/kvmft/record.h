/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h: one recording of this machine, as host or guest, into a capture.
 */
#ifndef KVMFT_RECORD_H
#define KVMFT_RECORD_H

#include "kvmft/util.h"

enum record_marker { RECORD_MARKER_COMMAND, RECORD_MARKER_ALL, RECORD_MARKER_NONE };
extern const char *const record_marker_choices[];

/* What a recording has done so far, told once a second. */
struct record_progress {
	uint64_t elapsed_ns;	  /* since the events were on */
	uint64_t left_ns;	  /* of the duration; UINT64_MAX: it has none */
	uint64_t per_second;	  /* events produced, of the last second */
	uint64_t lost;		  /* events, so far */
	uint64_t bytes;		  /* of data on the disk */
	const char *waits_for;	  /* a trigger; NULL: for a signal */
};

struct record_config {
	const char *output, *output_dir, *clock, *cpus, *rotate, *trigger;
	struct str_list events, vms, pids, vcpus, sdt, stacks;
	int marker; /* enum record_marker, -1 = not given */
	struct str_list qemu, qmp, hmp;
	struct opt_u64 buffer, duration, max_size, min_free, keep, keep_captures;
	struct opt_u64 flush;
	bool sync;
	bool host, guest, force, overwrite, allow_lost, quiet, flight, load_modules;
	void (*progress)(const struct record_progress *p); /* NULL: nobody listens */
};

/*
 * Records until a signal, the duration, a limit or the end of command (NULL-terminated; its first
 * is NULL: there is none) ends it, and leaves the machine as it was. An exit code, or -errno with
 * err set. c is made complete: what the place of the capture implies.
 */
int record_run(struct record_config *c, char **command, note_fn *note,
	       struct kvmft_err *err) __must_check;

#endif
