/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cmds.c: what the whole kvmft has, in place of cmds_small.c. */
#include "cmds.h"

#define HERE(name) &cmd_##name,
const struct cmd *const kvmft_cmds[] = { COMMANDS(HERE, HERE) NULL };

const char *const kvmft_cmds_elsewhere[] = { NULL };

int (*const reset_qemu)(bool, uint64_t, struct sbuf *, struct kvmft_err *) = qemu_left_sweep;

unsigned int (*const reset_sessions)(bool, struct sbuf *) = sides_temp_sweep;

int (*const stuck_session)(struct operands *, const char **, struct kvmft_err *) = captures_session;

int (*const record_sides)(const struct sides_config *, struct record_config *, char **, note_fn *,
			  struct kvmft_err *) = sides_record;
