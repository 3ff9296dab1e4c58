/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names and UUIDs out of command lines, through the whole scan: the parser is private.
 */
#include "vm_fixture.h"

#define UUID  "6a1d2f3e-0B1C-4d5e-8f90-A1B2C3D4E5F6"
#define LOWER "6a1d2f3e-0b1c-4d5e-8f90-a1b2c3d4e5f6"
#define OTHER "00000000-1111-2222-3333-444444444444"
#define QEMU  "/usr/bin/qemu-system-x86_64"

#define ARGS(s) (s), sizeof(s) - 1 /* without the last NUL */

static const struct {
	const char *exe, *args;
	size_t len;
	const char *vmm, *name, *uuid;
} cases[] = {
	{ QEMU, ARGS("qemu\0-name\0vm1\0-uuid\0" UUID), "qemu-system-x86_64", "vm1", LOWER },
	{ QEMU, ARGS("qemu\0-name\0guest=foo,debug-threads=on\0"), "qemu-system-x86_64", "foo", NULL },
	{ QEMU, ARGS("qemu\0--name\0debug-threads=on,guest=foo"), "qemu-system-x86_64", "foo", NULL },
	{ QEMU, ARGS("qemu\0-name\0bar,debug-threads=on"), "qemu-system-x86_64", "bar", NULL },
	{ QEMU, ARGS("qemu\0-name\0guest=a,,b,process=p"), "qemu-system-x86_64", "a,b", NULL },
	{ QEMU, ARGS("qemu\0-name\0debug-threads=on"), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-name\0one\0-name\0two"), "qemu-system-x86_64", "two", NULL },
	{ QEMU, ARGS("qemu\0-smbios\0type=1,uuid=" UUID), "qemu-system-x86_64", NULL, LOWER },
	{ QEMU, ARGS("qemu\0-smbios\0type=3,uuid=" UUID), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-smbios\0uuid=" OTHER ",type=1\0-uuid\0" UUID), "qemu-system-x86_64",
	  NULL, LOWER },
	{ QEMU, ARGS("qemu\0-uuid\0" "6a1d2f3e-0b1c-4d5e-8f90-a1b2c3d4e5f"), "qemu-system-x86_64",
	  NULL, NULL },
	{ QEMU, ARGS("qemu\0-uuid\0" "6a1d2f3e+0b1c-4d5e-8f90-a1b2c3d4e5f6"), "qemu-system-x86_64",
	  NULL, NULL },
	{ QEMU, ARGS("-name\0guest=argv0"), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-name"), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-name\0"), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-name\0,,,=,"), "qemu-system-x86_64", ",", NULL },
	{ QEMU, ARGS("qemu\0-name\0,=,guest=,"), "qemu-system-x86_64", NULL, NULL },
	{ QEMU, ARGS("qemu\0-name\0a\nb\033[2Jc"), "qemu-system-x86_64", "a?b?[2Jc", NULL },
	{ QEMU, ARGS(""), "qemu-system-x86_64", NULL, NULL },
	{ QEMU " (deleted)", ARGS("q\0-name\0up"), "qemu-system-x86_64", "up", NULL },
	{ "/usr/libexec/qemu-kvm", ARGS("q\0-name\0guest=rh"), "qemu-kvm", "rh", NULL },
	{ "/opt/firecracker", ARGS("fc\0--id\0a,b=c"), "firecracker", "a,b=c", NULL },
	{ "/opt/firecracker", ARGS("fc\0--id=x"), "firecracker", "x", NULL },
	{ "/opt/crosvm", ARGS("crosvm\0run\0--name=arc"), "crosvm", "arc", NULL },
	{ "/opt/cloud-hypervisor", ARGS("ch\0--platform\0num_pci_segments=1,uuid=" UUID),
	  "cloud-hypervisor", NULL, LOWER },
	{ "/tmp/evil\033]0;x\a", ARGS("e\0--name\0\x80\xff"), "evil?]0;x?", "??", NULL },
};

static void same_text(const char *got, const char *want)
{
	if (!want)
		assert_null(got);
	else
		assert_string_equal(got ? got : "(null)", want);
}

static void test_cases(void **state)
{
	struct fixture *fx = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned int pid = 100 + (unsigned int)i;

		fx_process(fx, pid, 1, cases[i].exe, cases[i].args, cases[i].len);
		fx_link(fx, "anon_inode:kvm-vm", "proc/%u/fd/9", pid);
	}
	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct vm *vm = &list->vm[i];

		print_message("case %zu\n", i);
		assert_int_equal(vm->pid, 100 + i);
		assert_int_equal(vm->start_time, vm->pid + 1000000);
		same_text(vm->vmm, cases[i].vmm);
		same_text(vm->name, cases[i].name);
		same_text(vm->uuid, cases[i].uuid);
	}
	vm_list_free(list);
}

/* 300 KiB without any NUL, and a name past the bound. */
static void test_huge(void **state)
{
	struct fixture *fx = *state;
	size_t len = 300 * 1024;
	char *args = malloc(len);

	assert_non_null(args);
	memset(args, 'x', len);
	memcpy(args, "q\0-name\0", 8);
	fx_process(fx, 1000, 1, QEMU, args, len);
	fx_link(fx, "anon_inode:kvm-vm", "proc/1000/fd/9");
	memset(args, 'x', len);
	memcpy(args + len - 12, "\0-name\0late", 12);
	fx_process(fx, 1001, 1, QEMU, args, len);
	fx_link(fx, "anon_inode:kvm-vm", "proc/1001/fd/9");
	free(args);

	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 2);
	assert_int_equal(strlen(list->vm[0].name), VM_MAX_TEXT);
	assert_null(list->vm[1].name);
	vm_list_free(list);
}

/* Every prefix of a command line is survived (the sanitizers watch the bounds). */
static void test_cut_everywhere(void **state)
{
	static const char args[] = "q\0-name\0guest=a,,b,debug-threads=on\0-smbios\0type=1,uuid=" UUID;
	struct fixture *fx = *state;
	struct vm_list *list;

	for (size_t len = 0; len < sizeof(args); len++) {
		fx_process(fx, 7, 1, QEMU, args, len);
		if (!len)
			fx_link(fx, "anon_inode:kvm-vm", "proc/7/fd/9");
		list = fx_scan(fx);
		assert_int_equal(list->n, 1);
		assert_true(!!list->vm[0].uuid == (len >= sizeof(args) - 1));
		vm_list_free(list);
		fx_drop(fx, "proc/7/exe");
		fx_drop(fx, "proc/7/fd/0");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cases, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_huge, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_cut_everywhere, fx_setup, fx_teardown),
	};

	return cmocka_run_group_tests_name("vm/cmdline", tests, NULL, NULL);
}
