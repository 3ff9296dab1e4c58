/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata.c: events of a capture or trace.dat as the perf.data that `perf kvm stat record` would have
 * made of them, so that `perf kvm stat report` and kvmft can be given the same exits anywhere.
 *
 *   perfdata [--khz KHZ] [--intel] CAPTURE FILE EVENT...
 *
 * EVENT is a name in the system kvm. Stamps are turned into ns by KHZ (default 1000000: they are ns).
 * The machine that perf is told of is AMD's unless --intel is given: names of exits depend on it.
 *
 * A perf.data is a header, a struct perf_event_attr with its id for each event, records, and sections:
 * here the formats (the same blocks as in a trace.dat) and the CPU's name. perf sorts records by time
 * within rounds, which is what it read from all CPUs at once: here ROUND_NS of each.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "capture/tracedat_write.h"
#include "kvmft/ring.h"
#include "lib/enc.h"

#define ROUND_NS    10000000u
#define HEADER_SIZE 104u
#define ATTR_SIZE   112u /* of version 5 of struct perf_event_attr */
#define MAX_EVENTS  64

/* PERF_SAMPLE_IP, TID, TIME, CPU, PERIOD, RAW, IDENTIFIER */
#define SAMPLE_TYPE (1u | 2u | 4u | 1u << 7 | 1u << 8 | 1u << 10 | 1u << 16)

enum { RECORD_SAMPLE = 9, RECORD_FINISHED_ROUND = 68 };
enum { TYPE_TRACEPOINT = 2, SAMPLE_ID_ALL = 1 << 18, MISC_KERNEL = 1 };
enum { FEATURE_TRACING_DATA = 1, FEATURE_CPUID = 9 };

struct conv {
	struct capture *c;
	struct fmt *f;
	uint64_t khz;
	const char *cpu;
	const struct fmt_event *event[MAX_EVENTS];
	size_t n;
	FILE *out;
	uint64_t records; /* bytes of them */
};

static uint64_t to_ns(const struct conv *v, uint64_t ts)
{
	return (uint64_t)((unsigned __int128)ts * 1000000u / v->khz);
}

static void put(struct conv *v, struct sbuf *b)
{
	if (b->error || fwrite(b->s, 1, b->len, v->out) != b->len) {
		fprintf(stderr, "perfdata: cannot write\n");
		exit(1);
	}
	sbuf_reset(b);
}

static void record_head(struct sbuf *b, uint32_t type, uint16_t misc, uint16_t size)
{
	enc_u32(b, false, type);
	enc_u16(b, false, misc);
	enc_u16(b, false, size);
}

static void put_sample(struct conv *v, struct sbuf *b, uint64_t id, uint64_t ns, uint32_t cpu,
		       const struct rec *rec)
{
	uint32_t raw = (4 + rec->len + 7) / 8 * 8 - 4, tid = (uint32_t)fmt_pid(v->f, rec);
	static const uint8_t zero[8];

	record_head(b, RECORD_SAMPLE, MISC_KERNEL, (uint16_t)(8 + 6 * 8 + 4 + raw));
	enc_u64(b, false, id);
	enc_u64(b, false, 0xffffffffc0000000); /* where the tracepoint is: nobody asks */
	enc_u32(b, false, tid);
	enc_u32(b, false, tid);
	enc_u64(b, false, ns);
	enc_u32(b, false, cpu);
	enc_u32(b, false, 0);
	enc_u64(b, false, 1);
	enc_u32(b, false, raw);
	sbuf_add_mem(b, rec->data, rec->len);
	sbuf_add_mem(b, zero, raw - rec->len);
}

/* The event's place in v->event, from 1: what perf knows it by. 0: it is not wanted. */
static uint64_t event_id(const struct conv *v, const struct rec *rec)
{
	const struct fmt_event *e = fmt_by_id(v->f, rec->id);

	for (size_t i = 0; e && i < v->n; i++)
		if (v->event[i] == e)
			return i + 1;
	return 0;
}

/* What the CPU has before `until`; r->rec stays the first one that is later. False at its end. */
static bool put_round(struct conv *v, struct rstream *r, uint64_t until, struct sbuf *b)
{
	enum rkind k = R_EVENT;

	do {
		uint64_t id = r->rec.len ? event_id(v, &r->rec) : 0;

		if (r->rec.len && to_ns(v, r->rec.ts) >= until)
			return true;
		if (id)
			put_sample(v, b, id, to_ns(v, r->rec.ts), r->s->cpu, &r->rec);
		do
			k = rstream_next(r);
		while (k != R_EVENT && k != R_END);
	} while (k != R_END);
	r->rec.len = 0;
	return false;
}

static void put_records(struct conv *v)
{
	size_t n = v->c->nstream, left = n;
	struct rstream *r = calloc(n + 1, sizeof(*r));
	bool *ended = calloc(n + 1, sizeof(*ended));
	struct sbuf b = { 0 };
	long begin = ftell(v->out);

	for (size_t i = 0; r && i < n; i++)
		if (rstream_open(&r[i], v->c, &v->c->stream[i]))
			exit(1);
	for (uint64_t until = ROUND_NS; r && ended && left; until += ROUND_NS) {
		for (size_t i = 0; i < n; i++) {
			if (ended[i] || put_round(v, &r[i], until, &b))
				continue;
			ended[i] = true;
			left--;
		}
		if (b.len || !left) {
			record_head(&b, RECORD_FINISHED_ROUND, 0, 8);
			put(v, &b);
		}
	}
	for (size_t i = 0; r && i < n; i++)
		rstream_close(&r[i]);
	v->records = (uint64_t)(ftell(v->out) - begin);
	sbuf_free(&b);
	free(ended);
	free(r);
}

static void put_attrs(struct conv *v)
{
	struct sbuf b = { 0 };
	uint64_t ids = HEADER_SIZE + v->n * (ATTR_SIZE + 16);

	for (size_t i = 0; i < v->n; i++) {
		size_t begin = b.len;

		enc_u32(&b, false, TYPE_TRACEPOINT);
		enc_u32(&b, false, ATTR_SIZE);
		enc_u64(&b, false, fmt_id(v->event[i]));
		enc_u64(&b, false, 1); /* period */
		enc_u64(&b, false, SAMPLE_TYPE);
		enc_u64(&b, false, 0);
		enc_u64(&b, false, SAMPLE_ID_ALL);
		while (b.len < begin + ATTR_SIZE)
			enc_u8(&b, 0);
		enc_u64(&b, false, ids + 8 * i);
		enc_u64(&b, false, 8);
	}
	for (size_t i = 0; i < v->n; i++)
		enc_u64(&b, false, i + 1);
	put(v, &b);
	sbuf_free(&b);
}

static void put_tracing(const struct conv *v, struct sbuf *b)
{
	const struct capture *c = v->c;
	struct tdw_spec spec = { .version = 6, .cap = c, .g = { .size = c->subbuf_size,
				 .header = c->page_header, .long_size = c->long_size } };

	sbuf_add_mem(b, "\x17\x08\x44tracing0.6", 14); /* and its NUL */
	enc_u8(b, 0); /* little-endian */
	enc_u8(b, (uint8_t)c->long_size);
	enc_u32(b, false, c->subbuf_size);
	for (int block = 0; block < TDW_BLOCKS; block++)
		tdw_block(&spec, (enum tdw_block)block, b);
}

/* The places of both sections stand in front of them. */
static void put_features(struct conv *v)
{
	uint64_t at = (uint64_t)ftell(v->out) + 32;
	struct sbuf tracing = { 0 }, cpu = { 0 }, b = { 0 };

	put_tracing(v, &tracing);
	enc_u32(&cpu, false, 64);
	sbuf_add(&cpu, v->cpu);
	while (cpu.len < 4 + 64)
		enc_u8(&cpu, 0);
	enc_u64(&b, false, at);
	enc_u64(&b, false, tracing.len);
	enc_u64(&b, false, at + tracing.len);
	enc_u64(&b, false, cpu.len);
	put(v, &b);
	put(v, &tracing);
	put(v, &cpu);
	sbuf_free(&b);
	sbuf_free(&tracing);
	sbuf_free(&cpu);
}

static void put_header(struct conv *v)
{
	uint64_t attrs = v->n * (ATTR_SIZE + 16), data = HEADER_SIZE + attrs + 8 * v->n;
	struct sbuf b = { 0 };

	sbuf_add(&b, "PERFILE2");
	enc_u64(&b, false, HEADER_SIZE);
	enc_u64(&b, false, ATTR_SIZE + 16);
	enc_u64(&b, false, HEADER_SIZE);
	enc_u64(&b, false, attrs);
	enc_u64(&b, false, data);
	enc_u64(&b, false, v->records);
	enc_u64(&b, false, 0); /* event types: of old */
	enc_u64(&b, false, 0);
	enc_u64(&b, false, 1u << FEATURE_TRACING_DATA | 1u << FEATURE_CPUID);
	while (b.len < HEADER_SIZE)
		enc_u8(&b, 0);
	put(v, &b);
	sbuf_free(&b);
}

static int convert(struct conv *v, const char *path)
{
	int fd;

	unlink(path);
	fd = file_create(AT_FDCWD, path);
	v->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!v->out)
		return -1;
	put_header(v);
	put_attrs(v);
	put_records(v);
	put_features(v);
	rewind(v->out); /* now the number of bytes is known */
	put_header(v);
	return fclose(v->out);
}

int main(int argc, char **argv)
{
	static const struct option opts[] = { { "khz", required_argument, NULL, 'k' },
					      { "intel", no_argument, NULL, 'i' }, { 0 } };
	struct conv v = { .khz = 1000000, .cpu = "AuthenticAMD,25,1,1" };
	struct kvmft_err err = { .text = "" };
	int o, ret;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 'i')
			v.cpu = "GenuineIntel,6,143,8";
		else if (o != 'k' || parse_u64(optarg, &v.khz) || !v.khz)
			return 2;
	}
	if (argc - optind < 3 || argc - optind - 2 > MAX_EVENTS)
		return 2;
	if (capture_open(argv[optind], &v.c, &err) || fmt_load(v.c, &v.f, &err)) {
		fprintf(stderr, "perfdata: %s\n", err.text);
		return 1;
	}
	for (int i = optind + 2; i < argc; i++) {
		v.event[v.n] = fmt_find(v.f, "kvm", argv[i]);
		v.n += v.event[v.n] != NULL;
	}
	ret = v.n ? convert(&v, argv[optind + 1]) : -1;
	if (ret)
		fprintf(stderr, "perfdata: nothing to write, or it cannot be written\n");
	fmt_free(v.f);
	capture_close(v.c);
	return ret ? 1 : 0;
}
