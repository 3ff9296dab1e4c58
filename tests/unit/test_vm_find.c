/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which VM a selector names, and what is said when it names none or several.
 */
#include "vm_fixture.h"

#include <errno.h>

#define UUID "6a1d2f3e-0b1c-4d5e-8f90-a1b2c3d4e5f6"
#define QEMU "/usr/bin/qemu-system-x86_64"

/* 100-12 alpha, 200-12 beta with a UUID, 300-12 and 300-13 of one process, 400-9 beta again. */
static int setup(void **state)
{
	int ret = fx_setup(state);
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q\0-name\0alpha");
	FX_PROCESS(fx, 200, QEMU, "q\0-name\0beta\0-uuid\0" UUID);
	FX_PROCESS(fx, 300, "/usr/bin/multi", "m\0--name\0" "100-12");
	FX_PROCESS(fx, 400, QEMU, "q\0-name\0beta");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/12");
	fx_link(fx, "anon_inode:kvm-vm", "proc/200/fd/12");
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/12");
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/13");
	fx_link(fx, "anon_inode:kvm-vm", "proc/400/fd/9");
	fx_vcpu(fx, "100-12", 0, "0\n", "-5\n", NULL, NULL);
	fx_vcpu(fx, "200-12", 0, "0\n", "-5\n", NULL, NULL);
	fx_vcpu(fx, "300-12", 0, "0\n", "-5\n", NULL, NULL);
	fx_vcpu(fx, "300-13", 0, "0\n", "-5\n", NULL, NULL);
	fx_vcpu(fx, "400-9", 0, "0\n", "-5\n", NULL, NULL);
	return ret;
}

static const struct {
	const char *sel, *found; /* found: sel of the VM; NULL: an error */
	int error;
	const char *text; /* part of the error */
} cases[] = {
	{ "alpha", "100-12", 0, NULL },
	{ "100", "100-12", 0, NULL },
	{ "100-12", "100-12", 0, NULL }, /* although another VM is called so */
	{ UUID, "200-12", 0, NULL },
	{ "6A1D2F3E-0B1C-4D5E-8F90-A1B2C3D4E5F6", "200-12", 0, NULL },
	{ "300-13", "300-13", 0, NULL },
	{ "400", "400-9", 0, NULL },
	{ "beta", NULL, -EEXIST, "'beta' names 2 VMs: 200-12 name=beta uuid=" UUID },
	{ "beta", NULL, -EEXIST, "400-9 name=beta" },
	{ "300", NULL, -EEXIST, "'300' names 2 VMs: 300-12 name=100-12 vmm=multi, 300-13 " },
	{ "Alpha", NULL, -ENOENT, "no VM 'Alpha' here; there are: 100-12 name=alpha vmm=qemu-sys" },
	{ "0100", NULL, -ENOENT, "no VM '0100'" },
	{ "100-1", NULL, -ENOENT, "no VM '100-1'" },
	{ "", NULL, -ENOENT, "no VM ''" },
	{ "4294967396", NULL, -ENOENT, "no VM '4294967396'" }, /* 100 + 2^32 */
	{ "a\033[2Jb", NULL, -ENOENT, "no VM 'a?[2Jb'" },
};

static void test_find(void **state)
{
	struct vm_list *list = fx_scan(*state);

	assert_int_equal(list->n, 5);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kvmft_err err = { .code = 0 };
		const struct vm *vm = NULL;
		int ret = vm_list_find(list, cases[i].sel, &vm, &err);

		print_message("case %zu %s\n", i, err.text);
		assert_int_equal(ret, cases[i].error);
		if (cases[i].found) {
			assert_string_equal(vm->sel, cases[i].found);
			continue;
		}
		assert_null(vm);
		assert_int_equal(err.code, KVMFT_FAILED);
		assert_non_null(strstr(err.text, cases[i].text));
	}
	vm_list_free(list);
}

static void test_none(void **state)
{
	struct fixture *fx = *state;
	struct kvmft_err err = { .code = 0 };
	const struct vm *vm = NULL;
	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 0);
	assert_int_equal(list->debugfs, VM_DEBUGFS_OK);
	assert_null(list->debugfs_text);
	assert_int_equal(vm_list_find(list, "x", &vm, &err), -ENOENT);
	assert_int_equal(err.code, KVMFT_LACKING);
	assert_non_null(strstr(err.text, "no VM runs here"));
	assert_null(strstr(err.text, "QEMU"));
	vm_list_free(list);

	/* Who looks for a QEMU that only emulates learns that KVM has no part in it. */
	fx_process(fx, 300, 1, "/usr/bin/qemu-system-x86_64", "x", 1);
	list = fx_scan(fx);
	assert_int_equal(vm_list_find(list, "300", &vm, &err), -ENOENT);
	assert_non_null(strstr(err.text, "the QEMU with PID 300 does not use KVM"));
	vm_list_free(list);
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/9");
	list = fx_scan(fx);
	assert_int_equal(vm_list_find(list, "x", &vm, &err), -ENOENT);
	assert_null(strstr(err.text, "does not use KVM"));
	vm_list_free(list);
	fx_drop(fx, "proc/300");

	fx_drop(fx, "debugfs/kvm");
	list = fx_scan(fx);
	assert_int_equal(list->debugfs, VM_DEBUGFS_NOT_MOUNTED);
	assert_int_equal(vm_list_find(list, "x", &vm, &err), -ENOENT);
	assert_int_equal(err.code, KVMFT_LACKING);
	assert_non_null(strstr(err.text, "mount -t debugfs none "));
	vm_list_free(list);

	fx_drop(fx, "debugfs");
	list = fx_scan(fx);
	assert_int_equal(list->debugfs, VM_DEBUGFS_ABSENT);
	assert_non_null(strstr(list->debugfs_text, "does not exist"));
	vm_list_free(list);
}

/* 100 VMs with long names: the line stays whole and counts what it leaves out. */
static void test_many(void **state)
{
	struct fixture *fx = *state;
	struct kvmft_err err = { .code = 0 };
	const struct vm *vm = NULL;
	char args[400];

	for (unsigned int i = 0; i < 100; i++) {
		memset(args, 'n', sizeof(args));
		memcpy(args, "q\0-name\0", 8);
		fx_process(fx, 1000 + i, 1, QEMU, args, sizeof(args));
		fx_link(fx, "anon_inode:kvm-vm", "proc/%u/fd/12", 1000 + i);
	}
	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 100);
	assert_int_equal(vm_list_find(list, "x", &vm, &err), -ENOENT);
	assert_true(strlen(err.text) < sizeof(err.text) - 1);
	assert_non_null(strstr(err.text, " more (see kvmft list)"));
	vm_list_free(list);
}

static void test_null(void **state __unused_arg)
{
	vm_list_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_none, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_many, fx_setup, fx_teardown),
		cmocka_unit_test(test_null),
	};

	return cmocka_run_group_tests_name("vm/find", tests, NULL, NULL);
}
