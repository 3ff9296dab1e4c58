/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A list of VMs as bytes and back; bytes that are cut anywhere are no list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "kvmft/vm.h"

static struct sbuf packed(void)
{
	struct vm_vcpu vcpu[] = { { .id = 0, .tid = 11 }, { .id = 4, .tsc_offset = 5, .has_offset = true } };
	struct vm vm[] = {
		{ .pid = 10, .fd = 3, .sel = (char *)"10-3", .vmm = (char *)"qemu", .vcpu = vcpu, .n_vcpus = 2,
		  .cap_vcpus = 8 },
		{ .pid = 20, .sel = (char *)"20-9", .name = (char *)"", .uuid = (char *)"u", .note = (char *)"n" },
	};
	const struct vm_list list = {
		.vm = vm, .n = 2, .cap = 4, .debugfs = VM_DEBUGFS_DENIED, .debugfs_text = (char *)"why", .n_hidden = 7,
	};
	struct sbuf b = { 0 };

	assert_int_equal(vm_list_pack(&list, &b), 0);
	return b;
}

static void test_there_and_back(void **state __unused_arg)
{
	struct sbuf b = packed();
	struct vm_list *l;

	assert_int_equal(vm_list_unpack(b.s, b.len, &l), 0);
	assert_int_equal(l->n, 2);
	assert_int_equal(l->debugfs, VM_DEBUGFS_DENIED);
	assert_string_equal(l->debugfs_text, "why");
	assert_null(l->clocksource);
	assert_int_equal(l->n_hidden, 7);
	assert_string_equal(l->vm[0].sel, "10-3");
	assert_null(l->vm[0].name);
	assert_int_equal(l->vm[0].n_vcpus, 2);
	assert_int_equal(l->vm[0].vcpu[1].id, 4);
	assert_int_equal(l->vm[0].vcpu[1].tsc_offset, 5);
	assert_string_equal(l->vm[1].name, "");
	assert_string_equal(l->vm[1].note, "n");
	assert_null(l->vm[1].vcpu);
	vm_list_free(l);
	sbuf_free(&b);
}

static void test_cut(void **state __unused_arg)
{
	struct sbuf b = packed();
	struct vm_list *l;

	for (size_t n = 0; n < b.len; n++) {
		char *part = malloc(n + 1);

		assert_non_null(part);
		memcpy(part, b.s, n);
		assert_int_equal(vm_list_unpack(part, n, &l), -ENODATA);
		assert_null(l);
		free(part);
	}
	sbuf_addc(&b, 'x');
	assert_int_equal(vm_list_unpack(b.s, b.len, &l), -EINVAL);
	sbuf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
