/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * export.h: what the files of `kvmft export` share.
 */
#ifndef KVMFT_EXPORT_H
#define KVMFT_EXPORT_H

#include "kvmft/tracedat.h"
#include "kvmft/pairing.h"

struct export_opts {
	const char *input, *output, *to;
	struct outfile *out;
	int clock;
	bool v7, zstd, time_shift, force, quiet;
	struct opt_u64 subbuf, khz;
	const char *instance;
	struct pairing_clock pair;
	const char *from, *until;
};

/* export_dat.c: a trace.dat of p's capture, and one of each guest, named after it. */
int export_dat(struct pairing *p, const struct export_opts *o, struct kvmft_err *err);

/* export_shift.c: option TIME_SHIFT of guest g for the file w. */
int export_time_shift(const struct pairing *p, const struct pairing_guest *g, struct tdw *w,
		      const struct tdw_spec *spec, struct kvmft_err *err);

#endif
