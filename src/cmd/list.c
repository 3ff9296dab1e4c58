/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * list.c: `kvmft list`, the VMs of this machine and what their vCPUs' clocks are.
 *
 * Three formats print the same facts: one block per VM for people, one document for programs, one
 * row per vCPU for spreadsheets.
 */
#include "cmds.h"
#include "kvmft/table.h"
#include "kvmft/vm.h"

struct list_opts {
	int format;
	bool quiet;
};

static const struct opt list_options[] = {
	FORMAT_OPTION(struct list_opts, cli_formats),
	OPT_END,
};

/* ---- words; they are part of the JSON and CSV formats ---- */

static const char *const tid_sources[] = {
	[VM_TID_UNKNOWN] = "unknown",
	[VM_TID_NEVER_RAN] = "never-ran",
	[VM_TID_DEBUGFS] = "debugfs",
	[VM_TID_THREAD_NAME] = "thread-name",
};

static const char *const ratio_states[] = {
	[VM_RATIO_UNKNOWN] = "unknown",
	[VM_RATIO_NONE] = "none",
	[VM_RATIO_SET] = "scaled",
	[VM_RATIO_REFUSED] = "refused",
};

static const char *master_clock(const struct vm_list *l, const struct vm *vm)
{
	int guess = vm_guess_master_clock(l, vm);

	return guess > 0 ? "likely" : guess < 0 ? "no" : "unknown";
}

static void text_vm(const struct vm_list *l, const struct vm *vm, struct sbuf *b)
{
	sbuf_addf(b, "%s  name %s  uuid %s\n", vm->sel, vm->name ?: "-", vm->uuid ?: "-");
	sbuf_addf(b, "  %s, pid %u%s, %zu vCPU%s, master clock: %s\n", vm->vmm, vm->pid,
		  vm->pid_sure ? "" : " (not confirmed)", vm->n_vcpus, vm->n_vcpus == 1 ? "" : "s",
		  master_clock(l, vm));
	if (vm->has_uid)
		sbuf_addf(b, "  of user %u%s", vm->uid, vm->uid == getuid() ? " (you)" : "");
	if (vm->parent)
		sbuf_addf(b, "%sstarted by %s, pid %u", vm->has_uid ? ", " : "  ", vm->starter,
			  vm->parent);
	if (vm->has_uid || vm->parent)
		sbuf_addc(b, '\n');
	if (vm->n_vcpus)
		sbuf_addf(b, " %4s %7s %-11s %20s %18s %s\n", "VCPU", "TID", "TID-SOURCE",
			  "TSC-OFFSET", "AS-HEX", "TSC-RATIO/FRAC");
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		sbuf_addf(b, " %4u %7s %-11s %20s %18s ", v->id, v->tid ? TEXTF("%u", v->tid) : "-",
			  tid_sources[v->tid_source],
			  v->has_offset ? TEXTF("%" PRId64, (int64_t)v->tsc_offset) : "-",
			  v->has_offset ? TEXTF("0x%016" PRIx64, v->tsc_offset) : "-");
		switch (v->ratio_state) {
		case VM_RATIO_SET:
			sbuf_addf(b, "%" PRIu64 "/%u", v->tsc_ratio, v->tsc_frac_bits);
			break;
		case VM_RATIO_NONE: sbuf_add(b, "not scaled"); break;
		default: sbuf_add(b, ratio_states[v->ratio_state]); break;
		}
		if (v->in_guest_mode)
			sbuf_add(b, "  (with a nested guest's offset and ratio added)");
		sbuf_addc(b, '\n');
	}
	if (vm->note)
		sbuf_addf(b, "  note: %s\n", vm->note);
}

/* ---- JSON and CSV (RFC 4180, with \n) ---- */

/* v: NULL in the one line of CSV of a VM without vCPUs. */
static void list_vcpu_cells(struct row *o, const struct vm_vcpu *v)
{
	const struct vm_vcpu none = { 0 }, *c = v ?: &none;
	bool scaled = c->ratio_state == VM_RATIO_SET;

	row_u64(o, "vcpu", v, c->id);
	row_u64(o, "tid", c->tid, c->tid);
	row_str(o, "tid_source", v ? tid_sources[c->tid_source] : NULL);
	row_s64(o, "tsc_offset", c->has_offset, (int64_t)c->tsc_offset);
	row_str(o, "tsc_offset_hex",
		c->has_offset ? TEXTF("0x%016" PRIx64, c->tsc_offset) : NULL);
	row_str(o, "scaling", v ? ratio_states[c->ratio_state] : NULL);
	row_u64(o, "tsc_ratio", v && scaled, c->tsc_ratio);
	row_u64(o, "tsc_frac_bits", v && scaled, c->tsc_frac_bits);
	row_bool(o, "guest_mode", v, c->in_guest_mode);
}

static void vcpu_row(struct row *o, const void *vm, size_t i)
{
	list_vcpu_cells(o, &((const struct vm *)vm)->vcpu[i]);
}

/* A VM; in CSV each of its vCPUs, or one line where there is none. */
static void list_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct vm none;
	const struct vm_list *l = ctx;
	const struct vm *vm = o->head ? &none : &l->vm[i];

	for (size_t k = 0; k < MAX(vm->n_vcpus, (size_t)1); k++) {
		if (k)
			row_end(o);
		row_str(o, "vm", vm->sel);
		row_u64(o, "pid", true, vm->pid);
		if (o->form == ROW_JSON)
			row_bool(o, "pid_sure", true, vm->pid_sure);
		row_u64(o, "fd", true, vm->fd);
		row_str(o, "name", vm->name);
		row_str(o, "uuid", vm->uuid);
		row_str(o, "vmm", vm->vmm);
		row_str(o, "master_clock", master_clock(l, vm));
		if (o->form == ROW_JSON) {
			row_bool(o, "debugfs", true, vm->has_debugfs);
			row_u64(o, "uid", vm->has_uid, vm->uid);
			row_str(o, "started_by", vm->parent ? vm->starter : NULL);
			row_u64(o, "started_by_pid", vm->parent, vm->parent);
		}
		if (o->form == ROW_CSV)
			list_vcpu_cells(o, vm->n_vcpus ? &vm->vcpu[k] : NULL);
		row_str(o, "note", vm->note);
		if (o->form == ROW_JSON) {
			table_json(&(struct table){ .cells = vcpu_row, .ctx = vm,
						    .n = vm->n_vcpus }, "vcpus", o->j);
			return;
		}
	}
}

static void list_json_head(struct json *j, const void *ctx)
{
	const struct vm_list *l = ctx;

	json_put_str(j, "clocksource", l->clocksource);
	json_put_str(j, "debugfs_note", l->debugfs_text);
	json_put_u64(j, "hidden_processes", l->n_hidden);
	json_put_bool(j, "truncated", l->truncated);
}

static int list_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
		    struct kvmft_err *err)
{
	const struct list_opts *o = opts;
	struct vm_list *l = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char hidden[160];
	int ret = vm_scan(NULL, &l, err);

	if (ret)
		return ret;
	for (size_t i = 0; o->format <= FORMAT_TEXT && i < l->n; i++) {
		if (i)
			sbuf_addc(&b, '\n');
		text_vm(l, &l->vm[i], &b);
	}
	if (o->format > FORMAT_TEXT)
		table_doc(&(struct table){ .cells = list_cells, .ctx = l, .n = l->n },
			  o->format == FORMAT_CSV, "vms", list_json_head, &b);
	ret = sink_show(&b, err);
	if (!ret) {
		if (l->n && l->debugfs_text)
			cli_remarks(o->quiet)("%s", l->debugfs_text);
		if (l->truncated)
			cli_note("there are more VMs than can be listed");
		if (l->n && l->n_hidden)
			cli_note("%s", vm_list_hidden(l, hidden, sizeof(hidden)));
		if (!l->n)
			ret = vm_list_none(l, err);
	}
	vm_list_free(l);
	return ret;
}

const struct cmd cmd_list = {
	.name = "list",
	.summary = "the VMs of this machine, their vCPU threads and TSC offsets",
	.description =
		"PID-FD, name or UUID of a VM as shown here is what --vm of other commands takes. The TSC\n"
		"offset and ratio are what convert takes as --tsc-offset and --tsc-ratio. Master clock is\n"
		"a guess: the conditions that can be seen from here hold. Exit code 4: no VM was found.",
	.examples = "  kvmft list\n"
		    "  kvmft list --format json",
	.opts = list_options,
	.opts_size = sizeof(struct list_opts),
	.quiet = offsetof(struct list_opts, quiet),
	.run = list_run,
};
