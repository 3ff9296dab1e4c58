/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_qemu_events.c: tests of src/qemu/events.c and format.c.
 */
#include "kvmft/qemu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct qevents *parse(const char *text)
{
	struct kvmft_err err = { .text = "" };
	struct qevents *q;

	if (qevents_parse(text, strlen(text), "test", &q, &err))
		fail_msg("%s", err.text);
	return q;
}

static const struct qev *find(const struct qevents *q, const char *name)
{
	const struct qev *e = qevents_find(q, name, strlen(name));

	if (!e)
		fail_msg("no event %s", name);
	return e;
}

static void test_declarations(void **state __unused_arg)
{
	struct qevents *q = parse("# See docs/devel/tracing.rst\n"
				  "\n"
				  "qemu_vmalloc(size_t size, void *ptr) \"size %zu ptr %p\"\n"
				  "nothing(void) \"\"\n"
				  "bare()\n"
				  "disable slow(const char *path, int8_t x) \"%s: %d\"\n"
				  "  spread( uint64_t addr ,\\\n"
				  "  unsigned  size ) \"addr 0x%\" PRIx64 \\\n"
				  "  \" size %\"PRIu32\" \\\"%%\\\"\\t\"\n");
	const struct qev *e = find(q, "qemu_vmalloc");

	assert_int_equal(qevents_count(q), 5);
	assert_null(qevents_note(q, 0));
	assert_int_equal(e->nargs, 2);
	assert_int_equal(e->arg[0].kind, QEV_UNSIGNED);
	assert_int_equal(e->arg[0].size, 8);
	assert_string_equal(e->arg[1].type, "void *");
	assert_string_equal(e->arg[1].name, "ptr");
	assert_int_equal(e->arg[1].kind, QEV_POINTER);
	assert_int_equal(find(q, "nothing")->nargs, 0);
	assert_int_equal(find(q, "bare")->nargs, 0);
	e = find(q, "slow");
	assert_int_equal(e->props, QEV_DISABLE);
	assert_int_equal(e->arg[0].kind, QEV_STRING);
	assert_int_equal(e->arg[1].kind, QEV_SIGNED);
	assert_int_equal(e->line, 6);
	e = find(q, "spread");
	assert_string_equal(e->format, "addr 0x%lx size %u \"%%\"\t");
	assert_true(e->format_usable);
	assert_ptr_equal(qevents_at(q, 4), e);
	assert_null(qevents_at(q, 5));
	qevents_free(q);
}

/* The example of QEMU's documentation: what vcpu and tcg make of a declaration. */
static void test_properties(void **state __unused_arg)
{
	struct qevents *q = parse("foo(uint32_t a) \"a=%x\"\n"
				  "vcpu bar(uint32_t a) \"a=%x\"\n"
				  "tcg vcpu baz(uint32_t a, TCGv_i32 b) \"a=%x\", \"a=%x b=%x\"\n"
				  "vcpu guest_cpu_enter(void)\n"
				  "disable tcg-exec last(int x) \"%d\"\n");
	const struct qev_value one[] = { { .num = 0xc1 }, { .num = 0xd2 }, { .num = 7 } };
	struct sbuf b = { 0 };

	assert_int_equal(qevents_count(q), 6);
	assert_string_equal(qevents_at(q, 2)->name, "baz_trans");
	assert_string_equal(qevents_at(q, 3)->name, "baz_exec");
	qev_print(find(q, "bar"), one, 2, &b);
	assert_string_equal(b.s, "cpu=0xc1 a=d2");
	sbuf_reset(&b);
	qev_print(find(q, "baz_trans"), one, 2, &b);
	assert_string_equal(b.s, "cpu=0xc1 a=d2");
	sbuf_reset(&b);
	qev_print(find(q, "baz_exec"), one, 3, &b);
	assert_string_equal(b.s, "cpu=0xc1 a=d2 b=7");
	sbuf_reset(&b);
	qev_print(find(q, "guest_cpu_enter"), one, 1, &b);
	assert_string_equal(b.s, "cpu=0xc1");
	assert_int_equal(find(q, "baz_exec")->props, QEV_VCPU | QEV_TCG | QEV_TCG_EXEC);
	assert_int_equal(find(q, "last")->props, QEV_DISABLE | QEV_TCG_EXEC);
	sbuf_free(&b);
	qevents_free(q);
}

static void test_broken(void **state __unused_arg)
{
	static const char *const lines[] = {
		"no parenthesis",
		"open(int a \"%d\"",
		"unknown_prop name(int a) \"%d\"",
		"many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m)",
		"noname(int) \"%d\"",
		"unended(int a) \"%d",
		"macro(int a) \"%\" NOT_A_MACRO",
		"three(int a) \"a\", \"b\", \"c\"",
		"nul(int a) \"a\\0b\"",
		"(int a) \"%d\"",
		"\"",
		"trailing(int a) \"%d\\",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct kvmft_err err = { .text = "" };
		struct sbuf b = { 0 };
		struct qevents *q;

		assert_int_equal(qevents_parse(lines[i], strlen(lines[i]), "test", &q, &err), -ENODATA);
		assert_non_null(strstr(err.text, "line 1: "));
		sbuf_addf(&b, "%s\ngood(int a) \"%%d\"\n", lines[i]);
		if (i + 1 < ARRAY_SIZE(lines)) { /* the last one swallows what follows */
			q = parse(b.s);
			assert_int_equal(qevents_count(q), 1);
			assert_true(str_starts(qevents_note(q, 0), "line 1: "));
			qevents_free(q);
		}
		sbuf_free(&b);
	}
}

/* What the C library prints on x86-64 is the measure. */
static void test_print(void **state __unused_arg)
{
	struct qevents *q = parse("all(int a, uint32_t b, int64_t c, uint8_t d, void *p, char *s, char e, "
				  "size_t f, int g) "
				  "\"[%5d|%-6u|%+ld|0x%02x|%p|%-7.3s|%c|%#zx|%.3d]\"\n"
				  "other(uint16_t a, unsigned b, long c, void *p, char *s, long long d) "
				  "\"%#o %08X %-8ld| %10p %6s %lld%%\"\n"
				  "misfit(int a, int b) \"%d\"\n"
				  "unknown(int a, char *s) \"%n %s\"\n"
				  "star(int w, int a, int l, uint64_t x) \"%*d|%0*lx|\"\n"
				  "stars(int a) \"%*d\"\n");
	const struct qev_value v[] = {
		{ .num = (uint64_t)-42 }, { .num = 7 }, { .num = 5000000000 }, { .num = 0xb },
		{ .num = 0xdeadbeef }, { .s = "abcdef", .len = 6 }, { .num = 'x' }, { .num = 255 },
		{ .num = (uint64_t)-5 },
	};
	const struct qev_value w[] = {
		{ .num = 8 }, { .num = 0xfffffffffffffffe }, { .num = (uint64_t)-3 }, { .num = 0 },
		{ .s = "", .len = 0 }, { .num = 1ull << 63 },
	};
	struct sbuf b = { 0 };
	char want[200];

	snprintf(want, sizeof(want), "[%5d|%-6u|%+ld|0x%02x|%p|%-7.3s|%c|%#zx|%.3d]", -42, 7, 5000000000, 0xb,
		 (void *)0xdeadbeef, "abcdef", 'x', (size_t)255, -5);
	qev_print(find(q, "all"), v, 9, &b);
	assert_string_equal(b.s, want);
	sbuf_reset(&b);
	snprintf(want, sizeof(want), "%#o %08X %-8ld| %10s %6s %lld%%", 8, 0xfffffffe, -3l, "(nil)", "",
		 (long long)INT64_MIN);
	qev_print(find(q, "other"), w, 6, &b);
	assert_string_equal(b.s, want);
	sbuf_reset(&b);
	qev_print(find(q, "misfit"), v, 2, &b);
	assert_string_equal(b.s, "a=-42 b=7");
	sbuf_reset(&b);
	qev_print(find(q, "unknown"), v + 4, 2, &b);
	assert_string_equal(b.s, "a=3735928559 s=abcdef");
	sbuf_reset(&b);
	assert_true(find(q, "star")->format_usable);
	snprintf(want, sizeof(want), "%*d|%0*lx|", -5, 7, 8, 0xabcl);
	qev_print(find(q, "star"), (struct qev_value[]){ { .num = (uint64_t)-5 }, { .num = 7 }, { .num = 8 },
							 { .num = 0xabc } }, 4, &b);
	assert_string_equal(b.s, want);
	sbuf_reset(&b); /* an absurd width costs no more than the widest */
	qev_print(find(q, "star"), (struct qev_value[]){ { .num = INT32_MAX }, { .num = 7 },
							 { .num = 0x80000000 }, { .num = 1 } }, 4, &b);
	assert_true(b.len > 8000 && b.len < 8300);
	assert_false(find(q, "stars")->format_usable);
	assert_string_equal(qevents_note(q, 0), "line 3: the format does not fit the arguments");
	sbuf_free(&b);
	qevents_free(q);
}

static void check_scan(const struct qev *e, const char *text, const char *want)
{
	struct qev_value v[QEV_MAX_ARGS] = { 0 };
	struct sbuf b = { 0 };

	if (!qev_scan(e, text, strlen(text), v)) {
		assert_null(want);
		return;
	}
	for (size_t i = 0; i < e->nargs; i++) {
		if (v[i].s)
			sbuf_addf(&b, "%.*s,", (int)v[i].len, v[i].s);
		else
			sbuf_addf(&b, "%lld,", (long long)v[i].num);
	}
	assert_string_equal(b.s ? b.s : "", want ? want : "(no match)");
	sbuf_free(&b);
}

static void test_scan(void **state __unused_arg)
{
	struct qevents *q = parse("ops(int cpu, void *mr, uint64_t addr, unsigned size, const char *name) "
				  "\"cpu %d mr %p addr 0x%\"PRIx64\" size %u name '%s'\"\n"
				  "exit_status(const char *result, bool ok) \"%s %d\"\n"
				  "mac(uint8_t a, uint8_t b, int8_t c) \"%02x%02x:%x\"\n"
				  "pad(int a, unsigned b) \"%5d|%-4u|\"\n"
				  "none(void) \"\"\n"
				  "star(int w, uint64_t v, unsigned s) \"0x%0*\"PRIx64\" size %u\"\n"
				  "pct(int a) \"%d%%\"\n");

	check_scan(find(q, "ops"), "cpu -1 mr 0x55aa addr 0xfee00000 size 4 name 'a'b'", "-1,21930,4276092928,4,a'b,");
	check_scan(find(q, "ops"), "cpu 0 mr (nil) addr 0x0 size 4 name ''", "0,0,0,4,,");
	check_scan(find(q, "ops"), "cpu 0 mr (nil) addr 0x0 size 4 name 'cut", NULL);
	check_scan(find(q, "ops"), "cpu 0 mr 0x1 addr 0x11112222333344445 size 4 name ''", NULL);
	check_scan(find(q, "exit_status"), "{\"a b\": 1} 1", "{\"a b\": 1},1,");
	check_scan(find(q, "mac"), "01fe:ffffffff", "1,254,-1,");
	check_scan(find(q, "pad"), "   -7|12  |", "-7,12,");
	check_scan(find(q, "pad"), "   -7|12  |x", NULL);
	check_scan(find(q, "none"), "", "");
	check_scan(find(q, "star"), "0x00ff size 4", "4,255,4,");
	check_scan(find(q, "star"), "0x size 4", NULL);
	check_scan(find(q, "pct"), "5%", "5,");
	qevents_free(q);
}

/* A text that fits nearly everywhere must not be tried for ever. */
static void test_scan_hostile(void **state __unused_arg)
{
	struct qevents *q = parse("evil(char *a, char *b, char *c, char *d, char *e, char *f, int g) "
				  "\"%sa%sa%sa%sa%sa%sab%d\"\n");
	struct qev_value v[QEV_MAX_ARGS];
	static char text[60000];

	memset(text, 'a', sizeof(text));
	assert_false(qev_scan(find(q, "evil"), text, sizeof(text), v));
	qevents_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_declarations),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_scan_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
