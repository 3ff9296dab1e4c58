/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_events_vcpu_turn.c: tests of vcpu_turn.h: the sequences of entries and exits that KVM
 * writes, and which events a host's formats make them of.
 */
#include "kvmft/vcpu_turn.h"

#include "unit/fmt_fixture.h"
#include "lib/enc.h"

static void check(const char *events, const char *steps)
{
	static const char names[] = { [TURN_SAME] = '.', [TURN_BEGAN] = '(', [TURN_AGAIN] = 'a', [TURN_ENDED] = ')',
				      [TURN_MISSED] = 'm' };
	struct vcpu_turn t = { .left = false };

	for (size_t i = 0; events[i]; i++) {
		enum turn_event e = events[i] == 'e' ? TURN_ENTRY : events[i] == 'x' ? TURN_EXIT :
				    events[i] == 'i' ? TURN_LEFT : TURN_OTHER;
		char step = names[vcpu_turn_step(&t, e)];

		if (step != steps[i])
			fail_msg("%s: event %zu gives %c, not %c", events, i, step, steps[i]);
	}
}

static void test_turns(void **state __unused_arg)
{
	check("exex", "()()");
	check("xex", "m()");	     /* begins with an exit: nothing was known */
	check("exxe", "()m(");	     /* entered without an event (fast path) */
	check("eexx", "(a)m");	     /* the first entry failed */
	check("eixex", "().()");     /* an interrupt shows the exit */
	check("eixxe", "().m(");     /* ... of one only */
	check("eiiex", "().()");     /* its further events are nothing new */
	check("iixi", "..m.");	     /* interrupts out of turns */
	check("eiexi", "()().");     /* the exit was not traced: the second entry begins, and its exit counts */
	check("e?x", "(.)");
}

static void test_events(void **state __unused_arg)
{
	struct capture c = { .long_size = 8 };
	struct fmt *f;

	add_format(&c, "kvm", "kvm_entry", enc_format("kvm", "kvm_entry"));
	add_format(&c, "kvm", "kvm_exit", enc_format("kvm", "kvm_exit"));
	add_format(&c, "sched", "sched_switch", enc_format("sched", "sched_switch"));
	add_format(&c, "irq_vectors", "call_function_entry", enc_format("irq_vectors", "call_function_entry"));
	add_format(&c, "irq_vectors", "call_function_exit", enc_format("irq_vectors", "call_function_exit"));
	f = load(&c);
	assert_int_equal(turn_event_of(fmt_find(f, "kvm", "kvm_entry")), TURN_ENTRY);
	assert_int_equal(turn_event_of(fmt_find(f, "kvm", "kvm_exit")), TURN_EXIT);
	assert_int_equal(turn_event_of(fmt_find(f, "sched", "sched_switch")), TURN_LEFT);
	assert_int_equal(turn_event_of(fmt_find(f, "irq_vectors", "call_function_entry")), TURN_LEFT);
	assert_int_equal(turn_event_of(fmt_find(f, "irq_vectors", "call_function_exit")), TURN_OTHER);
	assert_int_equal(turn_event_of(NULL), TURN_OTHER);
	fmt_free(f);
	free_formats(&c);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns), cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
