/* SPDX-License-Identifier: GPL-2.0-or-later */
/* diff_out.c: what differs between two recordings, as text of 80 columns, JSON and CSV. */
#include "kvmft/diff.h"
#include "kvmft/results.h"

#include "kvmft/table.h"

#define CHANGE_X 10 /* from this ratio on a change is shown as a factor */

static const char *const side_names[2] = { "before", "after" };

static bool row_shown(const struct diff_doc *doc, const struct diff_row *r)
{
	return doc->all || (!r->implied && (doc->d->beyond ? r->beyond : r->differs));
}

/* ---- text ---- */

static const char *const measure_texts[DIFF_MEASURES] = {
	[DIFF_RATE] = "per second",
	[DIFF_PER_GUEST] = "per guest s",
	[DIFF_PER_OP] = "per operation",
	[DIFF_MEAN] = "mean time",
	[DIFF_P50] = "median time",
	[DIFF_P99] = "99 % below",
	[DIFF_SHARE] = "of a CPU",
	"in kernel", "in user space", "polling", "asleep", "waiting", "preempted",
};

static void value_text(const struct diff *d, enum diff_measure m, double v, char *buf, size_t n)
{
	if (m >= DIFF_SHARE)
		snprintf(buf, n, "%.2f%%", v * 100);
	else if (m <= DIFF_PER_OP)
		snprintf(buf, n, v < 100 ? "%.2f" : "%.1f", v);
	else if (d->cycles)
		snprintf(buf, n, "%.0f cycles", v);
	else
		snprintf(buf, n, v < 1e8 ? "%.2fus" : "%.0fus", v / 1000);
}

static void text_side(const struct diff_doc *doc, int i, struct sbuf *b)
{
	const struct diff_side *s = &doc->d->side[i];
	char path[256];

	snprintf(path, sizeof(path), "%s", s->path);
	str_printable(path);
	if (s->more)
		snprintf(path + MIN(strlen(path), sizeof(path) - 32), 32, " and %zu more", s->more);
	sbuf_addf(b, doc->d->cycles ? "%-7s %s: %.0f cycles" : "%-7s %s: %.3f s", side_names[i],
		  path, (double)s->exits.length / (doc->d->cycles ? 1 : 1e9));
	if (s->ops)
		sbuf_addf(b, ", %" PRIu64 " operations", s->ops);
	sbuf_addf(b, ", %" PRIu64 " %s of %" PRIu64 " VM%s, %" PRIu64 " vCPU%s\n", s->samples,
		  strcmp(doc->what, "vmexit") ? doc->what : "exits", s->vms, s->vms == 1 ? "" : "s",
		  s->vcpus, s->vcpus == 1 ? "" : "s");
}

/* A name is not repeated below itself. */
static const char *name_below(const struct diff_doc *doc, const struct row *o,
			      const struct diff_row *r)
{
	const struct diff_row *above = r;

	while (!o->head && above-- > doc->d->row)
		if (row_shown(doc, above))
			return above->beyond && r->beyond && !strcmp(above->name, r->name)
				       ? ""
				       : r->name;
	return r->name;
}

static void diff_cells(struct row *o, const void *ctx, size_t i)
{
	static const char *const units[DIFF_MEASURES] = {
		[DIFF_RATE] = "1/s", [DIFF_PER_GUEST] = "1/s", [DIFF_PER_OP] = "1/op",
		[DIFF_MEAN] = "ns",  [DIFF_P50] = "ns",	       [DIFF_P99] = "ns",
	};
	static const char *const cycles[DIFF_MEASURES] = {
		[DIFF_RATE] = "1/10^9 cycles", [DIFF_PER_GUEST] = "1/10^9 cycles",
		[DIFF_PER_OP] = "1/op",	       [DIFF_MEAN] = "cycles",
		[DIFF_P50] = "cycles",	       [DIFF_P99] = "cycles",
	};
	static const char *const rate_texts[] = {
		[DIFF_RATE] = "per 10^9 cycles", [DIFF_PER_GUEST] = "... of guest",
	};
	static const struct diff_row none;
	const struct diff_doc *doc = ctx;
	const struct diff_row *r = o->head ? &none : &doc->d->row[i];
	char text[32];
	bool rate;
	double least, a, b;

	/* JSON has all. */
	if (!o->head && o->form != ROW_JSON &&
	    !(o->form == ROW_TEXT ? row_shown(doc, r) : doc->all || r->beyond))
		return;
	row_str(o, "kind", diff_kinds[r->kind]);
	row_str(o, "name", r->name);
	row_str(o, "measure", diff_measures[r->measure]);
	row_str(o, "unit", (doc->d->cycles ? cycles : units)[r->measure] ?: "CPU");
	cell_text(o, COL_LEFT, "What changed", "%s", name_below(doc, o, r));
	cell_text(o, COL_LEFT, "", "%s", doc->d->cycles && r->measure <= DIFF_PER_GUEST ?
		  rate_texts[r->measure] : measure_texts[r->measure]);
	for (int s = 0; s < 2; s++) {
		/* Rates in thousandths, times in tenths of a ns, shares in millionths. */
		a = r->value[s];
		value_text(doc->d, r->measure, a, text, sizeof(text));
		cell_text(o, 0, side_names[s], "%s", text);
		if (r->measure >= DIFF_SHARE)
			row_fixed(o, side_names[s], (uint64_t)(MIN(a, 1e12) * 1e6 + 0.5), 6);
		else if (r->measure <= DIFF_PER_OP)
			row_fixed(o, side_names[s], (uint64_t)(MIN(a, 1e15) * 1e3 + 0.5), 3);
		else
			row_fixed(o, side_names[s], (uint64_t)(MIN(a, 1e17) * 10 + 0.5), 1);
	}
	rate = r->measure <= DIFF_PER_OP;
	least = r->measure >= DIFF_SHARE ? 0.5e-4 : 0;
	a = r->value[0] < least ? 0 : r->value[0];
	b = r->value[1];
	if (!(a > 0))
		cell_text(o, 0, "change", "%s", !(b > 0) ? "-" : rate ? "new" : "from 0");
	else if (!(b > 0) && rate)
		cell_text(o, 0, "change", "gone");
	else if (b >= CHANGE_X * a)
		cell_text(o, 0, "change", "x%.3g", b / a);
	else
		cell_text(o, 0, "change", "%+.1f%%", (b / a - 1) * 100);
	cell_text(o, 0, "effect", "%s", r->lead ? TEXTF("%.2f%%", r->effect * 100) : "");
	cell_text(o, COL_LEFT, "chance", "%s%s",
		  r->chance < 0.001 ? "<0.001" : TEXTF("%.3f", r->chance),
		  r->beyond ? "" : r->differs ? " -" : " ~");
	o->dim = doc->color && !r->lead && !o->head;
	row_fixed(o, "surely", (uint64_t)(r->surely * 1e4), 4);
	row_fixed(o, "chance", (uint64_t)(r->chance * 1e4 + 0.5), 4);
	row_bool(o, "beyond_noise", true, r->differs);
	row_str(o, "group", r->group ?: "");
	row_fixed(o, "effect", (uint64_t)(MIN(r->effect, 1e12) * 1e6 + 0.5), 6);
	row_bool(o, "lead", true, r->lead);
	row_bool(o, "surely_by_than", true, r->beyond);
	if (r->smallest > 0)
		row_fixed(o, "smallest_shown", (uint64_t)(MIN(r->smallest, 1e12) * 1e4 + 0.5), 4);
	else
		row_str(o, "smallest_shown", NULL);
}

static struct table diff_table_of(const struct diff_doc *doc)
{
	return (struct table){ .cells = diff_cells, .ctx = doc, .n = doc->d->n,
			       .bold = doc->color };
}

void diff_gate_text(const struct diff *d, const struct diff_gate *g, struct sbuf *b)
{
	static const char *const heads[] = { "PASS", "FAIL", "CANNOT TELL" };
	char value[2][32], text[256];
	double change;

	snprintf(text, sizeof(text), "%s", g->text);
	str_printable(text);
	sbuf_addf(b, "%-11s  %s: ", heads[g->verdict], text);
	if (g->why) {
		sbuf_add(b, g->why);
		return;
	}
	for (int s = 0; s < 2; s++)
		value_text(d, g->measure, g->value[s], value[s], sizeof(value[s]));
	sbuf_addf(b, "%s, then %s", value[0], value[1]);
	if (!(g->value[0] > 0)) {
		sbuf_addf(b, " (chance %.3f)", g->chance);
		return;
	}
	change = g->value[1] / g->value[0] - 1;
	sbuf_addf(b, ", %+.1f %%", change * 100);
	if (!(g->error > 0))
		sbuf_addf(b, " (chance %.3f)", g->chance);
	else if (g->verdict == DIFF_FAIL)
		sbuf_addf(b, " +-%.1f %%", g->error * 100);
	else
		sbuf_addf(b, " +-%.1f %% (it would fail from %+.1f %% on)", g->error * 100,
			  (g->less ? g->limit - g->error : g->limit + g->error) * 100);
}

static void xml_text(struct sbuf *b, const char *s)
{
	for (; *s; s++)
		if (*s == '<' || *s == '>' || *s == '&' || *s == '"')
			sbuf_addf(b, "&#%d;", *s);
		else
			sbuf_addc(b, *s);
}

/* What is not known is skipped. */
static void junit_print(const struct diff *d, struct sbuf *b)
{
	static const char *const elements[] = { NULL, "failure", "skipped" };
	size_t n[3] = { 0 };

	for (size_t i = 0; i < d->ngate; i++)
		n[d->gate[i].verdict]++;
	sbuf_addf(
		b,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"kvmft diff\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
		"skipped=\"%zu\">\n",
		d->ngate, n[DIFF_FAIL], n[DIFF_CANNOT_TELL]);
	for (size_t i = 0; i < d->ngate; i++) {
		_cleanup_(sbuf_free) struct sbuf line = { 0 };
		const struct diff_gate *g = &d->gate[i];
		const char *element = elements[g->verdict];
		char text[256];

		snprintf(text, sizeof(text), "%s", g->text);
		str_printable(text);
		diff_gate_text(d, g, &line);
		sbuf_add(b, "  <testcase classname=\"kvmft.diff\" name=\"");
		xml_text(b, text);
		sbuf_addf(b, "\">%s%s", element ? "<" : "<system-out>", element ? element : "");
		if (element)
			sbuf_add(b, " message=\"");
		xml_text(b, line.s);
		sbuf_add(b, element ? "\"/>" : "</system-out>");
		sbuf_add(b, "</testcase>\n");
	}
	sbuf_add(b, "</testsuite>\n");
}

static void diff_text(const struct diff_doc *doc, struct sbuf *b)
{
	const struct diff *d = doc->d, *diff;
	size_t implied = 0;
	char text[32];

	text_side(doc, 0, b);
	text_side(doc, 1, b);
	diff = doc->d;
	if (!diff->nfact)
		sbuf_add(b, "machines: alike, as far as the captures tell\n");
	for (size_t k = 0; k < diff->nfact; k++) {
		const struct diff_fact *f = &diff->fact[k];
		bool narrow = strlen(f->name) + strlen(f->value[0]) + strlen(f->value[1]) < 60;

		sbuf_addf(b,
			  narrow ? "differs %s: %s, then %s\n"
				 : "differs %s:\n          %s\n          %s\n",
			  f->name, f->value[0], f->value[1]);
	}
	text_remarks(b, doc->remark, doc->nremark, doc->width);
	for (size_t i = 0; i < d->ngate; i++) {
		sbuf_add(b, i ? "" : "\n");
		diff_gate_text(d, &d->gate[i], b);
		sbuf_addc(b, '\n');
	}
	for (size_t i = 0; i < d->n; i++)
		implied += d->row[i].differs && d->row[i].implied;
	if (!d->differ)
		sbuf_add(b, "\nno difference beyond noise\n");
	if (d->differ || doc->all) {
		const struct table t = diff_table_of(doc);

		sbuf_addc(b, '\n');
		table_text(&t, b);
	}
	sbuf_add(b, "\n");
	/* How sure is one thing, how large another. */
	if (d->differ) {
		sbuf_addf(b, "%zu row%s (chance below 1 %%), ", d->differ,
			  d->differ > 1 ? "s differ" : " differs");
		snprintf(text, sizeof(text), "%zu", d->beyond);
		sbuf_addf(b, "%s surely by %.0f %%%s\n", d->beyond ? text : "none", d->least * 100,
			  d->beyond < d->differ ? " (others: -)" : "");
	}
	if (d->smallest > 0)
		sbuf_addf(b, "half of the rows would have shown a change of %.*f %%\n",
			  d->smallest < 0.1 ? 1 : 0, d->smallest * 100);
	if (d->enough_ns && d->cycles)
		sbuf_addf(b,
			  "to show one of %.0f %%, record about %" PRIu64 " cycles on each side\n",
			  d->least * 100, d->enough_ns);
	else if (d->enough_ns)
		sbuf_addf(b, "to show one of %.0f %%, record about %s on each side\n",
			  d->least * 100, str_ns(text, sizeof(text), d->enough_ns));
	if (doc->all)
		sbuf_addf(b, "%zu of %zu rows are within noise (~)", d->n - d->differ, d->n);
	else
		sbuf_addf(b, "%zu of %zu rows are within noise%s", d->n - d->differ, d->n,
			  d->n > d->differ ? ": --all shows them" : "");
	if (d->rare)
		sbuf_addf(b, "; too rare to compare: %" PRIu64, d->rare);
	sbuf_add(b, "\n");
	if (implied && !doc->all)
		sbuf_addf(b, "%zu rates per second of guest time changed like those per second\n",
			  implied);
}

/* ---- JSON and CSV ---- */

static void json_side(struct json *j, const struct diff_side *s, const char *name)
{
	json_put_object(j, name);
	json_put_str(j, "path", s->path);
	json_put_u64(j, "length_ns", s->exits.length);
	json_put_u64(j, "slices", s->exits.n);
	json_put_u64(j, "slice_ns", s->exits.slice);
	json_put_u64(j, "exits", s->samples);
	json_put_u64(j, "vms", s->vms);
	json_put_u64(j, "vcpus", s->vcpus);
	json_object_end(j);
}

static void diff_json(const struct diff_doc *doc, struct sbuf *b)
{
	static const char *const verdicts[] = { "pass", "fail", "cannot tell" };
	const struct table t = diff_table_of(doc);
	const struct diff *d = doc->d;
	struct json j;

	json_line_begin(&j, b);
	json_put_str(&j, "class", doc->what);
	if (d->cycles) /* what is called ns is cycles */
		json_put_str(&j, "unit", "cycles");
	json_side(&j, &d->side[0], side_names[0]);
	json_side(&j, &d->side[1], side_names[1]);
	json_put_array(&j, "machines");
	for (size_t i = 0; i < d->nfact; i++) {
		json_object_begin(&j);
		json_put_str(&j, "name", d->fact[i].name);
		json_put_str(&j, side_names[0], d->fact[i].value[0]);
		json_put_str(&j, side_names[1], d->fact[i].value[1]);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_bool(&j, "differs", d->differ != 0);
	json_put_u64(&j, "beyond_noise", d->differ);
	json_put_u64(&j, "surely_by_than", d->beyond);
	json_put_fixed(&j, "than", (uint64_t)(d->least * 100 + 0.5), 2);
	json_put_fixed(&j, "smallest_shown", (uint64_t)(MIN(d->smallest, 1e12) * 1e4 + 0.5), 4);
	json_put_known_u64(&j, "for_than_ns", d->enough_ns, d->enough_ns);
	json_put_u64(&j, "compared", d->n);
	json_put_u64(&j, "too_rare", d->rare);
	json_put_array(&j, "limits");
	for (size_t i = 0; i < d->ngate; i++) {
		const struct diff_gate *g = &d->gate[i];
		json_object_begin(&j);
		json_put_str(&j, "limit", g->text);
		json_put_str(&j, "verdict", verdicts[g->verdict]);
		json_put_str(&j, "why", g->why);
		for (int s = 0; s < 2 && !g->why; s++)
			json_put_fixed(&j, side_names[s],
				       (uint64_t)(MIN(g->value[s], 1e12) * 1e6 + 0.5), 6);
		if (!g->why) {
			json_put_known_u64(&j, "error_ppm", g->error > 0,
					   (uint64_t)(MIN(g->error, 1e12) * 1e6 + 0.5));
			json_put_fixed(&j, "chance", (uint64_t)(g->chance * 1e4 + 0.5), 4);
		}
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_array(&j, "notes");
	for (size_t i = 0; i < doc->nremark; i++)
		json_str(&j, doc->remark[i]);
	json_array_end(&j);
	table_json(&t, "rows", &j);
	json_line_end(&j);
}

void diff_print(const struct diff_doc *d, const char *format, struct sbuf *b)
{
	const struct table csv = diff_table_of(d);

	if (!strcmp(format, "csv"))
		table_csv(&csv, true, b);
	else if (!strcmp(format, "json"))
		diff_json(d, b);
	else if (!strcmp(format, "junit"))
		junit_print(d->d, b);
	else
		diff_text(d, b);
}

/* ---- tables, one beside the other ---- */

/* Only where both have it, and in text; programs can calculate. */
static void change_cell(struct row *r, uint64_t before, uint64_t after, const char *mark)
{
	const double by = before ? ((double)after - (double)before) * 100 / (double)before : 0;

	if (before && after)
		cell_text(r, IN_TEXT, "Change", "%+.*f%%%s", by > -10 && by < 10 ? 1 : 0, by, mark);
	else
		cell_text(r, IN_TEXT, "Change", "-%s", mark);
}

static void mean_cells(struct row *r, const char *name, const char *head, const struct diff_line *l,
		       int i)
{
	row_time(r, name, l->side[i].timed, l->side[i].mean);
	if (l->side[i].timed && r->cycles)
		cell_text(r, IN_TEXT, head, "%llu", (unsigned long long)l->side[i].mean);
	else if (l->side[i].timed)
		cell_text(r, IN_TEXT, head, "%llu.%02lluus",
			  (unsigned long long)l->side[i].mean / 1000,
			  (unsigned long long)l->side[i].mean % 1000 / 10);
	else
		cell_text(r, IN_TEXT, head, "-");
}

static void line_cells(struct row *r, const void *ctx, size_t i)
{
	const struct diff_line none = { .name = "" },
			       *l = r->head ? &none : (const struct diff_line *)ctx + i;
	const double by = (double)l->side[1].mean - (double)l->side[0].mean;
	const bool known = l->side[0].error > 0 && l->side[1].error > 0;
	/* two of its standard errors */
	const bool within = known && by * by <= 4 * (l->side[0].error * l->side[0].error +
						     l->side[1].error * l->side[1].error);

	cell_str(r, IN_ALL | COL_LEFT, "name", "Name", l->name);
	cell_u64(r, IN_ALL, "samples_before", "Samples", l->side[0].there, l->side[0].n);
	cell_u64(r, IN_ALL, "samples_after", "After", l->side[1].there, l->side[1].n);
	change_cell(r, l->side[0].n, l->side[1].n, "");
	mean_cells(r, "mean_before", r->cycles ? "Mean cycles" : "Mean", l, 0);
	mean_cells(r, "mean_after", "After", l, 1);
	change_cell(r, l->side[0].mean, l->side[1].mean, within ? "~" : " ");
	row_bool(r, "mean_within_error", known, within);
}

static void line_json_head(struct json *j, const void *ctx __unused_arg)
{
	json_put_bool(j, "sure", false);
	json_put_str(j, "chance", NULL);
}

void diff_tables_print(const struct diff_tables *t, const char *format, struct sbuf *b)
{
	const struct table table = { .cells = line_cells,
				     .ctx = t->line,
				     .cycles = t->cycles[0],
				     .n = t->nline };

	if (strcmp(format, "text")) {
		table_doc(&table, !strcmp(format, "csv"), "rows", line_json_head, b);
		return;
	}
	table_text(&table, b);
	sbuf_add(b, "\n# Tables hold no duration: counts cannot be compared as rates; and "
		    "how times follow each\n# other is not in them: whether a change is "
		    "chance is not known. ~: it is within the +- of both.\n"
		    "# Recordings tell: kvmft diff BEFORE AFTER\n");
}
