/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_dir.c: tests of src/capture/dir_read.c and its helpers: every record, cut at every
 * byte, what is missing, and what somebody may have put there instead.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char records[] =
	"tool version=kvmft%200.1\n"
	"tsc khz=2400000 source=cpuid clocksource=tsc constant=1 nonstop=1\n"
	"cpu n=0 apicid=4\n"
	"cpu n=9\n"
	"vm id=4711-13 pid=4711 fd=13 name=web%20one uuid=0f0e0d0c-0b0a-0908-0706-050403020100 vmm=qemu\n"
	"vm id=99-7 pid=99 fd=7 name=twin\n"
	"vm id=99-8 pid=99 fd=8 name=twin\n"
	"vcpu vm=4711-13 id=0 tid=4720 comm=CPU%200/KVM offset=-5 ratio=7 frac=48 tsc=1000\n"
	"vcpu vm=4711-13 id=1 tid=4721 offset=18446744073709551610\n"
	"vcpu vm=4711-13 id=0 tid=4722 offset=-6\n"
	"vcpu vm=4711-13 id=0 at=end offset=-7 ratio=8 tsc=2000\n"
	"vcpu vm=4711-13 id=77 at=end offset=1\n"
	/* Two that came while it was recorded: told when they were made, and again with their threads. */
	"vm id=88-9 pid=88 fd=9\n"
	"vcpu vm=88-9 id=0 offset=-3 ratio=0 frac=0 tsc=600\n"
	"vcpu vm=88-9 id=1 offset=-3 ratio=0 frac=0 tsc=600\n"
	"vm id=88-9 pid=88 fd=9 name=late\n"
	"vcpu vm=88-9 id=0 tid=90 offset=-4 ratio=0 frac=0 tsc=700\n"
	"vcpu vm=88-9 id=1 tid=91 at=end offset=-5 ratio=0 frac=0 tsc=800\n"
	"sched kvm_sched_clock_offset=-12 kernel_sched_clock_offset=34 source=kprobe is_tsc=1\n"
	"pvclock cpu=1 version=6 tsc_timestamp=10 system_time=20 mul=30 shift=-1 flags=1\n"
	"time tsc=1 width=2 mono_raw=3 mono=4 boot=5 real=6\n"
	"task tid=4720 tgid=4711 comm=vcpu0\n"
	"task tid=1 tgid=1 comm=init%1bx\n"
	"begin tsc=500\n"
	"stats when=begin cpu=0 entries=1 overrun=2 commit_overrun=3 dropped=4 read=5\n"
	"stats when=end cpu=0 entries=6 overrun=7 commit_overrun=8 dropped=9 read=10\n"
	"stats when=end cpu=1 entries=6\n"
	"segment n=0\n"
	"weather sunny=1\n"
	"end reason=signal tsc=900 moon=full\n";

static void check_machine(const struct capture *c)
{
	assert_int_equal(c->side, CAP_SIDE_HOST);
	assert_int_equal(c->version, 1);
	assert_false(c->is_tracedat);
	assert_true(c->complete && c->overwrite);
	assert_string_equal(c->tool, "kvmft 0.1");
	assert_string_equal(c->uname, "Linux test 6.1.0 x86_64");
	assert_string_equal(c->vendor, "GenuineIntel");
	assert_string_equal(c->clock, "x86-tsc");
	assert_string_equal(c->clocksource, "tsc");
	assert_string_equal(c->tsc_khz_source, "cpuid");
	assert_int_equal(c->tsc_khz, 2400000);
	assert_int_equal(c->begin_tsc, 500);
	assert_int_equal(c->end_tsc, 900);
	assert_string_equal(c->end_reason, "signal");
	assert_true(c->has_sched_offset && c->has_kernel_sched_offset && c->sched_is_tsc);
	assert_int_equal(c->kvm_sched_clock_offset, -12);
	assert_int_equal(c->kernel_sched_offset, 34);
	assert_string_equal(c->sched_source, "kprobe");
	assert_int_equal(c->npvclock, 1);
	assert_int_equal(c->pvclock[0].pv.shift, -1);
	assert_int_equal(c->pvclock[0].pv.mul, 30);
	assert_int_equal(c->nbracket, 1);
	assert_int_equal(c->bracket[0].real, 6);
}

static void check_vms(const struct capture *c)
{
	const struct cap_vm *vm;

	assert_int_equal(c->nvm, 4);
	vm = &c->vm[0];
	assert_string_equal(vm->name, "web one");
	/* The last one came while the capture ran: it has an end only, and that is no damage. */
	assert_int_equal(vm->nvcpu, 4);
	assert_int_equal(vm->vcpu[3].id, 77);
	assert_false(vm->vcpu[3].has_offset);
	assert_true(vm->vcpu[3].has_end);
	assert_int_equal(vm->vcpu[3].end_offset, 1);
	assert_int_equal(vm->vcpu[0].offset, (uint64_t)-5);
	assert_int_equal(vm->vcpu[0].ratio, 7);
	assert_int_equal(vm->vcpu[0].frac, 48);
	assert_int_equal(vm->vcpu[1].offset, (uint64_t)-6);
	assert_int_equal(vm->vcpu[2].tid, 4722);
	assert_false(vm->vcpu[0].has_end);
	assert_true(vm->vcpu[2].has_end);
	assert_int_equal(vm->vcpu[2].end_offset, (uint64_t)-7);
	assert_int_equal(vm->vcpu[2].end_tsc, 2000);
	assert_string_equal(vm->id, "4711-13");
	assert_string_equal(vm->uuid, "0f0e0d0c-0b0a-0908-0706-050403020100");
	vm = &c->vm[2];
	assert_string_equal(vm->id, "99-8");
	assert_int_equal(vm->fd, 8);

	vm = &c->vm[3];
	assert_string_equal(vm->name, "late");
	assert_int_equal(vm->nvcpu, 2);
	assert_int_equal(vm->vcpu[0].tid, 90);
	assert_int_equal(vm->vcpu[0].offset, (uint64_t)-3);
	assert_int_equal(vm->vcpu[0].tsc, 600);
	assert_int_equal(vm->vcpu[1].tid, 91);
	assert_int_equal(vm->vcpu[1].end_offset, (uint64_t)-5);
}

static const struct cap_task *task(const struct capture *c, int32_t tid)
{
	size_t i;

	for (i = 0; i < c->ntask; i++)
		if (c->task[i].tid == tid)
			return &c->task[i];
	return NULL;
}

static void test_records(void **state __unused_arg)
{
	static const char cmdlines[] = "4720 saved\n4800 qemu system\n", tgids[] = "4800 4711\n5 5\n";
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	struct capture *c;

	fx_meta(&meta, &g);
	fx_event(dir, &meta, "kvm", "kvm_exit");
	sbuf_add(&meta, "event sys=kvm name=kvm_gone\nevent sys=.. name=passwd\nevent sys=a/b name=c\n");
	sbuf_add(&meta, records);
	fx_write(dir, &meta);
	enc_file(dir, "saved_cmdlines", cmdlines, sizeof(cmdlines) - 1);
	enc_file(dir, "saved_tgids", tgids, sizeof(tgids) - 1);
	c = fx_open(dir);
	assert_non_null(c);
	check_machine(c);
	check_vms(c);
	assert_true(c->cpu[0].has_apicid && c->cpu[0].begin.valid && c->cpu[0].end.valid);
	assert_int_equal(c->cpu[0].apicid, 4);
	assert_int_equal(c->cpu[0].begin.commit_overrun, 3);
	assert_int_equal(c->cpu[0].end.dropped, 9);
	assert_int_equal(c->nformat, 1);
	assert_string_equal(c->format[0].text, enc_format("kvm", "kvm_exit"));
	assert_string_equal(task(c, 4720)->comm, "vcpu0");
	assert_int_equal(task(c, 4720)->tgid, 4711);
	assert_string_equal(task(c, 4800)->comm, "qemu system");
	assert_int_equal(task(c, 4800)->tgid, 4711);
	assert_string_equal(task(c, 1)->comm, "init?x");
	assert_true(fx_noted(c, "kvm_gone"));
	assert_true(fx_noted(c, "without a valid sys"));
	assert_true(fx_noted(c, "record stats"));
	assert_true(fx_noted(c, "segments up to 0 are missing"));
	assert_true(fx_noted(c, "without a valid sys (2 times)"));
	assert_int_equal(c->ndamage, 4);
	capture_close(c);
	enc_rmtree(dir);
}

/* Whatever byte the recorder died at, the capture opens with the records before it. */
static void test_cut_everywhere(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	size_t first, len, cut;
	char *text;

	fx_meta(&meta, &g);
	sbuf_add(&meta, records);
	first = (size_t)(strchr(meta.s, '\n') - meta.s);
	len = meta.len;
	text = strdup(meta.s);
	fx_write(dir, &meta);
	for (cut = 0; cut <= len; cut++) {
		struct capture *c = NULL;
		struct kvmft_err err = { 0 };
		int ret;

		enc_file(dir, "meta", text, cut);
		ret = capture_open(dir, &c, &err);
		if (cut <= first) {
			assert_int_equal(ret, -EBADMSG);
			assert_non_null(strstr(err.text, "not a kvmft capture"));
			continue;
		}
		assert_int_equal(ret, 0);
		assert_int_equal(c->complete, cut == len);
		assert_int_equal(fx_noted(c, "meta ends within a line"), text[cut - 1] != '\n');
		assert_int_equal(fx_noted(c, "no end record"), cut != len);
		capture_close(c);
	}
	free(text);
	enc_rmtree(dir);
}

static int open_meta(const char *dir, const char *text, size_t len, char *why, size_t size)
{
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;
	int ret;

	enc_file(dir, "meta", text, len);
	ret = capture_open(dir, &c, &err);
	snprintf(why, size, "%s", err.text);
	capture_close(c);
	return ret;
}

/* A file of names that meta has and the directory has not is reported; so is one that is cut or no text. */
static void test_texts(void **state __unused_arg)
{
	static const char cmdlines[] = "12 one\n13 two\n";
	static const struct {
		const char *text; /* NULL: no file */
		size_t n;
		bool told;
		const char *note; /* NULL: none */
	} want[] = {
		{ cmdlines, sizeof(cmdlines) - 1, true, NULL },
		{ cmdlines, sizeof(cmdlines) - 1, false, NULL },
		{ NULL, 0, false, NULL },
		{ NULL, 0, true, "saved_cmdlines is missing" },
		{ cmdlines, 7, true, "saved_cmdlines is cut: 7 of 14 bytes" },
		{ cmdlines, 7, false, NULL },
		{ cmdlines, 10, false, "saved_cmdlines is cut short: it ends inside a line" },
		{ "", 0, true, "saved_cmdlines is cut: 0 of 14 bytes" },
		{ "12 one\n\0" "3 two\n", 14, true, "saved_cmdlines is not text after byte 7" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct subbuf_geom g = enc_geom(FX_SUB, 8);
		struct sbuf meta = { 0 };
		char *dir = enc_tmpdir();
		struct capture *c;

		fx_meta(&meta, &g);
		if (want[i].told)
			sbuf_add(&meta, "file name=saved_cmdlines bytes=14\n");
		sbuf_add(&meta, "file name=of_tomorrow bytes=9\nend reason=signal tsc=1\n");
		enc_file(dir, "meta", meta.s, meta.len);
		enc_file(dir, "seg000000/cpu0", "", 0);
		if (want[i].text)
			enc_file(dir, "saved_cmdlines", want[i].text, want[i].n);
		c = fx_open(dir);
		assert_non_null(c);
		if (want[i].note)
			assert_true(fx_noted(c, want[i].note));
		assert_int_equal(fx_noted(c, "saved_cmdlines"), want[i].note != NULL);
		assert_false(fx_noted(c, "of_tomorrow"));
		capture_close(c);
		sbuf_free(&meta);
		enc_rmtree(dir);
	}
}

static void test_versions(void **state __unused_arg)
{
	char *dir = enc_tmpdir(), why[1024];

	assert_int_equal(open_meta(dir, "kvmft-capture version=1\n", 24, why, sizeof(why)), 0);
	assert_int_equal(open_meta(dir, "kvmft-capture version=2\n", 24, why, sizeof(why)),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(why, "version 2"));
	assert_non_null(strstr(why, dir));
	assert_int_equal(open_meta(dir, "kvmft-capture version=1\nmachine endian=big\n", 43, why,
				   sizeof(why)),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(why, "of a big-endian machine"));
	assert_int_equal(open_meta(dir, "kvmft-capture version=0\n", 24, why, sizeof(why)), -EBADMSG);
	assert_int_equal(open_meta(dir, "kvmft-capture\n", 14, why, sizeof(why)), -EBADMSG);
	assert_int_equal(open_meta(dir, "\n", 1, why, sizeof(why)), -EBADMSG);
	assert_int_equal(open_meta(dir, "\0\0\0\n", 4, why, sizeof(why)), -EBADMSG);
	enc_rmtree(dir);
}

/* Garbage lines and values cost themselves only. */
static void test_damaged_lines(void **state __unused_arg)
{
	static const char junk[] =
		"kvmft-capture version=1\n"
		"ring clock=x86-tsc subbuf=4095 header=5\n"
		"machine long=5\n"
		"side name=moon\n"
		"tsc khz=4294967296\n"
		"vcpu id=1\n"
		"cpu n=8192\n"
		"cpu n=99999999999999999999\n"
		"pvclock cpu=0 shift=200 mul=1 tsc_timestamp=1 system_time=1\n"
		"task tid=-5\n"
		"\x01\x02 binary\n"
		"no equals here\n"
		"\n"
		"end\n";
	char *dir = enc_tmpdir();
	struct capture *c;

	enc_file(dir, "meta", junk, sizeof(junk) - 1);
	c = fx_open(dir);
	assert_non_null(c);
	assert_true(c->complete);
	assert_int_equal(c->subbuf_size, 0);
	assert_int_equal(c->tsc_khz, 0);
	assert_int_equal(c->nstream + c->nvm + c->npvclock + c->ntask + c->ncpu, 0);
	assert_true(fx_noted(c, "line 11 is damaged"));
	assert_true(fx_noted(c, "line 12 is damaged"));
	assert_true(fx_noted(c, "the sub-buffer size is missing"));
	assert_int_equal(c->ndamage, 14);
	capture_close(c);
	enc_rmtree(dir);
}

static void test_data_files(void **state __unused_arg)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	uint8_t *pages = fx_pages(&g, 10, 5, 1, 1, 7), *buf = malloc(16 * FX_SUB);
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	uint64_t stamp;
	struct capture *c;

	fx_meta(&meta, &g);
	fx_end(&meta);
	fx_write(dir, &meta);
	/* 3 kept, 4 gone, cut ends, foreign names, a directory and a link where files belong */
	enc_file(dir, "seg000003/cpu1", pages, 3 * FX_SUB);
	enc_file(dir, "seg000003/cpu10", pages, FX_SUB - 1);
	enc_file(dir, "seg000005/cpu1", pages + 3 * FX_SUB, 2 * FX_SUB + 100);
	enc_file(dir, "seg000005/cpu01", pages, FX_SUB);
	enc_file(dir, "seg000005/cpu1x", pages, FX_SUB);
	enc_file(dir, "seg000005/cpu8192", pages, FX_SUB);
	enc_file(dir, "seg5/cpu0", pages, FX_SUB);
	enc_file(dir, "seg000005/cpu2/x", pages, 1);
	{
		_cleanup_free_ char *link = NULL, *fifo = NULL;

		assert_true(asprintf(&link, "%s/seg000005/cpu3", dir) > 0);
		assert_int_equal(symlink("/etc/passwd", link), 0);
		assert_true(asprintf(&fifo, "%s/seg000005/cpu4", dir) > 0);
		assert_int_equal(mkfifo(fifo, 0600), 0); /* must not hang */
	}
	c = fx_open(dir);
	assert_non_null(c);
	assert_int_equal(c->nstream, 2);
	assert_int_equal(c->stream[0].cpu, 1);
	assert_int_equal(c->stream[0].nsub, 5);
	assert_int_equal(c->stream[0].cut_bytes, 100);
	assert_int_equal(c->stream[1].cpu, 10);
	assert_int_equal(c->stream[1].nsub, 0);
	assert_int_equal(c->stream[1].cut_bytes, FX_SUB - 1);
	assert_true(fx_noted(c, "segments 4 to 4 are missing"));
	assert_true(fx_noted(c, "seg000005/cpu2"));
	assert_true(fx_noted(c, "seg000005/cpu3"));
	assert_true(fx_noted(c, "seg000005/cpu4"));
	assert_int_equal(capture_read_subbufs(c, &c->stream[0], 0, 16, buf, NULL), 3); /* one extent */
	assert_memory_equal(buf, pages, 3 * FX_SUB);
	assert_int_equal(capture_read_subbufs(c, &c->stream[0], 3, 16, buf, NULL), 2);
	assert_memory_equal(buf, pages + 3 * FX_SUB, 2 * FX_SUB);
	assert_int_equal(capture_read_subbufs(c, &c->stream[0], 5, 16, buf, NULL), 0);
	assert_int_equal(capture_read_subbufs(c, &c->stream[0], 4, 1, buf, NULL), 1);
	assert_int_equal(capture_read_subbufs(c, &c->stream[0], 5, 1, buf, NULL), 0);
	assert_int_equal(capture_read_part(c, &c->stream[0], 3, 0, &stamp, 8, NULL), 0);
	assert_int_equal(stamp, 16);
	assert_int_equal(capture_read_part(c, &c->stream[1], 0, 0, &stamp, 8, NULL), -ENODATA);
	capture_close(c);
	free(pages);
	free(buf);
	enc_rmtree(dir);
}

/*
 * A disk that is full for a while costs the record that did not fit and no other. The limit for the size of files
 * plays the disk.
 */
static void test_line_that_did_not_fit(void **state __unused_arg)
{
	struct rlimit old, low;
	char *dir = enc_tmpdir(), path[256], longer[300];
	struct kvmft_err err = { 0 };
	struct sbuf line = { 0 };
	struct capture *c;
	struct capw *w;
	struct stat st;

	snprintf(path, sizeof(path), "%s/c", dir);
	assert_int_equal(enc_capture(path, &w, &err), 0);
	assert_int_equal(fstatat(capw_dirfd(w), "meta", &st, 0), 0);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)st.st_size + 40;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	meta_begin(&line, "tool");
	meta_str(&line, "version", longer);
	assert_int_equal(capw_meta(w, &line), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	meta_begin(&line, "end");
	meta_str(&line, "reason", "signal");
	assert_int_equal(capw_meta(w, &line), 0);
	sbuf_free(&line);
	capw_close(w);
	c = fx_open(path);
	assert_non_null(c);
	assert_true(c->complete);
	assert_string_equal(c->end_reason, "signal");
	assert_null(c->tool);
	assert_false(fx_noted(c, "is damaged"));
	capture_close(c);
	enc_rmtree(dir);
}

static off_t size_of(const struct capw *w, const char *name)
{
	struct stat st;

	return fstatat(capw_dirfd(w), name, &st, 0) ? -1 : st.st_size;
}

/* What is held is not in the files; released, it is as if it had not been held; a full disk takes all of it. */
static void test_held(void **state __unused_arg)
{
	struct kvmft_err err = { 0 };
	char *dir = enc_tmpdir(), path[256];
	struct rlimit old, low;
	struct sbuf line = { 0 };
	uint64_t at = 1, next = 1;
	struct capw *w;
	off_t before;

	snprintf(path, sizeof(path), "%s/c", dir);
	assert_int_equal(enc_capture(path, &w, &err), 0);
	before = size_of(w, "meta");
	capw_hold(w);
	assert_int_equal(capw_format(w, "name: a\n", &at), 0);
	assert_int_equal(capw_format(w, "name: b\n", &next), 0);
	assert_int_equal(at, 0);
	assert_int_equal(next, 8);
	meta_begin(&line, "tool");
	assert_int_equal(capw_meta(w, &line), 0);
	assert_int_equal(size_of(w, "meta"), before);
	assert_int_equal(size_of(w, "formats"), 0);
	assert_int_equal(capw_release(w), 0);
	assert_true(size_of(w, "meta") > before);
	assert_int_equal(size_of(w, "formats"), 16);
	assert_int_equal(capw_format(w, "name: c\n", &next), 0);
	assert_int_equal(next, 16);
	assert_int_equal(size_of(w, "formats"), 24);

	before = size_of(w, "meta");
	capw_hold(w);
	meta_begin(&line, "side");
	meta_str(&line, "name", "host");
	assert_int_equal(capw_meta(w, &line), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)before + 3;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(capw_release(w), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(size_of(w, "meta"), before);
	capw_hold(w);
	meta_begin(&line, "side");
	assert_int_equal(capw_meta(w, &line), 0);
	sbuf_free(&line);
	capw_close(w); /* and what was not released goes with it */
	enc_rmtree(dir);
}

/* The meta file itself must be a plain file, and formats are not fetched through links. */
static void test_links_refused(void **state __unused_arg)
{
	_cleanup_free_ char *path = NULL, *events = NULL;
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	struct kvmft_err err = { 0 };
	char *dir = enc_tmpdir(), *other = enc_tmpdir();
	struct sbuf meta = { 0 };
	struct capture *c = NULL;

	fx_event(other, &meta, "kvm", "kvm_exit");
	sbuf_reset(&meta);
	fx_meta(&meta, &g);
	sbuf_add(&meta, "event sys=kvm name=kvm_exit\n");
	fx_write(dir, &meta);
	assert_true(asprintf(&path, "%s/events", dir) > 0);
	assert_true(asprintf(&events, "%s/events", other) > 0);
	assert_int_equal(symlink(events, path), 0);
	c = fx_open(dir);
	assert_non_null(c);
	assert_int_equal(c->nformat, 0);
	assert_true(fx_noted(c, "events/kvm/kvm_exit"));
	capture_close(c);
	free(path);
	assert_true(asprintf(&path, "%s/meta", other) > 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_true(capture_open(other, &c, &err) < 0);
	assert_int_equal(capture_open("/nonexistent", &c, &err), -ENOENT);
	assert_int_equal(capture_open("/dev/null", &c, &err), -EINVAL);
	enc_rmtree(dir);
	enc_rmtree(other);
}

/* Ten thousand complaints must not become ten thousand lines. */
static void test_notes_bounded(void **state __unused_arg)
{
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	struct capture *c;
	int i;

	sbuf_add(&meta, "kvmft-capture version=1\n");
	for (i = 0; i < 10000; i++)
		sbuf_addf(&meta, "vm x=1\nevent sys=kvm name=gone%d\n", i);
	enc_file(dir, "meta", meta.s, meta.len);
	c = fx_open(dir);
	assert_non_null(c);
	assert_int_equal(c->ndamage, 1000);
	assert_true(fx_noted(c, "record vm without a valid id (10000 times)"));
	assert_true(fx_noted(c, "more of this kind"));
	capture_close(c);
	sbuf_free(&meta);
	enc_rmtree(dir);
}

/* A line that names a large file costs no more memory each time it is repeated. */
static void test_formats_bounded(void **state __unused_arg)
{
	static char text[200 << 10];
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();
	struct capture *c;
	size_t len = 0;

	memset(text, ' ', sizeof(text));
	enc_file(dir, "events/kvm/kvm_exit", text, sizeof(text));
	enc_file(dir, "formats", text, sizeof(text));
	sbuf_add(&meta, "kvmft-capture version=1\n");
	for (int i = 0; i < 1000; i++)
		sbuf_addf(&meta, "event sys=kvm name=kvm_exit%s\n", i % 2 ? " at=0 len=204800" : "");
	enc_file(dir, "meta", meta.s, meta.len);
	c = fx_open(dir);
	assert_non_null(c);
	for (size_t i = 0; i < c->nformat; i++)
		len += c->format[i].len;
	assert_in_range(len, 60 << 20, 65 << 20);
	assert_true(fx_noted(c, "too many event formats: the rest is left out (672 times)"));
	capture_close(c);
	sbuf_free(&meta);
	enc_rmtree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),	      cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_versions),      cmocka_unit_test(test_damaged_lines),
		cmocka_unit_test(test_data_files),    cmocka_unit_test(test_held),
		cmocka_unit_test(test_links_refused),
		cmocka_unit_test(test_line_that_did_not_fit),
		cmocka_unit_test(test_notes_bounded), cmocka_unit_test(test_formats_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
