/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_out.c: tables of exits. Rows are made and passed on one by one: a table of thousands of
 * vCPUs is never in memory as text.
 */
#include "kvmft/results.h"

#include "kvmft/table.h"

#define FLUSH_AT   (32u << 10)
#define REASON_MAX (2 * EXIT_NAME_MAX)

const char *const exits_format_names[] = {
	"text", "json", "csv", "openmetrics", "prometheus", NULL
};

/* ---- parts ---- */

static uint64_t average_ns(const struct exits_row *r)
{
	return r->timed ? (r->total + r->timed / 2) / r->timed : 0;
}

static const struct exits_vm *exits_vm_of(const struct exits_page *p, const struct exits_row *r)
{
	if (!r->thread || r->thread->vm == EXITS_NONE)
		return r->vm;
	return &p->view->e->vm[r->thread->vm];
}

static const char *reason_of(const struct exits_page *p, const struct exits_row *r, char *buf)
{
	uint32_t flags;
	size_t len;

	if (r->reason == EXITS_WAKE || r->reason == EXITS_HALT)
		return r->reason == EXITS_WAKE ? "(wake-up to entry)" : "(halt to wake-up)";
	/* "HLT", "EPT_VIOLATION FAILED_VMENTRY", "0x4e": name and flags of a reason. */
	flags = exit_reason_flags(p->isa, r->reason);
	exit_reason_text(p->names, p->isa, r->reason, buf, REASON_MAX);
	len = strlen(buf);
	if (flags && len + 1 < REASON_MAX) {
		buf[len] = ' ';
		exit_flags_text(flags, buf + len + 1, REASON_MAX - len - 1);
	}
	return buf;
}

/* ---- cells ---- */

#define SPREAD_FROM 10u /* the first bucket with its own column: up to 1 us */
#define SPREAD_STEP 2u	/* buckets of a column */
#define SPREAD_COLS 14u

/* Percentiles are the upper bounds of their buckets; JSON has those buckets that are not empty. */
static void spread_cells(struct row *o, const struct exits_row *r)
{
	static const char *const heads[] = { "AVG", "P50<", "P99<", "MAX" };
	char text[32], signs[SPREAD_COLS + 1] = "";
	const uint64_t p50 = 1ull << exits_row_percentile(r, 50, 100);
	const uint64_t p99 = 1ull << exits_row_percentile(r, 99, 100);
	const uint64_t ns[] = { average_ns(r), p50, p99, r->max };

	row_time(o, "p50_below", r->timed, p50);
	row_time(o, "p99_below", r->timed, p99);
	if (o->form == ROW_JSON) {
		json_put_array(o->j, "buckets_ns");
		for (unsigned int k = 0; k < EXITS_BUCKETS; k++) {
			if (!r->bucket[k])
				continue;
			json_array_begin(o->j);
			json_u64(o->j, 1ull << k);
			json_u64(o->j, r->bucket[k]);
			json_array_end(o->j);
		}
		json_array_end(o->j);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
		cell_text(o, 0, heads[i], "%s",
			  r->timed && ns[i] ? str_ns(text, sizeof(text), ns[i]) : "-");
	for (unsigned int s = 0; s < SPREAD_COLS; s++) {
		unsigned int lo = s ? SPREAD_FROM + 1 + SPREAD_STEP * (s - 1) : 0,
			     hi = s + 1 < SPREAD_COLS ? SPREAD_FROM + SPREAD_STEP * s
						      : EXITS_BUCKETS - 1;
		uint64_t n = 0;

		for (unsigned int k = lo; k <= hi; k++)
			n += r->bucket[k];
		/* The share of all as a sign: less than 1 in 1000, in 100, in 10, in 3, more. */
		if (!n)
			signs[s] = ' ';
		else if (n > r->timed / 10)
			signs[s] = n > r->timed / 3 ? '#' : '+';
		else
			signs[s] = n > r->timed / 100 ? '-' : n > r->timed / 1000 ? ':' : '.';
	}
	cell_text(o, COL_LEFT, "1us  1ms  1s", "%s", signs);
}

/* As us with two decimals, cut. */
static void exits_cell_time(struct row *o, const char *name, const char *head, bool text,
			    bool known, bool kept, uint64_t ns)
{
	if (o->form != ROW_TEXT)
		row_time(o, name, known && kept, ns);
	else if (text)
		cell_text(o, 0, head, known ? "%" PRIu64 ".%02u" : "-", ns / 1000,
			  (unsigned int)(ns % 1000 / 10));
}

static void exits_cells(struct row *o, const void *ctx, size_t i)
{
	const struct exits_page *p = ctx;
	const bool timed = p->view->e->timed, spreads = p->view->e->spreads;
	struct exits_row r = { 0 };
	const struct exits_vm *vm;
	char reason[REASON_MAX], id[16] = "";
	bool exit;
	unsigned int pid, tid;

	if (!o->head)
		exits_view_row(p->view, i, &r);
	vm = exits_vm_of(p, &r);
	exit = exits_is_exit(r.reason);
	/* A narrow terminal has no room for ids; the VM's name, with the vCPU, stays. */
	pid = p->columns == EXITS_COL_PID_TID ? 0 : COL_HIDE;
	tid = p->columns == EXITS_COL_REASON ? COL_HIDE : 0;
	cell_u64(o, IN_TEXT | COL_LEFT | COL_DROP1 | pid, NULL, "PID", r.thread && r.thread->pid,
		 r.thread ? r.thread->pid : 0);
	cell_u64(o, IN_TEXT | COL_LEFT | COL_DROP2 | tid, NULL, p->tid_header, true,
		 r.thread ? r.thread->tid : 0);
	if (o->form == ROW_CSV) {
		row_fixed(o, "time", p->realtime_ns / 1000000, 3);
		row_fixed(o, "seconds", p->elapsed_ns / 1000000, 3);
	}
	if (o->form == ROW_CSV || (o->form == ROW_JSON && r.thread)) {
		const struct exits_thread none = { .vcpu = EXITS_NONE };
		const struct exits_thread *t = r.thread ?: &none;

		/* For programs; a JSON row of all threads together has none. */
		row_u64(o, "pid", t->pid, t->pid);
		row_u64(o, "tid", r.thread, t->tid);
		row_str(o, "vm", vm ? vm->sel : NULL);
		row_str(o, "name", vm ? vm->name : NULL);
		row_str(o, "uuid", vm ? vm->uuid : NULL);
		row_u64(o, "vcpu", t->vcpu != EXITS_NONE, t->vcpu);
		if (o->form == ROW_JSON)
			row_bool(o, "ended", true, vm && vm->ended);
	}
	cell_str(o, IN_ALL | COL_LEFT, "reason", "KVM_EXIT_REASON", reason_of(p, &r, reason));
	row_u64(o, "code", exit, r.reason);
	cell_u64(o, IN_TEXT | (timed ? 0 : COL_LEFT), NULL, "COUNT", true,
		 spreads ? r.timed : r.count);
	row_u64(o, "count", exit, r.count);
	if (timed) {
		row_u64(o, "timed", true, r.timed);
		exits_cell_time(o, "total", "TOTAL(us)", !spreads, r.timed, true, r.total);
		exits_cell_time(o, "avg", "AVG(us)", !spreads, r.timed, true, average_ns(&r));
		/* The kernel keeps none of what is no exit. */
		exits_cell_time(o, "max", "MAX(us)", !spreads, r.timed, r.max || exit, r.max);
	}
	if (spreads)
		spread_cells(o, &r);
	/* "vm1:0", "1234-12:0", "vm1:-" for a thread that is not a known vCPU, "-" for one of no VM. */
	if (r.thread && r.thread->vcpu != EXITS_NONE)
		snprintf(id, sizeof(id), ":%" PRIu32, r.thread->vcpu);
	if (p->columns != EXITS_COL_REASON)
		cell_text(o, COL_LEFT, "VM:VCPU", "%s%s%s", vm ? vm->name ?: vm->sel : "-",
			  *id || !vm ? id : ":-", vm && vm->ended ? " (ended)" : "");
}

/* ---- OpenMetrics 1.0 text, also valid for readers of the older Prometheus text ---- */

static void metric_labels(const struct exits_page *p, const struct exits_row *r, const char *le,
			  struct sbuf *b)
{
	const struct exits_vm *vm = exits_vm_of(p, r);
	char reason[REASON_MAX];

	sbuf_addc(b, '{');
	if (r->thread || p->view->by_vm) {
		metric_label(b, "vm", vm ? vm->sel : "");
		metric_label(b, "name", vm ? vm->name : "");
		metric_label(b, "uuid", vm ? vm->uuid : "");
	}
	if (r->thread) {
		sbuf_addf(b, ",pid=\"%" PRIu32 "\",tid=\"%" PRIu32 "\",vcpu=\"", r->thread->pid,
			  r->thread->tid);
		if (r->thread->vcpu != EXITS_NONE)
			sbuf_addf(b, "%" PRIu32, r->thread->vcpu);
		sbuf_addc(b, '"');
	}
	if (exits_is_exit(r->reason))
		metric_label(b, "reason", reason_of(p, r, reason));
	if (le)
		metric_label(b, "le", le);
	sbuf_add(b, "} ");
}

enum metric_kind {
	METRIC_COUNT, METRIC_TIMED, METRIC_TOTAL, METRIC_MAX, METRIC_EXITS, METRIC_WAKES,
	METRIC_HALTS, /* histograms */
};

static const struct metric {
	const char *name, *type, *unit, *suffix, *help;
	enum metric_kind kind;
} metrics[] = {
	{ "kvm_exits", "counter", NULL, "_total", "VM exits since kvmft began to count.",
	  METRIC_COUNT },
	{ "kvm_exits_timed", "counter", NULL, "_total",
	  "VM exits whose handling was timed, from kvm_exit to kvm_entry.", METRIC_TIMED },
	{ "kvm_exit_handling_seconds", "counter", "seconds", "_total",
	  "Time in which VM exits were handled, idle time of HLT included.", METRIC_TOTAL },
	{ "kvm_exit_handling_max_seconds", "gauge", "seconds", "",
	  "Longest handling of one VM exit in the last interval.", METRIC_MAX },
	{ "kvm_exit_duration_seconds", "histogram", "seconds", "",
	  "From kvm_exit to kvm_entry, idle time of HLT included.", METRIC_EXITS },
	{ "kvm_wakeup_to_entry_seconds", "histogram", "seconds", "",
	  "From the wake-up of a vCPU's thread to its next kvm_entry.", METRIC_WAKES },
	{ "kvm_halt_seconds", "histogram", "seconds", "",
	  "From a halt of a vCPU to its end, polling included.", METRIC_HALTS },
};

/* The older text names a counter like its samples. */
static void exits_head(const struct metric *m, bool open, struct sbuf *b)
{
	const char *suffix = open ? "" : m->suffix;

	sbuf_addf(b, "# TYPE %s%s %s\n", m->name, suffix, m->type);
	if (m->unit && open)
		sbuf_addf(b, "# UNIT %s %s\n", m->name, m->unit);
	sbuf_addf(b, "# HELP %s%s %s\n", m->name, suffix, m->help);
}

static void metric_row(const struct exits_page *p, const struct metric *m,
		       const struct exits_row *r, struct sbuf *b)
{
	const bool exit = exits_is_exit(r->reason), wake = r->reason == EXITS_WAKE;

	if (m->kind >= METRIC_EXITS) {
		if (r->timed && m->kind == (exit   ? METRIC_EXITS
					    : wake ? METRIC_WAKES
						   : METRIC_HALTS)) {
			_cleanup_(sbuf_free) struct sbuf le = { 0 };
			uint64_t n = 0;

			/* 2^k ns as seconds; the last bucket has all above it, too. */
			for (unsigned int k = 0; k < EXITS_BUCKETS; k++) {
				n += r->bucket[k];
				/* Always the same bounds, or sums over machines would be wrong. */
				if (k < SPREAD_FROM)
					continue;
				sbuf_reset(&le);
				if (k + 1 < EXITS_BUCKETS)
					metric_seconds(&le, 1ull << k);
				else
					sbuf_add(&le, "+Inf");
				sbuf_addf(b, "%s_bucket", m->name);
				metric_labels(p, r, le.s, b);
				sbuf_addf(b, "%" PRIu64 "\n", n);
			}
			sbuf_addf(b, "%s_count", m->name);
			metric_labels(p, r, NULL, b);
			sbuf_addf(b, "%" PRIu64 "\n%s_sum", n, m->name);
			metric_labels(p, r, NULL, b);
			metric_seconds(b, r->total);
			sbuf_addc(b, '\n');
		}
		return;
	}
	if (!exit)
		return;
	sbuf_addf(b, "%s%s", m->name, m->suffix);
	metric_labels(p, r, NULL, b);
	if (m->kind == METRIC_COUNT || m->kind == METRIC_TIMED)
		sbuf_addf(b, "%" PRIu64, m->kind == METRIC_COUNT ? r->count : r->timed);
	else
		metric_seconds(b, m->kind == METRIC_TOTAL ? r->total : r->max);
	sbuf_addc(b, '\n');
}

static void print_metrics(const struct exits_page *p, bool open, struct sbuf *b, exits_flush flush,
			  void *ctx)
{
	static const struct metric lost = {
		"kvm_exits_lost", "counter", NULL, "_total", "VM exits that kvmft could not count.",
		METRIC_COUNT,
	};
	const struct exits *e = p->view->e;
	struct exits_row r;

	for (const struct metric *m = metrics; m < metrics + ARRAY_SIZE(metrics); m++) {
		if (m->kind >= METRIC_EXITS ? !e->spreads : m->kind && !e->timed)
			continue;
		exits_head(m, open, b);
		for (size_t i = 0; i < p->view->n && !b->error; i++) {
			exits_view_row(p->view, i, &r);
			metric_row(p, m, &r, b);
			if (b->len >= FLUSH_AT)
				b->error = flush(ctx, b);
		}
	}
	exits_head(&lost, open, b);
	sbuf_addf(b, "kvm_exits_lost_total %" PRIu64 "\n%s", p->lost, open ? "# EOF\n" : "");
}

int exits_print(enum exits_format f, const struct exits_page *p, struct sbuf *b, exits_flush flush,
		void *ctx)
{
	/* Counts alone have places that do not depend on them. */
	static const unsigned int fixed[] = { 8, 8, 35, 10, 0 };
	struct table t = { .cells = exits_cells,
			   .ctx = p, .n = p->view->n, .width = p->width,
			   .fixed = p->view->e->timed ? NULL : fixed, .flush = flush,
			   .arg = ctx };

	if (f == EXITS_TEXT && p->max_rows)
		t.n = MIN(t.n, p->max_rows);
	switch (f) {
	case EXITS_TEXT: table_text(&t, b); break;
	case EXITS_JSON: {
		struct json j;

		/* One document on one line. */
		json_line_begin(&j, b);
		json_put_str(&j, "target", p->target);
		json_put_str(&j, "engine", p->engine);
		json_put_fixed(&j, "time", p->realtime_ns / 1000000, 3);
		json_put_fixed(&j, "seconds", p->elapsed_ns / 1000000, 3);
		json_put_u64(&j, "lost", p->lost);
		json_put_bool(&j, "lost_unknown", p->lost_unknown);
		json_put_u64(&j, "count", p->view->count);
		table_json(&t, "exits", &j);
		json_line_end(&j);
		break;
	}
	case EXITS_CSV: table_csv(&t, p->first, b); break;
	default: print_metrics(p, f == EXITS_OPENMETRICS, b, flush, ctx); break;
	}
	return b->error ?: flush(ctx, b);
}
