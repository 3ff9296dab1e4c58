/* SPDX-License-Identifier: GPL-2.0-or-later */
/* steal_out.c: tables of who takes the CPU from each VM. */
#include "kvmft/results.h"

#include "kvmft/table.h"

#define TEXT_ROWS 10u /* of a VM */

/* Of a table: the cells that are in it, those of the VM that lost most first. */
struct steal_rows {
	const struct exits_page *p;
	const struct steal *s;
	struct steal_row {
		const struct steal_cell *c;
		uint64_t ns, vm_ns;
		size_t more; /* text: so many of this VM's last, together */
	} *v;
	size_t n, cap;
	uint64_t span; /* ns that the interval covers */
};

COMPARE(by_loss, struct steal_row,
	ORDER(y->vm_ns, x->vm_ns) ?: ORDER(x->c->vm, y->c->vm) ?: ORDER(y->ns, x->ns));

/* whole: since the beginning, without VMs whose end was in a table. */
static void steal_rows_make(struct steal_rows *r, bool whole)
{
	const struct steal *s = r->s;
	struct u64map sums = { 0 };

	for (size_t i = 0; i < s->ncell; i++) {
		const struct steal_cell *c = &s->cell[i];
		const struct steal_row row = { c, c->ns - (whole ? 0 : c->shown), 0, 0 };

		if (!row.ns || (whole && r->p->view->e->vm[c->vm].ended > 2))
			continue;
		xarray_add(&r->v, &r->n, &r->cap, &row, sizeof(row));
		*xu64map_at(&sums, c->vm) += row.ns;
	}
	for (size_t i = 0; i < r->n; i++)
		r->v[i].vm_ns = *xu64map_at(&sums, r->v[i].c->vm);
	u64map_free(&sums);
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), by_loss);
	r->span = s->now - s->begin;
}

static const char *steal_taker(const struct steal_rows *r, const struct steal_cell *c)
{
	const struct exits_vm *by = c->by == STEAL_NONE ? NULL : &r->p->view->e->vm[c->by];

	return by ? by->name ?: by->sel : c->kind == STEAL_TASK ? c->comm : NULL;
}

static void steal_cells(struct row *o, const void *ctx, size_t i)
{
	const struct steal_rows *r = ctx;
	static const struct exits_vm no_vm;
	static const struct steal_row none;
	const struct steal_row *w = o->head ? &none : &r->v[i];
	const struct steal_cell *c = w->c;
	const struct exits_vm *vm = c ? &r->p->view->e->vm[c->vm] : &no_vm;
	char others[32];
	/* In us of each second. */
	uint64_t rate = r->span ? (uint64_t)((unsigned __int128)w->ns * 1000000 / r->span) : 0;

	if (o->form == ROW_CSV) {
		row_fixed(o, "time", r->p->realtime_ns / 1000000, 3);
		row_fixed(o, "seconds", r->span / 1000000, 3);
	}
	cell_text(o, COL_LEFT, "VM", "%s%s", vm->name ?: vm->sel ?: "",
		  vm->ended ? " (ended)" : "");
	row_str(o, "vm", vm->sel);
	row_str(o, "name", vm->name);
	row_str(o, "uuid", vm->uuid);
	if (w->more)
		snprintf(others, sizeof(others), "(%zu others)", w->more);
	cell_str(o, IN_ALL | COL_LEFT, "kind", "KIND",
		 c && !w->more ? steal_kind_names[c->kind] : NULL);
	cell_str(o, IN_ALL | COL_LEFT, "by", "TAKEN BY", w->more ? others : c ? steal_taker(r, c) : NULL);
	row_str(o, "by_vm", c && c->by != STEAL_NONE ? r->p->view->e->vm[c->by].sel : NULL);
	row_bool(o, "waited", true, c && c->kind < STEAL_IRQ);
	cell_text(o, 0, "MS/S", "%" PRIu64 ".%03u", rate / 1000, (unsigned int)(rate % 1000));
	cell_text(o, 0, "TOTAL(ms)", "%" PRIu64 ".%03u", w->ns / 1000000,
		  (unsigned int)(w->ns / 1000 % 1000));
	row_fixed(o, "ms_per_second", rate, 3);
	row_time(o, "taken", true, w->ns);
}

static void steal_metrics(const struct steal_rows *r, bool open, struct sbuf *b)
{
	/* The older text names a counter like its samples. */
	metric_head(b, open ? "kvm_cpu_taken_seconds" : "kvm_cpu_taken_seconds_total", "counter",
		    "Time in which another one had the CPU that a vCPU wanted.");
	for (size_t i = 0; i < r->n; i++) {
		const struct steal_cell *c = r->v[i].c;
		const struct exits_vm *vm = &r->p->view->e->vm[c->vm];

		sbuf_add(b, "kvm_cpu_taken_seconds_total{");
		metric_label(b, "vm", vm->sel);
		metric_label(b, "name", vm->name);
		metric_label(b, "uuid", vm->uuid);
		metric_label(b, "kind", steal_kind_names[c->kind]);
		metric_label(b, "by", steal_taker(r, c));
		metric_label(b, "by_vm",
			     c->by == STEAL_NONE ? NULL : r->p->view->e->vm[c->by].sel);
		sbuf_add(b, "} ");
		metric_seconds(b, r->v[i].ns);
		sbuf_addc(b, '\n');
	}
	metric_head(b, open ? "kvm_cpu_taken_gaps" : "kvm_cpu_taken_gaps_total", "counter",
		    "Losses of events, over which nothing is counted.");
	sbuf_addf(b, "kvm_cpu_taken_gaps_total %" PRIu64 "\n%s", r->s->gaps + r->s->odd,
		  open ? "# EOF\n" : "");
}

static void steal_head(struct json *j, const void *ctx)
{
	const struct steal_rows *r = ctx;

	json_put_str(j, "target", r->p->target);
	json_put_fixed(j, "time", r->p->realtime_ns / 1000000, 3);
	json_put_fixed(j, "seconds", r->span / 1000000, 3);
	json_put_u64(j, "lost", r->p->lost);
	json_put_bool(j, "lost_unknown", r->p->lost_unknown);
	json_put_bool(j, "lower_bound", steal_bound(r->s));
}

int steal_print(enum exits_format f, const struct exits_page *p, const struct steal *s,
		struct sbuf *b, exits_flush flush, void *ctx)
{
	struct steal_rows r = { .p = p, .s = s };
	struct table t = { .cells = steal_cells, .ctx = &r, .width = p->width };
	size_t of = 0;

	steal_rows_make(&r, f >= EXITS_OPENMETRICS);
	t.n = r.n;
	switch (f) {
	case EXITS_TEXT:
		if (!p->first)
			sbuf_addc(b, '\n');
		/* For people: of each VM the first, and one row of all others. */
		t.n = 0;
		for (size_t i = 0; i < r.n; i++) {
			of = t.n && r.v[t.n - 1].c->vm == r.v[i].c->vm ? of + 1 : 0;
			if (of > TEXT_ROWS) {
				r.v[t.n - 1].ns += r.v[i].ns;
				r.v[t.n - 1].more = of + 1 - TEXT_ROWS;
			} else {
				r.v[t.n++] = r.v[i];
			}
		}
		table_text(&t, b);
		if (steal_bound(s))
			sbuf_add(b, "# events are missing: all these are lower bounds\n");
		break;
	case EXITS_JSON: table_doc(&t, false, "steal", steal_head, b); break;
	case EXITS_CSV: table_csv(&t, p->first, b); break;
	default: steal_metrics(&r, f == EXITS_OPENMETRICS, b); break;
	}
	free(r.v);
	return b->error ?: flush(ctx, b);
}
