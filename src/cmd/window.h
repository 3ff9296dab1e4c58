/* SPDX-License-Identifier: GPL-2.0-or-later */
/* window.h: --from and --to, for all commands that have them. */
#ifndef KVMFT_CMD_WINDOW_H
#define KVMFT_CMD_WINDOW_H

#include "kvmft/output.h"

/*
 * The host TSCs at which the clock shows values from..to, both included. The texts are as in the
 * time column: seconds with up to nine decimals or with a unit (250ms), cycles for clocks that
 * count those; NULL = no limit. A value that the clock never showed gives the place where it would
 * be. -EINVAL with err set.
 */
int window_parse(const struct out_clock *c, const char *from, const char *to, uint64_t *lo,
		 uint64_t *hi, struct kvmft_err *err) __must_check;
/* The same for a command in which --to means something else: end is the name of that option. */
int window_parse_named(const struct out_clock *c, const char *from, const char *end, const char *to,
		       uint64_t *lo, uint64_t *hi, struct kvmft_err *err) __must_check;

#define WINDOW_HELP_FROM "leave out what was before T, a time as the lines show it"
#define WINDOW_HELP_TO	 "leave out what was after T"

#endif
