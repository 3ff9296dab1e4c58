/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmds.c: all commands, in the order in which help shows them. A new command is one file with its
 * descriptor, a line in cmds.h and a line here; and one in cmds_small.c, which `make SMALL=1` takes
 * in place of this file.
 */
#include "cmds.h"

#include "kvmft/qemu_switch.h"

const struct cmd *const kvmft_cmds[] = {
	&cmd_check,
	&cmd_record,
	&cmd_receive,
	&cmd_snapshot,
	&cmd_report,
	&cmd_merge,
	&cmd_latency,
	&cmd_blame,
	&cmd_diff,
	&cmd_export,
	&cmd_verify,
	&cmd_list,
	&cmd_convert,
	&cmd_trace,
	&cmd_exits,
	&cmd_stuck,
	&cmd_qemu,
	&cmd_guest_offset,
	&cmd_reset,
	NULL,
};

const char *const kvmft_cmds_elsewhere[] = { NULL };

int (*const reset_qemu)(bool, uint64_t, struct sbuf *, struct kvmft_err *) = qemu_left_sweep;

unsigned int (*const reset_sessions)(bool, struct sbuf *) = sides_temp_sweep;

int (*const record_sides)(const struct sides_config *, struct record_config *, char **, note_fn *,
			  struct kvmft_err *) = sides_record;
