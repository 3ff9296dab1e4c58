/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_oom.c: the kernel room when its n-th allocation fails, for every n: it says so,
 * nothing leaks (the sanitizers look), and no instance stays behind in the kernel.
 *
 * The sources are compiled into this test once more with their allocator replaced; the archive's
 * own copies are then not linked. What libtracefs allocates for itself is not touched.
 */
#include "kernel_fixture.h"

#include <dirent.h>

#define MANY 1000 /* more than any of the calls below allocates */

static unsigned int allowed = MANY;

static bool may(void)
{
	if (!allowed)
		return false;
	allowed--;
	return true;
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

#define realloc scarce_realloc
#define calloc	scarce_calloc
#define strdup	scarce_strdup
#include "../../src/util/array.c"
#include "../../src/util/io.c"
#include "../../src/util/sbuf.c"
#include "../../src/kernel/event.c"
#include "../../src/kernel/inst.c"
#include "../../src/kernel/inst_events.c"
#include "../../src/kernel/reset.c"
#include "../../src/kernel/tracefs.c"
#undef realloc
#undef calloc
#undef strdup

static unsigned int entries_of_ours(struct ktracefs *t)
{
	char path[300];
	struct dirent *e;
	struct kowner o;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/instances", ktracefs_path(t));
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		n += !kowner_parse(e->d_name, '.', &o) && o.pid == getpid();
	if (dir)
		closedir(dir);
	return n;
}

static int fake_setup(void **state)
{
	int err = kfx_setup(state);

	if (err)
		return err;
	for (int i = 0; i < 12; i++) {
		char name[32];

		snprintf(name, sizeof(name), "kvm_event%d", i);
		kfx_event(*state, "kvm", name, "1\n");
	}
	kfx_event(*state, "sched", "sched_switch", "2\n");
	return 0;
}

static void expand_all(struct kfx *fx, const char *spec, int want)
{
	unsigned int n = 0;
	int got;

	do {
		struct kevent_list list = { 0 };

		allowed = n++;
		got = kevent_expand(fx->t, spec, &list, &fx->err);
		allowed = MANY;
		if (got != want)
			assert_int_equal(got, -ENOMEM);
		kevent_list_free(&list);
		assert_true(n < MANY);
	} while (got == -ENOMEM);
	assert_int_equal(got, want);
	assert_true(n > 4);
}

static void test_expand(void **state)
{
	struct kfx *fx = *state;

	expand_all(fx, "kvm", 0);
	expand_all(fx, "kvm:*/a == 1/", 0);
	expand_all(fx, "k*:*", 0);
	expand_all(fx, "sched_switch", 0);
	expand_all(fx, "sched:swich/a/", -ENOENT);
}

static void test_open(void **state)
{
	struct kfx *fx = *state;
	struct ktracefs *t;
	int got;

	for (unsigned int n = 0; n < 2; n++) {
		allowed = n;
		got = ktracefs_open(fx->dir, 0, &t, &fx->err);
		allowed = MANY;
		assert_int_equal(got, -ENOMEM);
		assert_null(t);
	}
	assert_int_equal(ktracefs_open(fx->dir, 0, &t, &fx->err), 0);
	ktracefs_close(t);
}

static void test_sweep(void **state)
{
	struct kowner dead = kfx_dead_owner();
	char name[96], path[128];
	struct kfx *fx = *state;
	unsigned int n = 0, gone = 0;
	int got;

	assert_int_equal(kowner_format(&dead, '.', name, sizeof(name)), 0);
	snprintf(path, sizeof(path), "instances/%s", name);
	kfx_dir(fx, path);
	do {
		struct kreset r;

		allowed = n++;
		got = kreset_sweep(fx->t, NULL, false, &r, &fx->err);
		allowed = MANY;
		gone += r.instances;
		kreset_free(&r);
		if (got)
			assert_int_equal(got, -ENOMEM);
		assert_true(n < MANY);
	} while (got || !gone);
	assert_int_equal(gone, 1);
	assert_false(ktracefs_has(fx->t, path));
}

static int record_once(struct ktracefs *t, const struct kevent_list *list, struct kvmft_err *err)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int32_t self = (int32_t)getpid();
	struct kinst *k;
	char *text = NULL;
	int got;

	c.clock = "local";
	c.buffer_kb = 64;
	c.pid = &self;
	c.npid = 1;
	got = kinst_create(t, &c, &k, err);
	if (got) {
		assert_null(k);
		return got;
	}
	got = kinst_events_add(k, list, err);
	if (!got)
		got = kinst_events_enable(k, err);
	if (!got)
		got = kinst_stats(k, 0, NULL, &text);
	free(text);
	if (!got)
		got = kinst_destroy(k, err);
	else
		(void)kinst_destroy(k, NULL);
	return got;
}

/* On the real tracefs, where there is one. */
static void test_instance(void **state __unused_arg)
{
	struct kevent_list list = { 0 };
	struct kvmft_err err = { 0 };
	unsigned int n = 0;
	struct ktracefs *t;
	int got;

	if (ktracefs_open(NULL, 0, &t, &err)) {
		print_message("skipped: %s\n", err.text);
		skip();
	}
	if (faccessat(ktracefs_dirfd(t), "instances", W_OK, AT_EACCESS) ||
	    !kevent_exists(t, "sched", "sched_switch")) {
		ktracefs_close(t);
		print_message("skipped: may not make instances, or no sched:sched_switch\n");
		skip();
	}
	assert_int_equal(kevent_list_add(&list, "sched", "sched_switch", "prev_pid == 1"), 0);
	do {
		allowed = n++;
		got = record_once(t, &list, &err);
		allowed = MANY;
		assert_int_equal(entries_of_ours(t), 0);
		if (got)
			assert_int_equal(got, -ENOMEM);
		assert_true(n < MANY);
	} while (got);
	print_message("%u allocations\n", n - 1);
	kevent_list_free(&list);
	ktracefs_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_expand, fake_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_open, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_sweep, kfx_setup, kfx_teardown),
		cmocka_unit_test(test_instance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
