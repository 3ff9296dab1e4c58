/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cmds.h: the commands, one per file in this folder. A new one is that file and a line here. */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/sides.h"

/*
 * All commands, in the order in which help shows them. `make SMALL=1` has those marked any: what
 * must run on the traced machine. What only looks at captures, or does arithmetic, is marked whole.
 */
#define COMMANDS(any, whole) \
	any(check) \
	any(record) \
	whole(receive) \
	any(snapshot) \
	whole(report) \
	whole(merge) \
	whole(latency) \
	whole(blame) \
	whole(boot) \
	whole(diff) \
	whole(export) \
	whole(verify) \
	whole(clock) \
	whole(advise) \
	any(list) \
	whole(convert) \
	any(trace) \
	any(exits) \
	any(stuck) \
	whole(qemu) \
	any(guest_offset) \
	any(reset)

#define DECLARE(name) extern const struct cmd cmd_##name;
COMMANDS(DECLARE, DECLARE)
#undef DECLARE

/* `kvmft diff --predict RULE`: an exit code, or -errno with err. path: BEFORE and AFTER. */
int advise_predict(const char *rule, const char *sel, char **path, FILE *f, struct kvmft_err *err);

/*
 * qemu_left_sweep(); NULL: the small build leaves what was switched on in QEMUs to a whole kvmft.
 */
extern int (*const reset_qemu)(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
			       struct kvmft_err *err);

/* sides_temp_sweep(); NULL: the small build makes no sessions. */
extern unsigned int (*const reset_sessions)(bool dry_run, struct sbuf *text);

/* captures_session(); NULL: the small build reads no recordings. */
extern int (*const stuck_session)(struct operands *o, const char **input, struct kvmft_err *err);

/* sides_record(); NULL: the small build records the machine that it is on. */
extern int (*const record_sides)(const struct sides_config *s, struct record_config *host,
				 char **argv, note_fn *note, struct kvmft_err *err);

/* `kvmft check --prove`: an exit code, or -errno with err; NULL: the small build. */
extern int (*const check_prove)(bool as_json, const char *output, struct kvmft_err *err);
