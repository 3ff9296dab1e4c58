/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * columns.h: a table for people whose columns are as wide as their contents. Its rows are made
 * twice: first to be measured, then to be printed.
 */
#ifndef KVMFT_COLUMNS_H
#define KVMFT_COLUMNS_H

#include "kvmft/util.h"

#define COLUMNS_MAX 16

struct columns {
	bool print;	   /* else measure */
	unsigned int left; /* bit per column: texts begin at its left */
	unsigned int hide; /* bit per column: it is left out */
	unsigned int at;   /* column of the next text */
	unsigned int width[COLUMNS_MAX];
};

/* The text of the next column; nothing is appended while measuring. */
void columns_put(struct columns *c, struct sbuf *b, const char *fmt, ...) __printf(3, 4);
/* Width of a row in columns of the terminal; after measuring. */
unsigned int columns_width(const struct columns *c);
/* Ends the row, without blanks at its end. */
void columns_end(struct columns *c, struct sbuf *b);

/*
 * Breaks the lines of b->s[from..] at blanks so that they fit that many columns (0: no breaking);
 * continuation lines begin with indent.
 */
void text_wrap(struct sbuf *b, size_t from, const char *indent, unsigned int width);

/* "# ..." for each; on a terminal of that width (0 = not a terminal) broken to fit it. */
void text_remarks(struct sbuf *b, const char *const *remark, size_t n, unsigned int width);

#endif
