/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_perfdata.c: perf.data files, encoded and read back: whatever order records stand
 * in, each CPU's events come in the order of time, with what was lost at its place; refusals;
 * damage.
 */
#include "unit/capture_fixture.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

#include "lib/enc_perf.h"

#define RAW_MAX 61000
#define ID	0x67

static const char *const formats[] = { "kvm", "kvm_entry", "kvm", "kvm_exit", NULL };

static const uint64_t ids[] = { 70, 71, 72, 73, 90 };

/* Two tracepoints, as perf record has them. */
static const struct ep_attr usual[] = {
	{ .type = EP_TRACEPOINT,
	  .config = 1,
	  .sample_type = EP_USUAL,
	  .flags = 1u << EP_SAMPLE_ID_ALL,
	  .id = ids,
	  .nid = 2 },
	{ .type = EP_TRACEPOINT,
	  .config = ID,
	  .sample_type = EP_USUAL,
	  .flags = 1u << EP_SAMPLE_ID_ALL,
	  .id = ids + 2,
	  .nid = 2 },
};

struct file {
	struct enc_perf e;
	struct sbuf records;
	struct subbuf_geom g;
	char *dir;
	char path[300];
};

static void file_new(struct file *f, bool big, uint32_t long_size)
{
	struct enc_dat d = { .g = enc_geom(4096, long_size, big),
			     .events = formats,
			     .cmdlines = "55 saved\n" };
	struct sbuf tracing = { 0 };

	memset(f, 0, sizeof(*f));
	f->g = d.g;
	f->e.big = big;
	f->e.attr = usual;
	f->e.nattr = ARRAY_SIZE(usual);
	enc_dat_tracing(&d, &tracing);
	ep_feature(&f->e, EP_TRACING_DATA, tracing.s, tracing.len);
	sbuf_free(&tracing);
	f->dir = enc_tmpdir();
	snprintf(f->path, sizeof(f->path), "%s/perf.data", f->dir);
}

static void file_write(struct file *f)
{
	struct sbuf out = { 0 };

	ep_build(&f->e, &f->records, &out);
	enc_file(f->dir, "perf.data", out.s, out.len);
	sbuf_free(&out);
}

static struct capture *file_open(struct file *f)
{
	file_write(f);
	return fx_open(f->path);
}

static void file_free(struct file *f)
{
	ep_free(&f->e);
	sbuf_free(&f->records);
	enc_rmtree(f->dir);
}

/* A sample of the second event, with the number seq in it. */
static void sample_of(struct file *f, const struct ep_attr *a, uint32_t cpu, int32_t tid,
		      uint64_t time, uint64_t seq, uint32_t len)
{
	static uint8_t raw[RAW_MAX];
	const struct ep_facts facts = { .id = a->id ? a->id[0] : 0,
					.time = time,
					.pid = tid - tid % 10,
					.tid = tid,
					.cpu = cpu };

	enc_record(raw, &f->g, ID, tid, seq, len);
	ep_sample(&f->e, &f->records, a, &facts, raw, len);
}

static void sample(struct file *f, uint32_t cpu, uint64_t time, uint64_t seq)
{
	sample_of(f, &usual[1], cpu, 11, time, seq, 24);
}

static void lost(struct file *f, uint32_t cpu, uint64_t time, uint64_t count)
{
	const struct ep_facts facts = { .id = 72, .time = time, .pid = 10, .tid = 11, .cpu = cpu };

	ep_lost(&f->e, &f->records, &usual[1], &facts, count);
}

static uint64_t seq_of(const struct capture *c, const struct rec *rec)
{
	uint64_t v = load_u64(rec->data + 8);

	return c->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) ? __builtin_bswap64(v) : v;
}

/* What a CPU's stream should give: an event, or a gap (seq SEQ_GAP) of so many (time). */
struct want {
	uint64_t time, seq;
	uint32_t len;
};

#define SEQ_GAP UINT64_MAX

static void check_stream(const struct capture *c, size_t stream, const struct want *want, size_t n)
{
	struct rstream r;
	enum rkind k;
	size_t i = 0;

	assert_int_equal(rstream_open(&r, c, &c->stream[stream]), 0);
	while ((k = rstream_next(&r)) != R_END) {
		assert_true(i < n);
		if (want[i].seq == SEQ_GAP) {
			assert_int_equal(k, R_GAP);
			assert_int_equal(r.lost, want[i].time);
		} else {
			assert_int_equal(k, R_EVENT);
			assert_int_equal(r.rec.ts, want[i].time);
			assert_int_equal(r.rec.id, ID);
			assert_int_equal(seq_of(c, &r.rec), want[i].seq);
			assert_true(r.rec.len >= want[i].len && r.rec.len < want[i].len + 8);
		}
		i++;
	}
	assert_int_equal(i, n);
	assert_int_equal(r.error, 0);
	assert_int_equal(r.backwards, 0);
	rstream_close(&r);
}

/* ---- what a file says ---- */

static void test_facts(void **state __unused_arg)
{
	for (int round = 0; round < 4; round++) {
		struct file f;
		struct capture *c;
		struct sbuf cpus = { 0 };

		file_new(&f, round & 1, round & 2 ? 4 : 8);
		ep_feature_text(&f.e, EP_HOSTNAME, "box");
		ep_feature_text(&f.e, EP_OSRELEASE, "6.1.0-9");
		ep_feature_text(&f.e, EP_ARCH, "x86_64");
		ep_feature_text(&f.e, EP_VERSION, "6.2");
		ep_feature_text(&f.e, EP_CPUID, "AuthenticAMD,25,1,1");
		enc_u32(&cpus, f.e.big, 8);
		enc_u32(&cpus, f.e.big, 3);
		ep_feature(&f.e, EP_NRCPUS, cpus.s, cpus.len);
		ep_time_conv(&f.e, &f.records, 31, 858993459, (uint64_t)-77);
		ep_comm(&f.e, &f.records, &usual[0], 10, 11, "first");
		ep_comm(&f.e, &f.records, &usual[0], 10, 11, "second");
		ep_fork(&f.e, &f.records, &usual[0], 10, 12, 11);
		ep_fork(&f.e, &f.records, &usual[0], 20, 20, 4711);
		sample_of(&f, &usual[1], 5, 33, 1000, 1, 24);
		c = file_open(&f);
		assert_non_null(c);
		assert_true(c->is_perfdata && c->complete && !c->ndamage);
		assert_string_equal(c->uname, "Linux box 6.1.0-9 x86_64");
		assert_string_equal(c->tool, "perf 6.2");
		assert_string_equal(c->vendor, "AuthenticAMD");
		assert_string_equal(c->clock, "perf");
		assert_int_equal(c->ncpu, 3); /* as the machine had, not as ran something */
		assert_int_equal(c->long_size, round & 2 ? 4 : 8);
		assert_int_equal(c->big_endian, round & 1);
		assert_int_equal(c->nformat, 2);
		assert_true(c->line.known);
		assert_int_equal(c->line.line.mult, 858993459);
		assert_int_equal(c->line.line.shift, 31);
		assert_int_equal(c->line.line.offset, (uint64_t)-77);
		assert_int_equal(c->tsc_khz, 2500000);
		assert_int_equal(c->ntask, 5);
		assert_string_equal(c->task[0].comm, "saved"); /* of the tracing data */
		assert_int_equal(c->task[1].tid, 11);
		assert_int_equal(c->task[1].tgid, 10);
		assert_string_equal(c->task[1].comm, "second");
		assert_int_equal(c->task[2].tid, 12);
		assert_int_equal(c->task[2].tgid, 10);
		assert_string_equal(c->task[2].comm, "second");
		assert_string_equal(c->task[3].comm, "");
		assert_int_equal(c->task[4].tid, 33); /* a sample told its process */
		assert_int_equal(c->task[4].tgid, 30);
		assert_int_equal(c->nstream, 1);
		assert_int_equal(c->stream[0].cpu, 5);
		check_stream(c, 0, &(struct want){ 1000, 1, 24 }, 1);
		capture_close(c);
		sbuf_free(&cpus);
		file_free(&f);
	}
}

static void test_clocks(void **state __unused_arg)
{
	static const struct {
		int32_t id;
		const char *name;
	} clocks[] = { { 0, "realtime" }, { 1, "mono" },     { 4, "mono_raw" }, { 7, "boot" },
		       { 11, "tai" },	  { 99, "unknown" }, { -5, "unknown" } };

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct ep_attr a = usual[1];
		struct capture *c;
		struct file f;

		file_new(&f, i & 1, 8);
		a.flags |= 1u << EP_USE_CLOCKID;
		a.clockid = clocks[i].id;
		f.e.attr = &a;
		f.e.nattr = 1;
		ep_time_conv(&f.e, &f.records, 31, 858993459, 0);
		sample(&f, 0, 1000, 1);
		c = file_open(&f);
		assert_non_null(c);
		assert_string_equal(c->clock, clocks[i].name);
		assert_false(c->line.known); /* that is of perf's own */
		capture_close(c);
		file_free(&f);
	}
}

/* perf's clock is a line over the TSC. */
static void test_arch(void **state __unused_arg)
{
	static const char *const archs[] = { "x86_64", "i686", "i386", NULL };

	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		struct capture *c;
		struct file f;

		file_new(&f, false, 8);
		if (archs[i])
			ep_feature_text(&f.e, EP_ARCH, archs[i]);
		ep_time_conv(&f.e, &f.records, 31, 858993459, 0);
		sample(&f, 0, 1000, 1);
		c = file_open(&f);
		assert_non_null(c);
		assert_true(c->line.known);
		assert_int_equal(c->tsc_khz, 2500000);
		capture_close(c);
		file_free(&f);
	}
}

/* Whatever else stands in a sample before its raw data. */
static void test_layouts(void **state __unused_arg)
{
	static const uint64_t more[] = { 0,
					 EP_IDENTIFIER,
					 EP_ADDR | EP_STREAM_ID,
					 EP_CALLCHAIN,
					 EP_READ,
					 EP_READ | EP_CALLCHAIN | EP_IDENTIFIER };
	static const uint64_t reads[] = { 0, EP_READ_ID | EP_READ_LOST, EP_GROUP,
					  EP_GROUP | EP_ENABLED | EP_RUNNING | EP_READ_ID };

	for (size_t i = 0; i < ARRAY_SIZE(more) * ARRAY_SIZE(reads) * 2; i++) {
		struct ep_attr a = usual[1];
		struct want want[3];
		struct capture *c;
		struct file f;

		file_new(&f, i & 1, 8);
		a.sample_type |= more[i / 2 % ARRAY_SIZE(more)];
		a.read_format = reads[i / 2 / ARRAY_SIZE(more)];
		a.size = i % 3 ? 0 : 96;
		f.e.attr = &a;
		f.e.nattr = 1;
		for (uint64_t k = 0; k < 3; k++) {
			sample_of(&f, &a, 0, 11, 500 + k, k, 24);
			want[k] = (struct want){ 500 + k, k, 24 };
		}
		c = file_open(&f);
		assert_non_null(c);
		check_stream(c, 0, want, 3);
		capture_close(c);
		file_free(&f);
	}
}

/* Events of other kinds among them, whose samples are laid out differently: the id tells. */
static void test_mixed_layouts(void **state __unused_arg)
{
	const struct ep_attr attr[] = {
		{ .type = 1,
		  .sample_type = EP_IDENTIFIER | EP_IP | EP_TID | EP_TIME,
		  .flags = 1u << EP_SAMPLE_ID_ALL,
		  .id = ids + 4,
		  .nid = 1 },
		{ .type = EP_TRACEPOINT,
		  .sample_type = (EP_USUAL & ~EP_ID) | EP_IDENTIFIER | EP_CALLCHAIN,
		  .flags = 1u << EP_SAMPLE_ID_ALL,
		  .id = ids,
		  .nid = 2 },
		{ .type = EP_TRACEPOINT,
		  .sample_type = (EP_USUAL & ~EP_ID) | EP_IDENTIFIER,
		  .flags = 1u << EP_SAMPLE_ID_ALL,
		  .id = ids + 2,
		  .nid = 2 },
	};
	struct want want[40];
	struct capture *c;
	struct file f;
	size_t n = 0;

	file_new(&f, false, 8);
	f.e.attr = attr;
	f.e.nattr = 3;
	for (uint64_t k = 0; k < 60; k++) {
		const struct ep_facts facts = { .id = 90, .time = 100 + k, .pid = 10, .tid = 11 };

		if (k % 3) {
			sample_of(&f, &attr[k % 3], 0, 11, 100 + k, k, 24);
			want[n++] = (struct want){ 100 + k, k, 24 };
		} else {
			ep_sample(&f.e, &f.records, &attr[0], &facts, NULL, 0);
		}
	}
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->ndamage, 0);
	check_stream(c, 0, want, n);
	capture_close(c);
	file_free(&f);
}

/* ---- order ---- */

/* A CPU of the model: what it records, and what is still to be written of it. */
struct ring {
	struct want want[9000];
	size_t n;
	struct sbuf pending;
	uint64_t now;
};

static int want_cmp(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

/* So many events, of which some interrupt others, and are stored before them. */
static void ring_events(struct file *f, struct ring *r, uint32_t cpu, unsigned int n,
			unsigned int *seed)
{
	size_t first = r->n;
	struct sbuf keep = f->records;

	f->records = r->pending;
	for (unsigned int i = 0; i < n;) {
		unsigned int nested = rand_r(seed) % 8 ? 0 : (unsigned int)rand_r(seed) % 25;
		uint64_t outer = r->now += 50 + (uint64_t)rand_r(seed) % 2000;

		for (unsigned int k = 0; k <= nested; k++, i++) {
			uint64_t time =
				k == nested ? outer : (r->now += 1 + (uint64_t)rand_r(seed) % 40);
			uint32_t len = 16 + 4 * ((uint32_t)rand_r(seed) % 60);
			uint64_t seq = (uint64_t)cpu << 32 | r->n;

			sample_of(f, &usual[1], cpu, 11 + (int32_t)(i % 2), time, seq, len);
			r->want[r->n++] = (struct want){ time, seq, len };
		}
	}
	r->pending = f->records;
	f->records = keep;
	qsort(r->want + first, r->n - first, sizeof(*r->want), want_cmp);
}

static void ring_lost(struct file *f, struct ring *r, uint32_t cpu, uint64_t count)
{
	struct sbuf keep = f->records;

	f->records = r->pending;
	lost(f, cpu, r->now, count);
	r->pending = f->records;
	f->records = keep;
	r->want[r->n++] = (struct want){ count, SEQ_GAP, 0 };
}

/* Every sub-buffer by itself, in any order, is what reading them all gives. */
static void check_random_access(const struct capture *c, const struct cap_stream *s,
				unsigned int *seed)
{
	uint8_t *all = malloc(s->nsub * c->subbuf_size + 1), *one = malloc(c->subbuf_size);

	for (uint64_t at = 0; at < s->nsub;) {
		ssize_t n = capture_read_subbufs(c, s, at, s->nsub - at, all + at * c->subbuf_size, NULL);

		assert_true(n > 0);
		at += (uint64_t)n;
	}
	for (unsigned int i = 0; i < 40; i++) {
		uint64_t idx = (uint64_t)rand_r(seed) % s->nsub;
		uint32_t at = (uint32_t)rand_r(seed) % c->subbuf_size,
			 n = (uint32_t)rand_r(seed) % (c->subbuf_size - at);

		assert_int_equal(capture_read_subbufs(c, s, idx, 1, one, NULL), 1);
		assert_memory_equal(one, all + idx * c->subbuf_size, c->subbuf_size);
		assert_int_equal(capture_read_part(c, s, idx, at, one, n, NULL), 0);
		assert_memory_equal(one, all + idx * c->subbuf_size + at, n);
	}
	free(all);
	free(one);
}

/* Rounds of what perf found in the rings: any number of events each, other records between. */
static void test_rounds(void **state __unused_arg)
{
	unsigned int seed = 7;

	for (unsigned int round = 0; round < 12; round++) {
		uint32_t cpus = 1 + round % 4;
		struct ring *ring = calloc(cpus, sizeof(*ring));
		uint64_t events = 0;
		struct capture *c;
		struct file f;

		file_new(&f, round & 4, 8);
		for (unsigned int i = 0; i < 60; i++) {
			for (uint32_t cpu = 0; cpu < cpus; cpu++) {
				struct ring *r = &ring[cpu];

				r->now = MAX(r->now, (uint64_t)i * 100000);
				ring_events(&f, r, cpu,
					    (unsigned int)rand_r(&seed) % (cpu ? 120 : 9), &seed);
				if (rand_r(&seed) % 9 == 0)
					ring_lost(&f, r, cpu, 1 + (uint64_t)rand_r(&seed) % 100);
				sbuf_add_mem(&f.records, r->pending.s, r->pending.len);
				sbuf_reset(&r->pending);
				if (rand_r(&seed) % 7 == 0)
					ep_comm(&f.e, &f.records, &usual[0], 10, 11, "task");
			}
			ep_round(&f.e, &f.records);
			ep_record(&f.e, &f.records, 200, 0, "unknown", 7, NULL, NULL);
		}
		c = file_open(&f);
		assert_non_null(c);
		assert_int_equal(c->ndamage, 0);
		for (size_t i = 0; i < c->nstream; i++) {
			struct ring *r = &ring[c->stream[i].cpu];
			size_t n = 0;

			for (size_t k = 0; k < r->n;
			     k++) { /* losses without an event between are one */
				if (n && r->want[k].seq == SEQ_GAP && r->want[n - 1].seq == SEQ_GAP)
					r->want[n - 1].time += r->want[k].time;
				else
					r->want[n++] = r->want[k];
				events += r->want[k].seq != SEQ_GAP;
			}
			check_stream(c, i, r->want, n);
			check_random_access(c, &c->stream[i], &seed);
		}
		assert_true(events > 60);
		for (uint32_t cpu = 0; cpu < cpus; cpu++)
			sbuf_free(&ring[cpu].pending);
		free(ring);
		capture_close(c);
		file_free(&f);
	}
}

/*
 * Each thread has a ring of its own: their events of one CPU are in no order, and are told apart.
 */
static void test_threads(void **state __unused_arg)
{
	const int64_t of_threads[] = { -1, -1 }, of_cpus[] = { 0, 1 };

	for (int told = 0; told < 3; told++) {
		struct want want[2][2][2000];
		size_t n[2][2] = { { 0 } };
		struct capture *c;
		struct file f;

		file_new(&f, false, 8);
		if (told)
			ep_id_index(&f.e, &f.records, ids, told == 1 ? of_threads : of_cpus, 2);
		for (uint64_t round = 0; round < 20; round++) {
			for (uint32_t thread = 0; thread < 2; thread++)
				for (uint64_t k = 0; k < 100; k++) {
					uint64_t time = (round * 100 + k) * 100000 + thread,
						 seq = (uint64_t)thread << 32 | k;
					uint32_t cpu = k / 25 % 2;

					sample_of(&f, &usual[1], cpu, 11 + (int32_t)thread, time,
						  seq, 100);
					want[cpu][thread][n[cpu][thread]++] =
						(struct want){ time, seq, 100 };
				}
			ep_round(&f.e, &f.records);
		}
		c = file_open(&f);
		assert_non_null(c);
		if (told ==
		    2) { /* it said that rings are CPUs': then that is what they are taken for */
			assert_int_equal(c->nstream, 2);
		} else {
			assert_int_equal(c->nstream, 4);
			for (size_t i = 0; i < 4; i++) {
				assert_int_equal(c->stream[i].cpu, i / 2);
				assert_string_equal(c->stream[i].instance,
						    i % 2 ? "thread-12" : "thread-11");
				check_stream(c, i, want[i / 2][i % 2], n[i / 2][i % 2]);
			}
		}
		capture_close(c);
		file_free(&f);
	}
}

/* More changes between CPUs than are noted one by one. */
static void test_short_runs(void **state __unused_arg)
{
	enum { CPUS = 3, PER = 100000 };
	uint64_t events = 0;
	struct capture *c;
	struct file f;

	file_new(&f, false, 8);
	for (uint64_t k = 0; k < PER; k++)
		for (uint32_t cpu = 0; cpu < CPUS; cpu++)
			sample(&f, cpu, 1000 + 10 * k, k);
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->nstream, CPUS);
	for (size_t i = 0; i < c->nstream; i++) {
		struct rstream r;

		assert_int_equal(rstream_open(&r, c, &c->stream[i]), 0);
		for (uint64_t k = 0; rstream_next(&r) == R_EVENT; k++, events++)
			if (seq_of(c, &r.rec) != k || r.rec.ts != 1000 + 10 * k)
				fail();
		rstream_close(&r);
	}
	assert_int_equal(events, CPUS * PER);
	capture_close(c);
	file_free(&f);
}

/* An event that is larger than sub-buffers mostly are. */
static void test_large(void **state __unused_arg)
{
	static const uint32_t size[] = { 24, 5000, 24, 60000, 24, 16000, 24, 60004 };
	struct want want[4 * ARRAY_SIZE(size)];
	struct capture *c;
	struct file f;
	size_t n = 0;

	file_new(&f, false, 8);
	for (uint64_t k = 0; k < ARRAY_SIZE(want); k++) {
		sample_of(&f, &usual[1], 0, 11, 100 * k, k, size[k % ARRAY_SIZE(size)]);
		want[n++] = (struct want){ 100 * k, k, size[k % ARRAY_SIZE(size)] };
	}
	c = file_open(&f);
	assert_non_null(c);
	check_stream(c, 0, want, n);
	capture_close(c);
	file_free(&f);
}

/* Stamps further apart than a sub-buffer can tell. */
static void test_far(void **state __unused_arg)
{
	static const uint64_t time[] = {
		0,	   1, 1ull << 57, 1ull << 58, (1ull << 58) + 1, 1ull << 62, UINT64_MAX - 1,
		UINT64_MAX
	};
	struct want want[ARRAY_SIZE(time)];
	struct capture *c;
	struct file f;

	file_new(&f, false, 8);
	for (uint64_t k = 0; k < ARRAY_SIZE(time); k++) {
		sample(&f, 0, time[k], k);
		want[k] = (struct want){ time[k], k, 24 };
	}
	c = file_open(&f);
	assert_non_null(c);
	check_stream(c, 0, want, ARRAY_SIZE(want));
	capture_close(c);
	file_free(&f);
}

/* A processor's own trace is passed over, with data that the record's size does not count. */
static void test_aux(void **state __unused_arg)
{
	struct sbuf body = { 0 };
	struct capture *c;
	struct file f;

	file_new(&f, false, 8);
	sample(&f, 0, 100, 1);
	enc_u64(&body, false, 100000);
	while (body.len < 40)
		enc_u64(&body, false, 0);
	ep_record(&f.e, &f.records, 71, 0, body.s, body.len, NULL, NULL);
	for (unsigned int i = 0; i < 100000; i++)
		enc_u8(&f.records, 0xff);
	sample(&f, 0, 200, 2);
	c = file_open(&f);
	assert_non_null(c);
	assert_true(fx_noted(c, "AUX data"));
	check_stream(c, 0, (const struct want[]){ { 100, 1, 24 }, { 200, 2, 24 } }, 2);
	capture_close(c);
	sbuf_free(&body);
	file_free(&f);
}

/* ---- what was lost ---- */

static void test_lost_at_the_end(void **state __unused_arg)
{
	const int64_t cpu[] = { 0, 1, 0, 1, 2 };
	struct capture *c;
	struct file f;

	file_new(&f, false, 8);
	ep_id_index(&f.e, &f.records, ids, cpu, ARRAY_SIZE(ids));
	sample(&f, 0, 100, 1);
	lost(&f, 0, 150, 5);
	sample(&f, 0, 200, 2);
	sample(&f, 1, 300, 3);
	/*
	 * In all: 5 and 3 of CPU 0, 4 of CPU 1, 6 of a CPU without any event, and 2 of no known
	 * event.
	 */
	ep_lost_samples(&f.e, &f.records, &usual[0], ids[0], 2);
	ep_lost_samples(&f.e, &f.records, &usual[0], ids[2], 6);
	ep_lost_samples(&f.e, &f.records, &usual[0], ids[1], 4);
	ep_lost_samples(&f.e, &f.records, &usual[0], ids[4], 6);
	ep_lost_samples(&f.e, &f.records, &usual[0], 9999, 2);
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->nstream, 3);
	check_stream(c, 0,
		     (const struct want[]){
			     { 100, 1, 24 }, { 5, SEQ_GAP, 0 }, { 200, 2, 24 }, { 3, SEQ_GAP, 0 } },
		     4);
	check_stream(c, 1, (const struct want[]){ { 300, 3, 24 }, { 4, SEQ_GAP, 0 } }, 2);
	check_stream(c, 2, (const struct want[]){ { 6, SEQ_GAP, 0 } }, 1);
	assert_true(fx_noted(c, "2 events were lost"));
	capture_close(c);
	file_free(&f);
}

/*
 * Records and counters agree: nothing is lost twice. And events that a filter refused were not
 * wanted.
 */
static void test_lost_once(void **state __unused_arg)
{
	const struct ep_facts facts = { .id = 70 };
	struct sbuf body = { 0 };
	struct capture *c;
	struct file f;

	file_new(&f, true, 8);
	sample(&f, 0, 100, 1);
	lost(&f, 0, 150, 5);
	lost(&f, 0, 160, 0); /* it does not say how many */
	ep_lost_samples(&f.e, &f.records, &usual[0], ids[0], 5);
	enc_u64(&body, true, 1000);
	ep_record(&f.e, &f.records, 13, 1 << 15, body.s, body.len, &usual[0], &facts);
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->ndamage, 0);
	check_stream(c, 0, (const struct want[]){ { 100, 1, 24 }, { 0, SEQ_GAP, 0 } }, 2);
	capture_close(c);
	sbuf_free(&body);
	file_free(&f);
}

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

static void test_refused(void **state __unused_arg)
{
	struct ep_attr a = usual[1], two[2] = { usual[0], usual[1] };
	struct file f;

	file_new(&f, false, 8);
	sample(&f, 0, 100, 1);
	ep_feature(&f.e, EP_COMPRESSED, "", 0);
	refuse(&f, "perf record -z");

	file_new(&f, false, 8);
	sample(&f, 0, 100, 1);
	ep_record(&f.e, &f.records, 81, 0, "12345678", 8, NULL, NULL);
	refuse(&f, "perf record -z");

	file_new(&f, true, 8);
	a.flags |= 1u << EP_WRITE_BACKWARD;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "--overwrite");

	file_new(&f, false, 8);
	a = usual[1];
	a.type = 1;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "no tracepoints");

	file_new(&f, false, 8);
	a = usual[1];
	a.sample_type &= ~(uint64_t)EP_RAW;
	f.e.attr = &a;
	f.e.nattr = 1;
	refuse(&f, "without their fields");

	file_new(&f, false, 8);
	two[0].sample_type &= ~(uint64_t)EP_ID;
	f.e.attr = two;
	f.e.nattr = 2;
	refuse(&f, "nothing says which are which");

	file_new(&f, false, 8);
	f.e.features = 0;
	sample(&f, 0, 100, 1);
	ep_feature_text(&f.e, EP_HOSTNAME, "box");
	refuse(&f, "no event formats");

	file_new(&f, false, 8);
	f.e.nattr = 0;
	sample(&f, 0, 100, 1);
	refuse(&f, "no tracepoints");

	file_new(&f, false, 8);
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
		{ "i", "recorded on i:" },		 { "x86_64x", "recorded on x86_64x:" },
		{ "", "on another architecture:" }, { "a\033[2Jb", "on another architecture:" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		struct file f;

		file_new(&f, false, 8);
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
	refuse_bytes("PERFILE2\x10\0\0\0\0\0\0\0", 16, "to a pipe");
	refuse_bytes("2ELIFREP\0\0\0\0\0\0\0\x10", 16, "to a pipe");
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

		assert_int_equal(rstream_open(&r, c, &c->stream[i]), 0);
		while (rstream_next(&r) != R_END)
			;
		*whole = *whole && !r.damaged && !r.error && !r.gaps;
		n += (int64_t)r.events;
		rstream_close(&r);
	}
	capture_close(c);
	return n;
}

static void some_events(struct file *f, unsigned int n)
{
	ep_time_conv(&f->e, &f->records, 31, 858993459, 0);
	for (unsigned int k = 0; k < n; k++) {
		sample(f, k % 2, 1000 + 10 * k, k);
		if (k % 8 == 7)
			ep_round(&f->e, &f->records);
	}
	ep_comm(&f->e, &f->records, &usual[0], 10, 11, "task");
}

/*
 * Wherever it is cut, it is refused or said to be cut: perf writes what is needed to read it
 * last.
 */
static void test_cut(void **state __unused_arg)
{
	static const char *const few[] = { "irq", "irq_handler_exit", NULL };
	struct enc_dat d = { .g = enc_geom(4096, 8, false), .events = few };
	struct sbuf tracing = { 0 }, out = { 0 };
	struct file f;
	bool whole;

	file_new(&f, false, 8);
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

		file_new(&f, round & 1, 8);
		some_events(&f, 60);
		lost(&f, 1, 5000, 3);
		ep_lost_samples(&f.e, &f.records, &usual[0], ids[0], 9);
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

/* A record that is none: what comes before it is read, and the rest is said to be missing. */
static void test_damaged_record(void **state __unused_arg)
{
	struct capture *c;
	struct file f;

	file_new(&f, false, 8);
	sample(&f, 0, 100, 1);
	enc_u64(&f.records, false, 9);
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

		file_new(&f, false, 8);
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
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_arch),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_mixed_layouts),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_short_runs),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_aux),
		cmocka_unit_test(test_lost_at_the_end),
		cmocka_unit_test(test_lost_once),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_arch),
		cmocka_unit_test(test_refused_head),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_damaged_record),
		cmocka_unit_test(test_changed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
