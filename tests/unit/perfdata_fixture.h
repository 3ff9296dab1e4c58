/* SPDX-License-Identifier: GPL-2.0-or-later */
/* perfdata_fixture.h: perf.data files of two tracepoints, and what reading them should give. */
#ifndef KVMFT_TESTS_PERFDATA_FIXTURE_H
#define KVMFT_TESTS_PERFDATA_FIXTURE_H

#include "unit/capture_fixture.h"

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

static inline void file_new(struct file *f, uint32_t long_size)
{
	struct enc_dat d = { .g = enc_geom(4096, long_size),
			     .events = formats,
			     .cmdlines = "55 saved\n" };
	struct sbuf tracing = { 0 };

	memset(f, 0, sizeof(*f));
	f->g = d.g;
	f->e.attr = usual;
	f->e.nattr = ARRAY_SIZE(usual);
	enc_dat_tracing(&d, &tracing);
	ep_feature(&f->e, EP_TRACING_DATA, tracing.s, tracing.len);
	sbuf_free(&tracing);
	f->dir = enc_tmpdir();
	snprintf(f->path, sizeof(f->path), "%s/perf.data", f->dir);
}

static inline void file_write(struct file *f)
{
	struct sbuf out = { 0 };

	ep_build(&f->e, &f->records, &out);
	enc_file(f->dir, "perf.data", out.s, out.len);
	sbuf_free(&out);
}

static inline struct capture *file_open(struct file *f)
{
	file_write(f);
	return fx_open(f->path);
}

static inline void file_free(struct file *f)
{
	ep_free(&f->e);
	sbuf_free(&f->records);
	enc_rmtree(f->dir);
}

/* A sample of the second event, with the number seq in it. */
static inline void sample_of(struct file *f, const struct ep_attr *a, uint32_t cpu, int32_t tid,
			     uint64_t time, uint64_t seq, uint32_t len)
{
	static uint8_t raw[RAW_MAX];
	const struct ep_facts facts = { .id = a->id ? a->id[0] : 0,
					.time = time,
					.pid = tid - tid % 10,
					.tid = tid,
					.cpu = cpu };

	enc_record(raw, ID, tid, seq, len);
	ep_sample(&f->records, a, &facts, raw, len);
}

static inline void sample(struct file *f, uint32_t cpu, uint64_t time, uint64_t seq)
{
	sample_of(f, &usual[1], cpu, 11, time, seq, 24);
}

static inline void lost(struct file *f, uint32_t cpu, uint64_t time, uint64_t count)
{
	const struct ep_facts facts = { .id = 72, .time = time, .pid = 10, .tid = 11, .cpu = cpu };

	ep_lost(&f->records, &usual[1], &facts, count);
}

static inline uint64_t seq_of(const struct rec *rec)
{
	return load_u64(rec->data + 8);
}

/* What a CPU's stream should give: an event, or a gap (seq SEQ_GAP) of so many (time). */
struct want {
	uint64_t time, seq;
	uint32_t len;
};

#define SEQ_GAP UINT64_MAX

static inline void check_stream(const struct capture *c, size_t stream, const struct want *want,
				size_t n)
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
			assert_int_equal(seq_of(&r.rec), want[i].seq);
			assert_true(r.rec.len >= want[i].len && r.rec.len < want[i].len + 8);
		}
		i++;
	}
	assert_int_equal(i, n);
	assert_int_equal(r.error, 0);
	rstream_close(&r);
}

#endif
