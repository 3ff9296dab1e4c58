/* SPDX-License-Identifier: GPL-2.0-or-later */
/* by_stack_out.c: `kvmft report --by stack` as text, JSON or CSV. */
#include "kvmft/results.h"
#include "kvmft/table.h"

#define NAME_WIDTH 44

struct doc {
	const struct by_stack *b;
	const struct capture *cap;
	size_t rows;
	struct sbuf *out;
};

/* Percent times 100, rounded. */
static uint64_t stack_share(const struct doc *d, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)n * 10000 + d->b->stacks / 2) / d->b->stacks);
}

/* Calls one() with each function of a stack. */
static void each_function(const char *stack, void (*one)(void *arg, const char *p, size_t n),
			  void *arg)
{
	for (const char *p = stack, *end; p; p = end ? end + strlen(BY_STACK_BETWEEN) : NULL) {
		end = strstr(p, BY_STACK_BETWEEN);
		one(arg, p, end ? (size_t)(end - p) : strlen(p));
	}
}

/* ---- text ---- */

static void text_function(void *arg, const char *p, size_t n)
{
	sbuf_add(arg, "    ");
	sbuf_add_mem(arg, p, n);
	sbuf_addc(arg, '\n');
}

/* ---- for programs ---- */

static void json_function(void *arg, const char *p, size_t n)
{
	json_str_mem(arg, p, n);
}

static void stack_cells(struct row *o, const void *ctx, size_t i)
{
	const struct doc *d = ctx;
	const struct by_stack_row none = { 0 };
	const struct by_stack_row r = o->head ? none : by_stack_row(d->b->rows.row[i].text);
	uint64_t n = o->head ? 0 : d->b->rows.row[i].n;

	row_str(o, "event", r.event);
	row_str(o, "reason", r.reason && *r.reason ? r.reason : NULL);
	row_u64(o, "samples", true, n);
	row_fixed(o, "samples_pct", stack_share(d, n), 2);
	if (o->form == ROW_JSON) {
		json_put_array(o->j, "stack");
		each_function(r.stack, json_function, o->j);
		json_array_end(o->j);
	} else {
		row_quoted(o, "stack", r.stack);
	}
}

static void stack_json_head(struct json *j, const void *ctx)
{
	const struct doc *d = ctx;

	json_put_str(j, "capture", d->cap->path);
	json_put_str(j, "by", "stack");
	json_put_u64(j, "events", d->b->events);
	json_put_known_u64(j, "lost", !d->b->lost_unknown, d->b->lost);
	json_put_u64(j, "stacks", d->b->stacks);
	json_put_u64(j, "without_row", d->b->rows.others);
	json_put_u64(j, "without_event", d->b->apart);
}

static int stack_write_out(void *f, struct sbuf *b)
{
	return sbuf_write(b, f);
}

/* ---- all of it ---- */

int by_stack_print(struct by_stack *b, const struct capture *cap, size_t top, const char *format,
		   FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	const struct doc d = { .b = b, .cap = cap, .out = &out,
			       .rows = top ? MIN(top, b->rows.n) : b->rows.n };
	const struct table t = {
		.cells = stack_cells, .ctx = &d, .n = d.rows, .flush = stack_write_out, .arg = f
	};
	int ret = 0;

	if (strcmp(format, "text")) {
		ret = table_doc(&t, !strcmp(format, "csv"), "rows", stack_json_head, &out);
		return ret ?: sbuf_write(&out, f);
	}
	sbuf_addf(d.out, "%llu stacks, the innermost function first\n\n%-*s %10s %9s\n\n",
		  (unsigned long long)d.b->stacks, NAME_WIDTH, "Event", "Samples", "Samples%");
	for (size_t i = 0; i < d.rows && !ret; i++) {
		const struct by_stack_row r = by_stack_row(b->rows.row[i].text);
		uint64_t pct = stack_share(&d, b->rows.row[i].n);
		size_t at = d.out->len;

		sbuf_addf(d.out, "%s%s%s", r.event, *r.reason ? " " : "", r.reason);
		sbuf_addf(d.out, "%*s %10llu %5llu.%02llu%%\n",
			  (int)(NAME_WIDTH - MIN(d.out->len - at, (size_t)NAME_WIDTH)), "",
			  (unsigned long long)b->rows.row[i].n, (unsigned long long)(pct / 100),
			  (unsigned long long)(pct % 100));
		each_function(r.stack, text_function, d.out);
		sbuf_addc(d.out, '\n');
		ret = sbuf_write(&out, f);
	}
	if (d.rows < d.b->rows.n)
		sbuf_addf(d.out, "%zu more stacks are not shown\n", d.b->rows.n - d.rows);
	if (d.b->rows.others)
		sbuf_addf(d.out,
			  "%llu stacks are in no row: more differ than are kept in memory\n",
			  (unsigned long long)d.b->rows.others);
	if (d.b->apart)
		sbuf_addf(d.out, "%llu stacks whose event is missing: left out\n",
			  (unsigned long long)d.b->apart);
	return ret ?: sbuf_write(&out, f);
}
