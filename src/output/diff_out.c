/* SPDX-License-Identifier: GPL-2.0-or-later */
/* diff_out.c: what differs between two recordings, as text of 80 columns, JSON and CSV. */
#include "kvmft/diff_out.h"
#include "kvmft/columns.h"

#include <inttypes.h>

#include "kvmft/table.h"
#include "kvmft/screen.h"

#define CHANGE_X 10 /* from this ratio on a change is shown as a factor */

static const char *const side_names[2] = { "before", "after" };

static bool shown(const struct diff_doc *doc, const struct diff_row *r)
{
	return doc->all || (!r->implied && (doc->d->beyond ? r->beyond : r->differs));
}

/* ---- text ---- */

static const char *const measure_texts[DIFF_MEASURES] = {
	[DIFF_RATE] = "per second", [DIFF_PER_GUEST] = "per guest s", [DIFF_MEAN] = "mean time",
	[DIFF_P50] = "median time", [DIFF_P99] = "99 % below",	      [DIFF_SHARE] = "of a CPU",
	"in kernel",		    "in user space",		      "polling",
	"asleep",		    "waiting",			      "preempted",
};

static void value_text(const struct diff_row *r, int side, char *buf, size_t n)
{
	double v = r->value[side];

	if (r->measure >= DIFF_SHARE)
		snprintf(buf, n, "%.2f%%", v * 100);
	else if (r->measure == DIFF_RATE || r->measure == DIFF_PER_GUEST)
		snprintf(buf, n, v < 100 ? "%.2f" : "%.1f", v);
	else
		snprintf(buf, n, v < 1e8 ? "%.2fus" : "%.0fus", v / 1000);
}

static void change_text(const struct diff_row *r, char *buf, size_t n)
{
	bool rate = r->measure == DIFF_RATE || r->measure == DIFF_PER_GUEST;
	double least = r->measure >= DIFF_SHARE ? 0.5e-4 : 0; /* less reads as 0 */
	double a = r->value[0] < least ? 0 : r->value[0], b = r->value[1];

	if (!(a > 0))
		snprintf(buf, n, !(b > 0) ? "-" : rate ? "new" : "from 0");
	else if (!(b > 0) && rate)
		snprintf(buf, n, "gone");
	else if (b >= CHANGE_X * a)
		snprintf(buf, n, "x%.3g", b / a);
	else
		snprintf(buf, n, "%+.1f%%", (b / a - 1) * 100);
}

static void chance_text(const struct diff_row *r, char *buf, size_t n)
{
	snprintf(buf, n, r->chance < 0.001 ? "<0.001" : "%.3f", r->chance);
}

static void text_side(const struct diff_doc *doc, int i, struct sbuf *b)
{
	const struct diff_side *s = &doc->d->side[i];
	char path[256];

	snprintf(path, sizeof(path), "%s", s->path);
	str_printable(path);
	sbuf_addf(b, "%-7s %s: %.3f s, %" PRIu64 " %s of %" PRIu64 " VM%s, %" PRIu64 " vCPU%s\n",
		  side_names[i], path, (double)s->exits.length / 1e9, s->samples,
		  strcmp(doc->what, "vmexit") ? doc->what : "exits", s->vms, s->vms == 1 ? "" : "s",
		  s->vcpus, s->vcpus == 1 ? "" : "s");
}

static void text_facts(const struct diff_doc *doc, struct sbuf *b)
{
	const struct diff *d = doc->d;

	if (!d->nfact)
		sbuf_add(b, "machines: alike, as far as the captures tell\n");
	for (size_t i = 0; i < d->nfact; i++) {
		const struct diff_fact *f = &d->fact[i];
		bool narrow = strlen(f->name) + strlen(f->value[0]) + strlen(f->value[1]) < 60;

		sbuf_addf(b,
			  narrow ? "differs %s: %s, then %s\n"
				 : "differs %s:\n          %s\n          %s\n",
			  f->name, f->value[0], f->value[1]);
	}
}

static void text_head(struct columns *c, struct sbuf *b)
{
	static const char *const heads[] = { "What changed", "",       "before", "after",
					     "change",	     "effect", "chance" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		columns_put(c, b, "%s", heads[i]);
	columns_end(c, b);
}

/* A name is not repeated below itself. */
static void text_row(const struct diff_row *r, const struct diff_row *above, struct columns *c,
		     struct sbuf *b)
{
	bool same = above && above->beyond && r->beyond && !strcmp(above->name, r->name);
	char text[32];

	columns_put(c, b, "%s", same ? "" : r->name);
	columns_put(c, b, "%s", measure_texts[r->measure]);
	for (int s = 0; s < 2; s++) {
		value_text(r, s, text, sizeof(text));
		columns_put(c, b, "%s", text);
	}
	change_text(r, text, sizeof(text));
	columns_put(c, b, "%s", text);
	snprintf(text, sizeof(text), "%.2f%%", r->effect * 100);
	columns_put(c, b, "%s", r->lead ? text : "");
	chance_text(r, text, sizeof(text));
	columns_put(c, b, "%s%s", text, r->beyond ? "" : r->differs ? " -" : " ~");
	columns_end(c, b);
}

static void text_pass(const struct diff_doc *doc, struct columns *c, struct sbuf *b)
{
	const struct diff_row *above = NULL;
	size_t n = 0, from = b->len;

	text_head(c, b);
	if (c->print && doc->color)
		screen_paint(b, from, b->len - 1, "1");
	for (size_t i = 0; i < doc->d->n; i++) {
		if (!shown(doc, &doc->d->row[i]))
			continue;
		if (doc->top && n++ == doc->top) {
			sbuf_add(b, c->print ? "...\n" : "");
			break;
		}
		from = b->len;
		text_row(&doc->d->row[i], above, c, b);
		above = &doc->d->row[i];
		if (c->print && doc->color && !above->lead)
			screen_paint(b, from, b->len - 1, "2");
	}
}

static void text_rows(const struct diff_doc *doc, struct sbuf *b)
{
	struct columns c = { .left = 1 << 0 | 1 << 1 | 1 << 6 };

	sbuf_addc(b, '\n');
	text_pass(doc, &c, b);
	c.print = true;
	text_pass(doc, &c, b);
}

/* How sure is one thing, how large another. */
static void text_sure(const struct diff *d, struct sbuf *b)
{
	char text[32];

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
	if (d->enough_ns)
		sbuf_addf(b, "to show one of %.0f %%, record about %s on each side\n", d->least * 100,
			  str_ns(text, sizeof(text), d->enough_ns));
}

static void text_print(const struct diff_doc *doc, struct sbuf *b)
{
	const struct diff *d = doc->d;
	size_t implied = 0;

	text_side(doc, 0, b);
	text_side(doc, 1, b);
	text_facts(doc, b);
	text_remarks(b, doc->remark, doc->nremark, doc->width);
	for (size_t i = 0; i < d->n; i++)
		implied += d->row[i].differs && d->row[i].implied;
	if (!d->differ)
		sbuf_add(b, "\nno difference beyond noise\n");
	if (d->differ || doc->all)
		text_rows(doc, b);
	sbuf_add(b, "\n");
	text_sure(d, b);
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

/* Rates in thousandths, times in tenths of a ns, shares in millionths. */
static void row_value(struct row *o, const char *name, const struct diff_row *r, int side)
{
	double v = r->value[side];

	if (r->measure >= DIFF_SHARE)
		row_fixed(o, name, (uint64_t)(MIN(v, 1e12) * 1e6 + 0.5), 6);
	else if (r->measure == DIFF_RATE || r->measure == DIFF_PER_GUEST)
		row_fixed(o, name, (uint64_t)(MIN(v, 1e15) * 1e3 + 0.5), 3);
	else
		row_fixed(o, name, (uint64_t)(MIN(v, 1e17) * 10 + 0.5), 1);
}

static void row_columns(const struct diff_row *r, struct row *o)
{
	static const char *const units[DIFF_MEASURES] = {
		[DIFF_RATE] = "1/s", [DIFF_PER_GUEST] = "1/s", [DIFF_MEAN] = "ns",
		[DIFF_P50] = "ns",   [DIFF_P99] = "ns",
	};
	const char *unit = units[MIN(r->measure, DIFF_SHARE)];

	row_str(o, "kind", diff_kinds[r->kind]);
	row_str(o, "name", r->name);
	row_str(o, "measure", diff_measures[r->measure]);
	row_str(o, "unit", unit ?: "CPU");
	row_value(o, "before", r, 0);
	row_value(o, "after", r, 1);
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
	row_end(o);
}

static void csv_print(const struct diff_doc *doc, struct sbuf *b)
{
	struct row o;
	size_t n = 0;

	row_head(&o, b, false);
	row_columns(&(struct diff_row){ 0 }, &o);
	for (size_t i = 0; i < doc->d->n; i++) {
		if (!doc->all && !doc->d->row[i].beyond)
			continue;
		if (doc->top && n++ == doc->top)
			break;
		row_csv(&o, b, false);
		row_columns(&doc->d->row[i], &o);
	}
}

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

static void json_print(const struct diff_doc *doc, struct sbuf *b)
{
	const struct diff *d = doc->d;
	struct json j;
	struct row o;

	json_line_begin(&j, b);
	json_put_str(&j, "class", doc->what);
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
	json_put_array(&j, "notes");
	for (size_t i = 0; i < doc->nremark; i++)
		json_str(&j, doc->remark[i]);
	json_array_end(&j);
	json_put_array(&j, "rows");
	for (size_t i = 0; i < (doc->top ? MIN(doc->top, d->n) : d->n); i++) {
		row_json(&o, &j, false);
		row_columns(&d->row[i], &o);
	}
	json_array_end(&j);
	if (json_line_end(&j) && !b->error)
		b->error = -EINVAL;
}

static const struct diff_format formats[] = {
	{ "text", true, text_print },
	{ "json", true, json_print },
	{ "csv", false, csv_print },
};

const struct diff_format *diff_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

int diff_print(const struct diff_doc *d, const struct diff_format *fmt, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	fmt->print(d, &b);
	return sbuf_write(&b, f);
}
