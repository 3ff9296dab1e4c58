/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remote.h: how `kvmft record --guest` tells a `kvmft record --remote` at the other end of a
 * connection what to record.
 *
 * The options do not go on the command line, where shells on the way would take them apart, but
 * through standard input, as lines:
 *
 *   kvmft-remote version=1
 *   arg TEXT		one word of the command line, as in a value of meta
 *   drop		the program's own file is to be removed: it was brought for this
 *   spool DIR		orders and stream go through files in a directory that is made for this,
 *			not through standard input and output: see remote_spool()
 *   run
 *
 * Orders follow there: see struct record_control.
 */
#pragma once

#include "kvmft/util.h"

#define REMOTE_VERSION	1
#define REMOTE_MAX_ARGS 256
#define REMOTE_MAX	(64u << 10) /* bytes, of all lines */

struct remote_words {
	char **v; /* NULL after the last one; it owns the texts */
	size_t n, cap;
	bool drop;
	char *spool; /* NULL = none */
};

int remote_words_add(struct remote_words *w, const char *word) __must_check;
void remote_words_free(struct remote_words *w);
/* Appends the lines to text. */
void remote_put(struct sbuf *text, const struct remote_words *w);
/* Reads them, and not a byte more. 0 or -errno with err set. */
int remote_get(int fd, struct remote_words *w, struct kvmft_err *err) __must_check;

/*
 * For a peer that can only use files, such as a guest agent: makes the directory with the files
 * SPOOL_ORDERS, to which orders are appended, and SPOOL_STREAM, from which the stream is read. From
 * now on a separate process passes these on to and from this one's standard input and output. The
 * order "read N" says that N bytes of the stream are no longer needed; at most SPOOL_WINDOW are
 * ever kept. Everything is removed once it has been read, or after SPOOL_PATIENCE_NS without an
 * order.
 */
#define SPOOL_ORDERS	  "orders"
#define SPOOL_STREAM	  "stream"
#define SPOOL_WINDOW	  (8u << 20)
#define SPOOL_PATIENCE_NS 30000000000ull
int remote_spool(const char *dir, struct kvmft_err *err) __must_check;
