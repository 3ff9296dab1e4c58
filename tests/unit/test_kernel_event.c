/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_event.c: specifications of events: what they expand to in a made-up tracefs, and
 * the message when they expand to nothing.
 */
#include "kernel_fixture.h"

static void expect_spec(const char *spec, const char *sys, const char *name, const char *filter)
{
	struct kvmft_err err = { 0 };
	char *s, *n, *f;

	assert_int_equal(kevent_parse_spec(spec, &s, &n, &f, &err), 0);
	if (sys)
		assert_string_equal(s, sys);
	else
		assert_null(s);
	assert_string_equal(n, name);
	if (filter)
		assert_string_equal(f, filter);
	else
		assert_null(f);
	free(s);
	free(n);
	free(f);
}

static void test_spec(void **state __unused_arg)
{
	static const char *const bad[] = {
		"", ":", "kvm:", ":kvm_exit", "kvm:kvm_exit/", "kvm:kvm_exit//", "kvm:a/b/c", "/x/",
		"kvm:..", "..:x", ".", "kvm:a:b", "kvm:a b", "kvm:\033[2J", "a:b/c/ ",
	};
	struct kvmft_err err;
	char *s, *n, *f;

	expect_spec("kvm:kvm_exit", "kvm", "kvm_exit", NULL);
	expect_spec("kvm:*", "kvm", "*", NULL);
	expect_spec("kvm", NULL, "kvm", NULL);
	expect_spec("kvm:kvm_exit/exit_reason == 1/", "kvm", "kvm_exit", "exit_reason == 1");
	expect_spec("block:x/path ~ \"/dev/*\" && a:b/", "block", "x", "path ~ \"/dev/*\" && a:b");
	expect_spec("kvm_exit/a == 1/", NULL, "kvm_exit", "a == 1");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct kvmft_err){ 0 };
		assert_int_equal(kevent_parse_spec(bad[i], &s, &n, &f, &err), -EINVAL);
		assert_int_equal(err.code, KVMFT_USAGE);
		assert_true(err.text[0]);
		assert_null(s);
		assert_null(n);
		assert_null(f);
	}
}

static int setup(void **state)
{
	static const struct {
		const char *sys, *name, *id;
	} event[] = {
		{ "kvm", "kvm_exit", "1001\n" },	{ "kvm", "kvm_entry", "1002\n" },
		{ "kvm", "kvm_eoi", "1003\n" },		{ "kvm", "kvm_pio", "1004\n" },
		{ "sched", "sched_switch", "300\n" },	{ "sched", "sched_waking", "301\n" },
		{ "one", "same", "1\n" },		{ "two", "same", "70000\n" },
		{ "ksm", "ksm_enter", "junk\n" },
	};
	int err = kfx_setup(state);

	for (size_t i = 0; !err && i < ARRAY_SIZE(event); i++)
		kfx_event(*state, event[i].sys, event[i].name, event[i].id);
	if (!err)
		kfx_file(*state, "events/ftrace/function/format", "name: function\n");
	return err;
}

static void expect_events(struct kfx *fx, const char *spec, size_t n)
{
	struct kevent_list list = { 0 };

	assert_int_equal(kevent_expand(fx->t, spec, &list, &fx->err), 0);
	assert_int_equal(list.n, n);
	kevent_list_free(&list);
}

static void test_expand(void **state)
{
	struct kfx *fx = *state;
	struct kevent_list list = { 0 };

	expect_events(fx, "kvm:kvm_exit", 1);
	expect_events(fx, "kvm:*", 4);
	expect_events(fx, "kvm", 4);
	expect_events(fx, "kvm:kvm_e*", 3);
	expect_events(fx, "k*:*", 5);
	expect_events(fx, "*:same", 2);
	expect_events(fx, "*", 9); /* ftrace:function cannot be enabled, so it is not among them */
	expect_events(fx, "kvm_exit", 1);
	expect_events(fx, "kvm_e*", 3);

	/* Again, with a filter: the same entry gets it. */
	assert_int_equal(kevent_expand(fx->t, "kvm", &list, &fx->err), 0);
	assert_int_equal(kevent_expand(fx->t, "kvm:kvm_exit/a == 1/", &list, &fx->err), 0);
	assert_int_equal(kevent_expand(fx->t, "kvm_exit", &list, &fx->err), 0);
	assert_int_equal(list.n, 4);
	assert_string_equal(list.v[0].name, "kvm_entry"); /* by name, whatever the directory's order */
	assert_string_equal(list.v[3].name, "kvm_pio");
	assert_true(kevent_list_has(&list, "kvm", "kvm_pio"));
	assert_false(kevent_list_has(&list, "kvm", "kvm_msr"));
	for (size_t i = 0; i < list.n; i++) {
		if (strcmp(list.v[i].name, "kvm_exit"))
			assert_null(list.v[i].filter);
		else
			assert_string_equal(list.v[i].filter, "a == 1");
	}
	kevent_list_free(&list);
}

static void expect_refusal(struct kfx *fx, const char *spec, int err, const char *text)
{
	struct kevent_list list = { 0 };

	fx->err = (struct kvmft_err){ 0 };
	assert_int_equal(kevent_expand(fx->t, spec, &list, &fx->err), err);
	assert_string_equal(fx->err.text, text);
	assert_int_equal(list.n, 0);
	assert_int_equal(kevent_expand(fx->t, spec, &list, NULL), err);
}

static void test_refusals(void **state)
{
	struct kfx *fx = *state;

	expect_refusal(fx, "kvm:kvm_exti", -ENOENT,
		       "kvm:kvm_exti: no such event (did you mean kvm:kvm_exit or kvm:kvm_eoi?)");
	expect_refusal(fx, "sched_swich", -ENOENT,
		       "sched_swich: no such event or system (did you mean sched:sched_switch?)");
	expect_refusal(fx, "schde", -ENOENT, "schde: no such event or system (did you mean sched?)");
	expect_refusal(fx, "kwm:kvm_exit", -ENOENT,
		       "kwm:kvm_exit: no event system kwm (did you mean ksm or kvm?)");
	expect_refusal(fx, "sched:kvm_exit", -ENOENT,
		       "sched:kvm_exit: no such event (did you mean kvm:kvm_exit?)");
	expect_refusal(fx, "kvm:zzzzzz", -ENOENT, "kvm:zzzzzz: no such event");
	expect_refusal(fx, "kvm:z*", -ENOENT, "kvm:z*: no such events");
	expect_refusal(fx, "ftrace:function", -ENOENT,
		       "ftrace:function: the kernel does not let this event be enabled");
	expect_refusal(fx, "same", -EINVAL,
		       "same: exists in several systems, name one of: one:same, two:same");
}

static void test_no_kvm(void **state)
{
	struct kevent_list list = { 0 };
	struct kfx *fx = *state;

	/* Whatever the reason is on the machine of the test, it is one of these, and exit code 4. */
	assert_int_equal(kevent_expand(fx->t, "kvm:kvm_exit", &list, &fx->err), -ENOENT);
	print_message("%s\n", fx->err.text);
	assert_int_equal(fx->err.code, KVMFT_LACKING);
	assert_true(str_starts(fx->err.text, "kvm:kvm_exit: no kvm events"));
	assert_int_equal(kevent_kvm_check(fx->t, &fx->err), -ENOENT);
	assert_false(kfeat_have(fx->t, "kvm-events"));
}

static void test_facts(void **state)
{
	struct kfx *fx = *state;
	uint32_t id = 5;
	char *text;

	assert_true(kevent_exists(fx->t, "kvm", "kvm_exit"));
	assert_false(kevent_exists(fx->t, "kvm", "../kvm/kvm_exit"));
	assert_false(kevent_exists(fx->t, "..", "events"));
	assert_int_equal(kevent_format_id("name: kvm_exit\nID: 1001\nformat:\n", &id), 0);
	assert_int_equal(id, 1001);
	assert_int_equal(kevent_format_id("name: x\nID: 65536\n", &id), -ERANGE);
	assert_int_equal(kevent_format_id("name: x\nID: \n", &id), -EBADMSG);
	assert_int_equal(kevent_format_id("name: x\nID: 7", &id), -EBADMSG);
	assert_int_equal(kevent_format_id("name: ID: 7\n", &id), -EBADMSG);
	assert_int_equal(kevent_format_id("", &id), -EBADMSG);
	assert_int_equal(id, 1001);
	assert_int_equal(kevent_format(fx->t, "kvm", "kvm_exit", &text), 0);
	assert_string_equal(text, "name: x\n");
	free(text);
	assert_int_equal(kevent_format(fx->t, "kvm", "a/b", &text), -EINVAL);
	assert_null(text);
}

static void test_clocks(void **state)
{
	struct kfx *fx = *state;

	assert_int_equal(ktracefs_clock_check(fx->t, "local", &fx->err), -ENOENT);
	kfx_file(fx, "trace_clock", "[local] global mono mono_raw\n");
	assert_int_equal(ktracefs_clock_check(fx->t, "local", &fx->err), 0);
	assert_int_equal(ktracefs_clock_check(fx->t, "mono_raw", &fx->err), 0);
	assert_int_equal(ktracefs_clock_check(fx->t, "mon", &fx->err), -EINVAL);
	assert_int_equal(ktracefs_clock_check(fx->t, "", &fx->err), -EINVAL);
	assert_int_equal(ktracefs_clock_check(fx->t, "x86-tsc", &fx->err), -EINVAL);
	assert_int_equal(fx->err.code, KVMFT_LACKING);
	assert_string_equal(fx->err.text, "no trace clock x86-tsc: this is not an x86 kernel "
					  "(it has: local global mono mono_raw)");
	assert_false(kfeat_have(fx->t, "x86-tsc"));
	kfx_file(fx, "trace_clock", "local [x86-tsc]\n");
	assert_true(kfeat_have(fx->t, "x86-tsc"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spec),
		cmocka_unit_test_setup_teardown(test_expand, setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_no_kvm, kfx_setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_facts, setup, kfx_teardown),
		cmocka_unit_test_setup_teardown(test_clocks, kfx_setup, kfx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
