/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_out.c: a report as text, JSON and CSV.
 *
 * The text is laid out like that of `perf kvm stat report` (tools/perf/builtin-kvm.c of Linux 6.12),
 * down to the blanks, so that what reads perf's tables reads these; what perf does not have comes
 * to the right of its columns or behind its tables, in lines that begin with '#'.
 */
#include "kvmft/report_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/json.h"
#include "kvmft/output.h"

/* Columns of --split; also the keys of JSON and CSV, with the unit behind them. */
static const struct {
	const char *name, *head;
} parts[REPORT_PARTS] = {
	[PART_KERNEL] = { "kernel", "Kernel" },
	[PART_USER] = { "user", "User" },
	[PART_POLL] = { "poll", "Poll" },
	[PART_BLOCKED] = { "blocked", "Blocked" },
	[PART_RUNNABLE] = { "runnable", "Runnable" },
	[PART_PREEMPTED] = { "preempted", "Preempted" },
};

#define FLUSH_AT (64u << 10)

/* Between two rows: nothing that was written is needed again. */
static void flush(const struct report_doc *d, struct sbuf *b)
{
	if (b->len >= FLUSH_AT)
		d->flush(d->arg, b);
}

static size_t rows_of(const struct report_doc *d, const struct report_table *t)
{
	return d->top ? MIN(d->top, t->n) : t->n;
}

/* Makes a section's table; when that fails it is out's error. */
static int make_table(const struct report_doc *d, const struct report_section *s, struct report_table *t,
		      struct sbuf *out)
{
	int ret = report_table(d->r, &s->of, d->key, t);

	if (ret && !out->error)
		out->error = ret;
	return ret;
}

/* ---- text ---- */

/* Floats, for perf prints floats: the last digit of its tables is theirs. width is without the unit. */
static void add_time(const struct report_doc *d, struct sbuf *b, int width, double time)
{
	if (report_in_cycles(d->r))
		sbuf_addf(b, "%*.0f ", width + 2, time);
	else
		sbuf_addf(b, "%*.2fus ", width, time / 1000);
}

/* A sum in a sentence. */
static void add_sum(const struct report_doc *d, struct sbuf *b, const char *what, uint64_t time)
{
	if (report_in_cycles(d->r))
		sbuf_addf(b, "%s:%" PRIu64 " cycles", what, time);
	else
		sbuf_addf(b, "%s:%.2fus", what, (double)time / 1000);
}

static void add_pct(struct sbuf *b, uint64_t part, uint64_t whole)
{
	sbuf_addf(b, "%8.2f%% ", whole ? (double)part / (double)whole * 100 : 0.0);
}

static void text_whose(const struct report_doc *d, const struct report_section *s, struct sbuf *b)
{
	if (s->all && d->pids)
		sbuf_addf(b, "pid(s) %s, ", d->pids);
	else if (s->all)
		sbuf_add(b, "all VMs, ");
	else if (s->vm)
		sbuf_addf(b, "VM %s, ", s->vm->label);
	else
		sbuf_add(b, "unknown VM, ");
	if (s->of.vcpu >= 0)
		sbuf_addf(b, "VCPU %" PRId64 ":\n\n", s->of.vcpu);
	else if (s->of.tid)
		sbuf_addf(b, "thread %d:\n\n", s->of.tid);
	else
		sbuf_add(b, "all VCPUs:\n\n");
}

static void text_row(const struct report_doc *d, const struct report_table *t,
		     const struct report_row *row, struct sbuf *b)
{
	char name[REPORT_NAME];

	report_row_name(d->r, row, name);
	sbuf_addf(b, "%40s %10" PRIu64 " ", name, row->samples);
	add_pct(b, row->samples, t->samples);
	add_pct(b, row->total_time, t->total_time);
	add_time(d, b, 9, (double)row->min_time);
	add_time(d, b, 9, (double)row->max_time);
	add_time(d, b, 9, row->timed ? (double)row->total_time / (double)row->timed : 0);
	sbuf_addf(b, "( +-%4u.%02u%% )", row->stderr_pct / 100, row->stderr_pct % 100);
	if (d->opts->percentiles)
		sbuf_addc(b, ' ');
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++) {
		if (row->counted)
			add_time(d, b, 9, (double)row->percentile_time[i]);
		else
			sbuf_addf(b, "%11s ", "-");
	}
	sbuf_addc(b, '\n');
	flush(d, b);
}

static void text_split(const struct report_doc *d, const struct report_table *t, struct sbuf *b)
{
	sbuf_addf(b, "%40s %14s ", "Where the time went", report_in_cycles(d->r) ? "Total cycles" : "Total time");
	for (int p = 0; p < REPORT_PARTS; p++)
		sbuf_addf(b, "%9s ", parts[p].head);
	sbuf_add(b, "\n\n");
	for (size_t i = 0; i <= rows_of(d, t); i++) {
		const struct report_row *row = i < rows_of(d, t) ? &t->row[i] : NULL;
		const uint64_t *part = row ? row->part_time : t->part_time;
		uint64_t total = row ? row->total_time : t->total_time;
		char name[REPORT_NAME] = "all";

		if (row)
			report_row_name(d->r, row, name);
		sbuf_addf(b, "%40s ", name);
		add_time(d, b, 12, (double)total);
		for (int p = 0; p < REPORT_PARTS; p++)
			add_pct(b, part[p], total);
		sbuf_addc(b, '\n');
		flush(d, b);
	}
	add_sum(d, b, "\nGuest run time", t->guest_time);
	sbuf_addf(b, " in %" PRIu64 " entries.\n\n", t->windows);
}

static void text_section(const struct report_doc *d, const struct report_section *s,
			 struct sbuf *b)
{
	bool cycles = report_in_cycles(d->r);
	struct report_table t;
	size_t n;

	if (make_table(d, s, &t, b))
		return;
	n = rows_of(d, &t);
	sbuf_add(b, "\n\nAnalyze events for ");
	text_whose(d, s, b);
	sbuf_addf(b, "%40s %10s %9s %9s %11s %11s %16s ", class_title(d->opts->cls), "Samples",
		  "Samples%", "Time%", cycles ? "Min cycles" : "Min Time", cycles ? "Max cycles" : "Max Time",
		  cycles ? "Avg cycles" : "Avg time");
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++)
		sbuf_addf(b, "%*sp%u ", i ? 8 : 15, "", report_percentiles[i]);
	sbuf_add(b, "\n\n");
	for (size_t i = 0; i < n; i++)
		text_row(d, &t, &t.row[i], b);
	if (n < t.n)
		sbuf_addf(b, "%40s\n", "...");
	sbuf_addf(b, "\nTotal Samples:%" PRIu64 ", ", t.samples);
	add_sum(d, b, "Total events handled time", t.total_time);
	sbuf_add(b, ".\n\n");
	if (d->opts->split)
		text_split(d, &t, b);
	report_table_free(&t);
}

static void text_notes(const struct report_doc *d, struct sbuf *b)
{
	const struct report_totals *t = report_totals(d->r);
	const char *note;

	sbuf_addf(b, "# lost events: %" PRIu64 "%s; pairs dropped at gaps: %" PRIu64 "\n", d->lost,
		  d->lost_unknown ? " or more" : "", t->dropped);
	for (size_t i = 0; (note = report_note(d->r, i)); i++)
		sbuf_addf(b, "# %s\n", note);
	for (size_t i = 0; i < d->nremark; i++)
		sbuf_addf(b, "# %s\n", d->remark[i]);
}

static void text_print(const struct report_doc *d, struct sbuf *b)
{
	struct report_section s;

	while (!b->error && d->next(d->arg, &s))
		text_section(d, &s, b);
	text_notes(d, b);
}

/* ---- JSON ---- */

static void field_pct(struct json *j, const char *key, uint32_t v)
{
	json_put_fixed(j, key, v, 2);
}

static void key_time(const struct report_doc *d, struct json *j, const char *name)
{
	char key[32];

	snprintf(key, sizeof(key), "%s_%s", name, report_in_cycles(d->r) ? "cycles" : "ns");
	json_key(j, key);
}

static void field_time(const struct report_doc *d, struct json *j, const char *name, uint64_t v)
{
	key_time(d, j, name);
	json_u64(j, v);
}

static void json_parts(const struct report_doc *d, struct json *j, const uint64_t *part)
{
	for (int p = 0; p < REPORT_PARTS; p++)
		field_time(d, j, parts[p].name, part[p]);
}

static void json_row(const struct report_doc *d, const struct report_row *row, struct json *j)
{
	char name[REPORT_NAME];

	report_row_name(d->r, row, name);
	json_object_begin(j);
	json_put_str(j, "event", name);
	json_put_u64(j, "samples", row->samples);
	json_put_u64(j, "timed", row->timed);
	field_pct(j, "samples_pct", row->samples_pct);
	field_pct(j, "time_pct", row->time_pct);
	field_time(d, j, "total", row->total_time);
	field_time(d, j, "min", row->min_time);
	field_time(d, j, "max", row->max_time);
	field_time(d, j, "avg", row->avg_time);
	field_pct(j, "stderr_pct", row->stderr_pct);
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++) {
		char key[16];

		snprintf(key, sizeof(key), "p%u", report_percentiles[i]);
		key_time(d, j, key);
		if (row->counted)
			json_u64(j, row->percentile_time[i]);
		else
			json_null(j);
	}
	if (d->opts->split)
		json_parts(d, j, row->part_time);
	json_object_end(j);
}

static void json_section(const struct report_doc *d, const struct report_section *s,
			 struct json *j)
{
	struct report_table t;

	if (make_table(d, s, &t, j->out))
		return;
	json_object_begin(j);
	json_put_str(j, "vm", s->vm ? s->vm->label : NULL);
	json_put_str(j, "vm_id", s->vm && s->vm->cap ? s->vm->cap->id : NULL);
	json_put_str(j, "uuid", s->vm && s->vm->cap ? s->vm->cap->uuid : NULL);
	json_put_known_s64(j, "vcpu", s->of.vcpu >= 0, s->of.vcpu);
	json_put_known_s64(j, "tid", s->of.tid, s->of.tid);
	json_put_u64(j, "vcpus", t.vcpus);
	json_put_u64(j, "total_samples", t.samples);
	field_time(d, j, "total", t.total_time);
	if (d->opts->split) {
		json_parts(d, j, t.part_time);
		field_time(d, j, "guest", t.guest_time);
		json_put_u64(j, "entries", t.windows);
	}
	json_put_u64(j, "rows_total", t.n);
	json_put_array(j, "rows");
	for (size_t i = 0; i < rows_of(d, &t); i++) {
		json_row(d, &t.row[i], j);
		flush(d, j->out);
	}
	json_array_end(j);
	json_object_end(j);
	report_table_free(&t);
}

static void json_totals(const struct report_doc *d, struct json *j)
{
	const struct report_totals *t = report_totals(d->r);

	json_put_u64(j, "events", t->events);
	json_put_u64(j, "lost", d->lost);
	json_put_bool(j, "lost_unknown", d->lost_unknown);
	json_put_u64(j, "gaps", t->gaps);
	json_put_u64(j, "damaged", t->damaged);
	json_put_u64(j, "dropped_pairs", t->dropped);
	json_put_u64(j, "without_begin", t->no_begin);
	json_put_u64(j, "without_entry", t->no_end);
	json_put_u64(j, "open_at_end", t->open);
	json_put_u64(j, "negative", t->negative);
	json_put_u64(j, "backwards", t->backwards);
	json_put_u64(j, "crowded", t->crowded);
	json_put_u64(j, "without_histogram", t->no_hist);
	json_put_u64(j, "left_out", t->left_out);
	json_put_u64(j, "misplaced", t->misplaced);
	if (d->opts->split) {
		json_put_u64(j, "halt_poll_grow", t->poll_grow);
		json_put_u64(j, "halt_poll_shrink", t->poll_shrink);
	}
}

static void json_print(const struct report_doc *d, struct sbuf *b)
{
	struct report_section s;
	const char *note;
	struct json j;

	json_line_begin(&j, b);
	json_put_str(&j, "class", class_name(d->opts->cls));
	json_put_str(&j, "semantics", d->opts->semantics == REPORT_PERF ? "perf" : "exact");
	json_put_str(&j, "unit", report_in_cycles(d->r) ? "cycles" : "ns");
	out_json_rate(&j, d->cap);
	json_totals(d, &j);
	json_put_array(&j, "notes");
	for (size_t i = 0; (note = report_note(d->r, i)); i++)
		json_str(&j, note);
	for (size_t i = 0; i < d->nremark; i++)
		json_str(&j, d->remark[i]);
	json_array_end(&j);
	json_put_array(&j, "sections");
	while (!b->error && d->next(d->arg, &s))
		json_section(d, &s, &j);
	json_array_end(&j);
	if (json_line_end(&j) && !b->error)
		b->error = -EINVAL;
}

/* ---- CSV ---- */

static void csv_time(const struct report_doc *d, struct sbuf *b, uint64_t v)
{
	if (report_in_cycles(d->r))
		sbuf_addf(b, ",%" PRIu64, v);
	else
		sbuf_add_csv_us(b, v);
}

static void csv_pct(struct sbuf *b, uint32_t v)
{
	sbuf_addf(b, ",%u.%02u", v / 100, v % 100);
}

static void csv_row(const struct report_doc *d, const struct report_section *s,
		    const struct report_row *row, struct sbuf *b)
{
	char name[REPORT_NAME];

	report_row_name(d->r, row, name);
	sbuf_add_csv(b, s->vm ? s->vm->label : NULL);
	sbuf_addc(b, ',');
	if (s->of.vcpu >= 0)
		sbuf_add_s64(b, s->of.vcpu);
	sbuf_addc(b, ',');
	sbuf_add_csv(b, name);
	sbuf_addf(b, ",%" PRIu64, row->samples);
	csv_pct(b, row->samples_pct);
	csv_pct(b, row->time_pct);
	csv_time(d, b, row->min_time);
	csv_time(d, b, row->max_time);
	csv_time(d, b, row->avg_time);
	csv_pct(b, row->stderr_pct);
	csv_time(d, b, row->total_time);
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++) {
		if (row->counted)
			csv_time(d, b, row->percentile_time[i]);
		else
			sbuf_addc(b, ',');
	}
	for (int p = 0; d->opts->split && p < REPORT_PARTS; p++)
		csv_time(d, b, row->part_time[p]);
	sbuf_addc(b, '\n');
	flush(d, b);
}

static void csv_print(const struct report_doc *d, struct sbuf *b)
{
	const char *u = report_in_cycles(d->r) ? "cycles" : "us";
	struct report_section s;

	sbuf_addf(b, "vm,vcpu,event,samples,samples_pct,time_pct,min_%s,max_%s,avg_%s,stderr_pct,total_%s", u, u, u, u);
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++)
		sbuf_addf(b, ",p%u_%s", report_percentiles[i], u);
	for (int p = 0; d->opts->split && p < REPORT_PARTS; p++)
		sbuf_addf(b, ",%s_%s", parts[p].name, u);
	sbuf_addc(b, '\n');
	while (!b->error && d->next(d->arg, &s)) {
		struct report_table t;

		if (make_table(d, &s, &t, b))
			return;
		for (size_t k = 0; k < rows_of(d, &t); k++)
			csv_row(d, &s, &t.row[k], b);
		report_table_free(&t);
	}
}

static const struct report_format formats[] = {
	{ "text", true, text_print },
	{ "json", true, json_print },
	{ "csv", false, csv_print },
};

const struct report_format *report_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}
