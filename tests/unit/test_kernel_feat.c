/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Features of machines that this one is not: a tree of files in place of /sys, /proc and /run, and
 * a false tracefs.
 */
#include "kernel_fixture.h"

struct machine {
	struct kfx *fx; /* its directory is the root, too */
	struct kfeat_env env;
};

static int setup(void **state)
{
	struct machine *m = calloc(1, sizeof(*m));
	void *fx = NULL;

	if (!m || kfx_setup(&fx))
		return -1;
	m->fx = fx;
	m->env = (struct kfeat_env){ .t = m->fx->t, .root = m->fx->dir };
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct machine *m = *state;
	void *fx = m->fx;

	free(m);
	return kfx_teardown(&fx);
}

static struct kfeat_result probe(const struct machine *m, const char *name)
{
	struct kfeat_result r = { 0 };

	for (size_t i = 0; i < kfeat_count(); i++) {
		assert_int_equal(kfeat_probe(&m->env, i, &r), 0);
		if (!strcmp(r.name, name))
			return r;
	}
	fail_msg("no feature %s", name);
	return r;
}

static void check(const struct machine *m, const char *name, enum kfeat_state state,
		  const char *detail)
{
	struct kfeat_result r = probe(m, name);

	if (r.state != state || !strstr(r.detail, detail))
		fail_msg("%s: state %d, \"%s\" (wanted %d, \"%s\")", name, r.state, r.detail, state, detail);
	if (state == KFEAT_LACK)
		assert_string_not_equal(r.remedy, "");
	if (state == KFEAT_HAVE)
		assert_string_equal(r.remedy, "");
}

static void link_to(const struct machine *m, const char *name, const char *target)
{
	char path[320];

	kfx_path(m->fx, name, path, sizeof(path));
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static void test_lockdown(void **state)
{
	static const char file[] = "sys/kernel/security/lockdown";
	struct machine *m = *state;

	check(m, "lockdown", KFEAT_UNKNOWN, "securityfs is not mounted");
	kfx_file(m->fx, "trace_clock", "[local] x86-tsc\n");
	check(m, "lockdown", KFEAT_HAVE, "tracefs is filled");
	kfx_file(m->fx, "sys/kernel/security/lsm", "capability,landlock");
	check(m, "lockdown", KFEAT_HAVE, "has no lockdown");
	kfx_file(m->fx, file, "[none] integrity confidentiality\n");
	check(m, "lockdown", KFEAT_HAVE, "not locked down");
	kfx_file(m->fx, file, "none [integrity] confidentiality\n");
	check(m, "lockdown", KFEAT_HAVE, "integrity, which permits tracing");
	kfx_file(m->fx, file, "none integrity [confidentiality]\n");
	check(m, "lockdown", KFEAT_LACK, "tracefs is empty");
	kfx_file(m->fx, file, "none integrity");
	check(m, "lockdown", KFEAT_UNKNOWN, "cannot make sense");
	kfx_file(m->fx, file, "");
	check(m, "lockdown", KFEAT_UNKNOWN, "cannot make sense");
}

/* An error text that carries its remedy is taken apart. */
static void test_no_tracefs(void **state)
{
	struct machine *m = *state;
	struct kfeat_result r;
	size_t used = 0;

	m->env.t = NULL;
	m->env.no_tracefs = "tracefs is not mounted (as root: mount -t tracefs nodev /x)";
	r = probe(m, "tracefs");
	assert_int_equal(r.state, KFEAT_LACK);
	assert_string_equal(r.detail, "tracefs is not mounted");
	assert_string_equal(r.remedy, "as root: mount -t tracefs nodev /x");
	m->env.no_tracefs = "cannot open /x: Permission denied (run as root)";
	r = probe(m, "tracefs");
	assert_string_equal(r.detail, "cannot open /x: Permission denied");
	assert_string_equal(r.remedy, "run as root");
	m->env.no_tracefs = NULL;
	check(m, "tracefs", KFEAT_LACK, "not mounted");
	for (size_t i = 0; i < kfeat_count(); i++) {
		assert_int_equal(kfeat_probe(&m->env, i, &r), 0);
		assert_false(r.need & ~r.use);
		used += r.use != 0; /* the others are another architecture's */
	}
	assert_true(used > 20 && used < kfeat_count());
	check(m, "kvm-events", KFEAT_UNKNOWN, "no tracefs to ask");
	check(m, "kprobes", KFEAT_UNKNOWN, "no tracefs to ask");
}

static void test_capabilities(void **state)
{
	struct machine *m = *state;

	check(m, "capabilities", KFEAT_UNKNOWN, "does not tell");
	kfx_file(m->fx, "proc/self/status", "Name:\tx\nCapInh:\t0\nCapEff:\t000001ffffffffff\n");
	check(m, "capabilities", KFEAT_HAVE, "all");
	kfx_file(m->fx, "proc/self/status", "Name:\tx\nCapEff:\t00000000a80425fb\n"); /* docker */
	check(m, "capabilities", KFEAT_LACK, "without sys_admin, sys_ptrace, sys_module");
	kfx_file(m->fx, "proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n");
	check(m, "capabilities", KFEAT_LACK, "without sys_ptrace, sys_module");
	kfx_file(m->fx, "proc/self/status", "Name:\tx\nCapEff:\n");
	check(m, "capabilities", KFEAT_UNKNOWN, "does not tell");
}

static void test_container(void **state)
{
	struct machine *m = *state;

	check(m, "pid-namespace", KFEAT_UNKNOWN, "/proc is not mounted");
	link_to(m, "proc/self/ns/pid", "pid:[4026531836]");
	link_to(m, "proc/self/ns/user", "user:[4026531837]");
	check(m, "pid-namespace", KFEAT_HAVE, "the machine's own");
	check(m, "container", KFEAT_HAVE, "none seen");
	kfx_file(m->fx, ".dockerenv", "");
	check(m, "container", KFEAT_HAVE, "docker, but not a user namespace");
	kfx_file(m->fx, "run/systemd/container", "lxc\nx");
	check(m, "container", KFEAT_HAVE, "lxc, but");
	link_to(m, "proc/self/ns/user", "user:[4026532000]");
	check(m, "container", KFEAT_LACK, "a user namespace of lxc: root in here is not root");
	link_to(m, "proc/self/ns/pid", "pid:[4026532001]");
	check(m, "pid-namespace", KFEAT_LACK, "a namespace of its own");
	assert_int_equal(probe(m, "pid-namespace").need, KFEAT_HOST);
}

static void test_memory(void **state)
{
	struct machine *m = *state;

	check(m, "memory", KFEAT_UNKNOWN, "does not tell");
	kfx_file(m->fx, "proc/meminfo", "MemTotal: 65536 kB\nMemAvailable:   32768 kB\n");
	check(m, "memory", KFEAT_UNKNOWN, "does not tell");
	kfx_file(m->fx, "sys/devices/system/cpu/possible", "0-3\n");
	check(m, "memory", KFEAT_HAVE, "32 MB available: a ring of 409 KB for each of 4 CPUs");
	kfx_file(m->fx, "sys/devices/system/cpu/possible", "0-31\n");
	check(m, "memory", KFEAT_LACK, "a ring of 51 KB for each of 32 CPUs");
	kfx_file(m->fx, "proc/meminfo", "MemAvailable: 400000000 kB\n");
	check(m, "memory", KFEAT_HAVE, "a ring of 8192 KB for each of 32 CPUs");
	kfx_file(m->fx, "sys/devices/system/cpu/possible", "nonsense\n");
	check(m, "memory", KFEAT_UNKNOWN, "does not tell");
}

static void test_backends(void **state)
{
	struct machine *m = *state;

	/* The vendors' modules are asked of the real machine; another one is seen in the tree. */
	kfx_file(m->fx, "sys/module/kvm_other/parameters/x", "1\n");
	kfx_file(m->fx, "sys/module/kvmgt/x", "1\n");
	check(m, "kvm-vendor-module", KFEAT_HAVE, ", and kvm_other (by");
}

static void test_guest_events(void **state)
{
	struct machine *m = *state;

	check(m, "guest-events", KFEAT_LACK, "none of: sched irq");
	kfx_event(m->fx, "sched", "sched_switch", "300\n");
	kfx_event(m->fx, "irq", "irq_handler_entry", "301\n");
	check(m, "guest-events", KFEAT_HAVE, "systems: sched irq; not here: irq_vectors timer block msr");
	check(m, "kvm-events", KFEAT_LACK, "no kvm events");
	kfx_event(m->fx, "kvm", "kvm_exit", "302\n");
	check(m, "kvm-events", KFEAT_HAVE, "kvm:kvm_exit");
	kfx_file(m->fx, "sys/module/kvm_pvm/x", "1\n"); /* which may have the events, and raise none */
	check(m, "kvm-events", KFEAT_UNKNOWN, "whether kvm_pvm raises them was not tried");
}

static void test_privilege(void **state)
{
	struct machine *m = *state;

	check(m, "privilege", KFEAT_LACK, "instances: No such file or directory");
	kfx_dir(m->fx, "instances");
	check(m, "privilege", KFEAT_HAVE, "may make instances");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lockdown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_tracefs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_capabilities, setup, teardown),
		cmocka_unit_test_setup_teardown(test_container, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_backends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guest_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_privilege, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
