/* SPDX-License-Identifier: GPL-2.0-or-later */
/* diff_out.h: what differs between two recordings, as text, JSON or CSV. */
#ifndef KVMFT_DIFF_OUT_H
#define KVMFT_DIFF_OUT_H

#include <stdio.h>

#include "kvmft/diff.h"

/* All that is printed; everything is borrowed. */
struct diff_doc {
	const struct diff *d;
	const char *what; /* name of the class of exits */
	size_t top;	  /* rows; 0 = all */
	bool all;	  /* text and CSV: also rows within noise; JSON always has all */
	bool color;	  /* text may have colours */
	unsigned int width; /* of a terminal: sentences are wrapped; 0 = they are not */
	const char *const *remark;
	size_t nremark;
};

/* In one of cli_formats; CSV has no place for remarks. 0, -ENOMEM, or -errno of a write. */
int diff_print(const struct diff_doc *d, const char *format, FILE *f) __must_check;

#endif
