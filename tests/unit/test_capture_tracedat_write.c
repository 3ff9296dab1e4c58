/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_tracedat_write.c: tests of src/capture/tracedat_write*.c, _meta.c and _facts.c: what
 * is written opens as the same facts and sub-buffers, in both word sizes.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "kvmft/tracedat.h"

#define KVM_EXIT 103 /* its id in the corpus */
#define NSUB	 23  /* more than two chunks of a compressed file */

static struct capture *facts(struct cap_format *f, struct cap_task *t, struct cap_cpu *cpu)
{
	static struct capture c;

	memset(&c, 0, sizeof(c));
	f[0] = (struct cap_format){ "sched", "sched_switch", (char *)enc_format("sched", "sched_switch"), 0 };
	f[1] = (struct cap_format){ "kvm", "kvm_exit", (char *)enc_format("kvm", "kvm_exit"), 0 };
	f[0].len = strlen(f[0].text);
	f[0].text = strdup(f[0].text);
	f[1].text = (char *)enc_format("kvm", "kvm_exit");
	f[1].len = strlen(f[1].text);
	t[0] = (struct cap_task){ .tid = 100, .comm = "CPU 0/KVM" };
	t[1] = (struct cap_task){ .tid = 101, .comm = "" };
	cpu[0] = (struct cap_cpu){ .cpu = 2, .begin = { true, 0, 1, 2, 3, 4 }, .end = { true, 9, 11, 22, 33, 44 } };
	c.format = f;
	c.nformat = 2;
	c.task = t;
	c.ntask = 2;
	c.cpu = cpu;
	c.ncpu = 1;
	c.uname = "Linux box 6.1";
	c.printk = "0x1 : \"x\"\n";
	c.printk_len = strlen(c.printk);
	c.ts_add = -7;
	return &c;
}

static const struct cap_shift_sample samples[] = { { 0, -5, 1 }, { 1000, 6, 1 }, { INT64_MAX, 6, 1 } };

static void put_options(struct tdw *w)
{
	struct cap_shift shift = { .sample = (struct cap_shift_sample *)samples, .nsample = 3, .frac = 48 };
	const int32_t tid[] = { 281, 0, 283 };
	uint32_t mult, sh;

	tdw_facts(w);
	tdw_id_option(w, 0xabc);
	assert_true(tdw_tsc2nsec(2500000, &mult, &sh));
	tdw_tsc2nsec_option(w, mult, sh);
	tdw_guest_option(w, "vm1", 0xdef, tid, 3);
	tdw_time_shift_option(w, 0x123, 0, &shift, 1);
}

static void check_facts(const struct capture *c, const struct tdw_spec *s)
{
	assert_int_equal(c->ndamage, 0);
	assert_true(c->complete);
	assert_int_equal(c->version, 6);
	assert_int_equal(c->subbuf_size, s->g.size);
	assert_int_equal(c->page_header, s->g.header);
	assert_string_equal(c->clock, "x86-tsc");
	assert_string_equal(c->uname, "Linux box 6.1");
	assert_int_equal(c->ts_add, -7);
	assert_int_equal(c->trace_id, 0xabc);
	assert_int_equal(c->tsc_khz, 2500000);
	assert_int_equal(c->nformat, 2);
	assert_string_equal(c->format[0].sys, "kvm"); /* sorted by system */
	assert_string_equal(c->format[1].name, "sched_switch");
	assert_int_equal(c->ntask, 1);
	assert_string_equal(c->task[0].comm, "CPU 0/KVM");
	assert_string_equal(c->printk, "0x1 : \"x\"\n");
	assert_int_equal(c->cpu[0].cpu, 2);
	assert_int_equal(c->cpu[0].end.overrun, 10); /* since the begin */
	assert_int_equal(c->cpu[0].end.read, 0); /* as many as tdw_events() was told of */
	assert_int_equal(c->nvm, 1);
	assert_string_equal(c->vm[0].name, "vm1");
	assert_int_equal(c->vm[0].trace_id, 0xdef);
	assert_int_equal(c->vm[0].nvcpu, 3);
	assert_int_equal(c->vm[0].vcpu[2].tid, 283);
	assert_int_equal(c->shift_peer, 0x123);
	assert_int_equal(c->nshift, 1);
	assert_int_equal(c->shift[0].nsample, 3);
	assert_memory_equal(c->shift[0].sample, samples, sizeof(samples));
	assert_int_equal(c->shift[0].frac, 48);
}

static void check_stream(const struct capture *c, size_t i, uint32_t cpu, const char *instance,
			 const uint8_t *pages, uint64_t nsub)
{
	uint8_t buf[FX_SUB];

	assert_int_equal(c->stream[i].cpu, cpu);
	assert_string_equal(c->stream[i].instance, instance);
	assert_int_equal(c->stream[i].nsub, nsub);
	for (uint64_t k = 0; k < nsub; k++) {
		assert_int_equal(capture_read_subbufs(c, &c->stream[i], k, 1, buf, NULL), 1);
		assert_memory_equal(buf, pages + k * FX_SUB, FX_SUB);
	}
	/* Parts, backwards as well: compressed ones must be unpacked again. */
	for (uint64_t k = nsub; k--;) {
		uint32_t at = (uint32_t)(k * 37 % FX_SUB), n = MIN(100u, FX_SUB - at);

		assert_int_equal(capture_read_part(c, &c->stream[i], k, at, buf, n, NULL), 0);
		assert_memory_equal(buf, pages + k * FX_SUB + at, n);
		n = FX_SUB - at - n; /* goes on */
		assert_int_equal(capture_read_part(c, &c->stream[i], k, FX_SUB - n, buf, n, NULL), 0);
		assert_memory_equal(buf, pages + k * FX_SUB + FX_SUB - n, n);
	}
}

static const struct cap_stream *find_stream(const struct capture *c, uint32_t cpu, const char *name)
{
	for (size_t i = 0; i < c->nstream; i++)
		if (c->stream[i].cpu == cpu && !strcmp(c->stream[i].instance, name))
			return &c->stream[i];
	return NULL;
}

static void one(const char *path, uint32_t long_size)
{
	static const char *const instance[] = { "net" };
	static const uint32_t instance_cpus[] = { 5 };
	struct cap_format f[2];
	struct cap_task t[2];
	struct cap_cpu cpu[1];
	struct tdw_spec s = {
		.g = enc_geom(FX_SUB, long_size),
		.cap = facts(f, t, cpu),
		.clock = "x86-tsc",
		.cpus = 3,
		.instance = instance,
		.instance_cpus = instance_cpus,
		.ninstance = 1,
	};
	uint8_t *pages = fx_pages_of(&s.g, NSUB, 20, 1000, 10, KVM_EXIT, 72);
	struct capture *c;
	struct tdw *w;
	int fd;

	fd = file_create(AT_FDCWD, path);
	assert_int_equal(tdw_create(fd, &s, &w), 0);
	put_options(w);
	tdw_buffer(w);
	tdw_cpu(w, 0); /* no events */
	tdw_cpu(w, 2);
	for (int i = 0; i < NSUB; i++)
		assert_int_equal(tdw_subbuf(w, pages + (size_t)i * FX_SUB), 0);
	tdw_buffer(w);
	tdw_cpu(w, 4);
	assert_int_equal(tdw_subbuf(w, pages), 0);
	assert_int_equal(tdw_close(w, 0), 0);
	close(fd);

	c = fx_open(path);
	assert_non_null(c);
	check_facts(c, &s);
	for (size_t i = 0; i < c->nstream; i++)
		if (&c->stream[i] == find_stream(c, 2, ""))
			check_stream(c, i, 2, "", pages, NSUB);
		else if (&c->stream[i] == find_stream(c, 4, "net"))
			check_stream(c, i, 4, "net", pages, 1);
		else
			assert_int_equal(c->stream[i].nsub, 0);
	assert_non_null(find_stream(c, 2, ""));
	assert_non_null(find_stream(c, 4, "net"));
	capture_close(c);
	assert_int_equal(unlink(path), 0);
	free(pages);
	free(f[0].text);
}

static void test_round_trip(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[512];

	snprintf(path, sizeof(path), "%s/x.dat", dir);
	for (unsigned int k = 0; k < 2; k++)
		one(path, k ? 4 : 8);
	enc_rmtree(dir);
}

static void test_failures(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), path[512];
	struct capture c = { 0 };
	struct tdw_spec s = { .g = enc_geom(FX_SUB, 8), .cap = &c, .clock = "x86-tsc", .cpus = 1 };
	struct tdw *w;
	int fd;

	snprintf(path, sizeof(path), "%s/x.dat", dir);
	fd = file_create(AT_FDCWD, path);
	assert_true(fd >= 0);
	assert_int_equal(tdw_create(fd, &s, &w), 0);
	tdw_buffer(w);
	assert_int_equal(tdw_close(w, -EIO), -EIO);

	s.g.size = 5000;
	assert_int_equal(tdw_create(fd, &s, &w), -EINVAL);
	close(fd);
	enc_rmtree(dir);
}

static void test_tsc2nsec(void **state __unused_arg)
{
	static const uint64_t khz[] = { 1, 1000, 1000000, 2445410, 2596146, 5200000, UINT32_MAX };
	uint32_t mult, shift;

	assert_false(tdw_tsc2nsec(0, &mult, &shift));
	for (size_t i = 0; i < ARRAY_SIZE(khz); i++) {
		unsigned __int128 day = (unsigned __int128)khz[i] * 1000 * 86400, ns;

		assert_true(tdw_tsc2nsec(khz[i], &mult, &shift));
		assert_in_range(mult, 1, INT32_MAX); /* an int in libtracecmd */
		ns = day * mult >> shift;
		/* 86400 s, wrong by less than 2^-30 of it */
		assert_in_range((uint64_t)ns, 86400000000000ull - 80500, 86400000000000ull + 80500);
	}
}

static void test_ids(void **state __unused_arg)
{
	struct capture a = { .side = CAP_SIDE_GUEST, .uuid = "ABCD-1" };
	struct capture b = { .side = CAP_SIDE_HOST, .uname = "x", .begin_tsc = 1 };
	uint64_t first = tdw_trace_id(&b);

	assert_int_equal(tdw_trace_id(&a), tdw_trace_id_of_uuid("abcd-1"));
	assert_int_not_equal(tdw_trace_id(&a), tdw_trace_id_of_uuid("abcd-2"));
	assert_int_not_equal(first, 0);
	b.begin_tsc = 2;
	assert_int_not_equal(tdw_trace_id(&b), first);
	b.trace_id = 77;
	assert_int_equal(tdw_trace_id(&b), 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_tsc2nsec),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
