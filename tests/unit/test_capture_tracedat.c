/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_tracedat.c: tests of src/capture/tracedat_*.c: versions 6 and 7, both
 * word sizes, every option, files cut at every byte, damaged files, and trace-cmd as a witness.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>

#include <cmocka.h>

#define KVM_EXIT 103 /* its id in the corpus */
#define CLOCKS	 "local global [x86-tsc] counter"

static const char *const events[] = { "kvm", "kvm_entry", "kvm", "kvm_exit", "sched", "sched_switch",
				      NULL };

static const char cpustat[] = "CPU: 1\nentries: 1\noverrun: 2\ncommit overrun: 3\nbytes: 9\n"
			      "oldest event ts:  12.5\ndropped events: 4\nread events: 5\n";

struct sample {
	struct enc_dat d;
	struct enc_cpu cpu[3], inst[1];
	uint8_t *pages[3], *inst_page;
};

static void sample_new(struct sample *s, int version, uint32_t long_size)
{
	struct enc_dat *d = &s->d;
	struct sbuf o = { 0 };
	unsigned int i;

	memset(s, 0, sizeof(*s));
	d->version = version;
	d->g = enc_geom(FX_SUB, long_size);
	d->events = events;
	d->cmdlines = "100 qemu-kvm\n101 CPU 0/KVM\n";
	d->clock = CLOCKS;
	for (i = 0; i < 3; i++) {
		s->pages[i] = fx_pages_of(&d->g, i + 1, 20, 1000 + i, 10, KVM_EXIT, 72);
		s->cpu[i] = (struct enc_cpu){ s->pages[i], (i + 1) * FX_SUB };
	}
	s->inst_page = fx_pages_of(&d->g, 1, 7, 5000, 10, KVM_EXIT, 72);
	s->inst[0] = (struct enc_cpu){ s->inst_page, FX_SUB };
	d->ncpu = 3;
	d->cpu = s->cpu;
	d->instance = "guest-net";
	d->ninst = 1;
	d->inst = s->inst;

	enc_option(d, 1, "0x10", 5); /* DATE: 16 us */
	enc_option(d, 7, "-3", 3);   /* OFFSET */
	enc_option(d, 9, "3.1.6", 6);
	enc_option(d, 5, "Linux box 6.1 x86_64", 21);
	enc_option(d, 2, cpustat, sizeof(cpustat));
	enc_u64(&o, 0xabc);
	enc_option(d, 11, o.s, o.len); /* TRACEID */
	sbuf_reset(&o);
	sbuf_add_mem(&o, "vm1", 4); /* GUEST */
	enc_u64(&o, 0xdef);
	enc_u32(&o, 2);
	for (i = 0; i < 2; i++) {
		enc_u32(&o, i);
		enc_u32(&o, 101 + i);
	}
	enc_option(d, 13, o.s, o.len);
	sbuf_reset(&o);
	enc_u64(&o, 0x777); /* TIME_SHIFT: CPU 0 two samples, CPU 1 none */
	enc_u32(&o, 1);
	enc_u32(&o, 2);
	enc_u32(&o, 2);
	for (i = 0; i < 6; i++)
		enc_u64(&o, (uint64_t) - (int64_t)i);
	enc_u32(&o, 0);
	enc_u64(&o, 48);
	enc_option(d, 12, o.s, o.len);
	sbuf_reset(&o);
	enc_u32(&o, 1000);
	enc_u32(&o, 10);
	enc_u64(&o, 99);
	enc_option(d, 14, o.s, o.len); /* TSC2NSEC */
	enc_option(d, 999, "?", 1);
	sbuf_free(&o);
}

static void sample_free(struct sample *s)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		free(s->pages[i]);
	free(s->inst_page);
	sbuf_free(&s->d.options);
}

static void check_streams(const struct capture *c, const struct sample *s)
{
	uint8_t *buf = malloc(3 * FX_SUB);
	unsigned int i;

	assert_int_equal(c->nstream, 4);
	for (i = 0; i < 3; i++) {
		assert_int_equal(c->stream[i].cpu, i);
		assert_string_equal(c->stream[i].instance, "");
		assert_int_equal(c->stream[i].nsub, i + 1);
		assert_int_equal(capture_read_subbufs(c, &c->stream[i], 0, 3, buf, NULL), i + 1);
		assert_memory_equal(buf, s->pages[i], (i + 1) * FX_SUB);
	}
	assert_string_equal(c->stream[3].instance, "guest-net");
	assert_int_equal(capture_read_subbufs(c, &c->stream[3], 0, 1, buf, NULL), 1);
	assert_memory_equal(buf, s->inst_page, FX_SUB);
	free(buf);
}

static void check_all(const struct capture *c, const struct sample *s)
{
	const struct cap_vm *vm = c->vm;

	assert_true(c->is_tracedat && c->complete);
	assert_int_equal(c->ndamage, 0);
	assert_int_equal(c->version, s->d.version);
	assert_int_equal(c->side, CAP_SIDE_HOST);
	assert_int_equal(c->long_size, s->d.g.long_size);
	assert_int_equal(c->subbuf_size, FX_SUB);
	assert_int_equal(c->page_header, s->d.g.header);
	assert_string_equal(c->clock, "x86-tsc");
	assert_string_equal(c->tool, "3.1.6");
	assert_string_equal(c->uname, "Linux box 6.1 x86_64");
	assert_int_equal(c->ts_add, 15997);
	assert_int_equal(c->trace_id, 0xabc);
	assert_int_equal(c->nformat, 3);
	assert_string_equal(c->format[1].sys, "kvm");
	assert_string_equal(c->format[1].name, "kvm_exit");
	assert_string_equal(c->format[1].text, enc_format("kvm", "kvm_exit"));
	assert_int_equal(c->ntask, 2);
	assert_string_equal(c->task[1].comm, "CPU 0/KVM");
	assert_true(c->cpu[0].cpu == 1 && c->cpu[0].end.valid);
	assert_int_equal(c->cpu[0].end.commit_overrun, 3);
	assert_int_equal(c->cpu[0].end.read, 5);
	assert_int_equal(c->nvm, 1);
	assert_string_equal(vm->id, "trace:def");
	assert_string_equal(vm->name, "vm1");
	assert_int_equal(vm->trace_id, 0xdef);
	assert_int_equal(vm->nvcpu, 2);
	assert_int_equal(vm->vcpu[1].tid, 102);
	assert_int_equal(c->shift_peer, 0x777);
	assert_int_equal(c->shift_flags, 1);
	assert_int_equal(c->nshift, 2);
	assert_int_equal(c->shift[0].nsample, 2);
	assert_int_equal(c->shift[0].sample[1].time, -1);
	assert_int_equal(c->shift[0].sample[0].offset, -2);
	assert_int_equal(c->shift[0].sample[1].scaling, -5);
	assert_int_equal(c->shift[0].frac, 48);
	assert_int_equal(c->shift[1].nsample, 0);
	assert_true(c->has_tsc2nsec);
	assert_int_equal(c->tsc2nsec_mult, 1000);
	assert_int_equal(c->tsc2nsec_offset, 99);
	check_streams(c, s);
}

static void test_round_trip(void **state __unused_arg)
{
	int version;
	unsigned int v;

	for (version = 6; version <= 7; version++) {
		for (v = 0; v < 2; v++) {
			char *dir = enc_tmpdir(), path[256];
			struct sbuf file = { 0 };
			struct sample s;
			struct capture *c;

			sample_new(&s, version, v ? 4 : 8);
			enc_dat_build(&s.d, &file);
			enc_file(dir, "trace.dat", file.s, file.len);
			snprintf(path, sizeof(path), "%s/trace.dat", dir);
			c = fx_open(path);
			assert_non_null(c);
			check_all(c, &s);
			capture_close(c);
			sbuf_free(&file);
			sample_free(&s);
			enc_rmtree(dir);
		}
	}
}

/* A file of `trace-cmd record -M 1`: of CPU 1 there are statistics, and in version 7 nothing else. */
static void test_cpu_left_out(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[256];
	struct sbuf file = { 0 };
	struct sample s;
	struct capture *c;

	sample_new(&s, 7, 8);
	s.d.ncpu = 1;
	enc_dat_build(&s.d, &file);
	enc_file(dir, "trace.dat", file.s, file.len);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	c = fx_open(path);
	assert_non_null(c);
	assert_int_equal(c->nstream, 3);
	assert_int_equal(c->stream[2].cpu, 1);
	assert_int_equal(c->stream[2].nsub, 0);
	assert_false(capture_all_cpus(c));
	capture_close(c);
	sbuf_free(&file);
	sample_free(&s);
	enc_rmtree(dir);
}

/* Events that can still be read of a file; -errno when it does not open at all. */
static int64_t count_events(const char *path, bool *complete, bool *noted)
{
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;
	int64_t n = 0;
	size_t i;
	int ret;

	ret = capture_open(path, &c, &err);
	if (ret) {
		assert_true(err.text[0]);
		return ret;
	}
	for (i = 0; i < c->nstream; i++) {
		struct rstream r;
		enum rkind k;

		assert_int_equal(rstream_open(&r, c, &c->stream[i]), 0);
		while ((k = rstream_next(&r)) != R_END)
			n += k == R_EVENT;
		assert_int_equal(r.error, 0);
		rstream_close(&r);
	}
	*complete = c->complete;
	*noted = c->ndamage > 0;
	capture_close(c);
	return n;
}

/*
 * Cut at every byte of the metadata, and around every border of the data: never a crash, never
 * "complete" with events missing, and every whole sub-buffer that is there is used.
 */
static void cut_everywhere(int version)
{
	static const char *const few[] = { "irq", "irq_handler_exit", NULL };
	char *dir = enc_tmpdir(), path[256];
	struct sbuf file = { 0 };
	int64_t n, last = -1;
	bool complete, noted;
	struct sample s;
	size_t cut, data;

	sample_new(&s, version, 8);
	s.d.events = few; /* a small file */
	enc_dat_build(&s.d, &file);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	enc_file(dir, "trace.dat", file.s, file.len);
	assert_int_equal(count_events(path, &complete, &noted), 120 + 7);
	assert_true(complete && !noted);
	data = version == 6 ? 2 * FX_SUB : file.len;
	for (cut = 0; cut < file.len; cut += cut >= data ? 511 : getenv("CHECK_ALL") || cut < 100 ? 1 : 7) {
		assert_int_equal(truncate(path, (off_t)file.len), 0);
		enc_file(dir, "trace.dat", file.s, cut);
		n = count_events(path, &complete, &noted);
		if (cut < 18) {
			assert_int_equal(n, -EBADMSG);
			continue;
		}
		if (version == 7 && cut < 18 + 5 + 1 + 8) {
			assert_int_equal(n, -EBADMSG);
			continue;
		}
		assert_true(n >= 0 && n <= 127);
		assert_true(noted);
		assert_false(complete);
		if (version == 6) {
			assert_true(n >= last);
			last = n;
		}
	}
	if (version == 6)
		assert_int_equal(last, 120); /* the last sub-buffer is the instance's only one */
	sbuf_free(&file);
	sample_free(&s);
	enc_rmtree(dir);
}

static void test_cut_v6(void **state __unused_arg)
{
	cut_everywhere(6);
}

static void test_cut_v7(void **state __unused_arg)
{
	cut_everywhere(7);
}

/* One bad page costs that page: in every CPU, in every place. */
static void test_corrupt_page(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[256];
	struct sbuf file = { 0 };
	bool complete, noted;
	struct sample s;

	sample_new(&s, 6, 8);
	enc_put(s.pages[0] + 8, 0xfffff, 8);	      /* first page of CPU 0 */
	enc_put(s.pages[2] + FX_SUB + 8, 1 << 20, 8); /* middle page of CPU 2 */
	enc_dat_build(&s.d, &file);
	enc_file(dir, "trace.dat", file.s, file.len);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	assert_int_equal(count_events(path, &complete, &noted), 127 - 40);
	sbuf_free(&file);
	sample_free(&s);
	enc_rmtree(dir);
}

/* Random damage: no crash, no endless loop, bounded work. */
static void test_mutated(void **state __unused_arg)
{
	static const char *const few[] = { "irq", "irq_handler_exit", NULL };
	char *dir = enc_tmpdir(), path[256];
	unsigned int seed = 5, round, k;
	bool complete, noted;

	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	for (round = 0; round < (getenv("CHECK_ALL") ? 1500 : 300); round++) {
		struct sbuf file = { 0 };
		struct sample s;

		sample_new(&s, 6 + (int)(round & 1), round & 2 ? 4 : 8);
		s.d.events = few;
		enc_dat_build(&s.d, &file);
		for (k = 0; k < 1 + round % 5; k++) {
			size_t at = (size_t)rand_r(&seed) % (round % 3 ? 3000 : file.len);

			if (round & 1 && round % 3 == 1) /* v7: its options stand at the end */
				at = file.len - 1 - at % 1200;
			file.s[at] = (char)(rand_r(&seed) & 0xff);
		}
		enc_file(dir, "trace.dat", file.s, file.len);
		assert_true(count_events(path, &complete, &noted) <= (int64_t)file.len / 8);
		sbuf_free(&file);
		sample_free(&s);
	}
	enc_rmtree(dir);
}

static void refuse(const char *dir, const void *data, size_t len, const char *why)
{
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;
	char path[256];

	enc_file(dir, "x", data, len);
	snprintf(path, sizeof(path), "%s/x", dir);
	assert_true(capture_open(path, &c, &err) < 0);
	assert_non_null(strstr(err.text, why));
	assert_non_null(strstr(err.text, path));
}

static void test_refused(void **state __unused_arg)
{
	char *dir = enc_tmpdir();

	refuse(dir, "", 0, "empty");
	refuse(dir, "PERFILE1", 8, "neither a capture directory nor a trace.dat, perf.data or trace as text");
	refuse(dir, "\x17\x08\x44tracing6\0\x01\x08\0\0\x10\0", 18, "of a big-endian machine");
	refuse(dir, "\x17\x08\x44tracing8\0\0\x08\0\x10\0\0", 18, "version 8");
	refuse(dir, "\x17\x08\x44tracing6\0\0\x05\0\x10\0\0", 18, "header is damaged");
	refuse(dir, "\x17\x08\x44tracing6\0\0\x08\x01\x10\0\0", 18, "header is damaged");
	refuse(dir, "\x17\x08\x44tracing6\0\0\x08\0\0\x20\0", 18, "header is damaged");
	refuse(dir, "\x17\x08\x44tracing7\0\0\x08\0\x10\0\0lz4\0" "1\0\0\0\0\0\0\0\0\0", 33, "reads zstd and zlib");
	enc_rmtree(dir);
}

/* v7: OPTIONS sections that point at each other. */
static void test_circle(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[256];
	struct sbuf b = { 0 };
	struct capture *c;

	sbuf_add_mem(&b, "\x17\x08\x44tracing7\0\0\x08\0\x10\0\0none\0\0", 24);
	enc_u64(&b, 32);
	enc_u16(&b, 0);
	enc_u16(&b, 0);
	enc_u32(&b, UINT32_MAX);
	enc_u64(&b, 14);
	enc_u16(&b, 0);
	enc_u32(&b, 8);
	enc_u64(&b, 32);
	enc_file(dir, "x", b.s, b.len);
	snprintf(path, sizeof(path), "%s/x", dir);
	c = fx_open(path);
	assert_non_null(c);
	assert_true(fx_noted(c, "loop"));
	capture_close(c);
	sbuf_free(&b);
	enc_rmtree(dir);
}

/* Further options of a file that is else empty, opened. */
static struct capture *with_options(int version, struct sbuf *options)
{
	struct enc_dat d = {
		.version = version, .g = enc_geom(FX_SUB, 8), .clock = CLOCKS, .options = *options
	};
	char *dir = enc_tmpdir(), path[256];
	struct sbuf file = { 0 };
	struct capture *c;

	enc_dat_build(&d, &file);
	enc_file(dir, "trace.dat", file.s, file.len);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	c = fx_open(path);
	sbuf_free(&file);
	sbuf_free(options);
	enc_rmtree(dir);
	return c;
}

/* More guests than any host has: whoever may start VMs can have as many, before another's. */
static void test_many_guests(void **state __unused_arg)
{
	struct enc_dat d = { .g = enc_geom(FX_SUB, 8) };
	struct capture *c;

	for (uint64_t i = 0; i < 4100; i++) {
		struct sbuf o = { 0 };

		sbuf_add_mem(&o, "vm", 3);
		enc_u64(&o, i + 1);
		enc_u32(&o, 0);
		enc_option(&d, 13, o.s, o.len);
		sbuf_free(&o);
	}
	c = with_options(6, &d.options);
	assert_non_null(c);
	assert_int_equal(c->nvm, 4100);
	assert_false(fx_noted(c, "VMs"));
	capture_close(c);
}

/* A chain of options in version 7, each of which claims all the rest of the file: its end is not waited for. */
static void test_overlapping_options(void **state __unused_arg)
{
	static const uint8_t start[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g', '7', 0, 0, 8 };
	const uint64_t size = 60 << 20;
	char *dir = enc_tmpdir(), path[256];
	struct sbuf b = { 0 };
	struct capture *c;

	sbuf_add_mem(&b, start, sizeof(start));
	enc_u32(&b, FX_SUB);
	sbuf_add_mem(&b, "none\0", 6);
	enc_u64(&b, b.len + 8);
	for (unsigned int i = 0; i < 3000; i++) {
		enc_u16(&b, 0); /* OPTIONS */
		enc_u16(&b, 0);
		enc_u32(&b, 0);
		enc_u64(&b, size);
		enc_u16(&b, 0); /* DONE */
		enc_u32(&b, 8);
		enc_u64(&b, b.len + 8);
	}
	enc_file(dir, "trace.dat", b.s, b.len);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	assert_int_equal(truncate(path, (off_t)size), 0);
	c = fx_open(path);
	assert_non_null(c);
	assert_true(fx_noted(c, "section of options: larger"));
	assert_false(c->complete);
	capture_close(c);
	sbuf_free(&b);
	enc_rmtree(dir);
}

/* Sections that claim to hold far more than they take in the file are named; kallsyms when asked for. */
static void test_bombs(void **state __unused_arg)
{
	static const uint8_t start[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g', '7', 0, 0, 8 };
	static const uint16_t ids[] = { 19, 20, 0 }; /* kallsyms, printk, DONE */
	char *dir = enc_tmpdir(), path[256];
	struct sbuf b = { 0 };
	struct capture *c;
	size_t len;

#ifndef HAVE_ZSTD
	skip();
#endif
	sbuf_add_mem(&b, start, sizeof(start));
	enc_u32(&b, FX_SUB);
	sbuf_add_mem(&b, "zstd\0001", 7);
	enc_u64(&b, b.len + 8);
	enc_u64(&b, 0); /* OPTIONS */
	enc_u64(&b, 3 * 14);
	for (size_t i = 0; i < 3; i++) {
		enc_u16(&b, ids[i]);
		enc_u32(&b, 8);
		enc_u64(&b, i < 2 ? b.len + 8 + 14 * (2 - i) + 32 * i : 0);
	}
	for (size_t i = 0; i < 2; i++) {
		enc_u16(&b, ids[i]);
		enc_u16(&b, 1); /* compressed */
		enc_u32(&b, 0);
		enc_u64(&b, 16);
		enc_u32(&b, 8);
		enc_u32(&b, 200u << 20);
		enc_u64(&b, 0);
	}
	enc_file(dir, "trace.dat", b.s, b.len);
	snprintf(path, sizeof(path), "%s/trace.dat", dir);
	c = fx_open(path);
	assert_non_null(c);
	assert_true(fx_noted(c, "section printk formats: larger than"));
	assert_false(fx_noted(c, "section kallsyms"));
	assert_null(capture_kallsyms(c, &len));
	assert_true(fx_noted(c, "section kallsyms: larger than"));
	assert_false(c->complete);
	capture_close(c);
	sbuf_free(&b);
	enc_rmtree(dir);
}

/* ---- trace-cmd as a witness ---- */

static bool have_tracecmd(void)
{
	return !system("trace-cmd --version >/dev/null 2>&1 || trace-cmd -h >/dev/null 2>&1") ||
	       !access("/usr/bin/trace-cmd", X_OK);
}

/* What trace-cmd reports of CPU 2, line by line, against ours: time and text. */
static void compare_report(const char *path)
{
	char cmd[512], line[4096];
	struct rstream r;
	struct capture *c = fx_open(path);
	struct fmt *f = NULL;
	unsigned int n = 0;
	FILE *p;

	assert_non_null(c);
	f = fmt_load(c);
	assert_int_equal(c->nstream, 3);
	assert_int_equal(rstream_open(&r, c, &c->stream[2]), 0);
	snprintf(cmd, sizeof(cmd), "trace-cmd report -N --cpu 2 -t '%s' 2>/dev/null", path);
	p = popen(cmd, "r");
	assert_non_null(p);
	while (fgets(line, sizeof(line), p)) {
		struct sbuf out = { 0 };
		char *info = strstr(line, "kvm_exit:");
		char stamp[32];

		if (!info)
			continue;
		assert_int_equal(rstream_next(&r), R_EVENT);
		info += strlen("kvm_exit:");
		info += strspn(info, " ");
		info[strcspn(info, "\n")] = '\0';
		fmt_print(fmt_by_id(f, r.rec.id), &r.rec, &out);
		assert_string_equal(out.s, info);
		snprintf(stamp, sizeof(stamp), " %" PRIu64 ":", r.rec.ts);
		assert_non_null(strstr(line, stamp));
		sbuf_free(&out);
		n++;
	}
	pclose(p);
	assert_int_equal(n, 60);
	assert_int_equal(rstream_next(&r), R_END);
	rstream_close(&r);
	fmt_free(f);
	capture_close(c);
}

/* A file without the options that shift its times. */
static void plain_sample(struct sample *s, int version)
{
	sample_new(s, version, 8);
	sbuf_free(&s->d.options);
	s->d.instance = NULL;
}

static void test_trace_cmd_agrees(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[256], cmd[700];
	int version;

	if (!have_tracecmd()) {
		print_message("[     INFO ] trace-cmd is not installed: not compared\n");
		enc_rmtree(dir);
		skip();
	}
	for (version = 7; version >= 6; version--) { /* 6 last: it is converted below */
		struct sbuf file = { 0 };
		struct sample s;

		plain_sample(&s, version);
		enc_dat_build(&s.d, &file);
		enc_file(dir, "trace.dat", file.s, file.len);
		snprintf(path, sizeof(path), "%s/trace.dat", dir);
		compare_report(path);
		sbuf_free(&file);
		sample_free(&s);
	}
	/* what trace-cmd itself writes, plain and compressed */
	for (version = 0; version < 2; version++) {
		const char *how = version ? "zstd" : "none";

		snprintf(cmd, sizeof(cmd),
			 "trace-cmd convert -i '%s/trace.dat' -o '%s/%s.dat' --file-version 7 "
			 "--compression %s >/dev/null 2>&1", dir, dir, how, how);
		if (system(cmd)) { /* older than 3.0, or built without zstd */
			print_message("[     INFO ] trace-cmd cannot convert to %s\n", how);
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s.dat", dir, how);
#ifndef HAVE_ZSTD
		if (version) {
			struct kvmft_err err = { 0 };
			struct capture *c = NULL;

			assert_int_equal(capture_open(path, &c, &err), -EOPNOTSUPP);
			continue;
		}
#endif
		compare_report(path);
	}
	enc_rmtree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_cut_v6),
		cmocka_unit_test(test_cut_v7),	     cmocka_unit_test(test_corrupt_page),
		cmocka_unit_test(test_mutated),	     cmocka_unit_test(test_refused),
		cmocka_unit_test(test_circle),	     cmocka_unit_test(test_many_guests),
		cmocka_unit_test(test_overlapping_options), cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_trace_cmd_agrees), cmocka_unit_test(test_cpu_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
