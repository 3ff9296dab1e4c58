/* SPDX-License-Identifier: GPL-2.0-or-later */
/* export.h: the options of `kvmft export`, and its --to sqlite. */
#ifndef KVMFT_CMD_EXPORT_H
#define KVMFT_CMD_EXPORT_H

#include "kvmft/cli.h"
#include "kvmft/outfile.h"
#include "kvmft/pairing.h"

struct export_opts {
	const char *input, *output, *to;
	struct outfile *out;
	int clock;
	bool time_shift, force, quiet;
	struct opt_u64 subbuf, khz;
	const char *instance;
	struct pairing_clock pair;
	const char *from, *until;
};

/*
 * All walks that the tables need, over p's time line, which was started; told() is called after the
 * first one, because the others forget what was counted. 0; 1: something has no place in the
 * database, which was reported; or -errno.
 */
int export_db(struct pairing *p, const struct export_opts *o,
	      int (*told)(void *ctx, struct kvmft_err *err), void *ctx, struct kvmft_err *err);

#endif
