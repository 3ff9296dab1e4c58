/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_out.c: a report as text, JSON and CSV.
 *
 * The text is laid out like that of `perf kvm stat report` (tools/perf/builtin-kvm.c of Linux
 * 6.12), down to the blanks, so that whatever reads perf's tables can read these; what perf does
 * not have is to the right of its columns or after its tables, in lines that begin with '#'.
 */

#include "kvmft/evidence.h"
#include "kvmft/results.h"
#include "kvmft/table.h"

/* Columns of --split. */
static const char *const part_heads[REPORT_PARTS] = {
	[PART_KERNEL] = "Kernel",   [PART_USER] = "User",	  [PART_POLL] = "Poll",
	[PART_BLOCKED] = "Blocked", [PART_RUNNABLE] = "Runnable", [PART_PREEMPTED] = "Preempted",
};

/* Between two rows: nothing already written is needed again. */
static int report_write_out(void *f, struct sbuf *b)
{
	return sbuf_write(b, f);
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
	char idle[REPORT_NAME]; /* what leads by time, so that the table is by KEY_CPU; or "" */
};

/* Where the tables go, one by one. */
struct sections {
	const struct report_doc *d;
	struct sbuf *b;
	void (*print)(struct sections *s, const struct section *of, const struct report_table *t);
	struct json *j; /* of JSON */
	struct hash_key key;
	struct u64map labels; /* how many VMs have one, by its hash */
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

/* Which VMs have samples; the last stands for threads without one. *n: how many. */
static bool *vms_with_samples(const struct report_doc *d, size_t *n)
{
	bool *has = xcalloc(report_hostmap(d->r)->nvm + 1, sizeof(*has));
	struct report_vcpu v;

	*n = 0;
	for (size_t i = 0; i < report_vcpus(d->r); i++) {
		bool *of;

		report_vcpu(d->r, i, &v);
		of = &has[v.vm < 0 ? (int64_t)report_hostmap(d->r)->nvm : v.vm];
		if (v.samples && !*of && report_matches(d->r, &d->filter, i)) {
			*of = true;
			++*n;
		}
	}
	return has;
}

static void report_vm_filter(const struct report_doc *d, size_t vm, struct report_filter *f)
{
	*f = d->filter;
	f->unknown_vm = vm == report_hostmap(d->r)->nvm;
	f->vm = f->unknown_vm ? -1 : (int64_t)vm;
}

static uint64_t *label_count(struct sections *s, const struct hostmap_vm *vm)
{
	return xu64map_at(&s->labels, hash_bytes(&s->key, vm->label, strlen(vm->label)));
}

static void put_section(struct sections *s, struct section *of)
{
	const char *id = of->vm && of->vm->cap ? of->vm->cap->id : NULL;
	struct report_table t;
	size_t first = 0;

	report_table(s->d->r, &of->of, s->d->key, &t);
	for (size_t i = 1; i < t.n; i++)
		if (t.row[i].total_time > t.row[first].total_time)
			first = i;
	if (s->d->idle_last && t.n && t.row[first].total_time &&
	    report_key_halts(s->d->r, t.row[first].key)) {
		report_key_name(s->d->r, t.row[first].key, of->idle);
		report_table_free(&t);
		report_table(s->d->r, &of->of, KEY_CPU, &t);
	}
	of->name = of->vm ? of->vm->label : NULL;
	if (id && *label_count(s, of->vm) > 1)
		of->name = id;
	s->print(s, of, &t);
	report_table_free(&t);
}

static void put_filtered(struct sections *s, const struct report_filter *f)
{
	struct section of = { .of = *f };

	if (f->vm >= 0)
		of.vm = &report_hostmap(s->d->r)->vm[f->vm];
	put_section(s, &of);
}

/* Everything that was requested, which may be one VM; then each VM and its vCPUs. */
static void put_sections(struct sections *s)
{
	const struct report_doc *d = s->d;
	const size_t unknown = report_hostmap(d->r)->nvm;
	size_t vms;
	_cleanup_free_ bool *has = vms_with_samples(d, &vms);
	struct section first = { .of = d->filter, .all = d->filter.vm < 0 };
	struct report_filter f;

	hash_key_init(&s->key);
	for (size_t vm = 0; vm < unknown; vm++)
		++*label_count(s, &report_hostmap(d->r)->vm[vm]);
	if (d->filter.vm >= 0)
		first.vm = &report_hostmap(d->r)->vm[d->filter.vm];
	for (size_t vm = 0; vm < unknown && vms == 1; vm++)
		if (has[vm])
			first.vm = &report_hostmap(d->r)->vm[vm];
	put_section(s, &first);
	for (size_t vm = 0; vm <= unknown && d->per != REPORT_PER_ALL && vms; vm++) {
		if (!has[vm])
			continue;
		report_vm_filter(d, vm, &f);
		if (vms > 1)
			put_filtered(s, &f);
		if (d->per == REPORT_PER_VCPU) {
			struct report_vcpu v;

			for (size_t i = report_first(d->r, &f); i < report_vcpus(d->r);
			     i = report_next(d->r, &f, i)) {
				struct report_filter filter = f;

				report_vcpu(s->d->r, i, &v);
				if (!v.samples || !report_matches(s->d->r, &f, i))
					continue;
				filter.vcpu = v.vcpu;
				filter.tid = v.tid;
				filter.only = i + 1;
				put_filtered(s, &filter);
			}
		}
	}
	u64map_free(&s->labels);
}

/* ---- text ---- */

/* A sum in a sentence. */
static void add_sum(const struct report_doc *d, struct sbuf *b, const char *what, uint64_t time)
{
	if (report_in_cycles(d->r))
		sbuf_addf(b, "%s:%" PRIu64 " cycles", what, time);
	else
		sbuf_addf(b, "%s:%.2fus", what, (double)time / 1000);
}

static double report_percent(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole * 100 : 0.0;
}

/* ---- rows, in all forms: text has floats, as perf has, on which its last digit depends ---- */

static void cell_pct(struct row *r, unsigned int in, const char *name, const char *head, bool known,
		     uint64_t v, double exact)
{
	if (r->form & in & IN_TEXT)
		cell_text(r, in, head, known ? "%.2f%%" : "-", exact);
	else if (r->form & in)
		row_fixed(r, name, v, 2);
}

/* What is less than a text's times can show is only known to be less: no number for programs. */
static void report_cell_time(const struct report_doc *d, struct row *r, unsigned int in,
			     const char *name, const char *head, bool known, uint64_t v,
			     double exact)
{
	double grain = exact < (double)d->cap->grain ? (double)d->cap->grain : 0;

	if (r->form & in & IN_TEXT)
		cell_text(r, in, head,
			  !known      ? "-"
			  : r->cycles ? "%.0f"
			  : grain > 0 ? "<%.2fus"
				      : "%.2fus",
			  r->cycles ? exact : (exact + grain) / 1000);
	else if (r->form & in)
		row_time(r, name, known && v >= d->cap->grain, v);
}

/* The rows of a section. */
struct rows {
	const struct report_doc *d;
	const struct section *s;
	const struct report_table *t;
};

/* t: NULL for CSV's header; row: NULL for all. */
static void report_part_cells(const struct report_doc *d, struct row *o,
			      const struct report_table *t, const struct report_row *row)
{
	char unknown[EVIDENCE_TEXT] = "";
	uint64_t rest;

	if (!d->opts->split || o->form == ROW_TEXT)
		return;
	for (int p = 0; p < REPORT_PARTS; p++)
		row_time(o, report_part_names[p],
			 t && !report_row_lacks(d->r, t, row, (enum report_part)p),
			 (row ? row->part_time : t->part_time)[p]);
	rest = t ? report_row_unknown(d->r, t, row, unknown, sizeof(unknown)) : 0;
	row_time(o, "unknown", true, rest);
	row_str(o, "may_be", *unknown ? unknown : NULL);
}

/* The code of the guest: in text first, for programs last. */
static void place_cells(const struct report_doc *d, const struct report_row *row, struct row *o)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct report_place p = { 0 };
	char addr[32] = "";

	if (!o->head)
		report_row_place(d->r, row, &p);
	if (p.has_addr)
		snprintf(addr, sizeof(addr), "0x%" PRIx64, p.addr);
	if (o->form == ROW_TEXT) {
		sbuf_add(&text, p.has_addr ? addr : p.function ?: "(others)");
		if (p.module)
			sbuf_addf(&text, " [%s]", p.module);
		cell_text(o, COL_LEFT | COL_NAME, "Code", "%s", text.s ?: "");
		return;
	}
	row_str(o, "function", p.function);
	row_str(o, "module", p.module);
	row_str(o, "address", p.has_addr ? addr : NULL);
}

static void row_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct report_row none;
	static const struct report_table empty;
	const struct rows *x = ctx;
	const struct report_doc *d = x->d;
	const struct report_table *t = x->t ?: &empty;
	const struct report_row *row = o->head ? &none : &t->row[i];
	const bool rip = d->opts->by_rip, cut = t->total_time == UINT64_MAX;
	const unsigned int perf = rip ? IN_DATA : IN_ALL;
	char name[REPORT_NAME] = "", key[40];

	if (!o->head)
		report_key_name(d->r, row->key, name);
	if (rip && o->form == ROW_TEXT)
		place_cells(d, row, o);
	if (o->form == ROW_CSV) {
		row_str(o, "vm", x->s->name);
		row_s64(o, "vcpu", x->s->of.vcpu >= 0, x->s->of.vcpu);
	}
	cell_str(o, IN_ALL | COL_NAME | (rip ? COL_LEFT : 0), "event", class_title(d->opts->cls),
		 name);
	cell_u64(o, IN_ALL, "samples", "Samples", true, row->samples);
	cell_u64(o, IN_JSON, "timed", NULL, true, row->timed);
	cell_pct(o, IN_ALL | (rip ? COL_DROP1 : 0), "samples_pct", "Samples%", true,
		 row->samples_pct, report_percent(row->samples, t->samples));
	/* A sum that is cut at 64 bits says nothing of shares. */
	cell_pct(o, IN_ALL, "time_pct", "Time%", row->timed, row->time_pct,
		 cut ? row->time_pct / 100.0 : report_percent(row->total_time, t->total_time));
	report_cell_time(d, o, IN_JSON, "total", NULL, row->timed, row->total_time, 0);
	report_cell_time(d, o, perf | COL_DROP2, "min", o->cycles ? "Min cycles" : "Min Time",
			 row->timed, row->min_time, (double)row->min_time);
	report_cell_time(d, o, IN_ALL | (rip ? COL_DROP2 : 0), "max",
			 rip	     ? "Max"
			 : o->cycles ? "Max cycles"
				     : "Max Time",
			 row->timed, row->max_time, (double)row->max_time);
	report_cell_time(d, o, IN_ALL, "avg",
			 rip	     ? "Avg"
			 : o->cycles ? "Avg cycles"
				     : "Avg time",
			 row->timed, row->avg_time,
			 !row->timed || row->total_time == UINT64_MAX
				 ? (double)row->avg_time
				 : (double)row->total_time / (double)row->timed);
	row_fixed(o, "stderr_pct", row->stderr_pct, 2);
	snprintf(key, sizeof(key), "( +- %3u.%02u%% )", row->stderr_pct / 100,
		 row->stderr_pct % 100);
	if (!rip)
		cell_text(o, COL_DROP1, "", "%s", row->timed ? key : "");
	report_cell_time(d, o, IN_CSV, "total", NULL, row->timed, row->total_time, 0);
	for (size_t k = 0; d->opts->percentiles && k < REPORT_PERCENTILES; k++) {
		snprintf(key, sizeof(key), "p%u", report_percentiles[k]);
		report_cell_time(d, o, IN_ALL | COL_MORE, key, key, row->counted && row->timed,
				 row->percentile_time[k], (double)row->percentile_time[k]);
	}
	report_part_cells(d, o, x->t, row);
	if (rip && o->form != ROW_TEXT)
		place_cells(d, row, o);
}

static struct table report_table_of(const struct rows *x)
{
	const struct report_doc *d = x->d;

	return (struct table){
		.cells = row_cells, .ctx = x, .n = rows_of(d, x->t),
		.cycles = report_in_cycles(d->r), .width = d->width, .bold = d->color,
		.blank = true, .cut = rows_of(d, x->t) < x->t->n, .flush = report_write_out,
		.arg = d->f,
	};
}

/* The last one is of all. */
static void split_cells(struct row *o, const void *ctx, size_t i)
{
	const struct rows *x = ctx;
	const struct report *r = x->d->r;
	const struct report_row *row = i < rows_of(x->d, x->t) && !o->head ? &x->t->row[i] : NULL;
	uint64_t total = row ? row->total_time : x->t->total_time, rest;
	char name[REPORT_NAME] = "all", unknown[EVIDENCE_TEXT];
	bool all = true;

	if (row)
		report_key_name(r, row->key, name);
	cell_text(o, 0, "Where time went", "%s", name);
	report_cell_time(x->d, o, IN_TEXT, NULL, o->cycles ? "Total cycles" : "Total time", true,
			 total, (double)total);
	for (enum report_part p = 0; p < REPORT_PARTS; p++) {
		all &= !report_row_lacks(r, x->t, NULL, p);
		cell_text(o, 0, part_heads[p], report_row_lacks(r, x->t, row, p) ? "?" : "%.2f%%",
			  report_percent((row ? row->part_time : x->t->part_time)[p], total));
	}
	rest = report_row_unknown(r, x->t, row, unknown, sizeof(unknown));
	if (!all)
		cell_text(o, 0, "Unknown", "%.2f%%", report_percent(rest, total));
	if (o->c.print && !o->head)
		sbuf_addf(o->b, "%s%s", *unknown ? " " : "", unknown);
}

static void text_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	const struct report_doc *d = s->d;
	const struct rows x = { d, of, t };
	struct table rows = report_table_of(&x);
	struct sbuf *b = s->b;

	sbuf_add(b, "\n\nAnalyze events for ");
	if (of->all && d->pids)
		sbuf_addf(b, "pid(s) %s, ", d->pids);
	else if (of->all)
		sbuf_add(b, "all VMs, ");
	else if (of->vm)
		sbuf_addf(b, "VM %s, ", of->name);
	else
		sbuf_add(b, "unknown VM, ");
	if (of->of.vcpu >= 0)
		sbuf_addf(b, "VCPU %" PRId64 ":\n\n", of->of.vcpu);
	else if (of->of.tid)
		sbuf_addf(b, "thread %d:\n\n", of->of.tid);
	else
		sbuf_add(b, "all VCPUs:\n\n");
	if (*of->idle)
		sbuf_addf(b, "%s leads by time: sorted without idle (-k cpu: CPU time; -k sample: count)\n\n",
			  of->idle);
	else if (d->key == KEY_TIME && t->timed)
		sbuf_addf(b, "sorted by the %s time (-k %s)\n\n",
			  d->opts->semantics == REPORT_PERF ? "average" : "total",
			  d->opts->semantics == REPORT_PERF ? "percent_time: total" : "mean_t: average");
	table_text(&rows, b);
	sbuf_addf(b, "\nTotal Samples:%" PRIu64, t->samples);
	if (t->timed)
		add_sum(d, b, ", Total events handled time", t->total_time);
	sbuf_add(b, ".\n\n");
	if (d->opts->split) {
		rows = (struct table){ .cells = split_cells,
				       .ctx = &x, .n = rows.n + 1, .cycles = rows.cycles,
				       .blank = true };
		table_text(&rows, b);
		add_sum(d, b, "\nGuest run time", t->guest_time);
		sbuf_addf(b, " in %" PRIu64 " entries.\n\n", t->windows);
	}
}

static void report_text(const struct report_doc *d, struct sbuf *b)
{
	const struct report_totals *t;
	const char *note;

	put_sections(&(struct sections){ .d = d, .b = b, .print = text_section });
	t = report_totals(d->r);
	sbuf_addf(b, "# lost events: %" PRIu64 "%s; pairs dropped at gaps: %" PRIu64 "\n", d->lost,
		  d->lost_unknown ? " or more" : "", t->dropped);
	for (size_t i = 0; (note = report_note(d->r, i)); i++)
		text_remarks(b, &note, 1, d->width);
	text_remarks(b, d->remark, d->nremark, d->width);
}

/* ---- JSON and CSV ---- */

static void json_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	const struct report_doc *d = s->d;
	const struct rows x = { d, of, t };
	const struct table rows = report_table_of(&x);
	struct row o;

	row_json(&o, s->j, report_in_cycles(d->r));
	row_str(&o, "vm", of->vm ? of->vm->label : NULL);
	row_str(&o, "vm_id", of->vm && of->vm->cap ? of->vm->cap->id : NULL);
	row_str(&o, "uuid", of->vm && of->vm->cap ? of->vm->cap->uuid : NULL);
	row_s64(&o, "vcpu", of->of.vcpu >= 0, of->of.vcpu);
	row_s64(&o, "tid", of->of.tid, of->of.tid);
	row_u64(&o, "vcpus", true, t->vcpus);
	row_u64(&o, "total_samples", true, t->samples);
	row_time(&o, "total", t->timed || !t->samples, t->total_time);
	report_part_cells(d, &o, t, NULL);
	if (d->opts->split) {
		row_time(&o, "guest", true, t->guest_time);
		row_u64(&o, "entries", true, t->windows);
	}
	row_u64(&o, "rows_total", true, t->n);
	table_json(&rows, "rows", s->j);
	row_end(&o);
}

static void csv_section(struct sections *s, const struct section *of, const struct report_table *t)
{
	const struct rows x = { s->d, of, t };
	const struct table rows = report_table_of(&x);

	table_csv(&rows, false, s->b);
}

static void report_csv(const struct report_doc *d, struct sbuf *b)
{
	const struct section none = { 0 };
	const struct rows x = { d, &none, NULL };
	const struct table head = { .cells = row_cells,
				    .ctx = &x,
				    .cycles = report_in_cycles(d->r) };

	table_csv(&head, true, b);
	put_sections(&(struct sections){ .d = d, .b = b, .print = csv_section });
}

static void report_json(const struct report_doc *d, struct sbuf *b)
{
	const char *note;
	struct json j;
	const struct report_totals *t;

	json_line_begin(&j, b);
	json_put_str(&j, "class", class_name(d->opts->cls));
	json_put_str(&j, "semantics", d->opts->semantics == REPORT_PERF ? "perf" : "exact");
	json_put_str(&j, "unit", report_in_cycles(d->r) ? "cycles" : "ns");
	out_json_rate(&j, d->cap);
	t = report_totals(d->r);
	json_put_u64(&j, "events", t->events);
	json_put_u64(&j, "lost", d->lost);
	json_put_bool(&j, "lost_unknown", d->lost_unknown);
	json_put_u64(&j, "gaps", t->gaps);
	json_put_u64(&j, "damaged", t->damaged);
	json_put_u64(&j, "dropped_pairs", t->dropped);
	json_put_u64(&j, "without_begin", t->no_begin);
	json_put_u64(&j, "without_entry", t->no_end);
	json_put_u64(&j, "open_at_end", t->open);
	json_put_u64(&j, "negative", t->negative);
	json_put_u64(&j, "backwards", t->backwards);
	json_put_u64(&j, "crowded", t->crowded);
	json_put_u64(&j, "without_histogram", t->no_hist);
	json_put_u64(&j, "left_out", t->left_out);
	json_put_u64(&j, "misplaced", t->misplaced);
	json_put_u64(&j, "cut_windows", t->cut);
	json_put_u64(&j, "moved_exits", t->moved);
	if (d->opts->split) {
		json_put_u64(&j, "halt_poll_grow", t->poll_grow);
		json_put_u64(&j, "halt_poll_shrink", t->poll_shrink);
	}
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
	json_line_end(&j);
}

/* ---- metrics ---- */

/* All are gauges, as a capture is a sample of its host; labels are VMs and what is few. */

enum family { EXITS, SECONDS, PARTS, GUEST, FAMILIES };

static const struct {
	const char *name, *help;
	bool time, split;
} families[FAMILIES] = {
	[EXITS] = { "kvmft_exits", "Exits of the VM in the capture.", false, false },
	[SECONDS] = { "kvmft_exit_seconds", "Time from exits to entries, idle time included.", true,
		      false },
	[PARTS] = { "kvmft_exit_part_seconds", "What that time was spent on.", true, true },
	[GUEST] = { "kvmft_guest_seconds", "Time between entries and exits.", true, true },
};

static void report_put(const struct report_doc *d, enum family f, const struct hostmap_vm *vm,
		       const char *label, const char *value, uint64_t v, struct sbuf *b)
{
	metric_of_vm(b, families[f].name, report_hostmap(d->r)->vm, vm, label, value);
	if (families[f].time)
		metric_seconds(b, v);
	else
		sbuf_add_u64(b, v);
	sbuf_addc(b, '\n');
	if (b->len >= 64u << 10)
		b->error = sbuf_write(b, d->f);
}

static void family_of_vm(const struct report_doc *d, enum family f,
			 const struct report_filter *filter, struct sbuf *b)
{
	const struct hostmap_vm *vm = filter->vm < 0 ? NULL : &report_hostmap(d->r)->vm[filter->vm];
	struct report_table t;

	report_table(d->r, filter, KEY_SAMPLE, &t);
	if (f == EXITS || f == SECONDS) {
		char name[METRICS_REASONS + 1][REPORT_NAME];
		uint64_t v[METRICS_REASONS + 1] = { 0 };
		size_t n = 0, k;

		for (size_t i = 0; i < t.n; i++) {
			if (n < METRICS_REASONS)
				report_key_name(d->r, t.row[i].key, name[n]);
			else
				strcpy(name[n], "(others)");
			/* A capture may call two reasons the same. */
			for (k = 0; strcmp(name[k], name[n]);)
				k++;
			n += k == n && n < METRICS_REASONS;
			v[k] += f == EXITS ? t.row[i].samples : t.row[i].total_time;
		}
		for (k = 0; k < n || (k == METRICS_REASONS && v[k]); k++)
			report_put(d, f, vm, "reason", name[k], v[k], b);
	} else if (f == PARTS) {
		char unknown[EVIDENCE_TEXT];

		for (int p = 0; p < REPORT_PARTS; p++)
			if (!report_row_lacks(d->r, &t, NULL, (enum report_part)p))
				report_put(d, PARTS, vm, "part", report_part_names[p],
					   t.part_time[p], b);
		report_put(d, PARTS, vm, "part", "unknown",
			   report_row_unknown(d->r, &t, NULL, unknown, sizeof(unknown)), b);
	} else {
		report_put(d, f, vm, NULL, NULL, t.guest_time, b);
	}
	report_table_free(&t);
}

static void report_metrics(const struct report_doc *d, struct sbuf *b)
{
	struct report_filter filter;
	size_t n = 0, vms;
	_cleanup_free_ bool *has = vms_with_samples(d, &vms);
	const struct capture *cap = d->cap;
	uint64_t end = cap->stop_tsc ?: cap->end_tsc;

	/* How long the host was recorded, and what it lost: families without labels of VMs. */
	if (cap->tsc_khz && cap->begin_tsc && end > cap->begin_tsc) {
		metric_head(b, "kvmft_capture_seconds", "gauge", "How long the host was recorded.");
		sbuf_add(b, "kvmft_capture_seconds ");
		metric_seconds(b, tsc_cycles_to_ns(end - cap->begin_tsc, cap->tsc_khz));
		sbuf_addc(b, '\n');
	}
	metric_head(b, "kvmft_capture_events", "gauge", "Events of the host that were recorded.");
	sbuf_addf(b, "kvmft_capture_events %" PRIu64 "\n", report_totals(d->r)->events);
	metric_head(b, "kvmft_capture_lost_events", "gauge",
		    "Events of the host that were lost; at least, if some were not counted.");
	sbuf_addf(b, "kvmft_capture_lost_events %" PRIu64 "\n", d->lost ?: d->lost_unknown);
	for (unsigned int f = 0; f < FAMILIES && !b->error; f++) {
		if ((families[f].time && report_in_cycles(d->r)) ||
		    (families[f].split && !d->opts->split))
			continue;
		metric_head(b, families[f].name, "gauge", families[f].help);
		n = 0;
		for (size_t vm = 0; vm <= report_hostmap(d->r)->nvm && !b->error; vm++)
			if (has[vm] && ++n <= METRICS_VMS) {
				report_vm_filter(d, vm, &filter);
				family_of_vm(d, (enum family)f, &filter, b);
			}
	}
	metric_head(b, "kvmft_vms_left_out", "gauge", "VMs left out, as there are too many for "
						      "labels.");
	sbuf_addf(b, "kvmft_vms_left_out %zu\n# EOF\n", n > METRICS_VMS ? n - METRICS_VMS : 0);
}

int report_print(const struct report_doc *d, enum report_format format)
{
	static void (*const print[])(const struct report_doc *d, struct sbuf *b) = {
		[REPORT_TEXT] = report_text,
		[REPORT_JSON] = report_json,
		[REPORT_CSV] = report_csv,
		[REPORT_OPENMETRICS] = report_metrics,
	};
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	print[format](d, &b);
	return sbuf_write(&b, d->f);
}

/* ---- `kvmft report --by stack` ---- */

#define NAME_WIDTH 44

struct doc {
	const struct by_stack *b;
	const struct capture *cap;
};

/* Percent times 100, rounded. */
static uint64_t stack_share(const struct doc *d, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)n * 10000 + d->b->stacks / 2) / d->b->stacks);
}

/* The next function of a stack, of *n bytes; NULL after the last one. */
static const char *next_function(const char **stack, size_t *n)
{
	const char *p = *stack, *end = p ? strstr(p, BY_STACK_BETWEEN) : NULL;

	*n = end ? (size_t)(end - p) : p ? strlen(p) : 0;
	*stack = end ? end + strlen(BY_STACK_BETWEEN) : NULL;
	return p;
}

static void stack_cells(struct row *o, const void *ctx, size_t i)
{
	const struct doc *d = ctx;
	const struct by_stack_row none = { 0 };
	const struct by_stack_row r = o->head ? none : by_stack_row(d->b->rows.row[i].text);
	uint64_t n = o->head ? 0 : d->b->rows.row[i].n;
	size_t len;

	row_str(o, "event", r.event);
	row_str(o, "reason", r.reason && *r.reason ? r.reason : NULL);
	row_u64(o, "samples", true, n);
	row_fixed(o, "samples_pct", stack_share(d, n), 2);
	if (o->form == ROW_JSON) {
		json_put_array(o->j, "stack");
		for (const char *at = r.stack, *p; (p = next_function(&at, &len));)
			json_str_mem(o->j, p, len);
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

int by_stack_print(struct by_stack *b, const struct capture *cap, size_t top, const char *format,
		   FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	const struct doc d = { b, cap };
	const struct table t = { .cells = stack_cells,
				 .ctx = &d, .n = top ? MIN(top, b->rows.n) : b->rows.n,
				 .flush = report_write_out,
				 .arg = f };

	if (strcmp(format, "text")) {
		table_doc(&t, !strcmp(format, "csv"), "rows", stack_json_head, &out);
		return sbuf_write(&out, f);
	}
	sbuf_addf(&out, "%llu stacks, the innermost function first\n\n%-*s %10s %9s\n\n",
		  (unsigned long long)b->stacks, NAME_WIDTH, "Event", "Samples", "Samples%");
	for (size_t i = 0; i < t.n && !out.error; i++) {
		const struct by_stack_row r = by_stack_row(b->rows.row[i].text);
		uint64_t pct = stack_share(&d, b->rows.row[i].n);
		size_t from = out.len, len;

		sbuf_addf(&out, "%s%s%s", r.event, *r.reason ? " " : "", r.reason);
		sbuf_addf(&out, "%*s %10llu %5llu.%02llu%%\n",
			  (int)(NAME_WIDTH - MIN(out.len - from, (size_t)NAME_WIDTH)), "",
			  (unsigned long long)b->rows.row[i].n, (unsigned long long)(pct / 100),
			  (unsigned long long)(pct % 100));
		for (const char *at = r.stack, *p; (p = next_function(&at, &len));) {
			sbuf_add(&out, "    ");
			sbuf_add_mem(&out, p, len);
			sbuf_addc(&out, '\n');
		}
		sbuf_addc(&out, '\n');
		out.error = sbuf_write(&out, f);
	}
	if (t.n < b->rows.n)
		sbuf_addf(&out, "%zu more stacks are not shown\n", b->rows.n - t.n);
	if (b->rows.others)
		sbuf_addf(&out, "%llu stacks are in no row: more differ than are kept in memory\n",
			  (unsigned long long)b->rows.others);
	if (b->apart)
		sbuf_addf(&out, "%llu stacks whose event is missing: left out\n",
			  (unsigned long long)b->apart);
	return sbuf_write(&out, f);
}
