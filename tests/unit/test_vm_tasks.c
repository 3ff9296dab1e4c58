/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walking threads, and the guest's own facts.
 */
#include "vm_fixture.h"

#include <errno.h>

#define QEMU "/usr/bin/qemu-system-x86_64"

struct seen {
	unsigned int n, sum, stop_at;
	char text[512];
};

static int see(const struct vm_task *task, void *ctx)
{
	struct seen *s = ctx;
	size_t len = strlen(s->text);

	s->n++;
	s->sum += task->tid;
	snprintf(s->text + len, sizeof(s->text) - len, "[%u/%u %s]", task->tgid, task->tid,
		 task->comm);
	return task->tid == s->stop_at ? -ESRCH : 0;
}

/* 10 -> 20 -> 5 (a child with a smaller number), 30 beside them. */
static int setup(void **state)
{
	int ret = fx_setup(state);
	struct fixture *fx = *state;

	fx_process(fx, 10, 1, QEMU, "", 0);
	fx_process(fx, 20, 10, QEMU, "", 0);
	fx_process(fx, 5, 20, QEMU, "", 0);
	fx_process(fx, 30, 1, QEMU, "", 0);
	/* only under task/, as readdir of the real /proc shows it */
	fx_file(fx, "wo\033[rk\ner\n", "proc/20/task/21/comm");
	fx_file(fx, "\n", "proc/20/task/22/comm");
	return ret;
}

static void test_scopes(void **state)
{
	struct fixture *fx = *state;
	struct seen s = { 0 };

	assert_int_equal(vm_tasks_walk(&fx->roots, 0, see, &s), 0);
	assert_int_equal(s.n, 6);
	assert_int_equal(s.sum, 10 + 20 + 21 + 22 + 5 + 30);
	assert_non_null(strstr(s.text, "[20/21 wo?[rk?er]"));
	assert_non_null(strstr(s.text, "[20/22 ]"));

	s = (struct seen){ 0 };
	assert_int_equal(vm_tasks_walk(&fx->roots, 20, see, &s), 0);
	assert_int_equal(s.sum, 20 + 21 + 22);
}

static void test_errors(void **state)
{
	struct fixture *fx = *state;
	struct vm_roots nowhere = { .proc = "/nonexistent" };
	struct seen s = { .stop_at = 30 };

	assert_int_equal(vm_tasks_walk(&fx->roots, 99, see, &s), -ESRCH);
	assert_int_equal(vm_tasks_walk(&nowhere, 0, see, &s), -ENOENT);
	assert_int_equal(s.n, 0);
	/* what the callback returns comes back, even when it looks like "process gone" */
	assert_int_equal(vm_tasks_walk(&fx->roots, 0, see, &s), -ESRCH);
}

static void test_guest_cpus(void **state)
{
	struct fixture *fx = *state;
	struct vm_guest_cpus c;

	fx_file(fx,
		"processor\t: 0\ninitial apicid\t: 77\napicid\t\t: 0\n\n"
		"processor\t: 1\napicid\t\t: 8\ninitial apicid\t: 8\n\n"
		"processor\t: 7\nmodel name\t: x\n\nprocessor\t: 9\napicid\t\t: 4000\n",
		"proc/cpuinfo");
	assert_int_equal(vm_guest_cpus(&fx->roots, &c), 0);
	assert_int_equal(c.n, 3);
	assert_int_equal(c.v[0].apicid, 0);
	assert_int_equal(c.v[1].cpu, 1);
	assert_int_equal(c.v[1].apicid, 8);
	assert_int_equal(c.v[2].cpu, 9);
	assert_int_equal(c.v[2].apicid, 4000);
	vm_guest_cpus_free(&c);

	fx_drop(fx, "proc/cpuinfo");
	assert_int_equal(vm_guest_cpus(&fx->roots, &c), 0);
	assert_int_equal(c.n, 0);
	vm_guest_cpus_free(&c);
}

static void test_guest_uuid(void **state)
{
	struct fixture *fx = *state;
	char uuid[37];

	fx_file(fx, "6A1D2F3E-0b1c-4d5e-8f90-a1b2c3d4e5f6\n", "sys/class/dmi/id/product_uuid");
	assert_int_equal(vm_guest_uuid(&fx->roots, uuid), 0);
	assert_string_equal(uuid, "6a1d2f3e-0b1c-4d5e-8f90-a1b2c3d4e5f6");
	fx_file(fx, "Not Settable\n", "sys/class/dmi/id/product_uuid");
	assert_int_equal(vm_guest_uuid(&fx->roots, uuid), -EINVAL);
	fx_drop(fx, "sys");
	assert_int_equal(vm_guest_uuid(&fx->roots, uuid), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scopes, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_guest_cpus, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(test_guest_uuid, fx_setup, fx_teardown),
	};

	return cmocka_run_group_tests_name("vm/tasks", tests, NULL, NULL);
}
