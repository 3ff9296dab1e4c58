/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * list.c: `kvmft list`, the VMs of this machine and what their vCPUs' clocks are.
 *
 * Three formats print the same facts: one block per VM for people, one document for programs, one
 * row per vCPU for spreadsheets.
 */
#include "cmds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/json.h"
#include "kvmft/vm.h"

struct list_opts {
	int format;
};

static const struct opt list_options[] = {
	OPTION_CHOICE(0, "format", struct list_opts, format, "FORMAT", cli_formats,
		      "how to print (default: text)"),
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

/* ---- text ---- */

static void add_ratio(const struct vm_vcpu *v, struct sbuf *b)
{
	switch (v->ratio_state) {
	case VM_RATIO_SET: sbuf_addf(b, "%" PRIu64 "/%u", v->tsc_ratio, v->tsc_frac_bits); break;
	case VM_RATIO_NONE: sbuf_add(b, "not scaled"); break;
	default: sbuf_add(b, ratio_states[v->ratio_state]); break;
	}
	if (v->in_guest_mode)
		sbuf_add(b, "  (with a nested guest's offset and ratio added)");
}

static void text_vcpu(const struct vm_vcpu *v, struct sbuf *b)
{
	char tid[16] = "-", offset[24] = "-", hex[24] = "-";

	if (v->tid)
		snprintf(tid, sizeof(tid), "%u", v->tid);
	if (v->has_offset) {
		snprintf(offset, sizeof(offset), "%" PRId64, (int64_t)v->tsc_offset);
		snprintf(hex, sizeof(hex), "0x%016" PRIx64, v->tsc_offset);
	}
	sbuf_addf(b, "  %5u %8s  %-11s  %20s  %18s  ", v->id, tid, tid_sources[v->tid_source], offset,
		  hex);
	add_ratio(v, b);
	sbuf_addc(b, '\n');
}

static void text_vm(const struct vm_list *l, const struct vm *vm, struct sbuf *b)
{
	sbuf_addf(b, "%s  name %s  uuid %s\n", vm->sel, vm->name ? vm->name : "-",
		  vm->uuid ? vm->uuid : "-");
	sbuf_addf(b, "  %s, pid %u%s, %zu vCPU%s, master clock: %s\n", vm->vmm, vm->pid,
		  vm->pid_sure ? "" : " (not confirmed)", vm->n_vcpus, vm->n_vcpus == 1 ? "" : "s",
		  master_clock(l, vm));
	if (vm->n_vcpus)
		sbuf_addf(b, "  %5s %8s  %-11s  %20s  %18s  %s\n", "VCPU", "TID", "TID-SOURCE",
			  "TSC-OFFSET", "AS-HEX", "TSC-RATIO/FRAC");
	for (size_t i = 0; i < vm->n_vcpus; i++)
		text_vcpu(&vm->vcpu[i], b);
	if (vm->note)
		sbuf_addf(b, "  note: %s\n", vm->note);
}

static int list_text(const struct vm_list *l, struct sbuf *b)
{
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			sbuf_addc(b, '\n');
		text_vm(l, &l->vm[i], b);
	}
	return 0;
}

/* ---- JSON ---- */

static void json_vcpu(struct json *j, const struct vm_vcpu *v)
{
	char hex[24];

	json_object_begin(j);
	json_put_u64(j, "vcpu", v->id);
	json_put_known_u64(j, "tid", v->tid, v->tid);
	json_put_str(j, "tid_source", tid_sources[v->tid_source]);
	snprintf(hex, sizeof(hex), "0x%016" PRIx64, v->tsc_offset);
	json_put_known_s64(j, "tsc_offset", v->has_offset, (int64_t)v->tsc_offset);
	json_put_str(j, "tsc_offset_hex", v->has_offset ? hex : NULL);
	json_put_str(j, "scaling", ratio_states[v->ratio_state]);
	json_put_known_u64(j, "tsc_ratio", v->ratio_state == VM_RATIO_SET, v->tsc_ratio);
	json_put_known_u64(j, "tsc_frac_bits", v->ratio_state == VM_RATIO_SET, v->tsc_frac_bits);
	json_put_bool(j, "guest_mode", v->in_guest_mode);
	json_object_end(j);
}

static void json_vm(struct json *j, const struct vm_list *l, const struct vm *vm)
{
	json_object_begin(j);
	json_put_str(j, "vm", vm->sel);
	json_put_u64(j, "pid", vm->pid);
	json_put_bool(j, "pid_sure", vm->pid_sure);
	json_put_u64(j, "fd", vm->fd);
	json_put_str(j, "name", vm->name);
	json_put_str(j, "uuid", vm->uuid);
	json_put_str(j, "vmm", vm->vmm);
	json_put_str(j, "master_clock", master_clock(l, vm));
	json_put_bool(j, "debugfs", vm->has_debugfs);
	json_put_str(j, "note", vm->note);
	json_put_array(j, "vcpus");
	for (size_t i = 0; i < vm->n_vcpus; i++)
		json_vcpu(j, &vm->vcpu[i]);
	json_array_end(j);
	json_object_end(j);
}

static int list_json(const struct vm_list *l, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_str(&j, "clocksource", l->clocksource);
	json_put_str(&j, "debugfs_note", l->debugfs_text);
	json_put_u64(&j, "hidden_processes", l->n_hidden);
	json_put_bool(&j, "truncated", l->truncated);
	json_put_array(&j, "vms");
	for (size_t i = 0; i < l->n; i++)
		json_vm(&j, l, &l->vm[i]);
	json_array_end(&j);
	return json_line_end(&j);
}

/* ---- CSV (RFC 4180, with \n) ---- */

static void csv_str(struct sbuf *b, const char *text)
{
	sbuf_addc(b, ',');
	sbuf_add_csv(b, text);
}

/* A VM without vCPUs has one row, in which v is NULL. */
static void csv_row(const struct vm_list *l, const struct vm *vm, const struct vm_vcpu *v,
		    struct sbuf *b)
{
	sbuf_addf(b, "%s,%u,%u", vm->sel, vm->pid, vm->fd);
	csv_str(b, vm->name);
	csv_str(b, vm->uuid);
	csv_str(b, vm->vmm);
	csv_str(b, master_clock(l, vm));
	if (v && v->tid)
		sbuf_addf(b, ",%u,%u,%s", v->id, v->tid, tid_sources[v->tid_source]);
	else if (v)
		sbuf_addf(b, ",%u,,%s", v->id, tid_sources[v->tid_source]);
	else
		sbuf_add(b, ",,,");
	if (v && v->has_offset)
		sbuf_addf(b, ",%" PRId64 ",0x%016" PRIx64, (int64_t)v->tsc_offset, v->tsc_offset);
	else
		sbuf_add(b, ",,");
	sbuf_addf(b, ",%s", v ? ratio_states[v->ratio_state] : "");
	if (v && v->ratio_state == VM_RATIO_SET)
		sbuf_addf(b, ",%" PRIu64 ",%u", v->tsc_ratio, v->tsc_frac_bits);
	else
		sbuf_add(b, ",,");
	sbuf_addf(b, ",%s", !v ? "" : v->in_guest_mode ? "1" : "0");
	csv_str(b, vm->note);
	sbuf_addc(b, '\n');
}

static int list_csv(const struct vm_list *l, struct sbuf *b)
{
	sbuf_add(b, "vm,pid,fd,name,uuid,vmm,master_clock,vcpu,tid,tid_source,tsc_offset,"
		    "tsc_offset_hex,scaling,tsc_ratio,tsc_frac_bits,guest_mode,note\n");
	for (size_t i = 0; i < l->n; i++) {
		const struct vm *vm = &l->vm[i];

		if (!vm->n_vcpus)
			csv_row(l, vm, NULL, b);
		for (size_t k = 0; k < vm->n_vcpus; k++)
			csv_row(l, vm, &vm->vcpu[k], b);
	}
	return 0;
}

static int (*const list_formats[])(const struct vm_list *l, struct sbuf *b) = {
	[FORMAT_TEXT] = list_text,
	[FORMAT_JSON] = list_json,
	[FORMAT_CSV] = list_csv,
};

/* ---- the command ---- */

static void list_notes(const struct vm_list *l)
{
	if (l->n && l->debugfs_text)
		cli_note("%s", l->debugfs_text);
	if (l->truncated)
		cli_note("there are more VMs than can be listed");
	if (l->n_hidden)
		cli_note("processes that could not be looked into, by lack of rights: %zu", l->n_hidden);
}

static int list_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
		    struct kvmft_err *err)
{
	const struct list_opts *o = opts;
	struct vm_list *l = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	ret = vm_scan(NULL, &l, err);
	if (ret)
		return ret;
	ret = list_formats[o->format < 0 ? FORMAT_TEXT : o->format](l, &b);
	if (!ret)
		ret = b.error;
	if (ret)
		err_why(err, ret, "cannot make the list");
	else if (b.len)
		fwrite(b.s, 1, b.len, stdout); /* main flushes, and looks whether it worked */
	if (!ret) {
		list_notes(l);
		if (!l->n)
			ret = err_lack(err, ENOENT, "no VM runs here%s%s", l->debugfs_text ? ": " : "",
				       l->debugfs_text ? l->debugfs_text : "");
	}
	vm_list_free(l);
	return ret;
}

const struct cmd cmd_list = {
	.name = "list",
	.summary = "the VMs of this machine, their vCPU threads and TSC offsets",
	.description = "PID-FD, name or UUID of a VM as shown here is what --vm of other commands takes. The TSC\n"
		       "offset and ratio are what convert takes as --tsc-offset and --tsc-ratio. Master clock is\n"
		       "a guess: the conditions that can be seen from here hold. Exit code 4: no VM was found.",
	.examples = "  kvmft list\n"
		    "  kvmft list --format json",
	.opts = list_options,
	.opts_size = sizeof(struct list_opts),
	.run = list_run,
	.min_args = 0,
	.max_args = 0,
};
