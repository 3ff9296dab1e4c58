/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ablate.c: takes events out of a capture directory, as if they had not been recorded, or had been lost.
 *
 *   ablate [--drop EVENT]... [--keep EVENT]... [--cpu N] [--from TSC] [--to TSC] [--holes N] [--seed N]
 *          [--begins TSC] DIR
 *
 * EVENT is SYS:NAME, or SYS for all of a system. Dropped ones are not in its list of recorded events any more; with
 * --keep only those are left. --cpu, --from and --to: all events there are lost, and the file says so, as a ring that
 * was full does. --holes: N such losses, of up to 64 events of a CPU, at random places. --begins: as if it
 * had been recorded from then on only. DIR is changed in place.
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/capture.h"
#include "kvmft/ring.h"
#include "lib/enc.h"

#define MAX_NAMES 32
#define HOLE	  64

struct ablate {
	const char *drop[MAX_NAMES], *keep[MAX_NAMES];
	size_t ndrop, nkeep;
	int64_t cpu; /* -1: any */
	bool span;
	uint64_t from, to, begins, holes, seed, every, dropped, lost;
	struct capture *c;
	struct sbuf tail; /* lines of meta: what was lost behind a stream's last event */
	struct fmt *f;
	bool gone[UINT16_MAX + 1];
};

static void __noreturn_attr fail(const char *what, const char *why)
{
	fprintf(stderr, "ablate: %s: %s\n", what, why);
	exit(1);
}

static bool among(const char *const *names, size_t n, const char *sys, const char *name)
{
	size_t len = strlen(sys);

	for (size_t i = 0; i < n; i++)
		if (!strncmp(names[i], sys, len) &&
		    (!names[i][len] || (names[i][len] == ':' && !strcmp(names[i] + len + 1, name))))
			return true;
	return false;
}

static bool is_gone(const struct ablate *a, const char *sys, const char *name)
{
	return among(a->drop, a->ndrop, sys, name) || (a->nkeep && !among(a->keep, a->nkeep, sys, name));
}

static uint64_t random64(struct ablate *a)
{
	a->seed ^= a->seed << 13;
	a->seed ^= a->seed >> 7;
	return a->seed ^= a->seed << 17;
}

/* ---- the list of recorded events ---- */

static void meta(const struct ablate *a, const char *dir)
{
	char path[4096], line[65536], sys[128], name[128];
	struct sbuf b = { 0 };
	FILE *f;

	snprintf(path, sizeof(path), "%s/meta", dir);
	f = fopen(path, "r");
	if (!f)
		fail(path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		const char *s = strstr(line, " sys="), *n = strstr(line, " name=");

		/* The ring's counters know of what is not there any more. */
		if (!strncmp(line, "stats ", 6))
			continue;
		if (a->begins && !strncmp(line, "begin ", 6))
			snprintf(line, sizeof(line), "begin tsc=%llu\n", (unsigned long long)a->begins);
		if (!strncmp(line, "event ", 6) && s && n && sscanf(s, " sys=%127s", sys) == 1 &&
		    sscanf(n, " name=%127s", name) == 1 && is_gone(a, sys, name))
			continue;
		sbuf_add(&b, line);
	}
	fclose(f);
	sbuf_add(&b, a->tail.s ?: "");
	enc_file(dir, "meta", b.s, b.len);
	sbuf_free(&b);
}

/* ---- events ---- */

struct out {
	struct sbuf data;
	uint8_t page[65536];
	struct encpage p;
	bool open, lost;
	uint64_t count;
};

static void page_end(struct ablate *a, struct out *o)
{
	if (!o->open)
		return;
	enc_page_end(&o->p);
	sbuf_add_mem(&o->data, o->page, a->c->subbuf_size);
	o->open = false;
}

static void put(struct ablate *a, struct out *o, const struct subbuf_geom *g, uint64_t ts, const void *data,
		uint32_t len)
{
	for (int again = 0; again < 2; again++) {
		if (!o->open) {
			memset(o->page, 0, a->c->subbuf_size);
			enc_page_begin(&o->p, g, o->page, ts);
			if (o->lost)
				enc_lost(&o->p, o->count > 0, o->count);
			o->lost = false;
			o->open = true;
		}
		if (enc_event(&o->p, ts, data, len))
			return;
		page_end(a, o);
	}
	fail("an event", "it does not fit");
}

static void lose(struct ablate *a, struct out *o, uint64_t n)
{
	page_end(a, o);
	o->count = o->lost ? o->count + n : n;
	o->lost = true;
	a->lost += n;
}

static void stream(struct ablate *a, const struct cap_stream *s, const char *dir)
{
	struct subbuf_geom g = enc_geom(a->c->subbuf_size, a->c->long_size);
	struct out *o = calloc(1, sizeof(*o));
	uint64_t hole = 0, last = 0;
	struct rstream r;
	enum rkind k;
	char path[64];

	if (!o || rstream_open(&r, a->c, s))
		fail(dir, "cannot read a stream");
	while ((k = rstream_next(&r)) != R_END) {
		if (k == R_GAP) {
			lose(a, o, r.lost);
			continue;
		}
		if (k != R_EVENT)
			fail(dir, "is damaged");
		if (a->gone[r.rec.id] || r.rec.ts < a->begins) {
			a->dropped++;
			continue;
		}
		if (!hole && a->every && random64(a) % a->every == 0)
			hole = 1 + random64(a) % HOLE;
		if (hole || (a->span && r.rec.ts >= a->from && r.rec.ts <= a->to &&
			     (a->cpu < 0 || s->cpu == (uint32_t)a->cpu))) {
			lose(a, o, 1);
			hole -= hole > 0;
			continue;
		}
		last = r.rec.ts;
		put(a, o, &g, r.rec.ts, r.rec.data, r.rec.len);
	}
	page_end(a, o);
	if (o->lost) {
		size_t n = o->data.len / a->c->subbuf_size;

		sbuf_addf(&a->tail, "lost cpu=%u count=%llu from=%llu to=%llu first=%zu last=%zu\n", s->cpu,
			  (unsigned long long)o->count, (unsigned long long)last, (unsigned long long)r.rec.ts, n, n);
	}
	rstream_close(&r);
	snprintf(path, sizeof(path), "seg000000/cpu%u", s->cpu);
	enc_file(dir, path, o->data.s ?: "", o->data.len);
	sbuf_free(&o->data);
	free(o);
}

static uint64_t events_of(const struct ablate *a)
{
	uint64_t n = 0;
	struct rstream r;
	enum rkind k;

	for (size_t i = 0; i < a->c->nstream; i++) {
		if (rstream_open(&r, a->c, &a->c->stream[i]))
			fail(a->c->path, "cannot read a stream");
		while ((k = rstream_next(&r)) != R_END)
			n += k == R_EVENT && !a->gone[r.rec.id];
		rstream_close(&r);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "drop", 1, NULL, 'd' }, { "keep", 1, NULL, 'k' }, { "cpu", 1, NULL, 'c' }, { "from", 1, NULL, 'f' },
		{ "to", 1, NULL, 't' },	  { "begins", 1, NULL, 'b' }, { "holes", 1, NULL, 'h' },
		{ "seed", 1, NULL, 's' }, { 0 },
	};
	struct ablate a = { .cpu = -1, .to = UINT64_MAX, .seed = 88172645463325252 };
	struct kvmft_err err = { .text = "" };
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		uint64_t v = optarg && opt != 'd' && opt != 'k' ? strtoull(optarg, NULL, 0) : 0;

		a.span |= opt == 'f' || opt == 't' || opt == 'c';
		switch (opt) {
		case 'd': a.drop[a.ndrop++ % MAX_NAMES] = optarg; break;
		case 'k': a.keep[a.nkeep++ % MAX_NAMES] = optarg; break;
		case 'c': a.cpu = (int64_t)v; break;
		case 'f': a.from = v; break;
		case 't': a.to = v; break;
		case 'b': a.begins = v; break;
		case 'h': a.holes = v; break;
		case 's': a.seed ^= v * 0x9e3779b97f4a7c15; break;
		default: fail("usage", "see the head of ablate.c");
		}
	}
	if (optind + 1 != argc || a.ndrop > MAX_NAMES || a.nkeep > MAX_NAMES)
		fail("usage", "see the head of ablate.c");
	if (capture_open(argv[optind], &a.c, &err) || !(a.f = fmt_load(a.c)))
		fail(argv[optind], err.text);
	if (a.c->is_tracedat || a.c->first_segment != a.c->last_segment || a.c->subbuf_size > 65536)
		fail(argv[optind], "not a capture directory of one segment");
	for (size_t i = 0; fmt_at(a.f, i); i++) {
		const struct fmt_event *e = fmt_at(a.f, i);

		a.gone[fmt_id(e)] = is_gone(&a, fmt_sys(e), fmt_name(e));
	}
	a.every = a.holes ? MAX(events_of(&a) / a.holes, (uint64_t)1) : 0;
	for (size_t i = 0; i < a.c->nstream; i++)
		stream(&a, &a.c->stream[i], argv[optind]);
	meta(&a, argv[optind]);
	sbuf_free(&a.tail);
	printf("%llu dropped, %llu lost\n", (unsigned long long)a.dropped, (unsigned long long)a.lost);
	fmt_free(a.f);
	capture_close(a.c);
	return 0;
}
