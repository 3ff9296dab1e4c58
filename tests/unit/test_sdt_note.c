/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_sdt_note.c: markers out of ELF files of both classes, out of broken ones, and
 * the events that are planned for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kvmft/sdt.h"
#include "lib/enc_sdt.h"

static int read_bytes(const void *p, size_t n, struct sdt_file *f, struct kvmft_err *err)
{
	int fd = memfd_create("sdt", MFD_CLOEXEC), ret;

	assert_true(fd >= 0);
	assert_int_equal(full_write(fd, p, n, NULL), 0);
	ret = sdt_read(fd, "memory", f, err);
	close(fd);
	return ret;
}

static int read_elf(const struct enc_sdt *e, struct sdt_file *f, struct kvmft_err *err)
{
	struct sbuf b = { 0 };
	int ret;

	enc_sdt_elf(e, &b);
	ret = read_bytes(b.s, b.len, f, err);
	sbuf_free(&b);
	return ret;
}

static const struct enc_sdt_marker two[] = {
	{ ENC_SDT_CODE + 0x10, 0, "prov", "plain", "-4@%edi 8@%rsi" },
	{ ENC_SDT_CODE + 0xff, ENC_SDT_DATA + 2, "prov", "guarded", "" },
};

static void test_classes(void **state __unused_arg)
{
	for (unsigned int i = 0; i < 8; i++) {
		const struct enc_sdt e = { .is64 = i & 1,
					   .no_base = i & 4,
					   .moved = (i & 2) && !(i & 4) ? 0x5000 : 0,
					   .type = i & 1 ? ET_DYN : ET_EXEC,
					   .marker = two,
					   .n = 2 };
		struct sdt_file f;

		assert_int_equal(read_elf(&e, &f, NULL), 0);
		assert_int_equal(f.n, 2);
		assert_int_equal(f.bad, 0);
		assert_int_equal(f.arch, e.is64 ? SDT_ARCH_X86_64 : SDT_ARCH_I386);
		assert_string_equal(f.v[0].provider, "prov");
		assert_string_equal(f.v[0].name, "plain");
		assert_string_equal(f.v[0].args, "-4@%edi 8@%rsi");
		assert_null(f.v[0].unfit);
		assert_int_equal(f.v[0].addr, ENC_SDT_CODE + e.moved + 0x10);
		assert_int_equal(f.v[0].offset, 0x210);
		assert_int_equal(f.v[0].semaphore, 0);
		assert_null(f.v[1].unfit);
		assert_int_equal(f.v[1].offset, 0x2ff);
		assert_int_equal(f.v[1].semaphore, 0x302);
		sdt_free(&f);
	}
}

static void test_unfit(void **state __unused_arg)
{
	static const struct enc_sdt_marker m[] = {
		{ ENC_SDT_CODE - 1, 0, "p", "before", "" },
		{ ENC_SDT_CODE + 0x100, 0, "p", "behind", "" },
		{ ENC_SDT_DATA, 0, "p", "data", "" },
		{ ENC_SDT_CODE, ENC_SDT_CODE, "p", "guard in the code", "" },
		{ ENC_SDT_CODE, ENC_SDT_DATA + 1, "p", "odd guard", "" },
		{ ENC_SDT_CODE, ENC_SDT_DATA + 64, "p", "no guard there", "" },
		{ UINT64_MAX, UINT64_MAX - 1, "p", "far", "" },
	};
	const struct enc_sdt e = { .is64 = true, .marker = m, .n = ARRAY_SIZE(m) };
	const struct sdt_want all = { .name = NULL };
	struct sdt_plan p = { 0 };
	struct sdt_file f;

	assert_int_equal(read_elf(&e, &f, NULL), 0);
	assert_int_equal(f.n, ARRAY_SIZE(m));
	for (size_t i = 0; i < f.n; i++)
		if (!f.v[i].unfit)
			fail_msg("%s is taken for good", f.v[i].name);
	assert_int_equal(sdt_plan_add(&p, &f, 0, &all, 1, 10), 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.unfit, ARRAY_SIZE(m));
	assert_non_null(p.why_unfit);
	sdt_plan_free(&p);
	sdt_free(&f);
}

/* Names that are empty, too long or not printable: left out and counted. */
static void test_bad_notes(void **state __unused_arg)
{
	char much[300];
	const struct enc_sdt_marker m[] = {
		{ ENC_SDT_CODE, 0, "", "name", "" },	{ ENC_SDT_CODE, 0, "p", "", "" },
		{ ENC_SDT_CODE, 0, "p\n", "n", "" },	{ ENC_SDT_CODE, 0, "p", "\x1b[2J", "" },
		{ ENC_SDT_CODE, 0, "p", "n", "\xff" },	{ ENC_SDT_CODE, 0, much, "n", "" },
		{ ENC_SDT_CODE, 0, "p", "good", "" },
	};
	const struct enc_sdt e = { .is64 = true, .marker = m, .n = ARRAY_SIZE(m) };
	struct sdt_file f;

	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	assert_int_equal(read_elf(&e, &f, NULL), 0);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.bad, ARRAY_SIZE(m) - 1);
	assert_string_equal(f.v[0].name, "good");
	sdt_free(&f);
}

static void test_refused(void **state __unused_arg)
{
	const struct enc_sdt object = { .is64 = true, .type = ET_REL, .marker = two, .n = 2 };
	const struct enc_sdt none = { .is64 = true };
	struct kvmft_err err = { .text = "" };
	struct sdt_file f;

	assert_int_equal(read_bytes("#!/bin/sh\n", 10, &f, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "not an ELF file"));
	assert_int_equal(read_bytes("", 0, &f, &err), -ENOEXEC);
	assert_int_equal(read_elf(&object, &f, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "neither a program nor a library"));
	assert_int_equal(read_elf(&none, &f, &err), 0);
	assert_int_equal(f.n, 0);
	sdt_free(&f);
}

/* Cut at every byte, and with every byte changed in three ways: an answer, whatever it is. */
static void test_damage(void **state __unused_arg)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct enc_sdt e = { .is64 = i, .marker = two, .n = 2 };
		static const uint8_t change[] = { 0xff, 0x80, 0x01 };
		struct sbuf b = { 0 };
		struct sdt_file f;

		enc_sdt_elf(&e, &b);
		for (size_t n = 0; n < b.len; n += n < 0x100 || n > 0x330 ? 1 : 16) {
			if (!read_bytes(b.s, n, &f, NULL))
				sdt_free(&f);
			for (size_t k = 0; k < ARRAY_SIZE(change); k++) {
				b.s[n] = (char)((uint8_t)b.s[n] ^ change[k]);
				if (!read_bytes(b.s, b.len, &f, NULL))
					sdt_free(&f);
				b.s[n] = (char)((uint8_t)b.s[n] ^ change[k]);
			}
		}
		sbuf_free(&b);
	}
}

/* ---- plans ---- */

static const struct enc_sdt_marker many[] = {
	{ ENC_SDT_CODE + 0, 0, "q", "io", "-4@%edi 8@%rsi" },
	{ ENC_SDT_CODE + 1, 0, "q", "io", "-4@$7 8@-8(%rbp)" }, /* the same types: one event */
	{ ENC_SDT_CODE + 1, 0, "q", "io", "-4@$7 8@-8(%rbp)" }, /* the same place */
	{ ENC_SDT_CODE + 2, 0, "q", "io", "-8@%rdi 8@%rsi" },
	{ ENC_SDT_CODE + 3, 0, "q", "io", "-4@%edi 8@(%rax,%rbx)" },
	{ ENC_SDT_CODE + 4, 0, "other", "io", "-4@%edi 8@%rsi" },
	{ ENC_SDT_CODE + 5, ENC_SDT_DATA, "q", "done-9", "2@%di x@y 1@%al" },
	{ ENC_SDT_CODE + 6, 0, "q", "9", "" },
};

static void test_plan(void **state __unused_arg)
{
	const struct enc_sdt e = { .is64 = true, .marker = many, .n = ARRAY_SIZE(many) };
	const struct sdt_want all = { .name = NULL };
	static const struct {
		const char *sys, *name, *types, *left_out;
		size_t n;
	} want[] = {
		{ "sdt_q", "io", "arg1:s32 arg2:u64", "", 2 },
		{ "sdt_q", "io_1", "arg1:s64 arg2:u64", "", 1 },
		{ "sdt_q", "io_2", "arg1:s32", "arg2: memory at the sum of two registers", 1 },
		{ "sdt_other", "io", "arg1:s32 arg2:u64", "", 1 },
		{ "sdt_q", "done_9", "arg1:u16", "arg2: and what follows it: malformed", 1 },
		{ "sdt_q", "_9", "", "", 1 },
	};
	struct sdt_plan p = { 0 };
	struct sdt_file f;

	assert_int_equal(read_elf(&e, &f, NULL), 0);
	assert_int_equal(sdt_plan_add(&p, &f, 0, &all, 1, 100), 0);
	assert_int_equal(p.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < p.n; i++) {
		assert_string_equal(p.v[i].sys, want[i].sys);
		assert_string_equal(p.v[i].name, want[i].name);
		assert_string_equal(p.v[i].types, want[i].types);
		assert_string_equal(p.v[i].left_out, want[i].left_out);
		assert_int_equal(p.v[i].n, want[i].n);
		assert_int_equal(p.v[i].guarded, i == 4);
	}
	assert_string_equal(p.v[0].place[1].args, "arg1=\\7:s32 arg2=-8(%bp):u64");
	/* The same file again, as another number: its places join the events. */
	assert_int_equal(sdt_plan_add(&p, &f, 1, &all, 1, 100), 0);
	assert_int_equal(p.n, ARRAY_SIZE(want));
	assert_int_equal(p.v[0].n, 4);
	sdt_plan_free(&p);
	assert_int_equal(sdt_plan_add(&p, &f, 0, &all, 1, 3), -E2BIG);
	sdt_plan_free(&p);
	p.flags = SDT_NO_CONSTANTS | SDT_ONE_PLACE;
	assert_int_equal(sdt_plan_add(&p, &f, 0, &all, 1, 100), 0);
	assert_int_equal(p.n, 8);
	assert_string_equal(p.v[1].name, "io_1");
	assert_string_equal(p.v[1].types, "arg2:u64");
	sdt_plan_free(&p);
	sdt_free(&f);
}

static void test_wants(void **state __unused_arg)
{
	const struct enc_sdt e = { .is64 = true, .marker = many, .n = ARRAY_SIZE(many) };
	const struct sdt_want w[] = {
		{ .provider = "q", .name = "i?", .filter = "arg1 == 1", .as = { SDT_AS_HEX } },
		{ .provider = "o*r", .name = "io", .as = { SDT_AS_HEX, SDT_AS_STRING } },
		{ .provider = "q", .name = "io", .as = { SDT_AS_NUMBER, SDT_AS_HEX } },
	};
	struct sdt_plan p = { 0 };
	struct sdt_file f;

	assert_int_equal(read_elf(&e, &f, NULL), 0);
	assert_int_equal(sdt_plan_add(&p, &f, 0, w, ARRAY_SIZE(w), 100), 0);
	assert_int_equal(p.n, 4);
	assert_string_equal(p.v[0].types, "arg1:x32 arg2:x64");
	assert_string_equal(p.v[0].filter, "arg1 == 1");
	assert_string_equal(p.v[3].provider, "other");
	assert_string_equal(p.v[3].types, "arg1:x32 arg2:string");
	assert_null(p.v[3].filter);
	sdt_plan_free(&p);
	sdt_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes), cmocka_unit_test(test_unfit),
		cmocka_unit_test(test_bad_notes), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damage),	cmocka_unit_test(test_plan),
		cmocka_unit_test(test_wants),
	};

	return cmocka_run_group_tests_name("sdt/note", tests, NULL, NULL);
}
