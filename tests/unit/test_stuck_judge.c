/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_stuck_judge.c: the verdict on what was seen of a vCPU: each class, the border to its
 * neighbours, and healthy guests, which must not be called stuck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kvmft/exit_names.h"
#include "kvmft/stuck.h"

#define S 1000000000ull

static const char kallsyms[] = "ffffffff81000000 T _text\n"
			       "ffffffff81001000 T spin_here\n"
			       "ffffffff81001080 T behind\n"
			       "ffffffff81100000 T _etext\n";

static const char delays[] = "ffffffff81001000 T delay_tsc\n"
			     "ffffffff81001080 T behind\n";

/* Looked at for 3 s, 60 times, always there. */
static struct stuck_obs seen(enum stuck_at at, uint64_t run_ns)
{
	struct stuck_obs o = { .ns = 3 * S, .looks = 60, .has_sched = true, .run_ns = run_ns };

	o.at[at] = 60;
	return o;
}

static void count(struct stuck_obs *o, unsigned int n, enum stuck_what what, uint64_t a, uint64_t b)
{
	while (n--)
		stuck_count(o, what, a, b);
}

/* Judges, frees, and gives the class; *v when that is wanted. */
static const char *judged(struct stuck_obs *o, struct stuck_verdict *v)
{
	struct stuck_verdict none;

	stuck_judge(o, NULL, v ? v : &none);
	stuck_obs_free(o);
	return stuck_class_name(v ? v->class : none.class);
}

static void test_thread(void **state)
{
	struct stuck_obs o = { 0 };

	(void)state;
	assert_string_equal(judged(&o, NULL), "unknown");
	o = seen(STUCK_AT_STOP, 0);
	assert_string_equal(judged(&o, NULL), "stopped");
	o = seen(STUCK_AT_FREEZE, 0);
	assert_string_equal(judged(&o, NULL), "stopped");
	o = seen(STUCK_AT_WAIT, 0);
	assert_string_equal(judged(&o, NULL), "blocked");
	o = seen(STUCK_AT_CPU, S / 10);
	assert_string_equal(judged(&o, NULL), "starved");
	o = seen(STUCK_AT_CPU, S / 10);
	o.throttled = 3;
	assert_string_equal(judged(&o, NULL), "throttled");
	/* woken by the timer that wakes who looks: it had to wait for no CPU */
	o = seen(STUCK_AT_CPU, 3 * S / 10);
	o.turns = 700;
	o.delay_ns = S / 10;
	count(&o, 700, STUCK_HLT, STUCK_REASON(EXIT_ISA_SVM, 0x78), 0xffffffff81001000);
	assert_string_equal(judged(&o, NULL), "running");
	o = seen(STUCK_AT_CPU, 3 * S / 10);
	o.turns = 700;
	o.delay_ns = 2 * S;
	assert_string_equal(judged(&o, NULL), "starved");
	/* half of a CPU is a busy host, and no more */
	o = seen(STUCK_AT_CPU, 3 * S / 2);
	assert_string_equal(judged(&o, NULL), "in-guest");
	/* no numbers of the scheduler: it must not be guessed */
	o = seen(STUCK_AT_CPU, 0);
	o.has_sched = false;
	assert_string_equal(judged(&o, NULL), "in-guest");
	o = seen(STUCK_AT_CPU, 3 * S);
	o.at[STUCK_AT_GONE] = 1;
	assert_string_equal(judged(&o, NULL), "unknown");
	/* now here, now there, and never on a CPU, whatever it exited for before */
	o = seen(STUCK_AT_CPU, 0);
	o.at[STUCK_AT_CPU] = o.at[STUCK_AT_FREEZE] = 30;
	o.has_sched = true;
	o.at[STUCK_AT_CPU] = 20;
	count(&o, 10, STUCK_TO_USER, 10, 0);
	assert_string_equal(judged(&o, NULL), "unknown");
	o = seen(STUCK_AT_CPU, S);
	o.at[STUCK_AT_CPU] = 20;
	o.at[STUCK_AT_USER] = o.at[STUCK_AT_HALT] = 20;
	assert_string_equal(judged(&o, NULL), "unknown");
}

static void test_vmm(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_USER, 0);

	(void)state;
	assert_string_equal(judged(&o, NULL), "vmm");
	o = seen(STUCK_AT_USER, 0);
	o.futex = true;
	assert_string_equal(judged(&o, NULL), "paused");
	/* KVM_EXIT_INTR: it was told to leave; KVM_EXIT_IO: its guest waits for an answer */
	o = seen(STUCK_AT_USER, 0);
	o.futex = o.peeked = true;
	o.peek = 10;
	assert_string_equal(judged(&o, NULL), "paused");
	o = seen(STUCK_AT_USER, 0);
	o.futex = o.peeked = true;
	o.peek = 2;
	assert_string_equal(judged(&o, NULL), "vmm");
	/* KVM_EXIT_HLT, of a VMM with interrupt controllers of its own */
	o = seen(STUCK_AT_USER, 0);
	o.futex = o.peeked = true;
	o.peek = 5;
	assert_string_equal(judged(&o, NULL), "halted");
	o = seen(STUCK_AT_USER, 0);
	count(&o, 5, STUCK_TO_USER, 5, 0);
	assert_string_equal(judged(&o, NULL), "idle");
	o = seen(STUCK_AT_USER, 0);
	count(&o, 5, STUCK_TO_USER, 2, 0);
	assert_string_equal(judged(&o, NULL), "running");
	/* it computes there */
	o = seen(STUCK_AT_CPU, 3 * S);
	o.ticks_user = 290;
	o.ticks_kernel = 10;
	assert_string_equal(judged(&o, NULL), "vmm");
}

static void test_halted(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_HALT, 0);
	struct stuck_verdict v;

	(void)state;
	assert_string_equal(judged(&o, &v), "halted");
	assert_false(v.deaf);
	/* interrupts come, and it is not let out of HLT */
	o = seen(STUCK_AT_HALT, 0);
	o.turns = 30;
	count(&o, 10, STUCK_ACCEPT, 0xec, 0);
	assert_string_equal(judged(&o, &v), "halted");
	assert_true(v.deaf);
	/* ... whatever KVM does with each of them */
	o = seen(STUCK_AT_HALT, S / 2);
	o.at[STUCK_AT_HALT] = o.at[STUCK_AT_CPU] = 30;
	count(&o, 10, STUCK_ACCEPT, 0xec, 0);
	assert_string_equal(judged(&o, NULL), "halted");
	o = seen(STUCK_AT_HALT, S / 2);
	o.at[STUCK_AT_HALT] = o.at[STUCK_AT_CPU] = 30;
	count(&o, 10, STUCK_HLT, STUCK_REASON(EXIT_ISA_SVM, 0x78), 0xffffffff81001000);
	assert_string_equal(judged(&o, NULL), "running");
	o = seen(STUCK_AT_HALT, S / 100);
	count(&o, 9, STUCK_HLT, STUCK_REASON(EXIT_ISA_SVM, 0x78), 0xffffffff81001000);
	assert_string_equal(judged(&o, NULL), "idle");
	/* a KVM without events of exits: the scheduler shows that it woke */
	o = seen(STUCK_AT_HALT, S / 100);
	o.blind = true;
	o.turns = 2;
	assert_string_equal(judged(&o, NULL), "halted");
	o = seen(STUCK_AT_HALT, S / 100);
	o.blind = true;
	o.turns = 30;
	assert_string_equal(judged(&o, NULL), "idle");
	o = seen(STUCK_AT_HALT, S);
	o.at[STUCK_AT_HALT] = o.at[STUCK_AT_CPU] = 30;
	o.blind = true;
	o.turns = 300;
	assert_string_equal(judged(&o, NULL), "running");
	/* ... or to have been woken for nothing, unless its guest was done with an interrupt */
	o = seen(STUCK_AT_HALT, S / 100);
	o.blind = true;
	o.turns = 30;
	count(&o, 10, STUCK_ACCEPT, 0x40, 0);
	assert_string_equal(judged(&o, NULL), "halted");
	o = seen(STUCK_AT_HALT, S / 100);
	o.blind = true;
	o.turns = 30;
	count(&o, 10, STUCK_ACCEPT, 0x40, 0);
	count(&o, 10, STUCK_EOI, 0x40, 0);
	assert_string_equal(judged(&o, NULL), "idle");
}

/* Posted interrupts: that its guest took one is in no event, but it did not leave HLT. */
static void test_halted_posted(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_HALT, S / 100);
	struct stuck_verdict v;

	(void)state;
	count(&o, 10, STUCK_INJECT, 0x40, 0);
	assert_string_equal(judged(&o, &v), "halted");
	assert_true(v.deaf);
	/* one may be just on its way */
	o = seen(STUCK_AT_HALT, S / 100);
	count(&o, 1, STUCK_INJECT, 0x40, 0);
	assert_string_equal(judged(&o, &v), "halted");
	assert_false(v.deaf);
}

/*
 * Exits were counted by the kernel for two of three seconds; the ring kept a tenth of the rest. Its
 * shares and rates are those of each, and what is compared is of the same time.
 */
static void test_counted(void **state)
{
	const uint64_t io = STUCK_REASON(EXIT_ISA_SVM, 0x7b), rip = 0xffffffff81001004;
	struct stuck_obs o = seen(STUCK_AT_CPU, 3 * S);
	struct stuck_verdict v;

	(void)state;
	o.read = 1000;
	o.lost = 9000;
	count(&o, 20, STUCK_EXIT, io, rip + 4); /* what the ring had of them */
	count(&o, 20, STUCK_SAMPLE, STUCK_REASON(EXIT_ISA_SVM, 0x60), rip + 4);
	stuck_count_none(&o, STUCK_SAMPLE, STUCK_EXIT);
	assert_int_equal(o.count[STUCK_SAMPLE] + o.count[STUCK_EXIT], 0);
	o.exact = true;
	o.exits_ns = 2 * S;
	stuck_count_n(&o, STUCK_EXIT, io, rip, 2000);
	stuck_count_n(&o, STUCK_EXIT, io, rip, 2000);
	stuck_count_n(&o, STUCK_SAMPLE, STUCK_REASON(EXIT_ISA_SVM, 0x60), rip, 500);
	count(&o, 600, STUCK_PIO, 0x3fd, 0); /* of 6000 in 3 s: as many as exits */
	stuck_judge(&o, NULL, &v);
	assert_string_equal(stuck_class_name(v.class), "exit-loop");
	assert_int_equal(v.per_s, 2000);
	assert_int_equal(v.exits_per_s, 2250);
	assert_int_equal(v.exit_pm, 1000);
	assert_non_null(v.access);
	assert_int_equal(v.access->a, 0x3fd);
	stuck_obs_free(&o);
	/* accesses that are too few to be those, once what was lost is added */
	o = seen(STUCK_AT_CPU, 3 * S);
	o.read = 1000;
	o.lost = 9000;
	o.exact = true;
	o.exits_ns = 2 * S;
	stuck_count_n(&o, STUCK_EXIT, io, rip, 4000);
	count(&o, 200, STUCK_PIO, 0x3fd, 0);
	stuck_judge(&o, NULL, &v);
	assert_string_equal(stuck_class_name(v.class), "exit-loop");
	assert_null(v.access);
	stuck_obs_free(&o);
	/* its guest spins: seven exits, all of them in the same page */
	o = seen(STUCK_AT_CPU, 3 * S);
	o.read = 10;
	o.lost = 1000000;
	o.exact = true;
	o.exits_ns = 2 * S;
	stuck_count_n(&o, STUCK_SAMPLE, STUCK_REASON(EXIT_ISA_SVM, 0x60), rip, 7);
	assert_string_equal(judged(&o, &v), "spinning");
	assert_int_equal(v.exits_per_s, 3);
	assert_int_equal(v.rip_n, 7);
}

static void test_loop(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_CPU, 3 * S);
	const uint64_t io = STUCK_REASON(EXIT_ISA_VMX, 30), msr = STUCK_REASON(EXIT_ISA_VMX, 32),
		       rip = 0xffffffff81001004;
	struct stuck_verdict v;

	(void)state;
	count(&o, 3000, STUCK_EXIT, io, rip);
	count(&o, 3000, STUCK_PIO, 0x3fd, 0);
	count(&o, 750, STUCK_SAMPLE, STUCK_REASON(EXIT_ISA_VMX, 1), rip);
	count(&o, 100, STUCK_EXIT, msr, rip + 0x100);
	count(&o, 100, STUCK_MSR, 0x6e0, 1);
	stuck_judge(&o, NULL, &v);
	assert_string_equal(stuck_class_name(v.class), "exit-loop");
	assert_int_equal(v.per_s, 1000);
	assert_int_equal(v.exit->b, rip);
	assert_int_equal(v.access->a, 0x3fd);
	assert_int_equal(v.exit_pm, 967);
	stuck_obs_free(&o);
	/* lost events count for rates */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 300, STUCK_PIO, 0x80, 1);
	o.read = 300;
	o.lost = 300;
	assert_string_equal(judged(&o, &v), "exit-loop");
	assert_int_equal(v.per_s, 200);
	/* two in turn, a delay at port 0x80 */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 500, STUCK_EXIT, io, rip);
	count(&o, 500, STUCK_EXIT, io, rip + 9);
	assert_string_equal(judged(&o, NULL), "exit-loop");
	/* ... and a busy device: doorbell, EOI, timer; interrupts come */
	o = seen(STUCK_AT_CPU, 2 * S);
	count(&o, 500, STUCK_EXIT, io, rip);
	count(&o, 500, STUCK_EXIT, msr, rip + 9);
	count(&o, 300, STUCK_INJECT, 0x22, 0);
	count(&o, 300, STUCK_ACCEPT, 0x22, 0);
	assert_string_equal(judged(&o, NULL), "running");
	/* one that halts in between */
	o = seen(STUCK_AT_CPU, S);
	count(&o, 500, STUCK_EXIT, io, rip);
	count(&o, 400, STUCK_HLT, STUCK_REASON(EXIT_ISA_VMX, 12), rip);
	assert_string_equal(judged(&o, NULL), "running");
	/* too slow for a loop */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 100, STUCK_EXIT, io, rip);
	o.at[STUCK_AT_CPU] = 10;
	o.at[STUCK_AT_HALT] = 50;
	assert_string_equal(judged(&o, NULL), "idle");
}

static void test_spinning(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_CPU, 3 * S);
	const uint64_t intr = STUCK_REASON(EXIT_ISA_SVM, 0x60), rip = 0xffffffff81001004;
	struct stuck_verdict v;
	struct ksyms k;

	(void)state;
	/* 90 % in one function, 10 % in the one behind it, in the same page */
	count(&o, 60, STUCK_SAMPLE, intr, rip);
	count(&o, 30, STUCK_SAMPLE, intr, rip + 0x60);
	count(&o, 10, STUCK_SAMPLE, intr, 0xffffffff81001090);
	count(&o, 3, STUCK_ACCEPT, 0xec, 0);
	assert_int_equal(ksyms_parse(&k, kallsyms, sizeof(kallsyms) - 1), 0);
	stuck_judge(&o, &k, &v);
	assert_string_equal(stuck_class_name(v.class), "spinning");
	assert_string_equal(v.sym->name, "spin_here");
	assert_int_equal(v.rip, rip);
	assert_int_equal(v.rip_n, 90);
	assert_int_equal(v.rip_all, 100);
	assert_true(v.deaf);
	/* the page has all of them */
	stuck_judge(&o, NULL, &v);
	assert_string_equal(stuck_class_name(v.class), "spinning");
	assert_null(v.sym);
	assert_int_equal(v.rip_n, 100);
	stuck_obs_free(&o);
	/* all over the place: it works */
	o = seen(STUCK_AT_CPU, 3 * S);
	for (uint64_t i = 0; i < 100; i++)
		count(&o, 1, STUCK_SAMPLE, intr, rip + i * 0x2000);
	assert_string_equal(judged(&o, &v), "running");
	ksyms_free(&k);
	/* too few samples count as none */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 3, STUCK_SAMPLE, intr, rip);
	assert_string_equal(judged(&o, NULL), "in-guest");
	/* ... and exits of its own do not tell where it is in between */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 3, STUCK_SAMPLE, intr, rip);
	count(&o, 90, STUCK_EXIT, STUCK_REASON(EXIT_ISA_SVM, 0x7b), rip);
	assert_string_equal(judged(&o, NULL), "running");
	/* KVM emulated what its guest did, but no exit was traced */
	o = seen(STUCK_AT_CPU, 3 * S);
	assert_string_equal(judged(&o, NULL), "in-guest");
}

/* Linux's own timer, as event_irqs() has it. */
static bool is_timer(unsigned int vector)
{
	return vector == 0xec;
}

/* What a busy guest does beside its work: its tick. */
static void ticks(struct stuck_obs *o, unsigned int n, uint64_t rip)
{
	count(o, n, STUCK_UPKEEP, STUCK_REASON(EXIT_ISA_SVM, 0x7c), rip);
	count(o, n, STUCK_MSR, 0x6e0, 1);
	count(o, n, STUCK_INJECT, 0xec, 0);
	count(o, n, STUCK_ACCEPT, 0xec, 0);
	o->is_timer = is_timer;
}

/* Busy guests that are well: each was, or looks like one that was, called stuck. */
static void test_healthy(void **state)
{
	const uint64_t intr = STUCK_REASON(EXIT_ISA_SVM, 0x60), msr = STUCK_REASON(EXIT_ISA_SVM, 0x7c),
		       npf = STUCK_REASON(EXIT_ISA_SVM, 0x400), tick = 0xffffffff81050004,
		       rip = 0xffffffff81001004, user = 0x55d0c0de1000;
	struct stuck_obs o = seen(STUCK_AT_CPU, 3 * S);
	struct stuck_verdict v;
	struct ksyms k;

	(void)state;
	/* a shell that spins; who counts (the kernel, say) cannot tell its tick's exits from others */
	count(&o, 750, STUCK_SAMPLE, intr, user);
	count(&o, 1000, STUCK_EXIT, msr, tick);
	count(&o, 1000, STUCK_MSR, 0x6e0, 1);
	count(&o, 90, STUCK_EXIT, npf, user);
	assert_string_equal(judged(&o, &v), "running");
	assert_null(v.exit);
	assert_int_equal(v.rip_user, 750);
	/* the same when they are known; all RIPs in one page of a program */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 750, STUCK_SAMPLE, intr, user);
	ticks(&o, 750, tick);
	assert_string_equal(judged(&o, &v), "running");
	assert_int_equal(v.place[0].rip, user);
	assert_int_equal(v.place[0].n, 750);
	/* a program without any interrupt, as on a CPU without a tick */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 750, STUCK_SAMPLE, intr, user);
	assert_string_equal(judged(&o, NULL), "running");
	/* a kernel that copies, in one function: it takes its tick */
	assert_int_equal(ksyms_parse(&k, kallsyms, sizeof(kallsyms) - 1), 0);
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 750, STUCK_SAMPLE, intr, rip);
	ticks(&o, 750, tick);
	stuck_judge(&o, &k, &v);
	assert_string_equal(stuck_class_name(v.class), "running");
	assert_string_equal(v.sym->name, "spin_here");
	stuck_obs_free(&o);
	ksyms_free(&k);
	/* ... in one in which it only waits: that is a hang */
	assert_int_equal(ksyms_parse(&k, delays, sizeof(delays) - 1), 0);
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 750, STUCK_SAMPLE, intr, rip);
	ticks(&o, 750, tick);
	stuck_judge(&o, &k, &v);
	assert_string_equal(stuck_class_name(v.class), "spinning");
	stuck_obs_free(&o);
	ksyms_free(&k);
	/* a disk: one doorbell, and its interrupts */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 3000, STUCK_EXIT, npf, rip);
	count(&o, 3000, STUCK_MMIO, 0xfe000000, 1);
	count(&o, 3000, STUCK_INJECT, 0x22, 0);
	ticks(&o, 750, tick);
	assert_string_equal(judged(&o, NULL), "running");
	/* ... without: the driver that it polls runs elsewhere in between */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 3000, STUCK_EXIT, npf, rip);
	count(&o, 3000, STUCK_MMIO, 0xfe000000, 1);
	count(&o, 80, STUCK_SAMPLE, intr, rip);
	count(&o, 20, STUCK_SAMPLE, intr, rip + 0x5000);
	assert_string_equal(judged(&o, NULL), "running");
	/* ... and one that polls a device that does not answer, with its tick going on: a loop */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 3000, STUCK_EXIT, npf, rip);
	count(&o, 3000, STUCK_MMIO, 0xfe000000, 0);
	count(&o, 95, STUCK_SAMPLE, intr, rip + 3);
	count(&o, 5, STUCK_SAMPLE, intr, tick);
	ticks(&o, 750, tick);
	assert_string_equal(judged(&o, &v), "exit-loop");
	assert_int_equal(v.exit_pm, 1000);
	/* timers at 4 kHz */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 12000, STUCK_EXIT, msr, tick);
	count(&o, 12000, STUCK_MSR, 0x6e0, 1);
	assert_string_equal(judged(&o, NULL), "running");
	assert_true(stuck_is_upkeep(STUCK_MSR, 0x838, 1) && stuck_is_upkeep(STUCK_MSR, 0x400000b1, 1) &&
		    stuck_is_upkeep(STUCK_MMIO, 0xfee00380, 1) && stuck_is_upkeep(STUCK_PIO, 0x40, 1));
	assert_false(stuck_is_upkeep(STUCK_MSR, 0x6e0, 0) || stuck_is_upkeep(STUCK_PIO, 0x80, 1));
	/* a program that asks for CPUID all the time */
	o = seen(STUCK_AT_CPU, 3 * S);
	count(&o, 90000, STUCK_EXIT, STUCK_REASON(EXIT_ISA_SVM, 0x72), user);
	ticks(&o, 750, tick);
	assert_string_equal(judged(&o, NULL), "running");
}

/* A vCPU with more kinds of exits than are kept: counts go on, nothing breaks. */
static void test_bounds(void **state)
{
	struct stuck_obs o = seen(STUCK_AT_CPU, 3 * S);
	struct stuck_verdict v;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++)
		count(&o, 1, STUCK_EXIT, STUCK_REASON(EXIT_ISA_VMX, 30), i * 0x1000);
	assert_true(o.nrow < 20000);
	assert_string_equal(judged(&o, &v), "running");
	assert_int_equal(v.exits_per_s, 6666);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < STUCK_CLASSES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(stuck_class_name((enum stuck_class)i),
						stuck_class_name((enum stuck_class)k));
	assert_false(stuck_class_is(STUCK_RUNNING) || stuck_class_is(STUCK_IDLE));
	assert_true(stuck_class_is(STUCK_SPINNING) && stuck_class_is(STUCK_PAUSED));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thread),	 cmocka_unit_test(test_vmm),
		cmocka_unit_test(test_halted), cmocka_unit_test(test_halted_posted),
		cmocka_unit_test(test_loop), cmocka_unit_test(test_counted),
		cmocka_unit_test(test_spinning), cmocka_unit_test(test_healthy), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
