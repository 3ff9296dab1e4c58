/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.h: what the readers of trace formats share; private to src/qemu. */
#ifndef KVMFT_QEMU_TRACE_PRIV_H
#define KVMFT_QEMU_TRACE_PRIV_H

#include "kvmft/qemu_trace.h"

#define QBUF_SIZE (512u << 10)

/* A window that moves over the file. */
struct qbuf {
	int fd;
	uint64_t at;	  /* file offset of p[0] */
	uint8_t *p;	  /* QBUF_SIZE bytes */
	size_t pos, len;  /* next byte, bytes there */
};

/* Up to n <= QBUF_SIZE bytes from here on at *p, not yet consumed: how many, or -errno. */
ssize_t qbuf_peek(struct qbuf *b, size_t n, const uint8_t **p) __must_check;
void qbuf_skip(struct qbuf *b, size_t n);
void qbuf_seek(struct qbuf *b, uint64_t offset);

struct simple; /* simple.c */

struct qtrace {
	struct qbuf buf;
	uint64_t size; /* of the file when it was opened */
	struct qtrace_options o;
	struct qtrace_stats st;
	const struct qtrace_reader *reader;
	struct simple *simple;
};

struct qtrace_reader {
	enum qtrace_format format;
	int (*open)(struct qtrace *t, struct kvmft_err *err);	/* may be NULL */
	int (*next)(struct qtrace *t, struct qtrace_item *item); /* binary formats */
	/* Text: the event of one line, without its newline; false: the line has none. */
	bool (*line)(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item);
	int (*rewind)(struct qtrace *t);			/* may be NULL */
	void (*close)(struct qtrace *t);			/* may be NULL */
};

extern const struct qtrace_reader qtrace_simple, qtrace_log, qtrace_syslog, qtrace_ust;

/* Whether the file begins like one of simple. */
bool simple_probe(struct qtrace *t);

/* ---- line.c: words and times in lines ---- */

struct qline {
	const char *p, *end;
};

/* The next word (up to a blank), skipping the blanks after it; 0: none is left. */
size_t qline_word(struct qline *l, const char **word);
/* n to most digits as a number; false without moving. */
bool qline_digits(struct qline *l, unsigned int n, unsigned int most, uint64_t *v);
bool qline_char(struct qline *l, char c);
/* "HH:MM:SS[.FRACTION]": ns since midnight. */
bool qline_time_of_day(struct qline *l, uint64_t *ns, uint64_t *unit);
/* "YYYY-MM-DDTHH:MM:SS[.FRACTION][Z|+HH:MM|+HHMM]"; without a zone local time. */
bool qline_iso(struct qline *l, struct qtrace_item *item);
/* "SECONDS[.FRACTION]" since 1970 or boot. */
bool qline_seconds(struct qline *l, struct qtrace_item *item);
/* Local date and time of day as ns since 1970; false: no such time. */
bool qline_local(int64_t days, uint64_t ns_of_day, uint64_t *ns);
/* The day (since 1970, local) whose ns_of_day is nearest to t->o.near. */
int64_t qline_nearest_day(const struct qtrace *t, uint64_t ns_of_day);
int64_t qline_days(int64_t year, unsigned int month, unsigned int day);
void qline_civil(int64_t days, int64_t *year, unsigned int *month, unsigned int *day);

/* A name of an event by its looks: [a-z_][a-z0-9_]*, of any case behind the first. */
bool qline_is_name(const char *s, size_t n);
/*
 * "NAME text" at the end of a line: fills in what belongs to the event. sure: NAME counts by its
 * looks even if it is not declared.
 */
bool qline_event(const struct qevents *events, struct qline l, bool sure, struct qtrace_item *item);

#endif
