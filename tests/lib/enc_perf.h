/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_perf.h: an encoder of perf.data files.
 */
#ifndef KVMFT_TESTS_ENC_PERF_H
#define KVMFT_TESTS_ENC_PERF_H

#include "lib/enc.h"

/* Bits of sample_type, and of read_format. */
enum {
	EP_IP = 1 << 0,
	EP_TID = 1 << 1,
	EP_TIME = 1 << 2,
	EP_ADDR = 1 << 3,
	EP_READ = 1 << 4,
	EP_CALLCHAIN = 1 << 5,
	EP_ID = 1 << 6,
	EP_CPU = 1 << 7,
	EP_PERIOD = 1 << 8,
	EP_STREAM_ID = 1 << 9,
	EP_RAW = 1 << 10,
	EP_IDENTIFIER = 1 << 16,
};
enum { EP_ENABLED = 1, EP_RUNNING = 2, EP_READ_ID = 4, EP_GROUP = 8, EP_READ_LOST = 16 };
/* What perf record has for tracepoints, if there are several. */
#define EP_USUAL (EP_IP | EP_TID | EP_TIME | EP_CPU | EP_PERIOD | EP_RAW | EP_ID)

enum { EP_TRACEPOINT = 2 };
enum { EP_SAMPLE_ID_ALL = 18, EP_USE_CLOCKID = 25, EP_WRITE_BACKWARD = 27 }; /* flags, by number */
enum {
	EP_TRACING_DATA = 1,
	EP_HOSTNAME = 3,
	EP_OSRELEASE = 4,
	EP_VERSION = 5,
	EP_ARCH = 6,
	EP_NRCPUS = 7,
	EP_CPUID = 9,
	EP_COMPRESSED = 27,
	EP_CLOCK_DATA = 29
};

struct ep_attr {
	uint32_t type, size; /* size: of struct perf_event_attr; 0: 128 */
	uint64_t config, sample_type, read_format, flags;
	int32_t clockid;
	const uint64_t *id;
	uint32_t nid;
};

struct ep_facts {
	uint64_t id, time;
	int32_t pid, tid;
	uint32_t cpu;
};

#define EP_FEATURES 32

struct enc_perf {
	const struct ep_attr *attr; /* all of one size */
	uint32_t nattr;
	struct sbuf feature[EP_FEATURES];
	uint32_t features; /* bits */
};

/* Records, appended to b. */
void ep_sample(struct sbuf *b, const struct ep_attr *a, const struct ep_facts *f, const void *raw,
	       uint32_t len);
/* a: whose facts stand at its end; NULL: none. */
void ep_record(struct sbuf *b, uint32_t type, uint16_t misc, const void *body, size_t len,
	       const struct ep_attr *a, const struct ep_facts *f);
void ep_round(struct sbuf *b);
void ep_lost(struct sbuf *b, const struct ep_attr *a, const struct ep_facts *f, uint64_t count);
void ep_lost_samples(struct sbuf *b, const struct ep_attr *a, uint64_t id, uint64_t count);
void ep_comm(struct sbuf *b, const struct ep_attr *a, int32_t pid, int32_t tid, const char *name);
void ep_fork(struct sbuf *b, const struct ep_attr *a, int32_t pid, int32_t tid, int32_t ptid);
void ep_time_conv(struct sbuf *b, uint64_t shift, uint64_t mult, uint64_t zero);
/* cpu[i] of id[i]; -1: rings of threads. */
void ep_id_index(struct sbuf *b, const uint64_t *id, const int64_t *cpu, uint32_t n);

void ep_feature_text(struct enc_perf *e, unsigned int bit, const char *text);
void ep_feature(struct enc_perf *e, unsigned int bit, const void *data, size_t len);

/*
 * The file: what stands before `bytes` of records, and what behind them, where the file has `at`
 * bytes.
 */
void ep_head(const struct enc_perf *e, uint64_t bytes, struct sbuf *out);
void ep_tail(const struct enc_perf *e, uint64_t at, struct sbuf *out);
void ep_build(const struct enc_perf *e, const struct sbuf *records, struct sbuf *out);
void ep_free(struct enc_perf *e);

#endif
