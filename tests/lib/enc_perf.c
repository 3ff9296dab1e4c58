/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_perf.c: encoding perf.data files.
 */
#include "lib/enc_perf.h"

#include <stdio.h>
#include <string.h>

#define HEADER 104

static void pad8(struct sbuf *b, size_t from)
{
	while ((b->len - from) % 8)
		enc_u8(b, 0);
}

/* Begins a record; returns where. */
static size_t begin(struct sbuf *b, uint32_t type, uint16_t misc)
{
	enc_u32(b, type);
	enc_u16(b, misc);
	enc_u16(b, 0);
	return b->len - 8;
}

static void end(struct sbuf *b, size_t at)
{
	size_t n = b->len - at;

	if (n > UINT16_MAX) {
		fprintf(stderr, "record too long\n");
		abort();
	}
	enc_put(b->s + at + 6, n, 2);
}

static void pair(struct sbuf *b, uint32_t x, uint32_t y)
{
	enc_u32(b, x);
	enc_u32(b, y);
}

/* read_format: as if of one event, or of a group of two. */
static void put_read(struct sbuf *b, uint64_t format)
{
	unsigned int n = format & EP_GROUP ? 2 : 1;

	if (format & EP_GROUP)
		enc_u64(b, n);
	if (format & EP_ENABLED)
		enc_u64(b, 11);
	if (format & EP_RUNNING)
		enc_u64(b, 12);
	for (unsigned int i = 0; i < n; i++) {
		enc_u64(b, 13);
		if (format & EP_READ_ID)
			enc_u64(b, 14);
		if (format & EP_READ_LOST)
			enc_u64(b, 0);
	}
}

void ep_sample(struct sbuf *b, const struct ep_attr *a, const struct ep_facts *f, const void *raw,
	       uint32_t len)
{
	size_t at = begin(b, 9, 1);
	uint64_t t = a->sample_type;

	if (t & EP_IDENTIFIER)
		enc_u64(b, f->id);
	if (t & EP_IP)
		enc_u64(b, 0xffffffff81000000);
	if (t & EP_TID)
		pair(b, (uint32_t)f->pid, (uint32_t)f->tid);
	if (t & EP_TIME)
		enc_u64(b, f->time);
	if (t & EP_ADDR)
		enc_u64(b, 0x1234);
	if (t & EP_ID)
		enc_u64(b, f->id);
	if (t & EP_STREAM_ID)
		enc_u64(b, f->id);
	if (t & EP_CPU)
		pair(b, f->cpu, 0);
	if (t & EP_PERIOD)
		enc_u64(b, 1);
	if (t & EP_READ)
		put_read(b, a->read_format);
	if (t & EP_CALLCHAIN) {
		enc_u64(b, 3);
		for (uint64_t i = 0; i < 3; i++)
			enc_u64(b, 0xffffffff81000000 + i);
	}
	if (t & EP_RAW) {
		uint32_t padded = (4 + len + 7) / 8 * 8 - 4;

		enc_u32(b, padded);
		sbuf_add_mem(b, raw, len);
		for (; len < padded; len++)
			enc_u8(b, 0);
	}
	end(b, at);
}

void ep_record(struct sbuf *b, uint32_t type, uint16_t misc, const void *body, size_t len,
	       const struct ep_attr *a, const struct ep_facts *f)
{
	size_t at = begin(b, type, misc);
	uint64_t t = a && a->flags >> EP_SAMPLE_ID_ALL & 1 ? a->sample_type : 0;

	sbuf_add_mem(b, body, len);
	pad8(b, at);
	if (t & EP_TID)
		pair(b, (uint32_t)f->pid, (uint32_t)f->tid);
	if (t & EP_TIME)
		enc_u64(b, f->time);
	if (t & EP_ID)
		enc_u64(b, f->id);
	if (t & EP_STREAM_ID)
		enc_u64(b, f->id);
	if (t & EP_CPU)
		pair(b, f->cpu, 0);
	if (t & EP_IDENTIFIER)
		enc_u64(b, f->id);
	end(b, at);
}

void ep_round(struct sbuf *b)
{
	ep_record(b, 68, 0, "", 0, NULL, NULL);
}

void ep_lost(struct sbuf *b, const struct ep_attr *a, const struct ep_facts *f, uint64_t count)
{
	struct sbuf body = { 0 };

	enc_u64(&body, f->id);
	enc_u64(&body, count);
	ep_record(b, 2, 0, body.s, body.len, a, f);
	sbuf_free(&body);
}

void ep_lost_samples(struct sbuf *b, const struct ep_attr *a, uint64_t id, uint64_t count)
{
	const struct ep_facts f = { .id = id };
	struct sbuf body = { 0 };

	enc_u64(&body, count);
	ep_record(b, 13, 0, body.s, body.len, a, &f);
	sbuf_free(&body);
}

void ep_comm(struct sbuf *b, const struct ep_attr *a, int32_t pid, int32_t tid, const char *name)
{
	const struct ep_facts f = { .pid = pid, .tid = tid };
	struct sbuf body = { 0 };

	pair(&body, (uint32_t)pid, (uint32_t)tid);
	sbuf_add_mem(&body, name, strlen(name) + 1);
	ep_record(b, 3, 0, body.s, body.len, a, &f);
	sbuf_free(&body);
}

void ep_fork(struct sbuf *b, const struct ep_attr *a, int32_t pid, int32_t tid, int32_t ptid)
{
	const struct ep_facts f = { .pid = pid, .tid = tid };
	struct sbuf body = { 0 };

	pair(&body, (uint32_t)pid, (uint32_t)ptid);
	pair(&body, (uint32_t)tid, (uint32_t)ptid);
	enc_u64(&body, 77);
	ep_record(b, 7, 0, body.s, body.len, a, &f);
	sbuf_free(&body);
}

void ep_time_conv(struct sbuf *b, uint64_t shift, uint64_t mult, uint64_t zero)
{
	struct sbuf body = { 0 };

	enc_u64(&body, shift);
	enc_u64(&body, mult);
	enc_u64(&body, zero);
	enc_u64(&body, 0);
	enc_u64(&body, UINT64_MAX);
	enc_u64(&body, 1);
	ep_record(b, 79, 0, body.s, body.len, NULL, NULL);
	sbuf_free(&body);
}

void ep_id_index(struct sbuf *b, const uint64_t *id, const int64_t *cpu, uint32_t n)
{
	struct sbuf body = { 0 };

	enc_u64(&body, n);
	for (uint32_t i = 0; i < n; i++) {
		enc_u64(&body, id[i]);
		enc_u64(&body, i);
		enc_u64(&body, (uint64_t)cpu[i]);
		enc_u64(&body, UINT64_MAX);
	}
	ep_record(b, 69, 0, body.s, body.len, NULL, NULL);
	sbuf_free(&body);
}

/* ---- the file ---- */

void ep_feature(struct enc_perf *e, unsigned int bit, const void *data, size_t len)
{
	sbuf_reset(&e->feature[bit]);
	sbuf_add_mem(&e->feature[bit], data, len);
	e->features |= 1u << bit;
}

void ep_feature_text(struct enc_perf *e, unsigned int bit, const char *text)
{
	struct sbuf *f = &e->feature[bit];

	sbuf_reset(f);
	enc_u32(f, 64);
	sbuf_add(f, text);
	while (f->len < 4 + 64)
		enc_u8(f, 0);
	e->features |= 1u << bit;
}

static uint32_t attr_size(const struct enc_perf *e)
{
	return e->nattr && e->attr[0].size ? e->attr[0].size : 128;
}

static void put_attr(const struct enc_perf *e, const struct ep_attr *a, uint64_t ids,
		     struct sbuf *b)
{
	struct sbuf one = { 0 };

	enc_u32(&one, a->type);
	enc_u32(&one, attr_size(e));
	enc_u64(&one, a->config);
	enc_u64(&one, 1);
	enc_u64(&one, a->sample_type);
	enc_u64(&one, a->read_format);
	enc_u64(&one, a->flags);
	while (one.len < 92)
		enc_u8(&one, 0);
	enc_u32(&one, (uint32_t)a->clockid);
	while (one.len < attr_size(e))
		enc_u8(&one, 0);
	sbuf_add_mem(b, one.s, attr_size(e));
	sbuf_free(&one);
	enc_u64(b, ids);
	enc_u64(b, 8ull * a->nid);
}

void ep_head(const struct enc_perf *e, uint64_t bytes, struct sbuf *b)
{
	uint64_t attrs = (uint64_t)e->nattr * (attr_size(e) + 16), ids = 0, at = HEADER + attrs;

	for (uint32_t i = 0; i < e->nattr; i++)
		ids += 8ull * e->attr[i].nid;
	sbuf_add(b, "PERFILE2");
	enc_u64(b, HEADER);
	enc_u64(b, attr_size(e) + 16);
	enc_u64(b, HEADER);
	enc_u64(b, attrs);
	enc_u64(b, HEADER + attrs + ids);
	enc_u64(b, bytes);
	enc_u64(b, 0); /* event types: of old */
	enc_u64(b, 0);
	enc_u64(b, e->features);
	for (int i = 1; i < 4; i++)
		enc_u64(b, 0);
	for (uint32_t i = 0; i < e->nattr; i++) {
		put_attr(e, &e->attr[i], at, b);
		at += 8ull * e->attr[i].nid;
	}
	for (uint32_t i = 0; i < e->nattr; i++)
		for (uint32_t k = 0; k < e->attr[i].nid; k++)
			enc_u64(b, e->attr[i].id[k]);
}

void ep_tail(const struct enc_perf *e, uint64_t at, struct sbuf *b)
{
	for (unsigned int i = 0; i < EP_FEATURES; i++)
		at += e->features >> i & 1 ? 16 : 0;
	for (unsigned int i = 0; i < EP_FEATURES; i++) {
		if (!(e->features >> i & 1))
			continue;
		enc_u64(b, at);
		enc_u64(b, e->feature[i].len);
		at += e->feature[i].len;
	}
	for (unsigned int i = 0; i < EP_FEATURES; i++)
		if (e->features >> i & 1)
			sbuf_add_mem(b, e->feature[i].s, e->feature[i].len);
}

void ep_build(const struct enc_perf *e, const struct sbuf *records, struct sbuf *out)
{
	ep_head(e, records->len, out);
	sbuf_add_mem(out, records->s, records->len);
	ep_tail(e, out->len, out);
}

void ep_free(struct enc_perf *e)
{
	for (unsigned int i = 0; i < EP_FEATURES; i++)
		sbuf_free(&e->feature[i]);
}
