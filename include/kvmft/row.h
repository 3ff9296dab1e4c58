/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * row.h: rows of a table for programs. One function names the columns and gives their values, and
 * the row is printed as members of a JSON object, as a line of CSV, or as the header of CSV.
 *
 *	static void columns(struct row *r, const struct thing *t)
 *	{
 *		row_str(r, "name", t->name);
 *		row_u64(r, "count", t->known, t->count);
 *	}
 *
 *	row_head(&r, b, false);  columns(&r, &(struct thing){ 0 });  row_end(&r);	name,count
 *	row_csv(&r, b, false);   columns(&r, t);                     row_end(&r);	x,17
 *	row_json(&r, &j, false); columns(&r, t);                     row_end(&r);
 *							{"name":"x","count":17}
 */
#ifndef KVMFT_ROW_H
#define KVMFT_ROW_H

#include "kvmft/json.h"

struct row {
	enum { ROW_JSON, ROW_CSV, ROW_HEAD } form;
	struct json *j;	 /* ROW_JSON */
	struct sbuf *b;	 /* else */
	bool cycles;	 /* times are cycles, else ns */
	bool filled;	 /* there is already a column */
};

/* Begin a row. */
void row_json(struct row *r, struct json *j, bool cycles);
void row_csv(struct row *r, struct sbuf *b, bool cycles);
void row_head(struct row *r, struct sbuf *b, bool cycles);
void row_end(struct row *r);

/* Columns. Unknown values are null in JSON and empty in CSV; for a header no value is looked at. */
void row_str(struct row *r, const char *name, const char *text); /* NULL = not known */
void row_quoted(struct row *r, const char *name, const char *text); /* in CSV always with quotes */
void row_u64(struct row *r, const char *name, bool known, uint64_t v);
void row_s64(struct row *r, const char *name, bool known, int64_t v);
void row_bool(struct row *r, const char *name, bool known, bool v); /* CSV: 1 or 0 */
/* v / 10^scale, with that many decimals. */
void row_fixed(struct row *r, const char *name, uint64_t v, unsigned int scale);
/* NAME_cycles; or NAME_ns in JSON and NAME_us in CSV, with three decimals. */
void row_time(struct row *r, const char *name, bool known, uint64_t time);

#endif
