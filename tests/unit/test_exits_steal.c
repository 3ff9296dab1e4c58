/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_exits_steal.c: who has the CPU that vCPUs want, from events that are given one by one: each
 * kind, queues of several, moves, and what is left when an event is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kvmft/steal.h"

/* vCPUs 11 and 12 are of VM 1, 21 of VM 2; 29 is another thread of VM 2. */
static uint32_t vm_of(void *ctx __unused_arg, const struct steal_task *t)
{
	return t->tid / 10 == 1 || t->tid / 10 == 2 ? t->tid / 10 : STEAL_NONE;
}

/*
 * "T C what": at time T on CPU C: 11-70 (11 goes, and wants to go on), 11z70 (11 sleeps), w11
 * (woken), m11 (moved here), i11 and I11 (an interrupt, its end), s11 and S11 (softirq), gap; "T"
 * alone: all until T was fed. A thread is called after its number; 0 is idle.
 */
static void one(struct steal *s, const char *event)
{
	struct steal_task prev = { 0 }, next = { 0 };
	unsigned int t, cpu, a, b;
	char what;

	if (sscanf(event, "%u %u %u%c%u", &t, &cpu, &a, &what, &b) == 5) {
		prev.tid = a;
		next.tid = b;
		snprintf(prev.comm, sizeof(prev.comm), "t%u", a);
		snprintf(next.comm, sizeof(next.comm), "t%u", b);
		steal_switch(s, cpu, t, &prev, what == 'z', &next);
	} else if (sscanf(event, "%u %u %c%u", &t, &cpu, &what, &a) == 4) {
		switch (what) {
		case 'w': steal_wake(s, cpu, t, a); break;
		case 'm': steal_move(s, cpu, t, a); break;
		default: steal_irq(s, t, a, what == 's' || what == 'S', what == 'I' || what == 'S');
		}
	} else if (strstr(event, "gap")) {
		steal_gap(s);
	} else {
		steal_read(s, strtoul(event, NULL, 10));
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* What was taken, as "1:vm2=30 1:task(t70)=5", sorted. */
static void check(const char *const *event, const char *want, bool bound)
{
	struct steal s = { .vm_of = vm_of };
	struct sbuf got = { 0 };
	char text[16][48];

	steal_vcpu(&s, 11, 1, 0);
	steal_vcpu(&s, 12, 1, 0);
	steal_vcpu(&s, 21, 2, 0);
	steal_looked(&s);
	for (; *event; event++)
		one(&s, *event);
	for (size_t i = 0; i < s.ncell; i++) {
		const struct steal_cell *c = &s.cell[i];

		if (c->by != STEAL_NONE)
			snprintf(text[i], sizeof(text[i]), "%u:vm%u=%u", c->vm, c->by, (unsigned int)c->ns);
		else
			snprintf(text[i], sizeof(text[i]), "%u:%s%s=%u", c->vm,
				 c->kind == STEAL_TASK ? "" : steal_kind_names[c->kind], c->comm,
				 (unsigned int)c->ns);
	}
	qsort(text, s.ncell, sizeof(text[0]), by_text);
	for (size_t i = 0; i < s.ncell; i++)
		sbuf_addf(&got, "%s%s", i ? " " : "", text[i]);
	assert_string_equal(got.s ?: "", want);
	sbuf_free(&got);
	assert_int_equal(steal_bound(&s), bound);
	steal_interval(&s);
	assert_false(steal_bound(&s));
	for (size_t i = 0; i < s.ncell; i++)
		assert_int_equal(s.cell[i].shown, s.cell[i].ns);
	steal_free(&s);
}

#define CHECK(want, bound, ...) check((const char *const[]){ __VA_ARGS__, NULL }, want, bound)

static void test_kinds(void **state __unused_arg)
{
	/* Preempted: each that runs until it is back. */
	CHECK("1:t70=10 1:t71=5", false, "100 0 11-70", "110 0 70-71", "115 0 71-11");
	/* Another VM, a thread of its VMM, and one of its own. */
	CHECK("1:vm1=2 1:vm2=7", false, "100 0 11-21", "105 0 21z29", "107 0 29z12", "109 0 12z11");
	/* Each from the other. */
	CHECK("1:vm2=20 2:vm1=10", false, "100 0 11-21", "110 0 21-11", "120 0 11-21", "130 0 21-11");
	/* Woken while another runs, or the CPU is idle. */
	CHECK("1:t70=4", false, "100 0 11z70", "150 0 w11", "154 0 70-11");
	CHECK("1:idle=4", false, "100 0 11z0", "150 0 w11", "154 0 0-11");
	/* Idle although it could run. */
	CHECK("1:idle=40 1:t70=10", false, "100 0 11-70", "110 0 70z0", "150 0 0-11");
	CHECK("1:idle=45 1:t70=10", false, "100 0 11z0", "105 0 w11", "110 0 0-70",
	      "120 0 70z0", "160 0 0-11");
	/* A sleep is no wait, nor is a second wake-up. */
	CHECK("1:t70=5", false, "100 0 11z70", "120 0 w11", "122 0 w11", "125 0 70-11", "126 0 w11");
	/* Two of a VM wait at once: both lose. */
	CHECK("1:t70=30", false, "100 0 11-12", "100 0 12-70", "115 0 70-11", "115 0 11z12");
}

static void test_queues(void **state __unused_arg)
{
	/* The queue that it is in: what runs elsewhere does not matter. */
	CHECK("1:t70=20", false, "100 0 11-70", "105 1 80-81", "110 1 81-82", "120 0 70-11");
	/* Moved: from then on it is the other CPU's task. */
	CHECK("1:t70=10 1:t81=15", false, "90 1 80-81", "100 0 11-70", "110 1 m11", "125 1 81-11");
	/* ... also before anything was seen there: its next switch tells who it was. */
	CHECK("1:t70=10 1:t81=15", false, "100 0 11-70", "110 1 m11", "125 1 81-11");
	/* Who was in the queue before or after another one. */
	CHECK("1:t70=25 1:vm2=5 2:t70=25", false, "100 0 11-21", "105 0 21-70", "106 0 w12",
	      "115 0 70-21", "115 0 21-70", "130 0 70-11");
	/* What goes on is counted up to the last event, once. */
	CHECK("1:t70=40", false, "100 0 11-70", "120 1 80-81", "0", "130 1 81-80", "0", "140 0 70-11");
	/* ... or longer: nothing else happens. */
	CHECK("1:t70=900", false, "100 0 11-70", "400", "1000");
}

static void test_interrupts(void **state __unused_arg)
{
	CHECK("1:interrupt=7", false, "100 0 70-11", "110 0 i11", "117 0 I11");
	/* One within a softirq: each has its own time. Of others' threads nothing is counted. */
	CHECK("1:interrupt=5 1:softirq=15", false, "110 0 s11", "120 0 i11", "125 0 I11", "130 0 S11",
	      "140 0 i70", "150 0 I70");
	/* An end without its beginning, and the reverse. */
	CHECK("", false, "117 0 I11", "120 0 i11", "125 0 11z70", "140 0 70-11", "145 0 I11");
}

static void test_missing(void **state __unused_arg)
{
	/* A gap: what was going on is not taken for anything, and what follows counts from new. */
	CHECK("", true, "100 0 11-70", "gap", "150 0 70-11");
	CHECK("1:t70=10", true, "100 0 11-70", "110 0 70-80", "gap", "150 0 80-11");
	CHECK("1:t71=5", true, "100 0 11-70", "gap", "140 0 70-11", "150 0 11-71", "155 0 71-11");
	/* ... of one that slept, and of a CPU. */
	CHECK("", true, "100 0 11z70", "gap", "150 0 w11", "160 0 70-11");
	CHECK("1:t82=10", true, "90 1 70-81", "gap", "100 0 80-11", "105 0 11z80", "110 1 w11", "120 1 82-11");
	/* Another one ran on that CPU, unseen. */
	CHECK("1:t70=10 1:unknown=20", false, "100 0 11-70", "110 0 70-71", "130 0 72-11");
	/* It was moved unseen. */
	CHECK("1:t70=10 1:unknown=20", true, "100 0 11-70", "110 0 70-71", "130 1 80-11");
	/* Its switch to the CPU is missing: nobody knows how long it waited. */
	CHECK("1:t70=10", true, "100 0 11-70", "110 0 70-71", "130 0 11z72");
	/* Its wake-up is missing. */
	CHECK("1:t70=1", true, "100 0 11z70", "105 0 w11", "106 0 70-11", "110 0 11z70", "150 0 70-11");
	/* Nothing is known of one before its first switch: it may have slept, or run. */
	CHECK("", false, "100 0 w11", "110 0 70-11");
	/* A CPU that there cannot be. */
	CHECK("", false, "100 70000 11-70", "110 70000 70-11");
}

static void test_looks(void **state __unused_arg)
{
	struct steal s = { .vm_of = vm_of };

	/* Its VM ended while it waited, and its id was given to another one's. */
	steal_vcpu(&s, 11, 1, 0);
	steal_vcpu(&s, 21, 2, 0);
	steal_looked(&s);
	one(&s, "100 0 11-70");
	one(&s, "100 1 21-70");
	steal_vcpu(&s, 21, 2, 0);
	steal_looked(&s);
	one(&s, "110 0 70-80");
	one(&s, "110 1 70-21");
	assert_int_equal(s.ncell, 1);
	assert_int_equal(s.cell[0].vm, 2);
	steal_vcpu(&s, 11, 3, 0);
	steal_vcpu(&s, 21, 2, 0);
	steal_looked(&s);
	one(&s, "150 0 80-11");
	one(&s, "160 0 11-80");
	one(&s, "165 0 80-11");
	assert_int_equal(s.ncell, 2);
	assert_int_equal(s.cell[1].vm, 3);
	assert_int_equal(s.cell[1].ns, 5);
	/* What was before all its events were recorded contradicts nothing. */
	steal_vcpu(&s, 12, 3, 180);
	steal_vcpu(&s, 11, 3, 300);
	steal_looked(&s);
	one(&s, "170 0 12z80");
	one(&s, "175 1 w12");
	one(&s, "180 1 12-70");
	one(&s, "190 1 70-12");
	assert_int_equal(s.cell[1].ns, 5);
	assert_int_equal(s.ncell, 3);
	assert_int_equal(s.cell[2].ns, 10);
	one(&s, "195 0 11z80");
	one(&s, "200 0 80-11");
	one(&s, "210 0 11-80");
	one(&s, "215 0 80-11");
	assert_int_equal(s.cell[1].ns, 10);
	assert_false(steal_bound(&s));
	steal_free(&s);
}

static void test_many_tasks(void **state __unused_arg)
{
	struct steal s = { .vm_of = vm_of };
	uint64_t sum = 0, others = 0;

	steal_vcpu(&s, 11, 1, 0);
	steal_looked(&s);
	one(&s, "1000 0 11-1000");
	for (unsigned int i = 1000; i < 1000 + 2 * STEAL_CELLS; i++) {
		char text[48];

		snprintf(text, sizeof(text), "%u 0 %u-%u", i + 1, i, i + 1);
		one(&s, text);
	}
	for (size_t i = 0; i < s.ncell; i++) {
		sum += s.cell[i].ns;
		others += strcmp(s.cell[i].comm, "(others)") ? 0 : s.cell[i].ns;
	}
	assert_int_equal(s.ncell, STEAL_CELLS + 1);
	assert_int_equal(sum, 2 * STEAL_CELLS);
	assert_int_equal(others, STEAL_CELLS);
	steal_free(&s);
}

/* Each VM's time is taken by each other one: pairs do not grow with the square of the VMs. */
static uint32_t vm_each(void *ctx __unused_arg, const struct steal_task *t)
{
	return t->tid;
}

static void test_many_vms(void **state __unused_arg)
{
	const uint32_t n = 600;
	struct steal s = { .vm_of = vm_each };
	uint64_t sum = 0;

	for (uint32_t i = 1; i <= n; i++)
		steal_vcpu(&s, i, i, 0);
	steal_looked(&s);
	for (uint32_t i = 1; i < 2 * n; i++) {
		struct steal_task prev = { .tid = (i - 1) % n + 1 }, next = { .tid = i % n + 1 };

		steal_switch(&s, 0, i, &prev, false, &next);
	}
	for (size_t i = 0; i < s.ncell; i++)
		sum += s.cell[i].ns;
	assert_true(s.ncell > 10 * STEAL_CELLS && s.ncell <= 10 * STEAL_CELLS + n);
	/* One begins to wait with each of the first n switches, and then all but one do. */
	assert_int_equal(sum, (uint64_t)n * (n - 1) / 2 + (n - 1) * (n - 1));
	steal_free(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds), cmocka_unit_test(test_queues),
		cmocka_unit_test(test_interrupts), cmocka_unit_test(test_missing),
		cmocka_unit_test(test_looks), cmocka_unit_test(test_many_tasks),
		cmocka_unit_test(test_many_vms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
