/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_out.c: a report as text, JSON and CSV.
 *
 * The text is laid out like that of `perf kvm stat report` (tools/perf/builtin-kvm.c of Linux
 * 6.12), down to the blanks, so that whatever reads perf's tables can read these; what perf does
 * not have is to the right of its columns or after its tables, in lines that begin with '#'.
 */
#include "kvmft/report_out.h"
#include "kvmft/columns.h"
#include "kvmft/evidence.h"
#include "report_metrics.h"
#include "kvmft/screen.h"

#include <inttypes.h>

#include "kvmft/output.h"
#include "kvmft/row.h"

/* Columns of --split. */
static const char *const part_heads[REPORT_PARTS] = {
	[PART_KERNEL] = "Kernel",
	[PART_USER] = "User",
	[PART_POLL] = "Poll",
	[PART_BLOCKED] = "Blocked",
	[PART_RUNNABLE] = "Runnable",
	[PART_PREEMPTED] = "Preempted",
};

#define FLUSH_AT (64u << 10)

static void write_out(const struct report_doc *d, struct sbuf *b)
{
	int ret = sbuf_write(b, d->f);

	b->error = b->error ?: ret;
}

/* Between two rows: nothing already written is needed again. */
static void flush(const struct report_doc *d, struct sbuf *b)
{
	if (b->len >= FLUSH_AT)
		write_out(d, b);
}

static size_t rows_of(const struct report_doc *d, const struct report_table *t)
{
	return d->top ? MIN(d->top, t->n) : t->n;
}

/* ---- of whom there are tables ---- */

struct section {
	bool all;		     /* nobody asked for a VM */
	const struct hostmap_vm *vm; /* the one it belongs to; NULL: several, or unknown */
	const char *name;	     /* its label; its PID-FD where another has that label */
	struct report_filter of;
};

/* Where the tables go, one by one. */
struct sections {
	const struct report_doc *d;
	struct sbuf *b;
	void (*print)(struct sections *s, const struct section *of, const struct report_table *t);
	struct json *j; /* of JSON */
};

bool report_has_samples(const struct report *r, const struct report_filter *f)
{
	struct report_vcpu v;

	for (size_t i = 0; i < report_vcpus(r); i++) {
		report_vcpu(r, i, &v);
		if (v.samples && report_matches(r, f, i))
			return true;
	}
	return false;
}

bool report_vm_filter(const struct report_doc *d, size_t vm, struct report_filter *f)
{
	*f = d->filter;
	if (d->filter.vm >= 0 && d->filter.vm != (int64_t)vm)
		return false;
	f->unknown_vm = vm == report_vms(d->r);
	f->vm = f->unknown_vm ? -1 : (int64_t)vm;
	return report_has_samples(d->r, f);
}

static const char *vm_name(const struct report *r, const struct hostmap_vm *vm)
{
	const char *id = vm && vm->cap ? vm->cap->id : NULL;

	for (size_t i = 0; id && i < report_vms(r); i++)
		if (report_vm(r, i) != vm && !strcmp(report_vm(r, i)->label, vm->label))
			return id;
	return vm ? vm->label : NULL;
}

static void put_section(struct sections *s, struct section *of)
{
	struct report_table t;
	int ret = s->b->error ?: report_table(s->d->r, &of->of, s->d->key, &t);

	if (ret) {
		s->b->error = ret;
		return;
	}
	of->name = vm_name(s->d->r, of->vm);
	s->print(s, of, &t);
	report_table_free(&t);
}

static void put_filtered(struct sections *s, const struct report_filter *f)
{
	put_section(
		s, &(struct section){ .of = *f,
				      .vm = f->vm < 0 ? NULL : report_vm(s->d->r, (size_t)f->vm) });
}

static void put_vcpus(struct sections *s, const struct report_filter *vm)
{
	struct report_vcpu v;

	for (size_t i = 0; i < report_vcpus(s->d->r); i++) {
		struct report_filter f = *vm;

		report_vcpu(s->d->r, i, &v);
		if (!v.samples || !report_matches(s->d->r, vm, i))
			continue;
		f.vcpu = v.vcpu;
		f.tid = v.tid;
		put_filtered(s, &f);
	}
}

/* Everything that was requested, which may be one VM; then each VM and its vCPUs. */
static void put_sections(struct sections *s)
{
	const struct report_doc *d = s->d;
	struct section first = { .of = d->filter, .all = d->filter.vm < 0 };
	struct report_filter f;
	size_t vms = 0;

	for (size_t vm = 0; vm <= report_vms(d->r); vm++)
		if (report_vm_filter(d, vm, &f) && !vms++ && f.vm >= 0)
			first.vm = report_vm(d->r, vm);
	if (vms != 1)
		first.vm = d->filter.vm < 0 ? NULL : report_vm(d->r, (size_t)d->filter.vm);
	put_section(s, &first);
	for (size_t vm = 0; vm <= report_vms(d->r) && d->per != REPORT_PER_ALL; vm++) {
		if (!report_vm_filter(d, vm, &f))
			continue;
		if (vms > 1)
			put_filtered(s, &f);
		if (d->per == REPORT_PER_VCPU)
			put_vcpus(s, &f);
	}
}

/* ---- text ---- */

/* Floats, because perf prints floats: the last digit of its tables depends on that. */
/* Of a row all of whose samples have an unknown length there is none. */
static void put_time(const struct report_doc *d, const struct report_row *row, struct columns *c,
		     struct sbuf *b, double time)
{
	if (row && !row->timed)
		columns_put(c, b, "-");
	else if (report_in_cycles(d->r))
		columns_put(c, b, "%.0f", time);
	else
		columns_put(c, b, "%.2fus", time / 1000);
}

/* A sum in a sentence. */
static void add_sum(const struct report_doc *d, struct sbuf *b, const char *what, uint64_t time)
{
	if (report_in_cycles(d->r))
		sbuf_addf(b, "%s:%" PRIu64 " cycles", what, time);
	else
		sbuf_addf(b, "%s:%.2fus", what, (double)time / 1000);
}

static void put_pct(struct columns *c, struct sbuf *b, uint64_t part, uint64_t whole)
{
	columns_put(c, b, "%.2f%%", whole ? (double)part / (double)whole * 100 : 0.0);
}

/* Its share of all time, and the mean. A sum that is cut at 64 bits says nothing of either. */
static void put_share(const struct report_table *t, const struct report_row *row,
		      struct columns *c, struct sbuf *b)
{
	if (!row->timed)
		columns_put(c, b, "-");
	else if (t->total_time == UINT64_MAX)
		columns_put(c, b, "%.2f%%", row->time_pct / 100.0);
	else
		put_pct(c, b, row->total_time, t->total_time);
}

static double mean(const struct report_row *row)
{
	if (!row->timed || row->total_time == UINT64_MAX)
		return (double)row->avg_time;
	return (double)row->total_time / (double)row->timed;
}

static void head_last(const struct report_doc *d, size_t from, struct columns *c, struct sbuf *b)
{
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++)
		columns_put(c, b, "p%u", report_percentiles[i]);
	columns_end(c, b);
	if (c->print && d->color)
		screen_paint(b, from, b->len - 1, "1");
}

static void row_last(const struct report_doc *d, const struct report_row *row, struct columns *c,
		    struct sbuf *b)
{
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++) {
		if (row->counted)
			put_time(d, row, c, b, (double)row->percentile_time[i]);
		else
			columns_put(c, b, "-");
	}
	columns_end(c, b);
	flush(d, b);
}

static void text_whose(const struct report_doc *d, const struct section *s, struct sbuf *b)
{
	if (s->all && d->pids)
		sbuf_addf(b, "pid(s) %s, ", d->pids);
	else if (s->all)
		sbuf_add(b, "all VMs, ");
	else if (s->vm)
		sbuf_addf(b, "VM %s, ", s->name);
	else
		sbuf_add(b, "unknown VM, ");
	if (s->of.vcpu >= 0)
		sbuf_addf(b, "VCPU %" PRId64 ":\n\n", s->of.vcpu);
	else if (s->of.tid)
		sbuf_addf(b, "thread %d:\n\n", s->of.tid);
	else
		sbuf_add(b, "all VCPUs:\n\n");
}

/* ---- text, by code of the guest ---- */

static void place_text(const struct report_place *p, struct sbuf *b)
{
	if (p->has_addr)
		sbuf_addf(b, "0x%" PRIx64, p->addr);
	else
		sbuf_add(b, p->function ?: "(others)");
	if (p->module)
		sbuf_addf(b, " [%s]", p->module);
}

static void rip_head(const struct report_doc *d, struct columns *c, struct sbuf *b)
{
	size_t from = b->len;

	columns_put(c, b, "Code");
	columns_put(c, b, "%s", class_title(d->opts->cls));
	columns_put(c, b, "Samples");
	columns_put(c, b, "Samples%%");
	columns_put(c, b, "Time%%");
	columns_put(c, b, "Max");
	columns_put(c, b, "Avg");
	head_last(d, from, c, b);
}

static void rip_row(const struct report_doc *d, const struct report_table *t,
		    const struct report_row *row, struct columns *c, struct sbuf *b)
{
	_cleanup_(sbuf_free) struct sbuf place = { 0 };
	struct report_place p;
	char name[REPORT_NAME];

	report_row_name(d->r, row, name);
	report_row_place(d->r, row, &p);
	place_text(&p, &place);
	columns_put(c, b, "%s", place.s ?: "");
	columns_put(c, b, "%s", name);
	columns_put(c, b, "%" PRIu64, row->samples);
	put_pct(c, b, row->samples, t->samples);
	put_share(t, row, c, b);
	put_time(d, row, c, b, (double)row->max_time);
	put_time(d, row, c, b, mean(row));
	row_last(d, row, c, b);
}

/* ---- text, as perf has it ---- */

static void text_head(const struct report_doc *d, struct columns *c, struct sbuf *b)
{
	size_t from = b->len;
	const char *unit = report_in_cycles(d->r) ? "cycles" : "Time";

	columns_put(c, b, "%s", class_title(d->opts->cls));
	columns_put(c, b, "Samples");
	columns_put(c, b, "Samples%%");
	columns_put(c, b, "Time%%");
	columns_put(c, b, "Min %s", unit);
	columns_put(c, b, "Max %s", unit);
	columns_put(c, b, "Avg %s", report_in_cycles(d->r) ? unit : "time");
	columns_put(c, b, "%s", "");
	head_last(d, from, c, b);
}

static void text_row(const struct report_doc *d, const struct report_table *t,
		     const struct report_row *row, struct columns *c, struct sbuf *b)
{
	char name[REPORT_NAME];

	report_row_name(d->r, row, name);
	columns_put(c, b, "%s", name);
	columns_put(c, b, "%" PRIu64, row->samples);
	put_pct(c, b, row->samples, t->samples);
	put_share(t, row, c, b);
	put_time(d, row, c, b, (double)row->min_time);
	put_time(d, row, c, b, (double)row->max_time);
	put_time(d, row, c, b, mean(row));
	if (row->timed)
		columns_put(c, b, "( +- %3u.%02u%% )", row->stderr_pct / 100,
			    row->stderr_pct % 100);
	else
		columns_put(c, b, "%s", "");
	row_last(d, row, c, b);
}

static void table_rows(const struct report_doc *d, const struct report_table *t, struct columns *c,
		       struct sbuf *b)
{
	(d->opts->by_rip ? rip_head : text_head)(d, c, b);
	if (c->print)
		sbuf_addc(b, '\n');
	for (size_t i = 0; i < rows_of(d, t); i++)
		(d->opts->by_rip ? rip_row : text_row)(d, t, &t->row[i], c, b);
	if (c->print && rows_of(d, t) < t->n)
		sbuf_addf(b, "%*s\n", (int)c->width[0], "...");
}

/* What a narrow terminal has no room for is left out; percentiles get a table of their own. */
static void text_table(const struct report_doc *d, const struct report_table *t, struct sbuf *b)
{
	static const unsigned char perf_less[] = { 7 /* stderr */, 4 /* min */ };
	static const unsigned char rip_less[] = { 3 /* samples% */, 5 /* max */ };
	const unsigned char *less = d->opts->by_rip ? rip_less : perf_less;
	unsigned int last = d->opts->by_rip ? 7 : 8, names = d->opts->by_rip ? 3 : 1;
	struct columns c = { .left = d->opts->by_rip ? 3 : 0 };

	table_rows(d, t, &c, b);
	if (!columns_fit(&c, d->width, less, ARRAY_SIZE(perf_less)) && d->opts->percentiles) {
		c.hide = ~0u << last;
		columns_fit(&c, d->width, less, ARRAY_SIZE(perf_less));
	}
	c.print = true;
	table_rows(d, t, &c, b);
	if (!(c.hide >> last))
		return;
	sbuf_addc(b, '\n');
	c.hide = ~(~0u << last | names);
	table_rows(d, t, &c, b);
}

/* all: every part is known. */
static void split_head(const struct report_doc *d, struct columns *c, bool all, struct sbuf *b)
{
	columns_put(c, b, "Where time went");
	columns_put(c, b, report_in_cycles(d->r) ? "Total cycles" : "Total time");
	for (int p = 0; p < REPORT_PARTS; p++)
		columns_put(c, b, "%s", part_heads[p]);
	if (!all)
		columns_put(c, b, "Unknown");
	columns_end(c, b);
}

/* NULL: of all. */
static void split_row(const struct report_doc *d, const struct report_table *t,
		      const struct report_row *row, struct columns *c, bool all, struct sbuf *b)
{
	const uint64_t *part = row ? row->part_time : t->part_time;
	uint64_t total = row ? row->total_time : t->total_time, rest;
	char name[REPORT_NAME] = "all", unknown[EVIDENCE_TEXT];

	if (row)
		report_row_name(d->r, row, name);
	columns_put(c, b, "%s", name);
	put_time(d, row, c, b, (double)total);
	for (int p = 0; p < REPORT_PARTS; p++)
		if (report_row_lacks(d->r, t, row, (enum report_part)p))
			columns_put(c, b, "?");
		else
			put_pct(c, b, part[p], total);
	rest = report_row_unknown(d->r, t, row, unknown, sizeof(unknown));
	if (!all)
		put_pct(c, b, rest, total);
	if (c->print)
		sbuf_addf(b, "%s%s", *unknown ? " " : "", unknown);
	columns_end(c, b);
	flush(d, b);
}

static void text_split(const struct report_doc *d, const struct report_table *t, struct sbuf *b)
{
	struct columns c = { 0 };
	bool all = true;

	for (int p = 0; p < REPORT_PARTS; p++)
		all &= !report_row_lacks(d->r, t, NULL, (enum report_part)p);
	for (unsigned int pass = 0; pass < 2; pass++) {
		c.print = pass;
		split_head(d, &c, all, b);
		if (c.print)
			sbuf_addc(b, '\n');
		for (size_t i = 0; i < rows_of(d, t); i++)
			split_row(d, t, &t->row[i], &c, all, b);
		split_row(d, t, NULL, &c, all, b);
	}
	add_sum(d, b, "\nGuest run time", t->guest_time);
	sbuf_addf(b, " in %" PRIu64 " entries.\n\n", t->windows);
}

static void text_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	const struct report_doc *d = s->d;
	struct sbuf *b = s->b;

	sbuf_add(b, "\n\nAnalyze events for ");
	text_whose(d, of, b);
	text_table(d, t, b);
	sbuf_addf(b, "\nTotal Samples:%" PRIu64, t->samples);
	if (t->timed)
		add_sum(d, b, ", Total events handled time", t->total_time);
	sbuf_add(b, ".\n\n");
	if (d->opts->split)
		text_split(d, t, b);
}

static void text_notes(const struct report_doc *d, struct sbuf *b)
{
	const struct report_totals *t = report_totals(d->r);
	const char *note;

	sbuf_addf(b, "# lost events: %" PRIu64 "%s; pairs dropped at gaps: %" PRIu64 "\n", d->lost,
		  d->lost_unknown ? " or more" : "", t->dropped);
	for (size_t i = 0; (note = report_note(d->r, i)); i++)
		text_remarks(b, &note, 1, d->width);
	text_remarks(b, d->remark, d->nremark, d->width);
}

static void text_print(const struct report_doc *d, struct sbuf *b)
{
	put_sections(&(struct sections){ .d = d, .b = b, .print = text_section });
	text_notes(d, b);
}

/* ---- JSON and CSV ---- */

/* t: NULL for CSV's header; row: NULL for all. */
static void part_columns(const struct report_doc *d, struct row *o, const struct report_table *t,
			 const struct report_row *row)
{
	char unknown[EVIDENCE_TEXT] = "";
	uint64_t rest;

	if (!d->opts->split)
		return;
	for (int p = 0; p < REPORT_PARTS; p++)
		row_time(o, report_part_names[p],
			 t && !report_row_lacks(d->r, t, row, (enum report_part)p),
			 (row ? row->part_time : t->part_time)[p]);
	rest = t ? report_row_unknown(d->r, t, row, unknown, sizeof(unknown)) : 0;
	row_time(o, "unknown", true, rest);
	row_str(o, "may_be", *unknown ? unknown : NULL);
}

static void place_columns(const struct report_doc *d, const struct report_row *row, struct row *o)
{
	struct report_place p = { 0 };
	char addr[32] = "";

	if (o->form != ROW_HEAD)
		report_row_place(d->r, row, &p);
	if (p.has_addr)
		snprintf(addr, sizeof(addr), "0x%" PRIx64, p.addr);
	row_str(o, "function", p.function);
	row_str(o, "module", p.module);
	row_str(o, "address", p.has_addr ? addr : NULL);
}

/* CSV's header: row is all 0, without a table. */
static void row_columns(const struct report_doc *d, const struct section *s,
			const struct report_table *t, const struct report_row *row, struct row *o)
{
	bool json = o->form == ROW_JSON;
	char name[REPORT_NAME] = "";

	if (o->form != ROW_HEAD)
		report_row_name(d->r, row, name);
	if (!json) {
		row_str(o, "vm", s->name);
		row_s64(o, "vcpu", s->of.vcpu >= 0, s->of.vcpu);
	}
	row_str(o, "event", name);
	row_u64(o, "samples", true, row->samples);
	if (json)
		row_u64(o, "timed", true, row->timed);
	row_fixed(o, "samples_pct", row->samples_pct, 2);
	row_fixed(o, "time_pct", row->time_pct, 2);
	if (json)
		row_time(o, "total", row->timed, row->total_time);
	row_time(o, "min", row->timed, row->min_time);
	row_time(o, "max", row->timed, row->max_time);
	row_time(o, "avg", row->timed, row->avg_time);
	row_fixed(o, "stderr_pct", row->stderr_pct, 2);
	if (!json)
		row_time(o, "total", row->timed, row->total_time);
	for (size_t i = 0; d->opts->percentiles && i < REPORT_PERCENTILES; i++) {
		char key[16];

		snprintf(key, sizeof(key), "p%u", report_percentiles[i]);
		row_time(o, key, row->counted, row->percentile_time[i]);
	}
	part_columns(d, o, t, row);
	if (d->opts->by_rip)
		place_columns(d, row, o);
	row_end(o);
}

static void json_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	const struct report_doc *d = s->d;
	struct row o, r;

	row_json(&o, s->j, report_in_cycles(d->r));
	row_str(&o, "vm", of->vm ? of->vm->label : NULL);
	row_str(&o, "vm_id", of->vm && of->vm->cap ? of->vm->cap->id : NULL);
	row_str(&o, "uuid", of->vm && of->vm->cap ? of->vm->cap->uuid : NULL);
	row_s64(&o, "vcpu", of->of.vcpu >= 0, of->of.vcpu);
	row_s64(&o, "tid", of->of.tid, of->of.tid);
	row_u64(&o, "vcpus", true, t->vcpus);
	row_u64(&o, "total_samples", true, t->samples);
	row_time(&o, "total", t->timed || !t->samples, t->total_time);
	part_columns(d, &o, t, NULL);
	if (d->opts->split) {
		row_time(&o, "guest", true, t->guest_time);
		row_u64(&o, "entries", true, t->windows);
	}
	row_u64(&o, "rows_total", true, t->n);
	json_put_array(s->j, "rows");
	for (size_t i = 0; i < rows_of(d, t); i++) {
		row_json(&r, s->j, o.cycles);
		row_columns(d, of, t, &t->row[i], &r);
		flush(d, s->b);
	}
	json_array_end(s->j);
	row_end(&o);
}

static void csv_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	struct row o;

	for (size_t i = 0; i < rows_of(s->d, t); i++) {
		row_csv(&o, s->b, report_in_cycles(s->d->r));
		row_columns(s->d, of, t, &t->row[i], &o);
		flush(s->d, s->b);
	}
}

static void csv_print(const struct report_doc *d, struct sbuf *b)
{
	struct row o;

	row_head(&o, b, report_in_cycles(d->r));
	row_columns(d, &(struct section){ 0 }, NULL, &(struct report_row){ 0 }, &o);
	put_sections(&(struct sections){ .d = d, .b = b, .print = csv_section });
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
	json_put_u64(j, "cut_windows", t->cut);
	json_put_u64(j, "moved_exits", t->moved);
	if (d->opts->split) {
		json_put_u64(j, "halt_poll_grow", t->poll_grow);
		json_put_u64(j, "halt_poll_shrink", t->poll_shrink);
	}
}

static void json_print(const struct report_doc *d, struct sbuf *b)
{
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
	if (d->opts->split)
		evidence_json("needs", report_needs(d->r), &j);
	json_put_array(&j, "sections");
	put_sections(&(struct sections){ .d = d, .b = b, .print = json_section, .j = &j });
	json_array_end(&j);
	if (json_line_end(&j) && !b->error)
		b->error = -EINVAL;
}

static const struct report_format formats[] = {
	{ "text", true, text_print },
	{ "json", true, json_print },
	{ "csv", false, csv_print },
	{ "openmetrics", false, report_metrics },
};

const struct report_format *report_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

int report_print(const struct report_doc *d, const struct report_format *fmt)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	fmt->print(d, &b);
	write_out(d, &b);
	return b.error;
}
