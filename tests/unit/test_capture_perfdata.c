/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_capture_perfdata.c: perf.data files, encoded and read back: in whatever order the records
 * are, each CPU's events come in the order of time, with losses in their places.
 */
#include "unit/perfdata_fixture.h"

#include <errno.h>

/* ---- what a file says ---- */

static void test_facts(void **state __unused_arg)
{
	for (int round = 0; round < 2; round++) {
		struct file f;
		struct capture *c;
		struct sbuf cpus = { 0 };

		file_new(&f, round ? 4 : 8);
		ep_feature_text(&f.e, EP_HOSTNAME, "box");
		ep_feature_text(&f.e, EP_OSRELEASE, "6.1.0-9");
		ep_feature_text(&f.e, EP_ARCH, "x86_64");
		ep_feature_text(&f.e, EP_VERSION, "6.2");
		ep_feature_text(&f.e, EP_CPUID, "AuthenticAMD,25,1,1");
		enc_u32(&cpus, 8);
		enc_u32(&cpus, 3);
		ep_feature(&f.e, EP_NRCPUS, cpus.s, cpus.len);
		ep_time_conv(&f.records, 31, 858993459, (uint64_t)-77);
		ep_comm(&f.records, &usual[0], 10, 11, "first");
		ep_comm(&f.records, &usual[0], 10, 11, "second");
		ep_fork(&f.records, &usual[0], 10, 12, 11);
		ep_fork(&f.records, &usual[0], 20, 20, 4711);
		sample_of(&f, &usual[1], 5, 33, 1000, 1, 24);
		c = file_open(&f);
		assert_non_null(c);
		assert_true(c->is_perfdata && c->complete && !c->ndamage);
		assert_string_equal(c->uname, "Linux box 6.1.0-9 x86_64");
		assert_string_equal(c->tool, "perf 6.2");
		assert_string_equal(c->vendor, "AuthenticAMD");
		assert_string_equal(c->clock, "perf");
		assert_int_equal(c->ncpu, 3); /* as the machine had, not as ran something */
		assert_int_equal(c->long_size, round ? 4 : 8);
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

		file_new(&f, 8);
		a.flags |= 1u << EP_USE_CLOCKID;
		a.clockid = clocks[i].id;
		f.e.attr = &a;
		f.e.nattr = 1;
		ep_time_conv(&f.records, 31, 858993459, 0);
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

		file_new(&f, 8);
		if (archs[i])
			ep_feature_text(&f.e, EP_ARCH, archs[i]);
		ep_time_conv(&f.records, 31, 858993459, 0);
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

	for (size_t i = 0; i < ARRAY_SIZE(more) * ARRAY_SIZE(reads); i++) {
		struct ep_attr a = usual[1];
		struct want want[3];
		struct capture *c;
		struct file f;

		file_new(&f, 8);
		a.sample_type |= more[i % ARRAY_SIZE(more)];
		a.read_format = reads[i / ARRAY_SIZE(more)];
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

	file_new(&f, 8);
	f.e.attr = attr;
	f.e.nattr = 3;
	for (uint64_t k = 0; k < 60; k++) {
		const struct ep_facts facts = { .id = 90, .time = 100 + k, .pid = 10, .tid = 11 };

		if (k % 3) {
			sample_of(&f, &attr[k % 3], 0, 11, 100 + k, k, 24);
			want[n++] = (struct want){ 100 + k, k, 24 };
		} else {
			ep_sample(&f.records, &attr[0], &facts, NULL, 0);
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

		file_new(&f, 8);
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
					ep_comm(&f.records, &usual[0], 10, 11, "task");
			}
			ep_round(&f.records);
			ep_record(&f.records, 200, 0, "unknown", 7, NULL, NULL);
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

/* Each thread has a ring of its own: events of one CPU in different rings are in no order in the file. */
static void test_threads(void **state __unused_arg)
{
	static struct want want[2][4000];
	size_t n[2] = { 0 };
	struct capture *c;
	struct file f;

	file_new(&f, 8);
	for (uint64_t round = 0; round < 20; round++) {
		for (uint32_t thread = 0; thread < 2; thread++)
			for (uint64_t k = 0; k < 100; k++) {
				uint64_t time = (round * 100 + k) * 100000 + thread,
					 seq = (uint64_t)thread << 32 | k;
				uint32_t cpu = k / 25 % 2;

				sample_of(&f, &usual[1], cpu, 11 + (int32_t)thread, time, seq, 100);
				want[cpu][n[cpu]++] = (struct want){ time, seq, 100 };
			}
		ep_round(&f.records);
	}
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->nstream, 2);
	for (size_t i = 0; i < 2; i++) {
		qsort(want[i], n[i], sizeof(want[i][0]), want_cmp);
		check_stream(c, i, want[i], n[i]);
	}
	capture_close(c);
	file_free(&f);
}

/* More changes between CPUs than are noted one by one. */
static void test_short_runs(void **state __unused_arg)
{
	enum { CPUS = 3, PER = 100000 };
	uint64_t events = 0;
	struct capture *c;
	struct file f;

	file_new(&f, 8);
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
			if (seq_of(&r.rec) != k || r.rec.ts != 1000 + 10 * k)
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

	file_new(&f, 8);
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

	file_new(&f, 8);
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

	file_new(&f, 8);
	sample(&f, 0, 100, 1);
	enc_u64(&body, 100000);
	while (body.len < 40)
		enc_u64(&body, 0);
	ep_record(&f.records, 71, 0, body.s, body.len, NULL, NULL);
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

	file_new(&f, 8);
	ep_id_index(&f.records, ids, cpu, ARRAY_SIZE(ids));
	sample(&f, 0, 100, 1);
	lost(&f, 0, 150, 5);
	sample(&f, 0, 200, 2);
	sample(&f, 1, 300, 3);
	/*
	 * In all: 5 and 3 of CPU 0, 4 of CPU 1, 6 of a CPU without any event, and 2 of no known
	 * event.
	 */
	ep_lost_samples(&f.records, &usual[0], ids[0], 2);
	ep_lost_samples(&f.records, &usual[0], ids[2], 6);
	ep_lost_samples(&f.records, &usual[0], ids[1], 4);
	ep_lost_samples(&f.records, &usual[0], ids[4], 6);
	ep_lost_samples(&f.records, &usual[0], 9999, 2);
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

	file_new(&f, 8);
	sample(&f, 0, 100, 1);
	lost(&f, 0, 150, 5);
	lost(&f, 0, 160, 0); /* it does not say how many */
	ep_lost_samples(&f.records, &usual[0], ids[0], 5);
	enc_u64(&body, 1000);
	ep_record(&f.records, 13, 1 << 15, body.s, body.len, &usual[0], &facts);
	c = file_open(&f);
	assert_non_null(c);
	assert_int_equal(c->ndamage, 0);
	check_stream(c, 0, (const struct want[]){ { 100, 1, 24 }, { 0, SEQ_GAP, 0 } }, 2);
	capture_close(c);
	sbuf_free(&body);
	file_free(&f);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
