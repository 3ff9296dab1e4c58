/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pack.c: a list of VMs as bytes, for a pipe between two processes of one program. Numbers are in
 * native layout.
 */
#include "kvmft/vm.h"

static void pack_text(struct sbuf *b, const char *s)
{
	uint32_t len = s ? (uint32_t)strlen(s) : UINT32_MAX;

	sbuf_add_mem(b, &len, sizeof(len));
	if (s)
		sbuf_add_mem(b, s, len);
}

int vm_list_pack(const struct vm_list *list, struct sbuf *b)
{
	sbuf_add_mem(b, list, sizeof(*list));
	pack_text(b, list->debugfs_text);
	pack_text(b, list->clocksource);
	for (size_t i = 0; i < list->n; i++) {
		const struct vm *vm = &list->vm[i];
		const char *const text[] = { vm->sel, vm->vmm, vm->name, vm->uuid, vm->note };

		sbuf_add_mem(b, vm, sizeof(*vm));
		for (size_t k = 0; k < ARRAY_SIZE(text); k++)
			pack_text(b, text[k]);
		sbuf_add_mem(b, vm->vcpu, vm->n_vcpus * sizeof(*vm->vcpu));
	}
	return b->error;
}

static int unpack_bytes(struct cursor *c, void *to, size_t n)
{
	const uint8_t *p;
	int ret = cur_bytes(c, n, &p);

	if (!ret && n)
		memcpy(to, p, n);
	return ret;
}

static int get_text(struct cursor *c, char **s)
{
	const uint8_t *p;
	uint32_t len;
	int ret = unpack_bytes(c, &len, sizeof(len));

	if (ret || len == UINT32_MAX)
		return ret;
	ret = cur_bytes(c, len, &p);
	if (ret)
		return ret;
	*s = strndup((const char *)p, len);
	return *s ? 0 : -ENOMEM;
}

static int get_vm(struct cursor *c, struct vm *vm)
{
	char **const text[] = { &vm->sel, &vm->vmm, &vm->name, &vm->uuid, &vm->note };
	int ret = unpack_bytes(c, vm, sizeof(*vm));

	if (ret)
		return ret;
	vm->vcpu = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(text); k++)
		*text[k] = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(text) && !ret; k++)
		ret = get_text(c, text[k]);
	if (ret || !vm->n_vcpus)
		return ret;
	if (vm->n_vcpus > VM_MAX_VCPUS)
		return -EINVAL;
	vm->cap_vcpus = vm->n_vcpus;
	vm->vcpu = calloc(vm->n_vcpus, sizeof(*vm->vcpu));
	return vm->vcpu ? unpack_bytes(c, vm->vcpu, vm->n_vcpus * sizeof(*vm->vcpu)) : -ENOMEM;
}

int vm_list_unpack(const void *p, size_t len, struct vm_list **list)
{
	struct vm_list *l = calloc(1, sizeof(*l));
	struct cursor c = { .p = p, .left = len };
	struct vm_list head = { 0 };
	int ret = l ? unpack_bytes(&c, &head, sizeof(head)) : -ENOMEM;

	if (!ret && head.n > VM_MAX_VMS)
		ret = -EINVAL;
	if (!ret) {
		*l = head;
		l->vm = NULL;
		l->debugfs_text = l->clocksource = NULL;
		l->n = l->cap = 0;
		ret = get_text(&c, &l->debugfs_text);
	}
	ret = ret ?: get_text(&c, &l->clocksource);
	while (!ret && l->n < head.n) {
		struct vm *vm = array_grow(&l->vm, l->n, &l->cap, sizeof(*vm));

		if (vm)
			l->n++;
		ret = vm ? get_vm(&c, vm) : -ENOMEM;
	}
	if (!ret && c.left)
		ret = -EINVAL;
	if (ret) {
		vm_list_free(l);
		l = NULL;
	}
	*list = l;
	return ret;
}
