/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * threads.c: which thread runs which vCPU, by the names VMMs give their threads. A hint only: the
 * names are free text, are missing in QEMU without debug-threads=on, and are compared in full
 * ("CPU 1/KVM" is not "CPU 10/KVM").
 */
#include "kvmft/vm_proc.h"

struct pattern {
	const char *before, *after;
	/*
	 * The number counts the VMM's CPUs; the vcpu_id (APIC id) can have gaps that this count
	 * lacks, as with 6 cores per socket.
	 */
	bool is_index;
};

static const struct pattern patterns[] = {
	{ "CPU ", "/KVM", true },   /* QEMU, debug-threads=on */
	{ "vcpu", "", false },	    /* cloud-hypervisor */
	{ "fc_vcpu ", "", false },  /* firecracker */
	{ "crosvm_vcpu", "", false }, /* crosvm */
	{ "kvm-vcpu-", "", false }, /* kvmtool */
};

struct found {
	uint32_t number, tid;
};

struct collect {
	const struct pattern *pattern; /* of the first thread that matched any */
	struct found *v;
	size_t n, cap;
};

static bool match(const struct pattern *p, const char *comm, uint32_t *number)
{
	if (!str_starts(comm, p->before))
		return false;
	comm += strlen(p->before);
	return vm_text_u32(&comm, number) && !strcmp(comm, p->after);
}

static int collect_task(const struct vm_task *task, void *ctx)
{
	struct collect *c = ctx;
	uint32_t number;

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (c->pattern && c->pattern != &patterns[i])
			continue;
		if (!match(&patterns[i], task->comm, &number))
			continue;
		c->pattern = &patterns[i];
		return array_add(&c->v, &c->n, &c->cap, &(struct found){ number, task->tid },
				 sizeof(*c->v));
	}
	return 0;
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
