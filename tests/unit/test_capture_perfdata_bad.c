/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_perfdata_bad.c: perf.data files that are refused, and why; damaged, cut, and changed
 * while they are read.
 */
#include "unit/perfdata_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- refusals ---- */

static void refuse(struct file *f, const char *why)
{
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;

	file_write(f);
	assert_true(capture_open(f->path, &c, &err) < 0);
	if (!strstr(err.text, why))
		print_error("%s: not '%s'\n", err.text, why);
	assert_non_null(strstr(err.text, why));
	assert_non_null(strstr(err.text, f->path));
	file_free(f);
}

/* Two layouts, and each event claims all of the file as its ids. */
static void test_ids_twice(void **state __unused_arg)
{
	struct ep_attr two[2] = { usual[0], usual[0] };
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;
	uint64_t section[2] = { 0 };
	struct stat st;
	struct file f;
	int fd;

	file_new(&f, 8);
	two[1].read_format = EP_ENABLED;
	f.e.attr = two;
	f.e.nattr = 2;
	sample(&f, 0, 100, 1);
	file_write(&f);
	fd = open(f.path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st));
	section[1] = (uint64_t)st.st_size & ~(uint64_t)7;
	for (int i = 1; i <= 2; i++) /* behind each attribute of 128 bytes */
		assert_int_equal(pwrite(fd, section, sizeof(section), 104 + i * 144 - 16),
				 sizeof(section));
	close(fd);
	assert_true(capture_open(f.path, &c, &err) < 0);
	file_free(&f);
}

static void test_refused(void **state __unused_arg)
{
	struct ep_attr a = usual[1], two[2] = { usual[0], usual[1] };
	struct file f;

	file_new(&f, 8);
	sample(&f, 0, 100, 1);
	ep_record(&f.records, 81, 0, "12345678", 8, NULL, NULL);
	refuse(&f, "perf record -z");

	file_new(&f, 8);
	a.flags |= 1u << EP_WRITE_BACKWARD;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "--overwrite");

	file_new(&f, 8);
	a = usual[1];
	a.type = 1;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "no tracepoints");

	file_new(&f, 8);
	a = usual[1];
	a.sample_type &= ~(uint64_t)EP_RAW;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "without their fields");

	file_new(&f, 8);
	two[0].sample_type &= ~(uint64_t)EP_ID;
	f.e.attr = two;
	f.e.nattr = 2;
	refuse(&f, "nothing says which has which");

	file_new(&f, 8);
	f.e.features = 0;
	sample(&f, 0, 100, 1);
	ep_feature_text(&f.e, EP_HOSTNAME, "box");
	refuse(&f, "no event formats");

	file_new(&f, 8);
	f.e.nattr = 0;
	sample(&f, 0, 100, 1);
	refuse(&f, "no tracepoints");

	file_new(&f, 8);
	a = usual[1];
	a.size = 40;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "header is damaged");
}

static void test_refused_arch(void **state __unused_arg)
{
	static const char *const archs[][2] = {
		{ "aarch64_be", "recorded on aarch64_be:" },
		{ "s390x", "recorded on s390x:" },
		{ "i", "recorded on i:" },
		{ "x86_64x", "recorded on x86_64x:" },
		{ "", "on another architecture:" },
		{ "a\033[2Jb", "on another architecture:" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		struct file f;

		file_new(&f, 8);
		ep_feature_text(&f.e, EP_ARCH, archs[i][0]);
		sample(&f, 0, 1000, 1);
		refuse(&f, archs[i][1]);
	}
}

static void refuse_bytes(const char *data, size_t len, const char *why)
{
	struct kvmft_err err = { 0 };
	char *dir = enc_tmpdir(), path[300];
	struct capture *c = NULL;

	enc_file(dir, "x", data, len);
	snprintf(path, sizeof(path), "%s/x", dir);
	assert_true(capture_open(path, &c, &err) < 0);
	assert_non_null(strstr(err.text, why));
	enc_rmtree(dir);
}

static void test_refused_head(void **state __unused_arg)
{
	char *dir = enc_tmpdir();
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;

	refuse_bytes("PERFILE2", 8, "cut in its first bytes");
	refuse_bytes("PERFILE2\x10\0\0\0\0\0\0\0", 16, "no tracepoints");
	refuse_bytes("2ELIFREP\0\0\0\0\0\0\0\x68", 16, "of a big-endian machine");
	refuse_bytes("PERFILE2\x68\0\0\0\0\0\0\0", 16, "cut in its first bytes");
	enc_file(dir, "data", "PERFILE2", 8); /* perf record --threads */
	assert_true(capture_open(dir, &c, &err) < 0);
	assert_non_null(strstr(err.text, "--threads"));
	enc_rmtree(dir);
}

/* ---- damage ---- */

/* Whether it looks whole, and how many events it has; -1: refused. */
static int64_t count(const char *path, bool *whole)
{
	struct kvmft_err err = { .text = "" };
	struct capture *c = NULL;
	int64_t n = 0;

	*whole = false;
	if (capture_open(path, &c, &err)) {
		assert_true(err.text[0]);
		return -1;
	}
	*whole = c->complete && !c->ndamage;
	for (size_t i = 0; i < c->nstream; i++) {
		struct rstream r;
		enum rkind k;

		assert_int_equal(rstream_open(&r, c, &c->stream[i]), 0);
		while ((k = rstream_next(&r)) != R_END) {
			n += k == R_EVENT;
			*whole = *whole && k == R_EVENT;
		}
		*whole = *whole && !r.error;
		rstream_close(&r);
	}
	capture_close(c);
	return n;
}

static void some_events(struct file *f, unsigned int n)
{
	ep_time_conv(&f->records, 31, 858993459, 0);
	for (unsigned int k = 0; k < n; k++) {
		sample(f, k % 2, 1000 + 10 * k, k);
		if (k % 8 == 7)
			ep_round(&f->records);
	}
	ep_comm(&f->records, &usual[0], 10, 11, "task");
}

/*
 * Wherever it is cut, it is refused or said to be cut: perf writes what is needed to read it
 * last.
 */
static void test_cut(void **state __unused_arg)
{
	static const char *const few[] = { "irq", "irq_handler_exit", NULL };
	struct enc_dat d = { .g = enc_geom(4096, 8), .events = few };
	struct sbuf tracing = { 0 }, out = { 0 };
	struct file f;
	bool whole;

	file_new(&f, 8);
	enc_dat_tracing(&d, &tracing);
	ep_feature(&f.e, EP_TRACING_DATA, tracing.s, tracing.len);
	some_events(&f, 40);
	ep_build(&f.e, &f.records, &out);
	enc_file(f.dir, "perf.data", out.s, out.len);
	assert_int_equal(count(f.path, &whole), 40);
	assert_true(whole);
	for (size_t len = out.len; len-- > 0;) {
		assert_int_equal(truncate(f.path, (off_t)len), 0);
		assert_true(count(f.path, &whole) <= 40);
		assert_false(whole);
	}
	sbuf_free(&tracing);
	sbuf_free(&out);
	file_free(&f);
}

/* Random damage: no crash, no endless loop, no event that is not there. */
static void test_mutated(void **state __unused_arg)
{
	unsigned int seed = 3;

	for (unsigned int round = 0; round < 2000; round++) {
		struct sbuf out = { 0 };
		size_t head, at;
		struct file f;
		bool whole;

		file_new(&f, 8);
		some_events(&f, 60);
		lost(&f, 1, 5000, 3);
		ep_lost_samples(&f.records, &usual[0], ids[0], 9);
		ep_build(&f.e, &f.records, &out);
		head = out.len - f.records.len - f.e.feature[EP_TRACING_DATA].len;
		for (unsigned int k = 0; k < 1 + round % 4; k++) {
			at = (size_t)rand_r(&seed) % (round % 3 == 0   ? head
						      : round % 3 == 1 ? head + f.records.len
								       : out.len);
			out.s[at] = (char)(rand_r(&seed) % 3 ? rand_r(&seed) & 0xff : 0xff);
		}
		enc_file(f.dir, "perf.data", out.s, out.len);
		assert_true(count(f.path, &whole) <= 60);
		sbuf_free(&out);
		file_free(&f);
	}
}

/* Something that is no record: what comes before it is read, and the rest is reported as missing. */
static void test_damaged_record(void **state __unused_arg)
{
	struct capture *c;
	struct file f;

	file_new(&f, 8);
	sample(&f, 0, 100, 1);
	enc_u64(&f.records, 9);
	sample(&f, 0, 200, 2);
	c = file_open(&f);
	assert_non_null(c);
	assert_false(c->complete);
	assert_true(fx_noted(c, "damaged record at byte"));
	check_stream(c, 0, &(struct want){ 100, 1, 24 }, 1);
	capture_close(c);
	file_free(&f);
}

/* What is changed while it is read gives other events or errors, and nothing worse. */
static void test_changed_meanwhile(void **state __unused_arg)
{
	unsigned int seed = 11;

	for (unsigned int round = 0; round < 60; round++) {
		struct sbuf out = { 0 };
		struct capture *c;
		struct rstream r;
		struct file f;

		file_new(&f, 8);
		for (unsigned int k = 0; k < 600; k++)
			sample(&f, 0, 100 + k, k);
		c = file_open(&f);
		assert_non_null(c);
		f.records.len = 0;
		for (unsigned int k = 0; k < 40; k++)
			sample_of(&f, &usual[1], 0, 11, (uint64_t)rand_r(&seed), k,
				  4 * ((uint32_t)rand_r(&seed) % 9000) + 16);
		ep_build(&f.e, &f.records, &out);
		enc_file(f.dir, "perf.data", out.s, out.len / (1 + round % 3));
		assert_int_equal(rstream_open(&r, c, &c->stream[0]), 0);
		while (rstream_next(&r) != R_END)
			;
		rstream_close(&r);
		capture_close(c);
		sbuf_free(&out);
		file_free(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ids_twice),
		cmocka_unit_test(test_refused_arch),
		cmocka_unit_test(test_refused_head),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_damaged_record),
		cmocka_unit_test(test_changed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
