/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_stack.c: stacks whose sizes lie, of all word sizes, and kallsyms that
 * anybody may have written.
 */
#include "fmt_fixture.h"

#include <string.h>

#include "kvmft/ksyms.h"

#define STACK_FORMAT(elem, size)                                                                \
	"name: kernel_stack\nID: 4\nformat:\n" COMMON                                           \
	"\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"                                    \
	"\tfield:unsigned long caller[8];\toffset:" elem ";\tsize:" size ";\tsigned:0;\n\n"     \
	"print fmt: \"\\t=> %ps\\n\\t=> %ps\\n\", (void *)REC->caller[0], (void *)REC->caller[1]\n"

static char syms[] = "ffffffff81000000 T outer\n"
		     "ffffffff81000100 t inner\n"
		     "ffffffff81000100 t alias\n"
		     "ffffffff81000200 d data\n"
		     "0000000000000000 T hidden\n"
		     "ffffffffc0000000 t evil\x1b[2J;name\t[k\x07vm]\n"
		     "ffffffffc0000100 t last [kvm]\n"
		     "12345678123456789 t too_long\n"
		     "no line of kallsyms\n"
		     "ffffffffc0000300 t cut";

struct stack_test {
	struct capture c;
	struct fmt *f;
	const struct fmt_event *e;
	uint8_t data[4096];
	struct rec rec;
	struct sbuf b;
};

static void set_up(struct stack_test *t, uint32_t long_size)
{
	memset(t, 0, sizeof(*t));
	t->c = (struct capture){ .long_size = long_size,
				 .kallsyms = syms,
				 .kallsyms_len = strlen(syms) };
	add_format(&t->c, "ftrace", "kernel_stack",
		   long_size == 8 ? STACK_FORMAT("16", "64") : STACK_FORMAT("12", "32"));
	t->f = load(&t->c);
	t->e = fmt_find(t->f, "ftrace", "kernel_stack");
	assert_non_null(t->e);
	assert_true(fmt_is_stack(t->e));
	t->rec = (struct rec){ .data = t->data, .id = 4 };
}

static void tear_down(struct stack_test *t)
{
	sbuf_free(&t->b);
	fmt_free(t->f);
	free_formats(&t->c);
}

static void put(struct stack_test *t, size_t at, size_t size, uint64_t v)
{
	for (size_t i = 0; i < size; i++)
		t->data[at + i] = (uint8_t)(v >> 8 * i);
}

/* A record that says it has `says` addresses, and has n. */
static const char *print(struct stack_test *t, uint32_t says, const uint64_t *addr, size_t n)
{
	size_t at = 8 + t->c.long_size;

	put(t, 8, 4, says);
	for (size_t i = 0; i < n; i++)
		put(t, at + i * t->c.long_size, t->c.long_size, addr[i]);
	t->rec.len = (uint32_t)(at + n * t->c.long_size);
	sbuf_reset(&t->b);
	fmt_print(t->e, &t->rec, &t->b);
	return t->b.s;
}

static void test_names(void **state __unused_arg)
{
	const uint64_t addr[] = { 0xffffffff81000110, 0xffffffff81000005, 0xffffffffc0000150,
				  0x1000, INT32_MAX };
	struct stack_test t;

	set_up(&t, 8);
	assert_string_equal(print(&t, 5, addr, 5),
			    "inner <- outer <- last [kvm] <- 0x1000 <- [FTRACE TRAMPOLINE]");
	/* 1 MiB behind the last function there is none. */
	assert_string_equal(print(&t, 1, &(uint64_t){ 0xffffffffc0200000 }, 1),
			    "0xffffffffc0200000");
	tear_down(&t);
}

/* More stacks than texts are kept of, each twice in a row and again after all others. */
static void test_texts_that_are_kept(void **state __unused_arg)
{
	enum { STACKS = 2000 };
	struct stack_test t;
	char expect[64];

	set_up(&t, 8);
	for (uint64_t k = 0; k < 3 * STACKS; k++) {
		const uint64_t addr[] = { 0xffffffff81000110, 0x1000 + k / 2 % STACKS * 0x10, 7 };

		snprintf(expect, sizeof(expect), "inner <- 0x%llx", (unsigned long long)addr[1]);
		assert_string_equal(print(&t, 2, addr, 3), expect);
		assert_string_equal(print(&t, 1, addr, 2), "inner");
		strcat(expect, " <- 0x7");
		assert_string_equal(print(&t, 3, addr, 3), expect);
		assert_string_equal(print(&t, 0, addr, 3), "-");
	}
	tear_down(&t);
}

static void test_sizes_that_lie(void **state __unused_arg)
{
	const uint64_t addr[] = { 0x10, 0x20, 0x30, UINT64_MAX, 0x50 };
	struct stack_test t;

	set_up(&t, 8);
	assert_string_equal(print(&t, 3, addr, 3), "0x10 <- 0x20 <- 0x30");
	assert_string_equal(print(&t, 2, addr, 3), "0x10 <- 0x20");
	assert_string_equal(print(&t, 4000, addr, 3), "0x10 <- 0x20 <- 0x30");
	assert_string_equal(print(&t, 0x7fffffff, addr, 2), "0x10 <- 0x20");
	assert_string_equal(print(&t, 0xffffffff, addr, 3), "-");
	assert_string_equal(print(&t, 0x80000000, addr, 3), "-");
	assert_string_equal(print(&t, 0, addr, 3), "-");
	assert_string_equal(print(&t, 5, addr, 5), "0x10 <- 0x20 <- 0x30"); /* an old end mark */
	assert_string_equal(print(&t, 8, addr, 0), "-");
	/* cut at every byte: never more than is there */
	for (uint32_t len = 0; len < 40; len++) {
		struct fmt_value v;

		t.rec.len = len;
		fmt_stack(t.e, &t.rec, &v);
		assert_int_equal(v.len, len < 24 ? 0 : MIN((len - 16) / 8, 3u));
	}
	tear_down(&t);
}

static void test_32_bit(void **state __unused_arg)
{
	const uint64_t addr[] = { 0xc1000000, 0xc1000010, UINT32_MAX, 1 };
	struct stack_test t;

	set_up(&t, 4);
	assert_string_equal(print(&t, 4, addr, 4), "0xc1000000 <- 0xc1000010");
	tear_down(&t);
}

static void test_hostile_symbols(void **state __unused_arg)
{
	struct stack_test t;

	set_up(&t, 8);
	assert_string_equal(print(&t, 1, &(uint64_t){ 0xffffffffc0000001 }, 1),
			    "evil?[2J;name [k?vm]");
	tear_down(&t);
}

static void test_levels(void **state __unused_arg)
{
	static const struct {
		uint8_t flags;
		unsigned int level;
	} t[] = { { 0, 0 }, { 0x01, 0 }, { 0x10, 1 }, { 0x18, 2 }, { 0x08, 2 }, { 0x48, 3 } };
	struct capture c = { .long_size = 8 };
	static const struct {
		uint8_t flags, preempt;
		const char *text;
	} context[] = {
		{ 0, 0, "...." },	{ 0x01, 0x01, "d..1" }, { 0x80, 0x10, "b..." },
		{ 0x81, 0x0f, "D..f" }, { 0x04, 0, ".n.." },	{ 0x20, 0, ".p.." },
		{ 0x25, 0x02, "dN.2" }, { 0x08, 0, "..h." },	{ 0x10, 0, "..s." },
		{ 0x18, 0, "..H." },	{ 0x40, 0, "..z." },	{ 0x59, 0x31, "d.Z1" },
	};
	uint8_t data[16] = { 0 };
	const struct rec rec = { .data = data, .len = sizeof(data) };
	struct fmt *f;

	add_format(&c, "kvm", "x",
		   "name: x\nID: 5\nformat:\n"
		   "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		   "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		   "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		   "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n");
	f = load(&c);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		data[2] = t[i].flags;
		assert_int_equal(fmt_level(f, &rec), t[i].level);
	}
	/* As the kernel's own text has it. */
	for (size_t i = 0; i < ARRAY_SIZE(context); i++) {
		char text[FMT_CONTEXT + 1];

		data[2] = context[i].flags;
		data[3] = context[i].preempt;
		fmt_context(f, &rec, text);
		assert_string_equal(text, context[i].text);
	}
	fmt_free(f);
	free_formats(&c);
}

/* Every prefix of the text, in memory of its very size. */
static void test_cut_kallsyms(void **state __unused_arg)
{
	for (size_t n = 0; n <= strlen(syms); n++) {
		char *text = malloc(n ? n : 1);
		struct ksyms k;

		assert_non_null(text);
		memcpy(text, syms, n);
		assert_int_equal(ksyms_parse(&k, text, n), 0);
		for (size_t i = 1; i < k.n; i++)
			assert_true(k.v[i - 1].addr < k.v[i].addr);
		assert_null(ksyms_find(&k, 0));
		assert_null(ksyms_find(&k, UINT64_MAX));
		ksyms_free(&k);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	      cmocka_unit_test(test_sizes_that_lie),
		cmocka_unit_test(test_32_bit),	      cmocka_unit_test(test_hostile_symbols),
		cmocka_unit_test(test_levels),	      cmocka_unit_test(test_cut_kallsyms),
		cmocka_unit_test(test_texts_that_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
