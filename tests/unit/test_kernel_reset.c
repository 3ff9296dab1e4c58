/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_reset.c: in a false tracefs: what the sweep takes for a leftover and what not, the
 * journal of probes, features, and messages about what is missing.
 */
#include "kernel_fixture.h"

static void name_of(const struct kowner *o, char sep, const char *before, const char *after,
		    char *buf, size_t size)
{
	char name[96];

	assert_int_equal(kowner_format(o, sep, name, sizeof(name)), 0);
	snprintf(buf, size, "%s%s%s", before, name, after);
}

static void test_instances(void **state)
{
	static const char *const others[] = { "instances/kvmft.foo", "instances/kvmft.1.2",
					      "instances/other", "instances/xkvmft.1.2.3" };
	struct kowner dead = kfx_dead_owner(), self;
	char mine[160], gone[160], gone2[160];
	struct kfx *fx = *state;
	struct kreset r;

	assert_int_equal(kowner_self(&self), 0);
	name_of(&self, '.', "instances/", "", mine, sizeof(mine));
	name_of(&dead, '.', "instances/", "", gone, sizeof(gone));
	dead.seq = 7;
	name_of(&dead, '.', "instances/", "", gone2, sizeof(gone2));
	kfx_dir(fx, mine);
	kfx_dir(fx, gone);
	kfx_dir(fx, gone2);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		kfx_dir(fx, others[i]);

	assert_int_equal(kreset_sweep(fx->t, NULL, true, &r, &fx->err), 0);
	assert_int_equal(r.instances, 2);
	assert_int_equal(r.live, 1);
	assert_non_null(strstr(r.text.s, gone + strlen("instances/")));
	kreset_free(&r);
	assert_true(ktracefs_has(fx->t, gone));

	assert_int_equal(kreset_sweep(fx->t, NULL, false, &r, &fx->err), 0);
	assert_int_equal(r.instances, 2);
	assert_int_equal(r.live, 1);
	assert_int_equal(r.busy, 0);
	kreset_free(&r);
	assert_false(ktracefs_has(fx->t, gone));
	assert_false(ktracefs_has(fx->t, gone2));
	assert_true(ktracefs_has(fx->t, mine));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_true(ktracefs_has(fx->t, others[i]));

	assert_int_equal(kreset_sweep(fx->t, NULL, false, &r, &fx->err), 0);
	assert_int_equal(r.instances, 0);
	kreset_free(&r);
}

/* One that cannot be removed is reported, and the others are removed all the same. */
static void test_instance_refused(void **state)
{
	struct kowner dead = kfx_dead_owner();
	char stuck[160], file[200], gone[160];
	struct kfx *fx = *state;
	struct kreset r;

	name_of(&dead, '.', "instances/", "", stuck, sizeof(stuck));
	dead.seq++;
	name_of(&dead, '.', "instances/", "", gone, sizeof(gone));
	snprintf(file, sizeof(file), "%s/in-the-way", stuck);
	kfx_file(fx, file, "");
	kfx_dir(fx, gone);
	assert_int_equal(kreset_sweep(fx->t, NULL, false, &r, &fx->err), -ENOTEMPTY);
	assert_non_null(strstr(fx->err.text, stuck + strlen("instances/")));
	assert_int_equal(r.instances, 1);
	kreset_free(&r);
	assert_true(ktracefs_has(fx->t, stuck));
	assert_false(ktracefs_has(fx->t, gone));
}

static void test_probes(void **state)
{
	struct kowner dead = kfx_dead_owner(), self;
	char mine[96], gone[96], text[600], want[160];
	struct kfx *fx = *state;
	struct kreset r;
	char *file;

	assert_int_equal(kowner_self(&self), 0);
	name_of(&self, '_', "", "", mine, sizeof(mine));
	name_of(&dead, '_', "", "", gone, sizeof(gone));
	snprintf(text, sizeof(text),
		 "p:kprobes/p_foo_0 foo\nr16:%s/ret bar arg1=%%ax\np:%s/live baz\n"
		 "p:kvmft_x_1/a b\nnonsense\np:%s\n", gone, mine, gone);
	kfx_file(fx, "kprobe_events", text);
	assert_int_equal(kreset_sweep(fx->t, NULL, true, &r, &fx->err), 0);
	assert_int_equal(r.probes, 1);
	assert_int_equal(r.live, 1);
	snprintf(want, sizeof(want), "probe %s/ret\n", gone);
	assert_string_equal(r.text.s, want);
	kreset_free(&r);
	assert_true(ktracefs_read(fx->t, "kprobe_events", 4096, &file) > 0);
	assert_string_equal(file, text);
	free(file);

	/* Here the false file shows the command that the kernel would have got. */
	assert_int_equal(kreset_sweep(fx->t, NULL, false, &r, &fx->err), 0);
	assert_int_equal(r.probes, 1);
	kreset_free(&r);
	assert_true(ktracefs_read(fx->t, "kprobe_events", 4096, &file) > 0);
	snprintf(want, sizeof(want), "-:%s/ret", gone);
	assert_true(str_starts(file, want));
	free(file);
}

/* dynamic_events shows the probes of all files; only those at events are removed there. */
static void test_eprobes_left(void **state)
{
	struct kowner dead = kfx_dead_owner();
	char gone[96], text[300], want[160];
	struct kfx *fx = *state;
	struct kreset r;
	char *file;

	name_of(&dead, '_', "", "", gone, sizeof(gone));
	snprintf(text, sizeof(text),
		 "p:%s/kp foo\ne:%s/ep net.net_dev_start_xmit a=$len:u32\n"
		 "e:others/ep net.net_dev_queue\n", gone, gone);
	kfx_file(fx, "dynamic_events", text);
	assert_int_equal(kreset_sweep(fx->t, NULL, false, &r, &fx->err), 0);
	assert_int_equal(r.probes, 1);
	kreset_free(&r);
	assert_true(ktracefs_read(fx->t, "dynamic_events", 4096, &file) > 0);
	snprintf(want, sizeof(want), "-:%s/ep", gone);
	assert_true(str_starts(file, want));
	free(file);
}

static void test_eprobe_lines(void **state)
{
	struct kfx *fx = *state;
	struct kprobes *p;
	char want[300], *file;

	assert_int_equal(eprobes_open(fx->t, &p, &fx->err), -ENOTSUP);
	assert_int_equal(fx->err.code, KVMFT_LACKING);
	assert_null(p);
	kfx_file(fx, "dynamic_events", "");
	kfx_file(fx, "README", "e[:[<group>/][<event>]] <group>.<event> [<args>]\n");
	assert_int_equal(eprobes_open(fx->t, &p, &fx->err), -ENOTSUP); /* without filters */
	kfx_file(fx, "README", "e[:[<group>/][<event>]] <group>.<event> [<args>] [if <filter>]\n");
	assert_int_equal(eprobes_open(fx->t, &p, &fx->err), 0);
	assert_int_equal(eprobe_add(p, "bad name", "net", "x", NULL, &fx->err) < 0, 1);
	assert_int_equal(eprobe_add(p, "ok", "net x", "x", NULL, &fx->err), -EINVAL);
	assert_int_equal(eprobe_add(p, "ok", "net", "../x", NULL, &fx->err), -EINVAL);
	assert_int_equal(eprobe_add(p, "ok", "net", "net_dev_queue", "a=$len:u32 if len > 8",
				    &fx->err),
			 0);
	snprintf(want, sizeof(want), "e:%s/ok net/net_dev_queue a=$len:u32 if len > 8",
		 kprobes_group(p));
	assert_true(ktracefs_read(fx->t, "dynamic_events", 4096, &file) > 0);
	assert_string_equal(file, want);
	free(file);
	assert_int_equal(kprobes_close(p), 0);
	assert_true(ktracefs_read(fx->t, "dynamic_events", 4096, &file) > 0);
	snprintf(want, sizeof(want), "-:");
	assert_true(str_starts(file, want));
	free(file);
}

static void test_kprobe_lines(void **state)
{
	struct kfx *fx = *state;
	struct kprobes *p;
	char want[300], *file;

	assert_int_equal(kprobes_open(fx->t, &p, &fx->err), -ENOTSUP);
	assert_int_equal(fx->err.code, KVMFT_LACKING);
	assert_string_equal(fx->err.text,
			    "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)");
	assert_null(p);
	assert_int_equal(kprobes_close(NULL), 0);

	kfx_file(fx, "kprobe_events", "");
	assert_int_equal(kprobes_open(fx->t, &p, &fx->err), 0);
	assert_int_equal(kprobe_add(p, "bad name", "schedule", NULL, &fx->err), -EINVAL);
	assert_int_equal(kprobe_add(p, "ok", "schedule a=@b", NULL, &fx->err), -EINVAL);
	assert_int_equal(kprobe_add(p, "ok", "schedule", "a=@b\np:x/y z", &fx->err), -EINVAL);
	assert_int_equal(kprobe_remove(p, "ok"), -ENOENT);
	assert_int_equal(kprobe_add(p, "ok", "schedule", "a=@tsc_khz:u32", &fx->err), 0);
	snprintf(want, sizeof(want), "p:%s/ok schedule a=@tsc_khz:u32", kprobes_group(p));
	assert_true(ktracefs_read(fx->t, "kprobe_events", 4096, &file) > 0);
	assert_string_equal(file, want);
	free(file);
	snprintf(want, sizeof(want), "-:%s/ok", kprobes_group(p));
	assert_int_equal(kprobes_close(p), 0); /* undoes what was not removed */
	assert_true(ktracefs_read(fx->t, "kprobe_events", 4096, &file) > 0);
	assert_true(str_starts(file, want));
	free(file);
}

static void test_read_symbols_refused(void **state)
{
	struct kread_arg arg[] = { { "tsc_khz", "u32", 7, true }, { "kvmft_none+8", "x64", 7, true } };
	struct kread_arg bad[] = { { "tsc_khz;", "u32", 0, false }, { "a b", "u32", 0, false },
				   { "tsc_khz", "string", 0, false }, { "tsc_khz+x", "u8", 0, false },
				   { "tsc_khz", "", 0, false }, { "", "u8", 0, false },
				   { "tsc_khz", "u128", 0, false } };
	struct kfx *fx = *state;

	assert_int_equal(kread_symbols(fx->t, arg, 2, &fx->err), -ENOTSUP);
	assert_false(arg[0].present || arg[1].present);
	bad[0].where = "tsc:khz";
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(kread_symbols(fx->t, &bad[i], 1, &fx->err), -EINVAL);
	/* kprobe_events are there, but no instance can be made: nothing stays behind. */
	kfx_file(fx, "kprobe_events", "");
	kfx_dir(fx, "instances");
	assert_true(kread_symbols(fx->t, arg, 2, &fx->err) < 0);
	assert_int_equal(rmdir(strcat(strcpy((char[128]){ 0 }, fx->dir), "/instances")), 0);
}

/* An instance whose files are missing: the error names it, and it is taken away again. */
static void test_half_built(void **state)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct kfx *fx = *state;
	struct kinst *k = (struct kinst *)1;
	char path[128];

	assert_int_equal(kinst_create(fx->t, &c, &k, &fx->err), -ENOENT);
	assert_null(k);
	assert_int_equal(fx->err.code, KVMFT_LACKING);
	kfx_dir(fx, "instances");
	assert_int_equal(kinst_create(fx->t, &c, &k, &fx->err), -ENOENT);
	assert_null(k);
	assert_non_null(strstr(fx->err.text, "cannot open the instance"));
	snprintf(path, sizeof(path), "%s/instances", fx->dir);
	assert_int_equal(rmdir(path), 0); /* so it was empty */
	assert_int_equal(kinst_destroy(NULL, NULL), 0);
}

static void test_features(void **state)
{
	struct kfx *fx = *state;
	const struct kfeat_env here = { .t = fx->t }, nowhere = { 0 };
	struct kfeat_result r, none;

	assert_true(kfeat_count() > 10);
	for (size_t i = 0; i < kfeat_count(); i++) {
		assert_int_equal(kfeat_probe(&here, i, &r), 0);
		assert_int_equal(kfeat_probe(&nowhere, i, &none), 0);
		assert_true(r.name[0] && r.purpose[0] && r.detail[0] && none.detail[0]);
		assert_string_equal(r.name, none.name);
		if (r.state == KFEAT_HAVE)
			assert_string_equal(r.remedy, "");
	}
	assert_int_equal(kfeat_probe(&here, kfeat_count(), &r), -EINVAL);
	assert_false(kfeat_have(fx->t, "subbuf-size"));
	kfx_file(fx, "buffer_subbuf_size_kb", "4\n");
	assert_true(kfeat_have(fx->t, "subbuf-size"));
	assert_false(kfeat_have(fx->t, "hist-triggers"));
	kfx_file(fx, "README", "  hist trigger\t- x\n\t    Format: hist:keys=<field1>\n");
	assert_true(kfeat_have(fx->t, "hist-triggers"));
	assert_false(kfeat_have(fx->t, "no such feature"));
}

static void test_open_refused(void **state __unused_arg)
{
	struct kvmft_err err = { 0 };
	struct ktracefs *t;

	assert_int_equal(ktracefs_open("/nonexistent/kvmft", 0, &t, &err), -ENOENT);
	assert_null(t);
	assert_int_equal(err.code, KVMFT_LACKING);
	assert_string_equal(err.text,
			    "cannot open /nonexistent/kvmft: No such file or directory");
	ktracefs_close(NULL);
}

/* As nobody, in a child: the reason must be the privilege, not the kernel. */
static void test_unprivileged(void **state)
{
	struct kfx *fx = *state;
	int status;
	pid_t pid;

	if (geteuid()) {
		print_message("skipped: needs root to become nobody\n");
		skip();
	}
	assert_int_equal(chmod(fx->dir, 0700), 0);
	pid = fork();
	if (!pid) {
		struct kvmft_err err = { 0 };
		struct ktracefs *t;
		int got;

		if (setgid(65534) || setuid(65534))
			_exit(10);
		got = ktracefs_open(fx->dir, 0, &t, &err);
		if (got != -EACCES || !strstr(err.text, "(run as root)") ||
		    err.code != KVMFT_LACKING)
			_exit(11);
		got = ktracefs_open(NULL, 0, &t, &err);
		fprintf(stderr, "as nobody: %d %s\n", got, err.text);
		_exit(got < 0 && err.code == KVMFT_LACKING ? 0 : 12);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_instances, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_instance_refused, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_probes, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_kprobe_lines, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_eprobes_left, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_eprobe_lines, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_read_symbols_refused, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_half_built, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_features, kfx_setup, kfx_teardown),
		cmocka_unit_test(test_open_refused),
		cmocka_unit_test_setup_teardown(test_unprivileged, kfx_setup, kfx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
