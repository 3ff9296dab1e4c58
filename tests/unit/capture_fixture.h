/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * capture_fixture.h: small captures for the tests of the readers.
 */
#ifndef KVMFT_TESTS_CAPTURE_FIXTURE_H
#define KVMFT_TESTS_CAPTURE_FIXTURE_H

#include "lib/enc.h"

#include <stdio.h>
#include <string.h>

#define FX_SUB 4096

/*
 * nsub sub-buffers of `per` events each; event k has ts first + k * step and payload k.
 * Returned memory belongs to the caller.
 */
static inline uint8_t *fx_pages_of(const struct subbuf_geom *g, size_t nsub, unsigned int per,
				   uint64_t first, uint64_t step, uint16_t id, uint32_t len)
{
	uint8_t *all = malloc(nsub * g->size), data[128];
	uint64_t k = 0;
	size_t i;
	unsigned int n;

	for (i = 0; i < nsub; i++) {
		struct encpage p;

		enc_page_begin(&p, g, all + i * g->size, first + k * step);
		for (n = 0; n < per; n++, k++) {
			enc_record(data, id, 100, k, len);
			if (!enc_event(&p, first + k * step, data, len))
				abort();
		}
		enc_page_end(&p);
	}
	return all;
}

static inline uint8_t *fx_pages(const struct subbuf_geom *g, size_t nsub, unsigned int per,
				uint64_t first, uint64_t step, uint16_t id)
{
	return fx_pages_of(g, nsub, per, first, step, id, 24);
}

static inline void fx_line(struct sbuf *meta, struct sbuf *line)
{
	sbuf_add_mem(meta, line->s, line->len);
	sbuf_addc(meta, '\n');
}

/* The records every capture has; the first line included. */
static inline void fx_meta(struct sbuf *meta, const struct subbuf_geom *g)
{
	struct sbuf l = { 0 };

	meta_begin(&l, "kvmft-capture");
	meta_u64(&l, "version", 1);
	fx_line(meta, &l);
	meta_begin(&l, "side");
	meta_str(&l, "name", "host");
	fx_line(meta, &l);
	meta_begin(&l, "machine");
	meta_str(&l, "uname", "Linux test 6.1.0 x86_64");
	meta_u64(&l, "long", g->long_size);
	meta_str(&l, "endian", "little");
	meta_str(&l, "vendor", "GenuineIntel");
	fx_line(meta, &l);
	meta_begin(&l, "ring");
	meta_str(&l, "clock", "x86-tsc");
	meta_str(&l, "trace_clock", "local global [x86-tsc]");
	meta_u64(&l, "subbuf", g->size);
	meta_u64(&l, "header", g->header);
	meta_u64(&l, "overwrite", 1);
	fx_line(meta, &l);
	sbuf_free(&l);
}

static inline void fx_event(const char *dir, struct sbuf *meta, const char *sys, const char *name)
{
	const char *text = enc_format(sys, name);
	struct sbuf l = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "events/%s/%s", sys, name);
	enc_file(dir, path, text, strlen(text));
	meta_begin(&l, "event");
	meta_str(&l, "sys", sys);
	meta_str(&l, "name", name);
	fx_line(meta, &l);
	sbuf_free(&l);
}

static inline void fx_end(struct sbuf *meta)
{
	sbuf_add(meta, "end reason=signal tsc=77\n");
}

static inline void fx_write(const char *dir, struct sbuf *meta)
{
	size_t n;
	char *page = enc_data_file("header_page-x86_64.txt", &n);

	enc_file(dir, "header_page", page, n);
	free(page);
	enc_file(dir, "meta", meta->s, meta->len);
	sbuf_free(meta);
}

static inline struct capture *fx_open(const char *path)
{
	struct kvmft_err err = { 0 };
	struct capture *c = NULL;

	if (capture_open(path, &c, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return NULL;
	}
	return c;
}

static inline bool fx_noted(const struct capture *c, const char *part)
{
	size_t i;

	for (i = 0; i < c->ndamage; i++)
		if (strstr(c->damage[i].text, part))
			return true;
	return false;
}

#endif
