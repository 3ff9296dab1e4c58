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

static void assign_all(const struct collect *c, struct vm *vm)
{
	bool gaps = vm->n_vcpus && vm->vcpu[vm->n_vcpus - 1].id != vm->n_vcpus - 1;
	/* CPUs and APIC ids ascend together; if any are missing, nothing can be said. */
	bool in_order = c->pattern->is_index && gaps;

	for (size_t i = 0; i < c->n && in_order; i++)
		if (c->n != vm->n_vcpus || !unique(c, i))
			return;
	for (size_t i = 0; i < c->n; i++) {
		const struct vm_vcpu key = { .id = c->v[i].number };
		struct vm_vcpu *v = in_order ? &vm->vcpu[i] : NULL;

		if (!in_order && vm->n_vcpus && unique(c, i))
			v = bsearch(&key, vm->vcpu, vm->n_vcpus, sizeof(key), vm_vcpu_compare);
		if (!v || v->tid_source != VM_TID_UNKNOWN)
			continue;
		v->tid = c->v[i].tid;
		v->tid_source = VM_TID_THREAD_NAME;
	}
}

int vm_threads_guess(const struct vm_roots *roots, struct vm *vm)
{
	struct collect c = { 0 };
	size_t known = 0;
	int ret;

	while (known < vm->n_vcpus && vm->vcpu[known].tid_source != VM_TID_UNKNOWN)
		known++;
	if (known == vm->n_vcpus)
		return 0;
	ret = vm_tasks_walk(roots, vm->pid, collect_task, &c);
	if (!ret && c.n) {
		qsort(c.v, c.n, sizeof(*c.v), compare_number);
		assign_all(&c, vm);
	}
	free(c.v);
	return ret == -ENOMEM ? ret : 0;
}
