/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat.h: what the files of the trace.dat reader share; private to src/capture. */
#ifndef KVMFT_CAPTURE_TRACEDAT_H
#define KVMFT_CAPTURE_TRACEDAT_H

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
	uint64_t size;	   /* of the file */
	uint64_t start;	   /* v7: where sections begin */
	uint64_t left;	   /* event bytes that may still be claimed: areas must not overlap */
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
};

/*
 * All parsers return 0, -ENODATA if the file ends too early, -EBADMSG if it contradicts itself, or
 * -ENOMEM.
 */

/* n bytes at off, or fewer at the end of the file; *out is freed by the caller. */
int td_load(const struct td *t, uint64_t off, uint64_t n, uint8_t **out, size_t *len) __must_check;

/* tracedat_opts.c: metadata blocks, the same in v6 and v7. */
int td_header_info(struct td *t, struct cursor *cur) __must_check;
int td_ftrace_events(struct td *t, struct cursor *cur) __must_check;
int td_event_formats(struct td *t, struct cursor *cur) __must_check;
int td_printk(struct td *t, struct cursor *cur) __must_check;
int td_kallsyms(struct td *t, struct cursor *cur) __must_check;
int td_cmdlines(struct td *t, struct cursor *cur) __must_check;

/* tracedat_opts.c: one option that is not a section. Unknown ones are ignored. */
int td_option(struct td *t, uint32_t id, struct cursor opt) __must_check;

/* tracedat_v6.c: everything after the common start, which ends at off. */
int td_read_v6(struct td *t, uint64_t off) __must_check;
/*
 * The first n blocks, from *off on, which moves past them: 1, or 0 if one is cut or damaged, which
 * is noted; -ENOMEM. A perf.data has the first TD_TRACING_DATA of them, too.
 */
#define TD_TRACING_DATA 6
int td_read_blocks(struct td *t, size_t n, uint64_t *off) __must_check;
/* tracedat_v7.c */
/*
 * Only notes where kallsyms is: flags and bytes of a section of v7; v6 has the same without flags.
 * False: it has to be read now, as the file lacks some of it.
 */
bool td_kallsyms_later(struct td *t, uint64_t off, uint64_t size, uint16_t flags);
int td_read_v7(struct td *t, uint64_t off) __must_check;

/*
 * CPUs of all buffers. Each takes kilobytes later; of the file it takes 16 bytes, but buffers can
 * claim those of others to be theirs. true: there are as many as may be.
 */
#define TD_STREAM_BYTES 16u
#define TD_MIN_STREAMS	1024u
#define TD_MAX_STREAMS	(8u * CAPTURE_MAX_CPUS)
bool td_streams_full(struct td *t);
/* Adds one CPU's area, clipped to the file; what is missing is noted. */
int td_add_area(struct td *t, uint32_t cpu, const char *instance, uint64_t off, uint64_t len)
	__must_check;
/* A name that outlives the reader; "" for NULL, and when out of memory NULL. */
const char *td_instance(struct td *t, const char *name);

#endif
