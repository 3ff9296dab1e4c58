/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_output_exits.c: tables of exits in all formats, to the letter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "kvmft/results.h"

struct fixture {
	struct exits e;
	struct exit_names names;
	struct exits_page p;
	struct exits_view v;
	struct sbuf b;
};

static int keep(void *ctx __unused_arg, struct sbuf *b __unused_arg)
{
	return 0;
}

static void fixture_thread(struct fixture *f, uint32_t tid, uint32_t pid, size_t vm, uint32_t vcpu)
{
	size_t at = exits_thread(&f->e, tid);

	f->e.thread[at].pid = pid;
	f->e.thread[at].vm = (uint32_t)vm;
	f->e.thread[at].vcpu = vcpu;
}

static void fixture_open(struct fixture *f, bool timed)
{
	size_t a, b;

	*f = (struct fixture){ .e = { .timed = timed } };
	a = exits_vm(&f->e, "100-11", "vm1", "aa-bb", 100);
	b = exits_vm(&f->e, "200-11", "a\"b,\\c\xff", NULL, 200);
	assert_true(a == 0 && b == 1);
	f->e.vm[b].ended = 1;
	fixture_thread(f, 101, 100, a, 0);
	fixture_thread(f, 201, 200, b, EXITS_NONE);
	fixture_thread(f, 300, 0, EXITS_NONE, EXITS_NONE);
	exits_add(&f->e, 101, 12, 1000);
	exits_add(&f->e, 201, 0x80000030, 20);
	exits_add(&f->e, 300, 4242, 3);
	if (timed) {
		exits_time_add(&f->e, 101, 12, 999, 3000000, 5000);
		exits_time_add(&f->e, 201, 0x80000030, 20, 41, 7);
	}
	exit_names_init(&f->names, NULL, "GenuineIntel");
	f->p = (struct exits_page){
		.names = &f->names, .isa = EXIT_ISA_VMX, .columns = EXITS_COL_PID_TID,
		.tid_header = "TID", .realtime_ns = 1700000000123456789, .elapsed_ns = 5003999999,
		.lost = 7, .lost_unknown = true, .engine = "kernel", .target = "all threads",
		.first = true,
	};
}

static const char *print(struct fixture *f, enum exits_format format, enum exits_group group)
{
	exits_view_make(&f->e, group, false, NULL, NULL, &f->v);
	f->p.view = &f->v;
	assert_int_equal(exits_print(format, &f->p, &f->b, keep, NULL), 0);
	return f->b.s;
}

static void fixture_close(struct fixture *f)
{
	exits_view_free(&f->v);
	exits_free(&f->e);
	sbuf_free(&f->b);
}

static void test_text(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, false);
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_THREAD),
		"PID      TID      KVM_EXIT_REASON                     COUNT      VM:VCPU\n"
		"100      101      HLT                                 1000       vm1:0\n"
		"200      201      EPT_VIOLATION FAILED_VMENTRY        20         a\"b,\\c\xff:- (ended)\n"
		"-        300      0x1092                              3          -\n");
	fixture_close(&f);
	fixture_open(&f, false);
	f.p.columns = EXITS_COL_TID;
	f.p.tid_header = "TIDS";
	f.p.max_rows = 1;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_THREAD),
		"TIDS     KVM_EXIT_REASON                     COUNT      VM:VCPU\n"
		"101      HLT                                 1000       vm1:0\n");
	fixture_close(&f);
	fixture_open(&f, false);
	f.p.columns = EXITS_COL_REASON;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_REASON),
		"KVM_EXIT_REASON                     COUNT\n"
		"HLT                                 1000\n"
		"EPT_VIOLATION FAILED_VMENTRY        20\n"
		"0x1092                              3\n");
	fixture_close(&f);
}

static void test_text_time(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, true);
	f.p.columns = EXITS_COL_REASON;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_REASON),
		"KVM_EXIT_REASON              COUNT TOTAL(us) AVG(us) MAX(us)\n"
		"HLT                           1000   3000.00    3.00    5.00\n"
		"EPT_VIOLATION FAILED_VMENTRY    20      0.04    0.00    0.00\n"
		"0x1092                           3         -       -       -\n");
	fixture_close(&f);
	/* With process and thread 86 columns; what does not fit the terminal is left out. */
	fixture_open(&f, true);
	f.p.width = 82;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_THREAD),
		"TID KVM_EXIT_REASON              COUNT TOTAL(us) AVG(us) MAX(us) VM:VCPU\n"
		"101 HLT                           1000   3000.00    3.00    5.00 vm1:0\n"
		"201 EPT_VIOLATION FAILED_VMENTRY    20      0.04    0.00    0.00 a\"b,\\c\xff:- (ended)\n"
		"300 0x1092                           3         -       -       - -\n");
	fixture_close(&f);
	fixture_open(&f, true);
	f.p.width = 80;
	f.p.max_rows = 2;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_THREAD),
		"KVM_EXIT_REASON              COUNT TOTAL(us) AVG(us) MAX(us) VM:VCPU\n"
		"HLT                           1000   3000.00    3.00    5.00 vm1:0\n"
		"EPT_VIOLATION FAILED_VMENTRY    20      0.04    0.00    0.00 a\"b,\\c\xff:- (ended)\n");
	fixture_close(&f);
}

static void test_json(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, true);
	assert_string_equal(print(&f, EXITS_JSON, EXITS_BY_THREAD),
		"{\"target\":\"all threads\",\"engine\":\"kernel\",\"time\":1700000000.123,"
		"\"seconds\":5.003,\"lost\":7,\"lost_unknown\":true,\"count\":1023,\"exits\":["
		"{\"pid\":100,\"tid\":101,\"vm\":\"100-11\",\"name\":\"vm1\",\"uuid\":\"aa-bb\",\"vcpu\":0,"
		"\"ended\":false,\"reason\":\"HLT\",\"code\":12,\"count\":1000,\"timed\":999,"
		"\"total_ns\":3000000,\"avg_ns\":3003,\"max_ns\":5000},"
		"{\"pid\":200,\"tid\":201,\"vm\":\"200-11\",\"name\":\"a\\\"b,\\\\c\\u00ff\",\"uuid\":null,"
		"\"vcpu\":null,\"ended\":true,\"reason\":\"EPT_VIOLATION FAILED_VMENTRY\","
		"\"code\":2147483696,\"count\":20,\"timed\":20,\"total_ns\":41,\"avg_ns\":2,\"max_ns\":7},"
		"{\"pid\":null,\"tid\":300,\"vm\":null,\"name\":null,\"uuid\":null,\"vcpu\":null,"
		"\"ended\":false,\"reason\":\"0x1092\",\"code\":4242,\"count\":3,\"timed\":0,"
		"\"total_ns\":null,\"avg_ns\":null,\"max_ns\":null}]}\n");
	fixture_close(&f);
}

static void test_csv(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, true);
	assert_string_equal(print(&f, EXITS_CSV, EXITS_BY_THREAD),
		"time,seconds,pid,tid,vm,name,uuid,vcpu,reason,code,count,timed,total_us,avg_us,max_us\n"
		"1700000000.123,5.003,100,101,100-11,vm1,aa-bb,0,HLT,12,1000,999,3000.000,3.003,5.000\n"
		"1700000000.123,5.003,200,201,200-11,\"a\"\"b,\\c\xff\",,,EPT_VIOLATION FAILED_VMENTRY,"
		"2147483696,20,20,0.041,0.002,0.007\n"
		"1700000000.123,5.003,,300,,,,,0x1092,4242,3,0,,,\n");
	fixture_close(&f);
	/* Later tables of a stream have no header. */
	fixture_open(&f, false);
	f.p.first = false;
	assert_string_equal(print(&f, EXITS_CSV, EXITS_BY_REASON),
		"1700000000.123,5.003,,,,,,,HLT,12,1000\n"
		"1700000000.123,5.003,,,,,,,EPT_VIOLATION FAILED_VMENTRY,2147483696,20\n"
		"1700000000.123,5.003,,,,,,,0x1092,4242,3\n");
	fixture_close(&f);
}

static void test_openmetrics(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, false);
	assert_string_equal(print(&f, EXITS_OPENMETRICS, EXITS_BY_THREAD),
		"# TYPE kvm_exits counter\n"
		"# HELP kvm_exits VM exits since kvmft began to count.\n"
		"kvm_exits_total{vm=\"100-11\",name=\"vm1\",uuid=\"aa-bb\",pid=\"100\",tid=\"101\","
		"vcpu=\"0\",reason=\"HLT\"} 1000\n"
		"kvm_exits_total{vm=\"200-11\",name=\"a\\\"b,\\\\c?\",uuid=\"\",pid=\"200\",tid=\"201\","
		"vcpu=\"\",reason=\"EPT_VIOLATION FAILED_VMENTRY\"} 20\n"
		"kvm_exits_total{vm=\"\",name=\"\",uuid=\"\",pid=\"0\",tid=\"300\",vcpu=\"\","
		"reason=\"0x1092\"} 3\n"
		"# TYPE kvm_exits_lost counter\n"
		"# HELP kvm_exits_lost VM exits that kvmft could not count.\n"
		"kvm_exits_lost_total 7\n# EOF\n");
	fixture_close(&f);
	fixture_open(&f, true);
	(void)print(&f, EXITS_OPENMETRICS, EXITS_BY_REASON);
	assert_non_null(strstr(f.b.s, "# UNIT kvm_exit_handling_seconds seconds\n"));
	assert_non_null(strstr(f.b.s, "\nkvm_exit_handling_seconds_total{reason=\"HLT\"} 0.003000000\n"));
	assert_non_null(strstr(f.b.s, "\nkvm_exits_timed_total{reason=\"HLT\"} 999\n"));
	assert_non_null(strstr(f.b.s, "\nkvm_exit_handling_max_seconds{reason=\"HLT\"} 0.000005000\n"));
	fixture_close(&f);
}

static void test_spread(void **state __unused_arg)
{
	struct fixture f;

	fixture_open(&f, false);
	exits_free(&f.e);
	f.e.timed = f.e.spreads = true;
	fixture_thread(&f, 101, 100, exits_vm(&f.e, "100-11", "vm1", NULL, 100), 0);
	exits_add(&f.e, 101, 12, 4);
	for (uint64_t i = 0; i < 3; i++)
		exits_time_one(&f.e, 101, 12, 1000);
	exits_time_one(&f.e, 101, 12, 3000000);
	exits_time_one(&f.e, 101, EXITS_WAKE, 70000);
	f.p.columns = EXITS_COL_REASON;
	assert_string_equal(print(&f, EXITS_TEXT, EXITS_BY_REASON),
		"KVM_EXIT_REASON    COUNT      AVG     P50<     P99<   MAX 1us  1ms  1s\n"
		"HLT                    4 750.8 us     1 us   4.2 ms  3 ms #     +\n"
		"(wake-up to entry)     1    70 us 131.1 us 131.1 us 70 us     #\n");
	exits_view_free(&f.v);
	sbuf_reset(&f.b);
	(void)print(&f, EXITS_JSON, EXITS_BY_REASON);
	assert_non_null(strstr(f.b.s, "\"reason\":\"HLT\",\"code\":12,\"count\":4,\"timed\":4,"));
	assert_non_null(strstr(f.b.s, "\"buckets_ns\":[[1024,3],[4194304,1]]"));
	assert_non_null(strstr(f.b.s, "\"reason\":\"(wake-up to entry)\",\"code\":null,\"count\":null,"));
	exits_view_free(&f.v);
	sbuf_reset(&f.b);
	(void)print(&f, EXITS_OPENMETRICS, EXITS_BY_THREAD);
	assert_non_null(strstr(f.b.s, "# TYPE kvm_exit_duration_seconds histogram\n"));
	assert_non_null(strstr(f.b.s, "reason=\"HLT\",le=\"0.000001024\"} 3\n"));
	assert_non_null(strstr(f.b.s, "reason=\"HLT\",le=\"0.002097152\"} 3\n"));
	assert_non_null(strstr(f.b.s, "reason=\"HLT\",le=\"0.004194304\"} 4\n"));
	assert_non_null(strstr(f.b.s, "reason=\"HLT\",le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(f.b.s, "tid=\"101\",vcpu=\"0\",reason=\"HLT\"} 0.003003000\n"));
	assert_non_null(strstr(f.b.s, "kvm_wakeup_to_entry_seconds_bucket{vm=\"100-11\",name=\"vm1\",uuid=\"\","
				     "pid=\"100\",tid=\"101\",vcpu=\"0\",le=\"+Inf\"} 1\n"));
	assert_null(strstr(f.b.s, "kvm_exits_total{vm=\"100-11\",name=\"vm1\",uuid=\"\",pid=\"100\",tid=\"101\","
				  "vcpu=\"0\"}"));
	fixture_close(&f);
}

/* A large table is handed on in pieces. */
static int count_flush(void *ctx, struct sbuf *b)
{
	size_t *n = ctx;

	assert_in_range(b->len, 1, 40000);
	++*n;
	sbuf_reset(b);
	return 0;
}

static int fail_flush(void *ctx __unused_arg, struct sbuf *b __unused_arg)
{
	return -ENOSPC;
}

static void test_pieces(void **state __unused_arg)
{
	size_t pieces = 0;
	struct fixture f;

	fixture_open(&f, false);
	for (uint32_t i = 0; i < 5000; i++)
		exits_add(&f.e, 1000 + i, i % 40, 1);
	exits_view_make(&f.e, EXITS_BY_THREAD, false, NULL, NULL, &f.v);
	f.p.view = &f.v;
	for (int k = EXITS_TEXT; k <= EXITS_OPENMETRICS; k++) {
		pieces = 0;
		assert_int_equal(exits_print((enum exits_format)k, &f.p, &f.b, count_flush, &pieces), 0);
		assert_true(pieces > 5);
		assert_int_equal(f.b.len, 0);
		assert_int_equal(exits_print((enum exits_format)k, &f.p, &f.b, fail_flush, NULL), -ENOSPC);
		sbuf_free(&f.b);
	}
	fixture_close(&f);
}

static const char *print_steal(struct fixture *f, const struct steal *s, enum exits_format format)
{
	f->v.e = &f->e;
	f->p.view = &f->v;
	sbuf_reset(&f->b);
	assert_int_equal(steal_print(format, &f->p, s, &f->b, keep, NULL), 0);
	return f->b.s;
}

static void test_steal(void **state __unused_arg)
{
	struct steal_cell cell[16] = {
		{ .vm = 1, .kind = STEAL_IRQ, .by = STEAL_NONE, .ns = 2000000 },
		{ .vm = 1, .kind = STEAL_VM, .by = 0, .ns = 1500000, .shown = 500000 },
		{ .vm = 0, .kind = STEAL_TASK, .by = STEAL_NONE, .comm = "a\"b", .ns = 500000123 },
		{ .vm = 0, .kind = STEAL_THROTTLED, .by = STEAL_NONE, .ns = 7, .shown = 7 },
	};
	struct steal s = { .cell = cell, .ncell = 4, .begin = 1000000000, .now = 3000000000, .gaps = 2,
			   .gaps_shown = 2 };
	struct fixture f;

	fixture_open(&f, false);
	f.e.vm[1].ended = 2;
	assert_string_equal(print_steal(&f, &s, EXITS_TEXT),
		"VM              KIND      TAKEN BY    MS/S TOTAL(ms)\n"
		"vm1             task      a\"b      250.000   500.000\n"
		"a\"b,\\c\xff (ended) interrupt -          1.000     2.000\n"
		"a\"b,\\c\xff (ended) vm        vm1        0.500     1.000\n");
	s.odd = 1;
	assert_string_equal(print_steal(&f, &s, EXITS_JSON),
		"{\"target\":\"all threads\",\"time\":1700000000.123,\"seconds\":2.000,\"lost\":7,"
		"\"lost_unknown\":true,\"lower_bound\":true,\"steal\":["
		"{\"vm\":\"100-11\",\"name\":\"vm1\",\"uuid\":\"aa-bb\",\"kind\":\"task\",\"by\":\"a\\\"b\","
		"\"by_vm\":null,\"waited\":true,\"ms_per_second\":250.000,\"taken_ns\":500000123},"
		"{\"vm\":\"200-11\",\"name\":\"a\\\"b,\\\\c\\u00ff\",\"uuid\":null,\"kind\":\"interrupt\","
		"\"by\":null,"
		"\"by_vm\":null,\"waited\":false,\"ms_per_second\":1.000,\"taken_ns\":2000000},"
		"{\"vm\":\"200-11\",\"name\":\"a\\\"b,\\\\c\\u00ff\",\"uuid\":null,\"kind\":\"vm\",\"by\":\"vm1\","
		"\"by_vm\":\"100-11\",\"waited\":true,\"ms_per_second\":0.500,\"taken_ns\":1000000}]}\n");
	assert_non_null(strstr(print_steal(&f, &s, EXITS_TEXT),
		"\n# events are missing: all these are lower bounds\n"));
	assert_non_null(strstr(print_steal(&f, &s, EXITS_CSV),
		"time,seconds,vm,name,uuid,kind,by,by_vm,waited,ms_per_second,taken_us\n"
		"1700000000.123,2.000,100-11,vm1,aa-bb,task,\"a\"\"b\",,1,250.000,500000.123\n"));
	/* Since the beginning, and of VMs that run, or whose end was in no table yet. */
	assert_string_equal(print_steal(&f, &s, EXITS_OPENMETRICS),
		"# TYPE kvm_cpu_taken_seconds counter\n"
		"# HELP kvm_cpu_taken_seconds Time in which another one had the CPU that a vCPU wanted.\n"
		"kvm_cpu_taken_seconds_total{vm=\"100-11\",name=\"vm1\",uuid=\"aa-bb\",kind=\"task\",by=\"a\\\"b\","
		"by_vm=\"\"} 0.500000123\n"
		"kvm_cpu_taken_seconds_total{vm=\"100-11\",name=\"vm1\",uuid=\"aa-bb\",kind=\"throttled\",by=\"\","
		"by_vm=\"\"} 0.000000007\n"
		"kvm_cpu_taken_seconds_total{vm=\"200-11\",name=\"a\\\"b,\\\\c?\",uuid=\"\",kind=\"interrupt\","
		"by=\"\",by_vm=\"\"} 0.002000000\n"
		"kvm_cpu_taken_seconds_total{vm=\"200-11\",name=\"a\\\"b,\\\\c?\",uuid=\"\",kind=\"vm\",by=\"vm1\","
		"by_vm=\"100-11\"} 0.001500000\n"
		"# TYPE kvm_cpu_taken_gaps counter\n"
		"# HELP kvm_cpu_taken_gaps Losses of events, over which nothing is counted.\n"
		"kvm_cpu_taken_gaps_total 3\n# EOF\n");
	f.e.vm[1].ended = 3;
	assert_null(strstr(print_steal(&f, &s, EXITS_PROMETHEUS), "200-11\",name"));
	assert_non_null(strstr(f.b.s, "# TYPE kvm_cpu_taken_seconds_total counter\n"));
	/* Text has ten rows of a VM, and one of the others. */
	for (unsigned int i = 4; i < 16; i++) {
		cell[i] = (struct steal_cell){ .kind = STEAL_TASK, .by = STEAL_NONE, .ns = i * 1000 };
		snprintf(cell[i].comm, STEAL_COMM, "t%u", i);
	}
	s.ncell = 16;
	assert_non_null(strstr(print_steal(&f, &s, EXITS_TEXT),
		"vm1             task      t7           0.003     0.007\n"
		"vm1             -         (3 others)   0.007     0.015\n"));
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),	    cmocka_unit_test(test_text_time),
		cmocka_unit_test(test_json),	    cmocka_unit_test(test_csv),
		cmocka_unit_test(test_openmetrics), cmocka_unit_test(test_spread),
		cmocka_unit_test(test_pieces),	    cmocka_unit_test(test_steal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
