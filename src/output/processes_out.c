/* SPDX-License-Identifier: GPL-2.0-or-later */
/* processes_out.c: `kvmft report --by process` as text, JSON or CSV. */
#include "kvmft/results.h"
#include "kvmft/table.h"

struct process_doc {
	const struct process_view *v;
	const struct process_row **row; /* those shown */
	size_t n;
};

static const char *process_reason_text(const struct process_view *v, const struct process_reason *r,
			       char buf[EXIT_NAME_MAX])
{
	return r ? exit_reason_text(v->names, r->why.isa, r->why.reason, buf, EXIT_NAME_MAX) : NULL;
}

static uint64_t at_most(const struct process_view *v, const struct process_row *r)
{
	return v->tasks ? r->most : r->most + v->p->vm[r->vm].unknown;
}

/* Is one of its bounds more than 5 % away? */
static bool is_vague(const struct process_view *v, const struct process_row *r)
{
	return r->least < r->cpu - r->cpu / 20 || at_most(v, r) > r->cpu + r->cpu / 20;
}

/* Microseconds and three decimals where times are known, else cycles. mark: NULL: not known. */
static void time_cell(struct row *o, const struct process_view *v, unsigned int in,
		      const char *name, const char *head, const char *mark, uint64_t cycles)
{
	uint64_t t = ns_or_cycles(cycles, v->khz);

	if (o->form != ROW_TEXT)
		row_time(o, name, mark, t);
	else if (!mark)
		cell_text(o, IN_TEXT | in, head, "-");
	else if (!v->khz)
		cell_text(o, IN_TEXT | in, head, "%s%" PRIu64, mark, t);
	else
		cell_text(o, IN_TEXT | in, head, "%s%" PRIu64 ".%03" PRIu64, mark, t / 1000000,
			  t / 1000 % 1000);
}

static void process_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct process_row none;
	const struct process_doc *d = ctx;
	const struct process_view *v = d->v;
	const struct process_row *r = o->head ? &none : d->row[i];
	const struct process_reason *top = NULL;
	char label[32], name[EXIT_NAME_MAX], cr3[24];
	bool space = r->kind == PROCESS_SPACE;

	for (size_t k = 0; k < r->nreasons; k++)
		if (!top || r->reason[k].n > top->n)
			top = &r->reason[k];
	switch (r->kind) {
	case PROCESS_SPACE: snprintf(label, sizeof(label), "as-%" PRIu32, r->number); break;
	case PROCESS_IDLE: snprintf(label, sizeof(label), "(idle)"); break;
	case PROCESS_KERNEL: snprintf(label, sizeof(label), "(kernel)"); break;
	case PROCESS_NESTED: snprintf(label, sizeof(label), "(its guests)"); break;
	case PROCESS_TASK: snprintf(label, sizeof(label), "%" PRIu64, r->id);
	}
	snprintf(cr3, sizeof(cr3), "%#" PRIx64, r->id);
	row_str(o, "vm", o->head ? NULL : v->m->vm[r->vm].label);
	if (v->tasks) {
		cell_str(o, IN_ALL, "tid", "TID", label);
	} else {
		cell_str(o, IN_ALL | COL_LEFT, "process", "Process", label);
		row_str(o, "cr3", space ? cr3 : NULL);
	}
	cell_str(o, IN_ALL | COL_LEFT | (v->named ? 0 : COL_HIDE), "name", "Name", r->name);
	time_cell(o, v, 0, "cpu", v->khz ? "CPU ms" : "CPU cycles",
		  o->head || !is_vague(v, r) ? "" : "~", r->cpu);
	time_cell(o, v, v->tasks ? COL_HIDE : 0, "at_least", "At least", "", r->least);
	time_cell(o, v, v->tasks ? COL_HIDE : 0, "at_most", "At most", "",
		  o->head ? 0 : at_most(v, r));
	cell_u64(o, IN_ALL, "exits", "Exits", true, r->exits);
	cell_str(o, IN_ALL | COL_LEFT, "top_exit", "Most are", process_reason_text(v, top, name));
	row_u64(o, "top_exits", top, top ? top->n : 0);
	cell_u64(o, IN_ALL | COL_DROP2, "faults", "Faults", true, r->faults);
	cell_u64(o, IN_ALL | COL_DROP2 | (v->p->has_async ? 0 : COL_HIDE), "async_faults", "Async",
		 v->p->has_async, r->async);
	time_cell(o, v, COL_DROP1, "in_exits", "In exits", "", r->spent);
	time_cell(o, v, COL_DROP1, "stolen", "Stolen", v->p->has_sched ? "" : NULL, r->stolen);
	if (!v->tasks) {
		row_u64(o, "judged", v->named, r->judged);
		row_u64(o, "agree", v->named, r->agree);
	}
	if (o->form == ROW_JSON) {
		json_put_array(o->j, "reasons");
		for (size_t k = 0; k < r->nreasons; k++) {
			json_object_begin(o->j);
			json_put_str(o->j, "reason", process_reason_text(v, &r->reason[k], name));
			json_put_u64(o->j, "exits", r->reason[k].n);
			json_object_end(o->j);
		}
		json_array_end(o->j);
		json_put_u64(o->j, "other_reasons", r->other_reasons);
	}
}

static void process_json_head(struct json *j, const void *ctx)
{
	const struct process_view *v = ((const struct process_doc *)ctx)->v;

	json_put_str(j, "capture", v->cap->path);
	json_put_str(j, "by", v->tasks ? "task" : "process");
	json_put_str(j, "from", v->tasks ? "sched_switch" : "cr3");
	json_put_array(j, "vms");
	for (size_t i = 0; i < v->p->nvm; i++) {
		const struct process_vm *vm = &v->p->vm[i];
		struct row r;

		if (!vm->guest && !vm->exits)
			continue;
		row_json(&r, j, !v->khz);
		row_str(&r, "vm", v->m->vm[i].label);
		time_cell(&r, v, 0, "guest", NULL, "", vm->guest);
		time_cell(&r, v, 0, "unknown", NULL, v->tasks ? NULL : "", vm->unknown);
		row_u64(&r, "exits", true, vm->exits);
		row_u64(&r, "without_cr3", !v->tasks, vm->blind);
		row_u64(&r, "encrypted", !v->tasks, vm->sealed);
		row_u64(&r, "shadow_paging", !v->tasks, vm->shadowed);
		row_u64(&r, "without_entry", true, vm->missed);
		row_u64(&r, "without_row", true, vm->crowded);
		row_bool(&r, "two_tables", !v->tasks, vm->tables);
		row_u64(&r, "judged", v->named && !v->tasks, vm->judged);
		row_u64(&r, "agree", v->named && !v->tasks, vm->agree);
		row_u64(&r, "in_switch", v->named && !v->tasks, vm->switching);
		row_end(&r);
	}
	json_array_end(j);
}

static void add_ms(struct sbuf *b, const struct process_view *v, uint64_t cycles)
{
	char text[32];

	if (v->khz)
		sbuf_add(b, str_ns(text, sizeof(text), tsc_cycles_to_ns(cycles, v->khz)));
	else
		sbuf_addf(b, "%" PRIu64 " cycles", cycles);
}

void processes_print(const struct process_view *v, const char *format, struct sbuf *b)
{
	_cleanup_free_ const struct process_row **row = xcalloc(v->p->n + 1, sizeof(*row));
	struct process_doc d = { .v = v, .row = row };
	struct table t = { .cells = process_cells, .ctx = &d, .cycles = !v->khz };
	size_t n;

	for (size_t i = 0; i < v->p->n; i++)
		if ((v->p->row[i].kind == PROCESS_TASK) == v->tasks &&
		    (v->p->row[i].cpu || v->p->row[i].exits || v->p->row[i].most))
			row[d.n++] = &v->p->row[i];
	t.n = v->top ? MIN(v->top, d.n) : d.n;
	if (strcmp(format, "text")) {
		table_doc(&t, !strcmp(format, "csv"), "rows", process_json_head, b);
		return;
	}
	n = d.n;
	t.width = v->width;
	for (size_t i = 0; i < v->p->nvm; i++) {
		const struct process_vm *vm = &v->p->vm[i];

		d.row += i ? d.n : 0;
		for (d.n = 0; d.n < n && d.row[d.n]->vm == i;)
			d.n++;
		n -= d.n;
		if (!d.n)
			continue;
		t.n = v->top ? MIN(v->top, d.n) : d.n;
		sbuf_addf(b, "%s%s: ", b->len ? "\n" : "", v->m->vm[i].label);
		add_ms(b, v, vm->guest);
		sbuf_addf(b, " in the guest, by %s\n\n",
			  v->tasks ? "its own sched_switch" : "the address spaces at its exits");
		table_text(&t, b);
		if (t.n < d.n)
			sbuf_addf(b, "# %zu more rows are not shown\n", d.n - t.n);
		if (v->tasks)
			continue;
		/* What a table of address spaces does not show, and how sure names are. */
		for (size_t k = 0; k < t.n; k++)
			if (is_vague(v, d.row[k])) {
				sbuf_add(b, "# ~: a bound is more than 5 % away");
				if (v->khz && vm->guest)
					sbuf_addf(b, "; the guest exited %.0f times for each second that it ran",
						  (double)vm->exits * (double)v->khz * 1000 /
						  (double)vm->guest);
				sbuf_add(b, "\n");
				break;
			}
		if (vm->sealed)
			sbuf_addf(b, "# not recorded: %" PRIu64 " exits with encrypted registers (SEV-ES, SEV-SNP): "
				  "the host cannot know\n", vm->sealed);
		if (vm->shadowed)
			sbuf_addf(b, "# not recorded: %" PRIu64 " exits without nested paging, whose CR3 is "
				  "KVM's\n", vm->shadowed);
		if (vm->unknown) {
			sbuf_add(b, "# not recorded: ");
			add_ms(b, v, vm->unknown);
			sbuf_add(b, " may be of any of them, and is part of each \"at most\"\n");
		}
		if (vm->missed)
			sbuf_addf(b, "# %" PRIu64 " exits without kvm_entry before: they count, but have no "
				  "time\n", vm->missed);
		if (vm->crowded)
			sbuf_addf(b, "# more address spaces than are kept in memory: %" PRIu64 " exits are in "
				  "no row\n", vm->crowded);
		if (v->named && vm->judged)
			sbuf_addf(b, "# names are by sched_switch in the guest: it says the same of %" PRIu64
				  " of %" PRIu64 " exits\n", vm->agree, vm->judged);
	}
}
