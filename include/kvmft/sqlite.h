/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sqlite.h: writes a SQLite database through libsqlite3, as far as it is written once: tables,
 * their rows, views.
 *
 *	sq_load(err);				before the process is confined
 *	sq_new(fd, &s);
 *	sq_table(s, "t", "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)", &t);
 *	sq_null(s); sq_str(s, "x"); ret = sq_add(s, t, 1);	values in the order of the columns
 *	ret = sq_finish(s);
 *	sq_free(s);
 */
#pragma once

#include "kvmft/util.h"

struct sq;
struct sq_table;

/* Loads the library. 0, or -ENOSYS with err set: it is not installed. */
int sq_load(struct kvmft_err *err) __must_check;
/* fd: an empty file to read and write, borrowed. 0 or -errno; sq_free() in any case. */
int sq_new(int fd, struct sq **out) __must_check;
/*
 * A new table; sql is the statement that creates it, name as in that. 0 or -errno. If there is an
 * INTEGER PRIMARY KEY, it is the first column, and its value in rows is any: it is the row id.
 */
int sq_table(struct sq *s, const char *name, const char *sql, struct sq_table **out) __must_check;
/* A view, by the statement that creates it. 0 or -errno. */
int sq_view(struct sq *s, const char *sql) __must_check;

/*
 * The next value of the row. Values with bit 63 set become negative: there are no larger numbers.
 */
void sq_s64(struct sq *s, int64_t v);
void sq_null(struct sq *s);
/* Text made safe for a terminal by str_printable(); NULL becomes NULL. */
void sq_str(struct sq *s, const char *text);
void sq_str_mem(struct sq *s, const void *p, size_t n);
/* A number, or NULL. */
static inline void sq_known(struct sq *s, bool known, int64_t v)
{
	if (known)
		sq_s64(s, v);
	else
		sq_null(s);
}

/* The row is complete and goes into t. id is above that of the previous row. 0 or -errno. */
int sq_add(struct sq *s, struct sq_table *t, int64_t id) __must_check;
/* How many rows t has. */
uint64_t sq_rows(const struct sq_table *t);
/* Writes what is left. 0 or -errno; then only sq_free() may follow. */
int sq_finish(struct sq *s) __must_check;
void sq_free(struct sq *s); /* NULL is fine */

/* Adds a name, quoted as in SQL with double quotes. */
void sq_quote(struct sbuf *b, const char *name);
