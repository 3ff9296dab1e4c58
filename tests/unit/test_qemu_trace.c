/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_qemu_trace.c: tests of src/qemu: every format round trip, every form of line, every cut.
 */
#include "kvmft/qemu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/enc.h"
#include "lib/enc_qemu.h"

static const char declared[] =
	"first(void) \"\"\n"
	"kvm_run_exit(int cpu_index, uint32_t reason) \"cpu_index %d, reason %d\"\n"
	"open_image(const char *path, uint64_t size, const char *mode) \"%s %\"PRIu64\" %s\"\n"
	"signed_one(int a, void *p) \"a %d p %p\"\n"
	"qmp_done(const char *id) \"id %s\"\n";

struct fix {
	char *dir;
	char path[256];
	struct qevents *events;
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->dir = enc_tmpdir();
	snprintf(f->path, sizeof(f->path), "%s/trace", f->dir);
	if (qevents_parse(declared, strlen(declared), "test", &f->events, NULL))
		return 1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	qevents_free(f->events);
	enc_rmtree(f->dir);
	free(f);
	return 0;
}

static struct qtrace *open_bytes(struct fix *f, const void *p, size_t n, struct qtrace_options o)
{
	struct kvmft_err err = { .text = "" };
	struct qtrace *t;

	enc_file(f->dir, "trace", p, n);
	if (qtrace_open(f->path, &o, &t, &err)) {
		if (o.format == QTRACE_AUTO)
			return NULL;
		fail_msg("%s", err.text);
	}
	return t;
}

/* A line per item: what simpletrace.py shows, and what only this reader knows. */
static char *dump(struct qtrace *t)
{
	struct qtrace_item i;
	struct sbuf b = { 0 };
	int ret;

	while ((ret = qtrace_next(t, &i)) > 0) {
		static const char *const clock[] = { "-", "mono", "real" };

		sbuf_addf(&b, "%s %llu/%llu tid=%d", clock[i.clock], (unsigned long long)i.ns,
			  (unsigned long long)i.unit, i.tid);
		if (i.cpu >= 0)
			sbuf_addf(&b, " cpu=%d", i.cpu);
		if (i.kind == QTRACE_LOST) {
			sbuf_addf(&b, " lost %llu\n", (unsigned long long)i.lost);
			continue;
		}
		sbuf_addf(&b, " %.*s", (int)i.name_len, i.name);
		if (i.has_args) {
			sbuf_addc(&b, ' ');
			qev_print(i.ev, i.arg, i.ev->nargs, &b);
		} else if (i.text) {
			sbuf_addf(&b, " '%.*s'", (int)i.text_len, i.text);
		}
		for (uint32_t k = 0; k < i.nraw; k++)
			sbuf_addf(&b, " %llx", (unsigned long long)i.raw[k]);
		sbuf_addc(&b, '\n');
	}
	assert_int_equal(ret, 0);
	return sbuf_take(&b);
}

static void check_dump(struct qtrace *t, const char *want)
{
	char *got = dump(t);

	assert_string_equal(got, want);
	free(got);
}

/* ---- simple ---- */

static void encode(struct enc_simple *e, unsigned int version)
{
	const struct enc_simple_arg run[] = { { .num = 1 }, { .num = 6 } };
	const struct enc_simple_arg image[] = { { .s = "/a b" }, { .num = 1u << 20 }, { .s = "" } };
	const struct enc_simple_arg neg[] = { { .num = (uint64_t)-3 }, { .num = 0x7f00 } };

	enc_simple_begin(e, version);
	enc_simple_name(e, 0, "first");
	enc_simple_name(e, 1, "kvm_run_exit");
	enc_simple_name(e, 3, "signed_one");
	enc_simple_event(e, 1, 1000, 77, run, 2);
	enc_simple_dropped(e, 2500, 12);
	enc_simple_event(e, 3, 2000, 77, neg, 2);
	enc_simple_event(e, 0, 3000, 77, NULL, 0);
	if (version)
		enc_simple_event(e, 2, 4000, 77, image, 3);
	enc_simple_name(e, 2, "open_image"); /* of a module that was loaded later */
}

static const char typed_dump[] = "mono 1000/1 tid=%d kvm_run_exit cpu_index 1, reason 6\n"
				 "mono 2500/1 tid=0 lost 12\n"
				 "mono 2000/1 tid=%d signed_one a -3 p 0x7f00\n"
				 "mono 3000/1 tid=%d first \n"
				 "mono 4000/1 tid=%d open_image /a b 1048576 \n";

static void test_simple(void **state)
{
	static const unsigned int versions[] = { 0, 2, 3, 4 };
	struct fix *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		unsigned int version = versions[i];
		int pid = version > 2 ? 77 : 0;
		struct enc_simple e;
		struct qtrace *t;
		char want[512];

		encode(&e, version);
		t = open_bytes(f, e.b.s, e.b.len, (struct qtrace_options){ .events = f->events });
		assert_non_null(t);
		snprintf(want, sizeof(want), typed_dump, pid, pid, pid, pid);
		if (!version)
			*strstr(want, "mono 4000") = '\0';
		check_dump(t, want);
		assert_int_equal(qtrace_stats(t)->version, version);
		assert_int_equal(qtrace_stats(t)->lost, 12);
		assert_int_equal(qtrace_stats(t)->misfits, 0);
		assert_false(qtrace_stats(t)->truncated);
		assert_int_equal(qtrace_rewind(t), 0);
		check_dump(t, want);
		qtrace_close(t);
		sbuf_free(&e.b);
	}
}

/* Without trace-events-all: names in format 4, numbers before. */
static void test_simple_raw(void **state)
{
	struct fix *f = *state;
	struct enc_simple e;
	struct qtrace *t;

	encode(&e, 4);
	t = open_bytes(f, e.b.s, e.b.len, (struct qtrace_options){ .format = QTRACE_SIMPLE });
	check_dump(t, "mono 1000/1 tid=77 kvm_run_exit 1 6\nmono 2500/1 tid=0 lost 12\n"
		      "mono 2000/1 tid=77 signed_one fffffffffffffffd 7f00\nmono 3000/1 tid=77 first\n"
		      "mono 4000/1 tid=77 open_image 6220612f00000004 100000 0\n");
	qtrace_close(t);
	sbuf_free(&e.b);
	encode(&e, 3);
	t = open_bytes(f, e.b.s, e.b.len, (struct qtrace_options){ .format = QTRACE_SIMPLE });
	assert_non_null(t);
	free(dump(t));
	assert_int_equal(qtrace_stats(t)->events, 4);
	qtrace_close(t);
	sbuf_free(&e.b);
}

/* Cut at every byte: whole records are read, and the cut is reported unless it is between two. */
static void test_simple_cut(void **state)
{
	struct fix *f = *state;
	struct enc_simple e;

	encode(&e, 4);
	for (size_t n = 24; n <= e.b.len; n++) {
		struct qtrace *t = open_bytes(f, e.b.s, n, (struct qtrace_options){ .events = f->events });

		assert_non_null(t);
		free(dump(t));
		assert_null(qtrace_stats(t)->damage);
		assert_true(qtrace_stats(t)->events <= 4);
		assert_true(n < e.b.len || qtrace_stats(t)->events == 4);
		qtrace_close(t);
	}
	sbuf_free(&e.b);
}

static void damage(struct fix *f, size_t at, uint64_t v, size_t size, uint64_t events)
{
	struct enc_simple e;
	struct qtrace *t;

	encode(&e, 4);
	enc_put(e.b.s + at, v, size);
	t = open_bytes(f, e.b.s, e.b.len, (struct qtrace_options){ .events = f->events });
	assert_non_null(t);
	free(dump(t));
	assert_int_equal(qtrace_stats(t)->events, events);
	assert_non_null(qtrace_stats(t)->damage);
	qtrace_close(t);
	sbuf_free(&e.b);
}

static void test_simple_damage(void **state)
{
	const size_t first = 24 + 3 * 20 + 5 + 12 + 10; /* behind the header and three names */
	struct kvmft_err err = { .text = "" };
	struct fix *f = *state;
	struct enc_simple e;
	struct qtrace *t;

	damage(f, first, 2, 8, 0);		 /* type */
	damage(f, first + 8, 1ull << 40, 8, 0);	 /* event */
	damage(f, first + 24, 23, 4, 0);	 /* length */
	damage(f, first + 24, 0xffffffff, 4, 0);
	damage(f, 24 + 16, 0xffffffff, 4, 0);	 /* of a name */
	for (unsigned int version = 1; version < 6; version += 4) {
		enc_simple_begin(&e, version);
		enc_file(f->dir, "trace", e.b.s, e.b.len);
		assert_int_equal(qtrace_open(f->path, &(struct qtrace_options){ 0 }, &t, &err), -ENOTSUP);
		assert_null(t);
		sbuf_free(&e.b);
	}
	/* A string longer than its record: the arguments are shown as they are. */
	enc_simple_begin(&e, 4);
	enc_simple_name(&e, 9, "qmp_done");
	enc_simple_event(&e, 9, 1, 7, &(struct enc_simple_arg){ .s = "abcd" }, 1);
	enc_put(e.b.s + e.b.len - 8, 5, 4);
	t = open_bytes(f, e.b.s, e.b.len, (struct qtrace_options){ .events = f->events });
	check_dump(t, "mono 1/1 tid=7 qmp_done 6463626100000005\n");
	assert_int_equal(qtrace_stats(t)->misfits, 1);
	qtrace_close(t);
	sbuf_free(&e.b);
}

/* ---- lines ---- */

static void check_text(struct fix *f, const char *text, struct qtrace_options o, const char *want,
		       uint64_t foreign)
{
	struct qtrace *t = open_bytes(f, text, strlen(text), o);

	assert_non_null(t);
	check_dump(t, want);
	assert_int_equal(qtrace_stats(t)->foreign, foreign);
	qtrace_close(t);
}

static void test_log(void **state)
{
	static const char text[] =
		"char device redirected to /dev/pts/1 (label serial0)\n"
		"719585@1608130130.441188:kvm_run_exit cpu_index 0, reason 2\n"
		"719585@1608130130.441:kvm_run_exit something else\n"
		"2025-09-02T16:47:29.123456Z kvm_run_exit cpu_index 0, reason 3\n"
		"2025-09-02T16:47:29Z (719585) kvm_run_exit cpu_index 0, reason 4\n"
		"2025-09-02T18:47:29.123456+02:00 vm1 qemu-system-x86_64: kvm_run_exit cpu_index 0, reason 5\n"
		"2025-09-02T16:47:29.5Z qemu-system-x86_64: first\n"
		"2025-09-02T16:47:29.123456Z qemu-system-x86_64: warning: this is none\n"
		"kvm_run_exit cpu_index 1, reason 6\r\n"
		"kvm_unknown x\n"
		"1@2.500000:kvm_unknown x";

	check_text(*state, text, (struct qtrace_options){ .events = ((struct fix *)*state)->events },
		   "real 1608130130441188000/1000 tid=719585 kvm_run_exit cpu_index 0, reason 2\n"
		   "real 1608130130441000000/1000000 tid=719585 kvm_run_exit 'something else'\n"
		   "real 1756831649123456000/1000 tid=0 kvm_run_exit cpu_index 0, reason 3\n"
		   "real 1756831649000000000/1000000000 tid=719585 kvm_run_exit cpu_index 0, reason 4\n"
		   "real 1756831649123456000/1000 tid=0 kvm_run_exit cpu_index 0, reason 5\n"
		   "real 1756831649500000000/100000000 tid=0 first \n"
		   "- 0/1 tid=0 kvm_run_exit cpu_index 1, reason 6\n"
		   "real 2500000000/1000 tid=1 kvm_unknown 'x'\n",
		   3);
}

/* Nobody knows the names: what looks like one, in a line of a known form. */
static void test_log_undeclared(void **state)
{
	check_text(*state,
		   "qemu-system-x86_64: warning: host doesn't support requested feature\n"
		   "VNC server running on 127.0.0.1:5900\n"
		   "kvm_run_exit cpu_index 1, reason 6\n"
		   "plain words\n"
		   "7@1.000000:plain words\n",
		   (struct qtrace_options){ 0 },
		   "- 0/1 tid=0 kvm_run_exit 'cpu_index 1, reason 6'\n"
		   "real 1000000000/1000 tid=7 plain 'words'\n", 3);
}

static void test_syslog(void **state)
{
	static const char text[] =
		"Dec 31 23:59:58 host qemu-system-x86_64[719585]: kvm_run_exit cpu_index 0, reason 2\n"
		"Jan  1 00:00:01.250 host qemu-system-x86_64[719585]: kvm_run_exit cpu_index 0, reason 3\n"
		"2026-01-01T01:00:02.500000+01:00 host kvm[719585]: unheard_of a\n"
		"1767225603.125 host qemu[719585]: message repeated 3 times: [ kvm_run_exit cpu_index 0, reason 4]\n"
		"<30>Jan  1 00:00:04 host sshd[1]: Accepted publickey for root\n"
		"Jan  1 00:00:05 host rsyslogd: imjournal: 17 messages lost due to rate-limiting\n"
		"[  12.345678] host qemu-system-x86_64[719585]: first\n"
		"Jan  1 00:00:06 host qemu-system-x86_64[719585]: Not an event\n";
	struct fix *f = *state;

	/* near: 2026-01-01 00:00:00 */
	check_text(f, text, (struct qtrace_options){ .events = f->events, .near = 1767225600000000000 },
		   "real 1767225598000000000/1100000000 tid=719585 kvm_run_exit cpu_index 0, reason 2\n"
		   "real 1767225601250000000/1000000 tid=719585 kvm_run_exit cpu_index 0, reason 3\n"
		   "real 1767225602500000000/1000 tid=719585 unheard_of 'a'\n"
		   "real 1767225603125000000/1000000 tid=719585 kvm_run_exit cpu_index 0, reason 4\n"
		   "real 1767225605000000000/1100000000 tid=0 lost 17\n"
		   "mono 12345678000/1000 tid=719585 first \n", 2);
}

static void test_ust(void **state)
{
	static const char text[] =
		"[23:59:59.123456789] (+?.?) host qemu:kvm_run_exit: { cpu_id = 3 }, "
		"{ cpu_index = 0, reason = 2 }\n"
		"[00:00:01.000000001] (+1.876543212) host qemu:open_image: { cpu_id = 0 }, "
		"{ procname = \"qemu:x: {\", vpid = 700, vtid = 719585 }, "
		"{ path = \"/a, \\\"b } =\", size = 0x10, mode = \"r\" }\n"
		"[2026-01-01 00:00:02.5] (+0.5) qemu:signed_one: { cpu_id = 1 }, { a = -3, p = 0x55AA }\n"
		"[1767225603.125000000] (+0.6) qemu:unheard_of: { cpu_id = 1 }, { a = -3 }\n"
		"[1767225604.125000000] (+0.6) other:event: { cpu_id = 1 }, { a = -3 }\n"
		"[1767225605.125000000] (+0.6) qemu:first: { cpu_id = 1 }, { }\n"
		"[1767225606.125000000] (+0.6) qemu:kvm_run_exit: { cpu_id = 1 }, { cpu_index = 0\n";
	struct fix *f = *state;

	check_text(f, text, (struct qtrace_options){ .events = f->events, .near = 1767225600000000000 },
		   "real 1767225599123456789/1 tid=0 cpu=3 kvm_run_exit cpu_index 0, reason 2\n"
		   "real 1767225601000000001/1 tid=719585 cpu=0 open_image /a, \\\"b } = 16 r\n"
		   "real 1767225602500000000/100000000 tid=0 cpu=1 signed_one a -3 p 0x55aa\n"
		   "real 1767225603125000000/1 tid=0 cpu=1 unheard_of 'a = -3'\n"
		   "real 1767225605125000000/1 tid=0 cpu=1 first \n"
		   "real 1767225606125000000/1 tid=0 cpu=1 kvm_run_exit 'cpu_id = 1'\n", 1);
}

static void test_none(void **state)
{
	struct kvmft_err err = { .text = "" };
	struct fix *f = *state;
	struct qtrace *t;

	assert_null(open_bytes(f, "nothing of the kind\n", 20, (struct qtrace_options){ 0 }));
	assert_null(open_bytes(f, "", 0, (struct qtrace_options){ 0 }));
	assert_int_equal(qtrace_open(f->dir, &(struct qtrace_options){ 0 }, &t, &err), -EINVAL);
	assert_int_equal(qtrace_open("/nonexistent", &(struct qtrace_options){ 0 }, &t, &err), -ENOENT);
	t = open_bytes(f, "nothing of the kind\n", 20, (struct qtrace_options){ .format = QTRACE_LOG });
	check_dump(t, "");
	qtrace_close(t);
	enc_file(f->dir, "trace", "x", 1);
	assert_int_equal(qtrace_open(f->path, &(struct qtrace_options){ .format = QTRACE_SIMPLE }, &t, &err),
			 -ENODATA);
}

/* A line longer than any is cut, and the rest of it foreign; a last line may lack its end. */
static void test_long_line(void **state)
{
	struct fix *f = *state;
	struct sbuf b = { 0 };
	struct qtrace *t;
	char *got;

	sbuf_add(&b, "1@1.000000:kvm_run_exit ");
	for (int i = 0; i < 100000; i++)
		sbuf_addc(&b, 'x');
	sbuf_add(&b, "\n1@2.000000:kvm_run_exit cpu_index 0, reason 2\n1@3.00");
	t = open_bytes(f, b.s, b.len, (struct qtrace_options){ .events = f->events });
	got = dump(t);
	assert_non_null(strstr(got, "2000000000/1000 tid=1 kvm_run_exit cpu_index 0, reason 2\n"));
	assert_int_equal(qtrace_stats(t)->events, 2);
	assert_int_equal(qtrace_stats(t)->foreign, 2);
	assert_true(qtrace_stats(t)->truncated);
	free(got);
	qtrace_close(t);
	sbuf_free(&b);
}

static void test_marker(void **state)
{
	struct fix *f = *state;
	struct qtrace_item i;

	assert_true(qtrace_marker(f->events, "kvm_run_exit cpu_index 0, reason 2\n", 35, &i));
	assert_true(i.has_args);
	assert_int_equal(i.arg[1].num, 2);
	assert_true(qtrace_marker(f->events, "kvm_run_exit cpu_ind", 20, &i));
	assert_false(i.has_args);
	assert_false(qtrace_marker(f->events, "somebody else", 13, &i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_simple, setup, teardown),
		cmocka_unit_test_setup_teardown(test_simple_raw, setup, teardown),
		cmocka_unit_test_setup_teardown(test_simple_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_simple_damage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log_undeclared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_syslog, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ust, setup, teardown),
		cmocka_unit_test_setup_teardown(test_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_marker, setup, teardown),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
