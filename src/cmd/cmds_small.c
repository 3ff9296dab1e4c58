/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmds_small.c: the commands of `make SMALL=1`, which takes this file in place of cmds.c: what has
 * to run on the machine that is traced. The linker leaves out all that they do not need. What only
 * looks at captures, or does arithmetic, can be done on another machine.
 */
#include "cmds.h"

const struct cmd *const kvmft_cmds[] = {
	&cmd_check,
	&cmd_record,
	&cmd_list,
	&cmd_trace,
	&cmd_exits,
	&cmd_stuck,
	&cmd_guest_offset,
	&cmd_snapshot,
	&cmd_reset,
	NULL,
};

const char *const kvmft_cmds_elsewhere[] = {
	"receive", "report", "merge", "latency", "blame", "diff", "export", "verify", "convert", "qemu", NULL,
};

int (*const reset_qemu)(bool, uint64_t, struct sbuf *, struct kvmft_err *) = NULL;

unsigned int (*const reset_sessions)(bool, struct sbuf *) = NULL;

int (*const record_sides)(const struct sides_config *, struct record_config *, char **, note_fn *,
			  struct kvmft_err *) = NULL;
