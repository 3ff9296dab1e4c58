/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmds.h: the command descriptors, one per file in this folder. Order of help: see cmds.c.
 */
#ifndef KVMFT_CMD_CMDS_H
#define KVMFT_CMD_CMDS_H

#include "kvmft/cli.h"
#include "kvmft/sides.h"

extern const struct cmd cmd_check;
extern const struct cmd cmd_record;
extern const struct cmd cmd_receive;
extern const struct cmd cmd_snapshot;
extern const struct cmd cmd_report;
extern const struct cmd cmd_merge;
extern const struct cmd cmd_latency;
extern const struct cmd cmd_blame;
extern const struct cmd cmd_diff;
extern const struct cmd cmd_export;
extern const struct cmd cmd_verify;
extern const struct cmd cmd_list;
extern const struct cmd cmd_convert;
extern const struct cmd cmd_trace;
extern const struct cmd cmd_exits;
extern const struct cmd cmd_stuck;
extern const struct cmd cmd_qemu;
extern const struct cmd cmd_guest_offset;
extern const struct cmd cmd_reset;

/*
 * qemu_left_sweep(); NULL: the small build leaves what was switched on in QEMUs to a whole kvmft.
 */
extern int (*const reset_qemu)(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
			       struct kvmft_err *err);

/* sides_temp_sweep(); NULL: the small build makes no sessions. */
extern unsigned int (*const reset_sessions)(bool dry_run, struct sbuf *text);

/* sides_record(); NULL: the small build records the machine that it is on. */
extern int (*const record_sides)(const struct sides_config *s, struct record_config *host,
				 char **argv, note_fn *note, struct kvmft_err *err);

#endif
