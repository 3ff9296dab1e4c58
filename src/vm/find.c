/* SPDX-License-Identifier: GPL-2.0-or-later */
/* find.c: the VM that a user means, and the small services of struct vm. */
#include "kvmft/vm.h"

#include <strings.h>

#include "kvmft/vmsel.h"

int vm_vcpu_compare(const void *a, const void *b)
{
	const struct vm_vcpu *x = a, *y = b;

	return ORDER(x->id, y->id);
}

void vm_free_members(struct vm *vm)
{
	free(vm->sel);
	free(vm->vmm);
	free(vm->name);
	free(vm->uuid);
	free(vm->note);
	free(vm->vcpu);
}

void vm_list_free(struct vm_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		vm_free_members(&list->vm[i]);
	free(list->vm);
	free(list->debugfs_text);
	free(list->clocksource);
	free(list);
}

int vm_add_note(struct vm *vm, const char *fmt, ...)
{
	struct sbuf b = { 0 };
	char text[512];
	va_list ap;
	char *note;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (vm->note) {
		sbuf_add(&b, vm->note);
		sbuf_add(&b, "; ");
	}
	sbuf_add(&b, text);
	note = sbuf_take(&b);
	if (!note)
		return -ENOMEM;
	free(vm->note);
	vm->note = note;
	return 0;
}

void vm_describe(const struct vm *vm, struct sbuf *out)
{
	sbuf_add(out, vm->sel);
	if (vm->name)
		sbuf_addf(out, " name=%s", vm->name);
	if (vm->uuid)
		sbuf_addf(out, " uuid=%s", vm->uuid);
	if (vm->pid != vm->dir_pid)
		sbuf_addf(out, " pid=%u", vm->pid);
	sbuf_addf(out, " vmm=%s", vm->vmm);
}

/* "tids:LIST": all of them are vCPUs of the VM. */
static bool matches(const struct vm *vm, const char *sel)
{
	const char *name = vmsel_name(sel);
	_cleanup_free_ int32_t *tid = NULL;
	size_t n, i, k;
	uint32_t pid;

	if (vm->uuid && !strcasecmp(vm->uuid, name))
		return true;
	if (vm->name && (!strcmp(vm->name, sel) || !strcmp(vm->name, name)))
		return true;
	if (vmsel_pid(sel, &pid) && (pid == vm->pid || pid == vm->dir_pid))
		return true;
	if (vmsel_tids(sel, &tid, &n))
		return false;
	for (i = 0; i < n; i++) {
		for (k = 0; k < vm->n_vcpus && vm->vcpu[k].tid != (uint32_t)tid[i]; k++)
			;
		if (k == vm->n_vcpus)
			return false;
	}
	return true;
}

/* Room for the sentence around the candidates in kvmft_err.text. */
#define CANDIDATES_MAX 800

/* "1-2 name=a, 3-4 name=b": all VMs (sel NULL) or those that match sel. */
static void add_candidates(const struct vm_list *list, const char *sel, struct sbuf *b)
{
	size_t shown = 0, left = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (sel && !matches(&list->vm[i], sel))
			continue;
		if (b->len > CANDIDATES_MAX - VM_MAX_TEXT) {
			left++;
			continue;
		}
		if (shown++)
			sbuf_add(b, ", ");
		vm_describe(&list->vm[i], b);
	}
	if (left)
		sbuf_addf(b, " and %zu more (see kvmft list)", left);
}

int vm_list_none(const struct vm_list *list, struct kvmft_err *err)
{
	const char *why = list->debugfs_text;
	char hidden[80] = "";

	if (list->n_hidden)
		snprintf(hidden, sizeof(hidden), "%s%zu process%s could not be looked at%s",
			 why ? "; " : ": ", list->n_hidden, list->n_hidden == 1 ? "" : "es",
			 geteuid() && (!why || !strstr(why, "root")) ? " (run as root)" : "");
	return err_lack(err, ENOENT, "no VM runs here%s%s%s", why ? ": " : "", why ?: "", hidden);
}

int vm_list_find(const struct vm_list *list, const char *sel, const struct vm **vm,
		 struct kvmft_err *err)
{
	const struct vm *found = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	size_t n = 0;
	char shown[80];
	int ret;

	for (size_t i = 0; i < list->n; i++) {
		if (!strcmp(list->vm[i].sel, sel)) {
			*vm = &list->vm[i];
			return 0;
		}
		if (matches(&list->vm[i], sel)) {
			found = &list->vm[i];
			n++;
		}
	}
	if (n == 1) {
		*vm = found;
		return 0;
	}
	if (!list->n)
		return vm_list_none(list, err);
	/* What the user typed is printed back to the terminal: bounded and printable. */
	snprintf(shown, sizeof(shown), "%s", sel);
	str_printable(shown);
	add_candidates(list, n ? sel : NULL, &b);
	if (n)
		ret = err_set(err, EEXIST, "'%s' names %zu VMs: %s; choose one by its PID-FD",
			      shown, n, b.s ?: "(out of memory)");
	else
		ret = err_set(err, ENOENT, "no VM '%s' here; there are: %s", shown,
			      b.s ?: "(out of memory)");
	return ret;
}

int vm_guess_master_clock(const struct vm_list *list, const struct vm *vm)
{
	if (!list->clocksource || !vm->n_vcpus)
		return 0;
	if (strcmp(list->clocksource, "tsc") &&
	    strcmp(list->clocksource, "hyperv_clocksource_tsc_page"))
		return -1;
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		if (!v->has_offset || v->in_guest_mode || v->ratio_state == VM_RATIO_UNKNOWN ||
		    v->ratio_state == VM_RATIO_REFUSED)
			return 0;
		if (v->tsc_offset != vm->vcpu[0].tsc_offset ||
		    v->tsc_ratio != vm->vcpu[0].tsc_ratio)
			return -1;
	}
	return 1;
}

/* ---- thread ids ---- */

struct tids {
	uint32_t *v;
	size_t n, cap;
};

static int add_tid(const struct vm_task *task, void *ctx)
{
	struct tids *t = ctx;

	return array_add(&t->v, &t->n, &t->cap, &task->tid, sizeof(task->tid));
}

int vm_compare_u32(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return ORDER(*x, *y);
}

int vm_thread_ids(const struct vm_roots *roots, uint32_t pid, uint32_t **tids, size_t *n)
{
	struct tids t = { 0 };
	int ret = vm_tasks_walk(roots, pid, add_tid, &t);

	if (ret) {
		free(t.v);
		return ret;
	}
	array_sort(t.v, t.n, vm_compare_u32);
	*tids = t.v;
	*n = t.n;
	return 0;
}
