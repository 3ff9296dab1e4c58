/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_cut.c: a capture cut anywhere never looks whole with events missing. 10,000 lengths
 * of a trace.dat of either version, and of each file of a capture directory; make check takes 1,009 of them.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/stat.h>

#include <cmocka.h>

#define CPUS 2
#define SUBS 20
#define PER  10
#define CUTS (getenv("CHECK_ALL") ? 10000u : 1009u)

/* What a command would find: whether the capture looks whole, and how many events it has. */
static bool looks_whole(const char *path, uint64_t *events)
{
	struct kvmft_err err = { .text = "" };
	struct capture *c = NULL;
	bool whole = true;

	*events = 0;
	if (capture_open(path, &c, &err))
		return false;
	for (size_t i = 0; i < c->nstream; i++) {
		struct rstream r;
		enum rkind k;

		if (rstream_open(&r, c, &c->stream[i])) {
			whole = false;
			continue;
		}
		while ((k = rstream_next(&r)) != R_END) {
			*events += k == R_EVENT;
			whole = whole && k == R_EVENT;
		}
		whole = whole && !r.error;
		rstream_close(&r);
	}
	whole = whole && !c->ndamage && c->complete;
	capture_close(c);
	return whole;
}

/* Cuts the file at `cuts` lengths, longest first; the capture at path is it, or holds it. */
static void cut_all(const char *path, const char *file, unsigned int cuts, const char *what)
{
	uint64_t events, size, told = 0;
	struct stat st;

	assert_true(looks_whole(path, &events));
	assert_int_equal(events, CPUS * SUBS * PER);
	assert_int_equal(stat(file, &st), 0);
	size = (uint64_t)st.st_size;
	for (unsigned int i = 1; i <= cuts; i++) {
		uint64_t len = size - MAX(size * i / cuts, (uint64_t)1);
		bool whole;

		assert_int_equal(truncate(file, (off_t)len), 0);
		whole = looks_whole(path, &events);
		told += !whole;
		if (whole && events < CPUS * SUBS * PER) {
			print_error("%s cut at %llu of %llu looks whole with %llu events\n", what,
				    (unsigned long long)len, (unsigned long long)size,
				    (unsigned long long)events);
			fail();
		}
	}
	print_message("[     INFO ] %s: %u cuts, %llu told of\n", what, cuts,
		      (unsigned long long)told);
	assert_true(told > 0);
}

static void test_trace_dat(void **state __unused_arg)
{
	static const char *const events[] = { "kvm", "kvm_exit", NULL };

	for (int version = 6; version <= 7; version++) {
		struct subbuf_geom g = enc_geom(1024, 8);
		struct enc_cpu cpu[CPUS];
		struct enc_dat d = { .version = version, .g = g, .events = events, .ncpu = CPUS,
				     .cpu = cpu, .clock = "[x86-tsc]" };
		char *dir = enc_tmpdir(), path[300];
		struct sbuf out = { 0 };

		for (size_t i = 0; i < CPUS; i++)
			cpu[i] = (struct enc_cpu){ fx_pages(&g, SUBS, PER, 1000, 10, 7), SUBS * g.size };
		enc_dat_build(&d, &out);
		enc_file(dir, "t", out.s, out.len);
		snprintf(path, sizeof(path), "%s/t", dir);
		cut_all(path, path, CUTS, version == 6 ? "trace.dat v6" : "trace.dat v7");
		for (size_t i = 0; i < CPUS; i++)
			free((void *)(uintptr_t)cpu[i].data);
		sbuf_free(&out);
		sbuf_free(&d.options);
		enc_rmtree(dir);
	}
}

/* trace-cmd's own compressed file, made from an uncompressed one. */
static void test_trace_dat_zstd(void **state __unused_arg)
{
#ifndef HAVE_ZSTD
	print_message("[     INFO ] built without zstd\n");
	skip();
#else
	static const char *const events[] = { "kvm", "kvm_exit", NULL };
	struct subbuf_geom g = enc_geom(4096, 8);
	struct enc_cpu cpu[CPUS];
	struct enc_dat d = { .version = 6, .g = g, .events = events, .ncpu = CPUS, .cpu = cpu,
			     .cmdlines = "100 task\n", .clock = "[x86-tsc]" };
	char *dir = enc_tmpdir(), path[300], cmd[800];
	struct sbuf out = { 0 };
	int failed;

	for (size_t i = 0; i < CPUS; i++)
		cpu[i] = (struct enc_cpu){ fx_pages(&g, SUBS, PER, 1000, 10, 7), SUBS * g.size };
	enc_dat_build(&d, &out);
	enc_file(dir, "t", out.s, out.len);
	snprintf(path, sizeof(path), "%s/z", dir);
	snprintf(cmd, sizeof(cmd),
		 "trace-cmd convert -i '%s/t' -o '%s' --file-version 7 --compression zstd >/dev/null 2>&1",
		 dir, path);
	failed = system(cmd);
	if (!failed)
		cut_all(path, path, CUTS, "trace.dat v7 with zstd");
	for (size_t i = 0; i < CPUS; i++)
		free((void *)(uintptr_t)cpu[i].data);
	sbuf_free(&out);
	sbuf_free(&d.options);
	enc_rmtree(dir);
	if (failed) {
		print_message("[     INFO ] no trace-cmd that compresses\n");
		skip();
	}
#endif
}

static void test_directory(void **state __unused_arg)
{
	static const char *const files[] = { "meta", "seg000000/cpu0", "seg000000/cpu1" };

	for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
		struct subbuf_geom g = enc_geom(1024, 8);
		char *dir = enc_tmpdir(), path[300];
		struct sbuf meta = { 0 };

		fx_meta(&meta, &g);
		fx_event(dir, &meta, "kvm", "kvm_exit");
		for (unsigned int i = 0; i < CPUS; i++) {
			uint8_t *pages = fx_pages(&g, SUBS, PER, 1000, 10, 7);

			snprintf(path, sizeof(path), "seg000000/cpu%u", i);
			enc_file(dir, path, pages, SUBS * g.size);
			sbuf_addf(&meta, "stats cpu=%u when=end entries=0 overrun=0 commit_overrun=0 "
				  "dropped=0 read=%u subbufs=%u\n", i, SUBS * PER, SUBS);
			free(pages);
		}
		fx_end(&meta);
		fx_write(dir, &meta);
		snprintf(path, sizeof(path), "%s/%s", dir, files[k]);
		cut_all(dir, path, CUTS / 3 + 1, files[k]);
		enc_rmtree(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace_dat),
		cmocka_unit_test(test_trace_dat_zstd),
		cmocka_unit_test(test_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
