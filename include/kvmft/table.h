/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h: tables for people and for programs. One function gives the cells of a row: each once,
 * with its name for programs, its head in text, its type, and where it appears. The same function
 * is called for the heads, where no value is looked at, to measure text, and to print.
 *
 *	static void cells(struct row *r, const void *ctx, size_t i)
 *	{
 *		const struct thing none = { 0 }, *t = r->head ? &none : (struct thing *)ctx + i;
 *
 *		cell_str(r, IN_ALL | COL_LEFT, "name", "Name", t->name);
 *		cell_u64(r, IN_ALL, "count", "Count", t->known, t->count);
 *		row_time(r, "total", true, t->total);
 *	}
 *
 *	const struct table t = { .cells = cells, .ctx = things, .n = 2 };
 */
#pragma once

#include "kvmft/hostmap.h"
#include "kvmft/json.h"

#define COLUMNS_MAX 16

enum {
	IN_TEXT = 1 << 0,
	IN_JSON = 1 << 1,
	IN_CSV = 1 << 2,
	IN_DATA = IN_JSON | IN_CSV,
	IN_ALL = IN_TEXT | IN_DATA,
	/* text: */
	COL_LEFT = 1 << 3,  /* begins at its left */
	COL_DROP1 = 1 << 4, /* left out first where a terminal is too narrow */
	COL_DROP2 = 1 << 5, /* ... and second */
	COL_MORE = 1 << 6,  /* ... and then in a table of its own, with the COL_NAMEs */
	COL_NAME = 1 << 7,
	COL_HIDE = 1 << 8,  /* left out */
	COL_ALONE = 1 << 9, /* a line of its own where the others have no room beside it */
};

struct row {
	enum { ROW_JSON = IN_JSON, ROW_CSV = IN_CSV, ROW_TEXT = IN_TEXT } form;
	bool head;	  /* names are wanted */
	bool cycles;	  /* times are cycles, else ns */
	bool filled;	  /* there is already a column */
	bool dim;	  /* text: of less weight */
	struct json *j;	  /* ROW_JSON */
	struct sbuf *b;	  /* else */
	struct {
		bool print;	      /* else measure */
		unsigned int at;      /* column of the next text */
		unsigned int left, hide, drop[2], more, name, alone; /* bit per column */
		unsigned int width[COLUMNS_MAX];
	} c; /* ROW_TEXT */
};

struct table {
	/* The cells of row i; none: it is left out. */
	void (*cells)(struct row *r, const void *ctx, size_t i);
	const void *ctx;
	size_t n;
	bool cycles;	    /* times are cycles, else ns */
	unsigned int width; /* text: of a terminal; 0: any */
	const unsigned int *fixed; /* ... widths that no cell changes, up to a 0; or NULL */
	bool bold, blank;   /* ... its head is; a line after it */
	bool cut;	    /* ... ends in "...": there are more rows */
	/* From time to time, with the text so far, to be emptied or not. -errno: of b->error. */
	int (*flush)(void *arg, struct sbuf *b);
	void *arg;
};

void table_text(const struct table *t, struct sbuf *b);
void table_csv(const struct table *t, bool head, struct sbuf *b);
/* As a member of an object, an array of objects. */
void table_json(const struct table *t, const char *key, struct json *j);
/* All of it, as CSV or as one JSON document, with the members that head() puts before the rows. */
void table_doc(const struct table *t, bool csv, const char *key,
	       void (*head)(struct json *j, const void *ctx), struct sbuf *b);

/* One row by itself. */
void row_json(struct row *r, struct json *j, bool cycles);
void row_end(struct row *r);

/* Cells. Unknown values are "-" in text, null in JSON and empty in CSV. */
void cell_str(struct row *r, unsigned int in, const char *name, const char *head, const char *text);
void cell_u64(struct row *r, unsigned int in, const char *name, const char *head, bool known,
	      uint64_t v);
/* Of text alone. */
void cell_text(struct row *r, unsigned int in, const char *head, const char *fmt, ...)
	__printf(4, 5);

/* Cells for programs. */
void row_str(struct row *r, const char *name, const char *text); /* NULL = not known */
void row_quoted(struct row *r, const char *name, const char *text); /* in CSV always with quotes */
void row_u64(struct row *r, const char *name, bool known, uint64_t v);
void row_s64(struct row *r, const char *name, bool known, int64_t v);
void row_bool(struct row *r, const char *name, bool known, bool v); /* CSV: 1 or 0 */
/* v / 10^scale, with that many decimals. */
void row_fixed(struct row *r, const char *name, uint64_t v, unsigned int scale);
/* NAME_cycles; or NAME_ns in JSON and NAME_us in CSV, with three decimals. */
void row_time(struct row *r, const char *name, bool known, uint64_t time);

/* Breaks lines of b->s[from..] at blanks to a width (0: does not); the next ones are indented. */
void text_wrap(struct sbuf *b, size_t from, const char *indent, unsigned int width);

/* "# ..." for each; on a terminal of that width (0 = not a terminal) broken to fit it. */
void text_remarks(struct sbuf *b, const char *const *remark, size_t n, unsigned int width);

/* ---- lines of metrics, valid both as OpenMetrics 1.0 and as the older Prometheus text ---- */

#define METRICS_VMS	1000u /* that have labels; the others are only counted */
#define METRICS_REASONS 100u  /* of a VM, the most frequent; a guest may choose them (--event) */

/* # TYPE and # HELP of a family; type: "gauge", "histogram". */
void metric_head(struct sbuf *b, const char *name, const char *type, const char *help);
/*
 * NAME="VALUE", after a comma unless it is the first: backslash, quote and newline are escaped, and
 * it is made UTF-8; NULL is "".
 */
void metric_label(struct sbuf *b, const char *name, const char *value);
/*
 * vm="...",uuid="..." of a VM, one of vms (the first of them); NULL: unknown. Of those with the
 * same name all but the first have number="2" and so on: no two samples may have the same labels.
 */
void metric_vm(struct sbuf *b, const struct hostmap_vm *vms, const struct hostmap_vm *vm);
/* The begin of a line of a VM, up to its value: name, these labels, and one more; or NULL. */
void metric_of_vm(struct sbuf *b, const char *name, const struct hostmap_vm *vms,
		  const struct hostmap_vm *vm, const char *label, const char *value);
void metric_seconds(struct sbuf *b, uint64_t ns); /* ns in seconds, exactly */
