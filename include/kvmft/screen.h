/* SPDX-License-Identifier: GPL-2.0-or-later */
/* screen.h: text for people: the width of a terminal, lines that fit it, colours. */
#pragma once

#include "kvmft/util.h"

/* Columns of the terminal fd; if it does not say (serial lines), $COLUMNS, else 80. */
unsigned int screen_width(int fd);
/* Whether text for fd is coloured by default: a terminal with colours, without NO_COLOR. */
bool screen_has_colors(int fd);

/* SGR sequences; "" = unchanged. */
#define SCREEN_PLAIN "\033[m"
/* Puts the sequence of that SGR parameter before b->s[from..to) and SCREEN_PLAIN after it. */
void screen_paint(struct sbuf *b, size_t from, size_t to, const char *sgr);

/* Cuts a text, given in pieces, to a width; zeroed but for width. */
struct screen_cut {
	unsigned int width, column;
	bool escape, full;
	/* the character in the last column, unless '>' goes there, and the sequences after it */
	char held[64];
	unsigned int nheld, nchar;
};

/*
 * Appends to out what is shown of s[0..n): in lines longer than the width the last column is '>'. A
 * character is taken to be one column wide; escape sequences take none.
 */
void screen_cut(struct screen_cut *c, const char *s, size_t n, struct sbuf *out);
