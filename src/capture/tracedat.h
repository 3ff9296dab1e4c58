/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat.h: the reader of trace.dat, for that of perf.data, too. */
#pragma once

#include "kvmft/tracedat.h"
#include "reader.h"

/* A tracefs instance of a v6 file: where its CPU table is. */
struct td_buffer {
	uint64_t off;
	char *name;
	uint32_t cpus;
};

struct td {
	struct capture *c;
	int fd;
	uint64_t size;	/* of the file */
	uint64_t start; /* v7: where sections begin */
	uint64_t left;	/* event bytes that may still be claimed: areas must not overlap */
	/*
	 * v7: bytes that metadata may still take when unpacked: sections must not overlap, either
	 */
	uint64_t meta_left;
	bool has_clock;	   /* option TRACECLOCK was seen */
	uint32_t cpus;	   /* of the top buffer, block 8 */
	uint32_t cpucount; /* option CPUCOUNT for it; 0 = none */
	uint32_t last_opt;
	struct td_buffer *buf;
	size_t nbuf, buf_cap;
	struct u64map seen; /* v7: OPTIONS sections visited */
	/* v6: what is in memory of a block; where in the file that ends, and where the block may */
	uint8_t *in_buf;
	struct cursor in;
	uint64_t in_next, in_end;
};

/*
 * tracedat_read.c: the first n blocks, from *off on, which moves past them: 1, or 0 if one is cut
 * or damaged, which is noted. A perf.data has the first TD_TRACING_DATA of them, too.
 */
#define TD_TRACING_DATA 6
bool td_read_blocks(struct td *t, size_t n, uint64_t *off) __must_check;
