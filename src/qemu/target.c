/* SPDX-License-Identifier: GPL-2.0-or-later */
/* target.c: the QEMU that options mean, and a connection to one of its monitors. */
#include "kvmft/qemu_switch.h"

static int open_by_vm(const char *sel, uint64_t timeout, struct qemu *q, struct kvmft_err *err)
{
	struct vm_list *list = NULL;
	const struct vm *vm;
	int ret = mon_qemu_scan(NULL, &list, err);

	ret = ret ?: mon_qemu_find(NULL, list, sel, &vm, err);
	ret = ret ?: monitor_open_vm(NULL, vm, timeout, &q->m, err);
	if (!ret) {
		q->pid = vm->pid;
		q->name = vm->name ? strdup(vm->name) : NULL;
	}
	vm_list_free(list);
	return ret;
}

int qemu_open(const struct qemu_target *t, struct qemu *q, struct kvmft_err *err)
{
	uint64_t timeout = t->timeout.set ? t->timeout.v : MON_TIMEOUT_NS;
	const char *path = t->qmp ?: t->hmp;
	int ret;

	*q = (struct qemu){ 0 };
	if (!!t->vm + !!t->qmp + !!t->hmp > 1)
		return err_usage(err, "--vm, --qmp and --hmp exclude each other");
	if (!timeout)
		return err_usage(err, "--timeout 0 leaves no time for an answer");
	if (!path)
		return open_by_vm(t->vm, timeout, q, err);
	if (!*path)
		return err_usage(err, "the socket's path is empty");
	ret = monitor_open(t->qmp ? MON_QMP : MON_HMP, path + (*path == '@'), *path == '@', timeout,
			   &q->m, err);
	if (!ret)
		q->pid = monitor_pid(q->m);
	return ret;
}

void qemu_close(struct qemu *q)
{
	monitor_close(q->m);
	free(q->name);
	*q = (struct qemu){ 0 };
}
