/* SPDX-License-Identifier: GPL-2.0-or-later */
/* threads.c: which thread runs which vCPU, by the names VMMs give their threads. A hint only. */
#include "kvmft/vm_proc.h"
#include "kvmft/vmsel.h"

struct found {
	uint32_t number, tid;
};

struct collect {
	const struct vmsel_comm *pattern; /* of the first thread that matched any */
	struct found *v;
	size_t n, cap;
};

static int collect_task(const struct vm_task *task, void *ctx)
{
	struct collect *c = ctx;
	uint32_t number;
	const struct vmsel_comm *p = vmsel_vcpu(task->comm, &number);

	if (!p || (c->pattern && c->pattern != p))
		return 0;
	c->pattern = p;
	return array_add(&c->v, &c->n, &c->cap, &(struct found){ number, task->tid },
			 sizeof(*c->v));
}

COMPARE_BY(compare_number, struct found, .number);

static bool unique(const struct collect *c, size_t i)
{
	return (i == 0 || c->v[i - 1].number != c->v[i].number) &&
	       (i + 1 == c->n || c->v[i + 1].number != c->v[i].number);
}

static bool all_unique(const struct collect *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (!unique(c, i))
			return false;
	return true;
}

static void assign(struct vm_vcpu *v, uint32_t tid)
{
	if (v->tid_source != VM_TID_UNKNOWN)
		return;
	v->tid = tid;
	v->tid_source = VM_TID_THREAD_NAME;
}

static void assign_by_number(const struct collect *c, struct vm *vm)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct vm_vcpu key = { .id = c->v[i].number };
		struct vm_vcpu *v = NULL;

		if (vm->n_vcpus && unique(c, i))
			v = bsearch(&key, vm->vcpu, vm->n_vcpus, sizeof(key), vm_vcpu_compare);
		if (v)
			assign(v, c->v[i].tid);
	}
}

static void assign_all(const struct collect *c, struct vm *vm)
{
	bool gaps = vm->n_vcpus && vm->vcpu[vm->n_vcpus - 1].id != vm->n_vcpus - 1;

	if (!c->pattern->is_index || !gaps) {
		assign_by_number(c, vm);
		return;
	}
	/* CPUs and APIC ids ascend together; if any are missing, nothing can be said */
	if (c->n != vm->n_vcpus || !all_unique(c))
		return;
	for (size_t i = 0; i < c->n; i++)
		assign(&vm->vcpu[i], c->v[i].tid);
}

static bool any_unknown(const struct vm *vm)
{
	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (vm->vcpu[i].tid_source == VM_TID_UNKNOWN)
			return true;
	return false;
}

int vm_threads_guess(const struct vm_roots *roots, struct vm *vm)
{
	struct collect c = { 0 };
	int ret;

	if (!any_unknown(vm))
		return 0;
	ret = vm_tasks_walk(roots, vm->pid, collect_task, &c);
	if (!ret && c.n) {
		qsort(c.v, c.n, sizeof(*c.v), compare_number);
		assign_all(&c, vm);
	}
	free(c.v);
	return ret == -ENOMEM ? ret : 0;
}
