/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_vm_oom.c: the scan when its n-th allocation fails, for every n: it says so or, where the
 * lost text was optional, is complete without it; nothing leaks (the sanitizers look).
 *
 * The sources are compiled into this test once more with their allocator replaced; the archive's
 * own copies are then not linked.
 */
#include "vm_fixture.h"

#include <dirent.h>
#include <errno.h>

static unsigned int allowed;

static bool may(void)
{
	if (!allowed)
		return false;
	allowed--;
	return true;
}

static void *scarce_malloc(size_t n)
{
	return may() ? malloc(n) : NULL;
}

static void *scarce_realloc(void *p, size_t n)
{
	return may() ? realloc(p, n) : NULL;
}

static void *scarce_calloc(size_t n, size_t size)
{
	return may() ? calloc(n, size) : NULL;
}

static char *scarce_strdup(const char *s)
{
	return may() ? strdup(s) : NULL;
}

static char *scarce_strndup(const char *s, size_t n)
{
	return may() ? strndup(s, n) : NULL;
}

#define malloc	scarce_malloc
#define realloc scarce_realloc
#define calloc	scarce_calloc
#define strdup	scarce_strdup
#define strndup scarce_strndup
#include "../../src/util/array.c"
#include "../../src/util/io.c"
#include "../../src/util/map.c"
#include "../../src/util/sbuf.c"
#include "../../src/vm/cmdline.c"
#include "../../src/vm/find.c"
#include "../../src/vm/proc.c"
#include "../../src/vm/scan.c"
#undef malloc
#undef realloc
#undef calloc
#undef strdup
#undef strndup

#define QEMU "/usr/bin/qemu-system-x86_64"

static void build(struct fixture *fx)
{
	FX_PROCESS(fx, 100, QEMU, "q\0-name\0a\0-uuid\0" "6a1d2f3e-0b1c-4d5e-8f90-a1b2c3d4e5f6");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_thread(fx, 100, 101, "CPU 0/KVM");
	fx_vcpu(fx, "100-9", 0, NULL, "1\n", "2\n", NULL);
	FX_PROCESS(fx, 200, QEMU, "q\0-name\0b");
	fx_link(fx, "anon_inode:kvm-vm", "proc/200/fd/9");
	fx_link(fx, "anon_inode:kvm-vcpu:0", "proc/200/fd/10");
	fx_thread(fx, 200, 201, "CPU 0/KVM");
	fx_vcpu(fx, "999-30", 0, "0\n", "x\n", NULL, NULL);
}

static void test_scan(void **state)
{
	unsigned int failed = 0, n;
	struct fixture *fx = *state;

	build(fx);
	for (n = 0; n < 1000; n++) {
		struct kvmft_err err = { .code = 0 };
		struct vm_list *list = NULL;
		int ret;

		allowed = n;
		ret = vm_scan(&fx->roots, &list, &err);
		if (ret) {
			assert_int_equal(ret, -ENOMEM);
			assert_null(list);
			assert_int_equal(err.code, KVMFT_FAILED);
			failed++;
			continue;
		}
		assert_int_equal(list->n, 3);
		assert_string_equal(list->vm[0].name, "a");
		assert_int_equal(list->vm[0].vcpu[0].tid, 101);
		assert_int_equal(list->vm[1].vcpu[0].tid, 201);
		vm_list_free(list);
		if (allowed)
			break;
	}
	assert_true(n < 1000);
	assert_true(failed > 20);
	print_message("%u of %u failing allocations failed the scan\n", failed, n);
}

static void test_tids(void **state)
{
	struct fixture *fx = *state;
	struct vm vm = { .pid = 100 };
	uint32_t *tids = NULL;
	size_t count = 0;

	build(fx);
	allowed = 0;
	assert_int_equal(vm_thread_ids(&fx->roots, vm.pid, &tids, &count), -ENOMEM);
	assert_null(tids);
	allowed = 1;
	assert_int_equal(vm_thread_ids(&fx->roots, vm.pid, &tids, &count), 0);
	assert_int_equal(count, 2);
	free(tids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scan, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_tids, fx_setup, fx_teardown),
	};

	return cmocka_run_group_tests_name("vm/oom", tests, NULL, NULL);
}
