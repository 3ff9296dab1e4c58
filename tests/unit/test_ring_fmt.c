/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ring_fmt.c: tests of src/ring/fmt*.c: formats and fields, symbol tables, hostile texts, that
 * events print as tep_print_event() prints them, and as the kernel does where the two differ.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>

#include <cmocka.h>
#include <event-parse.h>

#define REC_MAX 65536

/* libtraceevent leaks what it built of a print format that it then refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libtraceevent";
}

/* A capture that holds nothing but formats. */
static void add_format(struct capture *c, const char *sys, const char *name, const char *text)
{
	struct cap_format *f = array_grow(&c->format, c->nformat, &c->format_cap, sizeof(*f));

	assert_non_null(f);
	f->sys = strdup(sys);
	f->name = strdup(name);
	f->text = strdup(text);
	f->len = strlen(text);
	c->nformat++;
}

static void free_formats(struct capture *c)
{
	size_t i;

	for (i = 0; i < c->nformat; i++) {
		free(c->format[i].sys);
		free(c->format[i].name);
		free(c->format[i].text);
	}
	free(c->format);
}

static struct fmt *load(struct capture *c)
{
	struct kvmft_err err = { 0 };
	struct fmt *f = NULL;

	assert_int_equal(fmt_load(c, &f, &err), 0);
	return f;
}

static struct capture corpus_capture(bool big)
{
	struct capture c = { .long_size = 8, .big_endian = big };
	const char *sys, *name, *text;
	size_t i;

	for (i = 0; (text = enc_format_at(i, &sys, &name)); i++)
		add_format(&c, sys, name, text);
	return c;
}

static void test_fields(void **state __unused_arg)
{
	struct capture c = corpus_capture(false);
	struct fmt *f = load(&c);
	const struct fmt_event *e = fmt_find(f, "sched", "sched_switch");
	uint8_t data[64] = { 0 };
	struct rec rec = { .data = data, .len = sizeof(data) };
	struct fmt_field fld;
	char comm[32];
	uint64_t v;

	assert_non_null(e);
	assert_null(fmt_note(f, 0));
	assert_ptr_equal(fmt_by_id(f, fmt_id(e)), e);
	assert_null(fmt_find(f, "sched", "sched_swatch"));
	assert_string_equal(fmt_field_name(e, 0), "common_type");
	assert_string_equal(fmt_field_name(e, 4), "prev_comm");
	assert_null(fmt_field_name(e, 11));
	assert_false(fmt_field(e, "nonsense", &fld));
	assert_int_equal(fld.size, 0);
	assert_false(fmt_u64(f, &fld, &rec, &v));

	assert_true(fmt_field(e, "prev_comm", &fld));
	assert_true(fld.is_string && fld.is_array && !fld.is_dynamic);
	memcpy(data + 8, "CPU 0/\033VM", 9);
	assert_true(fmt_str(f, &fld, &rec, comm, sizeof(comm)));
	assert_string_equal(comm, "CPU 0/?VM");
	assert_true(fmt_str(f, &fld, &rec, comm, 4));
	assert_string_equal(comm, "CPU");
	memset(data + 8, 'x', 16); /* not terminated */
	assert_true(fmt_str(f, &fld, &rec, comm, sizeof(comm)));
	assert_int_equal(strlen(comm), 16);

	assert_true(fmt_field(e, "prev_pid", &fld));
	assert_true(fld.is_signed);
	enc_put(data + 24, false, (uint32_t)-5, 4);
	assert_true(fmt_u64(f, &fld, &rec, &v));
	assert_int_equal((int64_t)v, -5);
	rec.len = 27; /* the last byte is missing */
	assert_false(fmt_u64(f, &fld, &rec, &v));
	enc_put(data + 4, false, 4711, 4);
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
	struct capture c = corpus_capture(false);
	struct fmt *f = load(&c);
	const struct fmt_event *e = fmt_find(f, "irq", "irq_handler_entry");
	uint8_t data[32] = { 0 };
	struct rec rec = { .data = data, .len = 24 };
	struct fmt_field fld;
	char buf[32];

	assert_true(fmt_field(e, "name", &fld));
	assert_true(fld.is_dynamic && fld.is_string);
	memcpy(data + 16, "virtio0", 8);
	enc_put(data + fld.off, false, 8u << 16 | 16, 4);
	assert_true(fmt_str(f, &fld, &rec, buf, sizeof(buf)));
	assert_string_equal(buf, "virtio0");
	enc_put(data + fld.off, false, 9u << 16 | 16, 4); /* one byte behind the record */
	assert_false(fmt_str(f, &fld, &rec, buf, sizeof(buf)));
	enc_put(data + fld.off, false, 1u << 16 | 25, 4);
	assert_false(fmt_str(f, &fld, &rec, buf, sizeof(buf)));
	enc_put(data + fld.off, false, 0u << 16 | 24, 4);
	assert_true(fmt_str(f, &fld, &rec, buf, sizeof(buf)));
	assert_string_equal(buf, "");
	fmt_free(f);
	free_formats(&c);
}

#define COMMON                                                         \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

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
		fmt_print(f, fmt_find(f, "ftrace", "print"), &rec, &out);
		assert_string_equal(out.s, row[i].want);
		rec.len = 12; /* the field begins behind the record */
		sbuf_reset(&out);
		fmt_print(f, fmt_find(f, "ftrace", "print"), &rec, &out);
		sbuf_free(&out);
		free(data);
	}
	fmt_free(f);
	free_formats(&c);
}

static void test_symbols(void **state __unused_arg)
{
	struct capture c = corpus_capture(false);
	const struct fmt_event *e;
	struct fmt *f;

	add_format(&c, "t", "strange",
		   "name: strange\nID: 60000\nformat:\n" COMMON
		   "\tfield:u32 r;\toffset:8;\tsize:4;\tsigned:0;\n"
		   "\tfield:u64 w;\toffset:16;\tsize:8;\tsigned:0;\n\n"
		   "print fmt: \"a, { 1, \\\"no\\\" } %s %s %s\", "
		   "__print_symbolic((REC->r & (0xff)) , { -1, \"minus\" }, { (1 << 4) | 2, \"or\" },"
		   " { 1 + 2 << 5, \"sum\" },"
		   " { NAME, \"enum\" }, {0x5u,\"five\"}, {5, \"again\"}), "
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
	for (i = 0; i < ARRAY_SIZE(text) + 1; i++)
		assert_non_null(fmt_note(f, i));
	assert_null(fmt_note(f, i));
	e = fmt_by_id(f, 8); /* the first one wins */
	assert_string_equal(fmt_name(e), "good");
	assert_null(fmt_at(f, 1));
	fmt_free(f);
	free_formats(&c);
}

/* ---- printing ---- */

/* Random bytes in which every dynamic field points to a string inside the record. */
static uint32_t random_record(uint8_t *data, const struct fmt_event *e, unsigned int *seed,
			      unsigned int round, bool big)
{
	bool small = round % 4 == 1;
	struct fmt_field fld;
	uint32_t len = 0, i;
	const char *name;

	for (i = 0; (name = fmt_field_name(e, i)); i++) {
		fmt_field(e, name, &fld);
		len = MAX(len, (uint32_t)fld.off + fld.size);
	}
	len = (len + 3) & ~3u;
	memset(data, 0, REC_MAX);
	for (i = 0; i < len; i++)
		data[i] = round % 4 == 2 ? 0xff : (uint8_t)(small ? rand_r(seed) & 3 : rand_r(seed));
	for (i = 0; (name = fmt_field_name(e, i)); i++) {
		uint32_t n = small ? 32 : 1 + (uint32_t)rand_r(seed) % 12, k;

		fmt_field(e, name, &fld);
		if (fld.is_string && !fld.is_dynamic && fld.size)
			for (k = 0; k < fld.size; k++)
				data[fld.off + k] = (uint8_t)('a' + rand_r(seed) % 26);
		if (small && !fld.is_array && fld.size <= 8)
			enc_put(data + fld.off, big, (uint64_t)rand_r(seed) & 3, fld.size);
		if (!fld.is_dynamic)
			continue;
		enc_put(data + fld.off, big, n << 16 | len, 4);
		for (k = 0; k + 1 < n; k++)
			data[len + k] = (uint8_t)(' ' + rand_r(seed) % 90);
		data[len + n - 1] = 0;
		len = (len + n + 3) & ~3u;
	}
	enc_put(data, big, fmt_id(e), 2);
	return len;
}

static struct tep_handle *tep_of(const struct capture *c)
{
	struct tep_handle *tep = tep_alloc();
	size_t i;

	tep_set_flag(tep, TEP_DISABLE_PLUGINS | TEP_DISABLE_SYS_PLUGINS);
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(tep, 8);
	tep_set_local_bigendian(tep, tep_is_bigendian() ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	tep_set_file_bigendian(tep, c->big_endian ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	for (i = 0; i < c->nformat; i++)
		tep_parse_event(tep, c->format[i].text, c->format[i].len, c->format[i].sys);
	return tep;
}

static const char *format_text(const struct capture *c, const struct fmt_event *e)
{
	size_t i;

	for (i = 0; i < c->nformat; i++)
		if (!strcmp(c->format[i].name, fmt_name(e)) && !strcmp(c->format[i].sys, fmt_sys(e)))
			return c->format[i].text;
	return "";
}

/*
 * Events that libtraceevent prints otherwise than the kernel, and how; each such print has a test
 * of its own below. The others of this kind are found by their print format.
 */
static bool tep_is_wrong(const struct fmt_event *e, const char *print)
{
	static const char *const name[] = {
		"kvm_pic_set_irq",	 /* 1 << pin is an int: the distance counts modulo 32 */
		"kvm_pvclock_update",	 /* %d of an __s8 */
		"kvm_mmu_set_spte",	 /* a signed char == -1 */
		"kvm_userspace_exit",	 /* errno < 0 */
		"kvm_wait_lapic_expire", /* delta < 0 */
		"kvm_nested_vmenter",	 /* a ? b : c ? d : e */
		"hrtimer_setup",	 /* a negative value that has no name */
		"tick_stop",
		"timer_start",		 /* a & (b | c) */
		"itimer_state",		 /* a negative long divided */
		"sched_skip_cpuset_numa", /* %*pbl: the bytes of the field against "(nil)bl" */
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(name); i++)
		if (!strcmp(fmt_name(e), name[i]))
			return true;
	return strstr(print, "%#"); /* 0x0 */
}

struct how {
	unsigned int rounds;
	bool must_print;    /* by plan: say which ones are not */
	bool small;	    /* only what libtraceevent gets right in formats that nobody listed */
	const char *except; /* an event to leave out */
};

/* Prints random records of every event both ways; returns events not printed by plan. */
static unsigned int compare(const struct capture *c, const struct how *how)
{
	struct fmt *f = NULL;
	struct kvmft_err err = { 0 };
	struct tep_handle *tep = tep_of(c);
	uint8_t *data = malloc(REC_MAX);
	unsigned int seed = 7, round, fallback = 0, same = 0;
	const struct fmt_event *e;
	struct trace_seq s;
	size_t i;

	assert_int_equal(fmt_load(c, &f, &err), 0);
	trace_seq_init(&s);
	for (i = 0; (e = fmt_at(f, i)); i++) {
		struct tep_event *te = tep_find_event(tep, fmt_id(e));
		if (!te || te->flags & (int)TEP_EVENT_FL_FAILED)
			continue;
		const char *print = strstr(format_text(c, e), "print fmt:");

		if (!print || tep_is_wrong(e, print) || (how->except && !strcmp(fmt_name(e), how->except)))
			continue;
		if (!fmt_has_plan(f, e)) { /* what kvmft refuses may well crash the other side */
			fallback++;
			if (how->must_print)
				print_error("%s:%s prints fields\n", fmt_sys(e), fmt_name(e));
			continue;
		}
		/*
		 * libtraceevent follows lengths from the record past its end, and a negative
		 * precision into undefined behaviour: such events get small numbers only.
		 */
		bool tame = how->small || strstr(print, "*") || strstr(print, "__print_hex") ||
			    strstr(print, "__print_array");

		for (round = 0; round < how->rounds; round++) {
			uint32_t len = random_record(data, e, &seed, tame ? 1 : round,
						     c->big_endian);
			struct tep_record tr = { .data = data, .size = (int)len, .record_size = (int)len };
			struct rec rec = { .data = data, .len = len, .id = fmt_id(e) };
			struct sbuf out = { 0 };

			fmt_print(f, e, &rec, &out);
			trace_seq_reset(&s);
			tep_print_event(tep, &s, &tr, "%s", TEP_PRINT_INFO);
			trace_seq_terminate(&s);
			str_printable(s.buffer);
			same++;
			if (strcmp(out.s ? out.s : "", s.buffer)) {
				print_error("%s:%s\nkvmft: %s\ntep:   %s\n", fmt_sys(e), fmt_name(e),
					    out.s, s.buffer);
				fail();
			}
			sbuf_free(&out);
		}
	}
	print_message("[     INFO ] %zu events, %u records alike, %u events by fields only\n", i, same,
		      fallback);
	trace_seq_destroy(&s);
	free(data);
	fmt_free(f);
	tep_free(tep);
	return fallback;
}

static void test_print_like_tep(void **state __unused_arg)
{
	struct capture c = corpus_capture(false);

	/* kvm_apicv_inhibit_changed: 1UL << NAME, and the format does not tell the value of NAME */
	assert_int_equal(compare(&c, &(struct how){ .rounds = 40, .must_print = true }), 1);
	free_formats(&c);
}

static void test_print_like_tep_swapped(void **state __unused_arg)
{
	struct capture c = corpus_capture(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	/* action=%s of a pointer: libtraceevent forgets to swap it */
	assert_int_equal(compare(&c, &(struct how){ .rounds = 10, .except = "suspend_resume" }), 1);
	free_formats(&c);
}

/* One event of the corpus with some fields set (the others are 0), and what the kernel prints. */
struct printed {
	const char *sys, *name;
	struct {
		const char *field;
		int64_t value;
	} set[4];
	const char *want;
};

static void check_printed(const struct fmt *f, bool big, const struct printed *t)
{
	const struct fmt_event *e = fmt_find(f, t->sys, t->name);
	uint8_t data[256] = { 0 };
	struct rec rec = { .data = data, .len = sizeof(data) };
	struct sbuf out = { 0 };
	struct fmt_field fld;
	size_t k;

	assert_non_null(e);
	assert_true(fmt_has_plan(f, e));
	for (k = 0; k < ARRAY_SIZE(t->set) && t->set[k].field; k++) {
		assert_true(fmt_field(e, t->set[k].field, &fld));
		enc_put(data + fld.off, big, (uint64_t)t->set[k].value, fld.size);
	}
	rec.id = fmt_id(e);
	fmt_print(f, e, &rec, &out);
	assert_string_equal(out.s, t->want);
	sbuf_free(&out);
}

static void test_print_like_kernel(void **state __unused_arg)
{
	static const struct printed list[] = {
		{ "kvm", "kvm_userspace_exit", { { "errno", -4 }, { "reason", 10 } },
		  "reason restart (4)" },
		{ "kvm", "kvm_userspace_exit", { { "errno", -14 } }, "reason error (14)" },
		{ "kvm", "kvm_userspace_exit", { { "reason", 2 } }, "reason KVM_EXIT_IO (2)" },
		{ "kvm", "kvm_wait_lapic_expire", { { "vcpu_id", 3 }, { "delta", -5 } },
		  "vcpu 3: delta -5 (early)" },
		{ "kvm", "kvm_wait_lapic_expire", { { "delta", 5 } }, "vcpu 0: delta 5 (late)" },
		{ "kvm", "kvm_inj_exception", { { "exception", 14 }, { "has_error", 1 },
		  { "error_code", 2 }, { "reinjected", 1 } }, "#PF (0x2) [reinjected]" },
		{ "kvm", "kvm_inj_exception", { { "exception", 6 } }, "#UD" },
		{ "kvm", "kvm_inj_exception", { { "exception", 99 } }, "0x63" },
		{ "kvm", "kvm_pvclock_update", { { "tsc_shift", -1 } },
		  "vcpu_id 0, pvclock { version 0, tsc_timestamp 0x0, system_time 0x0, "
		  "tsc_to_system_mul 0x0, tsc_shift -1, flags 0x0 }" },
		{ "kvm", "kvm_pic_set_irq", { { "pin", 33 }, { "elcr", 2 } }, "chip 0 pin 33 (level)" },
		{ "kvm", "kvm_try_async_get_page", { { "gfn", 0x1f } }, "gva = 0x0, gfn = 0x1f" },
		{ "kvm", "kvm_unmap_hva_range", { { "end", 0x1000 } },
		  "mmu notifier unmap range: 0x00000000000000 -- 0x00000000001000" },
		{ "kvm", "kvm_nested_vmenter", { { "tdp_enabled", 1 }, { "isa", 1 } },
		  "rip: 0x0000000000000000 vmcs: 0x0000000000000000 nested_rip: 0x0000000000000000 "
		  "int_ctl: 0x00000000 event_inj: 0x00000000 nested_ept=y nested_eptp: "
		  "0x0000000000000000" },
		{ "kvm", "kvm_nested_vmenter", { { "isa", 2 }, { "guest_pgd", 4096 } },
		  "rip: 0x0000000000000000 vmcb: 0x0000000000000000 nested_rip: 0x0000000000000000 "
		  "int_ctl: 0x00000000 event_inj: 0x00000000 nested_npt=n guest_cr3: "
		  "0x0000000000001000" },
		{ "sched", "sched_switch", { { "prev_pid", -1 }, { "prev_prio", 120 },
		  { "prev_state", 2 } },
		  "prev_comm= prev_pid=-1 prev_prio=120 prev_state=D ==> next_comm= next_pid=0 "
		  "next_prio=0" },
		{ "timer", "timer_start", { { "flags", 0x140003 } },
		  "timer=(nil) function=0x0 expires=0 [timeout=0] bucket_expiry=0 cpu=3 idx=0 "
		  "flags=M|P" },
		{ "timer", "tick_stop", { { "success", -1 }, { "dependency", -2 } },
		  "success=-1 dependency=0xfffffffffffffffe" },
		{ "timer", "itimer_state", { { "value_sec", -1 }, { "value_nsec", -2500 } },
		  "which=0 expires=0 it_value=-1.-00002 it_interval=0.000000" },
	};
	size_t i, big;

	for (big = 0; big < 2; big++) {
		struct capture c = corpus_capture(big);
		struct fmt *f = load(&c);

		for (i = 0; i < ARRAY_SIZE(list); i++)
			check_printed(f, big, &list[i]);
		fmt_free(f);
		free_formats(&c);
	}
}

#define ARITHMETIC                                                      \
	"name: sums\nID: 60001\nformat:\n" COMMON                       \
	"\tfield:s8 b;\toffset:8;\tsize:1;\tsigned:1;\n"                \
	"\tfield:u32 u;\toffset:12;\tsize:4;\tsigned:0;\n"              \
	"\tfield:s32 s;\toffset:16;\tsize:4;\tsigned:1;\n"              \
	"\tfield:s64 l;\toffset:24;\tsize:8;\tsigned:1;\n\nprint fmt: "

/* The conversions of C, with b = -3, u = 7, s = -9, l = INT64_MIN. */
static void test_arithmetic(void **state __unused_arg)
{
	static const struct {
		const char *print, *want;
	} list[] = {
		{ "\"%d %lld\", REC->s / 2, REC->l / 0x10", "-4 -576460752303423488" },
		{ "\"%d %d\", REC->s % 4, REC->s >> 1", "-1 -5" },
		{ "\"%d %d\", REC->s < REC->u, REC->b < 7", "0 1" }, /* int against u32, int */
		{ "\"%d %d\", REC->l < REC->u, REC->b < REC->s", "1 0" },
		{ "\"%llx\", (u64)REC->s", "fffffffffffffff7" },
		{ "\"%llx\", (unsigned long long)(u32)REC->s", "fffffff7" },
		{ "\"%lld\", (long long)(REC->u - 8)", "4294967295" },
		{ "\"%llx\", (u64)(s8)(REC->u + 0xf8)", "ffffffffffffffff" },
		{ "\"%llx %llx\", (u64)(~REC->b), (u64)(~REC->u)", "2 fffffff8" },
		{ "\"%d %d\", !REC->b, -REC->b", "0 3" },
		{ "\"%d %d\", REC->u & (1 | 4 | 8), REC->u * (REC->s + 2)", "5 -49" },
		{ "\"%d %d\", 2 * 3 + 4 * 5, 1 << 2 + 1 == 8 && 1 | 6 & 3", "26 1" },
		{ "\"%d %d\", REC->u - 3 - 2, 7 - 3 + 2", "2 6" },
		{ "\"%d %d\", 64 / 4 / 2 * 3, (REC->u - 8) * 2", "24 -2" },
		{ "\"%d %d\", 1 + 2 * 3 - 4, 7 - 2 * 3 - 4", "3 -3" },
		{ "\"%d %d\", 2 * 3 + 4 * 5, 1 << 3 == 8 && 1 | 6 & 3", "26 1" },
		{ "\"%d %d\", REC->u + 1 + 2 > 10 ? 4 : 5, REC->u || REC->b == 2 ? 1 : 2", "5 1" },
		{ "\"%s\", 1 < 2 ? REC->u == 1 ? \"a\" : \"b?:,)\" : \"c\"", "b?:,)" },
		{ "\"%d\", (int)(void *)(unsigned long)REC->u-1-1", "5" },
		{ "\"%d\", 2 * (1 + (3 - (2 + REC->b))) - (REC->u - 6)", "9" },
		{ "\"%lld\", REC->l / (REC->b + 2)", "-9223372036854775808" },
		{ "\"%d\", REC->u / (REC->b + 3)", "0" },
		{ "\"%s\", REC->s > 0 ? \"a\" : REC->b > 0 ? \"b\" : REC->u > 6 ? \"c\" : \"d\"", "c" },
		{ "\"%d\", REC->s < 0 ? REC->u < 6 ? 1 : 2 : 3", "2" },
		{ "\"%s\", REC->b == -3 ? \"y\" : (REC->b ? \"n\" : \"-\")", "y" },
		{ "\"%s\", __print_symbolic(REC->b, { -2, \"two\" }, { -3, \"three\" })", "three" },
		{ "\"%s\", __print_symbolic(REC->b + 2, { NAME, \"x\" })", "0xffffffffffffffff" },
		{ "\"%s\", __print_symbolic(REC->u, { 1, \"x\" }, { }, { 7, \"y\" })", "0x7" },
		{ "\"[%s]\", __print_flags(REC->u - 7, \"|\", { NAME, \"x\" })", "[]" },
		{ "\"%s\", __print_flags(REC->u, \"|\", { 3, \"x\" }, { 1, \"y\" })", "x|0x4" },
	};
	uint8_t data[32] = { 0 };
	struct rec rec = { .data = data, .len = sizeof(data), .id = 60001 };
	size_t i;

	data[8] = (uint8_t)-3;
	enc_put(data + 12, false, 7, 4);
	enc_put(data + 16, false, (uint64_t)-9, 4);
	enc_put(data + 24, false, (uint64_t)INT64_MIN, 8);
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		struct capture c = { .long_size = 8 };
		struct sbuf text = { 0 }, out = { 0 };
		struct fmt *f;

		sbuf_addf(&text, "%s%s\n", ARITHMETIC, list[i].print);
		add_format(&c, "t", "sums", text.s);
		f = load(&c);
		if (!fmt_has_plan(f, fmt_by_id(f, 60001)))
			print_error("no plan: %s\n", list[i].print);
		fmt_print(f, fmt_by_id(f, 60001), &rec, &out);
		if (strcmp(out.s, list[i].want))
			print_error("%s\n", list[i].print);
		assert_string_equal(out.s, list[i].want);
		fmt_free(f);
		free_formats(&c);
		sbuf_free(&text);
		sbuf_free(&out);
	}
}

/* Events of the running kernel, where tracefs can be read: skipped visibly elsewhere. */
static void test_print_live(void **state __unused_arg)
{
	const char *dir = getenv("KVMFT_TEST_EVENTS");
	struct capture c = { .long_size = sizeof(long) };
	char path[600], sys[128], name[128], *text;
	FILE *list;

	/* The systems that kvmft records by default; of others libtraceevent gets some wrong. */
	snprintf(path, sizeof(path),
		 "cd %s && find $PWD/kvm $PWD/kvmmmu $PWD/sched $PWD/irq $PWD/irq_vectors $PWD/timer "
		 "$PWD/block $PWD/msr -mindepth 2 -name format 2>/dev/null",
		 dir ? dir : "/sys/kernel/tracing/events");
	list = popen(path, "r");
	while (list && fgets(path, sizeof(path), list)) {
		char *p = path + strcspn(path, "\n");

		*p = '\0';
		while (p > path && *p != '/')
			p--;
		*p = '\0';
		if (file_read_all(AT_FDCWD, path, 1, &text) == -EISDIR)
			p = strrchr(path, '/');
		else
			continue;
		snprintf(name, sizeof(name), "%s", p + 1);
		*p = '\0';
		snprintf(sys, sizeof(sys), "%s", strrchr(path, '/') + 1);
		*p = '/';
		strcat(path, "/format");
		if (file_read_all(AT_FDCWD, path, CAPTURE_MAX_FORMAT, &text) < 0)
			continue;
		add_format(&c, sys, name, text);
		free(text);
	}
	if (list)
		pclose(list);
	if (!c.nformat) {
		print_message("[     INFO ] no tracefs here: live formats not compared\n");
		skip();
	}
	/* Nobody knows what this kernel has: of large numbers libtraceevent may be wrong again. */
	compare(&c, &(struct how){ .rounds = 4, .small = true });
	free_formats(&c);
}

/* Broken records: short ones, dynamic fields that point outside. No byte outside is touched. */
static void test_hostile_records(void **state __unused_arg)
{
	struct capture c = corpus_capture(false);
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
			fmt_print(f, e, &rec, &out);
			for (k = 0; k < out.len; k++)
				assert_true((uint8_t)out.s[k] >= ' ');
			sbuf_reset(&out);
			fmt_print_fields(f, e, &rec, &out);
			sbuf_free(&out);
			free(data);
		}
	}
	fmt_free(f);
	free_formats(&c);
}

/* Fields that libtraceevent would stumble over are read all the same; the print format is not used. */
static void test_declarations(void **state __unused_arg)
{
	static const struct {
		const char *decl;
		bool plan;
	} t[] = {
		{ "unsigned long a", true }, { "u8 a[sizeof(struct in6_addr)]", true },
		{ "const char * a", true }, { "un{igned long a", false }, { "u64 \"x\" a", false },
		{ "u64] a", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct capture c = { .long_size = 8 };
		const struct fmt_event *e;
		struct fmt_field fld;
		struct sbuf b = { 0 };
		struct fmt *f;

		sbuf_addf(&b, "name: x\nID: 7\nformat:\n"
			  "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
			  "\tfield:%s;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"x\"\n", t[i].decl);
		add_format(&c, "kvm", "x", b.s);
		f = load(&c);
		e = fmt_find(f, "kvm", "x");
		assert_non_null(e);
		assert_true(fmt_field(e, "a", &fld));
		assert_int_equal(fmt_has_plan(f, e), t[i].plan);
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
			fmt_print(f, e, &rec, &out);
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
		cmocka_unit_test(test_print_like_tep),
		cmocka_unit_test(test_print_like_tep_swapped),
		cmocka_unit_test(test_print_like_kernel),
		cmocka_unit_test(test_arithmetic),
		cmocka_unit_test(test_print_live),
		cmocka_unit_test(test_hostile_records),
		cmocka_unit_test(test_declarations),
		cmocka_unit_test(test_mutated_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
