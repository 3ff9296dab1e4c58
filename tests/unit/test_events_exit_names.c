/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_events_exit_names.c: tests of src/events/exit_names.c: that the tables say what Linux 6.18
 * says, that a captured format goes before them, masks, -1, and numbers that have no name.
 */
#include "kvmft/exit_names.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/enc.h"

static struct fmt *load(const char *text)
{
	struct cap_format cf = { .sys = (char *)"kvm", .name = (char *)"kvm_exit",
				 .text = (char *)text, .len = strlen(text) };
	struct capture c = { .long_size = 8, .format = &cf, .nformat = 1 };
	struct fmt *f = fmt_load(&c);

	assert_non_null(fmt_find(f, "kvm", "kvm_exit"));
	return f;
}

/* The kernel's own text and the tables agree on every number, and have equally many names. */
static void test_tables_are_the_kernels(void **state __unused_arg)
{
	struct fmt *f = load(enc_format("kvm", "kvm_exit"));
	const struct fmt_event *ev = fmt_find(f, "kvm", "kvm_exit");
	static const uint32_t base[] = { 0, 0x400, 0x80000000, 0x8000f000, 0xfffff000 };
	unsigned int found[2] = { 0 };
	struct exit_names n;

	exit_names_init(&n, NULL, NULL);
	for (size_t b = 0; b < ARRAY_SIZE(base); b++) {
		for (uint32_t i = 0; i < 0x1000; i++) {
			for (unsigned int k = 0; k < 2; k++) {
				enum exit_isa isa = k ? EXIT_ISA_SVM : EXIT_ISA_VMX;
				const char *kernel, *own;
				uint32_t r = base[b] + i;

				if (isa == EXIT_ISA_VMX && r > 0xffff)
					continue;
				kernel = fmt_symbol(ev, "exit_reason", k, r);
				own = exit_reason_name(&n, isa, r);
				assert_int_equal(!kernel, !own);
				if (kernel) {
					assert_string_equal(kernel, own);
					found[k]++;
				}
			}
		}
	}
	assert_int_equal(found[0], 65);
	assert_true(found[1] > 110);
	fmt_free(f);
}

static const char *text(const struct exit_names *n, enum exit_isa isa, uint64_t reason)
{
	static char buf[EXIT_NAME_MAX];

	return exit_reason_text(n, isa, reason, buf, sizeof(buf));
}

static void test_masks(void **state __unused_arg)
{
	struct fmt *f = load(enc_format("kvm", "kvm_exit"));
	const struct fmt_event *ev[2] = { NULL, fmt_find(f, "kvm", "kvm_exit") };
	struct exit_names n;
	char buf[EXIT_NAME_MAX];

	for (int i = 0; i < 2; i++) {
		exit_names_init(&n, ev[i], "GenuineIntel");
		assert_string_equal(text(&n, EXIT_ISA_VMX, 0x80000021), "INVALID_STATE");
		assert_string_equal(text(&n, EXIT_ISA_VMX, 12), "HLT");
		assert_string_equal(text(&n, EXIT_ISA_VMX, 0x04000030), "EPT_VIOLATION");
		assert_string_equal(text(&n, EXIT_ISA_VMX, 78), "0x4e");
		assert_string_equal(text(&n, EXIT_ISA_SVM, 0x4e), "PF excp");
		assert_string_equal(text(&n, EXIT_ISA_SVM, 0xffffffff), "invalid_guest_state");
		assert_string_equal(text(&n, EXIT_ISA_SVM, UINT64_MAX), "invalid_guest_state");
		assert_string_equal(text(&n, EXIT_ISA_SVM, 0x80000011), "vmgexit_guest_request");
		assert_string_equal(text(&n, EXIT_ISA_SVM, 0x11), "0x11");
		assert_string_equal(text(&n, EXIT_ISA_PVM, 0x20000), "pvm:0x20000");
		assert_string_equal(text(&n, EXIT_ISA_PVM, 12), "pvm:0xc");
		assert_string_equal(text(&n, (enum exit_isa)9, 7), "isa9:0x7");
	}
	assert_int_equal(exit_reason_key(EXIT_ISA_VMX, 0x80000021), 0x21);
	assert_int_equal(exit_reason_flags(EXIT_ISA_VMX, 0x80000021), 0x80000000);
	assert_int_equal(exit_reason_key(EXIT_ISA_SVM, 0x80000011), 0x80000011);
	assert_int_equal(exit_reason_flags(EXIT_ISA_SVM, 0x80000011), 0);
	assert_int_equal(exit_reason_key(EXIT_ISA_PVM, 3u << 16), 3u << 16);
	assert_string_equal(exit_flags_text(0x84000000, buf, sizeof(buf)), "BUS_LOCK FAILED_VMENTRY");
	assert_string_equal(exit_flags_text(0x00010000, buf, sizeof(buf)), "0x10000");
	assert_string_equal(exit_flags_text(0, buf, sizeof(buf)), "");
	assert_string_equal(exit_flags_text(0xffffffff, buf, 8), "0x10000");
	fmt_free(f);
}

#define HEAD                                                                      \
	"name: kvm_exit\nID: 9\nformat:\n"                                        \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"  \
	"\tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n"      \
	"\tfield:u32 isa;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\", "

/* What the kernel called it goes before the tables, whatever the order of its tables is. */
static void test_captured_names(void **state __unused_arg)
{
	struct fmt *f = load(HEAD
			     "(REC->isa == 3) ? __print_symbolic(REC->exit_reason, { 0x20000, "
			     "\"HYPERCALL\" }) : (REC->isa == 2) ? __print_symbolic(REC->exit_reason, "
			     "{ 0x78, \"hlt\" }, { 0x7b, \"port\" }) : "
			     "__print_symbolic(REC->exit_reason, { 7, \"PENDING_INTERRUPT\" }, "
			     "{ 12, \"HLT\" })\n");
	struct exit_names n;

	exit_names_init(&n, fmt_find(f, "kvm", "kvm_exit"), NULL);
	assert_string_equal(text(&n, EXIT_ISA_VMX, 7), "PENDING_INTERRUPT");
	assert_string_equal(text(&n, EXIT_ISA_VMX, 30), "IO_INSTRUCTION"); /* only in the table */
	assert_string_equal(text(&n, EXIT_ISA_SVM, 0x7b), "port");
	assert_string_equal(text(&n, EXIT_ISA_SVM, 0x400), "npf");
	assert_string_equal(text(&n, EXIT_ISA_PVM, 0x20000), "HYPERCALL");
	assert_string_equal(text(&n, EXIT_ISA_PVM, 0x20001), "pvm:0x20001");
	fmt_free(f);
}

#define ARM_HEAD(first, second)                                                   \
	"name: kvm_exit\nID: 9\nformat:\n"                                        \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"  \
	"\tfield:int " first ";\toffset:8;\tsize:4;\tsigned:1;\n"                 \
	"\tfield:unsigned int " second ";\toffset:12;\tsize:4;\tsigned:0;\n\n"     \
	"print fmt: \"%s: HSR_EC: 0x%04x (%s)\", "

static const char *arm(const struct exit_names *n, uint64_t kind, uint64_t class)
{
	struct exit_why why = exit_why(n, kind, class);

	assert_int_equal(why.isa, EXIT_ISA_ARM64);
	return text(n, why.isa, why.reason);
}

/* As Linux 6.1 has it, with a class that the table lacks. */
static void test_arm64(void **state __unused_arg)
{
	struct fmt *f = load(ARM_HEAD("ret", "esr_ec")
			     "__print_symbolic(REC->ret, { 0, \"IRQ\" }, { 2, \"TRAP\" }), "
			     "REC->esr_ec, __print_symbolic(REC->esr_ec, { (0x01), \"WFx\" }, "
			     "{ (0x24), \"DABT_LOW\" }, { (0x3e), \"NEW\" })\n");
	struct exit_names n;

	exit_names_init(&n, fmt_find(f, "kvm", "kvm_exit"), NULL);
	assert_string_equal(arm(&n, 0, 0x24), "IRQ");
	assert_string_equal(arm(&n, 1, 0), "SERROR"); /* only in the table, as is HVC64 */
	assert_string_equal(arm(&n, 2, 0x24), "TRAP:DABT_LOW");
	assert_string_equal(arm(&n, 2, 0x16), "TRAP:HVC64");
	assert_string_equal(arm(&n, 2, 0x3e), "TRAP:NEW");
	assert_string_equal(arm(&n, 2, 0x2b), "TRAP:0x2b");
	assert_string_equal(arm(&n, 12, 0), "0xc");
	assert_true(exit_is_halt(exit_why(&n, 2, 1)));
	assert_false(exit_is_halt(exit_why(&n, 0, 1)));
	assert_false(exit_is_halt(exit_why(&n, 1, 0)));
	fmt_free(f);
}

/* What kinds of hosts have in common, by other numbers. */
static void test_kinds(void **state __unused_arg)
{
	static const struct {
		enum exit_isa isa;
		uint32_t reason;
		enum exit_kind kind;
	} are[] = {
		{ EXIT_ISA_VMX, 1, EXIT_KIND_INTR }, { EXIT_ISA_SVM, 0x60, EXIT_KIND_INTR },
		{ EXIT_ISA_ARM64, 0, EXIT_KIND_INTR }, { EXIT_ISA_VMX, 52, EXIT_KIND_ASYNC },
		{ EXIT_ISA_VMX, 1u << 29 | 52, EXIT_KIND_ASYNC }, { EXIT_ISA_SVM, 0x61, EXIT_KIND_ASYNC },
		{ EXIT_ISA_SVM, 0x62, EXIT_KIND_ASYNC }, { EXIT_ISA_VMX, 40, EXIT_KIND_PAUSE },
		{ EXIT_ISA_SVM, 0x77, EXIT_KIND_PAUSE }, { EXIT_ISA_VMX, 48, EXIT_KIND_FAULT },
		{ EXIT_ISA_VMX, 0, EXIT_KIND_OTHER }, { EXIT_ISA_SVM, 0, EXIT_KIND_OTHER },
		{ EXIT_ISA_PVM, 0, EXIT_KIND_OTHER }, { EXIT_ISA_PVM, 52, EXIT_KIND_OTHER },
		{ EXIT_ISA_NONE, 52, EXIT_KIND_OTHER },
	};
	const char *module;
	enum exit_isa isa;
	uint32_t halt = 0;
	char field[32];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(are); i++)
		assert_int_equal(exit_kind((struct exit_why){ are[i].isa, are[i].reason }), are[i].kind);
	assert_true(exit_enters_guest((struct exit_why){ EXIT_ISA_VMX, 1u << 31 | 24 }));
	assert_true(exit_enters_guest((struct exit_why){ EXIT_ISA_SVM, 0x80 }));
	assert_true(exit_enters_guest((struct exit_why){ EXIT_ISA_ARM64, EXIT_TRAP | 0x1a }));
	assert_false(exit_enters_guest((struct exit_why){ EXIT_ISA_VMX, 0 }));
	assert_false(exit_enters_guest((struct exit_why){ EXIT_ISA_SVM, 20 }));
	assert_false(exit_enters_guest((struct exit_why){ EXIT_ISA_PVM, 0 }));
	assert_true(exit_is_log_full((struct exit_why){ EXIT_ISA_VMX, 62 }));
	assert_false(exit_is_log_full((struct exit_why){ EXIT_ISA_SVM, 62 }));
	assert_false(exit_is_log_full((struct exit_why){ EXIT_ISA_SVM, 0 }));
	assert_true(exit_halt_field("x86_64", "GenuineIntel", field, &halt));
	assert_string_equal(field, "exit_reason");
	assert_int_equal(halt, 12);
	assert_true(exit_halt_field("x86_64", "AuthenticAMD", field, &halt));
	assert_int_equal(halt, 0x78);
	assert_true(exit_halt_field("aarch64", "", field, &halt));
	assert_string_equal(field, "esr_ec");
	assert_int_equal(halt, 1);
	assert_false(exit_halt_field("x86_64", "", field, &halt));
	assert_false(exit_halt_field("riscv64", NULL, field, &halt));
	assert_int_equal(exit_tsc_frac(EXIT_ISA_VMX), 48);
	assert_int_equal(exit_tsc_frac(EXIT_ISA_SVM), 32);
	assert_int_equal(exit_tsc_frac(EXIT_ISA_NONE), 48);
	for (size_t i = 0; (module = exit_module(i, &isa)); i++)
		n += (!strcmp(module, "kvm_intel") && isa == EXIT_ISA_VMX) ||
		     (!strcmp(module, "kvm_amd") && isa == EXIT_ISA_SVM);
	assert_int_equal(n, 2);
}

/* Up to Linux 4.8 a trap was 1; up to 5.3 the fields had other names, one of them that of x86. */
static void test_arm64_old(void **state __unused_arg)
{
	struct fmt *f = load(ARM_HEAD("idx", "exit_reason")
			     "__print_symbolic(REC->idx, { 0, \"IRQ\" }, { 1, \"TRAP\" }), "
			     "REC->exit_reason, __print_symbolic(REC->exit_reason, "
			     "{ (0x16), \"HVC64\" })\n");
	struct exit_names n;

	exit_names_init(&n, fmt_find(f, "kvm", "kvm_exit"), "GenuineIntel");
	assert_string_equal(arm(&n, 1, 0x16), "TRAP:HVC64");
	assert_string_equal(arm(&n, 1, 0x20), "TRAP:IABT_LOW");
	assert_string_equal(arm(&n, 0, 0x16), "IRQ");
	fmt_free(f);
}

static void test_isa_and_hints(void **state __unused_arg)
{
	struct exit_names n;

	exit_names_init(&n, NULL, NULL);
	assert_int_equal(exit_isa(&n, 0), EXIT_ISA_VMX);
	assert_int_equal(exit_isa(&n, 2), EXIT_ISA_SVM);
	exit_names_init(&n, NULL, "AuthenticAMD");
	assert_int_equal(exit_isa(&n, 0), EXIT_ISA_SVM);
	assert_int_equal(exit_isa(&n, 1), EXIT_ISA_VMX);
	exit_names_init(&n, NULL, "HygonGenuine");
	assert_int_equal(exit_isa(&n, 0), EXIT_ISA_SVM);
	assert_string_equal(exit_userspace_name(2), "IO");
	assert_string_equal(exit_userspace_name(30), "X86_WRMSR");
	assert_string_equal(exit_userspace_name(37), "NOTIFY");
	assert_null(exit_userspace_name(4711));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables_are_the_kernels),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_captured_names),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_arm64_old),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_isa_and_hints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
