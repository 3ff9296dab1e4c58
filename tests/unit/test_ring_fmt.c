/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_fmt.c: tests of src/ring/fmt*.c: formats and fields, symbol tables, hostile texts.
 */
#include "unit/fmt_fixture.h"

static void test_fields(void **state __unused_arg)
{
	struct capture c = corpus_capture();
	struct fmt *f = load(&c);
	const struct fmt_event *e = fmt_find(f, "sched", "sched_switch");
	uint8_t data[64] = { 0 };
	struct rec rec = { .data = data, .len = sizeof(data) };
	struct fmt_field fld;
	char comm[32];
	uint64_t v = 0;

	assert_non_null(e);
	assert_ptr_equal(fmt_by_id(f, fmt_id(e)), e);
	assert_null(fmt_find(f, "sched", "sched_swatch"));
	assert_string_equal(fmt_field_name(e, 0), "common_type");
	assert_string_equal(fmt_field_name(e, 4), "prev_comm");
	assert_null(fmt_field_name(e, 11));
	assert_false(fmt_field(e, "nonsense", &fld));
	assert_int_equal(fld.size, 0);
	assert_false(fmt_u64(&fld, &rec, &v));

	assert_true(fmt_field(e, "prev_comm", &fld));
	assert_true(fld.is_string && fld.is_array && !fld.is_dynamic);
	memcpy(data + 8, "CPU 0/\033VM", 9);
	assert_true(fmt_str(&fld, &rec, comm, sizeof(comm)));
	assert_string_equal(comm, "CPU 0/?VM");
	assert_true(fmt_str(&fld, &rec, comm, 4));
	assert_string_equal(comm, "CPU");
	memset(data + 8, 'x', 16); /* not terminated */
	assert_true(fmt_str(&fld, &rec, comm, sizeof(comm)));
	assert_int_equal(strlen(comm), 16);

	assert_true(fmt_field(e, "prev_pid", &fld));
	assert_true(fld.is_signed);
	enc_put(data + 24, (uint32_t)-5, 4);
	assert_true(fmt_u64(&fld, &rec, &v));
	assert_int_equal((int64_t)v, -5);
	rec.len = 27; /* the last byte is missing */
	assert_false(fmt_u64(&fld, &rec, &v));
	enc_put(data + 4, 4711, 4);
	data[2] = 0x10;
	data[3] = 3;
	assert_int_equal(fmt_pid(f, &rec), 4711);
	assert_int_equal(fmt_flags(f, &rec), 0x10);
	assert_int_equal(fmt_preempt(f, &rec), 3);
	rec.len = 7;
	assert_int_equal(fmt_pid(f, &rec), -1);
	fmt_free(f);
	free_formats(&c);
}

static void test_dynamic_string(void **state __unused_arg)
{
	struct capture c = corpus_capture();
	struct fmt *f = load(&c);
	const struct fmt_event *e = fmt_find(f, "irq", "irq_handler_entry");
	uint8_t data[32] = { 0 };
	struct rec rec = { .data = data, .len = 24 };
	struct fmt_field fld;
	char buf[32];

	assert_true(fmt_field(e, "name", &fld));
	assert_true(fld.is_dynamic && fld.is_string);
	memcpy(data + 16, "virtio0", 8);
	enc_put(data + fld.off, 8u << 16 | 16, 4);
	assert_true(fmt_str(&fld, &rec, buf, sizeof(buf)));
	assert_string_equal(buf, "virtio0");
	enc_put(data + fld.off, 9u << 16 | 16, 4); /* one byte behind the record */
	assert_false(fmt_str(&fld, &rec, buf, sizeof(buf)));
	enc_put(data + fld.off, 1u << 16 | 25, 4);
	assert_false(fmt_str(&fld, &rec, buf, sizeof(buf)));
	enc_put(data + fld.off, 0u << 16 | 24, 4);
	assert_true(fmt_str(&fld, &rec, buf, sizeof(buf)));
	assert_string_equal(buf, "");
	fmt_free(f);
	free_formats(&c);
}

/* What was written to trace_marker: all the rest of the record, without its newline and filling. */
static void test_marker(void **state __unused_arg)
{
	static const char format[] =
		"name: print\nID: 5\nformat:\n"
		"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
		"\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
		"\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n"
		"print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n";
	static const struct {
		const char *bytes;
		uint32_t len;
		const char *want;
	} row[] = {
		{ "a_b x\n\0\0", 8, "a_b x" }, { "a_b x\n", 6, "a_b x" }, { "a\nb\n\0", 5, "a?b" },
		{ "\n\0\0", 4, "" },	       { "", 0, "" },	      { "\033[2J", 4, "?[2J" },
		{ "no end", 6, "no end" },
	};
	struct capture c = { .long_size = 8 };
	struct fmt *f;

	add_format(&c, "ftrace", "print", format);
	f = load(&c);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint8_t *data = calloc(1, 16 + row[i].len);
		struct rec rec = { .data = data, .len = 16 + row[i].len };
		struct sbuf out = { 0 };

		assert_non_null(data);
		memcpy(data + 16, row[i].bytes, row[i].len);
		sbuf_add(&out, "");
		fmt_print(fmt_find(f, "ftrace", "print"), &rec, &out);
		assert_string_equal(out.s, row[i].want);
		rec.len = 12; /* the field begins behind the record */
		sbuf_reset(&out);
		fmt_print(fmt_find(f, "ftrace", "print"), &rec, &out);
		sbuf_free(&out);
		free(data);
	}
	fmt_free(f);
	free_formats(&c);
}

static void test_symbols(void **state __unused_arg)
{
	struct capture c = corpus_capture();
	const struct fmt_event *e;
	struct fmt *f;

	add_format(&c, "t", "strange",
		   "name: strange\nID: 60000\nformat:\n" COMMON
		   "\tfield:u32 r;\toffset:8;\tsize:4;\tsigned:0;\n"
		   "\tfield:u64 w;\toffset:16;\tsize:8;\tsigned:0;\n\n"
		   "print fmt: \"a, { 1, \\\"no\\\" } %s %s %s\", "
		   "__print_symbolic((REC->r & (0xff)) , { -1, \"minus\" }, { (1 << 4) | 2, \"or\" },"
		   " { 1 + 2 << 5, \"sum\" },"
		   " { NAME, \"enum\" }, {0x5u,\"five\"}, {5, \"again\"}, { 6, \"in \" \"two\" }), "
		   "unknown_func(REC->w), __print_symbolic(REC->r, { 1, \"second\" }), "
		   "__print_symbolic(REC->w, { -1, \"wide\" }\n");
	f = load(&c);
	e = fmt_find(f, "kvm", "kvm_exit");
	assert_string_equal(fmt_symbol(e, "exit_reason", 0, 12), "HLT");
	assert_string_equal(fmt_symbol(e, "exit_reason", 0, 48), "EPT_VIOLATION");
	assert_string_equal(fmt_symbol(e, "exit_reason", 1, 0x78), "hlt");
	assert_string_equal(fmt_symbol(e, "exit_reason", 1, 0x400), "npf");
	assert_string_equal(fmt_symbol(e, "exit_reason", 1, 0x4e), "PF excp"); /* 0x040 + 14 */
	assert_string_equal(fmt_symbol(e, "exit_reason", 1, 0xffffffff), "invalid_guest_state");
	assert_null(fmt_symbol(e, "exit_reason", 0, 12345));
	assert_null(fmt_symbol(e, "exit_reason", 7, 1));
	assert_null(fmt_symbol(e, "isa", 0, 1));
	e = fmt_find(f, "t", "strange");
	assert_non_null(e);
	assert_string_equal(fmt_symbol(e, "r", 0, UINT64_MAX), "minus");
	assert_string_equal(fmt_symbol(e, "r", 0, 0x12), "or");
	assert_string_equal(fmt_symbol(e, "r", 0, 0x60), "sum");
	assert_string_equal(fmt_symbol(e, "r", 0, 5), "five");
	assert_string_equal(fmt_symbol(e, "r", 0, 6), "in two");
	assert_string_equal(fmt_symbol(e, "r", 1, 1), "second");
	assert_string_equal(fmt_symbol(e, "w", 0, UINT64_MAX), "wide");
	assert_null(fmt_symbol(e, "w", 0, 0xffffffff));
	fmt_free(f);
	free_formats(&c);
}

/* Each is refused alone, with a note; its neighbours stay. */
static void test_refused(void **state __unused_arg)
{
	static const char *const text[] = {
		"",
		"name: bad\nformat:\n" COMMON,
		"name: bad\nID: 0\nformat:\n" COMMON,
		"name: bad\nID: 70000\nformat:\n" COMMON,
		"name: other\nID: 9\nformat:\n" COMMON,
		"name: bad\nID: 9\nformat:\n\tfield:u16 common_type;\toffset:2;\tsize:2;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:u8 x;\toffset:65535;\tsize:8;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:u8 x;\toffset:99999999999;\tsize:8;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:;\toffset:8;\tsize:8;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:u8 x]\toffset:8;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:__data_loc char[] x;\toffset:8;\tsize:8;\n",
		"name: bad\nID: 9\nformat:\n" COMMON "\tfield:\033 x;\toffset:8;\tsize:8;\n",
	};
	struct capture c = { .long_size = 8 };
	const struct fmt_event *e;
	struct fmt *f;
	size_t i;

	add_format(&c, "s", "good", "name: good\nID: 8\nformat:\n" COMMON);
	for (i = 0; i < ARRAY_SIZE(text); i++)
		add_format(&c, "s", "bad", text[i]);
	add_format(&c, "s", "same", "name: same\nID: 8\nformat:\n" COMMON);
	f = load(&c);
	e = fmt_by_id(f, 8); /* the first one wins */
	assert_string_equal(fmt_name(e), "good");
	assert_null(fmt_at(f, 1));
	fmt_free(f);
	free_formats(&c);
}

/* Broken records: short ones, dynamic fields that point outside. No byte outside is touched. */
static void test_hostile_records(void **state __unused_arg)
{
	struct capture c = corpus_capture();
	struct fmt *f = load(&c);
	unsigned int seed = 3, round;
	const struct fmt_event *e;
	size_t i, k;

	for (i = 0; (e = fmt_at(f, i)); i++) {
		for (round = 0; round < 20; round++) {
			uint32_t len = 2 + (uint32_t)rand_r(&seed) % 120;
			uint8_t *data = malloc(len); /* exact: the sanitizer guards its end */
			struct rec rec = { .data = data, .len = len, .id = fmt_id(e) };
			struct sbuf out = { 0 };

			for (k = 0; k < len; k++)
				data[k] = (uint8_t)rand_r(&seed);
			fmt_print(e, &rec, &out);
			for (k = 0; k < out.len; k++)
				assert_true((uint8_t)out.s[k] >= ' ');
			sbuf_reset(&out);
			fmt_print_fields(e, &rec, &out);
			sbuf_free(&out);
			free(data);
		}
	}
	fmt_free(f);
	free_formats(&c);
}

/* Fields that libtraceevent would stumble over are read all the same, and the print format is used. */
static void test_declarations(void **state __unused_arg)
{
	static const char *const t[] = {
		"unsigned long a", "u8 a[sizeof(struct in6_addr)]", "const char * a",
		"un{igned long a", "u64 \"x\" a", "u64] a",
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct capture c = { .long_size = 8 };
		const struct fmt_event *e;
		struct fmt_field fld;
		struct sbuf b = { 0 };
		struct fmt *f;

		sbuf_addf(&b, "name: x\nID: 7\nformat:\n"
			  "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
			  "\tfield:%s;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"x\"\n", t[i]);
		add_format(&c, "kvm", "x", b.s);
		f = load(&c);
		e = fmt_find(f, "kvm", "x");
		assert_non_null(e);
		assert_true(fmt_field(e, "a", &fld));
		assert_true(fmt_has_plan(e));
		fmt_free(f);
		free_formats(&c);
		sbuf_free(&b);
	}
}

/* Sizes that no number has: such fields count as 0, wherever a print format uses them. */
static void test_odd_sizes(void **state __unused_arg)
{
	static const struct {
		const char *decl;
		unsigned int size;
	} t[] = {
		{ "struct big a", 16 }, { "struct big a", 12 }, { "struct none a", 0 }, { "struct odd a", 3 },
		{ "struct huge a", 256 }, { "u64 a[2]", 48 }, { "u64 a[1]", 3 },
	};
	uint8_t data[512];
	struct rec rec = { .data = data, .len = sizeof(data), .id = 7 };

	memset(data, 0xff, sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct capture c = { .long_size = 8 };
		struct sbuf b = { 0 }, out = { 0 };
		struct fmt *f;

		sbuf_addf(&b, "name: x\nID: 7\nformat:\n"
			  "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
			  "\tfield:%s;\toffset:8;\tsize:%u;\tsigned:1;\n\n"
			  "print fmt: \"%%5d %%d %%d\", REC->a%s, REC->a%s + 1, REC->a%s < 0 ? 1 : REC->a%s\n",
			  t[i].decl, t[i].size, i == 5 ? "[0]" : "", i == 5 ? "[1]" : "",
			  i == 5 ? "[0]" : "", i == 5 ? "[0]" : "");
		add_format(&c, "kvm", "x", b.s);
		f = load(&c);
		assert_true(fmt_has_plan(fmt_find(f, "kvm", "x")));
		fmt_print(fmt_find(f, "kvm", "x"), &rec, &out);
		assert_string_equal(out.s, "    0 1 0");
		fmt_free(f);
		free_formats(&c);
		sbuf_free(&b);
		sbuf_free(&out);
	}
}

/* libtraceevent 1.7.1 divides while it parses, by 0 too; strings must end. */
static void test_not_handed_over(void **state __unused_arg)
{
	static const char *const print[] = {
		"\"%d\", 5 / 0", "\"%d\", 1 ? 5 % (1 - 1) : 2", "\"%s\", __print_hex(REC->a, 4 / 0)",
		"\"%s\", __print_symbolic(REC->a[0], { 5 / 0, \"x\" })",
		"\"the last quote belongs to the text \\\"", "\"x\" \"y\\",
	};

	for (size_t i = 0; i < ARRAY_SIZE(print); i++) {
		struct capture c = { .long_size = 8 };
		struct sbuf b = { 0 };
		struct fmt *f;

		sbuf_addf(&b, "name: x\nID: 7\nformat:\n" COMMON
			  "\tfield:u8 a[4];\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: %s\n", print[i]);
		add_format(&c, "kvm", "x", b.s);
		f = load(&c);
		assert_false(fmt_has_plan(fmt_find(f, "kvm", "x")));
		assert_null(fmt_symbol(fmt_find(f, "kvm", "x"), "a", 0, 0));
		fmt_free(f);
		free_formats(&c);
		sbuf_free(&b);
	}
}

/* Damaged format texts must cost their event at most. */
static void test_mutated_formats(void **state __unused_arg)
{
	unsigned int seed = 11, rounds = getenv("KVMFT_MUTATE") ? (unsigned int)atoi(getenv("KVMFT_MUTATE")) : 1500;
	const char *sys, *name, *text;
	unsigned int round;
	uint8_t *data = calloc(1, 256);
	size_t total = 0;

	while (enc_format_at(total, &sys, &name))
		total++;
	for (round = 0; round < rounds; round++) {
		struct capture c = { .long_size = 8 };
		const struct fmt_event *e;
		struct rec rec = { .data = data, .len = 256 };
		struct sbuf out = { 0 };
		struct fmt *f;
		unsigned int k, n = 1 + (unsigned int)rand_r(&seed) % 4;
		char *t;

		text = enc_format_at((size_t)rand_r(&seed) % total, &sys, &name);
		add_format(&c, sys, name, text);
		t = c.format[0].text;
		for (k = 0; k < n; k++) {
			static const char likely[] = "(){}[]\"\\,%?:0-9*&|<>;.\n \t";
			size_t at = (size_t)rand_r(&seed) % c.format[0].len;

			t[at] = (char)(' ' + rand_r(&seed) % 95);
			if (rand_r(&seed) % 2)
				t[at] = likely[(size_t)rand_r(&seed) % (sizeof(likely) - 1)];
		}
		f = load(&c);
		e = fmt_at(f, 0);
		if (e)
			fmt_print(e, &rec, &out);
		sbuf_free(&out);
		fmt_free(f);
		free_formats(&c);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_dynamic_string),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_marker),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hostile_records),
		cmocka_unit_test(test_declarations),
		cmocka_unit_test(test_odd_sizes),
		cmocka_unit_test(test_not_handed_over),
		cmocka_unit_test(test_mutated_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
