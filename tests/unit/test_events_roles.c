/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_events_roles.c: tests of src/events/roles.c: that a real kernel's formats have the events
 * and fields of the table, that older names are found, and what is absent.
 */
#include "kvmft/events.h"

#include <errno.h>
#include <string.h>

#include "kvmft/exit_names.h"

#include "unit/fmt_fixture.h"
#include "lib/enc.h"

#define U32(name, off) "\tfield:u32 " name ";\toffset:" #off ";\tsize:4;\tsigned:0;\n"

/* Every role that the kernel of the corpus has: all its fields are there, or the table has a wrong name. */
static void test_names_are_the_kernels(void **state __unused_arg)
{
	struct capture c = { .long_size = 8 };
	const char *sys, *name, *text;
	unsigned int found = 0;
	const struct event_type *e;
	struct fmt *f;

	for (size_t i = 0; (text = enc_format_at(i, &sys, &name)); i++)
		add_format(&c, sys, name, text);
	f = load(&c);
	for (int r = EV_NONE + 1; r < EV_ROLES; r++) {
		enum event_role role = (enum event_role)r;

		assert_null(event_field(role, EVENT_FIELDS));
		e = event_find(f, role, 0);
		if (!e->ev)
			continue;
		found++;
		assert_ptr_equal(e->ev, event_format(f, role));
		assert_string_equal(fmt_name(e->ev), event_name(role));
		assert_int_equal(event_role_of(e->ev), role);
		assert_ptr_equal(event_type_of(e->ev), e); /* found once */
		for (size_t k = 0; event_field(role, k); k++)
			if (!e->f[k].size && strncmp(event_field(role, k), "buf", 3))
				fail_msg("%s has no %.*s", fmt_name(e->ev), EVENT_FIELD(event_field(role, k)));
	}
	assert_true(found >= 15);
	fmt_free(f);
	free_formats(&c);
}

static struct fmt *two(struct capture *c, const char *sys, const char *name, const char *fields)
{
	char text[1024];

	snprintf(text, sizeof(text), "name: %s\nID: 7\nformat:\n" COMMON "%s\nprint fmt: \"\"\n", name, fields);
	add_format(c, sys, name, text);
	return load(c);
}

static void test_old_names(void **state __unused_arg)
{
	struct capture c = { .long_size = 8 };
	struct fmt *f = two(&c, "kvm", "kvm_inj_virq", U32("irq", 8));
	const struct event_type *e = event_find(f, EV_INJECT, 1);

	assert_non_null(e->ev);
	assert_int_equal(e->have, 1);
	assert_int_equal(e->f[0].off, 8);
	assert_int_equal(e->f[1].size, 0);
	assert_int_equal(e->plain[1], 12);
	assert_int_equal(e->plain[2], 0);
	assert_string_equal(event_field(EV_INJECT, 0), "vector|irq soft reinjected");
	fmt_free(f);
	free_formats(&c);
}

static void test_needed_fields(void **state __unused_arg)
{
	struct capture c = { .long_size = 8 };
	struct fmt *f = two(&c, "sched", "sched_switch", U32("prev_pid", 8) U32("next_pid", 12));

	assert_int_equal(event_find(f, EV_SWITCH, 1)->f[2].off, 12); /* not moved up where one before it lacks */
	assert_null(event_find(f, EV_SWITCH, 2)->ev);
	assert_null(event_find(f, EV_ENTRY, 0)->ev);
	assert_null(event_format(f, EV_VECTOR_ENTRY));
	fmt_free(f);
	free_formats(&c);
}

static void test_endings(void **state __unused_arg)
{
	struct capture c = { .long_size = 8 };
	struct fmt *f = two(&c, "irq_vectors", "no_such_vector_yet_exit", U32("vector", 8));
	bool seen[EV_ROLES] = { false };

	assert_int_equal(event_role_of(fmt_at(f, 0)), EV_VECTOR_EXIT);
	assert_true(event_handler_ends(f, fmt_at(f, 0), NULL)); /* none begins there */
	fmt_free(f);
	free_formats(&c);
	c = (struct capture){ .long_size = 8 };
	f = two(&c, "xen", "some_entry", U32("vector", 8));
	assert_int_equal(event_role_of(fmt_at(f, 0)), EV_NONE);
	assert_int_equal(event_type_of(fmt_at(f, 0))->f[0].size, 0);
	assert_ptr_equal(event_type_of(fmt_at(f, 0))->ev, fmt_at(f, 0));
	assert_int_equal(event_role_of(NULL), EV_NONE);
	fmt_free(f);
	free_formats(&c);
	c = (struct capture){ .long_size = 8 };
	f = two(&c, "irq_vectors", "lost_entry", U32("vector", 8));
	assert_false(event_handler_ends(f, fmt_at(f, 0), NULL));
	fmt_free(f);
	free_formats(&c);
	c = (struct capture){ .long_size = 8 };
	f = two(&c, "irq", "irq_handler_entry", U32("irq", 8));
	assert_false(event_handler_ends(f, fmt_at(f, 0), seen));
	seen[EV_IRQ_EXIT] = true;
	assert_true(event_handler_ends(f, fmt_at(f, 0), seen));
	fmt_free(f);
	free_formats(&c);
}

static void test_architectures(void **state __unused_arg)
{
	static const char *const known[] = { "x86_64", "i686", "aarch64", "riscv64", "ppc64le",
					     "loongarch64" };
	struct capture c = { .path = (char *)"cap" };
	struct kvmft_err err = { .text = "" };

	assert_int_equal(event_arch_check(&c, NULL, &err), 0); /* it tells none */
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		c.arch = (char *)known[i];
		assert_int_equal(event_arch_check(&c, NULL, &err), 0);
	}
	c.arch = (char *)"s390x";
	assert_int_equal(event_arch_check(&c, NULL, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "recorded on s390x"));
	assert_non_null(strstr(err.text, "x86-vmx, x86-svm, x86-pvm, arm64"));
	assert_int_equal(exit_isa_of_vendor("AuthenticAMD"), EXIT_ISA_SVM);
	assert_int_equal(exit_isa_of_vendor("HygonGenuine"), EXIT_ISA_SVM);
	assert_int_equal(exit_isa_of_vendor("GenuineIntel"), EXIT_ISA_VMX);
	assert_int_equal(exit_isa_of_vendor(NULL), EXIT_ISA_VMX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_are_the_kernels), cmocka_unit_test(test_old_names),
		cmocka_unit_test(test_needed_fields), cmocka_unit_test(test_endings),
		cmocka_unit_test(test_architectures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
