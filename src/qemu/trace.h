/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.h: what the readers of trace formats share; private to src/qemu. */
#pragma once

#include "kvmft/qemu.h"

#define QBUF_SIZE (512u << 10)

/* A window that moves over the file. */
struct qbuf {
	int fd;
	uint64_t at;	 /* file offset of p[0] */
	uint8_t *p;	 /* QBUF_SIZE bytes */
	size_t pos, len; /* next byte, bytes there */
};

struct simple; /* trace.c */

struct qtrace {
	struct qbuf buf;
	uint64_t size; /* of the file when it was opened */
	struct qtrace_options o;
	bool by_file; /* o.near is when the file was last written */
	struct qtrace_stats st;
	const struct qtrace_reader *reader;
	struct simple *simple;
};

struct qtrace_reader {
	enum qtrace_format format;
	int (*open)(struct qtrace *t, struct kvmft_err *err);	 /* may be NULL */
	int (*next)(struct qtrace *t, struct qtrace_item *item); /* binary formats */
	/* Text: the event of one line, without its newline; false: the line has none. */
	bool (*line)(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item);
	int (*rewind)(struct qtrace *t); /* may be NULL */
	void (*close)(struct qtrace *t); /* may be NULL */
};

extern const struct qtrace_reader qtrace_log, qtrace_syslog, qtrace_ust;
