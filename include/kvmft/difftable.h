/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * difftable.h: tables of `perf kvm stat report` or `kvmft report` as text, or one beside a
 * recording.
 *
 * They hold sums alone: neither how long was recorded nor how times follow each other, so nothing
 * is judged. Their +- takes samples for independent, which is the least that noise can be.
 */
#pragma once

#include "kvmft/util.h"

#define DIFF_TABLE_ROWS 4096u
#define DIFF_BLANKS	" \t\r"

struct diff_line {
	char name[64];
	struct {
		uint64_t n, mean; /* ns */
		double error;	  /* of mean; 0: not known */
		bool there, timed;
	} side[2];
};

struct diff_tables {
	char *text[2];
	const char *what[2];	/* the head, from its beginning; NULL: it is none */
	uint64_t told[2], n[2]; /* samples: of all as it says, 0: it does not; of its rows */
	uint64_t torn[2];	/* rows that cannot be read */
	bool lost[2];		/* events, as it says */
	bool more[2];		/* there are other tables behind it */
	bool screen[2];		/* of perf 6.4's browser: all times in ns, the mean last */
	bool exact[2];		/* of kvmft */
	struct diff_line *line;
	size_t nline, cap;
};

/* Adds what a table says; text is changed, and t->what[side] then points into it. -E2BIG */
int diff_tables_read(struct diff_tables *t, int side, char *text) __must_check;
/* Adds a row: n samples, of *mean ns in the mean, NULL: not known; error: of that, %. -E2BIG */
int diff_tables_add(struct diff_tables *t, int side, const char *name, size_t len, uint64_t n,
		    const uint64_t *mean, double error) __must_check;
/* What changed most is first. */
void diff_tables_sort(struct diff_tables *t);

/* output/diff_out.c: the first `top` rows, 0: all; format: text, csv or json. 0 or -errno. */
int diff_tables_print(const struct diff_tables *t, size_t top, const char *format,
		      struct sbuf *b) __must_check;
