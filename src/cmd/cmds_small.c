/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmds_small.c: what `make SMALL=1` has, in place of cmds.c. The linker leaves out everything that
 * its commands do not need.
 */
#include "cmds.h"

#define HERE(name) &cmd_##name,
#define ABSENT(name)
const struct cmd *const kvmft_cmds[] = { COMMANDS(HERE, ABSENT) NULL };

#define NAME(name) #name,
const char *const kvmft_cmds_elsewhere[] = { COMMANDS(ABSENT, NAME) NULL };

const struct opt_gone kvmft_gone[] = { { NULL, NULL, NULL, 0 } };

int (*const reset_qemu)(bool, uint64_t, struct sbuf *, struct kvmft_err *) = NULL;

unsigned int (*const reset_sessions)(bool, struct sbuf *) = NULL;

int (*const stuck_session)(struct operands *, const char **, struct kvmft_err *) = NULL;

int (*const record_sides)(const struct sides_config *, struct record_config *, char **, note_fn *,
			  struct kvmft_err *) = NULL;

int (*const check_prove)(bool, const char *, struct kvmft_err *) = NULL;
