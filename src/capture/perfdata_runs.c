/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_runs.c: which part of a perf.data has records of which stream.
 *
 * perf reads the rings of all CPUs in turn and writes what it finds: a run of records of one CPU, a
 * run of the next. Only runs are noted, one after the other, in 3 or 4 bytes each: the number of
 * the stream + 1 and the length, with 7 bits per byte. If there are too many of them, short ones
 * are combined: 0, a bit for each of their streams, and the length.
 */
#include "perfdata.h"

#define MIXED	  (1u << 31)
#define BITS	  31
#define LONG_MOST (1ull << 30) /* of a run whose records have places */
#define TEXT_MOST (4u << 20)

bool pd_run_has(const struct pd_run *r, uint32_t stream)
{
	return r->who & MIXED ? r->who >> stream % BITS & 1 : r->who == stream;
}

size_t pd_run_streams(const struct pd_run *r, size_t nstream)
{
	size_t n = 1;

	if (r->who & MIXED)
		n = (size_t)__builtin_popcount(r->who & ~MIXED) * (nstream + BITS - 1) / BITS;
	return n;
}

/* ---- writing ---- */

static void put_number(struct sbuf *b, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		sbuf_addc(b, (char)(v | 128));
	sbuf_addc(b, (char)v);
}

static int put_run(struct pd_runs *r, const struct pd_run *run)
{
	put_number(&r->text, run->who & MIXED ? 0 : run->who + 1);
	if (run->who & MIXED)
		sbuf_add_mem(&r->text, &run->who, sizeof(run->who));
	put_number(&r->text, run->len);
	if (r->text.error)
		return r->text.error;
	return r->text.len > TEXT_MOST ? -E2BIG : 0;
}

int pd_runs_close(struct pd_runs *r)
{
	bool was = r->is_open;

	r->is_open = false;
	return was ? put_run(r, &r->open) : 0;
}

static uint32_t as_mixed(uint32_t who)
{
	return who & MIXED ? who : MIXED | 1u << who % BITS;
}

static int open_run(struct pd_runs *r, uint32_t who, uint64_t len)
{
	int ret = pd_runs_close(r);

	r->open = (struct pd_run){ .who = who, .len = len };
	r->is_open = true;
	return ret;
}

int pd_runs_add(struct pd_runs *r, uint32_t stream, uint64_t len, struct pd_at *at)
{
	struct pd_run *open = r->is_open && r->open.len + len <= LONG_MOST ? &r->open : NULL;
	int ret = 0;

	if (open && (open->who == stream || open->len < r->least)) {
		if (open->who != stream)
			open->who = as_mixed(open->who) | as_mixed(stream);
		at->in = (uint32_t)open->len;
		open->len += len;
	} else {
		ret = open_run(r, stream, len);
		at->in = 0;
	}
	at->run = (uint32_t)r->text.len;
	return ret;
}

int pd_runs_pass(struct pd_runs *r, uint64_t len)
{
	int ret;

	if (r->is_open && len <= PD_RECORD_MAX && r->open.len + len <= LONG_MOST) {
		r->open.len += len;
		return 0;
	}
	ret = open_run(r, MIXED, len);
	return ret || len <= PD_RECORD_MAX ? ret : pd_runs_close(r);
}

void pd_runs_forget(struct pd_runs *r)
{
	sbuf_reset(&r->text);
	r->is_open = false;
}

/* ---- reading ---- */

static uint64_t get_number(const struct sbuf *b, size_t *at)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t c;

	do {
		c = (uint8_t)b->s[(*at)++];
		v |= (uint64_t)(c & 127) << shift;
		shift += 7;
	} while (c & 128);
	return v;
}

uint32_t pd_run_get(const struct pd_runs *r, uint32_t from, struct pd_run *run)
{
	size_t at = from;

	if (at >= r->text.len)
		return 0;
	run->who = (uint32_t)get_number(&r->text, &at) - 1;
	if (run->who == UINT32_MAX) {
		run->who = load_u32(r->text.s + at);
		at += sizeof(run->who);
	}
	run->len = get_number(&r->text, &at);
	return (uint32_t)at;
}
