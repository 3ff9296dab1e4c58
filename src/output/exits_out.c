/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_out.c: tables of exits. Rows are made and passed on one by one: a table of thousands of
 * vCPUs is never in memory as text.
 */
#include "kvmft/exits_out.h"

#include <inttypes.h>

#include "kvmft/columns.h"
#include "kvmft/table.h"
#include "metrics.h"

#define FLUSH_AT     (32u << 10)
#define REASON_MAX   (2 * EXIT_NAME_MAX)

const char *const exits_format_names[] = { "text", "json", "csv", "openmetrics",
					   "prometheus", NULL };

/* ---- parts ---- */

/* "HLT", "EPT_VIOLATION FAILED_VMENTRY", "0x4e": name and flags of a reason. Returns buf. */
static char *exits_reason_text(const struct exit_names *n, enum exit_isa isa, uint32_t reason,
			       char *buf, size_t size)
{
	uint32_t flags = exit_reason_flags(isa, reason);
	size_t len;

	exit_reason_text(n, isa, reason, buf, size);
	len = strlen(buf);
	if (flags && len + 1 < size) {
		buf[len] = ' ';
		exit_flags_text(flags, buf + len + 1, size - len - 1);
	}
	return buf;
}

static uint64_t average_ns(const struct exits_row *r)
{
	return r->timed ? (r->total + r->timed / 2) / r->timed : 0;
}

static const struct exits_vm *vm_of(const struct exits_page *p, const struct exits_row *r)
{
	if (!r->thread || r->thread->vm == EXITS_NONE)
		return r->vm;
	return &p->view->e->vm[r->thread->vm];
}

static const char *reason_of(const struct exits_page *p, const struct exits_row *r, char *buf)
{
	if (r->reason == EXITS_WAKE || r->reason == EXITS_HALT)
		return r->reason == EXITS_WAKE ? "(wake-up to entry)" : "(halt to wake-up)";
	return exits_reason_text(p->names, p->isa, r->reason, buf, REASON_MAX);
}

/* ---- text ---- */

/* "vm1:0", "1234-12:0", "vm1:-" for a thread that is not a known vCPU, "-" for one of no VM. */
static void put_vcpu(const struct exits_page *p, const struct exits_row *r, struct columns *c,
		     struct sbuf *b)
{
	const struct exits_vm *vm = vm_of(p, r);
	char id[16] = "";

	if (r->thread && r->thread->vcpu != EXITS_NONE)
		snprintf(id, sizeof(id), ":%" PRIu32, r->thread->vcpu);
	columns_put(c, b, "%s%s%s", vm ? vm->name ?: vm->sel : "-",
		    *id || !vm ? id : ":-", vm && vm->ended ? " (ended)" : "");
}

#define SPREAD_FROM 10u /* the first bucket with its own column: up to 1 us */
#define SPREAD_STEP 2u	/* buckets of a column */
#define SPREAD_COLS 14u

/* The share of all as a sign: less than 1 in 1000, in 100, in 10, in 3, more. */
static char density(uint64_t n, uint64_t all)
{
	if (!n)
		return ' ';
	if (n > all / 10)
		return n > all / 3 ? '#' : '+';
	return n > all / 100 ? '-' : n > all / 1000 ? ':' : '.';
}

static void put_spread(const struct exits_row *r, struct columns *c, struct sbuf *b)
{
	char text[32], signs[SPREAD_COLS + 1] = "";
	const uint64_t ns[] = {
		average_ns(r), 1ull << exits_row_percentile(r, 50, 100),
		1ull << exits_row_percentile(r, 99, 100), r->max,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
		columns_put(c, b, "%s",
			    r->timed && ns[i] ? str_ns(text, sizeof(text), ns[i]) : "-");
	for (unsigned int s = 0; s < SPREAD_COLS; s++) {
		unsigned int lo = s ? SPREAD_FROM + 1 + SPREAD_STEP * (s - 1) : 0,
			     hi = s + 1 < SPREAD_COLS ? SPREAD_FROM + SPREAD_STEP * s :
							EXITS_BUCKETS - 1;
		uint64_t n = 0;

		for (unsigned int k = lo; k <= hi; k++)
			n += r->bucket[k];
		signs[s] = density(n, r->timed);
	}
	columns_put(c, b, "%s", signs);
}

static void put_times(const struct exits_row *r, struct columns *c, struct sbuf *b)
{
	const uint64_t ns[] = { r->total, average_ns(r), r->max };

	for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
		if (r->timed)
			columns_put(c, b, "%" PRIu64 ".%02u", ns[i] / 1000,
				    (unsigned int)(ns[i] % 1000 / 10));
		else
			columns_put(c, b, "-");
}

enum { COL_PID, COL_TID, COL_REASON, COL_COUNT, COL_TIMES };
#define COL_SPREAD (COL_TIMES + 4) /* signs */

static void text_header(const struct exits_page *p, struct columns *c, struct sbuf *b)
{
	static const char *const times[] = { "TOTAL(us)", "AVG(us)", "MAX(us)", NULL },
		*const spread[] = { "AVG", "P50<", "P99<", "MAX", "1us  1ms  1s", NULL },
		*const none[] = { NULL };
	const struct exits *e = p->view->e;

	columns_put(c, b, "PID");
	columns_put(c, b, "%s", p->tid_header);
	columns_put(c, b, "KVM_EXIT_REASON");
	columns_put(c, b, "COUNT");
	for (const char *const *t = e->spreads ? spread : e->timed ? times : none; *t; t++)
		columns_put(c, b, "%s", *t);
	columns_put(c, b, p->columns == EXITS_COL_REASON ? "" : "VM:VCPU");
	columns_end(c, b);
}

static void text_row(const struct exits_page *p, const struct exits_row *r, struct columns *c,
		     struct sbuf *b)
{
	const struct exits *e = p->view->e;
	char reason[REASON_MAX];

	if (r->thread && r->thread->pid)
		columns_put(c, b, "%" PRIu32, r->thread->pid);
	else
		columns_put(c, b, "-");
	columns_put(c, b, "%" PRIu32, r->thread ? r->thread->tid : 0);
	columns_put(c, b, "%s", reason_of(p, r, reason));
	columns_put(c, b, "%" PRIu64, e->spreads ? r->timed : r->count);
	if (e->spreads)
		put_spread(r, c, b);
	else if (e->timed)
		put_times(r, c, b);
	if (p->columns != EXITS_COL_REASON)
		put_vcpu(p, r, c, b);
	columns_end(c, b);
}

/* Counts alone have places that do not depend on them. */
static void text_begin(const struct exits_page *p, struct columns *c)
{
	const struct exits *e = p->view->e;

	if (p->columns == EXITS_COL_REASON)
		c->hide = 1 << COL_PID | 1 << COL_TID;
	else if (p->columns == EXITS_COL_TID)
		c->hide = 1 << COL_PID;
	c->left = 1 << COL_PID | 1 << COL_TID | 1 << COL_REASON;
	if (e->timed) {
		c->left |= 1 << (e->spreads ? COL_SPREAD : COL_TIMES + 3) | 1 << (COL_SPREAD + 1);
		return;
	}
	c->print = true;
	c->left |= 1 << COL_COUNT | 1 << COL_TIMES;
	c->width[COL_PID] = c->width[COL_TID] = 8;
	c->width[COL_REASON] = 35;
	c->width[COL_COUNT] = 10;
}

/* A narrow terminal has no room for ids; the name of the VM, with the vCPU, is still there. */
static void text_fit(const struct exits_page *p, struct columns *c)
{
	static const unsigned char less[] = { COL_PID, COL_TID };

	columns_fit(c, p->width, less, ARRAY_SIZE(less));
	c->print = true;
}

static int print_text(const struct exits_page *p, struct sbuf *b, exits_flush flush, void *ctx)
{
	size_t n = p->max_rows ? MIN(p->view->n, p->max_rows) : p->view->n;
	struct columns c = { .print = false };
	struct exits_row r;
	int ret = 0;

	text_begin(p, &c);
	for (size_t pass = c.print; pass < 2 && !ret; pass++) {
		if (pass && !c.print)
			text_fit(p, &c);
		text_header(p, &c, b);
		for (size_t i = 0; i < n && !ret; i++) {
			exits_view_row(p->view, i, &r);
			text_row(p, &r, &c, b);
			if (b->len >= FLUSH_AT)
				ret = flush(ctx, b);
		}
	}
	return ret;
}

/* ---- JSON and CSV ---- */

/* The thread's columns; a JSON row of all threads together has none. */
static void thread_columns(struct row *o, const struct exits_page *p, const struct exits_row *r)
{
	const struct exits_thread none = { .vcpu = EXITS_NONE }, *t = r->thread ?: &none;
	const struct exits_vm *vm = vm_of(p, r);

	row_u64(o, "pid", t->pid, t->pid);
	row_u64(o, "tid", r->thread, t->tid);
	row_str(o, "vm", vm ? vm->sel : NULL);
	row_str(o, "name", vm ? vm->name : NULL);
	row_str(o, "uuid", vm ? vm->uuid : NULL);
	row_u64(o, "vcpu", t->vcpu != EXITS_NONE, t->vcpu);
	if (o->form == ROW_JSON)
		row_bool(o, "ended", true, vm && vm->ended);
}

/* Percentiles are the upper bounds of their buckets; JSON has those buckets that are not empty. */
static void spread_columns(struct row *o, const struct exits_row *r)
{
	row_time(o, "p50_below", r->timed, 1ull << exits_row_percentile(r, 50, 100));
	row_time(o, "p99_below", r->timed, 1ull << exits_row_percentile(r, 99, 100));
	if (o->form != ROW_JSON)
		return;
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

static void columns(struct row *o, const struct exits_page *p, const struct exits_row *r)
{
	char reason[REASON_MAX];

	if (o->form != ROW_JSON) {
		row_fixed(o, "time", p->realtime_ns / 1000000, 3);
		row_fixed(o, "seconds", p->elapsed_ns / 1000000, 3);
	}
	if (r->thread || o->form != ROW_JSON)
		thread_columns(o, p, r);
	row_str(o, "reason", reason_of(p, r, reason));
	row_u64(o, "code", exits_is_exit(r->reason), r->reason);
	row_u64(o, "count", exits_is_exit(r->reason), r->count);
	if (p->view->e->timed) {
		row_u64(o, "timed", true, r->timed);
		row_time(o, "total", r->timed, r->total);
		row_time(o, "avg", r->timed, average_ns(r));
		/* The kernel keeps none of what is no exit. */
		row_time(o, "max", r->timed && (r->max || exits_is_exit(r->reason)), r->max);
	}
	if (p->view->e->spreads)
		spread_columns(o, r);
	row_end(o);
}

/* One document on one line. */
static int print_json(const struct exits_page *p, struct sbuf *b, exits_flush flush, void *ctx)
{
	struct exits_row r;
	struct json j;
	struct row o;
	int ret = 0;

	json_line_begin(&j, b);
	json_put_str(&j, "target", p->target);
	json_put_str(&j, "engine", p->engine);
	json_put_fixed(&j, "time", p->realtime_ns / 1000000, 3);
	json_put_fixed(&j, "seconds", p->elapsed_ns / 1000000, 3);
	json_put_u64(&j, "lost", p->lost);
	json_put_bool(&j, "lost_unknown", p->lost_unknown);
	json_put_u64(&j, "count", p->view->count);
	json_put_array(&j, "exits");
	for (size_t i = 0; i < p->view->n && !ret; i++) {
		exits_view_row(p->view, i, &r);
		row_json(&o, &j, false);
		columns(&o, p, &r);
		if (b->len >= FLUSH_AT)
			ret = flush(ctx, b);
	}
	json_array_end(&j);
	return ret ?: json_line_end(&j);
}

static int print_csv(const struct exits_page *p, struct sbuf *b, exits_flush flush, void *ctx)
{
	struct exits_row r = { 0 };
	struct row o;
	int ret = 0;

	row_head(&o, b, false);
	if (p->first)
		columns(&o, p, &r);
	for (size_t i = 0; i < p->view->n && !ret; i++) {
		exits_view_row(p->view, i, &r);
		row_csv(&o, b, false);
		columns(&o, p, &r);
		if (b->len >= FLUSH_AT)
			ret = flush(ctx, b);
	}
	return ret;
}

/* ---- OpenMetrics 1.0 text, also valid for readers of the older Prometheus text ---- */

static void metric_labels(const struct exits_page *p, const struct exits_row *r, const char *le,
			  struct sbuf *b)
{
	const struct exits_vm *vm = vm_of(p, r);
	char reason[REASON_MAX];

	sbuf_addc(b, '{');
	if (r->thread || p->view->by_vm) {
		metric_label(b, "vm", vm ? vm->sel : "");
		sbuf_addc(b, ',');
		metric_label(b, "name", vm ? vm->name : "");
		sbuf_addc(b, ',');
		metric_label(b, "uuid", vm ? vm->uuid : "");
		sbuf_addc(b, ',');
	}
	if (r->thread) {
		sbuf_addf(b, "pid=\"%" PRIu32 "\",tid=\"%" PRIu32 "\",vcpu=\"", r->thread->pid,
			  r->thread->tid);
		if (r->thread->vcpu != EXITS_NONE)
			sbuf_addf(b, "%" PRIu32, r->thread->vcpu);
		sbuf_add(b, "\",");
	}
	if (exits_is_exit(r->reason))
		metric_label(b, "reason", reason_of(p, r, reason));
	else if (b->s[b->len - 1] == ',')
		b->len--;
	if (le)
		sbuf_addf(b, "%sle=\"%s\"", b->s[b->len - 1] == '{' ? "" : ",", le);
	sbuf_add(b, "} ");
}

enum metric_kind { METRIC_COUNT, METRIC_TIMED, METRIC_TOTAL, METRIC_MAX };

static const struct metric {
	const char *name, *type, *unit, *suffix, *help;
	enum metric_kind kind;
	bool timed;
} metrics[] = {
	{ "kvm_exits", "counter", NULL, "_total", "VM exits since kvmft began to count.",
	  METRIC_COUNT, false },
	{ "kvm_exits_timed", "counter", NULL, "_total",
	  "VM exits whose handling was timed, from kvm_exit to kvm_entry.", METRIC_TIMED, true },
	{ "kvm_exit_handling_seconds", "counter", "seconds", "_total",
	  "Time in which VM exits were handled, idle time of HLT included.", METRIC_TOTAL, true },
	{ "kvm_exit_handling_max_seconds", "gauge", "seconds", "",
	  "Longest handling of one VM exit in the last interval.", METRIC_MAX, true },
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
	sbuf_addf(b, "%s%s", m->name, m->suffix);
	metric_labels(p, r, NULL, b);
	switch (m->kind) {
	case METRIC_COUNT: sbuf_addf(b, "%" PRIu64, r->count); break;
	case METRIC_TIMED: sbuf_addf(b, "%" PRIu64, r->timed); break;
	case METRIC_TOTAL: metric_seconds(b, r->total); break;
	case METRIC_MAX: metric_seconds(b, r->max); break;
	}
	sbuf_addc(b, '\n');
}

/* ---- the same, as histograms ---- */

enum spread_of { SPREAD_EXITS, SPREAD_WAKES, SPREAD_HALTS };

static const struct metric spreads[] = {
	[SPREAD_EXITS] = { .name = "kvm_exit_duration_seconds", .type = "histogram", .unit = "seconds",
			   .suffix = "",
			   .help = "From kvm_exit to kvm_entry, idle time of HLT included." },
	[SPREAD_WAKES] = { .name = "kvm_wakeup_to_entry_seconds", .type = "histogram",
			   .unit = "seconds", .suffix = "",
			   .help = "From the wake-up of a vCPU's thread to its next kvm_entry." },
	[SPREAD_HALTS] = { .name = "kvm_halt_seconds", .type = "histogram", .unit = "seconds",
			   .suffix = "",
			   .help = "From a halt of a vCPU to its end, polling included." },
};

static enum spread_of spread_of(uint32_t reason)
{
	if (exits_is_exit(reason))
		return SPREAD_EXITS;
	return reason == EXITS_WAKE ? SPREAD_WAKES : SPREAD_HALTS;
}

/* 2^k ns as seconds; values above the last bucket's bound are counted in it, too. */
static void spread_metric(const struct exits_page *p, const struct metric *m,
			  const struct exits_row *r, struct sbuf *b)
{
	_cleanup_(sbuf_free) struct sbuf le = { 0 };
	uint64_t n = 0;

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

static int print_spreads(const struct exits_page *p, bool open, struct sbuf *b, exits_flush flush,
			 void *ctx)
{
	struct exits_row r;
	int ret = 0;

	for (size_t k = 0; k < ARRAY_SIZE(spreads) && !ret; k++) {
		exits_head(&spreads[k], open, b);
		for (size_t i = 0; i < p->view->n && !ret; i++) {
			exits_view_row(p->view, i, &r);
			if (spread_of(r.reason) == k && r.timed)
				spread_metric(p, &spreads[k], &r, b);
			if (b->len >= FLUSH_AT)
				ret = flush(ctx, b);
		}
	}
	return ret;
}

static int print_metrics(const struct exits_page *p, bool open, struct sbuf *b, exits_flush flush,
			 void *ctx)
{
	static const struct metric lost = {
		"kvm_exits_lost", "counter", NULL, "_total",
		"VM exits that kvmft could not count.", METRIC_COUNT, false,
	};
	struct exits_row r;
	int ret = 0;

	for (size_t k = 0; k < ARRAY_SIZE(metrics) && !ret; k++) {
		if (metrics[k].timed && !p->view->e->timed)
			continue;
		exits_head(&metrics[k], open, b);
		for (size_t i = 0; i < p->view->n && !ret; i++) {
			exits_view_row(p->view, i, &r);
			if (!exits_is_exit(r.reason))
				continue;
			metric_row(p, &metrics[k], &r, b);
			if (b->len >= FLUSH_AT)
				ret = flush(ctx, b);
		}
	}
	if (!ret && p->view->e->spreads)
		ret = print_spreads(p, open, b, flush, ctx);
	exits_head(&lost, open, b);
	sbuf_addf(b, "kvm_exits_lost_total %" PRIu64 "\n%s", p->lost, open ? "# EOF\n" : "");
	return ret;
}

static int print_openmetrics(const struct exits_page *p, struct sbuf *b, exits_flush flush,
			     void *ctx)
{
	return print_metrics(p, true, b, flush, ctx);
}

static int print_prometheus(const struct exits_page *p, struct sbuf *b, exits_flush flush,
			    void *ctx)
{
	return print_metrics(p, false, b, flush, ctx);
}

/* ---- all ---- */

int exits_print(enum exits_format f, const struct exits_page *p, struct sbuf *b,
		exits_flush flush, void *ctx)
{
	static int (*const print[])(const struct exits_page *, struct sbuf *, exits_flush,
				    void *) = {
		[EXITS_TEXT] = print_text,
		[EXITS_JSON] = print_json,
		[EXITS_CSV] = print_csv,
		[EXITS_OPENMETRICS] = print_openmetrics,
		[EXITS_PROMETHEUS] = print_prometheus,
	};
	int ret = print[f](p, b, flush, ctx);

	ret = ret ?: flush(ctx, b);
	return ret ?: b->error;
}
