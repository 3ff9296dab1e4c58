/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_clock_epoch_oom.c - epochs when the n-th allocation fails: -ENOMEM, nothing lost, all freed
 *
 * epoch.c and array.c are compiled in with their allocator replaced; the archive's own copies are
 * then not linked.
 */
#include "clock_vectors.h"

#include "kvmft/clock.h"

/* Allocations that still succeed. */
static unsigned int allowed;

static void *scarce_realloc(void *p, size_t n)
{
	if (!allowed)
		return NULL;
	allowed--;
	return realloc(p, n);
}

static void *scarce_calloc(size_t n, size_t size)
{
	if (!allowed)
		return NULL;
	allowed--;
	return calloc(n, size);
}

#define realloc	scarce_realloc
#define calloc	scarce_calloc
#include "../../src/clock/epoch.c"
#include "../../src/util/array.c"
#undef realloc
#undef calloc

/* A life of a VM; stops at the first failure. */
static int feed(struct epoch_vm *vm)
{
	struct pvclock pv = { .version = 2, .mul = 1U << 31, .flags = PVCLOCK_TSC_STABLE };
	struct tsc_map m = { 0, 0, 0 };
	uint64_t host = 1000, off = 0;
	uint32_t id;
	int err = 0, k;

	for (id = 0; id < 20 && !err; id++)
		err = epoch_vm_read(vm, id * 3, 500, &m);
	for (k = 0; k < 40 && !err; k++, off++) {
		err = epoch_vm_write_offset(vm, 6, ++host, off, off + 1);
		pv.version += 2;
		pv.system_time++;
		if (!err)
			err = epoch_vm_pvclock(vm, 9, ++host, &pv);
	}
	pv.flags = 0;
	pv.system_time = 0;
	if (!err)
		err = epoch_vm_pvclock(vm, 100, ++host, &pv);
	if (!err)
		err = epoch_vm_check_end(vm, 101, &m);
	return err;
}

static void check_sorted(const struct epoch_vm *vm)
{
	size_t i, k;

	for (i = 0; i < vm->n; i++) {
		const struct epoch_vcpu *c = vm->vcpus[i];

		assert_non_null(c);
		assert_true(!i || vm->vcpus[i - 1]->id < c->id);
		assert_true(c->n <= c->room);
		for (k = 1; k < c->n; k++)
			assert_true(c->v[k - 1].from < c->v[k].from);
	}
}

static void test_nth_fails(void **state)
{
	unsigned int n;
	int err = -ENOMEM;

	(void)state;
	for (n = 0; err && n < 1000; n++) {
		struct epoch_vm *vm;

		allowed = n;
		vm = epoch_vm_new(100);
		if (!vm) {
			assert_int_equal(n, 0);
			continue;
		}
		err = feed(vm);
		assert_true(err == 0 || err == -ENOMEM);
		check_sorted(vm);
		epoch_vm_free(vm);	/* the sanitizer counts */
	}
	assert_int_equal(err, 0);
	assert_in_range(n, 50, 999);
}

/* The same call works once there is memory again. */
static void test_retry(void **state)
{
	struct tsc_map m = { 0, 0, 0 };
	struct epoch_vm *vm;
	unsigned int tries = 0;
	uint64_t k;
	int err;

	(void)state;
	allowed = 1;
	vm = epoch_vm_new(0);
	assert_non_null(vm);
	for (k = 0; k < 100; k++) {
		allowed = 0;
		while ((err = epoch_vm_write_offset(vm, 0, k, k, k + 1)) == -ENOMEM)
			allowed = ++tries;
		assert_int_equal(err, 0);
	}
	assert_true(tries > 5);
	assert_int_equal(vm->vcpus[0]->n, 100);
	allowed = 100;
	m.offset = 100;
	assert_int_equal(epoch_vm_check_end(vm, 0, &m), 0);
	assert_int_equal(vm->vcpus[0]->notes, 0);
	epoch_vm_free(vm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nth_fails),
		cmocka_unit_test(test_retry),
	};

	return cmocka_run_group_tests_name("clock epoch, out of memory", tests, NULL, NULL);
}
