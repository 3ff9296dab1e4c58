/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * database.h: everything that captures contain, as tables of an SQLite database, described in
 * kvmft-sql(7).
 *
 * Rows are written as they come, and only names of types are kept. All text from guests and files
 * is made printable, and names of events and fields are quoted.
 */
#pragma once

#include "kvmft/blame.h"
#include "kvmft/latency.h"
#include "kvmft/output.h"
#include "kvmft/report.h"
#include "kvmft/windows.h"

struct db;

/*
 * fd: an empty file to write, borrowed like everything else. Stamps are in the given clock. 0 or
 * -ENOMEM; db_free() in any case.
 */
int db_new(int fd, const struct timeline *t, const struct out_clock *clock,
	   struct db **out) __must_check;
/*
 * Events, losses and damage, in the order of the walk. 0 or -errno; what fails elsewhere is told by
 * the next db_item(), or db_finish().
 */
int db_item(struct db *d, const struct tl_item *i) __must_check;
/* A callback for win_each(). */
void db_window(void *db, const struct win_vcpu *v, uint64_t exit);
/* A callback for lat_opts.each; of this analysis. */
void db_latency(struct db *d, const struct lat *l);
void db_case(void *db, enum lat_table_id id, const struct lat_case *c);
/* After the walk: who there is, what was lost, and how well clocks align; w may be NULL. */
void db_walked(struct db *d, const struct windows *w);
/* After blame_explained(). */
void db_spikes(struct db *d, const struct blame *b);
/* A callback for report_opts.each: samples of class vmexit that begin at host TSC from..to. */
void db_span(struct db *d, uint64_t from, uint64_t to);
int db_sample(void *db, const struct report *r, const struct report_sample *s) __must_check;
/* A remark on what is missing. */
void db_note(struct db *d, const char *text);
/* What it has no room for, as its notes say, too; NULL: nothing. Known after the last event. */
const char *db_lacks(const struct db *d);
int db_finish(struct db *d) __must_check;
uint64_t db_rows(const struct db *d); /* of all tables */
void db_free(struct db *d); /* NULL is fine */
