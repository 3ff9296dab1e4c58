/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inner.c: how fast the decode engine is by itself, against yardsticks of the same process: a plain
 * sum of the same memory, libtraceevent's kbuffer walk over the same sub-buffers, and the walk
 * without order for the merge. "pair" is all that `kvmft report` does between opening and the table:
 * reading the file, walking, pairing exits with entries, histograms. Rounds of all of them are
 * interleaved; the first is dropped, and of the rest the median counts.
 *
 *   inner [--rounds N] CAPTURE...
 *
 * Prints one line per yardstick: name, events per second, MB per second, ratio.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <kbuffer.h>

#include "kvmft/report.h"
#include "kvmft/ring.h"

#define MAX_ROUNDS   99
#define MAX_CAPTURES 2
#define MAX_STREAMS  1024
#define HUGE	     ((size_t)2 << 20)

/* All sub-buffers of a capture in memory, CPU by CPU. */
struct input {
	struct capture *c[MAX_CAPTURES];
	struct fmt *fmt[MAX_CAPTURES];
	size_t nc, nstream;
	struct input_stream {
		const struct capture *c;
		const struct cap_stream *s;
	} stream[MAX_STREAMS];
	struct subbuf_geom g; /* the same in all captures */
	uint8_t *data;
	size_t nsub;
	uint64_t events;
	uint64_t check; /* what a walk must add up to: so that none can be left out */
};

struct result {
	uint64_t events, check;
	uint64_t count[65536];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int input_open(struct input *in, const char *path)
{
	struct kvmft_err err = { .text = "" };
	struct capture **c = &in->c[in->nc];

	if (capture_open(path, c, &err) || !(in->fmt[in->nc] = fmt_load(*c))) {
		fprintf(stderr, "inner: %s\n", err.text);
		return -1;
	}
	in->nc++;
	for (size_t i = 0; i < (*c)->nstream && in->nstream < MAX_STREAMS; i++) {
		in->stream[in->nstream++] = (struct input_stream){ *c, &(*c)->stream[i] };
		in->nsub += (*c)->stream[i].nsub;
	}
	in->g = (struct subbuf_geom){ .size = (*c)->subbuf_size, .header = (*c)->page_header,
				      .long_size = (*c)->long_size };
	return in->g.size == in->c[0]->subbuf_size ? 0 : -1;
}

static int input_load(struct input *in)
{
	size_t at = 0, len;

	len = (in->nsub * in->g.size + HUGE) / HUGE * HUGE;
	in->data = aligned_alloc(HUGE, len);
	if (in->data) /* what looking up pages costs is not what is measured; without them it is */
		(void)madvise(in->data, len, MADV_HUGEPAGE);
	for (size_t i = 0; in->data && i < in->nstream; i++) {
		const struct cap_stream *s = in->stream[i].s;
		uint64_t idx = 0;
		ssize_t n;

		while ((n = capture_read_subbufs(in->stream[i].c, s, idx, s->nsub - idx,
						 in->data + at * in->g.size, NULL)) > 0) {
			idx += (uint64_t)n;
			at += (size_t)n;
		}
	}
	return in->data && at == in->nsub ? 0 : -1;
}

/* ---- what is measured ---- */

static void run_sum(struct input *in, struct result *r)
{
	const uint8_t *p = in->data, *end = p + in->nsub * in->g.size;
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (; p + 32 <= end; p += 32) {
		a += load_u64(p);
		b += load_u64(p + 8);
		c += load_u64(p + 16);
		d += load_u64(p + 24);
	}
	r->check = a + b + c + d;
	r->events = in->events;
}

static void run_walk(struct input *in, struct result *r)
{
	uint64_t events = 0, check = 0;

	for (size_t i = 0; i < in->nsub; i++) {
		struct subbuf begun, sb;
		struct rec rec = { 0 };

		if (subbuf_begin(&begun, in->data + i * in->g.size, &in->g))
			continue;
		sb = begun; /* whose address is not known elsewhere, as in fill_subbuf(): it stays in registers */
		for (; subbuf_next(&sb, &rec) > 0; events++) {
			check += rec.ts;
			r->count[rec.id]++;
		}
	}
	r->events = events;
	r->check = check;
}

static void run_kbuffer(struct input *in, struct result *r)
{
	struct kbuffer *kb = kbuffer_alloc(in->g.long_size == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4,
					   KBUFFER_ENDIAN_LITTLE);

	for (size_t i = 0; kb && i < in->nsub; i++) {
		unsigned long long ts;
		void *data;

		if (kbuffer_load_subbuffer(kb, in->data + i * in->g.size))
			continue;
		for (data = kbuffer_read_event(kb, &ts); data; data = kbuffer_next_event(kb, &ts)) {
			r->events++;
			r->check += ts;
			r->count[load_u16(data)]++;
		}
	}
	kbuffer_free(kb);
}

static void run_stream(struct input *in, struct result *r)
{
	for (size_t i = 0; i < in->nstream; i++) {
		struct rstream s;

		if (rstream_open(&s, in->stream[i].c, in->stream[i].s))
			continue;
		for (enum rkind k; (k = rstream_next(&s)) != R_END; ) {
			if (k != R_EVENT)
				continue;
			r->events++;
			r->check += s.rec.ts;
			r->count[s.rec.id]++;
		}
		rstream_close(&s);
	}
}

static bool merge_next(void *src, uint64_t *key)
{
	struct rstream *s = src;
	enum rkind k = rstream_next(s);

	*key = s->rec.ts;
	return k != R_END;
}

static void run_merge(struct input *in, struct result *r)
{
	size_t n = in->nstream;
	struct rstream *s = calloc(n, sizeof(*s));
	void **src = calloc(n, sizeof(*src));
	struct rmerge *m = NULL;
	uint64_t key, last = 0;
	ssize_t w;

	for (size_t i = 0; s && src && i < n; i++) {
		if (rstream_open(&s[i], in->stream[i].c, in->stream[i].s))
			exit(1);
		src[i] = &s[i];
	}
	if (!s || !src || rmerge_new(&m, merge_next, src, n))
		exit(1);
	for (w = rmerge_peek(m, &key); w >= 0; w = rmerge_pop(m, w, merge_next, &key)) {
		if (key < last) {
			fprintf(stderr, "inner: events out of order\n");
			exit(1);
		}
		last = key;
		r->events++;
		r->check += key;
		r->count[s[w].rec.id]++;
	}
	rmerge_free(m);
	for (size_t i = 0; i < n; i++)
		rstream_close(&s[i]);
	free(s);
	free(src);
}

/* It has no sum of stamps, so the number of events is compared. Guests have nothing to pair. */
static void run_pair(struct input *in, struct result *r)
{
	struct report_opts opts = { .cls = class_find("vmexit") };
	struct kvmft_err err = { .text = "" };
	struct report *rep = NULL;

	if (report_new(in->c[0], in->fmt[0], &opts, &rep, &err) || report_walk(rep, &err)) {
		fprintf(stderr, "inner: %s\n", err.text);
		exit(1);
	}
	r->events = report_totals(rep)->events;
	r->check = in->check;
	report_free(rep);
}

static const struct yardstick {
	const char *name, *than; /* ratio to which other one */
	void (*run)(struct input *in, struct result *r);
} yardstick[] = {
	{ "sum", NULL, run_sum },
	{ "kbuffer", "sum", run_kbuffer },
	{ "walk", "sum", run_walk },
	{ "stream", "sum", run_stream },
	{ "merge", "stream", run_merge },
	{ "pair", "sum", run_pair }, /* the last one: left out with several captures */
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = { { "rounds", required_argument, NULL, 'r' }, { 0 } };
	static struct result r;
	static uint64_t ns[ARRAY_SIZE(yardstick)][MAX_ROUNDS];
	struct input in = { 0 };
	size_t kinds = ARRAY_SIZE(yardstick);
	uint64_t rounds = 7;
	int o;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1)
		if (o != 'r' || parse_u64(optarg, &rounds) || !rounds || rounds >= MAX_ROUNDS)
			return 2;
	if (optind == argc || argc - optind > MAX_CAPTURES)
		return 2;
	for (; optind < argc; optind++)
		if (input_open(&in, argv[optind]))
			return 2;
	if (input_load(&in))
		return 2;
	kinds -= in.nc > 1;
	run_walk(&in, &r);
	in.events = r.events;
	in.check = r.check;
	for (size_t i = 0; i <= rounds; i++) {
		for (size_t k = 0; k < kinds; k++) {
			uint64_t begin = now_ns();

			memset(&r, 0, sizeof(r));
			begin = now_ns();
			yardstick[k].run(&in, &r);
			ns[k][i ? i - 1 : 0] = now_ns() - begin;
			if (r.events != in.events || (k && r.check != in.check)) {
				fprintf(stderr, "inner: %s saw other events\n", yardstick[k].name);
				return 1;
			}
		}
	}
	for (size_t k = 0; k < kinds; k++) {
		double t = 0, than = 0;

		qsort(ns[k], rounds, sizeof(ns[k][0]), by_value);
		t = (double)ns[k][rounds / 2];
		for (size_t j = 0; yardstick[k].than && j < ARRAY_SIZE(yardstick); j++)
			if (!strcmp(yardstick[j].name, yardstick[k].than))
				than = (double)ns[j][rounds / 2];
		printf("%-8s %7.1f M events/s %8.0f MB/s", yardstick[k].name,
		       (double)in.events * 1e3 / t, (double)(in.nsub * in.g.size) * 1e3 / t);
		if (than > 0)
			printf("  %.3f of the speed of %s", than / t, yardstick[k].than);
		putchar('\n');
	}
	for (size_t i = 0; i < in.nc; i++) {
		fmt_free(in.fmt[i]);
		capture_close(in.c[i]);
	}
	free(in.data);
	return 0;
}
