/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc.h: encoders for what the reader decodes: sub-buffers, capture directories, trace.dat files.
 *
 * Written from the format descriptions, not from the reader, so that a round trip proves both.
 * They fail loudly (abort) on misuse: these are tests.
 */
#ifndef KVMFT_TESTS_ENC_H
#define KVMFT_TESTS_ENC_H

#include "kvmft/ring.h"

struct subbuf_geom enc_geom(uint32_t size, uint32_t long_size);

/* ---- numbers, little-endian ---- */

void enc_u8(struct sbuf *b, uint8_t v);
void enc_u16(struct sbuf *b, uint16_t v);
void enc_u32(struct sbuf *b, uint32_t v);
void enc_u64(struct sbuf *b, uint64_t v);
void enc_put(void *at, uint64_t v, size_t size);

/* ---- one sub-buffer ---- */

struct encpage {
	struct subbuf_geom g;
	uint8_t *buf; /* g.size bytes, owned by the caller of enc_page_begin() */
	uint32_t pos; /* bytes of data so far */
	uint64_t ts;
	bool lost, stored;
	uint64_t lost_count;
};

void enc_page_begin(struct encpage *p, const struct subbuf_geom *g, void *buf, uint64_t ts);
/* A data event of whole words (len rounded up); false when it does not fit any more. */
bool enc_event(struct encpage *p, uint64_t ts, const void *data, uint32_t len);
/* The same with an explicit length word, even when the short form would do. */
bool enc_event_long(struct encpage *p, uint64_t ts, const void *data, uint32_t len);
bool enc_discard(struct encpage *p, uint64_t ts, uint32_t len);
bool enc_stamp(struct encpage *p, uint64_t ts); /* absolute */
bool enc_extend(struct encpage *p, uint64_t delta);
bool enc_padding(struct encpage *p); /* ends the data */
void enc_lost(struct encpage *p, bool stored, uint64_t count);
void enc_page_end(struct encpage *p);

/* A record of event `id` by `pid` whose payload is the number `seq` (and zeros up to len). */
void enc_record(void *data, uint16_t id, int32_t pid, uint64_t seq, uint32_t len);

/* ---- files ---- */

/* A new temporary directory; freed with enc_rmtree(). */
char *enc_tmpdir(void);
void enc_rmtree(char *dir);
/* A new capture, in place of one that has the path; as capw_create(). */
int enc_capture(const char *path, struct capw **w, struct kvmft_err *err);
/* Writes DIR/NAME, making parents. */
void enc_file(const char *dir, const char *name, const void *data, size_t len);
char *enc_data_file(const char *name, size_t *len); /* of tests/data */

/* Another corpus of tests/data than formats-6.18-x86.txt, from now on; before the first of it. */
void enc_corpus(const char *name);
/* Format text of the corpus, NULL when absent; static storage. */
const char *enc_format(const char *sys, const char *name);
/* The i-th format of the corpus. */
const char *enc_format_at(size_t i, const char **sys, const char **name);

/* ---- trace.dat ---- */

struct enc_cpu {
	const void *data;
	size_t len;
};

struct enc_dat {
	int version; /* 6 or 7 */
	struct subbuf_geom g;
	const char *const *events; /* "sys", "name" pairs, NULL-terminated; NULL = none */
	/* Version 6: so many further formats, of a system "more", and symbols of the kernel. */
	uint32_t more_formats, symbols;
	const char *cmdlines;
	const char *clock; /* as the trace_clock file, "[x86-tsc] local"; NULL = no option */
	uint32_t ncpu;
	const struct enc_cpu *cpu;
	/* a second, named buffer */
	const char *instance;
	uint32_t ninst;
	const struct enc_cpu *inst;
	uint32_t shared; /* version 6: so many further buffers, all with the areas of the top one */
	struct sbuf options; /* further options, built with enc_option() */
};

void enc_option(struct enc_dat *d, uint16_t id, const void *data, size_t len);
/* The whole file. */
void enc_dat_build(const struct enc_dat *d, struct sbuf *out);
/* Its formats and names alone, as a perf.data has them. */
void enc_dat_tracing(const struct enc_dat *d, struct sbuf *out);

#endif
