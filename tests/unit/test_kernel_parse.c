/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_parse.c: the pure parts of the kernel room: texts of tracefs, /proc and the kernel
 * log, good and broken.
 */
#include "kernel_fixture.h"
#include "kvmft/util.h"

static void test_clock_text(void **state __unused_arg)
{
	const char *text = "[local] global counter uptime perf mono mono_raw boot tai x86-tsc \n";
	char buf[128];

	assert_int_equal(ktext_chosen(text, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "local");
	assert_int_equal(ktext_chosen("local [x86-tsc]\n", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "x86-tsc");
	assert_int_equal(ktext_chosen("local global\n", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(ktext_chosen("[local", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(ktext_chosen("[]", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(ktext_chosen("]local[", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(ktext_chosen("[local]", buf, 5), -EINVAL);
	assert_int_equal(ktext_chosen("[local]", buf, 6), 0);
}

static void test_cpus(void **state __unused_arg)
{
	static const char *const bad[] = { "", "\n", "a", "1-", "-1", "3-1", "1,,2", "0,", "0-3,2",
					   "1 2", "0x1", "1-2-3", "0\n\n" };
	struct kcpus c;

	assert_int_equal(kcpus_parse("0-3,8\n", &c), 0);
	assert_int_equal(c.n, 5);
	assert_int_equal(c.cpu[3], 3);
	assert_int_equal(c.cpu[4], 8);
	kcpus_free(&c);
	assert_int_equal(kcpus_parse("8191", &c), 0);
	kcpus_free(&c);
	assert_int_equal(kcpus_parse("0-8192", &c), -ERANGE);
	assert_int_equal(kcpus_parse("99999999999999999999", &c), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(kcpus_parse(bad[i], &c), -EINVAL);
		assert_null(c.cpu);
	}
	assert_int_equal(kcpus_read(KCPU_ONLINE, &c), 0);
	assert_true(c.n >= 1);
	kcpus_free(&c);
}

static const char stats_ns[] = "entries: 129\noverrun: 18446744073709551615\n"
			       "commit overrun: 3\nbytes: 6836\noldest event ts:  4107.218375\n"
			       "now ts:  4122.104500\ndropped events: 7\nread events: 42\n";

static void test_stats(void **state __unused_arg)
{
	struct kstats s;

	assert_int_equal(kstats_parse(stats_ns, &s), 0);
	assert_int_equal(s.entries, 129);
	assert_true(s.overrun == UINT64_MAX); /* and not the value of "commit overrun" */
	assert_int_equal(s.commit_overrun, 3);
	assert_int_equal(s.bytes, 6836);
	assert_int_equal(s.dropped, 7);
	assert_int_equal(s.read, 42);
	/* Only what the identity needs is required; names count at the start of a line only. */
	assert_int_equal(kstats_parse("commit overrun: 3\nread events: 1\noverrun: 2\nentries: 5\n",
				      &s), 0);
	assert_int_equal(s.overrun, 2);
	assert_int_equal(s.dropped, 0);
	assert_int_equal(kstats_parse("", &s), -EINVAL);
	assert_int_equal(kstats_parse("entries: 1\ncommit overrun: 3\nread events: 4\n", &s),
			 -EINVAL);
	assert_int_equal(kstats_parse("entries: -1\noverrun: 0\nread events: 0\n", &s), -EINVAL);
	assert_int_equal(kstats_parse("entries: 1.5\noverrun: 0\nread events: 0\n", &s), -EINVAL);
	assert_int_equal(kstats_parse("entries: 18446744073709551616\noverrun: 0\nread events: 0\n",
				      &s), -ERANGE);
	/* Cut anywhere it must not crash, and not succeed before the last needed name is whole. */
	for (size_t n = 0; n < strlen(stats_ns); n++) {
		char *cut = strndup(stats_ns, n);

		assert_non_null(cut);
		if (n < strlen(stats_ns) - strlen("42\n"))
			assert_int_equal(kstats_parse(cut, &s), -EINVAL);
		else
			(void)!kstats_parse(cut, &s);
		free(cut);
	}
}

static void test_buffer_kb(void **state __unused_arg)
{
	uint64_t kb = 1;

	assert_int_equal(kbuffer_kb_parse("1408\n", &kb), 0);
	assert_int_equal(kb, 1408);
	assert_int_equal(kbuffer_kb_parse("7 (expanded: 1408)\n", &kb), 0);
	assert_int_equal(kb, 7);
	assert_int_equal(kbuffer_kb_parse("X\n", &kb), -EINVAL);
	assert_int_equal(kbuffer_kb_parse("", &kb), -EINVAL);
	assert_int_equal(kbuffer_kb_parse("12a", &kb), -EINVAL);
}

static void test_owner_names(void **state __unused_arg)
{
	static const char *const bad[] = {
		"kvmft.foo", "kvmft.", "kvmft", "kvmft.1", "kvmft.1.2", "kvmft.1.2.", "kvmft.1.2.3.4",
		"kvmft.0.2.3", "kvmft.01.2.3", "kvmft.1.2.3x", "kvmft.-1.2.3", "kvmft.1..3",
		"kvmft.99999999999.2.3", "kvmft.1.18446744073709551616.3", "kvmft.1.2.4294967296",
		"kvmft_1_2", "Kvmft.1.2.3", "xkvmft.1.2.3", "kvmft. 1.2.3", "kvmft.1.2.+3",
	};
	struct kowner o = { .pid = 4711, .start = UINT64_MAX, .seq = 3 }, p;
	char buf[96];

	assert_int_equal(kowner_format(&o, '.', buf, sizeof(buf)), 0);
	assert_string_equal(buf, "kvmft.4711.18446744073709551615.3");
	assert_int_equal(kowner_parse(buf, '.', &p), 0);
	assert_true(p.pid == o.pid && p.start == o.start && p.seq == o.seq);
	assert_int_equal(kowner_format(&o, '_', buf, sizeof(buf)), 0);
	assert_string_equal(buf, "kvmft_4711_18446744073709551615_3");
	assert_int_equal(kowner_parse(buf, '_', &p), 0);
	assert_true(p.pid == o.pid && p.start == o.start && p.seq == o.seq);
	o.seq = 0;
	assert_int_equal(kowner_format(&o, '_', buf, sizeof(buf)), 0);
	assert_string_equal(buf, "kvmft_4711_18446744073709551615");
	assert_int_equal(kowner_parse(buf, '_', &p), 0);
	assert_int_equal(p.pid, 4711);
	assert_int_equal(kowner_format(&o, '.', buf, 8), -ENAMETOOLONG);
	assert_int_equal(kowner_parse("kvmft_1_2_3_4", '_', &p), -EINVAL);
	assert_int_equal(kowner_parse("kvmft_1_2_", '_', &p), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(kowner_parse(bad[i], '.', &p), -EINVAL);
}

static void test_owner_alive(void **state __unused_arg)
{
	struct kowner self, dead = kfx_dead_owner();
	pid_t pid;

	assert_int_equal(kowner_self(&self), 0);
	assert_int_equal(self.pid, getpid());
	assert_true(kowner_alive(&self));
	self.start++; /* the same PID, given out again */
	assert_false(kowner_alive(&self));
	assert_false(kowner_alive(&dead));

	/* A zombie holds nothing any more. */
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_false(kowner_alive(&(struct kowner){ .pid = pid, .start = 1 }));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_read_field(void **state __unused_arg)
{
	const char *line = " kread_1: (do_sys_openat2+0x0/0x130) a0=0x4a779cb a1=-51282685 "
			   "a10=7 a2=(fault) a3= a4=0xffffffffffffffff a5=12x";
	uint64_t v = 99;

	assert_int_equal(kread_parse_field(line, "a0", &v), 0);
	assert_int_equal(v, 0x4a779cb);
	assert_int_equal(kread_parse_field(line, "a1", &v), 0);
	assert_true((int64_t)v == -51282685);
	assert_int_equal(kread_parse_field(line, "a10", &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(kread_parse_field(line, "a4", &v), 0);
	assert_true(v == UINT64_MAX);
	v = 99;
	assert_int_equal(kread_parse_field(line, "a2", &v), -EINVAL);
	assert_int_equal(kread_parse_field(line, "a3", &v), -EINVAL);
	assert_int_equal(kread_parse_field(line, "a5", &v), -EINVAL);
	assert_int_equal(kread_parse_field(line, "a6", &v), -ENOENT);
	assert_int_equal(kread_parse_field("a0=1", "a0", &v), -ENOENT);
	assert_int_equal(v, 99);
}

static void test_tsc_log(void **state __unused_arg)
{
	uint64_t khz;
	bool refined;

	assert_int_equal(ktsc_parse_log("tsc: Refined TSC clocksource calibration: 3792.873 MHz",
					&khz, &refined), 0);
	assert_int_equal(khz, 3792873);
	assert_true(refined);
	assert_int_equal(ktsc_parse_log("tsc: Detected 2445.432 MHz processor", &khz, &refined), 0);
	assert_int_equal(khz, 2445432);
	assert_false(refined);
	assert_int_equal(ktsc_parse_log("tsc: Detected 2596.046 MHz TSC", &khz, &refined), 0);
	assert_int_equal(khz, 2596046);
	assert_int_equal(ktsc_parse_log("tsc: Detected 0.900 MHz TSC", &khz, &refined), -ERANGE);
	assert_int_equal(ktsc_parse_log("tsc: Fast TSC calibration failed", &khz, &refined),
			 -EINVAL);
	assert_int_equal(ktsc_parse_log("tsc: Detected 2445.432", &khz, &refined), -EINVAL);
}

static void count_line(const char *line, void *arg)
{
	unsigned int *n = arg;

	assert_null(strchr(line, '\n'));
	++*n;
}

static void test_log(void **state __unused_arg)
{
	const char *text = "Linux version 6.1\n"
			   "kvm-clock: using sched offset of 78082027 cycles\n"
			   "sched_clock: Marking stable (544014827, 2595920)->(597893432, -51282685)\n"
			   "x tsc: y\ntsc: Detected 2445.432 MHz processor\nno\ntsc tsc\ntsc: last";
	struct klog_sched s;
	unsigned int n = 0;

	klog_parse_sched(text, &s);
	assert_true(s.has_kvm && s.has_kernel && !s.unstable);
	assert_true(s.kvm_sched_clock_offset == 78082027);
	assert_true(s.kernel_sched_offset == -51282685);
	klog_find_in(text, "tsc:", count_line, &n);
	assert_int_equal(n, 3);
	n = 0;
	klog_find_in(text, "Linux", count_line, &n);
	assert_int_equal(n, 1);

	/* Somebody else's line that quotes the words, and lines cut short. */
	klog_parse_sched("x kvm-clock: using sched offset of 5 cycles\n"
			 "kvm-clock: using sched offset of 5\n"
			 "sched_clock: Marking stable (1, 2)->(3, \n"
			 "sched_clock: Marking unstable (1, 2)<-(3, 4)\n", &s);
	assert_false(s.has_kvm);
	assert_false(s.has_kernel);
	assert_true(s.unstable);
}

static void test_kallsyms(void **state)
{
	static const char *const name[] = { "tsc_khz", "tsc_kh", "nf_hook", "tsc_khz", "missing" };
	bool present[ARRAY_SIZE(name)];
	struct kfx *fx = *state;
	char path[160];

	kfx_file(fx, "kallsyms", "0000000000000000 D tsc_khz\n"
				 "0000000000000000 t nf_hook\t[nf_tables]\nbroken\n x\n");
	snprintf(path, sizeof(path), "%s/kallsyms", fx->dir);
	assert_int_equal(kallsyms_find(path, name, ARRAY_SIZE(name), present), 3);
	assert_true(present[0] && !present[1] && present[2] && present[3] && !present[4]);
	snprintf(path, sizeof(path), "%s/none", fx->dir);
	assert_int_equal(kallsyms_find(path, name, ARRAY_SIZE(name), present), -ENOENT);
	assert_false(present[0]);
}

static void test_machine(void **state __unused_arg)
{
	struct ktsc_facts f;
	struct clock_bracket a, b;

	ktsc_facts_read(NULL, &f);
	if (!f.present) {
		assert_int_equal(kbracket_read(1, &a), -ENOTSUP);
		print_message("skipped: this machine has no TSC\n");
		skip();
	}
	/* arm64's counter has 1 MHz to 1 GHz, and no vendor is asked for there. */
#ifdef __x86_64__
	assert_true(f.khz > 100000 && f.vendor[0]);
#endif
	assert_true(f.khz >= 1000 && f.source[0]);
	assert_int_equal(kbracket_read(50, &a), 0);
	usleep(20000);
	assert_int_equal(kbracket_read(50, &b), 0);
	assert_true(b.tsc > a.tsc + a.width);
	/* The rate that was found must be the one that is seen: 0.1 % is far more than NTP does. */
	{
		uint64_t ns = b.mono_raw - a.mono_raw;
		uint64_t want = (uint64_t)((unsigned __int128)ns * f.khz / 1000000);
		uint64_t got = b.tsc - a.tsc;
		uint64_t off = got > want ? got - want : want - got;

		print_message("tsc %llu kHz (%s), bracket %llu cycles, off by %llu in %llu\n",
			      (unsigned long long)f.khz, f.source, (unsigned long long)b.width,
			      (unsigned long long)off, (unsigned long long)want);
		assert_true(off < want / 1000 + a.width + b.width);
	}
}

static void test_modules(void **state __unused_arg)
{
	assert_int_equal(kmodule_state_get("../etc"), KMODULE_UNKNOWN);
	assert_int_equal(kmodule_state_get(""), KMODULE_UNKNOWN);
	assert_true(kmodule_state_get("kvmft_no_such_module") != KMODULE_LOADED);
	assert_string_equal(kmodule_state_text(KMODULE_BUILTIN), "built in");
}

static void test_sides(void **state)
{
	struct kfx *fx = *state;
	struct ktsc_facts bare = { .hv_signature = "" }, hyperv = { .hv_signature = "Microsoft Hv" },
			  guest = { .hv_signature = "KVMKVMKVM" }, arm64 = { .arm64 = true };
	const char *why;

	assert_int_equal(kmachine_sides(fx->dir, &bare, NULL), KFEAT_HOST);
	assert_int_equal(kmachine_sides(fx->dir, &hyperv, NULL), KFEAT_HOST);
	assert_int_equal(kmachine_sides(fx->dir, &guest, &why), KFEAT_GUEST);
	assert_string_equal(why, "this machine is a guest of KVM, and has no KVM itself");
	assert_int_equal(kmachine_sides(fx->dir, &arm64, &why), KFEAT_GUEST);
	assert_string_equal(why, "this machine has no KVM");
	kfx_dir(fx, "sys/class/misc/kvm");
	assert_int_equal(kmachine_sides(fx->dir, &bare, &why), KFEAT_HOST);
	assert_string_equal(why, "this machine is no guest of KVM");
	assert_int_equal(kmachine_sides(fx->dir, &guest, NULL), KFEAT_HOST | KFEAT_GUEST);
	assert_int_equal(kmachine_sides(fx->dir, &arm64, &why), KFEAT_HOST);
	assert_string_equal(why, "this machine has KVM");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock_text),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_buffer_kb),
		cmocka_unit_test(test_owner_names),
		cmocka_unit_test(test_owner_alive),
		cmocka_unit_test(test_read_field),
		cmocka_unit_test(test_tsc_log),
		cmocka_unit_test(test_log),
		cmocka_unit_test_setup_teardown(test_kallsyms, kfx_setup, kfx_teardown),
		cmocka_unit_test(test_machine),
		cmocka_unit_test_setup_teardown(test_sides, kfx_setup, kfx_teardown),
		cmocka_unit_test(test_modules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
