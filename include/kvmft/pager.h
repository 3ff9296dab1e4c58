/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pager.h: where a command's text goes if that is a terminal: through a pager, as git does, or cut
 * to its width.
 */
#pragma once

#include "kvmft/util.h"

/* Of the options --color and --wide, and of what comes bit by bit; color: -1 = auto. */
struct page_opts {
	int color;
	bool wide, no_pager;
};

enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
extern const char *const color_names[]; /* for OPTION_CHOICE */

struct page {
	FILE *f;    /* print here; stdout if nothing has to be cut */
	bool color; /* text may have colours */
	unsigned int width; /* of a terminal; 0: lines may be of any length */
	/* private */
	int gone;  /* ends with the pager */
	bool both; /* standard error goes to the pager, too */
	struct screen_cut cut;
	struct sbuf text;
};

bool page_color(const struct page_opts *o);
/* Width of lines on standard output; 0: they are not cut. */
unsigned int page_width(const struct page_opts *o);
/* Width of standard error, if it is a terminal or a pager on one; 0: its lines are not folded. */
unsigned int page_width_of_messages(void);

/*
 * To be called before anything is printed, and before the program confines itself. file: the result
 * goes to a file of its own. With a pager, standard output is its input from here on, and so is
 * standard error if that is a terminal; page_close() closes both and waits until the user has seen
 * enough: nothing can be printed after it. No errors: everything can be read without a pager, too.
 */
void page_open(struct page *p, const struct page_opts *o, bool file);
void page_close(struct page *p);
