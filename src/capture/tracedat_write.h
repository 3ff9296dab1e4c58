/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_write.h: what the files of the trace.dat writer share; private to src/capture. */
#ifndef KVMFT_CAPTURE_TRACEDAT_WRITE_H
#define KVMFT_CAPTURE_TRACEDAT_WRITE_H

#include "kvmft/tracedat.h"

#define tdw_put_u16(b, v) sbuf_add_mem(b, &(const uint16_t){ v }, sizeof(uint16_t))
#define tdw_put_u32(b, v) sbuf_add_mem(b, &(const uint32_t){ v }, sizeof(uint32_t))
#define tdw_put_u64(b, v) sbuf_add_mem(b, &(const uint64_t){ v }, sizeof(uint64_t))

struct tdw {
	const struct tdw_spec *spec;
	int fd;
	uint8_t *buf; /* bytes not written yet */
	size_t fill;
	/* per CPU of spec->cap: where its counts of dropped and read events are in the options */
	size_t *stats_at;
	uint64_t *events;     /* ... and what was written of it */
	uint64_t options_at;  /* in the file */
	uint64_t pos; /* in the file, of the next byte */
	struct sbuf options;

	size_t buffer;	    /* 0 = none yet, 1 = top, 2 = first instance */
	uint32_t cpus, cpu; /* of the buffer; the current one */
	bool in_cpu;
	uint64_t cpu_at;    /* where its data begins */

	uint64_t table_at;   /* the CPU table of this buffer */
	uint64_t *offset_at; /* where the offsets of instances go */
};

/* Empties and frees b. */
int tdw_option_sbuf(struct tdw *w, enum td_opt id, struct sbuf *b) __must_check;
/* Before the first buffer. */
int tdw_option(struct tdw *w, enum td_opt id, const void *data, size_t len) __must_check;
/* Overwrites text in the options, which may be in the file already. */
int tdw_patch_options(struct tdw *w, size_t at, const char *text) __must_check;
/* tracedat_facts.c: what is known only now. */
int tdw_facts_end(struct tdw *w) __must_check;

/* tracedat_meta.c: the blocks before the CPUs; each appends to b. */
enum tdw_block { TDW_HEADER_INFO, TDW_FTRACE, TDW_FORMATS, TDW_KALLSYMS, TDW_PRINTK, TDW_CMDLINES,
		 TDW_BLOCKS };
void tdw_block(const struct tdw_spec *spec, enum tdw_block block, struct sbuf *b);

#endif
