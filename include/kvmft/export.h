/* SPDX-License-Identifier: GPL-2.0-or-later */
/* export.h: what the files of `kvmft export` share. */
#ifndef KVMFT_EXPORT_H
#define KVMFT_EXPORT_H

#include "kvmft/tracedat.h"
#include "kvmft/pairing.h"

struct export_config {
	struct outfile *out;
	const char *output;   /* its name, for messages */
	const char *instance; /* for the buffer that has no name; NULL: it is the top one */
	uint64_t subbuf;      /* bytes of a sub-buffer; 0: as in the capture */
	bool time_shift;      /* stamps of guests stay, with the option TIME_SHIFT */
};

/* tracedat.c: a trace.dat of p's capture, and one of each guest, named after it. */
int export_dat(struct pairing *p, const struct export_config *o, struct kvmft_err *err);


#endif
