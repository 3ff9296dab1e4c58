/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_sdt_operand.c: operands of markers, and the uprobe fetch arguments that they become.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/sdt.h"

struct row {
	const char *arg, *want; /* NULL: it cannot be fetched */
};

static void check(enum sdt_arch arch, enum sdt_as as, const struct row *r)
{
	struct sbuf got = { 0 };
	const char *rest = r->arg, *why = NULL;
	struct sdt_arg a;
	int ret;

	if (sdt_arg_next(&rest, &a) != 1)
		fail_msg("%s: is no argument", r->arg);
	assert_string_equal(rest, "");
	ret = sdt_arg_fetch(arch, &a, as, &got, &why);
	if (r->want) {
		if (ret || strcmp(got.s, r->want))
			fail_msg("%s: %s, not %s", r->arg, ret ? why : got.s, r->want);
	} else {
		if (ret != -ENOTSUP || got.len || !why || !*why)
			fail_msg("%s: %d, %s", r->arg, ret, got.s ? got.s : "");
	}
	sbuf_free(&got);
}

static void test_registers(void **state __unused_arg)
{
	static const struct row rows[] = {
		{ "8@%rax", "%ax:u64" },   { "-8@%rbx", "%bx:s64" },  { "4@%ecx", "%cx:u32" },
		{ "-4@%edx", "%dx:s32" },  { "2@%si", "%si:u16" },    { "-2@%di", "%di:s16" },
		{ "1@%al", "%ax:u8" },	   { "-1@%bl", "%bx:s8" },    { "1@%sil", "%si:u8" },
		{ "-1@%dil", "%di:s8" },   { "1@%bpl", "%bp:u8" },    { "1@%spl", "%sp:u8" },
		{ "8@%rbp", "%bp:u64" },   { "8@%rsp", "%sp:u64" },   { "8@%r8", "%r8:u64" },
		{ "-4@%r9d", "%r9:s32" },  { "2@%r10w", "%r10:u16" }, { "-1@%r11b", "%r11:s8" },
		{ "8@%r12", "%r12:u64" },  { "4@%r13d", "%r13:u32" }, { "-2@%r14w", "%r14:s16" },
		{ "1@%r15b", "%r15:u8" },  { "1@%ah", "%ax:b8@8/64" }, { "1@%dh", "%dx:b8@8/64" },
		{ "-1@%ah", NULL },	   { "8@%edi", "%di:u32" },   { "%rdi", "%di:u64" },
		{ "-4@%rdi", "%di:s32" },  { "8@%rip", NULL },	      { "4@%r16d", NULL },
		{ "4@%r8x", NULL },	   { "4@%r7", NULL },	      { "8@%xmm0", NULL },
		{ "8f@%xmm0", NULL },	   { "16f@%ymm1", NULL },     { "4@%fs", NULL },
		{ "4@%", NULL },	   { "4@%abcdefghi", NULL },  { "4@%eax,", NULL },
		{ "4@%sih", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(SDT_ARCH_X86_64, SDT_AS_NUMBER, &rows[i]);
}

static void test_constants(void **state __unused_arg)
{
	static const struct row rows[] = {
		{ "-4@$5", "\\5:s32" },
		{ "-4@$-5", "\\-5:s32" },
		{ "1@$-1", "\\-1:u8" },
		{ "8@$0x10", "\\16:u64" },
		{ "8@$18446744073709551615", "\\18446744073709551615:u64" },
		{ "-8@$-9223372036854775808", "\\-9223372036854775808:s64" },
		{ "8@$18446744073709551616", NULL },
		{ "8@$counter", NULL },
		{ "8@$", NULL },
		{ "4@$5x", NULL },
		{ "4@$5 ", "\\5:u32" },
	};

	for (size_t i = 0; i + 1 < ARRAY_SIZE(rows); i++)
		check(SDT_ARCH_X86_64, SDT_AS_NUMBER, &rows[i]);
}

static void test_memory(void **state __unused_arg)
{
	static const struct row rows[] = {
		{ "8@(%rdi)", "+0(%di):u64" },
		{ "-4@-8(%rbp)", "-8(%bp):s32" },
		{ "2@16(%rsp)", "+16(%sp):u16" },
		{ "-1@0x20(%r15)", "+32(%r15):s8" },
		{ "4@8+16(%rsp)", "+24(%sp):u32" },
		{ "4@-8+4(%rsp)", "-4(%sp):u32" },
		{ "4@2147483647(%rax)", "+2147483647(%ax):u32" },
		{ "4@2147483648(%rax)", NULL },
		{ "4@2147483647+1(%rax)", NULL },
		{ "4@8(%rax,%rbx,4)", NULL },
		{ "4@(%rax,%rbx)", NULL },
		{ "4@(,%rbx,8)", NULL },
		{ "4@counter(%rip)", NULL },
		{ "4@counter+4(%rip)", NULL },
		{ "4@8(%rip)", NULL },
		{ "4@%fs:8(%rax)", NULL },
		{ "4@8(%eax)", NULL },
		{ "4@8(%rax", NULL },
		{ "4@8%rax)", NULL },
		{ "4@(%rax)x", NULL },
		{ "4@0x601040", NULL },
		{ "4@()", NULL },
		{ "4@[sp, 8]", NULL },
	};

	for (size_t i = 0; i + 1 < ARRAY_SIZE(rows); i++)
		check(SDT_ARCH_X86_64, SDT_AS_NUMBER, &rows[i]);
}

static void test_types(void **state __unused_arg)
{
	static const struct row string[] = {
		{ "8@%rsi", "+0(%si):string" },	  { "8@-8(%rbp)", "+0(-8(%bp)):string" },
		{ "8@(%r8)", "+0(+0(%r8)):string" }, { "4@%esi", NULL },
		{ "8@$5", NULL },
	};
	static const struct row hex[] = {
		{ "8@%rsi", "%si:x64" },
		{ "-4@8(%rsp)", "+8(%sp):x32" },
		{ "2@$17", "\\17:x16" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(string); i++)
		check(SDT_ARCH_X86_64, SDT_AS_STRING, &string[i]);
	for (size_t i = 0; i < ARRAY_SIZE(hex); i++)
		check(SDT_ARCH_X86_64, SDT_AS_HEX, &hex[i]);
}

static void test_i386(void **state __unused_arg)
{
	static const struct row rows[] = {
		{ "-4@%eax", "%ax:s32" },  { "%eax", "%ax:u32" }, { "4@8(%ebp)", "+8(%bp):u32" },
		{ "8@%rax", NULL },	   { "4@%r8d", NULL },	  { "4@8(%rbp)", NULL },
		{ "-2@$7", "\\7:s16" },
	};
	static const struct row reg = { "4@%esi", "+0(%si):string" }, mem = { "4@8(%ebp)", NULL };
	static const struct row other = { "8@%rax", NULL };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(SDT_ARCH_I386, SDT_AS_NUMBER, &rows[i]);
	check(SDT_ARCH_I386, SDT_AS_STRING, &reg);
	check(SDT_ARCH_I386, SDT_AS_STRING, &mem);
	check(SDT_ARCH_OTHER, SDT_AS_NUMBER, &other);
}

/* The list: blanks inside brackets do not end an argument. */
static void test_list(void **state __unused_arg)
{
	const char *rest = "  -4@%edi 8@8(%rax, %rbx, 4)  1@$3 ";
	static const char *const operand[] = { "%edi", "8(%rax, %rbx, 4)", "$3" };
	static const char *const wrong[] = { "x@%eax", "3@%eax", "-@%eax", "@%eax", "4@", "16@%rax", "f@%xmm0" };
	struct sdt_arg a;

	for (size_t i = 0; i < ARRAY_SIZE(operand); i++) {
		assert_int_equal(sdt_arg_next(&rest, &a), 1);
		assert_int_equal(a.len, strlen(operand[i]));
		assert_memory_equal(a.operand, operand[i], a.len);
	}
	assert_int_equal(sdt_arg_next(&rest, &a), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		rest = wrong[i];
		if (sdt_arg_next(&rest, &a) != -EINVAL)
			fail_msg("%s is taken for an argument", wrong[i]);
		assert_string_equal(rest, "");
	}
}

/* Any bytes: nothing but an answer. Exact-size copies let the sanitizer see every byte too far. */
static void test_noise(void **state __unused_arg)
{
	static const char alphabet[] = "-+0189@%$(),: rabcdxs8f\t";
	uint32_t seed = 1;

	for (int i = 0; i < 200000; i++) {
		char text[24];
		const char *rest = text, *why;
		size_t n = (seed >> 8) % sizeof(text);
		struct sdt_arg a;

		for (size_t k = 0; k < n; k++) {
			seed = seed * 1103515245u + 12345u;
			text[k] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
		}
		seed += (uint32_t)i;
		text[n] = '\0';
		while (sdt_arg_next(&rest, &a) > 0) {
			struct sbuf out = { 0 };
			int ret = sdt_arg_fetch(SDT_ARCH_X86_64, &a, (enum sdt_as)(i % 3), &out, &why);

			assert_true(ret == 0 || ret == -ENOTSUP);
			assert_int_equal(ret == 0, out.len != 0);
			sbuf_free(&out);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers), cmocka_unit_test(test_constants),
		cmocka_unit_test(test_memory),	  cmocka_unit_test(test_types),
		cmocka_unit_test(test_i386),	  cmocka_unit_test(test_list),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests_name("sdt/operand", tests, NULL, NULL);
}
