/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_write.h: what the files of the trace.dat writer share; private to src/capture. */
#ifndef KVMFT_CAPTURE_TRACEDAT_WRITE_H
#define KVMFT_CAPTURE_TRACEDAT_WRITE_H

#include "kvmft/tracedat.h"

struct tdw {
	const struct tdw_spec *spec;
	int fd;
	uint8_t *buf; /* bytes not written yet */
	size_t fill;
	/* per CPU of spec->cap: where its counts of dropped and read events are in the options */
	size_t *stats_at;
	uint64_t *events;     /* ... and what was written of it */
	uint64_t options_at;  /* v6: in the file */
	uint64_t pos; /* in the file, of the next byte */
	struct sbuf options;

	size_t buffer;	    /* 0 = none yet, 1 = top, 2 = first instance */
	uint32_t cpus, cpu; /* of the buffer; the current one */
	bool in_cpu;
	uint64_t cpu_at;    /* where its data begins */
	uint64_t cpu_plain; /* bytes of sub-buffers */

	uint64_t table_at;   /* v6: the CPU table of this buffer */
	uint64_t *offset_at; /* v6: where the offsets of instances go */
	uint64_t first_at;   /* v7: where the offset of the options goes */
	uint64_t section_at; /* v7: begin of the open section */
	struct sbuf table;   /* v7: CPUs of the open buffer */
	uint32_t table_n;

	uint8_t *chunk, *packed; /* zstd */
	size_t chunk_fill, packed_size;
	uint32_t chunks;
};

int tdw_write(struct tdw *w, const void *p, size_t n) __must_check;
/* These two empty and free b. */
int tdw_write_sbuf(struct tdw *w, struct sbuf *b) __must_check;
int tdw_option_sbuf(struct tdw *w, enum td_opt id, struct sbuf *b) __must_check;
/* Before the first buffer; data is already in the file's byte order. */
int tdw_option(struct tdw *w, enum td_opt id, const void *data, size_t len) __must_check;
int tdw_patch_u64(struct tdw *w, uint64_t at, uint64_t v) __must_check;
int tdw_patch_u32(struct tdw *w, uint64_t at, uint32_t v) __must_check;
/* Overwrites text in the options, which may be in the file already. */
int tdw_patch_options(struct tdw *w, size_t at, const char *text) __must_check;
/* tracedat_facts.c: what is known only now. */
int tdw_facts_end(struct tdw *w) __must_check;
/* Zeros up to where sub-buffers may begin. */
int tdw_align(struct tdw *w) __must_check;

/* tracedat_meta.c: the blocks that both versions have; each appends to b. */
enum tdw_block { TDW_HEADER_INFO, TDW_FTRACE, TDW_FORMATS, TDW_KALLSYMS, TDW_PRINTK, TDW_CMDLINES,
		 TDW_BLOCKS };
void tdw_block(const struct tdw_spec *spec, enum tdw_block block, struct sbuf *b);

/* tracedat_write6.c, tracedat_write7.c */
int tdw_v6_begin(struct tdw *w) __must_check;
int tdw_v6_buffer(struct tdw *w) __must_check;
int tdw_v6_cpu_end(struct tdw *w) __must_check;
int tdw_v7_begin(struct tdw *w) __must_check;
int tdw_v7_buffer(struct tdw *w) __must_check;
int tdw_v7_cpu_end(struct tdw *w) __must_check;
int tdw_v7_buffer_end(struct tdw *w) __must_check;
int tdw_v7_end(struct tdw *w) __must_check;

/* Compressed data of a CPU: chunks of ten sub-buffers. */
int tdw_pack_begin(struct tdw *w) __must_check;
int tdw_pack(struct tdw *w, const void *subbuf) __must_check;
int tdw_pack_end(struct tdw *w) __must_check;
void tdw_pack_free(struct tdw *w);

#endif
